//! One case for each rule of `Buffer::from_raw_parts` and `Buffer::from_pages`, kept and broken, for a sanitizer. `.ci/sanitizers` runs them: it demands
//! that a kept rule is silent, and that a broken one is reported.
//!
//!     foreign_memory CASE
//!
//! A second thread takes the place of the adapter: it reads or writes the memory by a copy through the buffer. The two
//! threads do nothing that orders their accesses, so the sanitizer need not catch a moment.

use std::cell::UnsafeCell;
use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use rdma_buffer::Buffer;

const LEN: usize = 64;
const TURNS: usize = 100;

/// Memory of the application.
#[repr(align(8))]
struct Memory(UnsafeCell<[u8; LEN]>);

// SAFETY: which accesses race is what this program shows.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; LEN]));

fn start() -> *mut u8 {
    MEMORY.0.get().cast()
}

/// A buffer over the whole memory. Each thread makes its own, because ThreadSanitizer does not understand how the standard
/// library orders the last use of a shared one and its end.
fn buffer() -> Buffer {
    // SAFETY: valid and initialised for as long as the program runs, with equal ends each time. The other rules are what the
    // cases keep or break.
    unsafe { Buffer::from_raw_parts(start(), LEN) }
}

/// The adapter reads the memory, as for a Send, a Write, or a peer's Read.
fn reading() -> JoinHandle<()> {
    thread::spawn(|| {
        let buffer = buffer();
        for _ in 0..TURNS {
            black_box(buffer.to_vec());
        }
    })
}

/// The adapter writes the memory, as for a Receive, a Read, or a peer's Write.
fn writing() -> JoinHandle<()> {
    thread::spawn(|| {
        let buffer = buffer();
        for turn in 0..TURNS {
            buffer.write(0, &[turn.to_le_bytes()[0]; LEN]);
        }
    })
}

/// While the adapter may read or write, the application uses the buffer, or atomics of the buffer's kind.
fn by_the_buffer_and_by_atomics() {
    let adapter = [reading(), writing()];
    let buffer = buffer();
    for _ in 0..TURNS {
        buffer.write(8, &[7; 8]);
        black_box(buffer.to_vec());
        // SAFETY: valid and aligned as long as the program runs; every thread uses atomics of 8 octets here.
        let word = unsafe { AtomicU64::from_ptr(start().cast()) };
        word.fetch_add(1, Ordering::Relaxed);
    }
    end(adapter);
}

/// While the adapter may only read, the application may read as it likes.
fn ordinary_reads_beside_reads() {
    let adapter = reading();
    for _ in 0..TURNS {
        // SAFETY: no thread writes the memory.
        let shared: &[u64; LEN / 8] = unsafe { &*start().cast() };
        black_box(shared.iter().sum::<u64>());
    }
    end([adapter]);
}

/// When the adapter has ended, the application may do what it likes.
fn references_when_the_adapter_has_ended() {
    end([reading(), writing()]);
    // SAFETY: no view of the buffer exists any more.
    let own: &mut [u64; LEN / 8] = unsafe { &mut *start().cast() };
    own.fill(1);
    black_box(own.iter().sum::<u64>());
}

/// Buffers whose ends are equal modulo 8 may overlap.
fn buffers_of_equal_ends() {
    // SAFETY: inside the memory, and both ends are equal modulo 8 to those of the whole.
    let part = unsafe { Buffer::from_raw_parts(start().wrapping_add(16), 16) };
    let adapter = [writing(), reading()];
    for _ in 0..TURNS {
        part.write(3, &[9; 10]);
        black_box(part.to_vec());
    }
    end(adapter);
}

