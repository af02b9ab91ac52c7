//! Conformance suite for providers of NetworkDirect v2 (ND2), written against the traits of [`netdirect`].
//!
//! Each check is named after the row of the requirement catalogue ([`rows`]) that it proves, and proves the row by what a
//! client of the provider can see. A check uses two adapters, near and far ([`Bench`]): two of one provider, one of each of two
//! providers, or the same adapter for both ([`Selection::one_adapter`]).
//!
//! [`run()`] makes each check in its own thread, which opens the adapters of the check itself. So checks do not depend on each other,
//! several can run at the same time, and on a simulated network each check has its own world. A check that does not end is a failure that
//! names the step in which it hangs. A panic is a failure too.
//!
//! ```no_run
//! use std::sync::Arc;
//! use netdirect::Provider;
//! use netdirect_conform::{Selection, Target, report, run};
//!
//! # fn demo(provider: Arc<dyn Provider>) -> Result<(), String> {
//! let address = "192.0.2.1:0".parse().expect("an address");
//! let target = Target::on_provider(&provider, address);
//! let found = run(&target, &Selection::default(), |_| {})?;
//! print!("{}", report::text(&found, report::Paint::off()));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod bench;
mod check;
mod checks;
pub mod deviations;
mod limits;
mod link;
mod need;
pub mod report;
pub mod rows;
mod run;
mod side;
mod steps;
mod target;
mod unopened;

pub use bench::Bench;
pub use check::{Check, Interface, Work};
pub use checks::all as checks;
pub use conform_report::{
    About, Deviation, Deviations, Entry, Failure, Level, Outcome, Pass, Race, Step, Stop, Verdict,
};
pub use limits::Limits;
pub use link::{Link, LinkEnd, LinkOptions, Listening, Queues};
pub use need::{Need, Profile};
pub use run::{Facts, Run, Selection, run, run_these};
pub use side::{Memory, Side};
pub use steps::Steps;
pub use target::{End, Ends, Target, Wants};
pub use unopened::Unopened;

/// The programs of the readme are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
