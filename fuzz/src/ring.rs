//! Rings in shared memory, whose other end writes what it likes.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use iwarp::{
    Confirmations, Connection, CopiedPayload, InitiatorWqe, LocalAccess, Markers, Memory as _,
    Operation, Payload, Pd, PieceRef, ReadLimits, RemoteAddress, Role, STag, Scope, Sge, Span,
    StreamConfig, StreamId, TxBatch, TxLimit,
};
use iwarp_mem::ring::{Ring, RingSize};
use iwarp_mem::{Received, Registration, Rights, Sent, Table};
use netdirect::Buffer;

use crate::input::Input;
use crate::side::SIZES;

/// The octets of each ring.
const CAPACITY: usize = 4096;
/// The place of the first ring's octets, behind the words of both.
const OCTETS: u64 = 4096;
/// The words of a ring, by their places.
const TAIL: u64 = 0;
const CLOSED: u64 = 8;
const HEAD: u64 = 128;
const NEEDS_NO_BELL: u64 = 256;
const WAITS_FOR_ROOM: u64 = 384;
/// The distance of the words of the second ring from those of the first.
const WORDS: u64 = 512;

const PD: Pd = Pd(1);
/// Longer than a ring, and than a message.
const REGION: usize = 3 * CAPACITY;

/// How many operations of one input are carried out, so that an input takes a limited time.
const OPERATIONS: usize = 256;

/// Input: which end of the rings this is (the lowest bit of the first octet), then operations, each an octet and its arguments.
///
/// - 0 to 3: the other end writes a word: which one, and its value or how far it goes beyond what it was.
/// - 4: the other end writes octets into a ring: where, how many, these octets.
/// - 5, 6: this end writes octets, or reads: how many.
/// - 7: this end reads into registered memory: how many octets there and how many behind.
/// - 8, 9: this end makes an FPDU of a Write of this length; it sends what it has.
/// - 10: bells: which call.
/// - 11: the other end has a hole made into the memory: where.
///
/// Every call does what a plain picture of the rings says, which reads each word of the other end once and never its own words: the octets that
/// are there, room, bells, or the end of the connection because a word is none that a ring has.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn ring(data: &[u8]) {
    let mut input = Input::new(data);
    let mut end = End::new(input.octet() & 1 != 0);
    for _ in 0..OPERATIONS {
        if input.is_empty() || end.is_over {
            break;
        }
        match input.octet() % 12 {
            0..=3 => end.peer_writes_word(&mut input),
            4 => end.peer_writes_octets(&mut input),
            5 => end.write(length(&mut input)),
            6 => end.read(length(&mut input)),
            7 => end.receive(length(&mut input).max(1), usize::from(input.octet())),
            8 => end.post(length(&mut input)),
            9 => end.send(),
            10 => end.bells(input.octet()),
            _ => end.peer_makes_hole(&mut input),
        }
    }
}

/// Up to twice a ring.
fn length(input: &mut Input<'_>) -> usize {
    usize::from(input.word16()) % (2 * CAPACITY)
}

/// One end, and what it has to know.
struct End {
    ring: Ring,
    file: File,
    /// Where the words of the ring lie into which this end writes, and of the other one.
    out: u64,
    back: u64,
    /// Octets written and read.
    tail: u64,
    head: u64,
    /// The other end's indices when they were last found to be right.
    seen_head: u64,
    seen_tail: u64,
    table: Table,
    buffer: Buffer,
    region: Registration,
    connection: Connection,
    batch: TxBatch,
    /// What the engine has made so far and the ring has not taken.
    unsent: Vec<u8>,
    /// A send has failed.
    is_over: bool,
}

