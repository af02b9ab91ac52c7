//! The device under an opened adapter, as far as it can fail: it can be removed, and calls fail that a client has asked to
//! fail.
//!
//! What ends with the device is object_list here for as long as the client has it. Removal makes all calls fail first, and
//! then ends the object_list objects in the order of their [`RemovalOrder`]: what makes connections before what uses them, so that no
//! connector takes the end of its queue pair for the peer's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use iwarp_io::faults::{Action, CallFault, Event, FaultOwner, Faults, Plan, Rule, Which};
use netdirect::{Call, Counters, Error, Result, Status};
use parking_lot::Mutex;
use slab::Slab;

use crate::fault_names;
use crate::status::fail;

/// Something that ends when the device is removed.
pub(crate) trait DeviceObject: Send + Sync {
    /// Ends what is pending with [`Status::DEVICE_REMOVED`]. Called once, with no lock held, when [`Device::present`] fails
    /// already: what begins later finds that out under the object's own lock.
    fn device_removed(&self);

    /// What of this object is in flight and for what it waits, if anything is.
    fn waits(&self) -> Option<String> {
        None
    }
}

impl FaultOwner for Device {
    fn remove_device(&self) {
        self.remove_by_plan();
    }
}

/// Removes a device for a plan, when no lock is held any more.
pub(crate) trait RemovalScheduler: Send + Sync {
    /// Has [`Device::remove`] called soon.
    fn remove_soon(&self);
}

/// In which order objects end with their device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemovalOrder {
    Listener,
    Connector,
    CompletionQueue,
    SharedReceiveQueue,
    QueuePair,
}

const REMOVAL_STEPS: usize = 5;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Device {
    /// The device was removed, or faults were planned: calls have to look closer.
    troubled: AtomicBool,
    removed: AtomicBool,
    /// The plan that the adapter was opened with.
    plan: Option<Arc<Faults>>,
    /// Plans of one call that is to fail, as they were injected.
    injected: Mutex<Vec<Arc<Faults>>>,
    object_list: Mutex<ObjectList>,
    remover: OnceLock<Weak<dyn RemovalScheduler>>,
    /// Faults that have happened, but for those of `plan`.
    happened: AtomicU64,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("removed", &self.removed)
            .field("plan", &self.plan)
            .field("injected", &self.injected)
            .field("object_list", &self.object_list)
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct ObjectList {
    objects: [Slab<Weak<dyn DeviceObject>>; REMOVAL_STEPS],
    /// The device was removed: nothing is object_list any more.
    closed: bool,
}

impl std::fmt::Debug for ObjectList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = self.objects.each_ref().map(Slab::len);
        f.debug_tuple("ObjectList").field(&counts).finish()
    }
}

/// Keeps an object in its device's list.
#[derive(Debug)]
#[must_use]
pub(crate) struct DeviceListEntry {
    device: Arc<Device>,
    order: RemovalOrder,
    key: usize,
}

impl Drop for DeviceListEntry {
    fn drop(&mut self) {
        let mut object_list = self.device.object_list.lock();
        let object = object_list.objects[self.order as usize].try_remove(self.key);
        drop(object_list);
        drop(object);
    }
}

impl Device {
    /// A device that goes by this plan.
    pub(crate) fn new(plan: Option<Arc<Faults>>) -> Self {
        let calls = plan.as_ref().is_some_and(|plan| plan.has_calls());
        Self {
            troubled: AtomicBool::new(calls),
            plan,
            ..Self::default()
        }
    }

    /// Who removes it when its plan says so.
    pub(crate) fn removed_by(&self, remover: Weak<dyn RemovalScheduler>) {
        let _ = self.remover.set(remover);
    }

    /// The plan that the adapter was opened with.
    pub(crate) fn faults(&self) -> Option<&Arc<Faults>> {
        self.plan.as_ref()
    }

    /// The plan has it removed: calls fail from now on, and everything ends soon. Called with whatever lock held.
    pub(crate) fn remove_by_plan(&self) {
        if let Some(remover) = self.remover.get().and_then(Weak::upgrade)
            && !self.removed.swap(true, Ordering::SeqCst)
        {
            self.troubled.store(true, Ordering::SeqCst);
            remover.remove_soon();
        }
    }

    /// What of the object_list objects is in flight, a line each.
    pub(crate) fn waits(&self) -> Vec<String> {
        let objects: Vec<_> = {
            let object_list = self.object_list.lock();
            let objects = object_list.objects.iter().flatten();
            objects.map(|(_, object)| object.clone()).collect()
        };
        let objects = objects.iter().filter_map(Weak::upgrade);
        objects.filter_map(|object| object.waits()).collect()
    }

    /// Fails once the device is removed (GEN-015).
    pub(crate) fn present(&self) -> Result<()> {
        if self.removed.load(Ordering::SeqCst) {
            return removed();
        }
        Ok(())
    }

    /// A call, its arguments checked, is about to take what it needs: fails if the device is removed, or with the status of a
    /// fault that is due.
    pub(crate) fn admit(&self, call: Call) -> Result<()> {
        if self.troubled.load(Ordering::SeqCst) {
            return self.look(call);
        }
        Ok(())
    }

