//! Arguments of C programs other than objects.
//!
//! No structure or list of a program need be aligned, because programs keep some of them in packed structures.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::{mem, ptr, slice};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use rdma_buffer::{Buffer, is_usable};
use softverbs::{Errno, Result};

use super::error;

/// A structure that the library reads, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Input<T>(*const T);

impl<T: Copy> Input<T> {
    pub(crate) fn passed(pointer: *const T) -> Self {
        Self(pointer)
    }

    /// A copy of the structure, unless the pointer is null.
    #[inline]
    pub(crate) fn get_if(self) -> Option<T> {
        // SAFETY: the program passes null or a structure of this type (border).
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }

    /// A copy of the structure.
    ///
    /// # Errors
    ///
    /// EINVAL for null.
    pub(crate) fn get(self) -> Result<T> {
        self.get_if()
            .ok_or_else(|| error(Errno::INVAL, "a null pointer in place of a structure"))
    }
}

/// A place where the library leaves a result, or null if the program wants none.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Output<T>(*mut T);

impl<T: Copy> Output<T> {
    pub(crate) fn passed(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Leaves the result.
    #[inline]
    pub(crate) fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the program passes null or room for this type (border).
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Leaves a result in an array.
    #[inline]
    pub(crate) fn set_at(self, index: usize, value: T) {
        // The program says how long its array is.
        Self(self.0.wrapping_add(index)).set(value);
    }

    /// The place `offset` elements further on, for another type.
    pub(crate) fn at<P>(self, offset: usize) -> Output<P> {
        Output(self.0.wrapping_add(offset).cast())
    }

    /// Leaves a result in a structure of `len` octets: as much of it as an older program has room for, and zeros in the members that a
    /// newer program knows beyond.
    pub(crate) fn set_start(self, value: &T, len: usize) {
        if !self.0.is_null() {
            let known = len.min(size_of::<T>());
            let from = ptr::from_ref(value).cast::<u8>();
            // SAFETY: the program has room for `len` octets (border), and the value has `known`, which is not more.
            unsafe { ptr::copy_nonoverlapping(from, self.0.cast(), known) };
            let beyond = self.0.cast::<u8>().wrapping_add(known);
            // SAFETY: the program has room for `len` octets (border), of which these are the last.
            unsafe { beyond.write_bytes(0, len - known) };
        }
    }
}

/// A structure that the library reads and changes.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct InOut<T>(*mut T);

impl<T: Copy> InOut<T> {
    pub(crate) fn get(self) -> Result<T> {
        Input(self.0.cast_const()).get()
    }

    pub(crate) fn get_if(self) -> Option<T> {
        Input(self.0.cast_const()).get_if()
    }

    pub(crate) fn set(self, value: T) {
        Output(self.0).set(value);
    }
}

/// An element of a list that may be at any address.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub(crate) struct Packed<T>(T);

impl<T: Copy> Packed<T> {
    pub(crate) fn get(self) -> T {
        self.0
    }
}

/// An array that the library reads, whose elements are packed. Each use names the most elements that there may be, and a count above it is refused before the array is
/// looked at.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Elements<T>(*const T);

impl<T: Copy> Elements<T> {
    pub(crate) fn passed<P>(pointer: *const P) -> Self {
        Self(pointer.cast())
    }

