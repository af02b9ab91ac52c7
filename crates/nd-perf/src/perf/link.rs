//! How both sides get connected: adapter, memory, listener, and bare sockets to compare with.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nd_base::args::SecurityArgs;
use nd_base::errors::{Failure, Result};
use nd_base::provider::{self, AdapterOptions, OVER_UDP};
use nd_base::session::{self, Deadline, Request, Session, Setup};
use netdirect::{Listener, RemoteAddress};
use socket2::{Domain, Protocol, Socket, Type};

use super::limit::SilenceLimit;
use super::messages::{ControlRequest, Key};
use super::spec::{Boundaries, Spec, Transport};

/// How long it may take to connect.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// The limits of what the side that runs the test may choose.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(86_400);

/// A key that others do not know.
pub(super) fn new_key() -> Result<Key> {
    match getrandom::u64() {
        Ok(number) => Ok(number.to_ne_bytes()),
        Err(error) => Err(Failure::io("draw a random key", &error.into())),
    }
}

/// The private data of the connection request of the side that runs the test: the key, and the address of its own ring.
pub(super) fn private_data(key: Key, ring: Option<RemoteAddress>) -> Vec<u8> {
    let ring = ring.unwrap_or_default().to_bytes();
    [key.as_slice(), ring.as_slice()].concat()
}

/// The ring in a connection request that has the key.
pub(super) fn ring_of(private_data: &[u8], key: Key) -> Option<RemoteAddress> {
    let ring = private_data.strip_prefix(&key)?;
    let ring = ring.first_chunk::<{ RemoteAddress::LEN }>()?;
    Some(RemoteAddress::from_bytes(*ring))
}

/// The choices of a side for its adapters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choices<'a> {
    /// The adapter, if the command line names one.
    pub(super) url: Option<&'a str>,
    /// The fault plan, if there is one.
    pub(super) fault: Option<&'a str>,
    /// The fingerprint of the other side's certificate, for rows over UDP.
    pub(super) pin: Option<&'a str>,
    /// How long nothing may complete before the run is given up. The side that runs the test chooses it for both.
    pub(super) timeout: SilenceLimit,
}

/// The announcement of a row.
pub(super) fn announcement(spec: &Spec, choices: Choices<'_>) -> ControlRequest {
    let limit = choices.timeout.longest().as_millis();
    ControlRequest::Row {
        spec: *spec,
        timeout_ms: u64::try_from(limit).unwrap_or(u64::MAX),
    }
}

/// The time limit in an announcement.
pub(super) fn announced_timeout(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds).clamp(SHORTEST, LONGEST)
}

/// The options of the adapter for a row.
pub(super) fn setup(spec: &Spec, choices: Choices<'_>) -> Result<Setup> {
    let over_udp = spec.transport == Transport::Udp;
    let url = choices.url.or(over_udp.then_some(OVER_UDP));
    check_transport(choices.url, spec.transport)?;
    let chooses_crc = match url {
        Some(url) => provider::chooses_crc(url)?,
        None => true,
    };
    let options = AdapterOptions {
        fault: choices.fault.map(str::to_owned),
        crc: (chooses_crc || !spec.crc && !over_udp).then_some(spec.crc),
        same_host: spec.same_host,
        // The other side has the same option.
        same_host_wait: spec.same_host.map(|_| LIMIT),
        segment: spec.segment,
        whole_crcs: spec.boundaries == Boundaries::OutsideCrcs,
        security: SecurityArgs {
            pins: choices
                .pin
                .filter(|_| over_udp)
                .map(str::to_owned)
                .into_iter()
                .collect(),
            ..SecurityArgs::default()
        },
        ..AdapterOptions::default()
    };
    Setup::new(url, options, LIMIT)
}

/// Checks that an adapter that the command line names is one for this transport.
pub(super) fn check_transport(url: Option<&str>, transport: Transport) -> Result<()> {
    match url {
        Some(url) if provider::is_over_udp(url)? != (transport == Transport::Udp) => {
            Err(Failure::new(
                format!("{url} does not carry connections over {transport}"),
                "name an adapter over UDP with --udp, and any other one without",
            ))
        }
        _ => Ok(()),
    }
}

