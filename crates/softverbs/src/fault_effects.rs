//! The effects of a fault plan on the devices of its process.

use std::time::Instant;

use iwarp_io::faults::FaultOwner;
use iwarp_io::progress::timers::{Timed, TimerKey};

use crate::process::{Broken, Process};

impl FaultOwner for Process {
    /// Sets a timer, because the caller may hold locks now.
    fn remove_device(&self) {
        if let Ok(engine) = self.engine() {
            let driver = &engine.driver;
            driver.set_timer(driver.now(), self.this.clone());
        }
    }
}

impl Timed for Process {
    fn expired(&self, _: TimerKey, _: Instant) {
        self.break_by(Broken::Removed);
    }
}
