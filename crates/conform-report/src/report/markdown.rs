//! For pages and comments that are written in Markdown.

use std::fmt::Write;

use super::words::{LEFT_OUT, remark, word};
use crate::outcome::Outcome;
use crate::printable::printable;
use crate::rows::cell;
use crate::run::{Entry, Run, Suite};

/// The whole report: totals, then a table for each section, and one of the checks that are not part of the run.
pub fn markdown<F: Suite>(run: &Run<F>) -> String {
    let mut out = format!("# {} {}\n\n", F::TITLE, printable(&run.target));
    let preface = printable(&run.facts.preface());
    let passed = run.count(|outcome| {
        matches!(
            outcome,
            Outcome::Pass | Outcome::Weak(_) | Outcome::Mended(_)
        )
    });
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        out,
        "{preface}{}{passed} passed, **{} failed**, {} known, {} skipped.",
        if preface.is_empty() { "" } else { " " },
        run.failures().count(),
        run.count(|outcome| matches!(outcome, Outcome::Known(..))),
        run.count(|outcome| matches!(outcome, Outcome::Skip(_))),
    );
    for note in run.facts.notes().iter().chain(&run.ended_early()) {
        let _ = writeln!(out, "\n{}", printable(note));
    }
    let made: Vec<&Entry> = run.made().collect();
    for group in made.chunk_by(|a, b| a.check.section == b.check.section) {
        let _ = write!(
            out,
            "\n## {}\n\n| outcome | check | also shows | what is checked | remark |\n|---|---|---|---|---|\n",
            group[0].check.section
        );
        for entry in group {
            let shown = match word::<F>(&entry.outcome) {
                "fail" if entry.counts(run.strict) => "**fail**",
                "fail" => "should",
                word => word,
            };
            let _ = writeln!(
                out,
                "| {shown} | `{}` | {} | {} | {} |",
                entry.check.name,
                entry.check.also.join(", "),
                cell(entry.check.title),
                cell(&remark(&entry.outcome)),
            );
        }
    }
    if run.left_out().next().is_some() {
        let _ = write!(
            out,
            "\n## {LEFT_OUT}\n\n| check | what is checked | why |\n|---|---|---|\n"
        );
    }
    for (entry, why) in run.left_out() {
        let (name, title) = (entry.check.name, cell(entry.check.title));
        let _ = writeln!(out, "| `{name}` | {title} | {} |", cell(why));
    }
    out
}
