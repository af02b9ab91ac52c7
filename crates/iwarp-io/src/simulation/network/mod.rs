//! A network of byte streams and datagrams on a virtual clock, as a state machine: the caller passes the time in, and gets the changes of
//! each end and each socket.
//!
//! For programs, streams behave like TCP's: octets arrive in order and in pieces of any length, octets that the reader has not read hold
//! back the writer, FIN comes behind the data, a reset comes behind octets that were already on their way, and an end that is dropped with
//! unread data resets its peer.
//!
//! [`Datagrams`] behave like UDP's: each arrives whole or not at all, and a sender gets reports only about addresses that no socket has.
//! Streams and datagrams share the clock, the queue of events and the seeded generator. Each kind has a separate namespace of addresses.
//!
//! Equal seeds and equal calls give equal runs. Streams alone draw no number for datagrams.

mod common;
mod datagrams;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;

use common::{Common, NetworkEvent, has_route};
pub use common::{Datagram, DatagramSocketId, Disturbances, EndId, ListenerId, Notice};
use datagrams::DatagramSockets;
pub use datagrams::Datagrams;

use super::conditions::Conditions;
use crate::edges::Edges;
use crate::error_number::EPIPE;

/// The phase of an end's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndPhase {
    Connecting,
    Open,
    /// Broken, with the error that the next call reports.
    Broken(Errno),
}

#[derive(Debug)]
struct End {
    local: SocketAddr,
    remote: SocketAddr,
    peer: Option<EndId>,
    phase: EndPhase,
    /// Octets written that are not on their way yet.
    unsent: VecDeque<u8>,
    /// Octets on their way to the peer.
    flying: usize,
    /// The writer has closed, once everything written is on its way.
    closing: bool,
    /// This end closed before its peer did.
    first: bool,
    /// FIN is on its way, or was dropped with all that follows.
    closed: bool,
    /// The network drops octets written from here on.
    swallowed: bool,
    /// A write was cut short: the writer waits for room.
    short: bool,
    /// The time when the last sent octets arrive. Octets sent later do not arrive earlier.
    last_arrival: Duration,
    /// The time when the link has carried the last sent octets.
    busy_until: Duration,
    /// Octets that have arrived and were not read.
    inbox: VecDeque<u8>,
    /// The peer's FIN has arrived.
    ended: bool,
    /// The program has released the end, which lives on until its last octet was sent.
    orphan: bool,
    /// The local address cannot be bound by others. An end that was accepted never holds its address, and an end that connected holds its
    /// address until its program has closed it.
    holds_address: bool,
}

#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    backlog: usize,
    waiting: VecDeque<EndId>,
}

/// The network, all streams in it, and all sockets for datagrams.
#[derive(Debug)]
pub struct Network {
    common: Common,
    ends: BTreeMap<EndId, End>,
    listeners: BTreeMap<ListenerId, Listening>,
    /// Bound addresses that are not used yet, and those of listeners and of ends that hold their address.
    bound: BTreeSet<SocketAddr>,
    /// Addresses of streams that have ended, at the end that closed first, and the times until which they cannot be used again (TIME-WAIT).
    waiting: BTreeMap<(SocketAddr, SocketAddr), Duration>,
    datagrams: DatagramSockets,
}

impl Network {
    /// A network without streams and sockets, at time zero.
    pub fn new(seed: u64, conditions: Conditions) -> Self {
        Self {
            common: Common::new(seed, conditions),
            ends: BTreeMap::new(),
            listeners: BTreeMap::new(),
            bound: BTreeSet::new(),
            waiting: BTreeMap::new(),
            datagrams: DatagramSockets::default(),
        }
    }

    /// The numbers of disturbances of the network's streams and datagrams.
    pub fn disturbances(&self) -> Disturbances {
        self.common.disturbances
    }

    /// The time since the world began.
    pub fn now(&self) -> Duration {
        self.common.now
    }

