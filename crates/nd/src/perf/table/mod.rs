//! `nd perf table`: measures and judges, row by row, what the project promises about its speed.

mod judge;
mod line;
mod page;
mod rows;
mod verbs;

use std::cell::RefCell;
use std::time::Duration;

use judge::{Promise, Verdict};
use line::Line;
use nd::cores::Watch;
use rows::PromisedRow;
pub(super) use rows::Question;
use verbs::OnDevice;

use super::affinity;
use super::args::TableArgs;
use super::local::Second;
use super::outcome::Outcome;
use super::plan::{Plan, TIMEOUT};
use super::report;
use super::row::{await_cores, measure};
use super::spec::{Spec, Transport};
use super::sweep;
use crate::errors::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::{self, Paint};
use crate::output_file::OutputFile;
use crate::units;
use conform_report::table::{Align, Table};

/// The remark about what was left out, with a device and without one.
const ELSEWHERE: [&str; 2] = [
    "Not measured here: other programs over TCP and UDP.",
    "Not measured here: an RDMA device beside perftest (--device), and other programs over TCP and UDP.",
];

/// The questions to answer, and the device that one of them is about.
fn asked(args: &TableArgs) -> Result<(Vec<Question>, Option<OnDevice>)> {
    let chosen = |question| args.question.is_empty() || args.question.contains(&question);
    let about_verbs = chosen(Question::Verbs);
    let device = match &args.device {
        Some(_) if !about_verbs => {
            return Err(Failure::new(
                "--device is for the question about verbs, which was left out",
                "add verbs to --question, or leave out --device",
            ));
        }
        Some(name) => Some(OnDevice::find(name, if args.quick { 3 } else { 9 })?),
        None if about_verbs && !args.question.is_empty() => {
            return Err(Failure::new(
                "the question about verbs needs an RDMA device",
                "name it with --device; `rdma link` shows the devices of this machine",
            ));
        }
        None => None,
    };
    let questions = Question::ALL.into_iter();
    let questions = questions.filter(|question| match question {
        Question::Verbs => device.is_some(),
        _ => chosen(*question),
    });
    Ok((questions.collect(), device))
}

