//! One page with everything in it, no other file needed.
//!
//! Below the totals is a matrix: a line for each family of rows, a square for each row. The square leads to the row's details, which are
//! folded, except where a check has failed. At the end are the checks that are not part of the run.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::words::{LEFT_OUT, escaped, remark, word};
use crate::outcome::Outcome;
use crate::run::{Entry, Run, Suite};

const STYLE: &str = "body{font:16px/1.45 system-ui,sans-serif;margin:1.5em auto;max-width:60em;padding:0 1em;color:#222;background:#fff}\
h1{font-size:1.4em;overflow-wrap:anywhere}h2{font-size:1.15em;margin-top:2em}small{color:#555}\
.totals{display:flex;flex-wrap:wrap;gap:.6em;padding:0;list-style:none}.totals li{border:1px solid;border-radius:.4em;padding:.3em .7em}\
.totals b{font-size:1.3em;display:block}.matrix th{text-align:left;vertical-align:top;padding:.2em .8em .2em 0;font-weight:600}\
.matrix td{padding:.2em 0}.matrix td.n{white-space:nowrap;vertical-align:top;padding-left:.8em;text-align:right}\
.matrix a{display:inline-block;width:.85em;height:.85em;margin:0 .2em .1em 0;border-radius:.15em;background:currentColor}\
details{border-top:1px solid #ddd;padding:.35em 0}summary{cursor:pointer}summary b{font-family:ui-monospace,monospace}\
details p{margin:.4em 0 .4em 1em}code{font-size:.9em}.mark{display:inline-block;min-width:3.2em;font-weight:600}\
.pass{color:#17743b}.fail{color:#b3261e}.weak,.should{color:#8a5a00}.known{color:#0b6a80}.skip{color:#777}.mended{color:#7b2d8b}\
pre{margin:.4em 0;padding:.5em;background:#f5f5f5;overflow:auto;font-size:.85em}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}details{border-color:#333}pre{background:#222}small{color:#aaa}\
.pass{color:#6c9}.fail{color:#f77}.weak,.should{color:#db6}.known{color:#6bd}.mended{color:#d8e}}";

/// The rows of a family, each with the checks that show it.
type Family<'a> = BTreeMap<&'static str, Vec<&'a Entry>>;

/// The whole report as one HTML page.
pub fn html<F: Suite>(run: &Run<F>) -> String {
    let mut out = String::new();
    let title = escaped(&format!("{} {}", F::TITLE, run.target));
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    totals(&mut out, run);
    let mut families: BTreeMap<&'static str, Family<'_>> = BTreeMap::new();
    for entry in run.made() {
        for row in entry.check.rows() {
            let family = row.split_once('-').map_or(row, |(family, _)| family);
            let rows = families.entry(family).or_default();
            rows.entry(row).or_default().push(entry);
        }
    }
    matrix(&mut out, &families, run.strict);
    for (family, rows) in &families {
        let _ = writeln!(out, "<h2 id=\"{family}\">{family}</h2>");
        for (row, entries) in rows {
            details(&mut out, row, entries, run);
        }
    }
    left_out(&mut out, run);
    out.push_str("</body></html>\n");
    out
}

fn left_out<F>(out: &mut String, run: &Run<F>) {
    if run.left_out().next().is_none() {
        return;
    }
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "<h2>{LEFT_OUT}</h2>");
    for (entry, why) in run.left_out() {
        let _ = writeln!(
            out,
            "<p><code>{}</code> {}<br><small>{}</small></p>",
            entry.check.name,
            escaped(entry.check.title),
            escaped(why)
        );
    }
}

