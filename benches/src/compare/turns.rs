//! Turns of all programs, and their results.

use std::collections::BTreeMap;
use std::time::Duration;

use nd_perf::cores::{self, Watch};
use nd_perf::device::{Device, DeviceTest, DeviceTurn, Program};

use super::nd::{Nd, Row};
use super::peers::{FabricOver, Pace, Peers, UcxOver};
use super::shm::{ShmTest, ShmTurn};
use super::{Failure, Times, median};

/// One turn of all programs with messages of one size. `None` where a program does not take part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Ping-pong of Sends.
    pub ping_pong: Option<Row<Times>>,
    /// Tagged ping-pong.
    pub ucx_ping_pong: Option<Times>,
    /// Ping-pong of messages.
    pub fabric_ping_pong: Option<Times>,
    /// Sends one way, in octets per second, as all rates below.
    pub send: Option<Row<f64>>,
    /// Writes one way.
    pub write: Option<Row<f64>>,
    /// Tagged messages one way.
    pub ucx_tag: Option<f64>,
    /// Puts one way.
    pub ucx_put: Option<f64>,
    /// Ping-pong of Sends from and to page-aligned memory.
    pub aligned_ping_pong: Option<Times>,
    /// Sends and Writes one way, from and to page-aligned memory.
    pub aligned_one_way: Option<[f64; 2]>,
    /// Ping-pong of Sends with shared Receives.
    pub shared_ping_pong: Option<Times>,
    /// Sends one way with shared Receives.
    pub shared_one_way: Option<f64>,
    /// Ping-pong of Sends over UDP.
    pub udp_ping_pong: Option<Row<Times>>,
    /// Ping-pong of libfabric's reliable datagrams over UDP.
    pub fabric_udp_ping_pong: Option<Times>,
    /// Sends and Writes one way over UDP.
    pub udp_one_way: Option<[Row<f64>; 2]>,
    /// The tests on a device, compared with perftest, by the names of its programs: half round trips in nanoseconds, and rates.
    pub on_device: BTreeMap<&'static str, Row<f64>>,
    /// Within one machine.
    pub shm: ShmTurn,
}

impl Turn {
    /// The figures of a program of perftest, and of softnd in its place, on a device.
    fn on_device_figures(&self, program: Program) -> Option<Row<f64>> {
        self.on_device.get(program.name()).copied()
    }

    /// Our speed on a device as a share of perftest's.
    fn of_perftest(&self, program: Program) -> Option<f64> {
        let Row { ours, bare } = self.on_device_figures(program)?;
        Some(if program.is_bandwidth() {
            ours / bare
        } else {
            bare / ours
        })
    }

    /// The speed of our ping-pong as a share of the faster peer's speed, by the median if the peer reports it, otherwise by
    /// the mean.
    fn ping_pong_of_better(&self) -> Option<f64> {
        self.of_better(self.ping_pong?.ours)
    }

    fn aligned_ping_pong_of_better(&self) -> Option<f64> {
        self.of_better(self.aligned_ping_pong?)
    }

    fn of_better(&self, ours: Times) -> Option<f64> {
        let by = |theirs: Times| match theirs.p50.zip(ours.p50) {
            Some((theirs, ours)) => theirs / ours,
            None => theirs.mean / ours.mean,
        };
        let peers = [self.ucx_ping_pong, self.fabric_ping_pong];
        peers.into_iter().flatten().map(by).reduce(f64::min)
    }

    fn better_one_way(&self) -> Option<f64> {
        let peers = [self.ucx_tag, self.ucx_put];
        peers.into_iter().flatten().reduce(f64::max)
    }
}

/// A column of figures or of ratios.
pub type Figure = fn(&Turn) -> Option<f64>;

/// All turns with messages of one size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Size {
    /// Octets of a message.
    pub octets: usize,
    /// The turns in their order.
    pub turns: Vec<Turn>,
}

impl Size {
    /// The median over the turns, of a figure or of the ratio within each.
    #[must_use]
    pub fn median(&self, figure: Figure) -> Option<f64> {
        median(self.turns.iter().filter_map(figure))
    }
}

