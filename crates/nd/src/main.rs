//! The command line program `nd`: shows NetworkDirect adapters, demonstrates what they do, and moves files over them.
//!
//! The modules are layers; each uses those above it in this list:
//!
//! - what commands share: the crate [`nd_base`], with errors, output, providers and connections; `suites`, for both suites;
//! - the commands, each with its arguments: `info`, `demo`, `cat`, `perf`, `perftest`, `rping`, `conform`,
//!   `wire_conform`, `run`, and `reference` with `completions` and `man`;
//! - the command line: `cli`.

#![forbid(unsafe_code)]

mod cat;
mod cli;
mod conform;
mod demo;
mod info;
mod reference;
mod rping;
mod run;
mod suites;
mod unknown_peers;
mod wire_conform;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory;
use nd_base::{
    admission, args, errors, interrupt, mailbox, memory, output, output_file, peer, provider,
    session, stderr, units,
};
use nd_perf::{perf, perftest};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::cat::args::Cat;
use crate::cli::{Cli, Command, LogFormat};
use crate::unknown_peers::UnknownPeerLines;

/// How long a command that has ended waits for what it has sent over UDP to arrive.
const LAST_OCTETS: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    if !memory::is_enough() {
        return ExitCode::FAILURE;
    }
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    // The program keeps its own signals, standard streams and exit status.
    if let Command::Run(args) = &cli.command {
        return run::run(args).map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS);
    }
    interrupt::outlive_file_limits();
    interrupt::handle_aborts();
    // rping's own -v is about the data of its pings.
    let quiet = u8::from(matches!(cli.command, Command::Rping(_)));
    // The checks break things on purpose, and the log would report that.
    let silent = cli.verbose == 0 && matches!(cli.command, Command::Conform(_));
    let expects_unknown_peers =
        matches!(cli.command, Command::Conform(_) | Command::WireConform(_));
    start_logging(
        cli.log_format,
        cli.verbose.saturating_sub(quiet),
        silent,
        expects_unknown_peers,
    );
    interrupt::watch(|| provider::leave(Duration::ZERO));
    let status = run(&cli);
    provider::leave(LAST_OCTETS);
    interrupt::finish();
    status
}

fn run(cli: &Cli) -> ExitCode {
    let done = match &cli.command {
        Command::Info { url } => info::run(url.as_deref()),
        Command::Demo(args) => demo::run(args, cli.verbose),
        Command::DemoServer(args) => demo::serve(args),
        Command::Cat(Cat::Send(args)) => cat::send(args),
        Command::Cat(Cat::Recv(args)) => cat::recv(args),
        Command::Perf(command) => perf::run(command, cli.verbose),
        Command::Conform(args) => return conform::run(args),
        Command::WireConform(command) => return wire_conform::run(command),
        Command::Perftest(args) => perftest::run(args),
        Command::Rping(args) => rping::run(args, cli.verbose > 0),
        Command::Run(args) => run::run(args),
        Command::Completions(args) => reference::completions(args, &Cli::command()),
        Command::Man(args) => reference::man(args, Cli::command()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Logs go to standard error, so that standard output stays parseable. `RUST_LOG` wins over `-v`. Unless a command expects peers that
/// speak no iWARP, there is a line for each of them.
fn start_logging(format: LogFormat, verbose: u8, silent: bool, expects_unknown_peers: bool) {
    let level = match verbose {
        0 if silent => "off",
        0 => "error", // what goes wrong is told once, by the command
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match format {
        LogFormat::Text => log
            .with_ansi(std::io::stderr().is_terminal() && output::may_be_coloured())
            .boxed(),
        LogFormat::Json => log.json().flatten_event(true).boxed(),
    };
    let log = log.with_filter(filter);
    let unknown_peers = (!expects_unknown_peers).then(UnknownPeerLines::layer);
    tracing_subscriber::registry()
        .with(log)
        .with(unknown_peers)
        .init();
}
