//! The compiler and the flags that cargo uses for the package.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Compiler {
    rustc: OsString,
    /// The values that cargo passes for every crate: the target, the configured linker, `RUSTFLAGS`.
    flags: Vec<OsString>,
    /// Where files go that are compiled.
    sources: PathBuf,
}

impl Compiler {
    /// Reads the variables that cargo sets for build scripts.
    pub(crate) fn from_env() -> Self {
        let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
        let target = env::var_os("TARGET").expect("cargo sets TARGET");
        let mut flags = vec!["--target".into(), target];
        if let Some(linker) = env::var_os("RUSTC_LINKER") {
            let mut flag = OsString::from("-Clinker=");
            flag.push(linker);
            flags.push(flag);
        }
        let encoded = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
        let encoded = encoded.split('\x1f').filter(|flag| !flag.is_empty());
        flags.extend(encoded.map(OsString::from));
        let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
        Self {
            rustc,
            flags,
            sources: out.into(),
        }
    }

    /// Compiles one file to a shared library. An error is what the compiler has printed.
    pub(crate) fn library(&self, text: &str, args: &[String], to: &Path) -> Result<(), String> {
        let source = self.sources.join("source.rs");
        std::fs::write(&source, text).map_err(|error| format!("{}: {error}", source.display()))?;
        let mut command = Command::new(&self.rustc);
        command
            .args(["--crate-type=cdylib", "--crate-name=trial"])
            .args(&self.flags);
        for arg in args {
            command.arg(format!("-Clink-arg={arg}"));
        }
        let output = command.arg("-o").arg(to).arg(&source).output();
        let output = output.map_err(|error| format!("{}: {error}", self.rustc.display()))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Links a library without symbols, which stands in for one of this SONAME.
    pub(crate) fn empty_library(
        &self,
        args: &[String],
        soname: &str,
        to: &Path,
    ) -> Result<(), String> {
        // Only which linker to take: the nodes and the name are those of the other library.
        let is_linker = |arg: &&String| arg.starts_with("-B") || arg.starts_with("-fuse-ld");
        let mut args: Vec<_> = args.iter().filter(is_linker).cloned().collect();
        args.push(format!("-Wl,-soname,{soname}"));
        self.library("", &args, to)
    }

    /// The folder of the LLD that comes with the compiler, made for C compilers to find.
    pub(crate) fn own_linker(&self) -> Option<PathBuf> {
        let output = Command::new(&self.rustc)
            .args(["--print", "sysroot"])
            .output();
        let sysroot = String::from_utf8(output.ok()?.stdout).ok()?;
        let host = env::var("HOST").ok()?;
        let folder = Path::new(sysroot.trim())
            .join("lib/rustlib")
            .join(host)
            .join("bin/gcc-ld");
        folder
            .join(OsStr::new("ld.lld"))
            .is_file()
            .then_some(folder)
    }
}
