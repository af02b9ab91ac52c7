//! Curves over logarithmic axes, side by side, as an SVG for light and dark pages.

mod scale;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scale::Scale;

/// Of a panel, in pixels.
const PANEL: (f64, f64) = (430.0, 300.0);
/// Around a panel: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (74.0, 64.0, 18.0, 52.0);
const LEGEND_LINE: f64 = 20.0;
const LEGEND_COLUMN: f64 = 250.0;
const NOTE_LINE: f64 = 16.0;
/// The width of a character of a note, in the widest of the usual fonts.
const NOTE_CHARACTER: f64 = 6.2;

/// A curve's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// For Sends.
    Blue,
    /// For Writes.
    Orange,
    /// For Reads.
    Green,
    /// For another program.
    Purple,
    /// For one more program.
    Brown,
    /// For a bare stream, with which all are compared.
    Grey,
}

impl Colour {
    const fn class(self) -> &'static str {
        match self {
            Self::Blue => "blue",
            Self::Orange => "orange",
            Self::Green => "green",
            Self::Purple => "purple",
            Self::Brown => "brown",
            Self::Grey => "grey",
        }
    }
}

/// The style of a curve's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// In one piece.
    Solid,
    /// In dashes.
    Dashed,
    /// In dots.
    Dotted,
}

impl Stroke {
    const fn class(self) -> &'static str {
        match self {
            Self::Solid => "",
            Self::Dashed => " dashed",
            Self::Dotted => " dotted",
        }
    }
}

/// The shape at each point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A circle.
    Circle,
    /// A square on its side.
    Square,
    /// A square on its corner.
    Diamond,
    /// A triangle on its side.
    Triangle,
    /// A triangle on its corner.
    Wedge,
}

/// The style of a curve, and its name in the legend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// In the legend. It contains none of the characters `<`, `>` and `&`.
    pub label: String,
    /// Of its line and of its markers.
    pub colour: Colour,
    /// How its line is drawn.
    pub stroke: Stroke,
    /// The marker at each point.
    pub marker: Marker,
    /// Whether the markers are hollow.
    pub hollow: bool,
}

/// Positive values over sizes, or over numbers of something.
pub type Points = BTreeMap<u32, f64>;

/// The quantity on an axis, and its format.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Below the axis.
    pub name: &'static str,
    /// At a tick.
    pub tick: fn(f64) -> String,
}

/// An axis of message sizes.
pub const SIZES: Axis = Axis {
    name: "message size",
    tick: size,
};

/// An axis of numbers of connections.
pub const CONNECTIONS: Axis = Axis {
    name: "idle connections",
    tick: count,
};

/// Some curves over one axis. A curve hides those behind it in the list.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Above the panel.
    pub title: &'static str,
    /// How values are written.
    pub unit: fn(f64) -> String,
    /// The horizontal axis.
    pub over: Axis,
    /// The curves, each with at least one point.
    pub curves: Vec<(Curve, Points)>,
}

/// The drawing of all panels that have a curve, or `None` if there is none. Curves of several panels that look alike have one place in
/// the legend.
#[must_use]
pub fn svg(panels: Vec<Panel>) -> Option<String> {
    svg_with_notes(panels, &[])
}

/// As [`svg`], with these notes below the legend. A long note has several lines.
#[must_use]
pub fn svg_with_notes(mut panels: Vec<Panel>, notes: &[String]) -> Option<String> {
    panels.retain(|panel| !panel.curves.is_empty());
    (!panels.is_empty()).then(|| draw(&panels, notes))
}

