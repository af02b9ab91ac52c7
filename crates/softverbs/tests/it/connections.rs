//! Connections of rdma_cm: set-up, private data, rejections, ends.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use softverbs::{
    CmEventKind, CmId, ConnParameters, DeviceKind, Errno, Process, ProcessOptions, QpState,
    WcStatus,
};

use crate::common::{Host, Pair, errno, parameters, send_of};

#[test]
fn both_ends_learn_of_the_connection_and_of_its_end() {
    for pair in [Pair::simulated(1, DeviceKind::Roce), Pair::on_sockets()] {
        let (client, server) = pair.connect();
        assert_eq!(
            (client.qp.state(), server.qp.state()),
            (QpState::Rts, QpState::Rts)
        );
        client.id.disconnect().unwrap();
        pair.server.expect(CmEventKind::Disconnected);
        server.id.disconnect().unwrap();
        pair.client.expect(CmEventKind::Disconnected);
        assert_eq!(
            (client.qp.state(), server.qp.state()),
            (QpState::Err, QpState::Err)
        );
        // A second call is no error, because programs make one.
        client.id.disconnect().unwrap();
        pair.client.expect(CmEventKind::TimewaitExit);
        pair.server.expect(CmEventKind::TimewaitExit);
    }
}

#[test]
fn an_iwarp_adapter_tells_of_no_timewait() {
    let pair = Pair::simulated(2, DeviceKind::Iwarp);
    let (client, server) = pair.connect();
    server.id.disconnect().unwrap();
    pair.client.expect(CmEventKind::Disconnected);
    pair.server.expect(CmEventKind::Disconnected);
    assert_eq!(errno(pair.client.channel.get_event()), Errno::DEADLK);
    drop(client);
}

/// The connection of a destroyed queue pair ends by itself, after the event of its end.
#[test]
fn a_program_that_destroys_its_queue_pair_and_disconnects_learns_of_the_timewait() {
    let pair = Pair::simulated(15, DeviceKind::Roce);
    let (client, server) = pair.connect();
    client.id.destroy_queue_pair().unwrap();
    client.id.disconnect().unwrap();
    pair.client.expect(CmEventKind::Disconnected);
    client.id.disconnect().unwrap();
    pair.server.expect(CmEventKind::Disconnected);
    server.id.disconnect().unwrap();
    pair.client.expect(CmEventKind::TimewaitExit);
    pair.server.expect(CmEventKind::TimewaitExit);
    assert_eq!(errno(pair.client.channel.get_event()), Errno::DEADLK);
}

#[test]
fn private_data_has_the_length_that_was_sent() {
    let pair = Pair::simulated(3, DeviceKind::Roce);
    for octets in [0, 1, 56, 196, 508] {
        let data: Vec<u8> = (0..octets).map(|at: u32| at.to_be_bytes()[3]).collect();
        let (listener, address) = pair.server.listen();
        let client = pair.client.resolved(address);
        client.connect(&parameters(&data)).unwrap();
        let (id, asked) = pair.server.request();
        assert_eq!(asked.private_data, data);
        assert_eq!((asked.responder_resources, asked.initiator_depth), (4, 4));
        id.reject(&data).unwrap();
        let event = pair.client.event(CmEventKind::Rejected);
        assert_eq!(
            (event.status(), &event.parameters().private_data),
            (28, &data)
        );
        event.acknowledge();
        for id in [client, id, listener] {
            id.destroy().unwrap();
        }
    }
    let id = pair.client.resolved(([10, 0, 0, 2], 7).into());
    assert_eq!(errno(id.connect(&parameters(&[0; 509]))), Errno::INVAL);
}

#[test]
fn reads_are_as_many_as_both_devices_allow() {
    let pair = Pair::simulated(13, DeviceKind::Roce);
    let most = u8::try_from(softverbs::limits::READS).unwrap();
    let all = ConnParameters {
        responder_resources: u8::MAX,
        initiator_depth: u8::MAX,
        ..ConnParameters::default()
    };
    let reads =
        |parameters: &ConnParameters| (parameters.responder_resources, parameters.initiator_depth);
    for parameters in [all, ConnParameters::unstated()] {
        let (listener, address) = pair.server.listen();
        let client = pair.client.resolved(address);
        client.connect(&parameters).unwrap();
        let (server, asked) = pair.server.request();
        assert_eq!(reads(&asked), (most, most));
        server.accept(&parameters).unwrap();
        let answer = pair.client.expect(CmEventKind::ConnectResponse);
        assert_eq!(reads(&answer), (most, most));
        for id in [client, server, listener] {
            id.destroy().unwrap();
        }
    }
}

