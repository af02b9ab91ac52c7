//! Latency and bandwidth over message size, and what idle connections cost over their number, as an SVG.
//!
//! The colour shows the operation, and the marker's shape the way of waiting. A hollow marker means CRC. Bare streams are grey and dashed,
//! connections through shared memory are dashed, and shared Receives are dotted.

use std::collections::BTreeMap;

use nd_base::units;

use super::args::Rows;
use super::outcome::{BaselineFigures, Comparison, Outcome};
use super::report;
use super::spec::{Mode, Op, Receives, Spec, Test, Transport};
use super::stats::{Figures, median};
use crate::plot::{self, CONNECTIONS, Colour, Curve, Marker, Panel, Points, SIZES, Stroke};

/// One line of a panel. The order is that of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Ours {
        op: Op,
        mode: Mode,
        crc: bool,
        receives: Receives,
        transport: Transport,
        /// The connections go through shared memory.
        shared_memory: bool,
    },
    /// The bare stream, with this way of waiting. A Read is compared with a short request and a long answer.
    Bare { quic: bool, mode: Mode, read: bool },
    /// A single connection.
    Alone { mode: Mode },
}

impl Line {
    fn label(self) -> String {
        match self {
            Self::Ours {
                op,
                mode,
                crc,
                receives,
                transport,
                shared_memory,
            } => {
                let op = match op {
                    Op::Send => "Send",
                    Op::Write => "Write",
                    Op::Read => "Read",
                };
                let crc = match transport {
                    Transport::Udp => "over UDP",
                    Transport::Tcp if crc => "CRC on",
                    Transport::Tcp => "CRC off",
                };
                let receives = match receives {
                    Receives::Own => "",
                    Receives::Shared => ", shared Receives",
                };
                let memory = if shared_memory { ", shared memory" } else { "" };
                format!("{op}, {mode}, {crc}{receives}{memory}")
            }
            Self::Bare { quic, mode, read } => {
                let bare = if quic { "QUIC" } else { "TCP" };
                let reads = if read { " for Reads" } else { "" };
                format!("bare {bare}{reads}, {mode}")
            }
            Self::Alone { mode } => format!("a connection alone, {mode}"),
        }
    }

    fn colour(self) -> Colour {
        match self {
            Self::Ours { op: Op::Send, .. } => Colour::Blue,
            Self::Ours { op: Op::Write, .. } => Colour::Orange,
            Self::Ours { op: Op::Read, .. } => Colour::Green,
            Self::Bare { .. } | Self::Alone { .. } => Colour::Grey,
        }
    }

    fn stroke(self) -> Stroke {
        match self {
            Self::Ours {
                receives: Receives::Own,
                shared_memory,
                ..
            } => match shared_memory {
                true => Stroke::Dashed,
                false => Stroke::Solid,
            },
            Self::Ours {
                receives: Receives::Shared,
                ..
            }
            | Self::Bare { read: true, .. } => Stroke::Dotted,
            Self::Bare { read: false, .. } | Self::Alone { .. } => Stroke::Dashed,
        }
    }

    fn mode(self) -> Mode {
        match self {
            Self::Ours { mode, .. } | Self::Bare { mode, .. } | Self::Alone { mode } => mode,
        }
    }

    fn is_hollow(self) -> bool {
        match self {
            Self::Ours { crc, .. } => crc,
            Self::Bare { .. } | Self::Alone { .. } => false,
        }
    }

    fn curve(self) -> Curve {
        Curve {
            label: self.label(),
            colour: self.colour(),
            stroke: self.stroke(),
            marker: match self.mode() {
                Mode::Poll => Marker::Circle,
                Mode::Event => Marker::Square,
                Mode::EventObject => Marker::Triangle,
                Mode::Future => Marker::Wedge,
                Mode::Memory => Marker::Diamond,
            },
            hollow: self.is_hollow(),
        }
    }
}

/// Returns true if the drawing shows results of this row.
pub(super) fn draws(row: &Spec) -> bool {
    matches!(row.test, Test::Latency | Test::Bandwidth | Test::Scale)
}

