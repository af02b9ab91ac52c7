//! Runs the tests of the provider's behaviour again in a simulated network.

#[path = "../common/mod.rs"]
mod common;

mod list;
mod seeds;

#[path = "../it/addresses.rs"]
mod addresses;
#[path = "../it/breakdown.rs"]
mod breakdown;
#[path = "../it/confirm.rs"]
mod confirm;
#[path = "../it/connect.rs"]
mod connect;
#[path = "../it/connection_end.rs"]
mod connection_end;
#[path = "../it/connection_end_by_hand.rs"]
mod connection_end_by_hand;
#[path = "../it/data.rs"]
mod data;
#[path = "../it/ending.rs"]
mod ending;
#[path = "../it/extensions.rs"]
mod extensions;
#[path = "../it/fairness.rs"]
mod fairness;
#[path = "../it/fault_plans.rs"]
mod fault_plans;
#[path = "../it/fault_streams.rs"]
mod fault_streams;
#[path = "../it/faults.rs"]
mod faults;
#[path = "../it/given_up.rs"]
mod given_up;
#[path = "../it/half_open.rs"]
mod half_open;
#[path = "../it/leniency.rs"]
mod leniency;
#[path = "../it/limits.rs"]
mod limits;
#[path = "../it/removal.rs"]
mod removal;
#[path = "../it/security.rs"]
mod security;
#[path = "../it/shortage.rs"]
mod shortage;
#[path = "../it/slots.rs"]
mod slots;
#[path = "../it/srq.rs"]
mod srq;
#[path = "../it/startup.rs"]
mod startup;
#[path = "../it/time_limits.rs"]
mod time_limits;
#[path = "../it/waiting.rs"]
mod waiting;
#[path = "../it/windows.rs"]
mod windows;
