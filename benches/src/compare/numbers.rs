//! Compares verbs programs that exchange the numbers of their queue pairs: with each other, with rdma_cm, with `nd perf`, and UCX over verbs
//! with UCX over TCP.
//!
//! All run on the loopback interface, both ends by `nd run`, and poll.

use nd_perf::device::Program;

use super::Failure;
use super::nd::Nd;
use super::pairs::{Bound, Pairs};
use super::peers::{Pace, Ucx, UcxOver};
use super::programs::{Connection, Perftest, Writes};

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumbersTest {
    /// Octets of a message.
    pub size: u32,
    /// What is judged.
    pub measured: Side,
    /// What it is compared with.
    pub beside: Side,
    /// The requirement on the ratio.
    pub bound: Bound,
}

/// A program and its choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// One of perftest: when its Writes are done, and how it connects.
    Perftest(Program, Writes, Connection),
    /// `nd perf` with Writes, where each side looks at its memory for the other's.
    PerfMemory,
    /// A test of UCX.
    Ucx(&'static str, UcxOver),
}

/// All rows, in the order of the table.
pub const ALL: [NumbersTest; 9] = {
    use Connection::{Numbers, RdmaCm};
    use Program::{SendLat, WriteBw, WriteLat};
    use Side::{PerfMemory, Perftest};
    use UcxOver::{RcVerbs, Tcp};
    const fn row(size: u32, measured: Side, beside: Side, bound: Bound) -> NumbersTest {
        NumbersTest {
            size,
            measured,
            beside,
            bound,
        }
    }
    const fn placed(size: u32, least: f64) -> NumbersTest {
        let [placed, sent] = [
            Perftest(WriteBw, Writes::Placed, Numbers),
            Perftest(WriteBw, Writes::Sent, Numbers),
        ];
        row(size, placed, sent, Bound::AtLeast(least))
    }
    const fn write_latency(writes: Writes, most: f64) -> NumbersTest {
        let measured = Perftest(WriteLat, writes, Numbers);
        row(8, measured, PerfMemory, Bound::AtMost(most))
    }
    const fn ucx(size: u32, test: &'static str, bound: Bound) -> NumbersTest {
        row(size, Side::Ucx(test, RcVerbs), Side::Ucx(test, Tcp), bound)
    }
    [
        placed(8, 0.4),
        placed(4096, 0.7),
        placed(65536, 0.95),
        write_latency(Writes::Sent, 1.15),
        write_latency(Writes::Placed, 1.5),
        row(
            8,
            Perftest(SendLat, Writes::Placed, Numbers),
            Perftest(SendLat, Writes::Placed, RdmaCm),
            Bound::AtMost(1.03),
        ),
        ucx(8, "tag_lat", Bound::AtMost(1.15)),
        ucx(65536, "tag_bw", Bound::AtLeast(1.5)),
        ucx(8, "tag_bw", Bound::AtLeast(3.0)),
    ]
};

/// Outstanding Writes, all signalled.
const DEPTH: usize = 128;

impl Side {
    /// The program and its choices, in words.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Perftest(program, writes, connection) => {
                let connection = match connection {
                    Connection::RdmaCm => " -R",
                    Connection::Numbers => "",
                };
                let writes = if program.writes() {
                    format!(", {}", writes.name())
                } else {
                    String::new()
                };
                format!("`{}{connection}`{writes}", program.installed_name())
            }
            Self::PerfMemory => "`nd perf --mode memory`".to_owned(),
            Self::Ucx(test, over) => {
                let over = if over == UcxOver::RcVerbs {
                    "rc_v"
                } else {
                    "tcp"
                };
                format!("UCX `{test}`, {over}")
            }
        }
    }

    /// What is not installed, and Debian's name of its package.
    fn missing(self, ucx: Option<&Ucx>) -> Option<(String, &'static str)> {
        match self {
            Self::Perftest(program, ..) => {
                (!program.is_installed()).then(|| (program.installed_name(), "perftest"))
            }
            Self::PerfMemory => None,
            Self::Ucx(..) => ucx
                .is_none()
                .then(|| ("ucx_perftest".to_owned(), "ucx-utils")),
        }
    }

    fn measure(self, nd: &Nd, ucx: Option<&Ucx>, size: u32, pace: &Pace) -> Result<f64, Failure> {
        let octets = size as usize;
        match self {
            Self::Perftest(program, writes, connection) => {
                let perftest = Perftest {
                    program,
                    size,
                    depth: DEPTH,
                    events: false,
                    writes,
                    connection,
                };
                perftest.measure(nd, pace)
            }
            Self::PerfMemory => nd.latency("write", octets, "memory"),
            Self::Ucx(test, over) => {
                let ucx = ucx.ok_or_else(|| Failure::new("ucx_perftest is not installed"))?;
                if test.ends_with("_bw") {
                    return ucx.one_way(over, test, octets, pace);
                }
                let times = ucx.ping_pong(over, octets, pace)?;
                Ok(times.p50.unwrap_or(times.mean))
            }
        }
    }
}

