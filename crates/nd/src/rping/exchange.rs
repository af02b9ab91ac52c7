//! The messages of rping.
//!
//! For each ping the client describes the buffer with its data in a Send. The server Reads the buffer and answers with a
//! Send whose content means nothing. The client describes its sink. The server Writes there what it has read, and answers
//! again. All Sends have 16 octets, and numbers are in network order. There is no private data. The client disconnects when
//! it has finished. Source: the manual page of rping in rdma-core, and captures of rping 44.0.

use netdirect::RemoteAddress;

use crate::errors::Failure;

/// The length of each Send.
pub(super) const MESSAGE: usize = 16;

/// rping has one outstanding Read in each direction.
pub(super) const READS: u32 = 1;

/// The default port of rping.
pub(super) const PORT: u16 = 7174;

/// The default number of octets per ping.
pub(super) const SIZE: u32 = 64;

/// A buffer as its owner describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advert {
    pub(super) at: RemoteAddress,
    pub(super) size: u32,
}

impl Advert {
    pub(super) fn encode(self) -> [u8; MESSAGE] {
        let mut octets = [0; MESSAGE];
        octets[..12].copy_from_slice(&self.at.to_bytes());
        octets[12..].copy_from_slice(&self.size.to_be_bytes());
        octets
    }

    /// Reads the description. Only messages of one length are accepted.
    pub(super) fn decode(message: &[u8]) -> Result<Self, Failure> {
        let octets: &[u8; MESSAGE] = message.try_into().map_err(|_| not_understood(message))?;
        let [at @ .., a, b, c, d] = octets;
        Ok(Self {
            at: RemoteAddress::from_bytes(*at),
            size: u32::from_be_bytes([*a, *b, *c, *d]),
        })
    }
}

/// Checks an answer. Only its length means something.
pub(super) fn check_answer(message: &[u8]) -> Result<(), Failure> {
    match message.len() {
        MESSAGE => Ok(()),
        _ => Err(not_understood(message)),
    }
}

fn not_understood(message: &[u8]) -> Failure {
    Failure::new(
        format!(
            "the other side sent {} octets where rping sends {MESSAGE}",
            message.len()
        ),
        "check that rping or `nd rping` runs there",
    )
}

/// The data of a ping: a title, then the characters from `A` to `z` over and over, beginning one further with each
/// ping, and a zero at the end.
pub(super) fn pattern(ping: u64, size: u32) -> Vec<u8> {
    /// Characters from `A` to `z`.
    const CHARACTERS: u64 = 58;
    let mut data = format!("rdma-ping-{ping}: ").into_bytes();
    let turn = usize::try_from(ping % CHARACTERS).unwrap_or_default();
    let characters = (b'A'..=b'z').cycle().skip(turn);
    data.extend(characters.take((size as usize).saturating_sub(data.len())));
    data.truncate(size as usize);
    if let Some(last) = data.last_mut() {
        *last = 0;
    }
    data
}

/// The text in a ping's data, up to its zero.
pub(super) fn text(data: &[u8]) -> String {
    let end = data.iter().position(|octet| *octet == 0);
    String::from_utf8_lossy(&data[..end.unwrap_or(data.len())]).into_owned()
}

#[cfg(test)]
mod tests {
    use netdirect::RemoteToken;

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
        assert_eq!(Advert::decode(&octets).expect("16 octets"), advert);
    }

    #[test]
    fn other_lengths_are_refused_by_name() {
        for length in [0, 8, 15, 17, 56] {
            let message = vec![0; length];
            let failure = Advert::decode(&message).expect_err("no advert").to_string();
            assert!(failure.contains(&format!("{length} octets")), "{failure}");
            assert!(check_answer(&message).is_err());
        }
    }

    #[test]
    fn a_pattern_turns_with_the_ping() {
        assert_eq!(pattern(0, 20), b"rdma-ping-0: ABCDEF\0");
        assert_eq!(pattern(3, 20), b"rdma-ping-3: DEFGHI\0");
        assert_eq!(pattern(58, 20), b"rdma-ping-58: ABCDE\0");
        assert_eq!(pattern(7, 5), b"rdma\0");
        assert_eq!(text(&pattern(0, 20)), "rdma-ping-0: ABCDEF");
    }
}
