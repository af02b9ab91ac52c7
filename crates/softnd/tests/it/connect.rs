//! Connection set-up and disconnection.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;

use crate::common::raw::Peer;
use crate::common::{self, Caller, Side, connect, end, idle, pair, raw, run, status};
use netdirect::{CompletionPort, Overlapped, ReadLimits, Status};
use softnd::Options;

#[test]
fn conn_084_conn_080_private_data_and_read_limits_cross() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let (active_qp, passive_qp) = (active.queue_pair(), passive.queue_pair());
    let (here, there) = (active.connector(), passive.connector());
    let (arrives, connects, accepts) = (Overlapped::new(), Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&there, &arrives);
    let connecting = here.connect(&active_qp, address, 3, 500, b"who", &connects);
    end(arrival, &arrives).unwrap();
    assert_eq!(there.get_private_data().unwrap(), b"who");
    assert_eq!(
        there.get_read_limits().unwrap(),
        ReadLimits {
            inbound: 128,
            outbound: 3
        }
    );
    assert_eq!(
        there.get_peer_address().unwrap(),
        here.get_local_address().unwrap()
    );
    assert_eq!(
        status(there.notify_disconnect(&Overlapped::new())),
        Status::CONNECTION_INVALID
    );
    let accepting = there.accept(&passive_qp, 7, 9, b"me", &accepts);
    end(connecting, &connects).unwrap();
    assert_eq!(here.get_private_data().unwrap(), b"me");
    assert_eq!(
        here.get_read_limits().unwrap(),
        ReadLimits {
            inbound: 3,
            outbound: 7
        }
    );
    assert_eq!(here.get_peer_address().unwrap(), address);
    assert!(
        accepts.is_pending(),
        "Accept waits for CompleteConnect (CONN-051)"
    );
    run(|overlapped| here.complete_connect(overlapped)).unwrap();
    end(accepting, &accepts).unwrap();
    assert_eq!(
        status(here.connect(&active_qp, address, 0, 0, b"", &Overlapped::new())),
        Status::CONNECTION_ACTIVE
    );
}

#[test]
fn tst_055_both_sides_disconnect_and_both_succeed() {
    let pair = pair();
    let (one, other) = (Overlapped::new(), Overlapped::new());
    let notified = Overlapped::new();
    let _ = pair.passive_connector.notify_disconnect(&notified).unwrap();
    let first = pair.active_connector.disconnect(&one);
    let second = pair.passive_connector.disconnect(&other);
    end(first, &one).unwrap();
    end(second, &other).unwrap();
    assert_eq!(notified.wait_timeout(common::LONG), Some(Status::SUCCESS));
    assert_eq!(
        status(pair.active_connector.disconnect(&Overlapped::new())),
        Status::CONNECTION_INVALID
    );
    run(|overlapped| pair.active_connector.notify_disconnect(overlapped)).unwrap();
}

#[test]
fn tst_086_the_peers_disconnect_ends_posted_receives() {
    let pair = pair();
    pair.passive_qp.receive(5, &[]).unwrap();
    let notified = Overlapped::new();
    let _ = pair.passive_connector.notify_disconnect(&notified).unwrap();
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    assert_eq!(notified.wait_timeout(common::LONG), Some(Status::SUCCESS));
    let result = pair.passive.result();
    assert_eq!(
        (result.status, result.request_context),
        (Status::CANCELED, 5)
    );
    run(|overlapped| pair.passive_connector.disconnect(overlapped)).unwrap(); // TST-043
}

#[test]
fn conn_116_releasing_the_queue_pair_disconnects() {
    let pair = pair();
    let notified = Overlapped::new();
    let _ = pair.passive_connector.notify_disconnect(&notified).unwrap();
    drop(pair.active_qp);
    assert_eq!(notified.wait_timeout(common::LONG), Some(Status::SUCCESS));
}

