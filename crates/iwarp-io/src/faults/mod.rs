//! Fault plans: the faults that happen and their times, in the words of the protocol.
//!
//! A [`Plan`] is a list of rules, read from text or made one by one. `docs/use/faults.md` has the language.
//!
//! This module does not know the owner of the streams and the sockets: names of calls and of statuses are words, which the owner resolves
//! ([`Plan::check_names`]).

mod active_plan;
mod datagrams;
mod direction;
mod error;
mod frame_finder;
mod plan;
mod stream;
#[cfg(test)]
mod tests;
mod text;

pub use active_plan::{CallFault, Effect, Faults, QueueFaults, Verdict};
pub use datagrams::{DatagramFaults, Passed, PassingDatagram};
pub use error::{LoadError, PlanError};
pub use plan::{
    Action, Direction, Event, Field, Kind, Lateness, Peer, Place, Plan, Rule, Scope, Unit, Which,
};
pub use stream::{Blocked, FaultOwner, StreamFaults};
