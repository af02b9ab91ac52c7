//! The comparison as Markdown, and its place in a page.

use std::fmt::Write as _;

use nd_perf::cores::Watch;

use super::Failure;
use super::calls::{CLASSES, Histogram, Traffic};
use super::numbers::{NumbersRow, Side};
use super::one_machine::{REQUIRED, SHM_ONE_WAY, SHM_PING_PONG};
use super::pairs::{Bound, Pairs};
use super::programs::ProgramRow;
use super::turns::{
    AHEAD, ALIGNED_ONE_WAY, ALIGNED_PING_PONG, ALIGNED_SHARES, DEVICE_ONE_WAY,
    DEVICE_ONE_WAY_SHARES, DEVICE_PING_PONG, DEVICE_PING_PONG_SHARES, Figure, LEAST, ONE_WAY,
    ONE_WAY_SHARES, Overall, PING_PONG, PING_PONG_SHARES, SHARED_ONE_WAY, SHARED_PING_PONG,
    SHARED_SHARES, Size, UDP_ONE_WAY, UDP_ONE_WAY_SHARES, UDP_PING_PONG, UDP_PING_PONG_SHARES,
};
use crate::{crc, octets};

/// A part of the page, which `compare` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePart {
    /// Over TCP.
    Tcp,
    /// Over UDP.
    Udp,
    /// On a device.
    Device,
    /// Verbs programs that connect by rdma_cm.
    Programs,
    /// Verbs programs that exchange the numbers of their queue pairs.
    Numbers,
    /// Within one machine.
    Shm,
}

impl PagePart {
    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "compare over TCP",
            Self::Udp => "compare over UDP",
            Self::Device => "compare of verbs",
            Self::Programs => "compare of verbs programs",
            Self::Numbers => "compare of numbers",
            Self::Shm => "compare within one machine",
        }
    }
}

/// All results of a part.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The machine, as name and value.
    pub machine: Vec<(&'static str, String)>,
    /// How far the two cores were from each other.
    pub cores: Watch,
    /// Whether softnd made and checked CRCs.
    pub crc: bool,
    /// Milliseconds of a turn.
    pub turn_ms: u128,
    /// The rounds over TCP, each with another congestion control.
    pub rounds: Vec<Round>,
    /// All sizes over UDP, in order.
    pub udp: Vec<Size>,
    /// The name of a device, and all sizes on it, in order.
    pub device: Option<(String, Vec<Size>)>,
    /// Verbs programs, in the order of their tests.
    pub programs: Vec<ProgramRow>,
    /// Those that exchange numbers, in the order of their tests.
    pub numbers: Vec<NumbersRow>,
    /// All sizes within one machine, in order.
    pub shm: Vec<Size>,
    /// FPDUs per system call.
    pub calls: Vec<(Traffic, Histogram)>,
    /// The parts that were left out, and the reasons.
    pub skipped: Vec<String>,
}

/// A round of all programs over TCP, which all have the same congestion control.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The congestion control.
    pub congestion: String,
    /// Whose choice it is.
    pub chosen: &'static str,
    /// All sizes, in order.
    pub sizes: Vec<Size>,
}

impl Findings {
    /// All of it as Markdown.
    #[must_use]
    pub fn print(&self) -> String {
        let rounds = self.rounds.iter().map(|round| round.print(self.crc));
        let mut text = self.head();
        text.extend(rounds);
        text += &self.over_udp();
        text += &self.on_device();
        text += &self.of_programs();
        text += &self.of_numbers();
        text += &self.within_one_machine();
        text + &self.histogram()
    }

    /// The machine, the method, and the parts that were left out.
    fn head(&self) -> String {
        let mut text = String::new();
        self.machine(&mut text);
        if self.cores != Watch::default() {
            line(&mut text, format_args!("{}\n", self.cores));
        }
        for skipped in &self.skipped {
            line(&mut text, format_args!("Skipped: {skipped}.\n"));
        }
        let sizes = self.rounds.iter().flat_map(|round| &round.sizes);
        let sizes = sizes.chain(&self.udp).chain(&self.shm);
        let sizes = sizes.chain(self.device.iter().flat_map(|(_, sizes)| sizes));
        if let Some(turns) = sizes.map(|size| size.turns.len()).min() {
            line(
                &mut text,
                format_args!(
                    "Medians of {turns} turns of {} ms each; shares are medians of the shares within each turn, above 1 softnd is faster. \
                     In brackets is what half of the turns lie between.\n",
                    self.turn_ms
                ),
            );
        }
        text
    }

