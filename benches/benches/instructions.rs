//! Instructions per operation of the hot paths, counted by valgrind, because time is noisy and instructions are not.
//!
//! `cargo bench -p softnd-benches --bench instructions` compares with `benches/instructions.toml` and fails if a path
//! exceeds its number by more than the tolerance. After `--`, `--bless` rewrites this file, and a word chooses paths by
//! their names.
//!
//! This program runs itself under `valgrind --tool=callgrind`, once per path. Only what [`measured`] calls is counted, and
//! the kernel never is. `rep movsb` and `rep stosb` count one per octet, so large payload is left out of the engine's paths
//! ([`Nowhere`]), because it would hide them.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use iwarp::{Access, Confirmations, Memory as _, RemoteAddress, STag, Scope, Sge, StreamId};
use iwarp_mem::{Registration, Rights, Table};
use netdirect::Buffer;
use softnd_benches::baseline::{Baseline, Build, Verdict};
use softnd_benches::link::{self, Link, PD, Places};
use softnd_benches::nowhere::Nowhere;
use softnd_benches::provider::{DEPTH, Pair, Receives};

type Failure = Box<dyn Error>;

/// The segment size of the loopback interface, so that a message of 64 KiB is two FPDUs.
const SEGMENT: u32 = 65_483;

/// Operations before counting starts, which resolve symbols and make buffers.
const WARM_UP: u32 = 64;

/// Operations counted: a multiple of every interval at which softnd does something once in this many polls.
const OPERATIONS: u32 = 512;

/// The function that valgrind counts: entering it switches counting on, leaving it switches counting off.
const MEASURED: &str = "instructions::measured*";

#[inline(never)]
fn measured<T>(operation: impl FnOnce() -> T) -> T {
    operation()
}

/// Calls operations, counted or not.
#[derive(Clone, Copy)]
struct Meter {
    counts: bool,
}

impl Meter {
    fn run<T>(self, operation: impl FnOnce() -> T) -> T {
        if self.counts {
            measured(operation)
        } else {
            operation()
        }
    }

    const NEVER: Self = Self { counts: false };
}

/// The end of a message that is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Post, making FPDUs, completion.
    Transmit,
    /// Receive, taking FPDUs, completion.
    Receive,
}

/// A step of a region's life in an STag table that holds [`REGIONS`] others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Register,
    /// The check of a segment of an inbound Write.
    Check,
    /// The check of a segment with an STag that is not in use.
    Guess,
    Deregister,
}

/// Other regions registered while the steps of a region are counted.
const REGIONS: usize = 1000;

#[derive(Clone, Copy)]
enum What {
    /// A step of a region's life.
    Region(Step),
    /// A Send of 64 octets over registered memory.
    Send(End),
    /// A Write of 64 KiB over memory that copies nothing.
    Write(End),
    /// A row of Writes of 8 octets over registered memory, counted at both ends, until all have completed.
    Writes(Confirmations),
    /// A poll of an empty completion queue whose queue pair is connected and idle.
    Poll,
    /// A poll that finds nothing, when something has arrived lately.
    HotPoll,
    /// A poll that receives a Send of 64 octets, but for the system call.
    Take(Receives),
    /// A Notify, a wait for it that a Send of 64 octets ends, and a poll, but for the system calls.
    Await,
    /// A post of a Receive, before the Send that it takes.
    Ready(Receives),
    /// A post of a Send of 64 octets on an idle queue pair, up to the system call.
    Post,
    /// A row of Sends of 64 octets, but for the system calls: their posts and results, or the polls that receive them and the posts
    /// of their Receives.
    Row(End),
}

struct Hot {
    name: &'static str,
    what: What,
    crc: bool,
}

const fn hot(name: &'static str, what: What, crc: bool) -> Hot {
    Hot { name, what, crc }
}

/// The tolerance in per cent. It is needed because the compiler's choice of what to inline changes with unrelated code.
const TOLERANCE: u64 = 5;

/// A confirmed short Write needs at most this many per cent of the instructions of an unconfirmed one, at both ends together.
const CONFIRMED: (&str, &str, u64) = (
    "engine: 64 Writes of 8 B, placed",
    "engine: 64 Writes of 8 B, sent",
    110,
);

