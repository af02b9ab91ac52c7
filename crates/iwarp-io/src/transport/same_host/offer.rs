//! The offer of a connection over shared memory: a packet between two processes of one machine, and the names at which listeners take them.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use iwarp_mem::ring::RingSize;

/// The first octets of every packet, and of every name: the version of the offer.
const VERSION: &[u8; 8] = b"softnd-1";

/// The secret octets by which an end of a TCP connection shows that it has the offer. The first one is 0, which begins no frame of MPA.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::transport) struct Token(pub(super) [u8; Self::LEN]);

impl Token {
    pub(super) const LEN: usize = 16;

    /// A new one.
    ///
    /// # Errors
    ///
    /// The system has no random octets.
    fn draw() -> io::Result<Self> {
        let mut octets = [0; Self::LEN];
        getrandom::fill(&mut octets[1..]).map_err(io::Error::other)?;
        Ok(Self(octets))
    }
}

/// Shows nothing: a token is a secret until it was sent.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// What a connector says to a listener. The descriptor of the memory comes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::transport) struct Offer {
    /// The address of the connector's TCP socket.
    pub(super) from: SocketAddr,
    pub(super) size: RingSize,
    /// Sent by the listener.
    pub(super) first: Token,
    /// Sent by the connector.
    pub(super) second: Token,
}

impl Offer {
    /// The number of octets of a packet.
    pub(super) const LEN: usize = VERSION.len() + 16 + 2 + 4 + 2 * Token::LEN;

    /// An offer with new tokens.
    ///
    /// # Errors
    ///
    /// The system has no random octets.
    pub(super) fn new(from: SocketAddr, size: RingSize) -> io::Result<Self> {
        Ok(Self {
            from: canonical(from),
            size,
            first: Token::draw()?,
            second: Token::draw()?,
        })
    }

    /// The packet: version, address in its IPv6 form, port, octets of a ring, both tokens; numbers with the highest octet first.
    pub(super) fn to_packet(&self) -> [u8; Self::LEN] {
        let ip = match self.from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        // A size is at most `RingSize::LIMITS`.
        let size = u32::try_from(self.size.octets()).unwrap_or(u32::MAX);
        let parts: [&[u8]; 6] = [
            VERSION,
            &ip.octets(),
            &self.from.port().to_be_bytes(),
            &size.to_be_bytes(),
            &self.first.0,
            &self.second.0,
        ];
        let mut packet = [0; Self::LEN];
        let mut rest = &mut packet[..];
        for part in parts {
            let (here, behind) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = behind;
        }
        packet
    }

    /// Reads a packet. `None` for another version, another length, another size than rings have, and tokens that do not begin with 0.
    pub(super) fn from_packet(packet: &[u8]) -> Option<Self> {
        let packet: &[u8; Self::LEN] = packet.try_into().ok()?;
        let (version, rest) = packet.split_first_chunk::<8>()?;
        let (ip, rest) = rest.split_first_chunk::<16>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let (size, rest) = rest.split_first_chunk::<4>()?;
        let (first, rest) = rest.split_first_chunk::<{ Token::LEN }>()?;
        let second: &[u8; Token::LEN] = rest.try_into().ok()?;
        let begins_right = version == VERSION && first[0] == 0 && second[0] == 0;
        let size = usize::try_from(u32::from_be_bytes(*size)).ok()?;
        let from = SocketAddr::new(Ipv6Addr::from(*ip).into(), u16::from_be_bytes(*port));
        begins_right.then_some(Self {
            from: canonical(from),
            size: RingSize::new(size)?,
            first: Token(*first),
            second: Token(*second),
        })
    }
}

/// The address without a scope, and IPv4 as such.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The name at which the listener of this address takes offers, in the abstract names of the network namespace.
pub(super) fn name_of(address: SocketAddr) -> String {
    let address = canonical(address);
    let version = String::from_utf8_lossy(VERSION);
    match address.ip() {
        ip if !ip.is_unspecified() => format!("{version}/{address}"),
        IpAddr::V4(_) => format!("{version}/4/*:{}", address.port()),
        IpAddr::V6(_) => format!("{version}/6/*:{}", address.port()),
    }
}

/// The names of listeners that a connection to this address may reach, the most particular one first.
pub(super) fn names_to(address: SocketAddr) -> [String; 2] {
    let any = match canonical(address).ip() {
        IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    [
        name_of(address),
        name_of(SocketAddr::new(any, address.port())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(from: &str) -> Offer {
        Offer::new(from.parse().unwrap(), RingSize::default()).unwrap()
    }

    #[test]
    fn a_packet_says_what_the_offer_says() {
        for from in ["127.0.0.1:4711", "[::1]:65535", "[fe80::1]:1"] {
            let offer = offer(from);
            assert_ne!(offer.first, offer.second);
            assert_eq!(
                Offer::from_packet(&offer.to_packet()),
                Some(offer),
                "{from}"
            );
        }
        let mapped = offer("[::ffff:127.0.0.1]:4711");
        assert_eq!(mapped.from, "127.0.0.1:4711".parse().unwrap());
    }

    #[test]
    fn a_packet_that_is_wrong_anywhere_is_no_offer() {
        let packet = offer("127.0.0.1:4711").to_packet();
        for cut in 0..packet.len() {
            assert_eq!(Offer::from_packet(&packet[..cut]), None, "{cut}");
        }
        assert_eq!(Offer::from_packet(&[&packet[..], b"."].concat()), None);
        // The version, the size, and the first octet of each token.
        let size = VERSION.len() + 16 + 2;
        for at in (0..VERSION.len()).chain([size, size + 1, size + 3, size + 4, size + 20]) {
            let mut wrong = packet;
            wrong[at] ^= 0x81;
            assert_eq!(Offer::from_packet(&wrong), None, "{at}");
        }
    }

    #[test]
    fn a_listener_has_the_name_that_connectors_look_for() {
        let names = |address: &str| names_to(address.parse().unwrap());
        assert_eq!(
            names("[::ffff:10.0.0.1]:80"),
            ["softnd-1/10.0.0.1:80", "softnd-1/4/*:80"]
        );
        assert_eq!(names("[::1]:80"), ["softnd-1/[::1]:80", "softnd-1/6/*:80"]);
        assert_eq!(name_of("0.0.0.0:80".parse().unwrap()), "softnd-1/4/*:80");
        assert_eq!(name_of("[::]:80".parse().unwrap()), "softnd-1/6/*:80");
    }
}
