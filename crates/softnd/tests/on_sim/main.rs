//! The tests of the provider's behaviour once more, in a simulated network.
#![allow(
    clippy::duplicate_mod,
    reason = "each file of tests brings its own copy of what they share"
)]

#[path = "../breakdown.rs"]
mod breakdown;
#[path = "../extensions.rs"]
mod extensions;
#[path = "../fault_plans.rs"]
mod fault_plans;
#[path = "../fault_streams.rs"]
mod fault_streams;
#[path = "../faults.rs"]
mod faults;
#[path = "../limits.rs"]
mod limits;
#[path = "../shortage.rs"]
mod shortage;
#[path = "../windows.rs"]
mod windows;
