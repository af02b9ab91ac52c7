//! The frames in received packets that quinn-proto may keep octets of: quinn-proto does not say which octets it has received.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use quinn_proto::{StreamId, VarInt};

/// The most frames for which the memory of a list is kept.
const KEPT: usize = 4096;

/// The part of a connection that octets belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Stream(StreamId),
    Crypto(EncryptionLevel),
}

/// The encryption of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EncryptionLevel {
    Handshake,
    Data,
}

impl EncryptionLevel {
    pub(super) const COUNT: usize = 2;
}

/// A frame that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceivedFrame {
    Octets { part: Part, start: u64, end: u64 },
    Reset(StreamId),
}

/// The frames that have arrived on one connection.
#[derive(Debug, Default)]
pub(super) struct ReceivedFrames {
    list: Mutex<Vec<ReceivedFrame>>,
    /// The list may have frames. Most packets without octets of streams do not touch the list.
    any: AtomicBool,
}

impl ReceivedFrames {
    /// Adds the frames of a packet.
    pub(super) fn add(&self, level: EncryptionLevel, packet: &[u8]) {
        let mut list = None;
        // quinn-proto ends the connection at a frame that cannot be read.
        let _ = read(level, packet, |frame, _| {
            list.get_or_insert_with(|| self.list.lock()).push(frame);
        });
        if list.is_some() {
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Takes the frames, in exchange for an empty list. Called by the thread that has decrypted the packets, or after it.
    pub(super) fn take(&self, list: &mut Vec<ReceivedFrame>) {
        list.clear();
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        self.any.store(false, Ordering::Relaxed);
        if list.capacity() > KEPT {
            list.shrink_to(KEPT);
        }
        std::mem::swap(&mut *self.list.lock(), list);
    }
}

/// Calls `found` with the frames of a packet (RFC 9000 §19, and those of the extensions that quinn-proto knows) and their places. `None` if
/// a frame cannot be read.
pub(super) fn read(
    level: EncryptionLevel,
    packet: &[u8],
    mut found: impl FnMut(ReceivedFrame, Range<usize>),
) -> Option<()> {
    let mut rest = Octets(packet);
    while !rest.0.is_empty() {
        let at = packet.len() - rest.0.len();
        let place = |rest: &Octets<'_>| at..packet.len() - rest.0.len();
        match rest.number()? {
            // PADDING
            0x00 => rest.skip_zeros(),
            // PING, HANDSHAKE_DONE, IMMEDIATE_ACK
            0x01 | 0x1e | 0x1f => {}
            // ACK
            kind @ (0x02 | 0x03) => {
                rest.skip_numbers(2)?;
                let ranges = rest.number()?;
                rest.number()?;
                for _ in 0..ranges {
                    rest.skip_numbers(2)?;
                }
                if kind == 0x03 {
                    rest.skip_numbers(3)?;
                }
            }
            // RESET_STREAM
            0x04 => {
                let stream = rest.stream()?;
                rest.skip_numbers(2)?;
                found(ReceivedFrame::Reset(stream), place(&rest));
            }
            // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED
            0x05 | 0x11 | 0x15 => rest.skip_numbers(2)?,
            // CRYPTO
            0x06 => {
                let (start, len) = (rest.number()?, rest.number()?);
                rest.skip(len)?;
                let (part, end) = (Part::Crypto(level), start.checked_add(len)?);
                found(ReceivedFrame::Octets { part, start, end }, place(&rest));
            }
            // NEW_TOKEN, DATAGRAM with a length
            0x07 | 0x31 => {
                let len = rest.number()?;
                rest.skip(len)?;
            }
            // STREAM
            kind @ 0x08..=0x0f => {
                let part = Part::Stream(rest.stream()?);
                let start = if kind & 4 == 0 { 0 } else { rest.number()? };
                let len = match kind & 2 {
                    0 => rest.0.len() as u64,
                    _ => rest.number()?,
                };
                rest.skip(len)?;
                let end = start.checked_add(len)?;
                found(ReceivedFrame::Octets { part, start, end }, place(&rest));
            }
            // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID
            0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => rest.skip_numbers(1)?,
            // NEW_CONNECTION_ID
            0x18 => {
                rest.skip_numbers(2)?;
                let len = rest.octet()?;
                // The token of a stateless reset is behind the connection ID.
                rest.skip(u64::from(len) + 16)?;
            }
            // PATH_CHALLENGE, PATH_RESPONSE
            0x1a | 0x1b => rest.skip(8)?,
            // CONNECTION_CLOSE
            kind @ (0x1c | 0x1d) => {
                rest.skip_numbers(if kind == 0x1c { 2 } else { 1 })?;
                let len = rest.number()?;
                rest.skip(len)?;
            }
            // DATAGRAM to the end of the packet
            0x30 => return Some(()),
            // ACK_FREQUENCY
            0xaf => rest.skip_numbers(4)?,
            _ => return None,
        }
    }
    Some(())
}

/// The octets of a packet that have not been read.
struct Octets<'a>(&'a [u8]);

impl Octets<'_> {
    fn octet(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number of variable length (RFC 9000 §16).
    fn number(&mut self) -> Option<u64> {
        let first = self.octet()?;
        let mut number = u64::from(first & 0x3f);
        for _ in 1..1 << (first >> 6) {
            number = number << 8 | u64::from(self.octet()?);
        }
        Some(number)
    }

    fn stream(&mut self) -> Option<StreamId> {
        VarInt::from_u64(self.number()?).ok().map(StreamId::from)
    }

    fn skip_numbers(&mut self, count: usize) -> Option<()> {
        for _ in 0..count {
            self.number()?;
        }
        Some(())
    }

    fn skip(&mut self, len: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(len).ok()?..)?;
        Some(())
    }

