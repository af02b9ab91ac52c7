//! Tests on an RDMA device of this machine, in turns by `nd perftest` and by perftest's own programs.
//!
//! Each turn of each side is a pair of processes.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;

use crate::process::{self, ProgramFailure};

/// One of perftest's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Program {
    /// ib_send_bw: bandwidth of Sends
    #[value(name = "send_bw")]
    SendBw,
    /// ib_write_bw: bandwidth of RDMA Writes
    #[value(name = "write_bw")]
    WriteBw,
    /// ib_read_bw: bandwidth of RDMA Reads
    #[value(name = "read_bw")]
    ReadBw,
    /// ib_send_lat: latency of Sends
    #[value(name = "send_lat")]
    SendLat,
    /// ib_write_lat: latency of RDMA Writes
    #[value(name = "write_lat")]
    WriteLat,
    /// ib_read_lat: latency of RDMA Reads
    #[value(name = "read_lat")]
    ReadLat,
}

impl Program {
    /// Returns true if it measures a rate, and not times.
    #[must_use]
    pub const fn is_bandwidth(self) -> bool {
        matches!(self, Self::SendBw | Self::WriteBw | Self::ReadBw)
    }

    /// Returns true if its messages are Sends.
    #[must_use]
    pub const fn sends(self) -> bool {
        matches!(self, Self::SendBw | Self::SendLat)
    }

    /// Returns true if its messages are RDMA Reads.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::ReadBw | Self::ReadLat)
    }

    /// Returns true if its messages are RDMA Writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::WriteBw | Self::WriteLat)
    }

    /// Returns true if it looks at its memory without a pause, for what the other side writes there.
    #[must_use]
    pub const fn looks_at_memory(self) -> bool {
        matches!(self, Self::WriteLat)
    }

    /// perftest's name for the test, without the `ib_`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendBw => "send_bw",
            Self::WriteBw => "write_bw",
            Self::ReadBw => "read_bw",
            Self::SendLat => "send_lat",
            Self::WriteLat => "write_lat",
            Self::ReadLat => "read_lat",
        }
    }

    /// The name under which perftest's own program is installed.
    #[must_use]
    pub fn installed_name(self) -> String {
        format!("ib_{}", self.name())
    }

    /// Returns true if perftest's own program is installed.
    #[must_use]
    pub fn is_installed(self) -> bool {
        process::find(&self.installed_name()).is_some()
    }
}

/// A test that both sides make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTest {
    /// The program that makes the measurement.
    pub program: Program,
    /// Octets of a message.
    pub size: u32,
    /// Messages of a turn.
    pub messages: u32,
}

/// The measurements of both sides in one turn: the typical time of a message one way, in microseconds, or the average rate, in MiB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceTurn {
    /// Of `nd perftest`.
    pub ours: f64,
    /// Of perftest's program.
    pub theirs: f64,
}

/// One of the two sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
}

impl DeviceTest {
    /// Returns the column of the figure in the row of numbers that a side prints. The figure is the typical latency or the average rate.
    /// perftest has one more column before the average rate, for the peak.
    const fn column(self, side: Side) -> usize {
        match (self.program.is_bandwidth(), side) {
            (false, _) => 4,
            (true, Side::Ours) => 2,
            (true, Side::Theirs) => 3,
        }
    }

    /// The figure in what perftest's program has printed.
    #[must_use]
    pub fn figure_of_perftest(self, printed: &str) -> Option<f64> {
        self.figure(Side::Theirs, printed)
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

/// An RDMA device of this machine, and the program `nd`.
#[derive(Clone, Debug)]
pub struct Device {
    url: String,
    address: IpAddr,
    nd: PathBuf,
}

impl Device {
    /// The device of this name, which has this address. Whether there is one shows in the first turn.
    #[must_use]
    pub fn new(name: &str, address: IpAddr, nd: PathBuf) -> Self {
        Self {
            url: format!("verbs://{name}"),
            address,
            nd,
        }
    }

    /// One turn of both sides. Which begins, changes from turn to turn.
    ///
    /// # Errors
    ///
    /// If a program fails, or prints something unknown.
    pub fn turn(&self, test: DeviceTest, number: usize) -> Result<DeviceTurn, ProgramFailure> {
        Ok(if number.is_multiple_of(2) {
            let theirs = self.of_side(test, Side::Theirs)?;
            let ours = self.of_side(test, Side::Ours)?;
            DeviceTurn { ours, theirs }
        } else {
            let ours = self.of_side(test, Side::Ours)?;
            let theirs = self.of_side(test, Side::Theirs)?;
            DeviceTurn { ours, theirs }
        })
    }

    fn of_side(&self, test: DeviceTest, side: Side) -> Result<f64, ProgramFailure> {
        let port = process::free_port()?;
        let server = self.command(test, side, port, true);
        let client = || self.command(test, side, port, false);
        let printed = process::run_pair_by_trial(server, client)?;
        test.figure(side, &printed).ok_or_else(|| {
            let program = match side {
                Side::Ours => format!("nd perftest {}", test.program.name()),
                Side::Theirs => test.program.installed_name(),
            };
            ProgramFailure::new(format!("{program} printed no figure: {printed}"))
        })
    }

    fn command(&self, test: DeviceTest, side: Side, port: u16, serves: bool) -> Command {
        let address = self.address.to_string();
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
                let mut command = Command::new(test.program.installed_name());
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

    const fn test(program: Program, size: u32) -> DeviceTest {
        DeviceTest {
            program,
            size,
            messages: 500,
        }
    }

    #[test]
    fn figures_are_those_of_a_typical_message_and_of_the_average_rate() {
        let latency = test(Program::SendLat, 64);
        let bandwidth = test(Program::SendBw, 65536);
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
    fn both_make_the_same_test() {
        let address = [192, 0, 2, 1].into();
        let device = Device::new("one0", address, PathBuf::from("nd"));
        let line = |side, serves| {
            let test = test(Program::SendBw, 65536);
            let command = device.command(test, side, 4000, serves);
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
    }
}