impl Size {
    /// The quartiles of the turns.
    #[must_use]
    pub fn quartiles(&self, figure: Figure) -> Option<(f64, f64)> {
        let mut sorted: Vec<_> = self.turns.iter().filter_map(figure).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        Some((sorted[last / 4], sorted[last - last / 4]))
    }
}

/// Half round trips in nanoseconds: heads and figures. Medians, except for libfabric, which reports only its mean.
pub const PING_PONG: [(&str, Figure); 4] = [
    ("raw TCP", |turn| turn.ping_pong?.bare.p50),
    ("softnd Send", |turn| turn.ping_pong?.ours.p50),
    ("UCX tag", |turn| turn.ucx_ping_pong?.p50),
    ("libfabric msg (mean)", |turn| {
        Some(turn.fabric_ping_pong?.mean)
    }),
];

/// Speeds of the ping-pong, in parts of another's.
pub const PING_PONG_SHARES: [(&str, Figure); 2] = [
    ("of raw TCP", |turn| {
        let row = turn.ping_pong?;
        Some(row.bare.p50? / row.ours.p50?)
    }),
    ("of the better peer", Turn::ping_pong_of_better),
];

/// Octets per second one way.
pub const ONE_WAY: [(&str, Figure); 5] = [
    ("raw TCP", |turn| Some(turn.send?.bare)),
    ("softnd Send", |turn| Some(turn.send?.ours)),
    ("softnd Write", |turn| Some(turn.write?.ours)),
    ("UCX tag", |turn| turn.ucx_tag),
    ("UCX put", |turn| turn.ucx_put),
];

/// Speeds one way, in parts of another's.
pub const ONE_WAY_SHARES: [(&str, Figure); 4] = [
    ("Send of raw TCP", |turn| {
        Some(turn.send?.ours / turn.send?.bare)
    }),
    ("Write of raw TCP", |turn| {
        Some(turn.write?.ours / turn.write?.bare)
    }),
    ("Send of the better peer", |turn| {
        Some(turn.send?.ours / turn.better_one_way()?)
    }),
    ("Write of the better peer", |turn| {
        Some(turn.write?.ours / turn.better_one_way()?)
    }),
];

/// softnd with page-aligned memory: half round trips in nanoseconds.
pub const ALIGNED_PING_PONG: [(&str, Figure); 1] =
    [("Send ping-pong", |turn| turn.aligned_ping_pong?.p50)];

/// softnd with page-aligned memory: octets per second one way.
pub const ALIGNED_ONE_WAY: [(&str, Figure); 2] = [
    ("Send one way", |turn| Some(turn.aligned_one_way?[0])),
    ("Write one way", |turn| Some(turn.aligned_one_way?[1])),
];

/// Speeds with page-aligned memory, in parts of the better peer's.
pub const ALIGNED_SHARES: [(&str, Figure); 3] = [
    (
        "ping-pong of the better peer",
        Turn::aligned_ping_pong_of_better,
    ),
    ("Send of the better peer", |turn| {
        Some(turn.aligned_one_way?[0] / turn.better_one_way()?)
    }),
    ("Write of the better peer", |turn| {
        Some(turn.aligned_one_way?[1] / turn.better_one_way()?)
    }),
];

/// softnd with shared Receives: half round trips in nanoseconds.
pub const SHARED_PING_PONG: [(&str, Figure); 1] =
    [("Send ping-pong", |turn| turn.shared_ping_pong?.p50)];

/// softnd with shared Receives: octets per second one way.
pub const SHARED_ONE_WAY: [(&str, Figure); 1] = [("Send one way", |turn| turn.shared_one_way)];

/// Speeds with shared Receives, in parts of those with own ones and of the better peer's.
pub const SHARED_SHARES: [(&str, Figure); 4] = [
    ("ping-pong of own Receives", |turn| {
        Some(turn.ping_pong?.ours.p50? / turn.shared_ping_pong?.p50?)
    }),
    ("one way of own Receives", |turn| {
        Some(turn.shared_one_way? / turn.send?.ours)
    }),
    ("ping-pong of the better peer", |turn| {
        turn.of_better(turn.shared_ping_pong?)
    }),
    ("one way of the better peer", |turn| {
        Some(turn.shared_one_way? / turn.better_one_way()?)
    }),
];