#[test]
fn a_port_without_a_listener_rejects() {
    for (kind, status) in [
        (DeviceKind::Roce, 8),
        (DeviceKind::Iwarp, -Errno::CONNREFUSED.raw_os_error()),
    ] {
        let pair = Pair::simulated(4, kind);
        let id = pair.client.resolved(([10, 0, 0, 2], 9).into());
        id.connect(&parameters(b"")).unwrap();
        let event = pair.client.event(CmEventKind::Rejected);
        assert_eq!(event.status(), status);
    }
}

#[test]
fn a_listener_may_begin_after_its_peer_has_connected() {
    for kind in [DeviceKind::Roce, DeviceKind::Iwarp] {
        let pair = Pair::simulated(10, kind);
        let listener = CmId::create(&pair.server.channel).unwrap();
        listener.bind((pair.server.address, 0).into()).unwrap();
        let client = pair.client.resolved(listener.local().unwrap());
        let end = crate::common::End::new(&pair.client, client, None);
        end.id.connect(&parameters(b"early")).unwrap();
        // Each poll moves the simulation, beyond the first refusals.
        for _ in 0..10 {
            assert_eq!(end.cq.poll(&mut [softverbs::WorkCompletion::default()]), 0);
        }
        listener.listen(8).unwrap();
        let (id, asked) = pair.server.request();
        assert_eq!(asked.private_data, b"early");
        id.accept(&parameters(b"")).unwrap();
        pair.client.expect(CmEventKind::Established);
    }
}

#[test]
fn connections_without_a_queue_pair_carry_private_data_and_an_end() {
    for pair in [Pair::simulated(5, DeviceKind::Roce), Pair::on_sockets()] {
        let (_listener, address) = pair.server.listen();
        let client = pair.client.resolved(address);
        let foreign = ConnParameters {
            qp_num: 0x12_3456,
            ..parameters(b"worker address")
        };
        client.connect(&foreign).unwrap();
        let (server, asked) = pair.server.request();
        assert_eq!(asked.private_data, b"worker address");
        server.accept(&parameters(b"mine")).unwrap();
        let answer = pair.client.expect(CmEventKind::ConnectResponse);
        assert_eq!(answer.private_data, b"mine");
        client.establish().unwrap();
        pair.server.expect(CmEventKind::Established);
        server.disconnect().unwrap();
        pair.client.expect(CmEventKind::Disconnected);
        client.disconnect().unwrap();
        pair.server.expect(CmEventKind::Disconnected);
        client.destroy().unwrap();
        server.destroy().unwrap();
    }
}

#[test]
fn a_program_may_move_its_queue_pair_itself() {
    use softverbs::{CompletionQueue, QueuePair};

    let pair = Pair::simulated(6, DeviceKind::Roce);
    let queue_pair = |host: &crate::common::Host| {
        let cq = CompletionQueue::create(&host.context, 16, None).unwrap();
        let options = crate::common::options_over(&cq, true);
        (QueuePair::create(&host.pd, options).unwrap(), cq)
    };
    let advance = |id: &CmId, qp: &std::sync::Arc<QueuePair>, states: &[QpState]| {
        for state in states {
            let (attributes, mask) = id.init_qp_attributes(*state).unwrap();
            qp.modify(&attributes, mask).unwrap();
        }
    };
    let (_listener, address) = pair.server.listen();
    let client = pair.client.resolved(address);
    let (qp, cq) = queue_pair(&pair.client);
    advance(&client, &qp, &[QpState::Init]);
    let named = ConnParameters {
        qp_num: qp.number(),
        ..parameters(b"")
    };
    client.connect(&named).unwrap();
    let (server, _) = pair.server.request();
    let (server_qp, server_cq) = queue_pair(&pair.server);
    let states = [QpState::Init, QpState::Rtr, QpState::Rts];
    advance(&server, &server_qp, &states);
    server_qp.post_receive(3, &[]).unwrap();
    // Before the connection is established: between RTS and the accept, and after the accept.
    qp.post_receive(5, &[]).unwrap();
    qp.post_receive(6, &[]).unwrap();
    let empty = |wr_id| softverbs::SendRequest {
        signaled: false,
        ..send_of(wr_id, softverbs::SendData::Sges(&[]))
    };
    server_qp.post_send(&empty(7)).unwrap();
    server.accept(&parameters(b"")).unwrap();
    server_qp.post_send(&empty(8)).unwrap();
    pair.client.expect(CmEventKind::ConnectResponse);
    advance(&client, &qp, &states[1..]);
    client.establish().unwrap();
    pair.server.expect(CmEventKind::Established);
    qp.post_send(&empty(1)).unwrap();
    for (cq, mut expected) in [(&cq, vec![1, 5, 6]), (&server_cq, vec![3, 7, 8])] {
        while !expected.is_empty() {
            let mut completions = [softverbs::WorkCompletion::default(); 4];
            let taken = cq.poll(&mut completions);
            for completion in &completions[..taken] {
                assert_eq!(completion.status, WcStatus::Success);
                expected.retain(|wr_id| *wr_id != completion.wr_id);
            }
        }
    }
}

