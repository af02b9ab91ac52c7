//! Two connections of the engine, joined by a buffer instead of a socket, to measure the cost of the protocol itself.
//!
//! The steps are separate, so that a benchmark can measure the two ends and leave out the wire between them.

use std::time::Duration;

use iwarp::{
    Confirmations, Connection, CopiedPayload, Event, InitiatorWqe, Markers, Memory, Operation,
    OwnQueue, Payload, Pd, PieceRef, QueueSizes, ReadLimits, Ready, RemoteAddress, RequestKind,
    Role, STag, Scope, Sge, StreamConfig, StreamId, TxBatch, TxLimit, WqeStatus,
};

/// The protection domain of both ends.
pub const PD: Pd = Pd(1);

/// Requests that may be outstanding.
pub const DEPTH: u32 = 64;

/// Octets of headers and copied payload that one batch holds.
const BATCH: usize = 256 << 10;

/// FPDUs of one batch: a whole queue of short messages, and more.
const FPDUS: usize = 2 * DEPTH as usize;

/// The places of the data: SGEs and remote addresses that the memory knows.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The memory that the active side sends.
    pub source: Sge,
    /// The memory that the passive side receives into.
    pub inbox: Sge,
    /// The memory that the active side may write to.
    pub target: RemoteAddress,
}

impl Places {
    /// Places in memory that grants everything.
    #[must_use]
    pub const fn anywhere(length: u32) -> Self {
        let sge = Sge {
            token: STag(1 << 8),
            address: 4096,
            length,
        };
        Self {
            source: sge,
            inbox: sge,
            target: RemoteAddress {
                stag: STag(2 << 8),
                to: 4096,
            },
        }
    }
}

/// One stream, of which the active side sends and the passive side receives.
#[derive(Debug)]
pub struct Link<M> {
    active: Connection,
    passive: Connection,
    memory: M,
    places: Places,
    batch: TxBatch,
    limit: TxLimit,
    wire: Vec<u8>,
    filled: usize,
}

fn end(role: Role, crc: bool, confirmations: Confirmations) -> Connection {
    let sizes = QueueSizes {
        initiator_depth: DEPTH,
        receive_depth: DEPTH,
        initiator_sges: 1,
        receive_sges: 1,
        read_sges: 1,
        inline: 0,
        max_transfer: 1 << 30,
    };
    let scope = Scope {
        pd: PD,
        stream: StreamId(1),
    };
    let mut end = Connection::new(sizes, scope).expect("memory for small queues");
    end.start(StreamConfig {
        role,
        crc,
        markers: Markers::NONE,
        // One Read more than is agreed on, for a confirmation.
        limits: ReadLimits { ird: 5, ord: 4 },
        ready: Some(Ready::Write),
        recognition: iwarp::Recognition::Never,
        receive_wait: Duration::ZERO,
        copied: CopiedPayload::None,
        copied_below: 12 << 10,
        confirmations,
        early: usize::MAX,
    });
    end
}

/// Takes the events of an end; returns how many requests completed.
fn completed(end: &mut Connection) -> usize {
    let mut count = 0;
    while let Some(event) = end.poll_event() {
        match event {
            Event::Completed(completion) => {
                assert_eq!(completion.status, WqeStatus::Success);
                match completion.kind {
                    RequestKind::Receive => end.free_receive_slots(1),
                    _ => end.free_initiator_slots(1),
                }
                count += 1;
            }
            Event::Ready => {}
            other => panic!("{other:?} on a link without faults"),
        }
    }
    count
}

impl<M: Memory> Link<M> {
    /// A link in full operation. `segment` is what TCP would carry at a time: it sets the size of FPDUs.
    pub fn new(memory: M, places: Places, crc: bool, segment: u32) -> Self {
        Self::confirming(memory, places, crc, segment, Confirmations::Off)
    }

    /// As [`new`](Self::new); the requests of the active side wait for Writes as `confirmations` says.
    pub fn confirming(
        memory: M,
        places: Places,
        crc: bool,
        segment: u32,
        confirmations: Confirmations,
    ) -> Self {
        let mut link = Self {
            active: end(Role::Initiator, crc, confirmations),
            passive: end(Role::Responder, crc, Confirmations::Off),
            memory,
            places,
            batch: TxBatch::with_capacity(BATCH, FPDUS),
            limit: TxLimit {
                octets: BATCH,
                fpdus: FPDUS,
                mulpdu: iwarp::mpa::fpdu::mulpdu(segment),
            },
            wire: vec![0; BATCH + (64 << 10)],
            filled: 0,
        };
        link.active.send_ready();
        link.transmit();
        link.carry();
        link.settle();
        link.receive();
        link
    }

    fn post(&mut self, operation: Operation<Payload<'_>>) {
        let posted = self.active.post_initiator(InitiatorWqe {
            context: 0,
            operation,
            silent: false,
            fence: false,
        });
        posted.expect("the queue has room");
    }

