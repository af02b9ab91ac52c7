//! `nd perf table`: measures and judges, row by row, what the project promises about its speed.

use std::path::Path;
use std::time::Duration;

use nd::page;

use super::args::TableArgs;
use super::local::Second;
use super::outcome::Outcome;
use super::plan::{Baseline, Plan, TIMEOUT};
use super::report;
use super::row::measure;
use super::spec::{Mode, Op, Placement, Receives, Spec, Test, Transport};
use super::stats::Ratio;
use super::sweep;
use crate::errors::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::{self, Paint};
use crate::table::{Align, Table};
use crate::units;

/// What a row has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Promise {
    /// Throughput, at least so much of the bare socket's.
    Share(f64),
    /// Latency, at most so many times the bare socket's: at the median, and at the 99th percentile.
    Times(f64, Option<f64>),
    /// At least so many messages per second.
    Messages(f64),
    /// With shared Receives, at least so many times as fast as with Receives of each queue pair's own.
    OwnReceives(f64),
    /// At most so many octets of each idle connection, at either side.
    Memory(f64),
    /// Less than so much of a core while nothing happens, at either side.
    Idle(f64),
    /// Latency on one of many connections, at most so many times that of a single connection.
    OneOfMany(f64),
    /// At least so many connections set up and torn down per second.
    Connections(f64),
}

/// What was reached.
#[derive(Clone, Debug, PartialEq)]
struct Verdict {
    measured: String,
    /// The spread of the turns.
    spread: String,
    holds: bool,
}

impl Promise {
    fn judge(self, outcome: &Outcome) -> Verdict {
        let mut ratio = outcome.baseline.as_ref().and_then(|best| best.ratio);
        if matches!(self, Self::OwnReceives(_)) && outcome.spec.is_timed() {
            ratio = ratio.map(Ratio::inverted); // of speeds, not of times
        }
        let typical = ratio.map_or(f64::NAN, |ratio| ratio.typical);
        let p99 = ratio.and_then(|ratio| ratio.p99).unwrap_or(f64::NAN);
        let rate = outcome.figures.msgs_per_s;
        // A result that is not a number does not hold.
        let (measured, holds) = match self {
            Self::Share(least) | Self::OwnReceives(least) => {
                (units::decimal(typical, 2), typical >= least)
            }
            Self::Times(most, None) | Self::OneOfMany(most) => {
                (format!("p50 {typical:.2}"), typical <= most)
            }
            Self::Times(most, Some(most_p99)) => (
                format!("p50 {typical:.2}, p99 {p99:.2}"),
                typical <= most && p99 <= most_p99,
            ),
            Self::Messages(least) => (format!("{:.2} million/s", rate / 1e6), rate >= least),
            Self::Memory(most) => {
                let each = higher(outcome.costs.memory);
                (format!("{:.1} KiB", each / 1024.0), each <= most)
            }
            Self::Idle(limit) => {
                let share = higher(outcome.costs.cpu);
                (format!("{:.2} %", share * 100.0), share < limit)
            }
            Self::Connections(least) => (format!("{rate:.0}/s"), rate >= least),
        };
        let spread = ratio.filter(|_| self.compares()).map(
            |Ratio {
                 quartiles: (low, high),
                 ..
             }| { format!("{}–{}", units::decimal(low, 2), units::decimal(high, 2)) },
        );
        Verdict {
            measured,
            spread: spread.unwrap_or_default(),
            holds: holds && outcome.complete,
        }
    }

    fn wanted(self) -> String {
        match self {
            Self::Share(least) => format!("at least {least:.2} of raw TCP"),
            Self::Times(most, None) => format!("p50 at most {most:.2} of raw TCP"),
            Self::Times(most, Some(p99)) => {
                format!("p50 at most {most:.2} of raw TCP, p99 {p99:.2}")
            }
            Self::Messages(least) => format!("at least {:.1} million/s", least / 1e6),
            Self::OwnReceives(least) => {
                format!("at least {least:.2} times as fast as with own Receives")
            }
            Self::Memory(most) => format!("at most {:.0} KiB each", most / 1024.0),
            Self::Idle(limit) => format!("below {:.0} % of a core", limit * 100.0),
            Self::OneOfMany(most) => format!("p50 at most {most:.2} of one alone"),
            Self::Connections(least) => format!("at least {least:.0}/s"),
        }
    }

