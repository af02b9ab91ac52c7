//! One page with everything in it, no other file needed.

use std::fmt::Write;

use super::words::{escaped, remark, word};
use crate::run::{Outcome, Run};

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222;background:#fff}\
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse;width:100%}\
td{border-top:1px solid #ddd;padding:.3em .6em;vertical-align:top}td:first-child{width:5em;font-weight:600}\
td:nth-child(2){width:15em;font-family:ui-monospace,monospace;font-size:.9em}\
.pass{color:#17743b}.fail{color:#b3261e}.weak,.should{color:#8a5a00}.known{color:#0b6a80}.skip{color:#777}.mended{color:#7b2d8b}\
pre{margin:.4em 0;padding:.5em;background:#f5f5f5;overflow:auto;font-size:.85em}small{color:#555}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}td{border-color:#333}pre{background:#222}small{color:#aaa}\
.pass{color:#6c9}.fail{color:#f77}.weak,.should{color:#db6}.known{color:#6bd}.mended{color:#d8e}}";

/// The whole report as one HTML page.
pub fn html(run: &Run) -> String {
    let mut out = String::new();
    let title = escaped(&format!("Wire conformance of {}", run.target));
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    let role = if run.initiator {
        "Initiator"
    } else {
        "Responder"
    };
    let failed = run.failures().count();
    let passed = run.count(|outcome| matches!(outcome, Outcome::Pass | Outcome::Weak(_)));
    let skipped = run.count(|outcome| matches!(outcome, Outcome::Skip(_)));
    let known = run.count(|outcome| matches!(outcome, Outcome::Known(..)));
    let class = if run.succeeded() { "pass" } else { "fail" };
    let _ = writeln!(
        out,
        "<p>The target was the {role}. <span class=\"{class}\">{passed} passed, {failed} failed</span>, {known} known, {skipped} skipped.</p>"
    );
    for note in run.facts.notes.iter().chain(&run.lost) {
        let _ = writeln!(out, "<p>{}</p>", escaped(note));
    }
    for group in run
        .entries
        .chunk_by(|a, b| a.check.section == b.check.section)
    {
        let heading = escaped(group[0].check.section.title());
        let _ = writeln!(out, "<h2>{heading}</h2>\n<table>");
        for entry in group {
            let (class, shown) = match &entry.outcome {
                Outcome::Fail(_) if !entry.counts(run.strict) => ("should", "should"),
                Outcome::Mended(_) => ("mended", "mended"),
                other => (word(other), word(other)),
            };
            let mut cell = escaped(entry.check.title);
            let remark = remark(&entry.outcome);
            if !remark.is_empty() {
                let _ = write!(cell, "<br><small>{}</small>", escaped(&remark));
            }
            if let Outcome::Fail(failure) = &entry.outcome {
                let _ = write!(cell, "<pre>{}</pre>", escaped(&failure.wire.join("\n")));
            }
            let name = entry.check.name;
            let _ = writeln!(
                out,
                "<tr><td class=\"{class}\">{shown}</td><td>{name}</td><td>{cell}</td></tr>"
            );
        }
        out.push_str("</table>\n");
    }
    out.push_str("</body></html>\n");
    out
}
