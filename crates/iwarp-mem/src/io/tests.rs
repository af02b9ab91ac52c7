use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use iwarp::{LocalAccess, Memory, Pd, Sge};
use rdma_buffer::Buffer;
use rustix::fd::{AsFd, OwnedFd};
use socket2::SockRef;

use super::*;
use test_memory::Blocks;

use crate::outgoing::by_hand::Batch;
use crate::{Registration, Rights};

const PD: Pd = Pd(1);

/// The numbers of a linear congruential generator. They vary the sizes, and are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn octets(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .map(|_| u8::try_from(self.below(256)).unwrap())
            .collect()
    }
}

/// A stream whose two ends need no address; Windows has none.
#[cfg(unix)]
type Stream = UnixStream;
#[cfg(windows)]
type Stream = TcpStream;

#[cfg(unix)]
fn pair() -> (Stream, Stream) {
    UnixStream::pair().unwrap()
}

#[cfg(windows)]
fn pair() -> (Stream, Stream) {
    tcp_pair()
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    (client, server)
}

/// A connected pair whose first end takes little at a time. Neither end waits: when the first one is full, the second one need not have octets,
/// because TCP also counts those that arrived and were not acknowledged yet.
fn narrow_pair() -> (Stream, Stream) {
    let (tx, rx) = pair();
    SockRef::from(&tx).set_send_buffer_size(1).unwrap();
    tx.set_nonblocking(true).unwrap();
    rx.set_nonblocking(true).unwrap();
    (tx, rx)
}

fn register(table: &Table, octets: &[u8]) -> (Buffer, Registration) {
    let buffer = Buffer::new(octets.len());
    buffer.write(0, octets);
    let region = table.register(&buffer, Rights::empty(), PD).unwrap();
    (buffer, region)
}

fn span(table: &Table, region: &Registration, at: usize, len: usize) -> Span {
    let length = u32::try_from(len).unwrap();
    let sge = Sge {
        token: region.stag(),
        address: region.base() + at as u64,
        length,
    };
    table.check_local(sge, LocalAccess::Read, PD).unwrap()
}

/// Reads at most `limit` octets of those that have arrived.
fn receive(rx: &mut Stream, into: &mut Vec<u8>, limit: usize) {
    let mut some = vec![0; limit];
    match rx.read(&mut some) {
        Ok(count) => {
            assert!(count > 0, "the end");
            into.extend_from_slice(&some[..count]);
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
        Err(error) => panic!("{error}"),
    }
}

/// Reads to the end, which comes when the other end is dropped.
fn receive_all(mut rx: Stream, mut before: Vec<u8>) -> Vec<u8> {
    rx.set_nonblocking(false).unwrap();
    rx.read_to_end(&mut before).unwrap();
    before
}

/// All octets arrive in order, no matter how many the socket takes at a time, from own, unaligned and foreign memory.
#[test]
fn partial_writes_lose_nothing() {
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let table = Table::new();
        let content = numbers.octets(9000);
        let (whole, _keep) = register(&table, &content);
        let unaligned = table
            .register(&whole.slice(3..), Rights::empty(), PD)
            .unwrap();
        let mut foreign = content.clone();
        // SAFETY: nothing else touches `foreign` before the registration is gone.
        let foreign_buffer = unsafe { Buffer::from_raw_parts(foreign.as_mut_ptr(), foreign.len()) };
        let foreign_region = table
            .register(&foreign_buffer, Rights::empty(), PD)
            .unwrap();

        let (mut batch, mut expected) = (Batch::default(), Vec::new());
        for _ in 0..60 {
            let header = numbers.below(40) + 1;
            let header = numbers.octets(header);
            batch.push_bytes(&header, false);
            expected.extend_from_slice(&header);
            for _ in 0..numbers.below(4) {
                let at = numbers.below(6000);
                let len = numbers.below(2900) + 1;
                let (region, shift) = if numbers.below(2) == 0 {
                    (&unaligned, 3)
                } else {
                    (&foreign_region, 0)
                };
                batch.push_payload(span(&table, region, at, len), false);
                expected.extend_from_slice(&content[at + shift..at + shift + len]);
            }
            batch.push_bytes(&[0xcc; 4], true);
            expected.extend_from_slice(&[0xcc; 4]);
        }

        let (tx, mut rx) = narrow_pair();
        let (mut arrived, mut sent, mut cuts) = (Vec::new(), 0, 0);
        loop {
            let (count, outcome) = send_from(tx.as_fd(), &table, &mut batch, None).unwrap();
            sent += count;
            cuts += usize::from(batch.cut);
            assert!(
                batch.cut_is_private(),
                "seed {seed}: registered memory is needed after the call"
            );
            match outcome {
                Sent::All => break,
                Sent::Partly => assert!(count > 0),
                Sent::WouldBlock => receive(&mut rx, &mut arrived, numbers.below(5000) + 1),
                Sent::Revoked => panic!("seed {seed}: nothing was revoked"),
            }
        }
        drop(tx);
        let arrived = receive_all(rx, arrived);
        assert_eq!(sent, expected.len() as u64);
        assert!(arrived == expected, "seed {seed}: other octets arrived");
        assert!(
            cuts > 0,
            "seed {seed}: no FPDU was cut, the test tests nothing"
        );
    }
}

