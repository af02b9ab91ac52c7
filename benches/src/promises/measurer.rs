//! Measures rows by the program `nd`, and makes lines of what it prints.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nd_perf::cores::Watch;
use serde::de::DeserializeOwned;

use super::judge::{Promise, Verdict};
use super::line::{self, Line, Runs};
use super::measured::{Measured, OnDevice};
use super::rows::{PromisedRow, Question};
use crate::compare::Failure;

/// Latency over verbs may be at most this many times that of perftest's program, as over UDP that of a bare stream.
const MOST: f64 = 1.25;

/// Throughput over verbs has to be at least this much of that of perftest's program, as over UDP of a bare stream.
const LEAST: f64 = 0.9;

/// The number and the length of the turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Turns of each side of a comparison.
    pub turns: u32,
    /// The length of a turn.
    pub length: Duration,
    /// How long idle connections are watched: a multiple of `length`, because turns beside them last `length` as well.
    pub idle: Duration,
    /// Turns of each program on a device.
    pub turns_on_device: u32,
}

impl Pace {
    /// For figures that are published.
    pub const WHOLE: Self = Self {
        turns: 31,
        length: Duration::from_millis(60),
        idle: Duration::from_secs(3),
        turns_on_device: 9,
    };

    /// For a look.
    pub const QUICK: Self = Self {
        turns: 9,
        length: Duration::from_millis(30),
        idle: Duration::from_millis(1020),
        turns_on_device: 3,
    };
}

/// Measures rows by the program `nd`.
#[derive(Clone, Debug)]
pub struct Measurer {
    /// The program.
    pub nd: PathBuf,
    /// The turns.
    pub pace: Pace,
}

impl Measurer {
    /// Checks that `nd` can be started.
    ///
    /// # Errors
    ///
    /// If it cannot.
    pub fn check(&self) -> Result<(), Failure> {
        let mut command = Command::new(&self.nd);
        command
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_or_else(
                |error| Err(cannot_start(&self.nd.to_string_lossy(), &error)),
                |_| Ok(()),
            )
    }

    /// The command for a row, at one of its sizes. `usual` is how long a cache line usually takes from core to core.
    fn command(&self, row: &PromisedRow, size: Option<u32>, usual: Option<Duration>) -> Command {
        let Pace { length, idle, .. } = self.pace;
        // `nd perf` has one option for the time of all turns and for the time that connections are idle.
        let turns = if row.watches_idle_connections() {
            idle.div_duration_f64(length).round()
        } else {
            f64::from(self.pace.turns)
        };
        let duration = length.mul_f64(turns);
        let mut command = Command::new(&self.nd);
        command
            .args(["perf", "local", "--format", "json"])
            .args(row.arguments.split(' '))
            .args(["--turns", &turns.to_string()])
            .args(["--duration", &format!("{:.3}", duration.as_secs_f64())]);
        // Nothing is handed over between cores if both processes have the same one.
        if !row.is_on_one_core() {
            command.arg(match usual {
                Some(usual) => format!("--steady={}", usual.as_nanos().max(1)),
                None => "--steady".to_owned(),
            });
        }
        if let Some(size) = size {
            command.args(["--size", &size.to_string()]);
        }
        let over_udp = row.is_over_udp();
        let baseline = |promise: &Promise| promise.baseline(over_udp);
        if let Some(baseline) = row.promises.iter().find_map(baseline) {
            command.args(["--baseline", baseline]);
        }
        command
    }

    /// Measures a row at one of its sizes. Each measurement starts its own two processes, so a failure does not end the others.
    ///
    /// # Errors
    ///
    /// If `nd` cannot be started, fails, or prints something else than one row.
    fn measure(
        &self,
        row: &PromisedRow,
        size: Option<u32>,
        usual: Option<Duration>,
    ) -> Result<Measured, Failure> {
        let Printed { mut rows, failure } = printed(self.command(row, size, usual))?;
        if let Some(ended) = failure {
            return Err(ended.failure);
        }
        match (rows.pop(), &*rows) {
            (Some(row), []) => Ok(row),
            (one, _) => Err(Failure::new(format!(
                "nd perf local printed {} rows in place of one; build nd and this program of the same sources",
                rows.len() + usize::from(one.is_some())
            ))),
        }
    }

