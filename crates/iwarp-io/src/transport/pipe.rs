//! Streams between two ends of one process, over pairs of connected sockets. This fourth transport exists for tests. It shows the required
//! parts of a transport.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use iwarp::{Span, TxBatch};
use iwarp_mem::{Received, Sent, Table};
use rustix::io::Errno;

use crate::progress::readiness::Watch;
use crate::progress::set::{Set, SourceId};

/// A network of pipes. Clones are the same network.
#[derive(Clone, Debug, Default)]
pub struct Pipes {
    state: Arc<Mutex<State>>,
    refuses: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    bound: BTreeSet<SocketAddr>,
    listening: BTreeMap<SocketAddr, Waiting>,
}

/// The connections that wait to be accepted, and a socket that is readable for each of them.
#[derive(Debug)]
struct Waiting {
    peers: VecDeque<(UnixStream, SocketAddr)>,
    bell: UnixStream,
}

impl Pipes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Makes the next send of a batch fail as if the pipe were full: there is room again before the sender can ask for a report of it.
    pub(crate) fn refuse_next_send(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }

    pub(super) fn bind(&self, address: SocketAddr) -> io::Result<Bound> {
        if !self.lock().bound.insert(address) {
            return Err(Errno::ADDRINUSE.into());
        }
        Ok(Bound {
            pipes: self.clone(),
            local: address,
        })
    }
}

/// A reserved address.
#[derive(Debug)]
pub struct Bound {
    pipes: Pipes,
    local: SocketAddr,
}

impl Bound {
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn connect(self, remote: SocketAddr) -> io::Result<Dialer> {
        let mut state = self.pipes.lock();
        let listening = state.listening.get_mut(&remote);
        let listening = listening.ok_or(Errno::CONNREFUSED)?;
        let (here, there) = UnixStream::pair()?;
        listening.bell.write_all(b".")?;
        listening.peers.push_back((there, self.local));
        drop(state);
        let refuses = &self.pipes.refuses;
        Ok(Dialer(Wire::new(here, refuses, self.local, remote)?))
    }

    pub(super) fn listen(self) -> io::Result<Listener> {
        let (bell, rings) = UnixStream::pair()?;
        rings.set_nonblocking(true)?;
        let waiting = Waiting {
            peers: VecDeque::new(),
            bell,
        };
        self.pipes.lock().listening.insert(self.local, waiting);
        Ok(Listener { bound: self, rings })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let mut state = self.pipes.lock();
        state.bound.remove(&self.local);
        state.listening.remove(&self.local);
    }
}

/// A connection, which is established at once.
#[derive(Debug)]
pub struct Dialer(Wire);

impl Dialer {
    pub(super) fn id(&self) -> SourceId<'_> {
        self.0.id()
    }

    pub(super) fn into_wire(self) -> Wire {
        self.0
    }
}

/// A socket to which peers connect.
#[derive(Debug)]
pub struct Listener {
    bound: Bound,
    rings: UnixStream,
}

impl Listener {
    pub(super) fn id(&self) -> SourceId<'_> {
        Watch::<Set>::id(&self.rings)
    }

    pub(super) fn accept(&self) -> io::Result<Wire> {
        (&self.rings).read_exact(&mut [0])?;
        let mut state = self.bound.pipes.lock();
        let listening = state.listening.get_mut(&self.bound.local);
        let waiting = listening.and_then(|listening| listening.peers.pop_front());
        let (stream, peer) = waiting.ok_or(io::ErrorKind::WouldBlock)?;
        let refuses = &self.bound.pipes.refuses;
        Wire::new(stream, refuses, self.bound.local, peer)
    }

    pub(super) fn is_somebody_there(&self) -> bool {
        let state = self.bound.pipes.lock();
        let listening = state.listening.get(&self.bound.local);
        listening.is_some_and(|listening| !listening.peers.is_empty())
    }
}

/// One end of a pipe.
#[derive(Debug)]
pub struct Wire {
    stream: UnixStream,
    refuses: Arc<AtomicBool>,
    addresses: (SocketAddr, SocketAddr),
}

impl Wire {
    fn new(
        stream: UnixStream,
        refuses: &Arc<AtomicBool>,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            refuses: Arc::clone(refuses),
            addresses: (local, peer),
        })
    }

    pub(super) fn id(&self) -> SourceId<'_> {
        Watch::<Set>::id(&self.stream)
    }

    pub(super) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        self.addresses
    }

    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.stream).read(into)
    }

    pub(super) fn read_to_place(
        &self,
        table: &Table,
        place: Span,
        rest: &mut [u8],
    ) -> io::Result<Received> {
        iwarp_mem::io::receive(self.stream.as_fd(), table, place, rest)
    }

    pub(super) fn peek(&self) -> io::Result<usize> {
        let peek = rustix::net::RecvFlags::PEEK;
        Ok(rustix::net::recv(&self.stream, &mut [0_u8][..], peek)?.0)
    }

    pub(super) fn check(&self) -> io::Result<()> {
        match self.stream.take_error()? {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    pub(super) fn write(&self, octets: &[u8]) -> io::Result<usize> {
        (&self.stream).write(octets)
    }

    pub(super) fn send(&self, table: &Table, batch: &mut TxBatch) -> io::Result<(u64, Sent)> {
        if self.refuses.swap(false, Ordering::SeqCst) {
            return Ok((0, Sent::WouldBlock));
        }
        iwarp_mem::io::send(self.stream.as_fd(), table, batch, None)
    }

    pub(super) fn close_write(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    pub(super) fn break_off(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
