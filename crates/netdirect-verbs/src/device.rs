//! The device under an opened adapter: its objects, its removal, and the calls that a test makes fail.
//!
//! Removal first makes all calls fail, and then ends the objects in their [`RemovalOrder`]. Connectors end before queue pairs.
//! Otherwise a connector would take the end of its queue pair for a disconnect of the peer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use netdirect::{Call, Result, Status};
use parking_lot::Mutex;

use crate::fault_plan::PlannedFaults;
use crate::status::removed;

/// The order in which the objects of a removed device end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RemovalOrder {
    Listener,
    Connector,
    CompletionQueue,
    SharedReceiveQueue,
    QueuePair,
}

/// An object that learns when the device is removed.
pub(crate) trait DeviceObject: Send + Sync {
    fn removal_order(&self) -> RemovalOrder;

    fn device_removed(&self);

    /// The device tells that the queue pair with this number, which has failed, has no more results.
    fn last_receive_ended(&self, number: u32) {
        let _ = number;
    }

    /// The device tells that the queue pair with this number has failed.
    fn queue_pair_failed(&self, number: u32) {
        let _ = number;
    }
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Device {
    removed: AtomicBool,
    faults: PlannedFaults,
    object_list: Mutex<Vec<Weak<dyn DeviceObject>>>,
}

impl Device {
    /// Fails if the device was removed (GEN-015).
    pub(crate) fn present(&self) -> Result<()> {
        if self.removed.load(Ordering::SeqCst) {
            return Err(removed());
        }
        Ok(())
    }

    /// Fails if the device was removed, or if this call is to fail.
    pub(crate) fn admit(&self, call: Call) -> Result<()> {
        self.present()?;
        self.faults.admit(call)
    }

    /// Makes the `nth` call of a kind from now on fail with this status.
    pub(crate) fn plan(&self, call: Call, nth: u32, status: Status) -> Result<()> {
        self.present()?;
        self.faults.plan(call, nth, status)
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::SeqCst)
    }

    /// Tells the object when the device is removed, which may be now.
    pub(crate) fn add_object(&self, object: Weak<dyn DeviceObject>) {
        let mut objects = self.object_list.lock();
        if objects.len() == objects.capacity() {
            objects.retain(|object| object.strong_count() > 0);
        }
        objects.push(object.clone());
        drop(objects);
        if self.is_removed()
            && let Some(object) = object.upgrade()
        {
            object.device_removed();
        }
    }

    /// The objects that clients or other objects still hold.
    pub(crate) fn objects(&self) -> Vec<Arc<dyn DeviceObject>> {
        let objects = self.object_list.lock();
        objects.iter().filter_map(Weak::upgrade).collect()
    }

    /// From now on every call fails. Returns false if the device was removed before.
    pub(crate) fn begin_removal(&self) -> bool {
        !self.removed.swap(true, Ordering::SeqCst)
    }

    /// Ends all objects in their order.
    pub(crate) fn end_objects(&self) {
        let objects = std::mem::take(&mut *self.object_list.lock());
        let mut objects: Vec<_> = objects.iter().filter_map(Weak::upgrade).collect();
        objects.sort_by_key(|object| object.removal_order());
        for object in objects {
            object.device_removed();
        }
    }
}
