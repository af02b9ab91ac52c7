//! The stream without an endpoint: which octets are read to which place, over a pair of connected sockets.

mod arming;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use iwarp::{
    Confirmations, CopiedPayload, Event, Fault, InitiatorWqe, Markers, Operation, OwnQueue,
    Payload, Pd, QueueSizes, ReadLimits, Ready, RemoteAddress, Role, STag, Scope, Sge,
    StreamConfig, StreamId, WqeStatus,
};
use iwarp_mem::{Registration, Rights, Table};
use rdma_buffer::Buffer;
use test_memory::Blocks;

use super::*;
use crate::capture::FlowRole;
use crate::endpoint::COPIED_BELOW;
use crate::transport::Transport;
use crate::transport::local_ports::bind;
use crate::transport::pipe::Pipes;
use crate::transport::purpose::Purpose;

const PD: Pd = Pd(1);

#[test]
fn staging_begins_where_the_kernel_copies_fast() {
    let (address, len) = with_staging(|staging| (staging.as_ptr().addr(), staging.len()));
    assert_eq!(address % Buffer::PAGE, Buffer::PAGE_OFFSET);
    assert_eq!(len, STAGING);
}

#[test]
fn reads_end_where_fpdus_of_the_same_length_end() {
    assert_eq!(worth_reading(0, 20, 0, 1000), 1000);
    assert_eq!(worth_reading(0, 20, 300, 1000), 900);
    assert_eq!(worth_reading(5, 300, 0, 1000), 895);
    assert_eq!(worth_reading(5, 2, 300, 1000), 995);
    assert_eq!(worth_reading(400, 2000, 0, 1000), 600);
    assert_eq!(worth_reading(999, 1000, 0, 1000), 1);
}

/// A connection that is in full operation.
fn begun(role: Role, copied: CopiedPayload) -> Connection {
    let sizes = QueueSizes {
        initiator_depth: 4,
        receive_depth: 4096,
        initiator_sges: 1,
        receive_sges: 1,
        read_sges: 1,
        inline: 0,
        max_transfer: 1 << 20,
    };
    let scope = Scope {
        pd: PD,
        stream: StreamId(1),
    };
    let mut connection = Connection::new(sizes, scope).unwrap();
    connection.start(StreamConfig {
        role,
        crc: false,
        markers: Markers::NONE,
        limits: ReadLimits { ird: 4, ord: 4 },
        ready: Some(Ready::Write),
        recognition: iwarp::Recognition::Never,
        receive_wait: Duration::MAX,
        copied,
        copied_below: COPIED_BELOW,
        confirmations: Confirmations::Off,
        early: EARLY,
    });
    connection
}

/// Both ends of a stream, the first one as a wire.
fn streams() -> (Stream, Stream) {
    let transport = Transport::Pipe(Pipes::default());
    let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let bound = bind(&transport, local, Purpose::Listening).unwrap();
    let at = bound.local().unwrap();
    let listener = bound.listen().unwrap();
    let from = bind(&transport, local, Purpose::Connecting).unwrap();
    let dialer = from.connect(at).unwrap();
    let passive = listener.accept().unwrap();
    let active = dialer.into_wire().unwrap();
    (
        Stream::new(active, FlowRole::Active, None),
        Stream::new(passive, FlowRole::Passive, None),
    )
}

const RIGHTS: Rights = Rights::LOCAL_WRITE.union(Rights::REMOTE_WRITE);

/// The octets that a peer sends to write these octets.
fn written(octets: &[u8], remote: RemoteAddress) -> Vec<u8> {
    of_a_peer(octets, |data| Operation::Write { data, remote })
}

