//! Checks of the arguments of calls, with the status and the message of each mistake.

pub mod addresses;
pub mod flags;
pub mod own;
pub mod sizes;
