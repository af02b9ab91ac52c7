//! `nd run`: puts softnd's libraries for verbs in front of a program, and becomes the program.
//!
//! The dynamic linker takes preloaded libraries for those of the same SONAME that a program asks for, wherever the program looks. What
//! loads a library later finds it by a folder of versioned names in `LD_LIBRARY_PATH`. A third library shows the program the devices below
//! `/sys/class/infiniband` and `/dev/infiniband`, from a tree of files that is made here.

#[cfg_attr(
    windows,
    expect(dead_code, reason = "the command is there to say that it needs Linux")
)]
mod args;
#[cfg(unix)]
mod attributes;
#[cfg(unix)]
mod elf;
#[cfg(unix)]
mod libraries;
#[cfg(unix)]
mod linkage;
#[cfg(unix)]
mod private_folder;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod runtimes;
#[cfg(unix)]
mod start;
#[cfg(unix)]
mod tree;
#[cfg(unix)]
mod ucx;
#[cfg(unix)]
mod udp;

pub(crate) use self::args::ProgramArgs;
#[cfg(unix)]
pub(crate) use self::start::run;
use crate::errors::Failure;
#[cfg(windows)]
use crate::log::LogOptions;

/// Fails.
#[cfg(windows)]
pub(crate) fn run(_: &ProgramArgs, _: LogOptions) -> Result<(), Failure> {
    Err(needs_linux())
}

/// The libraries for verbs programs are for Linux.
fn needs_linux() -> Failure {
    Failure::new(
        "nd run needs Linux with glibc",
        "run the program on such a machine",
    )
}
