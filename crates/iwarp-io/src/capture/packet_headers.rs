//! Ethernet, IP and TCP headers around a payload (RFC 791, 8200, 9293), checksums included.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::sent_by::SentBy;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86DD;
const PROTOCOL_TCP: u8 = 6;
const HOP_LIMIT: u8 = 64;
const IPV4_HEADER: u16 = 20;
const IPV6_HEADER: u16 = 40;
const TCP_HEADER: u16 = 20;
const DONT_FRAGMENT: u16 = 0x4000;
/// The window that every segment announces. With `WINDOW_SCALE` it is 8 MiB, far more than a flow leaves unacknowledged.
const WINDOW: u16 = 0xFFFF;
const WINDOW_SCALE: u8 = 7;
/// Maximum segment size, four octets; no-operation; window scale, three octets (RFC 9293 §3.2, RFC 7323 §2.2).
const SYN_OPTIONS: u16 = 8;

/// TCP control bits of the segments that are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    pub(super) const SYN: Self = Self(0x02);
    pub(super) const SYN_ACK: Self = Self(0x12);
    pub(super) const ACK: Self = Self(0x10);
    pub(super) const PSH_ACK: Self = Self(0x18);
    /// FIN and ACK.
    pub(super) const FIN: Self = Self(0x11);
    /// RST and ACK.
    pub(super) const RST: Self = Self(0x14);

    const fn is_syn(self) -> bool {
        self.0 & 0x02 != 0
    }

    /// The number of sequence numbers that the bits take: one each for SYN and FIN (RFC 9293 §3.4).
    pub(super) const fn length(self) -> u32 {
        (self.0 & 0x03 != 0) as u32
    }
}

/// The fields that change from segment to segment.
pub(super) struct Header {
    pub(super) side: SentBy,
    pub(super) flags: Flags,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) identification: u16,
}

#[derive(Clone, Copy, Debug)]
enum Pair {
    V4 { local: Ipv4Addr, peer: Ipv4Addr },
    V6 { local: Ipv6Addr, peer: Ipv6Addr },
}

/// The two addresses of a flow, of one family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pair: Pair,
    local_port: u16,
    peer_port: u16,
}

impl Ends {
    pub(super) fn new(local: SocketAddr, peer: SocketAddr) -> Self {
        // A dual-stack socket shows IPv4 as IPv6; on the wire it is IPv4.
        let pair = match (local.ip().to_canonical(), peer.ip().to_canonical()) {
            (IpAddr::V4(local), IpAddr::V4(peer)) => Pair::V4 { local, peer },
            (local, peer) => Pair::V6 {
                local: as_v6(local),
                peer: as_v6(peer),
            },
        };
        Self {
            pair,
            local_port: local.port(),
            peer_port: peer.port(),
        }
    }

    const fn ip_header(&self) -> u16 {
        match self.pair {
            Pair::V4 { .. } => IPV4_HEADER,
            Pair::V6 { .. } => IPV6_HEADER,
        }
    }

    /// The maximum segment size: the whole packet is at most 65,535 octets, for both families.
    const fn segment_size(&self) -> u16 {
        u16::MAX - self.ip_header() - TCP_HEADER
    }

