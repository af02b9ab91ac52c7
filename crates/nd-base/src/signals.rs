//! The end of a program by a signal.

use std::process;

#[cfg(unix)]
use signal_hook::low_level::emulate_default_handler;

/// Returns true if this is process 1, such as the program of a container. The system throws signals away whose default action would
/// end process 1, also those that it sends to itself.
#[cfg(unix)]
#[must_use]
pub fn is_process_1() -> bool {
    process::id() == 1
}

/// Ends the program by a signal whose default action does so. Shells then show the status 128 + `signal`, and a script ends as well.
/// Process 1 cannot be ended by a signal, and ends with this status instead, as `docker stop` expects it.
#[cfg(unix)]
pub fn end_by(signal: i32) -> ! {
    if !is_process_1() {
        let _ = emulate_default_handler(signal);
    }
    process::exit(128 + signal)
}

/// The status of a program that Windows has ended by Ctrl-C, `STATUS_CONTROL_C_EXIT`.
#[cfg(windows)]
pub const CONTROL_C_EXIT: i32 = 0xC000_013A_u32.cast_signed();

/// Ends the program with the status that it would have without a handler for Ctrl-C. Scripts of `cmd` then ask whether to go on.
#[cfg(windows)]
pub fn end_by(status: i32) -> ! {
    process::exit(status)
}