    /// A line for each promise of a row: of several sizes the worst. Adds what was seen of the cores.
    pub fn row(&self, row: &PromisedRow, cores: &mut Watch) -> Vec<Line> {
        let sizes: Vec<_> = if row.sizes.is_empty() {
            vec![None]
        } else {
            row.sizes.iter().copied().map(Some).collect()
        };
        let mut outcomes = Vec::new();
        for size in sizes {
            let mut outcome = self.measure(row, size, cores.median());
            if let Ok(measured) = &mut outcome {
                cores.add(&measured.cores());
                if row.is_compared_with_polling() {
                    let polling = self.measure(&row.polling(), size, cores.median());
                    measured.polling_ns = polling.ok().map(|polling| polling.half_round_trip());
                }
            }
            outcomes.push((size, outcome.map_err(|failure| failure.to_string())));
        }
        judged(row, &outcomes)
    }

    /// A line for each test on an RDMA device of this machine.
    ///
    /// # Errors
    ///
    /// If there is no such device, perftest is not installed, or `nd` ends before it has made all tests.
    pub fn device(&self, name: &str) -> Result<Vec<Line>, Failure> {
        let mut command = Command::new(&self.nd);
        command
            .args(["perf", "device", name, "--format", "json"])
            .args(["--turns", &self.pace.turns_on_device.to_string()]);
        on_device_lines(printed(command)?)
    }

    /// Measures all rows once. The tests on a device come first, because they fail at once without the device or perftest. `say` hears what
    /// is measured next.
    ///
    /// # Errors
    ///
    /// If the tests on the device cannot be made.
    pub fn run(
        &self,
        rows: &[PromisedRow],
        device: Option<&str>,
        cores: &mut Watch,
        say: &mut dyn FnMut(&str),
    ) -> Result<Vec<Line>, Failure> {
        let mut lines = Vec::new();
        if let Some(device) = device {
            say(&format!("tests on {device}"));
            lines.extend(self.device(device)?);
        }
        for (at, row) in rows.iter().enumerate() {
            say(&format!("row {} of {}: {}", at + 1, rows.len(), row.title));
            lines.extend(self.row(row, cores));
        }
        Ok(lines)
    }

    /// How often each kind of comparison was made, for a remark.
    #[must_use]
    pub fn turns(&self, of_rows: bool, on_device: bool) -> String {
        let Pace { turns, length, .. } = self.pace;
        let length = nd_base::units::time(length);
        let rows =
            format!("{turns} turns of {length} for each side of a comparison, over loopback");
        let device = format!(
            "{} turns of each program over verbs",
            self.pace.turns_on_device
        );
        let all = [(of_rows, rows), (on_device, device)];
        let all: Vec<_> = all
            .into_iter()
            .filter_map(|(is_made, turns)| is_made.then_some(turns))
            .collect();
        all.join(", and ")
    }
}

/// What a command of `nd` has printed.
struct Printed<T> {
    /// The rows, one from each line.
    rows: Vec<T>,
    /// Why the command failed, if it did.
    failure: Option<Ended>,
}

/// How a command of `nd` failed.
struct Ended {
    /// Its reason.
    failure: Failure,
    /// False if a signal ended it, so that rows may be missing.
    has_status: bool,
}