fn offered() -> (
    Side,
    Side,
    std::sync::Arc<dyn netdirect::Connector>,
    std::sync::Arc<dyn netdirect::Connector>,
    Overlapped,
) {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let (here, there) = (active.connector(), passive.connector());
    let (arrives, connects) = (Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&there, &arrives);
    let qp = active.queue_pair();
    let _ = here.connect(&qp, address, 1, 1, b"", &connects).unwrap();
    end(arrival, &arrives).unwrap();
    std::mem::forget((qp, listener));
    (active, passive, here, there, connects)
}

#[test]
fn iw_016_the_passive_side_rejects_with_private_data() {
    let (_active, _passive, here, there, connects) = offered();
    there.reject(b"not today").unwrap();
    assert_eq!(
        connects.wait_timeout(common::LONG),
        Some(Status::CONNECTION_REFUSED)
    );
    assert_eq!(here.get_private_data().unwrap(), b"not today");
}

#[test]
fn tst_065_the_active_side_rejects_an_answer() {
    let (_active, passive, here, there, connects) = offered();
    let qp = passive.queue_pair();
    let accepts = Overlapped::new();
    let accepting = there.accept(&qp, 0, 0, b"", &accepts);
    assert_eq!(connects.wait_timeout(common::LONG), Some(Status::SUCCESS));
    here.reject(b"").unwrap();
    assert_eq!(end(accepting, &accepts), Err(Status::CONNECTION_REFUSED));
}

#[test]
fn tst_066_releasing_an_answered_connector_is_a_refusal() {
    let (_active, passive, here, there, connects) = offered();
    let qp = passive.queue_pair();
    let accepts = Overlapped::new();
    let accepting = there.accept(&qp, 0, 0, b"", &accepts);
    assert_eq!(connects.wait_timeout(common::LONG), Some(Status::SUCCESS));
    drop(here);
    assert_eq!(end(accepting, &accepts), Err(Status::CONNECTION_REFUSED));
}

#[test]
fn conn_035_cancelling_a_connect_aborts_the_request() {
    let (_active, passive, here, there, connects) = offered();
    here.cancel_overlapped_requests().unwrap();
    assert_eq!(connects.status(), Status::CANCELED);
    let qp = passive.queue_pair();
    assert_eq!(
        run(|overlapped| there.accept(&qp, 0, 0, b"", overlapped)),
        Err(Status::CONNECTION_ABORTED)
    );
}

#[test]
fn conn_023_nobody_listening_is_a_refusal_and_may_be_repeated() {
    let side = Side::new();
    let (nobody, address) = raw::server();
    drop(nobody);
    let (qp, connector) = (side.queue_pair(), side.connector());
    for _ in 0..2 {
        let refused = run(|overlapped| connector.connect(&qp, address, 0, 0, b"", overlapped));
        assert_eq!(refused, Err(Status::CONNECTION_REFUSED));
    }
}

/// CONN-021: a connector that is bound to a loopback address reaches no other network.
#[test]
fn conn_021_no_route_is_an_unreachable_network() {
    let routed = std::fs::read_to_string("/proc/sys/net/ipv4/conf/all/route_localnet");
    if !common::SIMULATED && routed.is_ok_and(|routed| routed.trim() != "0") {
        return common::skip("this machine routes loopback addresses");
    }
    let side = Side::new();
    let (qp, connector) = (side.queue_pair(), side.connector());
    let to: SocketAddr = "198.51.100.1:9".parse().unwrap();
    for _ in 0..2 {
        assert_eq!(
            run(|overlapped| connector.connect(&qp, to, 0, 0, b"", overlapped)),
            Err(Status::NETWORK_UNREACHABLE)
        );
    }
    // No route leads from one address family to the other.
    let to: SocketAddr = "[2001:db8::1]:9".parse().unwrap();
    let connector = side.connector();
    connector.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    assert_eq!(
        run(|overlapped| connector.connect(&qp, to, 0, 0, b"", overlapped)),
        Err(Status::NETWORK_UNREACHABLE)
    );
}

