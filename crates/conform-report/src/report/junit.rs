//! JUnit XML, which continuous integration reads.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::words::{LEFT_OUT, remark};
use crate::outcome::Outcome;
use crate::printable::printable;
use crate::run::{Entry, Run, Suite};

/// The whole report: one test suite for each section, and one for the checks that are not part of the run.
pub fn junit<F: Suite>(run: &Run<F>) -> String {
    let mut report = Report::new(text(&format!("{} {}", lower(F::TITLE), run.target)));
    let made: Vec<&Entry> = run.made().collect();
    for group in made.chunk_by(|a, b| a.check.section == b.check.section) {
        let entries = group.iter().copied();
        report.add_test_suite(suite(group[0].check.section, entries, run.strict));
    }
    let left_out: Vec<&Entry> = run.left_out().map(|(entry, _)| entry).collect();
    if !left_out.is_empty() {
        report.add_test_suite(suite(LEFT_OUT, left_out, run.strict));
    }
    if let Some(why) = run.ended_early() {
        let name = if run.lost.is_some() {
            "lives"
        } else {
            "is checked"
        };
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(text(&why));
        let mut case = TestCase::new(name, status);
        case.set_classname("target");
        let mut suite = TestSuite::new("target");
        suite.add_test_case(case);
        report.add_test_suite(suite);
    }
    // It fails only if writing fails, and memory takes everything.
    report.to_string().unwrap_or_default()
}

fn suite<'a>(name: &str, entries: impl IntoIterator<Item = &'a Entry>, strict: bool) -> TestSuite {
    let mut suite = TestSuite::new(text(name));
    let mut skips = 0;
    for entry in entries {
        skips += u32::from(matches!(
            entry.outcome,
            Outcome::Skip(_) | Outcome::LeftOut(_)
        ));
        suite.add_test_case(case(entry, strict));
    }
    // The library counts them as disabled; most readers know this name.
    suite
        .extra
        .insert("skipped".into(), skips.to_string().into());
    suite
}

fn case(entry: &Entry, strict: bool) -> TestCase {
    let remark = text(&remark(&entry.outcome));
    let counts = entry.counts(strict);
    let mut status = match &entry.outcome {
        Outcome::Skip(_) | Outcome::LeftOut(_) => TestCaseStatus::skipped(),
        _ if counts => TestCaseStatus::non_success(NonSuccessKind::Failure),
        _ => TestCaseStatus::success(),
    };
    let is_success = matches!(status, TestCaseStatus::Success { .. });
    if !is_success {
        status.set_message(&*remark);
    }
    if let Outcome::Fail(failure) = &entry.outcome
        && counts
    {
        status.set_description(text(&failure.trace.join("\n")));
    }
    let name = text(&format!("{}: {}", entry.check.name, entry.check.title));
    let mut case = TestCase::new(name, status);
    case.set_classname(entry.check.row()).set_time(entry.took);
    if is_success && !remark.is_empty() {
        case.set_system_out(remark);
    }
    case
}

/// A text as the library writes it whole: it leaves tabs out.
fn text(text: &str) -> String {
    printable(text).replace('\t', " ")
}

/// With a small first letter, unless the word is an abbreviation.
fn lower(title: &str) -> String {
    let mut letters = title.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            format!("{}{}", first.to_lowercase(), &title[first.len_utf8()..])
        }
        _ => title.to_owned(),
    }
}
