//! The comparison within one machine: its tests, its columns and what is required.

use super::pairs::Bound;
use super::peers::UcxOver;
use super::shm::ShmTest;
use super::turns::{Figure, Size, Test, Turn};

/// All tests within one machine.
pub const WITHIN_ONE_MACHINE: [Test; 10] = {
    use Test::Shm;
    [
        Shm(ShmTest::PingPong),
        Shm(ShmTest::UcxPingPong(UcxOver::Posix)),
        Shm(ShmTest::UcxPingPong(UcxOver::Cma)),
        Shm(ShmTest::FabricPingPong),
        Shm(ShmTest::Copies),
        Shm(ShmTest::OneWay),
        Shm(ShmTest::UcxTag(UcxOver::Posix)),
        Shm(ShmTest::UcxPut(UcxOver::Posix)),
        Shm(ShmTest::UcxTag(UcxOver::Cma)),
        Shm(ShmTest::UcxPut(UcxOver::Cma)),
    ]
};

/// Half round trips in nanoseconds, and copies. Medians, except for libfabric, which reports only its mean.
pub const SHM_PING_PONG: [(&str, Figure); 7] = [
    ("softnd over TCP Send", |turn| turn.shm.ping_pong?.bare.p50),
    ("softnd Send", |turn| turn.shm.ping_pong?.ours.p50),
    ("UCX posix tag", |turn| turn.shm.posix.ping_pong?.p50),
    ("UCX cma tag", |turn| turn.shm.cma.ping_pong?.p50),
    ("libfabric shm (mean)", |turn| Some(turn.shm.fabric?.mean)),
    ("memcpy", |turn| Some(turn.shm.copies?.hot)),
    ("memcpy, cold", |turn| Some(turn.shm.copies?.cold)),
];

/// Octets per second one way.
pub const SHM_ONE_WAY: [(&str, Figure); 11] = [
    ("softnd over TCP Send", |turn| {
        Some(turn.shm.one_way?[0].bare)
    }),
    ("softnd over TCP Write", |turn| {
        Some(turn.shm.one_way?[1].bare)
    }),
    ("softnd over TCP Read", |turn| {
        Some(turn.shm.one_way?[2].bare)
    }),
    ("softnd Send", |turn| Some(turn.shm.one_way?[0].ours)),
    ("softnd Write", |turn| Some(turn.shm.one_way?[1].ours)),
    ("softnd Read", |turn| Some(turn.shm.one_way?[2].ours)),
    ("UCX posix tag", |turn| turn.shm.posix.tag),
    ("UCX posix put", |turn| turn.shm.posix.put),
    ("UCX cma tag", |turn| turn.shm.cma.tag),
    ("UCX cma put", |turn| turn.shm.cma.put),
    ("memcpy", |turn| Some(turn.shm.copies?.one_way)),
];

/// A requirement within one machine.
#[derive(Clone, Copy, Debug)]
pub struct ShmRequirement {
    /// What is required of.
    pub what: &'static str,
    /// The size at which it is required.
    pub octets: usize,
    /// What it is a ratio to.
    pub to: &'static str,
    /// The ratio within a turn.
    pub ratio: Figure,
    /// The bound of the ratio.
    pub bound: Bound,
}

const fn at_most(octets: usize, to: &'static str, ratio: Figure, most: f64) -> ShmRequirement {
    ShmRequirement {
        what: "Send, half a round trip",
        octets,
        to,
        ratio,
        bound: Bound::AtMost(most),
    }
}

const fn at_least_twice(what: &'static str, octets: usize, ratio: Figure) -> ShmRequirement {
    ShmRequirement {
        what,
        octets,
        to: OVER_TCP,
        ratio,
        bound: Bound::AtLeast(2.0),
    }
}

const OVER_TCP: &str = "softnd over TCP";
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn of_tcp(turn: &Turn) -> Option<f64> {
    turn.shm.time_of(Some(turn.shm.ping_pong?.bare))
}

fn of_posix(turn: &Turn) -> Option<f64> {
    turn.shm.time_of(turn.shm.posix.ping_pong)
}

fn of_cma(turn: &Turn) -> Option<f64> {
    turn.shm.time_of(turn.shm.cma.ping_pong)
}

fn of_fabric(turn: &Turn) -> Option<f64> {
    turn.shm.time_of(turn.shm.fabric)
}