/// The list ends in front of an FPDU whose memory is gone. The result is `Revoked` only if this FPDU is the first.
#[test]
fn revoked_memory_ends_the_list() {
    let table = Table::new();
    let (_a, stays) = register(&table, &[1; 100]);
    let (_b, goes) = register(&table, &[2; 100]);
    let mut batch = Batch::default();
    for region in [&stays, &stays, &goes, &stays] {
        batch.push_bytes(b"head", false);
        batch.push_payload(span(&table, &stays, 0, 10), false);
        batch.push_payload(span(&table, region, 7, 50), false);
        batch.push_bytes(b"tail", true);
    }
    goes.deregister().unwrap();

    let (tx, rx) = pair();
    assert_eq!(
        send_from(tx.as_fd(), &table, &mut batch, None).unwrap(),
        (2 * 68, Sent::Partly)
    );
    assert!(!batch.cut);
    assert_eq!(batch.parts.len(), 8);
    for expected in [Sent::Revoked, Sent::All] {
        let sent = send_from(tx.as_fd(), &table, &mut batch, None).unwrap();
        assert_eq!(sent, (0, expected));
        assert!(batch.parts.is_empty());
    }
    drop(tx);
    assert_eq!(receive_all(rx, Vec::new()).len(), 2 * 68);
}

/// MR-034: after a partial write a Deregister finds no pin, and the FPDU that has begun is finished from a private copy.
#[test]
fn cut_fpdu_outlives_its_memory() {
    /// More than the buffers of a connection over TCP take.
    const LEN: usize = 1_000_000;
    let table = Table::new();
    let content = Numbers(1).octets(LEN);
    let (buffer, region) = register(&table, &content);
    let mut batch = Batch::default();
    batch.push_bytes(b"head", false);
    batch.push_payload(span(&table, &region, 0, LEN), false);
    batch.push_bytes(b"tail", true);

    let (tx, mut rx) = narrow_pair();
    let (sent, outcome) = send_from(tx.as_fd(), &table, &mut batch, None).unwrap();
    assert!(
        sent > 0 && outcome == Sent::WouldBlock && batch.cut,
        "{sent} {outcome:?}"
    );
    region.deregister().unwrap();
    buffer.fill(0xee);
    let mut arrived = Vec::new();
    loop {
        match send_from(tx.as_fd(), &table, &mut batch, None).unwrap() {
            (_, Sent::All) => break,
            (_, Sent::Revoked) => panic!("what was begun has to be finished"),
            _ => receive(&mut rx, &mut arrived, 100_000),
        }
    }
    drop(tx);
    let arrived = receive_all(rx, arrived);
    assert!(arrived == [b"head", &content[..], b"tail"].concat());
}