/// A row and its turns.
#[derive(Clone, Debug, PartialEq)]
pub struct NumbersRow {
    /// The test.
    pub test: NumbersTest,
    /// Nanoseconds, or octets per second.
    pub turns: Pairs,
}

impl NumbersRow {
    /// Measures a row.
    ///
    /// # Errors
    ///
    /// When a program fails, or prints something unknown.
    pub fn measure(
        test: NumbersTest,
        nd: &Nd,
        ucx: Option<&Ucx>,
        turns: usize,
    ) -> Result<Self, Failure> {
        let NumbersTest {
            size,
            measured,
            beside,
            bound,
        } = test;
        // One for each side, because some are many times as fast as others.
        let paces = [(); 2].map(|()| Pace::new(nd.turn, size as usize));
        let name = format!("{} and {}, {size}", measured.name(), beside.name());
        let turns = Pairs::measure(
            turns,
            &name,
            bound,
            || measured.measure(nd, ucx, size, &paces[0]),
            || beside.measure(nd, ucx, size, &paces[1]),
        )?;
        Ok(Self { test, turns })
    }
}

/// The rows whose programs are installed, and the names and packages of those that are not.
#[must_use]
pub fn installed(ucx: Option<&Ucx>) -> (Vec<NumbersTest>, Vec<(String, &'static str)>) {
    let missing = |test: &NumbersTest| {
        let sides = [test.measured, test.beside];
        sides.into_iter().find_map(|side| side.missing(ucx))
    };
    let there = ALL.into_iter().filter(|test| missing(test).is_none());
    let mut names: Vec<_> = ALL.iter().filter_map(missing).collect();
    names.dedup();
    (there.collect(), names)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::pairs::Pair;
    use super::*;

    /// Rows that hold, and rows that do not.
    #[must_use]
    pub(in super::super) fn rows() -> Vec<NumbersRow> {
        let row = |test: NumbersTest, ratio: f64| {
            let pair = Pair {
                measured: ratio * 8_000.0,
                beside: 8_000.0,
            };
            let turns = Pairs {
                turns: vec![pair],
                bound: test.bound,
            };
            NumbersRow { test, turns }
        };
        vec![
            row(ALL[0], 0.3),
            row(ALL[1], 0.75),
            row(ALL[4], 1.6),
            row(ALL[5], 1.0),
            row(ALL[8], 3.5),
        ]
    }

    #[test]
    fn times_are_limited_from_above_and_rates_from_below() {
        for test in ALL {
            let names = [test.measured.name(), test.beside.name()];
            assert_ne!(names[0], names[1]);
            let rates = names.map(|name| name.contains("_bw"));
            assert_eq!(rates, [matches!(test.bound, Bound::AtLeast(_)); 2]);
        }
        assert_eq!(ALL[5].measured.name(), "`ib_send_lat`");
        assert_eq!(ALL[5].beside.name(), "`ib_send_lat -R`");
    }

    #[test]
    fn what_is_not_installed_is_named_once() {
        let (there, missing) = installed(None);
        assert!(
            there
                .iter()
                .all(|test| !matches!(test.measured, Side::Ucx(..)))
        );
        let ucx = missing
            .iter()
            .filter(|(_, package)| *package == "ucx-utils");
        assert_eq!(ucx.count(), 1);
    }
}
