//! The two functions of a provider's library.

use std::ptr;
use std::sync::atomic::Ordering;

use netdirect::{Result, Status};

use super::alive::ALIVE;
use super::file::File;
use super::guard::guarded;
use super::image::Library;
use super::object::{Class, Object, method, no_interface, no_more, unknown};
use super::pointers::{In, Out, Passed};
use super::provider::ProviderObject;
use crate::abi::{
    Bool, ClassFactoryTable, Guid, IID_CLASS_FACTORY, IID_IUNKNOWN, IID_ND2_PROVIDER, This,
};

/// `DllGetClassObject` for a library: the provider itself for `IID_IND2Provider` (DLL-003), and a class factory for `IID_IClassFactory`.
/// The identifier of the class, which a registration would name, is ignored.
///
/// # Safety
///
/// `iid` is null or points to an identifier, and `object` is null or points to room for a pointer.
pub unsafe fn get_class_object(
    library: &'static Library,
    iid: *const Guid,
    object: *mut This,
) -> Status {
    // SAFETY: the contract of this function.
    let iid = unsafe { In::passed(iid) };
    // SAFETY: as above.
    let object = unsafe { Out::passed(object) };
    guarded(None, || {
        object.required(3)?.set(ptr::null_mut());
        if iid.is_null() {
            return Err(Status::INVALID_PARAMETER_2.into());
        }
        let iid = iid.iid()?;
        object.set(match iid {
            IID_CLASS_FACTORY => Object::create(Factory(library), iid)?,
            IID_ND2_PROVIDER | IID_IUNKNOWN => ProviderObject::create(library, iid)?,
            _ => return Err(no_interface(iid)),
        });
        Ok(())
    })
}

/// `DllCanUnloadNow`: [`SUCCESS`](Status::SUCCESS) while clients have no object and no overlapped file, otherwise [`FALSE`](Status::FALSE)
/// (DLL-005). Windows does not say when a client closes a file, so that files do not count there: since the first adapter was opened the
/// library stays loaded in any case ([`Library::pin`]).
pub fn can_unload_now() -> Status {
    guarded(None, || {
        File::collect_all();
        Ok(())
    });
    if ALIVE.load(Ordering::Acquire) == 0 {
        Status::SUCCESS
    } else {
        Status::FALSE
    }
}

/// The class factory that clients of ND's version 1 ask for.
struct Factory(&'static Library);

static FACTORY: ClassFactoryTable = ClassFactoryTable {
    unknown: unknown::<Factory>(),
    create_instance: method!(Factory, create_instance(outer: This, iid: In<Guid>, object: Out<This>) -> Result<()>),
    lock_server: method!(Factory, lock_server(lock: Bool) -> Result<()>),
};

impl Class for Factory {
    type Table = ClassFactoryTable;
    const INTERFACES: &'static [Guid] = &[IID_CLASS_FACTORY];
    const OUTLIVES_FORKS: bool = true;

    no_more!();

    fn table() -> &'static ClassFactoryTable {
        &FACTORY
    }
}

/// `CLASS_E_NOAGGREGATION`: an object of ND2 cannot be a part of another one.
const NO_AGGREGATION: Status = Status::from_bits(0x8004_0110);

impl Factory {
    fn create_instance(&self, outer: This, iid: In<Guid>, object: Out<This>) -> Result<()> {
        object.required(3)?.set(ptr::null_mut());
        if !outer.is_null() {
            return Err(NO_AGGREGATION.into());
        }
        if iid.is_null() {
            return Err(Status::INVALID_PARAMETER_2.into());
        }
        object.set(ProviderObject::create(self.0, iid.iid()?)?);
        Ok(())
    }

    /// Keeps the library loaded without an object.
    #[expect(clippy::unused_self, reason = "a method of the class")]
    fn lock_server(&self, lock: Bool) -> Result<()> {
        if lock == 0 {
            ALIVE.fetch_sub(1, Ordering::Release);
        } else {
            ALIVE.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
