//! Connections that end in each possible way, with requests outstanding.

use crossbeam_channel::unbounded;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use netdirect::{Fault, NotifyType, OpFlags, Overlapped, RemoteAddress, RemoteToken, Sge, Status};

use super::stage::{Kind, LONG, Side, Stage, begin, ended, handles, run, status};
use super::{Scene, on_each_transport, play};

on_each_transport!(
    nothing_stays_of_a_connection_that_was_dropped,
    nothing_stays_after_a_disconnect,
    nothing_stays_of_a_connection_that_broke,
    nothing_stays_of_a_removed_device,
    nothing_stays_after_a_panic,
);

fn nothing_stays_of_a_connection_that_was_dropped(kind: Kind) {
    play(
        kind,
        &[
            Scene("idle", |stage| handles(stage.connected())),
            Scene("with requests outstanding", |stage| {
                let (active, passive) = stage.connected();
                busy(&active);
                busy(&passive);
                handles((active, passive))
            }),
            Scene("with a message that nobody receives", |stage| {
                let (active, passive) = stage.connected();
                sends(&active);
                a_moment(&passive);
                handles((active, passive))
            }),
            Scene("after a message", |stage| {
                let (active, passive) = stage.connected();
                message(&active, &passive);
                handles((active, passive))
            }),
            Scene("with a bound window", |stage| {
                let (active, passive) = stage.connected();
                message(&active, &passive); // The passive side speaks second.
                let Side { buffer, region, .. } = &passive;
                let (address, length) = (buffer.address(), buffer.len() as u64);
                let rights = OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE;
                let qp = &passive.qp;
                let bound = qp.bind(1, region, &passive.window, address, length, rights);
                bound.unwrap();
                results(&passive, 1);
                handles((active, passive))
            }),
        ],
    );
}

fn nothing_stays_after_a_disconnect(kind: Kind) {
    play(
        kind,
        &[
            Scene("by the active side", |stage| {
                let (active, passive) = stage.connected();
                let notified = notified(&passive);
                run(|overlapped| active.connector.disconnect(overlapped));
                ended(&notified);
                handles((active, passive))
            }),
            Scene("by the passive side", |stage| {
                let (active, passive) = stage.connected();
                busy(&active);
                let notified = notified(&active);
                run(|overlapped| passive.connector.disconnect(overlapped));
                ended(&notified);
                handles((active, passive))
            }),
            Scene("by both sides", |stage| {
                let (active, passive) = stage.connected();
                busy(&active);
                busy(&passive);
                let one = begin(|overlapped| active.connector.disconnect(overlapped));
                let other = begin(|overlapped| passive.connector.disconnect(overlapped));
                ended(&one);
                ended(&other);
                handles((active, passive))
            }),
            Scene("that nobody waits for", |stage| {
                let (active, passive) = stage.connected();
                busy(&passive);
                let _ = begin(|overlapped| active.connector.disconnect(overlapped));
                handles((active, passive))
            }),
        ],
    );
}

fn nothing_stays_of_a_connection_that_broke(kind: Kind) {
    play(
        kind,
        &[
            Scene("by a reset of the active side", |stage| {
                let (active, passive) = stage.connected();
                busy(&passive);
                let notified = notified(&passive);
                active.breaks();
                ended(&notified);
                handles((active, passive))
            }),
            Scene("by a reset of the passive side", |stage| {
                let (active, passive) = stage.connected();
                busy(&active);
                let notified = notified(&active);
                passive.breaks();
                ended(&notified);
                handles((active, passive))
            }),
            Scene("by a reset that nobody waits for", |stage| {
                let (active, passive) = stage.connected();
                busy(&active);
                passive.breaks();
                handles((active, passive))
            }),
            Scene(
                "by a Write astray, which the peer answers with a Terminate",
                |stage| {
                    let (active, passive) = stage.connected();
                    busy(&passive);
                    let notified = notified(&active);
                    let nowhere = RemoteAddress {
                        address: 0,
                        token: RemoteToken(0xDEAD_BEEF),
                    };
                    let qp = &active.qp;
                    let wrote = qp.write_inline(1, &[b"astray"], nowhere, OpFlags::empty());
                    wrote.unwrap();
                    ended(&notified);
                    handles((active, passive))
                },
            ),
            Scene("by the failure of a shared receive queue", |stage| {
                let (active, passive) = stage.connected();
                busy(&passive);
                let notified = notified(&active);
                passive.inject(Fault::BreakSharedReceiveQueue {
                    queue: passive.srq.clone(),
                    status: Status::INTERNAL_ERROR,
                });
                ended(&notified);
                handles((active, passive))
            }),
        ],
    );
}

