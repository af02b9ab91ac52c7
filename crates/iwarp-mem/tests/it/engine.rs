//! The engine over real registered memory and a real socket: two connections in one thread, the batches sent by
//! `io::send` straight from the regions.

use std::{
    io::{ErrorKind, Read},
    os::{fd::AsFd, unix::net::UnixStream},
    time::Duration,
};

use iwarp::{
    Completion, Confirmations, Connection, CopiedPayload, Event, InitiatorWqe, Markers, Operation,
    OwnQueue, Payload, Pd, PieceRef, QueueSizes, ReadLimits, Ready, RemoteAddress, RequestKind,
    Role, Scope, Sge, StreamConfig, StreamId, TxBatch, TxLimit, WqeStatus,
};
use iwarp_mem::{Registration, Rights, Sent, Table, io};
use rdma_buffer::Buffer;
use socket2::SockRef;

const PD: Pd = Pd(1);
const LEN: usize = 1 << 20;

struct Side {
    table: Table,
    conn: Connection,
    batch: TxBatch,
    socket: UnixStream,
    staging: Vec<u8>,
    completions: Vec<Completion>,
    cuts: usize,
}

impl Side {
    fn new(role: Role, crc: bool, socket: UnixStream) -> Self {
        Self::on(role, (crc, CopiedPayload::None), socket)
    }

    /// With CRCs or without, and with this payload copied.
    fn on(role: Role, (crc, copied): (bool, CopiedPayload), socket: UnixStream) -> Self {
        // As little as the system allows at a time, so that writes are cut at many places.
        SockRef::from(&socket).set_send_buffer_size(1).unwrap();
        socket.set_nonblocking(true).unwrap();
        let sizes = QueueSizes {
            initiator_depth: 16,
            receive_depth: 16,
            initiator_sges: 4,
            receive_sges: 4,
            read_sges: 2,
            inline: 64,
            max_transfer: 1 << 30,
        };
        let mut conn = Connection::new(
            sizes,
            Scope {
                pd: PD,
                stream: StreamId(1),
            },
        )
        .unwrap();
        conn.start(StreamConfig {
            role,
            crc,
            markers: Markers::NONE,
            limits: ReadLimits { ird: 4, ord: 4 },
            ready: Some(Ready::Write),
            recognition: iwarp::Recognition::Never,
            receive_wait: Duration::ZERO,
            copied,
            copied_below: 4096,
            confirmations: Confirmations::Off,
            early: 40,
        });
        let batch = TxBatch::with_capacity(1 << 16, 16);
        Self {
            table: Table::new(),
            conn,
            batch,
            socket,
            staging: Vec::new(),
            completions: Vec::new(),
            cuts: 0,
        }
    }

    fn register(&self, octets: &[u8], rights: Rights) -> (Buffer, Registration) {
        let buffer = Buffer::new(octets.len());
        buffer.write(0, octets);
        let region = self.table.register(&buffer, rights, PD).unwrap();
        (buffer, region)
    }

    fn post(&mut self, context: u64, operation: Operation<Payload<'_>>) {
        self.conn
            .post_initiator(InitiatorWqe {
                context,
                operation,
                silent: false,
                fence: false,
            })
            .unwrap();
    }

