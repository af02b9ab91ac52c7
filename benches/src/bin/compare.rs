//! Compares softnd with raw TCP, a bare QUIC stream, UCX and libfabric, in one run and in short alternating turns; perftest's programs by
//! `nd run` with `nd perf`; and, on an RDMA device, the provider over verbs with perftest.
//!
//! `cargo run --release -p softnd-benches --bin compare`, after `cargo build --release`. Run it on a machine that does
//! nothing else.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use nd_perf::cores::Watch;
use nd_perf::device::Device;
use nd_perf::process;
use softnd_benches::compare::congestion::{self, Chosen};
use softnd_benches::compare::nd::Nd;
use softnd_benches::compare::numbers::{self, NumbersRow};
use softnd_benches::compare::one_machine::WITHIN_ONE_MACHINE;
use softnd_benches::compare::page::{Findings, PagePart, Round};
use softnd_benches::compare::peers::{Fabric, Peers, Ucx};
use softnd_benches::compare::programs::{self, ProgramRow};
use softnd_benches::compare::turns::{Measurement, ON_DEVICE, OVER_TCP, OVER_UDP, Size, Test};
use softnd_benches::compare::{Failure, calls, machine, page, plot};
use softnd_benches::octets;

/// Compares softnd with raw TCP, a bare QUIC stream, UCX (ucx_perftest) and libfabric (fi_pingpong); prints Markdown, each part when
/// it is there.
///
/// Over TCP all programs have the same congestion control: first the system's default, then, where this process may change the default for
/// the length of the run, cubic. Then softnd runs over UDP, where QUIC has its own congestion control. Then perftest's programs run over
/// softnd's libraries for verbs, beside `nd perf`, and those that exchange numbers of queue pairs, with UCX over verbs. Then softnd, UCX and
/// libfabric run through shared memory, beside plain copies. With --device none of this runs, but `nd perftest` over verbs and perftest's own
/// programs on that device.
#[derive(Debug, Parser)]
struct Arguments {
    /// Octets per message [default: all powers of two from 8 to 1 MiB]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    size: Vec<u32>,

    /// Measures one part alone: over TCP, over UDP, verbs programs by `nd run` with `nd perf`, those that exchange numbers of queue pairs, or
    /// through shared memory [default: all]
    #[arg(long, value_name = "TRANSPORT", value_delimiter = ',')]
    over: Vec<Over>,

    /// Compares `nd perftest` over verbs with perftest's programs on this RDMA device, such as siw0, and nothing else
    #[arg(long, value_name = "NAME", conflicts_with_all = ["over", "crc", "no_calls"])]
    device: Option<String>,

    /// Turns per size
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    turns: u16,

    /// Milliseconds of a turn
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100))]
    turn: u64,

    /// softnd makes and checks CRCs over TCP, which the others do not have
    #[arg(long)]
    crc: bool,

    /// The program nd [default: the one in the folder of this program]
    #[arg(long, value_name = "FILE")]
    nd: Option<PathBuf>,

    /// Leaves out the histogram of FPDUs per system call
    #[arg(long)]
    no_calls: bool,

    /// Also writes each part into a page, between the marks of this part, such as docs/reports/performance-compared.md
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,

    /// Also draws each part into a folder, such as docs/reports/performance
    #[arg(long, value_name = "FOLDER")]
    plot: Option<PathBuf>,
}

impl Arguments {
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

    /// The parts of this run.
    fn parts(&self) -> Vec<PagePart> {
        if self.device.is_some() {
            return vec![PagePart::Device];
        }
        let chosen = |over: &Over| self.over.is_empty() || self.over.contains(over);
        let all = [
            (Over::Tcp, PagePart::Tcp),
            (Over::Udp, PagePart::Udp),
            (Over::Programs, PagePart::Programs),
            (Over::Numbers, PagePart::Numbers),
            (Over::Shm, PagePart::Shm),
        ];
        let parts = all.into_iter().filter(|(over, _)| chosen(over));
        parts.map(|(_, part)| part).collect()
    }
}

/// The transport of softnd; `shm` is shared memory within this machine. `programs` are those of verbs, and `numbers` those among them that
/// exchange the numbers of their queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Over {
    Tcp,
    Udp,
    Programs,
    Numbers,
    Shm,
}