/// An FPDU of more pieces, in more regions, than one call takes.
#[test]
fn fpdu_longer_than_the_list() {
    let table = Table::new();
    let regions: Vec<_> = (0..=255).map(|i| register(&table, &[i; 3])).collect();
    let fill = |table: &Table, batch: &mut Batch| {
        for (_, region) in &regions {
            batch.push_payload(span(table, region, 1, 2), false);
            batch.push_bytes(b"-", false);
        }
        batch.push_bytes(b"end", true);
    };
    let mut batch = Batch::default();
    batch.push_bytes(b"small", true);
    fill(&table, &mut batch);
    fill(&table, &mut batch);
    let expected: Vec<u8> = (0..=255)
        .flat_map(|i| [i, i, b'-'])
        .chain(*b"end")
        .collect();

    let (tx, rx) = pair();
    // Whole FPDUs, as long as whole ones are left.
    assert_eq!(
        send_from(tx.as_fd(), &table, &mut batch, None).unwrap(),
        (5, Sent::Partly)
    );
    let mut calls = 0;
    while send_from(tx.as_fd(), &table, &mut batch, None).unwrap().1 != Sent::All {
        assert!(batch.cut_is_private());
        calls += 1;
    }
    assert!(calls < 2 * regions.len(), "{calls}");
    // Memory far behind the pieces of one call is gone. No octet may leave then, because the FPDU could not be finished.
    fill(&table, &mut batch);
    let mut regions = regions;
    regions.remove(250).1.deregister().unwrap();
    assert_eq!(
        send_from(tx.as_fd(), &table, &mut batch, None).unwrap(),
        (0, Sent::Revoked)
    );
    drop(tx);
    let arrived = receive_all(rx, Vec::new());
    assert!(arrived == [b"small", &expected[..], &expected].concat());
}

/// Neighbouring octets of the batch become one piece, unless the list ends between them.
#[test]
fn neighbouring_octets_join() {
    let octets = [7; 100];
    let mut list = List::new();
    list.push_octets(&octets[..10]);
    list.push_octets(&octets[10..30]);
    let mark = list.mark();
    list.push_octets(&octets[30..50]);
    list.push_octets(&octets[60..]);
    assert_eq!(
        (
            list.pieces.len(),
            list.pieces[0].len(),
            list.pieces[1].len()
        ),
        (2, 50, 40)
    );
    list.cut_back(mark);
    assert_eq!((list.pieces.len(), list.pieces[0].len()), (1, 30));
    // Registered memory never joins a piece, even if it happens to follow in memory.
    list.push_shared(octets[30..].as_ptr().cast_mut(), 5);
    list.push_octets(&octets[35..40]);
    assert_eq!(list.pieces.len(), 3);
}

/// The peer goes, without an orderly end where the stream is one of TCP.
fn reset(mut tx: &Stream, rx: Stream) {
    if cfg!(windows) {
        SockRef::from(&rx).set_linger(Some(Duration::ZERO)).unwrap();
    }
    drop(rx);
    // Until the reset is here; wine takes it for an orderly end.
    assert!(tx.read(&mut [0]).unwrap_or(0) == 0);
}

/// If the peer is gone, the call returns an error, and the batch is unchanged.
#[test]
fn broken_connection_is_an_error() {
    let table = Table::new();
    let (tx, rx) = pair();
    reset(&tx, rx);
    let mut batch = Batch::default();
    batch.push_bytes(b"lost", true);
    let error = send_from(tx.as_fd(), &table, &mut batch, None).unwrap_err();
    let kinds = [
        ErrorKind::BrokenPipe,
        ErrorKind::ConnectionReset,
        ErrorKind::ConnectionAborted,
    ];
    assert!(kinds.contains(&error.kind()), "{error}");
    assert_eq!(batch.parts.len(), 1);
    let mut nothing = TxBatch::with_capacity(1024, 4);
    assert_eq!(
        send(tx.as_fd(), &table, &mut nothing, None).unwrap(),
        (0, Sent::All)
    );
}

