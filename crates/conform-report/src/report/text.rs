//! For people at a terminal.

use std::fmt::Write;

use super::words::{LEFT_OUT, remark, word};
use crate::about::Level;
use crate::outcome::Outcome;
use crate::printable::printable;
use crate::run::{Entry, Run, Suite};
use crate::table::{Align, Table};

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// With colours.
    pub fn on() -> Self {
        Self { on: true }
    }

    /// Without.
    pub fn off() -> Self {
        Self { on: false }
    }

    fn code(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The header above a section's checks.
pub fn header(section: &str, paint: Paint) -> String {
    format!("\n{}\n", paint.code("1", section))
}

/// One check: mark, name, rule, and what was wrong.
pub fn line(entry: &Entry, paint: Paint) -> String {
    let (mark, code) = match (&entry.outcome, entry.check.level) {
        (Outcome::Pass, _) => ("pass", "32"),
        (Outcome::Weak(_), _) => ("weak", "33"),
        (Outcome::Fail(_), Level::Must) => ("FAIL", "31;1"),
        (Outcome::Fail(_), Level::Should) => ("should", "33"),
        (Outcome::Known(..), _) => ("known", "36"),
        (Outcome::Mended(_), _) => ("mended", "35"),
        (Outcome::Skip(_), _) => ("skip", "2"),
        (Outcome::LeftOut(_), _) => ("out", "2"),
    };
    let mark = paint.code(code, &format!("{mark:<6}"));
    let mut out = format!(
        "  {mark}  {:<24}  {}\n",
        entry.check.name, entry.check.title
    );
    let indent = " ".repeat(10);
    match &entry.outcome {
        Outcome::Fail(failure) => {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{indent}expected  {}", printable(&failure.expected));
            let _ = writeln!(out, "{indent}saw       {}", printable(&failure.seen));
            for event in &failure.trace {
                let _ = writeln!(out, "{indent}{}", paint.code("2", &printable(event)));
            }
        }
        Outcome::Pass => {}
        other => {
            let _ = writeln!(
                out,
                "{indent}{}",
                paint.code("2", &printable(&remark(other)))
            );
        }
    }
    out
}

/// The outcomes of each section, counted, a line for each section.
pub fn matrix<F>(run: &Run<F>, paint: Paint) -> String {
    let mut sections: Vec<(&str, [usize; 5])> = Vec::new();
    for entry in run.made() {
        let section = entry.check.section;
        let at = sections.iter().position(|(name, _)| *name == section);
        let at = at.unwrap_or_else(|| {
            sections.push((section, [0; 5]));
            sections.len() - 1
        });
        let column = match &entry.outcome {
            Outcome::Fail(_) => 2,
            Outcome::Known(..) => 3,
            Outcome::Skip(_) => 4,
            Outcome::Pass | Outcome::Weak(_) | Outcome::Mended(_) | Outcome::LeftOut(_) => 1,
        };
        sections[at].1[0] += 1;
        sections[at].1[column] += 1;
    }
    if sections.is_empty() {
        return String::new();
    }
    let columns = ["", "checks", "passed", "failed", "known", "skipped"];
    // All cells of a column have one colour, so the codes do not change which of them is the widest.
    let codes = [None, None, Some("32"), Some("31;1"), Some("36"), Some("2")];
    let painted = |cells: [String; 6]| {
        let cells = codes.into_iter().zip(cells);
        cells.map(move |(code, cell)| match code {
            Some(code) => paint.code(code, &cell),
            None => cell,
        })
    };
    let aligns = [Align::Left].into_iter().chain([Align::Right; 5]);
    let mut table = Table::without_heads(aligns);
    table.row(painted(columns.map(str::to_owned)));
    for (name, [all, others @ ..]) in sections {
        let [passed, failed, known, skipped] = others.map(|count| match count {
            0 => String::new(),
            count => count.to_string(),
        });
        let cells = [
            name.to_owned(),
            all.to_string(),
            passed,
            failed,
            known,
            skipped,
        ];
        table.row(painted(cells));
    }
    format!("\n{table}")
}

/// The counts of all outcomes, and whether the run passed.
pub fn summary<F: Suite>(run: &Run<F>, paint: Paint) -> String {
    let mut out = String::from("\n");
    for note in run.facts.notes() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "note: {}", printable(note));
    }
    if let Some(why) = run.ended_early() {
        let _ = writeln!(out, "{}", paint.code("31;1", &printable(&why)));
    }
    if run.left_out().next().is_some() {
        let _ = writeln!(out, "{}:", paint.code("1", LEFT_OUT));
    }
    let mut left_out = Table::without_heads([Align::Left; 2]);
    for (entry, why) in run.left_out() {
        left_out.row([entry.check.name, &paint.code("2", &printable(why))]);
    }
    let _ = write!(out, "{left_out}");
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    for entry in run.made() {
        let counted = match (&entry.outcome, entry.check.level) {
            (Outcome::Fail(_), Level::Should) => "failed SHOULD",
            (Outcome::Fail(_), Level::Must) => "failed",
            (Outcome::Pass, _) => "passed",
            (Outcome::Skip(_), _) => "skipped",
            (other, _) => word::<F>(other),
        };
        match counts.iter_mut().find(|(word, _)| *word == counted) {
            Some((_, count)) => *count += 1,
            None => counts.push((counted, 1)),
        }
    }
    let parts: Vec<String> = counts
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let verdict = if run.succeeded() {
        paint.code("32;1", "conforms as far as was checked")
    } else if run.is_empty() {
        paint.code("31;1", "nothing was checked")
    } else {
        let failed = run.failures().count();
        let early = if run.ended_early().is_some() {
            " of those that were made"
        } else {
            ""
        };
        paint.code("31;1", &format!("{failed} checks failed{early}"))
    };
    if !run.is_empty() {
        let _ = writeln!(out, "{} checks: {}", run.made().count(), parts.join(", "));
    }
    let _ = writeln!(out, "{}: {verdict}", printable(&run.target));
    out
}

/// The whole report.
pub fn text<F: Suite>(run: &Run<F>, paint: Paint) -> String {
    let mut out = String::new();
    let mut section = None;
    for entry in run.made() {
        if section.replace(entry.check.section) != Some(entry.check.section) {
            out.push_str(&header(entry.check.section, paint));
        }
        out.push_str(&line(entry, paint));
    }
    out.push_str(&summary(run, paint));
    out
}
