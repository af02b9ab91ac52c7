//! Shared by `nd` and programs that measure: the description of the machine and of its cores, curves, units, how other programs are run, tests
//! on an RDMA device beside perftest, and the end by a signal.
//!
//! The program itself is in `main.rs` and uses this as the others do.
#![forbid(unsafe_code)]

pub mod cores;
pub mod device;
pub mod machine;
pub mod plot;
pub mod process;
pub mod signals;
pub mod units;