const PATHS: [Hot; 29] = [
    hot("memory: register", What::Region(Step::Register), false),
    hot(
        "memory: check of a segment",
        What::Region(Step::Check),
        false,
    ),
    hot(
        "memory: check of an unknown STag",
        What::Region(Step::Guess),
        false,
    ),
    hot("memory: deregister", What::Region(Step::Deregister), false),
    hot(
        "engine: Send 64 B, CRC off, transmit",
        What::Send(End::Transmit),
        false,
    ),
    hot(
        "engine: Send 64 B, CRC off, receive",
        What::Send(End::Receive),
        false,
    ),
    hot(
        "engine: Send 64 B, CRC on, transmit",
        What::Send(End::Transmit),
        true,
    ),
    hot(
        "engine: Send 64 B, CRC on, receive",
        What::Send(End::Receive),
        true,
    ),
    hot(
        "engine: Write 64 KiB, CRC off, transmit",
        What::Write(End::Transmit),
        false,
    ),
    hot(
        "engine: Write 64 KiB, CRC off, receive",
        What::Write(End::Receive),
        false,
    ),
    hot(
        "engine: Write 64 KiB, CRC on, transmit",
        What::Write(End::Transmit),
        true,
    ),
    hot(
        "engine: Write 64 KiB, CRC on, receive",
        What::Write(End::Receive),
        true,
    ),
    hot(CONFIRMED.1, What::Writes(Confirmations::Off), false),
    hot(
        CONFIRMED.0,
        What::Writes(Confirmations::OnDemand { apart: true }),
        false,
    ),
    hot(
        "softnd: poll of an empty completion queue",
        What::Poll,
        false,
    ),
    hot(
        "softnd: empty poll with traffic before",
        What::HotPoll,
        false,
    ),
    hot(
        "softnd: poll finds a Send 64 B, CRC off",
        What::Take(Receives::Own),
        false,
    ),
    hot(
        "softnd: poll finds a Send 64 B, CRC on",
        What::Take(Receives::Own),
        true,
    ),
    hot(
        "softnd: poll finds a Send 64 B, shared, CRC off",
        What::Take(Receives::Shared),
        false,
    ),
    hot(
        "softnd: poll finds a Send 64 B, shared, CRC on",
        What::Take(Receives::Shared),
        true,
    ),
    hot(
        "softnd: Notify, wait and poll find a Send 64 B",
        What::Await,
        false,
    ),
    hot(
        "softnd: post of a Receive",
        What::Ready(Receives::Own),
        false,
    ),
    hot(
        "softnd: post of a shared Receive",
        What::Ready(Receives::Shared),
        false,
    ),
    hot("softnd: post of a Send 64 B, CRC off", What::Post, false),
    hot("softnd: post of a Send 64 B, CRC on", What::Post, true),
    hot(
        "softnd: 64 Sends of 64 B, CRC off, transmit",
        What::Row(End::Transmit),
        false,
    ),
    hot(
        "softnd: 64 Sends of 64 B, CRC off, receive",
        What::Row(End::Receive),
        false,
    ),
    hot(
        "softnd: 64 Sends of 64 B, CRC on, transmit",
        What::Row(End::Transmit),
        true,
    ),
    hot(
        "softnd: 64 Sends of 64 B, CRC on, receive",
        What::Row(End::Receive),
        true,
    ),
];

/// A region that is registered, checked for an inbound segment and deregistered again and again, with one step counted.
fn regions(counted: Step) -> Result<(), Failure> {
    let (table, buffer) = (Table::new(), Buffer::new(64));
    let register = || table.register(&buffer, Rights::all(), PD);
    let held: Vec<Registration> = (0..REGIONS).map(|_| register()).collect::<Result<_, _>>()?;
    let who = Scope {
        pd: PD,
        stream: StreamId(1),
    };
    let check = |stag| {
        let at = RemoteAddress {
            stag,
            to: buffer.address(),
        };
        table.check(at, 64, Access::RemoteWrite, who)
    };
    let mut unknown = held[0].stag();
    repeat(|meter| {
        let meter = |step| {
            if step == counted { meter } else { Meter::NEVER }
        };
        let region = meter(Step::Register).run(register)?;
        meter(Step::Check)
            .run(|| check(region.stag()))
            .map_err(|error| format!("{error:?}"))?;
        // Multiplication by a large odd number makes a sequence of numbers that look random.
        unknown = STag(unknown.0.wrapping_mul(0x9E37_79B1).wrapping_add(1));
        meter(Step::Guess).run(|| check(unknown)).err();
        meter(Step::Deregister)
            .run(|| region.deregister())
            .map_err(|(_, busy)| busy)?;
        Ok(())
    })
}

/// Places in registered memory, for messages of `length` octets.
fn places(table: &Table, length: u32) -> Result<([Registration; 2], Places), Failure> {
    let register = || table.register(&Buffer::new(length as usize), Rights::all(), PD);
    let (here, there) = (register()?, register()?);
    let sge = |token, address| Sge {
        token,
        address,
        length,
    };
    let places = Places {
        source: sge(here.stag(), here.base()),
        inbox: sge(there.stag(), there.base()),
        target: RemoteAddress {
            stag: there.stag(),
            to: there.base(),
        },
    };
    Ok(([here, there], places))
}

