//! Counters in Prometheus' text format: read back by a strict reader, for names of counters and adapters of every kind.

use std::collections::{BTreeMap, BTreeSet};

use netdirect::Counters;
use proptest::prelude::*;

/// A metric and its labels.
type Series = (String, BTreeMap<String, String>);

fn is_name(name: &str, beside: &str) -> bool {
    let permitted =
        |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || beside.contains(letter);
    name.starts_with(|first: char| permitted(first) && !first.is_ascii_digit())
        && name.chars().all(permitted)
}

/// Takes a value in quotation marks from the start of the text.
fn quoted(text: &mut &str) -> String {
    *text = text.strip_prefix('"').expect("a quotation mark");
    let mut value = String::new();
    let mut letters = text.char_indices();
    loop {
        let (at, letter) = letters.next().expect("the end of the value");
        match letter {
            '"' => {
                *text = &text[at + 1..];
                return value;
            }
            '\\' => value.push(match letters.next().expect("an escape").1 {
                'n' => '\n',
                other @ ('"' | '\\') => other,
                other => panic!("an escape of {other:?}"),
            }),
            '\n' => panic!("a line feed in a value"),
            other => value.push(other),
        }
    }
}

fn labels(mut text: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, rest) = text.split_once('=').expect("a label");
        assert!(is_name(name, "") && !name.starts_with("__"), "{name}");
        text = rest;
        let value = quoted(&mut text);
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name}");
        match text.chars().next() {
            Some(',') => text = &text[1..],
            Some('}') => return (labels, &text[1..]),
            other => panic!("{other:?} behind a label"),
        }
    }
}

/// Reads a text, and checks the rules of the format and of the conventions for names: each metric has one HELP, one TYPE and then all its
/// samples, a name that ends in `_total` because it is a counter, and no two samples with the same labels.
fn read(text: &str) -> BTreeMap<Series, u64> {
    assert!(text.is_empty() || text.ends_with('\n'));
    let mut all = BTreeMap::new();
    let mut metrics = BTreeSet::new();
    let mut lines = text.split_terminator('\n').peekable();
    while let Some(help) = lines.next() {
        let help = help.strip_prefix("# HELP ").expect("a metric begins");
        let (metric, words) = help.split_once(' ').expect("words");
        assert!(!words.trim().is_empty());
        let mut escapes = words.split('\\').skip(1);
        while let Some(escape) = escapes.next() {
            match escape.chars().next() {
                Some('n') => {}
                // The second of two backslashes.
                None => drop(escapes.next()),
                other => panic!("an escape of {other:?}"),
            }
        }
        assert!(is_name(metric, ":"), "{metric}");
        assert!(metric.starts_with("netdirect_") && metric.ends_with("_total"));
        assert!(metrics.insert(metric), "{metric} is there twice");
        assert_eq!(lines.next(), Some(&*format!("# TYPE {metric} counter")));
        let mut samples = 0;
        while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
            let rest = sample.strip_prefix(metric).expect("the same metric");
            let (labels, value) = labels(rest.strip_prefix('{').expect("labels"));
            let value = value.strip_prefix(' ').expect("a value").parse().unwrap();
            let before = all.insert((metric.to_owned(), labels), value);
            assert_eq!(before, None, "{sample}");
            samples += 1;
        }
        assert!(samples > 0, "{metric}");
    }
    all
}

fn labelled<const N: usize>(metric: &str, labels: [(&str, &str); N]) -> Series {
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    (metric.to_owned(), labels.into())
}

#[test]
fn counters_of_adapters_become_metrics_with_labels() {
    let one = Counters::from_iter([
        ("lenient.read_sink", 3),
        ("lenient.receive_wait", 0),
        ("protection_faults.2001:db8::/64", 7),
        ("protection_faults.others", 0),
        ("refused_for_faults", 2),
        ("faults.happened", 1),
        ("queue.depth-high", 9),
        ("seen_total", 4),
    ]);
    let other = Counters::from_iter([("lenient.read_sink", u64::MAX)]);
    let text = Counters::prometheus([("192.0.2.1", &one), ("2001:db8::1", &other)]);
    let here = ("adapter", "192.0.2.1");
    let expected = [
        (
            labelled(
                "netdirect_lenient_cases_total",
                [here, ("case", "read_sink")],
            ),
            3,
        ),
        (
            labelled(
                "netdirect_lenient_cases_total",
                [here, ("case", "receive_wait")],
            ),
            0,
        ),
        (
            labelled(
                "netdirect_lenient_cases_total",
                [("adapter", "2001:db8::1"), ("case", "read_sink")],
            ),
            u64::MAX,
        ),
        (
            labelled(
                "netdirect_protection_faults_total",
                [here, ("peer", "2001:db8::/64")],
            ),
            7,
        ),
        (
            labelled(
                "netdirect_protection_faults_total",
                [here, ("peer", "others")],
            ),
            0,
        ),
        (
            labelled("netdirect_connections_refused_for_faults_total", [here]),
            2,
        ),
        (labelled("netdirect_faults_happened_total", [here]), 1),
        (labelled("netdirect_queue_depth_high_total", [here]), 9),
        (labelled("netdirect_seen_total", [here]), 4),
    ];
    assert_eq!(read(&text), expected.into());
    assert_eq!(Counters::prometheus([("a", Counters::new())]), "");
}

#[test]
fn counters_whose_names_become_the_same_stay_apart() {
    let counters = Counters::from_iter([("a.b", 1), ("a_b", 2), ("a.b_total", 3)]);
    let text = Counters::prometheus([("x", counters)]);
    let expected = [("a.b", 1), ("a_b", 2), ("a.b_total", 3)].map(|(name, value)| {
        let labels = [("adapter", "x"), ("counter", name)];
        (labelled("netdirect_a_b_total", labels), value)
    });
    assert_eq!(read(&text), expected.into());
}

#[test]
fn adapters_of_one_name_are_added() {
    let counters = Counters::from_iter([("a", 2)]);
    let text = Counters::prometheus([("x", &counters), ("x", &counters)]);
    let expected = [(labelled("netdirect_a_total", [("adapter", "x")]), 4)];
    assert_eq!(read(&text), expected.into());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Each value is in the text, whatever the names.
    #[test]
    fn every_name_makes_a_text_that_can_be_read(
        adapters in proptest::collection::btree_map(
            "[a\"\\\\\n,}=é]{0,4}",
            proptest::collection::vec(("(lenient|protection_faults|faults)?[.a_0\"\\\\\n é]{0,4}", any::<u64>()), 0..8),
            0..4,
        ),
    ) {
        let adapters: Vec<(String, Counters)> = adapters
            .into_iter()
            .map(|(name, counters)| (name, counters.into_iter().collect()))
            .collect();
        let text = Counters::prometheus(adapters.iter().map(|(name, counters)| (name, counters)));
        let mut expected: Vec<_> = adapters
            .iter()
            .flat_map(|(name, counters)| counters.iter().map(move |(_, value)| (name.clone(), value)))
            .collect();
        let mut found: Vec<_> = read(&text)
            .into_iter()
            .map(|((_, labels), value)| (labels["adapter"].clone(), value))
            .collect();
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
    }
}
