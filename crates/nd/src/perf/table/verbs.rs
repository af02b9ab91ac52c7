//! The provider over verbs beside perftest's own programs, both on one RDMA device of this machine.
//!
//! `nd perftest` and a program of perftest make the same test in turns, each as a pair of processes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use nd::process;

use super::judge::Verdict;
use super::line::{self, Line, Runs};
use super::rows::Question;
use crate::errors::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::perf::affinity;
use crate::perf::stats::Ratio;
use crate::perftest::Program;
use crate::provider::{AdapterOptions, Backend};

/// A test that both make.
#[derive(Clone, Copy, Debug)]
struct Test {
    program: Program,
    /// Octets of a message.
    size: u32,
    /// Messages of a turn.
    messages: u32,
}

const fn test(program: Program, size: u32, messages: u32) -> Test {
    Test {
        program,
        size,
        messages,
    }
}

const TESTS: [Test; 5] = [
    test(Program::SendLat, 64, 1000),
    test(Program::WriteLat, 64, 1000),
    test(Program::SendBw, 64 << 10, 500),
    test(Program::WriteBw, 64 << 10, 500),
    test(Program::ReadBw, 64 << 10, 500),
];

/// Latency may be at most so many times that of perftest's program, as over UDP that of a bare stream.
const MOST: f64 = 1.25;

/// Throughput has to be at least so much of that of perftest's program, as over UDP of a bare stream.
const LEAST: f64 = 0.9;

/// One of the two sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
}

impl Test {
    fn title(self) -> String {
        let (op, what) = match self.program {
            Program::SendLat => ("Send", "latency"),
            Program::WriteLat => ("RDMA Write", "latency"),
            Program::ReadLat => ("RDMA Read", "latency"),
            Program::SendBw => ("Send", "bandwidth"),
            Program::WriteBw => ("RDMA Write", "bandwidth"),
            Program::ReadBw => ("RDMA Read", "bandwidth"),
        };
        format!("{op} {what}, poll, over verbs")
    }

    fn line(self, ratio: std::result::Result<Ratio, String>) -> Line {
        let verdict = match ratio {
            Ok(ratio) if self.program.is_bandwidth() => Verdict::at_least(LEAST, ratio, true),
            Ok(ratio) => Verdict::at_most(MOST, ratio, true),
            Err(why) => Verdict::failed(why),
        };
        let wanted = if self.program.is_bandwidth() {
            format!("at least {LEAST:.2} of perftest")
        } else {
            format!("p50 at most {MOST:.2} of perftest")
        };
        Line {
            question: Question::Verbs,
            title: self.title(),
            sizes: line::bytes(self.size),
            wanted,
            worst: None,
            runs: Runs::one(&verdict),
            verdict,
        }
    }

    /// The place of the figure in the line of numbers that a side prints: of the typical latency, or of the average rate, in front of
    /// which perftest prints that at its peak.
    const fn column(self, side: Side) -> usize {
        match (self.program.is_bandwidth(), side) {
            (false, _) => 4,
            (true, Side::Ours) => 2,
            (true, Side::Theirs) => 3,
        }
    }

    /// The figure in what a side has printed.
    fn figure(self, side: Side, printed: &str) -> Option<f64> {
        let size = self.size.to_string();
        let numbers = printed.lines().rev().map(|line| line.split_whitespace());
        let mut line = numbers
            .map(Iterator::collect::<Vec<_>>)
            .find(|words| words.first() == Some(&&*size))?;
        (line.len() > self.column(side)).then_some(())?;
        let figure: f64 = line.swap_remove(self.column(side)).parse().ok()?;
        (figure.is_finite() && figure > 0.0).then_some(figure)
    }
}

/// An RDMA device of this machine, and the programs.
#[derive(Debug)]
pub(super) struct Device {
    url: String,
    address: SocketAddr,
    nd: PathBuf,
    /// How many turns each side has.
    turns: u32,
}

impl Device {
    /// The device of that name.
    ///
    /// # Errors
    ///
    /// If there is no such device, or if one of perftest's programs is not installed.
    pub(super) fn find(name: &str, turns: u32) -> Result<Self> {
        let url = format!("verbs://{name}");
        let address = Backend::new(Some(&url), &AdapterOptions::default())?.address(&url)?;
        let missing = TESTS
            .iter()
            .map(|test| theirs(test.program))
            .find(|program| process::find(program).is_none());
        if let Some(missing) = missing {
            return Err(Failure::new(
                format!("{missing} is not installed, with which {url} is compared"),
                "install perftest, of which Debian's package has the same name",
            ));
        }
        let nd = std::env::current_exe()
            .map_err(|error| Failure::start("a second process of this program", &error))?;
        Ok(Self {
            url,
            address,
            nd,
            turns,
        })
    }

    /// How often `progress` is called by [`Device::measured`].
    pub(super) fn steps(&self) -> u64 {
        TESTS.len() as u64 * u64::from(self.turns)
    }

    /// How often the programs take turns, for a remark.
    pub(super) fn turns(&self) -> String {
        format!("{} turns of each program over verbs", self.turns)
    }

    /// A line for each test. An interrupt leaves out the line that it came to, and those behind. `progress` hears of every turn.
    pub(super) fn measured(&self, interrupt: &Interrupt, progress: &dyn Fn(String)) -> Vec<Line> {
        // The programs inherit the cores.
        affinity::anywhere();
        let mut lines = Vec::new();
        for test in TESTS {
            let ratio = self.compare(test, &|| {
                progress(test.title());
                interrupt.came()
            });
            // The programs are interrupted as well, and fail.
            if interrupt.came() {
                break;
            }
            lines.push(test.line(ratio));
        }
        lines
    }

