//! A connection whose octets go through shared memory.

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use iwarp::{Span, TxBatch};
use iwarp_mem::ring::Ring;
use iwarp_mem::{Received, Sent, Table};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::environment::Environment;
use crate::progress::readiness::Edges;
use crate::progress::set::SourceId;
use crate::transport::same_host::SharedRing;
use crate::transport::tcp;

use super::pages::Pages;

/// The most bells in a row between which the peer has neither written nor read anything. A peer that keeps the rules rings once for each
/// time that this side has asked.
const VAIN_BELLS: u32 = 1024;

/// The octet of a bell. Its value means nothing.
const BELL: &[u8] = &[0];

/// TCP has reported no end of the connection.
const OPEN: i32 = 0;
/// The peer's direction has ended in order.
const ENDED: i32 = -1;

/// The socket of the connection. It takes the bells that are left before it closes, because TCP would make the close a reset.
#[derive(Debug)]
struct Socket {
    tcp: tcp::Wire,
    /// The process that it belongs to.
    forks: u32,
}

impl Drop for Socket {
    fn drop(&mut self) {
        // One read takes all bells of a peer that keeps the rules. Those of the parent of a fork stay.
        if rdma_buffer::forks::forked() == self.forks {
            let _ = self.tcp.read(&mut [0; 64]);
        }
    }
}

impl Deref for Socket {
    type Target = tcp::Wire;

    fn deref(&self) -> &tcp::Wire {
        &self.tcp
    }
}

/// The time for which a peer may take no octets.
#[derive(Clone, Copy, Debug, Default)]
struct Patience {
    limit: Option<Duration>,
    /// Since when the peer has taken none, while the ring is full, and how many it had taken by then.
    since: Option<Instant>,
    taken: u64,
}

impl Patience {
    fn begin(&mut self, taken: u64) {
        self.taken = taken;
        // Without a limit nobody asks for the time.
        self.since = self.limit.map(|_| Environment::System.now());
    }

    fn ends_at(self) -> Option<Instant> {
        self.since?.checked_add(self.limit?)
    }
}

/// Two rings, and the TCP connection that they belong to: its addresses, its end, and the octets that ring.
///
/// Whoever reads or sends has locked the stream. The bells are explained in `iwarp_mem::ring::words`.
#[derive(Debug)]
pub struct Wire {
    ring: SharedRing,
    tcp: Socket,
    /// No set reports the stream, because a thread polls it: no bell is wanted.
    is_polled: AtomicBool,
    /// A read has taken bells, one of which may have meant that there is room.
    was_rung: AtomicBool,
    /// The last send found no room.
    is_full: AtomicBool,
    /// How long the ring may stay full, and since when it has been.
    patience: Mutex<Patience>,
    pages: Pages,
    /// This side has ended its direction.
    has_closed: AtomicBool,
    /// [`OPEN`], [`ENDED`], or the number of the error that has broken the connection.
    end: AtomicI32,
    vain_bells: AtomicU32,
    /// What the peer had written and read at the last bell.
    progress: [AtomicU64; 2],
}

impl Wire {
    /// A connection over these rings, whose other end the peer of the TCP connection has.
    pub(in crate::transport) fn new(tcp: tcp::Wire, ring: SharedRing) -> Self {
        Self {
            ring,
            tcp: Socket {
                tcp,
                forks: rdma_buffer::forks::forked(),
            },
            is_polled: AtomicBool::new(false),
            was_rung: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            patience: Mutex::default(),
            pages: Pages::new(),
            has_closed: AtomicBool::new(false),
            end: AtomicI32::new(OPEN),
            vain_bells: AtomicU32::new(0),
            progress: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        self.tcp.id()
    }

    pub(in crate::transport) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        self.tcp.addresses()
    }

    /// That of the TCP connection.
    pub(in crate::transport) fn segment(&self) -> Option<u32> {
        self.tcp.segment()
    }

    /// A set is about to report the stream. Returns the edges for which it has to look besides others: if there are octets or room already,
    /// an edge for which the socket is always ready, so that the stream is reported at once.
    pub(in crate::transport) fn joins_set(&self) -> Edges {
        let has_octets = self.ring.want_bell();
        // Polls may have missed that the peer waits.
        self.wake_writer();
        let has_room = self.is_full.load(Ordering::Relaxed) && self.has_room().unwrap_or(true);
        if has_octets.unwrap_or(true) || has_room {
            Edges::WRITE
        } else {
            Edges::empty()
        }
    }

    /// Sets whether a thread polls the stream, so that no set reports it.
    pub(in crate::transport) fn set_polled(&self, is_polled: bool) {
        self.is_polled.store(is_polled, Ordering::Relaxed);
        if is_polled {
            // In the child of a fork the next read returns the error.
            let _ = self.ring.want_no_bell();
            let _ = self.ring.await_no_room();
        }
    }

    fn is_polled(&self) -> bool {
        self.is_polled.load(Ordering::Relaxed)
    }

    /// The ring was full. Returns true if there is room by now. Otherwise a bell comes when there is, unless a thread polls.
    fn is_there_room(&self) -> io::Result<bool> {
        if self.is_polled() {
            self.mark_full(true);
            return Ok(false);
        }
        self.has_room()
    }

