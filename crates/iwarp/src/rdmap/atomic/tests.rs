//! The operations against their definition, and the headers against vectors D12 to D14.

use super::*;
use crate::mpa::testing::hex;
use proptest::prelude::*;

/// RFC 7306 section 5.1.1 as it reads: bit by bit, the carry dropped behind each bit of the mask.
fn add_slowly(value: u64, add: u64, mask: u64) -> u64 {
    let (mut sum, mut carry) = (0, 0);
    for bit in 0..64 {
        let all = (value >> bit & 1) + (add >> bit & 1) + carry;
        sum |= (all & 1) << bit;
        carry = if mask >> bit & 1 == 1 { 0 } else { all >> 1 };
    }
    sum
}

proptest! {
    /// RDMAPX-019.
    #[test]
    fn fetch_add_follows_its_definition(
        value in any::<u64>(),
        add in any::<u64>(),
        mask in prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), (0..64u32).prop_map(|bit| 1 << bit)],
    ) {
        let op = AtomicOp::FetchAdd { add, mask };
        prop_assert_eq!(op.apply(value), add_slowly(value, add, mask));
        prop_assert_eq!(AtomicOp::add(add).apply(value), value.wrapping_add(add));
    }

    /// RDMAPX-020: bit by bit as well.
    #[test]
    fn compare_swap_follows_its_definition(
        value in any::<u64>(),
        near in any::<u64>(),
        compare_mask in any::<u64>(),
        swap in any::<u64>(),
        swap_mask in any::<u64>(),
        equal in any::<bool>(),
    ) {
        // Where the masked bits are to be equal, the others differ as they like.
        let compare = if equal { value & compare_mask | near & !compare_mask } else { near };
        let matches = (0..64).all(|bit| {
            compare_mask >> bit & 1 == 0 || value >> bit & 1 == compare >> bit & 1
        });
        let expected = (0..64).fold(0, |word, bit| {
            let from = if matches && swap_mask >> bit & 1 == 1 { swap } else { value };
            word | (from >> bit & 1) << bit
        });
        let op = AtomicOp::CompareSwap { compare, compare_mask, swap, swap_mask };
        prop_assert!(!equal || matches);
        prop_assert_eq!(op.apply(value), expected);
    }

    /// Reserved bits are ignored, all else goes through unchanged.
    #[test]
    fn headers_go_through_octets_unchanged(
        words in prop::array::uniform5(any::<u64>()),
        id in any::<u32>(),
        stag in any::<u32>(),
        adds in any::<bool>(),
        reserved in any::<u32>(),
    ) {
        let [to, compare, compare_mask, swap, swap_mask] = words;
        let op = if adds {
            AtomicOp::FetchAdd { add: swap, mask: swap_mask }
        } else {
            AtomicOp::CompareSwap { compare, compare_mask, swap, swap_mask }
        };
        let request = AtomicRequest { id, op, target: RemoteAddress { stag: STag(stag), to } };
        let mut octets = request.to_bytes();
        prop_assert_eq!(AtomicRequest::parse(&octets), Ok(request));
        for (octet, bits) in octets.iter_mut().zip((reserved & !AOPCODE_MASK).to_be_bytes()) {
            *octet |= bits;
        }
        prop_assert_eq!(AtomicRequest::parse(&octets), Ok(request));
        let response = AtomicResponse { id, value: to };
        prop_assert_eq!(AtomicResponse::parse(&response.to_bytes()), Some(response));
    }
}

#[test]
fn d12_d13_d14_headers() {
    let target = |to| RemoteAddress {
        stag: STag(0x1234_5678),
        to,
    };
    let d12 = AtomicRequest {
        id: 0xa0a0_a0a0,
        op: AtomicOp::add(1),
        target: target(0x1000),
    };
    let octets = hex(
        "00000000 a0a0a0a0 12345678 0000000000001000 0000000000000001 0000000000000000 \
         0000000000000000 ffffffffffffffff",
    );
    assert_eq!(d12.to_bytes()[..], octets);
    let d13 = AtomicRequest {
        id: 0xa0a0_a0a1,
        op: AtomicOp::compare_swap(7, 0x1122_3344_5566_7788),
        target: target(0x1008),
    };
    let octets = hex(
        "00000002 a0a0a0a1 12345678 0000000000001008 1122334455667788 ffffffffffffffff \
         0000000000000007 ffffffffffffffff",
    );
    assert_eq!(d13.to_bytes()[..], octets);
    let d14 = AtomicResponse {
        id: 0xa0a0_a0a0,
        value: 41,
    };
    assert_eq!(d14.to_bytes()[..], hex("a0a0a0a0 0000000000000029"));
}

/// RDMAPX-002, RDMAPX-009, OPEN-15, OPEN-16.
#[test]
fn other_operations_and_lengths_are_refused() {
    let good = AtomicRequest {
        id: 1,
        op: AtomicOp::add(1),
        target: RemoteAddress::default(),
    }
    .to_bytes();
    for aopcode in 0..16 {
        let mut octets = good;
        octets[3] = aopcode;
        let known = AtomicRequest::parse(&octets).is_ok();
        assert_eq!(known, matches!(aopcode, 0 | 2), "AOpCode {aopcode:#x}");
    }
    for len in (0..80).filter(|len| *len != AtomicRequest::LEN) {
        let mut octets = good.to_vec();
        octets.resize(len, 0);
        let refused = Err(OperationError::UnexpectedOpcode);
        assert_eq!(AtomicRequest::parse(&octets), refused, "{len} octets");
        let response = AtomicResponse::parse(&octets);
        assert_eq!(response.is_some(), len == AtomicResponse::LEN);
    }
}
