//! A fault plan between a UDP socket and the datagrams that it sends and receives.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quinn_proto::EcnCodepoint;

use super::plain_socket::{BATCH, LONGEST_TRAIN, Outgoing, PlainSocket, Train};
use super::socket_drivers::SocketDrivers;
use crate::environment::Environment;
use crate::faults::{DatagramFaults, Direction, Passed, PassingDatagram};
use crate::log::targets;
use crate::progress::Edges;
use crate::progress::domain::{Domain, Source, Turn};
use crate::progress::shared_descriptor::Carrier;

/// The time after which a socket that was full is tried again.
const FULL: Duration = Duration::from_millis(1);

/// The most receives of one call, so that a flood of datagrams that the plan drops does not hold up the caller for long.
const VISITS: usize = 64;

/// See the [module](self).
pub(crate) struct FaultedSocket {
    below: PlainSocket,
    state: Mutex<State>,
    environment: Environment,
    drivers: Arc<OnceLock<SocketDrivers>>,
    port: Weak<dyn Carrier>,
}

struct State {
    faults: DatagramFaults,
    /// Datagrams that have passed the plan, and for which the socket had no room.
    leaving: VecDeque<PassingDatagram>,
    /// The time at which the socket is tried again.
    retry: Option<Instant>,
    /// Datagrams that have passed the plan, and were not received yet.
    arrived: VecDeque<PassingDatagram>,
    /// The socket may have more.
    unread: bool,
    /// The replacement of the socket since the plan has rebound it.
    rebound: Option<Rebound>,
}

impl std::fmt::Debug for FaultedSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultedSocket")
            .field("below", &self.below)
            .finish_non_exhaustive()
    }
}

impl FaultedSocket {
    pub(crate) fn new(
        below: PlainSocket,
        faults: DatagramFaults,
        environment: Environment,
        drivers: Arc<OnceLock<SocketDrivers>>,
        port: Weak<dyn Carrier>,
    ) -> Self {
        Self {
            below,
            state: Mutex::new(State {
                faults,
                leaving: VecDeque::new(),
                retry: None,
                arrived: VecDeque::new(),
                unread: false,
                rebound: None,
            }),
            environment,
            drivers,
            port,
        }
    }

    /// The socket of the operating system or network, as it was opened.
    pub(crate) fn below(&self) -> &PlainSocket {
        &self.below
    }