/// Buffers in pages may overlap at any alignment, also with atomics on the words.
fn buffers_in_pages() {
    let adapter = [(3, 20), (13, 30)].map(|(from, len)| {
        thread::spawn(move || {
            // SAFETY: inside the memory, whose words all threads reach by buffers of this kind, or by atomics of 8 octets.
            let buffer = unsafe { Buffer::from_pages(start().wrapping_add(from), len) };
            for turn in 0..TURNS {
                buffer.write(0, &[turn.to_le_bytes()[0]; 17]);
                black_box(buffer.to_vec());
            }
        })
    });
    for _ in 0..TURNS {
        // SAFETY: valid and aligned as long as the program runs; every thread uses atomics of 8 octets here.
        let word = unsafe { AtomicU64::from_ptr(start().cast()) };
        word.fetch_add(1, Ordering::Relaxed);
    }
    end(adapter);
}

/// Broken: the application reads in an ordinary way while the adapter may write.
fn ordinary_read_beside_writes() {
    let adapter = writing();
    for _ in 0..TURNS {
        // SAFETY: none. This breaks the rule.
        black_box(unsafe { start().cast::<u64>().read() });
    }
    end([adapter]);
}

/// Broken: the application reads by a reference while the adapter may write.
fn reference_beside_writes() {
    let adapter = writing();
    for _ in 0..TURNS {
        // SAFETY: none. This breaks the rule.
        let shared: &[u64; LEN / 8] = unsafe { &*start().cast() };
        black_box(shared.iter().sum::<u64>());
    }
    end([adapter]);
}

/// Broken: the application writes in an ordinary way while the adapter may read.
fn ordinary_write_beside_reads() {
    let adapter = reading();
    for turn in 0..TURNS {
        // SAFETY: none. This breaks the rule.
        unsafe { start().cast::<u64>().write(turn as u64) };
    }
    end([adapter]);
}

/// Broken: the application writes by `&mut` while the adapter may read, though only the application writes.
fn exclusive_reference_beside_reads() {
    let adapter = reading();
    for turn in 0..TURNS {
        // SAFETY: none. This breaks the rule.
        let own: &mut [u64; LEN / 8] = unsafe { &mut *start().cast() };
        own.fill(turn as u64);
    }
    end([adapter]);
}

/// Broken: the memory is freed while a view of the buffer exists.
fn freed_memory() {
    let mut memory = vec![0_u8; LEN];
    // SAFETY: none. The memory is freed before the buffer is.
    let buffer = unsafe { Buffer::from_raw_parts(memory.as_mut_ptr(), LEN) };
    drop(memory);
    black_box(buffer.to_vec());
}

/// Broken: the buffer is longer than the memory.
fn too_long_a_buffer() {
    let mut memory = vec![0_u8; LEN];
    // SAFETY: none. The memory is shorter.
    let buffer = unsafe { Buffer::from_raw_parts(memory.as_mut_ptr(), LEN + 8) };
    black_box(buffer.to_vec());
    drop(memory);
}

fn end(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no copy panics");
    }
}

/// The name of a case, what it is an example of, and the case.
type Case = (&'static str, &'static str, fn());

/// `race` and `address` say which sanitizer reports a broken rule.
const CASES: &[Case] = &[
    ("buffer-and-atomics", "kept", by_the_buffer_and_by_atomics),
    ("reads-beside-reads", "kept", ordinary_reads_beside_reads),
    (
        "references-afterwards",
        "kept",
        references_when_the_adapter_has_ended,
    ),
    ("equal-ends", "kept", buffers_of_equal_ends),
    ("in-pages", "kept", buffers_in_pages),
    ("read-beside-writes", "race", ordinary_read_beside_writes),
    ("reference-beside-writes", "race", reference_beside_writes),
    ("write-beside-reads", "race", ordinary_write_beside_reads),
    (
        "exclusive-reference-beside-reads",
        "race",
        exclusive_reference_beside_reads,
    ),
    ("freed-memory", "address", freed_memory),
    ("too-long", "address", too_long_a_buffer),
];

fn main() -> ExitCode {
    let chosen = env::args().nth(1);
    let Some(chosen) = chosen else {
        for (name, what, _) in CASES {
            println!("{what} {name}");
        }
        return ExitCode::SUCCESS;
    };
    match CASES.iter().find(|(name, ..)| *name == chosen) {
        Some((_, _, case)) => {
            case();
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("there is no case '{chosen}'");
            ExitCode::from(2)
        }
    }
}
