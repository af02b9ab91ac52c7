//! Results as they are printed.

use super::cells::{ABSENT, fixed, megabytes, micros, remark, times, transport};
use super::fields;
use super::many::report as many;
use super::outcome::{BaselineFigures, Comparison, Outcome};
use super::spec::{Boundaries, Op, Placement, Receives, Spec, Test, Transport};
use crate::cores::Watch;
use conform_report::table::{Align, Table};
use nd_base::args::Format;
use nd_base::errors::Result;
use nd_base::output::{self, Paint};
use nd_base::units;

/// Prints results: JSON and CSV as they come, and each table as soon as it is complete.
#[derive(Debug)]
pub(super) struct Report {
    format: Format,
    /// All results so far.
    outcomes: Vec<Outcome>,
    /// How many of these have been printed.
    printed: usize,
}

impl Report {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            outcomes: Vec::new(),
            printed: 0,
        }
    }

    /// One more result.
    pub(super) fn add(&mut self, outcome: Outcome) -> Result<()> {
        match self.format {
            Format::Json => output::line(fields::json(&fields::outcome_fields(&outcome)))?,
            Format::Csv => {
                let fields = fields::outcome_fields(&outcome);
                if self.outcomes.is_empty() {
                    output::line(fields::csv_head(&fields))?;
                }
                output::line(fields::csv(&fields))?;
            }
            Format::Text | Format::Junit | Format::Html | Format::Markdown => {
                let last = self.outcomes.last();
                if last.is_some_and(|last| !is_like(&last.spec, &outcome.spec)) {
                    self.print_table()?;
                }
            }
        }
        self.outcomes.push(outcome);
        Ok(())
    }

    /// Prints the rest, because no more results come.
    pub(super) fn finish(&mut self) -> Result<()> {
        if !matches!(self.format, Format::Json | Format::Csv) {
            self.print_table()?;
            self.print_circumstances()?;
        }
        Ok(())
    }

    /// Prints the circumstances of the figures: the build, and the looks at the cores in all rows.
    fn print_circumstances(&self) -> Result<()> {
        let mut cores = Watch::default();
        self.outcomes.iter().for_each(|row| cores.add(&row.cores));
        output::line("")?;
        output::line(format_args!(
            "nd was built with cargo's profile `{}`.",
            crate::machine::PROFILE
        ))?;
        if cores == Watch::default() {
            return Ok(());
        }
        output::line(cores)
    }

    pub(super) fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    fn print_table(&mut self) -> Result<()> {
        let rows = &self.outcomes[self.printed..];
        let Some(first) = rows.first() else {
            return Ok(());
        };
        if self.printed > 0 {
            output::line("")?;
        }
        output::line(Paint::for_stdout().bold(heading(first)))?;
        output::line(table(rows).to_string().trim_end())?;
        self.printed = self.outcomes.len();
        Ok(())
    }
}

/// Returns true if two rows are in the same table.
pub(super) fn is_like(a: &Spec, b: &Spec) -> bool {
    Spec { size: b.size, ..*a } == *b
}

/// The title of a table, which also says where the other side takes its Receives from, and whether the connection goes through shared memory.
fn heading(outcome: &Outcome) -> String {
    let mut title = title(&outcome.spec);
    title += match (outcome.spec.receives, outcome.peer_receives) {
        (Receives::Shared, Some(Receives::Own)) => " at this side",
        (Receives::Own, Some(Receives::Shared)) => ", shared Receives at the other side",
        _ => "",
    };
    if outcome.transports.are_shared_memory() {
        title += ", shared memory";
    }
    title
}

/// The title of a row, for a table or for the progress: `RDMA Write bandwidth, poll, CRC off, depth 32`.
pub(super) fn title(spec: &Spec) -> String {
    let mut title = match spec.test {
        Test::Latency | Test::Bandwidth | Test::Rate => title_of_messages(spec),
        Test::Scale | Test::Setup => many::title(spec),
    };
    if let Some(segment) = spec.segment {
        title += &format!(", segments of {segment} B");
    }
    if spec.boundaries == Boundaries::Any {
        title += ", segments begin anywhere";
    }
    if spec.transport == Transport::Udp {
        title += ", over UDP";
    }
    if spec.placement == Placement::Together {
        title += ", one core";
    }
    if spec.receives == Receives::Shared {
        title += ", shared Receives";
    }
    if let Some(offset) = spec.page_offset {
        title += &match offset {
            0 => ", page-aligned memory".to_owned(),
            offset => format!(", memory at {offset} of a page"),
        };
    }
    title
}

