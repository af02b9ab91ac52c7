//! Rings are pipes, whatever is written, read and cut, and whatever the other end writes into the shared memory.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering};

use iwarp::{LocalAccess, Memory, Pd, Sge, Span};
use proptest::prelude::*;
use rdma_buffer::Buffer;

use super::{Ring, RingSize};
use crate::outgoing::Outgoing;
use crate::outgoing::by_hand::Batch;
use crate::{Received, Registration, Rights, Sent, Table};

const SMALL: usize = 4096;

fn ends() -> (Ring, Ring, File) {
    let size = RingSize::new(SMALL).unwrap();
    let (maker, file) = Ring::create(size).unwrap();
    let peer = Ring::open(&file, size).unwrap();
    (maker, peer, File::from(file))
}

/// Where the words of a ring lie in the file.
const TAIL: u64 = 0;
const HEAD: u64 = 128;
const OF_BACK: u64 = 512;

fn overwrite(file: &File, at: u64, word: u64) {
    file.write_all_at(&word.to_ne_bytes(), at).unwrap();
}

struct Region {
    table: Table,
    buffer: Buffer,
    region: Registration,
}

impl Region {
    fn new(octets: &[u8]) -> Self {
        let table = Table::new();
        let buffer = Buffer::new(octets.len());
        buffer.write(0, octets);
        let rights = Rights::LOCAL_WRITE;
        let region = table.register(&buffer, rights, Pd(1)).unwrap();
        Self {
            table,
            buffer,
            region,
        }
    }

    fn span(&self, at: usize, len: usize) -> Span {
        let sge = Sge {
            token: self.region.stag(),
            address: self.region.base() + at as u64,
            length: u32::try_from(len).unwrap(),
        };
        let need = LocalAccess::Write;
        self.table.check_local(sge, need, Pd(1)).unwrap()
    }
}

/// One call at one of the ends.
#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    Read(usize),
    /// Into registered memory, and behind it.
    Receive(usize, usize),
    GiveBack,
}

