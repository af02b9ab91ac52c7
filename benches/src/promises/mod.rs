//! The promises that the project makes about its speed: measures each by `nd perf`, judges it, and writes the tables of
//! `docs/reports/performance.md`.
//!
//! [`rows`] names what is measured and promised. A [`Measurer`](measurer::Measurer) runs `nd perf local` for each row, and `nd perf device`
//! for the question about verbs, and reads their JSON ([`measured`]). [`judge`] compares the figures with the promises, [`line`](mod@line)
//! makes a line of each, and [`page`] writes the lines into a page.

pub mod judge;
pub mod line;
pub mod measured;
pub mod measurer;
pub mod page;
pub mod rows;

use conform_report::table::{Align, Table};
pub use nd_perf::cores::Watch;

use crate::compare::Failure;
use line::Line;
use rows::Question;

/// The questions to answer: those that were chosen, or all; that about verbs only with a device.
///
/// # Errors
///
/// If a device is named without the question about verbs, or the question is chosen without a device.
pub fn asked(chosen: &[Question], device: Option<&str>) -> Result<Vec<Question>, Failure> {
    let is_chosen = |question| chosen.is_empty() || chosen.contains(&question);
    match device {
        Some(_) if !is_chosen(Question::Verbs) => {
            return Err(Failure::new(
                "--device is for the question about verbs, which was left out; add verbs to --question, or leave out --device",
            ));
        }
        None if chosen.contains(&Question::Verbs) => {
            return Err(Failure::new(
                "the question about verbs needs an RDMA device; name it with --device (`rdma link` shows the devices of this machine)",
            ));
        }
        _ => {}
    }
    let questions = Question::ALL.into_iter();
    let questions = questions.filter(|question| match question {
        Question::Verbs => device.is_some(),
        _ => is_chosen(*question),
    });
    Ok(questions.collect())
}

/// Adds the lines of a run to those of the runs before, which have the same lines in the same order.
pub fn add(lines: &mut Vec<Line>, run: Vec<Line>) {
    for (at, line) in run.into_iter().enumerate() {
        match lines.get_mut(at) {
            Some(known) => known.add(line),
            None => lines.push(line),
        }
    }
}

/// The number of promises that do not hold.
#[must_use]
pub fn count_broken(lines: &[Line]) -> usize {
    lines.iter().filter(|line| !line.runs.hold()).count()
}

/// An error that names the number of promises that do not hold, if there are any, and what to do.
///
/// # Errors
///
/// If a promise does not hold.
pub fn verdict(lines: &[Line]) -> Result<(), Failure> {
    let (all, broken) = (lines.len(), count_broken(lines));
    if broken == 0 {
        return Ok(());
    }
    let unmeasured = lines.iter().filter(|line| !line.is_measured()).count();
    let what = format!("{broken} of {all} promises do not hold");
    Err(Failure::new(if unmeasured > 0 {
        format!("{what}, of which {unmeasured} could not be measured; their rows say why")
    } else {
        format!("{what}; measure on a machine that does nothing else, with a release build")
    }))
}

/// The lines as tables for a terminal, one for each question.
#[must_use]
pub fn tables(lines: &[Line]) -> String {
    let mut text = String::new();
    for question in Question::ALL {
        let mut table = Table::new([
            ("what", Align::Left),
            ("size", Align::Right),
            ("measured", Align::Left),
            ("half of the turns", Align::Left),
            ("promised", Align::Left),
            ("", Align::Left),
        ]);
        let mut lines = lines
            .iter()
            .filter(|line| line.question == question)
            .peekable();
        if lines.peek().is_none() {
            continue;
        }
        for line in lines {
            table.row([
                line.title.clone(),
                line.sizes.clone(),
                line.measured(),
                line.verdict.spread.clone(),
                line.wanted.clone(),
                line.runs.verdict("holds", "MISSED"),
            ]);
        }
        text += &format!("{}\n{}\n\n", question.text(), table.to_string().trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::judge::Promise;
    use super::line::Runs;
    use super::measurer::judged;
    use super::measurer::tests::{outcome, row};
    use super::*;

    #[test]
    fn the_question_about_verbs_needs_a_device_and_the_others_do_not() {
        let questions = asked(&[], None).unwrap();
        assert_eq!(questions.len(), Question::ALL.len() - 1);
        assert!(!questions.contains(&Question::Verbs));
        assert_eq!(asked(&[Question::Udp], None).unwrap(), [Question::Udp]);
        let with_device = asked(&[Question::Verbs], Some("one0")).unwrap();
        assert_eq!(with_device, [Question::Verbs]);
        assert_eq!(asked(&[], Some("one0")).unwrap(), Question::ALL);
        for (question, device, part) in [
            (Question::Verbs, None, "needs an RDMA device"),
            (Question::Udp, Some("one0"), "--device is for"),
        ] {
            let failure = asked(&[question], device).unwrap_err();
            assert!(failure.to_string().contains(part), "{failure}");
        }
    }

    #[test]
    fn of_several_runs_the_worst_is_shown_and_all_have_to_hold() {
        let row = row(&[8], &[Promise::Share(0.9), Promise::Share(1.1)]);
        let mut lines = Vec::new();
        for complete in [true, false, true] {
            add(&mut lines, judged(&row, &[outcome(8, complete)]));
        }
        let verdicts: Vec<_> = lines
            .iter()
            .map(|line| line.runs.verdict("yes", "no"))
            .collect();
        assert_eq!(verdicts, ["no in 1 of 3", "no"]);
        assert!(!lines[0].verdict.holds);
        assert_eq!(count_broken(&lines), 2);
        let text = tables(&lines);
        assert!(text.starts_with("How much goes through?\n") && text.contains("MISSED in 1 of 3"));
        lines.truncate(1);
        lines[0].runs = Runs { held: 3, all: 3 };
        assert_eq!(lines[0].runs.verdict("yes", "no"), "yes");
        assert_eq!(count_broken(&lines), 0);
    }

    #[test]
    fn a_row_that_fails_shows_the_reason_and_not_what_to_do_about_speed() {
        let row = row(&[8, 16], &[Promise::Share(0.0)]);
        let why = || Err("no adapter".to_owned());
        let lines = judged(&row, &[outcome(8, true), (Some(16), why())]);
        assert_eq!(lines[0].measured(), "no adapter at 16 B");
        let failure = verdict(&lines).unwrap_err().to_string();
        assert!(
            failure.contains("1 of 1 promises do not hold, of which 1 could not be measured"),
            "{failure}"
        );
        let slow = judged(&row, &[outcome(8, false)]);
        let failure = verdict(&slow).unwrap_err().to_string();
        assert!(failure.contains("does nothing else"), "{failure}");
        assert!(verdict(&judged(&row, &[outcome(8, true)])).is_ok());
    }
}
