//! Who may connect to a socket, and how many at once.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use crate::transport::quic::config::{
    CONNECTIONS, CONNECTIONS_OF_ONE, HANDSHAKES, HANDSHAKES_OF_ONE,
};

/// What happens to a peer that has sent its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admittance {
    /// It is let in.
    Admit,
    /// It has to prove its address first (Retry).
    Prove,
    /// It gets no answer.
    Ignore,
}

/// Counts the connections of peers.
#[derive(Debug, Default)]
pub(super) struct Admission {
    all: Count,
    of: HashMap<IpAddr, Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    connections: usize,
    /// How many of them have not completed their handshake.
    handshakes: usize,
}

/// What counts as one peer: an address of IPv4, or a network of IPv6.
fn place(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        ip => ip,
    }
}

impl Admission {
    /// What happens to a peer of this address. `may_prove` is false if the peer has proved the address.
    pub(super) fn examine(&self, ip: IpAddr, may_prove: bool) -> Admittance {
        let one = self.of.get(&place(ip)).copied().unwrap_or_default();
        if self.all.handshakes >= HANDSHAKES || self.all.connections >= CONNECTIONS {
            return Admittance::Ignore;
        }
        // Before half of the places are taken, an address may be false, and says nothing.
        if self.all.handshakes < HANDSHAKES / 2 {
            return match one.connections < CONNECTIONS_OF_ONE {
                true => Admittance::Admit,
                false => Admittance::Ignore,
            };
        }
        if may_prove {
            return Admittance::Prove;
        }
        let room = one.connections < CONNECTIONS_OF_ONE && one.handshakes < HANDSHAKES_OF_ONE;
        match room {
            true => Admittance::Admit,
            false => Admittance::Ignore,
        }
    }

    /// A peer was let in.
    pub(super) fn begun(&mut self, ip: IpAddr) {
        for count in [&mut self.all, self.of.entry(place(ip)).or_default()] {
            count.connections += 1;
            count.handshakes += 1;
        }
    }

    /// A handshake has come to its end, one way or the other.
    pub(super) fn shaken(&mut self, ip: IpAddr) {
        self.all.handshakes -= 1;
        if let Some(one) = self.of.get_mut(&place(ip)) {
            one.handshakes -= 1;
        }
    }

    /// A connection whose handshake had come to its end is forgotten.
    pub(super) fn gone(&mut self, ip: IpAddr) {
        let ip = place(ip);
        self.all.connections -= 1;
        if let Some(one) = self.of.get_mut(&ip) {
            one.connections -= 1;
            if one.connections == 0 {
                self.of.remove(&ip);
            }
        }
    }

    /// Connections whose handshake is not complete.
    #[cfg(test)]
    pub(super) fn handshakes(&self) -> usize {
        self.all.handshakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn a_count_that_comes_back_to_nothing_is_not_kept() {
        let mut admission = Admission::default();
        for last in 0..200 {
            admission.begun(address(last));
            admission.begun(address(last));
        }
        for last in 0..200 {
            for _ in 0..2 {
                admission.shaken(address(last));
                admission.gone(address(last));
            }
        }
        assert!(admission.of.is_empty());
        assert_eq!((admission.all.connections, admission.handshakes()), (0, 0));
    }

    #[test]
    fn half_of_the_places_are_for_proved_addresses_and_no_address_has_all_of_them() {
        let mut admission = Admission::default();
        for _ in 0..HANDSHAKES / 2 {
            assert_eq!(admission.examine(address(1), true), Admittance::Admit);
            admission.begun(address(1));
        }
        assert_eq!(admission.examine(address(2), true), Admittance::Prove);
        assert_eq!(admission.examine(address(1), false), Admittance::Ignore);
        for _ in 0..HANDSHAKES_OF_ONE {
            assert_eq!(admission.examine(address(2), false), Admittance::Admit);
            admission.begun(address(2));
        }
        assert_eq!(admission.examine(address(2), false), Admittance::Ignore);
        assert_eq!(admission.examine(address(3), false), Admittance::Admit);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let addresses = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"];
        let [one, same, other] = addresses.map(|ip| place(ip.parse().unwrap()));
        assert_eq!(one, same);
        assert_ne!(one, other);
        assert_eq!(place("::ffff:192.0.2.1".parse().unwrap()), address(1));
    }
}