/// Each part is printed and written when it is done, because the next one takes as long again.
fn run(arguments: &Arguments) -> Result<(), Failure> {
    let parts = arguments.parts();
    if let Some(path) = &arguments.write {
        // Checked now, not after an hour of measuring.
        let page = read(path)?;
        for part in &parts {
            page::replace(&page, *part, "")?;
        }
    }
    if let Some(folder) = &arguments.plot {
        fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("make {}: {error}", folder.display())))?;
    }
    let nd = arguments.nd()?;
    let version = machine::version();
    for part in parts {
        let mut findings = Findings {
            machine: machine::describe(&version, packages(part)),
            crc: arguments.crc,
            turn_ms: u128::from(arguments.turn),
            ..Findings::default()
        };
        match part {
            PagePart::Tcp => over_tcp(arguments, &nd, &mut findings)?,
            PagePart::Udp => over_udp(arguments, &nd, &mut findings)?,
            PagePart::Device => on_device(arguments, &nd, &mut findings)?,
            PagePart::Programs => of_programs(arguments, &nd, &mut findings)?,
            PagePart::Numbers => of_numbers(arguments, &nd, &mut findings)?,
            PagePart::Shm => within_one_machine(arguments, &nd, &mut findings)?,
        }
        let text = findings.print();
        println!("{text}");
        if let Some(path) = &arguments.write {
            let page = page::replace(&read(path)?, part, &text)?;
            write(path, &page)?;
        }
        if let Some(folder) = &arguments.plot {
            for (name, svg) in plot::drawings(&findings) {
                write(&folder.join(name), &svg)?;
            }
        }
    }
    Ok(())
}

/// The programs that take part besides softnd, and Debian's names of their packages.
const fn packages(part: PagePart) -> &'static [(&'static str, &'static str)] {
    match part {
        PagePart::Tcp | PagePart::Shm => &[("UCX", "ucx-utils"), ("libfabric", "libfabric-bin")],
        PagePart::Udp => &[("libfabric", "libfabric-bin")],
        PagePart::Device | PagePart::Programs => &[("perftest", "perftest")],
        PagePart::Numbers => &[("perftest", "perftest"), ("UCX", "ucx-utils")],
    }
}

/// Says that something is left out, at once and on the page.
fn skip(findings: &mut Findings, what: String) {
    eprintln!("skipped: {what}");
    findings.skipped.push(what);
}

fn not_installed(program: &str, package: &str) -> String {
    format!("{program} is not installed (Debian: {package})")
}

/// libfabric, if it is installed.
fn fabric(findings: &mut Findings) -> Option<Fabric> {
    let fabric = Fabric::find();
    if fabric.is_none() {
        skip(findings, not_installed("fi_pingpong", "libfabric-bin"));
    }
    fabric
}

/// UCX, if it is installed.
fn ucx(nd: &Nd, findings: &mut Findings) -> Option<Ucx> {
    let ucx = Ucx::find(nd);
    if ucx.is_none() {
        skip(findings, not_installed("ucx_perftest", "ucx-utils"));
    }
    ucx
}

/// Compares softnd through shared memory with softnd over TCP, UCX, libfabric and plain copies.
fn within_one_machine(
    arguments: &Arguments,
    nd: &Nd,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let peers = Peers {
        ucx: ucx(nd, findings),
        fabric: fabric(findings),
        device: None,
    };
    let part = Part {
        name: "shared memory",
        tests: &WITHIN_ONE_MACHINE,
        sizes: sizes(&arguments.size),
    };
    let cores = (&mut findings.cores, &mut { PATIENCE });
    findings.shm = part.measure(nd, &peers, arguments.turns, cores)?;
    Ok(())
}

/// Compares softnd over TCP with raw TCP, UCX and libfabric.
fn over_tcp(arguments: &Arguments, nd: &Nd, findings: &mut Findings) -> Result<(), Failure> {
    let peers = Peers {
        ucx: ucx(nd, findings),
        fabric: fabric(findings),
        device: None,
    };
    let mut patience = PATIENCE;
    let mut round = |findings: &mut Findings, name: &str, nd: &Nd, chosen: &'static str| {
        let part = Part {
            name,
            tests: &OVER_TCP,
            sizes: sizes(&arguments.size),
        };
        let cores = (&mut findings.cores, &mut patience);
        let sizes = part.measure(nd, &peers, arguments.turns, cores)?;
        findings.rounds.push(Round {
            congestion: name.to_owned(),
            chosen,
            sizes,
        });
        Ok::<_, Failure>(())
    };
    let default = congestion::default().unwrap_or_else(|| "unknown".to_owned());
    let systems = Nd {
        systems_congestion: true,
        ..nd.clone()
    };
    round(findings, &default, &systems, "the system's default")?;
    if default != UNPACED {
        match Chosen::system_wide(UNPACED) {
            Ok(_chosen) => round(findings, UNPACED, nd, "the system's default meanwhile")?,
            Err(failure) => skip(findings, failure.to_string()),
        }
    }
    if !arguments.no_calls {
        calls_of(nd, findings);
    }
    Ok(())
}