    /// Notes whether the ring is full. The peer's time begins when it becomes full.
    fn mark_full(&self, is_full: bool) {
        let was_full = self.is_full.swap(is_full, Ordering::Relaxed);
        if is_full && !was_full {
            self.patience.lock().begin(self.ring.progress().1);
        }
    }

    /// The time at which a peer that takes no octets has taken none for too long.
    #[inline]
    pub(super) fn gives_up_at(&self) -> Option<Instant> {
        if self.is_full.load(Ordering::Relaxed) {
            return self.patience.lock().ends_at();
        }
        None
    }

    /// The time at which the connection has to be looked at again: the end of the peer's time, or the next look at the memory of the ring.
    #[inline]
    pub(in crate::transport) fn looks_at(&self) -> Option<Instant> {
        let times = [self.gives_up_at(), self.pages.next_look()];
        times.into_iter().flatten().min()
    }

    /// Gives the memory of the ring back if the connection is quiet.
    pub(in crate::transport) fn look(&self, now: Instant) {
        self.pages.look(&self.ring, now);
    }

    /// The ring was full before a write, which has found room or has not. Fails if the peer has taken no octets for too long.
    #[cold]
    pub(super) fn after_full(&self, has_written: bool) -> io::Result<()> {
        if has_written {
            self.mark_full(false);
            return Ok(());
        }
        let mut patience = self.patience.lock();
        let taken = self.ring.progress().1;
        if patience.taken != taken {
            // Too few for what is to be written.
            patience.begin(taken);
        } else if patience
            .ends_at()
            .is_some_and(|end| end <= Environment::System.now())
        {
            return Err(Errno::TIMEDOUT.into());
        }
        Ok(())
    }

    /// Asks for a bell when there is room. Returns true if there is room.
    fn has_room(&self) -> io::Result<bool> {
        let has_room = self.ring.await_room()?;
        self.mark_full(!has_room);
        Ok(has_room)
    }