    /// The time at which [`receive`](Self::receive) has to be called, even if nothing arrives.
    pub(crate) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let state = self.state.lock();
        let more = (state.unread || !state.arrived.is_empty()).then_some(now);
        let all = [more, state.retry, state.faults.wake_at()];
        all.into_iter().flatten().min()
    }

    /// Like [`PlainSocket::send`]. Datagrams that the plan delays are kept here, and so are the others of a call during which the socket
    /// became full.
    pub(crate) fn send(&self, outgoing: &Outgoing<'_>) -> io::Result<()> {
        let now = self.environment.now();
        let mut state = self.state.lock();
        // A delayed datagram that cannot be sent is lost.
        self.flush(&mut state, now).or_else(unless_full)?;
        let mut refused = None;
        let stride = outgoing.stride.unwrap_or(outgoing.octets.len()).max(1);
        for octets in outgoing.octets.chunks(stride) {
            let datagram = passing(outgoing.to, outgoing.ecn, octets);
            let State {
                faults, leaving, ..
            } = &mut *state;
            if faults.pass(Direction::Sent, now, datagram, leaving) == Passed::Rebind {
                self.rebind(&mut state);
            }
            // If the socket is full, it is tried again later.
            if let Err(error) = self.flush(&mut state, now)
                && error.kind() != io::ErrorKind::WouldBlock
            {
                refused = Some(error);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Sends the datagrams that have passed the plan. An error other than a full socket is that of the last datagram that was not sent.
    fn flush(&self, state: &mut State, now: Instant) -> io::Result<()> {
        let State {
            faults,
            leaving,
            retry,
            rebound,
            ..
        } = state;
        faults.awake(Direction::Sent, now, leaving);
        let socket = rebound.as_ref().map_or(&self.below, |new| &new.socket);
        *retry = None;
        let mut refused = None;
        while let Some(datagram) = leaving.front() {
            let outgoing = Outgoing {
                to: datagram.peer,
                ecn: EcnCodepoint::from_bits(datagram.ecn),
                octets: &datagram.octets,
                stride: None,
            };
            match socket.send(&outgoing) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    *retry = Some(now + FULL);
                    return Err(error);
                }
                Err(error) => {
                    tracing::trace!(target: targets::UDP, to = %outgoing.to, %error, "a datagram was not sent");
                    refused = Some(error);
                }
                Ok(()) => {}
            }
            leaving.pop_front();
        }
        refused.map_or(Ok(()), Err)
    }

    /// Like [`PlainSocket::receive`]. Sends datagrams that are due as well.
    pub(crate) fn receive(&self, buffers: &mut [u8], received: &mut Vec<Train>) -> io::Result<()> {
        let now = self.environment.now();
        let mut state = self.state.lock();
        // If the socket is full, it is tried again later.
        let _ = self.flush(&mut state, now);
        let taken = self.take_in(&mut state, now, buffers, received);
        let State {
            faults, arrived, ..
        } = &mut *state;
        faults.awake(Direction::Received, now, arrived);
        received.clear();
        for buffer in buffers.chunks_mut(LONGEST_TRAIN).take(BATCH) {
            let Some(datagram) = arrived.pop_front() else {
                break;
            };
            let len = datagram.octets.len().min(buffer.len());
            buffer[..len].copy_from_slice(&datagram.octets[..len]);
            received.push(Train {
                from: datagram.peer,
                len,
                stride: len,
                ecn: EcnCodepoint::from_bits(datagram.ecn),
            });
        }
        if received.is_empty() {
            taken?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }

    /// Passes datagrams from the socket through the plan. The error is one that the network has reported.
    fn take_in(
        &self,
        state: &mut State,
        now: Instant,
        buffers: &mut [u8],
        received: &mut Vec<Train>,
    ) -> io::Result<()> {
        if state.rebound.is_some() {
            // Datagrams sent to the former port are dropped.
            for _ in 0..VISITS {
                if self.below.receive(buffers, received).is_err() {
                    break;
                }
            }
        }
        for _ in 0..VISITS {
            state.unread = true;
            if state.arrived.len() >= BATCH {
                break;
            }
            let rebound = state.rebound.as_ref();
            let socket = rebound.map_or(&self.below, |new| &new.socket);
            match socket.receive(buffers, received) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.unread = false;
                    break;
                }
                Err(error) => return Err(error),
            }
            let mut rebinds = false;
            for (train, octets) in received.iter().zip(buffers.chunks(LONGEST_TRAIN)) {
                let octets = &octets[..train.len.min(octets.len())];
                for octets in octets.chunks(train.stride.max(1)) {
                    let datagram = passing(train.from, train.ecn, octets);
                    let State {
                        faults, arrived, ..
                    } = &mut *state;
                    let passed = faults.pass(Direction::Received, now, datagram, arrived);
                    rebinds |= passed == Passed::Rebind;
                }
            }
            if rebinds {
                self.rebind(state);
            }
        }
        Ok(())
    }

    /// Makes the peers see another port from now on.
    fn rebind(&self, state: &mut State) {
        let outcome = match &self.below {
            PlainSocket::Sim(socket) => socket.rebind().map(drop),
            _ => self.another().map(|new| state.rebound = Some(new)),
        };
        if let Err(error) = outcome {
            tracing::warn!(target: targets::UDP, %error, "a UDP socket of the fault plan cannot be bound to another port");
        }
    }

    /// Another socket at the same IP address. Its port drives this one when a datagram arrives there.
    fn another(&self) -> io::Result<Rebound> {
        let local = self.below.local()?;
        let socket = PlainSocket::of_system(SocketAddr::new(local.ip(), 0))?;
        let drivers = self.drivers.get().ok_or(io::ErrorKind::NotConnected)?;
        let control = Arc::clone(&drivers.control);
        let socket = Arc::new(socket);
        let source: Arc<dyn Source> = Arc::new(ReboundSource {
            port: self.port.clone(),
            socket: Arc::downgrade(&socket),
            control: Arc::clone(&control),
        });
        let token = control.add(&socket.descriptor()?, Arc::downgrade(&source), Edges::READ)?;
        Ok(Rebound {
            socket,
            control,
            token,
            _source: source,
        })
    }
}

/// Lets every error pass but that of a full socket.
fn unless_full(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

/// A datagram as the plan sees it.
fn passing(peer: SocketAddr, ecn: Option<EcnCodepoint>, octets: &[u8]) -> PassingDatagram {
    PassingDatagram {
        peer,
        ecn: ecn.map_or(0, |ecn| ecn as u8),
        octets: octets.to_vec(),
    }
}

/// A socket of the system in place of another one. Sets wait for the first one only, so that the control domain has to watch
/// this one.
struct Rebound {
    socket: Arc<PlainSocket>,
    control: Arc<Domain>,
    token: u64,
    _source: Arc<dyn Source>,
}

impl Drop for Rebound {
    fn drop(&mut self) {
        if let Ok(socket) = self.socket.descriptor() {
            self.control.remove(&socket, self.token);
        }
    }
}

struct ReboundSource {
    port: Weak<dyn Carrier>,
    socket: Weak<PlainSocket>,
    control: Arc<Domain>,
}

impl Source for ReboundSource {
    fn ready(&self, _: Edges) -> Turn {
        if let Some(port) = self.port.upgrade() {
            port.drive();
        }
        if let Some(socket) = self.socket.upgrade()
            && let Ok(socket) = socket.descriptor()
        {
            self.control.arm(&socket, Edges::READ);
        }
        Turn::default()
    }
}

#[cfg(test)]
mod tests;
