//! The endpoint of one UDP socket, as a state machine: time and datagrams go in, datagrams and raised sources come out.

mod admission;
mod arriving;
pub(super) mod connection;
mod flow_control;
mod opening;
mod packet_filter;
mod refused_sends;
mod stream_io;
#[cfg(all(test, feature = "udp"))]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, Incoming,
    StreamEvent, Transmit, VarInt,
};
use rustix::io::Errno;
use slab::Slab;

use self::admission::{Admission, Admittance};
use self::connection::{Connection, Probing, read_all};
use super::account::{Account, UndeliveredLimits};
use super::close_reason;
use super::config::{GATHERED, LONGEST_FPDU, OFFLOAD, Settings};
use super::congestion::{self, InFlight};
use super::handshake_sends::{Handed, SENDING};
use super::preamble::ErrorCode;
use super::quic_stream::{QuicStream, Stage};
use super::received_frames::ReceivedFrame;
use super::refusals::{Refusal, Refusals};
use super::security::OnFailure;
use super::send_buffers::SendBuffers;
use crate::log::targets;
use crate::progress::readiness::Edges;
use crate::progress::shared_descriptor::CarriedSource;
use crate::system_call::of_call;
use crate::transport::datagrams::{Outgoing, Socket, Train};

/// The time after which a socket that was full is tried again.
const FULL: Duration = Duration::from_millis(1);

/// The time that the answer to a preamble may take on a connection that existed before, or two round trips if these are longer. After that
/// the peer may have restarted, and another connection is tried.
const STALE: Duration = Duration::from_millis(500);

/// The time that acknowledgements wait for other packets to carry them, if no thread visits the socket meanwhile.
const OWED: Duration = Duration::from_millis(1);

/// A connection yields after this many octets.
const LONG_TRAIN: usize = 32 * 1024;

/// The key used when there is no connection.
const NO_CONNECTION: usize = usize::MAX;

/// See the [module](self).
pub(super) struct QuicEndpoint {
    endpoint: Endpoint,
    connections: Slab<Connection>,
    /// The keys of connections, at the numbers that the endpoint has given to them.
    by_handle: Vec<usize>,
    /// The connections on which new streams to these peers are opened.
    dialed: HashMap<SocketAddr, usize>,
    flows: Slab<QuicStream>,
    listener: Option<Listening>,
    deadlines: BTreeSet<(Instant, Deadline)>,
    admission: Admission,
    /// Octets that cannot be delivered.
    account: Account,
    /// Memory for the frames of a datagram.
    frames: Vec<ReceivedFrame>,
    /// Memory for packets that are being made.
    packets: Vec<u8>,
    /// Packets to be sent first, because the socket was full.
    blocked: VecDeque<(Transmit, Bytes)>,
    /// Outgoing connections whose handshakes this machine refuses to send, with the errors.
    hopeless: Vec<(usize, Errno)>,
    /// The error with which the system last refused to let the socket receive.
    deaf: Option<Errno>,
    raised: Vec<(Arc<CarriedSource>, Edges)>,
    /// Connections for which datagrams have arrived.
    touched: Vec<usize>,
    /// Connections that may have packets to send, such as acknowledgements. These are sent with the next octets of the application, or
    /// alone when the socket is visited again, or after [`OWED`].
    owing: Vec<usize>,
    send_buffers: SendBuffers,
    in_flight: Arc<InFlight>,
    /// Connections that have sent a long train, and may have more to send.
    sending: VecDeque<usize>,
    /// The socket may have more datagrams.
    pub(super) unread: bool,
    /// There is a deadline for the packets of `owing`.
    owed_has_deadline: bool,
    /// A stream was removed, or has arrived completely, since the last call of [`take_unused`](Self::take_unused).
    may_be_unused: bool,
    /// A read has made enough room to notify the peer.
    widened: bool,
    /// Outgoing streams for which another connection may be needed.
    stale: Vec<usize>,
    local: SocketAddr,
    on_failure: OnFailure,
    refusals: Arc<Refusals>,
}

/// A connection to be opened.
pub(super) struct Dial {
    pub(super) config: ClientConfig,
    /// The name that the peer's certificate must have.
    pub(super) name: String,
    pub(super) probe: Option<Probing>,
}

