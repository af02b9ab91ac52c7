//! Finds the frames of one direction of a stream: start-up frames (RFC 5044 §7.1) and FPDUs (RFC 5044 §4.1) by their lengths, and messages
//! by the control octets of DDP and RDMAP. The receiver of a frame judges whether the frame is right.

use std::ops::Range;

use iwarp::ddp::{Header, LAST};
use iwarp::mpa::startup::{FrameKind, FrameReader};
use iwarp::mpa::{crc, fpdu, marker};
use iwarp::rdmap::Opcode;

use super::plan::{Field, Kind};

/// Octets of a start-up frame before its Private Data.
const STARTUP_HEADER: usize = 20;
/// `PD_Length` in a start-up frame.
const PD_LENGTH: Range<usize> = 18..20;
/// The lengths of the DDP headers, with RDMAP's part in them.
const TAGGED: usize = 14;
const UNTAGGED: usize = 18;

/// The position in one direction of a stream.
#[derive(Debug)]
pub(super) struct FrameFinder {
    state: State,
    /// The frame that this direction starts with.
    startup: FrameKind,
    markers: bool,
    /// The first FPDU is the ready-to-receive message.
    ready_first: bool,
    /// The first Read Response answers the ready-to-receive message.
    ready_answered: bool,
    /// Octets since the start-up, markers included.
    position: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Fpdus,
    /// The stream is not MPA, and has no frames.
    Foreign,
}

/// The kind of the next octets.
#[derive(Debug)]
pub(super) enum Next {
    /// There are too few octets to know.
    Partial,
    Frame(Frame),
    Foreign,
}

/// A start-up frame or an FPDU.
#[derive(Debug)]
pub(super) struct Frame {
    /// `None` is an FPDU of no known message.
    pub(super) kind: Option<Kind>,
    /// The message is a Read Request.
    pub(super) reads: bool,
    /// The last FPDU of its message.
    pub(super) last: bool,
    /// Octets on the wire, a marker before the FPDU included.
    pub(super) len: usize,
    /// With markers, the position of the first octet, from which the places of the markers follow.
    marked: Option<u64>,
    length: Range<usize>,
    header: Range<usize>,
    payload: Range<usize>,
    crc: Range<usize>,
}

impl FrameFinder {
    pub(super) fn new(startup: FrameKind) -> Self {
        Self {
            state: State::Startup,
            startup,
            markers: false,
            ready_first: false,
            ready_answered: false,
            position: 0,
        }
    }

    /// The other direction's start-up frame asks for markers in this one.
    pub(super) fn expect_markers(&mut self) {
        self.markers = true;
    }

    /// Both sides have agreed that the first FPDU is the ready-to-receive message.
    pub(super) fn expect_ready(&mut self) {
        self.ready_first = true;
    }

    /// The other direction's ready-to-receive message is a Read.
    pub(super) fn expect_ready_answer(&mut self) {
        self.ready_answered = true;
    }

    /// Returns what `octets` begin with. They follow the frames that have [passed](Self::passed).
    pub(super) fn next(&mut self, octets: &[u8]) -> Next {
        let next = match self.state {
            State::Startup => startup(self.startup, octets),
            State::Fpdus => self.fpdu(octets),
            State::Foreign => Next::Foreign,
        };
        if let Next::Foreign = next {
            self.state = State::Foreign;
        }
        next
    }

    /// The frame has passed.
    pub(super) fn passed(&mut self, frame: &Frame) {
        match self.state {
            State::Startup => self.state = State::Fpdus,
            _ => self.position += frame.len as u64,
        }
        if frame.kind == Some(Kind::Ready) && self.ready_answered {
            self.ready_answered = false;
        }
    }

