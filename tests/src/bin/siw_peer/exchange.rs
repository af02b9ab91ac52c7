//! The messages of rping's two programs.
//!
//! The client describes its source buffer in a Send. The server Reads the buffer and answers with a Send whose content
//! means nothing. The client describes its sink. The server Writes there what it has read, and answers again. All Sends
//! have 16 octets, and numbers are in network order. There is no private data, and the client disconnects when it has
//! finished.

use netdirect::{RemoteAddress, RemoteToken};

/// The amount of data to move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Octets per ping and direction.
    pub(crate) size: u32,
    /// Pings.
    pub(crate) count: u32,
}

/// The length of each Send.
pub(crate) const MESSAGE: usize = 16;

/// A buffer as its owner describes it to the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advert {
    pub(crate) at: RemoteAddress,
    pub(crate) size: u32,
}

impl Advert {
    pub(crate) fn encode(self) -> [u8; MESSAGE] {
        let mut octets = [0; MESSAGE];
        octets[..8].copy_from_slice(&self.at.address.to_be_bytes());
        octets[8..12].copy_from_slice(&self.at.token.to_host().to_be_bytes());
        octets[12..].copy_from_slice(&self.size.to_be_bytes());
        octets
    }

    pub(crate) fn decode(octets: [u8; MESSAGE]) -> Self {
        let number = u128::from_be_bytes(octets);
        // The fields are adjacent: each cast takes the low end of the rest.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "three fields of one number"
        )]
        let (address, key, size) = ((number >> 64) as u64, (number >> 32) as u32, number as u32);
        Self {
            at: RemoteAddress {
                address,
                token: RemoteToken::from_host(key),
            },
            size,
        }
    }
}

/// The data of a ping: a title, then the characters from `A` to `z` over and over, beginning one further with each ping,
/// and a zero at the end.
pub(crate) fn pattern(ping: u32, size: u32) -> Vec<u8> {
    let mut data = format!("rdma-ping-{ping}: ").into_bytes();
    let characters = (b'A'..=b'z').cycle().skip(ping as usize % 58);
    data.extend(characters.take((size as usize).saturating_sub(data.len())));
    data.truncate(size as usize);
    if let Some(last) = data.last_mut() {
        *last = 0;
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advert_is_three_numbers_in_network_order() {
        let advert = Advert {
            at: RemoteAddress {
                address: 0x0102_0304_0506_0708,
                token: RemoteToken::from_host(0x090a_0b0c),
            },
            size: 0x0d0e_0f10,
        };
        let octets = advert.encode();
        assert_eq!(octets.as_slice(), (1..=16).collect::<Vec<u8>>());
        let back = Advert::decode(octets);
        assert_eq!((back.at, back.size), (advert.at, advert.size));
    }

    #[test]
    fn a_pattern_turns_with_the_ping() {
        assert_eq!(pattern(0, 20), b"rdma-ping-0: ABCDEF\0");
        assert_eq!(pattern(3, 20), b"rdma-ping-3: DEFGHI\0");
        assert_eq!(pattern(58, 20), b"rdma-ping-58: ABCDE\0");
        let long = pattern(0, 80);
        assert_eq!(&long[13 + 56..13 + 60], b"yzAB");
    }
}
