//! `refuse_calls REFUSAL... -- PROGRAM ARGS...`: runs a program to which the kernel refuses chosen system calls, such as
//! `connect:EACCES`, or `setsockopt:ENOPROTOOPT:1=6,2=4` (level 6, option 4).

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use softnd_tests::refusals::{Refusal, refuse};

fn main() -> ExitCode {
    let error = match run(env::args_os().skip(1).collect()) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    eprintln!("refuse_calls: {error}");
    // Those of env(1) when the program cannot be started.
    ExitCode::from(125)
}

fn run(words: Vec<OsString>) -> Result<std::convert::Infallible, String> {
    const USAGE: &str = "usage: refuse_calls REFUSAL... -- PROGRAM ARGS...";
    let end = words.iter().position(|word| word == "--").ok_or(USAGE)?;
    let refusals = words[..end].iter().map(|word| {
        let word = word.to_str().ok_or(USAGE)?;
        word.parse::<Refusal>()
    });
    let refusals = refusals.collect::<Result<Vec<_>, _>>()?;
    let (program, args) = words[end + 1..].split_first().ok_or(USAGE)?;
    refuse(&refusals)?;
    let error = Command::new(program).args(args).exec();
    Err(format!("{}: {error}", program.display()))
}