    /// The part of a row that the promise is about, if a row has several.
    fn part(self) -> Option<&'static str> {
        match self {
            Self::Share(_)
            | Self::Times(..)
            | Self::Messages(_)
            | Self::OwnReceives(_)
            | Self::Connections(_) => None,
            Self::Memory(_) => Some("memory beyond posted buffers and kernel sockets"),
            Self::Idle(_) => Some("background CPU"),
            Self::OneOfMany(_) => Some("ping-pong on one"),
        }
    }

    /// What has to take turns with the row.
    fn baseline(self) -> Option<Baseline> {
        match self {
            Self::Share(_) | Self::Times(..) => Some(Baseline::Tcp),
            Self::OwnReceives(_) => Some(Baseline::Own),
            _ => None,
        }
    }

    /// Whether the promise is about a ratio.
    fn compares(self) -> bool {
        self.baseline().is_some() || matches!(self, Self::OneOfMany(_))
    }
}

/// The higher figure of both sides. Not a number if a side does not know its figure, which might be anything.
fn higher(sides: [Option<f64>; 2]) -> f64 {
    match sides {
        [Some(here), Some(there)] => here.max(there),
        _ => f64::NAN,
    }
}

/// The part of the page that this command writes.
const PART: &str = "numbers";

/// The remark about what this command cannot measure.
const ELSEWHERE: &str = "Not measured here: other programs.";

/// A measurement, and all promises about it.
type Row = (Spec, Vec<Promise>);

fn promises() -> Vec<Row> {
    const KIB: u32 = 1 << 10;
    const MIB: u32 = 1 << 20;
    let flow = |op, size, depth, crc| Spec {
        op,
        test: Test::Bandwidth,
        size,
        depth,
        mode: Mode::Poll,
        crc,
        segment: None,
        placement: Placement::Apart,
        transport: Transport::Tcp,
        connections: 0,
        receives: Receives::Own,
    };
    let ping = |op, mode, crc| Spec {
        test: Test::Latency,
        mode,
        ..flow(op, 8, 1, crc)
    };
    let mut all = vec![
        (flow(Op::Write, 64 * KIB, 32, false), Promise::Share(0.95)),
        (flow(Op::Write, MIB, 32, false), Promise::Share(0.95)),
        (flow(Op::Write, 64 * KIB, 32, true), Promise::Share(0.75)),
        (flow(Op::Write, MIB, 32, true), Promise::Share(0.75)),
        (flow(Op::Read, MIB, 16, false), Promise::Share(0.90)),
        (flow(Op::Send, 64 * KIB, 32, false), Promise::Share(0.95)),
    ];
    // A promise that does not mention CRC holds with and without CRC.
    for crc in [false, true] {
        let event = ping(Op::Send, Mode::Event, crc);
        let rate = Spec {
            test: Test::Rate,
            ..flow(Op::Send, 64, 128, crc)
        };
        all.extend([
            (
                ping(Op::Send, Mode::Poll, crc),
                Promise::Times(1.15, Some(1.5)),
            ),
            (ping(Op::Write, Mode::Poll, crc), Promise::Times(1.15, None)),
            (event, Promise::Times(1.15, None)),
            (
                Spec {
                    placement: Placement::Together,
                    ..event
                },
                Promise::Times(1.5, None),
            ),
            (
                ping(Op::Write, Mode::Memory, crc),
                Promise::Times(3.0, None),
            ),
            (rate, Promise::Messages(4e6)),
        ]);
        for row in [ping(Op::Send, Mode::Poll, crc), rate] {
            let receives = Receives::Shared;
            all.push((Spec { receives, ..row }, Promise::OwnReceives(0.95)));
        }
    }
    for (crc, share) in [(false, 0.65), (true, 0.55)] {
        let cut = Spec {
            segment: Some(1448),
            ..flow(Op::Write, MIB, 32, crc)
        };
        all.push((cut, Promise::Share(share)));
    }
    let mut all: Vec<Row> = all
        .into_iter()
        .map(|(spec, promise)| (spec, vec![promise]))
        .collect();
    for crc in [false, true] {
        all.extend(of_connections(ping(Op::Send, Mode::Poll, crc)));
    }
    all
}

