//! `nd perf`: measures the speed of an adapter, compared with a bare TCP socket or a bare QUIC stream in the same run.
//!
//! There are two processes. The one that runs the tests (`row`) tells the other (`serve`) over a `control` connection
//! what comes next (`messages`). The data moves over RDMA (`client`, `server`) and, for comparison, over bare streams (`wire`), in
//! short turns one after the other. A *turn* is one timed stretch of one side of the comparison. Every exchange is checked before and after its measurement, because a figure for data
//! in the wrong place means nothing.

mod affinity;
mod args;
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

pub use args::Perf;
use nd_base::errors::Result;

use args::PerfCommand;

/// Runs `nd perf`. A process that this one starts logs as much as `verbose` says.
///
/// # Errors
///
/// What kept the command from measuring, or its output from being written.
pub fn run(perf: &Perf, verbose: u8) -> Result<()> {
    match &perf.command {
        PerfCommand::Serve(args) => serve::run(args),
        PerfCommand::Run(args) => sweep::remote(args),
        PerfCommand::Local(args) => sweep::local(args, verbose),
        PerfCommand::Device(args) => on_device::run(args),
    }
}
