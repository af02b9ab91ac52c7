//! Streams that peers open, and the listener that takes them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quinn_proto::{Dir, StreamId, VarInt};
use rustix::io::Errno;

use super::connection::code_of;
use super::{Listening, Outside, QuicEndpoint};
use crate::log::targets;
use crate::progress::readiness::Edges;
use crate::progress::shared_descriptor::CarriedSource;
use crate::transport::quic::config::{ARRIVING, BACKLOG};
use crate::transport::quic::preamble::{ErrorCode, PREAMBLE, Preamble, TAKEN};
use crate::transport::quic::quic_stream::{QuicStream, Stage};
use crate::transport::quic::refusals::Refusal;

impl QuicEndpoint {
    /// A peer has opened streams.
    pub(super) fn opened(&mut self, outside: Outside<'_>, key: usize) {
        loop {
            let local = self.local;
            let connection = &mut self.connections[key];
            let Some(stream) = connection.quic.streams().accept(Dir::Bi) else {
                return;
            };
            let mut arrivals = connection.undelivered.open(stream);
            if connection.lost {
                continue;
            }
            if connection.arriving == ARRIVING {
                let peer = connection.remote;
                limited!(warn, target: targets::UDP, %peer, "streams over UDP are refused: too many have no preamble");
                connection.break_off(stream, ErrorCode::Limit);
                self.drop_arrivals(key, &mut arrivals, false);
                self.refusals.count(Refusal::Stream);
                continue;
            }
            connection.arriving += 1;
            let stage = Stage::Arriving {
                octets: [0; PREAMBLE],
                have: 0,
            };
            // The peer may have moved since it connected.
            let addresses = (local, connection.quic.remote_address());
            let mut flow = QuicStream::new(key, (outside.source)(), stage, addresses);
            flow.stream = Some(stream);
            flow.arrivals = arrivals;
            let flow = self.flows.insert(flow);
            let connection = &mut self.connections[key];
            connection.flows.insert(stream, flow);
            connection.permit();
            self.readable(flow);
        }
    }

    /// Octets, an end or an error can be read from a stream.
    pub(super) fn readable(&mut self, key: usize) {
        match self.flows[key].stage {
            Stage::Opening => {}
            Stage::Asked { have } => self.read_answer(key, have),
            Stage::Arriving { octets, have } => self.read_preamble(key, octets, have),
            Stage::Waiting => {
                self.read_ahead(key);
                self.raise(key, Edges::READ);
            }
            Stage::Open => self.raise(key, Edges::READ),
        }
    }

    pub(super) fn read_preamble(
        &mut self,
        key: usize,
        mut octets: [u8; PREAMBLE],
        mut have: usize,
    ) {
        while have < PREAMBLE {
            match self.read(key, &mut octets[have..]) {
                Ok(0) => return self.refuse(key, ErrorCode::BadPreamble),
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.flows[key].stage = Stage::Arriving { octets, have };
                    return;
                }
                Err(_) => return self.remove_flow(key),
            }
        }
        let preamble = match Preamble::decode(octets) {
            Ok(preamble) => preamble,
            Err(code) => return self.refuse(key, code),
        };
        self.connections[self.flows[key].connection].arriving -= 1;
        let flow = &mut self.flows[key];
        flow.stage = Stage::Waiting;
        flow.remote.set_port(preamble.source);
        let Some(listener) = &mut self.listener else {
            return self.refuse(key, ErrorCode::NoListener);
        };
        if listener.waiting.len() >= BACKLOG {
            return self.refuse(key, ErrorCode::Busy);
        }
        listener.waiting.push_back(key);
        let source = Arc::clone(&listener.source);
        self.raised.push((source, Edges::READ));
        // Octets may be behind the preamble.
        self.read_ahead(key);
        self.raise(key, Edges::READ | Edges::WRITE);
        self.begin(key, Bytes::from_static(&TAKEN));
    }

    /// Refuses a stream of a peer.
    pub(super) fn refuse(&mut self, key: usize, code: ErrorCode) {
        let flow = &self.flows[key];
        let peer = flow.remote;
        self.refusals.count(Refusal::Stream);
        match code {
            ErrorCode::BadPreamble | ErrorCode::Version => {
                limited!(warn, target: targets::UDP, %peer, "a stream over UDP is refused: {code}");
            }
            _ => {
                tracing::debug!(target: targets::UDP, %peer, "a stream over UDP is refused: {code}")
            }
        }
        if let Some(stream) = flow.stream {
            self.connections[flow.connection].break_off(stream, code);
        }
        self.remove_flow(key);
    }

    /// The peer reads no more of a stream.
    pub(super) fn stopped(&mut self, key: usize, stream: StreamId, code: VarInt) {
        let connection = &mut self.connections[key];
        let _ = connection.quic.send_stream(stream).reset(code);
        let Some(&flow) = connection.flows.get(&stream) else {
            return;
        };
        match code_of(code) {
            // The peer's direction has its orderly end, which can still be read.
            Some(ErrorCode::Closed) => {
                self.flows[flow].stopped = true;
                self.writable(flow);
            }
            _ => {
                let errno = match self.flows[flow].stage {
                    Stage::Asked { .. } => Errno::CONNREFUSED,
                    _ => Errno::CONNRESET,
                };
                self.break_flow(flow, errno);
            }
        }
    }

    /// Begins to listen.
    pub(in crate::transport::quic) fn listen(
        &mut self,
        source: Arc<CarriedSource>,
    ) -> io::Result<()> {
        if self.listener.is_some() {
            return Err(Errno::ADDRINUSE.into());
        }
        self.listener = Some(Listening {
            source,
            waiting: VecDeque::new(),
        });
        Ok(())
    }

    /// Stops listening. Streams that wait are refused.
    pub(in crate::transport::quic) fn stop_listening(&mut self, outside: Outside<'_>) {
        let listener = self.listener.take();
        self.may_be_unused = true;
        for flow in listener.into_iter().flat_map(|listener| listener.waiting) {
            let connection = self.flows[flow].connection;
            self.refuse(flow, ErrorCode::Aborted);
            if self.connections.contains(connection) {
                self.settle(outside, connection);
            }
        }
    }

    /// Takes the stream that has waited longest.
    pub(in crate::transport::quic) fn accept(&mut self) -> io::Result<usize> {
        let listener = self.listener.as_mut().ok_or(Errno::INVAL)?;
        let flow = listener
            .waiting
            .pop_front()
            .ok_or(io::ErrorKind::WouldBlock)?;
        let flow_state = &mut self.flows[flow];
        if flow_state.broken.is_some() {
            let (connection, stream) = (flow_state.connection, flow_state.stream);
            if let Some(known) = self.connections.get_mut(connection) {
                if let Some(stream) = stream {
                    known.break_off(stream, ErrorCode::Aborted);
                }
                self.touch(connection);
            }
            self.remove_flow(flow);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        flow_state.stage = Stage::Open;
        Ok(flow)
    }

    pub(in crate::transport::quic) fn is_somebody_there(&self) -> bool {
        let waiting = self.listener.as_ref().map(|listener| &listener.waiting);
        waiting.is_some_and(|waiting| !waiting.is_empty())
    }
}