    pub(super) const fn max_payload(&self) -> usize {
        self.segment_size() as usize
    }
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Appends one frame to `out`. `payload` is at most [`Ends::max_payload`] octets.
pub(super) fn write(out: &mut Vec<u8>, ends: &Ends, header: &Header, payload: &[u8]) {
    let options = if header.flags.is_syn() {
        SYN_OPTIONS
    } else {
        0
    };
    let payload_length = u16::try_from(payload.len()).expect("the flow cuts at max_payload");
    let segment = TCP_HEADER + options + payload_length;
    match (ends.pair, header.side) {
        (Pair::V4 { local, peer }, SentBy::Local) => {
            ipv4(out, local, peer, header.identification, segment)
        }
        (Pair::V4 { local, peer }, SentBy::Peer) => {
            ipv4(out, peer, local, header.identification, segment)
        }
        (Pair::V6 { local, peer }, SentBy::Local) => ipv6(out, local, peer, segment),
        (Pair::V6 { local, peer }, SentBy::Peer) => ipv6(out, peer, local, segment),
    }
    tcp(out, ends, header, payload);
}

fn ipv4(out: &mut Vec<u8>, source: Ipv4Addr, target: Ipv4Addr, identification: u16, segment: u16) {
    ethernet(out, &source.octets(), &target.octets(), ETHERTYPE_IPV4);
    let start = out.len();
    out.extend_from_slice(&[0x45, 0]);
    put_u16(out, IPV4_HEADER + segment);
    put_u16(out, identification);
    put_u16(out, DONT_FRAGMENT);
    out.extend_from_slice(&[HOP_LIMIT, PROTOCOL_TCP, 0, 0]);
    out.extend_from_slice(&source.octets());
    out.extend_from_slice(&target.octets());
    let mut sum = Checksum::default();
    sum.add(&out[start..]);
    out[start + 10..start + 12].copy_from_slice(&sum.finish());
}

fn ipv6(out: &mut Vec<u8>, source: Ipv6Addr, target: Ipv6Addr, segment: u16) {
    ethernet(out, &source.octets(), &target.octets(), ETHERTYPE_IPV6);
    out.extend_from_slice(&[0x60, 0, 0, 0]);
    put_u16(out, segment);
    out.extend_from_slice(&[PROTOCOL_TCP, HOP_LIMIT]);
    out.extend_from_slice(&source.octets());
    out.extend_from_slice(&target.octets());
}

fn ethernet(out: &mut Vec<u8>, source: &[u8], target: &[u8], ethertype: u16) {
    out.extend_from_slice(&station(target));
    out.extend_from_slice(&station(source));
    put_u16(out, ethertype);
}

/// A MAC address for an IP address: a locally administered one, whose last four octets differ between hosts.
fn station(ip: &[u8]) -> [u8; 6] {
    let mut mac = [0x02, 0x6E, 0, 0, 0, 0]; // 0x6E: "n"
    for (at, octet) in ip.iter().enumerate() {
        mac[2 + at % 4] ^= octet;
    }
    mac
}

fn tcp(out: &mut Vec<u8>, ends: &Ends, header: &Header, payload: &[u8]) {
    let start = out.len();
    let (source, target) = match header.side {
        SentBy::Local => (ends.local_port, ends.peer_port),
        SentBy::Peer => (ends.peer_port, ends.local_port),
    };
    let options = if header.flags.is_syn() {
        SYN_OPTIONS
    } else {
        0
    };
    put_u16(out, source);
    put_u16(out, target);
    out.extend_from_slice(&header.sequence.to_be_bytes());
    out.extend_from_slice(&header.acknowledgement.to_be_bytes());
    let words = (TCP_HEADER + options) / 4;
    put_u16(out, words << 12 | u16::from(header.flags.0));
    put_u16(out, WINDOW);
    out.extend_from_slice(&[0; 4]); // checksum, urgent pointer
    if options != 0 {
        out.extend_from_slice(&[2, 4]);
        put_u16(out, ends.segment_size());
        out.extend_from_slice(&[1, 3, 3, WINDOW_SCALE]);
    }
    let mut sum = ends.pseudo_header(out.len() - start + payload.len());
    sum.add(&out[start..]);
    sum.add(payload);
    out[start + 16..start + 18].copy_from_slice(&sum.finish());
    out.extend_from_slice(payload);
}

impl Ends {
    /// RFC 9293 §3.1; the sum does not depend on which address is the source.
    fn pseudo_header(&self, segment: usize) -> Checksum {
        let mut sum = Checksum::default();
        match self.pair {
            Pair::V4 { local, peer } => {
                sum.add(&local.octets());
                sum.add(&peer.octets());
            }
            Pair::V6 { local, peer } => {
                sum.add(&local.octets());
                sum.add(&peer.octets());
            }
        }
        sum.add(&[0, PROTOCOL_TCP]);
        sum.add(
            &u16::try_from(segment)
                .expect("the flow cuts at max_payload")
                .to_be_bytes(),
        );
        sum
    }
}

/// The Internet checksum, RFC 1071. All pieces but the last must be of even length.
#[derive(Default)]
struct Checksum(u64);

impl Checksum {
    fn add(&mut self, octets: &[u8]) {
        // 32 bits at a time: 2^16 is 1 in ones' complement of 16 bits, so the halves may be folded later.
        let (words, rest) = octets.as_chunks::<4>();
        self.0 += words
            .iter()
            .map(|word| u64::from(u32::from_be_bytes(*word)))
            .sum::<u64>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        self.0 += u64::from(u32::from_be_bytes(last));
    }

    fn finish(self) -> [u8; 2] {
        let mut sum = self.0;
        while sum > 0xFFFF {
            sum = (sum >> 16) + (sum & 0xFFFF);
        }
        let [.., high, low] = sum.to_be_bytes();
        [!high, !low]
    }
}

fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}
