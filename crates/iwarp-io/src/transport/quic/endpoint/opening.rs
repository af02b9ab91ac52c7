//! Streams that this side opens.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn_proto::Dir;
use rustix::io::Errno;

use super::connection::Connection;
use super::{Deadline, Dial, Outside, QuicEndpoint, STALE};
use crate::log::targets;
use crate::progress::readiness::Edges;
use crate::progress::shared_descriptor::CarriedSource;
use crate::system_call::of_call;
use crate::transport::quic::arrivals::Arrivals;
use crate::transport::quic::config::ATTEMPT;
use crate::transport::quic::preamble::{ANSWER, ErrorCode, Preamble, TAKEN};
use crate::transport::quic::quic_stream::{QuicStream, Stage};

impl QuicEndpoint {
    /// Begins to open a stream to a peer, on the connection to it, or on a new one.
    pub(in crate::transport::quic) fn dial(
        &mut self,
        outside: Outside<'_>,
        source: Arc<CarriedSource>,
        addresses: (SocketAddr, SocketAddr),
        dial: Dial,
    ) -> io::Result<usize> {
        self.check_hearing()?;
        let remote = addresses.1;
        let known = self.dialed.get(&remote).copied();
        let key = match known {
            Some(key) => key,
            None => self.connect(outside, remote, dial, ATTEMPT)?,
        };
        let flow = QuicStream::new(key, source, Stage::Opening, addresses);
        let flow = self.flows.insert(flow);
        let connection = &mut self.connections[key];
        connection.opening.push_back(flow);
        if known.is_some() && connection.established {
            self.set_stale(outside, flow);
        }
        self.may_be_unused(outside, key);
        if self.connections[key].established {
            self.open_more(key);
        }
        self.settle(outside, key);
        Ok(flow)
    }

    pub(super) fn connect(
        &mut self,
        outside: Outside<'_>,
        remote: SocketAddr,
        dial: Dial,
        may_take: Duration,
    ) -> io::Result<usize> {
        let Dial {
            config,
            name,
            probe,
        } = dial;
        let connected = self.endpoint.connect(outside.now, config, remote, &name);
        let (handle, quic) = connected.map_err(io::Error::other)?;
        let mut connection = Connection::new(quic, handle, remote, true);
        connection.probe = probe;
        connection.may_take = may_take;
        let key = self.connections.insert(connection);
        self.grant_time(outside, key);
        self.set_handle(handle, key);
        self.dialed.insert(remote, key);
        Ok(key)
    }

    /// The network reports that there is no socket at the address of a peer.
    pub(in crate::transport::quic) fn refused(
        &mut self,
        outside: Outside<'_>,
        remote: SocketAddr,
        errno: Errno,
    ) {
        let Some(&key) = self.dialed.get(&remote) else {
            return;
        };
        self.give_up(outside, key, None, errno);
    }

    /// Opens streams as far as the peer permits.
    pub(super) fn open_more(&mut self, key: usize) {
        while let Some(&flow) = self.connections[key].opening.front() {
            let connection = &mut self.connections[key];
            let Some(stream) = connection.quic.streams().open(Dir::Bi) else {
                return;
            };
            connection.opening.pop_front();
            connection.flows.insert(stream, flow);
            let state = &mut self.flows[flow];
            state.stream = Some(stream);
            state.stage = Stage::Asked { have: 0 };
            let preamble = Preamble {
                source: state.local.port(),
                destination: state.remote.port(),
            };
            self.begin(flow, Bytes::copy_from_slice(&preamble.encode()));
        }
    }

    /// Sends the first octets on a stream, as soon as the connection has room for them.
    pub(super) fn begin(&mut self, flow: usize, octets: Bytes) {
        self.prioritize(flow, octets.len());
        self.flows[flow].unsent = octets;
        // An error belongs to the stream, and is reported by its events.
        let _ = self.send_unsent(flow);
    }

    /// Gives an outgoing handshake its full time from now on.
    pub(super) fn grant_time(&mut self, outside: Outside<'_>, key: usize) {
        let connection = &mut self.connections[key];
        let at = outside.now + connection.may_take;
        if let Some(before) = connection.overdue.replace(at) {
            self.deadlines.remove(&(before, Deadline::Attempt(key)));
        }
        self.deadlines.insert((at, Deadline::Attempt(key)));
    }

    /// An outgoing handshake has taken too long. Streams that wait for it, or for an answer of the peer, are opened on another connection.
    pub(super) fn replace_attempt(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        connection.overdue = None;
        if connection.lost || connection.is_confirmed() {
            return;
        }
        let mut flows: Vec<_> = connection.flows.values().copied().collect();
        flows.extend(&connection.opening);
        let remote = connection.remote;
        if self.dialed.get(&remote) == Some(&key) {
            self.dialed.remove(&remote);
        }
        // The order of the map differs from run to run. The last one is taken first.
        flows.sort_unstable_by(|one, other| other.cmp(one));
        for flow in flows {
            self.clear_stale(flow);
            self.stale.push(flow);
        }
    }

