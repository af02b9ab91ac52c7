//! The provider's tests, over the system's sockets and in simulated networks. Most of them run again in the program `on_sim`. A test that
//! changes its process, or counts descriptors or memory of its process, runs in a separate process (`common::child`). Only the files with
//! tests that make simulated networks themselves are compiled for Windows, whose sockets softnd cannot use yet.

#[path = "../common/mod.rs"]
mod common;

#[cfg(not(windows))]
mod addresses;
#[cfg(not(windows))]
mod breakdown;
#[cfg(not(windows))]
mod careless;
#[cfg(not(windows))]
mod confirm;
#[cfg(not(windows))]
mod connect;
#[cfg(not(windows))]
mod connection_end;
#[cfg(not(windows))]
mod connection_end_by_hand;
#[cfg(not(windows))]
mod data;
#[cfg(not(windows))]
mod descriptors;
#[cfg(not(windows))]
mod ending;
#[cfg(not(windows))]
mod extensions;
#[cfg(not(windows))]
mod fairness;
mod fault_datagrams;
#[cfg(not(windows))]
mod fault_plans;
mod fault_seeds;
#[cfg(not(windows))]
mod fault_streams;
#[cfg(not(windows))]
mod faults;
#[cfg(not(windows))]
mod given_up;
mod guesses;
#[cfg(not(windows))]
mod half_open;
#[cfg(not(windows))]
mod hand_over;
#[cfg(target_os = "linux")]
mod killed;
#[cfg(not(windows))]
mod leniency;
#[cfg(not(windows))]
mod limits;
#[cfg(not(windows))]
mod memory;
#[cfg(target_os = "linux")]
mod one_processor;
#[cfg(not(windows))]
mod panics;
#[cfg(not(windows))]
mod readiness;
#[cfg(not(windows))]
mod removal;
#[cfg(not(windows))]
mod resident_set;
#[cfg(target_os = "linux")]
mod same_host;
#[cfg(not(windows))]
mod scale;
#[cfg(not(windows))]
mod security;
#[cfg(not(windows))]
mod shortage;
mod simulated;
mod simulated_udp;
#[cfg(not(windows))]
mod slots;
#[cfg(not(windows))]
mod small_over_udp;
#[cfg(not(windows))]
mod sockets;
#[cfg(not(windows))]
mod srq;
#[cfg(not(windows))]
mod stalled;
#[cfg(not(windows))]
mod startup;
#[cfg(not(windows))]
mod threads;
#[cfg(not(windows))]
mod time_limits;
#[cfg(not(windows))]
mod waiting;
#[cfg(not(windows))]
mod windows;
