//! The arguments of `nd rping`.

use clap::Args;

use super::exchange;
use crate::peer::PeerArgs;

/// Above all that is useful for a ping.
const MAX_SIZE: u32 = 1 << 30;

/// What a server takes unless told otherwise: the most that rping's client sends, and one octet.
pub(super) const SERVER_SIZE: u32 = 64 << 10;

/// The flags have rping's names. A client always compares what comes back with what it sent.
#[derive(Debug, Args)]
#[command(
    after_help = "-v shows the data of each ping; say one v more for what it shows of other commands. With rping on the other side sizes are from 23 to 65535, which is all that rping takes."
)]
pub(crate) struct RpingArgs {
    /// Waits for a client
    #[arg(short = 's', long, conflicts_with = "client")]
    pub(super) server: bool,

    /// Connects to a server, and pings it
    #[arg(short = 'c', long, required_unless_present = "server")]
    pub(super) client: bool,

    /// The server's address: where to listen, or what to connect to
    #[arg(short = 'a', long, value_name = "ADDR")]
    pub(super) address: String,

    /// The server's port; a server takes any free one for 0
    #[arg(short, long, default_value_t = exchange::PORT)]
    pub(super) port: u16,

    /// Pings; 0: until Ctrl-C is pressed or the other side ends
    #[arg(short = 'C', long, value_name = "COUNT", default_value_t = 0)]
    pub(super) count: u64,

    /// Octets per ping [default: 64]; of a server: the most it takes [default: 65536]
    #[arg(short = 'S', long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SIZE)))]
    pub(super) size: Option<u32>,

    /// Has the server compare what it reads with rping's pattern
    #[arg(short = 'V', long)]
    pub(super) validate: bool,

    #[command(flatten)]
    pub(super) peer: PeerArgs,
}