    /// One turn: sends and receives as much as possible. Returns true if anything moved.
    fn turn(&mut self) -> bool {
        let limit = TxLimit {
            octets: 1 << 20,
            fpdus: 16,
            mulpdu: 64_768,
        };
        let mut moved = false;
        if self.batch.is_empty() {
            self.conn.poll_transmit(&self.table, limit, &mut self.batch);
        }
        if !self.batch.is_empty() {
            let (octets, sent) =
                io::send(self.socket.as_fd(), &self.table, &mut self.batch, None).unwrap();
            assert_ne!(sent, Sent::Revoked);
            assert_eq!(sent == Sent::All, self.batch.is_empty());
            self.conn.handle_transmitted(&mut self.batch);
            self.cuts += usize::from(self.batch.head_is_cut());
            moved |= octets > 0;
        }
        let mut some = [0; 50_000];
        match self.socket.read(&mut some) {
            Ok(count) => {
                self.staging.extend_from_slice(&some[..count]);
                moved |= count > 0;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        let used = self.conn.handle_bytes(&self.staging, &self.table, OwnQueue);
        self.staging.drain(..used);
        while let Some(event) = self.conn.poll_event() {
            match event {
                Event::Completed(completion) => {
                    self.completions.push(completion);
                    match completion.kind {
                        RequestKind::Receive => self.conn.free_receive_slots(1),
                        _ => self.conn.free_initiator_slots(1),
                    }
                }
                Event::Ready => {}
                other => panic!("{other:?}"),
            }
        }
        moved
    }
}

fn sge(region: &Registration, at: u64, length: usize) -> Sge {
    Sge {
        token: region.stag(),
        address: region.base() + at,
        length: u32::try_from(length).unwrap(),
    }
}

fn remote(region: &Registration, at: u64) -> RemoteAddress {
    RemoteAddress {
        stag: region.stag(),
        to: region.base() + at,
    }
}

/// Write, Send and Read of large, odd and tiny buffers; with CRC everything is copied, without it nothing is.
#[test]
fn octets_arrive() {
    for crc in [false, true] {
        let (one, two) = UnixStream::pair().unwrap();
        let (mut a, mut b) = (
            Side::new(Role::Initiator, crc, one),
            Side::new(Role::Responder, crc, two),
        );
        let octets: Vec<u8> = (0..251).cycle().take(LEN).collect();
        let (_source, source) = a.register(&octets, Rights::empty());
        let (sink_buffer, sink) = a.register(&vec![0; LEN], Rights::READ_SINK);
        let (target_buffer, target) =
            b.register(&vec![0; LEN], Rights::LOCAL_WRITE | Rights::REMOTE_WRITE);
        let (inbox_buffer, inbox) = b.register(&vec![0; LEN], Rights::LOCAL_WRITE);
        let (_store, store) = b.register(&octets, Rights::REMOTE_READ);

        b.conn
            .post_receive(1, &[sge(&inbox, 5, 3), sge(&inbox, 8, LEN - 8)])
            .unwrap();
        a.conn.send_ready();
        let pieces = [
            sge(&source, 0, 500_000),
            sge(&source, 500_000, 3),
            sge(&source, 500_003, LEN - 500_003),
        ];
        a.post(
            2,
            Operation::Write {
                data: Payload::Sges(&pieces),
                remote: remote(&target, 0),
            },
        );
        let some = [sge(&source, 17, 77_777)];
        a.post(
            3,
            Operation::Send {
                data: Payload::Sges(&some),
                solicited: false,
                invalidate: None,
            },
        );
        let sinks = [sge(&sink, 1, LEN - 1)];
        a.post(
            4,
            Operation::Read {
                sink: Payload::Sges(&sinks),
                remote: remote(&store, 1),
            },
        );

        while a.completions.len() < 3 || b.completions.is_empty() {
            let moved = [a.turn(), b.turn()];
            assert!(
                moved.contains(&true),
                "nothing moves: {:?} {:?}",
                a.completions,
                b.completions
            );
        }
        let mut done = a.completions.iter().chain(&b.completions);
        assert!(
            done.all(|done| done.status == WqeStatus::Success),
            "{:?} {:?}",
            a.completions,
            b.completions
        );
        assert!(target_buffer.to_vec() == octets, "Write");
        assert!(
            inbox_buffer.slice(5..5 + 77_777).to_vec() == octets[17..17 + 77_777],
            "Send"
        );
        assert!(sink_buffer.to_vec()[1..] == octets[1..], "Read");
        assert!(
            a.cuts > 0 && b.cuts > 0,
            "no FPDU was cut, the test tests nothing"
        );
        for region in [source, sink] {
            region.deregister().unwrap();
        }
    }
}

/// The payload of one batch as the socket would get it: for each FPDU with payload whether it is read in place, and if so, how far
/// the kernel's copy lies behind it, modulo a page. The kernel is expected to begin at the front of a page.
fn in_place(batch: &TxBatch, memory: &Buffer) -> Vec<Option<usize>> {
    let (mut found, mut ahead) = (Vec::new(), 0_usize);
    for (piece, _) in batch.pieces() {
        ahead += match piece {
            PieceRef::Payload(span) => {
                let from = memory.as_ptr().addr() + usize::try_from(span.offset()).unwrap();
                found.push(Some(ahead.wrapping_sub(from) % Buffer::PAGE));
                span.len() as usize
            }
            PieceRef::Bytes(octets) => {
                if octets.len() > 100 {
                    found.push(None);
                }
                octets.len()
            }
        };
    }
    found
}

/// Where page offsets matter, no payload is left to a copy of the kernel that would be slow; elsewhere all of it is left to the kernel.
/// By Write and by Read Response, from each of these offsets of a page.
#[test]
fn payload_is_read_in_place_where_the_kernel_copies_fast() {
    let room = Buffer::new(LEN + 2 * Buffer::PAGE);
    let front = room.as_ptr().addr().wrapping_neg() % Buffer::PAGE;
    for (offset, is_slow) in [(0, true), (16, true), (1024, false), (4080, true)] {
        for len in [4095, 4096, 4097, 10_000, 65_536, 600_000] {
            for copied in [CopiedPayload::None, CopiedPayload::AtSlowPlaces] {
                let (one, two) = UnixStream::pair().unwrap();
                let (three, _) = UnixStream::pair().unwrap();
                let how = (false, copied);
                let mut a = Side::on(Role::Initiator, how, one);
                let mut b = Side::on(Role::Responder, how, two);
                let memory = room.slice(front + offset..front + offset + len);
                let rights = Rights::LOCAL_WRITE | Rights::REMOTE_READ | Rights::REMOTE_WRITE;
                let ours = a.table.register(&memory, rights, PD).unwrap();
                let theirs = b.table.register(&memory, rights, PD).unwrap();
                let limit = TxLimit {
                    octets: 1 << 20,
                    fpdus: 16,
                    mulpdu: 64_768,
                };
                let large = || TxBatch::with_capacity(1 << 20, 16);

                let mut written = large();
                let whole = [sge(&ours, 0, len)];
                let data = Payload::Sges(&whole);
                let remote_at = remote(&theirs, 0);
                let write = Operation::Write {
                    data,
                    remote: remote_at,
                };
                a.post(1, write);
                a.conn.poll_transmit(&a.table, limit, &mut written);

                // The ready-to-receive message and a Read Request, which the other side answers.
                let mut asking = Side::on(Role::Initiator, how, three);
                let (_, sink) = asking.register(&vec![0; len], Rights::READ_SINK);
                asking.conn.send_ready();
                let sink = [sge(&sink, 0, len)];
                asking.post(
                    2,
                    Operation::Read {
                        sink: Payload::Sges(&sink),
                        remote: remote_at,
                    },
                );
                let mut asked = large();
                asking.conn.poll_transmit(&asking.table, limit, &mut asked);
                let request = asked.octets().unwrap();
                let used = b.conn.handle_bytes(request, &b.table, OwnQueue);
                assert_eq!(used, request.len());
                let mut answered = large();
                b.conn.poll_transmit(&b.table, limit, &mut answered);

                for batch in [&written, &answered] {
                    let found = in_place(batch, &memory);
                    let what = format!("{len} octets at {offset}: {found:?}");
                    let long = len >= 4096;
                    if copied == CopiedPayload::AtSlowPlaces {
                        let slow = found.iter().flatten().any(|behind| *behind < 64);
                        assert!(!slow, "{what}");
                        assert_eq!(found[0].is_some(), long && !is_slow, "{what}");
                    } else {
                        assert!(found.iter().all(|found| found.is_some() == long), "{what}");
                    }
                }
            }
        }
    }
}
