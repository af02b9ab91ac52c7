//! One port over TCP and over UDP, for interfaces whose programs name it by one number.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;

use parking_lot::Mutex;

use super::local_ports::{BindError, bind_within};
use super::purpose::Purpose;
use super::{Bound, Transport};

/// The ports that are tried if TCP has a port free which UDP has not.
const TRIES: u32 = 64;

/// A port that is reserved over TCP and over UDP at several addresses.
#[derive(Debug)]
pub struct BothPorts {
    /// The port.
    pub port: u16,
    /// The addresses over TCP.
    pub bound: Vec<Bound>,
    /// The reservation over UDP.
    pub udp: ReservedUdp,
}

/// Keeps a port of UDP from other programs. In a simulated network it keeps nothing.
#[derive(Debug, Default)]
pub struct ReservedUdp(Mutex<BTreeMap<IpAddr, UdpSocket>>);

impl ReservedUdp {
    /// Takes out the socket that reserves the port at this address.
    pub fn take(&self, address: IpAddr) -> Option<UdpSocket> {
        self.0.lock().remove(&address)
    }
}

/// Reserves a port at all these addresses: one of `range` if there is one, otherwise of the ephemeral range.
///
/// # Errors
///
/// See [`BindError`].
pub fn bind_both(
    transport: &Transport,
    addresses: &[IpAddr],
    range: Option<&RangeInclusive<u16>>,
) -> Result<BothPorts, BindError> {
    let mut tries = TRIES;
    loop {
        let (bound, port) = bind_within(transport, addresses, 0, range, Purpose::Listening)?;
        match reserve_udp(transport, addresses, port) {
            Ok(udp) => return Ok(BothPorts { port, bound, udp }),
            Err(error) if tries == 0 => {
                let first = addresses.first().copied();
                let at = SocketAddr::new(first.unwrap_or(IpAddr::from([0, 0, 0, 0])), port);
                return Err(BindError::Refused(at, error));
            }
            Err(_) => tries -= 1,
        }
    }
}

/// Reserves a port over UDP alone at all these addresses; port 0 means any.
///
/// # Errors
///
/// See [`BindError`].
pub fn bind_udp(
    transport: &Transport,
    addresses: &[IpAddr],
    port: u16,
    range: Option<&RangeInclusive<u16>>,
) -> Result<(ReservedUdp, u16), BindError> {
    if port == 0 {
        let both = bind_both(transport, addresses, range)?;
        return Ok((both.udp, both.port));
    }
    match reserve_udp(transport, addresses, port) {
        Ok(udp) => Ok((udp, port)),
        Err(error) => {
            let first = addresses.first().copied();
            let at = SocketAddr::new(first.unwrap_or(IpAddr::from([0, 0, 0, 0])), port);
            Err(BindError::Refused(at, error))
        }
    }
}

fn reserve_udp(transport: &Transport, addresses: &[IpAddr], port: u16) -> io::Result<ReservedUdp> {
    if transport.environment().world().is_some() {
        return Ok(ReservedUdp(Mutex::default()));
    }
    let sockets = addresses.iter();
    let sockets = sockets.map(|ip| Ok((*ip, UdpSocket::bind(SocketAddr::new(*ip, port))?)));
    let sockets: io::Result<BTreeMap<_, _>> = sockets.collect();
    sockets.map(|sockets| ReservedUdp(Mutex::new(sockets)))
}