/// A row of Writes of 8 octets, until all have completed.
fn engine_write_row(confirmations: Confirmations) -> Result<(), Failure> {
    let table = Table::new();
    let (_registered, places) = places(&table, 8)?;
    let mut link = Link::confirming(table.clone(), places, false, SEGMENT, confirmations);
    repeat(|meter| {
        let mut done = 0;
        meter.run(|| (0..link::DEPTH).for_each(|_| link.post_write()));
        while done < link::DEPTH as usize {
            meter.run(|| link.transmit());
            link.carry();
            done += meter.run(|| link.settle());
            meter.run(|| link.receive());
            if meter.run(|| link.answer()) > 0 {
                link.carry();
                done += meter.run(|| link.take_answers());
            }
        }
        Ok(())
    })
}

/// Sends of 64 octets over registered memory, counted at one end of the engine.
fn engine_sends(end: End, crc: bool) -> Result<(), Failure> {
    let table = Table::new();
    let (_registered, places) = places(&table, 64)?;
    let mut link = Link::new(table.clone(), places, crc, SEGMENT);
    repeat(|meter| {
        let (transmit, receive) = meters(meter, end);
        receive.run(|| link.post_receive());
        transmit.run(|| {
            link.post_send();
            link.transmit()
        });
        link.carry();
        transmit.run(|| link.settle());
        receive.run(|| link.receive());
        Ok(())
    })
}

/// Writes of 64 KiB over memory that copies nothing, counted at one end of the engine.
fn engine_writes(end: End, crc: bool) -> Result<(), Failure> {
    let mut link = Link::new(Nowhere, Places::anywhere(64 << 10), crc, SEGMENT);
    repeat(|meter| {
        let (transmit, receive) = meters(meter, end);
        transmit.run(|| {
            link.post_write();
            link.transmit()
        });
        link.carry();
        transmit.run(|| link.settle());
        receive.run(|| link.receive());
        Ok(())
    })
}

/// Calls the path this many times.
fn exercise(path: &Hot) -> Result<(), Failure> {
    match path.what {
        What::Region(step) => regions(step),
        What::Send(end) => engine_sends(end, path.crc),
        What::Write(end) => engine_writes(end, path.crc),
        What::Writes(confirmations) => engine_write_row(confirmations),
        What::Poll => {
            let pair = Pair::new(path.crc, 64, Receives::Own)?;
            repeat(|meter| Ok(meter.run(|| pair.active.poll()).map(drop)?))
        }
        What::HotPoll => {
            let pair = Pair::new(path.crc, 64, Receives::Own)?;
            repeat(|meter| {
                pair.passive.receive()?;
                pair.active.send()?;
                pair.drain(2)?;
                Ok(meter.run(|| pair.passive.poll()).map(drop)?)
            })
        }
        What::Take(receives) => {
            let pair = Pair::new(path.crc, 64, receives)?;
            repeat(|meter| {
                pair.passive.receive()?;
                pair.active.send()?;
                // On the loopback interface sent data has arrived when the call returns.
                let found = meter.run(|| pair.passive.poll())?;
                Ok(pair.drain(2 - found)?)
            })
        }
        What::Await => {
            let pair = Pair::new(path.crc, 64, Receives::Own)?;
            repeat(|meter| {
                pair.passive.receive()?;
                pair.active.send()?;
                let found = meter.run(|| pair.passive.wait())?;
                Ok(pair.drain(2 - found)?)
            })
        }
        What::Ready(receives) => {
            let pair = Pair::new(path.crc, 64, receives)?;
            repeat(|meter| {
                meter.run(|| pair.passive.receive())?;
                pair.active.send()?;
                Ok(pair.drain(2)?)
            })
        }
        What::Post => {
            let pair = Pair::new(path.crc, 64, Receives::Own)?;
            repeat(|meter| {
                pair.passive.receive()?;
                meter.run(|| pair.active.send())?;
                Ok(pair.drain(2)?)
            })
        }
        What::Row(end) => {
            let pair = Pair::new(path.crc, 64, Receives::Own)?;
            let row = DEPTH as usize;
            repeat(|meter| {
                let (transmit, receive) = meters(meter, end);
                receive.run(|| (0..row).try_for_each(|_| pair.passive.receive()))?;
                transmit.run(|| {
                    (0..row).try_for_each(|_| pair.active.send())?;
                    pair.active.take(row)
                })?;
                receive.run(|| pair.passive.take(row))?;
                Ok(())
            })
        }
    }
}

fn meters(meter: Meter, end: End) -> (Meter, Meter) {
    match end {
        End::Transmit => (meter, Meter::NEVER),
        End::Receive => (Meter::NEVER, meter),
    }
}

