//! The operations on an end of a stream: reads, writes and closes.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use iwarp::{Memory, MessageEnd, PieceRef, Revoked, Span, TxBatch};
use iwarp_mem::Sent;
use iwarp_mem::Table;
use quinn_proto::{ReadError, StreamId, VarInt, WriteError};
use rustix::io::Errno;

use super::connection::Connection;
use super::{Deadline, Outside, QuicEndpoint};
use crate::error_number::EPIPE;
use crate::progress::readiness::Edges;
use crate::progress::shared_descriptor::CarriedSource;
use crate::transport::quic::config::{AHEAD, GATHERED, ORPHAN, URGENT};
use crate::transport::quic::preamble::ErrorCode;
use crate::transport::quic::quic_stream::{QuicStream, Stage};

impl QuicEndpoint {
    pub(in crate::transport::quic) fn flow(&self, key: usize) -> &QuicStream {
        &self.flows[key]
    }

    /// Settles the connection of a stream.
    pub(in crate::transport::quic) fn settle_flow(&mut self, outside: Outside<'_>, key: usize) {
        let flow = &self.flows[key];
        if flow.stream.is_some() {
            self.settle(outside, flow.connection);
        }
    }

    /// After a read: tells the peer at once if there is much more room, and otherwise when there is something else to send.
    pub(in crate::transport::quic) fn settle_read(&mut self, outside: Outside<'_>, key: usize) {
        let flow = &self.flows[key];
        if flow.stream.is_some() && std::mem::take(&mut self.widened) {
            self.settle(outside, flow.connection);
        }
    }

    /// The caller handles these edges of a source itself, so that no set has to report them. With a hang-up they are reported all the same:
    /// a read that returns the last octets leaves the end to the next one.
    pub(in crate::transport::quic) fn not_raised(
        &mut self,
        source: &Arc<CarriedSource>,
        edges: Edges,
    ) {
        self.raised.retain_mut(|(raised, known)| {
            if Arc::ptr_eq(raised, source) && !known.contains(Edges::HANGUP) {
                source.note_ready(*known & edges);
                known.remove(edges);
            }
            !known.is_empty()
        });
    }

    /// Reads the octets that have arrived; 0 is the end of the peer's direction.
    pub(in crate::transport::quic) fn read(
        &mut self,
        key: usize,
        into: &mut [u8],
    ) -> io::Result<usize> {
        let flow = &mut self.flows[key];
        let mut count = flow.ahead.len().min(into.len());
        if count > 0 {
            into[..count].copy_from_slice(&flow.ahead.split_to(count));
        }
        if count == into.len() && count > 0 {
            return Ok(count);
        }
        let Some(stream) = flow.stream.filter(|_| !flow.ended) else {
            flow.ended |= flow.ends;
            return match flow.broken {
                Some(errno) if count == 0 && !flow.ended => Err(errno.into()),
                _ => Ok(count),
            };
        };
        let connection = &mut self.connections[flow.connection];
        let (outcome, widened) = read_stream(connection, stream, &mut into[count..]);
        self.widened |= widened;
        self.delivered(key, outcome.count());
        let flow = &mut self.flows[key];
        flow.received = flow.received.saturating_add(outcome.count());
        let goes_on = matches!(outcome, Outcome::Blocked(_));
        count += match outcome {
            Outcome::Blocked(more) => more,
            Outcome::Ended(more) => {
                flow.ended = true;
                more
            }
            Outcome::Reset(more) => {
                flow.broken.get_or_insert(Errno::CONNRESET);
                more
            }
        };
        if count > 0 {
            if !goes_on {
                // The end is read next.
                self.raise(key, Edges::READ | Edges::HANGUP);
            }
            return Ok(count);
        }
        if self.flows[key].ended {
            return Ok(0);
        }
        Err(self.blocked(key))
    }