    /// There is nothing of the other programs one way: libfabric has no such test, and UCX does not run over UDP.
    fn over_udp(&self) -> String {
        let mut text = String::new();
        if self.udp.is_empty() {
            return text;
        }
        let setting = "encrypted by QUIC, libfabric not encrypted";
        head(&mut text, "Over UDP, half a round trip, µs", setting);
        table(
            &mut text,
            &self.udp,
            &in_unit(&UDP_PING_PONG, MICROSECONDS),
            &UDP_PING_PONG_SHARES,
        );
        head(&mut text, "Over UDP, one way, GB/s", "encrypted by QUIC");
        table(
            &mut text,
            &self.udp,
            &in_unit(&UDP_ONE_WAY, GIGABYTES),
            &UDP_ONE_WAY_SHARES,
        );
        let all = [("Send ping-pong", UDP_PING_PONG_SHARES[1].1)];
        verdicts(&mut text, "Against libfabric, over UDP", &all, &self.udp);
        text
    }

    /// The promises for devices are judged by the program `promises`.
    fn on_device(&self) -> String {
        let mut text = String::new();
        let Some((name, sizes)) = &self.device else {
            return text;
        };
        let setting = "the device makes CRCs as its driver is set";
        let what = format!("On {name}, half a round trip, µs");
        head(&mut text, what, setting);
        table(
            &mut text,
            sizes,
            &in_unit(&DEVICE_PING_PONG, MICROSECONDS),
            &DEVICE_PING_PONG_SHARES,
        );
        head(&mut text, format_args!("On {name}, one way, MB/s"), setting);
        table(
            &mut text,
            sizes,
            &in_unit(&DEVICE_ONE_WAY, MEGABYTES),
            &DEVICE_ONE_WAY_SHARES,
        );
        text
    }

    fn within_one_machine(&self) -> String {
        let mut text = String::new();
        if self.shm.is_empty() {
            return text;
        }
        let setting = crc(self.crc);
        head(
            &mut text,
            "Within one machine, half a round trip, µs",
            setting,
        );
        let times = in_unit(&SHM_PING_PONG, MICROSECONDS);
        table(&mut text, &self.shm, &times, &[]);
        head(&mut text, "Within one machine, one way, GB/s", setting);
        let rates = in_unit(&SHM_ONE_WAY, GIGABYTES);
        table(&mut text, &self.shm, &rates, &[]);
        let judged = REQUIRED
            .iter()
            .filter_map(|required| Some((required, required.judge(&self.shm)?)));
        let judged: Vec<_> = judged.collect();
        if judged.is_empty() {
            return text;
        }
        line(
            &mut text,
            format_args!(
                "### Within one machine, what is required\n\nA row holds if the worse quartile does.\n\n| what | size | required | measured | holds |\n|---|--:|---|--:|---|"
            ),
        );
        for (required, verdict) in judged {
            let (low, high) = verdict.quartiles;
            line(
                &mut text,
                format_args!(
                    "| {} | {} | {} of {} | {:.2} ({low:.2}–{high:.2}) | {} |",
                    required.what,
                    octets(required.octets),
                    required.bound,
                    required.to,
                    verdict.ratio,
                    self::verdict(verdict.holds)
                ),
            );
        }
        text.push('\n');
        text
    }

    fn of_programs(&self) -> String {
        let rows = self.programs.iter().map(|row| {
            let (name, size) = (row.test.name(), octets(row.test.size as usize));
            (format!("`{name}` | {size}"), &row.turns)
        });
        let columns = "| program | size | by `nd run` | `nd perf` | ratio | required | holds |\n|---|--:|--:|--:|--:|---|---|";
        self.judged("perftest by `nd run` beside `nd perf`", columns, rows)
    }

