//! `nd perf device`: compares the provider over verbs with perftest's own programs, both on one RDMA device of this machine.

use std::env;

use conform_report::table::{Align, Table};
use nd_base::args::Format;
use nd_base::errors::{Failure, Result, one_line};
use nd_base::interrupt::Interrupt;
use nd_base::output;
use nd_base::provider::{AdapterOptions, Backend};
use nd_base::units;
use serde_json::Value;

use super::args::DeviceArgs;
use super::cells::{ABSENT, fixed};
use super::fields;
use super::stats::{Ratio, median};
use super::sweep;
use crate::device::{Device, DeviceTest, DeviceTurn, Program};

const fn test(program: Program, size: u32, messages: u32) -> DeviceTest {
    DeviceTest {
        program,
        size,
        messages,
    }
}

const TESTS: [DeviceTest; 5] = [
    test(Program::SendLat, 64, 1000),
    test(Program::WriteLat, 64, 1000),
    test(Program::SendBw, 64 << 10, 500),
    test(Program::WriteBw, 64 << 10, 500),
    test(Program::ReadBw, 64 << 10, 500),
];

fn title(test: DeviceTest) -> String {
    let (op, what) = match test.program {
        Program::SendLat => ("Send", "latency"),
        Program::WriteLat => ("RDMA Write", "latency"),
        Program::ReadLat => ("RDMA Read", "latency"),
        Program::SendBw => ("Send", "bandwidth"),
        Program::WriteBw => ("RDMA Write", "bandwidth"),
        Program::ReadBw => ("RDMA Read", "bandwidth"),
    };
    format!("{op} {what}, poll, over verbs")
}

/// A test and its turns, or why one of them has failed.
#[derive(Debug)]
struct DeviceRow {
    test: DeviceTest,
    turns: std::result::Result<Vec<DeviceTurn>, String>,
}

impl DeviceRow {
    /// The typical figures of this program and of perftest's, in nanoseconds or in octets per second, and their ratio.
    fn figures(&self) -> Option<([f64; 2], Ratio)> {
        // perftest has microseconds, and MiB per second.
        let unit = if self.test.program.is_bandwidth() {
            f64::from(1 << 20)
        } else {
            1e3
        };
        let turns = self.turns.as_ref().ok()?;
        let side = |figure: fn(&DeviceTurn) -> f64| {
            median(&turns.iter().map(figure).collect::<Vec<_>>()) * unit
        };
        let ratios: Vec<_> = turns.iter().map(|turn| turn.ours / turn.theirs).collect();
        let figures = [side(|turn| turn.ours), side(|turn| turn.theirs)];
        Some((figures, Ratio::of_turns(&ratios)))
    }

