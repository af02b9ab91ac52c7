//! Latency and bandwidth over message size, and what idle connections cost over their number, as an SVG for light and dark pages.
//!
//! The colour shows the operation, and the marker's shape the way of waiting. A hollow marker means CRC. Bare streams are
//! dashed, and shared Receives are dotted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::outcome::{BaselineFigures, Comparison, Outcome};
use super::scale::Scale;
use super::spec::{Mode, Op, Receives, Spec, Test, Transport};
use super::stats::{Figures, median};

/// Of a panel, in pixels.
const PANEL: (f64, f64) = (430.0, 300.0);
/// Around a panel: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (74.0, 64.0, 18.0, 52.0);
const LEGEND_LINE: f64 = 20.0;
const LEGEND_COLUMN: f64 = 250.0;

/// One line of a panel. The order is that of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Ours {
        op: Op,
        mode: Mode,
        crc: bool,
        receives: Receives,
        transport: Transport,
    },
    /// The bare stream, with this way of waiting. A Read is compared with a short request and a long answer.
    Bare { quic: bool, mode: Mode, read: bool },
    /// A connection without others beside it.
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
                format!("{op}, {mode}, {crc}{receives}")
            }
            Self::Bare { quic, mode, read } => {
                let bare = if quic { "QUIC" } else { "TCP" };
                let reads = if read { " for Reads" } else { "" };
                format!("bare {bare}{reads}, {mode}")
            }
            Self::Alone { mode } => format!("a connection alone, {mode}"),
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Ours { op, receives, .. } => match (op, receives) {
                (Op::Send, Receives::Own) => "send",
                (Op::Send, Receives::Shared) => "send far",
                (Op::Write, Receives::Own) => "write",
                (Op::Write, Receives::Shared) => "write far",
                (Op::Read, Receives::Own) => "read",
                (Op::Read, Receives::Shared) => "read far",
            },
            Self::Bare { read: false, .. } => "bare",
            Self::Bare { read: true, .. } => "bare far",
            Self::Alone { .. } => "bare",
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
}

/// Values over sizes, or over numbers of connections.
type Points = BTreeMap<u32, f64>;

/// One panel: its title, and its lines.
struct Panel {
    title: &'static str,
    unit: fn(f64) -> String,
    over: Axis,
    lines: BTreeMap<Line, Points>,
}

/// The drawing of all results that can be drawn, or `None` if there is none.
pub(super) fn svg(outcomes: &[Outcome]) -> Option<String> {
    let latency = Panel {
        title: "Latency (half a round trip; a whole Read), median",
        unit: time,
        over: SIZES,
        lines: lines(outcomes, Test::Latency, |figures| {
            figures.latency.map(|latency| latency.p50)
        }),
    };
    let bandwidth = Panel {
        title: "Bandwidth, one way",
        unit: rate,
        over: SIZES,
        lines: lines(outcomes, Test::Bandwidth, |figures| {
            Some(figures.bytes_per_s)
        }),
    };
    let of_many = Panel {
        title: "Send latency on one of many connections, median",
        unit: time,
        over: CONNECTIONS,
        lines: lines(outcomes, Test::Scale, |figures| {
            figures.latency.map(|latency| latency.p50)
        }),
    };
    let memory = Panel {
        title: "Memory of an idle connection, the dearer side",
        unit: octets,
        over: CONNECTIONS,
        lines: memory_lines(outcomes),
    };
    let panels: Vec<Panel> = [latency, bandwidth, of_many, memory]
        .into_iter()
        .filter(|panel| !panel.lines.is_empty())
        .collect();
    (!panels.is_empty()).then(|| draw(&panels))
}

/// What values stand over, and how that is written.
#[derive(Clone, Copy)]
struct Axis {
    name: &'static str,
    tick: fn(f64) -> String,
}

const SIZES: Axis = Axis {
    name: "message size",
    tick: size,
};

const CONNECTIONS: Axis = Axis {
    name: "idle connections",
    tick: count,
};

/// The line of a row, if its Receives were these.
fn ours(spec: &Spec, receives: Receives) -> Line {
    Line::Ours {
        op: spec.op,
        mode: spec.mode,
        crc: spec.crc,
        receives,
        transport: spec.transport,
    }
}

/// What a value stands over.
fn place(spec: &Spec) -> u32 {
    match spec.test {
        Test::Latency | Test::Bandwidth | Test::Rate => spec.size,
        Test::Scale | Test::Setup => spec.connections,
    }
}

fn memory_lines(outcomes: &[Outcome]) -> BTreeMap<Line, Points> {
    let mut lines = BTreeMap::<Line, Points>::new();
    for Outcome { spec, costs, .. } in outcomes {
        if let [Some(here), Some(there)] = costs.memory {
            let line = ours(spec, spec.receives);
            let dearer = here.max(there);
            if dearer.is_finite() && dearer > 0.0 {
                lines.entry(line).or_default().insert(place(spec), dearer);
            }
        }
    }
    lines
}

