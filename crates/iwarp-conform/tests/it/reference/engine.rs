//! Full operation of the reference target: one thread, one connection, at most one broken rule.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use iwarp_conform::service::{Answer, Command, LONGEST_PEEK, Offer, Report, pattern_of};
use iwarp_conform::wire::{
    AtomicRequest, AtomicResponse, Code, CrcStyle, Fpdu, ReadRequest, Segment, crc32c, opcode,
    queue,
};
use iwarp_conform::{Conn, Seen};

use super::memory::Refusal;
use super::{Break, World};

const RECEIVES: u32 = 16;
const RECEIVE: usize = 4_096;
const MULPDU: usize = 1_400;

/// A Send that is incomplete.
struct Sending {
    opcode: u8,
    msn: u32,
    octets: Vec<u8>,
}

/// A Read of the target itself.
struct Reading {
    request: ReadRequest,
    received: Vec<u8>,
}

/// One connection in full operation.
pub(crate) struct Engine {
    pub(crate) conn: Conn,
    /// Send the offer unasked.
    pub(crate) speak_first: bool,
    /// The peer owes a ready-to-receive message.
    pub(crate) wants_ready: bool,
    /// The target waits for the answer to its ready-to-receive Read.
    pub(crate) ready_read: bool,
    world: Arc<World>,
    id: u64,
    window: u32,
    offer: Offer,
    ird: usize,
    ord: usize,
    msn_out: [u32; 4],
    send_msn: u32,
    request_msn: u32,
    sending: Option<Sending>,
    writing: Option<(u8, u32, u64)>,
    receives: u32,
    holding: bool,
    report: Report,
    seen: bool,
    pending: VecDeque<ReadRequest>,
    wanted: VecDeque<ReadRequest>,
    reading: VecDeque<Reading>,
    poisoned: bool,
}

type Handled = Result<bool, Code>;

impl Engine {
    pub(crate) fn new(world: &Arc<World>, conn: Conn, ird: u16, ord: u16, data: &[u8]) -> Self {
        let id = world.next_connection();
        let (window, regions) = {
            let mut memory = world.memory.lock().unwrap();
            let window = memory.window(id);
            (window, memory.offered(window))
        };
        let offer = Offer {
            receives: RECEIVES,
            receive_size: 4_096,
            ird,
            ord,
            regions,
            ..Offer::default()
        }
        .private(data);
        Self {
            conn,
            speak_first: false,
            wants_ready: false,
            ready_read: false,
            world: Arc::clone(world),
            id,
            window,
            offer,
            ird: ird.into(),
            ord: ord.into(),
            msn_out: [1; 4],
            send_msn: 1,
            request_msn: 1,
            sending: None,
            writing: None,
            receives: RECEIVES,
            holding: false,
            report: Report::default(),
            seen: false,
            pending: VecDeque::new(),
            wanted: VecDeque::new(),
            reading: VecDeque::new(),
            poisoned: false,
        }
    }

    fn breaks(&self, rule: Break) -> bool {
        self.world.breaks(rule)
    }

    /// Runs until the connection ends.
    pub(crate) fn run(mut self) {
        let early = self.breaks(Break::SpeaksThroughFence) && !self.wants_ready;
        if self.speak_first && (!self.conn.target_is_initiator || early) {
            self.speak_first = false;
            self.say(&Answer::Offer(self.offer.clone()).encode());
        }
        loop {
            let limit = if self.pending.is_empty() {
                Duration::from_secs(30)
            } else {
                Duration::from_millis(1)
            };
            let faults = self.conn.faults().len();
            match self.conn.segment(limit) {
                Ok(Seen::It(segment)) => {
                    let code =
                        self.framing(faults, &segment)
                            .or_else(|| match self.handle(&segment) {
                                Ok(true) => None,
                                Ok(false) => Some(Code(0xF, 0, 0)),
                                Err(code) => Some(code),
                            });
                    match code {
                        None => {}
                        Some(Code(0xF, ..)) => break,
                        Some(code) => {
                            self.fail(code, &segment);
                            break;
                        }
                    }
                }
                Ok(Seen::Nothing) => match self.pending.pop_front() {
                    Some(request) => self.answer(request),
                    None => break,
                },
                Ok(Seen::End(..)) => {
                    while let Some(request) = self.pending.pop_front() {
                        self.answer(request);
                    }
                    if self.breaks(Break::TerminatesAtFin) {
                        self.terminate(Code(0, 0, 0), None);
                    }
                    break;
                }
                Err(_) => {
                    self.terminate(Code(1, 0, 0), None);
                    break;
                }
            }
        }
        self.conn.finish();
        // Reads the octets that still come, so that the end is not a reset.
        while let Ok(Seen::It(_)) = self.conn.octets(Duration::from_secs(5)) {}
        self.world.memory.lock().unwrap().remove(self.window);
    }