/// Measures all promises, prints which hold, and fails if one does not.
pub(super) fn run(args: &TableArgs, verbose: u8) -> Result<()> {
    let (questions, device) = asked(args)?;
    let page = if let Some(path) = &args.write {
        // Checked before anything is measured.
        page::filled(path, args.variant.as_deref(), &questions, &[], "")?;
        Some(OutputFile::open(path, "page")?)
    } else {
        None
    };
    // Done now, because this process is later bound to one of its cores.
    let machine = nd::machine::summary();
    let mut rows = rows::rows();
    rows.retain(|row| questions.contains(&row.question));
    let plan = Plan {
        baseline: None,
        turns: if args.quick { 9 } else { 31 },
        length: Duration::from_millis(if args.quick { 30 } else { 60 }),
        idle: Duration::from_secs(if args.quick { 1 } else { 3 }),
        url: None,
        fault: None,
        pin: None,
        timeout: TIMEOUT,
        steady: true,
        usual: None,
    };
    let runs = args.runs.get();
    affinity::note_one_processor(rows.iter().flat_map(|row| &row.specs));
    let all = (0..runs).flat_map(|_| rows.iter().flat_map(|row| &row.specs));
    let bar = sweep::progress(all, &plan);
    let of_device = device.as_ref().map_or(0, OnDevice::steps);
    bar.inc_length(of_device * u64::from(runs));
    let mut lines = Vec::new();
    let interrupt = Interrupt::watch();
    let progress = || {
        bar.inc(1);
        interrupt.check()
    };
    let cores = RefCell::new(Watch::default());
    let one = |spec: &Spec, row: &PromisedRow| {
        bar.set_message(report::title(spec));
        let plan = plan.after(&cores.borrow());
        let outcome = attempt(spec, row, &plan, verbose, &progress)?;
        cores.borrow_mut().add(&outcome.cores);
        Ok(outcome)
    };
    for _ in 0..runs {
        let mut run = measured(&rows, &one, &interrupt);
        if let Some(device) = &device
            && !interrupt.came()
        {
            run.extend(device.measured(&interrupt, &|title| {
                bar.set_message(title);
                bar.inc(1);
            }));
        }
        for (at, line) in run.into_iter().enumerate() {
            add(&mut lines, at, line);
        }
    }
    bar.finish_and_clear();
    show(&lines, &cores.borrow(), device.is_some())?;
    interrupt.end_if_came();
    if let (Some(path), Some(page)) = (&args.write, page) {
        let text = page::filled(
            path,
            args.variant.as_deref(),
            &questions,
            &lines,
            &page::remark(
                &turns(&rows, &plan, device.as_ref()),
                runs,
                &machine,
                &cores.borrow(),
            ),
        )?;
        page.write(&text)?;
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

/// Returns how often each kind of comparison was made.
fn turns(rows: &[PromisedRow], plan: &Plan, device: Option<&OnDevice>) -> String {
    let mut turns = Vec::new();
    if !rows.is_empty() {
        let (count, length) = (plan.turns, units::time(plan.length));
        turns.push(format!(
            "{count} turns of {length} for each side of a comparison, over loopback"
        ));
    }
    turns.extend(device.map(OnDevice::turns));
    turns.join(", and ")
}

/// Measures all rows once. An interrupt leaves out the row that it came to, and those behind.
fn measured(
    rows: &[PromisedRow],
    one: &dyn Fn(&Spec, &PromisedRow) -> Result<Outcome>,
    interrupt: &Interrupt,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in rows {
        let mut outcomes = Vec::new();
        for spec in &row.specs {
            if interrupt.came() {
                return lines;
            }
            outcomes.push((*spec, one(spec, row)));
        }
        if interrupt.came() {
            return lines;
        }
        lines.extend(judged(row, &outcomes));
    }
    lines
}

/// A line for each promise of a row: of several sizes the worst.
fn judged(row: &PromisedRow, outcomes: &[(Spec, Result<Outcome>)]) -> Vec<Line> {
    let sizes = match &*row.specs {
        [first, .., last] => Some([first.size, last.size]),
        _ => None,
    };
    let line = |promise: &Promise| {
        let mut worst: Option<Line> = None;
        for (spec, outcome) in outcomes {
            let verdict = match outcome {
                Ok(outcome) => promise.judge(outcome),
                Err(failure) => Verdict::failed(failure.what()),
            };
            let is_worse = worst
                .as_ref()
                .is_none_or(|worst| verdict.is_worse_than(&worst.verdict));
            if is_worse {
                worst = Some(Line::new(row.question, spec, sizes, *promise, verdict));
            }
        }
        worst
    };
    row.promises.iter().filter_map(line).collect()
}

/// Puts in a line that is at this place of every run.
fn add(lines: &mut Vec<Line>, at: usize, line: Line) {
    match lines.get_mut(at) {
        Some(known) => known.add(line),
        None => lines.push(line),
    }
}

fn count_broken(lines: &[Line]) -> usize {
    lines.iter().filter(|line| !line.runs.hold()).count()
}

fn show(lines: &[Line], cores: &Watch, with_device: bool) -> Result<()> {
    for question in Question::ALL {
        let columns = [
            ("what", Align::Left),
            ("size", Align::Right),
            ("measured", Align::Left),
            ("half of the turns", Align::Left),
            ("promised", Align::Left),
            ("", Align::Left),
        ];
        let mut table = Table::new(columns);
        let mut any = false;
        for line in lines.iter().filter(|line| line.question == question) {
            any = true;
            table.row([
                line.title.clone(),
                line.sizes.clone(),
                line.measured(),
                line.verdict.spread.clone(),
                line.wanted.clone(),
                line.runs.told("holds", "MISSED"),
            ]);
        }
        if any {
            output::line(Paint::for_stdout().bold(question.text()))?;
            output::line(table.to_string().trim_end())?;
            output::line("")?;
        }
    }
    output::line("A row holds if the worse quartile of its turns does, in every run.")?;
    if *cores != Watch::default() {
        output::line(cores)?;
    }
    output::line(ELSEWHERE[usize::from(!with_device)])?;
    let (all, broken) = (lines.len(), count_broken(lines));
    output::line(Paint::for_stdout().bold(format_args!("{} of {all} hold", all - broken)))
}

/// Measures one size of a row in its own process pair, so that one that fails does not end the others.
fn attempt(
    spec: &Spec,
    row: &PromisedRow,
    plan: &Plan,
    verbose: u8,
    progress: &dyn Fn() -> Result<()>,
) -> Result<Outcome> {
    await_cores(plan)?;
    let second = Second::start(verbose, spec.receives, None)?;
    let mut control = sweep::connect(&[second.address], "the second process")?;
    let over_udp = spec.transport == Transport::Udp;
    let plan = Plan {
        baseline: row
            .promises
            .iter()
            .find_map(|promise| promise.baseline(spec)),
        pin: sweep::certificates(&mut control, over_udp)?,
        ..plan.clone()
    };
    let (outcome, done) = measure(&mut control, spec, &plan, progress);
    done?;
    drop(control);
    second.finish();
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::bandwidth;
    use super::line::Runs;
    use super::*;

    fn args(question: &[Question], device: Option<&str>) -> TableArgs {
        TableArgs {
            quick: false,
            runs: std::num::NonZeroU32::MIN,
            question: question.to_vec(),
            write: None,
            variant: None,
            device: device.map(str::to_owned),
        }
    }

    #[test]
    fn the_question_about_verbs_needs_a_device_and_the_others_do_not() {
        let (questions, device) = asked(&args(&[], None)).expect("all but one");
        assert_eq!(questions.len(), Question::ALL.len() - 1);
        assert!(device.is_none() && !questions.contains(&Question::Verbs));
        let (questions, _) = asked(&args(&[Question::Udp], None)).expect("one");
        assert_eq!(questions, [Question::Udp]);
        for (question, device, part) in [
            (Question::Verbs, None, "needs an RDMA device"),
            (Question::Udp, Some("none0"), "--device is for"),
        ] {
            let failure = asked(&args(&[question], device)).expect_err(part);
            assert!(failure.to_string().contains(part), "{failure}");
        }
        assert!(asked(&args(&[Question::Verbs], Some("none0"))).is_err());
    }

    #[test]
    fn of_several_sizes_the_worst_is_shown() {
        let outcome = |size, complete| {
            let outcome = bandwidth();
            let spec = Spec {
                size,
                ..outcome.spec
            };
            (
                spec,
                Ok(Outcome {
                    spec,
                    complete,
                    ..outcome
                }),
            )
        };
        let outcomes = [outcome(8, true), outcome(16, false), outcome(32, true)];
        let row = PromisedRow {
            question: Question::Through,
            specs: outcomes.iter().map(|(spec, _)| *spec).collect(),
            promises: vec![Promise::Share(0.9)],
        };
        let lines = judged(&row, &outcomes);
        let [line] = &*lines else {
            panic!("one promise, {} lines", lines.len())
        };
        assert!(!line.verdict.holds);
        assert_eq!(
            (&*line.sizes, &*line.measured()),
            ("8 B to 32 B", "1.00 at 16 B")
        );
    }

    #[test]
    fn of_several_runs_the_worst_is_shown_and_all_have_to_hold() {
        let row = PromisedRow {
            question: Question::Through,
            specs: vec![bandwidth().spec],
            promises: vec![Promise::Share(0.9), Promise::Share(1.1)],
        };
        let mut lines = Vec::new();
        for complete in [true, false, true] {
            let outcome = bandwidth();
            let outcomes = [(
                outcome.spec,
                Ok(Outcome {
                    complete,
                    ..outcome
                }),
            )];
            for (at, line) in judged(&row, &outcomes).into_iter().enumerate() {
                add(&mut lines, at, line);
            }
        }
        let told: Vec<_> = lines
            .iter()
            .map(|line| line.runs.told("yes", "no"))
            .collect();
        assert_eq!(told, ["no in 1 of 3", "no"]);
        assert!(!lines[0].verdict.holds);
        assert_eq!(count_broken(&lines), 2);
        lines.truncate(1);
        lines[0].runs = Runs { held: 3, all: 3 };
        assert_eq!(lines[0].runs.told("yes", "no"), "yes");
        assert_eq!(count_broken(&lines), 0);
    }
}
