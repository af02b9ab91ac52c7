//! Fault plans: the faults that happen and their times, in the words of the protocol, by [`Options::faults`](crate::Options::faults).
//!
//! A [`Plan`] is a list of rules, read from text or made one by one. `docs/use/faults.md` has the language.

pub use iwarp_io::faults::{
    Action, Direction, Event, Field, Kind, Lateness, LoadError, Peer, Place, Plan, PlanError, Rule,
    Scope, Unit, Which,
};