/// The octets that a peer sends for a request with these octets.
fn of_a_peer(
    octets: &[u8],
    operation: impl FnOnce(Payload<'_>) -> Operation<Payload<'_>>,
) -> Vec<u8> {
    let table = Table::new();
    let source = Buffer::new(octets.len());
    source.write(0, octets);
    let region = table.register(&source, RIGHTS, PD).unwrap();
    let mut peer = begun(Role::Initiator, CopiedPayload::All);
    peer.send_ready();
    let data = [Sge {
        token: region.stag(),
        address: region.base(),
        length: octets.len().try_into().unwrap(),
    }];
    let request = InitiatorWqe {
        context: 1,
        operation: operation(Payload::Sges(&data)),
        silent: false,
        fence: false,
    };
    peer.post_initiator(request).unwrap();
    let mut batch = TxBatch::with_capacity(2 * octets.len(), 4);
    let limit = TxLimit {
        octets: 2 * octets.len(),
        fpdus: 4,
        mulpdu: 64_768,
    };
    peer.poll_transmit(&table, limit, &mut batch);
    batch.octets().unwrap().to_vec()
}

/// The octets of a message and of the front of a long FPDU, which contain the place of the other octets.
const FIRST: usize = 100;

/// If page offsets matter, the kernel does not read payload to memory at a place to which its copy may be slow.
#[test]
fn payload_is_read_to_its_place_where_the_kernel_copies_fast() {
    const LEN: usize = 40_000;
    let room = Buffer::new(LEN + 2 * Buffer::PAGE);
    let front = room.as_ptr().addr().wrapping_neg() % Buffer::PAGE;
    let octets: Vec<u8> = (0..251).cycle().take(LEN).collect();
    for (offset, is_slow) in [
        (0, true),
        (16, true),
        (1024, false),
        (2048, false),
        (4080, true),
    ] {
        for copied in [CopiedPayload::None, CopiedPayload::AtSlowPlaces] {
            let buffers = Buffers::new(Arc::new(Table::new()));
            let memory = room.slice(front + offset..front + offset + LEN);
            memory.write(0, &[0; LEN]);
            let target = buffers.table().register(&memory, RIGHTS, PD).unwrap();
            let remote = RemoteAddress {
                stag: target.stag(),
                to: target.base(),
            };
            let frames = written(&octets, remote);
            let (first, rest) = frames.split_at(FIRST);

            let (active, passive) = streams();
            let mut connection = begun(Role::Responder, copied);
            let mut io = StreamIo::new(passive, true, &buffers);
            let mut arrives = |octets: &[u8]| {
                active.send_frame(octets).unwrap();
                io.note(Edges::READ);
                let visit = io.receive(&mut connection, &buffers, OwnQueue);
                assert_eq!(visit.unwrap(), Visit::Finished);
                (io.directly, connection.next_place().is_some())
            };
            assert_eq!(arrives(first), (false, true), "the place is known");
            // One octet is missing, so that the read is the last one.
            let (most, last) = rest.split_at(rest.len() - 1);
            let (directly, _) = arrives(most);
            let is_fast = !(copied == CopiedPayload::AtSlowPlaces && is_slow);
            assert_eq!(directly, is_fast, "at {offset}, {copied:?}");
            arrives(last);
            assert_eq!(memory.to_vec(), octets);
        }
    }
}

/// The window is opened once a stream is long, and only if its payload is then read straight to its place, which depends on the processor.
#[test]
fn the_window_is_opened_for_short_reads_of_a_long_stream() {
    const LEN: usize = 40_000;
    for before in [0, SHORT_STREAM] {
        let buffers = Buffers::new(Arc::new(Table::new()));
        let memory = Buffer::new(LEN);
        let target = buffers.table().register(&memory, RIGHTS, PD).unwrap();
        let remote = RemoteAddress {
            stag: target.stag(),
            to: target.base(),
        };
        let frames = written(&[7; LEN], remote);
        let (first, rest) = frames.split_at(FIRST);
        let (active, passive) = streams();
        let mut connection = begun(Role::Responder, CopiedPayload::None);
        let mut io = StreamIo::new(passive, true, &buffers);
        io.since_quiet = before;
        for octets in [first, rest] {
            active.send_frame(octets).unwrap();
            io.note(Edges::READ);
            let visit = io.receive(&mut connection, &buffers, OwnQueue);
            assert_eq!(visit.unwrap(), Visit::Finished);
        }
        assert_eq!(memory.to_vec(), [7; LEN]);
        let is_opened = before > 0 && prefers_strings();
        assert_eq!(io.window_is_open, is_opened, "{before} octets before");
    }
}

/// The FPDU of a Write of one octet, or of none.
fn tiny_write(octets: &[u8], remote: RemoteAddress) -> Vec<u8> {
    let mut fpdu = vec![0, 14 + u8::try_from(octets.len()).unwrap(), 0xc1, 0x40];
    fpdu.extend(remote.stag.0.to_be_bytes());
    fpdu.extend(remote.to.to_be_bytes());
    fpdu.extend(octets);
    fpdu.resize(fpdu.len().next_multiple_of(4) + 4, 0);
    fpdu
}

/// The FPDU of the Send with this number, which has no octets.
fn empty_send(number: u32) -> Vec<u8> {
    let mut fpdu = vec![0, 18, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0];
    fpdu.extend(number.to_be_bytes());
    fpdu.extend([0; 8]);
    fpdu
}

/// However short FPDUs are, a visit handles this many of them and no more; the rest is handled without a further edge.
#[test]
fn a_visit_is_bounded_by_fpdus() {
    const COUNT: u64 = 3 * FPDUS as u64 + 1;
    let memory = Buffer::new(8);
    for kind in 0..3 {
        let buffers = Buffers::new(Arc::new(Table::new()));
        let target = buffers.table().register(&memory, RIGHTS, PD).unwrap();
        let remote = RemoteAddress {
            stag: target.stag(),
            to: target.base(),
        };
        let frames: Vec<u8> = (1..=u32::try_from(COUNT).unwrap())
            .flat_map(|number| match kind {
                0 => tiny_write(b"", remote),
                1 => tiny_write(b".", remote),
                _ => empty_send(number),
            })
            .collect();
        let (active, passive) = streams();
        let mut connection = begun(Role::Responder, CopiedPayload::None);
        for context in 0..COUNT {
            connection.post_receive(context, &[]).unwrap();
        }
        let mut io = StreamIo::new(passive, true, &buffers);
        active.send_frame(&frames).unwrap();
        io.note(Edges::READ);
        let mut visits = Vec::new();
        loop {
            let before = connection.counters().received.fpdus;
            let visit = io.receive(&mut connection, &buffers, OwnQueue).unwrap();
            let handled = connection.counters().received.fpdus - before;
            let activity = io.take_activity();
            assert!(activity.any && activity.work >= FPDU * usize::try_from(handled).unwrap());
            visits.push(handled);
            if visit == Visit::Finished {
                break;
            }
        }
        assert_eq!(
            visits,
            [FPDUS, FPDUS, FPDUS, 1].map(|fpdus| fpdus as u64),
            "kind {kind}"
        );
        assert!(connection.is_running());
    }
}

/// A stream of short FPDUs is read in portions of such a size that a visit leaves few octets to be copied.
#[test]
fn short_fpdus_are_read_by_their_number() {
    assert_eq!(worth_handling(FPDUS, 0), STAGING);
    assert_eq!(worth_handling(FPDUS, 20), FPDUS * 20);
    assert_eq!(worth_handling(1, 20), BEHIND);
}

/// Three blocks of registered memory, of which the application has unmapped the second one.
fn with_a_hole(buffers: &Buffers) -> Registration {
    let blocks = Blocks::new(3);
    let region = buffers
        .table()
        .register(&blocks.buffer(), Rights::all(), PD)
        .unwrap();
    blocks.take_away(1);
    region
}

/// The results and faults that a connection has reported to its client.
fn outcomes(connection: &mut Connection) -> (Vec<(u64, WqeStatus)>, Vec<Fault>) {
    let (mut completions, mut faults) = (Vec::new(), Vec::new());
    while let Some(event) = connection.poll_event() {
        match event {
            Event::Completed(completion) => {
                completions.push((completion.context, completion.status));
            }
            Event::Fault(fault) => faults.push(fault),
            _ => {}
        }
    }
    (completions, faults)
}

/// An initiator that sends in place, and its stream.
fn initiator(buffers: &Buffers) -> (Connection, StreamIo, Stream) {
    let (active, passive) = streams();
    let mut connection = begun(Role::Initiator, CopiedPayload::None);
    connection.send_ready();
    let mut io = StreamIo::new(active, true, buffers);
    io.mulpdu = Mulpdu::fixed(64_768);
    assert_eq!(
        io.transmit(&mut connection, buffers).unwrap(),
        Visit::Finished
    );
    (connection, io, passive)
}

fn post_write(connection: &mut Connection, context: u64, data: Sge) {
    let remote = RemoteAddress {
        stag: STag(7),
        to: 0,
    };
    let operation = Operation::Write {
        data: Payload::Sges(&[data]),
        remote,
    };
    let wqe = InitiatorWqe {
        context,
        operation,
        silent: false,
        fence: false,
    };
    connection.post_initiator(wqe).unwrap();
}

/// A Write from memory that the application has unmapped fails alone. The stream ends in good order, with a Terminate; requests posted
/// before it were sent, and requests posted after it are flushed.
#[test]
fn a_write_from_unmapped_memory_fails_and_not_the_stream() {
    let buffers = Buffers::new(Arc::new(Table::new()));
    let region = with_a_hole(&buffers);
    let (mut connection, mut io, passive) = initiator(&buffers);
    let block = Blocks::BLOCK as u64;
    for (context, at) in [(1, 0), (2, block), (3, 0)] {
        let data = Sge {
            token: region.stag(),
            address: region.base() + at,
            length: 20_000,
        };
        post_write(&mut connection, context, data);
    }
    let visit = io.transmit(&mut connection, &buffers);
    assert_eq!(visit.unwrap(), Visit::Finished);
    let (completions, faults) = outcomes(&mut connection);
    let expected = [
        (1, WqeStatus::Success),
        (2, WqeStatus::LocalAccess),
        (3, WqeStatus::Flushed),
    ];
    assert_eq!(completions, expected);
    assert_eq!(faults, [Fault::Local]);
    assert!(connection.write_side_done(), "the Terminate has left");
    io.close_write();
    let (mut octets, mut some) = (0, vec![0; 1 << 16]);
    loop {
        match passive.read(&mut some).unwrap() {
            0 => break,
            count => octets += count,
        }
    }
    // The Terminate is longer than the ready-to-receive message alone.
    assert!(octets > 20_000 + 40 && octets < 21_000, "{octets}");
}

/// A Write that runs from mapped into unmapped memory fails in the same way. If the system has accepted a part of its FPDU before, which
/// cannot be finished then, the stream breaks.
#[test]
fn a_write_that_runs_into_unmapped_memory_fails() {
    for before in [8, 5000, 50_000, 64_760] {
        let buffers = Buffers::new(Arc::new(Table::new()));
        let region = with_a_hole(&buffers);
        let (mut connection, mut io, passive) = initiator(&buffers);
        let data = Sge {
            token: region.stag(),
            address: region.base() + Blocks::BLOCK as u64 - before,
            length: 100_000,
        };
        post_write(&mut connection, 1, data);
        post_write(&mut connection, 2, Sge { length: 8, ..data });
        let visit = io.transmit(&mut connection, &buffers);
        match visit {
            Ok(visit) => assert_eq!(visit, Visit::Finished),
            Err(_) => connection.handle_stream_end(StreamEnd::Reset, 0),
        }
        let (completions, faults) = outcomes(&mut connection);
        let expected = [(1, WqeStatus::LocalAccess), (2, WqeStatus::Flushed)];
        assert_eq!(completions, expected, "{before}");
        assert_eq!(faults, [Fault::Local]);
        drop(passive);
    }
}

/// Octets for memory that the application has unmapped fail the Write or the Receive that they belong to, and the peer gets a Terminate.
/// Only the kernel copies to this memory: a copy by the process itself would end the process.
#[test]
fn octets_for_unmapped_memory_are_refused() {
    for is_send in [false, true] {
        let buffers = Buffers::new(Arc::new(Table::new()));
        let region = with_a_hole(&buffers);
        let place = Sge {
            token: region.stag(),
            address: region.base() + Blocks::BLOCK as u64 - 100,
            length: 40_000,
        };
        let frames = if is_send {
            of_a_peer(&[7; 40_000], |data| Operation::Send {
                data,
                solicited: false,
                invalidate: None,
            })
        } else {
            let remote = RemoteAddress {
                stag: place.token,
                to: place.address,
            };
            written(&[7; 40_000], remote)
        };
        // The ready-to-receive message and the header, which contains the place of the payload.
        let (first, rest) = frames.split_at(20 + 2 + if is_send { 18 } else { 14 });
        let (active, passive) = streams();
        let mut connection = begun(Role::Responder, CopiedPayload::None);
        for context in [5, 6] {
            connection.post_receive(context, &[place]).unwrap();
        }
        let mut io = StreamIo::new(passive, true, &buffers);
        for octets in [first, rest] {
            active.send_frame(octets).unwrap();
            io.note(Edges::READ);
            let visit = io.receive(&mut connection, &buffers, OwnQueue);
            assert_eq!(visit.unwrap(), Visit::Finished);
            assert_eq!(connection.next_place().is_some(), octets == first);
        }
        let (completions, faults) = outcomes(&mut connection);
        let expected = if is_send {
            (WqeStatus::LocalAccess, Fault::Local)
        } else {
            let fault = iwarp::ddp::TaggedError::InvalidSTag;
            (WqeStatus::Flushed, Fault::Tagged(fault))
        };
        let expected = ([(5, expected.0), (6, WqeStatus::Flushed)], [expected.1]);
        assert_eq!(
            (&completions[..], &faults[..]),
            (&expected.0[..], &expected.1[..])
        );
        let visit = io.transmit(&mut connection, &buffers);
        assert_eq!(visit.unwrap(), Visit::Finished);
        assert!(connection.write_side_done(), "the Terminate has left");
        assert!(active.read(&mut [0; 100]).unwrap() > 20);
    }
}
