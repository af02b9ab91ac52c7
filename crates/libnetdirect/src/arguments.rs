//! Addresses that programs pass, and room for results.

use std::ffi::c_void;
use std::net::SocketAddr;
use std::ptr;

use netdirect_com::abi::{SocketAddressList, Status};
use netdirect_com::sockaddr;

/// The socket address of `len` octets in argument `position`.
///
/// # Errors
///
/// ND_INVALID_PARAMETER of its position for null. ND_INVALID_PARAMETER_2 if it is too short, ND_INVALID_ADDRESS for a family other than
/// IPv4 and IPv6 (DLL-016).
///
/// # Safety
///
/// The promise of programs (this crate's documentation).
pub(crate) unsafe fn address(
    start: *const c_void,
    len: usize,
    position: u32,
) -> Result<SocketAddr, Status> {
    if start.is_null() {
        return Err(Status::invalid_parameter(position));
    }
    if u32::try_from(len).is_err() {
        return Err(Status::INVALID_PARAMETER_2);
    }
    let mut octets = [0; sockaddr::V6];
    let known = len.min(octets.len());
    // SAFETY: the program passes `len` octets.
    unsafe { ptr::copy_nonoverlapping(start.cast(), octets.as_mut_ptr(), known) };
    sockaddr::parse(&octets, known).map_err(|error| error.status())
}

/// Leaves an address. `size` is the room, and afterwards the size that is needed.
///
/// # Errors
///
/// ND_BUFFER_OVERFLOW.
///
/// # Safety
///
/// The promise of programs (this crate's documentation), neither pointer is null.
pub(crate) unsafe fn fill_address(
    start: *mut c_void,
    size: *mut usize,
    address: SocketAddr,
) -> Result<(), Status> {
    let (octets, len) = sockaddr::from_address(address);
    // SAFETY: as this function's contract.
    unsafe { fill(start.cast(), size, &octets[..len]) }
}

/// Leaves a list of addresses, or only the size that it needs, if `list` is null. An empty list needs none (DLL-018).
///
/// # Errors
///
/// ND_BUFFER_OVERFLOW.
///
/// # Safety
///
/// The promise of programs (this crate's documentation), `size` is not null.
pub(crate) unsafe fn fill_list(
    list: *mut SocketAddressList,
    size: *mut usize,
    addresses: &[SocketAddr],
) -> Result<(), Status> {
    if addresses.is_empty() {
        // SAFETY: the program passes room for a number.
        unsafe { size.write(0) };
        return Ok(());
    }
    let start = list.cast::<u8>();
    // SAFETY: as this function's contract.
    unsafe { fill(start, size, &sockaddr::list_at(start, addresses)) }
}

/// # Safety
///
/// `size` points to the number of octets that fit at `start`, which may be null.
unsafe fn fill(start: *mut u8, size: *mut usize, octets: &[u8]) -> Result<(), Status> {
    // SAFETY: this function's contract.
    let room = unsafe { size.read() };
    // SAFETY: as above.
    unsafe { size.write(octets.len()) };
    if start.is_null() || room < octets.len() {
        return Err(Status::BUFFER_OVERFLOW);
    }
    // SAFETY: there is room, and it is the program's.
    unsafe { ptr::copy_nonoverlapping(octets.as_ptr(), start, octets.len()) };
    Ok(())
}