fn title_of_messages(spec: &Spec) -> String {
    let op = match spec.op {
        Op::Send => "Send",
        Op::Write => "RDMA Write",
        Op::Read => "RDMA Read",
    };
    let crc = if spec.crc { "on" } else { "off" };
    let mut title = format!("{op} {}, {}", spec.test, spec.mode);
    if spec.transport == Transport::Tcp {
        title += &format!(", CRC {crc}");
    }
    if spec.test != Test::Latency {
        title += &format!(", depth {}", spec.depth);
    }
    title
}

fn table(rows: &[Outcome]) -> Table {
    if rows[0].spec.is_of_connections() {
        many::table(rows)
    } else {
        table_of_messages(rows)
    }
}

/// The heads that `perftest` gives its columns, and behind them the comparison.
fn table_of_messages(rows: &[Outcome]) -> Table {
    let timed = rows[0].spec.test == Test::Latency;
    let compared = rows.iter().find_map(|row| row.baseline.as_ref());
    let with = compared.map(|baseline| baseline.with);
    let own = rows.iter().find_map(|row| row.systems_own.as_ref());
    let mut heads: Vec<String> = vec!["#bytes".into(), "#iterations".into(), "transport".into()];
    heads.extend(
        if timed {
            LATENCY_HEADS
        } else {
            BANDWIDTH_HEADS
        }
        .iter()
        .map(|head| (*head).to_owned()),
    );
    if let Some(with) = with {
        let unit = if timed { "t_typical[usec]" } else { "MB/s" };
        let bare = with.bare_name();
        heads.push(format!("{} {unit}", with.head()));
        heads.extend(bare.map(|bare| format!("{bare} by")));
        heads.push("ratio".into());
        if timed {
            heads.push("ratio p99".into());
        }
        if let Some(own) = own {
            heads.push(format!("TCP {unit}, {} (default)", by(own)));
        }
    }
    heads.push(String::new());
    let mut table = Table::new(heads.into_iter().map(|head| (head, Align::Right)));
    for row in rows {
        let mut cells = cells(row, timed);
        if let Some(with) = with {
            cells.extend(comparison(row, with, timed, own.is_some()));
        }
        cells.extend(remark(row));
        table.row(cells);
    }
    table
}

const LATENCY_HEADS: &[&str] = &[
    "t_min[usec]",
    "t_max[usec]",
    "t_typical[usec]",
    "t_avg[usec]",
    "99%[usec]",
    "99.9%[usec]",
];

const BANDWIDTH_HEADS: &[&str] = &["BW peak[MB/s]", "BW average[MB/s]", "MsgRate[Mpps]"];

fn cells(row: &Outcome, timed: bool) -> Vec<String> {
    let figures = &row.figures;
    let mut cells = vec![
        row.spec.size.to_string(),
        figures.messages.to_string(),
        transport(row),
    ];
    if timed {
        cells.extend(match figures.latency {
            Some(l) => [l.min, l.max, l.p50, l.mean, l.p99, l.p999].map(micros),
            None => [ABSENT; 6].map(str::to_owned),
        });
    } else {
        cells.push(megabytes(figures.peak_bytes_per_s));
        cells.push(megabytes(figures.bytes_per_s));
        cells.push(fixed(figures.msgs_per_s / 1e6, 3));
    }
    cells
}

fn comparison(row: &Outcome, with: Comparison, timed: bool, own: bool) -> Vec<String> {
    let typical = |baseline: Option<&BaselineFigures>| {
        let figures = baseline.map(|baseline| baseline.figures);
        match figures {
            Some(figures) if timed => figures
                .latency
                .map_or_else(|| ABSENT.to_owned(), |latency| micros(latency.p50)),
            Some(figures) => megabytes(figures.bytes_per_s),
            None => ABSENT.to_owned(),
        }
    };
    let best = row.baseline.as_ref();
    let mut cells = vec![typical(best)];
    if with.bare_name().is_some() {
        let by = best.map(|best| match best.write {
            Some(write) => format!("{}, {}", by(best), units::bytes(write as u64)),
            None => by(best).to_owned(),
        });
        cells.push(by.unwrap_or_else(|| ABSENT.to_owned()));
    }
    let ratio = best.and_then(|best| best.ratio);
    cells.push(times(ratio.map(|ratio| ratio.typical)));
    if timed {
        cells.push(times(ratio.and_then(|ratio| ratio.p99)));
    }
    if own {
        cells.push(typical(row.systems_own.as_ref().or(best)));
    }
    cells
}

