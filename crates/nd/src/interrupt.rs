//! Signals that end the program: Ctrl-C, a request to end (SIGTERM), and the end of the terminal (SIGHUP).
//!
//! The system tells peers over TCP at once that the program has ended, but not peers over UDP. So a thread takes these signals, has
//! all peers told, and then lets the signal end the program. Commands that have something to finish take the first signal as a
//! request to end in good order.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use nd::signals;
use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::errors::{Failure, Result};
use crate::stderr;

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail with an error message. The signal would end the program
/// without a message.
pub(crate) fn outlive_file_limits() {
    // Without a handler the signal ends the program.
    #[cfg(unix)]
    let _ = flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// Makes an abort, such as that for lack of memory, end process 1 with the status of SIGABRT. Without a handler the system would not
/// let this signal end process 1, and `abort` would then end it by an instruction that is not allowed, as a segmentation fault.
pub(crate) fn handle_aborts() {
    if signals::is_process_1() {
        // Without a handler the status is another one.
        let _ = flag::register_conditional_shutdown(
            SIGABRT,
            128 + SIGABRT,
            Arc::new(AtomicBool::new(true)),
        );
    }
}

/// How long peers may take to be told.
const TELLING: Duration = Duration::from_secs(1);

/// Tells all peers.
static FAREWELL: OnceLock<fn()> = OnceLock::new();

/// Set by the first signal, if a command takes it as a request to end in good order.
static REQUEST: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The first signal that has come; 0 for none.
static CAME: AtomicI32 = AtomicI32::new(0);

/// Whether a signal is about to end the program.
static ENDS: AtomicBool = AtomicBool::new(false);

/// From now on calls `farewell`, which tells all peers, before a signal ends the program.
pub(crate) fn watch(farewell: fn()) {
    // There is one caller.
    let _ = FAREWELL.set(farewell);
    let (sender, begun) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("signals".into());
    // Without this thread, signals end the program at once.
    let thread = thread.spawn(move || {
        let signals = watched();
        let _ = sender.send(());
        let Ok(mut signals) = signals else {
            return;
        };
        for signal in signals.forever() {
            let first = CAME.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
            match REQUEST.get() {
                Some(request) if first.is_ok() => request.store(true, Ordering::SeqCst),
                _ => end_by(signal),
            }
        }
    });
    if thread.is_ok() {
        // What the thread takes of the system is taken before the command begins.
        let _ = begun.recv();
    }
}

fn watched() -> io::Result<Signals> {
    let mut signals = vec![SIGINT, SIGTERM];
    // Elsewhere the system ends the program, and dumps its memory.
    if signals::is_process_1() {
        signals.push(SIGQUIT);
    }
    // A program that `nohup` has started outlives its terminal.
    if is_ignored(SIGHUP) == Some(false) {
        signals.push(SIGHUP);
    }
    Signals::new(signals)
}

/// Whether the program was started with this signal ignored, if the system tells.
fn is_ignored(signal: i32) -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    let ignored = u64::from_str_radix(ignored.trim(), 16).ok()?;
    Some(ignored >> (signal - 1) & 1 == 1)
}

/// Tells all peers, then ends the program as the signal does.
fn end_by(signal: i32) -> ! {
    let farewell = FAREWELL.get().copied().unwrap_or(|| {});
    ENDS.store(true, Ordering::SeqCst);
    // What becomes of the command now is not an error.
    stderr::silence();
    let (sender, told) = mpsc::channel();
    let tell = thread::Builder::new().spawn(move || {
        farewell();
        sender.send(())
    });
    match tell {
        Ok(_) => drop(told.recv_timeout(TELLING)),
        Err(_) => farewell(),
    }
    signals::end_by(signal)
}

/// Called at the end of the command. Does not return if a signal is about to end the program.
pub(crate) fn finish() {
    while ENDS.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// A request to end, for a command that ends in good order then.
#[derive(Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first signal is only noted. The second one ends the program.
    pub(crate) fn watch() -> Self {
        Self(Arc::clone(REQUEST.get_or_init(Arc::default)))
    }

    /// Whether a signal has come.
    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Set when a signal comes, for those who know nothing of signals.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// A failure if a signal has come. Its text is for the peer.
    pub(crate) fn check(&self) -> Result<()> {
        if self.came() {
            return Err(Failure::new(
                "its user has interrupted it",
                "begin again when the other side does",
            ));
        }
        Ok(())
    }

    /// Ends the program as the signal does that has come, if one has. The command has said what there was to say.
    pub(crate) fn end_if_came(&self) {
        if self.came() {
            end_by(CAME.load(Ordering::SeqCst));
        }
    }
}
