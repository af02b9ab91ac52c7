//! Common code of the end-to-end tests: tools that may be missing, dissection by tshark, processes of the program `nd`.
//!
//! A test whose tool is missing is skipped by name on a user's machine and fails where `CI=true` is set.
#![forbid(unsafe_code)]

pub mod alignment;
pub mod c_programs;
pub mod check_pages;
pub mod citations;
pub mod conformance;
pub mod device_tests;
pub mod dissect;
pub mod guest;
pub mod interop;
pub mod nd;
pub mod nd_rows;
pub mod netem;
#[cfg(target_os = "linux")]
pub mod other_user;
pub mod own_network;
pub mod proxy;
pub mod public_names;
pub mod refusals;
pub mod side_by_side;
pub mod structure;
pub mod tool;
pub mod verbs;
pub mod verbs_programs;
pub mod verbs_table;

/// The programs in the readme and the guide are compiled and run.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/use/library.md")]
    struct Library;
    #[doc = include_str!("../../docs/use/testing.md")]
    struct Testing;
    #[doc = include_str!("../../docs/use/ci.md")]
    struct Ci;
    #[doc = include_str!("../../docs/use/dying-peers.md")]
    struct DyingPeers;
    #[doc = include_str!("../../docs/use/capture.md")]
    struct Capture;
    #[doc = include_str!("../../docs/use/from-nd-v1.md")]
    struct FromNdV1;
}