/// The congestion control of a bare connection.
fn by(baseline: &BaselineFigures) -> &str {
    baseline.congestion.as_deref().unwrap_or(ABSENT)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use crate::cores::Watch;

    use nd_base::provider::OVER_TCP;

    use super::super::outcome::{Costs, Transports};
    use super::super::spec::Mode;
    use super::super::spec::tests::SPEC;
    use super::super::stats::SideTurns;
    use super::*;

    fn side(times: &[u64]) -> SideTurns {
        let mut side = SideTurns::new();
        side.add(1000, Duration::from_millis(100), &mut times.to_vec());
        side
    }

    fn tcp() -> Transports {
        let mut tcp = Transports::default();
        tcp.add(Some("tcp"));
        tcp
    }

    fn outcome(spec: Spec, times: &[u64]) -> Outcome {
        let (ours, theirs) = (side(times), side(times));
        let baseline = |name: &str, write| BaselineFigures {
            with: Comparison::Tcp,
            congestion: Some(name.to_owned()),
            write,
            figures: theirs.figures(&spec),
            ratio: ours.ratio(&theirs, &spec),
        };
        Outcome {
            spec,
            peer_receives: Some(spec.receives),
            transports: tcp(),
            turns: 1,
            complete: true,
            figures: ours.figures(&spec),
            costs: Costs::default(),
            cores: Watch::default(),
            baseline: Some(baseline("cubic", Some(64 << 10))),
            systems_own: Some(baseline("bbr", Some(64 << 10))),
        }
    }

    pub(crate) fn bandwidth() -> Outcome {
        outcome(SPEC, &[])
    }

    pub(crate) fn latency() -> Outcome {
        let spec = Spec {
            test: Test::Latency,
            ..SPEC
        };
        outcome(spec, &[8000, 9000])
    }

    pub(crate) fn beside_quic() -> Outcome {
        let mut outcome = bandwidth();
        if let Some(bare) = &mut outcome.baseline {
            bare.with = Comparison::Quic;
        }
        Outcome {
            systems_own: None,
            ..outcome
        }
    }

    /// Through shared memory, beside the same adapter over TCP.
    pub(crate) fn within_one_machine() -> Outcome {
        let mut outcome = latency();
        outcome.spec.same_host = Some(true);
        outcome.transports = Transports::default();
        outcome.transports.add(Some("shm"));
        if let Some(other) = &mut outcome.baseline {
            (other.congestion, other.write) = (None, None);
            other.with = Comparison::OverTcp;
        }
        Outcome {
            systems_own: None,
            ..outcome
        }
    }

    pub(crate) fn shared() -> Outcome {
        let spec = Spec {
            op: Op::Send,
            test: Test::Latency,
            receives: Receives::Shared,
            ..SPEC
        };
        let mut outcome = outcome(spec, &[8000, 9000]);
        if let Some(own) = &mut outcome.baseline {
            (own.congestion, own.write) = (None, None);
            own.with = Comparison::Plain;
        }
        Outcome {
            systems_own: None,
            ..outcome
        }
    }

    pub(crate) fn scale() -> Outcome {
        let spec = Spec {
            op: Op::Send,
            test: Test::Scale,
            size: 8,
            depth: 1,
            connections: 10_000,
            ..SPEC
        };
        let mut outcome = outcome(spec, &[8000, 9000]);
        if let Some(alone) = &mut outcome.baseline {
            (alone.congestion, alone.write) = (None, None);
            alone.with = Comparison::Alone;
        }
        Outcome {
            costs: Costs {
                memory: [Some(4096.0), Some(6144.0)],
                cpu: [Some(0.002), Some(0.0005)],
            },
            systems_own: None,
            ..outcome
        }
    }

    pub(crate) fn setup() -> Outcome {
        let spec = Spec {
            op: Op::Send,
            test: Test::Setup,
            mode: Mode::Event,
            connections: 50,
            ..SPEC
        };
        Outcome {
            baseline: None,
            systems_own: None,
            ..outcome(spec, &[])
        }
    }

    #[test]
    fn titles_say_what_rows_have_in_common() {
        assert_eq!(
            title(&SPEC),
            "RDMA Write bandwidth, poll, CRC off, depth 32"
        );
        let spec = Spec {
            test: Test::Latency,
            crc: true,
            segment: Some(1448),
            placement: Placement::Together,
            ..SPEC
        };
        assert_eq!(
            title(&spec),
            "RDMA Write latency, poll, CRC on, segments of 1448 B, one core"
        );
        let spec = Spec {
            transport: Transport::Udp,
            ..SPEC
        };
        assert_eq!(
            title(&spec),
            "RDMA Write bandwidth, poll, depth 32, over UDP"
        );
    }

    #[test]
    fn a_title_says_which_side_has_shared_receives() {
        use Receives::{Own, Shared};
        let heading = |receives, peer_receives| {
            let spec = Spec { receives, ..SPEC };
            let heading = heading(&Outcome {
                spec,
                peer_receives,
                ..bandwidth()
            });
            heading.strip_prefix(&title(&SPEC)).unwrap().to_owned()
        };
        for (here, there, expected) in [
            (Own, Some(Own), ""),
            (Own, None, ""),
            (Own, Some(Shared), ", shared Receives at the other side"),
            (Shared, Some(Shared), ", shared Receives"),
            (Shared, None, ", shared Receives"),
            (Shared, Some(Own), ", shared Receives at this side"),
        ] {
            assert_eq!(heading(here, there), expected);
        }
    }

    #[test]
    fn a_plain_connection_stands_beside_shared_receives() {
        let text = table(&[shared()]).to_string();
        let heads = text.lines().next().expect("heads");
        assert!(heads.contains("plain t_typical[usec]"), "{text}");
        assert!(
            heads.contains("ratio p99") && !heads.contains("TCP"),
            "{text}"
        );
    }

    #[test]
    fn the_transport_is_that_of_the_connection() {
        let text = table(&[within_one_machine()]).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("transport"), "{text}");
        assert!(
            lines[0].contains(&format!("{OVER_TCP} t_typical[usec]")),
            "{text}"
        );
        assert!(lines[2].contains(" shm "), "{text}");
        let of = heading(&within_one_machine());
        assert!(of.ends_with(", shared memory"), "{of}");
        let mut with_receives = within_one_machine();
        with_receives.spec.receives = Receives::Shared;
        with_receives.peer_receives = Some(Receives::Own);
        let of = heading(&with_receives);
        let end = ", shared Receives at this side, shared memory";
        assert!(of.ends_with(end), "{of}");
        // The option was given, and the connection is over TCP nevertheless.
        let over_tcp = Outcome {
            transports: tcp(),
            ..within_one_machine()
        };
        assert!(!heading(&over_tcp).contains("memory"));
        assert!(table(&[over_tcp]).to_string().contains(" tcp "));
    }

    #[test]
    fn a_bare_quic_stream_is_named() {
        let text = table(&[beside_quic()]).to_string();
        let heads = text.lines().next().expect("heads");
        assert!(
            heads.contains("QUIC MB/s") && heads.contains("QUIC by") && !heads.contains("TCP"),
            "{text}"
        );
    }

    #[test]
    fn rows_that_differ_in_size_only_stand_in_one_table() {
        assert!(is_like(&SPEC, &Spec { size: 1, ..SPEC }));
        assert!(!is_like(&SPEC, &Spec { crc: true, ..SPEC }));
    }

    #[test]
    fn bandwidth_is_shown_as_perftest_does_beside_the_baseline() {
        let text = table(&[bandwidth()]).to_string();
        let lines: Vec<_> = text.lines().collect();
        for head in [
            "#bytes",
            "#iterations",
            "BW peak[MB/s]",
            "BW average[MB/s]",
            "MsgRate[Mpps]",
            "ratio",
            "bbr (default)",
        ] {
            assert!(lines[0].contains(head), "{head}: {text}");
        }
        for cell in ["65536", "1000", "655.36", "0.010", "cubic, 64 KiB", "1.00"] {
            assert!(lines[2].contains(cell), "{cell}: {text}");
        }
    }

    #[test]
    fn latency_is_shown_as_perftest_does() {
        let text = table(&[latency()]).to_string();
        for word in [
            "t_min[usec]",
            "t_typical[usec]",
            "t_avg[usec]",
            "99.9%[usec]",
            "4.00",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn what_is_incomplete_says_so() {
        let cut = Outcome {
            complete: false,
            turns: 0,
            figures: SideTurns::new().figures(&SPEC),
            baseline: None,
            systems_own: None,
            ..bandwidth()
        };
        let text = table(&[bandwidth(), cut]).to_string();
        assert!(text.contains("incomplete: 0 turns"), "{text}");
        assert!(!text.contains("NaN") && text.contains('-'), "{text}");
    }
}
