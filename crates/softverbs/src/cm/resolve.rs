//! Local addresses, and the route to a peer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use iwarp_io::interfaces;
use iwarp_io::log::targets;
use iwarp_io::system_call::errno;
use iwarp_io::transport::both_ports::bind_udp;
use iwarp_io::transport::local_ports::{self, BindError};
use iwarp_io::transport::purpose::Purpose;

use super::datagrams::BoundUdp;
use super::event::{CmEventKind, ConnParameters, status_of};
use super::space::PortSpace;
use super::state::{CmId, IdState, Phase};
use crate::device::Device;
use crate::error::{Errno, Error, Result, fail};
use crate::process::Process;

impl CmId {
    /// Reserves a local address. The unspecified address means all addresses; that of IPv6 also those of IPv4, unless the program wants one
    /// family.
    pub(super) fn bind_locked(&self, state: &mut IdState, address: SocketAddr) -> Result<()> {
        if !matches!(state.phase, Phase::Idle) || state.local.is_some() {
            return fail(Errno::INVAL, "the identifier is bound already");
        }
        let ip = this_network_is_any(address.ip());
        let device = match ip.is_unspecified() {
            true => None,
            false => Some(device_of(&self.process, ip)?),
        };
        if self.space() == PortSpace::Udp {
            let own = match ip.is_unspecified() {
                true => self.all_of(ip, state.one_family),
                false => vec![ip],
            };
            let port = self.bind_udp(state, own, address.port())?;
            state.device = device;
            state.local = Some(SocketAddr::new(ip, port));
            return Ok(());
        }
        let covered = self.covered(ip, state.one_family);
        let transport = self.process.transport();
        let ports = self.process.options().ports.as_ref();
        let purpose = Purpose::Listening;
        let bound = local_ports::bind_within(transport, &covered, address.port(), ports, purpose);
        let (bound, port) = bound.map_err(|why| bind_error(&why))?;
        state.bound = bound;
        state.device = device;
        state.local = Some(SocketAddr::new(ip, port));
        Ok(())
    }

    /// Reserves a port of UDP at these addresses. Returns the port.
    fn bind_udp(&self, state: &mut IdState, addresses: Vec<IpAddr>, port: u16) -> Result<u16> {
        let transport = self.process.number_transport();
        let ports = self.process.options().ports.as_ref();
        let bound = bind_udp(transport, &addresses, port, ports);
        let (reserved, port) = bound.map_err(|why| bind_error(&why))?;
        state.bound_udp = Some(BoundUdp {
            reserved,
            addresses,
        });
        Ok(port)
    }

    /// The addresses of the machine that an unspecified address means.
    fn all_of(&self, ip: IpAddr, one_family: bool) -> Vec<IpAddr> {
        let both = ip.is_ipv6() && !one_family;
        let all = self.process.all_addresses();
        all.filter(|own| both || own.is_ipv4() == ip.is_ipv4())
            .collect()
    }

    fn covered(&self, ip: IpAddr, one_family: bool) -> Vec<IpAddr> {
        if !ip.is_unspecified() {
            return vec![ip];
        }
        if !self.process.has_wildcards() {
            return self.all_of(ip, one_family);
        }
        match ip.is_ipv6() && !one_family {
            true => vec![ip, Ipv4Addr::UNSPECIFIED.into()],
            false => vec![ip],
        }
    }

    /// Finds the device and the local address from which `peer` is reached, and queues an event.
    pub(super) fn resolve_locked(
        &self,
        state: &mut IdState,
        source: Option<SocketAddr>,
        peer: SocketAddr,
    ) -> Result<()> {
        if !matches!(state.phase, Phase::Idle) {
            return fail(Errno::INVAL, "the identifier has an address already");
        }
        if let Some(source) = source
            && state.local.is_none()
            && (source.port() != 0 || !source.ip().is_unspecified())
        {
            self.bind_locked(state, source)?;
        }
        match self.route(state.local, peer) {
            Ok((device, source)) => {
                let port = state.local.map_or(0, |local| local.port());
                if state.local.is_none_or(|local| local.ip() != source) {
                    state.bound.clear();
                    state.bound_udp = None;
                }
                state.device = Some(device);
                state.local = Some(SocketAddr::new(source, port));
                state.peer = Some(peer);
                state.phase = Phase::AddressResolved;
                self.tell(CmEventKind::AddrResolved, 0, ConnParameters::default());
            }
            Err(error) => {
                tracing::debug!(target: targets::CONNECT, %peer, %error, "an address was not resolved");
                let status = status_of(error.errno());
                self.tell(CmEventKind::AddrError, status, ConnParameters::default());
            }
        }
        Ok(())
    }

    fn route(&self, local: Option<SocketAddr>, peer: SocketAddr) -> Result<(Arc<Device>, IpAddr)> {
        if peer.ip().is_unspecified() {
            return fail(Errno::INVAL, "the peer's address is the unspecified one");
        }
        let local = local.map(|local| local.ip());
        let source = match local.filter(|local| !local.is_unspecified()) {
            Some(local) => local,
            None => source_for(&self.process, peer)?,
        };
        Ok((device_of(&self.process, source)?, source))
    }
}

/// Returns the IPv4 address that an IPv6 address may be a form of; other addresses as they are.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::from((v4, address.port())),
        IpAddr::V6(_) => address,
    }
}

/// Treats an address of 0.0.0.0/8, which names a host of "this network" and no interface, as the unspecified address. The server of fio
/// 3.33 makes 0.0.0.49 of the option `--bindname=192.0.2.1`, from its first letter.
fn this_network_is_any(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.octets()[0] == 0 => Ipv4Addr::UNSPECIFIED.into(),
        ip => ip,
    }
}

fn device_of(process: &Process, address: IpAddr) -> Result<Arc<Device>> {
    process
        .device_of(address)
        .cloned()
        .ok_or_else(|| Error::new(Errno::NODEV, format!("no device has the address {address}")))
}

fn source_for(process: &Process, peer: SocketAddr) -> Result<IpAddr> {
    if process.environment().world().is_none() {
        return interfaces::source_for(peer)
            .map_err(|error| Error::of_system(&error, "there is no route"));
    }
    let devices = process.devices().iter();
    let mut addresses = devices.flat_map(|device| device.interface().addresses.iter());
    let own = addresses.find(|own| own.is_ipv4() == peer.is_ipv4());
    own.copied()
        .ok_or_else(|| Error::new(Errno::NETUNREACH, "there is no route"))
}

pub(super) fn bind_error(why: &BindError) -> Error {
    match why {
        BindError::Refused(_, error) => {
            let errno = errno(error).unwrap_or(Errno::IO);
            Error::new(errno, why.to_string())
        }
        BindError::Random(_) => Error::new(Errno::IO, why.to_string()),
        BindError::NoPort | BindError::RangeInUse(_) => {
            Error::new(Errno::ADDRINUSE, why.to_string())
        }
    }
}

/// The unspecified address of a family, with port 0.
pub(super) fn any(is_ipv4: bool) -> SocketAddr {
    let ip: IpAddr = match is_ipv4 {
        true => Ipv4Addr::UNSPECIFIED.into(),
        false => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}