    /// The row as named values, always the same names in the same order.
    fn fields(&self) -> Vec<(String, Value)> {
        let is_bandwidth = self.test.program.is_bandwidth();
        let figures = self.figures();
        let figure = |side: usize, bandwidth: bool| {
            let figures = figures.filter(|_| is_bandwidth == bandwidth);
            figures.map_or(Value::Null, |(figures, _)| Value::from(figures[side]))
        };
        let ratio = |figure: fn(Ratio) -> f64| {
            figures.map_or(Value::Null, |(_, ratio)| Value::from(figure(ratio)))
        };
        let (turns, error) = match &self.turns {
            Ok(turns) => (turns.len(), Value::Null),
            Err(why) => (0, Value::from(one_line(why))),
        };
        [
            ("title", Value::from(title(self.test))),
            ("program", Value::from(self.test.program.installed_name())),
            ("size", Value::from(self.test.size)),
            ("turns", Value::from(turns)),
            ("p50_ns", figure(0, false)),
            ("perftest_p50_ns", figure(1, false)),
            ("bytes_per_s", figure(0, true)),
            ("perftest_bytes_per_s", figure(1, true)),
            ("ratio", ratio(|ratio| ratio.typical)),
            ("ratio_q1", ratio(|ratio| ratio.quartiles.0)),
            ("ratio_q3", ratio(|ratio| ratio.quartiles.1)),
            ("error", error),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// The row of a table for people.
    fn cells(&self) -> [String; 6] {
        let size = units::bytes(self.test.size.into());
        let absent = || ABSENT.to_owned();
        let [ours, theirs, ratio, spread] = match (self.figures(), &self.turns) {
            (Some((figures, ratio)), _) => {
                let [ours, theirs] = figures.map(|figure| {
                    if self.test.program.is_bandwidth() {
                        format!("{} MB/s", fixed(figure / 1e6, 0))
                    } else {
                        format!("{} µs", fixed(figure / 1e3, 2))
                    }
                });
                let (low, high) = ratio.quartiles;
                let [ratio, low, high] =
                    [ratio.typical, low, high].map(|ratio| units::decimal(ratio, 2));
                [ours, theirs, ratio, format!("{low} to {high}")]
            }
            (None, Err(why)) => [one_line(why), absent(), absent(), absent()],
            (None, Ok(_)) => [absent(), absent(), absent(), absent()],
        };
        [title(self.test), size, ours, theirs, ratio, spread]
    }
}

/// The device of this name.
///
/// # Errors
///
/// If there is no such device, or if one of perftest's programs is not installed.
fn find(name: &str) -> Result<Device> {
    let name = name.strip_prefix("verbs://").unwrap_or(name);
    let url = format!("verbs://{name}");
    let address = Backend::new(Some(&url), &AdapterOptions::default())?.address(&url)?;
    let mut programs = TESTS.iter().map(|test| test.program);
    if let Some(missing) = programs.find(|program| !program.is_installed()) {
        return Err(Failure::new(
            format!(
                "{} is not installed, with which {url} is compared",
                missing.installed_name()
            ),
            "install perftest, of which Debian's package has the same name",
        ));
    }
    let nd = env::current_exe()
        .map_err(|error| Failure::start("a second process of this program", &error))?;
    Ok(Device::new(name, address.ip(), nd))
}

/// Makes a test in turns, until `came` returns true after one of them.
fn measured(device: &Device, test: DeviceTest, turns: usize, came: &dyn Fn() -> bool) -> DeviceRow {
    let figures = (0..turns).map(|turn| device.turn(test, turn));
    // Ctrl-C also interrupts the programs of the turn, which fail.
    let whole = figures.take_while(|_| !came());
    let turns = whole.collect::<std::result::Result<_, _>>();
    DeviceRow {
        test,
        turns: turns.map_err(|failure| failure.to_string()),
    }
}

/// Compares this program with perftest's programs, in turns, and prints each test when it is done, or a table at the end.
pub(super) fn run(args: &DeviceArgs) -> Result<()> {
    let device = find(&args.device)?;
    let turns = args.turns.get() as usize;
    let bar = sweep::bar((TESTS.len() * turns) as u64);
    let interrupt = Interrupt::watch();
    let mut rows = Vec::new();
    for test in TESTS {
        bar.set_message(title(test));
        let row = measured(&device, test, turns, &|| {
            bar.inc(1);
            interrupt.came()
        });
        // Of an interrupted test, the turns that are whole count.
        if !interrupt.came() || row.turns.as_ref().is_ok_and(|turns| !turns.is_empty()) {
            bar.suspend(|| print(&row, args.format, rows.is_empty()))?;
            rows.push(row);
        }
        if interrupt.came() {
            break;
        }
    }
    bar.finish_and_clear();
    if args.format == Format::Text {
        output::line(table(&rows).trim_end())?;
        output::line("")?;
        output::line(format_args!(
            "Medians of up to {turns} turns; the ratio is that of this program to perftest's within each turn, with its quartiles. nd was \
             built with cargo's profile `{}`.",
            crate::machine::PROFILE
        ))?;
    }
    interrupt.end_if_came();
    let failed = rows.iter().filter(|row| row.turns.is_err()).count();
    if failed == 0 {
        return Ok(());
    }
    Err(Failure::new(
        format!("{failed} of {} tests have failed", TESTS.len()),
        format!(
            "make one alone to see more: nd perftest send_lat --url verbs://{} --listen ADDRESS, and the same without --listen",
            args.device.trim_start_matches("verbs://")
        ),
    ))
}

/// Prints a row that programs read.
fn print(row: &DeviceRow, format: Format, is_first: bool) -> Result<()> {
    match format {
        Format::Json => output::line(fields::json(&row.fields())),
        Format::Csv => {
            if is_first {
                output::line(fields::csv_head(&row.fields()))?;
            }
            output::line(fields::csv(&row.fields()))
        }
        Format::Text | Format::Junit | Format::Html | Format::Markdown => Ok(()),
    }
}

fn table(rows: &[DeviceRow]) -> String {
    let mut table = Table::new([
        ("what", Align::Left),
        ("size", Align::Right),
        ("nd perftest", Align::Right),
        ("perftest", Align::Right),
        ("ratio", Align::Right),
        ("quartiles", Align::Left),
    ]);
    for row in rows {
        table.row(row.cells());
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(test: DeviceTest, turns: &[(f64, f64)]) -> DeviceRow {
        let turn = |(ours, theirs): &(f64, f64)| DeviceTurn {
            ours: *ours,
            theirs: *theirs,
        };
        DeviceRow {
            test,
            turns: Ok(turns.iter().map(turn).collect()),
        }
    }

    fn get(row: &DeviceRow, name: &str) -> Value {
        let fields = row.fields();
        let found = fields.into_iter().find(|(field, _)| field == name);
        found.unwrap_or_else(|| panic!("no {name}")).1
    }

    #[test]
    fn figures_are_medians_and_ratios_are_within_turns() {
        let [latency, _, bandwidth, ..] = TESTS;
        let latency = row(latency, &[(10.0, 20.0), (30.0, 20.0), (20.0, 20.0)]);
        assert_eq!(get(&latency, "p50_ns"), Value::from(20_000.0));
        assert_eq!(get(&latency, "perftest_p50_ns"), Value::from(20_000.0));
        assert_eq!(get(&latency, "bytes_per_s"), Value::Null);
        assert_eq!(get(&latency, "ratio"), Value::from(1.0));
        assert_eq!(get(&latency, "turns"), Value::from(3));
        assert_eq!(get(&latency, "program"), Value::from("ib_send_lat"));
        let bandwidth = row(bandwidth, &[(100.0, 50.0)]);
        assert_eq!(
            get(&bandwidth, "bytes_per_s"),
            Value::from(f64::from(100 << 20))
        );
        assert_eq!(get(&bandwidth, "p50_ns"), Value::Null);
        assert_eq!(get(&bandwidth, "ratio_q3"), Value::from(2.0));
        let text = table(&[latency, bandwidth]);
        for wanted in ["20.00 µs", "105 MB/s", "52 MB/s", "2.00 to 2.00"] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }

    #[test]
    fn a_test_that_failed_says_why_and_has_no_figure() {
        let failed = DeviceRow {
            test: TESTS[0],
            turns: Err("no\u{1b} device".to_owned()),
        };
        assert_eq!(get(&failed, "error"), Value::from("no\\u{1b} device"));
        for name in ["p50_ns", "bytes_per_s", "ratio", "ratio_q1"] {
            assert_eq!(get(&failed, name), Value::Null, "{name}");
        }
        assert!(table(&[failed]).contains("no\\u{1b} device"));
    }

    #[test]
    fn every_row_has_the_same_fields() {
        let names = |row: DeviceRow| -> Vec<String> {
            row.fields().into_iter().map(|(name, _)| name).collect()
        };
        let all = names(row(TESTS[0], &[]));
        for test in TESTS {
            assert_eq!(names(row(test, &[(1.0, 1.0)])), all);
        }
    }

    #[test]
    fn a_device_that_does_not_exist_is_named() {
        let failure = find("none0").expect_err("no such device").to_string();
        assert!(failure.contains("RDMA device"), "{failure}");
        assert_eq!(
            find("verbs://none0")
                .expect_err("no such device")
                .to_string(),
            failure
        );
    }
}
