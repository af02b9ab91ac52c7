//! On a system without rings no connection has them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use iwarp::{Span, TxBatch};
use iwarp_mem::{Received, Sent, Table};

use crate::progress::readiness::Edges;
use crate::progress::set::SourceId;
use crate::transport::same_host::NoRing;
use crate::transport::tcp;

/// A connection over shared memory, which does not exist here.
#[derive(Debug)]
pub struct NoWire(Infallible);

impl NoWire {
    pub(in crate::transport) fn new(_: tcp::Wire, ring: NoRing) -> Self {
        match ring.0 {}
    }

    pub(in crate::transport) fn id(&self) -> SourceId<'_> {
        match self.0 {}
    }

    pub(in crate::transport) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        match self.0 {}
    }

    pub(in crate::transport) fn segment(&self) -> Option<u32> {
        match self.0 {}
    }

    pub(in crate::transport) fn take_all_bells(&self) -> Option<bool> {
        match self.0 {}
    }

    pub(in crate::transport) fn joins_set(&self) -> Edges {
        match self.0 {}
    }

    pub(in crate::transport) fn set_polled(&self, _: bool) {
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

    pub(in crate::transport) fn take_room_report(&self) -> bool {
        match self.0 {}
    }

    pub(in crate::transport) fn short_read_is_last(&self) -> bool {
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

    pub(in crate::transport) fn looks_at(&self) -> Option<Instant> {
        match self.0 {}
    }

    pub(in crate::transport) fn look(&self, _: Instant) {
        match self.0 {}
    }

    pub(in crate::transport) fn give_up_after(&self, _: Duration) {
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
}
