//! Requests on a connection.

use softverbs::{
    AccessFlags, CmEventKind, DeviceKind, Errno, MemoryRegion, QpAttributes, QpMask, QpState,
    SendData, SendOperation, SendRequest, Sge, WcOpcode, WcStatus,
};

use crate::common::{End, Host, Pair, errno, send_of};

const SIM: DeviceKind = DeviceKind::Roce;

#[test]
fn sends_writes_and_reads_move_octets() {
    for pair in [Pair::simulated(20, SIM), Pair::on_sockets()] {
        let (client, server) = pair.connect();
        server.qp.post_receive(7, &[server.sge(100, 50)]).unwrap();
        client.buffer.write(0, b"a message");
        client.post(
            1,
            SendOperation::Send,
            &[client.sge(0, 4), client.sge(4, 5)],
        );
        let received = server.completions(1)[0];
        assert_eq!((received.wr_id, received.status), (7, WcStatus::Success));
        assert_eq!(
            (received.opcode, received.byte_len()),
            (WcOpcode::Receive, 9)
        );
        assert_eq!(received.qp_num, server.qp.number());
        assert_eq!(server.buffer.slice(100..109).to_vec(), b"a message");

        client.post(
            2,
            SendOperation::Write(server.place(4096)),
            &[client.sge(0, 9)],
        );
        client.post(
            3,
            SendOperation::Read(server.place(4096)),
            &[client.sge(512, 9)],
        );
        let done = client.completions(3);
        let kinds: Vec<_> = done.iter().map(|one| (one.wr_id, one.opcode)).collect();
        let expected = [
            (1, WcOpcode::Send),
            (2, WcOpcode::Write),
            (3, WcOpcode::Read),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(client.buffer.slice(512..521).to_vec(), b"a message");
        assert_eq!(server.buffer.slice(4096..4105).to_vec(), b"a message");
    }
}

#[test]
fn a_list_is_posted_up_to_the_request_that_fails() {
    for pair in [Pair::simulated(27, SIM), Pair::on_sockets()] {
        let (client, server) = pair.connect();
        for wr_id in 0..9 {
            server.qp.post_receive(wr_id, &[server.sge(0, 64)]).unwrap();
        }
        let mut list = client.qp.post_sends();
        for wr_id in 0..8 {
            let sges = [client.sge(0, 4)];
            list.post(&send_of(wr_id, SendData::Sges(&sges))).unwrap();
        }
        let long = SendData::Inline(&[&[0; 65]]);
        assert_eq!(errno(list.post(&send_of(8, long))), Errno::INVAL);
        drop(list);
        let all: Vec<_> = (0..8).map(|wr_id| (wr_id, WcStatus::Success)).collect();
        assert_eq!(server.statuses(8), all);
        assert_eq!(client.statuses(8), all);
    }
}

#[test]
fn a_write_brings_a_number_to_the_peers_receive() {
    for pair in [Pair::simulated(29, SIM), Pair::on_sockets()] {
        let (client, server) = pair.connect();
        client.buffer.write(0, b"written");
        for (wr_id, length) in [(1, 7), (2, 0), (3, 30_000)] {
            server.qp.post_receive(wr_id, &[]).unwrap();
            let place = server.place(4096);
            // The length is not that of the Writes before.
            let silent = SendRequest {
                operation: SendOperation::Write(server.place(40_000)),
                signaled: false,
                ..send_of(0, SendData::Inline(&[b"before"]))
            };
            client.qp.post_send(&silent).unwrap();
            client.post(
                wr_id,
                SendOperation::WriteImmediate(place, [9, 8, 7, 6]),
                &[client.sge(0, length)],
            );
            let received = server.completions(1)[0];
            assert_eq!(
                (received.wr_id, received.status),
                (wr_id, WcStatus::Success)
            );
            assert_eq!(
                (received.opcode, received.byte_len()),
                (WcOpcode::ReceiveImmediate, length)
            );
            assert_eq!(received.immediate, Some([9, 8, 7, 6]));
            assert_eq!(server.buffer.slice(4096..4103).to_vec(), b"written");
            let sent = client.completions(1)[0];
            assert_eq!((sent.wr_id, sent.opcode), (wr_id, WcOpcode::Write));
        }
    }
}

/// The numbers are those of this processor, in the word as in the answer.
#[test]
fn atomics_change_a_word_of_the_peer_and_return_it_as_it_was() {
    for pair in [
        Pair::simulated(70, SIM),
        Pair::simulated(71, DeviceKind::Iwarp),
        Pair::on_sockets(),
    ] {
        let (client, server) = pair.connect();
        let word = |end: &End, at: usize| {
            let mut octets = [0; 8];
            end.buffer.read(at, &mut octets);
            u64::from_ne_bytes(octets)
        };
        let place = server.place(64);
        let (large, other) = (0x0102_0304_0506_0708, 0x1112_1314_1516_1718);
        server.buffer.write(64, &u64::to_ne_bytes(large));
        for (wr_id, operation, opcode, before, behind) in [
            (
                1,
                SendOperation::FetchAdd(place, 5),
                WcOpcode::FetchAdd,
                large,
                large + 5,
            ),
            // The sum wraps.
            (
                2,
                SendOperation::FetchAdd(place, u64::MAX - 4),
                WcOpcode::FetchAdd,
                large + 5,
                large,
            ),
            (
                3,
                SendOperation::CompareSwap(place, large, other),
                WcOpcode::CompareSwap,
                large,
                other,
            ),
            (
                4,
                SendOperation::CompareSwap(place, large, 0),
                WcOpcode::CompareSwap,
                other,
                other,
            ),
        ] {
            client.post(wr_id, operation, &[client.sge(8, 8)]);
            let done = client.completions(1)[0];
            assert_eq!((done.wr_id, done.status), (wr_id, WcStatus::Success));
            assert_eq!((done.opcode, done.byte_len()), (opcode, 8));
            assert_eq!(word(&client, 8), before, "{operation:?}");
            assert_eq!(word(&server, 64), behind, "{operation:?}");
        }
    }
}

#[test]
fn an_atomic_that_cannot_be_carried_out_has_the_status_of_hardware() {
    let without = |end: &End, host: &Host| {
        let access =
            AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let (buffer, first) = (&end.buffer, end.buffer.address());
        MemoryRegion::register(&host.pd, buffer, first, access.bits()).unwrap()
    };
    for (case, expected) in [
        ("aligned to 4 octets", WcStatus::RemoteInvalidRequest),
        ("another key", WcStatus::RemoteAccess),
        ("beyond the region", WcStatus::RemoteAccess),
        ("a region without the right", WcStatus::RemoteAccess),
        ("a queue pair without the right", WcStatus::RemoteAccess),
        ("a wrong local key", WcStatus::LocalProtection),
    ] {
        for is_swap in [false, true] {
            let pair = Pair::simulated(72, SIM);
            let (client, server) = pair.connect();
            let region = without(&server, &pair.server);
            let mut place = server.place(64);
            let mut sge = client.sge(0, 8);
            match case {
                "aligned to 4 octets" => place.addr += 4,
                "another key" => place.rkey ^= 1,
                "beyond the region" => place.addr += 1 << 16,
                "a region without the right" => place.rkey = region.key(),
                "a queue pair without the right" => {
                    let attributes = QpAttributes {
                        state: QpState::Rts,
                        access: (AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ).bits(),
                        ..QpAttributes::default()
                    };
                    let mask = QpMask::STATE | QpMask::ACCESS_FLAGS;
                    server.qp.modify(&attributes, mask).unwrap();
                }
                _ => sge.lkey ^= 1,
            }
            let operation = match is_swap {
                true => SendOperation::CompareSwap(place, 0, 1),
                false => SendOperation::FetchAdd(place, 1),
            };
            client.post(1, operation, &[sge]);
            client.post(2, SendOperation::Send, &[]);
            // The transport may have taken the Send, but a request behind a failed one counts as flushed.
            let expected = [(1, expected), (2, WcStatus::Flushed)];
            assert_eq!(client.statuses(2), expected, "{case}");
            assert_eq!(server.buffer.slice(0..256).to_vec(), [0; 256], "{case}");
            assert_eq!(client.qp.state(), QpState::Err, "{case}");
        }
    }
}

#[test]
fn an_atomic_has_one_sge_of_8_octets() {
    let pair = Pair::simulated(73, SIM);
    let (client, server) = pair.connect();
    let operation = SendOperation::FetchAdd(server.place(0), 1);
    for sges in [
        &[][..],
        &[client.sge(0, 4)],
        &[client.sge(0, 16)],
        &[client.sge(0, 4), client.sge(8, 4)],
    ] {
        let refused = client.try_post(1, operation, SendData::Sges(sges));
        assert_eq!(errno(refused), Errno::INVAL, "{sges:?}");
    }
    let refused = client.try_post(1, operation, SendData::Inline(&[&[0; 8]]));
    assert_eq!(errno(refused), Errno::INVAL);
    assert_eq!(server.buffer.slice(0..8).to_vec(), [0; 8]);
}

/// A fence waits for Atomics as for Reads, and both count against the limit of the connection.
#[test]
fn atomics_and_reads_share_their_limit_and_the_fence() {
    let pair = Pair::simulated(74, SIM);
    let (client, server) = pair.connect();
    for wr_id in 0..16 {
        let (operation, length) = match wr_id % 3 {
            0 => (SendOperation::Read(server.place(0)), 4),
            _ => (SendOperation::FetchAdd(server.place(0), 1), 8),
        };
        let sges = [client.sge(64 * wr_id, length)];
        client.post(wr_id, operation, &sges);
    }
    server.qp.post_receive(1, &[server.sge(4096, 8)]).unwrap();
    let sges = [client.sge(64, 8)];
    let request = SendRequest {
        fence: true,
        ..send_of(16, SendData::Sges(&sges))
    };
    // The fenced Send carries the answer of the first Atomic.
    client.buffer.write(64, &[0xFF; 8]);
    client.qp.post_send(&request).unwrap();
    let all: Vec<_> = (0..17).map(|wr_id| (wr_id, WcStatus::Success)).collect();
    assert_eq!(client.statuses(17), all);
    server.completions(1);
    assert_eq!(server.buffer.slice(4096..4104).to_vec(), [0; 8]);
    let word = server.buffer.slice(0..8).to_vec();
    assert_eq!(word, 10_u64.to_ne_bytes());
}

#[test]
fn inline_octets_are_copied_at_once() {
    let pair = Pair::simulated(21, SIM);
    let (client, server) = pair.connect();
    server.qp.post_receive(1, &[server.sge(0, 64)]).unwrap();
    let data = SendData::Inline(&[b"in", b"line"]);
    client.try_post(2, SendOperation::Send, data).unwrap();
    assert_eq!(server.completions(1)[0].byte_len(), 6);
    assert_eq!(server.buffer.slice(0..6).to_vec(), b"inline");
    let long = SendData::Inline(&[&[0; 65]]);
    assert_eq!(
        errno(client.try_post(3, SendOperation::Send, long)),
        Errno::INVAL
    );
}

#[test]
fn what_is_outstanding_comes_back_flushed_behind_the_event_of_the_end() {
    let pair = Pair::simulated(22, SIM);
    let (client, server) = pair.connect();
    for wr_id in 0..3 {
        server.qp.post_receive(wr_id, &[server.sge(0, 64)]).unwrap();
    }
    server.id.disconnect().unwrap();
    let event = pair.server.event(CmEventKind::Disconnected);
    let flushed: Vec<_> = (0..3).map(|wr_id| (wr_id, WcStatus::Flushed)).collect();
    assert_eq!(server.statuses(3), flushed);
    event.acknowledge();
    // In error requests are accepted and come back.
    server.qp.post_receive(9, &[]).unwrap();
    server.post(10, SendOperation::Send, &[]);
    let mut late = server.statuses(2);
    late.sort_by_key(|(wr_id, _)| *wr_id);
    assert_eq!(late, [(9, WcStatus::Flushed), (10, WcStatus::Flushed)]);
    pair.client.expect(CmEventKind::Disconnected);
    client.qp.post_receive(12, &[]).unwrap();
    client.post(11, SendOperation::Send, &[]);
    let mut late = client.statuses(2);
    late.sort_by_key(|(wr_id, _)| *wr_id);
    let lost = WcStatus::RetryExceeded;
    assert_eq!(late, [(11, lost), (12, WcStatus::Flushed)]);
}

#[test]
fn a_wrong_key_of_the_peer_is_a_remote_access_error() {
    let pair = Pair::simulated(23, SIM);
    let (client, server) = pair.connect();
    let mut place = server.place(0);
    place.rkey ^= 1;
    client.post(1, SendOperation::Read(place), &[client.sge(0, 8)]);
    assert_eq!(client.statuses(1), [(1, WcStatus::RemoteAccess)]);
    pair.client.expect(CmEventKind::Disconnected);
    pair.server.expect(CmEventKind::Disconnected);
}

/// Rights of region and of queue pair both hold.
#[test]
fn a_queue_pair_may_keep_its_peer_out_of_memory() {
    for (access, may_read, may_write) in [
        (AccessFlags::REMOTE_READ, true, false),
        (AccessFlags::REMOTE_WRITE, false, true),
        (AccessFlags::LOCAL_WRITE, false, false),
    ] {
        for is_read in [true, false] {
            let pair = Pair::simulated(28, SIM);
            let (client, server) = pair.connect();
            let attributes = QpAttributes {
                state: QpState::Rts,
                access: access.bits(),
                ..QpAttributes::default()
            };
            let mask = QpMask::STATE | QpMask::ACCESS_FLAGS;
            server.qp.modify(&attributes, mask).unwrap();
            client.buffer.write(0, b"x");
            let operation = match is_read {
                true => SendOperation::Read(server.place(0)),
                false => SendOperation::Write(server.place(0)),
            };
            client.post(1, operation, &[client.sge(0, 1)]);
            let stands = if is_read { may_read } else { may_write };
            let status = match stands {
                true => WcStatus::Success,
                false => WcStatus::RemoteAccess,
            };
            assert_eq!(client.statuses(1), [(1, status)]);
            if stands {
                client.id.disconnect().unwrap();
            }
            pair.server.expect(CmEventKind::Disconnected);
            let is_written = server.buffer.load(0) == b'x';
            assert_eq!(is_written, !is_read && may_write);
        }
    }
}

#[test]
fn a_wrong_local_key_is_a_local_protection_error() {
    let pair = Pair::simulated(24, SIM);
    let (client, server) = pair.connect();
    server.qp.post_receive(1, &[server.sge(0, 64)]).unwrap();
    let wrong = Sge {
        lkey: client.region.key() ^ 1,
        ..client.sge(0, 8)
    };
    client.post(1, SendOperation::Send, &[wrong]);
    assert_eq!(client.statuses(1), [(1, WcStatus::LocalProtection)]);
    assert_eq!(server.statuses(1), [(1, WcStatus::Flushed)]);
}

#[test]
fn a_message_longer_than_its_receive_is_a_length_error() {
    let pair = Pair::simulated(25, SIM);
    let (client, server) = pair.connect();
    server.qp.post_receive(1, &[server.sge(0, 8)]).unwrap();
    client.post(1, SendOperation::Send, &[client.sge(0, 9)]);
    assert_eq!(server.statuses(1), [(1, WcStatus::LocalLength)]);
}

#[test]
fn only_signaled_requests_complete() {
    let pair = Pair::simulated(26, SIM);
    let (client, server) = pair.connect();
    for wr_id in 0..8 {
        server.qp.post_receive(wr_id, &[server.sge(0, 64)]).unwrap();
        client
            .qp
            .post_send(&softverbs::SendRequest {
                signaled: wr_id % 4 == 3,
                ..send_of(wr_id, SendData::Sges(&[client.sge(0, 8)]))
            })
            .unwrap();
    }
    let expected = [(3, WcStatus::Success), (7, WcStatus::Success)];
    assert_eq!(client.statuses(2), expected);
    assert_eq!(server.completions(8).len(), 8);
}

#[test]
fn full_queues_refuse() {
    let pair = Pair::simulated(27, SIM);
    let (client, _server) = pair.connect();
    for wr_id in 0..32 {
        client.qp.post_receive(wr_id, &[]).unwrap();
    }
    assert_eq!(errno(client.qp.post_receive(32, &[])), Errno::NOMEM);
    let sges = [client.sge(0, 1); 5];
    assert_eq!(errno(client.qp.post_receive(33, &sges)), Errno::INVAL);
    let data = SendData::Sges(&sges);
    assert_eq!(
        errno(client.try_post(34, SendOperation::Send, data)),
        Errno::INVAL
    );
}