    /// The time of the next event of the network.
    pub fn next_event(&self) -> Option<Duration> {
        self.common.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns true if there is a future event of a stream, and not only of datagrams.
    pub fn has_stream_events(&self) -> bool {
        self.common.stream_events > 0
    }

    /// Advances to a time, which must not be in the past, and carries out all events until then.
    pub fn advance(&mut self, to: Duration) {
        debug_assert!(to >= self.common.now, "time does not run backwards");
        while let Some(first) = self.common.events.first_entry()
            && first.key().0 <= to
        {
            let ((at, _), event) = first.remove_entry();
            self.common.now = at;
            self.common.stream_events -= usize::from(event.is_of_stream());
            self.happen(event);
        }
        self.common.now = self.common.now.max(to);
    }

    /// Returns the next change since the last call, in order.
    pub fn take_notice(&mut self) -> Option<Notice> {
        self.common.notices.pop_front()
    }

    /// The longest segment in octets.
    pub fn segment(&self) -> usize {
        *self.common.conditions.segment.end()
    }

    /// The conditions of the network, to be changed from here on.
    pub fn conditions_mut(&mut self) -> &mut Conditions {
        &mut self.common.conditions
    }

    /// The datagrams that cross the network.
    pub fn datagrams(&mut self) -> Datagrams<'_> {
        Datagrams::new(&mut self.common, &mut self.datagrams)
    }

    // ---- addresses ----

    /// Reserves a local address for a stream or a listener; port 0 picks one.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, if the address is taken or no port is left.
    pub fn bind(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        if address.port() != 0 {
            return if self.bound.insert(address) {
                Ok(address)
            } else {
                Err(Errno::ADDRINUSE.into())
            };
        }
        let bound = &mut self.bound;
        self.common
            .pick_port(address.ip(), |candidate| bound.insert(candidate))
    }

    /// Releases a bound address that neither a listener nor an end uses.
    pub fn unbind(&mut self, address: SocketAddr) {
        self.bound.remove(&address);
    }

    // ---- listeners ----

    /// Listens on a bound address. When `backlog` peers wait, further peers are refused.
    pub fn listen(&mut self, address: SocketAddr, backlog: usize) -> ListenerId {
        let id = ListenerId(self.common.next_serial());
        let listening = Listening {
            address,
            backlog,
            waiting: VecDeque::new(),
        };
        self.listeners.insert(id, listening);
        id
    }

    /// The next peer that waits to be accepted.
    pub fn accept(&mut self, listener: ListenerId) -> Option<EndId> {
        self.listeners.get_mut(&listener)?.waiting.pop_front()
    }

    /// Stops listening. Peers that wait are reset.
    pub fn close_listener(&mut self, listener: ListenerId) {
        let Some(gone) = self.listeners.remove(&listener) else {
            return;
        };
        self.bound.remove(&gone.address);
        for end in gone.waiting {
            self.abort(end);
        }
    }

    // ---- ends ----

