//! Events of QUIC connections, and their effects on the streams.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use iwarp_io::transport::quic::preamble::{ErrorCode, TAKEN};
use netdirect::{MrFlags, OpFlags, Overlapped, Status};
use quinn_proto::{ConnectionError, Dir, TransportConfig};
use softnd::Options;
use softnd::security::{Credentials, Security, Trust};

use crate::common::{Side, connect, end, network, run, wait};
use crate::ends::{Call, Ends, accepted, active, active_with, frame, over, passive, serve, there};
use crate::peer::{End, Peer, Read, code};
use iwarp_io::setup::FrameKind;
use softnd::simulation::Chance;

const CLOSED: u64 = ErrorCode::Closed as u64;
const ABORTED: u64 = ErrorCode::Aborted as u64;

fn both(test: impl Fn(Ends)) {
    test(active());
    test(passive());
}

#[test]
fn a_connection_that_the_peer_closes_resets_its_streams() {
    both(|mut ends| {
        ends.is_reset_by(|peer, _| {
            let now = peer.now();
            let closed = code(ErrorCode::Closed);
            peer.only().quic.close(now, closed, b"".as_slice().into());
        });
    });
}

#[test]
fn a_peer_that_is_silent_is_lost_after_the_idle_timeout() {
    both(|mut ends| {
        let begun = network().time();
        ends.is_reset_by(|peer, _| peer.silent = true);
        let time = network().time() - begun;
        assert!(time >= Duration::from_secs(29), "{time:?}");
        assert!(time <= Duration::from_secs(45), "{time:?}");
    });
}

#[test]
fn the_opener_keeps_a_connection_alive() {
    for make in [active, passive] {
        let mut ends = make();
        let notice = Overlapped::new();
        let _ = ends.connector.notify_disconnect(&notice).unwrap();
        let begun = network().time();
        ends.peer
            .until_true(|_| network().time() - begun > Duration::from_secs(100));
        // An adapter that is the acceptor leaves this to its peer.
        let is_acceptor = ends.listener.is_some();
        assert_eq!(notice.is_pending(), !is_acceptor);
    }
}

#[test]
fn queue_pairs_share_one_connection_and_wait_for_the_peers_leave_to_open_streams() {
    const PERMITTED: usize = 100;
    const MORE: usize = 50;
    let side = Side::new();
    let mut peer = Peer::server(&network(), there(7174));
    let call = || Call::new(&side, there(7174));
    let mut calls = vec![call()];
    serve(&mut peer);
    assert_eq!(calls[0].end(&mut peer), Status::SUCCESS);
    calls.resize_with(PERMITTED + MORE, call);
    let serve_many = |peer: &mut Peer, count| {
        for _ in 0..count {
            serve(peer);
        }
    };
    serve_many(&mut peer, PERMITTED - 1);
    let connected = |calls: &[Call]| {
        let connected = |call: &&Call| call.connects.poll() == Status::SUCCESS;
        calls.iter().filter(connected).count()
    };
    // For longer than a stream without an answer waits before another connection is tried.
    for _ in 0..300 {
        network().pass(Duration::from_millis(10));
        peer.drive();
    }
    assert_eq!(connected(&calls), PERMITTED);
    let streams = u32::try_from(calls.len()).unwrap();
    let quic = &mut peer.only().quic;
    quic.set_max_concurrent_streams(Dir::Bi, streams.into());
    serve_many(&mut peer, MORE);
    peer.until_true(|_| connected(&calls) == calls.len());
    peer.only();
}

#[test]
fn an_answer_may_take_two_round_trips_of_a_slow_path() {
    let slow = Duration::from_secs(1);
    network().change(|conditions| conditions.latency = slow..=slow);
    let side = Side::new();
    let mut peer = Peer::server(&network(), there(7174));
    for _ in 0..2 {
        let call = Call::new(&side, there(7174));
        serve(&mut peer);
        assert_eq!(call.end(&mut peer), Status::SUCCESS);
    }
    peer.only();
}