    #[cold]
    fn look(&self, call: Call) -> Result<()> {
        self.present()?;
        let is = |name: &str| fault_names::call(name).is_some_and(|named| named.covers(call));
        let planned = self.plan.as_ref().and_then(|plan| plan.call(is));
        let mut due = planned.map(status_of);
        self.injected.lock().retain(|plan| {
            let fault = plan.call(is).map(status_of);
            if fault.is_some() {
                self.happened.fetch_add(1, Ordering::Relaxed);
            }
            due = due.or(fault);
            fault.is_none()
        });
        match due {
            Some(None) => {
                self.remove_by_plan();
                removed()
            }
            Some(Some(status)) => Err(Error::new(
                status,
                format!("{call:?} fails because this fault was asked for"),
            )),
            None => Ok(()),
        }
    }

    /// Has the `nth` call of a kind from now on fail.
    pub(crate) fn plan(&self, call: Call, nth: u32, status: Status) -> Result<()> {
        self.present()?;
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
        let event = Event::Call(Which::Nth(nth.into()), fault_names::call_name(call));
        let action = Action::Fail(fault_names::status_name(status));
        let plan = Plan::new().with_rule(Rule::new(event, action));
        let plan =
            plan.map_err(|error| Error::new(Status::INVALID_PARAMETER, error.to_string()))?;
        self.injected.lock().push(Faults::new(plan));
        self.troubled.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// A fault has happened that was not planned for later.
    pub(crate) fn count_fault(&self) {
        self.happened.fetch_add(1, Ordering::Relaxed);
    }

    /// Has an object told of the removal for as long as what is returned exists. Fails when the device is removed already.
    pub(crate) fn add_object(
        self: &Arc<Self>,
        order: RemovalOrder,
        object: Weak<dyn DeviceObject>,
    ) -> Result<DeviceListEntry> {
        let mut object_list = self.object_list.lock();
        if object_list.closed {
            return removed();
        }
        let key = object_list.objects[order as usize].insert(object);
        Ok(DeviceListEntry {
            device: Arc::clone(self),
            order,
            key,
        })
    }

    /// Removes the device: when this returns, everything that was object_list has been told. Counts as a fault unless it was planned.
    pub(crate) fn remove(&self, planned: bool) -> Result<()> {
        let objects: Vec<_> = {
            let mut object_list = self.object_list.lock();
            if std::mem::replace(&mut object_list.closed, true) {
                return removed();
            }
            self.removed.store(true, Ordering::SeqCst);
            self.troubled.store(true, Ordering::SeqCst);
            let in_order = object_list.objects.iter().flatten();
            in_order.map(|(_, object)| object.clone()).collect()
        };
        if !planned {
            self.count_fault();
        }
        for object in objects.iter().filter_map(Weak::upgrade) {
            object.device_removed();
        }
        Ok(())
    }

    pub(crate) fn count(&self, counters: &mut Counters) {
        let planned = self.plan.iter().flat_map(|plan| plan.happened());
        let planned: u64 = planned.map(|(_, count)| count).sum();
        let happened = self.happened.load(Ordering::Relaxed) + planned;
        counters.extend([("faults.happened", happened)]);
    }
}

/// What a call fails with; `None` where it removes the device.
fn status_of(fault: CallFault<'_>) -> Option<Status> {
    match fault {
        CallFault::Fail(name) => Some(fault_names::status(name).unwrap_or(Status::UNSUCCESSFUL)),
        CallFault::RemoveDevice => None,
    }
}

fn removed<T>() -> Result<T> {
    fail(Status::DEVICE_REMOVED, "the device was removed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes down that it was told.
    struct Object {
        name: char,
        told: Arc<Mutex<String>>,
        device: Arc<Device>,
    }

    impl DeviceObject for Object {
        fn device_removed(&self) {
            assert!(self.device.present().is_err());
            self.told.lock().push(self.name);
        }
    }

    #[test]
    fn objects_are_told_once_in_their_order_unless_their_clients_have_gone() {
        let (device, told) = (Arc::new(Device::default()), Arc::<Mutex<String>>::default());
        let add = |(order, name)| {
            let (told, device) = (Arc::clone(&told), Arc::clone(&device));
            let object = Arc::new(Object { name, told, device });
            let weak: Weak<dyn DeviceObject> =
                Arc::downgrade(&(Arc::clone(&object) as Arc<dyn DeviceObject>));
            let entry = object.device.add_object(order, weak);
            entry.map(|entry| (object, entry))
        };
        let objects = [
            (RemovalOrder::QueuePair, 'q'),
            (RemovalOrder::Connector, 'c'),
            (RemovalOrder::CompletionQueue, 'r'),
            (RemovalOrder::Listener, 'l'),
            (RemovalOrder::Connector, 'd'),
        ];
        let [first, gone, rest @ ..] = objects.map(|of| add(of).unwrap());
        let (still_used, entry) = gone;
        drop(entry);
        device.remove(false).unwrap();
        assert_eq!(*told.lock(), "ldrq");
        assert_eq!(status(device.remove(false)), Status::DEVICE_REMOVED);
        let late = add((RemovalOrder::Listener, 'x')).map(drop);
        assert_eq!(status(late), Status::DEVICE_REMOVED);
        assert_eq!(status(device.admit(Call::Listen)), Status::DEVICE_REMOVED);
        let planned = device.plan(Call::Listen, 1, Status::NO_MEMORY);
        assert_eq!(status(planned), Status::DEVICE_REMOVED);
        drop((first, still_used, rest));
        assert_eq!(*told.lock(), "ldrq");
        let left = device.object_list.lock().objects.each_ref().map(Slab::len);
        assert_eq!(left, [0; REMOVAL_STEPS]);
    }

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
