//! The effects of a fault plan on the devices and completion queues of its process.

use std::sync::{Arc, Weak};
use std::time::Instant;

use iwarp_io::faults::{FaultOwner, Faults};
use iwarp_io::progress::timers::{Timed, TimerKey};

use crate::faults::{BreakableQueue, PlannedEffect};
use crate::process::{Broken, Process};

impl Process {
    /// The fault plan of the options.
    pub(crate) fn faults(&self) -> Option<&Arc<Faults>> {
        self.planned_faults.as_ref().map(|planned| &planned.faults)
    }

    /// Breaks a completion queue down for the fault plan, at a time when no lock is held.
    pub(crate) fn break_soon(&self, queue: Weak<dyn BreakableQueue>) {
        self.perform_soon(PlannedEffect::BreakQueue(queue));
    }

    /// Sets a timer, because the caller may hold locks now.
    fn perform_soon(&self, effect: PlannedEffect) {
        if let (Some(planned), Ok(engine)) = (&self.planned_faults, self.engine()) {
            planned.effects.lock().push(effect);
            let driver = &engine.driver;
            driver.set_timer(driver.now(), self.this.clone());
        }
    }
}

impl Timed for Process {
    fn expired(&self, _: TimerKey, _: Instant) {
        let Some(planned) = &self.planned_faults else {
            return;
        };
        // The lock is released first, because one effect may add another.
        let effects = std::mem::take(&mut *planned.effects.lock());
        for effect in effects {
            match effect {
                PlannedEffect::RemoveDevices => self.break_by(Broken::Removed),
                PlannedEffect::BreakQueue(queue) => {
                    if let Some(queue) = queue.upgrade() {
                        queue.break_down();
                    }
                }
            }
        }
    }
}

impl FaultOwner for Process {
    fn remove_device(&self) {
        self.perform_soon(PlannedEffect::RemoveDevices);
    }
}
