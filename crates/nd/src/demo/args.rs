//! The arguments of `nd demo`.

use clap::Args;

use crate::args::AdapterArgs;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
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
}
