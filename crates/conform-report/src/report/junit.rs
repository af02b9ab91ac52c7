//! JUnit XML, which continuous integration reads.

use std::fmt::Write;

use super::words::{LEFT_OUT, escaped, remark};
use crate::outcome::Outcome;
use crate::run::{Entry, Run, Suite};

/// The whole report: one test suite for each section, and one for the checks that are not part of the run.
pub fn junit<F: Suite>(run: &Run<F>) -> String {
    let failures = run.failures().count();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        out,
        "<testsuites name=\"{}\" tests=\"{}\" failures=\"{failures}\" errors=\"{}\">",
        escaped(&format!("{} {}", lower(F::TITLE), run.target)),
        run.entries.len(),
        u8::from(run.ended_early().is_some()),
    );
    let made: Vec<&Entry> = run.made().collect();
    for group in made.chunk_by(|a, b| a.check.section == b.check.section) {
        let counts = group
            .iter()
            .filter(|entry| entry.counts(run.strict))
            .count();
        let skips = group
            .iter()
            .filter(|entry| matches!(entry.outcome, Outcome::Skip(_)))
            .count();
        let _ = writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{counts}\" skipped=\"{skips}\">",
            escaped(group[0].check.section),
            group.len(),
        );
        for entry in group {
            case(&mut out, entry, run.strict);
        }
        out.push_str("  </testsuite>\n");
    }
    left_out(&mut out, run);
    let early = run.ended_early();
    if let Some(why) = early {
        let why = escaped(&why);
        let name = if run.lost.is_some() {
            "lives"
        } else {
            "is checked"
        };
        let _ = writeln!(
            out,
            "  <testsuite name=\"target\" tests=\"1\" errors=\"1\"><testcase classname=\"target\" name=\"{name}\"><error message=\"{why}\"/></testcase></testsuite>"
        );
    }
    out.push_str("</testsuites>\n");
    out
}

fn left_out<F>(out: &mut String, run: &Run<F>) {
    let count = run.left_out().count();
    if count == 0 {
        return;
    }
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "  <testsuite name=\"{LEFT_OUT}\" tests=\"{count}\" failures=\"0\" skipped=\"{count}\">"
    );
    for (entry, _) in run.left_out() {
        case(out, entry, run.strict);
    }
    out.push_str("  </testsuite>\n");
}

fn case(out: &mut String, entry: &Entry, strict: bool) {
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
        entry.check.row(),
        escaped(&format!("{}: {}", entry.check.name, entry.check.title)),
        entry.took.as_secs_f64(),
    );
    let remark = escaped(&remark(&entry.outcome));
    match &entry.outcome {
        Outcome::Pass => out.push_str("/>\n"),
        Outcome::Skip(_) | Outcome::LeftOut(_) => {
            let _ = writeln!(out, "><skipped message=\"{remark}\"/></testcase>");
        }
        Outcome::Fail(failure) if entry.counts(strict) => {
            let trace = escaped(&failure.trace.join("\n"));
            let _ = writeln!(
                out,
                "><failure message=\"{remark}\">{trace}</failure></testcase>"
            );
        }
        _ if entry.counts(strict) => {
            let _ = writeln!(out, "><failure message=\"{remark}\"/></testcase>");
        }
        _ => {
            let _ = writeln!(out, "><system-out>{remark}</system-out></testcase>");
        }
    }
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
