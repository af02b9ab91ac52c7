//! Objects that a client passes to a call. They have to belong to the same provider, and to the same opened adapter (GEN-022).

use std::any::Any;
use std::sync::Arc;

use netdirect::{
    CompletionQueue, Connector, Error, MemoryRegion, MemoryWindow, OverlappedFile, QueuePair,
    Result, SharedReceiveQueue, Status,
};

/// An object of a provider that belongs to one opened adapter.
pub trait Owned: Any + Send + Sync {
    /// The state that all objects of one opened adapter share.
    type Adapter;

    /// Returns the state of the adapter to which this object belongs.
    fn adapter(&self) -> &Arc<Self::Adapter>;
}

/// Implements [`Owned`]: `owned!(Region of Core: |region| &region.core)`.
#[macro_export]
macro_rules! owned {
    ($type:ident of $adapter:ident: |$object:ident| $state:expr) => {
        impl $crate::checks::own::Owned for $type {
            type Adapter = $adapter;

            fn adapter(&self) -> &std::sync::Arc<$adapter> {
                let $object = self;
                $state
            }
        }
    };
}

fn find<T: Owned>(
    object: Arc<dyn Any + Send + Sync>,
    adapter: &Arc<T::Adapter>,
    status: Status,
    what: &'static str,
) -> Result<Arc<T>> {
    let object = object.downcast::<T>().ok();
    let own = object.filter(|object| Arc::ptr_eq(object.adapter(), adapter));
    own.ok_or_else(|| Error::new(status, what))
}

/// Returns the overlapped file, if it belongs to this adapter.
///
/// # Errors
///
/// [`INVALID_HANDLE`](Status::INVALID_HANDLE) (ADPT-086).
pub fn file<T: Owned>(file: &Arc<dyn OverlappedFile>, adapter: &Arc<T::Adapter>) -> Result<Arc<T>> {
    let what = "the overlapped file belongs to another adapter";
    find(file.clone(), adapter, Status::INVALID_HANDLE, what)
}

/// Returns the completion queue, if it belongs to this adapter.
///
/// # Errors
///
/// `status`, which names the parameter.
pub fn completion_queue<T: Owned>(
    queue: &Arc<dyn CompletionQueue>,
    adapter: &Arc<T::Adapter>,
    status: Status,
) -> Result<Arc<T>> {
    let what = "the completion queue belongs to another adapter";
    find(queue.clone(), adapter, status, what)
}

/// Returns the shared receive queue, if it belongs to this adapter.
///
/// # Errors
///
/// `status`, which names the parameter.
pub fn shared_receive_queue<T: Owned>(
    queue: &Arc<dyn SharedReceiveQueue>,
    adapter: &Arc<T::Adapter>,
    status: Status,
) -> Result<Arc<T>> {
    let what = "the shared receive queue belongs to another adapter";
    find(queue.clone(), adapter, status, what)
}

/// Returns the memory region, if it belongs to this adapter.
///
/// # Errors
///
/// [`INVALID_PARAMETER_2`](Status::INVALID_PARAMETER_2).
pub fn memory_region<T: Owned>(
    region: &Arc<dyn MemoryRegion>,
    adapter: &Arc<T::Adapter>,
) -> Result<Arc<T>> {
    let what = "the memory region belongs to another adapter";
    find(region.clone(), adapter, Status::INVALID_PARAMETER_2, what)
}

/// Returns the memory window, if it belongs to this adapter.
///
/// # Errors
///
/// `status`, which names the parameter.
pub fn memory_window<T: Owned>(
    window: &Arc<dyn MemoryWindow>,
    adapter: &Arc<T::Adapter>,
    status: Status,
) -> Result<Arc<T>> {
    let what = "the memory window belongs to another adapter";
    find(window.clone(), adapter, status, what)
}

/// Returns the queue pair, if it belongs to this adapter.
///
/// # Errors
///
/// [`INVALID_PARAMETER_1`](Status::INVALID_PARAMETER_1) (CONN-062).
pub fn queue_pair<T: Owned>(qp: &Arc<dyn QueuePair>, adapter: &Arc<T::Adapter>) -> Result<Arc<T>> {
    let what = "the queue pair is not one of this adapter's";
    find(qp.clone(), adapter, Status::INVALID_PARAMETER_1, what)
}

/// Returns the connector, if it belongs to this adapter.
///
/// # Errors
///
/// [`INVALID_PARAMETER_1`](Status::INVALID_PARAMETER_1).
pub fn connector<T: Owned>(
    connector: &Arc<dyn Connector>,
    adapter: &Arc<T::Adapter>,
) -> Result<Arc<T>> {
    let what = "the connector is not one of this adapter's";
    find(
        connector.clone(),
        adapter,
        Status::INVALID_PARAMETER_1,
        what,
    )
}

#[cfg(test)]
mod tests {
    use netdirect::RemoteToken;

    use super::*;

    #[derive(Debug)]
    struct Window(Arc<u8>);

    impl MemoryWindow for Window {
        fn get_remote_token(&self) -> RemoteToken {
            RemoteToken(0)
        }
    }

    owned!(Window of u8: |window| &window.0);

    /// A window of another provider.
    #[derive(Debug)]
    struct Foreign;

    impl MemoryWindow for Foreign {
        fn get_remote_token(&self) -> RemoteToken {
            RemoteToken(0)
        }
    }

    #[test]
    fn gen_022_objects_of_other_adapters_and_of_other_providers_are_refused() {
        let (here, elsewhere) = (Arc::new(1), Arc::new(1));
        let own: Arc<dyn MemoryWindow> = Arc::new(Window(Arc::clone(&here)));
        let other: Arc<dyn MemoryWindow> = Arc::new(Window(elsewhere));
        let foreign: Arc<dyn MemoryWindow> = Arc::new(Foreign);
        let status = Status::INVALID_PARAMETER_3;
        let find = |window| {
            let found = memory_window::<Window>(window, &here, status);
            found.map(drop).map_err(|error| error.status())
        };
        assert_eq!(find(&own), Ok(()));
        assert_eq!(find(&other), Err(status));
        assert_eq!(find(&foreign), Err(status));
    }
}
