//! One engine against a peer that sends whatever it likes, and a client that posts whatever it likes.

use std::time::Instant;

use iwarp::ddp::{Qn, TaggedHeader, UntaggedHeader};
use iwarp::rdmap::{Opcode, VERSION};
use iwarp::{
    AtomicOp, AtomicRequest, AtomicResponse, Delivery, ReadRequest, RemoteAddress, Role, STag,
    StreamEnd,
};

use crate::input::Input;
use crate::side::{
    BASE, COUNTER, FOREIGN, NOTHING, PRIVATE, RECEIVE, SINK, SMALL, SOURCE, Side, TARGET, WINDOW,
    markers,
};
use crate::wire::put;

/// Input: one octet for the role, four of set-up (see `Side::new`), then what the peer, the client and the transport do.
/// The target corrects CRCs instead of switching them off in the engine.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn engine(data: &[u8]) {
    let mut input = Input::new(data);
    let role = if input.octet() & 1 == 0 {
        Role::Initiator
    } else {
        Role::Responder
    };
    let setup = [(); 4].map(|()| input.octet());
    let delivery = match setup[1] & 8 {
        0 => Delivery::Reliable,
        _ => Delivery::Unreliable,
    };
    let mut engine = Engine {
        side: Side::with(delivery, role, setup, Instant::now()),
        crc: setup[0] & 1 != 0,
        markers: markers(role, setup[0]).received,
        arrived: 0,
        sends: 0,
        reads: 0,
        atomics: 0,
        end: None,
    };
    while !input.is_empty() {
        engine.step(&mut input);
    }
    engine.finish();
}

struct Engine {
    side: Side,
    crc: bool,
    /// The peer sends markers.
    markers: bool,
    /// Octets from the peer.
    arrived: u64,
    /// Messages that the peer has begun on each queue.
    sends: u32,
    reads: u32,
    atomics: u32,
    end: Option<StreamEnd>,
}

impl Engine {
    fn step(&mut self, input: &mut Input<'_>) {
        let op = input.octet();
        match op >> 4 {
            0..=5 => self.side.local(op, input),
            6..=11 => {
                let ulpdu = self.segment(op, input);
                self.deliver(&ulpdu, input);
            }
            12 => {
                let len = usize::from(input.octet());
                let ulpdu = input.take(len).to_vec();
                self.deliver(&ulpdu, input);
            }
            13 => {
                let len = usize::from(input.octet());
                self.arrive(input.take(len));
            }
            14 => self.side.events(None),
            _ => self.finish_stream(op),
        }
    }

    /// The ULPDU as a whole FPDU, or the first part of one.
    fn deliver(&mut self, ulpdu: &[u8], input: &mut Input<'_>) {
        let mut octets = Vec::new();
        put(
            &mut octets,
            ulpdu,
            self.crc,
            self.markers.then_some(self.arrived),
        );
        let cut = usize::from(input.octet());
        if cut == 255 && self.crc && self.side.inbox.is_empty() {
            return self.arrive_damaged(octets);
        }
        if cut > 0 && cut < octets.len() {
            let (head, tail) = octets.split_at(cut);
            self.arrive(head);
            self.arrive(tail);
        } else {
            self.arrive(&octets);
        }
    }

    /// MPA-060: nothing of an FPDU with a wrong CRC is placed.
    fn arrive_damaged(&mut self, mut octets: Vec<u8>) {
        if let Some(last) = octets.last_mut() {
            *last ^= 1;
        }
        let before = self.memory();
        self.arrive(&octets);
        assert_eq!(self.memory(), before);
    }

    fn memory(&self) -> [Vec<u8>; 3] {
        [TARGET, RECEIVE, SINK].map(|stag| self.side.mem.read(stag))
    }

    fn arrive(&mut self, octets: &[u8]) {
        if self.end.is_none() {
            self.side.inbox.extend_from_slice(octets);
            self.arrived += octets.len() as u64;
        }
        self.side.receive();
    }

    fn finish_stream(&mut self, op: u8) {
        let end = match op & 15 {
            0 => StreamEnd::Reset,
            1 => StreamEnd::Fin,
            2 if self.side.may_close() => {
                self.side.fin_sent = true;
                return;
            }
            _ => return,
        };
        self.end = Some(end);
        self.side.end(end);
    }

    /// A segment that is valid more often than random octets would be.
    fn segment(&mut self, op: u8, input: &mut Input<'_>) -> Vec<u8> {
        let [last, wild, extension, ..] = input.flags();
        let payload_len = usize::from(input.word16()) % 1500;
        let payload: Vec<u8> = (0..payload_len).map(|at| at.to_le_bytes()[0] | 1).collect();
        match op >> 4 {
            7 if extension => self.atomic_response(wild),
            8 | 9 if extension => self.immediate(last, wild),
            10 if extension => self.atomic_request(wild, input),
            6 => write(last, input, &payload),
            7 => self.read_response(last, wild, input, &payload),
            8 | 9 => self.send(last, wild, input, &payload),
            10 => self.read_request(input),
            _ => terminate(input, &payload),
        }
    }