fn lines(
    outcomes: &[Outcome],
    test: Test,
    value: fn(&Figures) -> Option<f64>,
) -> BTreeMap<Line, Points> {
    // The bare stream is measured again beside every row with which it is compared. The drawing shows the median.
    let mut values: BTreeMap<Line, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
    let mut add = |line, size, figures: &Figures| {
        if let Some(value) = value(figures).filter(|value| value.is_finite() && *value > 0.0) {
            let points = values.entry(line).or_default();
            points.entry(size).or_default().push(value);
        }
    };
    for outcome in outcomes.iter().filter(|outcome| outcome.spec.test == test) {
        let spec = &outcome.spec;
        let (op, mode) = (spec.op, spec.mode);
        add(ours(spec, spec.receives), place(spec), &outcome.figures);
        if let Some(BaselineFigures { with, figures, .. }) = &outcome.baseline {
            let line = match with {
                Comparison::Tcp | Comparison::Quic => Line::Bare {
                    quic: *with == Comparison::Quic,
                    mode,
                    read: test == Test::Latency && op == Op::Read,
                },
                Comparison::Plain => ours(spec, Receives::Own),
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

fn draw(panels: &[Panel]) -> String {
    let (left, top, right, bottom) = MARGIN;
    let step = left + PANEL.0 + right;
    let width = step * panels.len() as f64;
    let mut legend: Vec<Line> = panels
        .iter()
        .flat_map(|panel| panel.lines.keys().copied())
        .collect();
    legend.sort_unstable();
    legend.dedup();
    let columns = ((width - left) / LEGEND_COLUMN).floor().max(1.0);
    let legend_lines = (legend.len() as f64 / columns).ceil();
    let legend_top = top + PANEL.1 + bottom;
    let height = legend_top + legend_lines * LEGEND_LINE + 18.0;
    let titles: Vec<_> = panels.iter().map(|panel| panel.title).collect();
    let title = titles.join("; ");
    let mut out = String::with_capacity(16 << 10);
    // Writing to a string does not fail, here and below.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <title>{title}</title>\n\
         <style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n"
    );
    for (i, panel) in panels.iter().enumerate() {
        let x = step * i as f64 + left;
        let _ = writeln!(out, "<g transform=\"translate({x:.0},{top:.0})\">");
        draw_panel(&mut out, panel);
        out.push_str("</g>\n");
    }
    for (i, line) in legend.iter().enumerate() {
        let row = (i as f64 % legend_lines) * LEGEND_LINE;
        let column = (i as f64 / legend_lines).floor() * LEGEND_COLUMN;
        let (x, y) = (left + column, legend_top + row + 8.0);
        let class = line.class();
        let _ = writeln!(
            out,
            "<path class=\"line {class}\" d=\"M{x:.1} {y:.1}h28\"/>{}\
             <text class=\"key\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            marker(*line, x + 14.0, y),
            x + 36.0,
            y + 4.0,
            line.label()
        );
    }
    out.push_str("</svg>\n");
    out
}

fn draw_panel(out: &mut String, panel: &Panel) {
    let (width, height) = PANEL;
    let sizes = panel.lines.values().flat_map(|points| points.keys());
    let values = panel.lines.values().flat_map(|points| points.values());
    let x = Scale::binary(sizes.map(|size| f64::from(*size)), width);
    let y = Scale::decimal(values.copied(), height);
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"0\" y=\"-22\">{}</text>",
        panel.title
    );
    for (tick, at) in x.ticks() {
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} 0V{height:.0}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height + 18.0,
            (panel.over.tick)(tick)
        );
    }
    for (tick, at) in y.ticks() {
        let at = height - at;
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M0 {at:.1}H{width:.0}\"/>\
             <text class=\"tick\" x=\"-8\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            at + 4.0,
            (panel.unit)(tick)
        );
    }
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M0 0V{height:.0}H{width:.0}\"/>\
         <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        width / 2.0,
        height + 38.0,
        panel.over.name
    );
    // The bare stream comes first, so that it hides none of our lines.
    for (line, points) in panel.lines.iter().rev() {
        let at: Vec<(f64, f64)> = points
            .iter()
            .map(|(size, value)| (x.at(f64::from(*size)), height - y.at(*value)))
            .collect();
        let path: Vec<_> = at.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = writeln!(
            out,
            "<path class=\"line {}\" d=\"M{}\"/>",
            line.class(),
            path.join("L")
        );
        for (x, y) in at {
            out.push_str(&marker(*line, x, y));
        }
        out.push('\n');
    }
}