    /// Finds what is wrong with the FPDU around a segment.
    fn framing(&mut self, before: usize, segment: &Segment) -> Option<Code> {
        let new: Vec<&str> = self.conn.faults()[before..]
            .iter()
            .map(|fault| fault.row)
            .collect();
        if new.contains(&"MPA-055") {
            if self.breaks(Break::PlacesBadCrc) && segment.opcode == opcode::WRITE {
                self.place_anyway(segment);
            }
            if self.breaks(Break::GoesOnAfterBadCrc)
                && let Ok(Seen::It(next)) = self.conn.segment(Duration::from_millis(50))
            {
                self.place_anyway(&next);
            }
            return Some(Code(2, 0, 2));
        }
        if new.iter().any(|row| matches!(*row, "MPA-064" | "MPA-065")) {
            return Some(Code(2, 0, 3));
        }
        let strict = match self.world.options.broken {
            Break::ChecksPad => new.contains(&"MPA-053"),
            Break::ChecksMarkerReserved => new.contains(&"MPA-067"),
            Break::ChecksMarkerLowBits => new.contains(&"MPA-066"),
            _ => false,
        };
        strict.then_some(Code(2, 0, 2))
    }

    fn place_anyway(&self, segment: &Segment) {
        if segment.opcode == opcode::WRITE {
            let mut memory = self.world.memory.lock().unwrap();
            memory.place_anyway(segment.stag, segment.to, &segment.payload);
        }
    }

    fn fail(&mut self, code: Code, segment: &Segment) {
        let mut reported = code;
        if self.breaks(Break::TellsSecondError)
            && segment.qn == 9
            && let Ok(Seen::It(next)) = self.conn.segment(Duration::from_millis(50))
            && next.tagged
        {
            reported = Code(1, 1, 0);
        }
        if self.breaks(Break::TakesBehindError)
            && segment.qn == 9
            && let Ok(Seen::It(next)) = self.conn.segment(Duration::from_millis(50))
        {
            self.place_anyway(&next);
        }
        if self.breaks(Break::ClosesWithoutTerminate) && code == Code(1, 2, 3) {
            return;
        }
        let reported = self
            .world
            .options
            .broken
            .instead_of(code, segment)
            .unwrap_or(reported);
        self.terminate(reported, Some(segment));
        if self.breaks(Break::SendsAfterTerminate) {
            let _ = self.conn.send(&Segment::write(1, 0, &[]));
        }
    }

    pub(crate) fn next_msn(&mut self, qn: usize) -> u32 {
        let msn = self.msn_out[qn];
        self.msn_out[qn] += 1;
        if self.breaks(Break::SkipsMsn) && qn == 0 && msn == 3 {
            self.msn_out[qn] += 1;
        }
        msn
    }

