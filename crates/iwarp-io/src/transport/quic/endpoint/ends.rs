//! What the end of a stream does: reads, writes and closes.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quinn_proto::{ReadError, StreamId, VarInt, WriteError};
use rustix::io::Errno;

use super::connection::Connection;
use super::{Outside, QuicEndpoint};
use crate::progress::carried::CarriedSource;
use crate::progress::readiness::Edges;
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

    /// The caller sees to these edges of a source itself.
    pub(in crate::transport::quic) fn not_raised(
        &mut self,
        source: &Arc<CarriedSource>,
        edges: Edges,
    ) {
        self.raised.retain_mut(|(raised, known)| {
            if Arc::ptr_eq(raised, source) {
                known.remove(edges);
            }
            !known.is_empty()
        });
    }

    /// Reads what is there; 0 is the end of the peer's direction.
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
        let outcome = if let Some(connection) = self.connections.get_mut(flow.connection) {
            read_stream(connection, stream, &mut into[count..])
        } else {
            Outcome::Blocked(0)
        };
        let flow = &mut self.flows[key];
        match outcome {
            Outcome::Blocked(more) => count += more,
            Outcome::Ended(more) => {
                count += more;
                flow.ended = true;
                return Ok(count);
            }
            Outcome::Reset => {
                flow.broken.get_or_insert(Errno::CONNRESET);
            }
        }
        match (count, flow.broken) {
            (0, None) => Err(io::ErrorKind::WouldBlock.into()),
            (0, Some(errno)) => Err(errno.into()),
            _ => Ok(count),
        }
    }

    /// How much can be read, or at least that something can; 0 at the end.
    pub(in crate::transport::quic) fn peek(&mut self, key: usize) -> io::Result<usize> {
        if self.flows[key].ahead.is_empty() {
            let mut octet = [0; 1];
            let count = self.read(key, &mut octet)?;
            if count == 0 {
                // The end is read again by whoever reads.
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

    /// Takes octets to be sent.
    pub(in crate::transport::quic) fn write(
        &mut self,
        key: usize,
        octets: &[u8],
    ) -> io::Result<usize> {
        let flow = &mut self.flows[key];
        if let Some(errno) = flow.broken {
            return Err(errno.into());
        }
        let stream = flow.stream.filter(|_| !flow.finished && !flow.stopped);
        let stream = stream.ok_or(Errno::PIPE)?;
        let connection = &mut self.connections[flow.connection];
        match connection.quic.send_stream(stream).write(octets) {
            Ok(count) => Ok(count),
            Err(WriteError::Blocked) => Err(io::ErrorKind::WouldBlock.into()),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => Err(Errno::PIPE.into()),
        }
    }

    /// Ends our direction, behind everything that was sent.
    pub(in crate::transport::quic) fn finish(&mut self, key: usize) -> io::Result<()> {
        let flow = &mut self.flows[key];
        if let Some(errno) = flow.broken {
            return Err(errno.into());
        }
        if let Some(stream) = flow.stream
            && !std::mem::replace(&mut flow.finished, true)
            && !flow.stopped
        {
            let connection = &mut self.connections[flow.connection];
            let _ = connection.quic.send_stream(stream).finish();
        }
        Ok(())
    }

    /// Ends a stream with a reset.
    pub(in crate::transport::quic) fn break_off(&mut self, key: usize) {
        let flow = &mut self.flows[key];
        if flow.broken.replace(Errno::CONNABORTED).is_none()
            && let Some(stream) = flow.stream
        {
            self.connections[flow.connection].break_off(stream, ErrorCode::Aborted);
        }
    }

    /// The end of a stream is not used any more.
    pub(in crate::transport::quic) fn let_go(&mut self, outside: Outside<'_>, key: usize) {
        let _ = self.finish(key);
        let flow = &self.flows[key];
        let connection = flow.connection;
        if let Some(stream) = flow.stream
            && !flow.ended
            && flow.broken.is_none()
        {
            let code = VarInt::from_u32(ErrorCode::Closed.number());
            let quic = &mut self.connections[connection].quic;
            let _ = quic.recv_stream(stream).stop(code);
        }
        self.remove_flow(key);
        if self.connections.contains(connection) {
            self.may_be_unused(outside, connection);
            self.settle(outside, connection);
        }
    }

    pub(super) fn remove_flow(&mut self, key: usize) {
        self.may_be_unused = true;
        self.clear_stale(key);
        let flow = self.flows.remove(key);
        if let Some(connection) = self.connections.get_mut(flow.connection) {
            if let Some(stream) = flow.stream
                && connection.flows.get(&stream) == Some(&key)
            {
                connection.flows.remove(&stream);
                if matches!(flow.stage, Stage::Arriving { .. }) {
                    connection.arriving -= 1;
                }
            }
            connection.opening.retain(|opening| *opening != key);
        }
    }
}

/// How a read of a stream ended.
enum Outcome {
    /// So many octets, and no more for now.
    Blocked(usize),
    /// So many octets, and then the end.
    Ended(usize),
    Reset,
}

fn read_stream(connection: &mut Connection, stream: StreamId, into: &mut [u8]) -> Outcome {
    let mut receiving = connection.quic.recv_stream(stream);
    let Ok(mut chunks) = receiving.read(true) else {
        return Outcome::Reset;
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
            Err(ReadError::Reset(_)) => break Outcome::Reset,
        }
    };
    let _ = chunks.finalize();
    outcome
}