fn marker(line: Line, x: f64, y: f64) -> String {
    let hollow = if line.is_hollow() { " hollow" } else { "" };
    let class = line.class();
    match line.mode() {
        Mode::Poll => {
            format!(
                "<circle class=\"mark {class}{hollow}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>"
            )
        }
        Mode::Event => format!(
            "<rect class=\"mark {class}{hollow}\" x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\"/>",
            x - 3.0,
            y - 3.0
        ),
        Mode::Memory => format!(
            "<path class=\"mark {class}{hollow}\" d=\"M{x:.1} {:.1}l4.2 4.2l-4.2 4.2l-4.2 -4.2z\"/>",
            y - 4.2
        ),
    }
}

fn size(octets: f64) -> String {
    match octets {
        n if n >= f64::from(1 << 30) => format!("{:.0} GiB", n / f64::from(1 << 30)),
        n if n >= f64::from(1 << 20) => format!("{:.0} MiB", n / f64::from(1 << 20)),
        n if n >= 1024.0 => format!("{:.0} KiB", n / 1024.0),
        n => format!("{n:.0} B"),
    }
}

fn count(number: f64) -> String {
    format!("{number:.0}")
}

fn octets(octets: f64) -> String {
    match octets {
        n if n >= 1e6 => format!("{} MB", n / 1e6),
        n if n >= 1e3 => format!("{} kB", n / 1e3),
        n => format!("{n} B"),
    }
}

fn time(nanos: f64) -> String {
    match nanos {
        n if n >= 1e9 => format!("{} s", n / 1e9),
        n if n >= 1e6 => format!("{} ms", n / 1e6),
        n if n >= 1e3 => format!("{} µs", n / 1e3),
        n => format!("{n} ns"),
    }
}

fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e9 => format!("{} GB/s", r / 1e9),
        r if r >= 1e6 => format!("{} MB/s", r / 1e6),
        r if r >= 1e3 => format!("{} kB/s", r / 1e3),
        r => format!("{r} B/s"),
    }
}

/// Colours that differ in lightness too, one set for each kind of page.
const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1f2328}\
.title{font-size:14px;font-weight:600}.tick{fill:#59636e;font-size:11px}\
.page{fill:#fff}.grid{stroke:#d1d9e0;stroke-width:.6;fill:none}.axis{stroke:#818b98;fill:none}\
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.mark{stroke-width:1.6}\
.send{stroke:#0072b2;fill:#0072b2}.write{stroke:#c44e00;fill:#c44e00}.read{stroke:#008060;fill:#008060}\
.bare{stroke:#6e7781;fill:#6e7781}.line.bare{stroke-dasharray:6 4}.line.far{stroke-dasharray:2 3}\
.line.send,.line.write,.line.read,.line.bare{fill:none}.mark.hollow{fill:#fff}\
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.tick{fill:#9198a1}.page{fill:#0d1117}\
.grid{stroke:#30363d}.axis{stroke:#6e7681}.send{stroke:#58a6ff;fill:#58a6ff}.write{stroke:#ff9b52;fill:#ff9b52}\
.read{stroke:#3fc79a;fill:#3fc79a}.bare{stroke:#9198a1;fill:#9198a1}\
.line.send,.line.write,.line.read,.line.bare{fill:none}.mark.hollow{fill:#0d1117}}";

#[cfg(test)]
mod tests {
    use super::super::report::tests::{bandwidth, beside_quic, latency, shared};
    use super::super::spec::Spec;
    use super::*;

    /// Whether every element is closed in the right order, every attribute quoted, and no stray `<`, `>` or `&` is left.
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

    fn sweep() -> Vec<Outcome> {
        let of = |outcome: Outcome, size| Outcome {
            spec: Spec {
                size,
                ..outcome.spec
            },
            ..outcome
        };
        [8, 4096, 1 << 20]
            .into_iter()
            .flat_map(|size| [of(latency(), size), of(bandwidth(), size)])
            .collect()
    }

    #[test]
    fn the_drawing_is_well_formed_and_says_what_is_what() {
        let text = svg(&sweep()).expect("something to draw");
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
        let text = svg(&[bandwidth()]).expect("one point");
        assert_well_formed(&text);
        assert!(!text.contains("median") && text.contains("Bandwidth, one way"));
    }

    #[test]
    fn shared_receives_and_own_ones_are_two_lines() {
        let text = svg(&[shared()]).expect("something to draw");
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
    fn a_bare_quic_stream_is_named() {
        let text = svg(&[beside_quic()]).expect("something to draw");
        assert_well_formed(&text);
        assert!(text.contains("bare QUIC, poll<") && !text.contains("TCP"));
    }

    #[test]
    fn where_nothing_was_measured_nothing_is_drawn() {
        assert_eq!(svg(&[]), None);
        let nothing = Outcome {
            figures: super::super::stats::SideTurns::new().figures(&bandwidth().spec),
            baseline: None,
            ..bandwidth()
        };
        assert_eq!(svg(&[nothing]), None);
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
        let text = svg(&all).expect("something to draw");
        assert_eq!(text.matches("bare TCP, poll").count(), 1);
    }
}
