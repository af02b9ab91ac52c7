//! Broken entry points.

use std::sync::atomic::{AtomicUsize, Ordering};

use netdirect::Status;
use netdirect_com::abi::*;
use netdirect_com::export::can_unload_now;
use netdirect_com::import::{CanUnloadNow, GetClassObject};

use super::library::{class_object, get, original, put};
use super::{Line, line};

pub(super) const CLASS_OBJECT: GetClassObject = class_object;
pub(super) const CAN_UNLOAD: CanUnloadNow = can_unload;
pub(super) const EXPORTS: &[&str] = &["DllGetClassObject", "DllCanUnloadNow"];

/// The number of providers that are alive, for libraries that count them.
static PROVIDERS: AtomicUsize = AtomicUsize::new(0);

/// Resets the state for another library.
pub(super) fn begin() {
    PROVIDERS.store(0, Ordering::Relaxed);
}

pub(super) const LINES: &[Line] = &[
    line(
        "DllGetClassObject is exported under another name",
        |broken| broken.linked.exports = &["GetClassObject", "DllCanUnloadNow"],
        &["DLL-001.exported"],
    ),
    line(
        "DllCanUnloadNow is not exported",
        |broken| broken.linked.exports = &["DllGetClassObject"],
        &["DLL-002.exported"],
    ),
    line(
        "the object of DllGetClassObject makes providers, as a factory does",
        |broken| broken.tables.provider.unknown.query_interface = factory,
        &["DLL-003.provider", "GEN-021.same"],
    ),
    line(
        "there are at most three providers",
        |broken| {
            broken.linked.get_class_object = at_most_three;
            count(&mut broken.tables.provider.unknown);
        },
        &["DLL-004.threads"],
    ),
    line(
        "DllCanUnloadNow always says yes",
        |broken| broken.linked.can_unload_now = always,
        &["DLL-005.provider", "DLL-006.adapter"],
    ),
    line(
        "DllCanUnloadNow counts providers alone",
        |broken| {
            broken.linked.get_class_object = counted;
            broken.linked.can_unload_now = without_providers;
            count(&mut broken.tables.provider.unknown);
        },
        &["DLL-006.adapter"],
    ),
];

/// Makes the library count its providers. The table's Release is their last, because they have no other interface.
fn count(provider: &mut UnknownTable) {
    provider.query_interface = no_extension;
    provider.release = one_less;
}

unsafe extern "system" fn no_extension(this: This, iid: *const Guid, object: *mut This) -> Status {
    if get(iid) == IID_PROVIDER_EXTENSION {
        put(object, std::ptr::null_mut());
        return Status::NO_INTERFACE;
    }
    original!(provider.unknown.query_interface(this, iid, object))
}

unsafe extern "system" fn can_unload() -> Status {
    can_unload_now()
}

unsafe extern "system" fn always() -> Status {
    Status::SUCCESS
}

unsafe extern "system" fn without_providers() -> Status {
    if PROVIDERS.load(Ordering::Acquire) == 0 {
        Status::SUCCESS
    } else {
        Status::FALSE
    }
}

unsafe extern "system" fn counted(
    class: *const Guid,
    iid: *const Guid,
    object: *mut This,
) -> Status {
    PROVIDERS.fetch_add(1, Ordering::AcqRel);
    // SAFETY: the client's arguments.
    unsafe { class_object(class, iid, object) }
}

unsafe extern "system" fn at_most_three(
    class: *const Guid,
    iid: *const Guid,
    object: *mut This,
) -> Status {
    if PROVIDERS.fetch_add(1, Ordering::AcqRel) < 3 {
        // SAFETY: the client's arguments.
        return unsafe { class_object(class, iid, object) };
    }
    PROVIDERS.fetch_sub(1, Ordering::AcqRel);
    put(object, std::ptr::null_mut());
    Status::INSUFFICIENT_RESOURCES
}

unsafe extern "system" fn one_less(this: This) -> u32 {
    let left = original!(provider.unknown.release(this));
    if left == 0 {
        PROVIDERS.fetch_sub(1, Ordering::AcqRel);
    }
    left
}

unsafe extern "system" fn factory(this: This, iid: *const Guid, object: *mut This) -> Status {
    if get(iid) == IID_ND2_PROVIDER {
        // SAFETY: the client's arguments.
        return unsafe { class_object(iid, iid, object) };
    }
    original!(provider.unknown.query_interface(this, iid, object))
}
