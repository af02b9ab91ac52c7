//! Preloaded by `nd run`: shows softnd's devices where the kernel shows adapters.
//!
//! Programs look at `/sys/class/infiniband`, `/sys/class/infiniband_verbs` and `/dev/infiniband`. This library is between a program and the
//! C library. A call with a path in one of these folders gets the path of the same name in a tree that `nd run` has made, whose root is in
//! `SOFTND_VERBS_PATHS`. Every other path goes through untouched.
//!
//! - `folders`: which path leads to the tree, by its text alone;
//! - `root`: where the tree is;
//! - `c`, `next`: what the C library is asked for, and its definitions of the functions;
//! - `paths`, `room`, `descriptors`: paths of C programs, there and back;
//! - `calls`: the functions that take a path and nothing else of interest;
//! - `changes`, `renames`: what would change the tree, and fails;
//! - `results`, `globs`, `walks`: those whose results or callbacks have paths;
//! - `loads`: `dlopen` of the libraries for verbs by any of their names;
//! - `executions`, `argument_lists`: functions that execute a program;
//! - `exits`: `_exit`, and what libibverbs hears of the end of a program;
//! - `environments`, `binaries`, `runtimes`: programs in which nothing can be preloaded, or a sanitizer's runtime comes first;
//! - `start`: the constructor.
//!
//! A wrapper may run in a signal handler, in the child of a `vfork` and before the constructors of the program. So it allocates nothing,
//! takes no lock, keeps `errno`, and needs the stack of a path only for paths of the tree. A constructor looks up the definitions of the C
//! library (`dlsym`, which gives the newest version of a name); a wrapper that is called earlier looks up its own. The functions have the
//! ABI `C-unwind`, because the end of a thread that was cancelled unwinds through them.
//!
//! The library has its functions on Linux with glibc on x86-64. Elsewhere it is empty.

#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#![cfg_attr(
    test,
    allow(dead_code, non_snake_case, reason = "nothing is exported here")
)]

#[macro_use]
mod next;
mod argument_lists;
mod binaries;
mod c;
mod calls;
mod changes;
mod descriptors;
mod environments;
mod executions;
mod exits;
mod folders;
mod globs;
mod loads;
mod paths;
mod renames;
mod results;
mod room;
mod root;
mod runtimes;
#[cfg(not(test))]
mod start;
mod walks;