fn nothing_stays_of_a_removed_device(kind: Kind) {
    play(
        kind,
        &[
            Scene("of a side that listens", |stage| {
                let (active, passive) = stage.sides();
                let asked = passive.asks();
                passive.inject(Fault::RemoveDevice);
                assert_eq!(status(&asked), Status::DEVICE_REMOVED);
                handles((active, passive))
            }),
            Scene("of a side that connects", |stage| {
                let (active, passive) = stage.sides();
                let connects = active.connects(passive.address());
                active.inject(Fault::RemoveDevice);
                assert_eq!(status(&connects), Status::DEVICE_REMOVED);
                handles((active, passive))
            }),
            Scene("of the active side", |stage| {
                let (active, passive) = stage.connected();
                busy(&active);
                busy(&passive);
                active.inject(Fault::RemoveDevice);
                handles((active, passive))
            }),
            Scene("of the passive side, and the peer notices", |stage| {
                let (active, passive) = stage.connected();
                busy(&passive);
                let notified = notified(&active);
                passive.inject(Fault::RemoveDevice);
                ended(&notified);
                handles((active, passive))
            }),
            Scene("of both sides", |stage| {
                let (active, passive) = stage.connected();
                active.inject(Fault::RemoveDevice);
                passive.inject(Fault::RemoveDevice);
                handles((active, passive))
            }),
            Scene("of a side whose queue pair was released", |stage| {
                let (active, mut passive) = stage.connected();
                passive.qp = passive
                    .adapter
                    .create_queue_pair(&passive.cq, &passive.cq, Default::default())
                    .expect("another queue pair");
                passive.inject(Fault::RemoveDevice);
                handles((active, passive))
            }),
        ],
    );
}

fn nothing_stays_after_a_panic(kind: Kind) {
    play(
        kind,
        &[Scene("in the end of a request", |stage| {
            let (active, passive) = stage.connected();
            busy(&active);
            busy(&passive);
            let (sender, panics) = unbounded();
            let sink = move |_| {
                let _ = sender.send(());
                panic!("planted in the end of a request");
            };
            let panicking = Overlapped::with_sink(Arc::new(sink));
            let _ = passive.connector.notify_disconnect(&panicking).unwrap();
            drop(panicking); // The request keeps a clone.
            let ends = || run(|overlapped| active.connector.disconnect(overlapped));
            // In a simulated network this thread panics, and elsewhere it may.
            let _ = catch_unwind(AssertUnwindSafe(ends));
            panics.recv_timeout(LONG).expect("the request ends");
            handles((active, passive))
        })],
    );
}

/// Requests that stay outstanding until the connection ends: Receives, a Read, and Notify of the queues.
fn busy(side: &Side<'_>) {
    let sge = [sge(side)];
    side.srq.receive(1, &sge).unwrap();
    let _ = side.qp.receive(2, &sge); // A queue pair with the shared queue takes none.
    let _ = begin(|overlapped| side.srq.notify(overlapped));
    let _ = begin(|overlapped| side.cq.notify(NotifyType::Any, overlapped));
}

fn sge(side: &Side<'_>) -> Sge {
    Sge {
        address: side.buffer.address(),
        length: 64,
        token: side.region.get_local_token(),
    }
}

fn sends(side: &Side<'_>) {
    side.qp.send(3, &[sge(side)], OpFlags::empty()).unwrap();
}

/// Makes the active side send a message that the passive side receives.
fn message(active: &Side<'_>, passive: &Side<'_>) {
    passive.srq.receive(4, &[sge(passive)]).unwrap();
    sends(active);
    results(passive, 1);
    results(active, 1);
}

fn results(side: &Side<'_>, count: usize) {
    let mut taken = 0;
    while taken < count {
        let awaited = begin(|overlapped| side.cq.notify(NotifyType::Any, overlapped));
        ended(&awaited);
        taken += side.cq.get_results(&mut [Default::default(); 4]);
    }
}

/// Lets a side handle arrived octets, without waiting.
fn a_moment(side: &Side<'_>) {
    let awaited = begin(|overlapped| side.cq.notify(NotifyType::Any, overlapped));
    let _ = awaited.wait_timeout(Duration::from_millis(1));
}

fn notified(side: &Side<'_>) -> Overlapped {
    begin(|overlapped| side.connector.notify_disconnect(overlapped))
}

/// An assumption of the scenes: an adapter that was opened and has never had a connection leaves nothing behind either.
#[test]
fn nothing_stays_of_objects_without_a_connection() {
    let kinds = [Kind::Tcp, Kind::Udp, Kind::Streams, Kind::Datagrams];
    for kind in kinds {
        let stage = Stage::new(kind);
        drop(stage.sides());
        stage.assert_nothing_stays(&format!("{kind:?}"));
    }
}
