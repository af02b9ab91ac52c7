//! Octets that have arrived and cannot be delivered, and the windows of connections.

use std::time::Instant;

use quinn_proto::{Dir, EndpointEvent, VarInt};

use super::connection::Connection;
use super::{Outside, QuicEndpoint};
use crate::log::targets;
use crate::transport::quic::arrivals::Arrivals;
use crate::transport::quic::config::room;
use crate::transport::quic::preamble::ErrorCode;
use crate::transport::quic::received_frames::{Part, ReceivedFrame};
use crate::transport::quic::refusals::Refusal;

impl QuicEndpoint {
    /// A datagram of this length was handled.
    pub(super) fn note_frames(&mut self, key: usize, datagram: usize, now: Instant) {
        let connection = &mut self.connections[key];
        let undelivered = &mut connection.undelivered;
        undelivered.frames.take(&mut self.frames);
        if self.frames.is_empty() || connection.lost {
            return;
        }
        let before = undelivered.held;
        let side = connection.quic.side();
        for frame in self.frames.drain(..) {
            let part = match frame {
                ReceivedFrame::Octets { part, .. } => part,
                ReceivedFrame::Reset(stream) => Part::Stream(stream),
            };
            let (arrivals, in_use) = match part {
                Part::Crypto(level) => (&mut undelivered.crypto[level as usize], true),
                Part::Stream(stream) => match connection.flows.get(&stream) {
                    Some(&flow) => {
                        let flow = &mut self.flows[flow];
                        if flow.in_use
                            && let ReceivedFrame::Octets { start, end, .. } = frame
                            && let Some(more) = flow.arrivals.note_next(start, end, datagram, now)
                        {
                            undelivered.waiting += more;
                            continue;
                        }
                        (&mut flow.arrivals, flow.in_use)
                    }
                    None if stream.initiator() != side
                        && stream.dir() == Dir::Bi
                        && stream.index() >= undelivered.opened =>
                    {
                        (undelivered.early.entry(stream).or_default(), false)
                    }
                    // Nothing of a stream that was let go of is kept.
                    None => continue,
                },
            };
            let (held, waiting) = (arrivals.held(in_use), arrivals.waiting());
            match frame {
                ReceivedFrame::Octets { start, end, .. } => {
                    let more = arrivals.note(start, end, datagram, now);
                    if matches!(part, Part::Crypto(_)) {
                        arrivals.deliver(more);
                    }
                }
                ReceivedFrame::Reset(_) => arrivals.close(),
            }
            undelivered.held = undelivered.held - held + arrivals.held(in_use);
            if in_use {
                undelivered.waiting = undelivered.waiting - waiting + arrivals.waiting();
            }
        }
        self.account
            .change(undelivered.peer, before, undelivered.held);
    }

    /// The user of a stream, or this side for the user, has read octets.
    pub(super) fn delivered(&mut self, key: usize, count: usize) {
        let flow = &mut self.flows[key];
        let (connection, count) = (flow.connection, count as u64);
        if flow.in_use {
            let waiting = flow.arrivals.waiting();
            flow.arrivals.deliver(count);
            let waiting = waiting - flow.arrivals.waiting();
            if let Some(known) = self.connections.get_mut(connection) {
                known.undelivered.waiting -= waiting;
                known.undelivered.read += count;
                self.set_window(connection);
            }
        } else {
            let before = flow.arrivals.held(false);
            flow.arrivals.deliver(count);
            let after = flow.arrivals.held(false);
            self.change_held(connection, before, after);
        }
    }

    fn change_held(&mut self, connection: usize, before: u64, after: u64) {
        if let Some(connection) = self.connections.get_mut(connection) {
            let undelivered = &mut connection.undelivered;
            undelivered.held = undelivered.held - before + after;
            self.account.change(undelivered.peer, before, after);
        }
    }

    /// The user of a stream sends octets, so that the start-up frames of an opener are whole.
    pub(super) fn begin_use(&mut self, key: usize) {
        let flow = &mut self.flows[key];
        let connection = flow.connection;
        if flow.stream.is_none() || std::mem::replace(&mut flow.in_use, true) {
            return;
        }
        let held = [false, true].map(|in_use| flow.arrivals.held(in_use));
        let waiting = flow.arrivals.waiting();
        self.change_held(connection, held[0], held[1]);
        if let Some(known) = self.connections.get_mut(connection) {
            let undelivered = &mut known.undelivered;
            undelivered.waiting += waiting;
            undelivered.in_use.0 += 1;
            undelivered.in_use.1 = undelivered.in_use.1.max(undelivered.in_use.0);
            self.set_window(connection);
        }
    }

