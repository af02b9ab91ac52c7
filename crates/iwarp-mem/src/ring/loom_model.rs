//! The words of a ring, under every interleaving of its writer and its reader:
//! `RUSTFLAGS="--cfg loom" cargo test -p iwarp-mem --lib loom`, and with `--cfg planted_bugs` as well. A lost bell is a deadlock.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::words::{Reading, Words, Writing};

const CAPACITY: u64 = 4;

/// Octets of a socket that ring.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    /// Sleeps until somebody has rung, and takes the bell.
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

#[derive(Default)]
struct Shared {
    words: Words,
    for_reader: Bell,
    for_writer: Bell,
}

/// Writes this many octets, `at_once` of them at most in one piece, and sleeps while there is no room.
fn write(shared: &Shared, octets: u64, at_once: u64) {
    let writing = Writing::new(CAPACITY);
    while writing.tail() < octets {
        let room = writing.room(&shared.words, CAPACITY).unwrap();
        let count = room.min(octets - writing.tail()).min(at_once);
        if count == 0 {
            if !writing.await_room(&shared.words).unwrap() {
                shared.for_writer.wait();
            }
            continue;
        }
        writing.publish(&shared.words, count);
        if writing.takes_bell(&shared.words) {
            shared.for_reader.ring();
        }
    }
}

/// Reads this many octets, and sleeps while there are none.
fn read(shared: &Shared, octets: u64) {
    let reading = Reading::new(CAPACITY);
    while reading.head() < octets {
        let count = reading.octets(&shared.words).unwrap();
        if count == 0 {
            if reading.want_bell(&shared.words).unwrap() {
                continue;
            }
            if reading.takes_room_bell_unfenced(&shared.words) {
                shared.for_writer.ring();
            }
            shared.for_reader.wait();
            continue;
        }
        if reading.release(&shared.words, count) && reading.takes_room_bell(&shared.words) {
            shared.for_writer.ring();
        }
    }
}

fn model(octets: u64, at_once: u64) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Arc::new(Shared::default());
        let of_writer = Arc::clone(&shared);
        let writer = thread::spawn(move || write(&of_writer, octets, at_once));
        read(&shared, octets);
        writer.join().unwrap();
    });
}

#[cfg(not(planted_bugs))]
#[test]
fn a_reader_that_sleeps_is_woken() {
    model(2, 1);
}

#[cfg(not(planted_bugs))]
#[test]
fn a_writer_that_finds_no_room_is_woken() {
    model(CAPACITY + 2, CAPACITY);
}

/// A model that fails ends its process, so each bug has one of its own.
#[cfg(planted_bugs)]
mod planted {
    use std::env;
    use std::process::Command;

    use iwarp::planted::{Bug, plant};

    const VARIABLE: &str = "SOFTND_TEST_PLANTED";

    #[test]
    #[ignore = "run by the test below"]
    fn with_a_bug() {
        let bug = env::var(VARIABLE).unwrap();
        plant(match bug.as_str() {
            "fence" => Some(Bug::FenceLeftOut),
            "look" => Some(Bug::SecondLookLeftOut),
            _ => None,
        });
        super::model(2, 1);
    }

    #[test]
    fn bugs_are_found() {
        for (bug, passes) in [("none", true), ("fence", false), ("look", false)] {
            let mut model = Command::new(env::current_exe().unwrap());
            model.args(["--ignored", "loom_model::planted::with_a_bug"]);
            let output = model.env(VARIABLE, bug).output().unwrap();
            assert_eq!(output.status.success(), passes, "{bug}: {output:?}");
        }
    }
}