    fn skip_zeros(&mut self) {
        let zeros = self.0.iter().take_while(|octet| **octet == 0).count();
        self.0 = &self.0[zeros..];
    }
}

#[cfg(test)]
mod tests {
    use quinn_proto::{Dir, Side};

    use super::*;

    fn frames(packet: &[u8]) -> (Vec<ReceivedFrame>, bool) {
        let mut found = Vec::new();
        let whole = read(EncryptionLevel::Data, packet, |frame, _| found.push(frame)).is_some();
        (found, whole)
    }

    fn stream(number: u64) -> Part {
        Part::Stream(StreamId::new(Side::Client, Dir::Bi, number))
    }

    fn octets(part: Part, start: u64, end: u64) -> ReceivedFrame {
        ReceivedFrame::Octets { part, start, end }
    }

    #[test]
    fn frames_with_octets_are_found_behind_all_others() {
        let others: [&[u8]; 22] = [
            // PADDING, PING
            &[0, 0, 0],
            &[1],
            // ACK with two ranges, and with counts of ECN
            &[2, 0x40, 90, 5, 1, 3, 2, 4],
            &[3, 9, 5, 0, 3, 1, 2, 3],
            // STOP_SENDING
            &[5, 0, 0x41, 0],
            // NEW_TOKEN
            &[7, 2, 9, 9],
            // MAX_DATA, MAX_STREAM_DATA, MAX_STREAMS
            &[0x10, 0x80, 1, 0, 0],
            &[0x11, 4, 0x80, 1, 0, 0],
            &[0x12, 9],
            &[0x13, 9],
            // DATA_BLOCKED, STREAM_DATA_BLOCKED, STREAMS_BLOCKED
            &[0x14, 9],
            &[0x15, 4, 9],
            &[0x16, 9],
            &[0x17, 9],
            // NEW_CONNECTION_ID, RETIRE_CONNECTION_ID
            &[
                0x18, 2, 1, 4, 9, 9, 9, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
            ],
            &[0x19, 1],
            // PATH_CHALLENGE, PATH_RESPONSE
            &[0x1a, 8, 8, 8, 8, 8, 8, 8, 8],
            &[0x1b, 8, 8, 8, 8, 8, 8, 8, 8],
            // HANDSHAKE_DONE, IMMEDIATE_ACK
            &[0x1e],
            &[0x1f],
            // DATAGRAM
            &[0x31, 2, 8, 8],
            // ACK_FREQUENCY
            &[0x40, 0xaf, 1, 2, 0x40, 100, 1],
        ];
        for other in others {
            // STREAM with an offset and a length
            let packet = [other, &[0x0e, 4, 0x40, 0x64, 3, 8, 8, 8]].concat();
            let expected = (vec![octets(stream(1), 100, 103)], true);
            assert_eq!(frames(&packet), expected, "behind {other:02x?}");
        }
    }

    #[test]
    fn each_form_of_a_frame_with_octets_is_found() {
        // STREAM to the end of the packet, and with an end
        assert_eq!(frames(&[8, 0, 1, 2]).0, [octets(stream(0), 0, 2)]);
        assert_eq!(frames(&[0x0d, 8, 7, 1]).0, [octets(stream(2), 7, 8)]);
        assert_eq!(frames(&[0x0b, 0, 0]).0, [octets(stream(0), 0, 0)]);
        let crypto = Part::Crypto(EncryptionLevel::Data);
        assert_eq!(frames(&[6, 9, 2, 1, 1]).0, [octets(crypto, 9, 11)]);
        let Part::Stream(first) = stream(0) else {
            unreachable!("a stream");
        };
        assert_eq!(frames(&[4, 0, 1, 5]).0, [ReceivedFrame::Reset(first)]);
        // CONNECTION_CLOSE by QUIC and by the application
        assert_eq!(frames(&[0x1c, 1, 6, 2, 65, 65]), (vec![], true));
        assert_eq!(frames(&[0x1d, 0x41, 0, 1, 65]), (vec![], true));
    }

    #[test]
    fn frames_that_cannot_be_read_end_the_search() {
        for packet in [
            &[0x20][..],
            &[0x0e, 4, 0x40],
            &[0x0a, 4, 3, 1, 1],
            &[6, 0, 2, 1],
            // An ACK that claims more ranges than there are
            &[2, 9, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ] {
            assert_eq!(frames(packet), (vec![], false), "{packet:02x?}");
        }
    }
}
