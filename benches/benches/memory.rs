//! Copies into and out of registered memory, by both backends, compared with a plain copy between private buffers.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use iwarp::{Crc, LocalAccess, Memory, MessageEnd, Sge};
use iwarp_mem::{Backend, Rights, Table, TableOptions};
use netdirect::Buffer;
use softnd_benches::link::PD;
use softnd_benches::octets;

const SIZES: [usize; 9] = [8, 64, 256, 512, 1448, 4 << 10, 16 << 10, 64 << 10, 1 << 20];

fn plain(group: &mut BenchmarkGroup<'_, WallTime>, size: usize) {
    let (from, mut to) = (vec![0x5a; size], vec![0; size]);
    group.bench_function(BenchmarkId::new("memcpy, CRC off", octets(size)), |b| {
        b.iter(|| black_box(&mut to[..]).copy_from_slice(black_box(&from)));
    });
    group.bench_function(BenchmarkId::new("memcpy, then CRC on", octets(size)), |b| {
        b.iter(|| {
            black_box(&mut to[..]).copy_from_slice(black_box(&from));
            iwarp::crc32c(black_box(&to))
        });
    });
}

fn registered(group: &mut BenchmarkGroup<'_, WallTime>, backend: Backend, size: usize) {
    let name = match backend {
        Backend::Words => "words",
        _ => "bulk",
    };
    let table = Table::with_options(&TableOptions::default().backend(backend)).unwrap();
    let buffer = Buffer::new(size);
    let region = table
        .register(&buffer, Rights::all(), PD)
        .expect("an empty table");
    let sge = Sge {
        token: region.stag(),
        address: region.base(),
        length: u32::try_from(size).expect("at most 1 MiB"),
    };
    let span = table
        .check_local(sge, LocalAccess::Write, PD)
        .expect("a registered buffer");
    let mut private = vec![0x5a; size];
    group.bench_function(
        BenchmarkId::new(format!("place by {name}, CRC off"), octets(size)),
        |b| b.iter(|| table.place(span, black_box(&private), MessageEnd::Last)),
    );
    group.bench_function(
        BenchmarkId::new(format!("fetch by {name}, CRC off"), octets(size)),
        |b| b.iter(|| table.fetch(span, black_box(&mut private), None)),
    );
    group.bench_function(
        BenchmarkId::new(format!("fetch by {name}, CRC on"), octets(size)),
        |b| {
            b.iter(|| {
                let mut crc = Crc::new();
                let fetched = table.fetch(span, black_box(&mut private), Some(&mut crc));
                (fetched, crc.finish())
            });
        },
    );
}

fn copies(c: &mut Criterion) {
    let mut group = c.benchmark_group("memory");
    for size in SIZES {
        group.throughput(Throughput::BytesDecimal(size as u64));
        plain(&mut group, size);
        for backend in [Backend::Words, Backend::Bulk] {
            registered(&mut group, backend, size);
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = softnd_benches::timing!();
    targets = copies
}
criterion_main!(benches);
