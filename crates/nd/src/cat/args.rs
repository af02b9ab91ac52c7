//! The arguments of `nd cat`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::{AdapterArgs, SecurityArgs, octets, seconds};
use crate::errors::Result;
use crate::peer::WhichArgs;
use crate::provider::AdapterOptions;
use crate::session::Setup;

#[derive(Debug, Subcommand)]
pub(crate) enum Cat {
    /// Sends a file to a waiting `nd cat recv`
    Send(SendArgs),
    /// Waits for a file and writes it; the file gets its final name when it is complete
    Recv(RecvArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The file to send; - for standard input
    pub(crate) file: PathBuf,

    /// Where the receiver listens: HOST:PORT
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,

    /// The RDMA operation that carries the data
    #[arg(long, value_enum, default_value_t = Via::Write)]
    pub(crate) via: Via,

    #[command(flatten)]
    pub(crate) common: CatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RecvArgs {
    /// Where to listen: HOST:PORT; port 0 takes any free port
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: String,

    /// Where to write the file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,

    /// The longest file to take; k, M, G and T are binary [default: any length]
    #[arg(long, value_name = "SIZE", value_parser = octets)]
    pub(crate) max_size: Option<u64>,

    #[command(flatten)]
    pub(crate) common: CatArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CatArgs {
    #[command(flatten)]
    which: WhichArgs,

    #[command(flatten)]
    pub(crate) adapter: AdapterArgs,

    /// Gives up if no data has moved for this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    security: SecurityArgs,
}

impl CatArgs {
    /// The provider, and the options of its adapter.
    pub(super) fn setup(&self) -> Result<Setup> {
        let options = AdapterOptions::new(&self.adapter, &self.security);
        Setup::new(self.which.url(), options, self.timeout)
    }
}

/// The RDMA operation that carries the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    /// Send into Receives that the receiver has posted
    Send,
    /// RDMA Write into the receiver's memory
    Write,
    /// RDMA Read from the sender's memory
    Read,
}

impl std::fmt::Display for Via {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
}