#[test]
fn a_connect_waits_for_room_that_others_have_taken_and_needs_no_other_connection() {
    const ROOM: u32 = 64 * 1024;
    let security = Security::default();
    let mut server = security.server_config().unwrap();
    let mut transport = TransportConfig::default();
    transport.receive_window(ROOM.into());
    server.transport_config(Arc::new(transport));
    let endpoint = security.endpoint_config().unwrap();
    let peer = Peer::new(&network(), there(7174), endpoint, Some(server));
    let mut ends = active_with(peer);
    // Octets that the peer does not read.
    let data = ends.side.region(2 * ROOM as usize, MrFlags::empty());
    let sge = data.sge(0, 2 * ROOM as usize);
    ends.qp.send(1, &[sge], OpFlags::empty()).unwrap();
    let pass = |peer: &mut Peer| {
        for _ in 0..200 {
            network().pass(Duration::from_millis(10));
            peer.drive();
        }
    };
    pass(&mut ends.peer);
    let call = Call::new(&ends.side, there(7174));
    pass(&mut ends.peer);
    let known = ends.peer.only();
    assert_eq!(known.quic.streams().accept(Dir::Bi), None);
    // More octets than the message, with headers.
    ends.peer.read_exact(ends.stream, 2 * ROOM as usize);
    serve(&mut ends.peer);
    assert_eq!(call.end(&mut ends.peer), Status::SUCCESS);
    ends.peer.only();
}

/// The peer's process has been killed. Unlike with TCP, the system does not report this.
#[test]
fn a_peer_that_was_killed_is_noticed_after_the_idle_timeout_and_refuses_new_connections_at_once() {
    let ends = active();
    let to = ends.peer.socket.local();
    let notice = Overlapped::new();
    ends.qp.receive(1, &[]).unwrap();
    ends.qp.send(2, &[], netdirect::OpFlags::empty()).unwrap();
    let _ = ends.connector.notify_disconnect(&notice).unwrap();
    drop(ends.peer);
    let begun = network().time();
    let call = Call::new(&ends.side, to);
    assert_eq!(call.end_alone(), Status::CONNECTION_REFUSED);
    let time = network().time() - begun;
    assert!(time < Duration::from_secs(1), "{time:?}");
    assert!(notice.is_pending());
    assert_eq!(wait(&notice), Status::SUCCESS);
    let time = network().time() - begun;
    assert!(time < Duration::from_secs(45), "{time:?}");
    let results = ends.side.results(2);
    let result_of = |context| {
        results
            .iter()
            .find(|result| result.request_context == context)
    };
    assert_eq!(result_of(1).unwrap().status, Status::CANCELED);
    assert!(result_of(2).is_some());
}

/// A peer that has restarted and still has the key of its stateless resets.
#[test]
fn a_stateless_reset_is_a_reset_at_once() {
    let security = Security::default();
    let mut config = security.endpoint_config().unwrap();
    // Only connection IDs that an endpoint may have given out are answered with a reset.
    config.cid_generator(|| Box::new(quinn_proto::HashedConnectionIdGenerator::from_key(7)));
    let server = security.server_config().unwrap();
    let address = there(7174);
    let peer = Peer::new(&network(), address, config.clone(), Some(server.clone()));
    let mut ends = active_with(peer);
    let begun = network().time();
    let notice = Overlapped::new();
    ends.qp.receive(1, &[]).unwrap();
    let _ = ends.connector.notify_disconnect(&notice).unwrap();
    drop(ends.peer);
    ends.peer = Peer::new(&network(), address, config, Some(server));
    ends.qp
        .send_inline(2, &[&[0; 64]], netdirect::OpFlags::empty())
        .unwrap();
    assert_eq!(over(&mut ends.peer, &notice), Status::SUCCESS);
    let time = network().time() - begun;
    assert!(time < Duration::from_secs(5), "{time:?}");
    let results = ends.side.results(2);
    assert!(
        results
            .iter()
            .any(|result| result.request_context == 1 && result.status == Status::CANCELED)
    );
}

#[test]
fn conn_024_a_peer_that_never_answers_times_connect_out() {
    let mut peer = Peer::server(&network(), there(0));
    peer.silent = true;
    let begun = network().time();
    let call = Call::new(&Side::new(), peer.socket.local());
    assert_eq!(call.end(&mut peer), Status::IO_TIMEOUT);
    let time = network().time() - begun;
    assert!((20..23).contains(&time.as_secs()), "{time:?}");
}

