//! The end-to-end tests of this package as one program, because each program that is linked by itself costs build time and space.
//!
//! Programs of their own are the tests with a guest (`siw`, `verbs`, `netem`), `nd_descriptors`, which counts descriptors, and
//! `structure` and `book`, which are run by name.

mod dissection;
mod first_page;
mod from_nd_v1;
mod hostile_reports;
#[cfg(target_os = "linux")]
mod libsoftnd;
mod markers;
mod nd_bad_input;
mod nd_cat;
mod nd_conform;
mod nd_demo;
mod nd_faults;
mod nd_interrupt;
mod nd_log;
mod nd_perf;
mod nd_perftest;
mod nd_refused_calls;
mod nd_rping;
#[cfg(target_os = "linux")]
mod nd_run;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod nd_run_sanitizers;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod nd_run_without;
mod nd_system_calls;
mod nd_udp;
mod nd_unknown_peers;
#[cfg(target_os = "linux")]
mod nd_unreachable;
mod nd_wire_conform;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod networks;
mod one_processor;
#[cfg(target_os = "linux")]
mod options;
mod packages;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod privileged;
mod promises;
mod reference;
mod repository;
mod rows;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod same_host;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod same_host_places;
#[cfg(target_os = "linux")]
mod silent_peers;
#[cfg(unix)]
mod subjects;
#[cfg(target_os = "linux")]
mod two_users;
mod udp_capture;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod verbs_counters;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod verbs_exports;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod verbs_loads;
mod verbs_numbers;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod verbs_paths;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod verbs_promises;
