//! Runs the tests of the provider's behaviour again in a simulated network.
#![allow(
    clippy::duplicate_mod,
    reason = "each file of tests brings its own copy of what they share"
)]

mod list;
mod seeds;

#[path = "../addresses.rs"]
mod addresses;
#[path = "../breakdown.rs"]
mod breakdown;
#[path = "../confirm.rs"]
mod confirm;
#[path = "../connect.rs"]
mod connect;
#[path = "../data.rs"]
mod data;
#[path = "../ending.rs"]
mod ending;
#[path = "../extensions.rs"]
mod extensions;
#[path = "../fairness.rs"]
mod fairness;
#[path = "../fault_plans.rs"]
mod fault_plans;
#[path = "../fault_streams.rs"]
mod fault_streams;
#[path = "../faults.rs"]
mod faults;
#[path = "../given_up.rs"]
mod given_up;
#[path = "../half_open.rs"]
mod half_open;
#[path = "../leniency.rs"]
mod leniency;
#[path = "../limits.rs"]
mod limits;
#[path = "../removal.rs"]
mod removal;
#[path = "../shortage.rs"]
mod shortage;
#[path = "../srq.rs"]
mod srq;
#[path = "../startup.rs"]
mod startup;
#[path = "../waiting.rs"]
mod waiting;
#[path = "../windows.rs"]
mod windows;
