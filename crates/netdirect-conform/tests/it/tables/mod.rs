//! Tables of broken rules, and of the checks that fail for them.

pub(crate) mod connections;
pub(crate) mod objects;
pub(crate) mod requests;

use netdirect::Status;

use crate::wrapper::{Break, Method};

/// Each rule that is broken, with the names of the checks that have to fail.
pub(crate) type Table = &'static [(Break, &'static [&'static str])];

/// A method answers with another status than it should.
const fn status(method: Method, from: Status) -> Break {
    Break::Status(method, from, Status::UNSUCCESSFUL)
}