#[test]
fn amb_032_the_unspecified_address_is_a_bad_network_name() {
    let side = Side::new();
    let (qp, connector) = (side.queue_pair(), side.connector());
    let to: SocketAddr = "0.0.0.0:1".parse().unwrap();
    assert_eq!(
        run(|overlapped| connector.connect(&qp, to, 0, 0, b"", overlapped)),
        Err(Status::BAD_NETWORK_NAME)
    );
}

#[test]
fn tst_077_private_data_that_is_too_long_leaves_the_connector_usable() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let limit = active.adapter.query().unwrap().max_caller_data as usize;
    let (qp, here, there) = (active.queue_pair(), active.connector(), passive.connector());
    let long = vec![1; limit + 1];
    let refused = run(|overlapped| here.connect(&qp, address, 0, 0, &long, overlapped));
    assert_eq!(refused, Err(Status::INVALID_BUFFER_SIZE));
    let (arrives, connects) = (Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&there, &arrives);
    let _ = here
        .connect(&qp, address, 0, 0, &long[..limit], &connects)
        .unwrap();
    end(arrival, &arrives).unwrap();
    assert_eq!(there.get_private_data().unwrap(), &long[..limit]);
    let passive_qp = passive.queue_pair();
    let refused = run(|overlapped| there.accept(&passive_qp, 0, 0, &long, overlapped)); // TST-078
    assert_eq!(refused, Err(Status::INVALID_BUFFER_SIZE));
    let _ = there
        .accept(&passive_qp, 0, 0, &long[..limit], &Overlapped::new())
        .unwrap();
    assert_eq!(connects.wait_timeout(common::LONG), Some(Status::SUCCESS));
    assert_eq!(here.get_private_data().unwrap().len(), limit);
}

/// AMB-005: an error found before anything is sent leaves the connector unchanged. Here, the Overlapped is in flight already.
#[test]
fn amb_005_an_overlapped_in_flight_leaves_the_connector_as_it_was() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let (busy, other) = (Overlapped::new(), passive.connector());
    let _ = listener.get_connection_request(&other, &busy).unwrap();
    let bind = |connector: &std::sync::Arc<dyn netdirect::Connector>| {
        status(connector.bind("127.0.0.1:0".parse().unwrap()))
    };
    let (qp, here, there) = (active.queue_pair(), active.connector(), passive.connector());
    let connect = |overlapped: &_| here.connect(&qp, address, 0, 0, b"", overlapped);

    // The connector was not bound before the call, and is not bound after it.
    assert_eq!(status(connect(&busy)), Status::INVALID_PARAMETER_MIX);
    assert_eq!(status(here.get_local_address()), Status::CONNECTION_INVALID);
    assert_eq!(bind(&here), Status::SUCCESS);
    // The connector was bound before the call, and is bound to the same address after it.
    let bound = here.get_local_address().unwrap();
    assert_eq!(status(connect(&busy)), Status::INVALID_PARAMETER_MIX);
    assert_eq!(here.get_local_address().unwrap(), bound);
    assert_eq!(bind(&here), Status::ADDRESS_ALREADY_ASSOCIATED);
    // After a failed attempt the connector may be bound again (AMB-034). The refused call does not change that.
    drop((listener, other));
    assert_eq!(run(connect), Err(Status::CONNECTION_REFUSED));
    let (listener, address) = passive.listener(0);
    let other = passive.connector();
    let _ = listener.get_connection_request(&other, &busy).unwrap();
    let connect = |overlapped: &_| here.connect(&qp, address, 0, 0, b"", overlapped);
    assert_eq!(status(connect(&busy)), Status::INVALID_PARAMETER_MIX);
    assert_eq!(bind(&here), Status::SUCCESS);
    listener.cancel_overlapped_requests().unwrap();

    let (arrives, connects) = (Overlapped::new(), Overlapped::new());
    let arrival = listener.get_connection_request(&there, &arrives);
    let _ = connect(&connects).unwrap();
    end(arrival, &arrives).unwrap();
    let _ = listener.get_connection_request(&other, &busy).unwrap();
    let passive_qp = passive.queue_pair();
    let accept = |overlapped: &_| there.accept(&passive_qp, 0, 0, b"", overlapped);
    assert_eq!(status(accept(&busy)), Status::INVALID_PARAMETER_MIX);
    let accepts = Overlapped::new();
    let accepting = accept(&accepts);
    end(Ok(netdirect::Started::Pending), &connects).unwrap();
    let complete = |overlapped: &_| here.complete_connect(overlapped);
    let own = Overlapped::new();
    let waiting = active.connector();
    let (own_listener, _) = active.listener(0);
    let _ = own_listener.get_connection_request(&waiting, &own).unwrap();
    assert_eq!(status(complete(&own)), Status::INVALID_PARAMETER_MIX);
    run(complete).unwrap();
    end(accepting, &accepts).unwrap();
    let disconnect = |overlapped: &_| here.disconnect(overlapped);
    assert_eq!(status(disconnect(&own)), Status::INVALID_PARAMETER_MIX);
    run(disconnect).unwrap();
}