fn draw(panels: &[Panel], notes: &[String]) -> String {
    let (left, top, right, bottom) = MARGIN;
    let step = left + PANEL.0 + right;
    let width = step * panels.len() as f64;
    let mut legend: Vec<&Curve> = Vec::new();
    for (curve, _) in panels.iter().flat_map(|panel| &panel.curves) {
        if !legend.contains(&curve) {
            legend.push(curve);
        }
    }
    let columns = ((width - left) / LEGEND_COLUMN).floor().max(1.0);
    let legend_lines = (legend.len() as f64 / columns).ceil();
    let legend_top = top + PANEL.1 + bottom;
    let notes_top = legend_top + legend_lines * LEGEND_LINE + 18.0;
    let notes: Vec<_> = notes
        .iter()
        .flat_map(|note| wrapped(note, width - left - right))
        .collect();
    let height = notes_top + notes.len() as f64 * NOTE_LINE;
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
    for (i, curve) in legend.into_iter().enumerate() {
        let row = (i as f64 % legend_lines) * LEGEND_LINE;
        let column = (i as f64 / legend_lines).floor() * LEGEND_COLUMN;
        let (x, y) = (left + column, legend_top + row + 8.0);
        let _ = writeln!(
            out,
            "<path class=\"{}\" d=\"M{x:.1} {y:.1}h28\"/>{}\
             <text class=\"key\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            curve.class(),
            curve.mark(x + 14.0, y),
            x + 36.0,
            y + 4.0,
            curve.label
        );
    }
    for (i, line) in notes.iter().enumerate() {
        let y = notes_top + i as f64 * NOTE_LINE;
        let _ = writeln!(
            out,
            "<text class=\"tick\" x=\"{left:.1}\" y=\"{y:.1}\">{}</text>",
            escaped(line)
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The lines of a text that are not wider than this, in pixels, unless a word is. The lines after the first are indented.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let fits = |line: &str, word: &str| {
        let characters = line.chars().count() + 1 + word.chars().count();
        characters as f64 * NOTE_CHARACTER <= width
    };
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if fits(line, word) => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("\u{2003}{word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn draw_panel(out: &mut String, panel: &Panel) {
    let (width, height) = PANEL;
    let points = || panel.curves.iter().flat_map(|(_, points)| points);
    let x = Scale::binary(points().map(|(place, _)| f64::from(*place)), width);
    let y = Scale::decimal(points().map(|(_, value)| *value), height);
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
    // The first curve comes last, so that none hides it.
    for (curve, points) in panel.curves.iter().rev() {
        let at: Vec<(f64, f64)> = points
            .iter()
            .map(|(place, value)| (x.at(f64::from(*place)), height - y.at(*value)))
            .collect();
        let path: Vec<_> = at.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = writeln!(
            out,
            "<path class=\"{}\" d=\"M{}\"/>",
            curve.class(),
            path.join("L")
        );
        for (x, y) in at {
            out.push_str(&curve.mark(x, y));
        }
        out.push('\n');
    }
}

impl Curve {
    fn class(&self) -> String {
        format!("line {}{}", self.colour.class(), self.stroke.class())
    }

    fn mark(&self, x: f64, y: f64) -> String {
        let hollow = if self.hollow { " hollow" } else { "" };
        let class = format!("mark {}{hollow}", self.colour.class());
        match self.marker {
            Marker::Circle => {
                format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>")
            }
            Marker::Square => format!(
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\"/>",
                x - 3.0,
                y - 3.0
            ),
            Marker::Triangle => format!(
                "<path class=\"{class}\" d=\"M{x:.1} {:.1}l3.8 6.6l-7.6 0z\"/>",
                y - 4.2
            ),
            Marker::Wedge => format!(
                "<path class=\"{class}\" d=\"M{x:.1} {:.1}l3.8 -6.6l-7.6 0z\"/>",
                y + 4.2
            ),
            Marker::Diamond => format!(
                "<path class=\"{class}\" d=\"M{x:.1} {:.1}l4.2 4.2l-4.2 4.2l-4.2 -4.2z\"/>",
                y - 4.2
            ),
        }
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

/// Octets, as the ticks of an axis have them: `20 kB`.
#[must_use]
pub fn octets(octets: f64) -> String {
    match octets {
        n if n >= 1e6 => format!("{} MB", n / 1e6),
        n if n >= 1e3 => format!("{} kB", n / 1e3),
        n => format!("{n} B"),
    }
}

/// Nanoseconds, as the ticks of an axis have them: `20 µs`.
#[must_use]
pub fn time(nanos: f64) -> String {
    match nanos {
        n if n >= 1e9 => format!("{} s", n / 1e9),
        n if n >= 1e6 => format!("{} ms", n / 1e6),
        n if n >= 1e3 => format!("{} µs", n / 1e3),
        n => format!("{n} ns"),
    }
}

/// Octets per second, as the ticks of an axis have them: `20 MB/s`.
#[must_use]
pub fn rate(per_second: f64) -> String {
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
.mark{stroke-width:1.6}.dashed{stroke-dasharray:6 4}.dotted{stroke-dasharray:2 3}\
.blue{stroke:#0072b2;fill:#0072b2}.orange{stroke:#c44e00;fill:#c44e00}.green{stroke:#008060;fill:#008060}\
.purple{stroke:#8a3fa8;fill:#8a3fa8}.brown{stroke:#8f6a00;fill:#8f6a00}.grey{stroke:#6e7781;fill:#6e7781}\
path.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.mark.hollow{fill:#fff}\
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.tick{fill:#9198a1}.page{fill:#0d1117}\
.grid{stroke:#30363d}.axis{stroke:#6e7681}.blue{stroke:#58a6ff;fill:#58a6ff}.orange{stroke:#ff9b52;fill:#ff9b52}\
.green{stroke:#3fc79a;fill:#3fc79a}.purple{stroke:#d08cf0;fill:#d08cf0}.brown{stroke:#d9b44a;fill:#d9b44a}\
.grey{stroke:#9198a1;fill:#9198a1}.mark.hollow{fill:#0d1117}}";

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(label: &str) -> Curve {
        Curve {
            label: label.to_owned(),
            colour: Colour::Blue,
            stroke: Stroke::Solid,
            marker: Marker::Circle,
            hollow: false,
        }
    }

    fn panel(title: &'static str, labels: &[&str]) -> Panel {
        let points = Points::from([(8, 1.5e3), (1 << 20, 4e5)]);
        let curves = labels.iter().map(|label| (curve(label), points.clone()));
        Panel {
            title,
            unit: time,
            over: SIZES,
            curves: curves.collect(),
        }
    }

    #[test]
    fn nothing_is_not_drawn() {
        assert_eq!(svg(vec![]), None);
        assert_eq!(svg(vec![panel("empty", &[])]), None);
    }

    #[test]
    fn a_panel_without_a_curve_is_left_out() {
        let text = svg(vec![panel("empty", &[]), panel("full", &["a"])]).expect("a panel");
        assert!(text.contains("full") && !text.contains("empty"), "{text}");
    }

    #[test]
    fn curves_that_look_alike_have_one_place_in_the_legend() {
        let panels = vec![panel("left", &["a", "b"]), panel("right", &["b", "c"])];
        let text = svg(panels).expect("two panels");
        for label in ["a", "b", "c"] {
            assert_eq!(text.matches(&format!(">{label}</text>")).count(), 1);
        }
    }

    #[test]
    fn notes_are_below_the_legend_in_lines_that_fit() {
        let long = "words ".repeat(60) + "<&> end";
        let notes = ["short".to_owned(), long];
        let text = svg_with_notes(vec![panel("one", &["a"])], &notes).expect("a panel");
        let plain = svg(vec![panel("one", &["a"])]).expect("a panel");
        let height = |text: &str| {
            let (_, rest) = text.split_once(" height=\"").unwrap();
            rest.split_once('"').unwrap().0.parse::<f64>().unwrap()
        };
        assert!(height(&text) > height(&plain) + 5.0 * NOTE_LINE);
        assert!(text.contains(">short</text>") && text.contains("&lt;&amp;&gt; end</text>"));
        let lines = text.lines().filter(|line| line.contains("words"));
        assert!(lines.clone().count() >= 5);
        assert!(lines.clone().all(|line| line.len() < 180), "{text}");
    }

    #[test]
    fn hollow_and_broken_curves_are_marked_so() {
        let mut one = panel("one", &["a"]);
        let plain = svg(vec![one.clone()]).expect("a panel");
        // The style names each class as well.
        let uses = |text: &str, class| text.split_once("</style>").unwrap().1.contains(class);
        assert!(!uses(&plain, "hollow") && !uses(&plain, "dashed"));
        (one.curves[0].0.hollow, one.curves[0].0.stroke) = (true, Stroke::Dashed);
        let broken = svg(vec![one]).expect("a panel");
        assert!(uses(&broken, "mark blue hollow") && uses(&broken, "line blue dashed"));
    }
}
