//! Two ends in two threads, over the loopback interface.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::{QuicListener, QuicStream};
use crate::perf::bare::BareStream;
use crate::perf::messages::Key;
use crate::perf::spec::tests::SPEC;
use crate::perf::spec::{Mode, Op, Spec, Test};
use crate::perf::wire::{WHOLE, Wire};

/// A limit only to end a hang.
const HANG: Duration = Duration::from_secs(60);

const KEY: Key = [7; 8];

fn listen(spec: &Spec) -> (QuicListener, SocketAddr, Vec<u8>) {
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = QuicListener::new(local, KEY, spec).expect("a listener");
    let port = listener.port().expect("a port");
    let certificate = listener.certificate().to_vec();
    (
        listener,
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        certificate,
    )
}

fn wire(stream: QuicStream, spec: &Spec) -> Wire {
    Wire::new(BareStream::Quic(Box::new(stream)), spec, HANG.into()).expect("a wire")
}

/// Both ends of a stream, each used by its own thread.
fn both(spec: &Spec, here: impl FnOnce(Wire) + Send, there: impl FnOnce(Wire) + Send) {
    let (listener, to, certificate) = listen(spec);
    thread::scope(|threads| {
        threads.spawn(|| there(wire(listener.accept(HANG).expect("accepted"), spec)));
        let stream = QuicStream::connect(to, KEY, certificate, spec, HANG).expect("connected");
        here(wire(stream, spec));
    });
}

#[test]
fn every_exchange_moves_what_was_sent() {
    let exchanges = [
        (Test::Latency, Op::Send, 8),
        (Test::Latency, Op::Send, 300_000),
        (Test::Latency, Op::Read, 4096),
        (Test::Bandwidth, Op::Write, 1 << 20),
        (Test::Bandwidth, Op::Read, 60_000),
        (Test::Rate, Op::Send, 64),
    ];
    for (test, op, size) in exchanges {
        for mode in [Mode::Event, Mode::Poll] {
            let spec = Spec {
                op,
                test,
                size,
                mode,
                depth: 4,
                ..SPEC
            };
            let through = &AtomicU64::new(0);
            // The side that serves stays until the other one has finished.
            let (finished, is_finished) = crossbeam_channel::unbounded::<()>();
            let attend = |wire: &mut Wire, turns| {
                wire.attend(|| Ok(through.load(Ordering::Acquire) == turns))
            };
            let turns = |wire: &Wire| [(1, WHOLE), (wire.whole(), 64 << 10), (wire.whole(), WHOLE)];
            both(
                &spec,
                |mut wire| {
                    let _finished = finished;
                    let mut times = Vec::new();
                    for ((count, write), turn) in turns(&wire).into_iter().zip(1..) {
                        times.clear();
                        wire.run(count, write, &mut times).expect("a turn");
                        attend(&mut wire, turn).expect("the other side is through");
                        let timed = if test == Test::Latency { count } else { 0 };
                        assert_eq!(times.len() as u64, timed, "{spec:?}");
                    }
                    wire.verify().expect("the same octets");
                },
                move |mut wire| {
                    for (count, write) in turns(&wire) {
                        wire.serve(count, write).expect("a turn");
                        through.fetch_add(1, Ordering::Release);
                    }
                    wire.verify().expect("the same octets");
                    assert!(is_finished.recv().is_err());
                },
            );
        }
    }
}

#[test]
fn datagrams_are_as_long_as_the_row_allows() {
    for (segment, expected) in [(None, 32_752), (Some(1448), 1448), (Some(500), 1200)] {
        let spec = Spec { segment, ..SPEC };
        let (listener, to, certificate) = listen(&spec);
        thread::scope(|threads| {
            let accepted = threads.spawn(|| listener.accept(HANG).expect("accepted"));
            let here = QuicStream::connect(to, KEY, certificate, &spec, HANG).expect("connected");
            let there = accepted.join().expect("no panic");
            assert_eq!([here.datagram(), there.datagram()], [expected; 2]);
        });
    }
}

#[test]
fn only_the_other_side_of_the_row_gets_in() {
    let spec = Spec {
        mode: Mode::Event,
        ..SPEC
    };
    let (listener, to, certificate) = listen(&spec);
    let (_other, _, other_certificate) = listen(&spec);
    thread::scope(|threads| {
        let accepted = threads.spawn(|| listener.accept(HANG));
        for (key, certificate, why) in [
            ([8; 8], certificate.clone(), "protocol"),
            (KEY, other_certificate, "certificate"),
        ] {
            let refused = QuicStream::connect(to, key, certificate, &spec, HANG);
            let text = refused.expect_err(why).to_string();
            assert!(text.contains(why), "{text}");
        }
        let connected = QuicStream::connect(to, KEY, certificate, &spec, HANG);
        let _stream = connected.expect("connected");
        accepted.join().expect("no panic").expect("accepted");
    });
}

#[test]
fn a_stream_ends_with_its_other_end() {
    let spec = Spec {
        test: Test::Latency,
        mode: Mode::Event,
        ..SPEC
    };
    both(
        &spec,
        |mut wire| {
            let failure = wire.run(1, WHOLE, &mut Vec::new()).expect_err("no answer");
            let text = failure.to_string();
            assert!(text.contains("the other side has gone"), "{text}");
        },
        drop,
    );
}
