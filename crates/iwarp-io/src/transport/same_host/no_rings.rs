//! On a system without rings no adapter has the option.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::first_octets::FirstOctets;
use super::pairing_step::PairingStep;

/// On this system connections do not go through shared memory.
///
/// # Errors
///
/// Always.
pub fn check() -> io::Result<()> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "only Linux has it",
    ))
}

/// Rings, which do not exist here.
#[derive(Debug)]
pub struct NoRing(pub(in crate::transport) Infallible);

/// The option, which no adapter has here.
#[derive(Clone, Debug)]
pub struct NoSameHost(Infallible);

#[cfg_attr(windows, allow(dead_code, reason = "Windows has no TCP yet"))]
impl NoSameHost {
    /// None on this system.
    pub fn if_possible() -> Option<Self> {
        None
    }

    /// Sets the memory of all rings.
    pub fn limit_memory(&mut self, _: u64) {
        match self.0 {}
    }

    /// Sets how long a connector waits for the listener.
    pub fn wait_for(&mut self, _: Duration) {
        match self.0 {}
    }

    /// The names and values of its counters.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        match self.0 {}
    }

    pub(in crate::transport) fn offer(&self, _: SocketAddr, _: SocketAddr) -> Option<NoPairing> {
        match self.0 {}
    }

    pub(in crate::transport) fn meet(&self, _: SocketAddr) -> Option<NoMeeting> {
        match self.0 {}
    }

    pub(in crate::transport) fn take(
        &self,
        _: &NoMeeting,
        _: &impl FirstOctets,
        _: (SocketAddr, SocketAddr),
    ) -> Option<NoPairing> {
        match self.0 {}
    }
}

/// The place where offers are taken, which does not exist here.
#[derive(Debug)]
pub struct NoMeeting(Infallible);

#[cfg_attr(windows, allow(dead_code, reason = "Windows has no TCP yet"))]
impl NoMeeting {
    pub(in crate::transport) fn forget_old(&self, _: Instant) -> Option<Duration> {
        match self.0 {}
    }
}

/// An undecided connection, which does not exist here.
#[derive(Debug)]
pub struct NoPairing(Infallible);

impl NoPairing {
    pub(in crate::transport) fn until(&self) -> Option<Instant> {
        match self.0 {}
    }

    pub(in crate::transport) fn is_late(&self) -> bool {
        match self.0 {}
    }

    pub(in crate::transport) fn step(
        &mut self,
        _: &impl FirstOctets,
        _: Instant,
    ) -> io::Result<PairingStep<NoRing>> {
        match self.0 {}
    }
}