/// Half round trips over UDP in nanoseconds.
pub const UDP_PING_PONG: [(&str, Figure); 3] = [
    ("bare QUIC stream", |turn| turn.udp_ping_pong?.bare.p50),
    ("softnd Send", |turn| turn.udp_ping_pong?.ours.p50),
    ("libfabric rdm (mean)", |turn| {
        Some(turn.fabric_udp_ping_pong?.mean)
    }),
];

/// Speeds of the ping-pong over UDP, in parts of another's: libfabric's by the mean.
pub const UDP_PING_PONG_SHARES: [(&str, Figure); 2] = [
    ("of the bare stream", |turn| {
        let row = turn.udp_ping_pong?;
        Some(row.bare.p50? / row.ours.p50?)
    }),
    ("of libfabric", |turn| {
        Some(turn.fabric_udp_ping_pong?.mean / turn.udp_ping_pong?.ours.mean)
    }),
];

/// Octets per second one way over UDP.
pub const UDP_ONE_WAY: [(&str, Figure); 3] = [
    ("bare QUIC stream", |turn| Some(turn.udp_one_way?[0].bare)),
    ("softnd Send", |turn| Some(turn.udp_one_way?[0].ours)),
    ("softnd Write", |turn| Some(turn.udp_one_way?[1].ours)),
];

/// Speeds one way over UDP, in parts of the bare stream's.
pub const UDP_ONE_WAY_SHARES: [(&str, Figure); 2] = [
    ("Send of the bare stream", |turn| {
        let [send, _] = turn.udp_one_way?;
        Some(send.ours / send.bare)
    }),
    ("Write of the bare stream", |turn| {
        let [_, write] = turn.udp_one_way?;
        Some(write.ours / write.bare)
    }),
];

/// Half round trips on a device in nanoseconds.
pub const DEVICE_PING_PONG: [(&str, Figure); 4] = [
    ("perftest Send", |turn| {
        Some(turn.on_device_figures(Program::SendLat)?.bare)
    }),
    ("softnd Send", |turn| {
        Some(turn.on_device_figures(Program::SendLat)?.ours)
    }),
    ("perftest Write", |turn| {
        Some(turn.on_device_figures(Program::WriteLat)?.bare)
    }),
    ("softnd Write", |turn| {
        Some(turn.on_device_figures(Program::WriteLat)?.ours)
    }),
];

/// Speeds of the ping-pong on a device, in parts of perftest's.
pub const DEVICE_PING_PONG_SHARES: [(&str, Figure); 2] = [
    ("Send of perftest", |turn| {
        turn.of_perftest(Program::SendLat)
    }),
    ("Write of perftest", |turn| {
        turn.of_perftest(Program::WriteLat)
    }),
];

/// Octets per second one way on a device.
pub const DEVICE_ONE_WAY: [(&str, Figure); 6] = [
    ("perftest Send", |turn| {
        Some(turn.on_device_figures(Program::SendBw)?.bare)
    }),
    ("softnd Send", |turn| {
        Some(turn.on_device_figures(Program::SendBw)?.ours)
    }),
    ("perftest Write", |turn| {
        Some(turn.on_device_figures(Program::WriteBw)?.bare)
    }),
    ("softnd Write", |turn| {
        Some(turn.on_device_figures(Program::WriteBw)?.ours)
    }),
    ("perftest Read", |turn| {
        Some(turn.on_device_figures(Program::ReadBw)?.bare)
    }),
    ("softnd Read", |turn| {
        Some(turn.on_device_figures(Program::ReadBw)?.ours)
    }),
];