fn step() -> impl Strategy<Value = Step> {
    let len = || prop_oneof![1..64_usize, 1..SMALL + 100];
    prop_oneof![
        len().prop_map(Step::Write),
        len().prop_map(Step::Read),
        (len(), 0..100_usize).prop_map(|(place, rest)| Step::Receive(place, rest)),
        Just(Step::GiveBack),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Both directions, from every offset of the ring on.
    #[test]
    fn any_cut_of_writes_and_reads_is_a_pipe(steps in prop::collection::vec((any::<bool>(), step()), 1..200)) {
        let (maker, peer, _file) = ends();
        let region = Region::new(&[0; 2 * SMALL]);
        let mut sent = [0_usize; 2];
        let mut read = [0_usize; 2];
        let octet = |way: usize, number: usize| ((number * 7 + number / 251 + way * 3) % 256).try_into().unwrap_or(0_u8);
        for (back, step) in steps {
            let (from, to) = if back { (&peer, &maker) } else { (&maker, &peer) };
            let way = usize::from(back);
            let there = sent[way] - read[way];
            match step {
                Step::Write(len) => {
                    let octets: Vec<u8> = (sent[way]..sent[way] + len).map(|number| octet(way, number)).collect();
                    let written = from.write(&octets).unwrap();
                    prop_assert_eq!(written, len.min(SMALL - there));
                    sent[way] += written;
                }
                Step::Read(len) => {
                    let mut into = vec![0; len];
                    let (count, half_free) = to.read(&mut into).unwrap();
                    prop_assert_eq!(count, len.min(there));
                    prop_assert_eq!(half_free, there > SMALL / 2 && there - count <= SMALL / 2);
                    let expected: Vec<u8> = (read[way]..read[way] + count).map(|number| octet(way, number)).collect();
                    prop_assert!(into[..count] == expected);
                    read[way] += count;
                }
                Step::Receive(place, behind) => {
                    let mut rest = vec![0; behind];
                    let at = region.span(1, place);
                    let (received, _) = to.receive(&region.table, at, &mut rest).unwrap();
                    let count = (place + behind).min(there);
                    prop_assert_eq!(received, Received::Octets(count));
                    let mut into = region.buffer.slice(1..1 + place.min(count)).to_vec();
                    into.extend_from_slice(&rest[..count.saturating_sub(place)]);
                    let expected: Vec<u8> = (read[way]..read[way] + count).map(|number| octet(way, number)).collect();
                    prop_assert!(into == expected);
                    read[way] += count;
                }
                Step::GiveBack => prop_assert_eq!(from.give_back().unwrap(), there == 0),
            }
            prop_assert_eq!(to.has_octets().unwrap(), sent[way] > read[way]);
        }
    }
}

/// The memory of a ring comes with what is written, page by page, and goes when it is given back.
#[test]
fn memory_is_counted_as_the_system_counts_it() {
    let size = RingSize::default();
    let (maker, file) = Ring::create(size).unwrap();
    let peer = Ring::open(&file, size).unwrap();
    let file = File::from(file);
    let taken = || file.metadata().unwrap().blocks() * 512;
    let mut space = vec![0; size.octets()];
    let mut pass = |octets: usize| {
        let mut left = octets;
        while left > 0 {
            left -= maker.write(&vec![1; left]).unwrap();
            peer.read(&mut space).unwrap();
        }
    };
    let mut since = 0;
    for octets in [1, 5000, 100_000, 1_000_000] {
        pass(octets);
        let (counted, until) = maker.memory_of(since, maker.written());
        assert_eq!(taken(), Ring::of_words() + counted);
        assert_eq!(until == u64::MAX, octets == 1_000_000);
        assert!(maker.give_back().unwrap());
        assert_eq!(taken(), Ring::of_words());
        since = maker.written();
    }
    maker.write(b"unread").unwrap();
    assert!(!maker.give_back().unwrap());
}

#[test]
fn the_words_say_who_wants_a_bell() {
    let (maker, peer, _file) = ends();
    // A reader that has not come yet wants one.
    maker.write(b"1").unwrap();
    assert!(maker.takes_bell().unwrap());
    maker.write(b"2").unwrap();
    assert!(!maker.takes_bell().unwrap(), "it was taken");
    // The octets came before the reader asked.
    assert!(peer.want_bell().unwrap());
    peer.read(&mut [0; 8]).unwrap();
    assert!(!peer.want_bell().unwrap());
    maker.write(b"3").unwrap();
    assert!(maker.takes_bell().unwrap());
    peer.want_no_bell().unwrap();
    maker.write(b"4").unwrap();
    assert!(!maker.takes_bell().unwrap());

    // Room.
    while maker.write(&[0; 100]).unwrap() > 0 {}
    assert!(!peer.takes_room_bell().unwrap(), "nobody waits");
    assert!(!maker.await_room().unwrap());
    let mut half = [0; SMALL / 2 - 1];
    assert_eq!(peer.read(&mut half).unwrap(), (half.len(), false));
    assert!(!maker.await_room().unwrap());
    assert_eq!(peer.read(&mut [0]).unwrap(), (1, true));
    assert!(peer.takes_room_bell().unwrap());
    assert!(!peer.takes_room_bell().unwrap(), "it was taken");
    assert!(maker.await_room().unwrap());
    assert!(!peer.takes_room_bell().unwrap(), "it needs none");
}

#[test]
fn the_end_comes_behind_the_octets() {
    let (maker, peer, _file) = ends();
    peer.write(b"last").unwrap();
    assert!(!maker.is_closed().unwrap());
    peer.close().unwrap();
    assert!(maker.is_closed().unwrap() && maker.has_octets().unwrap());
    let mut octets = [0; 8];
    assert_eq!(maker.read(&mut octets).unwrap().0, 4);
    assert_eq!(&octets[..4], b"last");
    assert!(maker.want_bell().unwrap(), "the end needs no bell");
    assert!(!peer.is_closed().unwrap(), "the other direction goes on");
}

/// Nothing is read or written outside of the ring, and no loop is endless.
#[test]
fn an_index_that_no_ring_has_ends_the_connection() {
    let broken = |result: std::io::Result<bool>| {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ConnectionReset);
    };
    for tail in [SMALL as u64 + 1, u64::MAX, 1 << 63] {
        let (_maker, peer, file) = ends();
        overwrite(&file, TAIL, tail);
        broken(peer.has_octets());
        broken(peer.read(&mut [0; 8]).map(|_| true));
        broken(peer.want_bell());
        let region = Region::new(&[0; 64]);
        let received = peer.receive(&region.table, region.span(0, 64), &mut []);
        broken(received.map(|_| true));
    }
    for (tail, then) in [(10, 9), (10, SMALL as u64 + 11)] {
        let (_maker, peer, file) = ends();
        overwrite(&file, TAIL, tail);
        assert_eq!(peer.read(&mut [0; 10]).unwrap().0, 10);
        overwrite(&file, TAIL, then);
        broken(peer.has_octets());
    }
    for head in [101, u64::MAX, SMALL as u64 * 2] {
        let (maker, _peer, file) = ends();
        maker.write(&[7; 100]).unwrap();
        overwrite(&file, HEAD, head);
        broken(maker.write(&[7; SMALL]).map(|_| true));
        broken(maker.await_room());
    }
    // Own indices are never read back.
    let (maker, peer, file) = ends();
    maker.write(b"one").unwrap();
    overwrite(&file, OF_BACK + TAIL, 0);
    peer.write(b"back").unwrap();
    overwrite(&file, TAIL, 0);
    maker.write(b"two").unwrap();
    let mut octets = [0; 8];
    assert_eq!(peer.read(&mut octets).unwrap().0, 6);
    assert_eq!(&octets[..6], b"onetwo");
    assert_eq!(maker.read(&mut octets).unwrap().0, 4);
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Both ends are served while another process writes anything into all words. The connection may stall or break, and nothing else happens: no
/// call takes more than there is, or panics, or does not end.
#[test]
fn words_that_change_at_random_stall_or_end_a_connection() {
    for seed in 1..20 {
        let (maker, peer, file) = ends();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(seed);
                while !is_done.load(Ordering::Relaxed) {
                    let at = random.below(2 * OF_BACK / 8) * 8;
                    let word = match random.below(4) {
                        0 => random.next(),
                        1 => random.below(2),
                        _ => random.below(4 * SMALL as u64),
                    };
                    overwrite(&file, at, word);
                }
            });
            let end = |end: &Ring, seed: u64| {
                let region = Region::new(&[7; 2 * SMALL]);
                let mut random = Random(seed);
                for _ in 0..2000 {
                    let len = 1 + usize::try_from(random.below(2 * SMALL as u64 - 1)).unwrap();
                    let mut octets = vec![7; len];
                    let done = match random.below(8) {
                        // The other end may read meanwhile, so more than a ring holds.
                        0 | 1 => end.write(&octets).map(|count| assert!(count <= len)),
                        2 | 3 => end
                            .read(&mut octets)
                            .map(|(count, _)| assert!(count <= len)),
                        4 => {
                            let (mut batch, _) = batch_of(&region, &[len]);
                            end.send_from(&region.table, &mut batch).map(drop)
                        }
                        5 => {
                            let place = region.span(0, len);
                            end.receive(&region.table, place, &mut [0; 64]).map(drop)
                        }
                        6 => end.await_room().and(end.takes_bell()).map(drop),
                        _ => end.want_bell().and(end.takes_room_bell()).map(drop),
                    };
                    if let Err(error) = done {
                        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                    }
                }
            };
            // The words change until both are done, also if one of them fails.
            let ends = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let other = scope.spawn(move || end(&peer, seed + 100));
                end(&maker, seed + 200);
                other.join().unwrap();
            }));
            is_done.store(true, Ordering::Relaxed);
            ends.unwrap();
        });
    }
}

