//! The provider's tests, over the system's sockets and in simulated networks. Most of them run again in the program `on_sim`. A test that
//! changes its process, or counts descriptors or memory of its process, runs in a separate process (`common::child`).

#[path = "../common/mod.rs"]
mod common;

mod addresses;
mod breakdown;
mod careless;
mod confirm;
mod connect;
mod connection_end;
mod connection_end_by_hand;
mod data;
// Windows has no limit of the sockets of a process.
#[cfg(unix)]
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
// Of shared memory within the machine, which only Linux has.
#[cfg(target_os = "linux")]
mod killed;
mod leniency;
mod limits;
// Windows has no limit of the memory of a process that a process could set for itself.
#[cfg(unix)]
mod memory;
// Windows tells a process how many processors the machine has, also if the process may use one only.
#[cfg(target_os = "linux")]
mod one_processor;
mod panics;
mod readiness;
mod removal;
// Linux tells a process the memory that it uses.
#[cfg(target_os = "linux")]
mod resident_set;
// As `killed`.
#[cfg(target_os = "linux")]
mod same_host;
mod scale;
mod security;
mod shortage;
mod simulated;
mod simulated_udp;
mod slots;
mod small_over_udp;
mod sockets;
mod srq;
// As `resident_set`.
#[cfg(target_os = "linux")]
mod stalled;
mod startup;
mod threads;
mod time_limits;
mod waiting;
mod windows;