    /// Reads the octets that have arrived: the first ones into registered memory at `place`, the others into `rest`. Returns `None` if that
    /// cannot be done; nothing has been read then.
    pub(in crate::transport::quic) fn read_to_place(
        &mut self,
        key: usize,
        table: &Table,
        place: Span,
        rest: &mut [u8],
    ) -> io::Result<Option<usize>> {
        let flow = &self.flows[key];
        let Some(stream) = flow.stream.filter(|_| !flow.ended && flow.ahead.is_empty()) else {
            return Ok(None);
        };
        let connection = &mut self.connections[flow.connection];
        let (outcome, revoked, widened) = place_stream(connection, stream, table, place);
        self.widened |= widened;
        let unplaced = revoked.as_ref().map_or(0, Bytes::len);
        self.delivered(key, outcome.count() + unplaced);
        let flow = &mut self.flows[key];
        flow.received = flow.received.saturating_add(outcome.count());
        let (placed, goes_on) = match outcome {
            Outcome::Blocked(placed) => (placed, true),
            Outcome::Ended(placed) => {
                self.flows[key].ended = true;
                (placed, false)
            }
            Outcome::Reset(placed) => {
                self.flows[key].broken.get_or_insert(Errno::CONNRESET);
                (placed, false)
            }
        };
        if let Some(octets) = revoked {
            // The engine detects this when it is given the octets.
            self.flows[key].ahead = octets;
            return Ok((placed > 0).then_some(placed));
        }
        if !goes_on {
            if placed == 0 {
                return self.read(key, rest).map(Some);
            }
            // The end is read next.
            self.raise(key, Edges::READ | Edges::HANGUP);
            return Ok(Some(placed));
        }
        if placed < place.len() as usize {
            return match placed {
                0 => Err(self.blocked(key)),
                _ => Ok(Some(placed)),
            };
        }
        match self.read(key, rest) {
            Ok(behind) => Ok(Some(placed + behind)),
            // An end or an error is read next, too.
            Err(_) => Ok(Some(placed)),
        }
    }

    /// Reads the first octets of a stream before it has a user.
    pub(super) fn read_ahead(&mut self, key: usize) {
        let flow = &mut self.flows[key];
        let have = flow.ahead.len();
        let Some(stream) = flow.stream.filter(|_| !flow.ended && have < AHEAD) else {
            return;
        };
        let mut octets = [0; AHEAD];
        octets[..have].copy_from_slice(&flow.ahead);
        let connection = &mut self.connections[flow.connection];
        let (outcome, _) = read_stream(connection, stream, &mut octets[have..]);
        self.delivered(key, outcome.count());
        let flow = &mut self.flows[key];
        flow.ahead = Bytes::copy_from_slice(&octets[..have + outcome.count()]);
        match outcome {
            Outcome::Blocked(_) => {}
            Outcome::Ended(_) => flow.ended = true,
            Outcome::Reset(_) => {
                flow.broken.get_or_insert(Errno::CONNRESET);
            }
        }
    }

    /// The error of a read that finds nothing.
    fn blocked(&self, key: usize) -> io::Error {
        match self.flows[key].broken {
            Some(errno) => errno.into(),
            None => io::ErrorKind::WouldBlock.into(),
        }
    }

    /// The number of octets that can be read, or at least 1 if there are any; 0 at the end.
    pub(in crate::transport::quic) fn peek(&mut self, key: usize) -> io::Result<usize> {
        if self.flows[key].ahead.is_empty() {
            let mut octet = [0; 1];
            let count = self.read(key, &mut octet)?;
            if count == 0 {
                // The next read returns the end again.
                return Ok(0);
            }
            self.flows[key].ahead = Bytes::copy_from_slice(&octet);
        }
        Ok(self.flows[key].ahead.len())
    }

    /// Checks that a stream is not broken.
    pub(in crate::transport::quic) fn check(&mut self, key: usize) -> io::Result<()> {
        let flow = &mut self.flows[key];
        if let Some(stream) = flow.stream
            && !flow.ended
            && flow.broken.is_none()
            && let Some(connection) = self.connections.get_mut(flow.connection)
            && let Ok(Some(_)) = connection.quic.recv_stream(stream).received_reset()
        {
            flow.broken = Some(Errno::CONNRESET);
        }
        match flow.broken {
            Some(errno) => Err(errno.into()),
            None => Ok(()),
        }
    }

