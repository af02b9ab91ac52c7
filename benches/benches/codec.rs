//! Headers: reading and writing FPDUs, DDP segments, RDMAP headers and start-up frames.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use iwarp::ddp::{Qn, Segment, TaggedHeader, UntaggedHeader};
use iwarp::mpa::fpdu;
use iwarp::mpa::startup::{Enhanced, Frame, FrameKind, FrameReader};
use iwarp::rdmap::{Opcode, control};
use iwarp::{ReadRequest, RemoteAddress, STag};
use softnd_benches::{crc, octets};

const PAYLOADS: [usize; 3] = [8, 64, 1420];

fn tagged() -> TaggedHeader {
    TaggedHeader::new(true, control(Opcode::Write), STag(0x1234_5678), 1 << 40)
}

fn untagged() -> UntaggedHeader {
    UntaggedHeader::new(true, control(Opcode::Send), 0, Qn::SEND, 7, 0)
}

/// A Write of `len` octets as a ULPDU.
fn ulpdu(len: usize) -> Vec<u8> {
    let mut ulpdu = tagged().to_bytes().to_vec();
    ulpdu.resize(ulpdu.len() + len, 0x5a);
    ulpdu
}

fn fpdus(c: &mut Criterion) {
    let mut group = c.benchmark_group("codec/FPDU");
    for len in PAYLOADS {
        let ulpdu = ulpdu(len);
        for sum in [false, true] {
            let name = format!("{}, {}", octets(len), crc(sum));
            let mut stream = Vec::new();
            fpdu::put(&mut stream, &ulpdu, sum);
            group.throughput(Throughput::Elements(1));
            group.bench_function(format!("parse, {name}"), |b| {
                b.iter(|| fpdu::parse(black_box(&stream), sum));
            });
            group.bench_function(format!("encode, {name}"), |b| {
                b.iter(|| {
                    stream.clear();
                    fpdu::put(&mut stream, black_box(&ulpdu), sum);
                });
            });
        }
    }
    group.finish();
}

/// Headers have no separate CRC, and their cost does not depend on the payload.
fn headers(c: &mut Criterion) {
    let mut group = c.benchmark_group("codec/headers, 64 B, CRC off");
    group.throughput(Throughput::Elements(1));
    let write = ulpdu(64);
    group.bench_function("DDP tagged, parse", |b| {
        b.iter(|| Segment::parse(black_box(&write)));
    });
    group.bench_function("DDP tagged, encode", |b| {
        b.iter(|| {
            let stag = black_box(STag(0x1234_5678));
            TaggedHeader::new(true, control(Opcode::Write), stag, 1 << 40).to_bytes()
        });
    });
    let mut send = untagged().to_bytes().to_vec();
    send.resize(send.len() + 64, 0x5a);
    group.bench_function("DDP untagged, parse", |b| {
        b.iter(|| Segment::parse(black_box(&send)));
    });
    group.bench_function("DDP untagged, encode", |b| {
        b.iter(|| {
            let msn = black_box(7);
            UntaggedHeader::new(true, control(Opcode::Send), 0, Qn::SEND, msn, 0).to_bytes()
        });
    });
    group.bench_function("RDMAP control, parse", |b| {
        b.iter(|| Opcode::parse(black_box(control(Opcode::Send))));
    });
    let request = ReadRequest {
        sink: RemoteAddress {
            stag: STag(1),
            to: 2,
        },
        size: 3,
        source: RemoteAddress {
            stag: STag(4),
            to: 5,
        },
    };
    let wire = request.to_bytes();
    group.bench_function("RDMAP Read Request, parse", |b| {
        b.iter(|| ReadRequest::parse(black_box(&wire)));
    });
    group.bench_function("RDMAP Read Request, encode", |b| {
        b.iter(|| black_box(&request).to_bytes());
    });
    group.finish();
}

fn startup(c: &mut Criterion) {
    let mut group = c.benchmark_group("codec/MPA Request");
    for len in [0, 248] {
        let frame = Frame {
            kind: FrameKind::Request,
            markers: false,
            crc: true,
            rejected: false,
            revision: 2,
            enhanced: Some(Enhanced {
                peer_to_peer: true,
                rtr_send: false,
                rtr_write: true,
                rtr_read: true,
                ird: 16,
                ord: 16,
            }),
            private_data: vec![0x5a; len],
        };
        let mut wire = Vec::new();
        frame.encode(&mut wire);
        let name = format!("{} of private data, CRC on", octets(len));
        group.bench_function(format!("parse, {name}"), |b| {
            b.iter(|| FrameReader::new(FrameKind::Request).push(black_box(&wire)));
        });
        group.bench_function(format!("encode, {name}"), |b| {
            b.iter(|| {
                wire.clear();
                black_box(&frame).encode(&mut wire);
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = softnd_benches::timing!();
    targets = fpdus, headers, startup
}
criterion_main!(benches);
