//! The functions that the library exports.

use std::io::Write;
use std::sync::Arc;

use netdirect::{Error, Provider, Result, Status};
use netdirect_com::abi::{Guid, This};
use netdirect_com::export::{Library, can_unload_now, get_class_object};

use crate::config::Config;
use crate::pin;

/// Makes softnd's provider, by the configuration of the environment and these lines.
fn open(lines: &str) -> Result<Arc<dyn Provider>> {
    let config = Config::of_environment(lines);
    config.and_then(|config| config.provider()).map_err(|what| {
        // The client may show only the status.
        let _ = writeln!(std::io::stderr(), "softnd: {what}");
        Error::new(Status::INVALID_PARAMETER, what)
    })
}

static LIBRARY: Library = Library {
    open,
    pin: pin::pin,
};

/// `DllGetClassObject`: the provider for `IID_IND2Provider`, a class factory for `IID_IClassFactory`. The class is ignored (DLL-003).
///
/// # Safety
///
/// `_class` is not used. `iid` is null or points to an identifier, and `object` is null or points to room for a pointer.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name is COM's")]
pub(crate) unsafe extern "system" fn DllGetClassObject(
    _class: *const Guid,
    iid: *const Guid,
    object: *mut This,
) -> Status {
    // Windows does not get back the thread-local storage of a DLL that it unloads, and has room for about a thousand.
    #[cfg(windows)]
    pin::pin();
    // SAFETY: the contract of this function.
    unsafe { get_class_object(&LIBRARY, iid, object) }
}

/// `DllCanUnloadNow`: returns [`Status::SUCCESS`] if no object of the library is alive (DLL-005).
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name is COM's")]
pub(crate) extern "system" fn DllCanUnloadNow() -> Status {
    can_unload_now()
}