#[test]
fn conn_023_a_peer_that_does_not_speak_mpa_is_a_refusal() {
    let side = Side::new();
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &[0x80, 0x11, 0x22],
        b"MPA ID Rep", // and the end
    ] {
        let (server, address) = raw::server();
        let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
        let connecting = connector.connect(&qp, address, 0, 0, b"", &connects);
        let mut stream = server.accept();
        stream.receive(20);
        stream.write_all(answer).unwrap();
        let _ = stream.shutdown();
        stream.rest();
        let failed = end(connecting, &connects);
        assert_eq!(failed, Err(Status::CONNECTION_REFUSED));
    }
}

#[test]
fn x15_a_client_that_is_not_iwarp_is_closed_and_the_listener_goes_on() {
    let passive = Side::new();
    let (listener, address) = passive.listener(0);
    let mut client = raw::dial(address);
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(client.rest(), b"");
    let pair = connect(Side::new(), passive, 1);
    drop((pair, listener));
}

#[test]
fn iw_055_requests_beyond_the_backlog_are_refused() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(1);
    let requests: Vec<_> = (0..3)
        .map(|_| {
            let (qp, connector, overlapped) =
                (active.queue_pair(), active.connector(), Overlapped::new());
            let _ = connector
                .connect(&qp, address, 0, 0, b"", &overlapped)
                .unwrap();
            (qp, connector, overlapped)
        })
        .collect();
    // Two of the three requests are refused, in any order. The third one waits.
    let refused = || {
        requests
            .iter()
            .filter(|(_, _, request)| request.status() == Status::CONNECTION_REFUSED)
            .count()
    };
    while refused() < 2 {
        for (_, _, request) in &requests {
            request.poll();
        }
        idle();
    }
    assert_eq!(
        requests
            .iter()
            .filter(|(_, _, request)| request.is_pending())
            .count(),
        1
    );
    drop(listener); // LSTN-033: queued requests are refused as well
    for (_, _, request) in &requests {
        assert_eq!(
            request.wait_timeout(common::LONG),
            Some(Status::CONNECTION_REFUSED)
        );
    }
}

/// A peer of 127.0.0.`host` that has sent a whole Request, and waits for the Reply.
fn asking(host: u8, to: SocketAddr) -> Peer {
    let mut peer = raw::dial_from([127, 0, 0, host].into(), to);
    peer.write_all(b"MPA ID Req Frame\0\x01\0\0").unwrap();
    peer
}

/// Takes out the peers that were refused, and returns their number.
fn take_refused(peers: &mut Vec<Peer>) -> usize {
    let before = peers.len();
    // A refusal is a Reply. None of these peers is accepted.
    peers.retain_mut(|peer| {
        let read = peer.try_read(&mut [0; 64]);
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    });
    before - peers.len()
}

/// Waits until this many were refused, and takes them out.
fn wait_for_refusals(peers: &mut Vec<Peer>, mut count: usize) {
    let hang = common::now() + common::LONG;
    while count > 0 {
        assert!(common::now() < hang, "{count} more were to be refused");
        count -= take_refused(peers).min(count);
        idle();
    }
}

