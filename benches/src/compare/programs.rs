//! Compares perftest's programs over softnd's libraries for verbs with `nd perf`.
//!
//! Both run over TCP on the loopback interface. The difference is the cost of verbs' calls.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nd_perf::device::{DeviceTest, Program};
use nd_perf::process;

use super::Failure;
use super::nd::Nd;
use super::pairs::{Bound, Pairs};
use super::peers::Pace;

/// The requirement on a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgramTest {
    /// The program.
    pub program: Program,
    /// It sleeps until an event comes, and does not poll.
    pub events: bool,
    /// Octets of a message.
    pub size: u32,
}

/// Latencies may be this much longer than those of `nd perf`, where both poll, and where both sleep.
const POLLING: Bound = Bound::AtMost(1.10);
const SLEEPING: Bound = Bound::AtMost(1.20);
/// Bandwidth is at least this much of that of `nd perf`.
const BANDWIDTH: Bound = Bound::AtLeast(0.95);

/// Reads outstanding, at most.
const MOST_READS: usize = 16;

/// All tests, in the order of the table.
pub const ALL: [ProgramTest; 15] = {
    const fn test(program: Program, events: bool, size: u32) -> ProgramTest {
        ProgramTest {
            program,
            events,
            size,
        }
    }
    use Program::{ReadBw, ReadLat, SendBw, SendLat, WriteBw};
    [
        test(SendLat, false, 8),
        test(SendLat, false, 4096),
        test(SendLat, false, 65536),
        test(ReadLat, false, 8),
        test(ReadLat, false, 4096),
        test(ReadLat, false, 65536),
        test(SendLat, true, 8),
        test(SendLat, true, 4096),
        test(SendLat, true, 65536),
        test(SendBw, false, 65536),
        test(SendBw, false, 1 << 20),
        test(WriteBw, false, 65536),
        test(WriteBw, false, 1 << 20),
        test(ReadBw, false, 65536),
        test(ReadBw, false, 1 << 20),
    ]
};

/// A test and its turns.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramRow {
    /// The test.
    pub test: ProgramTest,
    /// The turns: nanoseconds (half a round trip of a Send, a whole one of a Read), or octets per second, of the program and of `nd perf`.
    pub turns: Pairs,
}

impl ProgramTest {
    /// The test in words.
    #[must_use]
    pub fn name(&self) -> String {
        let how = if self.events { " -e" } else { "" };
        format!("{}{how}", self.program.installed_name())
    }

    /// The bound of the ratio to `nd perf`.
    const fn bound(&self) -> Bound {
        match (self.program.is_bandwidth(), self.events) {
            (true, _) => BANDWIDTH,
            (false, true) => SLEEPING,
            (false, false) => POLLING,
        }
    }

    const fn op(&self) -> &'static str {
        if self.program.reads() {
            "read"
        } else if self.program.writes() {
            "write"
        } else {
            "send"
        }
    }

    /// Outstanding messages.
    fn depth(&self) -> usize {
        super::nd::depth(self.size as usize).min(MOST_READS)
    }

    fn of_perf(&self, nd: &Nd) -> Result<f64, Failure> {
        let size = self.size as usize;
        if self.program.is_bandwidth() {
            nd.bandwidth_at(self.op(), size, self.depth())
        } else {
            nd.latency(self.op(), size, if self.events { "event" } else { "poll" })
        }
    }

    fn program(&self) -> Perftest {
        Perftest {
            program: self.program,
            size: self.size,
            // A completion for each message, as in `nd perf`. perftest's own choice is one for as many as fit the queue: it would wait until
            // all of them are through before it posts the next ones.
            depth: self.depth(),
            events: self.events,
            writes: Writes::Sent, // as those of `nd perf`
            connection: Connection::RdmaCm,
        }
    }
}

/// Who connects the queue pairs of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// rdma_cm.
    RdmaCm,
    /// The program, which exchanges their numbers over its own socket.
    Numbers,
}

/// When a Write is done (`--writes` of `nd run`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// When it is sent.
    Sent,
    /// When the peer has placed it.
    Placed,
}

impl Writes {
    /// The value of the option.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Placed => "placed",
        }
    }
}

/// A program of perftest by `nd run`, at both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Perftest {
    /// The program.
    pub program: Program,
    /// Octets of a message.
    pub size: u32,
    /// Outstanding messages of a program that measures a rate, all signalled.
    pub depth: usize,
    /// It sleeps until an event comes, and does not poll.
    pub events: bool,
    /// When its Writes are done.
    pub writes: Writes,
    /// How it connects.
    pub connection: Connection,
}

impl Perftest {
    /// One turn: nanoseconds (half a round trip, or a whole one of a Read), or octets per second.
    ///
    /// # Errors
    ///
    /// When a program fails, or prints something unknown.
    pub fn measure(&self, nd: &Nd, pace: &Pace) -> Result<f64, Failure> {
        let port = process::free_port()?;
        let messages = pace.messages();
        let server = self.command(nd, 1, port, messages);
        let mut client = self.command(nd, 0, port, messages);
        client.arg("127.0.0.1");
        let printed = process::run_pair(server, client, port)?;
        let test = DeviceTest {
            program: self.program,
            size: self.size,
            messages,
        };
        let figure = test.figure_of_perftest(&printed).ok_or_else(|| {
            let name = self.program.installed_name();
            Failure::new(format!("{name} printed no figure: {printed}"))
        })?;
        let size = f64::from(self.size);
        Ok(if self.program.is_bandwidth() {
            let rate = figure * f64::from(1 << 20); // MiB
            pace.learn(1e9 * size / rate);
            rate
        } else {
            let time = 1e3 * figure;
            pace.learn(if self.program.reads() {
                time
            } else {
                2.0 * time
            });
            time
        })
    }