/// FPDUs per system call. Tracing may be forbidden, and the rest of the page does not depend on it.
fn calls_of(nd: &Nd, findings: &mut Findings) {
    let Some(strace) = process::find("strace") else {
        return skip(findings, not_installed("strace", "strace"));
    };
    for traffic in calls::TRAFFIC {
        let what = format!("system calls of {} {}", traffic.op, octets(traffic.size));
        eprintln!("{what}");
        match calls::trace(nd, &strace, &traffic) {
            Ok(histogram) => findings.calls.push((traffic, histogram)),
            Err(failure) => skip(findings, format!("{what}: {failure}")),
        }
    }
}

/// Compares softnd over UDP with a bare QUIC stream and libfabric.
fn over_udp(arguments: &Arguments, nd: &Nd, findings: &mut Findings) -> Result<(), Failure> {
    let peers = Peers {
        fabric: fabric(findings),
        ..Peers::default()
    };
    let part = Part {
        name: "UDP",
        tests: &OVER_UDP,
        sizes: sizes(&arguments.size),
    };
    let cores = (&mut findings.cores, &mut { PATIENCE });
    findings.udp = part.measure(nd, &peers, arguments.turns, cores)?;
    Ok(())
}

/// perftest's programs over softnd's libraries for verbs.
fn of_programs(arguments: &Arguments, nd: &Nd, findings: &mut Findings) -> Result<(), Failure> {
    let (tests, missing) = programs::installed();
    for program in missing {
        skip(findings, not_installed(&program, "perftest"));
    }
    let Some(nd) = with_libraries(nd, findings) else {
        return Ok(());
    };
    for test in tests {
        let row = ProgramRow::measure(test, &nd, arguments.turns.into())?;
        findings.programs.push(row);
    }
    Ok(())
}

/// Verbs programs that exchange the numbers of their queue pairs.
fn of_numbers(arguments: &Arguments, nd: &Nd, findings: &mut Findings) -> Result<(), Failure> {
    let ucx = Ucx::find(nd);
    let (tests, missing) = numbers::installed(ucx.as_ref());
    for (program, package) in missing {
        skip(findings, not_installed(&program, package));
    }
    let Some(nd) = with_libraries(nd, findings) else {
        return Ok(());
    };
    for test in tests {
        let row = NumbersRow::measure(test, &nd, ucx.as_ref(), arguments.turns.into())?;
        findings.numbers.push(row);
    }
    Ok(())
}

/// `nd` with turns that suit verbs programs, if the libraries are beside it.
fn with_libraries(nd: &Nd, findings: &mut Findings) -> Option<Nd> {
    if !programs::has_libraries(&nd.program) {
        let program = nd.program.display();
        skip(
            findings,
            format!("the libraries for verbs are not beside {program}"),
        );
        return None;
    }
    Some(Nd {
        turn: nd.turn.max(programs::SHORTEST),
        ..nd.clone()
    })
}

/// Compares the provider over verbs with perftest.
fn on_device(arguments: &Arguments, nd: &Nd, findings: &mut Findings) -> Result<(), Failure> {
    let name = arguments.device.as_deref().unwrap_or_default();
    let provider = netdirect_verbs::provider(netdirect_verbs::Options::default())
        .map_err(|error| Failure::new(error.to_string()))?;
    let address = netdirect_verbs::device_address(&*provider, name)
        .map_err(|error| Failure::new(format!("{name}: {error}")))?;
    let mut programs = ON_DEVICE.iter().filter_map(|test| test.program());
    if let Some(missing) = programs.find(|program| !program.is_installed()) {
        let program = missing.installed_name();
        return Err(Failure::new(not_installed(&program, "perftest")));
    }
    let peers = Peers {
        device: Some(Device::new(name, address.ip(), nd.program.clone())),
        ..Peers::default()
    };
    let part = Part {
        name,
        tests: &ON_DEVICE,
        sizes: sizes(&arguments.size),
    };
    let cores = (&mut findings.cores, &mut { PATIENCE });
    let sizes = part.measure(nd, &peers, arguments.turns, cores)?;
    findings.device = Some((name.to_owned(), sizes));
    Ok(())
}

/// The sizes that were chosen, or all.
fn sizes(chosen: &[u32]) -> Vec<usize> {
    if chosen.is_empty() {
        return (3..=20).map(|bits| 1 << bits).collect();
    }
    chosen.iter().map(|size| *size as usize).collect()
}

/// A part of the run.
struct Part<'a> {
    /// Its name in the progress.
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

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("read {}: {error}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| Failure::new(format!("write {}: {error}", path.display())))
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