/// Checks the name of an adapter and a fault plan before a row needs them.
pub(super) fn check_choices(url: Option<&str>, fault: Option<&str>) -> Result<()> {
    let options = AdapterOptions {
        fault: fault.map(str::to_owned),
        ..AdapterOptions::default()
    };
    Setup::new(url, options, LIMIT).map(drop)
}

/// A socket for the comparison, not yet connected, with the row's segment size.
pub(super) fn bare_socket(address: SocketAddr, spec: &Spec) -> Result<Socket> {
    let explain = |error| Failure::socket("create a socket to compare with", &error);
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )
    .map_err(explain)?;
    if let Some(segment) = spec.segment {
        set_segment(&socket, segment).map_err(|error| {
            Failure::io(format_args!("limit segments to {segment} bytes"), &error)
        })?;
    }
    Ok(socket)
}

/// A listener for the sockets to compare with, on any port.
pub(super) fn bare_listener(local: SocketAddr, spec: &Spec) -> Result<TcpListener> {
    let socket = bare_socket(local, spec)?;
    let explain = |error| Failure::socket(format_args!("listen on {local}"), &error);
    socket.bind(&local.into()).map_err(explain)?;
    socket.listen(8).map_err(explain)?;
    Ok(socket.into())
}

/// The port of that listener.
pub(super) fn bare_port(listener: &TcpListener) -> Result<u16> {
    match listener.local_addr() {
        Ok(address) => Ok(address.port()),
        Err(error) => Err(Failure::socket("see the listener's address", &error)),
    }
}

#[cfg(target_os = "linux")]
fn set_segment(socket: &Socket, segment: u16) -> std::io::Result<()> {
    socket.set_tcp_mss(segment.into())
}

#[cfg(not(target_os = "linux"))]
fn set_segment(_: &Socket, _: u16) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// The next connection request that has the key, and the ring that it names.
pub(super) fn expected(
    session: &Session,
    listener: &dyn Listener,
    (key, limit): (Key, SilenceLimit),
) -> Result<(Request, RemoteAddress)> {
    let deadline = Deadline::after(LIMIT);
    let look = || {
        let left = deadline.left();
        limit.yields(LIMIT - left)?;
        Ok(limit.step(left))
    };
    loop {
        let request = session::next_request_while(session, listener, deadline, &look)?;
        if let Some(ring) = ring_of(&request.private_data, key) {
            return Ok((request, ring));
        }
        // The request comes from another program. An error of the rejection changes nothing here.
        let _ = request.connector.reject(&[]);
    }
}

/// The name of the system's own congestion control in the control protocol.
pub(super) const SYSTEMS_OWN: &str = "-";

/// Gives a connection a congestion control. Returns whether the process may choose it.
#[cfg(target_os = "linux")]
pub(super) fn choose_congestion(socket: &TcpStream, name: &str) -> bool {
    name == SYSTEMS_OWN || rustix::net::sockopt::set_tcp_congestion(socket, name).is_ok()
}

/// The congestion control of a connection.
#[cfg(target_os = "linux")]
pub(super) fn congestion(socket: &TcpStream) -> String {
    rustix::net::sockopt::tcp_congestion(socket).unwrap_or_else(|_| "unknown".to_owned())
}

/// On this system only the default can be used.
#[cfg(not(target_os = "linux"))]
pub(super) fn choose_congestion(_: &TcpStream, name: &str) -> bool {
    name == SYSTEMS_OWN
}

/// This system does not report it.
#[cfg(not(target_os = "linux"))]
pub(super) fn congestion(_: &TcpStream) -> String {
    "unknown".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netdirect::RemoteToken;

    #[test]
    fn a_ring_is_found_behind_the_right_key_only() {
        let ring = RemoteAddress {
            address: 77,
            token: RemoteToken::from_host(5),
        };
        let key = [1; 8];
        let said = private_data(key, Some(ring));
        assert_eq!(ring_of(&said, key), Some(ring));
        assert_eq!(ring_of(&said, [2; 8]), None);
        assert_eq!(ring_of(&said[..19], key), None);
        assert_eq!(ring_of(&[], key), None);
    }
}
