//! Addresses as libraries write them.

use std::net::SocketAddr;

use netdirect::{Error, Result, Status};

use crate::abi::{SocketAddress, SocketAddressList};
use crate::sockaddr::{self, V6};

pub(super) use crate::sockaddr::raw as sockaddr;

fn wrong(what: &'static str) -> Error {
    Error::new(Status::INTERNAL_ERROR, what)
}

/// The address that a method leaves in a buffer.
pub(super) fn one(query: impl FnOnce(*mut u8, *mut u32) -> Status) -> Result<SocketAddr> {
    let mut octets = [0; V6];
    let mut len = 28;
    query(octets.as_mut_ptr(), &raw mut len).ok()?;
    sockaddr::parse(&octets, (len as usize).min(V6))
        .map_err(|_| wrong("the library has left something that is no address"))
}

/// The addresses that a method leaves in a SOCKET_ADDRESS_LIST. The list may change between two calls (PROV-010).
pub fn list(query: impl Fn(*mut SocketAddressList, *mut u32) -> Status) -> Result<Vec<SocketAddr>> {
    let mut room: Vec<u64> = Vec::new();
    loop {
        let octets = room.len() * 8;
        let mut size = u32::try_from(octets).unwrap_or(u32::MAX);
        let status = query(room.as_mut_ptr().cast(), &raw mut size);
        if status != Status::BUFFER_OVERFLOW {
            status.ok()?;
            return entries(&room, octets.min(size as usize));
        }
        if size as usize <= octets {
            return Err(wrong(
                "the library wants no more room, and cannot do with what it has",
            ));
        }
        room = vec![0; (size as usize).div_ceil(8)];
    }
}

/// The addresses in the first `len` octets of a list. Each is behind the entries, in the same buffer (PROV-011).
fn entries(room: &[u64], len: usize) -> Result<Vec<SocketAddr>> {
    let octets: Vec<u8> = room.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let octets = &octets[..len];
    let start = room.as_ptr().addr();
    let head = std::mem::offset_of!(SocketAddressList, addresses);
    let word = |at: usize| -> Option<usize> {
        let word = octets.get(at..at + size_of::<usize>())?;
        Some(usize::from_ne_bytes(word.try_into().ok()?))
    };
    let half = |at: usize| -> Option<i32> {
        Some(i32::from_ne_bytes(octets.get(at..at + 4)?.try_into().ok()?))
    };
    let count = half(0).and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or_else(|| wrong("the library has left a list without a count"))?;
    let mut found = Vec::new();
    for index in 0..count {
        let entry = head + index * size_of::<SocketAddress>();
        let address = || {
            let at = word(entry)?.checked_sub(start)?;
            let length = half(entry + std::mem::offset_of!(SocketAddress, length))?;
            let end = at.checked_add(usize::try_from(length).ok()?)?;
            let mut one = [0; V6];
            let part = octets.get(at..end)?;
            let known = part.len().min(V6);
            one[..known].copy_from_slice(&part[..known]);
            sockaddr::parse(&one, known).ok()
        };
        // DLL-013: an entry that is neither IPv4 nor IPv6 is dropped.
        found.extend(address());
    }
    Ok(found)
}
