//! The common part of the conformance suites: outcomes of checks, known deviations of a peer, and reports for people and programs.
//!
//! A suite has its own checks, each of which describes itself as an [`About`]. The suite makes an [`Entry`] of each check that it ran and
//! collects them in a [`Run`]; [`report`] writes the run as text, JSON, JUnit XML, HTML or Markdown. What differs between suites is the
//! trait [`Suite`].
//!
//! Other programs that report something share its tables for terminals ([`table`]) and the parts of pages that programs write ([`page`]).
//!
//! This crate makes no check and knows no protocol.

#![forbid(unsafe_code)]

mod about;
mod deviations;
mod outcome;
pub mod page;
mod printable;
pub mod report;
pub mod rows;
mod run;
pub mod table;

pub use about::{About, Level};
pub use deviations::{Deviation, Deviations, Known, Race};
pub use outcome::{Failure, Outcome, Pass, Step, Stop, Verdict, ensure, fail};
pub use printable::is_printable;
pub use run::{Entry, Run, Suite};
