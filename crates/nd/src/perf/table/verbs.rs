//! Compares the provider over verbs with perftest's own programs, both on one RDMA device of this machine.

use nd::device::{Device, DeviceTest, Program};

use super::judge::Verdict;
use super::line::{self, Line, Runs};
use super::rows::Question;
use crate::errors::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::perf::affinity;
use crate::perf::stats::Ratio;
use crate::provider::{AdapterOptions, Backend};

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

/// Latency may be at most this many times that of perftest's program, as over UDP that of a bare stream.
const MOST: f64 = 1.25;

/// Throughput has to be at least this much of that of perftest's program, as over UDP of a bare stream.
const LEAST: f64 = 0.9;

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

fn line(test: DeviceTest, ratio: std::result::Result<Ratio, String>) -> Line {
    let is_bandwidth = test.program.is_bandwidth();
    let verdict = match ratio {
        Ok(ratio) if is_bandwidth => Verdict::at_least(LEAST, ratio, true),
        Ok(ratio) => Verdict::at_most(MOST, ratio, true),
        Err(why) => Verdict::failed(why),
    };
    let wanted = if is_bandwidth {
        format!("at least {LEAST:.2} of perftest")
    } else {
        format!("p50 at most {MOST:.2} of perftest")
    };
    Line {
        question: Question::Verbs,
        title: title(test),
        sizes: line::bytes(test.size),
        wanted,
        worst: None,
        runs: Runs::one(&verdict),
        verdict,
    }
}

/// The comparison of both on a device.
#[derive(Debug)]
pub(super) struct OnDevice {
    device: Device,
    /// How many turns each side has.
    turns: usize,
}

impl OnDevice {
    /// That on the device of this name.
    ///
    /// # Errors
    ///
    /// If there is no such device, or if one of perftest's programs is not installed.
    pub(super) fn find(name: &str, turns: usize) -> Result<Self> {
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
        let nd = std::env::current_exe()
            .map_err(|error| Failure::start("a second process of this program", &error))?;
        Ok(Self {
            device: Device::new(name, address.ip(), nd),
            turns,
        })
    }

    /// Returns how often [`OnDevice::measured`] calls `progress`.
    pub(super) fn steps(&self) -> u64 {
        (TESTS.len() * self.turns) as u64
    }

    /// The number of turns of the programs, for a remark.
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
                progress(title(test));
                interrupt.came()
            });
            // The programs are interrupted as well, and fail.
            if interrupt.came() {
                break;
            }
            lines.push(line(test, ratio));
        }
        lines
    }

    /// The ratios of all turns, or of those until `ended`.
    fn compare(
        &self,
        test: DeviceTest,
        ended: &dyn Fn() -> bool,
    ) -> std::result::Result<Ratio, String> {
        let mut ratios = Vec::new();
        for turn in 0..self.turns {
            let figures = self.device.turn(test, turn);
            let figures = figures.map_err(|failure| failure.to_string())?;
            ratios.push(figures.ours / figures.theirs);
            if ended() {
                break;
            }
        }
        Ok(Ratio::of_turns(&ratios))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_bounded_from_above_and_throughput_from_below() {
        let [latency, _, bandwidth, ..] = TESTS;
        let both = |ratio| {
            let ratio = Ratio::of_turns(&[ratio]);
            [latency, bandwidth].map(|test| line(test, Ok(ratio)).verdict.holds)
        };
        assert_eq!(both(1.0), [true, true]);
        assert_eq!(both(1.3), [false, true]);
        assert_eq!(both(0.8), [true, false]);
        let failed = line(latency, Err("no such device".to_owned()));
        assert_eq!(
            (failed.runs.held, &*failed.measured()),
            (0, "no such device")
        );
        assert!(!line(latency, Ok(Ratio::of_turns(&[]))).verdict.holds);
    }
}
