//! A library that exports a provider. The import of `netdirect-com` leaves libraries loaded; here each is unloaded as soon as possible.

use std::ffi::OsStr;
use std::fmt;
use std::ptr;

#[cfg(unix)]
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
#[cfg(windows)]
use libloading::os::windows::Library;
use netdirect_com::abi::Status;
use netdirect_com::import::load_failure;

use crate::provider::ForeignProvider;
use netdirect_com::abi::{Guid, IID_ND2_PROVIDER, This};

type DllGetClassObject =
    unsafe extern "system" fn(class: *const Guid, iid: *const Guid, object: *mut This) -> Status;
type DllCanUnloadNow = unsafe extern "system" fn() -> Status;

/// A loaded library. It is unloaded when the value is dropped.
pub(crate) struct ProviderLibrary {
    library: Library,
    get_class_object: DllGetClassObject,
    can_unload_now: DllCanUnloadNow,
}

impl ProviderLibrary {
    /// Loads a library that the dynamic linker finds. A library without DllGetClassObject or DllCanUnloadNow is unloaded again (DLL-001, DLL-002).
    ///
    /// # Errors
    ///
    /// A sentence for the user.
    pub(crate) fn load(path: &OsStr) -> Result<Self, String> {
        // SAFETY: the user names the library, and is responsible for its constructors.
        #[cfg(unix)]
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        // SAFETY: as above, by the variable or by the system's catalogue.
        #[cfg(windows)]
        let library = unsafe { Library::new(path) };
        let library =
            library.map_err(|error| format!("cannot be loaded: {}", load_failure(&error)))?;
        // SAFETY: a provider's function of this name has this type (DLL-001).
        let get_class_object = unsafe { library.get::<DllGetClassObject>(b"DllGetClassObject\0") };
        let get_class_object = *get_class_object.map_err(|_| missing("DllGetClassObject"))?;
        // SAFETY: a provider's function of this name has this type (DLL-002).
        let can_unload_now = unsafe { library.get::<DllCanUnloadNow>(b"DllCanUnloadNow\0") };
        let can_unload_now = *can_unload_now.map_err(|_| missing("DllCanUnloadNow"))?;
        Ok(Self {
            library,
            get_class_object,
            can_unload_now,
        })
    }

    /// The library's provider.
    ///
    /// # Errors
    ///
    /// The status of DllGetClassObject. [`NO_INTERFACE`](Status::NO_INTERFACE), if it succeeds without an object.
    pub(crate) fn provider(&self) -> Result<ForeignProvider<'_>, Status> {
        // A caller that loads a library by its path knows no class.
        let class = Guid::new(0, 0, 0, 0);
        let mut object = ptr::null_mut();
        // SAFETY: the library is loaded, and all three point to what the function reads or writes.
        let status = unsafe { (self.get_class_object)(&class, &IID_ND2_PROVIDER, &mut object) };
        if !status.is_success() {
            return Err(status);
        }
        if object.is_null() {
            return Err(Status::NO_INTERFACE);
        }
        // SAFETY: the library has issued the object for this interface, with a reference for the caller, and stays loaded.
        Ok(unsafe { ForeignProvider::from_issued(object) })
    }

    /// Returns true if no object of the library is alive (DLL-005).
    pub(crate) fn can_unload(&self) -> bool {
        // SAFETY: the library is loaded.
        unsafe { (self.can_unload_now)() == Status::SUCCESS }
    }

    /// Leaves the library loaded until the process ends, because objects of it are alive.
    pub(crate) fn keep(self) {
        std::mem::forget(self.library);
    }
}

fn missing(function: &str) -> String {
    format!("is not a NetworkDirect provider: it does not export {function}")
}

impl fmt::Debug for ProviderLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderLibrary").finish_non_exhaustive()
    }
}