/// The drawing of all results that can be drawn, or `None` if there is none. It names each of the chosen rows of which it shows nothing.
pub(super) fn svg(outcomes: &[Outcome], chosen: &Rows) -> Option<String> {
    let latency = Panel {
        title: "Latency (half a round trip; a whole Read), median",
        unit: plot::time,
        over: SIZES,
        curves: curves(lines(outcomes, Test::Latency, |figures| {
            figures.latency.map(|latency| latency.p50)
        })),
    };
    let bandwidth = Panel {
        title: "Bandwidth, one way",
        unit: plot::rate,
        over: SIZES,
        curves: curves(lines(outcomes, Test::Bandwidth, |figures| {
            Some(figures.bytes_per_s)
        })),
    };
    let of_many = Panel {
        title: "Send latency on one of many connections, median",
        unit: plot::time,
        over: CONNECTIONS,
        curves: curves(lines(outcomes, Test::Scale, |figures| {
            figures.latency.map(|latency| latency.p50)
        })),
    };
    let memory = Panel {
        title: "Memory of an idle connection, the dearer side",
        unit: plot::octets,
        over: CONNECTIONS,
        curves: curves(memory_lines(outcomes)),
    };
    let notes = notes(left_out(outcomes, chosen));
    plot::svg_with_notes(vec![latency, bandwidth, of_many, memory], &notes)
}

/// The chosen rows of which the drawing lacks something, with the reason.
fn left_out(outcomes: &[Outcome], chosen: &Rows) -> Vec<(Spec, String)> {
    let mut all = chosen.senseless.clone();
    for (i, spec) in chosen.measured.iter().enumerate() {
        let why = match outcomes.get(i) {
            _ if !draws(spec) => "only latency, bandwidth and idle connections are drawn",
            None => "the run ended before this row",
            Some(outcome) if value(outcome).is_none() => "no turn of this row was measured",
            Some(outcome) if spec.test == Test::Scale && dearer(outcome).is_none() => {
                "memory is not drawn, because it could not be measured at both sides"
            }
            Some(_) => continue,
        };
        all.push((*spec, why.to_owned()));
    }
    all
}

/// A line for each kind of rows that were left out for one reason.
fn notes(left_out: Vec<(Spec, String)>) -> Vec<String> {
    let mut kinds: Vec<(Spec, String, Vec<String>)> = Vec::new();
    for (spec, why) in left_out {
        let like = |kind: &&mut (Spec, String, _)| report::is_like(&kind.0, &spec) && kind.1 == why;
        let size = units::bytes(spec.size.into());
        match kinds.iter_mut().find(like) {
            Some((_, _, sizes)) => sizes.push(size),
            None => kinds.push((spec, why, vec![size])),
        }
    }
    let notes = kinds.into_iter().map(|(spec, why, sizes)| {
        let sizes = if spec.test == Test::Setup {
            String::new()
        } else {
            format!(", {}", sizes.join(", "))
        };
        format!("Not shown: {}{sizes}: {why}", report::title(&spec))
    });
    notes.collect()
}

/// The value of a row in the panel of its test.
fn value(outcome: &Outcome) -> Option<f64> {
    let figures = &outcome.figures;
    let value = match outcome.spec.test {
        Test::Latency | Test::Scale => figures.latency?.p50,
        Test::Bandwidth => figures.bytes_per_s,
        Test::Rate | Test::Setup => return None,
    };
    Some(value).filter(|value| can_be_drawn(*value))
}

/// The memory of an idle connection at the side where it takes more.
fn dearer(outcome: &Outcome) -> Option<f64> {
    let [Some(here), Some(there)] = outcome.costs.memory else {
        return None;
    };
    Some(here.max(there)).filter(|value| can_be_drawn(*value))
}