    fn fpdu(&self, octets: &[u8]) -> Next {
        let marked = self.markers.then_some(self.position);
        let octet = |at: usize| octets.get(on_wire(at, marked)).copied();
        let (Some(high), Some(low)) = (octet(0), octet(1)) else {
            return Next::Partial;
        };
        let ulpdu = usize::from(u16::from_be_bytes([high, low]));
        let begin = fpdu::HEADER_LEN..fpdu::HEADER_LEN + ulpdu.min(UNTAGGED);
        let Some(begin) = begin.map(octet).collect::<Option<Vec<u8>>>() else {
            return Next::Partial;
        };
        let (opcode, last, header) = match Header::split(&begin) {
            Ok((header, _)) => {
                let opcode = Opcode::parse(header.ulp_control()).ok();
                let length = match header {
                    Header::Tagged(_) => TAGGED,
                    Header::Untagged(_) => UNTAGGED,
                };
                (opcode, header.control() & LAST != 0, length)
            }
            Err(_) => (None, false, ulpdu.min(UNTAGGED)),
        };
        let (behind, end) = (fpdu::HEADER_LEN + ulpdu, fpdu::fpdu_len(ulpdu));
        let header = fpdu::HEADER_LEN..fpdu::HEADER_LEN + header;
        let first = self.ready_first && self.position == 0;
        let answer = self.ready_answered && opcode == Some(Opcode::ReadResponse);
        Next::Frame(Frame {
            kind: match opcode {
                _ if first || answer => Some(Kind::Ready),
                opcode => opcode.map(kind),
            },
            reads: opcode == Some(Opcode::ReadRequest),
            last,
            len: match marked {
                Some(position) => marker::fpdu_len(ulpdu, position),
                None => end,
            },
            marked,
            length: 0..fpdu::HEADER_LEN,
            payload: header.end..behind,
            header,
            crc: end - crc::LEN..end,
        })
    }
}

fn startup(startup: FrameKind, octets: &[u8]) -> Next {
    let mut reader = FrameReader::new(startup);
    let header = &octets[..octets.len().min(STARTUP_HEADER)];
    if reader.push(header).is_err() {
        return Next::Foreign;
    }
    if header.len() < STARTUP_HEADER {
        return Next::Partial;
    }
    let len = STARTUP_HEADER + reader.wanted();
    Next::Frame(Frame {
        kind: Some(match startup {
            FrameKind::Request => Kind::MpaRequest,
            FrameKind::Reply => Kind::MpaReply,
        }),
        reads: false,
        last: true,
        len,
        marked: None,
        length: PD_LENGTH,
        header: 0..STARTUP_HEADER,
        payload: STARTUP_HEADER..len,
        crc: len..len,
    })
}

fn kind(opcode: Opcode) -> Kind {
    match opcode {
        Opcode::Write => Kind::Write,
        Opcode::ReadRequest => Kind::ReadRequest,
        Opcode::ReadResponse => Kind::ReadResponse,
        Opcode::Send
        | Opcode::SendInvalidate
        | Opcode::SendSolicited
        | Opcode::SendSolicitedInvalidate => Kind::Send,
        Opcode::Terminate => Kind::Terminate,
        Opcode::Immediate | Opcode::ImmediateSolicited => Kind::Immediate,
        Opcode::AtomicRequest => Kind::AtomicRequest,
        Opcode::AtomicResponse => Kind::AtomicResponse,
    }
}

/// The offset of an octet in an FPDU with markers, if its offset without the markers is `at`. `marked` is the position
/// where the FPDU begins.
fn on_wire(at: usize, marked: Option<u64>) -> usize {
    let Some(position) = marked else {
        return at;
    };
    // A marker comes before the octet where an FPDU that ends with this octet would have the marker.
    let interval = marker::INTERVAL as u64;
    let mut wire = at;
    let mut next = (interval - position % interval) % interval; // offset of the next marker
    while next <= wire as u64 {
        wire += marker::LEN;
        next += interval;
    }
    wire
}

impl Frame {
    /// The octet of the frame that has this bit of a field, and the bit in this octet.
    fn bit(&self, bit: u32, field: Field) -> Option<(usize, u8)> {
        let field = match field {
            Field::Length => &self.length,
            Field::Header => &self.header,
            Field::Payload => &self.payload,
            Field::Crc => &self.crc,
        };
        let at = field.start.checked_add(usize::try_from(bit / 8).ok()?)?;
        let wire = on_wire(at, self.marked);
        (field.contains(&at) && wire < self.len).then_some((wire, 0x80 >> (bit % 8)))
    }

    /// The bits to be inverted, octet by octet, to invert this bit. With `good_crc` they include the bits of the CRC.
    pub(super) fn flip(&self, bit: u32, field: Field, good_crc: bool) -> Vec<(usize, u8)> {
        let Some((at, mask)) = self.bit(bit, field) else {
            return Vec::new();
        };
        let mut flips = vec![(at, mask)];
        if good_crc && self.crc.len() == crc::LEN {
            // The CRC field is last, and contains no marker. CRCs are linear: the difference of two CRCs depends only on
            // the difference of the octets that they cover.
            let end = self.len - crc::LEN;
            let mut difference = vec![0; end];
            let unchanged = crc::crc32c(&difference);
            difference[at] = mask;
            let change = crc::crc32c(&difference) ^ unchanged;
            flips.extend((end..).zip(crc::wire(change)));
        }
        flips
    }
}
