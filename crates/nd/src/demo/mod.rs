//! `nd demo`: two processes go through what RDMA does, one step after the other, and say what happened on each side.
//!
//! The client is the process that the user has started. It starts the server, a second process of the same program, and
//! reads the server's lines from the server's standard output ([`report`]). Both follow the same script, in [`client`] and
//! [`server`], and synchronize by messages over the connections themselves. Every byte moved is checked by the side that
//! has it in the end.

pub(crate) mod args;
mod client;
mod connection;
mod report;
mod script;
mod server;

use self::args::{DemoArgs, DemoServerArgs};
use crate::errors::Result;

/// Starts the second process and goes through all steps.
pub(crate) fn run(args: &DemoArgs, verbose: u8) -> Result<()> {
    client::run(args, verbose)
}

/// The second process.
pub(crate) fn serve(args: &DemoServerArgs) -> Result<()> {
    server::run(args)
}
