//! Signals that end the program: Ctrl-C, a request to end (SIGTERM), and the end of the terminal (SIGHUP). On Windows they are the
//! events of the console.
//!
//! When the program ends, the system closes its connections over TCP at once, but not those over UDP. So a thread takes these signals, has
//! all peers told, and then lets the signal end the program. Commands that have something to finish take the first signal as a
//! request to end in good order.

#[cfg(windows)]
mod console;
#[cfg(unix)]
mod unix;

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::signals;

#[cfg(windows)]
use console as system;
#[cfg(unix)]
use unix as system;

pub use system::{handle_aborts, outlive_file_limits};

use crate::errors::{Failure, Result};
use crate::stderr;

/// The time limit for informing peers.
const TELLING: Duration = Duration::from_secs(1);

/// Closes the connections of all peers.
static FAREWELL: OnceLock<fn()> = OnceLock::new();

/// Set by the first signal, if a command takes it as a request to end in good order.
static REQUEST: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The first signal that has arrived; 0 for none.
static CAME: AtomicI32 = AtomicI32::new(0);

/// Whether a signal is about to end the program.
static ENDS: AtomicBool = AtomicBool::new(false);

/// From now on calls `farewell`, which informs all peers, before a signal ends the program.
pub fn watch(farewell: fn()) {
    // There is one caller.
    let _ = FAREWELL.set(farewell);
    system::each_signal(|signal| {
        let first = CAME.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        match REQUEST.get() {
            Some(request) if first.is_ok() => request.store(true, Ordering::SeqCst),
            _ => end_by(signal),
        }
    });
}

/// Closes the connections of all peers, then ends the program as the signal does.
fn end_by(signal: i32) -> ! {
    let farewell = FAREWELL.get().copied().unwrap_or(|| {});
    ENDS.store(true, Ordering::SeqCst);
    // From now on the result of the command is not an error.
    stderr::silence();
    let (sender, receiver) = crossbeam_channel::unbounded();
    let tell = thread::Builder::new().spawn(move || {
        farewell();
        sender.send(())
    });
    match tell {
        Ok(_) => drop(receiver.recv_timeout(TELLING)),
        Err(_) => farewell(),
    }
    signals::end_by(signal)
}

/// Called at the end of the command. Does not return if a signal is about to end the program.
pub fn finish() {
    while ENDS.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// A request to end, for a command that ends in good order then.
#[derive(Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first signal is only noted. The second one ends the program.
    pub fn watch() -> Self {
        Self(Arc::clone(REQUEST.get_or_init(Arc::default)))
    }

    /// Returns true if a signal has arrived.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Set when a signal comes, for those who know nothing of signals.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// A failure if a signal has arrived. Its text is for the peer.
    pub fn check(&self) -> Result<()> {
        if self.came() {
            return Err(Failure::new(
                "its user has interrupted it",
                "begin again when the other side does",
            ));
        }
        Ok(())
    }

    /// Lets a pending signal end the program. The command has printed its messages by then.
    pub fn end_if_came(&self) {
        if self.came() {
            end_by(CAME.load(Ordering::SeqCst));
        }
    }
}