    /// quinn-proto has thrown away what it had of a stream.
    pub(super) fn close_arrivals(&mut self, key: usize) {
        let flow = &mut self.flows[key];
        let mut arrivals = std::mem::take(&mut flow.arrivals);
        flow.arrivals.close();
        let (connection, in_use) = (flow.connection, flow.in_use);
        self.drop_arrivals(connection, &mut arrivals, in_use);
    }

    /// A stream with these arrivals is not kept.
    pub(super) fn drop_arrivals(
        &mut self,
        connection: usize,
        arrivals: &mut Arrivals,
        in_use: bool,
    ) {
        self.change_held(connection, arrivals.held(in_use), 0);
        if in_use && let Some(connection) = self.connections.get_mut(connection) {
            connection.undelivered.waiting -= arrivals.waiting();
        }
        arrivals.close();
    }

    /// A stream in use is removed.
    pub(super) fn end_use(&mut self, connection: usize) {
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.undelivered.in_use.0 -= 1;
        }
    }

    /// A connection is forgotten.
    pub(super) fn drop_undelivered(&mut self, connection: &Connection) {
        let undelivered = &connection.undelivered;
        self.account.change(undelivered.peer, undelivered.held, 0);
    }

    /// Sets the window of a connection. What waits in order takes no room from other streams, and the room grows with what is read while
    /// the account has room.
    pub(super) fn set_window(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        let undelivered = &mut connection.undelivered;
        let most = self.account.limits().in_flight();
        let grown = room(undelivered.in_use.1, undelivered.read).min(most);
        if grown > undelivered.room {
            let free = self.account.room(undelivered.peer);
            undelivered.room = undelivered.room.max(grown.min(free));
        }
        let (room, window) = (undelivered.room, undelivered.window);
        let wanted = undelivered.waiting + room;
        // quinn-proto would announce what was read once it is an eighth of the whole window.
        let is_due = undelivered.read - undelivered.announced >= room / 8;
        let window = if wanted > window + room / 8 {
            wanted
        } else if is_due {
            // Every growth is announced, with what was read.
            window + 1
        } else if window > wanted + room / 2 {
            wanted
        } else {
            return;
        };
        let grows = window > undelivered.window;
        undelivered.window = window;
        let window = VarInt::from_u64(window).unwrap_or(VarInt::MAX);
        connection.quic.set_receive_window(window);
        if grows {
            undelivered.announced = undelivered.read;
            self.widened = true;
        }
    }

    /// Closes connections while the account is exceeded.
    pub(super) fn end_undelivered(&mut self, outside: Outside<'_>) {
        while let Some(peer) = self.account.exceeded_by() {
            let of_peer = self.connections.iter().filter(|(_, connection)| {
                connection.undelivered.peer == peer && connection.undelivered.held > 0
            });
            // A gap that was there for longest is the least likely to be filled.
            let oldest = of_peer.min_by_key(|(_, connection)| {
                let is_open = !connection.lost;
                (is_open, self.waits_since(connection).filter(|_| is_open))
            });
            let Some((key, _)) = oldest else {
                debug_assert!(false, "a peer without connections holds octets");
                return;
            };
            self.discard(outside, key);
        }
    }

    fn waits_since(&self, connection: &Connection) -> Option<Instant> {
        let undelivered = &connection.undelivered;
        let flows = connection.flows.values().map(|flow| {
            let flow = &self.flows[*flow];
            flow.arrivals.since(flow.in_use)
        });
        let early = undelivered.early.values().map(|early| early.since(false));
        let crypto = undelivered.crypto.iter().map(|crypto| crypto.since(true));
        flows.chain(early).chain(crypto).flatten().min()
    }

    /// Closes a connection and frees its memory at once.
    fn discard(&mut self, outside: Outside<'_>, key: usize) {
        let connection = &mut self.connections[key];
        let peer = connection.remote;
        if !connection.lost {
            limited!(warn, target: targets::UDP, %peer, "a connection over UDP is closed: too many octets of this address, or of all, cannot be delivered");
            self.refusals.count(Refusal::Undelivered);
            let code = VarInt::from_u32(ErrorCode::Limit.number());
            for stream in connection.flows.keys() {
                let _ = connection.quic.recv_stream(*stream).stop(code);
            }
            self.close_with(outside, key, ErrorCode::Limit);
        }
        if let Some(connection) = self.connections.get(key) {
            // If the packet that ends the connection is lost, the peer's next packet is answered by a stateless reset.
            self.endpoint
                .handle_event(connection.handle, EndpointEvent::drained());
            self.forget(key);
        }
    }
}