#[test]
fn iw_055_in_a_full_backlog_an_address_with_fewer_takes_the_place_of_the_one_with_the_most() {
    let side = Side::new();
    let (listener, address) = side.listener(4);
    let mut many: Vec<_> = (0..10).map(|_| asking(2, address)).collect();
    wait_for_refusals(&mut many, 6);
    let mut others = vec![asking(3, address)];
    wait_for_refusals(&mut many, 1);
    others.push(asking(4, address));
    wait_for_refusals(&mut many, 1);
    // Now 127.0.0.2 has two places, and further peers of it are refused.
    many.push(asking(2, address));
    wait_for_refusals(&mut many, 1);
    // A second peer of 127.0.0.3 has fewer places than 127.0.0.2, a third one does not.
    others.push(asking(3, address));
    wait_for_refusals(&mut many, 1);
    let mut third = vec![asking(3, address)];
    wait_for_refusals(&mut third, 1);
    assert_eq!((many.len(), take_refused(&mut many)), (1, 0));
    assert_eq!((others.len(), take_refused(&mut others)), (3, 0));
    let mut hosts: Vec<_> = (0..4)
        .map(|_| {
            let (connector, arrives) = (side.connector(), Overlapped::new());
            end(
                listener.get_connection_request(&connector, &arrives),
                &arrives,
            )
            .unwrap();
            connector.get_peer_address().unwrap().ip().to_string()
        })
        .collect();
    hosts.sort();
    assert_eq!(hosts, ["127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.4"]);
}

#[test]
fn iw_055_a_flood_of_requests_from_one_address_keeps_no_other_out() {
    const PLACES: usize = 8;
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(PLACES.try_into().unwrap());
    let mut flood = Vec::new();
    for _ in 0..6 {
        // Five times as many as there is room for, and the client comes after them.
        let mut wave: Vec<_> = (0..5 * PLACES).map(|_| asking(2, address)).collect();
        let room = PLACES - flood.len();
        wait_for_refusals(&mut wave, 5 * PLACES - room);
        flood.append(&mut wave);
        let (qp, connector) = (active.queue_pair(), active.connector());
        let connects = Overlapped::new();
        let connecting = connector.connect(&qp, address, 0, 0, b"honest", &connects);
        wait_for_refusals(&mut flood, 1);
        // The server takes one after the other until it has the client.
        let there = loop {
            let (there, arrives) = (passive.connector(), Overlapped::new());
            end(listener.get_connection_request(&there, &arrives), &arrives).unwrap();
            if there.get_private_data().unwrap() == b"honest" {
                break there;
            }
            there.reject(b"").unwrap();
            wait_for_refusals(&mut flood, 1);
        };
        let (passive_qp, accepts) = (passive.queue_pair(), Overlapped::new());
        let accepting = there.accept(&passive_qp, 0, 0, b"", &accepts);
        end(connecting, &connects).unwrap();
        run(|overlapped| connector.complete_connect(overlapped)).unwrap();
        end(accepting, &accepts).unwrap();
        assert_eq!(take_refused(&mut flood), 0);
    }
}

#[test]
fn lstn_025_cancelling_ends_pending_requests_before_it_returns() {
    let side = Side::new();
    let port = CompletionPort::new();
    side.file.associate(&port, 3).unwrap();
    let (listener, _) = side.listener(0);
    let (connector, overlapped) = (side.connector(), Overlapped::new());
    let _ = listener
        .get_connection_request(&connector, &overlapped)
        .unwrap();
    listener.cancel_overlapped_requests().unwrap();
    let packet = port
        .get(Some(std::time::Duration::ZERO))
        .expect("a packet at once");
    assert_eq!((packet.key, packet.status), (3, Status::CANCELED));
    // The connector is unchanged.
    let _ = listener
        .get_connection_request(&connector, &overlapped)
        .unwrap();
}