/// Speeds one way on a device, in parts of perftest's.
pub const DEVICE_ONE_WAY_SHARES: [(&str, Figure); 3] = [
    ("Send of perftest", |turn| turn.of_perftest(Program::SendBw)),
    ("Write of perftest", |turn| {
        turn.of_perftest(Program::WriteBw)
    }),
    ("Read of perftest", |turn| turn.of_perftest(Program::ReadBw)),
];

/// The share that a comparison with peers has to reach at every size, and in the median of all sizes.
pub const LEAST: f64 = 0.95;
/// Ahead means more than this.
pub const AHEAD: f64 = 1.0;

/// A share over all sizes. The lowest one is that with the lowest quartile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overall {
    /// The size at which it was lowest.
    pub worst_size: usize,
    /// The share at this size.
    pub worst: f64,
    /// The quartiles of the turns at this size.
    pub quartiles: (f64, f64),
    /// The median of all sizes.
    pub median: f64,
}

impl Overall {
    /// Summarizes a share. `None` if no size has it.
    #[must_use]
    pub fn summarize(sizes: &[Size], share: Figure) -> Option<Self> {
        let shares: Vec<_> = sizes
            .iter()
            .filter_map(|size| Some((size.octets, size.median(share)?, size.quartiles(share)?)))
            .collect();
        let low = |share: &(usize, f64, (f64, f64))| share.2.0;
        let worst = shares.iter().min_by(|a, b| low(a).total_cmp(&low(b)))?;
        let (worst_size, worst, quartiles) = *worst;
        Some(Self {
            worst_size,
            worst,
            quartiles,
            median: median(shares.iter().map(|share| share.1))?,
        })
    }

    /// Returns true if the share is what a comparison with peers has to reach. The worse quartile counts.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.quartiles.0 >= LEAST && self.median > AHEAD
    }
}

/// The tests of a turn. Each is one program's part of the turn; `nd` also measures the bare stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// softnd and raw TCP.
    PingPong,
    /// UCX.
    UcxPingPong,
    /// libfabric over TCP.
    FabricPingPong,
    /// softnd and raw TCP, by Sends and by Writes.
    OneWay,
    /// UCX by tagged messages.
    UcxTag,
    /// UCX by puts.
    UcxPut,
    /// softnd with page-aligned memory.
    AlignedPingPong,
    /// softnd with page-aligned memory, by Sends and by Writes.
    AlignedOneWay,
    /// softnd with shared Receives.
    SharedPingPong,
    /// softnd with shared Receives, by Sends.
    SharedOneWay,
    /// softnd over UDP and a bare QUIC stream.
    UdpPingPong,
    /// libfabric over UDP.
    FabricUdpPingPong,
    /// softnd over UDP and a bare QUIC stream, by Sends and by Writes.
    UdpOneWay,
    /// softnd and perftest on a device.
    OnDevice(Program),
    /// Within one machine.
    Shm(ShmTest),
}

impl Test {
    /// The program of perftest that takes part.
    #[must_use]
    pub const fn program(self) -> Option<Program> {
        match self {
            Self::OnDevice(program) => Some(program),
            _ => None,
        }
    }
}

/// All tests over TCP.
pub const OVER_TCP: [Test; 10] = [
    Test::PingPong,
    Test::UcxPingPong,
    Test::FabricPingPong,
    Test::OneWay,
    Test::UcxTag,
    Test::UcxPut,
    Test::AlignedPingPong,
    Test::AlignedOneWay,
    Test::SharedPingPong,
    Test::SharedOneWay,
];

/// All tests over UDP.
pub const OVER_UDP: [Test; 3] = [Test::UdpPingPong, Test::FabricUdpPingPong, Test::UdpOneWay];

/// All tests on a device.
pub const ON_DEVICE: [Test; 5] = [
    Test::OnDevice(Program::SendLat),
    Test::OnDevice(Program::WriteLat),
    Test::OnDevice(Program::SendBw),
    Test::OnDevice(Program::WriteBw),
    Test::OnDevice(Program::ReadBw),
];

/// Measures messages of one size.
#[derive(Debug)]
pub struct Measurement<'a> {
    nd: &'a Nd,
    peers: &'a Peers,
    octets: usize,
    /// The tests of a turn, and how many messages each takes.
    tests: Vec<(Test, Pace)>,
}

