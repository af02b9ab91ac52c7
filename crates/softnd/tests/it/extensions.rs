//! Extensions to ND2: Atomics and Immediate Data between two adapters (RFC 7306).

use crate::common::{ALL, Pair, Region, pair, pair_with, status};
use netdirect::{
    AtomicOp, Capabilities, CompletionResult, MrFlags, OpFlags, QueuePairExtensions, RemoteAddress,
    RequestType, Status,
};
use softnd::Options;

fn active(pair: &Pair) -> &dyn QueuePairExtensions {
    pair.active_qp.extensions().expect("softnd has them")
}

fn word(region: &Region, at: usize) -> u64 {
    let mut octets = [0; 8];
    region.buffer.read(at, &mut octets);
    u64::from_ne_bytes(octets)
}

/// One Atomic by the active side, its result, and the old value.
fn atomic(pair: &Pair, op: AtomicOp, target: RemoteAddress) -> (CompletionResult, u64) {
    let sink = pair.active.region(8, MrFlags::RDMA_READ_SINK);
    active(pair)
        .atomic(5, op, &sink.sge(0, 8), target, OpFlags::empty())
        .unwrap();
    (pair.active.result(), word(&sink, 0))
}

/// RDMAPX-012, RDMAPX-017, RDMAPX-019, RDMAPX-020: with CRC and without, with markers and without.
#[test]
fn atomics_change_the_peers_memory_and_fetch_what_was_there() {
    for (crc, markers) in [(true, false), (false, false), (true, true)] {
        let options = || Options::default().crc(crc).markers(markers);
        let pair = pair_with(options(), options());
        let target = pair.passive.region(64, ALL);
        target.buffer.write(8, &40u64.to_ne_bytes());
        let at = target.remote(8);
        let (result, before) = atomic(&pair, AtomicOp::add(2), at);
        assert_eq!(
            (result.status, result.request_type, result.request_context),
            (Status::SUCCESS, RequestType::Atomic, 5)
        );
        assert_eq!((before, word(&target, 8)), (40, 42));
        let (_, before) = atomic(&pair, AtomicOp::compare_swap(41, 1), at);
        assert_eq!((before, word(&target, 8)), (42, 42), "no match");
        let (_, before) = atomic(&pair, AtomicOp::compare_swap(42, u64::MAX), at);
        assert_eq!((before, word(&target, 8)), (42, u64::MAX));
        let fields = AtomicOp::FetchAdd {
            add: 1,
            mask: 1 << 31,
        };
        let (_, before) = atomic(&pair, fields, at);
        let carried = 0xffff_ffff_0000_0000;
        assert_eq!((before, word(&target, 8)), (u64::MAX, carried));
        assert_eq!((word(&target, 0), word(&target, 16)), (0, 0));
    }
}

/// RDMAPX-015: both sides, and the target's own queue pair, count on one word.
#[test]
fn rdmapx_015_two_adapters_count_on_one_word() {
    const ROUNDS: u64 = 200;
    let pair = pair();
    let target = pair.passive.region(8, ALL);
    let sinks = pair.active.region(8 * 16, ALL);
    let mut seen = Vec::new();
    for round in 0..ROUNDS / 16 {
        for slot in 0..16 {
            let sink = sinks.sge(8 * slot, 8);
            let flags = OpFlags::empty();
            active(&pair)
                .atomic(
                    slot as u64,
                    AtomicOp::add(1),
                    &sink,
                    target.remote(0),
                    flags,
                )
                .unwrap();
        }
        let results = pair.active.results(16);
        assert!(
            results
                .iter()
                .all(|result| result.status == Status::SUCCESS)
        );
        let contexts: Vec<u64> = results
            .iter()
            .map(|result| result.request_context)
            .collect();
        assert_eq!(contexts, (0..16).collect::<Vec<_>>(), "round {round}");
        seen.extend((0..16).map(|slot| word(&sinks, 8 * slot)));
    }
    let all = ROUNDS / 16 * 16;
    assert_eq!(seen, (0..all).collect::<Vec<_>>());
    assert_eq!(word(&target, 0), all);
}

/// RDMAPX-022, RDMAPX-024: in order with Sends, one Receive each, behind the Writes before it.
#[test]
fn immediate_data_comes_in_order_with_sends() {
    let pair = pair();
    let source = pair.active.region(8, ALL);
    source.buffer.write(0, b"written!");
    let (target, inbox) = (pair.passive.region(8, ALL), pair.passive.region(8, ALL));
    for context in 0..3 {
        pair.passive_qp
            .receive(context, &[inbox.sge(0, 8)])
            .unwrap();
    }
    let flags = OpFlags::empty();
    pair.active_qp
        .write(10, &[source.sge(0, 8)], target.remote(0), flags)
        .unwrap();
    active(&pair)
        .send_immediate(11, (*b"one two!").into(), flags)
        .unwrap();
    pair.active_qp
        .send_inline(12, &[b"and sent"], flags)
        .unwrap();
    let solicit = OpFlags::SEND_AND_SOLICIT_EVENT | OpFlags::SILENT_SUCCESS;
    active(&pair)
        .send_immediate(13, [9; 8].into(), solicit)
        .unwrap();
    let received = pair.passive.results(3);
    let reported: Vec<_> = received.iter().map(|result| result.immediate).collect();
    let due = [Some((*b"one two!").into()), None, Some([9; 8].into())];
    assert_eq!(reported, due);
    let lengths: Vec<_> = received
        .iter()
        .map(|result| result.bytes_transferred)
        .collect();
    assert_eq!(lengths, [0, 8, 0]);
    assert!(
        received
            .iter()
            .all(|result| result.request_type == RequestType::Receive)
    );
    assert_eq!(target.buffer.to_vec(), b"written!");
    assert_eq!(inbox.buffer.to_vec(), b"and sent");
    let sent = pair.active.results(3);
    let kinds: Vec<_> = sent.iter().map(|result| result.request_type).collect();
    let due = [
        RequestType::Write,
        RequestType::SendImmediate,
        RequestType::Send,
    ];
    assert_eq!(kinds, due);
}