    /// A Terminate with the headers that belong to its code.
    pub(crate) fn terminate(&mut self, code: Code, about: Option<&Segment>) {
        let Code(layer, etype, error) = code;
        let mut flags: u8 = 0;
        let mut rest = Vec::new();
        let with =
            about.filter(|_| layer < 2 && !(layer == 0 && etype == 0) && code != Code(1, 0, 0));
        let hidden = with.is_some_and(|segment| {
            self.breaks(Break::NoHeaderOfWrite) && segment.opcode == opcode::WRITE
                || self.breaks(Break::NoHeaderOfSend) && segment.is_send()
        });
        let crc_header = self.breaks(Break::HeaderOfCrcError) && code == Code(2, 0, 2);
        if let Some(segment) = with.filter(|_| !hidden).or(about.filter(|_| crc_header)) {
            flags |= 0xC0;
            let octets = segment.encode();
            rest.extend(
                u16::try_from(octets.len())
                    .unwrap_or(u16::MAX)
                    .to_be_bytes(),
            );
            rest.extend(&octets[..segment.header_len()]);
            if segment.opcode == opcode::READ_REQUEST
                && layer == 0
                && etype == 1
                && !self.breaks(Break::NoReadHeader)
            {
                flags |= 0x20;
                rest.extend(&segment.payload);
            }
        }
        let mut third = flags;
        let mut first = layer << 4 | etype;
        if self.breaks(Break::TerminateBitOrder) {
            third = third.reverse_bits();
            first = etype << 4 | layer;
        }
        if self.breaks(Break::TerminateReserved) {
            third |= 0x10;
        }
        let mut payload = vec![first, error, third, 0];
        payload.extend(rest);
        let msn = if self.breaks(Break::TerminateMsn) {
            5
        } else {
            1
        };
        let segment = Segment::untagged(opcode::TERMINATE, queue::TERMINATE, msn, &payload);
        // The peer may be gone.
        let _ = self.conn.send(&segment);
    }

    // ---- in

    /// Whether the connection goes on.
    fn handle(&mut self, segment: &Segment) -> Handled {
        let rule = self.world.options.broken;
        if segment.ddp_reserved != 0 && rule == Break::ChecksDdpReserved
            || segment.rdmap_reserved != 0 && rule == Break::ChecksRdmapReserved
        {
            return Err(Code(0, 2, 0xFF));
        }
        if segment.ddp_version != 1 && !rule.lets(segment) {
            return Err(if segment.tagged {
                Code(1, 1, 4)
            } else {
                Code(1, 2, 6)
            });
        }
        if segment.rdmap_version != 1 && !rule.lets(segment) {
            return Err(Code(0, 2, 5));
        }
        let known = segment.opcode <= opcode::TERMINATE
            || self.world.options.extensions && segment.opcode <= opcode::ATOMIC_RESPONSE;
        if !known {
            return if rule.lets(segment) {
                Ok(true)
            } else {
                Err(Code(0, 2, 6))
            };
        }
        let tagged = matches!(segment.opcode, opcode::WRITE | opcode::READ_RESPONSE);
        if segment.opcode == opcode::TERMINATE {
            return self.terminated(segment);
        }
        if segment.tagged != tagged {
            return Err(Code(0, 2, 6));
        }
        let goes_on = match segment.opcode {
            opcode::WRITE => self.write(segment),
            opcode::READ_RESPONSE => self.read_response(segment),
            opcode::READ_REQUEST => self.read_request(segment),
            opcode::ATOMIC_REQUEST => self.atomic(segment),
            opcode::ATOMIC_RESPONSE => Err(Code(1, 2, 2)),
            _ => self.send(segment),
        }?;
        if !std::mem::replace(&mut self.seen, true) && self.speak_first {
            self.speak_first = false;
            self.say(&Answer::Offer(self.offer.clone()).encode());
        }
        Ok(goes_on)
    }

    fn terminated(&mut self, segment: &Segment) -> Handled {
        let answered = match self.world.options.broken {
            Break::AnswersBadTerminate => segment.msn != 1 && segment.qn == queue::TERMINATE,
            Break::AnswersTerminateOnSendQueue => segment.qn == queue::SEND,
            Break::AnswersTerminate => {
                segment.payload == [0, 0, 0, 0]
                    && segment.msn == 1
                    && segment.qn == 2
                    && segment.last
                    && segment.mo == 0
            }
            Break::AnswersEmptyTerminate => segment.payload.is_empty(),
            _ => false,
        };
        if answered {
            self.terminate(Code(0, 2, 6), None);
        }
        Ok(false)
    }

