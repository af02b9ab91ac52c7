//! Windows, where softnd has no TCP yet. An adapter over TCP cannot be opened, so nothing here is asked for an address; if it were, it
//! would refuse. The other types have no values.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use iwarp::{Span, TxBatch};
use iwarp_mem::{Received, Sent, Table};

use super::TcpOptions;
use crate::progress::readiness::Edges;
use crate::progress::readiness::no_sets::refused;
use crate::progress::set::SourceId;
use crate::transport::same_host::{FirstOctets, Pairing};

/// TCP, which refuses every address.
#[derive(Clone, Debug, Default)]
pub struct NoTcp(());

impl NoTcp {
    /// As on other systems. The options are those of sockets, of which there are none.
    pub fn new(_: TcpOptions) -> Self {
        Self(())
    }

    pub(in crate::transport) fn may_share_memory(&self) -> bool {
        false
    }

    pub(in crate::transport) fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    pub(in crate::transport) fn bind(&self, _: SocketAddr) -> io::Result<Bound> {
        refused()
    }

    pub(in crate::transport) fn bind_fresh(&self, _: SocketAddr) -> io::Result<Bound> {
        refused()
    }
}

/// Here is no congestion control that the system permits.
///
/// # Errors
///
/// Always.
pub fn permits_congestion(_: &str) -> io::Result<()> {
    refused()
}

/// A bound socket; a type without values.
#[derive(Debug)]
pub struct Bound(Infallible);

impl Bound {
    pub(in crate::transport) fn local(&self) -> io::Result<SocketAddr> {
        match self.0 {}
    }

    pub(in crate::transport) fn connect(self, _: SocketAddr) -> io::Result<Dialer> {
        match self.0 {}
    }

    pub(in crate::transport) fn listen(self) -> io::Result<Listener> {
        match self.0 {}
    }
}

/// A connecting socket; a type without values.
#[derive(Debug)]
pub struct Dialer(Infallible);

impl Dialer {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        match self.0 {}
    }

    pub(in crate::transport) fn is_connected(&self, _: Edges) -> io::Result<bool> {
        match self.0 {}
    }

    pub(in crate::transport) fn into_wire(self) -> io::Result<Wire> {
        match self.0 {}
    }

    pub(in crate::transport) fn reset(self) {
        match self.0 {}
    }
}

/// A listening socket; a type without values.
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

    pub(in crate::transport) fn forget_old(&self, _: Instant) -> Option<Duration> {
        match self.0 {}
    }
}

/// A connected socket; a type without values.
#[derive(Debug)]
pub struct Wire(Infallible);

impl Wire {
    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        match self.0 {}
    }

    pub(in crate::transport) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        match self.0 {}
    }

    pub(in crate::transport) fn segment(&self) -> Option<u32> {
        match self.0 {}
    }

    pub(in crate::transport) fn incoming_core(&self) -> Option<usize> {
        match self.0 {}
    }

    pub(in crate::transport) fn open_window(&self, _: i32) {
        match self.0 {}
    }

    pub(in crate::transport) fn give_up_after(&self, _: Duration) {
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
    ) -> io::Result<Received> {
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

    pub(in crate::transport) fn break_off(&self) {
        match self.0 {}
    }

    pub(in crate::transport) fn reset(self) {
        match self.0 {}
    }

    pub(in crate::transport) fn is_unpaired(&self) -> bool {
        match self.0 {}
    }

    pub(in crate::transport) fn take_pairing(&mut self) -> Option<Box<Pairing>> {
        match self.0 {}
    }

    pub(in crate::transport) fn put_pairing(&mut self, _: Box<Pairing>) {
        match self.0 {}
    }
}

impl FirstOctets for Wire {
    fn peek_at(&self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }

    fn take(&self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }

    fn send(&self, _: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }
}
