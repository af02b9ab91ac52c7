//! The arguments of `nd register`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct RegisterArgs {
    /// The library [default: softnd.dll in the folder of nd.exe]
    #[arg(long, value_name = "PATH")]
    pub(super) dll: Option<PathBuf>,

    /// Check the library, print the entry of the catalogue, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}
