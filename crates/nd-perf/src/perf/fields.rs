//! A result as named values: one JSON object, or one line of CSV.

use std::fmt::Display;
use std::time::Duration;

use nd_base::errors::one_line;
use serde::Serializer as _;
use serde_json::Value;

use super::outcome::{BaselineFigures, Comparison, Outcome};
use super::spec::{Placement, Spec, Test};
use super::stats::Figures;
use crate::cores::Watch;

/// All values of a result, always the same names in the same order.
///
/// Latency is in nanoseconds. Latency is absent where throughput was measured, and throughput is absent where latency was
/// measured.
pub(super) fn outcome_fields(outcome: &Outcome) -> Vec<(String, Value)> {
    let spec = &outcome.spec;
    let messages = spec.test != Test::Setup;
    let of_messages = |value| if messages { value } else { Value::Null };
    let mut fields: Vec<(String, Value)> = [
        ("op", of_messages(text(spec.op))),
        ("test", text(spec.test)),
        ("size", of_messages(Value::from(spec.size))),
        ("depth", of_messages(Value::from(spec.depth))),
        ("mode", text(spec.mode)),
        ("transport", transport(outcome)),
        ("crc", Value::from(spec.crc)),
        ("segment", spec.segment.map_or(Value::Null, Value::from)),
        ("boundaries", text(spec.boundaries)),
        (
            "one_core",
            Value::from(spec.placement == Placement::Together),
        ),
        ("receives", text(spec.receives)),
        (
            "peer_receives",
            outcome.peer_receives.map_or(Value::Null, text),
        ),
        (
            "page_offset",
            spec.page_offset.map_or(Value::Null, Value::from),
        ),
        ("turns", Value::from(outcome.turns as u64)),
        ("complete", Value::from(outcome.complete)),
        ("iterations", Value::from(outcome.figures.messages)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let shown = Shown::from_spec(spec);
    figures(&mut fields, "", Some(&outcome.figures), shown);
    let best = outcome.baseline.as_ref();
    let with = best.map_or(Value::Null, |best| text(best.with));
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
    let quartiles = ratio.and_then(|ratio| ratio.p99_quartiles);
    for (name, value) in [
        ("ratio_p99", p99),
        ("ratio_p99_q1", quartiles.map(|(low, _)| low)),
        ("ratio_p99_q3", quartiles.map(|(_, high)| high)),
    ] {
        fields.push((name.to_owned(), number(value)));
    }
    cores(&mut fields, &outcome.cores);
    connections(&mut fields, outcome);
    let profile = Value::from(crate::machine::PROFILE.to_owned());
    fields.push(("profile".to_owned(), profile));
    fields
}

/// What carries the connections, as they say it; of adapters that do not say it, what was asked for.
fn transport(outcome: &Outcome) -> Value {
    if outcome.transports.is_empty() {
        text(outcome.spec.transport)
    } else {
        text(&outcome.transports)
    }
}

/// The values about the two cores.
fn cores(fields: &mut Vec<(String, Value)>, watch: &Watch) {
    let nanos = |time: Option<Duration>| number(time.map(|time| time.as_secs_f64() * 1e9));
    fields.extend(
        [
            ("handover_ns", nanos(watch.median())),
            ("handover_max_ns", nanos(watch.looks.iter().max().copied())),
            ("moves", Value::from(watch.moves)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
}

/// The values about connections.
fn connections(fields: &mut Vec<(String, Value)>, outcome: &Outcome) {
    let Outcome { spec, costs, .. } = outcome;
    let count = Value::from(spec.connections);
    let ([memory, peer_memory], [cpu, peer_cpu]) = (costs.memory, costs.cpu);
    let rate = Some(outcome.figures.msgs_per_s).filter(|_| spec.test == Test::Setup);
    fields.extend(
        [
            (
                "connections",
                if spec.is_of_connections() {
                    count
                } else {
                    Value::Null
                },
            ),
            ("traffic", spec.traffic.map_or(Value::Null, Value::from)),
            ("bytes_per_connection", number(memory)),
            ("peer_bytes_per_connection", number(peer_memory)),
            ("idle_cpu", number(cpu)),
            ("peer_idle_cpu", number(peer_cpu)),
            ("connections_per_s", number(rate)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
}

/// The figures of a side that are meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Latency,
    Throughput,
    /// Neither, because the row counts no messages.
    Neither,
}

impl Shown {
    fn from_spec(spec: &Spec) -> Self {
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
    let congestion = congestion.map_or(Value::Null, text);
    fields.push((format!("{prefix}congestion"), congestion));
    let write = baseline.and_then(|baseline| baseline.write);
    let write = write.map_or(Value::Null, |write| Value::from(write as u64));
    fields.push((format!("{prefix}write_size"), write));
    figures(
        fields,
        prefix,
        baseline.map(|baseline| &baseline.figures),
        shown,
    );
}

/// Names may come from the system or from the other side. What would move or hide something on a terminal becomes an escape.
fn text(text: impl Display) -> Value {
    Value::String(one_line(&text.to_string()))
}

/// Absent if it is no number.
fn number(number: Option<f64>) -> Value {
    number.map_or(Value::Null, Value::from)
}

/// One JSON object on one line, its names in this order.
pub(super) fn json(fields: &[(String, Value)]) -> String {
    let mut line = Vec::new();
    let pairs = fields.iter().map(|(name, value)| (name, value));
    serde_json::Serializer::new(&mut line)
        .collect_map(pairs)
        .expect("names are texts, and memory takes everything");
    String::from_utf8(line).expect("JSON is UTF-8")
}

/// The names as the head of a CSV file.
pub(super) fn csv_head(fields: &[(String, Value)]) -> String {
    csv_line(fields.iter().map(|(name, _)| name.clone()))
}

/// One line of CSV. Absent values are empty.
pub(super) fn csv(fields: &[(String, Value)]) -> String {
    csv_line(fields.iter().map(|(_, value)| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }))
}

fn csv_line(values: impl Iterator<Item = String>) -> String {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::Any(b'\n'))
        .from_writer(Vec::new());
    writer
        .write_record(values)
        .expect("memory takes everything");
    let line = writer.into_inner().expect("memory takes everything");
    let line = String::from_utf8(line).expect("texts stay texts");
    line.trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{
        bandwidth, latency, scale, setup, shared, within_one_machine,
    };
    use super::*;

    fn get<'a>(fields: &'a [(String, Value)], name: &str) -> &'a Value {
        let found = fields.iter().find(|(field, _)| field == name);
        &found.unwrap_or_else(|| panic!("no {name}")).1
    }

    #[test]
    fn every_result_has_the_same_fields() {
        let names = |outcome| -> Vec<String> {
            outcome_fields(&outcome)
                .into_iter()
                .map(|(name, _)| name)
                .collect()
        };
        let all = names(bandwidth());
        for other in [latency(), scale(), setup(), shared(), within_one_machine()] {
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
            "ratio_q1",
            "ratio_q3",
            "ratio_p99",
            "ratio_p99_q1",
            "ratio_p99_q3",
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
        let fields = outcome_fields(&bandwidth());
        assert_eq!(*get(&fields, "p50_ns"), Value::Null);
        assert!(matches!(get(&fields, "bytes_per_s"), Value::Number(_)));
        let fields = outcome_fields(&latency());
        assert_eq!(*get(&fields, "bytes_per_s"), Value::Null);
        assert!(matches!(get(&fields, "p50_ns"), Value::Number(_)));
        for name in [
            "ratio_q1",
            "ratio_q3",
            "ratio_p99",
            "ratio_p99_q1",
            "ratio_p99_q3",
        ] {
            assert!(matches!(get(&fields, name), Value::Number(_)), "{name}");
        }
    }

    #[test]
    fn connections_have_figures_of_their_own() {
        let mut used = scale();
        used.spec.traffic = Some(1 << 20);
        let fields = outcome_fields(&used);
        for (name, value) in [
            ("connections", Value::from(10_000)),
            ("traffic", Value::from(1 << 20)),
            ("receives", Value::from("own")),
            ("baseline", Value::from("alone")),
            ("bytes_per_connection", Value::from(4096.0)),
            ("peer_bytes_per_connection", Value::from(6144.0)),
            ("idle_cpu", Value::from(0.002)),
            ("baseline_congestion", Value::Null),
            ("default_p50_ns", Value::Null),
            ("connections_per_s", Value::Null),
        ] {
            assert_eq!(*get(&fields, name), value, "{name}");
        }
        assert!(matches!(get(&fields, "p50_ns"), Value::Number(_)));
        assert!(matches!(get(&fields, "baseline_p50_ns"), Value::Number(_)));
        let fields = outcome_fields(&setup());
        for name in ["op", "size", "msgs_per_s", "bytes_per_s", "p50_ns"] {
            assert_eq!(*get(&fields, name), Value::Null, "{name}");
        }
        assert_eq!(*get(&fields, "connections_per_s"), Value::from(10_000.0));
        assert_eq!(
            *get(&outcome_fields(&bandwidth()), "connections"),
            Value::Null
        );
    }

    #[test]
    fn a_plain_connection_is_no_bare_one() {
        let fields = outcome_fields(&shared());
        for (name, value) in [
            ("receives", Value::from("shared")),
            ("peer_receives", Value::from("shared")),
            ("baseline", Value::from("plain")),
            ("baseline_congestion", Value::Null),
            ("default_p50_ns", Value::Null),
        ] {
            assert_eq!(*get(&fields, name), value, "{name}");
        }
        assert!(matches!(get(&fields, "baseline_p50_ns"), Value::Number(_)));
    }

    #[test]
    fn the_transport_is_what_the_connection_says_or_else_what_was_asked_for() {
        let mut outcome = within_one_machine();
        let fields = outcome_fields(&outcome);
        assert_eq!(*get(&fields, "transport"), Value::from("shm"));
        assert_eq!(
            *get(&fields, "baseline"),
            Value::from(nd_base::provider::OVER_TCP)
        );
        outcome.transports = super::super::outcome::Transports::default();
        let fields = outcome_fields(&outcome);
        assert_eq!(*get(&fields, "transport"), Value::from("tcp"));
    }

    #[test]
    fn without_a_baseline_its_fields_are_null() {
        let outcome = Outcome {
            baseline: None,
            systems_own: None,
            ..bandwidth()
        };
        let fields = outcome_fields(&outcome);
        for name in [
            "baseline",
            "baseline_bytes_per_s",
            "baseline_congestion",
            "ratio",
        ] {
            assert_eq!(*get(&fields, name), Value::Null, "{name}");
        }
        assert!(json(&fields).contains("\"ratio\":null"));
    }

    #[test]
    fn json_is_one_object_in_the_order_of_its_fields() {
        let line = json(&[
            ("z".to_owned(), text("x\"\\\n")),
            ("b".to_owned(), Value::from(7)),
            ("c".to_owned(), number(Some(0.95))),
            ("d".to_owned(), Value::from(true)),
            ("e".to_owned(), Value::Null),
            ("f".to_owned(), number(Some(f64::NAN))),
        ]);
        assert_eq!(
            line,
            r#"{"z":"x\"\\\\n","b":7,"c":0.95,"d":true,"e":null,"f":null}"#
        );
    }

    #[test]
    fn a_number_above_0_is_never_written_as_0() {
        // The rate of an adapter that got no core in its turns, compared with that of a bare socket, as it was measured.
        let (ours, theirs) = (53.201, 181_325_850.0);
        for tiny in [ours / theirs, 1e-15] {
            let text = csv(&[("a".to_owned(), number(Some(tiny)))]);
            let read: f64 = text.parse().expect("a number");
            assert!((read / tiny - 1.0).abs() < 1e-3, "{text}");
        }
    }

    #[test]
    fn csv_has_a_value_for_every_head() {
        let fields = outcome_fields(&bandwidth());
        assert_eq!(
            csv_head(&fields).split(',').count(),
            csv(&fields).split(',').count()
        );
        let line = csv(&[("a".to_owned(), text("1,\"2\""))]);
        assert_eq!(line, "\"1,\"\"2\"\"\"");
    }

    #[test]
    fn names_from_the_other_side_are_harmless_in_csv_and_json() {
        let fields = [("a".to_owned(), text("b\u{1b}[2J\n\u{202e}"))];
        assert_eq!(csv(&fields), "b\\u{1b}[2J\\n\\u{202e}");
        assert_eq!(json(&fields), r#"{"a":"b\\u{1b}[2J\\n\\u{202e}"}"#);
    }
}