#[test]
fn conn_023_a_peer_with_another_version_of_quic_refuses_connect() {
    let security = Security::default();
    let mut config = security.endpoint_config().unwrap();
    config.supported_versions(vec![0xFF00_001D]);
    let server = security.server_config().unwrap();
    let mut peer = Peer::new(&network(), there(0), config, Some(server));
    let call = Call::new(&Side::new(), peer.socket.local());
    assert_eq!(call.end(&mut peer), Status::CONNECTION_REFUSED);
}

/// The settings of an adapter, with the ALPN protocol of HTTP/3.
fn http() -> (quinn_proto::ClientConfig, quinn_proto::ServerConfig) {
    use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
    let key = rcgen::generate_simple_self_signed(["127.0.0.2".to_owned()]).unwrap();
    let certificates = vec![key.cert.der().clone()];
    let secret = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth();
    let mut server = server
        .with_single_cert(certificates, secret.into())
        .unwrap();
    server.alpn_protocols = vec![b"h3".to_vec()];
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h3".to_vec()];
    let client = QuicClientConfig::try_from(client).unwrap();
    let server = QuicServerConfig::try_from(server).unwrap();
    (
        quinn_proto::ClientConfig::new(Arc::new(client)),
        quinn_proto::ServerConfig::with_crypto(Arc::new(server)),
    )
}

#[test]
fn conn_023_a_peer_with_another_protocol_refuses_connect() {
    let config = Security::default().endpoint_config().unwrap();
    let mut peer = Peer::new(&network(), there(0), config, Some(http().1));
    let insecure = Options::default().security(Security::default().insecure());
    let call = Call::new(&Side::with(insecure), peer.socket.local());
    assert_eq!(call.end(&mut peer), Status::CONNECTION_REFUSED);
}