    fn write(&mut self, segment: &Segment) -> Handled {
        if let Some((opcode, stag, to)) = self.writing {
            if opcode != segment.opcode {
                return Err(Code(0, 2, 6));
            }
            if stag != segment.stag {
                return Err(Code(1, 1, 0));
            }
            if to != segment.to {
                return Err(Code(1, 1, 1));
            }
        }
        self.writing = (!segment.last).then_some((
            segment.opcode,
            segment.stag,
            segment.to.wrapping_add(segment.payload.len() as u64),
        ));
        if segment.payload.is_empty() {
            return if self.breaks(Break::RefusesStag0) && segment.stag == 0 {
                Err(Code(1, 1, 0))
            } else {
                Ok(true)
            };
        }
        let (length, id) = (segment.payload.len(), self.id);
        let mut memory = self.world.memory.lock().unwrap();
        match memory.access((segment.stag, segment.to, length), true, id) {
            Ok(place) => {
                place.copy_from_slice(&segment.payload);
                Ok(true)
            }
            Err(refusal) => {
                let places = match refusal {
                    Refusal::Bounds => self.world.breaks(Break::PlacesUpToTheEnd),
                    Refusal::Rights => self.world.breaks(Break::PlacesWithoutRight),
                    _ => false,
                };
                if places {
                    memory.place_anyway(segment.stag, segment.to, &segment.payload);
                }
                Err(match refusal {
                    Refusal::Stag | Refusal::Rights => Code(1, 1, 0),
                    Refusal::Stream => Code(1, 1, 2),
                    Refusal::Bounds => Code(1, 1, 1),
                    Refusal::Wrap => Code(1, 1, 3),
                })
            }
        }
    }

    fn send(&mut self, segment: &Segment) -> Handled {
        if segment.qn != queue::SEND {
            return Err(Code(1, 2, 1));
        }
        let rule = self.world.options.broken;
        let (opcode, msn, so_far) = match &self.sending {
            Some(sending) => (sending.opcode, sending.msn, sending.octets.len()),
            None => (segment.opcode, self.send_msn, 0),
        };
        if segment.msn != msn && !rule.lets(segment) {
            return Err(Code(1, 2, 3));
        }
        let empty_end = rule == Break::TakesEmptyEndAnywhere && segment.payload.is_empty();
        if segment.mo as usize != so_far && !empty_end {
            return Err(Code(1, 2, 4));
        }
        if segment.opcode != opcode {
            return Err(Code(0, 2, 6));
        }
        if self.receives == 0 {
            return if rule == Break::DropsWithoutReceive {
                Ok(true)
            } else {
                Err(Code(1, 2, 2))
            };
        }
        if so_far + segment.payload.len() > RECEIVE {
            return Err(Code(1, 2, 5));
        }
        let mut sending = self.sending.take().unwrap_or(Sending {
            opcode,
            msn,
            octets: Vec::new(),
        });
        sending.octets.extend(&segment.payload);
        if !segment.last {
            self.sending = Some(sending);
            return Ok(true);
        }
        self.send_msn = msn.wrapping_add(1);
        self.receives -= 1;
        if matches!(opcode, opcode::IMMEDIATE | opcode::IMMEDIATE_SOLICITED) {
            self.receives += 1;
            let fits = sending.octets.len() == 8
                || rule == Break::TakesShortImmediate && sending.octets.len() < 8;
            return if fits { Ok(true) } else { Err(Code(1, 2, 5)) };
        }
        self.invalidate(segment)?;
        self.delivered(&sending.octets)
    }

    fn invalidate(&self, segment: &Segment) -> Result<(), Code> {
        let plain = segment.opcode == opcode::SEND_INVALIDATE;
        if !plain && segment.opcode != opcode::SEND_SOLICITED_INVALIDATE {
            return Ok(());
        }
        let mut memory = self.world.memory.lock().unwrap();
        if memory.is_window_of(segment.stag, self.id) {
            if plain || !self.world.breaks(Break::SolicitedDoesNotInvalidate) {
                memory.remove(segment.stag);
            }
            return Ok(());
        }
        match self.world.options.broken {
            Break::IgnoresUnknownInvalidate if !memory.exists(segment.stag) => Ok(()),
            Break::IgnoresSharedInvalidate if memory.exists(segment.stag) => Ok(()),
            _ => Err(Code(0, 1, 9)),
        }
    }

    fn delivered(&mut self, message: &[u8]) -> Handled {
        let command = Command::decode(message).filter(|_| self.world.options.service);
        if command == Some(Command::Hold) {
            self.holding = true;
        }
        if !self.holding {
            self.receives += 1;
        }
        let Some(command) = command else {
            let lost = self.breaks(Break::LosesEmptySend) && message.is_empty();
            self.report = Report {
                messages: self.report.messages + u32::from(!lost),
                length: u32::try_from(message.len()).unwrap_or(u32::MAX),
                crc: crc32c(message),
            };
            return Ok(true);
        };
        self.carry_out(command)
    }