/// The promises about many connections, measured with this ping-pong.
fn of_connections(ping: Spec) -> [Row; 2] {
    let scale = Spec {
        test: Test::Scale,
        connections: 10_000,
        ..ping
    };
    let setup = Spec {
        test: Test::Setup,
        mode: Mode::Event,
        ..ping
    };
    [
        (
            scale,
            vec![
                Promise::Memory(16.0 * 1024.0),
                Promise::Idle(0.01),
                Promise::OneOfMany(1.2),
            ],
        ),
        (setup, vec![Promise::Connections(4000.0)]),
    ]
}

/// One promise as it is shown.
struct Line {
    spec: Spec,
    promise: Promise,
    verdict: Verdict,
}

/// Measures all promises, prints which hold, and fails if one does not.
pub(super) fn run(args: &TableArgs, verbose: u8) -> Result<()> {
    if let Some(path) = &args.write {
        // Checked before anything is measured.
        place(path, "")?;
    }
    // Done now, because this process is later bound to one of its cores.
    let machine = nd::machine::summary();
    let rows = promises();
    let mut plan = Plan {
        baseline: None,
        turns: if args.quick { 9 } else { 31 },
        length: Duration::from_millis(if args.quick { 30 } else { 60 }),
        idle: Duration::from_secs(if args.quick { 1 } else { 3 }),
        url: None,
        fault: None,
        pin: None,
        timeout: TIMEOUT,
    };
    let bar = sweep::progress(rows.iter().map(|(spec, _)| spec), &plan);
    let mut lines = Vec::new();
    let interrupt = Interrupt::watch();
    let progress = || {
        bar.inc(1);
        interrupt.check()
    };
    for (spec, promises) in &rows {
        bar.set_message(report::title(spec));
        plan.baseline = promises.iter().find_map(|promise| promise.baseline());
        let outcome = attempt(spec, &plan, verbose, &progress);
        if interrupt.came() {
            break;
        }
        lines.extend(promises.iter().map(|promise| Line {
            spec: *spec,
            promise: *promise,
            verdict: match &outcome {
                Ok(outcome) => promise.judge(outcome),
                Err(failure) => Verdict {
                    measured: failure.what(),
                    spread: String::new(),
                    holds: false,
                },
            },
        }));
    }
    bar.finish_and_clear();
    show(&lines)?;
    interrupt.end_if_came();
    if let Some(path) = &args.write {
        let text = place(path, &markdown(&lines, &plan, &machine))?;
        std::fs::write(path, text)
            .map_err(|error| Failure::io(format_args!("write {}", path.display()), &error))?;
    }
    let (all, broken) = (lines.len(), count_broken(&lines));
    if broken == 0 {
        return Ok(());
    }
    Err(Failure::new(
        format!("{broken} of {all} promises do not hold"),
        "measure on a machine that does nothing else, with a release build",
    ))
}

fn count_broken(lines: &[Line]) -> usize {
    lines.iter().filter(|line| !line.verdict.holds).count()
}

fn show(lines: &[Line]) -> Result<()> {
    let columns = [
        ("what", Align::Left),
        ("size", Align::Right),
        ("measured", Align::Left),
        ("half of the turns", Align::Left),
        ("promised", Align::Left),
        ("", Align::Left),
    ];
    let mut table = Table::new(columns);
    for Line {
        spec,
        promise,
        verdict,
    } in lines
    {
        table.row([
            match promise.part() {
                Some(part) => format!("{}: {part}", report::title(spec)),
                None => report::title(spec),
            },
            if spec.test == Test::Setup {
                String::new()
            } else {
                spec.size.to_string()
            },
            verdict.measured.clone(),
            verdict.spread.clone(),
            promise.wanted(),
            if verdict.holds { "holds" } else { "MISSED" }.to_owned(),
        ]);
    }
    output::line(table.to_string().trim_end())?;
    output::line("")?;
    output::line(ELSEWHERE)?;
    let (all, broken) = (lines.len(), count_broken(lines));
    output::line(Paint::for_stdout().bold(format_args!("{} of {all} hold", all - broken)))
}

/// The page with the part in its place.
fn place(path: &Path, part: &str) -> Result<String> {
    let page = std::fs::read_to_string(path)
        .map_err(|error| Failure::io(format_args!("read {}", path.display()), &error))?;
    page::replace(&page, PART, part).map_err(|error| {
        Failure::new(
            format!("cannot write into {}: {error}", path.display()),
            "choose a page that has these two lines, such as docs/performance.md",
        )
    })
}