impl<'a> Measurement<'a> {
    /// Nothing measured yet.
    #[must_use]
    pub fn new(nd: &'a Nd, peers: &'a Peers, octets: usize, tests: &[Test]) -> Self {
        let paced = |test: &Test| (*test, Pace::new(nd.turn, octets));
        Self {
            nd,
            peers,
            octets,
            tests: tests.iter().map(paced).collect(),
        }
    }

    /// Runs turns of all programs. The first turn finds out how many messages fit into a turn and is not kept. The program
    /// that begins changes from turn to turn. Before each part this waits until the cores are as near to each other as they usually
    /// are, as `watch` knows it, but no longer than `patience`, from which the wait is taken. A program's part is run again if the host
    /// moved the cores meanwhile, or if they are further from each other than usual.
    ///
    /// # Errors
    ///
    /// If a program fails twice, because figures without this program would be a different comparison.
    pub fn turns(
        &self,
        count: usize,
        watch: &mut Watch,
        patience: &mut Duration,
        progress: &mut dyn FnMut(),
    ) -> Result<Size, Failure> {
        let mut size = Size {
            octets: self.octets,
            turns: Vec::with_capacity(count),
        };
        for round in 0..=count {
            let mut turn = Turn::default();
            let count = self.tests.len();
            for step in 0..count {
                self.part((round + step) % count, round, &mut turn, watch, patience)?;
            }
            if round > 0 {
                size.turns.push(turn);
            }
            progress();
        }
        Ok(size)
    }

    /// The last of several attempts counts, wherever the cores are by then.
    fn part(
        &self,
        test: usize,
        round: usize,
        turn: &mut Turn,
        watch: &mut Watch,
        patience: &mut Duration,
    ) -> Result<(), Failure> {
        const ATTEMPTS: usize = 8;
        let pair = cores::allowed().first_chunk().copied();
        for _ in 0..ATTEMPTS {
            if let Some((pair, usual)) = pair.zip(watch.median()) {
                cores::await_near(pair, usual, patience, || Ok::<_, Failure>(()))?;
            }
            let mut span = watch.begin(pair);
            // One more attempt, before everything measured so far is given up.
            self.run(test, round, turn)
                .or_else(|_| self.run(test, round, turn))?;
            span.look();
            if span.end() && watch.is_usual() {
                break;
            }
        }
        Ok(())
    }

