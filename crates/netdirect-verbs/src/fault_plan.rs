//! Failures of calls that a test has asked for.

use std::sync::atomic::{AtomicBool, Ordering};

use netdirect::{Call, Error, Result, Status};
use netdirect_provider::checks::sizes;
use parking_lot::Mutex;

/// Calls that are going to fail.
#[derive(Debug, Default)]
pub(crate) struct PlannedFaults {
    /// There are some. All other calls check nothing else.
    some: AtomicBool,
    planned: Mutex<Vec<PlannedFault>>,
}

#[derive(Debug)]
struct PlannedFault {
    call: Call,
    /// The number of calls of the kind that are left until the one that fails.
    left: u32,
    status: Status,
}

impl PlannedFaults {
    /// Makes the `nth` call of a kind from now on fail with this status.
    pub(crate) fn plan(&self, call: Call, nth: u32, status: Status) -> Result<()> {
        sizes::failing_call(nth, status)?;
        self.planned.lock().push(PlannedFault {
            call,
            left: nth,
            status,
        });
        self.some.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Counts a call, which may be one that fails.
    pub(crate) fn admit(&self, call: Call) -> Result<()> {
        if !self.some.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut planned = self.planned.lock();
        let mut failing = None;
        for (at, fault) in planned.iter_mut().enumerate() {
            if fault.call.covers(call) {
                fault.left -= 1;
                if fault.left == 0 && failing.is_none() {
                    failing = Some(at);
                }
                fault.left = fault.left.max(1);
            }
        }
        match failing {
            None => Ok(()),
            Some(at) => {
                let fault = planned.remove(at);
                Err(Error::new(fault.status, "this failure was injected"))
            }
        }
    }
}