/// The results as text for the page.
fn markdown(lines: &[Line], plan: &Plan, machine: &str) -> String {
    let build = if cfg!(debug_assertions) {
        ", a build without optimisation"
    } else {
        ""
    };
    let mut text = format!(
        "Filled by `nd perf table` of nd {}{build}, with {} turns of {} per row, on {}, loopback. In brackets is what half of \
         the turns lie between.\n\n| what | required | measured | holds |\n|---|---|---|---|\n",
        env!("CARGO_PKG_VERSION"),
        plan.turns,
        units::time(plan.length),
        machine,
    );
    for Line {
        spec,
        promise,
        verdict,
    } in lines
    {
        let mut what = report::title(spec);
        if !spec.is_of_connections() {
            what += &format!(", {}", units::bytes(spec.size.into()));
        }
        if let Some(part) = promise.part() {
            what += &format!(": {part}");
        }
        let mut measured = verdict.measured.clone();
        if !verdict.spread.is_empty() {
            measured += &format!(" ({})", verdict.spread);
        }
        let holds = if verdict.holds { "yes" } else { "missed" };
        let cells = [what, promise.wanted(), measured, holds.to_owned()];
        text += &format!("| {} |\n", cells.map(|text| page::cell(&text)).join(" | "));
    }
    text
}

