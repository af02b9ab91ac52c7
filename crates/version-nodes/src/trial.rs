//! Finds a linker that takes version nodes, by linking a small library.

use std::fs;
use std::path::Path;

use crate::compiler::Compiler;
use crate::unsupported::Unsupported;

const NODES: &str = "TRIAL_1.0 { };\n";
const SOURCE: &str = r#"
core::arch::global_asm!(
    ".globl trial.1",
    ".type trial.1,@function",
    "trial.1: ret",
    ".symver trial.1, trial_symbol@@TRIAL_1.0, remove",
);
"#;

/// The arguments that choose the linker: none if the one that cargo uses can do it.
pub(crate) fn linker(compiler: &Compiler, out: &Path) -> Result<Vec<String>, Unsupported> {
    let Err(first) = links(compiler, &[], out) else {
        return Ok(Vec::new());
    };
    if let Some(folder) = compiler.own_linker() {
        let args = [format!("-B{}", folder.display()), "-fuse-ld=lld".to_owned()];
        if links(compiler, &args, out).is_ok() {
            return Ok(args.into());
        }
    }
    Err(Unsupported(format!(
        "the linker takes no version nodes beside those of rustc ({first}), and this rustc brings no LLD along that could; \
         rustc 1.90 or newer on x86-64, without a linker set in its configuration, links them"
    )))
}

/// Links the trial library. An error is one line.
fn links(compiler: &Compiler, args: &[String], out: &Path) -> Result<(), String> {
    let script = out.join("trial.map");
    fs::write(&script, NODES).map_err(|error| format!("{}: {error}", script.display()))?;
    let mut args = args.to_vec();
    args.push(format!("-Wl,--version-script={}", script.display()));
    let library = out.join("libtrial.so");
    compiler
        .library(SOURCE, &args, &library)
        .map_err(|printed| reason(&printed))?;
    let bytes = fs::read(&library).map_err(|error| format!("{}: {error}", library.display()))?;
    let has = |name: &str| bytes.windows(name.len()).any(|at| at == name.as_bytes());
    if has("\0trial_symbol\0") && has("\0TRIAL_1.0\0") {
        Ok(())
    } else {
        Err("it drops them".to_owned())
    }
}

/// The linker's own line within what the compiler has printed.
fn reason(printed: &str) -> String {
    let lines = || printed.lines().map(str::trim);
    let of_linker = lines().find(|line| line.contains("ld:") || line.contains("ld.lld:"));
    let line = of_linker.map(|line| line.trim_start_matches("= note: "));
    let line = line.or_else(|| lines().find(|line| !line.is_empty()));
    line.unwrap_or("it says nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_line_of_the_linker() {
        let printed = "error: linking with `cc` failed: exit status: 1\n  |\n  = note:  \"cc\" \"-m64\"\n  \
                       = note: /usr/bin/ld: failed to set dynamic section sizes: bad value\n          collect2: error\n";
        let line = "/usr/bin/ld: failed to set dynamic section sizes: bad value";
        assert_eq!(reason(printed), line);
        assert_eq!(reason(""), "it says nothing");
    }
}
