//! iWARP over QUIC: one UDP socket for all outgoing streams of an adapter, and one for each address at which it listens.
//!
//! `docs/internals/iwarp-over-quic.md` specifies the octets on the wire. A [`Quic`] is the transport of one adapter. A `SharedSocket` is
//! one UDP socket with the connections of QUIC on it; a stream of one of them is a connection of NetworkDirect.

mod account;
mod adapter_sockets;
mod addresses_in_use;
mod arrivals;
mod close_reason;
mod config;
mod congestion;
mod endpoint;
mod faulted_socket;
mod handshake_sends;
mod options;
mod plain_socket;
pub mod preamble;
mod quic_stream;
mod received_frames;
mod refusals;
pub mod security;
mod send_buffers;
mod shared_socket;
mod socket;
mod socket_drivers;
mod undelivered;
mod watched_session;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use self::account::UndeliveredLimits;
use self::adapter_sockets::AdapterSockets;
use self::addresses_in_use::AddressInUse;
pub use self::options::QuicOptions;
use self::security::Security;
pub use self::wire::{Bound, Dialer, Listener, Wire};
use super::purpose::Purpose;
use crate::environment::Environment;
use crate::faults::Faults;
use crate::progress::background::Background;
use crate::progress::domain::Domain;

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

    pub(super) fn environment(&self) -> &Environment {
        self.0.environment()
    }

    pub(super) fn follow(&self, faults: &Arc<Faults>) {
        self.0.follow(faults);
    }

    pub(super) fn driven_by(&self, control: &Arc<Domain>, background: &Arc<Background>) {
        self.0.driven_by(control, background);
    }

    /// The names and values of the counters of refused peers, connections and streams.
    pub(super) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.0.refusals().all().into_iter()
    }

    pub(super) fn end(&self) {
        self.0.end();
    }

    pub(super) fn bind(&self, address: SocketAddr, purpose: Purpose) -> io::Result<Bound> {
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
