//! softnd through shared memory, beside the same adapter over TCP, UCX, libfabric and plain copies.

use super::memcpy::Copies;
use super::nd::{Nd, Row, depth};
use super::peers::{FabricOver, Pace, Peers, UcxOver};
use super::{Failure, Times};

/// The turn of all programs within one machine. `None` where a program does not take part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShmTurn {
    /// Ping-pong of Sends, beside the same adapter over TCP.
    pub ping_pong: Option<Row<Times>>,
    /// Sends, Writes and Reads one way in octets per second, as all rates below, beside the same adapter over TCP.
    pub one_way: Option<[Row<f64>; 3]>,
    /// UCX without the kernel's copy.
    pub posix: UcxTurn,
    /// UCX with it.
    pub cma: UcxTurn,
    /// Ping-pong of libfabric's messages.
    pub fabric: Option<Times>,
    /// Plain copies.
    pub copies: Option<Copies>,
}

/// The turn of UCX over one of its transports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UcxTurn {
    /// Tagged ping-pong.
    pub ping_pong: Option<Times>,
    /// Tagged messages one way.
    pub tag: Option<f64>,
    /// Puts one way.
    pub put: Option<f64>,
}

/// A test within one machine: one program's part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShmTest {
    /// softnd through shared memory and over TCP.
    PingPong,
    /// UCX.
    UcxPingPong(UcxOver),
    /// libfabric.
    FabricPingPong,
    /// softnd through shared memory and over TCP, by Sends, Writes and Reads.
    OneWay,
    /// UCX by tagged messages.
    UcxTag(UcxOver),
    /// UCX by puts.
    UcxPut(UcxOver),
    /// Plain copies.
    Copies,
}

impl ShmTest {
    /// Runs it, where its program is installed.
    pub(super) fn run(
        self,
        nd: &Nd,
        peers: &Peers,
        octets: usize,
        pace: &Pace,
        turn: &mut ShmTurn,
    ) -> Result<(), Failure> {
        match (self, &peers.ucx, &peers.fabric) {
            (Self::PingPong, ..) => turn.ping_pong = Some(nd.shm_ping_pong(octets)?),
            (Self::OneWay, ..) => turn.one_way = Some(nd.shm_one_way(octets)?),
            (Self::UcxPingPong(over), Some(ucx), _) => {
                turn.ucx(over).ping_pong = Some(ucx.ping_pong(over, octets, pace)?);
            }
            (Self::UcxTag(over), Some(ucx), _) => {
                turn.ucx(over).tag = Some(ucx.one_way(over, "tag_bw", octets, pace)?);
            }
            (Self::UcxPut(over), Some(ucx), _) => {
                turn.ucx(over).put = Some(ucx.one_way(over, "ucp_put_bw", octets, pace)?);
            }
            (Self::FabricPingPong, _, Some(fabric)) => {
                turn.fabric = Some(fabric.ping_pong(FabricOver::Shm, octets, pace)?);
            }
            (Self::Copies, ..) => {
                turn.copies = Some(Copies::measure(octets, depth(octets), nd.turn));
            }
            _ => {}
        }
        Ok(())
    }
}

impl ShmTurn {
    fn ucx(&mut self, over: UcxOver) -> &mut UcxTurn {
        match over {
            UcxOver::Cma => &mut self.cma,
            UcxOver::Posix | UcxOver::Tcp | UcxOver::RcVerbs => &mut self.posix,
        }
    }

    /// Our half round trip in parts of the other one: by the median if the other program reports it, otherwise by the mean.
    pub(super) fn time_of(&self, theirs: Option<Times>) -> Option<f64> {
        let (ours, theirs) = (self.ping_pong?.ours, theirs?);
        Some(match ours.p50.zip(theirs.p50) {
            Some((ours, theirs)) => ours / theirs,
            None => ours.mean / theirs.mean,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Half a microsecond, a tenth of softnd over TCP, twice UCX and equal to libfabric by the mean.
    pub(in super::super) fn turn() -> ShmTurn {
        let times = |p50, mean| Times { p50, mean };
        fn row<T>(ours: T, bare: T) -> Row<T> {
            Row { ours, bare }
        }
        let ucx = |ping_pong| UcxTurn {
            ping_pong: Some(times(Some(ping_pong), ping_pong)),
            tag: Some(20e9),
            put: Some(30e9),
        };
        ShmTurn {
            ping_pong: Some(row(times(Some(500.0), 600.0), times(Some(5000.0), 5100.0))),
            one_way: Some([row(20e9, 10e9), row(25e9, 10e9), row(15e9, 10e9)]),
            posix: ucx(250.0),
            cma: ucx(1000.0),
            fabric: Some(times(None, 600.0)),
            copies: Some(Copies {
                hot: 20.0,
                cold: 400.0,
                one_way: 50e9,
            }),
        }
    }
}
