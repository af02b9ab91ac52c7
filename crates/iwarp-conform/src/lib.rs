//! Conformance suite for iWARP: MPA, DDP and RDMAP (RFC 5044, 5041, 5040, 6581, 7306, 5042), over TCP or over QUIC.
//!
//! A raw peer over blocking sockets, with its own encoder and decoder, drives a target and examines each octet that the
//! target sends. The target may be any stack or adapter, in either role: [`Bench::active`] connects to a target that
//! listens, [`Bench::passive`] waits for a target that connects. Some checks need memory or an application of the target.
//! They use the Send protocol in [`service`]; on targets without it these checks are skipped.
//!
//! Checks are named after rows of the requirement catalogue ([`rows`]). A check makes one connection, and first sends
//! something legal. After each check a probe shows that the target still works. Checks that may break fragile targets come
//! last.
//!
//! ```no_run
//! use iwarp_conform::{Bench, Selection, Wants, report, run};
//! let target = "192.0.2.1:4791".parse().expect("an address");
//! let mut bench = Bench::active(target, Wants::default());
//! let found = run(&mut bench, target.to_string(), &Selection::default(), |_| {})?;
//! print!("{}", report::text(&found, report::Paint::off()));
//! # Ok::<(), String>(())
//! ```

#![forbid(unsafe_code)]

mod bench;
mod check;
mod checks;
mod conn;
mod deviations;
mod discover;
mod inbound;
mod judge;
#[cfg(feature = "udp")]
mod quic;
pub mod report;
pub mod rows;
mod run;
pub mod service;
mod stream;
pub mod wire;

pub use bench::{Bench, Facts, Plan, Wants};
pub use check::{Check, Need, Role, Section};
pub use checks::all as checks;
pub use conform_report::{
    About, Deviation, Entry, Failure, Level, Outcome, Pass, Race, Step, Stop, Verdict, is_printable,
};
pub use conn::{Conn, End, Limits, Log, Seen};
pub use deviations::Deviations;
pub use inbound::{Fault, Inbound};
#[cfg(feature = "udp")]
pub use quic::{Quic, QuicStream, Trusts};
pub use run::{Run, Selection, run, words};
pub use stream::Stream;

/// The programs of the readme are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