#[test]
fn lstn_025_releasing_a_connector_that_waits_ends_its_request_at_once() {
    let side = Side::new();
    let port = CompletionPort::new();
    side.file.associate(&port, 3).unwrap();
    let (listener, _) = side.listener(0);
    let (released, stays) = (side.connector(), side.connector());
    let (ends, goes_on) = (Overlapped::new(), Overlapped::new());
    let _ = listener.get_connection_request(&released, &ends).unwrap();
    let _ = listener.get_connection_request(&stays, &goes_on).unwrap();
    drop(released);
    let packet = port
        .get(Some(std::time::Duration::ZERO))
        .expect("a packet at once");
    assert!(packet.overlapped.is_some_and(|ended| ended.is_same(&ends)));
    assert_eq!(packet.status, Status::CANCELED);
    assert!(goes_on.is_pending());
}

#[test]
fn lstn_025_a_connector_is_withdrawn_and_others_wait_on() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let (here, there) = (passive.connector(), passive.connector());
    let refused = listener.withdraw(&here);
    assert_eq!(status(refused), Status::CONNECTION_INVALID);
    let (one, other) = (Overlapped::new(), Overlapped::new());
    let _ = listener.get_connection_request(&here, &one).unwrap();
    let _ = listener.get_connection_request(&there, &other).unwrap();
    listener.withdraw(&here).unwrap();
    assert_eq!(one.status(), Status::CANCELED);
    assert!(other.is_pending());
    let _first = Caller::new(&active, address, b"first");
    assert_eq!(other.wait_timeout(common::LONG), Some(Status::SUCCESS));
    assert_eq!(there.get_private_data().unwrap(), b"first");
    // The connector is unchanged.
    let _ = listener.get_connection_request(&here, &one).unwrap();
    let _second = Caller::new(&active, address, b"second");
    assert_eq!(one.wait_timeout(common::LONG), Some(Status::SUCCESS));
    assert_eq!(here.get_private_data().unwrap(), b"second");
}

#[test]
fn lstn_025_a_peer_that_had_come_already_is_the_next_ones() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let (here, there) = (passive.connector(), passive.connector());
    let first = Caller::new(&active, address, b"first");
    run(|overlapped| listener.get_connection_request(&here, overlapped)).unwrap();
    let _second = Caller::new(&active, address, b"second");
    let elsewhere = passive.listener(0).0;
    let refused = elsewhere.withdraw(&here);
    assert_eq!(status(refused), Status::CONNECTION_INVALID);
    listener.withdraw(&here).unwrap();
    assert_eq!(status(here.get_private_data()), Status::CONNECTION_INVALID);
    assert_eq!(status(here.get_local_address()), Status::CONNECTION_INVALID);

    // The withdrawn peer is first in line, although another peer has arrived since, and can be accepted.
    run(|overlapped| listener.get_connection_request(&there, overlapped)).unwrap();
    assert_eq!(there.get_private_data().unwrap(), b"first");
    let qp = passive.queue_pair();
    let accepts = Overlapped::new();
    let _ = there.accept(&qp, 0, 0, b"", &accepts).unwrap();
    let answered = first.connects.wait_timeout(common::LONG);
    assert_eq!(answered, Some(Status::SUCCESS));
    let refused = listener.withdraw(&there);
    assert_eq!(
        status(refused),
        Status::CONNECTION_INVALID,
        "it was answered"
    );
    run(|overlapped| listener.get_connection_request(&here, overlapped)).unwrap();
    assert_eq!(here.get_private_data().unwrap(), b"second");
}

#[test]
fn lstn_025_a_connector_whose_peer_has_gone_is_withdrawn_too() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let here = passive.connector();
    let gone = Caller::new(&active, address, b"gone");
    run(|overlapped| listener.get_connection_request(&here, overlapped)).unwrap();
    drop(gone);
    let _caller = Caller::new(&active, address, b"still here");
    loop {
        listener.withdraw(&here).unwrap();
        run(|overlapped| listener.get_connection_request(&here, overlapped)).unwrap();
        // The first peer stays first in line until its end has arrived here.
        if here.get_private_data().unwrap() == b"still here" {
            break;
        }
        idle();
    }
}