/// Runs a command of `nd` that prints rows.
fn printed<T: DeserializeOwned>(mut command: Command) -> Result<Printed<T>, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| cannot_start(&name, &error))?;
    let row = |line: &str| {
        serde_json::from_str(line)
            .map_err(|error| Failure::new(format!("{name} printed no row: {error}: {line}")))
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text.lines().map(row).collect::<Result<_, _>>();
    let status = output.status;
    if status.success() {
        let failure = None;
        return rows.map(|rows| Printed { rows, failure });
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let failure = Failure::new(format!("{name} ended with {status}: {}", reason(&said)));
    Ok(Printed {
        // The last line may be cut off.
        rows: rows.unwrap_or_default(),
        failure: Some(Ended {
            failure,
            has_status: status.code().is_some(),
        }),
    })
}

/// The reason among the lines that `nd` wrote on standard error: its last error, or its last words.
fn reason(said: &str) -> &str {
    let mut lines = said.lines().rev().filter(|line| !line.trim().is_empty());
    let error = lines
        .clone()
        .find_map(|line| line.strip_prefix("nd: error: "));
    let words = error.or_else(|| lines.next());
    words.map_or(
        "it gives no reason; the kernel's log may have one",
        str::trim,
    )
}

fn cannot_start(nd: &str, error: &io::Error) -> Failure {
    Failure::new(format!(
        "cannot start {nd}: {error}; run `cargo build --release` first, or name nd with --nd"
    ))
}

/// A line for each promise of a row: of several sizes the worst.
pub(super) fn judged(
    row: &PromisedRow,
    outcomes: &[(Option<u32>, Result<Measured, String>)],
) -> Vec<Line> {
    let line = |promise: &Promise| {
        let mut worst: Option<Line> = None;
        for (size, outcome) in outcomes {
            let verdict = match outcome {
                // The option alone does not say that connections go through shared memory.
                Ok(measured) if row.is_within_one_machine() && measured.transport() != "shm" => {
                    Verdict::failed(format!("over {}", measured.transport()))
                }
                Ok(measured) => promise.judge(measured),
                Err(why) => Verdict::failed(why.clone()),
            };
            let is_worse = worst
                .as_ref()
                .is_none_or(|worst| verdict.is_worse_than(&worst.verdict));
            if is_worse {
                worst = Some(Line::new(row, *promise, *size, verdict));
            }
        }
        worst
    };
    row.promises.iter().filter_map(line).collect()
}

/// The lines of all tests on a device.
fn on_device_lines(printed: Printed<OnDevice>) -> Result<Vec<Line>, Failure> {
    let Printed { rows, failure } = printed;
    match failure {
        // A test that fails does not end the others, and its row has the reason. Without such a row, rows may be missing.
        Some(ended) if !ended.has_status || rows.iter().all(|row| row.failure().is_none()) => {
            Err(ended.failure)
        }
        _ => Ok(rows.into_iter().map(on_device).collect()),
    }
}

/// The line of a test on a device.
fn on_device(test: OnDevice) -> Line {
    let is_bandwidth = test.is_bandwidth();
    let verdict = match test.failure() {
        Some(why) => Verdict::failed(why.to_owned()),
        None if is_bandwidth => Verdict::at_least(LEAST, test.ratio(), true),
        None => Verdict::at_most(MOST, test.ratio(), true),
    };
    let wanted = if is_bandwidth {
        format!("at least {LEAST:.2} of perftest")
    } else {
        format!("p50 at most {MOST:.2} of perftest")
    };
    Line {
        question: Question::Verbs,
        title: test.title,
        sizes: line::bytes(test.size),
        wanted,
        worst: None,
        runs: Runs::one(&verdict),
        verdict,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{from_value, json};

    use super::super::count_broken;
    use super::super::measured::tests::{bandwidth, over};
    use super::super::rows;
    use super::*;

    const MEASURER: fn() -> Measurer = || Measurer {
        nd: PathBuf::from("nd"),
        pace: Pace::WHOLE,
    };

    pub(in super::super) fn row(sizes: &[u32], promises: &[Promise]) -> PromisedRow {
        PromisedRow {
            question: Question::Through,
            title: "a flow".to_owned(),
            arguments: "--op write --test bandwidth --crc off".to_owned(),
            sizes: sizes.to_vec(),
            promises: promises.to_vec(),
        }
    }

    pub(in super::super) fn outcome(
        size: u32,
        complete: bool,
    ) -> (Option<u32>, Result<Measured, String>) {
        let whole = bandwidth();
        (Some(size), Ok(if complete { whole } else { whole.cut() }))
    }

    #[test]
    fn of_several_sizes_the_worst_is_shown() {
        let row = row(&[8, 16, 32], &[Promise::Share(0.9)]);
        let outcomes = [outcome(8, true), outcome(16, false), outcome(32, true)];
        let lines = judged(&row, &outcomes);
        let [line] = &*lines else {
            panic!("one promise, {} lines", lines.len())
        };
        assert!(!line.verdict.holds);
        assert_eq!(
            (&*line.sizes, &*line.measured()),
            ("8 B to 32 B", "1.00 at 16 B")
        );
    }

    #[test]
    fn a_row_within_one_machine_counts_only_through_shared_memory() {
        let mut row = row(&[8], &[Promise::ShareTcp(1.0)]);
        row.arguments += " --same-host";
        let verdict = |transport: &str| {
            let outcome = over(bandwidth(), transport);
            let [line] = &*judged(&row, &[(Some(8), Ok(outcome))]) else {
                panic!("one promise has one line");
            };
            (line.verdict.holds, line.verdict.measured.clone())
        };
        assert_eq!(verdict("shm"), (true, "1.00".to_owned()));
        for other in ["tcp", "508 shm, 9492 tcp"] {
            assert_eq!(verdict(other), (false, format!("over {other}")));
        }
    }

    #[test]
    fn the_arguments_of_a_row_are_those_of_nd_perf_local() {
        let promised = row(&[65_536], &[Promise::Share(0.9)]);
        let words = |row: &PromisedRow, size, usual| {
            let command = MEASURER().command(row, size, usual);
            format!("{command:?}").replace('"', "")
        };
        assert_eq!(
            words(&promised, Some(65_536), Some(Duration::from_nanos(31))),
            "nd perf local --format json --op write --test bandwidth --crc off --turns 31 --duration 1.860 --steady=31 --size 65536 \
             --baseline tcp"
        );
        let scale = rows::rows();
        let scale = scale.iter().find(|row| row.watches_idle_connections());
        assert_eq!(
            words(scale.expect("a row about connections"), None, None),
            "nd perf local --format json --test scale --connections 10000 --mode poll --crc off --turns 50 --duration 3.000 --steady"
        );
        let mut one_core = promised;
        one_core.arguments += " --one-core";
        let usual = Some(Duration::from_nanos(31));
        assert!(!words(&one_core, Some(8), usual).contains("--steady"));
    }

    #[test]
    fn turns_beside_idle_connections_are_as_long_as_others() {
        for pace in [Pace::WHOLE, Pace::QUICK] {
            assert_eq!(pace.idle.as_millis() % pace.length.as_millis(), 0);
            assert!(pace.idle >= Duration::from_secs(1) && pace.idle >= pace.length * pace.turns);
        }
    }

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const ROW: &str = r#"{"test":"rate","transport":"tcp","complete":false,"moves":0}"#;

    #[test]
    fn a_program_that_fails_is_named_with_its_last_words() {
        let fails = |script: &str| {
            let printed = printed::<Measured>(sh(script)).unwrap();
            let ended = printed.failure.expect("a failure");
            (
                printed.rows.len(),
                ended.failure.to_string(),
                ended.has_status,
            )
        };
        let (rows, said, has_status) = fails("echo first >&2; echo no adapter >&2; exit 3");
        assert_eq!((rows, has_status), (0, true));
        assert!(said.ends_with("exit status: 3: no adapter"), "{said}");
        // What nd shows below its error is not the reason.
        let (_, said, _) =
            fails("echo 'nd: error: no memory; add some' >&2; echo '  | here' >&2; exit 1");
        assert!(said.ends_with(": no memory; add some"), "{said}");
        let (_, said, _) = fails("exit 1");
        assert!(said.contains("it gives no reason"), "{said}");
        // A row that was cut short does not hide the reason.
        let (rows, said, _) = fails(&format!("echo '{ROW}'; echo gone >&2; exit 1"));
        assert!(rows == 1 && said.ends_with(": gone"), "{rows} {said}");
        let (rows, _, has_status) = fails(&format!("echo '{ROW}'; echo '{{'; kill -KILL $$"));
        assert_eq!((rows, has_status), (0, false));
        let other = printed::<Measured>(sh("echo 7")).err().unwrap().to_string();
        assert!(other.contains("printed no row"), "{other}");
    }

    #[test]
    fn a_program_that_is_missing_is_named_before_anything_is_measured() {
        let nd = PathBuf::from("/nonexistent/nd");
        let measurer = Measurer { nd, ..MEASURER() };
        let missing = measurer.check().unwrap_err().to_string();
        assert!(missing.starts_with("cannot start /nonexistent/nd: ") && missing.contains("--nd"));
        let nd = PathBuf::from("sh");
        assert!(Measurer { nd, ..MEASURER() }.check().is_ok());
    }

    #[test]
    fn a_device_that_cannot_be_tested_is_named_before_rows_are_measured() {
        // Fails, because there is no script of the name `perf`.
        let nd = PathBuf::from("sh");
        let measurer = Measurer { nd, ..MEASURER() };
        let mut said = Vec::new();
        let mut say = |what: &str| said.push(what.to_owned());
        let rows = rows::rows();
        let run = measurer.run(&rows, Some("one0"), &mut Watch::default(), &mut say);
        let failure = run.unwrap_err().to_string();
        assert!(failure.contains("sh ended with exit status"), "{failure}");
        assert_eq!(said, ["tests on one0"]);
    }

    #[test]
    fn tests_on_a_device_that_are_missing_are_a_failure() {
        let test = |error: &str| {
            format!(
                r#"{{"title":"Send","program":"ib_send_lat","size":64,"ratio":1,"ratio_q1":1,"ratio_q3":1,"error":{error}}}"#
            )
        };
        let (whole, failed) = (test("null"), test("\"no device\""));
        let lines = |script: String| on_device_lines(printed(sh(&script)).unwrap());
        assert_eq!(lines(format!("echo '{whole}'")).unwrap().len(), 1);
        let output = lines(format!("echo '{whole}'; echo '{failed}'; exit 1")).unwrap();
        assert_eq!((output.len(), count_broken(&output)), (2, 1));
        // The rest of the tests was not made.
        for end in ["exit 1", "kill -KILL $$"] {
            assert!(lines(format!("echo '{whole}'; {end}")).is_err(), "{end}");
        }
        assert!(lines(format!("echo '{failed}'; kill -KILL $$")).is_err());
    }

    #[test]
    fn latency_on_a_device_is_bounded_from_above_and_throughput_from_below() {
        let test = |program: &str, ratio: f64| {
            let test = json!({
                "title": "Send", "program": program, "size": 64, "ratio": ratio, "ratio_q1": ratio, "ratio_q3": ratio, "error": null,
            });
            on_device(from_value(test).unwrap()).verdict.holds
        };
        let both = |ratio| ["ib_send_lat", "ib_send_bw"].map(|program| test(program, ratio));
        assert_eq!(both(1.0), [true, true]);
        assert_eq!(both(1.3), [false, true]);
        assert_eq!(both(0.8), [true, false]);
        let failed =
            json!({"title": "Send", "program": "ib_send_lat", "size": 64, "error": "no device"});
        let failed = on_device(from_value(failed).unwrap());
        assert_eq!((failed.runs.held, &*failed.measured()), (0, "no device"));
    }
}