/// RDMAPX-010, RDMAPX-011, AMB-002: the Atomics that the peer refuses, and the statuses with which they end.
#[test]
fn rdmapx_011_refused_atomics() {
    let read_only = MrFlags::ALLOW_REMOTE_READ;
    let write_only = MrFlags::ALLOW_REMOTE_WRITE;
    for (flags, at, expected) in [
        (read_only, 0, Status::ACCESS_VIOLATION),
        (write_only, 0, Status::ACCESS_VIOLATION),
        (ALL, 57, Status::ACCESS_VIOLATION),
        (ALL, 4, Status::REMOTE_ERROR),
    ] {
        let pair = pair();
        let target = pair.passive.region(64, flags);
        let (result, before) = atomic(&pair, AtomicOp::add(1), target.remote(at));
        assert_eq!((result.status, before), (expected, 0), "{flags:?} at {at}");
        assert_eq!(target.buffer.to_vec(), [0; 64]);
    }
}

/// The adapter supports exactly what it reports.
#[test]
fn capabilities_are_what_the_adapter_does() {
    let pair = pair();
    let capabilities = pair.active.adapter.capabilities();
    let windows = capabilities.contains(Capabilities::MEMORY_WINDOWS);
    assert_eq!(pair.active.adapter.create_memory_window().is_ok(), windows);
    let masked = AtomicOp::FetchAdd {
        add: 1,
        mask: 1 << 7,
    };
    let partly = AtomicOp::CompareSwap {
        compare: 0,
        compare_mask: 0,
        swap: 5,
        swap_mask: 7,
    };
    let target = pair.passive.region(8, ALL);
    for op in [
        AtomicOp::add(1),
        AtomicOp::compare_swap(1, 2),
        masked,
        partly,
    ] {
        let able = capabilities.contains(Capabilities::needed_for(op));
        let (result, _) = atomic(&pair, op, target.remote(0));
        assert_eq!(result.status == Status::SUCCESS, able, "{op:?}");
    }
    for _ in 0..2 {
        pair.passive_qp.receive(0, &[]).unwrap();
    }
    let none = OpFlags::empty();
    let four = active(&pair).send_immediate(1, [1; 4].into(), none);
    assert_eq!(
        four.is_ok(),
        capabilities.contains(Capabilities::IMMEDIATE_4)
    );
    let eight = active(&pair).send_immediate(2, [1; 8].into(), none);
    assert_eq!(
        eight.is_ok(),
        capabilities.contains(Capabilities::IMMEDIATE_8)
    );
}

/// QP-002: a call that fails leaves the queue pair usable.
#[test]
fn arguments_of_extensions_are_checked() {
    let pair = pair();
    let region = pair.active.region(64, ALL);
    let target = pair.passive.region(8, ALL);
    let extensions = active(&pair);
    let post = |length, flags| {
        let sink = region.sge(0, length);
        status(extensions.atomic(1, AtomicOp::add(1), &sink, target.remote(0), flags))
    };
    let none = OpFlags::empty();
    assert_eq!(post(7, none), Status::INVALID_PARAMETER_3);
    assert_eq!(post(16, none), Status::INVALID_PARAMETER_3);
    let solicit = OpFlags::SEND_AND_SOLICIT_EVENT;
    assert_eq!(post(8, solicit), Status::INVALID_PARAMETER_5);
    assert_eq!(post(8, OpFlags::INLINE), Status::INVALID_PARAMETER_5);
    let immediate = |data, flags| status(extensions.send_immediate(2, data, flags));
    let refused = immediate([0; 8].into(), OpFlags::ALLOW_READ);
    assert_eq!(refused, Status::INVALID_PARAMETER_3);
    // Immediate Data of four octets exists on InfiniBand only.
    assert_eq!(immediate([0; 4].into(), none), Status::INVALID_PARAMETER_2);
    assert_eq!(post(8, OpFlags::READ_FENCE), Status::SUCCESS);
    assert_eq!(pair.active.result().status, Status::SUCCESS);
    assert_eq!(word(&target, 0), 1);

    let unconnected = pair.active.queue_pair();
    let extensions = unconnected.extensions().unwrap();
    let refused = extensions.send_immediate(3, [0; 8].into(), none);
    assert_eq!(status(refused), Status::CONNECTION_INVALID);
}