#[test]
fn a_hole_in_the_memory_is_zeroes() {
    let (maker, peer, file) = ends();
    maker.write(&[7; 100]).unwrap();
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, flags, 4096, SMALL as u64).unwrap();
    let mut octets = [1; 100];
    assert_eq!(peer.read(&mut octets).unwrap().0, 100);
    assert_eq!(octets, [0; 100]);
    peer.write(b"goes on").unwrap();
    assert_eq!(maker.read(&mut octets).unwrap().0, 7);
}

#[test]
fn a_file_that_is_not_sealed_or_no_memory_or_of_another_length_is_refused() {
    let size = RingSize::new(SMALL).unwrap();
    let refused = |file: &OwnedFd| {
        let error = Ring::open(file, size).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    };
    let (_maker, other) = Ring::create(RingSize::new(2 * SMALL).unwrap()).unwrap();
    refused(&other);
    let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
    let unsealed = rustix::fs::memfd_create("test", flags).unwrap();
    rustix::fs::ftruncate(&unsealed, 4096 + 2 * SMALL as u64).unwrap();
    refused(&unsealed);
    for seals in [
        rustix::fs::SealFlags::GROW,
        rustix::fs::SealFlags::SHRINK,
        rustix::fs::SealFlags::SEAL,
    ] {
        rustix::fs::fcntl_add_seals(&unsealed, seals).unwrap();
        if seals != rustix::fs::SealFlags::SEAL {
            refused(&unsealed);
        }
    }
    Ring::open(&unsealed, size).unwrap();
    let plain = tempfile();
    refused(&plain);
    let (socket, _end) = std::os::unix::net::UnixStream::pair().unwrap();
    refused(&socket.into());
}