#[test]
fn lstn_011_lstn_017_bind_and_listen_once() {
    let side = Side::new();
    let listener = side.adapter.create_listener(&side.file).unwrap();
    assert_eq!(
        status(listener.get_local_address()),
        Status::INVALID_DEVICE_STATE
    );
    assert_eq!(status(listener.listen(0)), Status::INVALID_DEVICE_STATE);
    listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.get_local_address().unwrap(); // AMB-067
    assert_eq!(
        status(listener.bind(address)),
        Status::ADDRESS_ALREADY_ASSOCIATED
    );
    listener.listen(0).unwrap();
    assert_eq!(status(listener.listen(0)), Status::INVALID_DEVICE_STATE);
    let second = side.adapter.create_listener(&side.file).unwrap();
    assert_eq!(status(second.bind(address)), Status::SHARING_VIOLATION); // AMB-029
    assert_eq!(
        status(side.connector().bind(address)),
        Status::SHARING_VIOLATION
    ); // AMB-030
}

#[test]
fn lstn_010_the_wildcard_listens_on_the_adapters_addresses() {
    let passive = Side::new();
    let listener = passive.adapter.create_listener(&passive.file).unwrap();
    listener.bind("0.0.0.0:0".parse().unwrap()).unwrap();
    listener.listen(0).unwrap();
    let port = listener.get_local_address().unwrap().port();
    raw::dial(([127, 0, 0, 1], port).into());
}

#[test]
fn amb_035_a_queue_pair_is_not_used_twice() {
    let pair = pair();
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    let (_listener, address) = pair.passive.listener(0);
    let again = pair.active.connector();
    let refused = run(|overlapped| again.connect(&pair.active_qp, address, 0, 0, b"", overlapped));
    assert_eq!(refused, Err(Status::INVALID_DEVICE_STATE));
    let posted = pair.active_qp.send(0, &[], netdirect::OpFlags::empty());
    assert_eq!(status(posted), Status::CONNECTION_INVALID);
    pair.active_qp.receive(4, &[]).unwrap(); // AMB-047
    assert_eq!(pair.active.result().status, Status::CANCELED);
}

#[test]
fn iw_054_connections_in_quick_succession() {
    let (active, passive) = (Side::new(), Side::new());
    let (mut active, mut passive) = (active, passive);
    for _ in 0..200 {
        let pair = connect(active, passive, 1);
        let (one, other) = (Overlapped::new(), Overlapped::new());
        let first = pair.active_connector.disconnect(&one);
        let second = pair.passive_connector.disconnect(&other);
        end(first, &one).unwrap();
        end(second, &other).unwrap();
        (active, passive) = (pair.active, pair.passive);
    }
}

#[test]
fn iw_005_without_a_third_message_accept_ends_with_the_reply() {
    let pair = common::pair_with(Options::default().peer_to_peer(false), Options::default());
    let there = pair.active.region(16, common::ALL);
    pair.active_qp.receive(1, &[there.sge(0, 16)]).unwrap();
    pair.passive_qp
        .send_inline(2, &[b"held back"], netdirect::OpFlags::empty())
        .unwrap();
    // CompleteConnect sends its zero-length Write in any case. The passive side's Send leaves when this Write has arrived.
    assert_eq!(pair.active.result().bytes_transferred, 9);
}

#[test]
fn lstn_032_a_request_survives_the_release_of_the_connector_that_waited_for_it() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    let released = passive.connector();
    let never = Overlapped::new();
    let _ = listener.get_connection_request(&released, &never).unwrap();
    drop(released);
    let (qp, connector, connects) = (active.queue_pair(), active.connector(), Overlapped::new());
    let _ = connector
        .connect(&qp, address, 0, 0, b"still here", &connects)
        .unwrap();
    let there = passive.connector();
    run(|overlapped| listener.get_connection_request(&there, overlapped)).unwrap();
    assert_eq!(there.get_private_data().unwrap(), b"still here");
    assert_eq!(never.wait_timeout(common::LONG), Some(Status::CANCELED));
}