/// Octets that are read go to the place first, and then into the rest.
#[test]
fn octets_are_read_to_their_place() {
    let (mut tx, rx) = pair();
    let table = Table::new();
    let (buffer, region) = register(&table, &[0; 100]);
    let mut rest = [0; 20];
    let mut read = |place| super::receive(rx.as_fd(), &table, place, &mut rest);
    let place = span(&table, &region, 33, 10);
    rx.set_nonblocking(true).unwrap();
    assert_eq!(
        read(place).unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "there is nothing yet"
    );
    // On Windows the calls wait from here on.
    rx.set_nonblocking(false).unwrap();
    tx.write_all(b"0123").unwrap();
    assert_eq!(read(place).unwrap(), Received::Octets(4));
    tx.write_all(b"456789abc").unwrap();
    let place = place.slice(4, 6);
    assert_eq!(read(place).unwrap(), Received::Octets(9));
    drop(tx);
    assert_eq!(read(place).unwrap(), Received::Octets(0), "the end");
    assert_eq!(rest[..4], *b"abc\0");
    let content = buffer.to_vec();
    assert_eq!(content[33..43], *b"0123456789");
    assert!(
        content[..33]
            .iter()
            .chain(&content[43..])
            .all(|octet| *octet == 0)
    );
}

/// After Deregister nothing is read, so that no octet is lost.
#[test]
fn nothing_is_read_to_memory_that_is_gone() {
    let (mut tx, rx) = pair();
    let table = Table::new();
    let (buffer, region) = register(&table, &[0; 100]);
    let place = span(&table, &region, 0, 10);
    region.deregister().unwrap();
    tx.write_all(b"0123456789").unwrap();
    let read = super::receive(rx.as_fd(), &table, place, &mut [0; 20]);
    assert_eq!(read.unwrap(), Received::Revoked);
    assert_eq!(buffer.to_vec(), [0; 100]);
    let mut waiting = [0; 10];
    (&rx).read_exact(&mut waiting).unwrap();
    assert_eq!(waiting, *b"0123456789");
}

/// Connected sockets of each kind that the engine's streams have.
fn kinds_of_pairs() -> [(OwnedFd, OwnedFd); 2] {
    let (tx, rx) = pair();
    let (client, server) = tcp_pair();
    [(tx.into(), rx.into()), (client.into(), server.into())]
}

/// Reads this many octets, and waits for them.
fn read_exactly(rx: &OwnedFd, count: usize) -> Vec<u8> {
    let mut octets = vec![0; count];
    let mut have = 0;
    while have < count {
        let (more, _) =
            rustix::net::recv(rx, &mut octets[have..], rustix::net::RecvFlags::empty()).unwrap();
        assert!(more > 0, "the end, with {have} of {count}");
        have += more;
    }
    octets
}

/// Three blocks of memory, of which the second one is not mapped any more, as one region.
fn with_a_hole(table: &Table) -> Registration {
    let blocks = Blocks::new(3);
    let buffer = blocks.buffer();
    buffer.slice(..Blocks::BLOCK).fill(1);
    buffer.slice(2 * Blocks::BLOCK..).fill(3);
    let region = table.register(&buffer, Rights::all(), PD).unwrap();
    blocks.take_away(1);
    region
}

