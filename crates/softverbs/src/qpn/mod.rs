//! Connections of queue pairs whose numbers the programs exchange by themselves.
//!
//! The number of such a queue pair is port × 256 + index, so a number and a GID name the address at which its process listens. A program
//! names the peer in its change to RTR. Then the side with the smaller number connects, and the other one answers, or connects as well if
//! it was not called within `CALLED_WITHIN`. [`ports`] has the ports and their numbers, [`call`] the private data of the start-up,
//! and [`line`] the way of a queue pair from RTR to its stream.

mod call;
mod line;
mod ports;

pub use call::{Call, CallError};
pub(crate) use line::{Deferred, Line, Patience, StreamTaker};
pub(crate) use ports::{Port, Ports, port_of};