    fn read_request(&mut self, segment: &Segment) -> Handled {
        if segment.qn != queue::REQUEST {
            return Err(Code(1, 2, 1));
        }
        if segment.msn != self.request_msn {
            return Err(Code(1, 2, 3));
        }
        if segment.mo != 0 || !segment.last {
            return Err(Code(1, 2, 4));
        }
        let request = ReadRequest::parse(&segment.payload).ok_or(Code(0, 2, 6))?;
        if segment.payload.len() != ReadRequest::LEN && !self.breaks(Break::TakesLongReadRequest) {
            return Err(Code(0, 2, 6));
        }
        self.request_msn += 1;
        if request.size > 0 {
            if self.pending.len() >= self.ird {
                return Err(Code(1, 2, 2));
            }
            let from = (
                request.source_stag,
                request.source_to,
                request.size as usize,
            );
            let mut memory = self.world.memory.lock().unwrap();
            memory.access(from, false, self.id).map_err(read_refused)?;
        }
        self.pending.push_back(request);
        Ok(true)
    }

    fn answer(&mut self, request: ReadRequest) {
        let size = request.size as usize;
        let mut octets = Vec::new();
        if size > 0 {
            let from = (request.source_stag, request.source_to, size);
            let mut memory = self.world.memory.lock().unwrap();
            if let Ok(found) = memory.access(from, false, self.id) {
                octets = found.to_vec();
            }
        }
        let (mut stag, mut to) = (request.sink_stag, request.sink_to);
        match self.world.options.broken {
            Break::ReadySinkZeroed
                if !self.seen || self.request_msn == 2 && to == 0x1234_5678_9ABC_DEF0 =>
            {
                (stag, to) = (0, 0);
            }
            Break::SinkOfOnes if stag == u32::MAX => to = 0,
            Break::SinkOfNothing if size == 0 && to == 0x77 && stag == 0x0BAD_CAFE => to = 0,
            Break::ShortResponse if size == 1_441 => octets.truncate(1_440),
            Break::SwapsResponses if size == 5_000 && to == 0 && !self.pending.is_empty() => {
                self.pending.push_back(request);
                return;
            }
            _ => {}
        }
        self.tagged(opcode::READ_RESPONSE, stag, to, &octets);
    }

    fn read_response(&mut self, segment: &Segment) -> Handled {
        if std::mem::take(&mut self.ready_read) {
            return Ok(true);
        }
        let rule = self.world.options.broken;
        let Some(reading) = self.reading.front_mut() else {
            return if rule == Break::IgnoresUnaskedResponse {
                Ok(true)
            } else {
                Err(Code(0, 2, 6))
            };
        };
        let at = reading.request.sink_to + reading.received.len() as u64;
        if segment.stag != reading.request.sink_stag && rule != Break::TakesAnySinkStag {
            return Err(Code(1, 1, 0));
        }
        if segment.to != at && rule != Break::TakesAnySinkTo {
            return Err(Code(1, 1, 1));
        }
        reading.received.extend(&segment.payload);
        let (have, size) = (reading.received.len(), reading.request.size as usize);
        if have > size && rule != Break::TakesLongResponse
            || segment.last && have < size && rule != Break::TakesShortResponse
        {
            return Err(Code(1, 1, 1));
        }
        if segment.last {
            let sum = crc32c(&reading.received);
            self.reading.pop_front();
            self.issue();
            if self.reading.is_empty() && self.wanted.is_empty() {
                self.say(&Answer::Done(sum).encode());
            }
        }
        Ok(true)
    }

    fn issue(&mut self) {
        while self.reading.len() < self.ord {
            let Some(request) = self.wanted.pop_front() else {
                return;
            };
            let msn = self.next_msn(1);
            let mut segment = Segment::read_request(msn, request);
            if self.breaks(Break::RequestOnSendQueue) {
                segment.qn = 0;
            }
            let _ = self.conn.send(&segment);
            self.reading.push_back(Reading {
                request,
                received: Vec::new(),
            });
        }
    }

