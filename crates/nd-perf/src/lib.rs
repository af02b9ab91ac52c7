//! Measures: the commands `nd perf` and `nd perftest`, and what programs that measure share.
//!
//! - [`perf`] measures the speed of an adapter, compared with a bare TCP socket or a bare QUIC stream in the same run.
//! - [`perftest`] is the exchange of perftest's programs, over any provider.
//! - [`device`] runs tests on an RDMA device beside perftest, and [`process`] other programs for a limited time, on their own core.
//! - [`cores`] and [`machine`] describe the machine, and [`plot`] draws curves.

#![forbid(unsafe_code)]

pub mod cores;
pub mod device;
mod log;
pub mod machine;
pub mod perf;
pub mod perftest;
pub mod plot;
pub mod process;
