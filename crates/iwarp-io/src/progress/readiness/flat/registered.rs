//! A descriptor as mio registers it.

use std::io;

use mio::event::Source;
#[cfg(unix)]
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::fd::BorrowedFd;
#[cfg(unix)]
use rustix::fd::{AsRawFd, RawFd};

/// A descriptor, which the sets' table registers. Its owner takes it out of all sets before it closes it.
#[cfg(unix)]
#[derive(Debug)]
pub(super) struct Registered(RawFd);

/// A socket. mio registers its own types alone on Windows, and they own their sockets: this one owns a duplicate, whatever kind of socket it
/// is. The connection ends when both are closed. So the owner of the other one takes it out of all sets before it closes it.
#[cfg(windows)]
#[derive(Debug)]
pub(super) struct Registered(mio::net::TcpStream);

#[cfg_attr(
    unix,
    allow(
        clippy::needless_pass_by_ref_mut,
        reason = "mio's own types change when they are registered"
    )
)]
impl Registered {
    #[cfg(unix)]
    pub(super) fn new(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(descriptor.as_raw_fd()))
    }

    #[cfg(windows)]
    pub(super) fn new(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let own = std::net::TcpStream::from(descriptor.try_clone_to_owned()?);
        Ok(Self(mio::net::TcpStream::from_std(own)))
    }

    #[cfg(unix)]
    fn with<T>(&self, act: impl FnOnce(&mut dyn Source) -> T) -> T {
        act(&mut SourceFd(&self.0))
    }

    #[cfg(windows)]
    fn with<T>(&mut self, act: impl FnOnce(&mut dyn Source) -> T) -> T {
        act(&mut self.0)
    }

    pub(super) fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.with(|source| source.register(registry, token, interest))
    }

    pub(super) fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.with(|source| source.reregister(registry, token, interest))
    }

    pub(super) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.with(|source| source.deregister(registry))
    }
}
