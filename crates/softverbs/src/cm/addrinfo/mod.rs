//! Addresses by names: `rdma_getaddrinfo`.
//!
//! The rules are those of rdma-core's library, which asks the resolver of the system. Numeric addresses and ports need no resolver, so that
//! they work in a simulated network too. Names go to the resolver that the caller passes.

use std::ffi::CStr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::space::PortSpace;
use crate::error::{Errno, Error};

#[cfg(test)]
mod tests;

bitflags::bitflags! {
    /// Flags of hints, with the values of the headers.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AddrInfoFlags: u32 {
        /// The address is for a listener.
        const PASSIVE = 1;
        /// The host is a numeric address: the resolver is not asked for it.
        const NUMERIC_HOST = 2;
        /// No route is looked up; none is looked up without the flag either.
        const NO_ROUTE = 4;
        /// The family determines how the host is read. It does so without the flag as well.
        const FAMILY = 8;
        /// Names go to the resolver. They do so without the flag as well.
        const DNS = 32;
    }
}

/// The type of reliable connections among the types of queue pairs (`IBV_QPT_RC`).
pub const QP_TYPE_RC: u32 = 2;
/// The type of unreliable datagrams (`IBV_QPT_UD`).
const QP_TYPE_UD: u32 = 4;
/// The port space of reliable connections (`RDMA_PS_TCP`).
pub const PORT_SPACE_TCP: u32 = PortSpace::Tcp as u32;
/// The port space of datagrams (`RDMA_PS_UDP`).
const PORT_SPACE_UDP: u32 = PortSpace::Udp as u32;

/// The family of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressFamily {
    /// Either family.
    #[default]
    Any,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// A family that connections over sockets do not have, such as that of InfiniBand.
    Other,
}

impl AddressFamily {
    fn from_address(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(_) => Self::Ipv4,
            SocketAddr::V6(_) => Self::Ipv6,
        }
    }

    fn includes(self, ip: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Ipv4 => ip.is_ipv4(),
            Self::Ipv6 => ip.is_ipv6(),
            Self::Other => false,
        }
    }
}

/// The hints of a program about the address, as in `rdma_getaddrinfo`. Numbers are those of the headers; 0 leaves the choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddrInfoHints {
    /// Flags; bits without a meaning are refused.
    pub flags: AddrInfoFlags,
    /// The family.
    pub family: AddressFamily,
    /// The type of queue pairs.
    pub qp_type: u32,
    /// The port space.
    pub port_space: u32,
    /// The local address.
    pub source: Option<SocketAddr>,
    /// The peer's address.
    pub destination: Option<SocketAddr>,
}

/// The addresses that a program needs for a connection or a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddrInfo {
    /// [`AddrInfoFlags::PASSIVE`] for a listener; the flags of the hints if these had the addresses.
    pub flags: AddrInfoFlags,
    /// The family of the addresses.
    pub family: AddressFamily,
    /// The type of queue pairs: [`QP_TYPE_RC`], or that of datagrams.
    pub qp_type: u32,
    /// The port space: [`PORT_SPACE_TCP`], or that of datagrams.
    pub port_space: u32,
    /// The local address, to which a listener is bound.
    pub source: Option<SocketAddr>,
    /// The peer's address.
    pub destination: Option<SocketAddr>,
}

/// The reason why a name has no address, by the codes of `getaddrinfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFailure {
    /// `EAI_ADDRFAMILY`: the host has no address of the family.
    NoAddressOfFamily,
    /// `EAI_AGAIN`: the name server fails for now.
    TryAgain,
    /// `EAI_BADFLAGS`: the hints have flags that do not exist.
    BadFlags,
    /// `EAI_FAIL`: the name server fails permanently.
    ServerFailed,
    /// `EAI_FAMILY`: the family is not supported.
    Family,
    /// `EAI_MEMORY`: memory is short.
    Memory,
    /// `EAI_NODATA`: the host has no address.
    NoData,
    /// `EAI_NONAME`: the host is not known.
    UnknownHost,
    /// `EAI_SERVICE`: the service is not known.
    UnknownService,
    /// `EAI_SOCKTYPE`: the type of queue pairs and the port space contradict each other.
    QpType,
    /// `EAI_SYSTEM`: a call of the system has failed.
    System(Errno),
    /// Another code of the resolver.
    Other(i32),
}