    fn atomic(&mut self, segment: &Segment) -> Handled {
        if segment.qn != queue::REQUEST {
            return Err(Code(1, 2, 1));
        }
        if segment.msn != self.request_msn {
            return Err(Code(1, 2, 3));
        }
        while let Some(request) = self.pending.pop_front() {
            self.answer(request);
        }
        let request = AtomicRequest::parse(&segment.payload).ok_or(Code(0, 2, 6))?;
        self.request_msn += 1;
        let operation = if self.breaks(Break::ChecksAtomicReserved) {
            request.operation
        } else {
            request.operation & 0xF
        };
        if operation != AtomicRequest::FETCH_ADD && operation != AtomicRequest::COMPARE_SWAP {
            return if self.breaks(Break::IgnoresUnknownAtomic) {
                Ok(true)
            } else {
                Err(Code(0, 2, 6))
            };
        }
        let target = (request.stag, request.to, 8);
        let mut memory = self.world.memory.lock().unwrap();
        for write in [false, true] {
            memory
                .access(target, write, self.id)
                .map_err(read_refused)?;
        }
        let place = memory
            .access(target, true, self.id)
            .map_err(|_| Code(0, 1, 0))?;
        let old = place
            .first_chunk()
            .map_or(0, |octets| u64::from_be_bytes(*octets));
        let new = self.world.options.broken.atomic(&request, operation, old);
        if request.to % 8 != 0 {
            if self.world.breaks(Break::ChangesUnaligned) {
                place.copy_from_slice(&new.to_be_bytes());
            }
            return Err(Code(0, 2, 7));
        }
        place.copy_from_slice(&new.to_be_bytes());
        drop(memory);
        let mut response = AtomicResponse {
            identifier: request.identifier,
            value: old,
        };
        if self.breaks(Break::LosesIdentifier) && response.identifier == u32::MAX {
            response.identifier = 0;
        }
        let qn = if self.breaks(Break::AtomicQueue) {
            2
        } else {
            3
        };
        let msn = self.next_msn(3);
        let _ = self.conn.send(&Segment::untagged(
            opcode::ATOMIC_RESPONSE,
            qn,
            msn,
            &response.to_bytes(),
        ));
        Ok(true)
    }

    // ---- commands

    fn carry_out(&mut self, command: Command) -> Handled {
        match command {
            Command::Hello => self.say(&Answer::Offer(self.offer.clone()).encode()),
            Command::Echo(body) => self.say(&body),
            Command::Emit { length, solicited } => {
                let solicited = solicited && !self.breaks(Break::NeverSolicited);
                let opcode = if solicited {
                    opcode::SEND_SOLICITED
                } else {
                    opcode::SEND
                };
                self.message(opcode, &pattern_of(length as usize));
            }
            Command::Write { stag, to, length } => {
                let mut octets = pattern_of(length as usize);
                if self.breaks(Break::WritesOtherOctets) && length == 3_001 {
                    octets[3_000] ^= 1;
                }
                self.tagged(opcode::WRITE, stag, to, &octets);
                self.say(&Answer::Done(0).encode());
            }
            Command::Read {
                stag,
                to,
                length,
                count,
            } => {
                for i in 0..count {
                    self.wanted.push_back(ReadRequest {
                        sink_stag: 0x7000_0001,
                        sink_to: u64::from(i) << 20,
                        size: length,
                        source_stag: stag,
                        source_to: to,
                    });
                }
                self.issue();
            }
            Command::Fill { region, octet } => {
                if let Some(octets) = self.world.memory.lock().unwrap().shared(region) {
                    octets.fill(octet);
                }
                self.say(&Answer::Done(0).encode());
            }
            Command::Peek {
                region,
                offset,
                length,
            } => {
                let found = {
                    let mut memory = self.world.memory.lock().unwrap();
                    let octets = memory.shared(region).map_or(&[][..], |octets| &octets[..]);
                    let at = usize::try_from(offset)
                        .unwrap_or(usize::MAX)
                        .min(octets.len());
                    let most = usize::from(length.min(LONGEST_PEEK));
                    octets[at..].iter().take(most).copied().collect::<Vec<u8>>()
                };
                self.say(&Answer::Octets(found).encode());
            }
            Command::Report => {
                let report = self.report;
                self.say(&Answer::Report(report).encode());
            }
            Command::Hold => self.say(&Answer::Done(0).encode()),
            Command::Close => {
                if self.breaks(Break::TerminatesAtClose) {
                    self.terminate(Code(0, 0, 0), None);
                }
                return Ok(false);
            }
            Command::EmitAndClose { length } => {
                let lost = if self.breaks(Break::LosesTheEnd) {
                    1_000
                } else {
                    0
                };
                self.message(opcode::SEND, &pattern_of(length as usize - lost));
                return Ok(false);
            }
        }
        Ok(true)
    }

