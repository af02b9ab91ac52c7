//! Signals that do not end the program at once. Ctrl-C as a wish to end well. Only commands that have something to finish ask for it; the others end at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::errors::{Failure, Result};

/// Has a write beyond the limit of file sizes (`ulimit -f`) fail, which is told in words, where the signal would end the
/// program without any.
pub(crate) fn outlive_file_limits() {
    // Without a handler it ends as it always did.
    #[cfg(unix)]
    let _ = flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// As shells show the end by SIGINT.
const STATUS: i32 = 130;

/// Whether Ctrl-C has been pressed. Pressed again, it ends the program at once.
#[derive(Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first Ctrl-C is only taken note of.
    pub(crate) fn watch() -> Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        // In this order: the first handler looks at what earlier signals have left.
        flag::register_conditional_shutdown(SIGINT, STATUS, Arc::clone(&came))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&came)))
            .map_err(|error| Failure::io("take note of Ctrl-C", &error))?;
        Ok(Self(came))
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
