//! JUnit XML, which continuous integration reads.

use std::fmt::Write;

use super::words::{escaped, remark};
use crate::run::{Outcome, Run};

/// The whole report: one test suite for each section.
pub fn junit(run: &Run) -> String {
    let failures = run.failures().count();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        out,
        "<testsuites name=\"wire conformance of {}\" tests=\"{}\" failures=\"{failures}\" errors=\"{}\">",
        escaped(&run.target),
        run.entries.len(),
        u8::from(run.lost.is_some()),
    );
    for group in run
        .entries
        .chunk_by(|a, b| a.check.section == b.check.section)
    {
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
            escaped(group[0].check.section.title()),
            group.len(),
        );
        for entry in group {
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
                Outcome::Skip(_) => {
                    let _ = writeln!(out, "><skipped message=\"{remark}\"/></testcase>");
                }
                Outcome::Fail(failure) if entry.counts(run.strict) => {
                    let wire = escaped(&failure.wire.join("\n"));
                    let _ = writeln!(
                        out,
                        "><failure message=\"{remark}\">{wire}</failure></testcase>"
                    );
                }
                _ if entry.counts(run.strict) => {
                    let _ = writeln!(out, "><failure message=\"{remark}\"/></testcase>");
                }
                _ => {
                    let _ = writeln!(out, "><system-out>{remark}</system-out></testcase>");
                }
            }
        }
        out.push_str("  </testsuite>\n");
    }
    if let Some(why) = &run.lost {
        let why = escaped(why);
        let _ = writeln!(
            out,
            "  <testsuite name=\"target\" tests=\"1\" errors=\"1\"><testcase classname=\"target\" name=\"lives\"><error message=\"{why}\"/></testcase></testsuite>"
        );
    }
    out.push_str("</testsuites>\n");
    out
}
