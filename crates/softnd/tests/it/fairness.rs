//! A stream of large messages that never ends, and small requests on another queue pair of the same completion queues: the tests count the
//! messages of the stream that pass until a small request is done, and never the time that it takes.

use crate::common::Side;
use crate::common::stream::{Bench, Driver, Stream, same, small_requests_get_through, without_crc};
use netdirect::Affinity;
use softnd::Options;

#[test]
fn small_requests_get_through_beside_writes_without_end() {
    let mut bench = Bench::new(&without_crc(), Stream::Write, Driver::Same);
    small_requests_get_through(&mut bench);
}

#[test]
fn small_requests_get_through_beside_sends_without_end() {
    let mut bench = Bench::new(&Options::default(), Stream::Send, Driver::Same);
    small_requests_get_through(&mut bench);
}

#[test]
fn small_reads_get_through_where_nobody_polls() {
    let mut bench = Bench::new(&without_crc(), Stream::Write, Driver::Nobody);
    small_requests_get_through(&mut bench);
}

/// No thread polls the passive side: its background thread serves the stream's queue and the queue of the small Reads.
#[test]
fn small_reads_of_another_queue_get_through_where_nobody_polls() {
    let passive = Side::with(Options::default());
    let mut apart = same(&passive);
    apart.cq = apart
        .adapter
        .create_completion_queue(&apart.file, 256, Affinity::default())
        .unwrap();
    let sides = [&passive, &apart];
    let mut bench = Bench::between(&Options::default(), Stream::Write, Driver::Nobody, sides);
    small_requests_get_through(&mut bench);
}