/// Measures one row in a process pair of its own, so that a row that fails does not end the others.
fn attempt(
    spec: &Spec,
    plan: &Plan,
    verbose: u8,
    progress: &dyn Fn() -> Result<()>,
) -> Result<Outcome> {
    let second = Second::start(verbose, spec.receives)?;
    let mut control = sweep::connect(&[second.address], "the second process")?;
    let (outcome, done) = measure(&mut control, spec, plan, progress);
    done.map(|()| outcome)
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{bandwidth, latency, scale, setup, shared};
    use super::*;

    #[test]
    fn every_promise_can_be_measured() {
        for (spec, promises) in promises() {
            assert!(spec.check().is_ok(), "{spec}");
            for promise in promises {
                let fits = match promise {
                    Promise::Times(..) => spec.test == Test::Latency,
                    Promise::Share(_) => spec.test == Test::Bandwidth,
                    Promise::Messages(_) => spec.test == Test::Rate,
                    Promise::OwnReceives(_) => {
                        spec.op == Op::Send && spec.receives == Receives::Shared
                    }
                    Promise::Memory(_) | Promise::Idle(_) | Promise::OneOfMany(_) => {
                        spec.test == Test::Scale && spec.connections == 10_000
                    }
                    Promise::Connections(_) => spec.test == Test::Setup,
                };
                assert!(fits, "{spec} {promise:?}");
            }
        }
    }

    #[test]
    fn shares_have_a_floor_and_latencies_a_ceiling() {
        // Both compare at 1.00 with their baselines.
        assert!(Promise::Share(0.95).judge(&bandwidth()).holds);
        assert!(!Promise::Share(1.01).judge(&bandwidth()).holds);
        assert!(Promise::Times(1.15, Some(1.5)).judge(&latency()).holds);
        assert!(!Promise::Times(0.99, None).judge(&latency()).holds);
        assert!(!Promise::Times(1.15, Some(0.99)).judge(&latency()).holds);
        assert!(Promise::Messages(9_000.0).judge(&bandwidth()).holds);
        assert!(!Promise::Messages(11_000.0).judge(&bandwidth()).holds);
    }

    #[test]
    fn shared_receives_are_judged_by_speed_whatever_was_measured() {
        let mut outcome = shared();
        let own = outcome.baseline.as_mut().expect("compared");
        // Three quarters of the speed.
        own.ratio = own.ratio.map(|ratio| Ratio {
            typical: 4.0 / 3.0,
            quartiles: (1.25, 2.0),
            ..ratio
        });
        let verdict = Promise::OwnReceives(0.75).judge(&outcome);
        assert_eq!(
            (verdict.measured.as_str(), verdict.spread.as_str()),
            ("0.75", "0.50–0.80")
        );
        assert!(verdict.holds);
        assert!(!Promise::OwnReceives(0.76).judge(&outcome).holds);
        // A ratio of rates is one of speeds already.
        outcome.spec.test = Test::Rate;
        assert!(Promise::OwnReceives(1.33).judge(&outcome).holds);
    }

    #[test]
    fn the_dearer_side_of_a_connection_counts() {
        assert!(Promise::Memory(6144.0).judge(&scale()).holds);
        assert!(!Promise::Memory(6143.0).judge(&scale()).holds);
        assert!(Promise::Idle(0.0021).judge(&scale()).holds);
        assert!(!Promise::Idle(0.002).judge(&scale()).holds);
        assert!(Promise::OneOfMany(1.0).judge(&scale()).holds);
        assert!(!Promise::OneOfMany(0.99).judge(&scale()).holds);
        assert!(Promise::Connections(10_000.0).judge(&setup()).holds);
        assert!(!Promise::Connections(10_001.0).judge(&setup()).holds);
        // What one side cannot tell might be anything.
        let mut half = scale();
        half.costs.memory[1] = None;
        half.costs.cpu[0] = None;
        assert!(!Promise::Memory(f64::MAX).judge(&half).holds);
        assert!(!Promise::Idle(1.0).judge(&half).holds);
    }

    #[test]
    fn what_was_not_measured_holds_nothing() {
        let without = Outcome {
            baseline: None,
            ..bandwidth()
        };
        assert!(!Promise::Share(0.0).judge(&without).holds);
        assert!(!Promise::Times(9.0, None).judge(&without).holds);
        let cut = Outcome {
            complete: false,
            ..bandwidth()
        };
        assert!(!Promise::Share(0.95).judge(&cut).holds);
    }

    fn line(outcome: Outcome, promise: Promise) -> Line {
        Line {
            spec: outcome.spec,
            promise,
            verdict: promise.judge(&outcome),
        }
    }

    #[test]
    fn the_page_has_a_line_for_every_promise() {
        let lines = [
            line(bandwidth(), Promise::Share(0.95)),
            line(latency(), Promise::Times(0.99, Some(1.5))),
            line(scale(), Promise::Memory(16_384.0)),
            line(scale(), Promise::Idle(0.01)),
            line(setup(), Promise::Connections(4000.0)),
            line(shared(), Promise::OwnReceives(0.95)),
            Line {
                verdict: Verdict {
                    measured: "cannot a | b".to_owned(),
                    spread: String::new(),
                    holds: false,
                },
                ..line(scale(), Promise::OneOfMany(1.2))
            },
        ];
        let plan = Plan {
            baseline: Some(Baseline::Tcp),
            turns: 31,
            length: Duration::from_millis(60),
            idle: Duration::ZERO,
            url: None,
            fault: None,
            pin: None,
            timeout: TIMEOUT,
        };
        let text = markdown(&lines, &plan, "3 cores of some kind");
        let title = "10 000 idle connections, Send latency on one, poll, CRC off";
        for wanted in [
            "31 turns of 60 ms",
            "on 3 cores of some kind, loopback",
            "| RDMA Write bandwidth, poll, CRC off, depth 32, 64 KiB | at least 0.95 of raw TCP | 1.00 (1.00–1.00) | yes |",
            "| p50 at most 0.99 of raw TCP, p99 1.50 | p50 1.00, p99 1.00 (1.00–1.00) | missed |",
            &format!(
                "| {title}: memory beyond posted buffers and kernel sockets | at most 16 KiB each | 6.0 KiB | yes |"
            ),
            &format!("| {title}: background CPU | below 1 % of a core | 0.20 % | yes |"),
            "beside 50 idle ones, CRC off | at least 4000/s | 10000/s | yes |",
            "CRC off, shared Receives, 64 KiB | at least 0.95 times as fast as with own Receives | 1.00 (1.00–1.00) | yes |",
            &format!(
                "| {title}: ping-pong on one | p50 at most 1.20 of one alone | cannot a \\| b | missed |"
            ),
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert_eq!(
            text.lines().filter(|line| line.starts_with('|')).count(),
            2 + lines.len()
        );
    }

    #[test]
    fn the_page_of_the_book_has_its_marks() {
        let page = include_str!("../../../../docs/performance.md");
        assert!(page::replace(page, PART, "new").is_ok());
    }
}