    /// Rings. A socket without room holds many bells that the peer has not taken, so one more is not needed.
    #[cold]
    fn ring_bell(&self) -> io::Result<()> {
        match self.tcp.write(BELL) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Rings although the peer has not asked.
    #[cfg(test)]
    pub(super) fn ring_for_nothing(&self) {
        self.ring_bell().unwrap();
    }

    /// Rings if the peer sleeps until there are octets. Called after octets were published.
    #[inline]
    fn wake_reader(&self) -> io::Result<()> {
        if self.ring.takes_bell()? {
            self.ring_bell()?;
        }
        Ok(())
    }

    /// Rings if the peer sleeps until there is room.
    fn wake_writer(&self) {
        // The next read reports a broken connection.
        if self.ring.takes_room_bell().unwrap_or(false) {
            let _ = self.ring_bell();
        }
    }

    /// Calls `take` until it has taken octets. `None` at the end of the peer's direction.
    #[inline]
    fn reading<T>(
        &self,
        mut take: impl FnMut(&Ring) -> io::Result<Option<(T, bool)>>,
    ) -> io::Result<Option<T>> {
        loop {
            if let Some((taken, half_free)) = take(&self.ring)? {
                if half_free {
                    self.wake_writer();
                }
                return Ok(Some(taken));
            }
            if !self.look_again()? {
                return Ok(None);
            }
        }
    }

    /// The ring was empty. Returns true if there may be octets by now, and false at the end of the peer's direction.
    fn look_again(&self) -> io::Result<bool> {
        // What was published before the end is found after it.
        if self.ring.is_closed()? {
            return self.ring.has_octets();
        }
        if self.is_polled() {
            if self.ring.takes_room_bell_unfenced()? {
                self.ring_bell()?;
            }
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.ring.want_bell()? {
            return Ok(true);
        }
        self.wake_writer();
        self.take_bells()
    }

    /// Takes the bells out of the socket, and looks again.
    #[cold]
    fn take_bells(&self) -> io::Result<bool> {
        let mut bells = [0; 64];
        let found = match self.end.load(Ordering::Relaxed) {
            OPEN => self.tcp.read(&mut bells),
            ENDED => Ok(0),
            error => Err(io::Error::from_raw_os_error(error)),
        };
        match found {
            Ok(0) => {
                self.end.store(ENDED, Ordering::Relaxed);
                self.ring.has_octets()
            }
            Ok(count) => {
                if iwarp::planted!(BellSwallowed) {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                self.count_bells(count)?;
                self.was_rung.store(true, Ordering::Relaxed);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            Err(error) => {
                let number = error.raw_os_error();
                let number = number.unwrap_or(Errno::CONNRESET.raw_os_error());
                self.end.store(number, Ordering::Relaxed);
                // What the peer had sent before the connection broke arrives.
                if self.ring.has_octets()? {
                    Ok(true)
                } else {
                    Err(error)
                }
            }
        }
    }

    /// Takes the bells that have come, for a send that has found no room while nothing is read. Returns true if there were any, and `None` at
    /// the end of the connection, which a read reports.
    pub(in crate::transport) fn take_all_bells(&self) -> Option<bool> {
        let found = self.take_bells();
        let was_rung = self.was_rung.swap(false, Ordering::Relaxed);
        match found {
            _ if self.end.load(Ordering::Relaxed) != OPEN => None,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => None,
            _ => Some(was_rung),
        }
    }

    /// Counts bells that mean nothing.
    fn count_bells(&self, count: usize) -> io::Result<()> {
        self.ring.look()?;
        let (written, read) = self.ring.progress();
        let mut moved = false;
        for (known, now) in self.progress.iter().zip([written, read]) {
            moved |= known.swap(now, Ordering::Relaxed) != now;
        }
        if moved {
            self.vain_bells.store(0, Ordering::Relaxed);
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let before = self.vain_bells.fetch_add(count, Ordering::Relaxed);
        if before.saturating_add(count) > VAIN_BELLS {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionReset,
                "the peer rings without end",
            ));
        }
        Ok(())
    }

    #[inline]
    pub(in crate::transport) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.reading(|ring| {
            let (count, half_free) = ring.read(into)?;
            Ok((count > 0).then_some((count, half_free)))
        })?;
        Ok(count.unwrap_or(0))
    }

    pub(in crate::transport) fn read_to_place(
        &self,
        table: &Table,
        place: Span,
        rest: &mut [u8],
    ) -> io::Result<Received> {
        let received = self.reading(|ring| {
            let (received, half_free) = ring.receive(table, place, rest)?;
            let is_empty = received == Received::Octets(0);
            Ok((!is_empty).then_some((received, half_free)))
        })?;
        Ok(received.unwrap_or(Received::Octets(0)))
    }

    /// Returns true if a read has taken a bell since the last call, which may have meant room.
    #[inline]
    pub(in crate::transport) fn take_room_report(&self) -> bool {
        self.was_rung.load(Ordering::Relaxed) && self.was_rung.swap(false, Ordering::Relaxed)
    }

    /// Returns true if a read that was shorter than it could be has found all that there is. Otherwise only a read that finds nothing has: it
    /// asks for the bell.
    #[inline]
    pub(in crate::transport) fn short_read_is_last(&self) -> bool {
        self.is_polled()
    }

    /// If nothing is there, this asks for a bell.
    pub(in crate::transport) fn peek(&self) -> io::Result<usize> {
        let is_there = self.reading(|ring| Ok(ring.has_octets()?.then_some(((), false))))?;
        Ok(usize::from(is_there.is_some()))
    }

    /// Once both directions have ended, the peer closes its socket, in which bells may be left: that is a reset of TCP, and means nothing.
    pub(in crate::transport) fn check(&self) -> io::Result<()> {
        self.ring.check()?;
        if self.has_closed.load(Ordering::Relaxed) && self.ring.is_closed()? {
            return Ok(());
        }
        match self.end.load(Ordering::Relaxed) {
            OPEN | ENDED => self.tcp.check(),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// A peer whose TCP connection has ended while its ring has not was killed: nothing can be sent to it.
    fn check_peer(&self) -> io::Result<()> {
        match self.end.load(Ordering::Relaxed) {
            OPEN => Ok(()),
            ENDED if self.ring.is_closed()? => Ok(()),
            ENDED => Err(Errno::PIPE.into()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    pub(in crate::transport) fn write(&self, octets: &[u8]) -> io::Result<usize> {
        self.check_peer()?;
        loop {
            let written = self.ring.write(octets)?;
            self.pages.written(&self.ring);
            if self.is_full.load(Ordering::Relaxed) {
                self.after_full(written > 0)?;
            }
            if written > 0 || octets.is_empty() {
                self.wake_reader()?;
                return Ok(written);
            }
            if !self.is_there_room()? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }

    #[inline]
    pub(in crate::transport) fn send(
        &self,
        table: &Table,
        batch: &mut TxBatch,
    ) -> io::Result<(u64, Sent)> {
        self.check_peer()?;
        let mut total = 0;
        loop {
            let (octets, sent) = self.ring.send(table, batch)?;
            self.pages.written(&self.ring);
            total += octets;
            if self.is_full.load(Ordering::Relaxed) {
                self.after_full(octets > 0)?;
            }
            self.wake_reader()?;
            if sent != Sent::WouldBlock || !self.is_there_room()? {
                return Ok((total, sent));
            }
        }
    }

    /// While octets wait in a ring TCP has nothing to acknowledge, so the ring counts here. TCP still counts for the bells.
    pub(in crate::transport) fn give_up_after(&self, limit: Duration) {
        self.patience.lock().limit = Some(limit);
        self.tcp.give_up_after(limit);
    }

    pub(in crate::transport) fn close_write(&self) -> io::Result<()> {
        self.ring.close()?;
        self.has_closed.store(true, Ordering::Relaxed);
        self.tcp.close_write()
    }

    pub(in crate::transport) fn break_off(&self) {
        self.tcp.break_off();
    }

    pub(in crate::transport) fn reset(self) {
        self.tcp.cut();
    }
}
