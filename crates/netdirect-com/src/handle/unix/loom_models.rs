//! Every interleaving of signals and waits, up to a bound on preemptions. A lost signal is a deadlock that loom reports.

use std::ptr;

use loom::model::Builder;
use loom::thread;

use super::{EventRef, PortRef, close, wait, wait_for_all, wait_for_any};
use crate::abi::Packet;
use crate::handle::{INFINITE, PortClosed};

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn each_signal_ends_one_wait() {
    check(|| {
        let event = EventRef::create(false, true);
        let other = event.clone();
        let waits = thread::spawn(move || {
            assert!(wait(&other, INFINITE));
            // The next signal, for the thread that has not had one yet.
            other.set();
        });
        assert!(wait(&event, INFINITE));
        event.set();
        waits.join().unwrap();
        assert!(event.take() && !event.take());
    });
}

#[test]
fn any_takes_one_of_two_signals_and_leaves_the_other() {
    check(|| {
        let events = [
            EventRef::create(false, false),
            EventRef::create(false, false),
        ];
        let threads = events
            .clone()
            .map(|event| thread::spawn(move || event.set()));
        let taken = wait_for_any(&events, INFINITE).unwrap();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(!events[taken].take());
        assert!(events[1 - taken].take());
    });
}

#[test]
fn a_wait_for_all_and_a_wait_for_one_share_signals() {
    check(|| {
        let mut events = [
            EventRef::create(false, false),
            EventRef::create(false, false),
        ];
        // A wait for all goes by addresses. loom repeats a schedule, so the order must be the same in every run.
        events.sort_by_key(|event| event.handle().addr());
        events[1].set();
        let all = events.clone();
        let waits = thread::spawn(move || {
            assert_eq!(wait_for_all(&all, INFINITE), Ok(true));
            // This signal is for the other wait.
            all[0].set();
        });
        events[0].set();
        assert!(wait(&events[0], INFINITE));
        events[0].set();
        waits.join().unwrap();
        assert_eq!(events.map(|event| event.take()), [true, false]);
    });
}

#[test]
fn each_packet_goes_to_one_thread_and_closing_ends_the_rest() {
    check(|| {
        let packet = Packet {
            key: 7,
            overlapped: ptr::null_mut(),
            internal: 0,
            bytes: 0,
        };
        let port = PortRef::create();
        let other = port.clone();
        let takes =
            thread::spawn(move || other.take_one(INFINITE).map(|packet| packet.unwrap().key));
        port.post(&packet);
        let here = port.take_one(0).unwrap();
        // SAFETY: the reference of the creator; the other thread has its own.
        unsafe { close(port.into_handle()) }.unwrap();
        let there = takes.join().unwrap();
        match here {
            Some(_) => assert_eq!(there, Err(PortClosed)),
            None => assert!(there == Ok(7) || there == Err(PortClosed)),
        }
    });
}
