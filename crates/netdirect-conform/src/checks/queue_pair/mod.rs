//! `IND2QueuePair`, `ND2_SGE` and `ND2_RESULT`.

pub(super) mod ending;
pub(super) mod messages;
pub(super) mod posts;
pub(super) mod transfers;
pub(super) mod windows;