/// The purpose of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deadline {
    /// A deadline of the connection itself.
    Connection(usize),
    /// A connection without streams, or whose handshake takes long.
    Unused(usize),
    /// An outgoing attempt to connect.
    Attempt(usize),
    /// A stream that was opened on a connection that existed before.
    Stale(usize),
    /// A stream that has no user any more.
    Orphan(usize),
    /// The socket was full.
    Full,
    /// Connections have packets to send.
    Owed,
}

/// The events of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// Octets have arrived on streams in use, and there was no other event.
    Octets,
    More,
}

/// The listener of the socket.
struct Listening {
    source: Arc<CarriedSource>,
    waiting: VecDeque<usize>,
}

/// The environment that the functions of the state need.
#[derive(Clone, Copy)]
pub(super) struct Outside<'a> {
    pub(super) socket: &'a Socket,
    pub(super) now: Instant,
    /// Makes the source of a stream that a peer has opened.
    pub(super) source: &'a dyn Fn() -> Arc<CarriedSource>,
    /// The settings for connections of peers.
    pub(super) settings: &'a Settings,
}

impl QuicEndpoint {
    pub(super) fn new(
        endpoint: Endpoint,
        local: SocketAddr,
        on_failure: OnFailure,
        (refusals, in_flight): (Arc<Refusals>, Arc<InFlight>),
        undelivered: UndeliveredLimits,
    ) -> Self {
        Self {
            endpoint,
            connections: Slab::new(),
            by_handle: Vec::new(),
            dialed: HashMap::new(),
            flows: Slab::new(),
            listener: None,
            deadlines: BTreeSet::new(),
            admission: Admission::default(),
            account: Account::new(undelivered),
            frames: Vec::new(),
            packets: Vec::new(),
            blocked: VecDeque::new(),
            hopeless: Vec::new(),
            deaf: None,
            raised: Vec::new(),
            touched: Vec::new(),
            owing: Vec::new(),
            send_buffers: SendBuffers::new(GATHERED + LONGEST_FPDU),
            in_flight,
            sending: VecDeque::new(),
            unread: false,
            owed_has_deadline: false,
            may_be_unused: false,
            widened: false,
            stale: Vec::new(),
            local,
            on_failure,
            refusals,
        }
    }

    /// The sources that became ready since the last call.
    pub(super) fn take_raised(&mut self) -> Vec<(Arc<CarriedSource>, Edges)> {
        if self.raised.is_empty() {
            // The memory of the list is used again.
            return Vec::new();
        }
        std::mem::take(&mut self.raised)
    }

    /// The connection to which the endpoint has given this number.
    fn by_handle(&self, handle: ConnectionHandle) -> Option<usize> {
        let key = self.by_handle.get(handle.0).copied();
        key.filter(|key| *key != NO_CONNECTION)
    }

    fn set_handle(&mut self, handle: ConnectionHandle, key: usize) {
        if self.by_handle.len() <= handle.0 {
            self.by_handle.resize(handle.0 + 1, NO_CONNECTION);
        }
        self.by_handle[handle.0] = key;
    }