/// Returns true if a logarithmic axis has a place for the value.
fn can_be_drawn(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// The lines as they are drawn, in the order of the legend.
fn curves(lines: BTreeMap<Line, Points>) -> Vec<(Curve, Points)> {
    let lines = lines.into_iter();
    lines.map(|(line, points)| (line.curve(), points)).collect()
}

/// The line of a row, if its Receives and its transport were these.
fn ours(spec: &Spec, receives: Receives, shared_memory: bool) -> Line {
    Line::Ours {
        op: spec.op,
        mode: spec.mode,
        crc: spec.crc,
        receives,
        transport: spec.transport,
        shared_memory,
    }
}

/// The line of a row's connections.
fn tested(outcome: &Outcome) -> Line {
    let spec = &outcome.spec;
    ours(spec, spec.receives, outcome.transports.are_shared_memory())
}

/// The place of a value on the horizontal axis.
fn place(spec: &Spec) -> u32 {
    match spec.test {
        Test::Latency | Test::Bandwidth | Test::Rate => spec.size,
        Test::Scale | Test::Setup => spec.connections,
    }
}

fn memory_lines(outcomes: &[Outcome]) -> BTreeMap<Line, Points> {
    let mut lines = BTreeMap::<Line, Points>::new();
    for outcome in outcomes {
        if let Some(dearer) = dearer(outcome) {
            let points = lines.entry(tested(outcome)).or_default();
            points.insert(place(&outcome.spec), dearer);
        }
    }
    lines
}

fn lines(
    outcomes: &[Outcome],
    test: Test,
    value: fn(&Figures) -> Option<f64>,
) -> BTreeMap<Line, Points> {
    // The bare stream is measured again with every row with which it is compared. The drawing shows the median.
    let mut values: BTreeMap<Line, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
    let mut add = |line, size, figures: &Figures| {
        if let Some(value) = value(figures).filter(|value| can_be_drawn(*value)) {
            let points = values.entry(line).or_default();
            points.entry(size).or_default().push(value);
        }
    };
    for outcome in outcomes.iter().filter(|outcome| outcome.spec.test == test) {
        let spec = &outcome.spec;
        let (op, mode) = (spec.op, spec.mode);
        add(tested(outcome), place(spec), &outcome.figures);
        if let Some(BaselineFigures { with, figures, .. }) = &outcome.baseline {
            let line = match with {
                Comparison::Tcp | Comparison::Quic => Line::Bare {
                    quic: *with == Comparison::Quic,
                    mode,
                    read: test == Test::Latency && op == Op::Read,
                },
                Comparison::Plain => {
                    let shared_memory = outcome.transports.are_shared_memory();
                    ours(spec, Receives::Own, shared_memory)
                }
                Comparison::OverTcp => ours(spec, spec.receives, false),
                Comparison::Alone => Line::Alone { mode },
            };
            add(line, place(spec), figures);
        }
    }
    values
        .into_iter()
        .map(|(line, points)| {
            let points = points.into_iter();
            (
                line,
                points.map(|(size, all)| (size, median(&all))).collect(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{
        bandwidth, beside_quic, latency, scale, setup, shared, within_one_machine,
    };
    use super::super::spec::Spec;
    use super::*;

    /// Checks that every element is closed in the right order, every attribute quoted, and no stray `<`, `>` or `&` is left.
    fn assert_well_formed(text: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            assert!(!rest[..at].contains(['>', '&']), "{}", &rest[..at]);
            let end = at + rest[at..].find('>').expect("a tag ends");
            let tag = &rest[at + 1..end];
            rest = &rest[end + 1..];
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().expect("a name"));
            }
            if open.is_empty() {
                break;
            }
        }
        assert!(open.is_empty() && rest.trim().is_empty(), "{open:?}");
    }

    /// The drawing of all that was chosen.
    fn drawn(outcomes: &[Outcome]) -> Option<String> {
        let chosen = Rows {
            measured: outcomes.iter().map(|outcome| outcome.spec).collect(),
            senseless: Vec::new(),
        };
        svg(outcomes, &chosen)
    }

    fn sweep() -> Vec<Outcome> {
        let at_size = |outcome: Outcome, size| Outcome {
            spec: Spec {
                size,
                ..outcome.spec
            },
            ..outcome
        };
        [8, 4096, 1 << 20]
            .into_iter()
            .flat_map(|size| [at_size(latency(), size), at_size(bandwidth(), size)])
            .collect()
    }

    #[test]
    fn the_drawing_is_well_formed_and_says_what_is_what() {
        let text = drawn(&sweep()).expect("something to draw");
        assert_well_formed(&text);
        for word in [
            "Latency",
            "Bandwidth",
            "Write, poll, CRC off",
            "bare TCP, poll",
            "KiB",
            "GB/s",
            "prefers-color-scheme:dark",
        ] {
            assert!(text.contains(word), "{word}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn one_point_of_one_kind_is_one_panel() {
        let text = drawn(&[bandwidth()]).expect("one point");
        assert_well_formed(&text);
        assert!(!text.contains("median") && text.contains("Bandwidth, one way"));
    }

    #[test]
    fn shared_receives_and_own_ones_are_two_lines() {
        let text = drawn(&[shared()]).expect("something to draw");
        assert_well_formed(&text);
        for word in [
            "Send, poll, CRC off<",
            "Send, poll, CRC off, shared Receives<",
        ] {
            assert!(text.contains(word), "{word}");
        }
        assert!(!text.contains("bare TCP"), "{text}");
    }

    #[test]
    fn shared_memory_and_tcp_are_two_lines() {
        let text = drawn(&[within_one_machine()]).expect("something to draw");
        assert_well_formed(&text);
        for word in [
            "Write, poll, CRC off<",
            "Write, poll, CRC off, shared memory<",
        ] {
            assert!(text.contains(word), "{word}");
        }
    }

    #[test]
    fn a_bare_quic_stream_is_named() {
        let text = drawn(&[beside_quic()]).expect("something to draw");
        assert_well_formed(&text);
        assert!(text.contains("bare QUIC, poll<") && !text.contains("TCP"));
    }

    #[test]
    fn where_nothing_was_measured_nothing_is_drawn() {
        assert_eq!(drawn(&[]), None);
        let nothing = Outcome {
            figures: super::super::stats::SideTurns::new().figures(&bandwidth().spec),
            baseline: None,
            ..bandwidth()
        };
        assert_eq!(drawn(&[nothing]), None);
    }

    #[test]
    fn rows_of_which_nothing_is_shown_are_named_with_the_reason() {
        let text = drawn(&sweep()).expect("something to draw");
        assert!(!text.contains("Not shown"), "{text}");
        let unmeasured = Outcome {
            figures: super::super::stats::SideTurns::new().figures(&bandwidth().spec),
            ..bandwidth()
        };
        let mut of_many = scale();
        of_many.costs.memory = [Some(4096.0), None];
        let outcomes = [latency(), unmeasured, of_many, setup()];
        let senseless = Spec {
            mode: Mode::Event,
            ..latency().spec
        };
        let rate = Spec {
            test: Test::Rate,
            ..bandwidth().spec
        };
        let late = Spec {
            size: 8,
            ..latency().spec
        };
        let of_size = |size| (Spec { size, ..senseless }, "it makes no event".to_owned());
        let chosen = Rows {
            measured: outcomes
                .iter()
                .map(|outcome| outcome.spec)
                .chain([rate, late])
                .collect(),
            senseless: vec![of_size(8), of_size(1024)],
        };
        let text = svg(&outcomes, &chosen).expect("something to draw");
        assert_well_formed(&text);
        // A line break is in the middle of a note.
        let text = text.replace('\u{2003}', "");
        let texts = text.split(['<', '>']).filter(|text| !text.is_empty());
        let text: Vec<_> = texts.map(str::trim).collect();
        let text = text.join(" ");
        let notes = text.matches("Not shown: ").count();
        assert_eq!(notes, 6, "{text}");
        for (row, why) in [
            (
                "RDMA Write latency, event, CRC off, 8 B, 1 KiB",
                "it makes no event",
            ),
            (
                "RDMA Write bandwidth, poll, CRC off, depth 32, 64 KiB",
                "no turn of this row was measured",
            ),
            (
                "10 000 idle connections, Send latency on one, poll, CRC off, 8 B",
                "memory is not drawn",
            ),
            (
                "connections set up and torn down beside 50 idle ones, CRC off",
                "only latency, bandwidth",
            ),
            (
                "RDMA Write rate, poll, CRC off, depth 32, 64 KiB",
                "only latency, bandwidth",
            ),
            (
                "RDMA Write latency, poll, CRC off, 8 B",
                "the run ended before this row",
            ),
        ] {
            let (_, note) = text
                .split_once(&format!("Not shown: {row}: "))
                .unwrap_or_else(|| panic!("{row}: {text}"));
            assert!(note.starts_with(why), "{row}: {note}");
        }
    }

    #[test]
    fn bare_tcp_is_drawn_once_however_often_it_was_measured() {
        let mut all = sweep();
        all.extend(sweep().into_iter().map(|outcome| Outcome {
            spec: Spec {
                crc: true,
                ..outcome.spec
            },
            ..outcome
        }));
        let text = drawn(&all).expect("something to draw");
        assert_eq!(text.matches("bare TCP, poll").count(), 1);
    }
}
