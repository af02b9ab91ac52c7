//! The resolver of the C library.

use std::ffi::{CStr, c_char, c_int};
use std::net::SocketAddr;
use std::{mem, ptr};

use libc::{addrinfo, sockaddr};
use softverbs::{AddressFamily, Errno, NameFailure, NameQuery};

use super::Address;

/// Asks `getaddrinfo`.
pub(crate) fn look_up(query: &NameQuery<'_>) -> Result<Vec<SocketAddr>, NameFailure> {
    // SAFETY: the structure consists of integers and pointers, for which zeros are a value.
    let mut hints: addrinfo = unsafe { mem::zeroed() };
    hints.ai_family = match query.family {
        AddressFamily::Ipv4 => libc::AF_INET,
        AddressFamily::Ipv6 => libc::AF_INET6,
        _ => libc::AF_UNSPEC,
    };
    hints.ai_flags = if query.is_numeric {
        libc::AI_NUMERICHOST
    } else {
        0
    };
    (hints.ai_socktype, hints.ai_protocol) = (libc::SOCK_STREAM, libc::IPPROTO_TCP);
    let text = |text: Option<&CStr>| text.map_or(ptr::null::<c_char>(), CStr::as_ptr);
    let mut first = ptr::null_mut();
    // SAFETY: the texts end with a zero and, as the hints and the place of the answer, outlive the call; absent ones are null.
    let code = unsafe {
        libc::getaddrinfo(
            text(query.host),
            text(query.service),
            &raw const hints,
            &raw mut first,
        )
    };
    if code != 0 {
        return Err(failure(code));
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the resolver has made the list for this function alone, and its last entry has a null pointer.
        let one = unsafe { next.read() };
        found.extend(Address::passed(one.ai_addr.cast_const().cast::<sockaddr>()).get());
        next = one.ai_next;
    }
    // SAFETY: the resolver has made the list; nothing of it is used any more.
    unsafe { libc::freeaddrinfo(first) };
    Ok(found)
}

fn failure(code: c_int) -> NameFailure {
    match code {
        EAI_ADDRFAMILY => NameFailure::NoAddressOfFamily,
        libc::EAI_AGAIN => NameFailure::TryAgain,
        libc::EAI_BADFLAGS => NameFailure::BadFlags,
        libc::EAI_FAIL => NameFailure::ServerFailed,
        libc::EAI_FAMILY => NameFailure::Family,
        libc::EAI_MEMORY => NameFailure::Memory,
        libc::EAI_NODATA => NameFailure::NoData,
        libc::EAI_NONAME => NameFailure::UnknownHost,
        libc::EAI_SERVICE => NameFailure::UnknownService,
        libc::EAI_SOCKTYPE => NameFailure::QpType,
        libc::EAI_SYSTEM => {
            // Without an errno the number is 0, which is none.
            let errno = std::io::Error::last_os_error().raw_os_error();
            let errno = errno.filter(|errno| *errno > 0);
            NameFailure::System(Errno::from_raw_os_error(errno.unwrap_or(libc::EIO)))
        }
        other => NameFailure::Other(other),
    }
}

/// glibc's number, which the crate `libc` lacks.
const EAI_ADDRFAMILY: c_int = -9;

/// The code of a failure.
pub(crate) fn code_of(failure: NameFailure) -> c_int {
    match failure {
        NameFailure::NoAddressOfFamily => EAI_ADDRFAMILY,
        NameFailure::TryAgain => libc::EAI_AGAIN,
        NameFailure::BadFlags => libc::EAI_BADFLAGS,
        NameFailure::ServerFailed => libc::EAI_FAIL,
        NameFailure::Family => libc::EAI_FAMILY,
        NameFailure::Memory => libc::EAI_MEMORY,
        NameFailure::NoData => libc::EAI_NODATA,
        NameFailure::UnknownHost => libc::EAI_NONAME,
        NameFailure::UnknownService => libc::EAI_SERVICE,
        NameFailure::QpType => libc::EAI_SOCKTYPE,
        NameFailure::System(_) => libc::EAI_SYSTEM,
        NameFailure::Other(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query<'a>(host: &'a CStr, service: &'a CStr) -> NameQuery<'a> {
        NameQuery {
            host: Some(host),
            service: Some(service),
            family: AddressFamily::Any,
            is_numeric: true,
        }
    }

    #[test]
    fn the_resolver_reads_numeric_addresses() {
        let found = look_up(&query(c"127.1", c"7471")).unwrap();
        assert_eq!(found, ["127.0.0.1:7471".parse::<SocketAddr>().unwrap()]);
        let unknown = look_up(&query(c"host.invalid", c"7471"));
        assert_eq!(unknown, Err(NameFailure::UnknownHost));
    }

    #[test]
    fn a_failure_has_the_code_that_it_was_made_from() {
        for code in -110..=-1 {
            assert_eq!(code_of(failure(code)), code);
        }
    }
}