    /// The time at which [`time_passed`](Self::time_passed) has to be called.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    fn raise(&mut self, flow: usize, edges: Edges) {
        let source = Arc::clone(&self.flows[flow].source);
        self.raised.push((source, edges));
    }

    /// Handles a received datagram, or a train of datagrams of one length.
    pub(super) fn received(&mut self, outside: Outside<'_>, train: &Train, octets: &[u8]) {
        for mut datagram in octets.chunks(train.stride.max(1)) {
            // A socket with a listener opens no connections.
            if self.listener.is_some() {
                let whole = datagram.len();
                datagram = packet_filter::before_retry(datagram);
                if datagram.len() < whole {
                    self.refusals.count(Refusal::Datagram);
                }
                if datagram.is_empty() {
                    continue;
                }
            }
            let data = BytesMut::from(datagram);
            self.packets.clear();
            let event = self.endpoint.handle(
                outside.now,
                train.from,
                None,
                train.ecn,
                data,
                &mut self.packets,
            );
            match event {
                // One octet is a probe that only checks if there is a socket.
                None if datagram.len() > 1 => self.refusals.count(Refusal::Datagram),
                None => {}
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    if let Some(key) = self.by_handle(handle) {
                        self.connections[key].quic.handle_event(event);
                        self.note_frames(key, datagram.len(), outside.now);
                        self.touch(key);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.admit(outside, incoming, datagram.len())
                }
                Some(DatagramEvent::Response(transmit)) => {
                    self.refusals.count(Refusal::Datagram);
                    self.answer(outside, &transmit);
                }
            }
        }
    }

    /// Accepts a peer that has sent its first packet, if there is room.
    fn admit(&mut self, outside: Outside<'_>, incoming: Incoming, datagram: usize) {
        let from = incoming.remote_address();
        self.packets.clear();
        if self.listener.is_none() {
            self.refusals.count(Refusal::Connection);
            let transmit = self.endpoint.refuse(incoming, &mut self.packets);
            return self.answer(outside, &transmit);
        }
        let proved = !incoming.may_retry();
        match self.admission.examine(from.ip(), !proved) {
            Admittance::Admit => {}
            Admittance::Prove => {
                self.refusals.count(Refusal::Unproved);
                if let Ok(transmit) = self.endpoint.retry(incoming, &mut self.packets) {
                    self.answer(outside, &transmit);
                }
                return;
            }
            Admittance::Ignore => {
                self.refusals.count(Refusal::Connection);
                limited!(warn, target: targets::UDP, %from, "too many peers connect at once over UDP; newcomers have to try again");
                return self.endpoint.ignore(incoming);
            }
        }
        let now = outside.now;
        let server = Some(outside.settings.server(self.local.ip(), from.ip()));
        match self
            .endpoint
            .accept(incoming, now, &mut self.packets, server)
        {
            Ok((handle, quic)) => {
                self.admission.begun(from.ip(), proved);
                let mut connection = Connection::new(quic, handle, from, false);
                connection.proved = proved;
                let key = self.connections.insert(connection);
                self.set_handle(handle, key);
                self.note_frames(key, datagram, outside.now);
                self.settle(outside, key);
            }
            Err(error) => {
                self.refusals.count(Refusal::Connection);
                let why = close_reason::words(&error.cause);
                limited!(warn, target: targets::UDP, peer = %from, "no connection over UDP: {why}");
                if let Some(transmit) = error.response {
                    self.answer(outside, &transmit);
                }
            }
        }
    }

    /// Sends the answer that was made for an unknown peer. If the socket is full the answer is dropped: the peer asks again.
    fn answer(&self, outside: Outside<'_>, transmit: &Transmit) {
        if self.blocked.is_empty()
            && let Handed::Refused(errno) =
                send(outside.socket, transmit, &self.packets[..transmit.size])
        {
            let (peer, error) = (transmit.destination, of_call(SENDING, errno));
            limited!(warn, target: targets::UDP, %peer, "no answer over UDP: {error}");
        }
    }

    /// Notes that a connection has to be settled.
    fn touch(&mut self, key: usize) {
        if !self.touched.contains(&key) {
            self.touched.push(key);
        }
    }

    /// Handles the events of all connections for which datagrams have arrived. If octets have arrived, which the application may answer,
    /// packets to be sent wait for the answer.
    pub(super) fn take_in(&mut self, outside: Outside<'_>) {
        while let Some(key) = self.touched.pop() {
            if !self.connections.contains(key) {
                continue;
            }
            if self.connections[key].has_moved() {
                self.begin_path(outside, key);
            }
            let seen = self.see_events(outside, key);
            self.set_window(key);
            if seen == Seen::Octets {
                self.owe(outside, key);
            } else {
                self.transmit(outside, key);
                self.pass_endpoint_events(key);
            }
            self.see_deadline(outside, key);
        }
        self.end_hopeless(outside);
        self.end_undelivered(outside);
    }

    /// A connection may have packets to send, later.
    pub(super) fn owe(&mut self, outside: Outside<'_>, key: usize) {
        if self.owing.contains(&key) {
            return;
        }
        self.owing.push(key);
        // A deadline that was set for packets that were sent meanwhile is early, and does no harm.
        if !std::mem::replace(&mut self.owed_has_deadline, true) {
            self.deadlines.insert((outside.now + OWED, Deadline::Owed));
        }
    }

    /// Returns true if connections may have packets to send.
    pub(super) fn owes(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Sends the packets of `owing`.
    pub(super) fn send_owed(&mut self, outside: Outside<'_>) {
        while let Some(key) = self.owing.pop() {
            if self.connections.contains(key) {
                self.settle(outside, key);
            }
        }
    }

    /// Handles the deadlines that have passed.
    pub(super) fn time_passed(&mut self, outside: Outside<'_>) {
        while let Some(&(at, deadline)) = self.deadlines.first()
            && at <= outside.now
        {
            self.deadlines.pop_first();
            match deadline {
                Deadline::Connection(key) => {
                    let connection = &mut self.connections[key];
                    connection.deadline = None;
                    let answer = connection.probe.as_ref().and_then(|probe| probe.answer());
                    if let Some(errno) = answer {
                        self.give_up(outside, key, None, errno);
                        continue;
                    }
                    connection.quic.handle_timeout(outside.now);
                    if connection.has_moved() {
                        // The peer does not answer from the address where it seemed to be.
                        connection.quic.ping();
                        self.begin_path(outside, key);
                    }
                    self.settle(outside, key);
                }
                Deadline::Unused(key) => {
                    self.connections[key].unused = None;
                    self.close(outside, key);
                }
                Deadline::Attempt(key) => self.replace_attempt(key),
                Deadline::Stale(flow) => {
                    self.flows[flow].stale = None;
                    if self.waits_for_leave(flow) {
                        self.set_stale(outside, flow);
                    } else {
                        self.stale.push(flow);
                    }
                }
                Deadline::Orphan(flow) => {
                    let connection = self.flows[flow].connection;
                    self.break_off(flow);
                    self.remove_flow(flow);
                    if self.connections.contains(connection) {
                        self.settle(outside, connection);
                    }
                }
                Deadline::Full => self.send_blocked(outside),
                Deadline::Owed => {
                    self.owed_has_deadline = false;
                    self.send_owed(outside);
                }
            }
        }
    }

    /// Handles the events of a connection, and lets it send.
    pub(super) fn settle(&mut self, outside: Outside<'_>, key: usize) {
        self.owing.retain(|owing| *owing != key);
        self.see_events(outside, key);
        self.transmit(outside, key);
        self.pass_endpoint_events(key);
        self.see_deadline(outside, key);
        self.end_hopeless(outside);
    }

    fn see_events(&mut self, outside: Outside<'_>, key: usize) -> Seen {
        let mut seen = Seen::Nothing;
        loop {
            self.pass_endpoint_events(key);
            let Some(event) = self.connections[key].quic.poll() else {
                return seen;
            };
            let Event::Stream(StreamEvent::Readable { id }) = event else {
                seen = Seen::More;
                self.happened(outside, key, event);
                continue;
            };
            let flow = self.connections[key].flows.get(&id).copied();
            let is_in_use = flow.is_some_and(|flow| self.flows[flow].stage == Stage::Open);
            seen = if is_in_use && seen != Seen::More {
                Seen::Octets
            } else {
                Seen::More
            };
            if let Some(flow) = flow {
                self.readable(flow);
            }
        }
    }

    fn pass_endpoint_events(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        while let Some(event) = connection.quic.poll_endpoint_events() {
            let handle = connection.handle;
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.quic.handle_event(event);
            }
        }
    }

    /// Forgets a connection that has ended, or sets its next deadline.
    fn see_deadline(&mut self, outside: Outside<'_>, key: usize) {
        let connection = &mut self.connections[key];
        if connection.quic.is_drained() {
            return self.forget(key);
        }
        // Each packet moves the deadline, mostly to a later time. An early deadline finds nothing to do, and is set anew.
        if let Some(new) = connection.quic.poll_timeout()
            && connection.deadline.is_none_or(|old| new < old)
        {
            if let Some(old) = connection.deadline.replace(new) {
                self.deadlines.remove(&(old, Deadline::Connection(key)));
            }
            self.deadlines.insert((new, Deadline::Connection(key)));
        }
        self.may_be_unused(outside, key);
    }

    fn forget(&mut self, key: usize) {
        self.may_be_unused = true;
        self.lose(key, &ConnectionError::Reset);
        let mut connection = self.connections.remove(key);
        self.drop_undelivered(&connection);
        if !connection.ours {
            self.admission
                .gone(connection.remote.ip(), connection.proved);
        }
        for (stream, flow) in std::mem::take(&mut connection.flows) {
            // Octets that have arrived can still be read.
            let flow = &mut self.flows[flow];
            flow.connection = NO_CONNECTION;
            flow.stream = None;
            if !flow.ended {
                let mut rest = BytesMut::from(&flow.ahead[..]);
                flow.ends = read_all(&mut connection, stream, &mut rest);
                flow.ahead = rest.freeze();
            }
        }
        self.set_handle(connection.handle, NO_CONNECTION);
        if let Some(at) = connection.deadline {
            self.deadlines.remove(&(at, Deadline::Connection(key)));
        }
        if let Some(at) = connection.overdue {
            self.deadlines.remove(&(at, Deadline::Attempt(key)));
        }
    }

    /// Lets a connection send until it has sent a long train. If it may have more, [`send_more`](Self::send_more) continues.
    fn transmit(&mut self, outside: Outside<'_>, key: usize) {
        let most = outside.socket.train();
        let mut sent = 0;
        while self.blocked.is_empty() {
            if sent > LONG_TRAIN {
                self.in_flight.long_train();
                if !self.sending.contains(&key) {
                    self.sending.push_back(key);
                }
                return;
            }
            self.packets.clear();
            let connection = &mut self.connections[key];
            let quic = &mut connection.quic;
            let train = OFFLOAD / usize::from(quic.current_mtu()).max(1);
            let packets = &mut self.packets;
            let transmit = if std::mem::take(&mut connection.small_is_next) {
                let send = || quic.poll_transmit(outside.now, 1, packets);
                self.in_flight.with_one_more(send)
            } else {
                quic.poll_transmit(outside.now, train.clamp(1, most), packets)
            };
            let Some(transmit) = transmit else {
                return;
            };
            sent += transmit.size;
            self.send_packets(outside, key, transmit);
        }
    }

    /// Returns true if connections have more to send than they may send at a time.
    pub(super) fn has_more_to_send(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Lets the next connection that has more to send continue.
    pub(super) fn send_more(&mut self, outside: Outside<'_>) {
        if let Some(key) = self.sending.pop_front()
            && self.connections.contains(key)
        {
            self.transmit(outside, key);
            self.pass_endpoint_events(key);
            self.see_deadline(outside, key);
        }
    }

    /// Sends to the present address of the peer: quinn-proto keeps the time limit of packets sent to its last address, and does not expect
    /// that this ends before any packet is in flight on the new path. If the socket is full, the packet is lost.
    fn begin_path(&mut self, outside: Outside<'_>, key: usize) {
        loop {
            self.packets.clear();
            let quic = &mut self.connections[key].quic;
            let to = quic.remote_address();
            let Some(transmit) = quic.poll_transmit(outside.now, 1, &mut self.packets) else {
                return;
            };
            let begun = transmit.destination == to;
            self.send_packets(outside, key, transmit);
            if begun {
                return;
            }
        }
    }

    /// Sends the packets that were made, or keeps them if they are the first for which the socket has no room.
    fn send_packets(&mut self, outside: Outside<'_>, key: usize, transmit: Transmit) {
        if !self.blocked.is_empty() {
            return;
        }
        let octets = &self.packets[..transmit.size];
        let handed = send(outside.socket, &transmit, octets);
        if !matches!(handed, Handed::Full) {
            return self.handed(key, &handed);
        }
        let octets = Bytes::copy_from_slice(octets);
        self.deadlines.insert((outside.now + FULL, Deadline::Full));
        self.blocked.push_back((transmit, octets));
    }

    /// Sends the packets for which the socket had no room, and then those of connections.
    fn send_blocked(&mut self, outside: Outside<'_>) {
        while let Some((transmit, octets)) = self.blocked.front() {
            let handed = send(outside.socket, transmit, octets);
            if matches!(handed, Handed::Full) {
                self.deadlines.insert((outside.now + FULL, Deadline::Full));
                return;
            }
            let to = transmit.destination;
            self.blocked.pop_front();
            self.handed_late(to, &handed);
        }
        let keys: Vec<_> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.settle(outside, key);
        }
    }

    fn happened(&mut self, outside: Outside<'_>, key: usize, event: Event) {
        match event {
            Event::Connected => self.connected(outside, key),
            Event::ConnectionLost { reason } => self.lose(key, &reason),
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => self.opened(outside, key),
            Event::Stream(StreamEvent::Writable { id }) => {
                if let Some(&flow) = self.connections[key].flows.get(&id) {
                    self.writable(flow);
                }
            }
            Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                self.stopped(key, id, error_code);
            }
            Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.open_more(key),
            Event::Stream(StreamEvent::Finished { id }) => {
                self.may_be_unused = true;
                if let Some(&flow) = self.connections[key].flows.get(&id) {
                    self.confirmed(flow);
                }
            }
            Event::HandshakeDataReady
            | Event::Stream(
                StreamEvent::Opened { .. }
                | StreamEvent::Available { .. }
                | StreamEvent::Readable { .. },
            )
            | Event::DatagramReceived
            | Event::DatagramsUnblocked => {}
        }
        self.may_be_unused(outside, key);
    }

    fn connected(&mut self, outside: Outside<'_>, key: usize) {
        let connection = &mut self.connections[key];
        if connection.lost {
            return;
        }
        connection.established = true;
        if connection.ours {
            connection.probe = None;
            // The peer has as much time again to confirm the handshake.
            self.grant_time(outside, key);
            self.open_more(key);
        } else {
            let proved = std::mem::replace(&mut connection.proved, true);
            let from = connection.remote;
            // Ends the time limit of the handshake.
            self.is_used(key);
            if !self.admission.completed(from.ip(), proved) {
                self.refusals.count(Refusal::Connection);
                limited!(warn, target: targets::UDP, %from, "too many peers connect at once over UDP; newcomers have to try again");
                self.close(outside, key);
            }
        }
    }

    /// A connection has ended, and so have its streams.
    fn lose(&mut self, key: usize, reason: &ConnectionError) {
        let connection = &mut self.connections[key];
        if std::mem::replace(&mut connection.lost, true) {
            return;
        }
        let (remote, established) = (connection.remote, connection.established);
        connection.probe = None;
        if !established && !connection.ours {
            self.admission.failed(remote.ip(), connection.proved);
            self.refusals.count(Refusal::Connection);
        }
        let complaint = close_reason::complaint(reason);
        if let Some(complaint) = &complaint {
            self.on_failure.call(remote, complaint);
            limited!(warn, target: targets::UDP, peer = %remote, "no connection over UDP: {complaint}");
        } else {
            let reason = close_reason::words(reason);
            tracing::debug!(target: targets::UDP, peer = %remote, reason, "a QUIC connection has ended");
        }
        let complaint: Option<Arc<str>> = complaint.map(Arc::from);
        let errno = close_reason::errno(reason, established);
        let mut flows: Vec<_> = connection.flows.values().copied().collect();
        let opening: Vec<_> = connection.opening.drain(..).collect();
        for flow in &opening {
            self.flows[*flow].connection = NO_CONNECTION;
        }
        self.is_used(key);
        if self.dialed.get(&remote) == Some(&key) {
            self.dialed.remove(&remote);
        }
        // The order of the map differs from run to run.
        flows.sort_unstable();
        if crate::planted!(LossForgotten) && flows.len() > 1 {
            flows.pop();
        }
        for flow in flows.into_iter().chain(opening) {
            if self.may_dial_anew(flow) {
                self.clear_stale(flow);
                self.stale.push(flow);
                continue;
            }
            let errno = match self.flows[flow].stage {
                Stage::Asked { .. } if errno == Errno::CONNRESET => Errno::CONNREFUSED,
                _ => errno,
            };
            self.flows[flow].complaint.clone_from(&complaint);
            self.break_flow(flow, errno);
        }
    }

    /// Returns true if the peer may have ended the connection before it knew of this stream.
    fn may_dial_anew(&self, flow: usize) -> bool {
        let flow = &self.flows[flow];
        flow.stale.is_some() && matches!(flow.stage, Stage::Opening | Stage::Asked { have: 0 })
    }

    fn break_flow(&mut self, key: usize, errno: Errno) {
        let flow = &mut self.flows[key];
        if flow.broken.is_none() {
            flow.broken = Some(errno);
            if matches!(flow.stage, Stage::Arriving { .. }) || flow.orphan.is_some() {
                return self.remove_flow(key);
            }
            self.raise(key, Edges::HANGUP | Edges::READ | Edges::WRITE);
        }
    }

    /// Closes a connection.
    fn close(&mut self, outside: Outside<'_>, key: usize) {
        self.close_with(outside, key, ErrorCode::Closed);
    }

    fn close_with(&mut self, outside: Outside<'_>, key: usize, code: ErrorCode) {
        let code = VarInt::from_u32(code.number());
        let connection = &mut self.connections[key];
        congestion::exempt(&connection.quic);
        connection.quic.close(outside.now, code, Bytes::new());
        self.lose(key, &ConnectionError::LocallyClosed);
        self.settle(outside, key);
    }

    /// Sets a deadline after which a connection that is still unused is closed.
    fn may_be_unused(&mut self, outside: Outside<'_>, key: usize) {
        let connection = &mut self.connections[key];
        match (connection.unused, connection.patience()) {
            (Some(_), None) => self.is_used(key),
            (None, Some(patience)) => {
                let at = outside.now + patience;
                connection.unused = Some(at);
                self.deadlines.insert((at, Deadline::Unused(key)));
            }
            _ => {}
        }
    }

    /// The connection is used, so cancels the deadline of [`may_be_unused`](Self::may_be_unused).
    fn is_used(&mut self, key: usize) {
        if let Some(at) = self.connections[key].unused.take() {
            self.deadlines.remove(&(at, Deadline::Unused(key)));
        }
    }

    /// Returns true if everything that was sent has arrived, as far as it can.
    pub(super) fn is_settled(&mut self) -> bool {
        self.connections
            .iter_mut()
            .all(|(_, connection)| connection.lost || connection.quic.streams().send_streams() == 0)
    }

    /// Like [`is_unused`](Self::is_unused), but returns true only if a change may have made the socket unused since the last call.
    pub(super) fn take_unused(&mut self) -> bool {
        std::mem::take(&mut self.may_be_unused) && self.is_unused()
    }

    /// Returns true if the socket is unused: it has neither a listener nor a stream, and everything that was sent has arrived.
    pub(super) fn is_unused(&mut self) -> bool {
        self.listener.is_none() && self.flows.is_empty() && self.is_settled()
    }

    /// Returns true if there is no connection, not even a closed one whose end may have to be sent again.
    pub(super) fn has_no_connections(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns true if the socket has accepted all packets that were made.
    pub(super) fn has_sent(&self) -> bool {
        self.blocked.is_empty()
    }

    /// Closes all connections.
    pub(super) fn close_all(&mut self, outside: Outside<'_>) {
        // No stream waits for these any more.
        self.blocked.clear();
        let keys: Vec<_> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            if !self.connections[key].lost {
                self.close(outside, key);
            }
        }
    }
}

/// Sends datagrams. Those that are not sent are losses for QUIC, which sends their contents again.
fn send(socket: &Socket, transmit: &Transmit, octets: &[u8]) -> Handed {
    let outgoing = Outgoing {
        to: transmit.destination,
        ecn: transmit.ecn,
        octets,
        stride: transmit.segment_size,
    };
    let outcome = socket.send(&outgoing);
    if let Err(error) = &outcome
        && error.kind() != io::ErrorKind::WouldBlock
    {
        tracing::trace!(target: targets::UDP, to = %outgoing.to, %error, "datagrams were not sent");
    }
    Handed::from_outcome(outcome)
}
