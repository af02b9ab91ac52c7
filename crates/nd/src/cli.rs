//! The commands and their arguments.

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use nd_perf::perf::Perf;
use nd_perf::perftest::PerftestArgs;

use crate::cat::args::Cat;
use crate::conform::args::Conform;
use crate::demo::args::{DemoArgs, DemoServerArgs};
use crate::errors::{Failure, one_line};
use crate::log::LogOptions;
use crate::provider;
use crate::reference::{CompletionsArgs, ManArgs};
use crate::registration::RegisterArgs;
use crate::rping::args::RpingArgs;
use crate::run::ProgramArgs;
use crate::wire_conform::args::WireConform;

/// RDMA with the interface of NetworkDirect v2 over ordinary TCP and UDP sockets or a simulated network, without special hardware or privileges.
#[derive(Debug, Parser)]
#[command(name = "nd", version, arg_required_else_help = true, after_help = provider::help())]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) log: LogOptions,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Exit status for an error in the command line.
const USAGE: u8 = 2;

/// Reads the command line. An error in it is printed in one line, as all errors are. The `Err` is the exit status.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    use clap::error::ErrorKind as Kind;
    Cli::try_parse().map_err(|error| match error.kind() {
        Kind::DisplayHelp
        | Kind::DisplayVersion
        | Kind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let printed = error.print().and_then(|()| std::io::stdout().flush());
            // If the reader is gone, the help is not needed any more.
            if let Err(why) = printed
                && why.kind() != std::io::ErrorKind::BrokenPipe
            {
                return Failure::stdout(&why).report();
            }
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        _ => {
            // Once more, with control characters made harmless for a terminal.
            let words = std::env::args_os().map(|word| one_line(&word.to_string_lossy()));
            let words: Vec<String> = words.collect();
            let error = Cli::try_parse_from(&words).err().unwrap_or(error);
            let _ = in_one_line(&error.to_string(), words.into_iter().skip(1)).report();
            ExitCode::from(USAGE)
        }
    })
}

/// Turns an error of clap into one line: the text in front of the usage, and clap's tip or the command that shows the
/// usage.
fn in_one_line(error: &str, words: impl Iterator<Item = String>) -> Failure {
    let mut what = String::new();
    let mut advice = format!("see `{} --help`", path(words));
    let shown = error.lines().map(str::trim).take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    for line in shown.filter(|line| !line.is_empty()) {
        if let Some(tip) = line.strip_prefix("tip: ") {
            tip.clone_into(&mut advice);
        } else if what.is_empty() {
            line.trim_start_matches("error: ").clone_into(&mut what);
        } else {
            // A list goes on behind a colon or an item. Text in brackets belongs to the text in front of it.
            what += if what.ends_with(':') || line.starts_with('[') {
                " "
            } else {
                ", "
            };
            what += line;
        }
    }
    Failure::new(what, advice)
}

/// The command with which these words begin, as far as there is one: `nd cat send`.
fn path(words: impl Iterator<Item = String>) -> String {
    let mut path = vec!["nd".to_owned()];
    let mut command = Cli::command();
    for word in words {
        let Some(next) = command.find_subcommand(&word) else {
            continue;
        };
        path.push(word);
        command = next.clone();
    }
    path.join(" ")
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows the adapters and their limits
    Info {
        #[arg(help = format!("One adapter instead of all, for example {}", provider::EXAMPLE))]
        url: Option<String>,
    },
    /// Demonstrates RDMA step by step between two processes
    Demo(DemoArgs),
    /// The second process of the demo
    #[command(hide = true)]
    DemoServer(DemoServerArgs),
    /// Moves a file to another process over RDMA
    #[command(subcommand)]
    Cat(Cat),
    /// Measures latency, bandwidth and message rate, and compares them with a bare TCP socket
    Perf(Perf),
    /// Checks whether a provider follows NetworkDirect, by what its clients see
    Conform(Conform),
    /// Checks whether an iWARP stack or adapter follows the standards, by what it sends
    WireConform(WireConform),
    /// Measures with a program of perftest, such as ib_send_bw, or with itself, on the other side
    Perftest(PerftestArgs),
    /// Pings with Send, RDMA Read and RDMA Write; the other side runs rping of rdma-core, or nd rping
    Rping(RpingArgs),
    /// Runs a program for libibverbs and librdmacm over ordinary sockets
    Run(ProgramArgs),
    /// Registers the provider of this program for all NetworkDirect programs of a Windows machine
    Register(RegisterArgs),
    /// Takes back `nd register`
    Unregister,
    /// Lists the libraries that NetworkDirect programs find
    Providers,
    /// Prints what a shell needs to complete commands and options, as a script of that shell
    Completions(CompletionsArgs),
    /// Prints a manual page in the form that man reads, or writes all pages
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::args::Stack;
    use crate::cat::args::Via;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_file_is_sent_by_write_unless_told_otherwise() {
        let cli = Cli::parse_from(["nd", "cat", "send", "a.bin", "localhost:1"]);
        let Command::Cat(Cat::Send(args)) = cli.command else {
            panic!("not a send")
        };
        assert_eq!(
            (args.via, args.common.timeout),
            (Via::Write, Duration::from_secs(30))
        );
    }

    #[test]
    fn a_peer_is_named() {
        // The earlier name of the option is taken, and not shown.
        for option in ["--stack", "--peer"] {
            let name = |stack| Cli::try_parse_from(["nd", "demo", option, stack]);
            let Ok(Command::Demo(args)) = name("siw").map(|cli| cli.command) else {
                panic!("siw is not known")
            };
            assert_eq!(args.adapter.peer, Some(Stack::Siw));
            assert!(name("nobody").is_err());
        }
        let mut nd = Cli::command();
        let demo = nd.find_subcommand_mut("demo").expect("a command");
        let help = demo.render_long_help().to_string();
        assert!(
            help.contains("--stack <STACK>") && !help.contains("--peer"),
            "{help}"
        );
    }

    #[test]
    fn what_is_wrong_with_a_command_line_is_one_line() {
        for (line, expected) in [
            (
                "cat send --timeuot 3 x y",
                "unexpected argument '--timeuot' found; a similar argument exists: '--timeout'",
            ),
            (
                "cat recv",
                "the following required arguments were not provided: --listen <ADDR>, --out <FILE>; \
                 see `nd cat recv --help`",
            ),
            (
                "cat send x y --via carrier-pigeon",
                "invalid value 'carrier-pigeon' for '--via <VIA>' [possible values: send, write, read]; \
                 see `nd cat send --help`",
            ),
            (
                "-v cat send x y --timeout 0",
                "invalid value '0' for '--timeout <SECONDS>': must be above 0 and at most 86400; \
                 see `nd cat send --help`",
            ),
            (
                "inof x",
                "unrecognized subcommand 'inof'; a similar subcommand exists: 'info'",
            ),
            (
                "rping -s -c -a x",
                "the argument '--server' cannot be used with '--client'; see `nd rping --help`",
            ),
        ] {
            let words = || line.split(' ').map(str::to_owned);
            let all = ["nd".to_owned()].into_iter().chain(words());
            let error = Cli::try_parse_from(all).expect_err(line).to_string();
            assert_eq!(
                in_one_line(&error, words()).to_string(),
                expected,
                "{error}"
            );
        }
    }
}