fn repeat(mut operation: impl FnMut(Meter) -> Result<(), Failure>) -> Result<(), Failure> {
    for round in 0..WARM_UP + OPERATIONS {
        operation(Meter {
            counts: round >= WARM_UP,
        })?;
    }
    Ok(())
}

/// Counts one path in its own process.
fn count(valgrind: &Path, path: &Hot, folder: &Path) -> Result<u64, Failure> {
    let out = folder.join("callgrind.out");
    let mut option = std::ffi::OsString::from("--callgrind-out-file=");
    option.push(&out);
    let run = Command::new(valgrind)
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
        // Threads take turns fairly, so that a spinning thread does not starve the other.
        .arg("--fair-sched=try")
        .arg(format!("--toggle-collect={MEASURED}"))
        .arg(option)
        .arg(env::current_exe()?)
        .args(["--exercise", path.name])
        .stdin(Stdio::null())
        .output()?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        return Err(format!("{}: {}: {}", path.name, run.status, said.trim()).into());
    }
    let text = fs::read_to_string(&out)?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: ")?.trim().parse::<u64>().ok())
        .filter(|total| *total > 0)
        .ok_or_else(|| format!("{}: callgrind counted nothing", path.name))?;
    Ok(total / u64::from(OPERATIONS))
}

/// The build that the numbers of this run hold for.
fn build(valgrind: &Path) -> Result<Build, Failure> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let rustc = said(Command::new(rustc).arg("--version"))?;
    let crc = said(
        Command::new(valgrind)
            .args(["--tool=none", "--quiet"])
            .arg(env::current_exe()?)
            .arg("--routine"),
    )?;
    Ok(Build {
        rustc,
        target: format!("{}-{}", env::consts::ARCH, env::consts::OS),
        crc,
    })
}

fn said(command: &mut Command) -> Result<String, Failure> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn find(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Counts all paths whose name contains `filter`, and prints how they compare. False if one got worse.
fn compare(filter: &str, bless: bool) -> Result<bool, Failure> {
    let Some(valgrind) = find("valgrind") else {
        eprintln!("skipped: instructions: valgrind is not installed");
        return Ok(true);
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.toml");
    let mut baseline = Baseline::parse(&fs::read_to_string(&file)?)?;
    let build = build(&valgrind)?;
    let judged = build == baseline.build;
    if !judged && !bless {
        println!(
            "the baseline is of another build, nothing is judged:\n  {:?}\n  {build:?}",
            baseline.build
        );
    }
    let folder = tempfile::tempdir()?;
    let mut counts = BTreeMap::new();
    let mut good = true;
    for path in PATHS.iter().filter(|path| path.name.contains(filter)) {
        let now = count(&valgrind, path, folder.path())?;
        let verdict = baseline.judge(path.name, now, TOLERANCE);
        let before = baseline.instructions.get(path.name);
        let before = before.map_or_else(|| "-".to_owned(), u64::to_string);
        println!(
            "{:<45} {now:>8} instructions, before {before:>8}: {verdict:?}",
            path.name
        );
        good &= verdict != Verdict::Worse || !judged;
        counts.insert(path.name.to_owned(), now);
    }
    let (placed, sent, most) = CONFIRMED;
    if let (Some(placed), Some(sent)) = (counts.get(placed), counts.get(sent)) {
        println!("a confirmed Write: {placed} for {sent}, and {most} % are allowed");
        good &= placed * 100 <= sent * most;
    }
    if bless {
        if build != baseline.build {
            // One file never has the numbers of two builds.
            baseline.instructions.clear();
        }
        baseline.instructions.extend(counts);
        baseline
            .instructions
            .retain(|name, _| PATHS.iter().any(|path| path.name == name));
        baseline.build = build;
        fs::write(&file, baseline.print())?;
        println!("written to {}", file.display());
        return Ok(true);
    }
    Ok(good)
}

fn run() -> Result<bool, Failure> {
    let mut words = env::args().skip(1);
    let (mut filter, mut bless) = (String::new(), false);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--exercise" => {
                let name = words.next().ok_or("--exercise wants a name")?;
                let path = PATHS.iter().find(|path| path.name == name);
                exercise(path.ok_or("no such path")?)?;
                return Ok(true);
            }
            "--routine" => {
                let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
                println!("{}", crc_fast::get_calculator_target(algorithm));
                return Ok(true);
            }
            "--bless" => bless = true,
            // Options of cargo and criterion mean nothing here.
            option if option.starts_with('-') => {}
            _ => filter = word,
        }
    }
    compare(&filter, bless)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!(
                "some paths need more instructions; if that is meant, run again with -- --bless"
            );
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
