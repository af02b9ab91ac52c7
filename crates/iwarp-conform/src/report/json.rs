//! For programs.

use serde_json::{Value, json as value};

use super::words::{remark, word};
use crate::check::Level;
use crate::run::{Entry, Outcome, Run};

/// The whole report as one JSON object.
pub fn json(run: &Run) -> String {
    let checks: Vec<Value> = run.entries.iter().map(|entry| one(entry, run)).collect();
    let facts = &run.facts;
    let report = value!({
        "target": run.target,
        "role": if run.initiator { "initiator" } else { "responder" },
        "strict": run.strict,
        "succeeded": run.succeeded(),
        "lost": run.lost,
        "facts": {
            "service": facts.service,
            "crc": facts.crc,
            "markers_from_target": facts.markers_in,
            "markers_to_target": facts.markers_out,
            "enhanced": facts.enhanced,
            "peer_to_peer": facts.peer_to_peer,
            "atomics": facts.atomics,
            "immediate_data": facts.immediate,
            "notes": facts.notes,
        },
        "checks": checks,
    });
    format!("{report:#}\n")
}

fn one(entry: &Entry, run: &Run) -> Value {
    let rows: Vec<&str> = entry.check.rows().collect();
    let mut object = value!({
        "name": entry.check.name,
        "rows": rows,
        "section": entry.check.section.title(),
        "level": level(entry.check.level),
        "title": entry.check.title,
        "outcome": word(&entry.outcome),
        "counts": entry.counts(run.strict),
        "seconds": entry.took.as_secs_f64(),
    });
    match &entry.outcome {
        Outcome::Fail(failure) | Outcome::Known(failure, _) => {
            object["expected"] = value!(failure.expected);
            object["seen"] = value!(failure.seen);
            object["wire"] = value!(failure.wire);
        }
        _ => {}
    }
    let remark = remark(&entry.outcome);
    if !remark.is_empty() {
        object["remark"] = value!(remark);
    }
    object
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Must => "MUST",
        Level::Should => "SHOULD",
    }
}
