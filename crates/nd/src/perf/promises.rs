//! `nd perf table`: what the project promises of its speed, measured and judged row by row.

use std::time::Duration;

use super::args::TableArgs;
use super::local::Second;
use super::report;
use super::row::{Outcome, Plan, measure};
use super::spec::{Mode, Op, Placement, Spec, Test};
use crate::errors::{Failure, Result};
use crate::output::{self, Paint};
use crate::table::{Align, Table};

/// What a row has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Promise {
    /// Throughput, at least so much of the bare socket's.
    Share(f64),
    /// Latency, at most so many times the bare socket's: at the median, and at the 99th percentile.
    Times(f64, Option<f64>),
    /// At least so many messages per second.
    Messages(f64),
}

/// What was reached.
#[derive(Clone, Debug, PartialEq)]
struct Verdict {
    measured: String,
    /// How far the turns lie apart.
    spread: String,
    wanted: String,
    holds: bool,
}

impl Promise {
    fn judge(self, outcome: &Outcome) -> Verdict {
        let ratio = outcome.baseline.as_ref().and_then(|best| best.ratio);
        let typical = ratio.map_or(f64::NAN, |ratio| ratio.typical);
        let spread = ratio.map_or_else(String::new, |ratio| {
            format!("{:.2}–{:.2}", ratio.quartiles.0, ratio.quartiles.1)
        });
        let verdict = |measured, wanted, holds: bool| Verdict {
            measured,
            spread: spread.clone(),
            wanted,
            holds: holds && outcome.complete,
        };
        // Whatever is no number holds nothing.
        match self {
            Self::Share(least) => verdict(
                format!("{typical:.2}"),
                format!("at least {least:.2}"),
                typical >= least,
            ),
            Self::Times(most, None) => verdict(
                format!("p50 {typical:.2}"),
                format!("p50 at most {most:.2}"),
                typical <= most,
            ),
            Self::Times(most, Some(most_p99)) => {
                let p99 = ratio.and_then(|ratio| ratio.p99).unwrap_or(f64::NAN);
                verdict(
                    format!("p50 {typical:.2}, p99 {p99:.2}"),
                    format!("p50 at most {most:.2}, p99 {most_p99:.2}"),
                    typical <= most && p99 <= most_p99,
                )
            }
            Self::Messages(least) => {
                let rate = outcome.figures.msgs_per_s;
                verdict(
                    format!("{:.2} million/s", rate / 1e6),
                    format!("at least {:.1} million/s", least / 1e6),
                    rate >= least,
                )
            }
        }
    }

    /// Whether the bare socket is what it is about.
    fn compares(self) -> bool {
        !matches!(self, Self::Messages(_))
    }
}

/// What this command cannot measure.
const ELSEWHERE: &str =
    "Not measured here: 10,000 idle connections, set-up and tear-down, other programs.";

fn promises() -> Vec<(Spec, Promise)> {
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
        connections: 0,
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
    // Where a promise does not speak of CRC, it is kept with and without.
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
    }
    for (crc, share) in [(false, 0.65), (true, 0.55)] {
        let cut = Spec {
            segment: Some(1448),
            ..flow(Op::Write, MIB, 32, crc)
        };
        all.push((cut, Promise::Share(share)));
    }
    all
}

/// Measures all promises, prints which hold, and fails if one does not.
pub(super) fn run(args: &TableArgs, verbose: u8) -> Result<()> {
    let promises = promises();
    let mut plan = Plan {
        baseline: true,
        turns: if args.quick { 9 } else { 31 },
        length: Duration::from_millis(if args.quick { 30 } else { 60 }),
        idle: Duration::ZERO,
    };
    let bar = super::progress(promises.iter().map(|(spec, _)| spec), &plan);
    let columns = [
        ("what", Align::Left),
        ("size", Align::Right),
        ("measured", Align::Left),
        ("half of the turns", Align::Left),
        ("promised", Align::Left),
        ("", Align::Left),
    ];
    let mut table = Table::new(columns);
    let paint = Paint::for_stdout();
    let mut broken = 0;
    for (spec, promise) in &promises {
        bar.set_message(report::title(spec));
        plan.baseline = promise.compares();
        let verdict = match attempt(spec, &plan, verbose, &|| bar.inc(1)) {
            Ok(outcome) => promise.judge(&outcome),
            Err(failure) => Verdict {
                measured: failure.what(),
                spread: String::new(),
                wanted: String::new(),
                holds: false,
            },
        };
        broken += usize::from(!verdict.holds);
        table.row([
            report::title(spec),
            spec.size.to_string(),
            verdict.measured,
            verdict.spread,
            verdict.wanted,
            if verdict.holds { "holds" } else { "MISSED" }.to_owned(),
        ]);
    }
    bar.finish_and_clear();
    output::line(table.to_string().trim_end())?;
    output::line("")?;
    output::line(ELSEWHERE)?;
    let all = promises.len();
    output::line(paint.bold(format_args!("{} of {all} hold", all - broken)))?;
    if broken == 0 {
        return Ok(());
    }
    Err(Failure::new(
        format!("{broken} of {all} promises do not hold"),
        "measure on a machine that does nothing else, with a release build",
    ))
}

/// Measures one row in a process pair of its own, so that a row that fails does not end the others.
fn attempt(spec: &Spec, plan: &Plan, verbose: u8, progress: &dyn Fn()) -> Result<Outcome> {
    let second = Second::start(verbose)?;
    let mut control = super::connect(&[second.address], "the second process")?;
    let (outcome, done) = measure(&mut control, spec, plan, progress);
    done.map(|()| outcome)
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{bandwidth, latency};
    use super::*;

    #[test]
    fn every_promise_can_be_measured() {
        for (spec, promise) in promises() {
            assert!(spec.check().is_ok(), "{spec}");
            assert_eq!(
                matches!(promise, Promise::Times(..)),
                spec.test == Test::Latency,
                "{spec}"
            );
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
}
