//! Programs in C, which the tests compile with the headers of the system.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::tool;

/// A compiled program, which is removed when the value is dropped.
#[derive(Debug)]
pub struct CProgram {
    folder: TempDir,
    path: PathBuf,
}

impl CProgram {
    /// Compiles `tests/verbs/NAME.c` with these arguments. `None` if the compiler or a header is missing, after a message on standard error
    /// that names the skipped test.
    ///
    /// # Panics
    /// If the compiler refuses the program, or something is missing and `CI=true` is set.
    pub fn compile(name: &str, headers: &[&str], arguments: &[&str]) -> Option<Self> {
        let compiler = tool::find("cc")?;
        for header in headers {
            if !Path::new("/usr/include").join(header).exists() {
                tool::skip(&format!("the header {header} is not installed"));
                return None;
            }
        }
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join(name);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("verbs");
        let output = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-Werror", "-Wno-nonnull", "-O2", "-g"])
            .arg("-o")
            .arg(&path)
            .arg(sources.join(name).with_extension("c"))
            .args(arguments)
            .output()
            .expect("cc starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}.c: {said}");
        Some(Self { folder, path })
    }

    /// The path.
    pub fn path(&self) -> &str {
        self.path.to_str().expect("a path of the tests")
    }

    /// A folder of this program's own.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