    fn command(&self, nd: &Nd, core: usize, port: u16, messages: u32) -> Command {
        // The thread of the library needs another core than a program that looks at its memory without a pause: see `nd perf --mode memory`.
        let mut command = nd.run((!self.program.looks_at_memory()).then_some(core));
        if self.program.writes() {
            command.args(["--writes", self.writes.name()]);
        }
        command.args(["--", &self.program.installed_name(), "-F"]);
        if self.connection == Connection::RdmaCm {
            command.arg("-R");
        }
        command.args(["-p", &port.to_string(), "-s", &self.size.to_string()]);
        command.args(["-n", &messages.to_string()]);
        if self.program.is_bandwidth() {
            command.args(["-t", &self.depth.to_string(), "-Q", "1"]);
        }
        if self.events {
            command.arg("-e");
        }
        command
    }
}

impl ProgramRow {
    /// Measures a test.
    ///
    /// # Errors
    ///
    /// When a program fails, or prints something unknown.
    pub fn measure(test: ProgramTest, nd: &Nd, turns: usize) -> Result<Self, Failure> {
        let pace = Pace::new(nd.turn, test.size as usize);
        let name = format!("{} {}", test.name(), test.size);
        let program = || test.program().measure(nd, &pace);
        let turns = Pairs::measure(turns, &name, test.bound(), program, || test.of_perf(nd))?;
        Ok(Self { test, turns })
    }
}

/// The tests whose programs are installed, and the names of those that are not.
#[must_use]
pub fn installed() -> (Vec<ProgramTest>, Vec<String>) {
    let (there, missing): (Vec<_>, Vec<_>) = ALL
        .into_iter()
        .partition(|test| test.program.is_installed());
    let mut missing: Vec<_> = missing
        .iter()
        .map(|test| test.program.installed_name())
        .collect();
    missing.dedup();
    (there, missing)
}

/// Returns true if the libraries are in the folder of `nd`.
#[must_use]
pub fn has_libraries(nd: &Path) -> bool {
    nd.with_file_name("libibverbs.so").is_file()
}

/// The shortest turn: these programs take some time to start.
pub const SHORTEST: Duration = Duration::from_millis(50);

#[cfg(test)]
pub(super) mod tests {
    use super::super::pairs::Pair;
    use super::*;

    /// Rows that hold, and rows that do not.
    #[must_use]
    pub(in super::super) fn rows() -> Vec<ProgramRow> {
        let row = |test: ProgramTest, ratios: [f64; 3]| {
            let turn = |ratio| Pair {
                measured: ratio * 8_000.0,
                beside: 8_000.0,
            };
            let turns = Pairs {
                turns: ratios.map(turn).to_vec(),
                bound: test.bound(),
            };
            ProgramRow { test, turns }
        };
        vec![
            row(ALL[0], [1.0, 1.05, 1.2]),
            row(ALL[3], [1.2, 1.3, 1.0]),
            row(ALL[9], [0.96, 0.9, 1.0]),
            row(ALL[13], [0.5, 0.9, 0.6]),
        ]
    }

    #[test]
    fn latencies_have_an_upper_bound_and_bandwidth_a_lower_one() {
        let holds: Vec<_> = rows().iter().map(|row| row.turns.holds()).collect();
        assert_eq!(holds, [true, false, true, false]);
        assert_eq!(rows()[0].turns.ratio(), Some((1.05, 1.0, 1.2)));
    }

    fn nd() -> Nd {
        Nd {
            program: "nd".into(),
            crc: false,
            turn: SHORTEST,
            systems_congestion: false,
        }
    }

    #[test]
    fn the_program_makes_the_test_that_nd_perf_makes() {
        let nd = nd();
        let line = |test: ProgramTest| {
            let command = test.program().command(&nd, usize::MAX, 4000, 500);
            format!("{command:?}").replace('"', "")
        };
        for (test, wanted) in [
            (ALL[6], "ib_send_lat -F -R -p 4000 -s 8 -n 500 -e"),
            (
                ALL[14],
                "ib_read_bw -F -R -p 4000 -s 1048576 -n 500 -t 2 -Q 1",
            ),
        ] {
            let line = line(test);
            assert!(line.ends_with(wanted), "{line}");
            assert!(line.contains("run --no-crc -- ib_"), "{line}");
        }
        let writes = line(ALL[11]);
        let start = "run --no-crc --writes sent -- ib_write_bw -F -R";
        assert!(writes.contains(start), "{writes}");
    }

    #[test]
    fn a_program_that_looks_at_its_memory_runs_on_any_core() {
        let nd = nd();
        let started = |program| {
            let test = Perftest {
                program,
                size: 8,
                depth: 128,
                events: false,
                writes: Writes::Sent,
                connection: Connection::Numbers,
            };
            let command = test.command(&nd, 0, 4000, 500);
            command.get_program().to_owned()
        };
        assert_eq!(started(Program::WriteLat), "nd");
        let on_core = nd_perf::process::on_core(0, &nd.program);
        assert_eq!(started(Program::SendLat), on_core.get_program());
    }
}
