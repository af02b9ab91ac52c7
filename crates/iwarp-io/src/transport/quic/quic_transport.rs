//! The transport of one adapter over QUIC.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::adapter_sockets::{self, AdapterSockets};
use super::addresses_in_use::AddressInUse;
use super::options::QuicOptions;
use super::security::Security;
use super::wire::Bound;
use crate::environment::Environment;
use crate::faults::Faults;
use crate::progress::background::Background;
use crate::progress::domain::Domain;
use crate::transport::purpose::Purpose;

/// Closes the connections of all transports of this process over the sockets of the system, so that peers learn of their end at once: when
/// the sent octets have arrived, or after `limit`. Meant for a process that ends while its transports are in use.
pub fn close_all(limit: Duration) {
    adapter_sockets::close_all(limit);
}

/// The transport of one adapter.
#[derive(Clone, Debug)]
pub struct Quic(Arc<AdapterSockets>);

impl Quic {
    /// A transport without sockets.
    ///
    /// # Errors
    ///
    /// Those of `security`, as [`io::ErrorKind::InvalidInput`].
    pub fn new(environment: Environment, security: &Security) -> io::Result<Self> {
        Self::with(environment, security, QuicOptions::default())
    }

    /// Like [`new`](Self::new), with these options.
    ///
    /// # Errors
    ///
    /// Those of `security` and a congestion control that QUIC does not have, as [`io::ErrorKind::InvalidInput`].
    pub fn with(
        environment: Environment,
        security: &Security,
        options: QuicOptions,
    ) -> io::Result<Self> {
        AdapterSockets::new(environment, security, options).map(Self)
    }

    pub(in crate::transport) fn environment(&self) -> &Environment {
        self.0.environment()
    }

    pub(in crate::transport) fn follow(&self, faults: &Arc<Faults>) {
        self.0.follow(faults);
    }

    pub(in crate::transport) fn driven_by(
        &self,
        control: &Arc<Domain>,
        background: &Arc<Background>,
    ) {
        self.0.driven_by(control, background);
    }

    /// The names and values of the counters of refused peers, connections and streams.
    pub(in crate::transport) fn counters(
        &self,
    ) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.0.refusals().all().into_iter()
    }

    pub(in crate::transport) fn end(&self) {
        self.0.end();
    }

    pub(in crate::transport) fn bind(
        &self,
        address: SocketAddr,
        purpose: Purpose,
    ) -> io::Result<Bound> {
        let name = AddressInUse::new(self.environment(), address)?;
        Ok(match purpose {
            Purpose::Connecting => Bound::for_connecting(Arc::clone(&self.0), name),
            Purpose::Listening => {
                let socket = self.0.socket_to_listen(address)?;
                Bound::for_listening(Arc::clone(&self.0), name, socket)
            }
        })
    }
}
