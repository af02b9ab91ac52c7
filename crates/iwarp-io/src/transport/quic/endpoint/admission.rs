//! The limits of peers that connect to a socket.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::peer_network::PeerNetwork;
use crate::transport::quic::config::{
    CONNECTIONS, CONNECTIONS_OF_ONE, HANDSHAKES, HANDSHAKES_OF_ONE,
};

/// The treatment of a peer that has sent its first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admittance {
    /// The peer is accepted.
    Admit,
    /// The peer has to prove its address first (Retry).
    Prove,
    /// The peer gets no answer.
    Ignore,
}

/// Counts the connections of peers.
///
/// Any host can send a first packet that names the address of another host. A connection therefore counts toward its address when the peer
/// has proved the address: by the token of a Retry packet, or by completing its handshake. Until then it counts toward the total only.
#[derive(Debug, Default)]
pub(super) struct Admission {
    all: Count,
    by_peer: HashMap<PeerNetwork, Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    connections: usize,
    /// The number of them that have not completed their handshake.
    handshakes: usize,
}

impl Admission {
    /// Returns the treatment of a peer of this address. `may_prove` is false if the peer has proved the address.
    pub(super) fn examine(&self, ip: IpAddr, may_prove: bool) -> Admittance {
        let one = self
            .by_peer
            .get(&PeerNetwork::from_address(ip))
            .copied()
            .unwrap_or_default();
        if self.all.handshakes >= HANDSHAKES || self.all.connections >= CONNECTIONS {
            return Admittance::Ignore;
        }
        // While less than half of the places are taken, an unproved address may be false, and is not examined.
        if self.all.handshakes < HANDSHAKES / 2 {
            return match one.connections < CONNECTIONS_OF_ONE {
                true => Admittance::Admit,
                false => Admittance::Ignore,
            };
        }
        if may_prove && !crate::planted!(AddressesUnproved) {
            return Admittance::Prove;
        }
        let room = one.connections < CONNECTIONS_OF_ONE && one.handshakes < HANDSHAKES_OF_ONE;
        match room {
            true => Admittance::Admit,
            false => Admittance::Ignore,
        }
    }

    /// A peer was accepted. `proved`: the peer has proved its address already.
    pub(super) fn begun(&mut self, ip: IpAddr, proved: bool) {
        self.all.connections += 1;
        self.all.handshakes += 1;
        if proved {
            let one = self
                .by_peer
                .entry(PeerNetwork::from_address(ip))
                .or_default();
            one.connections += 1;
            one.handshakes += 1;
        }
    }

    /// A handshake is complete, which proves the address. `proved`: the peer had proved it before. Returns false if the address
    /// has more connections than it may have.
    #[must_use]
    pub(super) fn completed(&mut self, ip: IpAddr, proved: bool) -> bool {
        self.all.handshakes -= 1;
        let one = self
            .by_peer
            .entry(PeerNetwork::from_address(ip))
            .or_default();
        if proved {
            one.handshakes -= 1;
        } else {
            one.connections += 1;
        }
        one.connections <= CONNECTIONS_OF_ONE
    }

    /// A handshake has failed.
    pub(super) fn failed(&mut self, ip: IpAddr, proved: bool) {
        self.all.handshakes -= 1;
        if proved && let Some(one) = self.by_peer.get_mut(&PeerNetwork::from_address(ip)) {
            one.handshakes -= 1;
        }
    }

    /// A connection whose handshake was complete is forgotten. `proved`: the peer had proved its address.
    pub(super) fn gone(&mut self, ip: IpAddr, proved: bool) {
        self.all.connections -= 1;
        let ip = PeerNetwork::from_address(ip);
        if proved && let Some(one) = self.by_peer.get_mut(&ip) {
            one.connections -= 1;
            if one.connections == 0 {
                self.by_peer.remove(&ip);
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
        // Connections of each address: one with a token whose handshake fails, one with and one without a token that are
        // completed, and one without a token whose handshake fails.
        let each = [(true, false), (true, true), (false, true), (false, false)];
        for last in 0..200 {
            for (token, _) in each {
                admission.begun(address(last), token);
            }
        }
        for last in 0..200 {
            for (token, completes) in each {
                if completes {
                    assert!(admission.completed(address(last), token));
                } else {
                    admission.failed(address(last), token);
                }
            }
        }
        assert_eq!(
            (admission.all.connections, admission.handshakes()),
            (800, 0)
        );
        for last in 0..200 {
            for (token, completes) in each {
                admission.gone(address(last), token || completes);
            }
        }
        assert!(admission.by_peer.is_empty());
        assert_eq!((admission.all.connections, admission.handshakes()), (0, 0));
    }

    #[test]
    fn half_of_the_places_are_for_proved_addresses_and_no_address_has_all_of_them() {
        let mut admission = Admission::default();
        for _ in 0..HANDSHAKES / 2 {
            assert_eq!(admission.examine(address(1), true), Admittance::Admit);
            admission.begun(address(1), false);
        }
        assert_eq!(admission.examine(address(2), true), Admittance::Prove);
        for _ in 0..HANDSHAKES_OF_ONE {
            assert_eq!(admission.examine(address(2), false), Admittance::Admit);
            admission.begun(address(2), true);
        }
        assert_eq!(admission.examine(address(2), false), Admittance::Ignore);
        assert_eq!(admission.examine(address(3), false), Admittance::Admit);
        // First packets that name an address take no places from a peer that proves it.
        assert_eq!(admission.examine(address(1), false), Admittance::Admit);
    }

    #[cfg(planted_bugs)]
    #[test]
    fn planted_bugs_are_found() {
        let test = half_of_the_places_are_for_proved_addresses_and_no_address_has_all_of_them;
        assert!(crate::planted::is_found_by(
            crate::planted::Bug::AddressesUnproved,
            test
        ));
    }

    #[test]
    fn an_address_has_no_more_connections_than_it_may_have() {
        let mut admission = Admission::default();
        for number in 0..CONNECTIONS_OF_ONE {
            assert_eq!(admission.examine(address(1), true), Admittance::Admit);
            admission.begun(address(1), false);
            // The last one waits for its handshake, while another one begins.
            if number + 1 < CONNECTIONS_OF_ONE {
                assert!(admission.completed(address(1), false));
            }
        }
        assert_eq!(admission.examine(address(1), true), Admittance::Admit);
        admission.begun(address(1), false);
        assert!(admission.completed(address(1), false));
        assert!(!admission.completed(address(1), false), "one too many");
        assert_eq!(admission.examine(address(1), true), Admittance::Ignore);
        assert_eq!(admission.examine(address(2), true), Admittance::Admit);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let addresses = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"];
        let [one, same, other] = addresses.map(|ip| PeerNetwork::from_address(ip.parse().unwrap()));
        assert_eq!(one, same);
        assert_ne!(one, other);
        assert_eq!(
            PeerNetwork::from_address("::ffff:192.0.2.1".parse().unwrap()),
            PeerNetwork::from_address(address(1))
        );
    }
}
