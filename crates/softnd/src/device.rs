//! The device under an opened adapter. The device can be removed, and the device makes calls fail for fault plans.
//!
//! The device lists the objects that can have pending requests, for as long as the client holds them. Removal first makes all calls fail,
//! and then ends the listed objects in their [`RemovalOrder`].

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use iwarp_io::faults::{Action, CallFault, Event, FaultOwner, Faults, Plan, Rule, Which};
use netdirect::{Call, Counters, Error, Result, Status};
use netdirect_provider::checks::sizes;
use netdirect_provider::removal::{DeviceObject, RemovalOrder};
use parking_lot::Mutex;
use slab::Slab;

use crate::fault_plan;
use crate::status::removed;

impl FaultOwner for Device {
    fn remove_device(&self) {
        self.remove_by_plan();
    }
}

const REMOVAL_STEPS: usize = RemovalOrder::QueuePair as usize + 1;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Device {
    /// The device was removed, or faults are planned. Calls then take the slow path.
    troubled: AtomicBool,
    removed: AtomicBool,
    /// The plan that the adapter was opened with.
    plan: Option<Arc<Faults>>,
    /// The injected faults, each a plan that makes one call fail.
    injected: Mutex<Vec<Arc<Faults>>>,
    object_list: Mutex<ObjectList>,
    /// The adapter, which calls [`Device::remove`] when no lock is held.
    remover: OnceLock<Weak<dyn FaultOwner>>,
    /// The number of faults that have happened, without the faults of `plan`.
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
    objects: [Slab<DeviceObject>; REMOVAL_STEPS],
    /// The device was removed. No object can be added any more.
    closed: bool,
}

impl std::fmt::Debug for ObjectList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = self.objects.each_ref().map(Slab::len);
        f.debug_tuple("ObjectList").field(&counts).finish()
    }
}