    /// Takes octets to be sent, as many as the stream has room for. Returns their number.
    pub(in crate::transport::quic) fn write(
        &mut self,
        key: usize,
        octets: &[u8],
    ) -> io::Result<usize> {
        self.begin_use(key);
        if !self.send_unsent(key)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.prioritize(key, octets.len());
        let (quic, stream) = self.sender(key)?;
        let mut count = 0;
        // QUIC reports new room only after a write that has found none.
        loop {
            match quic.send_stream(stream).write(&octets[count..]) {
                Ok(more) => count += more,
                Err(WriteError::Blocked) if count > 0 => return Ok(count),
                Err(WriteError::Blocked) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    return Err(EPIPE.into());
                }
            }
            if count == octets.len() {
                return Ok(count);
            }
        }
    }

    /// Takes FPDUs of a batch to be sent. Whole FPDUs are taken, as private copies. Those for which the stream has no room are sent later,
    /// and no others are taken until then.
    pub(in crate::transport::quic) fn send(
        &mut self,
        key: usize,
        table: &Table,
        batch: &mut TxBatch,
    ) -> io::Result<(u64, Sent)> {
        if batch.is_empty() {
            return Ok((0, Sent::All));
        }
        self.begin_use(key);
        if !self.send_unsent(key)? {
            return Ok((0, Sent::WouldBlock));
        }
        let remaining = usize::try_from(batch.remaining()).unwrap_or(usize::MAX);
        let gathered = self
            .send_buffers
            .filled(remaining, |octets| gather(table, batch, octets));
        let Ok(octets) = gathered else {
            if batch.head_is_cut() {
                return Err(io::Error::other(
                    "an FPDU cannot be finished: its memory is gone",
                ));
            }
            batch.revoke();
            return Ok((0, Sent::Revoked));
        };
        let count = octets.len() as u64;
        self.prioritize(key, octets.len());
        self.flows[key].unsent = octets;
        let room = self.send_unsent(key)?;
        batch.advance(count);
        let sent = match batch.is_empty() {
            _ if !room => Sent::WouldBlock,
            true => Sent::All,
            false => Sent::Partly,
        };
        Ok((count, sent))
    }

    /// Sends streams with few octets before those with many. Connections of this adapter have less in flight while streams are in use that
    /// carry only small messages, in both directions.
    pub(super) fn prioritize(&mut self, key: usize, octets: usize) {
        let urgent = octets <= URGENT;
        let flow = &mut self.flows[key];
        let received = std::mem::take(&mut flow.received);
        let before = std::mem::replace(&mut flow.urgent, urgent);
        if urgent && before && received <= URGENT {
            let connection = flow.connection;
            if let Some(connection) = self.connections.get_mut(connection) {
                connection.small_is_next = true;
            }
            self.in_flight.small_message();
        }
        if before != urgent
            && let Ok((quic, stream)) = self.sender(key)
        {
            let _ = quic.send_stream(stream).set_priority(i32::from(urgent));
        }
    }

    /// The connection and the stream on which an end sends.
    fn sender(&mut self, key: usize) -> io::Result<(&mut quinn_proto::Connection, StreamId)> {
        let flow = &self.flows[key];
        if let Some(errno) = flow.broken {
            return Err(errno.into());
        }
        let stream = flow.stream.filter(|_| !flow.finished && !flow.stopped);
        let stream = stream.ok_or(EPIPE)?;
        Ok((&mut self.connections[flow.connection].quic, stream))
    }

    /// Sends octets that were taken before. Returns false if some of them are left.
    pub(super) fn send_unsent(&mut self, key: usize) -> io::Result<bool> {
        let mut unsent = std::mem::take(&mut self.flows[key].unsent);
        if unsent.is_empty() {
            return Ok(true);
        }
        let (quic, stream) = self.sender(key)?;
        let mut chunks = [std::mem::take(&mut unsent)];
        // Like a write: until everything is written, or a write finds no room.
        let written = loop {
            match quic.send_stream(stream).write_chunks(&mut chunks) {
                Ok(written) if written.chunks == 0 => {}
                written => break written,
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(WriteError::Blocked) => {
                let [rest] = chunks;
                self.flows[key].unsent = rest;
                Ok(false)
            }
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => Err(EPIPE.into()),
        }
    }

    /// The stream has room again.
    pub(super) fn writable(&mut self, key: usize) {
        // An error is reported to the next write.
        if matches!(self.send_unsent(key), Ok(false)) {
            return;
        }
        let flow = &self.flows[key];
        if flow.closing {
            self.end_sending(key);
        }
        if self.flows[key].orphan.is_some() {
            self.remove_flow(key);
        } else {
            self.raise(key, Edges::WRITE);
        }
    }

    /// Ends this side's direction, behind everything that was sent.
    pub(in crate::transport::quic) fn finish(&mut self, key: usize) -> io::Result<()> {
        let flow = &mut self.flows[key];
        if let Some(errno) = flow.broken {
            return Err(errno.into());
        }
        flow.closing = true;
        if flow.unsent.is_empty() {
            self.end_sending(key);
        }
        Ok(())
    }

    fn end_sending(&mut self, key: usize) {
        let flow = &mut self.flows[key];
        if let Some(stream) = flow.stream
            && !std::mem::replace(&mut flow.finished, true)
            && !flow.stopped
            && flow.broken.is_none()
        {
            let connection = &mut self.connections[flow.connection];
            let _ = connection.quic.send_stream(stream).finish();
        }
    }

    /// Returns true if this side's direction has ended and the peer has not confirmed the end. The source is raised when the peer has.
    pub(in crate::transport::quic) fn end_is_under_way(&self, key: usize) -> bool {
        let flow = &self.flows[key];
        let is_open = flow.stream.is_some() && flow.broken.is_none() && !flow.stopped;
        is_open && flow.finished && !flow.confirmed
    }

    /// The peer has everything that was sent on a stream, and its end.
    pub(super) fn confirmed(&mut self, key: usize) {
        let flow = &mut self.flows[key];
        flow.confirmed = true;
        if !flow.ended {
            // The owner of the end may have left earlier octets unread.
            self.raise(key, Edges::READ);
        }
    }

    /// Ends a stream with a reset.
    pub(in crate::transport::quic) fn break_off(&mut self, key: usize) {
        let flow = &mut self.flows[key];
        flow.broken = Some(Errno::CONNABORTED);
        if let Some(stream) = flow.stream {
            // Also if the peer has broken it: one direction may be left.
            self.connections[flow.connection].break_off(stream, ErrorCode::Aborted);
            self.close_arrivals(key);
        }
    }

    /// The end of a stream is not used any more.
    pub(in crate::transport::quic) fn let_go(&mut self, outside: Outside<'_>, key: usize) {
        let _ = self.finish(key);
        let flow = &self.flows[key];
        let connection = flow.connection;
        match flow.stream {
            Some(stream) if flow.broken.is_some() => {
                self.connections[connection].break_off(stream, ErrorCode::Aborted);
            }
            Some(stream) if !flow.ended => {
                let code = VarInt::from_u32(ErrorCode::Closed.number());
                let quic = &mut self.connections[connection].quic;
                let _ = quic.recv_stream(stream).stop(code);
            }
            _ => {}
        }
        self.close_arrivals(key);
        let flow = &mut self.flows[key];
        if flow.unsent.is_empty() || flow.broken.is_some() || flow.stopped {
            self.remove_flow(key);
        } else {
            let until = outside.now + ORPHAN;
            flow.orphan = Some(until);
            self.deadlines.insert((until, Deadline::Orphan(key)));
        }
        if self.connections.contains(connection) {
            self.may_be_unused(outside, connection);
            self.settle(outside, connection);
        }
    }

    pub(super) fn remove_flow(&mut self, key: usize) {
        self.may_be_unused = true;
        self.clear_stale(key);
        let mut flow = self.flows.remove(key);
        self.drop_arrivals(flow.connection, &mut flow.arrivals, flow.in_use);
        if flow.in_use {
            self.end_use(flow.connection);
        }
        if let Some(until) = flow.orphan {
            self.deadlines.remove(&(until, Deadline::Orphan(key)));
        }
        if let Some(connection) = self.connections.get_mut(flow.connection) {
            if let Some(stream) = flow.stream
                && connection.flows.get(&stream) == Some(&key)
            {
                connection.flows.remove(&stream);
                if matches!(flow.stage, Stage::Arriving { .. }) {
                    connection.arriving -= 1;
                }
                // Nothing is kept for a stream without a user. Mostly the peer knows already.
                let code = VarInt::from_u32(ErrorCode::Aborted.number());
                let _ = connection.quic.recv_stream(stream).stop(code);
            }
            if flow.stage == Stage::Opening {
                connection.opening.retain(|opening| *opening != key);
            }
        }
    }
}

