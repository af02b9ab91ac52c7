//! The device under an opened adapter, as far as it can fail: the faults that a client has asked for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use netdirect::{Call, Counters, Error, Result, Status};
use parking_lot::Mutex;

use crate::status::fail;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Device {
    /// Faults were planned: calls have to look closer.
    troubled: AtomicBool,
    planned: Mutex<Vec<Planned>>,
    /// Faults that have happened.
    happened: AtomicU64,
}

/// A call that is to fail.
#[derive(Debug)]
struct Planned {
    call: Call,
    /// Calls until it fails, that one included.
    left: u32,
    status: Status,
}

impl Device {
    /// A call, its arguments checked, is about to take what it needs: fails with the status of a fault that is due.
    pub(crate) fn admit(&self, call: Call) -> Result<()> {
        if self.troubled.load(Ordering::SeqCst) {
            return self.look(call);
        }
        Ok(())
    }

    #[cold]
    fn look(&self, call: Call) -> Result<()> {
        let mut due = None;
        self.planned.lock().retain_mut(|planned| {
            if planned.call.covers(call) {
                planned.left -= 1;
                if planned.left == 0 {
                    self.happened.fetch_add(1, Ordering::Relaxed);
                    due = due.or(Some(planned.status));
                }
            }
            planned.left > 0
        });
        match due {
            Some(status) => Err(Error::new(
                status,
                format!("{call:?} fails because this fault was asked for"),
            )),
            None => Ok(()),
        }
    }

    /// Has the `nth` call of a kind from now on fail.
    pub(crate) fn plan(&self, call: Call, nth: u32, status: Status) -> Result<()> {
        if nth == 0 {
            return fail(
                Status::INVALID_PARAMETER,
                "calls are counted from 1: there is no call 0 to fail",
            );
        }
        if status.is_success() {
            return fail(
                Status::INVALID_PARAMETER,
                "a call cannot fail with a status that is no error",
            );
        }
        let planned = Planned {
            call,
            left: nth,
            status,
        };
        self.planned.lock().push(planned);
        self.troubled.store(true, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn count(&self, counters: &mut Counters) {
        let happened = self.happened.load(Ordering::Relaxed);
        counters.extend([("faults.happened", happened)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(result: Result<()>) -> Status {
        result.map_or_else(|error| error.status(), |()| Status::SUCCESS)
    }

    #[test]
    fn planned_faults_happen_once_each_at_their_call() {
        let device = Device::default();
        let (create, register) = (Call::CreateQueuePair, Call::Register);
        device.plan(create, 2, Status::NO_MEMORY).unwrap();
        let shortage = Status::INSUFFICIENT_RESOURCES;
        device.plan(Call::Any, 3, shortage).unwrap();
        device.plan(Call::Any, 5, shortage).unwrap();
        let calls = [create, register, create, register, create, create];
        let statuses = calls.map(|call| status(device.admit(call)));
        // The third call of any kind is the second of its own; the fault that was planned first tells.
        let due = [
            Status::SUCCESS,
            Status::SUCCESS,
            Status::NO_MEMORY,
            Status::SUCCESS,
            shortage,
            Status::SUCCESS,
        ];
        assert_eq!(statuses, due);
        let mut counters = Counters::new();
        device.count(&mut counters);
        assert_eq!(counters.get("faults.happened"), Some(3));
    }

    #[test]
    fn faults_that_could_never_happen_are_refused() {
        let device = Device::default();
        for (nth, with) in [
            (0, Status::NO_MEMORY),
            (1, Status::SUCCESS),
            (1, Status::PENDING),
        ] {
            let planned = device.plan(Call::Any, nth, with);
            assert_eq!(status(planned), Status::INVALID_PARAMETER);
        }
        assert_eq!(status(device.admit(Call::Listen)), Status::SUCCESS);
    }
}