    /// The response to a request, or something close to it.
    fn read_response(
        &mut self,
        last: bool,
        wild: bool,
        input: &mut Input<'_>,
        payload: &[u8],
    ) -> Vec<u8> {
        let octet = VERSION | Opcode::ReadResponse as u8;
        let asked = self.side.wire.requests.front().copied().filter(|_| !wild);
        let Some(request) = asked else {
            let (stag, to) = place(input);
            let header = TaggedHeader::new(last, octet, stag, to);
            return [&header.to_bytes()[..], payload].concat();
        };
        let left = request.size as usize;
        let len = if last {
            left.min(2000)
        } else {
            left.min(payload.len())
        };
        let done = len == left;
        let sink = request.sink;
        let header = TaggedHeader::new(done, octet, sink.stag, sink.to);
        let advanced = request.advanced(u32::try_from(len).expect("short"));
        match self.side.wire.requests.front_mut() {
            Some(front) if !done => *front = advanced,
            _ => drop(self.side.wire.requests.pop_front()),
        }
        [&header.to_bytes()[..], &vec![0x5a; len]].concat()
    }

    fn atomic_response(&mut self, wild: bool) -> Vec<u8> {
        let asked = self.side.wire.atomics.pop_front().filter(|_| !wild);
        self.atomics += 1;
        let response = AtomicResponse {
            id: asked.unwrap_or(7),
            value: 0x5a5a_5a5a,
        };
        let ulp = VERSION | Opcode::AtomicResponse as u8;
        let header = UntaggedHeader::new(true, ulp, 0, Qn::ATOMIC_RESPONSE, self.atomics, 0);
        [&header.to_bytes()[..], &response.to_bytes()].concat()
    }

    fn immediate(&mut self, last: bool, wild: bool) -> Vec<u8> {
        self.sends += 1;
        let ulp = VERSION | Opcode::immediate(wild) as u8;
        let header = UntaggedHeader::new(true, ulp, 0, Qn::SEND, self.sends, 0);
        let data = [0x5a; 8];
        let len = if last { 8 } else { 3 };
        [&header.to_bytes()[..], &data[..len]].concat()
    }

    fn atomic_request(&mut self, wild: bool, input: &mut Input<'_>) -> Vec<u8> {
        let (stag, to) = place(input);
        let target = if wild {
            RemoteAddress { stag, to }
        } else {
            RemoteAddress {
                stag: COUNTER,
                to: BASE + to % 8 * 8,
            }
        };
        let request = AtomicRequest {
            id: u32::from(input.word16()),
            op: match input.octet() {
                0 => AtomicOp::compare_swap(0, 1),
                octet => AtomicOp::add(octet.into()),
            },
            target,
        };
        self.reads += 1;
        let ulp = VERSION | Opcode::AtomicRequest as u8;
        let header = UntaggedHeader::new(true, ulp, 0, Qn::READ_REQUEST, self.reads, 0);
        [&header.to_bytes()[..], &request.to_bytes()].concat()
    }

    fn send(&mut self, last: bool, wild: bool, input: &mut Input<'_>, payload: &[u8]) -> Vec<u8> {
        let kind = input.octet();
        let opcode = Opcode::send(kind & 1 != 0, kind & 2 != 0);
        let stag = STag(WINDOW + u32::from(kind >> 6));
        let offset = if wild { u32::from(input.word16()) } else { 0 };
        let msn = self.sends + 1;
        self.sends += u32::from(last);
        let ulp = VERSION | opcode as u8;
        let header = UntaggedHeader::new(last, ulp, stag.0, Qn::SEND, msn, offset);
        [&header.to_bytes()[..], payload].concat()
    }

    fn read_request(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let (stag, to) = place(input);
        let (sink, at) = place(input);
        let request = ReadRequest {
            sink: RemoteAddress { stag: sink, to: at },
            size: u32::from(input.word16()),
            source: RemoteAddress { stag, to },
        };
        self.reads += 1;
        let ulp = VERSION | Opcode::ReadRequest as u8;
        let header = UntaggedHeader::new(true, ulp, 0, Qn::READ_REQUEST, self.reads, 0);
        [&header.to_bytes()[..], &request.to_bytes()].concat()
    }

    fn finish(&mut self) {
        self.side.receive();
        self.side.end(StreamEnd::Reset);
        if self.side.delivery == Delivery::Unreliable {
            self.side.conn.disconnect(); // Receives have stayed
        }
        self.side.events(None);
        assert!(self.side.ended, "the end is told");
        self.side.assert_all_came_back();
        self.side.assert_untouched();
        assert!(!self.side.conn.wants_transmit() && self.side.conn.write_side_done());
    }
}

/// An STag and an offset, of ours or not, inside or near the edges.
fn place(input: &mut Input<'_>) -> (STag, u64) {
    let choice = input.octet();
    let stag = match choice >> 4 {
        0 => SOURCE,
        1 => RECEIVE,
        2 => SINK,
        3 => PRIVATE,
        4 => FOREIGN,
        5 => NOTHING,
        6 | 7 => STag(WINDOW + u32::from(choice & 3)),
        8 => STag(u32::from(input.word16())),
        _ => TARGET,
    };
    let offset = u64::from(input.word16());
    let to = match choice & 12 {
        0 => BASE + SMALL as u64 - (offset & 255),
        4 => u64::MAX - (offset & 255),
        _ => BASE + offset % SMALL as u64,
    };
    (stag, to)
}

fn write(last: bool, input: &mut Input<'_>, payload: &[u8]) -> Vec<u8> {
    let (stag, to) = place(input);
    let header = TaggedHeader::new(last, VERSION | Opcode::Write as u8, stag, to);
    [&header.to_bytes()[..], payload].concat()
}

fn terminate(input: &mut Input<'_>, payload: &[u8]) -> Vec<u8> {
    let ulp = VERSION | Opcode::Terminate as u8;
    let header = UntaggedHeader::new(true, ulp, 0, Qn::TERMINATE, 1, 0);
    let control = [input.octet(), input.octet(), input.octet(), 0];
    let headers = &payload[..payload.len().min(60)];
    [&header.to_bytes()[..], &control, headers].concat()
}
