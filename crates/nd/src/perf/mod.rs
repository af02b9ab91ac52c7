//! `nd perf`: measures the speed of an adapter, compared with a bare TCP socket or a bare QUIC stream in the same run.
//!
//! There are two processes. The one that runs the tests ([`row`]) tells the other ([`serve`]) over a [`control`] connection
//! what comes next ([`messages`]). The data moves over RDMA ([`client`], [`server`]) and, for comparison, over bare streams ([`wire`]), in
//! short turns one after the other. Every exchange is checked before and after its measurement, because a figure for data
//! in the wrong place means nothing.

mod affinity;
pub(crate) mod args;
mod bare;
mod budget;
mod cells;
mod client;
mod clients;
mod control;
mod fields;
mod lane;
mod limit;
mod link;
mod local;
mod many;
mod messages;
mod on_device;
mod outcome;
mod pace;
mod pattern;
mod placed;
mod plan;
mod plot;
mod quic;
mod report;
mod row;
mod sequence;
mod serve;
mod server;
mod spec;
mod stats;
mod sweep;
mod wire;

use args::Perf;

use crate::errors::Result;

/// `nd perf …`.
pub(crate) fn run(command: &Perf, verbose: u8) -> Result<()> {
    match command {
        Perf::Serve(args) => serve::run(args),
        Perf::Run(args) => sweep::remote(args),
        Perf::Local(args) => sweep::local(args, verbose),
        Perf::Device(args) => on_device::run(args),
    }
}
