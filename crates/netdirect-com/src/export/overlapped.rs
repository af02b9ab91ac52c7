//! `IND2Overlapped` and `INDXOverlapped`, and the objects that have them.

use std::ffi::c_char;
use std::sync::Arc;

use netdirect::{Adapter, OverlappedObject, Result, Status};

use super::file::File;
use super::guard::guarded;
use super::object::{Class, Object, unknown, unknown_of_explanations};
use super::parts::Parts;
use super::pointers::{ClientOverlapped, Out, Passed};
use super::requests::{Requests, overlapped_result};
use crate::abi::{
    Bool, ConnectionEndTable, Guid, Overlapped, OverlappedExtensionTable, OverlappedTable, This,
};

/// An object that has requests, over the provider's object.
pub(super) struct ObjectWithRequests<T: ?Sized> {
    pub(super) object: Arc<T>,
    pub(super) requests: Arc<Requests>,
    pub(super) parts: Parts,
}

/// The parts that differ between the classes of such objects, with the meaning that they have in [`Class`].
pub(super) trait Kind: OverlappedObject {
    type Table: Sync + 'static;
    const INTERFACES: &'static [Guid];
    type More: Sync + 'static;
    const MORE: Option<Guid>;
    const END: Option<&'static ConnectionEndTable> = None;

    fn table() -> &'static Self::Table;

    fn more() -> &'static Self::More;
}

impl<T: Kind + ?Sized> Class for ObjectWithRequests<T> {
    type Table = T::Table;
    const INTERFACES: &'static [Guid] = T::INTERFACES;
    type More = T::More;
    const MORE: Option<Guid> = T::MORE;
    const END: Option<&'static ConnectionEndTable> = T::END;
    const EXPLANATIONS: Option<&'static OverlappedExtensionTable> = Some(Self::OF_REQUESTS);

    fn table() -> &'static T::Table {
        T::table()
    }

    fn more() -> &'static T::More {
        T::more()
    }

    fn adapter(&self) -> Option<&dyn Adapter> {
        Some(&*self.parts.adapter)
    }

    fn release(self) {
        let Self {
            object,
            requests,
            parts,
        } = self;
        requests.release(object);
        drop((requests, parts));
        File::collect_some();
    }
}

impl<T: Kind + ?Sized> ObjectWithRequests<T> {
    const OF_REQUESTS: &'static OverlappedExtensionTable = &OverlappedExtensionTable {
        unknown: unknown_of_explanations::<Self>(),
        get_explanation: get_explanation::<T>,
    };

    /// Makes the object, with one reference for the client, for its interface `iid`.
    pub(super) fn create(object: Arc<T>, file: Arc<File>, parts: Parts, iid: Guid) -> Result<This> {
        let object = Self {
            object,
            requests: Requests::new(file),
            parts,
        };
        Object::create(object, iid)
    }

    fn cancel(&self) -> Result<()> {
        self.object.cancel_overlapped_requests()
    }
}

/// `IND2Overlapped` in the table of a class.
pub(super) const fn overlapped<T: Kind + ?Sized>() -> OverlappedTable {
    unsafe extern "system" fn cancel<T: Kind + ?Sized>(this: This) -> Status {
        // SAFETY: a client calls the function in the table of an object of this class, and has a reference (export, "the promise of
        // clients").
        unsafe { super::object::call(this, ObjectWithRequests::<T>::cancel) }
    }
    OverlappedTable {
        unknown: unknown::<ObjectWithRequests<T>>(),
        cancel_overlapped_requests: cancel::<T>,
        get_overlapped_result,
    }
}

/// GetOverlappedResult of all objects. It does not look at the object: another thread may give the last reference back while this one
/// waits, which then learns that the request was cancelled.
pub(super) unsafe extern "system" fn get_overlapped_result(
    _this: This,
    overlapped: *mut Overlapped,
    wait: Bool,
) -> Status {
    // SAFETY: the promise of clients (export).
    let overlapped = unsafe { ClientOverlapped::passed(overlapped) };
    guarded(None, || overlapped_result(overlapped, wait != 0))
}

/// GetExplanation of the objects of a class.
unsafe extern "system" fn get_explanation<T: Kind + ?Sized>(
    this: This,
    overlapped: *mut Overlapped,
    text: *mut c_char,
    size: *mut u32,
) -> Status {
    // SAFETY: the promise of clients (export).
    let overlapped = unsafe { ClientOverlapped::passed(overlapped) };
    // SAFETY: as above.
    let text = unsafe { Out::passed(text) };
    // SAFETY: as above.
    let size = unsafe { Out::passed(size) };
    let explain = |object: &ObjectWithRequests<T>| object.requests.explain(overlapped, &text, size);
    let this = Object::<ObjectWithRequests<T>>::main_of_explanations(this);
    // SAFETY: a client calls the function in the table of an object of this class, and has a reference (export, "the promise of clients").
    unsafe { super::object::call(this, explain) }
}
