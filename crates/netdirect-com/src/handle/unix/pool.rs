//! The threads behind BindIoCompletionCallback.
//!
//! One completion port, and threads that take its packets and call the client's functions. At least one thread always waits for packets,
//! unless [`MOST`] are in functions of the client: a function may sleep until another one was called. Threads that are not needed end after
//! a while.

use std::io;
use std::mem::transmute;
use std::ptr;
use std::thread;

use netdirect::Status;
use parking_lot::Mutex;
use rdma_buffer::forks::PerProcess;
use rdma_buffer::signals;

use super::refs::{FileRef, PortRef};
use crate::abi::{Overlapped, Packet};

/// `LPOVERLAPPED_COMPLETION_ROUTINE`: status, transferred octets and OVERLAPPED of a request that has ended. As on Windows the first
/// argument is the status itself, in spite of its name `dwErrorCode`.
pub type CompletionRoutine =
    unsafe extern "system" fn(status: u32, bytes: u32, overlapped: *mut Overlapped);

/// The largest number of threads.
const MOST: usize = 64;

/// A thread that has waited for a packet this long ends, if another one waits.
const IDLE_MILLISECONDS: u32 = 10_000;

/// A child of a fork has none of its parent's threads.
static POOL: PerProcess<Pool> = PerProcess::new();

struct Pool {
    port: PortRef,
    threads: Mutex<Threads>,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            port: PortRef::create(),
            threads: Mutex::default(),
        }
    }
}

#[derive(Default)]
struct Threads {
    all: usize,
    idle: usize,
}

/// Calls `routine` for each end of a request of the file, by a thread of the pool.
///
/// # Errors
///
/// [`INVALID_PARAMETER`](Status::INVALID_PARAMETER): the file has a port already. [`NO_MEMORY`](Status::NO_MEMORY): the system starts no
/// thread.
///
/// # Safety
///
/// `routine` can be called as long as requests of the file end.
pub unsafe fn bind(file: &FileRef, routine: CompletionRoutine) -> Result<(), Status> {
    let pool = POOL.get();
    pool.ensure_idle().map_err(|_| Status::NO_MEMORY)?;
    let key = (routine as *const ()).expose_provenance();
    file.associate(&pool.port, key)
}

impl Pool {
    /// Starts a thread if none waits for packets.
    fn ensure_idle(&'static self) -> io::Result<()> {
        let mut threads = self.threads.lock();
        if threads.idle > 0 || threads.all >= MOST {
            return Ok(());
        }
        let thread = thread::Builder::new().name("nd-callbacks".into());
        signals::blocked(|| thread.spawn(|| self.run()))?;
        // The new thread counts as idle from now on.
        threads.idle += 1;
        threads.all += 1;
        Ok(())
    }

    fn run(&'static self) {
        loop {
            let taken = self.port.take_one(IDLE_MILLISECONDS);
            let mut threads = self.threads.lock();
            match taken {
                Ok(Some(packet)) => {
                    threads.idle -= 1;
                    drop(threads);
                    // If no thread can be started, the packet is handled nevertheless.
                    let _ = self.ensure_idle();
                    call(&packet);
                    self.threads.lock().idle += 1;
                }
                Ok(None) if threads.idle == 1 => {}
                // The port of the pool is never closed.
                Ok(None) | Err(_) => {
                    threads.idle -= 1;
                    threads.all -= 1;
                    return;
                }
            }
        }
    }
}

fn call(packet: &Packet) {
    let routine = ptr::with_exposed_provenance::<()>(packet.key);
    // SAFETY: the keys of the pool's port are functions of this type, which `bind` has exposed.
    let routine = unsafe { transmute::<*const (), CompletionRoutine>(routine) };
    #[expect(clippy::cast_possible_truncation, reason = "an NTSTATUS has 32 bits")]
    let status = packet.internal as u32;
    // SAFETY: the caller of `bind` guarantees that the function can be called.
    unsafe { routine(status, packet.bytes, packet.overlapped) };
}
