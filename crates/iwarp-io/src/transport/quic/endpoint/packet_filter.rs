//! Packets that any host can forge.

use bytes::Buf;
use quinn_proto::VarInt;
use quinn_proto::coding::Codec;

/// The packets of a datagram before its first Retry packet (RFC 9000 section 17.2.5).
///
/// Only servers send Retry packets. quinn-proto ends the handshake of a client when such a packet comes to the server, although any host
/// can forge it, and one flipped bit of a Handshake packet makes one.
pub(super) fn before_retry(datagram: &[u8]) -> &[u8] {
    let mut rest = datagram;
    while is_long(rest) {
        if is_retry(rest) {
            return &datagram[..datagram.len() - rest.len()];
        }
        let Some(next) = behind_first(rest) else {
            break;
        };
        rest = next;
    }
    datagram
}

fn is_long(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & 0x80 != 0)
}

fn is_retry(packet: &[u8]) -> bool {
    packet[0] & 0x30 == 0x30
}

/// The octets behind the first packet, which has a long header (RFC 9000 section 17.2).
fn behind_first(datagram: &[u8]) -> Option<&[u8]> {
    let is_initial = datagram[0] & 0x30 == 0;
    let mut rest = datagram.get(5..)?;
    for _connection_id in 0..2 {
        let (len, ids) = rest.split_first()?;
        rest = ids.get(usize::from(*len)..)?;
    }
    if is_initial {
        let token = VarInt::decode(&mut rest).ok()?;
        rest = rest.get(usize::try_from(token.into_inner()).ok()?..)?;
    }
    let len = VarInt::decode(&mut rest).ok()?;
    let len = usize::try_from(len.into_inner()).ok()?;
    if len > rest.remaining() {
        return None;
    }
    rest.get(len..)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: u8 = 0xC0;
    const HANDSHAKE: u8 = 0xE0;
    const RETRY: u8 = 0xF0;

    /// A packet with a long header and `len` octets behind it.
    fn packet(first: u8, token: &[u8], len: u8) -> Vec<u8> {
        let mut packet = vec![first, 0, 0, 0, 1, 3, 1, 2, 3, 2, 4, 5];
        if first == INITIAL {
            packet.push(u8::try_from(token.len()).unwrap());
            packet.extend(token);
        }
        packet.push(len);
        packet.extend((0..len).map(|_| RETRY));
        packet
    }

    #[test]
    fn a_datagram_ends_before_a_retry_packet() {
        let initial = packet(INITIAL, &[RETRY; 9], 40);
        let handshake = packet(HANDSHAKE, &[], 7);
        let retry = packet(RETRY, &[], 0);
        let short = vec![0x40, 1, 2, 3];
        assert_eq!(before_retry(&retry), []);
        for kept in [
            vec![],
            initial.clone(),
            [initial.clone(), handshake.clone()].concat(),
            [handshake.clone(), handshake.clone(), initial.clone()].concat(),
        ] {
            assert_eq!(before_retry(&kept), kept);
            assert_eq!(before_retry(&[&kept[..], &retry].concat()), kept);
            let behind = [&kept[..], &retry, &initial, &retry].concat();
            assert_eq!(before_retry(&behind), kept);
            // Behind a short header everything belongs to its packet.
            let ended = [&kept[..], &short, &retry].concat();
            assert_eq!(before_retry(&ended), ended);
        }
    }

    #[test]
    fn what_is_cut_anywhere_stays_as_it_is() {
        let datagram = [
            packet(INITIAL, &[7; 5], 20),
            packet(HANDSHAKE, &[], 20),
            packet(INITIAL, &[], 0),
        ]
        .concat();
        for len in 0..=datagram.len() {
            assert_eq!(before_retry(&datagram[..len]), &datagram[..len]);
        }
        let longest = [&[INITIAL, 0, 0, 0, 1, 0, 0][..], &[0xFF; 30]].concat();
        assert_eq!(before_retry(&longest), longest);
    }
}
