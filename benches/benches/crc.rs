//! CRC32c: the routine in use, and one that was not chosen.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use iwarp::{Crc, crc32c};
use softnd_benches::octets;

const SIZES: [usize; 8] = [
    64,
    256,
    1448,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
];

fn sums(c: &mut Criterion) {
    let routine = crc_fast::get_calculator_target(crc_fast::CrcAlgorithm::Crc32Iscsi);
    println!("crc-fast uses {routine}");
    let mut group = c.benchmark_group("crc/CRC on");
    for size in SIZES {
        let data: Vec<u8> = (0..=u8::MAX).cycle().take(size).collect();
        group.throughput(Throughput::BytesDecimal(size as u64));
        group.bench_with_input(
            BenchmarkId::new("in use", octets(size)),
            &data,
            |b, data| {
                b.iter(|| crc32c(black_box(data)));
            },
        );
        // A header, the payload and the rest, in the order in which a sender computes the CRC.
        group.bench_with_input(
            BenchmarkId::new("in use, in three parts", octets(size)),
            &data,
            |b, data| {
                b.iter(|| {
                    let mut crc = Crc::new();
                    crc.update(&data[..16]);
                    crc.update(&data[16..data.len() - 2]);
                    crc.update(&data[data.len() - 2..]);
                    crc.finish()
                });
            },
        );
        group.bench_with_input(
            BenchmarkId::new("crate crc32c", octets(size)),
            &data,
            |b, data| {
                b.iter(|| ::crc32c::crc32c(black_box(data)));
            },
        );
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = softnd_benches::timing!();
    targets = sums
}
criterion_main!(benches);