impl fmt::Display for NameFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAddressOfFamily => "the host has no address of the wanted family",
            Self::TryAgain => "the name server does not answer; try again later",
            Self::BadFlags => "the hints have flags that do not exist",
            Self::ServerFailed => "the name server refuses to answer",
            Self::Family => "addresses are those of IPv4 and IPv6",
            Self::Memory => "memory is short",
            Self::NoData => "the host has no address",
            Self::UnknownHost => "the host is not known",
            Self::UnknownService => "the service is neither the number of a port nor a known name",
            Self::QpType => "queue pairs for datagrams are not for connections (RDMA_PS_TCP), and others not for datagrams (RDMA_PS_UDP)",
            Self::System(errno) => return write!(f, "a call of the system failed: {errno}"),
            Self::Other(code) => return write!(f, "the resolver fails with the code {code}"),
        })
    }
}

/// The reason why there is no answer: a name without an address, or another error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddrInfoError {
    /// `rdma_getaddrinfo` returns a code of `getaddrinfo`.
    Name(NameFailure),
    /// It returns -1, with this errno.
    Call(Error),
}

impl fmt::Display for AddrInfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(failure) => failure.fmt(f),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AddrInfoError {}

impl From<NameFailure> for AddrInfoError {
    fn from(failure: NameFailure) -> Self {
        Self::Name(failure)
    }
}

impl From<Error> for AddrInfoError {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

/// A question to the resolver: a host, a service, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameQuery<'a> {
    /// The host; without one, the result is any address with the port of the service.
    pub host: Option<&'a CStr>,
    /// The service; without one, port 0.
    pub service: Option<&'a CStr>,
    /// The family.
    pub family: AddressFamily,
    /// The host is a numeric address in a form that only the resolver knows, or nothing.
    pub is_numeric: bool,
}

/// The resolver: all addresses, the best one first.
pub type Resolver<'a> = dyn Fn(&NameQuery<'_>) -> Result<Vec<SocketAddr>, NameFailure> + 'a;

/// Finds the addresses for a connection to `host`, or for a listener there (`rdma_getaddrinfo`). Without a host and a service they are
/// those of the hints.
///
/// # Errors
///
/// EINVAL without host, service and hints; EOPNOTSUPP for queue pairs other than those of reliable connections; those of names.
pub fn address_info(
    host: Option<&CStr>,
    service: Option<&CStr>,
    hints: Option<&AddrInfoHints>,
    resolver: &Resolver<'_>,
) -> Result<AddrInfo, AddrInfoError> {
    if host.is_none() && service.is_none() && hints.is_none() {
        let what = "there is no host, no service and no hint";
        return Err(Error::new(Errno::INVAL, what).into());
    }
    let hints = hints.copied().unwrap_or_default();
    let space = check(&hints)?;
    let mut info = AddrInfo {
        flags: hints.flags,
        family: hints.family,
        qp_type: match space {
            PortSpace::Tcp => QP_TYPE_RC,
            PortSpace::Udp => QP_TYPE_UD,
        },
        port_space: space as u32,
        source: hints.source,
        destination: hints.destination,
    };
    if host.is_none() && service.is_none() {
        let known = hints.destination.or(hints.source);
        info.family = known.map_or(hints.family, AddressFamily::from_address);
        return Ok(info);
    }
    let address = resolve(host, service, &hints, resolver)?;
    info.flags = hints.flags & AddrInfoFlags::PASSIVE;
    info.family = AddressFamily::from_address(address);
    if info.flags.contains(AddrInfoFlags::PASSIVE) {
        (info.source, info.destination) = (Some(address), None);
    } else {
        info.destination = Some(address);
    }
    Ok(info)
}

