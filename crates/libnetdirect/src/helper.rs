//! NetworkDirect's helper functions.

#![allow(non_snake_case, reason = "the names are ND2's")]

use std::ffi::c_void;
use std::ptr;

use netdirect_com::abi::{Guid, SocketAddressList, Status, This};

use crate::arguments::{address, fill_address, fill_list};
use crate::providers::{self, providers};
use crate::route;

/// ND_QUERY_EXCLUDE_NDv2_ADDRESSES. There are no providers of version 1 here.
const EXCLUDE_VERSION_2: u32 = 4;

fn status(result: Result<(), Status>) -> Status {
    result.err().unwrap_or(Status::SUCCESS)
}

/// NdStartup.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn NdStartup() -> Status {
    providers::start();
    Status::SUCCESS
}

/// NdCleanup.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn NdCleanup() -> Status {
    status(providers::clean_up())
}

/// NdFlushProviders: unloads libraries that are no longer needed.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn NdFlushProviders() {
    if let Ok(providers) = providers() {
        providers.flush();
    }
}

/// NdQueryAddressList: the addresses of all providers.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn NdQueryAddressList(
    flags: u32,
    list: *mut SocketAddressList,
    size: *mut usize,
) -> Status {
    status(providers().and_then(|providers| {
        if size.is_null() {
            return Err(Status::INVALID_PARAMETER_3);
        }
        let addresses = if flags & EXCLUDE_VERSION_2 == 0 {
            providers.addresses()
        } else {
            Vec::new()
        };
        // SAFETY: the promise of programs.
        unsafe { fill_list(list, size, &addresses) }
    }))
}

/// NdResolveAddress: the local address by which the system reaches a remote one, if a provider has it.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn NdResolveAddress(
    remote: *const c_void,
    remote_size: usize,
    local: *mut c_void,
    local_size: *mut usize,
) -> Status {
    status(providers().and_then(|providers| {
        if local.is_null() {
            return Err(Status::INVALID_PARAMETER_3);
        }
        if local_size.is_null() {
            return Err(Status::INVALID_PARAMETER_4);
        }
        // SAFETY: the promise of programs.
        let remote = unsafe { address(remote, remote_size, 1) }?;
        let found = route::local_address(remote)?;
        // SAFETY: the promise of programs, and neither is null.
        unsafe { fill_address(local, local_size, found) }?;
        if providers.have(found) {
            Ok(())
        } else {
            Err(Status::INVALID_ADDRESS)
        }
    }))
}

/// NdCheckAddress: checks that a provider has this local address.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn NdCheckAddress(local: *const c_void, size: usize) -> Status {
    status(providers().and_then(|providers| {
        // SAFETY: the promise of programs.
        let local = unsafe { address(local, size, 1) }?;
        if providers.have(local) {
            Ok(())
        } else {
            Err(Status::INVALID_ADDRESS)
        }
    }))
}

/// NdOpenAdapter: the adapter that has this local address.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn NdOpenAdapter(
    iid: *const Guid,
    local: *const c_void,
    size: usize,
    adapter: *mut This,
) -> Status {
    // SAFETY: the promise of programs.
    status(unsafe { leave_null(adapter, 4) }.and_then(|()| {
        let providers = providers()?;
        if iid.is_null() {
            return Err(Status::INVALID_PARAMETER_1);
        }
        // SAFETY: the program passes an identifier.
        let iid = unsafe { iid.read() };
        // SAFETY: the promise of programs.
        let local = unsafe { address(local, size, 2) }?;
        let opened = providers.open_adapter(&iid, local)?;
        // SAFETY: the program passes room for a pointer.
        unsafe { adapter.write(opened) };
        Ok(())
    }))
}

/// NdOpenV1Adapter: there are no providers of version 1.
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "system" fn NdOpenV1Adapter(
    _local: *const c_void,
    _size: usize,
    adapter: *mut This,
) -> Status {
    // SAFETY: the promise of programs.
    status(unsafe { leave_null(adapter, 3) }.and_then(|()| {
        providers()?;
        Err(Status::NO_INTERFACE)
    }))
}

/// # Safety
///
/// `object` is null, or room for a pointer.
unsafe fn leave_null(object: *mut This, position: u32) -> Result<(), Status> {
    if object.is_null() {
        return Err(Status::invalid_parameter(position));
    }
    // SAFETY: this function's contract.
    unsafe { object.write(ptr::null_mut()) };
    Ok(())
}
