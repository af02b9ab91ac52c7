//! The signals of Unix.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::signals;
use signal_hook::consts::{SIGABRT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::low_level::pipe;

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail with an error message. The signal would end the program
/// without a message.
pub fn outlive_file_limits() {
    // Without a handler the signal ends the program.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Makes an abort, such as that for lack of memory, end process 1 with the status of SIGABRT. Without a handler the system would not
/// let this signal end process 1, and `abort` would then end it by an instruction that is not allowed, as a segmentation fault.
pub fn handle_aborts() {
    if signals::is_process_1() {
        // Without a handler the status is another one.
        let _ = flag::register_conditional_shutdown(
            SIGABRT,
            128 + SIGABRT,
            Arc::new(AtomicBool::new(true)),
        );
    }
}

/// Calls `each` for every signal that ends the program, in a thread.
pub(super) fn each_signal(mut each: impl FnMut(i32) + Send + 'static) {
    let (sender, begun) = crossbeam_channel::bounded(1);
    let thread = thread::Builder::new().name("signals".into());
    // Without this thread, signals end the program at once.
    let thread = thread.spawn(move || {
        let watched = Watched::new();
        let _ = sender.send(());
        if let Ok(mut watched) = watched {
            // The pipe has no end, because the handlers keep its other side.
            while watched.wait().is_ok() {
                watched.take().for_each(&mut each);
            }
        }
    });
    if thread.is_ok() {
        // The thread takes its resources from the system before the command begins.
        let _ = begun.recv();
    }
}

/// The signals that end the program. Their handlers write to a pipe and not to a socket, so that a sandbox without sockets does not
/// take them away.
struct Watched {
    came: Vec<(i32, Arc<AtomicBool>)>,
    woken: io::PipeReader,
}

impl Watched {
    fn new() -> io::Result<Self> {
        let (woken, wake) = io::pipe()?;
        let mut came = Vec::new();
        for signal in ending() {
            let flag = Arc::new(AtomicBool::new(false));
            flag::register(signal, Arc::clone(&flag))?;
            // The handlers of a signal run in the order of their registration.
            pipe::register(signal, wake.try_clone()?)?;
            came.push((signal, flag));
        }
        Ok(Self { came, woken })
    }

    fn wait(&mut self) -> io::Result<()> {
        self.woken.read_exact(&mut [0])
    }

    /// The signals that have arrived since the last call.
    fn take(&self) -> impl Iterator<Item = i32> {
        let came = self.came.iter();
        let came = came.filter(|(_, flag)| flag.swap(false, Ordering::SeqCst));
        came.map(|(signal, _)| *signal)
    }
}

fn ending() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    // Elsewhere the system ends the program, and dumps its memory.
    if signals::is_process_1() {
        signals.push(SIGQUIT);
    }
    // A program that `nohup` has started outlives its terminal.
    if is_ignored(SIGHUP) == Some(false) {
        signals.push(SIGHUP);
    }
    signals
}

/// Returns whether the program was started with this signal ignored, if the system reports it.
fn is_ignored(signal: i32) -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    let ignored = u64::from_str_radix(ignored.trim(), 16).ok()?;
    Some(ignored >> (signal - 1) & 1 == 1)
}
