//! The provider of a command, and its adapters.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use netdirect::{Adapter, Provider};

use super::Session;
use crate::errors::{Failure, Result};
use crate::provider::{self, AdapterOptions, Backend};

/// How much longer than the command the provider waits for a reply, so that the command is the one that says what it waited for.
const GRACE: Duration = Duration::from_secs(1);

/// A provider, with the options of every adapter that a command opens.
#[derive(Debug)]
pub struct Setup {
    backend: Backend,
    /// The adapter to use, where the command line names one.
    url: Option<String>,
    /// Whether a listening side demands certificates.
    demands_certificates: bool,
    limit: Duration,
}

impl Setup {
    /// Picks the provider, and creates the capture file if one is wanted. A URL that has a scheme alone picks only the provider.
    /// `limit` is how long a peer may stay silent.
    pub fn new(
        url: Option<&str>,
        options: impl Into<AdapterOptions>,
        limit: Duration,
    ) -> Result<Self> {
        let mut options = options.into();
        options.reply = limit + GRACE;
        let backend = Backend::new(url, &options)?;
        let names_one = url.map_or(Ok(false), provider::is_of_one_adapter)?;
        Ok(Self {
            backend,
            url: url.filter(|_| names_one).map(str::to_owned),
            demands_certificates: options.security.trusts_some(),
            limit,
        })
    }

    /// The adapter that has the local address, or that the command line names.
    pub fn at(&self, local: SocketAddr) -> Result<Session> {
        if let Some(url) = &self.url {
            return self.session(self.backend.open(url)?);
        }
        let provider = self.backend.provider();
        if local.ip().is_unspecified() {
            return Err(wildcard(provider, local));
        }
        let doing = format!("use {} as a local address", local.ip());
        let id = provider
            .resolve_address(local)
            .map_err(|error| Failure::nd(doing, &error))?;
        self.session(self.backend.open_id(id, local)?)
    }

    fn session(&self, adapter: Arc<dyn Adapter>) -> Result<Session> {
        let session = Session::new(adapter, self.limit)?;
        let refusals = Arc::clone(self.backend.refusals());
        Ok(Session {
            refusals,
            ..session
        })
    }

    /// The line that a command prints when it listens at this address.
    pub fn listening(&self, address: SocketAddr) -> String {
        let listening = format!("listening on {address}");
        match self.backend.fingerprint() {
            None => listening,
            Some(pin) => {
                let own = if self.demands_certificates {
                    ", and a certificate of its own (--cert, --key)"
                } else {
                    ""
                };
                format!("{listening}\nthe other side connects with --udp --pin {pin}{own}")
            }
        }
    }

    /// The fingerprint of the certificate that the adapters show, if they show one.
    pub fn fingerprint(&self) -> Option<&str> {
        self.backend.fingerprint()
    }

    /// The adapter that leads to `destination`, and its address. If the command line names none, it is the adapter through
    /// which the system's routes lead. No packet is sent.
    pub fn towards(&self, destination: SocketAddr) -> Result<(Session, SocketAddr)> {
        if self.url.is_some() {
            let session = self.at(destination)?;
            let local = session.address_towards(destination)?;
            return Ok((session, local));
        }
        let any: SocketAddr = match destination {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let explain = |call: &'static str| {
            move |error| {
                Failure::socket(format_args!("find a way to {destination}: {call}"), &error)
            }
        };
        let socket = UdpSocket::bind(any).map_err(explain("socket or bind"))?;
        socket.connect(destination).map_err(explain("connect"))?;
        let mut local = socket.local_addr().map_err(explain("getsockname"))?;
        local.set_port(0);
        Ok((self.at(local)?, local))
    }

    /// Returns how long a peer may stay silent.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Writes out what the capture still holds. A capture that could not be written whole is an error.
    pub fn finish(&self) -> Result<()> {
        self.backend.finish()
    }
}

/// A listener never serves several adapters (LSTN-010), and it is unknown which one the user means.
fn wildcard(provider: &dyn Provider, local: SocketAddr) -> Failure {
    let mut addresses = match provider.query_address_list() {
        Ok(addresses) => addresses,
        Err(error) => return Failure::nd(format_args!("use {}", local.ip()), &error),
    };
    addresses.retain(|address| address.is_ipv4() == local.is_ipv4());
    let addresses = addresses
        .iter()
        .map(|address| SocketAddr::new(address.ip(), local.port()).to_string());
    Failure::new(
        format!(
            "cannot use {}: an adapter serves its own addresses only",
            local.ip()
        ),
        format!(
            "name the one to use: {}",
            addresses.collect::<Vec<_>>().join(" or ")
        ),
    )
}
