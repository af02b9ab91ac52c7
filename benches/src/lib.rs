//! Common code of the benchmarks, and the comparison with other programs.
//!
//! - `cargo bench -p softnd-benches`: time per operation (criterion) of codec, CRC, engine and memory, and instructions per
//!   operation of the hot paths (valgrind), compared with `instructions.toml`.
//! - `cargo run --release -p softnd-benches --bin compare`: softnd, raw TCP, UCX and libfabric in one run, into
//!   `docs/reports/performance-compared.md`.
//! - `cargo run --release -p softnd-benches --bin promises`: what the project promises about its speed, by `nd perf`, into
//!   `docs/reports/performance.md`.
//! - `cargo run --release -p softnd-benches --bin async_waits`: round trips of tasks under tokio, beside tokio over TCP.
//! - `cargo run --release -p softnd-benches --bin silent`: an honest client beside a crowd of silent connections.
#![forbid(unsafe_code)]

pub mod baseline;
pub mod compare;
pub mod link;
pub mod nowhere;
pub mod promises;
pub mod provider;

/// How long criterion measures each benchmark. Turns are short, because there are many.
#[macro_export]
macro_rules! timing {
    () => {
        criterion::Criterion::default()
            .warm_up_time(std::time::Duration::from_millis(200))
            .measurement_time(std::time::Duration::from_millis(800))
            .sample_size(30)
    };
}

/// A number of octets as the names of benchmarks have it: `64 B`, `64 KiB`, `1 MiB`.
#[must_use]
pub fn octets(count: usize) -> String {
    match count {
        0 => "0 B".to_owned(),
        _ if count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        _ => format!("{count} B"),
    }
}

/// A CRC setting as names of benchmarks have it.
#[must_use]
pub const fn crc(on: bool) -> &'static str {
    if on { "CRC on" } else { "CRC off" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_named_in_the_largest_whole_unit() {
        let names = [0, 8, 1448, 1536, 2048, 64 << 10, 1 << 20].map(octets);
        assert_eq!(
            names,
            ["0 B", "8 B", "1448 B", "1536 B", "2 KiB", "64 KiB", "1 MiB"]
        );
    }
}
