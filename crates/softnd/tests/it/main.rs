//! The provider's tests, over the system's sockets and in simulated networks. Most of them run again in the program `on_sim`. A test
//! that changes its process, or counts descriptors or memory of its process, has a process of its own (`common::child`).

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod breakdown;
mod careless;
mod confirm;
mod connect;
mod data;
mod descriptors;
mod ending;
mod extensions;
mod fairness;
mod fault_datagrams;
mod fault_plans;
mod fault_seeds;
mod fault_streams;
mod faults;
mod given_up;
mod guesses;
mod half_open;
mod hand_over;
mod leniency;
mod limits;
mod memory;
mod panics;
mod readiness;
mod removal;
mod resident_set;
mod scale;
mod security;
mod shortage;
mod simulated;
mod simulated_udp;
mod small_over_udp;
mod sockets;
mod srq;
mod stalled;
mod startup;
mod threads;
mod waiting;
mod windows;