/// Memory that the application has unmapped fails only the FPDU that names it. Those before it arrive, and the socket stays as it is.
#[test]
fn unmapped_memory_is_refused_as_revoked() {
    for (tx, rx) in kinds_of_pairs() {
        let table = Table::new();
        let region = with_a_hole(&table);
        let good = |at: usize| span(&table, &region, at, 3000);
        let mut batch = Batch::default();
        for place in [
            good(0),
            good(2 * Blocks::BLOCK),
            good(Blocks::BLOCK),
            good(0),
        ] {
            batch.push_bytes(b"head", false);
            batch.push_payload(place, false);
            batch.push_bytes(b"tail", true);
        }
        let mut sent = 0;
        loop {
            let (count, outcome) = send_from(tx.as_fd(), &table, &mut batch, None).unwrap();
            sent += count;
            match outcome {
                Sent::Partly => assert!(count > 0, "no call without progress"),
                Sent::Revoked => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(sent, 2 * 3008);
        assert!(batch.is_empty() && !batch.abandoned);
        let expected = [
            b"head",
            &[1; 3000][..],
            b"tail",
            b"head",
            &[3; 3000],
            b"tail",
        ];
        assert!(read_exactly(&rx, 2 * 3008) == expected.concat());

        batch.push_bytes(b"next", true);
        let after = send_from(tx.as_fd(), &table, &mut batch, None).unwrap();
        assert_eq!(after, (4, Sent::All));
        assert_eq!(read_exactly(&rx, 4), b"next");
    }
}

/// An FPDU that has begun cannot be finished if its end is not mapped. Our own copies do not touch that memory, because the access would
/// end the process. Windows sends nothing of a list with such memory, so that no FPDU is cut.
#[cfg(unix)]
#[test]
fn a_cut_fpdu_with_unmapped_memory_is_abandoned() {
    for (tx, rx) in kinds_of_pairs() {
        SockRef::from(&tx).set_send_buffer_size(200_000).unwrap();
        let table = Table::new();
        let blocks = Blocks::new(3);
        let buffer = blocks.buffer();
        buffer.fill(1);
        let region = table.register(&buffer, Rights::all(), PD).unwrap();
        blocks.take_away(2);
        let mut batch = Batch::default();
        batch.push_bytes(b"head", false);
        // The system takes this in portions of at most a block, so that the first one is mapped.
        batch.push_payload(span(&table, &region, 0, 3 * Blocks::BLOCK), false);
        batch.push_bytes(b"tail", true);
        batch.push_bytes(b"other", true);
        let sent = send_from(tx.as_fd(), &table, &mut batch, None);
        assert_eq!(
            sent.unwrap_err().raw_os_error(),
            Some(Errno::FAULT.raw_os_error())
        );
        assert!(batch.is_empty() && batch.abandoned);
        drop(tx);
        assert_eq!(read_exactly(&rx, 5), b"head\x01");
    }
}

/// A receive that hits memory which the application has unmapped takes nothing from the socket.
#[test]
fn nothing_is_read_to_unmapped_memory() {
    for (tx, rx) in kinds_of_pairs() {
        let table = Table::new();
        let region = with_a_hole(&table);
        let octets: Vec<u8> = (0..100).collect();
        assert_eq!(
            rustix::net::send(&tx, &octets, system::octet_flags(false)).unwrap(),
            100
        );
        rustix::net::recv(&rx, &mut [0; 100], rustix::net::RecvFlags::PEEK).unwrap();
        let mut rest = [0; 20];
        for place in [
            span(&table, &region, Blocks::BLOCK, 50),
            // It begins in memory that is mapped.
            span(&table, &region, Blocks::BLOCK - 10, 50),
        ] {
            let read = super::receive(rx.as_fd(), &table, place, &mut rest);
            assert_eq!(read.unwrap(), Received::Unmapped);
        }
        let place = span(&table, &region, 0, 50);
        let read = super::receive(rx.as_fd(), &table, place, &mut rest);
        assert_eq!(read.unwrap(), Received::Octets(70));
        assert_eq!(rest[..], octets[50..70]);
        assert_eq!(read_exactly(&rx, 30), octets[70..]);
    }
}
