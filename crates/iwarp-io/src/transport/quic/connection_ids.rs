//! The IDs by which packets name the QUIC connections of a socket.

use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

use crate::environment::Environment;

/// Octets of an ID.
const LEN: usize = 8;
/// The octets that tell two IDs apart. Three, as those of quinn-proto have, are too few: among thousands of handshakes some take the ID of
/// a connection that there is, and do not complete.
const NUMBER: usize = 6;

/// Makes IDs of random numbers. A packet with an ID that was not made here is dropped without an answer, as far as the octets behind the
/// number tell; who has seen an ID could make others.
#[derive(Debug)]
pub(super) struct ConnectionIds {
    /// In a simulated network the numbers follow from a seed.
    seed: Option<u64>,
    secret: u64,
    made: u64,
}

impl ConnectionIds {
    pub(super) fn new(seed: Option<[u8; 32]>) -> Self {
        let seed = seed.map(|seed| {
            let words = seed.chunks_exact(8).map(word);
            words.fold(0, |all, word| mixed(all ^ word))
        });
        let mut this = Self {
            seed,
            secret: 0,
            made: 0,
        };
        this.secret = this.random();
        this
    }

    /// Where the system has no random numbers, nothing of QUIC works; IDs are then not the same at least.
    fn random(&mut self) -> u64 {
        self.made += 1;
        match self.seed {
            Some(seed) => mixed(seed ^ mixed(self.made)),
            None => Environment::System.random().unwrap_or(self.made),
        }
    }

    fn signature(&self, number: &[u8]) -> [u8; LEN - NUMBER] {
        let mixed = mixed(word(number) ^ self.secret).to_be_bytes();
        [mixed[0], mixed[1]]
    }
}

/// At most eight octets.
fn word(octets: &[u8]) -> u64 {
    octets
        .iter()
        .fold(0, |word, octet| word << 8 | u64::from(*octet))
}

/// Mixes bits as the generator SplitMix64 does.
fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut octets = self.random().to_be_bytes();
        let signature = self.signature(&octets[..NUMBER]);
        octets[NUMBER..].copy_from_slice(&signature);
        ConnectionId::new(&octets)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match id.split_at_checked(NUMBER) {
            Some((number, signature)) if signature == self.signature(number) => Ok(()),
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_ids_are_the_same_and_each_is_recognized() {
        let mut ids = ConnectionIds::new(None);
        let mut seen = HashSet::new();
        for _ in 0..20_000 {
            let id = ids.generate_cid();
            assert_eq!(id.len(), ids.cid_len());
            assert!(ids.validate(&id).is_ok());
            assert!(seen.insert(id[..NUMBER].to_vec()), "{id}");
        }
    }

    #[test]
    fn in_a_simulated_network_the_ids_follow_from_a_seed() {
        let ids = |seed| {
            let mut ids = ConnectionIds::new(Some([seed; 32]));
            [(); 3].map(|()| ids.generate_cid())
        };
        assert_eq!(ids(1), ids(1));
        assert_ne!(ids(1), ids(2));
    }

    #[test]
    fn ids_of_others_are_refused() {
        let (mut here, there) = (ConnectionIds::new(None), ConnectionIds::new(None));
        let ids: Vec<_> = (0..1000).map(|_| here.generate_cid()).collect();
        let taken = ids.iter().filter(|id| there.validate(id).is_ok());
        // A signature of two octets is right by chance once in 65,536 times.
        assert!(taken.count() < 10);
        for len in [0, 1, NUMBER, LEN - 1, LEN + 1] {
            let mut octets = ids[0].to_vec();
            octets.resize(len, 0);
            assert!(here.validate(&ConnectionId::new(&octets)).is_err(), "{len}");
        }
    }
}
