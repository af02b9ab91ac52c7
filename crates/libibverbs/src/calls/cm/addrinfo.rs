//! Addresses by names: `rdma_getaddrinfo`.

use std::ffi::c_int;
use std::net::SocketAddr;

use softverbs::{
    AddrInfo, AddrInfoError, AddrInfoFlags, AddrInfoHints, AddressFamily, Errno, NameFailure,
    Result, address_info,
};

use super::id::with_event;
use super::objects::Id;
use crate::abi::cm::rdma_addrinfo;
use crate::abi::describe::Zeroed;
use crate::abi::newer::RAI_SA;
use crate::border::{
    Address, Handle, Input, Output, Text, code_of, error, explain, look_up, minus_one, set_errno,
    storage,
};
use crate::calls::device::{allocate, free_array};

pub(crate) extern "C" fn get(
    node: Text,
    service: Text,
    hints: Input<rdma_addrinfo>,
    to: Output<*mut rdma_addrinfo>,
) -> c_int {
    minus_one(|| {
        let hints = hints.get_if().as_ref().map(hints_of).transpose()?;
        let found = address_info(node.get(), service.get(), hints.as_ref(), &look_up);
        match found {
            Ok(info) => {
                to.set(make(&info)?);
                Ok(0)
            }
            Err(AddrInfoError::Name(failure)) => Ok(name_error(failure)),
            Err(AddrInfoError::Call(error)) => Err(error),
        }
    })
}

/// The error for a name without an address, which is printed where that was asked for.
fn errno_of(failure: NameFailure) -> Errno {
    let errno = match failure {
        NameFailure::System(errno) => errno,
        _ => Errno::NXIO,
    };
    explain(&softverbs::Error::new(errno, failure.to_string()));
    errno
}

/// Looks names up, keeps the addresses for [`query`], and leaves an event. The resolver works within the call, which returns when it is done.
pub(crate) extern "C" fn resolve(
    id: Handle<Id>,
    node: Text,
    service: Text,
    hints: Input<rdma_addrinfo>,
) -> c_int {
    with_event(id, |inner| {
        let hints = hints.get_if().as_ref().map(hints_of).transpose()?;
        let flags = hints.map_or(AddrInfoFlags::empty(), |hints| hints.flags);
        if flags.bits() & RAI_SA.cast_unsigned() != 0 {
            return Err(error(
                Errno::OPNOTSUPP,
                "there is no subnet administrator to look services up",
            ));
        }
        let found = address_info(node.get(), service.get(), hints.as_ref(), &look_up);
        let (addresses, failed) = match found {
            Ok(info) => (Some(info), None),
            Err(AddrInfoError::Name(failure)) => (None, Some(errno_of(failure))),
            Err(AddrInfoError::Call(error)) => return Err(error),
        };
        id.get()?.rust().data().addresses = addresses;
        inner.report_addresses(failed)
    })
}

/// The addresses that the last [`resolve`] has found.
pub(crate) extern "C" fn query(id: Handle<Id>, to: Output<*mut rdma_addrinfo>) -> c_int {
    minus_one(|| {
        let addresses = id.get()?.rust().data().addresses;
        let addresses = addresses.ok_or_else(|| {
            error(
                Errno::INVAL,
                "rdma_resolve_addrinfo has found no address for the identifier",
            )
        })?;
        to.set(make(&addresses)?);
        Ok(0)
    })
}

/// The result of the call for a name without an address.
fn name_error(failure: NameFailure) -> c_int {
    errno_of(failure);
    if let NameFailure::System(errno) = failure {
        set_errno(errno.raw_os_error());
    }
    code_of(failure)
}

fn hints_of(c: &rdma_addrinfo) -> Result<AddrInfoHints> {
    Ok(AddrInfoHints {
        flags: AddrInfoFlags::from_bits_retain(c.ai_flags.cast_unsigned()),
        family: match c.ai_family {
            libc::AF_UNSPEC => AddressFamily::Any,
            libc::AF_INET => AddressFamily::Ipv4,
            libc::AF_INET6 => AddressFamily::Ipv6,
            _ => AddressFamily::Other,
        },
        qp_type: c.ai_qp_type.cast_unsigned(),
        port_space: c.ai_port_space.cast_unsigned(),
        source: given(c.ai_src_addr, c.ai_src_len)?,
        destination: given(c.ai_dst_addr, c.ai_dst_len)?,
    })
}

/// An address, where the length says that there is one.
fn given(address: *mut libc::sockaddr, len: libc::socklen_t) -> Result<Option<SocketAddr>> {
    let address = Address::passed(address);
    match address.is_null() || len == 0 {
        true => Ok(None),
        false => address.get().map(Some),
    }
}

/// The information that a program passes to `rdma_create_ep`.
pub(crate) fn info_of(c: &rdma_addrinfo) -> Result<AddrInfo> {
    let hints = hints_of(c)?;
    Ok(AddrInfo {
        flags: hints.flags,
        family: hints.family,
        qp_type: hints.qp_type,
        port_space: hints.port_space,
        source: hints.source,
        destination: hints.destination,
    })
}

/// Makes the structure. The structure and each address are separate pieces of memory, because programs free and replace the addresses.
fn make(info: &AddrInfo) -> Result<*mut rdma_addrinfo> {
    let mut c = rdma_addrinfo::zeroed();
    c.ai_flags = info.flags.bits().cast_signed();
    c.ai_family = match info.family {
        AddressFamily::Ipv4 => libc::AF_INET,
        AddressFamily::Ipv6 => libc::AF_INET6,
        _ => libc::AF_UNSPEC,
    };
    c.ai_qp_type = info.qp_type.cast_signed();
    c.ai_port_space = info.port_space.cast_signed();
    for (address, to, len) in [
        (info.source, &mut c.ai_src_addr, &mut c.ai_src_len),
        (info.destination, &mut c.ai_dst_addr, &mut c.ai_dst_len),
    ] {
        if address.is_some() {
            let stored = storage(address);
            *to = allocate(stored.0)?.cast();
            *len = stored.1;
        }
    }
    allocate(c)
}

pub(crate) extern "C" fn free(mut info: *mut rdma_addrinfo) {
    while let Some(c) = Input::passed(info).get_if() {
        let pieces = [
            c.ai_src_addr.cast(),
            c.ai_dst_addr.cast(),
            c.ai_route,
            c.ai_connect,
        ];
        let names = [c.ai_src_canonname, c.ai_dst_canonname];
        let names = names.map(<*mut _>::cast);
        for piece in pieces.into_iter().chain(names).chain([info.cast()]) {
            free_array(piece);
        }
        info = c.ai_next;
    }
}