/// Puts whole FPDUs of a batch in a row: [`GATHERED`] octets, or one FPDU more. Returns the number of octets.
fn gather(table: &Table, batch: &TxBatch, octets: &mut [u8]) -> Result<usize, Revoked> {
    let (mut filled, mut whole) = (0, 0);
    for (piece, ends) in batch.pieces() {
        let room = &mut octets[filled..];
        match piece {
            PieceRef::Bytes(bytes) => {
                room[..bytes.len()].copy_from_slice(bytes);
                filled += bytes.len();
            }
            PieceRef::Payload(span) => {
                let len = span.len() as usize;
                match table.fetch(span, &mut room[..len], None) {
                    Err(Revoked) if whole > 0 => break,
                    fetched => fetched?,
                }
                filled += len;
            }
        }
        if ends {
            whole = filled;
            if whole >= GATHERED {
                break;
            }
        }
    }
    Ok(whole)
}

/// Reads the octets that have arrived into registered memory. Returns the number of octets placed, and those that have no place because the
/// memory is gone.
fn place_stream(
    connection: &mut Connection,
    stream: StreamId,
    table: &Table,
    place: Span,
) -> (Outcome, Option<Bytes>, bool) {
    let mut receiving = connection.quic.recv_stream(stream);
    let Ok(mut chunks) = receiving.read(!crate::planted!(OrderForgotten)) else {
        return (Outcome::Reset(0), None, false);
    };
    let mut placed = 0;
    let mut revoked = None;
    let outcome = loop {
        let done = placed as usize;
        if placed == place.len() {
            break Outcome::Blocked(done);
        }
        let chunk = match chunks.next((place.len() - placed) as usize) {
            Ok(Some(chunk)) => chunk.bytes,
            Ok(None) => break Outcome::Ended(done),
            Err(ReadError::Blocked) => break Outcome::Blocked(done),
            Err(ReadError::Reset(_)) => break Outcome::Reset(done),
        };
        // Not longer than the length that was asked for.
        let len = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
        let at = place.slice(placed, len);
        if table.place(at, &chunk, MessageEnd::More).is_err() {
            revoked = Some(chunk);
            break Outcome::Blocked(done);
        }
        placed += len;
    };
    let widened = chunks.finalize().should_transmit();
    (outcome, revoked, widened)
}

