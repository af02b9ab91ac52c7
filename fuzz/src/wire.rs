//! Checks a stream from outside: every octet that an engine sends goes through one of these.

use std::collections::{HashMap, VecDeque};

use iwarp::ddp::{Segment, TAGGED, UntaggedSegment};
use iwarp::mpa::fpdu::{self, Fpdu};
use iwarp::mpa::marker;
use iwarp::rdmap::Opcode;
use iwarp::{AtomicRequest, AtomicResponse, ReadRequest, STag};

/// Appends an FPDU, at a position of a stream with markers or on one without.
pub(crate) fn put(out: &mut Vec<u8>, ulpdu: &[u8], crc: bool, position: Option<u64>) {
    match position {
        Some(position) => marker::put(out, ulpdu, crc, position),
        None => fpdu::put(out, ulpdu, crc),
    }
}

/// One direction of a stream, as it is sent.
#[derive(Debug)]
pub(crate) struct Wire {
    crc: bool,
    /// Whether the stream has markers. If so, `position` counts the octets of whole FPDUs.
    markers: bool,
    position: u64,
    /// Octets of the FPDU that is not yet whole.
    partial: Vec<u8>,
    /// Last message number and the offset the next segment of an unfinished message has, by queue.
    queues: HashMap<u32, (u32, Option<u32>)>,
    /// Unfinished tagged message: opcode, STag and offset of what has to come next.
    tagged: Option<(Opcode, STag, u64)>,
    pub(crate) seen: Seen,
    /// Read Requests, for a peer that answers them.
    pub(crate) requests: VecDeque<ReadRequest>,
    /// Identifiers of Atomic Requests, for the same.
    pub(crate) atomics: VecDeque<u32>,
}

/// The octets that the stream has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) fpdus: u64,
    /// Read Requests, Atomic Requests included.
    pub(crate) read_requests: u64,
    /// Whole Read Responses and Atomic Responses.
    pub(crate) read_responses: u64,
    pub(crate) terminates: u64,
    /// Whole Sends, Writes and Immediate Data, except for a ready-to-receive Write.
    pub(crate) messages: u64,
    /// Octets of the longest ULPDU.
    pub(crate) longest: usize,
}

impl Wire {
    pub(crate) fn new(crc: bool, markers: bool) -> Self {
        Self {
            crc,
            markers,
            position: 0,
            partial: Vec::new(),
            queues: HashMap::new(),
            tagged: None,
            seen: Seen::default(),
            requests: VecDeque::new(),
            atomics: VecDeque::new(),
        }
    }

    /// Between two FPDUs.
    pub(crate) fn is_whole(&self) -> bool {
        self.partial.is_empty()
    }

    /// The engine has sent these octets.
    pub(crate) fn sent(&mut self, octets: &[u8]) {
        let mut stream = std::mem::take(&mut self.partial);
        stream.extend_from_slice(octets);
        let mut rest = &stream[..];
        let mut unmarked = Vec::new();
        loop {
            let parsed = if self.markers {
                marker::parse(rest, self.crc, self.position, &mut unmarked)
            } else {
                fpdu::parse(rest, self.crc)
            };
            let Fpdu::Complete { ulpdu, consumed } = parsed.expect("a good CRC, good markers")
            else {
                break;
            };
            let mut exact = Vec::new();
            put(
                &mut exact,
                ulpdu,
                self.crc,
                self.markers.then_some(self.position),
            );
            assert_eq!(
                exact,
                rest[..consumed],
                "PAD, CRC and markers as they are made"
            );
            self.segment(ulpdu);
            rest = &rest[consumed..];
            self.position += consumed as u64;
        }
        self.partial = rest.to_vec();
    }

    fn segment(&mut self, ulpdu: &[u8]) {
        assert_eq!(self.seen.terminates, 0, "nothing follows a Terminate");
        assert_eq!(ulpdu[0] & 0x3c, 0, "reserved bits of DDP");
        assert_eq!(ulpdu[1] & 0x30, 0, "reserved bits of RDMAP");
        self.seen.fpdus += 1;
        self.seen.longest = self.seen.longest.max(ulpdu.len());
        let segment = Segment::parse(ulpdu).expect("a DDP segment");
        let opcode = Opcode::parse(ulpdu[1]).expect("an opcode");
        assert_eq!(opcode.is_tagged(), ulpdu[0] & TAGGED != 0);
        match segment {
            Segment::Tagged(segment) => {
                assert!(!self.in_send(), "messages are not interleaved");
                let next = (opcode, segment.stag, segment.to);
                if let Some(expected) = self.tagged {
                    assert_eq!(next, expected, "tagged segments follow each other");
                }
                let to = segment.to.wrapping_add(segment.payload.len() as u64);
                self.tagged = (!segment.last).then_some((opcode, segment.stag, to));
                let ready = segment.stag == STag(1);
                if segment.last && opcode == Opcode::ReadResponse {
                    self.seen.read_responses += 1;
                } else if segment.last && !ready {
                    self.seen.messages += 1;
                }
            }
            Segment::Untagged(segment) => {
                assert_eq!(opcode.queue(), Some(segment.qn));
                let alone = self.tagged.is_none() && (opcode.is_send() || !self.in_send());
                assert!(
                    alone || opcode == Opcode::Terminate,
                    "messages are not interleaved"
                );
                self.untagged(opcode, &segment);
            }
        }
    }

    /// Whether an untagged message is incomplete. Only Sends have more than one segment.
    fn in_send(&self) -> bool {
        self.queues.values().any(|(_, offset)| offset.is_some())
    }

    fn untagged(&mut self, opcode: Opcode, segment: &UntaggedSegment<'_>) {
        let (msn, offset) = self.queues.entry(segment.qn.0).or_insert((0, None));
        match *offset {
            Some(offset) => assert_eq!(
                (segment.msn, segment.mo),
                (*msn, offset),
                "the message goes on"
            ),
            None => assert_eq!(
                (segment.msn, segment.mo),
                (msn.wrapping_add(1), 0),
                "the next message"
            ),
        }
        *msn = segment.msn;
        let end = segment.mo + u32::try_from(segment.payload.len()).expect("16 bits");
        *offset = (!segment.last).then_some(end);
        if !opcode.is_invalidating() {
            assert_eq!(segment.ulp_word, 0, "reserved for the ULP");
        }
        match opcode {
            Opcode::ReadRequest => {
                let request = ReadRequest::parse(segment.payload).expect("28 octets");
                assert!(segment.last);
                self.requests.push_back(request);
                self.seen.read_requests += 1;
            }
            Opcode::AtomicRequest => {
                let request = AtomicRequest::parse(segment.payload).expect("52 octets");
                assert!(segment.last);
                self.atomics.push_back(request.id);
                self.seen.read_requests += 1;
            }
            Opcode::AtomicResponse => {
                assert!(segment.last && AtomicResponse::parse(segment.payload).is_some());
                self.seen.read_responses += 1;
            }
            Opcode::Immediate | Opcode::ImmediateSolicited => {
                assert!(segment.last && segment.payload.len() == 8);
                self.seen.messages += 1;
            }
            Opcode::Terminate => {
                assert!(segment.last);
                self.seen.terminates += 1;
            }
            _ => {
                assert!(opcode.is_send());
                self.seen.messages += u64::from(segment.last);
            }
        }
    }
}