fn of_cold_copy(turn: &Turn) -> Option<f64> {
    Some(turn.shm.ping_pong?.ours.p50? / turn.shm.copies?.cold)
}

fn rate_of_tcp(turn: &Turn, at: usize) -> Option<f64> {
    let row = turn.shm.one_way?[at];
    Some(row.ours / row.bare)
}

/// All requirements, in the order of their table.
pub const REQUIRED: [ShmRequirement; 14] = [
    at_most(8, OVER_TCP, of_tcp, 0.15),
    at_most(8, "UCX posix", of_posix, 4.0),
    at_most(8, "libfabric shm", of_fabric, 1.5),
    at_most(64 * KIB, OVER_TCP, of_tcp, 0.5),
    at_most(64 * KIB, "UCX cma", of_cma, 1.0),
    at_most(64 * KIB, "libfabric shm", of_fabric, 1.0),
    at_most(MIB, OVER_TCP, of_tcp, 0.6),
    at_most(MIB, "memcpy, cold", of_cold_copy, 1.3),
    at_least_twice("Send one way", 64 * KIB, |turn| rate_of_tcp(turn, 0)),
    at_least_twice("Write one way", 64 * KIB, |turn| rate_of_tcp(turn, 1)),
    at_least_twice("Read one way", 64 * KIB, |turn| rate_of_tcp(turn, 2)),
    at_least_twice("Send one way", MIB, |turn| rate_of_tcp(turn, 0)),
    at_least_twice("Write one way", MIB, |turn| rate_of_tcp(turn, 1)),
    at_least_twice("Read one way", MIB, |turn| rate_of_tcp(turn, 2)),
];

/// What was measured of a requirement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShmVerdict {
    /// The median of the ratios within each turn.
    pub ratio: f64,
    /// The quartiles of the turns.
    pub quartiles: (f64, f64),
    /// Whether the worse quartile keeps the bound.
    pub holds: bool,
}

impl ShmRequirement {
    /// Judges it by the turns of its size. `None` if a program or the size did not take part.
    #[must_use]
    pub fn judge(&self, sizes: &[Size]) -> Option<ShmVerdict> {
        let size = sizes.iter().find(|size| size.octets == self.octets)?;
        let quartiles = size.quartiles(self.ratio)?;
        Some(ShmVerdict {
            ratio: size.median(self.ratio)?,
            quartiles,
            holds: match self.bound {
                Bound::AtMost(_) => self.bound.holds(quartiles.1),
                Bound::AtLeast(_) => self.bound.holds(quartiles.0),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::shm::UcxTurn;
    use super::super::shm::tests::turn;
    use super::*;

    fn sizes() -> Vec<Size> {
        let turn = Turn {
            shm: turn(),
            ..Turn::default()
        };
        [8, 64 * KIB, MIB]
            .map(|octets| Size {
                octets,
                turns: vec![turn.clone(); 3],
            })
            .into()
    }

    #[test]
    fn times_have_an_upper_bound_and_rates_a_lower_one() {
        let ratios: Vec<_> = REQUIRED
            .iter()
            .map(|required| required.judge(&sizes()).unwrap().ratio)
            .collect();
        assert_eq!(ratios[..8], [0.1, 2.0, 1.0, 0.1, 0.5, 1.0, 0.1, 1.25]);
        assert_eq!(ratios[8..], [2.0, 2.5, 1.5, 2.0, 2.5, 1.5]);
        let missed: Vec<_> = REQUIRED
            .iter()
            .filter(|required| !required.judge(&sizes()).unwrap().holds)
            .map(|required| required.what)
            .collect();
        assert_eq!(missed, ["Read one way"; 2]);
    }

    #[test]
    fn what_took_no_part_is_not_judged() {
        let mut sizes = sizes();
        for turn in sizes.iter_mut().flat_map(|size| &mut size.turns) {
            turn.shm.cma = UcxTurn::default();
            turn.shm.fabric = None;
        }
        sizes.pop();
        let judged = REQUIRED
            .iter()
            .filter_map(|required| required.judge(&sizes));
        // Without UCX cma, libfabric at two sizes, and all of 1 MiB.
        assert_eq!(judged.count(), REQUIRED.len() - 3 - 5);
    }
}
