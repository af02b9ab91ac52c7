//! The arguments of `nd wire-conform`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::{AdapterArgs, Format, SecurityArgs, seconds};
use crate::provider;
use crate::suites;

/// Checks a target, or is one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct WireConform {
    #[command(subcommand)]
    pub(crate) side: Option<Side>,

    #[command(flatten)]
    pub(crate) suite: Suite,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Side {
    /// Acts as the target: offers memory over any provider and does what the suite asks for, until it is ended
    Target(TargetArgs),
}

/// The suite.
#[derive(Clone, Debug, Args)]
pub(crate) struct Suite {
    /// Where the target listens: HOST:PORT
    #[arg(value_name = "HOST:PORT", required_unless_present_any = ["listen", "list"])]
    pub(crate) target: Option<String>,

    /// Listens here for a target that connects: HOST:PORT
    #[arg(long, value_name = "ADDR", conflicts_with = "target")]
    pub(crate) listen: Option<String>,

    /// Speaks iWARP over QUIC, over UDP instead of TCP
    #[arg(long)]
    pub(crate) udp: bool,

    /// Trusts the target over UDP if its certificate has this fingerprint, which the target prints (may be repeated)
    #[arg(
        long = "pin",
        value_name = "FINGERPRINT",
        requires = "udp",
        conflicts_with = "listen"
    )]
    pub(crate) pins: Vec<String>,

    /// Connects to every target over UDP, whatever its certificate
    #[arg(long, requires = "udp", conflicts_with_all = ["pins", "listen"])]
    pub(crate) insecure: bool,

    /// Only these checks, by family, row, name or beginning of a name, such as RDMAP or MPA-021 (may be repeated)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Counts a failing SHOULD, and a close in place of a Terminate, as failures
    #[arg(long)]
    pub(crate) strict: bool,

    /// Lists the checks without running them
    #[arg(long)]
    pub(crate) list: bool,

    /// The form of the report
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = Format::parser(suites::FORMATS))]
    pub(crate) format: Format,

    /// Whether the suite asks for CRCs [default: on; over UDP off]
    #[arg(long, value_enum)]
    pub(crate) crc: Option<Switch>,

    /// Whether the suite asks for markers
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub(crate) markers: Switch,

    /// Does not try the Send protocol, because some applications fail when they receive an unknown message
    #[arg(long)]
    pub(crate) no_service: bool,

    /// Known deviations of the peer: a file, or a name such as siw-6.1
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) deviations: Option<String>,

    /// How long the suite waits for an answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(crate) answer: Duration,

    /// How long the suite waits before it decides that nothing comes
    #[arg(long, value_name = "SECONDS", default_value = "0.2", value_parser = seconds)]
    pub(crate) quiet: Duration,

    /// How long the suite waits until the target gives up an incomplete start-up
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) startup: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    #[arg(help = format!("The adapter, for example {}", provider::EXAMPLE))]
    pub(crate) url: String,

    /// Where to listen: HOST:PORT; port 0 takes any free port
    #[arg(
        long,
        value_name = "ADDR",
        required_unless_present = "connect",
        conflicts_with = "connect"
    )]
    pub(crate) listen: Option<String>,

    /// Connects to the suite here, again and again: HOST:PORT
    #[arg(long, value_name = "ADDR")]
    pub(crate) connect: Option<String>,

    /// Asks the suite for markers
    #[arg(long)]
    pub(crate) markers: bool,

    #[command(flatten)]
    pub(crate) adapter: AdapterArgs,

    #[command(flatten)]
    pub(crate) security: SecurityArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}
