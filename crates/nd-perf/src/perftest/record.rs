//! The records that perftest's two sides exchange on their first connection.
//!
//! This is the exchange of perftest 4.5+0.17 with `-R`, which calls itself version 6.06. Each record is a Send. The
//! client's comes first, then the server's of the same kind and length. Numbers are in network order. The records are, in
//! this order:
//!
//! | octets | what |
//! |---|---|
//! | 16 | version, as text |
//! | 4 | size of the buffer that small messages walk through, in octets: a page |
//! | 4 | size of a cache line |
//! | 2 | the path MTU as a code of InfiniBand, as text |
//! | 56 | where the peer's memory is; all zero before and after the second connection is made, on which data moves |
//!
//! After the test come more records of the last kind, and for the bandwidth of Writes and Reads five numbers of 8 octets
//! each. Sources: perftest's `perftest_communication.c` and captures of the six programs over siw.

use netdirect::{RemoteAddress, RemoteToken};

/// The version of the exchange.
pub(super) const VERSION: &str = "6.06";

/// Octets of the record with the version.
pub(super) const VERSION_RECORD: usize = 16;

/// The largest of InfiniBand's codes for path MTUs, 4096 octets, as siw gives it; on iWARP it means nothing.
pub(super) const MTU: [u8; 2] = *b"5\0";

/// The size of a cache line on most processors, and the least that perftest asks for.
pub(super) const CACHE_LINE: u32 = 64;

/// The buffer that small messages use in turn: one page on most systems.
pub(super) const CYCLE: u32 = 4096;

/// Octets of the record with the place of memory.
pub(super) const PLACE_RECORD: usize = 56;

/// The version as it is sent.
pub(super) fn version() -> [u8; VERSION_RECORD] {
    let mut octets = [0; VERSION_RECORD];
    octets[..VERSION.len()].copy_from_slice(VERSION.as_bytes());
    octets
}

/// The address of a side's memory. The record has other fields, which mean nothing on iWARP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) out_reads: u32,
    pub(super) queue_pair: u32,
    pub(super) at: RemoteAddress,
}

impl Place {
    pub(super) fn encode(self) -> [u8; PLACE_RECORD] {
        let mut octets = [0; PLACE_RECORD];
        let mut put = |at: usize, number: &[u8]| {
            octets[at..at + number.len()].copy_from_slice(number);
        };
        // In front is the local identifier of InfiniBand, between is the first packet's number.
        put(4, &self.out_reads.to_be_bytes());
        put(8, &self.queue_pair.to_be_bytes());
        put(16, &self.at.token.to_host().to_be_bytes());
        // Four octets of padding. Behind are the address of the port, the shared receive queue, and an index.
        put(24, &self.at.address.to_be_bytes());
        octets
    }

    pub(super) fn decode(octets: &[u8; PLACE_RECORD]) -> Self {
        let number = |at: usize| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| octets[at + i]);
            u32::from_be_bytes([a, b, c, d])
        };
        let address = u64::from(number(24)) << 32 | u64::from(number(28));
        Self {
            out_reads: number(4),
            queue_pair: number(8),
            at: RemoteAddress {
                address,
                token: RemoteToken::from_host(number(16)),
            },
        }
    }
}

/// The bandwidth that the client has measured, in its record for the server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Speed {
    /// Octets of a message.
    pub(super) size: u64,
    /// Messages.
    pub(super) count: u64,
    /// The best MiB per second, or 0 if that is not measured.
    pub(super) peak: f64,
    /// MiB per second.
    pub(super) average: f64,
    /// Millions of messages per second.
    pub(super) rate: f64,
}

impl Speed {
    /// Five records of 8 octets, floating point numbers in network order too.
    pub(super) fn encode(self) -> [[u8; 8]; 5] {
        [
            self.size.to_be_bytes(),
            self.count.to_be_bytes(),
            self.peak.to_be_bytes(),
            self.average.to_be_bytes(),
            self.rate.to_be_bytes(),
        ]
    }

    pub(super) fn decode(records: [[u8; 8]; 5]) -> Self {
        let [size, count, peak, average, rate] = records;
        Self {
            size: u64::from_be_bytes(size),
            count: u64::from_be_bytes(count),
            peak: f64::from_be_bytes(peak),
            average: f64::from_be_bytes(average),
            rate: f64::from_be_bytes(rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of the client of ib_send_bw in a capture, with the padding zeroed.
    const CAPTURED: [u8; PLACE_RECORD] = [
        0x00, 0x00, 0x00, 0x00, // local identifier
        0x00, 0x00, 0x00, 0x01, // Reads under way
        0x00, 0x00, 0x00, 0x03, // queue pair
        0x00, 0x00, 0x00, 0x00, // first packet's number
        0x79, 0x86, 0xb9, 0x00, // STag
        0x00, 0x00, 0x00, 0x00, // padding
        0x00, 0x00, 0x56, 0x45, 0x54, 0x88, 0x8e, 0xa4, // address
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // the port's address
        0, 0, 0, 0, 0, 0, 0, 0, // shared receive queue, index
    ];

    #[test]
    fn a_place_is_where_perftest_has_it() {
        let place = Place {
            out_reads: 1,
            queue_pair: 3,
            at: RemoteAddress {
                address: 0x5645_5488_8ea4,
                token: RemoteToken::from_host(0x7986_b900),
            },
        };
        assert_eq!(place.encode(), CAPTURED);
        assert_eq!(Place::decode(&CAPTURED), place);
    }

    #[test]
    fn no_place_is_all_zero() {
        assert_eq!(Place::default().encode(), [0; PLACE_RECORD]);
    }

    #[test]
    fn a_speed_is_what_perftest_printed() {
        // As ib_write_bw sent it in a capture, and printed: 4096 40 16.97 4.87 0.001247.
        let records = [
            0x0000_0000_0000_1000_u64,
            0x0000_0000_0000_0028,
            0x4030_f80e_7047_d99b,
            0x4013_7aae_caa6_3c86,
            0x3f54_6cea_7744_af13,
        ]
        .map(u64::to_be_bytes);
        let speed = Speed::decode(records);
        assert_eq!((speed.size, speed.count), (4096, 40));
        let shown = format!("{:.2} {:.2} {:.6}", speed.peak, speed.average, speed.rate);
        assert_eq!(shown, "16.97 4.87 0.001247");
        assert_eq!(speed.encode(), records);
    }

    #[test]
    fn the_version_is_padded_with_zeros() {
        assert_eq!(&version(), b"6.06\0\0\0\0\0\0\0\0\0\0\0\0");
    }
}
