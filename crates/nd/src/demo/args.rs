//! The arguments of `nd demo`.

use clap::Args;

use crate::args::AdapterArgs;
use crate::peer::WhichArgs;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,

    #[command(flatten)]
    pub(crate) adapter: AdapterArgs,

    /// The private data that the client sends when it connects
    #[arg(long, value_name = "TEXT", default_value = "hello from the client")]
    pub(crate) private_data: String,
}

#[derive(Debug, Args)]
pub(crate) struct DemoServerArgs {
    #[arg(long)]
    pub(crate) no_crc: bool,

    /// What the client says when it connects first
    #[arg(long)]
    pub(crate) private_data: String,

    /// The adapter of both sides
    #[arg(long)]
    pub(crate) url: Option<String>,

    /// The client's certificate
    #[arg(long)]
    pub(crate) pin: Option<String>,
}