fn tempfile() -> OwnedFd {
    let folder = rustix::fs::open(
        std::env::temp_dir(),
        rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR,
        rustix::fs::Mode::RUSR,
    );
    folder.expect("a file without a name")
}

fn pattern(len: usize) -> Vec<u8> {
    (0..251_u8).cycle().take(len).collect()
}

/// FPDUs with payload of these lengths, and all octets of them.
fn batch_of(region: &Region, lengths: &[usize]) -> (Batch, Vec<u8>) {
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    let mut at = 0;
    for &len in lengths {
        batch.push_bytes(b"header", false);
        batch.push_payload(region.span(at, len), false);
        batch.push_bytes(b"end", true);
        all.extend_from_slice(b"header");
        all.extend(region.buffer.slice(at..at + len).to_vec());
        all.extend_from_slice(b"end");
        at += len;
    }
    (batch, all)
}

/// What is sent of a batch, and how long it takes, does not change what arrives; the memory of an FPDU that has begun is not needed any more.
#[test]
fn batches_from_registered_memory_arrive_whatever_the_room() {
    for filled in [0, 1, 100, SMALL / 2, SMALL - 1] {
        let (maker, peer, _file) = ends();
        let region = Region::new(&pattern(4 * SMALL));
        let (mut batch, expected) = batch_of(&region, &[300, 1, 2 * SMALL]);
        maker.write(&vec![0; filled]).unwrap();
        let mut arrived = Vec::new();
        let mut octets = [0; 333];
        let mut begun = None;
        while arrived.len() < filled + expected.len() {
            let (_, outcome) = maker.send_from(&region.table, &mut batch).unwrap();
            assert_ne!(outcome, Sent::Revoked);
            if batch.head_is_cut() && begun.is_none() {
                begun = Some(region.buffer.to_vec());
                region.buffer.fill(0xEE);
            }
            let (count, _) = peer.read(&mut octets).unwrap();
            arrived.extend_from_slice(&octets[..count]);
        }
        assert!(arrived[filled..] == expected, "{filled}");
        assert!(batch.is_empty());
        assert!(begun.is_some(), "an FPDU is longer than the ring");
    }
}

#[test]
fn memory_that_is_gone_before_its_fpdu_has_begun_is_not_sent() {
    let (maker, peer, _file) = ends();
    let region = Region::new(&[7; 64]);
    let (mut batch, _) = batch_of(&region, &[64]);
    region.region.deregister().unwrap();
    let sent = maker.send_from(&region.table, &mut batch).unwrap();
    assert_eq!(sent, (0, Sent::Revoked));
    assert!(batch.is_empty() && !peer.has_octets().unwrap());
}