    // ---- out

    fn say(&mut self, message: &[u8]) {
        self.message(opcode::SEND, message);
    }

    fn message(&mut self, opcode: u8, message: &[u8]) {
        let msn = self.next_msn(0);
        let msn = if self.breaks(Break::MsnFromZero) {
            msn - 1
        } else {
            msn
        };
        let rule = self.world.options.broken;
        if rule == Break::EmptyInTwo && message.is_empty() {
            let first = Segment {
                last: false,
                ..Segment::untagged(opcode, queue::SEND, msn, &[])
            };
            let _ = self.conn.send(&first);
        }
        let most = if rule == Break::TinySegments {
            64
        } else {
            MULPDU
        };
        let mut at = 0;
        loop {
            let end = message.len().min(at + most);
            let mut segment = Segment {
                last: end == message.len(),
                mo: u32::try_from(at).unwrap_or(u32::MAX),
                ..Segment::untagged(opcode, queue::SEND, msn, &message[at..end])
            };
            match rule {
                Break::MsnInMessage if at > 0 => segment.msn += 1,
                Break::OffsetInMessage if at > 0 => segment.mo += 4,
                Break::InvalidateOfSend => segment.stag = 7,
                _ => {}
            }
            self.emit(&segment);
            at = end;
            if segment.last {
                return;
            }
        }
    }

    fn tagged(&mut self, opcode: u8, stag: u32, to: u64, octets: &[u8]) {
        let mut at = 0;
        loop {
            let end = octets.len().min(at + MULPDU);
            let segment = Segment {
                last: end == octets.len(),
                ..Segment::tagged(opcode, stag, to.wrapping_add(at as u64), &octets[at..end])
            };
            self.emit(&segment);
            at = end;
            if segment.last {
                return;
            }
        }
    }

    fn emit(&mut self, segment: &Segment) {
        let mut segment = segment.clone();
        let write = segment.opcode == opcode::WRITE;
        let mut fpdu = Fpdu::default();
        match self.world.options.broken {
            Break::SendsPad => fpdu.pad = 1,
            Break::WriteCrc if write => fpdu.crc = CrcStyle::BigEndian,
            Break::WriteDdpReserved if write => segment.ddp_reserved = 1,
            Break::WriteDdpVersion if write => segment.ddp_version = 0,
            Break::WriteRdmapVersion if write => segment.rdmap_version = 0,
            Break::WriteRdmapReserved if write => segment.rdmap_reserved = 1,
            Break::MarkerReserved => self.markers(|markers| markers.reserved = 1),
            Break::MarkerPointer => self.markers(|markers| markers.skew = 4),
            Break::MarkerBetween => self.markers(|markers| markers.between = 8),
            _ => {}
        }
        fpdu.ulpdu = segment.encode();
        // If the peer is gone, a read will show it.
        if self.conn.send_fpdu(&fpdu).is_err() {
            self.poisoned = true;
        }
    }

    fn markers(&mut self, edit: impl FnOnce(&mut iwarp_conform::wire::Markers)) {
        if let Some(markers) = &mut self.conn.markers_out {
            edit(markers);
        }
    }
}

/// The code with which a refused Read or Atomic is answered.
fn read_refused(refusal: Refusal) -> Code {
    match refusal {
        Refusal::Stag => Code(0, 1, 0),
        Refusal::Stream => Code(0, 1, 3),
        Refusal::Rights => Code(0, 1, 2),
        Refusal::Bounds => Code(0, 1, 1),
        Refusal::Wrap => Code(0, 1, 4),
    }
}
