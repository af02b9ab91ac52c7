//! A library in memory.

use std::fmt;
use std::path::PathBuf;
use std::ptr;

use libloading::Library;
use netdirect::Status;

use crate::abi::{Guid, This};

/// `DllGetClassObject`.
pub type GetClassObject =
    unsafe extern "system" fn(class: *const Guid, iid: *const Guid, object: *mut This) -> Status;
/// `DllCanUnloadNow`.
pub type CanUnloadNow = unsafe extern "system" fn() -> Status;

/// The functions of a library that the program is linked with.
#[derive(Clone, Copy, Debug)]
pub struct Linked {
    /// The function under its name.
    pub get_class_object: GetClassObject,
    /// The function under its name.
    pub can_unload_now: CanUnloadNow,
    /// The names that the library exports.
    pub exports: &'static [&'static str],
}

/// The place of a library.
pub(super) enum Source {
    /// It is loaded as long as this lives.
    File(Library),
    /// It is a part of the program.
    Program(&'static [&'static str]),
}

/// A library in memory, and its two functions. It is unloaded when the last reference is dropped.
pub struct Loaded {
    source: Source,
    path: PathBuf,
    get_class_object: GetClassObject,
    can_unload_now: CanUnloadNow,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loaded").field(&self.path).finish()
    }
}

/// The class identifier of a registration, which providers need not look at.
const CLASS: Guid = Guid::new(0, 0, 0, 0);

impl Loaded {
    pub(super) fn new(
        source: Source,
        path: PathBuf,
        get_class_object: GetClassObject,
        can_unload_now: CanUnloadNow,
    ) -> Self {
        Self {
            source,
            path,
            get_class_object,
            can_unload_now,
        }
    }

    /// Calls `DllGetClassObject`. Returns its status, and the pointer that it has left.
    pub fn class_object(&self, iid: Guid) -> (Status, This) {
        let mut object = ptr::null_mut();
        let class = CLASS;
        // SAFETY: two identifiers, and room for a pointer.
        let status =
            unsafe { (self.get_class_object)(&raw const class, &raw const iid, &raw mut object) };
        (status, object)
    }

    /// Calls `DllCanUnloadNow`.
    pub fn can_unload_now(&self) -> Status {
        // SAFETY: the library is loaded, and the function takes nothing.
        unsafe { (self.can_unload_now)() }
    }

    /// Returns true if the library exports a symbol of this name.
    pub fn exports(&self, name: &str) -> bool {
        match &self.source {
            Source::File(library) => {
                // SAFETY: only the address is used.
                unsafe { library.get::<*const ()>(name.as_bytes()) }.is_ok()
            }
            Source::Program(names) => names.contains(&name),
        }
    }
}