    /// Begins to connect from a bound address. The end reports `Writable` when the attempt has finished.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL`, if a stream between the same two addresses exists; `ENETUNREACH`, if no route leads from one address to the other:
    /// between two families there is none, and loopback addresses reach each other only.
    pub fn connect(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<EndId> {
        if !has_route(local, remote) {
            return Err(Errno::NETUNREACH.into());
        }
        let taken = |end: &End| {
            end.local == local && end.remote == remote && !matches!(end.phase, EndPhase::Broken(_))
        };
        let waits = self.waiting.get(&(local, remote));
        let waits = waits.is_some_and(|until| *until > self.common.now);
        if waits || self.ends.values().any(taken) {
            return Err(Errno::ADDRNOTAVAIL.into());
        }
        let mut end = End::new(local, remote, EndPhase::Connecting);
        end.holds_address = true;
        let end = self.insert(end);
        let at = self.common.now + self.common.latency();
        self.common.schedule(at, NetworkEvent::Asked(end));
        Ok(end)
    }

    /// Succeeds if an attempt to connect has succeeded; `WouldBlock` while it is under way.
    ///
    /// # Errors
    ///
    /// The reason for which it failed.
    pub fn connected(&self, end: EndId) -> io::Result<()> {
        match self.end(end).phase {
            EndPhase::Connecting => Err(io::ErrorKind::WouldBlock.into()),
            EndPhase::Open => Ok(()),
            EndPhase::Broken(error) => Err(error.into()),
        }
    }

    /// The local and the remote address of an end.
    pub fn addresses(&self, end: EndId) -> (SocketAddr, SocketAddr) {
        let end = self.end(end);
        (end.local, end.remote)
    }

    /// Takes octets that have arrived, at most `most`, and passes them on in up to two pieces; 0 is the peer's end.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, or the error that broke the stream.
    pub fn read(
        &mut self,
        end: EndId,
        most: usize,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let count = self.readable(end)?.min(most);
        let inbox = &mut self.end_mut(end).inbox;
        let (front, back) = inbox.as_slices();
        let first = front.len().min(count);
        take(&front[..first]);
        if count > first {
            take(&back[..count - first]);
        }
        inbox.drain(..count);
        if count > 0
            && let Some(peer) = self.end(end).peer
        {
            self.pump(peer);
        }
        Ok(count)
    }

    /// The number of octets that can be read; 0 at the peer's end.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn readable(&self, end: EndId) -> io::Result<usize> {
        let end = self.end(end);
        match end.phase {
            _ if !end.inbox.is_empty() => Ok(end.inbox.len()),
            EndPhase::Broken(error) => Err(error.into()),
            _ if end.ended => Ok(0),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Checks that an end is not broken, even if octets wait to be read.
    ///
    /// # Errors
    ///
    /// The error that broke the stream.
    pub fn check(&self, end: EndId) -> io::Result<()> {
        match self.end(end).phase {
            EndPhase::Broken(error) => Err(error.into()),
            EndPhase::Connecting | EndPhase::Open => Ok(()),
        }
    }

    /// The edges for which an end is ready.
    pub fn readiness(&self, end: EndId) -> Edges {
        let Some(end) = self.ends.get(&end) else {
            return Edges::empty();
        };
        let mut ready = Edges::empty();
        if end.phase == EndPhase::Connecting {
            return ready;
        }
        ready.set(Edges::READ, !end.inbox.is_empty());
        ready.set(
            Edges::WRITE,
            end.unsent.len() < self.common.conditions.buffer,
        );
        if end.ended || matches!(end.phase, EndPhase::Broken(_)) {
            ready |= Edges::HANGUP | Edges::READ | Edges::WRITE;
        }
        ready
    }

    /// Returns true if a peer waits to be accepted.
    pub fn is_awaited(&self, listener: ListenerId) -> bool {
        let listening = self.listeners.get(&listener);
        listening.is_some_and(|listening| !listening.waiting.is_empty())
    }

    /// The number of octets that the end accepts now.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, after which `Writable` is reported once; or the error that broke the stream.
    pub fn room(&mut self, end: EndId) -> io::Result<usize> {
        let buffer = self.common.conditions.buffer;
        let end = self.end_mut(end);
        match end.phase {
            EndPhase::Broken(_) => return Err(EPIPE.into()),
            _ if end.closing => return Err(EPIPE.into()),
            EndPhase::Connecting | EndPhase::Open => {}
        }
        let room = buffer.saturating_sub(end.unsent.len());
        if room == 0 {
            end.short = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(room)
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    ///
    /// Those of [`room`](Self::room).
    pub fn write(&mut self, end: EndId, octets: &[u8]) -> io::Result<usize> {
        let count = self.room(end)?.min(octets.len());
        let state = self.end_mut(end);
        state.unsent.extend(&octets[..count]);
        state.short = count < octets.len();
        self.pump(end);
        Ok(count)
    }

    /// The local address of an end can be bound again, although the end may live on (`SO_REUSEADDR`).
    pub fn release_address(&mut self, end: EndId) {
        if let Some(state) = self.ends.get_mut(&end)
            && std::mem::take(&mut state.holds_address)
        {
            self.bound.remove(&state.local);
        }
    }

    /// Ends the direction of this end, behind the octets written. The local address can be bound again.
    pub fn close_write(&mut self, end: EndId) {
        self.release_address(end);
        let state = self.end_mut(end);
        state.closing = true;
        state.first = !state.ended;
        self.pump(end);
    }

    /// Releases an end in good order: written octets are still sent. If there are unread octets, the stream is reset instead. An end that
    /// was released before stays unchanged.
    pub fn close(&mut self, end: EndId) {
        if self.ends.get(&end).is_none_or(|state| state.orphan) {
            return;
        }
        if self.end(end).inbox.is_empty() && self.end(end).phase == EndPhase::Open {
            let state = self.end_mut(end);
            state.orphan = true;
            state.first |= !state.closing && !state.ended;
            state.closing = true;
            self.pump(end);
            self.bury(end);
        } else {
            self.abort(end);
        }
    }

    /// The octets that each stream has on its way, one line for each end, and those that wait at each socket for datagrams. This shows why
    /// no event follows any more.
    pub fn describe(&self) -> Vec<String> {
        let line = |(_, end): (&EndId, &End)| {
            let End { local, remote, .. } = end;
            let mut states = match end.phase {
                EndPhase::Connecting => vec!["connects".to_owned()],
                EndPhase::Broken(error) => vec![format!("broken: {error}")],
                EndPhase::Open => Vec::new(),
            };
            let octets = [
                (end.unsent.len(), "not sent"),
                (end.flying, "on their way"),
                (end.inbox.len(), "received and not read"),
            ];
            let octets = octets.iter().filter(|(count, _)| *count > 0);
            states.extend(octets.map(|(count, what)| format!("{count} octets {what}")));
            for (holds, what) in [
                (end.short, "its writer waits for room"),
                (end.closing, "closed by its program"),
                (end.ended, "closed by its peer"),
                (end.orphan, "released by its program"),
            ] {
                if holds {
                    states.push(what.to_owned());
                }
            }
            let states = if states.is_empty() {
                "quiet".to_owned()
            } else {
                states.join(", ")
            };
            format!("{local} to {remote}: {states}")
        };
        let ends = self.ends.iter().map(line);
        ends.chain(self.datagrams.describe()).collect()
    }

    /// Releases an end with a reset.
    pub fn abort(&mut self, end: EndId) {
        let state = self.end_mut(end);
        let was_open = state.phase == EndPhase::Open;
        state.phase = EndPhase::Broken(Errno::CONNRESET);
        state.orphan = true;
        state.unsent.clear();
        if was_open && let Some(peer) = self.end(end).peer {
            let at = self.arrival(end, 0);
            self.common.schedule(at, NetworkEvent::Reset(peer));
        }
        self.bury(end);
    }

    // ---- events that the network causes itself ----

    /// Breaks a stream: both ends see a reset.
    pub fn reset(&mut self, end: EndId) {
        let peer = self.end(end).peer;
        for end in [Some(end), peer].into_iter().flatten() {
            self.break_end(end, Errno::CONNRESET);
        }
    }

    fn happen(&mut self, event: NetworkEvent) {
        match event {
            NetworkEvent::Asked(end) => self.asked(end),
            NetworkEvent::Answered(end, answer) => self.answered(end, answer),
            NetworkEvent::Data(end, octets) => self.arrived(end, &octets),
            NetworkEvent::Fin(end) => {
                if let Some(state) = self.ends.get_mut(&end) {
                    state.ended = true;
                    self.common.notices.push_back(Notice::Readable(end));
                    self.common.notices.push_back(Notice::Hangup(end));
                    self.bury(end);
                }
            }
            NetworkEvent::Reset(end) => self.break_end(end, Errno::CONNRESET),
            NetworkEvent::Datagram { to, datagram } => self.datagrams().arrived(to, datagram),
            NetworkEvent::Refused { sender, remote } => self.datagrams().refused(sender, remote),
        }
    }

    /// An attempt to connect has reached its destination.
    fn asked(&mut self, end: EndId) {
        let Some(state) = self.ends.get(&end) else {
            return;
        };
        let (local, remote) = (state.local, state.remote);
        if self.common.conditions.unreachable.contains(&remote.ip()) {
            let back = self.common.now + self.common.latency();
            return self
                .common
                .schedule(back, NetworkEvent::Answered(end, Err(Errno::HOSTUNREACH)));
        }
        if self.common.happens(self.common.conditions.silence) {
            self.common.disturbances.silences += 1;
            return;
        }
        let listener = self
            .listeners
            .iter()
            .find(|(_, listening)| listening.address == remote);
        let room = listener.filter(|(_, listening)| listening.waiting.len() < listening.backlog);
        let room = room.map(|(id, _)| *id);
        let back = self.common.now + self.common.latency();
        let Some(listener) = room else {
            return self
                .common
                .schedule(back, NetworkEvent::Answered(end, Err(Errno::CONNREFUSED)));
        };
        if self.common.happens(self.common.conditions.refusal) {
            self.common.disturbances.refusals += 1;
            return self
                .common
                .schedule(back, NetworkEvent::Answered(end, Err(Errno::CONNREFUSED)));
        }
        let mut other = End::new(remote, local, EndPhase::Open);
        other.peer = Some(end);
        // Octets of the new end do not arrive before the answer.
        other.last_arrival = back;
        if self.common.happens(self.common.conditions.no_reply) {
            self.common.disturbances.missing_replies += 1;
            (other.closed, other.swallowed) = (true, true);
        } else if self.common.happens(self.common.conditions.late_reply) {
            self.common.disturbances.late_replies += 1;
            let late = self.common.conditions.late_reply_time.clone();
            other.last_arrival += self.common.draw_time(late);
        }
        let other = self.insert(other);
        self.end_mut(end).peer = Some(other);
        if let Some(listening) = self.listeners.get_mut(&listener) {
            listening.waiting.push_back(other);
        }
        self.common.notices.push_back(Notice::Arrived(listener));
        self.common
            .schedule(back, NetworkEvent::Answered(end, Ok(())));
    }

    fn answered(&mut self, end: EndId, answer: Result<(), Errno>) {
        let Some(state) = self.ends.get_mut(&end) else {
            return;
        };
        if state.phase != EndPhase::Connecting {
            return;
        }
        match answer {
            Ok(()) => {
                state.phase = EndPhase::Open;
                self.common.notices.push_back(Notice::Writable(end));
                self.pump(end);
            }
            Err(error) => self.break_end(end, error),
        }
    }

    fn arrived(&mut self, end: EndId, octets: &[u8]) {
        let peer = self.ends.get(&end).and_then(|state| state.peer);
        if let Some(peer) = peer
            && let Some(writer) = self.ends.get_mut(&peer)
        {
            writer.flying -= octets.len();
        }
        let Some(state) = self.ends.get_mut(&end) else {
            return;
        };
        match state.phase {
            EndPhase::Broken(_) => {}
            // These octets will not be read, and the writer learns that (RFC 9293 §3.5.2).
            _ if state.orphan => self.abort(end),
            _ => {
                state.inbox.extend(octets);
                self.common.notices.push_back(Notice::Readable(end));
            }
        }
        if let Some(peer) = peer {
            self.pump(peer);
        }
    }

    fn break_end(&mut self, end: EndId, error: Errno) {
        let Some(state) = self.ends.get_mut(&end) else {
            return;
        };
        if !matches!(state.phase, EndPhase::Broken(_)) {
            state.phase = EndPhase::Broken(error);
            state.unsent.clear();
            self.common.notices.push_back(Notice::Readable(end));
            self.common.notices.push_back(Notice::Writable(end));
            self.common.notices.push_back(Notice::Hangup(end));
        }
        self.bury(end);
    }

    /// Sends octets that an end has written, as far as its reader has room.
    fn pump(&mut self, end: EndId) {
        loop {
            let Some(state) = self.ends.get(&end) else {
                return;
            };
            let Some(peer) = state.peer.filter(|_| state.phase == EndPhase::Open) else {
                return;
            };
            let unread = self.ends.get(&peer).map_or(0, |peer| peer.inbox.len());
            let window = self
                .common
                .conditions
                .buffer
                .saturating_sub(state.flying.saturating_add(unread));
            let left = state.unsent.len();
            if left == 0 || window == 0 {
                break;
            }
            let drawn = self
                .common
                .draw_length(self.common.conditions.segment.clone());
            let len = drawn.min(left).min(window);
            if self.common.happens(self.common.conditions.reset) {
                self.common.disturbances.resets += 1;
                return self.reset(end);
            }
            if self.common.happens(self.common.conditions.half_close) && !self.end(end).closed {
                self.common.disturbances.half_closes += 1;
                let at = self.arrival(end, 0);
                self.common.schedule(at, NetworkEvent::Fin(peer));
                let state = self.end_mut(end);
                (state.closed, state.swallowed) = (true, true);
            }
            let at = self.arrival(end, len);
            let state = self.end_mut(end);
            let octets: Vec<u8> = state.unsent.drain(..len).collect();
            if state.swallowed {
                continue;
            }
            state.flying += len;
            self.common.schedule(at, NetworkEvent::Data(peer, octets));
        }
        self.after_pump(end);
    }

    /// Reports room to a writer that waits for it, and sends FIN behind the last octet.
    fn after_pump(&mut self, end: EndId) {
        let buffer = self.common.conditions.buffer;
        let state = self.end_mut(end);
        if state.short && state.unsent.len() < buffer {
            state.short = false;
            self.common.notices.push_back(Notice::Writable(end));
        }
        let state = self.end(end);
        if state.closing && !state.closed && state.unsent.is_empty() {
            let peer = state.peer;
            self.end_mut(end).closed = true;
            if let Some(peer) = peer {
                let at = self.arrival(end, 0);
                self.common.schedule(at, NetworkEvent::Fin(peer));
            }
        }
        self.bury(end);
    }

    /// Forgets an end that its program has released and that has nothing left to do.
    fn bury(&mut self, end: EndId) {
        let Some(state) = self.ends.get(&end) else {
            return;
        };
        let broken = matches!(state.phase, EndPhase::Broken(_));
        let done = broken || state.closed && state.ended;
        if state.orphan && done {
            self.release_address(end);
            let Some(gone) = self.ends.remove(&end) else {
                return;
            };
            if gone.first && !broken {
                self.waiting.retain(|_, until| *until > self.common.now);
                let until = self.common.now + self.common.conditions.time_wait;
                self.waiting.insert((gone.local, gone.remote), until);
            }
            if let Some(peer) = gone.peer
                && let Some(peer) = self.ends.get_mut(&peer)
            {
                peer.peer = None;
            }
        }
    }

    // ---- time and chance ----

    /// A number that follows from the seed.
    pub fn random(&mut self) -> u64 {
        self.common.random()
    }

    /// One of two, with equal chances.
    pub fn coin(&mut self) -> bool {
        self.common.draw(0..=1) == 1
    }

    /// The time at which a segment of `len` octets that is sent now arrives.
    fn arrival(&mut self, end: EndId, len: usize) -> Duration {
        let mut delay = self.common.latency();
        if self.common.happens(self.common.conditions.stall) {
            self.common.disturbances.stalls += 1;
            delay += self
                .common
                .draw_time(self.common.conditions.stall_time.clone());
        }
        let carried = self.common.carried(len);
        let now = self.common.now;
        let state = self.end_mut(end);
        state.busy_until = state.busy_until.max(now) + carried;
        state.last_arrival = state.last_arrival.max(state.busy_until + delay);
        state.last_arrival
    }

    fn insert(&mut self, end: End) -> EndId {
        let id = EndId(self.common.next_serial());
        self.ends.insert(id, end);
        id
    }

    /// An end that its program has not released.
    fn end(&self, end: EndId) -> &End {
        &self.ends[&end]
    }

    fn end_mut(&mut self, end: EndId) -> &mut End {
        self.ends
            .get_mut(&end)
            .expect("an end lives until its program lets go of it")
    }

    /// The number of streams that exist. Tests check that none is left over.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.ends.len()
    }
}

impl End {
    fn new(local: SocketAddr, remote: SocketAddr, phase: EndPhase) -> Self {
        Self {
            local,
            remote,
            peer: None,
            phase,
            unsent: VecDeque::new(),
            flying: 0,
            closing: false,
            first: false,
            closed: false,
            swallowed: false,
            short: false,
            last_arrival: Duration::ZERO,
            busy_until: Duration::ZERO,
            inbox: VecDeque::new(),
            ended: false,
            orphan: false,
            holds_address: false,
        }
    }
}

#[cfg(test)]
mod tests;
