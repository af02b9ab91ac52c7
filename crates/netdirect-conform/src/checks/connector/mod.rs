//! `IND2Connector`, in the order of a connection's life.

pub(super) mod accept;
pub(super) mod bind;
pub(super) mod connect;
pub(super) mod data;
pub(super) mod ending;
pub(super) mod states;

use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use conform_report::Verdict;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::Connector, name, title, run)
}
