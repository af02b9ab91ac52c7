//! What a peer may do with the memory of a queue pair, and the sizes that a queue pair is granted.

use iwarp_io::endpoint::{AtomicOp, InitiatorWqe, Operation, Payload, RemoteAddress, STag};

use self::common::{End, Pair};
use crate::{AccessFlags, DeviceKind, MemoryRegion, SendOperation, WcOpcode, WcStatus};

#[expect(
    dead_code,
    clippy::field_reassign_with_default,
    reason = "other tests use the rest, from outside the crate"
)]
#[path = "../../tests/it/common.rs"]
mod common;

/// The client adds 1 to the word at the beginning of a region. Returns the status of the request.
fn add(client: &End, region: &MemoryRegion) -> WcStatus {
    let sink = iwarp_io::endpoint::Sge {
        token: STag(client.region.key()),
        address: client.region.first(),
        length: 8,
    };
    let remote = RemoteAddress {
        stag: STag(region.key()),
        to: region.first(),
    };
    let wqe = InitiatorWqe {
        context: 1,
        operation: Operation::Atomic {
            op: AtomicOp::add(1),
            sink: Payload::Sges(&[sink]),
            remote,
        },
        silent: false,
        fence: false,
    };
    client.qp.endpoint().unwrap().post(wqe).unwrap();
    client.completions(1)[0].status
}

/// RDMAPX-011: a peer needs the right that the region gives by its name.
#[test]
fn peers_do_atomics_only_on_regions_with_that_right() {
    let others = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    for kind in [DeviceKind::Roce, DeviceKind::Iwarp] {
        for (seed, access, granted) in [
            (40, others, false),
            (41, others | AccessFlags::REMOTE_ATOMIC, true),
            (
                42,
                AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC,
                true,
            ),
        ] {
            let pair = Pair::simulated(seed, kind);
            let (client, server) = pair.connect();
            let word = &server.buffer;
            let region =
                MemoryRegion::register(&pair.server.pd, word, word.address(), access.bits());
            let status = add(&client, &region.unwrap());
            assert_eq!(
                status == WcStatus::Success,
                granted,
                "{access:?}: {status:?}"
            );
            let value = u64::from(granted).to_ne_bytes();
            assert_eq!(server.buffer.slice(0..8).to_vec(), value, "{access:?}");
        }
    }
}

/// Chelsio's adapters send a Write, and Immediate Data whose four octets behind the number they do not set.
#[test]
fn the_length_of_a_write_with_a_number_is_not_what_its_peer_states() {
    let pair = Pair::simulated(43, DeviceKind::Iwarp);
    let (client, server) = pair.connect();
    server.qp.post_receive(1, &[]).unwrap();
    let write = SendOperation::Write(server.place(0));
    client.post(1, write, &[client.sge(0, 100)]);
    let operation = Operation::Immediate {
        data: [9, 8, 7, 6, 0xFF, 0xFF, 0xFF, 0xFF],
        solicited: false,
    };
    let wqe = InitiatorWqe {
        context: 2,
        operation,
        silent: false,
        fence: false,
    };
    client.qp.endpoint().unwrap().post(wqe).unwrap();
    let received = server.completions(1)[0];
    assert_eq!(
        (received.opcode, received.byte_len(), received.immediate),
        (WcOpcode::ReceiveImmediate, 100, Some([9, 8, 7, 6]))
    );
}

/// The octets behind the number are zeros, and the length follows from the Write.
#[test]
fn a_write_with_a_number_states_no_length() {
    assert_eq!(
        super::post::immediate_data([9, 8, 7, 6]),
        [9, 8, 7, 6, 0, 0, 0, 0]
    );
}

/// Drivers round inline data up to the room of the SGEs, and programs rely on it.
#[test]
fn inline_data_has_at_least_the_room_of_the_sges() {
    for (sges, asked, granted) in [
        (0, 0, 0),
        (1, 0, 16),
        (2, 64, 64),
        (4, 50, 64),
        (16, 1024, 1024),
    ] {
        let mut caps = crate::QpCaps {
            max_send_sge: sges,
            max_inline_data: asked,
            ..crate::QpCaps::default()
        };
        caps.grant_inline();
        assert_eq!(
            caps.max_inline_data, granted,
            "{sges} SGEs, {asked} octets asked for"
        );
    }
}
