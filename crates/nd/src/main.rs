//! The command line program `nd`: shows NetworkDirect adapters, demonstrates what they do, and moves files over them.
//!
//! The modules are layers; each uses those above it in this list:
//!
//! - what commands share: the crate [`nd_base`], with errors, output, providers and connections; `suites`, for both suites; `log`, with
//!   `unknown_peers`; `object_file`, which reads parts of programs and libraries;
//! - the commands, each with its arguments: `info`, `demo`, `cat`, `perf`, `perftest`, `rping`, `conform`,
//!   `wire_conform`, `run`, `registration` with `register`, `unregister` and `providers`, and `reference` with `completions` and `man`;
//! - the command line: `cli`.

#![forbid(unsafe_code)]

mod cat;
mod cli;
mod conform;
mod demo;
mod info;
mod log;
mod object_file;
mod reference;
mod registration;
mod rping;
mod run;
mod suites;
mod unknown_peers;
mod wire_conform;

use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory;
use nd_base::{
    admission, args, errors, interrupt, mailbox, memory, output, output_file, peer, provider,
    session, stderr, units,
};
use nd_perf::{perf, perftest};

use crate::cat::args::Cat;
use crate::cli::{Cli, Command};
use crate::log::LogOptions;

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
        return run::run(args, cli.log)
            .map_or_else(|failure| failure.report(), |()| ExitCode::SUCCESS);
    }
    interrupt::outlive_file_limits();
    interrupt::handle_aborts();
    // rping's own -v is about the data of its pings.
    let quiet = u8::from(matches!(cli.command, Command::Rping(_)));
    // The checks break things on purpose, and the log would report that.
    let silent = cli.log.verbose == 0 && matches!(cli.command, Command::Conform(_));
    let expects_unknown_peers =
        matches!(cli.command, Command::Conform(_) | Command::WireConform(_));
    let log = LogOptions {
        verbose: cli.log.verbose.saturating_sub(quiet),
        ..cli.log
    };
    log.start(silent, expects_unknown_peers);
    interrupt::watch(|| provider::leave(Duration::ZERO));
    let status = run(&cli);
    provider::leave(LAST_OCTETS);
    interrupt::finish();
    status
}

fn run(cli: &Cli) -> ExitCode {
    let done = match &cli.command {
        Command::Info { url } => info::run(url.as_deref()),
        Command::Demo(args) => demo::run(args, cli.log.verbose),
        Command::DemoServer(args) => demo::serve(args),
        Command::Cat(Cat::Send(args)) => cat::send(args),
        Command::Cat(Cat::Recv(args)) => cat::recv(args),
        Command::Perf(command) => perf::run(command, cli.log.verbose),
        Command::Conform(args) => return conform::run(args),
        Command::WireConform(command) => return wire_conform::run(command),
        Command::Perftest(args) => perftest::run(args),
        Command::Rping(args) => rping::run(args, cli.log.verbose > 0),
        Command::Run(args) => run::run(args, cli.log),
        Command::Register(args) => registration::register(args),
        Command::Unregister => registration::unregister(),
        Command::Providers => registration::providers(),
        Command::Completions(args) => reference::completions(args, &Cli::command()),
        Command::Man(args) => reference::man(args, Cli::command()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
