//! The stand-in for a QUIC stream in a program that was built without the feature `udp`: an error.
#![expect(
    clippy::needless_pass_by_ref_mut,
    reason = "the functions are those of the feature"
)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use nd_base::errors::{Failure, Result};

use crate::perf::messages::Key;
use crate::perf::spec::Spec;

fn missing<T>() -> Result<T> {
    Err(Failure::new(
        "cannot compare with a QUIC stream: this program was built without the feature `udp`",
        "leave out --baseline quic, or build with that feature",
    ))
}

/// As `QuicListener`.
#[derive(Debug)]
pub(in crate::perf) struct NoListener(Infallible);

impl NoListener {
    pub(in crate::perf) fn new(_: SocketAddr, _: Key, _: &Spec) -> Result<Self> {
        missing()
    }

    pub(in crate::perf) fn port(&self) -> Result<u16> {
        match self.0 {}
    }

    pub(in crate::perf) fn certificate(&self) -> &[u8] {
        match self.0 {}
    }

    pub(in crate::perf) fn accept(self, _: Duration) -> Result<NoStream> {
        match self.0 {}
    }
}

/// As `QuicStream`.
#[derive(Debug)]
pub(in crate::perf) struct NoStream(Infallible);

impl NoStream {
    pub(in crate::perf) fn connect(
        _: SocketAddr,
        _: Key,
        _: Vec<u8>,
        _: &Spec,
        _: Duration,
    ) -> Result<Self> {
        missing()
    }

    pub(in crate::perf) fn congestion(&self) -> &'static str {
        match self.0 {}
    }

    pub(in crate::perf) fn write(&mut self, _: &Bytes, _: Range<usize>) -> std::io::Result<usize> {
        match self.0 {}
    }

    pub(in crate::perf) fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        match self.0 {}
    }

    pub(in crate::perf) fn finish(&mut self) -> std::io::Result<()> {
        match self.0 {}
    }

    pub(in crate::perf) fn attend(&mut self, _: Duration) -> std::io::Result<()> {
        match self.0 {}
    }
}