    /// The ratios of all turns, or of those until `ended`.
    fn compare(&self, test: Test, ended: &dyn Fn() -> bool) -> std::result::Result<Ratio, String> {
        let mut ratios = Vec::new();
        for turn in 0..self.turns {
            let [first, second] = sides(turn);
            let (one, other) = (self.turn(test, first)?, self.turn(test, second)?);
            ratios.push(match first {
                Side::Ours => one / other,
                Side::Theirs => other / one,
            });
            if ended() {
                break;
            }
        }
        Ok(Ratio::of_turns(&ratios))
    }

    /// One turn of a side: its figure.
    fn turn(&self, test: Test, side: Side) -> std::result::Result<f64, String> {
        let told = |failure: process::ProgramFailure| failure.to_string();
        let port = process::free_port().map_err(told)?;
        let server = self.command(test, side, port, true);
        let printed = process::run_pair_by_trial(server, || self.command(test, side, port, false))
            .map_err(told)?;
        test.figure(side, &printed)
            .ok_or_else(|| format!("{side:?} printed no figure: {printed}"))
    }

    fn command(&self, test: Test, side: Side, port: u16, serves: bool) -> Command {
        let address = self.address.ip().to_string();
        let mut command = match side {
            Side::Ours => {
                let mut command = Command::new(&self.nd);
                command.args(["perftest", test.program.name(), "--url", &self.url]);
                if serves {
                    command.arg("--listen");
                }
                command.arg(&address);
                command
            }
            Side::Theirs => {
                let mut command = Command::new(theirs(test.program));
                // By rdma_cm, and whatever governs the processor's frequency.
                command.args(["-R", "-F"]);
                if !serves {
                    command.arg(&address);
                }
                command
            }
        };
        command.args(["-p", &port.to_string()]);
        command.args(["-s", &test.size.to_string()]);
        command.args(["-n", &test.messages.to_string()]);
        command
    }
}

/// The sides in the order of this turn. Each begins every other turn.
const fn sides(turn: u32) -> [Side; 2] {
    if turn.is_multiple_of(2) {
        [Side::Theirs, Side::Ours]
    } else {
        [Side::Ours, Side::Theirs]
    }
}

/// perftest's program.
fn theirs(program: Program) -> String {
    format!("ib_{}", program.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = "\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 64      1000          101.50         901.25       120.75              130.00           20.00            200.00                  800.00
---------------------------------------------------------------------------------------
";

    /// As perftest prints it, and as `nd` does.
    const BANDWIDTH: [&str; 2] = [
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 65536      500              310.25             300.50               0.004808\n",
        "#bytes  #iterations  BW average[MiB/sec]  MsgRate[Mpps]\n 65536          500               301.50       0.004824\n",
    ];

    #[test]
    fn figures_are_those_of_a_typical_message_and_of_the_average_rate() {
        let [latency, _, bandwidth, ..] = TESTS;
        for side in [Side::Ours, Side::Theirs] {
            assert_eq!(latency.figure(side, LATENCY), Some(120.75));
        }
        let [theirs, ours] = BANDWIDTH;
        assert_eq!(bandwidth.figure(Side::Theirs, theirs), Some(300.5));
        assert_eq!(bandwidth.figure(Side::Ours, ours), Some(301.5));
        for bad in [
            "",
            "64 1000",
            "64 1000 1 2 nothing",
            "64 1000 1 2 0.00",
            "65 1000 1 2 3",
        ] {
            assert_eq!(latency.figure(Side::Ours, bad), None, "{bad}");
        }
    }

    #[test]
    fn latency_is_bounded_from_above_and_throughput_from_below() {
        let [latency, _, bandwidth, ..] = TESTS;
        let both = |ratio| {
            let ratio = Ratio::of_turns(&[ratio]);
            [latency, bandwidth].map(|test| test.line(Ok(ratio)).verdict.holds)
        };
        assert_eq!(both(1.0), [true, true]);
        assert_eq!(both(1.3), [false, true]);
        assert_eq!(both(0.8), [true, false]);
        let failed = latency.line(Err("no such device".to_owned()));
        assert_eq!(
            (failed.runs.held, &*failed.measured()),
            (0, "no such device")
        );
        assert!(!latency.line(Ok(Ratio::of_turns(&[]))).verdict.holds);
    }

    #[test]
    fn both_make_the_same_test() {
        let device = Device {
            url: "verbs://one0".to_owned(),
            address: ([192, 0, 2, 1], 0).into(),
            nd: PathBuf::from("nd"),
            turns: 2,
        };
        let line = |side, serves| {
            let command = device.command(TESTS[2], side, 4000, serves);
            format!("{command:?}").replace('"', "")
        };
        let [ours, theirs] = [Side::Ours, Side::Theirs];
        for (side, serves, wanted) in [
            (
                ours,
                true,
                "nd perftest send_bw --url verbs://one0 --listen 192.0.2.1",
            ),
            (
                ours,
                false,
                "nd perftest send_bw --url verbs://one0 192.0.2.1",
            ),
            (theirs, true, "ib_send_bw -R -F"),
            (theirs, false, "ib_send_bw -R -F 192.0.2.1"),
        ] {
            let wanted = format!("{wanted} -p 4000 -s 65536 -n 500");
            assert_eq!(line(side, serves), wanted);
        }
        assert_eq!(sides(0), [theirs, ours]);
        assert_eq!(sides(1), [ours, theirs]);
    }
}