    fn of_numbers(&self) -> String {
        let rows = self.numbers.iter().map(|row| {
            let (test, size) = (row.test, octets(row.test.size as usize));
            let [measured, beside] = [test.measured, test.beside].map(Side::name);
            (format!("{measured} | {size} | {beside}"), &row.turns)
        });
        let columns = "| what | size | beside | measured | beside | ratio | required | holds |\n|---|--:|---|--:|--:|--:|---|---|";
        self.judged("Numbers of queue pairs", columns, rows)
    }

    /// A table whose rows begin with these cells. Nothing without a row.
    fn judged<'a>(
        &self,
        what: &str,
        columns: &str,
        rows: impl Iterator<Item = (String, &'a Pairs)>,
    ) -> String {
        let mut text = String::new();
        let mut rows = rows.peekable();
        let Some((_, first)) = rows.peek() else {
            return text;
        };
        line(
            &mut text,
            format_args!(
                "Medians of {} turns of {} ms each; ratios are medians of the ratios within each turn. In brackets is what half of the turns \
                 lie between.\n",
                first.turns.len(),
                self.turn_ms
            ),
        );
        head(&mut text, what, crc(self.crc));
        line(&mut text, format_args!("{columns}"));
        for (cells, pairs) in rows {
            let (Some(medians), Some((ratio, low, high))) = (pairs.medians(), pairs.ratio()) else {
                continue;
            };
            let (unit, name) = match pairs.bound {
                Bound::AtMost(_) => (MICROSECONDS, "µs"),
                Bound::AtLeast(_) => (GIGABYTES, "GB/s"),
            };
            let figure = |figure: f64| format!("{} {name}", number(Some(figure * unit)));
            line(
                &mut text,
                format_args!(
                    "| {cells} | {} | {} | {ratio:.2} ({low:.2}–{high:.2}) | {} | {} |",
                    figure(medians.measured),
                    figure(medians.beside),
                    pairs.bound,
                    verdict(pairs.holds())
                ),
            );
        }
        text.push('\n');
        text
    }

    fn machine(&self, text: &mut String) {
        line(text, format_args!("| machine | |\n|---|---|"));
        for (name, value) in &self.machine {
            line(
                text,
                format_args!("| {name} | {} |", conform_report::page::cell(value)),
            );
        }
        text.push('\n');
    }

    /// FPDUs per system call.
    fn histogram(&self) -> String {
        let mut text = String::new();
        if self.calls.is_empty() {
            return text;
        }
        line(
            &mut text,
            format_args!(
                "### FPDUs per system call, {}, share of calls\n",
                crc(self.crc)
            ),
        );
        let classes: Vec<_> = CLASSES
            .iter()
            .enumerate()
            .map(|(at, from)| match CLASSES.get(at + 1) {
                Some(next) if *next == from + 1 => from.to_string(),
                Some(next) => format!("{from}–{}", next - 1),
                None => format!("{from} and more"),
            })
            .collect();
        line(
            &mut text,
            format_args!("| traffic | depth | mean | {} |", classes.join(" | ")),
        );
        line(
            &mut text,
            format_args!("|---|{}", "--:|".repeat(2 + CLASSES.len())),
        );
        for (traffic, histogram) in &self.calls {
            let total = histogram.total().max(1) as f64;
            let shares: Vec<_> = histogram
                .calls
                .iter()
                .map(|calls| match *calls {
                    0 => String::new(),
                    calls => format!("{:.1} %", 100.0 * calls as f64 / total),
                })
                .collect();
            line(
                &mut text,
                format_args!(
                    "| {} {}, {} | {} | {:.1} | {} |",
                    traffic.op,
                    traffic.test,
                    octets(traffic.size),
                    traffic.depth,
                    histogram.fpdus / total,
                    shares.join(" | ")
                ),
            );
        }
        text.push('\n');
        text
    }
}

