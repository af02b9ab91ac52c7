//! Small requests on one stream of a QUIC connection, and bulk data on another one.
#![cfg(feature = "udp")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::stream::{BULK, Bench, Driver, Stream, same, small_requests_get_through};
use crate::common::{ALL, Side};
use netdirect::CompletionResult;
use softnd::Options;

fn side() -> Side {
    let adapter = softnd::open("softnd+udp://127.0.0.1", Options::default());
    Side::on_adapter(adapter.unwrap())
}

fn bench(stream: Stream, driver: Driver) -> Bench {
    let (active, passive) = (side(), side());
    let apart = same(&passive);
    Bench::from(&active, stream, driver, [&passive, &apart])
}

#[test]
fn small_requests_get_through_beside_writes_without_end() {
    small_requests_get_through(&mut bench(Stream::Write, Driver::Same));
}

#[test]
fn small_requests_get_through_beside_writes_without_end_on_the_same_connection() {
    let (active, passive) = (side(), side());
    small_requests_get_through(&mut Bench::through_one_listener(
        &active,
        Stream::Write,
        Driver::Same,
        &passive,
    ));
}

#[test]
fn small_requests_get_through_beside_sends_without_end() {
    small_requests_get_through(&mut bench(Stream::Send, Driver::Same));
}

#[test]
fn small_reads_get_through_where_nobody_polls() {
    small_requests_get_through(&mut bench(Stream::Write, Driver::Nobody));
}

/// The number of turns alone and with the stream, and of Reads in a turn.
const TURNS: usize = 21;
const READS: usize = 500;

/// The time of Reads of 8 octets alone and during endless Writes, with a polling thread at each side: `cargo make small-udp`.
#[test]
#[ignore = "measures, and needs a quiet machine with two processors and a release build"]
fn the_time_of_a_small_read_beside_writes_without_end() {
    let (active, passive) = (side(), side());
    let bench = Bench::through_one_listener(&active, Stream::Write, Driver::Other, &passive);
    measure("on the same QUIC connection", bench);
    let bench = self::bench(Stream::Write, Driver::Other);
    measure("on another QUIC connection", bench);
}

fn measure(what: &str, mut bench: Bench) {
    let (here, there) = (
        bench.bulk.active.region(8, ALL),
        bench.bulk.passive.region(8, ALL),
    );
    let (passive, over) = (same(&bench.bulk.passive), AtomicBool::new(false));
    let mut medians = [const { Vec::new() }; 2];
    let mut rates = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut results = [CompletionResult::default(); 1];
            while !over.load(Ordering::Relaxed) {
                assert_eq!(passive.cq.get_results(&mut results), 0);
            }
        });
        for turn in 0..2 * TURNS {
            let flows = turn % 2 == 1;
            bench.set_flowing(flows);
            let (begun, before) = (Instant::now(), bench.done());
            let times = (0..READS).map(|_| {
                let begun = Instant::now();
                bench.read([&here, &there]);
                begun.elapsed()
            });
            let times = median(times.collect());
            medians[usize::from(flows)].push(times);
            if flows {
                let octets = (bench.done() - before) as f64 * BULK as f64;
                rates.push(octets / begun.elapsed().as_secs_f64());
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    rates.sort_by(f64::total_cmp);
    let [alone, beside] = medians.map(median);
    println!(
        "a Read of 8 octets takes {alone:?} alone, and {beside:?} beside Writes of {:.0} MiB/s {what}, {:.2} times as long",
        rates[rates.len() / 2] / f64::from(1 << 20),
        beside.as_secs_f64() / alone.as_secs_f64()
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
