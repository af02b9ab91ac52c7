//! What connections over shared memory need of the system, tried once.

use std::io;

use iwarp_mem::ring::{Ring, RingSize};
use rustix::fs::MemfdFlags;
use rustix::net::SocketAddrUnix;

use crate::system_call::of_call;

use super::meeting::packet_socket;

/// Tries what connections over shared memory need of the system: sealed memory with a descriptor, its mapping, and a socket with an abstract
/// name.
///
/// # Errors
///
/// The first call that the system refuses, with its name and reason.
pub fn check() -> io::Result<()> {
    let refused = |call| move |errno| of_call(call, errno);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    drop(rustix::fs::memfd_create("softnd", flags).map_err(refused("memfd_create"))?);
    // What is left of the calls for the memory are those on its descriptor, and its mapping.
    drop(Ring::create(RingSize::default()).map_err(|error| {
        let errno = rustix::io::Errno::from_io_error(&error);
        errno.map_or(error, refused("mmap of shared memory"))
    })?);
    let socket = packet_socket().map_err(refused("socket AF_UNIX"))?;
    // Without an address the system chooses an abstract name.
    let any = SocketAddrUnix::new_unnamed();
    rustix::net::bind(&socket, &any).map_err(refused("bind to an abstract name"))?;
    rustix::net::listen(&socket, 1).map_err(refused("listen at an abstract name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that call `check` in programs to which calls are refused are those of `nd info`.
    #[test]
    fn a_system_that_refuses_nothing_has_all() {
        check().unwrap();
        // Nothing is left of the first time.
        check().unwrap();
    }
}