#[test]
fn a_client_with_another_protocol_reaches_no_listener() {
    let side = Side::new();
    let (_listener, address) = side.listener(0);
    let config = Security::default().endpoint_config().unwrap();
    let mut peer = Peer::new(&network(), there(0), config, None);
    peer.connect(address, http().0);
    match peer.until(|peer| peer.only().lost.clone()) {
        ConnectionError::ConnectionClosed(close) => {
            assert_eq!(u64::from(close.error_code), 0x178);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_client_with_another_version_of_quic_learns_the_right_one() {
    let side = Side::new();
    let (_listener, address) = side.listener(0);
    let mut config = Security::default().endpoint_config().unwrap();
    config.supported_versions(vec![0xFF00_001D]);
    let mut peer = Peer::new(&network(), there(0), config, None);
    let mut client = Security::default().client_config().unwrap();
    client.version(0xFF00_001D);
    peer.connect(address, client);
    let lost = peer.until(|peer| peer.only().lost.clone());
    assert_eq!(lost, ConnectionError::VersionMismatch);
}

/// The outcome of an attempt whose certificates do not match. Returns the words of the error.
fn refused(client: Security, server: Security) -> String {
    let (active, passive) = (
        Side::with(Options::default().security(client)),
        Side::with(Options::default().security(server)),
    );
    let (listener, address) = passive.listener(0);
    let (connector, arrives) = (passive.connector(), Overlapped::new());
    let arrival = listener.get_connection_request(&connector, &arrives);
    let call = Call::new(&active, address);
    assert_eq!(call.end_alone(), Status::CONNECTION_REFUSED);
    let error = call.connects.result().unwrap_err();
    assert_eq!(error.status(), Status::CONNECTION_REFUSED);
    network().pass(Duration::from_secs(1));
    assert!(arrives.is_pending(), "no request reaches the listener");
    listener.cancel_overlapped_requests().unwrap();
    assert_eq!(end(arrival, &arrives), Err(Status::CANCELED));
    error.what().to_owned()
}

#[test]
fn conn_023_a_certificate_that_is_not_trusted_refuses_connect_on_both_sides() {
    let other = || Credentials::generate().unwrap();
    let server = Security::default().credentials(other());
    let shown = server.fingerprint().unwrap().to_string();
    let what = refused(Security::default(), server);
    // The client's program can show the fingerprint to a person, who compares and pins it.
    assert!(what.contains(&shown), "{what}");
    let client = Security::default().credentials(other());
    let server = Security::default().demand_client_certificate(Trust::own_process());
    let what = refused(client, server);
    assert!(
        what.starts_with("the peer ended the connection: "),
        "{what}"
    );
}

#[test]
fn adapters_of_one_process_trust_each_other_also_where_certificates_are_demanded() {
    let demanding = Security::default().demand_client_certificate(Trust::own_process());
    let passive = Side::with(Options::default().security(demanding));
    connect(Side::new(), passive, 1);
}

#[test]
fn crossing_connects_of_two_adapters_are_two_connections() {
    let sides = [Side::new(), Side::new()];
    let listeners = [sides[0].listener(0), sides[1].listener(0)];
    let calls = [
        Call::new(&sides[0], listeners[1].1),
        Call::new(&sides[1], listeners[0].1),
    ];
    for passive in [0, 1] {
        let side = &sides[passive];
        let (connector, qp) = (side.connector(), side.queue_pair());
        run(|overlapped| {
            listeners[passive]
                .0
                .get_connection_request(&connector, overlapped)
        })
        .unwrap();
        let accepts = Overlapped::new();
        let _ = connector.accept(&qp, 1, 1, b"", &accepts).unwrap();
        let call = &calls[1 - passive];
        assert_eq!(call.end_alone(), Status::SUCCESS);
        run(|overlapped| call.connector.complete_connect(overlapped)).unwrap();
        assert_eq!(wait(&accepts), Status::SUCCESS);
        let peer = call.connector.get_local_address().unwrap();
        assert_eq!(connector.get_peer_address().unwrap(), peer);
    }
}

#[test]
fn a_peer_whose_address_changes_keeps_its_connections() {
    let mut ends = passive();
    let before = ends.connector.get_peer_address().unwrap();
    let first = ends.peer.socket.local();
    let moved = ends.peer.socket.rebind().unwrap();
    assert_ne!(first, moved);
    ends.qp.receive(1, &[]).unwrap();
    let send = [&[0x00, 0x12, 0x41, 0x43][..], &[0; 11], &[1], &[0; 8]].concat();
    ends.peer.write(ends.stream, &send);
    let mut results = [netdirect::CompletionResult::default()];
    let cq = ends.side.cq.clone();
    ends.peer.until_true(|_| cq.get_results(&mut results) == 1);
    assert_eq!(results[0].status, Status::SUCCESS);
    // The answer finds its way, too.
    ends.qp.send(2, &[], netdirect::OpFlags::empty()).unwrap();
    ends.peer.read_exact(ends.stream, 24);
    assert_eq!(ends.connector.get_peer_address().unwrap(), before);
}

/// A stream has the address that the peer had when the stream was opened.
#[test]
fn conn_101_a_peer_that_has_moved_to_another_address_is_known_by_it() {
    let mut ends = passive();
    let before = ends.connector.get_peer_address().unwrap();
    let listener = ends.listener.take().unwrap();
    let address = listener.get_local_address().unwrap();
    let elsewhere = SocketAddr::from(([127, 0, 0, 3], 0));
    ends.peer.socket = network().datagrams_raw(elsewhere).unwrap();
    ends.peer.only().quic.ping();
    network().pass(Duration::from_secs(1));
    ends.peer.drive();
    let (connector, arrives) = (ends.side.connector(), Overlapped::new());
    let _ = listener
        .get_connection_request(&connector, &arrives)
        .unwrap();
    let stream = ends.peer.open_with_preamble(0xC002, address.port());
    ends.peer.write(stream, &frame(FrameKind::Request));
    assert_eq!(over(&mut ends.peer, &arrives), Status::SUCCESS);
    let now = SocketAddr::from(([127, 0, 0, 3], 0xC002));
    assert_eq!(connector.get_peer_address().unwrap(), now);
    assert_eq!(ends.connector.get_peer_address().unwrap(), before);
}

#[test]
fn streams_to_one_socket_share_a_connection() {
    let mut ends = active();
    let to = ends.peer.socket.local();
    let call = Call::new(&ends.side, to);
    let (second, _) = serve(&mut ends.peer);
    assert_eq!(call.end(&mut ends.peer), Status::SUCCESS);
    ends.peer.only();
    assert!(ends.peer.connections.contains_key(&second));
}

/// A server that has restarted does not know the connection, and sends nothing on it.
#[test]
fn a_connection_without_an_answer_is_replaced_after_half_a_second() {
    let ends = active();
    let to = ends.peer.socket.local();
    drop(ends.peer);
    // Other settings: another key of stateless resets.
    let mut peer = Peer::server(&network(), to);
    let begun = network().time();
    let call = Call::new(&ends.side, to);
    serve(&mut peer);
    assert_eq!(call.end(&mut peer), Status::SUCCESS);
    let time = network().time() - begun;
    let range = Duration::from_millis(500)..Duration::from_secs(2);
    assert!(range.contains(&time), "{time:?}");
}

/// The acceptor closes a connection while a preamble is on its way to it.
#[test]
fn a_connection_that_ends_under_a_preamble_is_replaced() {
    let mut ends = active();
    let to = ends.peer.socket.local();
    let now = ends.peer.now();
    let call = Call::new(&ends.side, to);
    let closed = code(ErrorCode::Closed);
    let first = ends.peer.only();
    first.quic.close(now, closed, b"".as_slice().into());
    serve(&mut ends.peer);
    assert_eq!(call.end(&mut ends.peer), Status::SUCCESS);
    assert_eq!(ends.peer.connections.len(), 2);
}

#[test]
fn a_connection_without_streams_is_closed_by_its_opener() {
    let mut ends = active();
    ends.is_reset_by(|peer, stream| peer.reset(stream, ErrorCode::Aborted));
    let begun = network().time();
    let lost = ends.peer.until(|peer| peer.only().lost.clone());
    let time = network().time() - begun;
    assert!((9..12).contains(&time.as_secs()), "{time:?}");
    match lost {
        ConnectionError::ApplicationClosed(close) => {
            assert_eq!(close.error_code.into_inner(), CLOSED);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn an_adapter_that_is_closed_closes_its_connections() {
    both(|ends| {
        let Ends {
            side,
            qp,
            connector,
            mut peer,
            stream,
            listener,
        } = ends;
        drop((qp, connector, listener));
        peer.drive();
        assert_eq!(peer.read_to_end(stream).end, Some(End::Fin));
        drop(side);
        let lost = peer.until(|peer| peer.only().lost.clone());
        let closed = ConnectionError::ApplicationClosed(quinn_proto::ApplicationClose {
            error_code: code(ErrorCode::Closed),
            reason: b"".as_slice().into(),
        });
        assert_eq!(lost, closed);
    });
}

#[test]
fn conn_023_a_socket_that_only_connects_refuses_connections() {
    let ends = active();
    let known = ends.peer.connections.values().next().unwrap();
    let socket = known.quic.remote_address();
    let begun = network().time();
    assert_eq!(
        Call::new(&Side::new(), socket).end_alone(),
        Status::CONNECTION_REFUSED
    );
    let time = network().time() - begun;
    assert!(time < Duration::from_secs(1), "{time:?}");
}

/// The handshake is refused if the socket does not know the peer, and the stream if there is a connection.
#[test]
fn conn_023_a_socket_without_a_listener_refuses_connections() {
    let mut ends = passive();
    let address = ends.connector.get_local_address().unwrap();
    ends.listener = None;
    let call = Call::new(&Side::new(), address);
    assert_eq!(call.end(&mut ends.peer), Status::CONNECTION_REFUSED);
    let preamble = iwarp_io::transport::quic::preamble::Preamble {
        source: 1,
        destination: address.port(),
    };
    let stream = ends.peer.open(&preamble.encode());
    let error = u64::from(ErrorCode::NoListener.number());
    assert_eq!(ends.peer.read_to_end(stream).end, Some(End::Reset(error)));
    // The existing connection continues.
    ends.is_reset_by(|peer, stream| peer.reset(stream, ErrorCode::Aborted));
}

#[test]
fn conn_023_an_address_without_a_socket_refuses_connections_at_once() {
    let begun = network().time();
    let call = Call::new(&Side::new(), there(9));
    assert_eq!(call.end_alone(), Status::CONNECTION_REFUSED);
    assert!(network().time() - begun < Duration::from_secs(1));
}

/// A Reply of revision 1 that rejects.
fn reject() -> Vec<u8> {
    [&b"MPA ID Rep Frame"[..], &[0x20, 1, 0, 0]].concat()
}

/// Requests that the application has not taken.
#[test]
fn a_listener_that_is_released_lets_go_of_those_who_wait() {
    let side = Side::new();
    let (listener, address) = side.listener(0);
    let mut peer = Peer::client(&network(), there(0), address);
    let waiting = peer.open_with_preamble(0xC001, address.port());
    peer.write(waiting, &frame(FrameKind::Request));
    let silent = peer.open_with_preamble(0xC002, address.port());
    let call = Call::new(&Side::new(), address);
    network().pass(Duration::from_millis(100));
    drop(listener);
    for stream in [waiting, silent] {
        let Read { octets, end } = peer.read_to_end(stream);
        let refusal = if stream == waiting { reject() } else { vec![] };
        // Nothing is sent to a peer that has not sent its Request.
        let (ended, stopped) = match stream == waiting {
            true => (End::Fin, CLOSED),
            false => (End::Reset(ABORTED), ABORTED),
        };
        assert_eq!((octets, end), (refusal, Some(ended)));
        assert_eq!(peer.until(|peer| peer.stopped(stream)), stopped);
    }
    assert_eq!(call.end(&mut peer), Status::CONNECTION_REFUSED);
}

#[test]
fn iw_055_a_request_beyond_the_backlog_is_refused() {
    let side = Side::new();
    let (_listener, address) = side.listener(1);
    let mut peer = Peer::client(&network(), there(0), address);
    let first = peer.open_with_preamble(0xC001, address.port());
    peer.write(first, &frame(FrameKind::Request));
    network().pass(Duration::from_millis(100));
    peer.drive();
    let second = peer.open_with_preamble(0xC002, address.port());
    peer.write(second, &frame(FrameKind::Request));
    let Read { octets, end } = peer.read_to_end(second);
    assert_eq!((octets, end), (reject(), Some(End::Fin)));
    assert_eq!(peer.until(|peer| peer.stopped(second)), CLOSED);
    assert_eq!(peer.read(first, 1).end, None);
    // A peer at another address, which has fewer, gets the place of the youngest one of the address with the most.
    let caller = Side::new();
    let _call = Call::new(&caller, address);
    let Read { octets, end } = peer.read_to_end(first);
    assert_eq!((octets, end), (reject(), Some(End::Fin)));
}

/// All datagrams between two adapters are lost.
#[test]
fn both_sides_of_a_cut_connection_learn_of_it_after_the_idle_timeout() {
    let pair = connect(Side::new(), Side::new(), 1);
    let sides = [
        (&pair.active, &pair.active_qp, &pair.active_connector),
        (&pair.passive, &pair.passive_qp, &pair.passive_connector),
    ];
    let notice = [Overlapped::new(), Overlapped::new()];
    for ((_, qp, connector), notice) in sides.iter().zip(&notice) {
        qp.receive(1, &[]).unwrap();
        let _ = connector.notify_disconnect(notice).unwrap();
    }
    network().change(|conditions| conditions.loss = Chance::ALWAYS);
    for ((side, ..), notice) in sides.iter().zip(&notice) {
        assert_eq!(wait(notice), Status::SUCCESS);
        assert_eq!(side.result().status, Status::CANCELED);
    }
    assert!(network().time() < Duration::from_secs(45));
}

/// After a listener was released the next one has the same UDP socket.
#[test]
fn a_new_listener_takes_streams_of_the_connections_that_are_there() {
    let Ends {
        side,
        qp: _qp,
        connector: _connector,
        peer,
        listener,
        ..
    } = passive();
    let address = listener.as_ref().unwrap().get_local_address().unwrap();
    drop(listener);
    let again = side.adapter.create_listener(&side.file).unwrap();
    again.bind(address).unwrap();
    again.listen(0).unwrap();
    let mut ends = accepted(side, again, address, peer);
    ends.is_reset_by(|peer, stream| peer.reset(stream, ErrorCode::Aborted));
}

#[test]
fn the_first_connection_is_not_replaced_by_an_answer_that_is_slow() {
    let mut peer = Peer::server(&network(), there(0));
    let call = Call::new(&Side::new(), peer.socket.local());
    let (_, stream) = peer.accept();
    network().pass(Duration::from_secs(5));
    peer.write(stream, &TAKEN);
    peer.read_exact(stream, 24);
    peer.write(stream, &frame(FrameKind::Reply));
    assert_eq!(call.end(&mut peer), Status::SUCCESS);
    peer.only();
}