impl Round {
    /// As Markdown, of softnd with or without CRCs.
    fn print(&self, with_crc: bool) -> String {
        let mut text = String::new();
        let setting = crc(with_crc);
        let Self {
            congestion,
            chosen,
            sizes,
        } = self;
        let congestion = format!("{congestion}, {chosen}");
        head(
            &mut text,
            format_args!("Half a round trip, µs, {congestion}"),
            setting,
        );
        let ping_pong = in_unit(&PING_PONG, MICROSECONDS);
        table(&mut text, sizes, &ping_pong, &PING_PONG_SHARES);
        head(
            &mut text,
            format_args!("One way, GB/s, {congestion}"),
            setting,
        );
        table(
            &mut text,
            sizes,
            &in_unit(&ONE_WAY, GIGABYTES),
            &ONE_WAY_SHARES,
        );
        for (what, times, rates, shares) in [
            (
                "page-aligned memory",
                &ALIGNED_PING_PONG[..],
                &ALIGNED_ONE_WAY[..],
                &ALIGNED_SHARES[..],
            ),
            (
                "shared Receives",
                &SHARED_PING_PONG,
                &SHARED_ONE_WAY,
                &SHARED_SHARES,
            ),
        ] {
            let what = format!("softnd with {what}, µs and GB/s, {congestion}");
            head(&mut text, what, setting);
            let mut figures = in_unit(times, MICROSECONDS);
            figures.extend(in_unit(rates, GIGABYTES));
            table(&mut text, sizes, &figures, shares);
        }
        let all = [
            ("Send ping-pong", PING_PONG_SHARES[1].1),
            ("Send one way", ONE_WAY_SHARES[2].1),
            ("Write one way", ONE_WAY_SHARES[3].1),
            ("Send ping-pong, page-aligned memory", ALIGNED_SHARES[0].1),
            ("Send one way, page-aligned memory", ALIGNED_SHARES[1].1),
            ("Write one way, page-aligned memory", ALIGNED_SHARES[2].1),
            ("Send ping-pong, shared Receives", SHARED_SHARES[2].1),
            ("Send one way, shared Receives", SHARED_SHARES[3].1),
        ];
        let what = format!("Against the better peer, {congestion}");
        verdicts(&mut text, &what, &all, sizes);
        text
    }
}

/// The head of a table, and the setting of all that polls.
fn head(text: &mut String, what: impl std::fmt::Display, setting: &str) {
    line(
        text,
        format_args!("### {what}\n\nBoth sides poll, {setting}.\n"),
    );
}