    /// The first `len` elements, of at most `limit`.
    ///
    /// # Errors
    ///
    /// EINVAL for a negative number or more than `limit`, EFAULT for null in place of some.
    #[inline]
    pub(crate) fn get(&self, len: impl TryInto<usize>, limit: usize) -> Result<&[T]> {
        const {
            assert!(
                align_of::<T>() == 1,
                "a program's list may be at any address"
            );
        }
        match len.try_into() {
            Ok(0) => Ok(&[]),
            Ok(len) if len <= limit => {
                if self.0.is_null() {
                    return Err(missing());
                }
                // SAFETY: the program passes this many elements, and changes none during the call (border). They have no alignment.
                Ok(unsafe { slice::from_raw_parts(self.0, len) })
            }
            _ => Err(error(
                Errno::INVAL,
                "a list with a negative number of elements, or with more than its object takes",
            )),
        }
    }
}

#[cold]
fn missing() -> softverbs::Error {
    error(Errno::FAULT, "a null pointer in place of a list")
}

/// Octets that are copied, with the most that there may be. The memory may be registered, so that a peer may write it meanwhile.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Octets(*const c_void);

impl Octets {
    pub(crate) fn passed(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    pub(crate) fn at(address: u64) -> Self {
        let address = usize::try_from(address).unwrap_or(0);
        Self(ptr::with_exposed_provenance(address))
    }

    /// Copies octets to the end of `to`, which then has at most `limit` octets.
    ///
    /// # Errors
    ///
    /// EINVAL where `to` would have more, EFAULT for null in place of octets.
    pub(crate) fn append(self, len: usize, limit: usize, to: &mut Vec<u8>) -> Result<()> {
        if len > limit.saturating_sub(to.len()) {
            return Err(error(
                Errno::INVAL,
                "more octets than the object of the call takes",
            ));
        }
        if len == 0 {
            return Ok(());
        }
        if self.0.is_null() {
            return Err(missing());
        }
        to.reserve(len);
        let end = to.spare_capacity_mut().as_mut_ptr().cast::<u8>();
        // SAFETY: the program passes this many octets (border), and the vector has room for as many.
        unsafe { ptr::copy_nonoverlapping(self.0.cast::<u8>(), end, len) };
        let len = to.len() + len;
        // SAFETY: the octets were written by the copy.
        unsafe { to.set_len(len) };
        Ok(())
    }

    /// Fills `to`, whose length the caller has compared with the limit of the object.
    ///
    /// # Errors
    ///
    /// EFAULT for null in place of octets.
    pub(crate) fn fill(self, to: &mut [u8]) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        if self.0.is_null() {
            return Err(missing());
        }
        // SAFETY: the program passes this many octets (border), and there is room for as many.
        unsafe { ptr::copy_nonoverlapping(self.0.cast::<u8>(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// A copy of the octets, of which there are at most `limit`.
    ///
    /// # Errors
    ///
    /// EINVAL for more, EFAULT for null in place of octets.
    pub(crate) fn get(self, len: usize, limit: usize) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        self.append(len, limit, &mut all)?;
        Ok(all)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// A text, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(&self) -> Option<&CStr> {
        // SAFETY: the program passes null or a text with a zero at its end, and does not change it during the call (border).
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }
}

/// The address of a socket, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Address(*const sockaddr);

impl Address {
    pub(crate) fn passed(pointer: *const sockaddr) -> Self {
        Self(pointer)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The address.
    ///
    /// # Errors
    ///
    /// EINVAL for null, EAFNOSUPPORT for other families than IPv4 and IPv6.
    pub(crate) fn get(self) -> Result<SocketAddr> {
        let family = self.family()?;
        match c_int::from(family) {
            libc::AF_INET => {
                let v4 = Input(self.0.cast::<sockaddr_in>()).get()?;
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Ok((ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let v6 = Input(self.0.cast::<sockaddr_in6>()).get()?;
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => Err(error(
                Errno::AFNOSUPPORT,
                "addresses are those of IPv4 and IPv6",
            )),
        }
    }

    fn family(self) -> Result<libc::sa_family_t> {
        // The family is in front, and the rest may be shorter than `sockaddr`.
        Input(self.0.cast::<libc::sa_family_t>()).get()
    }
}

/// The address of a socket as C has it; without one, the family of IPv4 and zeros.
pub(crate) fn storage(address: Option<SocketAddr>) -> (sockaddr_storage, socklen_t) {
    // SAFETY: the structure consists of integers, for which zeros are a value.
    let mut storage: sockaddr_storage = unsafe { mem::zeroed() };
    let start = Output(ptr::from_mut(&mut storage));
    let len = match address {
        None => {
            storage.ss_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(0);
            return (storage, 0);
        }
        Some(SocketAddr::V4(v4)) => {
            start.at(0).set(sockaddr_in {
                sin_family: libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(0),
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            });
            size_of::<sockaddr_in>()
        }
        Some(SocketAddr::V6(v6)) => {
            start.at(0).set(sockaddr_in6 {
                sin6_family: libc::sa_family_t::try_from(libc::AF_INET6).unwrap_or(0),
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            });
            size_of::<sockaddr_in6>()
        }
    };
    (storage, socklen_t::try_from(len).unwrap_or(0))
}

/// A stretch of the program's memory that is registered.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) start: *mut c_void,
    pub(crate) len: usize,
}

impl Memory {
    /// The buffer over the memory, which is written if `is_written`.
    ///
    /// # Errors
    ///
    /// EFAULT where the process cannot read or write all of the memory, EINVAL for a range that is empty or wraps.
    pub(crate) fn buffer(self, is_written: bool) -> Result<Buffer> {
        let start = self.start.addr();
        if self.len == 0 || start.checked_add(self.len).is_none() {
            return Err(error(
                Errno::INVAL,
                "a stretch of memory that is empty or wraps around",
            ));
        }
        if start == 0 || !is_usable(self.start.cast(), self.len, is_written) {
            let use_ = match is_written {
                true => "read and written",
                false => "read",
            };
            let Self { start, len } = self;
            return Err(softverbs::Error::new(
                Errno::FAULT,
                format!("not all of the {len} octets from {start:p} on can be {use_}"),
            ));
        }
        // SAFETY: the memory is mapped. A program that registers memory keeps it until it has deregistered it (ibv_reg_mr), and a program
        // that unmaps it earlier harms only itself. Only such buffers are made here.
        Ok(unsafe { Buffer::from_pages(self.start.cast(), self.len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_of_older_and_of_newer_programs_are_filled() {
        let value = 0x0403_0201_u32.to_le();
        for (len, expected) in [
            (2, [1, 2, 9, 9, 9, 9, 9, 9]),
            (4, [1, 2, 3, 4, 9, 9, 9, 9]),
            (6, [1, 2, 3, 4, 0, 0, 9, 9]),
        ] {
            let mut structure = [9_u8; 8];
            Output::<u32>(structure.as_mut_ptr().cast()).set_start(&value, len);
            assert_eq!(structure, expected);
        }
    }
}
