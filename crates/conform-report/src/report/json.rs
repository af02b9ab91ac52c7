//! For programs.

use serde_json::{Map, Value, json as value};

use super::words::{remark, word};
use crate::outcome::Outcome;
use crate::run::{Entry, Run, Suite};

/// The whole report as one JSON object.
pub fn json<F: Suite>(run: &Run<F>) -> String {
    let checks: Vec<Value> = run.made().map(|entry| one(entry, run)).collect();
    let mut report = Map::new();
    report.insert("strict".into(), value!(run.strict));
    report.insert("succeeded".into(), value!(run.succeeded()));
    report.insert("lost".into(), value!(run.lost));
    report.insert("interrupted".into(), value!(run.interrupted));
    report.insert("checks".into(), Value::Array(checks));
    let left_out: Vec<Value> = run
        .left_out()
        .map(|(entry, why)| {
            let rows: Vec<&str> = entry.check.rows().collect();
            value!({
                "name": entry.check.name,
                "rows": rows,
                "title": entry.check.title,
                "why": why,
            })
        })
        .collect();
    report.insert("left_out".into(), Value::Array(left_out));
    run.facts.head(&run.target, &mut report);
    format!("{:#}\n", Value::Object(report))
}

fn one<F: Suite>(entry: &Entry, run: &Run<F>) -> Value {
    let rows: Vec<&str> = entry.check.rows().collect();
    let mut object = value!({
        "name": entry.check.name,
        "rows": rows,
        "section": entry.check.section,
        "level": entry.check.level.word(),
        "title": entry.check.title,
        "outcome": word::<F>(&entry.outcome),
        "counts": entry.counts(run.strict),
        "seconds": entry.took.as_secs_f64(),
    });
    match &entry.outcome {
        Outcome::Fail(failure) | Outcome::Known(failure, _) => {
            object["expected"] = value!(failure.expected);
            object["seen"] = value!(failure.seen);
            object[F::TRACE] = value!(failure.trace);
        }
        _ => {}
    }
    let remark = remark(&entry.outcome);
    if !remark.is_empty() || F::REMARK_ALWAYS {
        object[F::REMARK] = value!(remark);
    }
    object
}
