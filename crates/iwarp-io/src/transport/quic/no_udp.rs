//! The transport over UDP in a build without the feature `udp`: it cannot be made. The types have no values, so that no call can claim to
//! have done something.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use iwarp::{Span, TxBatch};
use iwarp_mem::{Sent, Table};

use super::options::QuicOptions;
use super::security::{Security, SecurityError};
use crate::environment::Environment;
use crate::faults::Faults;
use crate::progress::background::Background;
use crate::progress::domain::Domain;
use crate::progress::set::SourceId;
use crate::simulation::World;
use crate::transport::purpose::Purpose;

/// Closes the connections over UDP, of which there are none.
pub fn close_all(_: Duration) {}

/// The transport of one adapter; a type without values.
#[derive(Clone, Debug)]
pub struct NoQuic(Infallible);

impl NoQuic {
    /// Fails.
    ///
    /// # Errors
    ///
    /// [`SecurityError::NoUdp`], as [`io::ErrorKind::Unsupported`].
    pub fn new(_: Environment, _: &Security) -> io::Result<Self> {
        Err(SecurityError::NoUdp.into())
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// [`SecurityError::NoUdp`], as [`io::ErrorKind::Unsupported`].
    pub fn with(_: Environment, _: &Security, _: QuicOptions) -> io::Result<Self> {
        Err(SecurityError::NoUdp.into())
    }

    pub(in crate::transport) fn environment(&self) -> &Environment {
        match self.0 {}
    }

    pub(in crate::transport) fn follow(&self, _: &Arc<Faults>) {
        match self.0 {}
    }

    pub(in crate::transport) fn driven_by(&self, _: &Arc<Domain>, _: &Arc<Background>) {
        match self.0 {}
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(in crate::transport) fn counters(
        &self,
    ) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        std::iter::empty()
    }

    pub(in crate::transport) fn end(&self) {
        match self.0 {}
    }

    pub(in crate::transport) fn bind(&self, _: SocketAddr, _: Purpose) -> io::Result<Bound> {
        match self.0 {}
    }
}

/// A reserved address; a type without values.
#[derive(Debug)]
pub struct Bound(Infallible);

impl Bound {
    pub(in crate::transport) fn local(&self) -> SocketAddr {
        match self.0 {}
    }

    pub(in crate::transport) fn connect(self, _: SocketAddr) -> io::Result<Dialer> {
        match self.0 {}
    }

    pub(in crate::transport) fn listen(self) -> io::Result<Listener> {
        match self.0 {}
    }
}

/// An attempt to connect; a type without values.
#[derive(Debug)]
pub struct Dialer(Infallible);

impl Dialer {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        match self.0 {}
    }

    pub(in crate::transport) fn is_connected(&self) -> io::Result<bool> {
        match self.0 {}
    }

    pub(in crate::transport) fn into_wire(self) -> Wire {
        match self.0 {}
    }

    pub(in crate::transport) fn reset(self) {
        match self.0 {}
    }
}

/// A socket to which peers connect; a type without values.
#[derive(Debug)]
pub struct Listener(Infallible);

impl Listener {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        match self.0 {}
    }

    pub(in crate::transport) fn accept(&self) -> io::Result<Wire> {
        match self.0 {}
    }

    pub(in crate::transport) fn is_somebody_there(&self) -> bool {
        match self.0 {}
    }
}

/// One end of a connection; a type without values.
#[derive(Debug)]
pub struct Wire(Infallible);

impl Wire {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        match self.0 {}
    }

    pub(in crate::transport) fn world(&self) -> Option<&World> {
        match self.0 {}
    }

    pub(in crate::transport) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        match self.0 {}
    }

    pub(in crate::transport) fn segment(&self) -> u32 {
        match self.0 {}
    }

    pub(in crate::transport) fn read(&self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(in crate::transport) fn read_to_place(
        &self,
        _: &Table,
        _: Span,
        _: &mut [u8],
    ) -> io::Result<Option<usize>> {
        match self.0 {}
    }

    pub(in crate::transport) fn peek(&self) -> io::Result<usize> {
        match self.0 {}
    }

    pub(in crate::transport) fn check(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub(in crate::transport) fn write(&self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    pub(in crate::transport) fn send(&self, _: &Table, _: &mut TxBatch) -> io::Result<(u64, Sent)> {
        match self.0 {}
    }

    pub(in crate::transport) fn close_write(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub(in crate::transport) fn end_is_under_way(&self) -> bool {
        match self.0 {}
    }

    pub(in crate::transport) fn break_off(&self) {
        match self.0 {}
    }

    pub(in crate::transport) fn reset(self) {
        match self.0 {}
    }
}
