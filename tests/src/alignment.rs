//! Where the TCP segments of a capture begin in a stream of FPDUs (MPA-085).

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::dissect::Packet;

/// The segments of one direction of one or more connections, behind the start-up frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    /// All segments with octets. What was sent again counts again.
    pub segments: usize,
    /// Segments that begin inside an FPDU.
    pub inside: usize,
    /// FPDUs of which a segment begins inside the CRC field, or between padding and CRC field.
    pub cut_crcs: usize,
}

impl AddAssign for Alignment {
    fn add_assign(&mut self, other: Self) {
        self.segments += other.segments;
        self.inside += other.inside;
        self.cut_crcs += other.cut_crcs;
    }
}

impl Alignment {
    /// Counts the segments of one direction in any number of connections.
    ///
    /// # Panics
    /// If the FPDUs of a connection are not known up to where its last segment begins.
    pub fn from_packets<'a>(packets: impl IntoIterator<Item = &'a Packet>) -> Self {
        let mut streams = BTreeMap::<u32, Vec<&Packet>>::new();
        for packet in packets {
            if packet.payload > 0 {
                streams.entry(packet.stream).or_default().push(packet);
            }
        }
        let mut all = Self::default();
        for packets in streams.values() {
            all += Self::of_stream(packets);
        }
        all
    }

    fn of_stream(packets: &[&Packet]) -> Self {
        let Some(startup) = packets.iter().find(|packet| packet.startup.is_some()) else {
            return Self::default();
        };
        let first = startup.sequence + startup.payload;
        let mut begin = first;
        let fpdus: Vec<_> = packets
            .iter()
            .flat_map(|packet| &packet.ulpdus)
            .map(|ulpdu| {
                let fpdu = Fpdu::new(begin, *ulpdu);
                begin = fpdu.end;
                fpdu
            })
            .collect();
        let mut found = Self::default();
        for packet in packets.iter().filter(|packet| packet.sequence >= first) {
            found.segments += 1;
            let at = packet.sequence;
            assert!(
                at <= begin,
                "FPDUs are known up to {begin}, and a segment begins at {at}: {packet:?}"
            );
            let before = fpdus.partition_point(|fpdu| fpdu.end <= at);
            if let Some(fpdu) = fpdus.get(before).filter(|fpdu| fpdu.begin < at) {
                found.inside += 1;
                found.cut_crcs += usize::from(fpdu.padding < at);
            }
        }
        found
    }
}

/// An FPDU by its places in the stream.
#[derive(Debug)]
struct Fpdu {
    begin: u32,
    /// Where the ULPDU ends.
    padding: u32,
    end: u32,
}

impl Fpdu {
    fn new(begin: u32, ulpdu: u16) -> Self {
        let length = 2 + u32::from(ulpdu);
        Self {
            begin,
            padding: begin + length,
            end: begin + length.next_multiple_of(4) + 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dissect::Startup;

    /// A segment, with the ULPDUs of the FPDUs that begin in it.
    fn segment(sequence: u32, payload: u32, ulpdus: &[u16]) -> Packet {
        Packet {
            sequence,
            payload,
            ulpdus: ulpdus.to_vec(),
            ..Packet::default()
        }
    }

    /// FPDUs of 28, 28 and 32 octets behind a start-up frame of 20, in segments that end at these places of the FPDUs.
    fn cut_at(places: &[u32]) -> Alignment {
        let mut startup = segment(1, 20, &[]);
        startup.startup = Some(Startup {
            request: true,
            private_data: String::new(),
        });
        let mut packets = vec![startup];
        let mut begin = 0;
        for end in places.iter().copied().chain([88]) {
            packets.push(segment(21 + begin, end - begin, &[]));
            begin = end;
        }
        packets[1].ulpdus = vec![22, 20, 25];
        Alignment::from_packets(&packets)
    }

    #[test]
    fn segments_inside_fpdus_and_crcs_are_counted() {
        let found = |segments, inside, cut_crcs| Alignment {
            segments,
            inside,
            cut_crcs,
        };
        assert_eq!(cut_at(&[]), found(1, 0, 0));
        assert_eq!(cut_at(&[28, 56]), found(3, 0, 0));
        assert_eq!(cut_at(&[2, 56]), found(3, 1, 0));
        // In front of the first CRC field, and inside it.
        assert_eq!(cut_at(&[24]), found(2, 1, 0));
        for place in 25..28 {
            assert_eq!(cut_at(&[place]), found(2, 1, 1), "{place}");
        }
        // The second FPDU has two octets of padding, the third one.
        assert_eq!(cut_at(&[50]), found(2, 1, 0));
        assert_eq!(cut_at(&[51, 52]), found(3, 2, 2));
        assert_eq!(cut_at(&[83]), found(2, 1, 0));
        assert_eq!(cut_at(&[84, 87]), found(3, 2, 2));
    }

    #[test]
    #[should_panic(expected = "FPDUs are known up to 109, and a segment begins at 121")]
    fn fpdus_that_are_missing_are_noticed() {
        let mut startup = segment(1, 20, &[]);
        startup.startup = Some(Startup {
            request: false,
            private_data: String::new(),
        });
        Alignment::from_packets(&[
            startup,
            segment(21, 100, &[22, 20, 25]),
            segment(121, 8, &[]),
        ]);
    }
}