#[test]
fn an_iwarp_adapter_connects_the_queue_pair_that_the_program_names() {
    use crate::common::Host;
    use softverbs::{CompletionQueue, QueuePair, SendRequest};

    let pair = Pair::simulated(11, DeviceKind::Iwarp);
    let queue_pair = |host: &Host, id: &CmId| {
        let cq = CompletionQueue::create(&host.context, 16, None).unwrap();
        let options = crate::common::options_over(&cq, true);
        let qp = QueuePair::create(&host.pd, options).unwrap();
        let (attributes, mask) = id.init_qp_attributes(QpState::Init).unwrap();
        qp.modify(&attributes, mask).unwrap();
        (qp, cq)
    };
    let named = |qp: &QueuePair| ConnParameters {
        qp_num: qp.number(),
        ..parameters(b"")
    };
    let (_listener, address) = pair.server.listen();
    let client = pair.client.resolved(address);
    let (qp, cq) = queue_pair(&pair.client, &client);
    client.connect(&named(&qp)).unwrap();
    let (server, _) = pair.server.request();
    let (server_qp, server_cq) = queue_pair(&pair.server, &server);
    server_qp.post_receive(3, &[]).unwrap();
    server.accept(&named(&server_qp)).unwrap();
    pair.client.expect(CmEventKind::Established);
    pair.server.expect(CmEventKind::Established);
    let states = (qp.state(), server_qp.state());
    assert_eq!(states, (QpState::Rts, QpState::Rts));
    let empty = SendRequest {
        signaled: false,
        ..send_of(1, softverbs::SendData::Sges(&[]))
    };
    qp.post_send(&empty).unwrap();
    for (cq, wr_id) in [(&cq, 1), (&server_cq, 3)] {
        let mut completions = [softverbs::WorkCompletion::default(); 2];
        while cq.poll(&mut completions) == 0 {}
        let status = (completions[0].wr_id, completions[0].status);
        assert_eq!(status, (wr_id, WcStatus::Success));
    }
    client.disconnect().unwrap();
    pair.server.expect(CmEventKind::Disconnected);
    assert_eq!(server_qp.state(), QpState::Err);
}

#[test]
fn calls_in_a_wrong_state_are_refused() {
    let pair = Pair::simulated(7, DeviceKind::Roce);
    let id = CmId::create(&pair.client.channel).unwrap();
    assert_eq!(errno(id.resolve_route()), Errno::INVAL);
    assert_eq!(errno(id.connect(&parameters(b""))), Errno::INVAL);
    assert_eq!(errno(id.accept(&parameters(b""))), Errno::INVAL);
    assert_eq!(errno(id.reject(b"")), Errno::INVAL);
    assert_eq!(errno(id.disconnect()), Errno::INVAL);
    assert_eq!(errno(id.establish()), Errno::INVAL);
    assert_eq!(errno(id.destroy_queue_pair()), Errno::INVAL);
    assert_eq!(errno(id.bind(([192, 0, 2, 1], 0).into())), Errno::NODEV);
    // No interface has an address of 0.0.0.0/8; fio listens there.
    let any = CmId::create(&pair.client.channel).unwrap();
    any.bind(([0, 0, 0, 49], 0).into()).unwrap();
    assert!(any.local().unwrap().ip().is_unspecified());
    drop(any);
    id.bind(([10, 0, 0, 1], 0).into()).unwrap();
    assert_ne!(id.local().unwrap().port(), 0);
    assert_eq!(errno(id.bind(([10, 0, 0, 1], 0).into())), Errno::INVAL);
    assert_eq!(errno(pair.client.channel.destroy()), Errno::BUSY);
    drop(id);
    pair.client.channel.destroy().unwrap();
}

