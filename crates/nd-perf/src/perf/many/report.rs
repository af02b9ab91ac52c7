//! Rows about many connections as they are printed.

use crate::perf::cells::{ABSENT, fixed, micros, remark, times, transport};
use crate::perf::outcome::{Comparison, Outcome};
use crate::perf::spec::{Spec, Test, Transport};
use conform_report::table::{Align, Table};
use nd_base::units;

/// The title of a table, or of the progress.
pub(in crate::perf) fn title(spec: &Spec) -> String {
    let crc = match spec.transport {
        Transport::Udp => "",
        Transport::Tcp if spec.crc => ", CRC on",
        Transport::Tcp => ", CRC off",
    };
    let idle = units::count(spec.connections.into());
    if spec.test == Test::Scale {
        let mode = spec.mode;
        let after = spec.traffic.map_or_else(String::new, |octets| {
            format!(" after {} each way", units::bytes(octets.into()))
        });
        return format!("{idle} idle connections{after}, Send latency on one, {mode}{crc}");
    }
    format!("connections set up and torn down beside {idle} idle ones{crc}")
}

/// Rows that measure the same.
pub(in crate::perf) fn table(rows: &[Outcome]) -> Table {
    let scale = rows[0].spec.test == Test::Scale;
    let with = rows.iter().find_map(|row| row.baseline.as_ref());
    let others = with
        .map_or(Comparison::Tcp, |baseline| baseline.with)
        .head();
    let heads = if scale { SCALE_HEADS } else { SETUP_HEADS };
    let heads = heads.iter().map(|head| head.replace(OTHERS, others));
    let mut table = Table::new(heads.map(|head| (head, Align::Right)));
    for row in rows {
        let mut cells = if scale {
            scale_cells(row)
        } else {
            setup_cells(row)
        };
        cells.extend(remark(row));
        table.row(cells);
    }
    table
}

const SCALE_HEADS: &[&str] = &[
    "#bytes",
    "#iterations",
    "transport",
    "memory each[B]",
    "peer's[B]",
    "idle CPU[%]",
    "peer's[%]",
    "t_typical[usec]",
    "99%[usec]",
    "alone t_typical[usec]",
    "ratio",
    "ratio p99",
    "",
];

fn scale_cells(row: &Outcome) -> Vec<String> {
    let number = |value: Option<f64>, digits| fixed(value.unwrap_or(f64::NAN), digits);
    let latency = row.figures.latency;
    let alone = row
        .baseline
        .as_ref()
        .and_then(|alone| alone.figures.latency);
    let ratio = row.baseline.as_ref().and_then(|alone| alone.ratio);
    let time = |nanos: Option<f64>| nanos.map_or_else(|| ABSENT.to_owned(), micros);
    let mut cells = vec![
        row.spec.size.to_string(),
        row.figures.messages.to_string(),
        transport(row),
    ];
    cells.extend(row.costs.memory.map(|memory| number(memory, 0)));
    cells.extend(
        row.costs
            .cpu
            .map(|cpu| number(cpu.map(|share| share * 100.0), 2)),
    );
    cells.extend([
        time(latency.map(|latency| latency.p50)),
        time(latency.map(|latency| latency.p99)),
        time(alone.map(|latency| latency.p50)),
        times(ratio.map(|ratio| ratio.typical)),
        times(ratio.and_then(|ratio| ratio.p99)),
    ]);
    cells
}

/// Stands for what set-ups are compared with.
const OTHERS: &str = "{}";

const SETUP_HEADS: &[&str] = &[
    "#iterations",
    "idle",
    "transport",
    "connections/s",
    "{} connections/s",
    "ratio",
    "",
];

fn setup_cells(row: &Outcome) -> Vec<String> {
    let bare = row.baseline.as_ref();
    vec![
        row.figures.messages.to_string(),
        row.spec.connections.to_string(),
        transport(row),
        fixed(row.figures.msgs_per_s, 0),
        fixed(bare.map_or(f64::NAN, |bare| bare.figures.msgs_per_s), 0),
        times(bare.and_then(|bare| bare.ratio).map(|ratio| ratio.typical)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::report::tests::{scale, setup};

    fn lines(row: Outcome) -> (String, String) {
        let text = table(&[row]).to_string();
        let mut lines = text.lines().map(str::to_owned);
        let heads = lines.next().expect("heads");
        (heads, lines.nth(1).expect("a row"))
    }

    #[test]
    fn costs_stand_beside_the_latency_and_that_of_one_alone() {
        let (heads, cells) = lines(scale());
        for head in ["memory each[B]", "idle CPU[%]", "alone t_typical", "ratio"] {
            assert!(heads.contains(head), "{heads}");
        }
        for cell in ["4096", "6144", "0.20", "0.05", "4.00", "1.00"] {
            assert!(cells.contains(cell), "{cell}: {cells}");
        }
        assert_eq!(
            title(&scale().spec),
            "10 000 idle connections, Send latency on one, poll, CRC off"
        );
        let used = Spec {
            traffic: Some(1 << 20),
            ..scale().spec
        };
        assert_eq!(
            title(&used),
            "10 000 idle connections after 1 MiB each way, Send latency on one, poll, CRC off"
        );
    }

    #[test]
    fn connections_are_counted_per_second() {
        let (heads, cells) = lines(setup());
        assert!(heads.contains("connections/s"), "{heads}");
        assert_eq!(
            cells.split_whitespace().collect::<Vec<_>>(),
            ["1000", "50", "tcp", "10000", "-", "-"]
        );
    }

    #[test]
    fn what_was_not_measured_is_absent() {
        let cut = Outcome {
            costs: crate::perf::outcome::Costs::default(),
            baseline: None,
            complete: false,
            ..scale()
        };
        let (_, cells) = lines(cut);
        assert!(
            cells.contains(" -  ") && cells.ends_with("incomplete: 1 turns"),
            "{cells}"
        );
        assert!(!cells.contains("NaN"), "{cells}");
    }
}
