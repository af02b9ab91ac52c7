//! The device under an opened adapter: its objects, its removal, and the calls that fail at the request of a test.
//!
//! Removal first makes all calls fail, and then ends the objects in their [`RemovalOrder`]. An object is listed as long as it exists: a
//! completion queue that its client has released, and that queue pairs still use, has a channel to give up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use netdirect::{Call, Result, Status};
use netdirect_provider::removal::{DeviceObject, RemovalOrder};
use parking_lot::Mutex;

use crate::fault_plan::PlannedFaults;
use crate::handle::QueuePairError;
use crate::status::removed;

/// A queue pair that is notified of the device's events.
pub(crate) trait DeviceQueuePair: Send + Sync {
    /// The queue pair with this number, which has failed, has no more results.
    fn last_receive_ended(&self, number: u32);

    /// The queue pair with this number has failed.
    fn queue_pair_failed(&self, number: u32, error: QueuePairError);
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Device {
    removed: AtomicBool,
    faults: PlannedFaults,
    object_list: Mutex<Vec<(RemovalOrder, DeviceObject)>>,
    queue_pairs: Mutex<Vec<Weak<dyn DeviceQueuePair>>>,
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

    /// Ends the object when the device is removed, which may be now.
    pub(crate) fn add_object(&self, order: RemovalOrder, object: DeviceObject) {
        let mut objects = self.object_list.lock();
        if objects.len() == objects.capacity() {
            objects.retain(|(_, object)| object.is_alive());
        }
        objects.push((order, object.clone()));
        drop(objects);
        if self.is_removed() {
            object.device_removed();
        }
    }

    /// Notifies the queue pair of the device's events from now on.
    pub(crate) fn add_queue_pair(&self, qp: Weak<dyn DeviceQueuePair>) {
        let mut queue_pairs = self.queue_pairs.lock();
        if queue_pairs.len() == queue_pairs.capacity() {
            queue_pairs.retain(|qp| qp.strong_count() > 0);
        }
        queue_pairs.push(qp);
    }

    /// The queue pairs that clients or other objects still hold.
    pub(crate) fn queue_pairs(&self) -> Vec<Arc<dyn DeviceQueuePair>> {
        let queue_pairs = self.queue_pairs.lock();
        queue_pairs.iter().filter_map(Weak::upgrade).collect()
    }

    /// From now on every call fails. Returns false if the device was removed before.
    pub(crate) fn begin_removal(&self) -> bool {
        !self.removed.swap(true, Ordering::SeqCst)
    }

    /// Ends all objects in their order.
    pub(crate) fn end_objects(&self) {
        let mut objects = std::mem::take(&mut *self.object_list.lock());
        objects.sort_by_key(|(order, _)| *order);
        for (_, object) in objects {
            object.device_removed();
        }
    }
}