#[test]
fn a_listener_that_goes_refuses_the_peers_whose_requests_wait() {
    let pair = Pair::simulated(8, DeviceKind::Roce);
    let (listener, address) = pair.server.listen();
    let client = pair.client.resolved(address);
    client.connect(&parameters(b"")).unwrap();
    let request = pair.server.event(CmEventKind::ConnectRequest);
    let other = pair.client.resolved(address);
    other.connect(&parameters(b"")).unwrap();
    assert_eq!(errno(drive(&pair)), Errno::DEADLK);
    assert!(pair.server.channel.has_event());
    assert_eq!(
        errno(listener.destroy()),
        Errno::DEADLK,
        "an event is not acknowledged"
    );
    let event = pair.client.event(CmEventKind::Rejected);
    assert!(std::sync::Arc::ptr_eq(event.id(), &other));
    let id = request.id().clone();
    request.acknowledge();
    listener.destroy().unwrap();
    // A request that the program has received belongs to the program.
    id.accept(&parameters(b"")).unwrap();
    pair.client.expect(CmEventKind::ConnectResponse);
}

/// Runs the simulation until nothing is left to happen, by waiting on a channel that never gets an event. Returns the result of this
/// wait: EDEADLK.
fn drive(pair: &Pair) -> softverbs::Result<softverbs::CmEvent> {
    let spare = softverbs::EventChannel::create(&pair.client.process).unwrap();
    spare.get_event()
}

#[test]
fn an_identifier_takes_its_events_to_another_channel() {
    let pair = Pair::simulated(9, DeviceKind::Roce);
    let id = CmId::create(&pair.client.channel).unwrap();
    id.resolve_addr(None, ([10, 0, 0, 2], 7).into()).unwrap();
    let other = softverbs::EventChannel::create(&pair.client.process).unwrap();
    id.migrate(Some(&other)).unwrap();
    assert!(!pair.client.channel.has_event() && other.has_event());
    let event = other.get_event().unwrap();
    assert_eq!(errno(id.migrate(Some(&pair.client.channel))), Errno::DEADLK);
    event.acknowledge();
    id.migrate(Some(&pair.client.channel)).unwrap();
    other.destroy().unwrap();
}

#[test]
fn a_listener_takes_the_requests_that_wait_to_another_channel() {
    let pair = Pair::simulated(12, DeviceKind::Roce);
    let (listener, address) = pair.server.listen();
    let client = pair.client.resolved(address);
    client.connect(&parameters(b"waits")).unwrap();
    assert_eq!(errno(drive(&pair)), Errno::DEADLK);
    assert!(pair.server.channel.has_event());
    let other = softverbs::EventChannel::create(&pair.server.process).unwrap();
    listener.migrate(Some(&other)).unwrap();
    // Neither the listener nor the new identifier uses the old channel.
    pair.server.channel.destroy().unwrap();
    let event = other.get_event().unwrap();
    assert_eq!(event.kind(), CmEventKind::ConnectRequest);
    let id = event.id().clone();
    event.acknowledge();
    assert!(std::sync::Arc::ptr_eq(&id.channel(), &other));
    id.accept(&parameters(b"")).unwrap();
    pair.client.expect(CmEventKind::ConnectResponse);
    client.establish().unwrap();
    let event = other.get_event().unwrap();
    assert_eq!(event.kind(), CmEventKind::Established);
    event.acknowledge();
}

