//! The events of a Windows console: Ctrl-C and Ctrl-Break, the end of the console, of the session or of the system.

use crate::signals::CONTROL_C_EXIT;

/// Windows has no such limits.
pub fn outlive_file_limits() {}

/// On Windows an abort ends every process.
pub fn handle_aborts() {}

/// Calls `each` for every event that ends the program, in a thread. All events count as Ctrl-C. At the end of the console, of the session
/// or of the system Windows ends the program without waiting for the thread.
pub(super) fn each_signal(mut each: impl FnMut(i32) + Send + 'static) {
    // Without a handler, events end the program at once.
    let _ = ctrlc::set_handler(move || each(CONTROL_C_EXIT));
}
