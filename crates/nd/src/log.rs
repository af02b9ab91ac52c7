//! The log on standard error: what the command line asks for, and its subscriber.

use std::io::IsTerminal as _;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::output;
use crate::unknown_peers::UnknownPeerLines;

/// The options that all commands share.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LogOptions {
    /// Prints more on standard error: -v events, -vv details, -vvv everything (RUST_LOG takes precedence)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(crate) verbose: u8,

    /// The form of the lines that -v prints: text, or one object in JSON for each
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogFormat::Text, global = true, hide_default_value = true)]
    pub(crate) log_format: LogFormat,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For programs: time, level, target, message, fields, and those of the connection
    Json,
}

impl LogOptions {
    /// The level that `-v` asks for, if it is there.
    pub(crate) fn level(self) -> Option<&'static str> {
        match self.verbose {
            0 => None,
            1 => Some("info"),
            2 => Some("debug"),
            _ => Some("trace"),
        }
    }

    /// Begins the log. It goes to standard error, so that standard output stays parseable. `RUST_LOG` wins over `-v`. Without both it has
    /// errors alone, because what goes wrong is told once, by the command; and nothing if it is `silent`. Unless a command expects peers
    /// that speak no iWARP, there is a line for each of them.
    pub(crate) fn start(self, silent: bool, expects_unknown_peers: bool) {
        let unasked = if silent { "off" } else { "error" };
        let level = self.level().unwrap_or(unasked);
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        let log = match self.log_format {
            LogFormat::Text => log
                .with_ansi(std::io::stderr().is_terminal() && output::may_be_coloured())
                .boxed(),
            // No span is within another one.
            LogFormat::Json => log.json().flatten_event(true).with_span_list(false).boxed(),
        };
        let log = log.with_filter(filter);
        let unknown_peers = (!expects_unknown_peers).then(UnknownPeerLines::layer);
        tracing_subscriber::registry()
            .with(log)
            .with(unknown_peers)
            .init();
    }
}
