//! The arguments of `nd rping`.

use clap::Args;

use super::exchange;
use crate::peer::PeerArgs;

/// The largest size, more than is useful for a ping.
const MAX_SIZE: u32 = 1 << 30;

/// The default size that a server takes: the most that rping's client sends, and one octet.
pub(super) const SERVER_SIZE: u32 = 64 << 10;

/// The flags have rping's names. A client always compares what comes back with what it sent.
#[derive(Debug, Args)]
#[command(
    after_help = "-v shows the data of each ping; use -vv for what -v shows with other commands. rping accepts sizes from 23 to 65535."
)]
pub(crate) struct RpingArgs {
    /// Waits for a client
    #[arg(short = 's', long, conflicts_with = "client")]
    pub(super) server: bool,

    /// Connects to a server and pings it
    #[arg(short = 'c', long, required_unless_present = "server")]
    pub(super) client: bool,

    /// The server's address: where the server listens, and where the client connects to
    #[arg(short = 'a', long, value_name = "ADDR")]
    pub(super) address: String,

    /// The server's port; with 0 a server takes any free port
    #[arg(short, long, default_value_t = exchange::PORT)]
    pub(super) port: u16,

    /// Number of pings; with 0 until Ctrl-C is pressed or the other side ends
    #[arg(short = 'C', long, value_name = "COUNT", default_value_t = 0)]
    pub(super) count: u64,

    /// Octets per ping [default: 64]; for a server the most that it accepts [default: 65536]
    #[arg(short = 'S', long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SIZE)))]
    pub(super) size: Option<u32>,

    /// Compares what the server reads with rping's pattern
    #[arg(short = 'V', long)]
    pub(super) validate: bool,

    #[command(flatten)]
    pub(super) peer: PeerArgs,
}