fn check(hints: &AddrInfoHints) -> Result<PortSpace, AddrInfoError> {
    if !AddrInfoFlags::all().contains(hints.flags) {
        return Err(NameFailure::BadFlags.into());
    }
    if hints.family == AddressFamily::Other {
        return Err(NameFailure::Family.into());
    }
    match (hints.qp_type, hints.port_space) {
        (QP_TYPE_UD, PORT_SPACE_TCP) | (QP_TYPE_RC, PORT_SPACE_UDP) => {
            Err(NameFailure::QpType.into())
        }
        (qp_type, port_space) => Ok(check_type(qp_type, port_space)?),
    }
}

/// The port space of queue pairs of this type. 0 leaves the choice.
pub(super) fn check_type(qp_type: u32, port_space: u32) -> Result<PortSpace, Error> {
    match (qp_type, port_space) {
        (0 | QP_TYPE_RC, 0 | PORT_SPACE_TCP) => Ok(PortSpace::Tcp),
        (QP_TYPE_UD, 0 | PORT_SPACE_UDP) | (0, PORT_SPACE_UDP) => Ok(PortSpace::Udp),
        _ => Err(Error::new(
            Errno::OPNOTSUPP,
            "queue pairs are those of the type IBV_QPT_RC in the port space RDMA_PS_TCP, and of the type IBV_QPT_UD in RDMA_PS_UDP",
        )),
    }
}

/// The first address of a host, of the wanted family.
fn resolve(
    host: Option<&CStr>,
    service: Option<&CStr>,
    hints: &AddrInfoHints,
    resolver: &Resolver<'_>,
) -> Result<SocketAddr, NameFailure> {
    let is_numeric = hints.flags.contains(AddrInfoFlags::NUMERIC_HOST);
    let query = NameQuery {
        host,
        service,
        family: hints.family,
        is_numeric,
    };
    let number = service.map_or(Ok(Some(0)), number_of)?;
    let Some(host) = host else {
        let port = match number {
            Some(port) => port,
            None => first(&query, resolver)?.port(),
        };
        return Ok((without_host(hints), port).into());
    };
    match (host.to_str().map(str::parse::<IpAddr>), number) {
        (Err(_), _) => Err(NameFailure::UnknownHost),
        (Ok(Ok(ip)), _) if !hints.family.includes(ip) => Err(NameFailure::NoAddressOfFamily),
        (Ok(Ok(ip)), Some(port)) => Ok((ip, port).into()),
        _ => first(&query, resolver),
    }
}

fn first(query: &NameQuery<'_>, resolver: &Resolver<'_>) -> Result<SocketAddr, NameFailure> {
    let all = resolver(query)?;
    let mut wanted = all.iter().filter(|one| query.family.includes(one.ip()));
    wanted.next().copied().ok_or(NameFailure::NoData)
}

/// All addresses for a listener, and the loopback interface's for a connection.
fn without_host(hints: &AddrInfoHints) -> IpAddr {
    let is_passive = hints.flags.contains(AddrInfoFlags::PASSIVE);
    match (is_passive, hints.family == AddressFamily::Ipv6) {
        (true, true) => Ipv6Addr::UNSPECIFIED.into(),
        (true, false) => Ipv4Addr::UNSPECIFIED.into(),
        (false, true) => Ipv6Addr::LOCALHOST.into(),
        (false, false) => Ipv4Addr::LOCALHOST.into(),
    }
}

/// The port that a service names by its number, or `None` for a name. The C library would take numbers of any size and with a sign.
fn number_of(service: &CStr) -> Result<Option<u16>, NameFailure> {
    let text = service.to_str().map_err(|_| NameFailure::UnknownService)?;
    if text.bytes().any(|octet| octet.is_ascii_alphabetic()) {
        return Ok(None);
    }
    let is_number = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    let port = text.parse().ok().filter(|_| is_number);
    port.map(Some).ok_or(NameFailure::UnknownService)
}