fn totals<F: Suite>(out: &mut String, run: &Run<F>) {
    let preface = run.facts.preface();
    // Writing to a String cannot fail, here and below.
    if !preface.is_empty() {
        let _ = writeln!(out, "<p>{}</p>", escaped(&preface));
    }
    let is_passed = |outcome: &Outcome| {
        matches!(
            outcome,
            Outcome::Pass | Outcome::Weak(_) | Outcome::Mended(_)
        )
    };
    out.push_str("<ul class=\"totals\">");
    for (class, count, what) in [
        ("", run.made().count(), "checks"),
        ("pass", run.count(is_passed), "passed"),
        ("fail", run.failures().count(), "failed"),
        (
            "known",
            run.count(|outcome| matches!(outcome, Outcome::Known(..))),
            "known",
        ),
        (
            "skip",
            run.count(|outcome| matches!(outcome, Outcome::Skip(_))),
            "skipped",
        ),
    ] {
        let _ = write!(out, "<li class=\"{class}\"><b>{count}</b>{what}</li>");
    }
    out.push_str("</ul>\n");
    for note in run.facts.notes().iter().chain(&run.ended_early()) {
        let _ = writeln!(out, "<p>{}</p>", escaped(note));
    }
}

fn matrix(out: &mut String, families: &BTreeMap<&'static str, Family<'_>>, strict: bool) {
    out.push_str("<table class=\"matrix\">\n");
    for (family, rows) in families {
        let proven = rows
            .values()
            .filter(|entries| matches!(worst(entries, strict), "pass" | "weak" | "mended"));
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            out,
            "<tr><th><a style=\"all:unset;cursor:pointer\" href=\"#{family}\">{family}</a></th><td>"
        );
        for (row, entries) in rows {
            let class = worst(entries, strict);
            let _ = write!(
                out,
                "<a class=\"{class}\" href=\"#{row}\" title=\"{row}: {class}\"></a>"
            );
        }
        let _ = writeln!(
            out,
            "</td><td class=\"n\">{} of {}</td></tr>",
            proven.count(),
            rows.len()
        );
    }
    out.push_str("</table>\n");
}

fn details<F: Suite>(out: &mut String, row: &str, entries: &[&Entry], run: &Run<F>) {
    let class = worst(entries, run.strict);
    let open = if class == "fail" { " open" } else { "" };
    let rule = run.facts.rule(row).unwrap_or_default();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        out,
        "<details id=\"{row}\"{open}><summary><span class=\"mark {class}\">{class}</span> <b>{row}</b> {}</summary>",
        escaped(&rule)
    );
    for entry in entries {
        let class = class_of(entry, run.strict);
        let shown = if class == "mended" {
            word::<F>(&entry.outcome)
        } else {
            class
        };
        let _ = write!(
            out,
            "<p><span class=\"mark {class}\">{shown}</span> <code>{}</code> {} <small>{:.3} s</small>",
            entry.check.name,
            escaped(entry.check.title),
            entry.took.as_secs_f64()
        );
        let remark = remark(&entry.outcome);
        if !remark.is_empty() {
            let _ = write!(out, "<br><small>{}</small>", escaped(&remark));
        }
        out.push_str("</p>\n");
        if let Outcome::Fail(failure) = &entry.outcome
            && !failure.trace.is_empty()
        {
            let _ = writeln!(out, "<pre>{}</pre>", escaped(&failure.trace.join("\n")));
        }
    }
    out.push_str("</details>\n");
}

/// The outcome of a row: that of its worst check. A row is skipped only if all its checks are.
fn worst(entries: &[&Entry], strict: bool) -> &'static str {
    let order = ["skip", "pass", "mended", "weak", "known", "should", "fail"];
    let rank = |class: &str| order.iter().position(|known| *known == class);
    let classes = entries.iter().map(|entry| class_of(entry, strict));
    classes.max_by_key(|class| rank(class)).unwrap_or("skip")
}

fn class_of(entry: &Entry, strict: bool) -> &'static str {
    match &entry.outcome {
        Outcome::Pass => "pass",
        Outcome::Weak(_) => "weak",
        Outcome::Fail(_) if entry.counts(strict) => "fail",
        Outcome::Fail(_) => "should",
        Outcome::Known(..) => "known",
        Outcome::Mended(_) => "mended",
        Outcome::Skip(_) | Outcome::LeftOut(_) => "skip",
    }
}