#[test]
fn addresses_of_the_loopback_interface_resolve_to_the_first_device() {
    use softverbs::{EventChannel, Process, ProcessOptions};

    let process = Process::of_system(ProcessOptions::default()).unwrap();
    let channel = EventChannel::create(&process).unwrap();
    let listener = CmId::create(&channel).unwrap();
    // All addresses of both families.
    let has_ipv6 = listener.bind("[::]:0".parse().unwrap()).is_ok();
    if !has_ipv6 {
        listener.bind("0.0.0.0:0".parse().unwrap()).unwrap();
    }
    listener.listen(0).unwrap();
    let port = listener.local().unwrap().port();
    let expect = |kind| {
        let event = channel.get_event().unwrap();
        assert_eq!((event.kind(), event.status()), (kind, 0));
        let id = event.id().clone();
        event.acknowledge();
        id
    };
    for peer in ["127.0.0.1", "::1"] {
        let peer: std::net::IpAddr = peer.parse().unwrap();
        if peer.is_ipv6() && (!has_ipv6 || std::net::UdpSocket::bind((peer, 0)).is_err()) {
            continue; // this machine has only IPv4
        }
        let id = CmId::create(&channel).unwrap();
        id.resolve_addr(None, (peer, port).into()).unwrap();
        expect(CmEventKind::AddrResolved);
        let device = id.device().unwrap();
        assert_eq!(device.name(), "softnd0");
        id.resolve_route().unwrap();
        expect(CmEventKind::RouteResolved);
        id.connect(&parameters(b"")).unwrap();
        let server = expect(CmEventKind::ConnectRequest);
        assert_eq!(server.device().unwrap().name(), "softnd0");
        server.reject(b"").unwrap();
        let event = channel.get_event().unwrap();
        assert_eq!(event.kind(), CmEventKind::Rejected);
        event.acknowledge();
    }
}

/// A peer that speaks MPA revision 1 only closes on a Request of revision 2.
#[test]
fn a_port_that_the_program_has_bound_stays_when_a_peer_speaks_revision_1() {
    let host = Host::new(Process::of_system(ProcessOptions::default()).unwrap());
    let server = TcpListener::bind((host.address, 0)).unwrap();
    let address = server.local_addr().unwrap();
    let serves = thread::spawn(move || {
        let accept = |octets| {
            let (mut stream, peer) = server.accept().unwrap();
            let mut request = vec![0; octets];
            stream.read_exact(&mut request).unwrap();
            (stream, peer.port(), request[17])
        };
        let (first, port, revision) = accept(24);
        drop(first);
        let (mut second, again, fallen_back) = accept(20);
        second.write_all(b"MPA ID Rep Frame\x40\x01\0\0").unwrap();
        // A peer that is known to speak revision 1 only is asked for it at once.
        let (_third, _, remembered) = accept(20);
        ([port, again], [revision, fallen_back, remembered], second)
    });
    let id = CmId::create(&host.channel).unwrap();
    id.bind((host.address, 0).into()).unwrap();
    let bound = id.local().unwrap().port();
    let connect = |id: &CmId| {
        id.resolve_addr(None, address).unwrap();
        host.expect(CmEventKind::AddrResolved);
        id.resolve_route().unwrap();
        host.expect(CmEventKind::RouteResolved);
        id.connect(&parameters(b"")).unwrap();
    };
    connect(&id);
    host.expect(CmEventKind::ConnectResponse);
    let other = CmId::create(&host.channel).unwrap();
    connect(&other);
    let (ports, revisions, _second) = serves.join().unwrap();
    assert_eq!((ports, revisions), ([bound; 2], [2, 1, 1]));
    for id in [id, other] {
        id.destroy().unwrap();
    }
}

#[test]
fn an_event_that_tells_of_a_failure_has_words() {
    let pair = Pair::simulated(14, DeviceKind::Roce);
    let client = pair.client.resolved(([10, 0, 0, 2], 7).into());
    client.connect(&parameters(b"")).unwrap();
    let event = pair.client.event(CmEventKind::Rejected);
    let cause = event.cause().unwrap();
    assert_eq!(cause.errno(), Errno::CONNREFUSED);
    let words = cause.to_string();
    assert!(
        words.starts_with("cannot connect to 10.0.0.2:7: "),
        "{words}"
    );
    event.acknowledge();
    client.destroy().unwrap();
}