    fn run(&self, test: usize, round: usize, turn: &mut Turn) -> Result<(), Failure> {
        let (octets, (test, pace)) = (self.octets, &self.tests[test]);
        let Peers {
            ucx,
            fabric,
            device,
        } = self.peers;
        match (test, ucx, fabric) {
            (Test::PingPong, ..) => turn.ping_pong = Some(self.nd.ping_pong(octets)?),
            (Test::OneWay, ..) => {
                let [send, write] = self.nd.one_way(octets)?;
                (turn.send, turn.write) = (Some(send), Some(write));
            }
            (Test::UcxPingPong, Some(ucx), _) => {
                turn.ucx_ping_pong = Some(ucx.ping_pong(UcxOver::Tcp, octets, pace)?);
            }
            (Test::UcxTag, Some(ucx), _) => {
                turn.ucx_tag = Some(ucx.one_way(UcxOver::Tcp, "tag_bw", octets, pace)?);
            }
            (Test::UcxPut, Some(ucx), _) => {
                turn.ucx_put = Some(ucx.one_way(UcxOver::Tcp, "ucp_put_bw", octets, pace)?);
            }
            (Test::FabricPingPong, _, Some(fabric)) => {
                turn.fabric_ping_pong = Some(fabric.ping_pong(FabricOver::Tcp, octets, pace)?);
            }
            (Test::AlignedPingPong, ..) => {
                turn.aligned_ping_pong = Some(self.nd.aligned_ping_pong(octets)?);
            }
            (Test::AlignedOneWay, ..) => {
                turn.aligned_one_way = Some(self.nd.aligned_one_way(octets)?);
            }
            (Test::SharedPingPong, ..) => {
                turn.shared_ping_pong = Some(self.nd.shared_ping_pong(octets)?);
            }
            (Test::SharedOneWay, ..) => {
                turn.shared_one_way = Some(self.nd.shared_one_way(octets)?);
            }
            (Test::UdpPingPong, ..) => {
                turn.udp_ping_pong = Some(self.nd.udp_ping_pong(octets)?);
            }
            (Test::FabricUdpPingPong, _, Some(fabric)) => {
                turn.fabric_udp_ping_pong =
                    Some(fabric.ping_pong(FabricOver::Udp, octets, pace)?);
            }
            (Test::UdpOneWay, ..) => {
                turn.udp_one_way = Some(self.nd.udp_one_way(octets)?);
            }
            (Test::Shm(test), ..) => test.run(self.nd, self.peers, octets, pace, &mut turn.shm)?,
            (Test::OnDevice(program), ..) => {
                if let Some(device) = device {
                    let row = on_device(device, *program, octets, pace, round)?;
                    turn.on_device.insert(program.name(), row);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// One turn of a test on a device.
fn on_device(
    device: &Device,
    program: Program,
    octets: usize,
    pace: &Pace,
    round: usize,
) -> Result<Row<f64>, Failure> {
    let test = DeviceTest {
        program,
        size: u32::try_from(octets).unwrap_or(u32::MAX),
        messages: pace.messages(),
    };
    let figures = device.turn(test, round)?;
    Ok(row_of(program, octets, pace, figures))
}

/// The figures of both in the units of a row. `pace` learns how long a message takes.
fn row_of(program: Program, octets: usize, pace: &Pace, figures: DeviceTurn) -> Row<f64> {
    // Programs for bandwidth print MiB/s, the others microseconds.
    let of_unit = if program.is_bandwidth() {
        f64::from(1 << 20)
    } else {
        1e3
    };
    let row = Row {
        ours: of_unit * figures.ours,
        bare: of_unit * figures.theirs,
    };
    pace.learn(if program.is_bandwidth() {
        1e9 * octets as f64 / row.ours
    } else {
        2.0 * row.ours
    });
    row
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const fn times(p50: f64, mean: f64) -> Times {
        Times {
            p50: Some(p50),
            mean,
        }
    }

    /// softnd twice as fast as UCX, a tenth faster than libfabric by the mean, at 0.8 of raw TCP.
    pub(crate) fn turn() -> Turn {
        Turn {
            ping_pong: Some(Row {
                ours: times(5000.0, 6000.0),
                bare: times(4000.0, 4500.0),
            }),
            ucx_ping_pong: Some(times(10_000.0, 11_000.0)),
            fabric_ping_pong: Some(Times {
                p50: None,
                mean: 6600.0,
            }),
            send: Some(Row {
                ours: 8e9,
                bare: 10e9,
            }),
            write: Some(Row {
                ours: 9e9,
                bare: 10e9,
            }),
            ucx_tag: Some(10e9),
            ucx_put: Some(1e9),
            aligned_ping_pong: Some(times(5500.0, 6600.0)),
            aligned_one_way: Some([7e9, 6e9]),
            shared_ping_pong: Some(times(6250.0, 7500.0)),
            shared_one_way: Some(4e9),
            udp_ping_pong: Some(Row {
                ours: times(8000.0, 9000.0),
                bare: times(6000.0, 6500.0),
            }),
            fabric_udp_ping_pong: Some(Times {
                p50: None,
                mean: 18_000.0,
            }),
            udp_one_way: Some([
                Row {
                    ours: 3e9,
                    bare: 4e9,
                },
                Row {
                    ours: 2e9,
                    bare: 4e9,
                },
            ]),
            on_device: [
                ("send_lat", 100e3, 80e3),
                ("write_lat", 100e3, 90e3),
                ("send_bw", 2e9, 4e9),
                ("write_bw", 3e9, 4e9),
                ("read_bw", 5e9, 4e9),
            ]
            .map(|(name, ours, bare)| (name, Row { ours, bare }))
            .into(),
            shm: super::super::shm::tests::turn(),
        }
    }

    pub(crate) fn sizes() -> Vec<Size> {
        [8, 1 << 20]
            .map(|octets| Size {
                octets,
                turns: vec![turn(); 3],
            })
            .into()
    }

    #[test]
    fn peers_are_compared_by_what_they_tell() {
        let share = |at: usize| (PING_PONG_SHARES[at].1)(&turn()).unwrap();
        assert_eq!(share(0), 0.8);
        assert!((share(1) - 1.1).abs() < 1e-9);
        let without = Turn {
            ucx_ping_pong: None,
            fabric_ping_pong: None,
            ..turn()
        };
        assert_eq!((PING_PONG_SHARES[1].1)(&without), None);
    }

    #[test]
    fn one_way_the_better_peer_counts() {
        let shares = ONE_WAY_SHARES.map(|(_, share)| share(&turn()).unwrap());
        assert_eq!(shares, [0.8, 0.9, 0.8, 0.9]);
        let aligned = ALIGNED_SHARES.map(|(_, share)| share(&turn()).unwrap());
        assert_eq!(aligned, [1.0, 0.7, 0.6]);
        let shared = SHARED_SHARES.map(|(_, share)| share(&turn()).unwrap());
        assert_eq!(shared, [0.8, 0.5, 0.88, 0.4]);
    }

    #[test]
    fn over_udp_libfabric_is_compared_by_the_mean() {
        let ping_pong = UDP_PING_PONG_SHARES.map(|(_, share)| share(&turn()).unwrap());
        assert_eq!(ping_pong, [0.75, 2.0]);
        let one_way = UDP_ONE_WAY_SHARES.map(|(_, share)| share(&turn()).unwrap());
        assert_eq!(one_way, [0.75, 0.5]);
    }

    #[test]
    fn on_a_device_more_than_one_is_faster_for_times_and_for_rates() {
        let ping_pong = DEVICE_PING_PONG_SHARES.map(|(_, share)| share(&turn()).unwrap());
        assert_eq!(ping_pong, [0.8, 0.9]);
        let one_way = DEVICE_ONE_WAY_SHARES.map(|(_, share)| share(&turn()).unwrap());
        assert_eq!(one_way, [0.5, 0.75, 1.25]);
    }

    #[test]
    fn what_perftest_tells_has_its_unit_and_paces_the_next_turn() {
        let pace = Pace::new(Duration::from_millis(100), 64 << 10);
        let figures = DeviceTurn {
            ours: 50.0,
            theirs: 40.0,
        };
        let row = row_of(Program::SendLat, 64 << 10, &pace, figures);
        assert_eq!((row.ours, row.bare), (50e3, 40e3));
        assert_eq!(pace.messages(), 1000);
        let row = row_of(Program::ReadBw, 64 << 10, &pace, figures);
        assert_eq!(row.ours, 50.0 * 1_048_576.0);
        assert_eq!(pace.messages(), 80);
    }

    #[test]
    fn the_median_of_ratios_is_not_the_ratio_of_medians() {
        let rates = [(1.0, 1.0), (2.0, 4.0), (9.0, 10.0)];
        let turns = rates.map(|(ours, bare)| Turn {
            send: Some(Row { ours, bare }),
            ..Turn::default()
        });
        let size = Size {
            octets: 8,
            turns: turns.into(),
        };
        assert_eq!(size.median(ONE_WAY_SHARES[0].1), Some(0.9));
        assert_eq!(size.median(ONE_WAY[3].1), None);
    }

    #[test]
    fn every_size_counts_and_so_does_the_median() {
        let overall = Overall::summarize(&sizes(), ONE_WAY_SHARES[2].1).unwrap();
        assert_eq!((overall.worst, overall.holds()), (0.8, false));
        let ahead = Overall::summarize(&sizes(), PING_PONG_SHARES[1].1).unwrap();
        assert!(ahead.holds());
        assert_eq!(Overall::summarize(&[], PING_PONG_SHARES[1].1), None);
    }
}
