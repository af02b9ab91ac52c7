//! A result as named values: one JSON object, or one line of CSV.

use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use iwarp_conform::is_printable;
use nd::cores::Watch;

use super::outcome::{BaselineFigures, Comparison, Outcome};
use super::spec::{Placement, Spec, Test};
use super::stats::Figures;
use crate::errors::one_line;
use crate::units;

/// A value that has a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(u64),
    Number(f64),
    Truth(bool),
    Nothing,
}

/// All values of a result, always the same names in the same order.
///
/// Latency is in nanoseconds. Latency is absent where throughput was measured, and throughput is absent where latency was
/// measured.
pub(super) fn of(outcome: &Outcome) -> Vec<(String, Value)> {
    let spec = &outcome.spec;
    let messages = spec.test != Test::Setup;
    let of_messages = |value| if messages { value } else { Value::Nothing };
    let mut fields: Vec<(String, Value)> = [
        ("op", of_messages(text(spec.op))),
        ("test", text(spec.test)),
        ("size", of_messages(Value::Integer(spec.size.into()))),
        ("depth", of_messages(Value::Integer(spec.depth.into()))),
        ("mode", text(spec.mode)),
        ("transport", text(spec.transport)),
        ("crc", Value::Truth(spec.crc)),
        (
            "segment",
            spec.segment
                .map_or(Value::Nothing, |segment| Value::Integer(segment.into())),
        ),
        ("boundaries", text(spec.boundaries)),
        (
            "one_core",
            Value::Truth(spec.placement == Placement::Together),
        ),
        ("receives", text(spec.receives)),
        (
            "peer_receives",
            outcome.peer_receives.map_or(Value::Nothing, text),
        ),
        (
            "page_offset",
            spec.page_offset
                .map_or(Value::Nothing, |offset| Value::Integer(offset.into())),
        ),
        ("turns", Value::Integer(outcome.turns as u64)),
        ("complete", Value::Truth(outcome.complete)),
        ("iterations", Value::Integer(outcome.figures.messages)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let shown = Shown::of(spec);
    figures(&mut fields, "", Some(&outcome.figures), shown);
    let best = outcome.baseline.as_ref();
    let with = best.map_or(Value::Nothing, |best| text(best.with));
    fields.push(("baseline".to_owned(), with));
    baseline(&mut fields, "baseline_", best, shown);
    let bare = best.filter(|best| best.with == Comparison::Tcp);
    baseline(
        &mut fields,
        "default_",
        outcome.systems_own.as_ref().or(bare),
        shown,
    );
    let ratio = best.and_then(|best| best.ratio);
    fields.push(("ratio".to_owned(), number(ratio.map(|ratio| ratio.typical))));
    let quartiles = ratio.map(|ratio| ratio.quartiles);
    for (name, value) in [
        ("ratio_q1", quartiles.map(|(low, _)| low)),
        ("ratio_q3", quartiles.map(|(_, high)| high)),
    ] {
        fields.push((name.to_owned(), number(value)));
    }
    let p99 = ratio.and_then(|ratio| ratio.p99);
    fields.push(("ratio_p99".to_owned(), number(p99)));
    cores(&mut fields, &outcome.cores);
    connections(&mut fields, outcome);
    let profile = Value::Text(nd::machine::PROFILE.to_owned());
    fields.push(("profile".to_owned(), profile));
    fields
}

/// The values about the two cores.
fn cores(fields: &mut Vec<(String, Value)>, watch: &Watch) {
    let nanos = |time: Option<Duration>| number(time.map(|time| time.as_secs_f64() * 1e9));
    fields.extend(
        [
            ("handover_ns", nanos(watch.median())),
            ("handover_max_ns", nanos(watch.looks.iter().max().copied())),
            ("moves", Value::Integer(watch.moves.into())),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
}

/// The values about connections.
fn connections(fields: &mut Vec<(String, Value)>, outcome: &Outcome) {
    let Outcome { spec, costs, .. } = outcome;
    let count = Value::Integer(spec.connections.into());
    let ([memory, peer_memory], [cpu, peer_cpu]) = (costs.memory, costs.cpu);
    let rate = Some(outcome.figures.msgs_per_s).filter(|_| spec.test == Test::Setup);
    fields.extend(
        [
            (
                "connections",
                if spec.is_of_connections() {
                    count
                } else {
                    Value::Nothing
                },
            ),
            ("bytes_per_connection", number(memory)),
            ("peer_bytes_per_connection", number(peer_memory)),
            ("idle_cpu", number(cpu)),
            ("peer_idle_cpu", number(peer_cpu)),
            ("connections_per_s", number(rate)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
}

/// Which of a side's figures are meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Latency,
    Throughput,
    /// Neither, because the row counts no messages.
    Neither,
}

impl Shown {
    fn of(spec: &Spec) -> Self {
        match spec.test {
            Test::Latency | Test::Scale => Self::Latency,
            Test::Bandwidth | Test::Rate => Self::Throughput,
            Test::Setup => Self::Neither,
        }
    }
}

fn figures(
    fields: &mut Vec<(String, Value)>,
    prefix: &str,
    figures: Option<&Figures>,
    shown: Shown,
) {
    let throughput = figures.filter(|_| shown == Shown::Throughput);
    let latency = figures.and_then(|figures| figures.latency);
    let values = [
        ("bytes_per_s", throughput.map(|f| f.bytes_per_s)),
        ("peak_bytes_per_s", throughput.map(|f| f.peak_bytes_per_s)),
        ("msgs_per_s", throughput.map(|f| f.msgs_per_s)),
        ("min_ns", latency.map(|l| l.min)),
        ("p50_ns", latency.map(|l| l.p50)),
        ("mean_ns", latency.map(|l| l.mean)),
        ("p99_ns", latency.map(|l| l.p99)),
        ("p999_ns", latency.map(|l| l.p999)),
        ("max_ns", latency.map(|l| l.max)),
    ];
    fields.extend(values.map(|(name, value)| (format!("{prefix}{name}"), number(value))));
}

fn baseline(
    fields: &mut Vec<(String, Value)>,
    prefix: &str,
    baseline: Option<&BaselineFigures>,
    shown: Shown,
) {
    let congestion = baseline.and_then(|baseline| baseline.congestion.as_ref());
    let congestion = congestion.map_or(Value::Nothing, text);
    fields.push((format!("{prefix}congestion"), congestion));
    let write = baseline.and_then(|baseline| baseline.write);
    let write = write.map_or(Value::Nothing, |write| Value::Integer(write as u64));
    fields.push((format!("{prefix}write_size"), write));
    figures(
        fields,
        prefix,
        baseline.map(|baseline| &baseline.figures),
        shown,
    );
}

fn text(text: impl Display) -> Value {
    Value::Text(text.to_string())
}

fn number(number: Option<f64>) -> Value {
    match number {
        Some(number) if number.is_finite() => Value::Number(number),
        _ => Value::Nothing,
    }
}

/// One JSON object on one line.
pub(super) fn json(fields: &[(String, Value)]) -> String {
    let mut line = String::from("{");
    for (i, (name, value)) in fields.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        // Writing to a string does not fail.
        let _ = match value {
            Value::Text(text) => write!(line, "{comma}\"{name}\":\"{}\"", escaped(text)),
            Value::Nothing => write!(line, "{comma}\"{name}\":null"),
            plain => write!(line, "{comma}\"{name}\":{plain}"),
        };
    }
    line.push('}');
    line
}

/// The names as the head of a CSV file.
pub(super) fn csv_head(fields: &[(String, Value)]) -> String {
    let names: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
    names.join(",")
}

/// One line of CSV. Absent values are empty. Control characters, which RFC 4180 does not have, become escapes.
pub(super) fn csv(fields: &[(String, Value)]) -> String {
    let values: Vec<_> = fields
        .iter()
        .map(|(_, value)| match value {
            Value::Text(text) => {
                let text = one_line(text);
                if text.contains([',', '"']) {
                    format!("\"{}\"", text.replace('"', "\"\""))
                } else {
                    text
                }
            }
            value => value.to_string(),
        })
        .collect();
    values.join(",")
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            // Rates and nanoseconds need no fractions, ratios do.
            Self::Number(number) if number.abs() >= 1000.0 => write!(f, "{number:.0}"),
            Self::Number(number) => f.write_str(&units::decimal(*number, 4)),
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::Nothing => Ok(()),
        }
    }
}

/// Names of congestion controls come from the system, or from the other side.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if !is_printable(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{bandwidth, latency, scale, setup, shared};
    use super::*;

    fn get<'a>(fields: &'a [(String, Value)], name: &str) -> &'a Value {
        let found = fields.iter().find(|(field, _)| field == name);
        &found.unwrap_or_else(|| panic!("no {name}")).1
    }

    #[test]
    fn every_result_has_the_same_fields() {
        let names =
            |outcome| -> Vec<String> { of(&outcome).into_iter().map(|(name, _)| name).collect() };
        let all = names(bandwidth());
        for other in [latency(), scale(), setup(), shared()] {
            assert_eq!(all, names(other));
        }
        for wanted in [
            "op",
            "size",
            "mode",
            "test",
            "transport",
            "crc",
            "depth",
            "segment",
            "boundaries",
            "bytes_per_s",
            "p50_ns",
            "p99_ns",
            "p999_ns",
            "msgs_per_s",
            "baseline_bytes_per_s",
            "baseline_p50_ns",
            "baseline_p99_ns",
            "ratio",
            "ratio_p99",
            "receives",
            "peer_receives",
            "page_offset",
            "turns",
            "complete",
            "handover_ns",
            "handover_max_ns",
            "moves",
        ] {
            assert!(all.iter().any(|name| name == wanted), "{wanted}");
        }
        let mut unique = all.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), all.len());
    }

    #[test]
    fn throughput_and_latency_are_never_both_there() {
        let fields = of(&bandwidth());
        assert_eq!(*get(&fields, "p50_ns"), Value::Nothing);
        assert!(matches!(get(&fields, "bytes_per_s"), Value::Number(_)));
        let fields = of(&latency());
        assert_eq!(*get(&fields, "bytes_per_s"), Value::Nothing);
        assert!(matches!(get(&fields, "p50_ns"), Value::Number(_)));
        assert!(matches!(get(&fields, "ratio_p99"), Value::Number(_)));
    }

    #[test]
    fn connections_have_figures_of_their_own() {
        let fields = of(&scale());
        for (name, value) in [
            ("connections", Value::Integer(10_000)),
            ("receives", Value::Text("own".to_owned())),
            ("baseline", Value::Text("alone".to_owned())),
            ("bytes_per_connection", Value::Number(4096.0)),
            ("peer_bytes_per_connection", Value::Number(6144.0)),
            ("idle_cpu", Value::Number(0.002)),
            ("baseline_congestion", Value::Nothing),
            ("default_p50_ns", Value::Nothing),
            ("connections_per_s", Value::Nothing),
        ] {
            assert_eq!(*get(&fields, name), value, "{name}");
        }
        assert!(matches!(get(&fields, "p50_ns"), Value::Number(_)));
        assert!(matches!(get(&fields, "baseline_p50_ns"), Value::Number(_)));
        let fields = of(&setup());
        for name in ["op", "size", "msgs_per_s", "bytes_per_s", "p50_ns"] {
            assert_eq!(*get(&fields, name), Value::Nothing, "{name}");
        }
        assert_eq!(*get(&fields, "connections_per_s"), Value::Number(10_000.0));
        assert_eq!(*get(&of(&bandwidth()), "connections"), Value::Nothing);
    }

    #[test]
    fn a_plain_connection_is_no_bare_one() {
        let fields = of(&shared());
        for (name, value) in [
            ("receives", Value::Text("shared".to_owned())),
            ("peer_receives", Value::Text("shared".to_owned())),
            ("baseline", Value::Text("plain".to_owned())),
            ("baseline_congestion", Value::Nothing),
            ("default_p50_ns", Value::Nothing),
        ] {
            assert_eq!(*get(&fields, name), value, "{name}");
        }
        assert!(matches!(get(&fields, "baseline_p50_ns"), Value::Number(_)));
    }

    #[test]
    fn without_a_baseline_its_fields_are_null() {
        let outcome = Outcome {
            baseline: None,
            systems_own: None,
            ..bandwidth()
        };
        let fields = of(&outcome);
        for name in [
            "baseline",
            "baseline_bytes_per_s",
            "baseline_congestion",
            "ratio",
        ] {
            assert_eq!(*get(&fields, name), Value::Nothing, "{name}");
        }
        assert!(json(&fields).contains("\"ratio\":null"));
    }

    #[test]
    fn json_is_one_object_of_plain_values() {
        let line = json(&[
            ("a".to_owned(), Value::Text("x\"\\\n".to_owned())),
            ("b".to_owned(), Value::Integer(7)),
            ("c".to_owned(), Value::Number(0.95)),
            ("d".to_owned(), Value::Truth(true)),
            ("e".to_owned(), Value::Nothing),
            ("f".to_owned(), number(Some(f64::NAN))),
            ("g".to_owned(), Value::Number(10_123_456_789.5)),
        ]);
        assert_eq!(
            line,
            r#"{"a":"x\"\\\u000a","b":7,"c":0.9500,"d":true,"e":null,"f":null,"g":10123456790}"#
        );
    }

    #[test]
    fn a_number_above_0_is_never_written_as_0() {
        // The rate of an adapter that got no core in its turns, beside that of a bare socket: as it was measured.
        let (ours, theirs) = (53.201, 181_325_850.0);
        for tiny in [ours / theirs, 1e-15] {
            let text = Value::Number(tiny).to_string();
            let read: f64 = text.parse().expect("a number");
            assert!((read / tiny - 1.0).abs() < 1e-3, "{text}");
            assert!(!text.contains('e'), "{text}");
        }
        assert_eq!(Value::Number(0.0).to_string(), "0.0000");
    }

    #[test]
    fn csv_has_a_value_for_every_head() {
        let fields = of(&bandwidth());
        assert_eq!(
            csv_head(&fields).split(',').count(),
            csv(&fields).split(',').count()
        );
        let line = csv(&[("a".to_owned(), Value::Text("1,\"2\"".to_owned()))]);
        assert_eq!(line, "\"1,\"\"2\"\"\"");
    }

    #[test]
    fn names_from_the_other_side_are_harmless_in_csv_and_json() {
        let fields = [(
            "a".to_owned(),
            Value::Text("b\u{1b}[2J\n\u{202e}".to_owned()),
        )];
        assert_eq!(csv(&fields), "b\\u{1b}[2J\\n\\u{202e}");
        assert_eq!(json(&fields), "{\"a\":\"b\\u001b[2J\\u000a\\u202e\"}");
    }
}