    /// The active side sends the source.
    ///
    /// # Panics
    ///
    /// If more than [`DEPTH`] requests are outstanding.
    pub fn post_send(&mut self) {
        let source = [self.places.source];
        self.post(Operation::Send {
            data: Payload::Sges(&source),
            solicited: false,
            invalidate: None,
        });
    }

    /// The active side writes the source to the target.
    ///
    /// # Panics
    ///
    /// If more than [`DEPTH`] requests are outstanding.
    pub fn post_write(&mut self) {
        let source = [self.places.source];
        self.post(Operation::Write {
            data: Payload::Sges(&source),
            remote: self.places.target,
        });
    }

    /// The passive side is ready for one Send.
    ///
    /// # Panics
    ///
    /// If more than [`DEPTH`] requests are outstanding.
    pub fn post_receive(&mut self) {
        let posted = self.passive.post_receive(0, &[self.places.inbox]);
        posted.expect("the queue has room");
    }

    /// The active side makes as many FPDUs as a batch holds. Returns their number.
    pub fn transmit(&mut self) -> usize {
        self.active
            .poll_transmit(&self.memory, self.limit, &mut self.batch)
    }

    /// The passive side makes as many FPDUs as a batch holds: answers. Returns their number. The active side must have settled.
    pub fn answer(&mut self) -> usize {
        self.passive
            .poll_transmit(&self.memory, self.limit, &mut self.batch)
    }

    /// The wire: takes what the batch holds.
    ///
    /// # Panics
    ///
    /// When the memory is gone.
    pub fn carry(&mut self) {
        self.filled = 0;
        for (piece, _) in self.batch.pieces() {
            let rest = &mut self.wire[self.filled..];
            self.filled += match piece {
                PieceRef::Bytes(bytes) => {
                    rest[..bytes.len()].copy_from_slice(bytes);
                    bytes.len()
                }
                PieceRef::Payload(span) => {
                    let len = span.len() as usize;
                    let fetched = self.memory.fetch(span, &mut rest[..len], None);
                    fetched.expect("registered memory");
                    len
                }
            };
        }
    }

    /// The active side learns that the transport took everything. Returns how many requests completed.
    pub fn settle(&mut self) -> usize {
        let octets = self.batch.remaining();
        self.batch.advance(octets);
        self.active.handle_transmitted(&mut self.batch);
        completed(&mut self.active)
    }

    /// The passive side learns that the transport took its answers, and the active side takes them from the wire. Returns how many
    /// requests completed.
    ///
    /// # Panics
    ///
    /// If it does not take everything.
    pub fn take_answers(&mut self) -> usize {
        let octets = self.batch.remaining();
        self.batch.advance(octets);
        self.passive.handle_transmitted(&mut self.batch);
        let input = &self.wire[..self.filled];
        let taken = self.active.handle_bytes(input, &self.memory, OwnQueue);
        assert_eq!(taken, input.len(), "the wire holds whole FPDUs");
        completed(&mut self.active)
    }

    /// The passive side takes what the wire holds. Returns how many Receives completed.
    ///
    /// # Panics
    ///
    /// If it does not take everything.
    pub fn receive(&mut self) -> usize {
        let input = &self.wire[..self.filled];
        let taken = self.passive.handle_bytes(input, &self.memory, OwnQueue);
        assert_eq!(taken, input.len(), "the wire holds whole FPDUs");
        completed(&mut self.passive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nowhere::Nowhere;

    const LEN: u32 = 64 << 10;

    fn link(crc: bool, segment: u32) -> Link<Nowhere> {
        Link::new(Nowhere, Places::anywhere(LEN), crc, segment)
    }

    #[test]
    fn sends_arrive_and_complete_at_both_ends() {
        for crc in [false, true] {
            let mut link = link(crc, 65_483);
            for _ in 0..200 {
                link.post_receive();
                link.post_send();
                let mut ended = (0, 0);
                while link.transmit() > 0 {
                    link.carry();
                    ended.0 += link.settle();
                    ended.1 += link.receive();
                }
                assert_eq!(ended, (1, 1));
            }
        }
    }

    #[test]
    fn confirmed_writes_complete_when_they_are_answered() {
        let on_demand = Confirmations::OnDemand { apart: true };
        let mut link = Link::confirming(Nowhere, Places::anywhere(8), false, 65_483, on_demand);
        for _ in 0..DEPTH {
            link.post_write();
        }
        let (mut done, mut confirmations) = (0, 0);
        while link.transmit() > 0 {
            link.carry();
            assert_eq!(link.settle(), 0, "sent is not placed");
            link.receive();
            confirmations += link.answer();
            link.carry();
            done += link.take_answers();
        }
        assert_eq!((done, confirmations), (DEPTH as usize, 2));
    }

    #[test]
    fn the_segment_size_sets_the_number_of_fpdus() {
        for (segment, fpdus) in [(65_483, 2), (1448, 46)] {
            let mut link = link(true, segment);
            link.post_write();
            assert_eq!(link.transmit(), fpdus);
            link.carry();
            assert_eq!((link.settle(), link.receive()), (1, 0));
        }
    }
}