impl End {
    fn new(is_maker: bool) -> Self {
        let size = RingSize::new(CAPACITY).expect("a size of rings");
        let (maker, file) = Ring::create(size).expect("a system with memory");
        let (ring, out) = if is_maker {
            (maker, 0)
        } else {
            let peer = Ring::open(&file, size).expect("memory as it has to be");
            (peer, WORDS)
        };
        let table = Table::new();
        let buffer = Buffer::new(REGION);
        buffer.write(0, &(0..REGION).map(pattern).collect::<Vec<_>>());
        let region = table
            .register(&buffer, Rights::LOCAL_WRITE, PD)
            .expect("a first region");
        let scope = Scope {
            pd: PD,
            stream: StreamId(1),
        };
        let mut connection = Connection::new(SIZES, scope).expect("memory for small queues");
        connection.start(config());
        Self {
            ring,
            file: file.into(),
            out,
            back: WORDS - out,
            tail: 0,
            head: 0,
            seen_head: 0,
            seen_tail: 0,
            table,
            buffer,
            region,
            connection,
            batch: TxBatch::with_capacity(4096, 8),
            unsent: Vec::new(),
            is_over: false,
        }
    }

    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at).expect("it is there");
        u64::from_ne_bytes(word)
    }

    fn half_word(&self, at: u64) -> u32 {
        let mut word = [0; 4];
        self.file.read_exact_at(&mut word, at).expect("it is there");
        u32::from_ne_bytes(word)
    }

    /// The octets of a ring from this number on.
    fn octets(&self, ring: u64, number: u64, len: usize) -> Vec<u8> {
        let mut all = vec![0; CAPACITY];
        let at = OCTETS + if ring == 0 { 0 } else { CAPACITY as u64 };
        self.file.read_exact_at(&mut all, at).expect("it is there");
        (number..)
            .take(len)
            .map(|number| all[place(number)])
            .collect()
    }

    fn peer_writes_word(&self, input: &mut Input<'_>) {
        const PLACES: [u64; 5] = [TAIL, HEAD, CLOSED, NEEDS_NO_BELL, WAITS_FOR_ROOM];
        let which = input.octet();
        let ring = if which & 0x80 == 0 {
            self.back
        } else {
            self.out
        };
        let at = ring + PLACES[usize::from(which & 0x0f) % PLACES.len()];
        let value = match which >> 4 & 7 {
            // As an end would that keeps the rules, or nearly.
            0..=3 => self.word(at).wrapping_add(input.word16().into()),
            4 => self.word(at).wrapping_sub(input.octet().into()),
            5 => u64::from(input.octet()),
            _ => {
                let mut word = [0; 8];
                let octets = input.take(8);
                word[..octets.len()].copy_from_slice(octets);
                u64::from_ne_bytes(word)
            }
        };
        self.file
            .write_all_at(&value.to_ne_bytes(), at)
            .expect("it is there");
    }

    fn peer_writes_octets(&self, input: &mut Input<'_>) {
        let at = OCTETS + u64::from(input.word16()) % (2 * CAPACITY as u64 - 256);
        let len = usize::from(input.octet());
        let octets = input.take(len);
        self.file.write_all_at(octets, at).expect("it is there");
    }

    fn peer_makes_hole(&self, input: &mut Input<'_>) {
        let page = u64::from(input.octet() % 3);
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.file, flags, page * 4096, 4096).expect("a hole");
    }

    /// Looks at the other end's index as the reader of a ring. Returns the octets that are there.
    fn look_for_octets(&mut self) -> Option<usize> {
        let tail = self.word(self.back + TAIL);
        let unread = self.seen_tail - self.head;
        let more = tail.wrapping_sub(self.seen_tail);
        if more > CAPACITY as u64 - unread {
            return None;
        }
        self.seen_tail = tail;
        Some(to_usize(unread + more))
    }

    /// Looks at the other end's index as the writer of a ring. Returns the room that there is.
    fn look_for_room(&mut self) -> Option<usize> {
        let head = self.word(self.out + HEAD);
        let read = head.wrapping_sub(self.seen_head);
        if read > self.tail - self.seen_head {
            return None;
        }
        self.seen_head = head;
        Some(self.known_room())
    }

    fn known_room(&self) -> usize {
        CAPACITY - to_usize(self.tail - self.seen_head)
    }

    fn room(&mut self, wanted: usize) -> Option<usize> {
        let known = self.known_room();
        if known >= wanted {
            Some(known)
        } else {
            self.look_for_room()
        }
    }

    fn write(&mut self, len: usize) {
        let octets: Vec<u8> = (0..len)
            .map(|at| pattern(at + to_usize(self.tail)))
            .collect();
        let written = self.ring.write(&octets);
        let mut count = 0;
        let fails = loop {
            if count == len {
                break false;
            }
            match self.room(len - count) {
                None => break true,
                Some(0) => break false,
                Some(room) => {
                    let more = room.min(len - count);
                    self.tail += more as u64;
                    count += more;
                }
            }
        };
        if fails {
            broken(written);
        } else {
            assert_eq!(written.expect("every word is right"), count);
        }
        self.has_written(&octets[..count]);
        self.agrees();
    }

    /// These octets are the last ones in the ring. The other end may have said that it has read some of them, before they were there.
    fn has_written(&self, octets: &[u8]) {
        let last = &octets[octets.len().saturating_sub(CAPACITY)..];
        let from = self.tail - last.len() as u64;
        assert!(self.octets(self.out, from, last.len()) == last);
        if !last.is_empty() {
            assert_eq!(self.word(self.out + TAIL), self.tail);
        }
    }

    fn read(&mut self, len: usize) {
        let mut octets = vec![0; len];
        let read = self.ring.read(&mut octets);
        let Some(there) = self.look_for_octets() else {
            return broken(read);
        };
        let (count, half_free) = read.expect("octets");
        assert_eq!(count, there.min(len));
        assert!(octets[..count] == self.octets(self.back, self.head, count));
        self.took(count);
        let half = CAPACITY / 2;
        assert_eq!(half_free, there > half && there - count <= half);
        self.agrees();
    }

    /// The index goes to the other end with the first octet.
    fn took(&mut self, count: usize) {
        self.head += count as u64;
        if count > 0 {
            assert_eq!(self.word(self.back + HEAD), self.head);
        }
    }

    fn receive(&mut self, len: usize, behind: usize) {
        let place = self.span(1, len);
        let mut rest = vec![0; behind];
        let received = self.ring.receive(&self.table, place, &mut rest);
        let Some(there) = self.look_for_octets() else {
            return broken(received);
        };
        let count = there.min(len + behind);
        assert_eq!(received.expect("octets").0, Received::Octets(count));
        let mut octets = self.buffer.slice(1..1 + len.min(count)).to_vec();
        octets.extend_from_slice(&rest[..count.saturating_sub(len)]);
        assert!(octets == self.octets(self.back, self.head, count));
        self.took(count);
        self.agrees();
        assert_eq!(self.buffer.slice(0..1).to_vec(), [pattern(0)]);
        self.buffer
            .write(0, &(0..REGION).map(pattern).collect::<Vec<_>>());
    }

    fn span(&self, at: usize, len: usize) -> Span {
        let need = LocalAccess::Write;
        self.table
            .check_local(self.sge(at, len), need, PD)
            .expect("inside the region")
    }

    fn sge(&self, at: usize, len: usize) -> Sge {
        Sge {
            token: self.region.stag(),
            address: self.region.base() + at as u64,
            length: u32::try_from(len).expect("a short piece"),
        }
    }

    /// The engine makes FPDUs of a Write. Those that do not fit into the batch are made by a later call.
    fn post(&mut self, len: usize) {
        let len = len.min(6000);
        let sges = [self.sge(0, len)];
        let remote = RemoteAddress {
            stag: STag(0x1234_5678),
            to: 0x1000,
        };
        let data = Payload::Sges(&sges);
        // A full queue takes no more.
        let _ = self.connection.post_initiator(InitiatorWqe {
            context: 1,
            operation: Operation::Write { data, remote },
            silent: true,
            fence: false,
        });
    }

    fn fill_batch(&mut self) {
        if !self.batch.is_empty() {
            return;
        }
        let limit = TxLimit {
            octets: 2 * CAPACITY,
            fpdus: 8,
            mulpdu: 3000,
        };
        let mem = self.table.pinned();
        self.connection.poll_transmit(&mem, limit, &mut self.batch);
        for (piece, _) in self.batch.pieces() {
            match piece {
                PieceRef::Bytes(octets) => self.unsent.extend_from_slice(octets),
                PieceRef::Payload(span) => {
                    let mut octets = vec![0; span.len() as usize];
                    mem.fetch(span, &mut octets, None).expect("registered");
                    self.unsent.extend(octets);
                }
            }
        }
    }

    fn send(&mut self) {
        self.fill_batch();
        let before = self.batch.remaining();
        let sent = self.ring.send(&self.table, &mut self.batch);
        self.connection.handle_transmitted(&mut self.batch);
        let head = self.word(self.out + HEAD);
        let is_right = |seen: u64, tail: u64| head.wrapping_sub(seen) <= tail - seen;
        match sent {
            Ok((count, outcome)) => {
                let len = to_usize(count);
                let octets: Vec<u8> = self.unsent.drain(..len).collect();
                self.tail += count;
                self.has_written(&octets);
                self.seen_head = self.ring.progress().1;
                assert!(self.tail - self.seen_head <= CAPACITY as u64);
                assert_eq!(outcome == Sent::All, count == before);
                assert!(outcome != Sent::Revoked);
            }
            Err(error) => {
                // FPDUs before may be in the ring, so nothing can follow.
                self.is_over = true;
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                let seen = self.ring.progress().1;
                assert!(!is_right(seen, self.tail), "{head} is right");
            }
        }
    }

    fn bells(&mut self, which: u8) {
        match which % 9 {
            0 => {
                let wanted = self.half_word(self.out + NEEDS_NO_BELL) == 0;
                assert_eq!(self.ring.takes_bell().expect("this process"), wanted);
                assert_ne!(self.half_word(self.out + NEEDS_NO_BELL), 0);
            }
            1 => {
                let is_there = self.ring.want_bell();
                assert_eq!(self.half_word(self.back + NEEDS_NO_BELL), 0);
                let Some(there) = self.look_for_octets() else {
                    return broken(is_there);
                };
                let closed = self.half_word(self.back + CLOSED) != 0;
                assert_eq!(is_there.expect("octets"), there > 0 || closed);
            }
            2 => {
                let has_room = self.ring.await_room();
                let Some(room) = self.look_for_room() else {
                    return broken(has_room);
                };
                let half = room >= CAPACITY / 2;
                assert_eq!(has_room.expect("room"), half);
                assert_eq!(self.half_word(self.out + WAITS_FOR_ROOM) == 0, half);
            }
            3 => {
                let waits = self.half_word(self.back + WAITS_FOR_ROOM) != 0;
                assert_eq!(self.ring.takes_room_bell().expect("this process"), waits);
                assert_eq!(self.half_word(self.back + WAITS_FOR_ROOM), 0);
            }
            4 => {
                self.ring.want_no_bell().expect("this process");
                assert_ne!(self.half_word(self.back + NEEDS_NO_BELL), 0);
            }
            5 => self.ring.await_no_room().expect("this process"),
            6 => {
                let has_octets = self.ring.has_octets();
                let Some(there) = self.look_for_octets() else {
                    return broken(has_octets);
                };
                assert_eq!(has_octets.expect("octets"), there > 0);
            }
            7 => {
                let closed = self.half_word(self.back + CLOSED) != 0;
                assert_eq!(self.ring.is_closed().expect("this process"), closed);
            }
            _ => {
                let looked = self.ring.look();
                if self.look_for_octets().is_none() || self.room(CAPACITY).is_none() {
                    return broken(looked);
                }
                looked.expect("both are right");
            }
        }
        self.agrees();
    }

    fn agrees(&self) {
        assert_eq!(self.ring.progress(), (self.seen_tail, self.seen_head));
    }
}

/// A word is none that a ring has.
fn broken<T: std::fmt::Debug>(result: std::io::Result<T>) {
    let error = result.expect_err("no ring has this word");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

fn pattern(at: usize) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 8)).to_le_bytes()[0]
}

fn place(number: u64) -> usize {
    to_usize(number % CAPACITY as u64)
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).expect("a processor of 64 bits")
}

/// Neither CRCs nor copies: payload goes from registered memory into the ring.
fn config() -> StreamConfig {
    StreamConfig {
        role: Role::Initiator,
        crc: false,
        markers: Markers {
            sent: false,
            received: false,
        },
        limits: ReadLimits { ird: 1, ord: 1 },
        ready: None,
        recognition: iwarp::Recognition::Never,
        receive_wait: Duration::MAX,
        copied: CopiedPayload::None,
        copied_below: 64,
        confirmations: Confirmations::Off,
        early: usize::MAX,
    }
}
