//! The octets on a stream in the tests: a start-up frame and FPDUs of every kind, with the place where each ends.

use iwarp::STag;
use std::sync::LazyLock;

use iwarp::ddp::{Qn, TaggedHeader, UntaggedHeader};
use iwarp::mpa::startup::{Enhanced, Frame, FrameKind};
use iwarp::mpa::{fpdu, marker};
use iwarp::rdmap::{Opcode, control};

/// The octets of one direction, with their frames.
pub(super) struct Script {
    pub(super) octets: Vec<u8>,
    /// The end of each frame, the start-up frame first.
    ends: Vec<usize>,
}

/// The FPDUs of each message: the opcode, and the octets of payload of each FPDU.
const MESSAGES: [(Opcode, &[usize]); 13] = [
    (Opcode::Write, &[0]),
    (Opcode::Write, &[20, 5]),
    (Opcode::ReadRequest, &[28]),
    (Opcode::ReadResponse, &[8, 8, 1]),
    (Opcode::Send, &[3]),
    (Opcode::SendSolicitedInvalidate, &[4, 4]),
    (Opcode::Immediate, &[8]),
    (Opcode::AtomicRequest, &[52]),
    (Opcode::AtomicResponse, &[12]),
    (Opcode::ReadResponse, &[8, 8, 8, 8]),
    (Opcode::ImmediateSolicited, &[8]),
    (Opcode::Write, &[30]),
    (Opcode::Terminate, &[4]),
];

impl Script {
    /// The FPDUs of [`MESSAGES`], each longer by `more` octets of payload.
    pub(super) fn new(startup: FrameKind, markers: bool, more: usize) -> Self {
        let mut octets = startup_frame(startup, false, b"hello");
        let start = octets.len();
        let mut ends = vec![start];
        for (opcode, lengths) in MESSAGES {
            for (at, length) in lengths.iter().enumerate() {
                let last = at + 1 == lengths.len();
                let ulpdu = ulpdu(opcode, last, length + more);
                if markers {
                    let position = (octets.len() - start) as u64;
                    marker::put(&mut octets, &ulpdu, true, position);
                } else {
                    fpdu::put(&mut octets, &ulpdu, true);
                }
                ends.push(octets.len());
            }
        }
        Self { octets, ends }
    }

    /// The position behind the frame with this number. The start-up frame is number 0, and FPDUs count from 1.
    pub(super) fn end(&self, frame: usize) -> usize {
        self.ends[frame]
    }

    pub(super) fn start(&self, frame: usize) -> usize {
        self.ends[frame - 1]
    }

    pub(super) fn frames(&self) -> usize {
        self.ends.len()
    }
}

pub(super) fn startup_frame(kind: FrameKind, markers: bool, private_data: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    let frame = Frame {
        kind,
        markers,
        crc: true,
        rejected: false,
        revision: 1,
        enhanced: None,
        private_data: private_data.to_vec(),
    };
    frame.encode(&mut octets);
    octets
}

fn ulpdu(opcode: Opcode, last: bool, length: usize) -> Vec<u8> {
    let ulp = control(opcode);
    let mut ulpdu = match opcode.queue() {
        None => TaggedHeader::new(last, ulp, STag(0x1234_5678), 9)
            .to_bytes()
            .to_vec(),
        Some(Qn(queue)) => UntaggedHeader::new(last, ulp, 7, Qn(queue), 1, 0)
            .to_bytes()
            .to_vec(),
    };
    ulpdu.extend((0u8..=255).cycle().take(length));
    ulpdu
}

/// The start-up frames of two sides that agree on a ready-to-receive message.
pub(super) fn ready_startup_frame(kind: FrameKind) -> Vec<u8> {
    let mut octets = Vec::new();
    let frame = Frame {
        kind,
        markers: false,
        crc: true,
        rejected: false,
        revision: 2,
        enhanced: Some(Enhanced {
            peer_to_peer: true,
            rtr_send: false,
            rtr_write: true,
            rtr_read: true,
            ird: 1,
            ord: 1,
        }),
        private_data: Vec::new(),
    };
    frame.encode(&mut octets);
    octets
}

/// Ready-to-receive messages: a Write of no octets, and a Read.
pub(super) static READY: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    [(Opcode::Write, 0), (Opcode::ReadRequest, 28)].map(|(opcode, length)| {
        let mut octets = Vec::new();
        fpdu::put(&mut octets, &ulpdu(opcode, true, length), true);
        octets
    })
});

/// The Read Response to a Read of no octets.
pub(super) fn empty_read_response() -> Vec<u8> {
    let mut octets = Vec::new();
    fpdu::put(&mut octets, &ulpdu(Opcode::ReadResponse, true, 0), true);
    octets
}