/// Keeps an object in the list of its device. Dropping the entry takes the object out of the list.
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
    /// Makes a device that follows this fault plan.
    pub(crate) fn new(plan: Option<Arc<Faults>>) -> Self {
        let calls = plan.as_ref().is_some_and(|plan| plan.has_calls());
        Self {
            troubled: AtomicBool::new(calls),
            plan,
            ..Self::default()
        }
    }

    /// Sets the object that removes the device when the fault plan says so.
    pub(crate) fn removed_by(&self, remover: Weak<dyn FaultOwner>) {
        let _ = self.remover.set(remover);
    }

    /// The plan that the adapter was opened with.
    pub(crate) fn faults(&self) -> Option<&Arc<Faults>> {
        self.plan.as_ref()
    }

    /// Removes the device for the fault plan. Calls fail from now on, and the listed objects end soon. The caller may hold locks.
    pub(crate) fn remove_by_plan(&self) {
        if let Some(remover) = self.remover.get().and_then(Weak::upgrade)
            && !self.removed.swap(true, Ordering::SeqCst)
        {
            self.troubled.store(true, Ordering::SeqCst);
            remover.remove_device();
        }
    }

    /// The events that the pending requests of the listed objects wait for, one line each.
    pub(crate) fn waits(&self) -> Vec<String> {
        let objects: Vec<_> = {
            let object_list = self.object_list.lock();
            let objects = object_list.objects.iter().flatten();
            objects.map(|(_, object)| object.clone()).collect()
        };
        objects.iter().filter_map(DeviceObject::waits).collect()
    }

    /// Fails once the device is removed (GEN-015).
    pub(crate) fn present(&self) -> Result<()> {
        if self.removed.load(Ordering::SeqCst) {
            return Err(removed());
        }
        Ok(())
    }

    /// Called by a call that has checked its arguments and is about to take resources. Fails if the device was removed, or with the status
    /// of a fault that is due.
    pub(crate) fn admit(&self, call: Call) -> Result<()> {
        if self.troubled.load(Ordering::SeqCst) {
            return self.look(call);
        }
        Ok(())
    }

    #[cold]
    fn look(&self, call: Call) -> Result<()> {
        self.present()?;
        let names_call =
            |name: &str| fault_plan::call(name).is_some_and(|named| named.covers(call));
        let planned = self.plan.as_ref().and_then(|plan| plan.call(names_call));
        let mut due = planned.map(status_of);
        self.injected.lock().retain(|plan| {
            let fault = plan.call(names_call).map(status_of);
            if fault.is_some() {
                self.happened.fetch_add(1, Ordering::Relaxed);
            }
            due = due.or(fault);
            fault.is_none()
        });
        match due {
            Some(None) => {
                self.remove_by_plan();
                Err(removed())
            }
            Some(Some(status)) => Err(Error::new(
                status,
                format!("{call:?} fails because of an injected fault or a fault plan"),
            )),
            None => Ok(()),
        }
    }

    /// Makes the `nth` call of a kind from now on fail with this status.
    pub(crate) fn plan(&self, call: Call, nth: u32, status: Status) -> Result<()> {
        self.present()?;
        sizes::failing_call(nth, status)?;
        let event = Event::Call(Which::Nth(nth.into()), fault_plan::call_name(call));
        let action = Action::Fail(fault_plan::status_name(status));
        let plan = Plan::new().with_rule(Rule::new(event, action));
        let plan =
            plan.map_err(|error| Error::new(Status::INVALID_PARAMETER, error.to_string()))?;
        self.injected.lock().push(Faults::new(plan));
        self.troubled.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Counts an injected fault that took effect at once.
    pub(crate) fn count_fault(&self) {
        self.happened.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds an object to the list, for as long as the returned entry exists. Fails if the device was removed already.
    pub(crate) fn add_object(
        self: &Arc<Self>,
        order: RemovalOrder,
        object: DeviceObject,
    ) -> Result<DeviceListEntry> {
        let mut object_list = self.object_list.lock();
        if object_list.closed {
            return Err(removed());
        }
        let key = object_list.objects[order as usize].insert(object);
        Ok(DeviceListEntry {
            device: Arc::clone(self),
            order,
            key,
        })
    }

    /// Removes the device, and ends all listed objects before returning. The removal counts as a fault unless a plan caused it.
    pub(crate) fn remove(&self, planned: bool) -> Result<()> {
        let objects: Vec<_> = {
            let mut object_list = self.object_list.lock();
            if std::mem::replace(&mut object_list.closed, true) {
                return Err(removed());
            }
            self.removed.store(true, Ordering::SeqCst);
            self.troubled.store(true, Ordering::SeqCst);
            let in_order = object_list.objects.iter().flatten();
            in_order.map(|(_, object)| object.clone()).collect()
        };
        if !planned {
            self.count_fault();
        }
        end_all(&objects, DeviceObject::device_removed);
        Ok(())
    }

    pub(crate) fn count(&self, counters: &mut Counters) {
        let planned = self.plan.iter().flat_map(|plan| plan.happened());
        let planned: u64 = planned.map(|(_, count)| count).sum();
        let happened = self.happened.load(Ordering::Relaxed) + planned;
        counters.extend([("faults.happened", happened)]);
    }
}

/// Ends these objects, because their device was removed. If one of them panics, the others end before the panic continues.
pub(crate) fn end_all<T>(objects: &[T], end: impl Fn(&T)) {
    let mut first = None;
    for object in objects {
        let ended = catch_unwind(AssertUnwindSafe(|| end(object)));
        first = first.or(ended.err());
    }
    if let Some(panic) = first {
        resume_unwind(panic);
    }
}

/// The status that a fault makes a call fail with. `None` if the fault removes the device.
fn status_of(fault: CallFault<'_>) -> Option<Status> {
    match fault {
        CallFault::Fail(name) => Some(fault_plan::status(name).unwrap_or(Status::UNSUCCESSFUL)),
        CallFault::RemoveDevice => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records that the removal was reported to this object.
    struct Object {
        name: char,
        removed: Arc<Mutex<String>>,
        device: Arc<Device>,
    }

    impl Object {
        fn device_removed(&self) {
            assert!(self.device.present().is_err());
            self.removed.lock().push(self.name);
        }
    }

    #[test]
    fn objects_are_told_once_in_their_order_unless_their_clients_have_gone() {
        let (device, removed) = (Arc::new(Device::default()), Arc::<Mutex<String>>::default());
        let add = |(order, name)| {
            let (removed, device) = (Arc::clone(&removed), Arc::clone(&device));
            let object = Arc::new(Object {
                name,
                removed,
                device,
            });
            let listed = DeviceObject::new(&object, Object::device_removed, |_| None);
            let entry = object.device.add_object(order, listed);
            entry.map(|entry| (object, entry))
        };
        let objects = [
            (RemovalOrder::QueuePair, 'q'),
            (RemovalOrder::Connector, 'c'),
            (RemovalOrder::CompletionQueue, 'r'),
            (RemovalOrder::Listener, 'l'),
            (RemovalOrder::Connector, 'd'),
        ];
        let [first, gone, rest @ ..] = objects.map(|object| add(object).unwrap());
        let (still_used, entry) = gone;
        drop(entry);
        device.remove(false).unwrap();
        assert_eq!(*removed.lock(), "ldrq");
        assert_eq!(status(device.remove(false)), Status::DEVICE_REMOVED);
        let late = add((RemovalOrder::Listener, 'x')).map(drop);
        assert_eq!(status(late), Status::DEVICE_REMOVED);
        assert_eq!(status(device.admit(Call::Listen)), Status::DEVICE_REMOVED);
        let planned = device.plan(Call::Listen, 1, Status::NO_MEMORY);
        assert_eq!(status(planned), Status::DEVICE_REMOVED);
        drop((first, still_used, rest));
        assert_eq!(*removed.lock(), "ldrq");
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
        // The third call of all kinds is the second call of its kind. The fault that was planned first decides.
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
}