/// The result of a read of a stream.
enum Outcome {
    /// This many octets, and no more for now.
    Blocked(usize),
    /// This many octets, and then the end.
    Ended(usize),
    /// This many octets, and then a reset.
    Reset(usize),
}

impl Outcome {
    fn count(&self) -> usize {
        match *self {
            Self::Blocked(count) | Self::Ended(count) | Self::Reset(count) => count,
        }
    }
}

fn read_stream(connection: &mut Connection, stream: StreamId, into: &mut [u8]) -> (Outcome, bool) {
    let mut receiving = connection.quic.recv_stream(stream);
    let Ok(mut chunks) = receiving.read(!crate::planted!(OrderForgotten)) else {
        return (Outcome::Reset(0), false);
    };
    let mut count = 0;
    let outcome = loop {
        if count == into.len() {
            break Outcome::Blocked(count);
        }
        match chunks.next(into.len() - count) {
            Ok(Some(chunk)) => {
                let len = chunk.bytes.len();
                into[count..count + len].copy_from_slice(&chunk.bytes);
                count += len;
            }
            Ok(None) => break Outcome::Ended(count),
            Err(ReadError::Blocked) => break Outcome::Blocked(count),
            Err(ReadError::Reset(_)) => break Outcome::Reset(count),
        }
    };
    let widened = chunks.finalize().should_transmit();
    (outcome, widened)
}
