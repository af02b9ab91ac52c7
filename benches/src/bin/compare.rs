//! softnd beside raw TCP, a bare QUIC stream, UCX and libfabric, in one run and in short alternating turns.
//!
//! `cargo run --release -p softnd-benches --bin compare`, after `cargo build --release`. Run it on a machine that does
//! nothing else.
#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use nd::cores::Watch;
use nd::process;
use softnd_benches::compare::congestion::{self, Chosen};
use softnd_benches::compare::nd::Nd;
use softnd_benches::compare::page::{Findings, Round};
use softnd_benches::compare::peers::{Fabric, Ucx};
use softnd_benches::compare::turns::{Measurement, OVER_TCP, OVER_UDP, Peers, Size, Test};
use softnd_benches::compare::{Failure, calls, machine, page};
use softnd_benches::octets;

/// Compares softnd with raw TCP, a bare QUIC stream, UCX (ucx_perftest) and libfabric (fi_pingpong); prints Markdown.
///
/// Over TCP all programs have the same congestion control: first the system's default, then, where this process may change the
/// default for the length of the run, cubic. Then softnd runs over UDP, where QUIC has a congestion control of its own.
#[derive(Debug, Parser)]
struct Arguments {
    /// Octets per message [default: all powers of two from 8 to 1 MiB]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    size: Vec<u32>,

    /// Octets per message over UDP [default: those of --size]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    udp_size: Vec<u32>,

    /// Turns per size
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    turns: u16,

    /// Milliseconds of a turn
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    turn: u64,

    /// softnd makes and checks CRCs over TCP, which the others do not have
    #[arg(long)]
    crc: bool,

    /// The program nd [default: the one built beside this]
    #[arg(long, value_name = "FILE")]
    nd: Option<PathBuf>,

    /// Leaves out the histogram of FPDUs per system call
    #[arg(long)]
    no_calls: bool,

    /// Also writes into a page between its two marks, such as docs/performance-compared.md
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

impl Arguments {
    fn sizes(&self, over_udp: bool) -> Vec<usize> {
        let chosen = if over_udp && !self.udp_size.is_empty() {
            &self.udp_size
        } else {
            &self.size
        };
        if chosen.is_empty() {
            return (3..=20).map(|bits| 1 << bits).collect();
        }
        chosen.iter().map(|size| *size as usize).collect()
    }

    fn nd(&self) -> Result<Nd, Failure> {
        let turn = Duration::from_millis(self.turn);
        match &self.nd {
            Some(program) => Ok(Nd {
                program: program.clone(),
                crc: self.crc,
                turn,
                systems_congestion: false,
            }),
            None => Nd::beside_this(self.crc, turn),
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(path) = &arguments.write {
        // Checked now, not after an hour of measuring.
        page::replace(&read(path)?, "")?;
    }
    let nd = arguments.nd()?;
    let peers = Peers {
        ucx: Ucx::find(),
        fabric: Fabric::find(),
    };
    let mut findings = Findings {
        machine: machine::describe(),
        crc: arguments.crc,
        turn_ms: u128::from(arguments.turn),
        ..Findings::default()
    };
    let mut skip = |name: &str, package: &str| {
        findings
            .skipped
            .push(format!("{name} is not installed (Debian: {package})"));
    };
    if peers.ucx.is_none() {
        skip("ucx_perftest", "ucx-utils");
    }
    if peers.fabric.is_none() {
        skip("fi_pingpong", "libfabric-bin");
    }
    let strace = process::find("strace");
    if strace.is_none() && !arguments.no_calls {
        skip("strace", "strace");
    }
    for skipped in &findings.skipped {
        eprintln!("skipped: {skipped}");
    }
    let default = congestion::default().unwrap_or_else(|| "the system's".to_owned());
    let systems = Nd {
        systems_congestion: true,
        ..nd.clone()
    };
    let mut patience = PATIENCE;
    let mut measure = |name: &str, nd: &Nd, tests: &'static [Test]| {
        let sizes = arguments.sizes(tests == OVER_UDP);
        let part = Part { name, tests, sizes };
        let cores = (&mut findings.cores, &mut patience);
        part.measure(nd, &peers, arguments.turns, cores)
    };
    findings.rounds.push(Round {
        congestion: format!("{default}, the system's default"),
        sizes: measure(&default, &systems, &OVER_TCP)?,
    });
    if default != UNPACED {
        match Chosen::system_wide(UNPACED) {
            Ok(_chosen) => findings.rounds.push(Round {
                congestion: format!("{UNPACED}, the system's default meanwhile"),
                sizes: measure(UNPACED, &nd, &OVER_TCP)?,
            }),
            Err(failure) => {
                eprintln!("skipped: {failure}");
                findings.skipped.push(failure.to_string());
            }
        }
    }
    match measure("UDP", &nd, &OVER_UDP) {
        Ok(sizes) => findings.udp = sizes,
        // An hour of measuring over TCP is not given up for it.
        Err(failure) => {
            let failure = format!("over UDP: {failure}");
            eprintln!("skipped: {failure}");
            findings.skipped.push(failure);
        }
    }
    if let Some(strace) = strace.filter(|_| !arguments.no_calls) {
        for traffic in calls::TRAFFIC {
            eprintln!("system calls: {} {}", traffic.op, octets(traffic.size));
            match calls::trace(&nd, &strace, &traffic) {
                Ok(histogram) => findings.calls.push((traffic, histogram)),
                // Tracing may be forbidden, and the rest of the page does not depend on it.
                Err(failure) => findings.skipped.push(format!(
                    "system calls of {} {}: {failure}",
                    traffic.op,
                    octets(traffic.size)
                )),
            }
        }
    }
    let part = findings.print();
    println!("{part}");
    if let Some(path) = &arguments.write {
        let text = page::replace(&read(path)?, &part)?;
        fs::write(path, text)
            .map_err(|error| Failure::new(format!("write {}: {error}", path.display())))?;
    }
    Ok(())
}

/// A part of the run.
struct Part<'a> {
    /// What the progress calls it.
    name: &'a str,
    tests: &'static [Test],
    sizes: Vec<usize>,
}

impl Part<'_> {
    fn measure(
        &self,
        nd: &Nd,
        peers: &Peers,
        turns: u16,
        (cores, patience): (&mut Watch, &mut Duration),
    ) -> Result<Vec<Size>, Failure> {
        let Self { name, tests, sizes } = self;
        let measure = |size: &usize| {
            let mut turn = 0;
            let measurement = Measurement::new(nd, peers, *size, tests);
            measurement.turns(turns.into(), cores, patience, &mut || {
                eprintln!("{name}, {}: turn {turn} of {turns}", octets(*size));
                turn += 1;
            })
        };
        sizes.iter().map(measure).collect()
    }
}

/// How long a run waits, all in all, for cores that the host has moved away from each other.
const PATIENCE: Duration = Duration::from_secs(600);

/// The congestion control that softnd chooses within a machine.
const UNPACED: &str = "cubic";

fn read(path: &PathBuf) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("read {}: {error}", path.display())))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("compare: {failure}");
            ExitCode::FAILURE
        }
    }
}