    /// Returns true if an outgoing stream waits until the peer permits more streams or octets, on the connection that new streams use. The
    /// peer owes no answer.
    pub(super) fn waits_for_leave(&self, flow: usize) -> bool {
        let flow = &self.flows[flow];
        let has_asked = flow.stage != Stage::Opening && flow.unsent.is_empty();
        !has_asked && self.dialed.get(&flow.remote) == Some(&flow.connection)
    }

    pub(super) fn set_stale(&mut self, outside: Outside<'_>, flow: usize) {
        let connection = self.connections.get(self.flows[flow].connection);
        let round_trip = connection.map_or(Duration::ZERO, |connection| connection.quic.rtt());
        let at = outside.now + STALE.max(2 * round_trip);
        self.flows[flow].stale = Some(at);
        self.deadlines.insert((at, Deadline::Stale(flow)));
    }

    pub(super) fn clear_stale(&mut self, flow: usize) {
        if let Some(at) = self.flows[flow].stale.take() {
            self.deadlines.remove(&(at, Deadline::Stale(flow)));
        }
    }

    /// Takes an outgoing stream that has got no answer on a connection that existed before. The peer may have restarted, and does not know
    /// the connection.
    pub(in crate::transport::quic) fn take_stale(&mut self) -> Option<(usize, SocketAddr)> {
        while let Some(flow) = self.stale.pop() {
            if let Some(known) = self.flows.get(flow)
                && matches!(known.stage, Stage::Opening | Stage::Asked { have: 0 })
                && known.broken.is_none()
            {
                return Some((flow, known.remote));
            }
        }
        None
    }

    /// Opens the stream of a flow once more, on a new connection.
    pub(in crate::transport::quic) fn dial_anew(
        &mut self,
        outside: Outside<'_>,
        flow: usize,
        dial: Dial,
    ) {
        let (old, stream, remote) = {
            let flow = &mut self.flows[flow];
            flow.stage = Stage::Opening;
            (flow.connection, flow.stream.take(), flow.remote)
        };
        self.close_arrivals(flow);
        self.flows[flow].arrivals = Arrivals::default();
        let mut may_take = ATTEMPT;
        if let Some(connection) = self.connections.get_mut(old) {
            if !connection.is_confirmed() {
                may_take = connection.may_take * 2;
            }
            connection.opening.retain(|opening| *opening != flow);
            if let Some(stream) = stream {
                connection.flows.remove(&stream);
                connection.break_off(stream, ErrorCode::Aborted);
            }
            if self.dialed.get(&remote) == Some(&old) {
                self.dialed.remove(&remote);
            }
            self.may_be_unused(outside, old);
            self.settle(outside, old);
        }
        let key = match self.dialed.get(&remote) {
            Some(&key) => key,
            None => match self.connect(outside, remote, dial, may_take) {
                Ok(key) => key,
                Err(_) => return self.break_flow(flow, Errno::CONNREFUSED),
            },
        };
        self.flows[flow].connection = key;
        self.connections[key].opening.push_back(flow);
        if self.connections[key].established {
            self.open_more(key);
        }
        self.settle(outside, key);
    }

    pub(super) fn read_answer(&mut self, key: usize, mut have: usize) {
        let mut octets = [0; ANSWER];
        let read = self.read(key, &mut octets[have..]);
        let errno = match read {
            Ok(count) if count > 0 && octets[have..have + count] == TAKEN[have..have + count] => {
                have += count;
                self.clear_stale(key);
                if have < ANSWER {
                    self.flows[key].stage = Stage::Asked { have };
                    return;
                }
                self.flows[key].stage = Stage::Open;
                return self.raise(key, Edges::WRITE | Edges::READ);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(_) => {
                let peer = self.flows[key].remote;
                limited!(warn, target: targets::UDP, %peer, "the peer does not speak iWARP over QUIC");
                Errno::CONNREFUSED
            }
            Err(_) => Errno::CONNREFUSED,
        };
        self.flows[key].broken = None;
        self.break_flow(key, errno);
    }

    /// Returns true if there is a connection to a peer, or an attempt at one.
    pub(in crate::transport::quic) fn knows(&self, remote: SocketAddr) -> bool {
        self.dialed.contains_key(&remote)
    }

    /// Returns true if an outgoing stream is open.
    pub(in crate::transport::quic) fn is_open(&self, key: usize) -> io::Result<bool> {
        let flow = &self.flows[key];
        let Some(errno) = flow.broken else {
            return Ok(flow.stage == Stage::Open);
        };
        Err(match (flow.refused_call, &flow.complaint) {
            (Some(call), _) => of_call(call, errno),
            (None, Some(complaint)) if errno == Errno::CONNREFUSED => {
                io::Error::new(io::ErrorKind::ConnectionRefused, &**complaint)
            }
            (None, _) => errno.into(),
        })
    }
}