/// Figures that are all shown in this unit.
fn in_unit(figures: &[(&'static str, Figure)], unit: f64) -> Vec<(&'static str, Figure, f64)> {
    let figures = figures.iter();
    figures
        .map(|(head, figure)| (*head, *figure, unit))
        .collect()
}

/// Microseconds of a nanosecond.
const MICROSECONDS: f64 = 1e-3;
/// Megabytes of an octet.
const MEGABYTES: f64 = 1e-6;
/// Gigabytes of an octet.
const GIGABYTES: f64 = 1e-9;

/// A line for each size: figures in their units, and shares.
fn table(
    text: &mut String,
    sizes: &[Size],
    figures: &[(&str, Figure, f64)],
    shares: &[(&str, Figure)],
) {
    let heads = figures.iter().map(|(head, ..)| *head);
    let heads = heads.chain(shares.iter().map(|(head, _)| *head));
    let heads: Vec<_> = std::iter::once("size").chain(heads).collect();
    line(text, format_args!("| {} |", heads.join(" | ")));
    line(text, format_args!("|{}", "--:|".repeat(heads.len())));
    for size in sizes {
        let figures = figures
            .iter()
            .map(|(_, figure, unit)| number(size.median(*figure).map(|figure| figure * unit)));
        let shares = shares.iter().map(|(_, share)| share_of(size, *share));
        let cells: Vec<_> = std::iter::once(octets(size.octets))
            .chain(figures)
            .chain(shares)
            .collect();
        line(text, format_args!("| {} |", cells.join(" | ")));
    }
    text.push('\n');
}

/// The result of the comparison with peers.
fn verdicts(text: &mut String, what: &str, all: &[(&str, Figure)], sizes: &[Size]) {
    let known: Vec<_> = all
        .iter()
        .filter_map(|(name, share)| Some((name, Overall::summarize(sizes, *share)?)))
        .collect();
    if known.is_empty() {
        return;
    }
    line(
        text,
        format_args!(
            "### {what}\n\nA row holds if the worse quartile does, at every size.\n\n| what | required | lowest | at | median of all sizes | holds |\n|---|---|--:|--:|--:|---|",
        ),
    );
    for (name, overall) in known {
        line(
            text,
            format_args!(
                "| {name} | {LEAST} at every size, median above {AHEAD} | {:.2} ({:.2}–{:.2}) | {} | {:.2} | {} |",
                overall.worst,
                overall.quartiles.0,
                overall.quartiles.1,
                octets(overall.worst_size),
                overall.median,
                if overall.holds() { "yes" } else { "missed" }
            ),
        );
    }
    text.push('\n');
}

/// A share with its quartiles.
fn share_of(size: &Size, share: Figure) -> String {
    match (size.median(share), size.quartiles(share)) {
        (Some(median), Some((low, high))) => format!("{median:.2} ({low:.2}–{high:.2})"),
        _ => number(None),
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{arguments}");
}

/// Three digits that count.
fn number(number: Option<f64>) -> String {
    match number {
        None => "–".to_owned(),
        Some(number) if number >= 100.0 => format!("{number:.0}"),
        Some(number) if number >= 10.0 => format!("{number:.1}"),
        Some(number) if number >= 0.1 => format!("{number:.2}"),
        Some(number) => format!("{number:.4}"),
    }
}

const fn verdict(holds: bool) -> &'static str {
    if holds { "yes" } else { "missed" }
}

/// `page` with `text` in the place that is for this part.
///
/// # Errors
///
/// When the page has no such place.
pub fn replace(page: &str, part: PagePart, text: &str) -> Result<String, Failure> {
    conform_report::page::replace(page, part.name(), text)
        .map_err(|error| Failure::new(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::calls::TRAFFIC;
    use super::super::numbers::tests::rows as numbers_of_test;
    use super::super::programs::tests::rows as programs_of_test;
    use super::super::turns::tests::sizes;
    use super::*;

    fn findings() -> Findings {
        let mut histogram = Histogram::default();
        histogram.calls[0] = 1;
        histogram.calls[5] = 3;
        histogram.fpdus = 100.0;
        Findings {
            machine: vec![("processor", "one | two".to_owned())],
            cores: Watch {
                looks: vec![Duration::from_nanos(30)],
                moves: 0,
            },
            crc: false,
            turn_ms: 100,
            rounds: vec![Round {
                congestion: "cubic".to_owned(),
                chosen: "by chance",
                sizes: sizes(),
            }],
            udp: sizes(),
            device: Some(("siw0".to_owned(), sizes())),
            programs: programs_of_test(),
            numbers: numbers_of_test(),
            shm: sizes(),
            calls: vec![(TRAFFIC[1], histogram)],
            skipped: vec!["fi_pingpong is not installed".to_owned()],
        }
    }

    #[test]
    fn every_row_of_a_table_has_as_many_cells_as_its_head() {
        let text = findings().print();
        let mut width = None;
        for line in text.lines() {
            let cells = line.replace("\\|", "").matches('|').count();
            width = (cells > 0).then(|| *width.get_or_insert(cells));
            assert!(width.is_none_or(|width| width == cells), "{line}");
        }
    }

    #[test]
    fn figures_have_their_units_and_settings() {
        let text = findings().print();
        for part in [
            "### Half a round trip, µs, cubic, by chance\n\nBoth sides poll, CRC off.",
            "| 8 B | 4.00 | 5.00 | 10.0 | 6.60 | 0.80 (0.80–0.80) | 1.10 (1.10–1.10) |",
            "| 1 MiB | 10.0 | 8.00 | 9.00 | 10.0 | 1.00 | 0.80 (0.80–0.80) | 0.90 (0.90–0.90) |",
            "| 1 MiB | 5.50 | 7.00 | 6.00 | 1.00 (1.00–1.00) | 0.70 (0.70–0.70) | 0.60 (0.60–0.60) |",
            "### softnd with shared Receives, µs and GB/s, cubic, by chance\n",
            "| 1 MiB | 6.25 | 4.00 | 0.80 (0.80–0.80) | 0.50 (0.50–0.50) | 0.88 (0.88–0.88) | 0.40 (0.40–0.40) |",
            "### Over UDP, half a round trip, µs\n\nBoth sides poll, encrypted by QUIC, libfabric not encrypted.\n",
            "| 8 B | 6.00 | 8.00 | 18.0 | 0.75 (0.75–0.75) | 2.00 (2.00–2.00) |",
            "| 8 B | 4.00 | 3.00 | 2.00 | 0.75 (0.75–0.75) | 0.50 (0.50–0.50) |",
            "### Against libfabric, over UDP\n",
            "### On siw0, half a round trip, µs\n",
            "| 8 B | 80.0 | 100 | 90.0 | 100 | 0.80 (0.80–0.80) | 0.90 (0.90–0.90) |",
            "| 8 B | 4000 | 2000 | 4000 | 3000 | 4000 | 5000 | 0.50 (0.50–0.50) | 0.75 (0.75–0.75) | 1.25 (1.25–1.25) |",
            "\n\nA cache line took 30 ns from core to core",
            "| Write one way, page-aligned memory | 0.95 at every size, median above 1 | 0.60 (0.60–0.60) | 8 B | 0.60 | missed |",
            "| Send ping-pong | 0.95 at every size, median above 1 | 1.10 (1.10–1.10) | 8 B | 1.10 | yes |",
            "| Send one way | 0.95 at every size, median above 1 | 0.80 (0.80–0.80) | 8 B | 0.80 | missed |",
            "| send rate, 64 B | 128 | 25.0 | 25.0 % |  |  |  |  | 75.0 % |  |  |",
            "| `ib_send_lat` | 8 B | 8.40 µs | 8.00 µs | 1.05 (1.00–1.20) | at most 1.10 | yes |",
            "| `ib_read_bw` | 64 KiB | ",
            " | 0.60 (0.50–0.90) | at least 0.95 | missed |",
            "| `ib_write_bw`, placed | 8 B | `ib_write_bw`, sent | ",
            "| `ib_write_lat`, placed | 8 B | `nd perf --mode memory` | 12.8 µs | 8.00 µs | 1.60 (1.60–1.60) | at most 1.50 | missed |",
            "| UCX `tag_bw`, rc_v | 8 B | UCX `tag_bw`, tcp | ",
            " | 3.50 (3.50–3.50) | at least 3.00 | yes |",
            "### Within one machine, half a round trip, µs\n\nBoth sides poll, CRC off.\n",
            "| 8 B | 5.00 | 0.50 | 0.25 | 1.00 | 0.60 | 0.0200 | 0.40 |",
            "| Send, half a round trip | 8 B | at most 4.00 of UCX posix | 2.00 (2.00–2.00) | yes |",
            "| Read one way | 1 MiB | at least 2.00 of softnd over TCP | 1.50 (1.50–1.50) | missed |",
            "Skipped: fi_pingpong is not installed.",
            "one \\| two",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn without_peers_there_is_no_verdict() {
        let mut findings = findings();
        let sizes = findings
            .rounds
            .iter_mut()
            .flat_map(|round| &mut round.sizes);
        let sizes = sizes.chain(&mut findings.udp);
        for turn in sizes.flat_map(|size| &mut size.turns) {
            turn.ucx_ping_pong = None;
            turn.fabric_ping_pong = None;
            turn.ucx_tag = None;
            turn.ucx_put = None;
            turn.fabric_udp_ping_pong = None;
        }
        let text = findings.print();
        assert!(!text.contains("Against "), "{text}");
        assert!(text.contains("| – |"), "{text}");
    }

    #[test]
    fn the_page_of_the_book_has_the_marks_of_all_parts() {
        let page = include_str!("../../../docs/reports/performance-compared.md");
        for part in [
            PagePart::Tcp,
            PagePart::Udp,
            PagePart::Device,
            PagePart::Programs,
            PagePart::Numbers,
            PagePart::Shm,
        ] {
            replace(page, part, "new").unwrap();
        }
    }
}
