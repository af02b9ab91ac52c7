//! Signals that do not end the program at once. Commands that have something to finish take Ctrl-C as a request to end in
//! good order. The others end at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::errors::{Failure, Result};

/// Makes a write beyond the limit of file sizes (`ulimit -f`) fail with an error message. The signal would end the program
/// without a message.
pub(crate) fn outlive_file_limits() {
    // Without a handler the signal ends the program.
    #[cfg(unix)]
    let _ = flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// The exit status that shells show for an end by SIGINT.
const STATUS: i32 = 130;

/// Whether Ctrl-C has been pressed. Pressed again, it ends the program at once.
#[derive(Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first Ctrl-C is only noted.
    pub(crate) fn watch() -> Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        // In this order, because the first handler checks the flag that an earlier signal has set.
        flag::register_conditional_shutdown(SIGINT, STATUS, Arc::clone(&came))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&came)))
            .map_err(|error| Failure::io("take note of Ctrl-C", &error))?;
        Ok(Self(came))
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
