//! Common code of the commands that talk to programs of other projects: the address of the peer, and the adapter that leads
//! to it.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use netdirect::{Listener, ReadLimits, Status};

use crate::args::{AdapterArgs, SecurityArgs, seconds};
use crate::errors::{Failure, Result};
use crate::provider::{self, AdapterOptions};
use crate::session::{self, Endpoint, Session, Setup};

/// Which adapter is used.
#[derive(Clone, Debug, Default, Args)]
pub struct WhichArgs {
    /// Connects over UDP, encrypted, instead of TCP; both sides need this option
    #[arg(long, conflicts_with = "url")]
    udp: bool,

    #[arg(long, value_name = "URL", help = format!(
        "The adapter to use, such as {} [default: the adapter that has the address, or from which it can be reached]",
        provider::EXAMPLE
    ))]
    url: Option<String>,
}

impl WhichArgs {
    /// The URL of the adapter, if one was chosen. It may have a scheme alone.
    pub fn url(&self) -> Option<&str> {
        if self.udp {
            return Some(provider::OVER_UDP);
        }
        self.url.as_deref()
    }
}

/// How the peer is reached.
#[derive(Clone, Debug, Args)]
pub struct PeerArgs {
    #[command(flatten)]
    which: WhichArgs,

    #[command(flatten)]
    adapter: AdapterArgs,

    /// Gives up if no data has moved for this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub timeout: Duration,

    #[command(flatten)]
    security: SecurityArgs,
}

impl PeerArgs {
    /// The provider, and the options of its adapter.
    pub fn setup(&self) -> Result<Setup> {
        let options = AdapterOptions::new(&self.adapter, &self.security);
        Setup::new(self.which.url(), options, self.timeout)
    }
}

/// Opens an adapter that listens on the first of the addresses that is one of its own.
pub fn listen(
    setup: &Setup,
    addresses: &[SocketAddr],
) -> Result<(Session, Arc<dyn Listener>, SocketAddr)> {
    let mut last = nowhere();
    for address in addresses {
        let listening = setup.at(*address).and_then(|session| {
            let (listener, address) = session.listen(*address)?;
            Ok((session, listener, address))
        });
        match listening {
            Ok(listening) => return Ok(listening),
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

/// The addresses of `host`, a name or an address in numbers, with `port`.
pub fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    match host.parse::<Ipv6Addr>() {
        // An IPv4 address may be written as one of IPv6.
        Ok(address) => Ok(vec![(address.to_canonical(), port).into()]),
        Err(_) => session::resolve(&format!("{host}:{port}")),
    }
}

/// Connects, and completes the connection.
pub fn connect(
    endpoint: &Endpoint,
    local: SocketAddr,
    peer: SocketAddr,
    limits: ReadLimits,
) -> Result<()> {
    let succeeded = |status| match status {
        Status::SUCCESS => Ok(()),
        status => Err(endpoint.not_connected(peer, status)),
    };
    succeeded(endpoint.connect(local, peer, limits, &[])?)?;
    match endpoint.complete_connect()? {
        Status::SUCCESS => Ok(()),
        status => Err(endpoint.failure(format_args!("connect to {peer}"), status)),
    }
}

/// The failure for a name without any address.
pub fn nowhere() -> Failure {
    Failure::new("the name has no address", "name another host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_take_a_port() {
        let v4 = resolve("192.0.2.7", 7).expect("IPv4");
        assert_eq!(v4, [SocketAddr::from(([192, 0, 2, 7], 7))]);
        assert_eq!(resolve("::ffff:192.0.2.7", 7).expect("IPv4"), v4);
        assert_eq!(session::resolve("[::ffff:192.0.2.7]:7").expect("IPv4"), v4);
        let v6 = resolve("2001:db8::7", 7).expect("IPv6");
        assert_eq!(
            v6,
            ["[2001:db8::7]:7".parse::<SocketAddr>().expect("an address")]
        );
    }
}
