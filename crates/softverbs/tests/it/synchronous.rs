//! Synchronous identifiers, and calls that do several steps at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use softverbs::{
    AddrInfo, AddrInfoFlags, AddressFamily, CmEventKind, CmId, CompletionQueue, DeviceKind, Errno,
    IdQpOptions, PORT_SPACE_TCP, PortSpace, QP_TYPE_RC, QpOptions, QpState, QueuePair, SendData,
    Service, SharedDevice, SrqAttributes, WcStatus, WorkCompletion,
};

use crate::common::{CAPS, Host, Pair, errno, parameters, send_of};

fn info(flags: AddrInfoFlags) -> AddrInfo {
    AddrInfo {
        flags,
        family: AddressFamily::Ipv4,
        qp_type: QP_TYPE_RC,
        port_space: PORT_SPACE_TCP,
        source: None,
        destination: None,
    }
}

fn listener_info(host: &Host) -> AddrInfo {
    AddrInfo {
        source: Some((host.address, 0).into()),
        ..info(AddrInfoFlags::PASSIVE)
    }
}

fn client_info(to: SocketAddr) -> AddrInfo {
    AddrInfo {
        destination: Some(to),
        ..info(AddrInfoFlags::empty())
    }
}

fn with_queues() -> Option<IdQpOptions> {
    Some(IdQpOptions {
        caps: CAPS,
        ..IdQpOptions::default()
    })
}

/// A synchronous listener whose requests get a queue pair, and its address.
fn listen(host: &Host) -> (Arc<CmId>, SocketAddr) {
    let listener =
        CmId::create_endpoint(&host.process, &listener_info(host), with_queues()).unwrap();
    listener.listen(8).unwrap();
    let address = listener.local().unwrap();
    (listener, address)
}

fn last_kind(id: &CmId) -> Option<CmEventKind> {
    id.last_event().map(|event| event.kind)
}

fn completion(cq: &CompletionQueue) -> (u64, WcStatus) {
    let mut completions = [WorkCompletion::default()];
    while cq.poll(&mut completions) == 0 {}
    (completions[0].wr_id, completions[0].status)
}

#[test]
fn each_call_waits_for_its_event() {
    let pair = Pair::simulated(1, DeviceKind::Roce);
    let id = CmId::create_synchronous(&pair.client.process, PortSpace::Tcp).unwrap();
    assert!(id.is_synchronous() && id.last_event().is_none());
    let peer = SocketAddr::from(([10, 0, 0, 2], 9));
    id.resolve_addr(None, peer).unwrap();
    assert_eq!(last_kind(&id), Some(CmEventKind::AddrResolved));
    id.resolve_route().unwrap();
    assert_eq!(last_kind(&id), Some(CmEventKind::RouteResolved));
    // There is no listener. A call that has not begun leaves the event alone.
    assert_eq!(errno(id.connect(&parameters(&[0; 509]))), Errno::INVAL);
    assert_eq!(last_kind(&id), Some(CmEventKind::RouteResolved));
    assert_eq!(errno(id.connect(&parameters(b""))), Errno::CONNREFUSED);
    let refused = id.last_event().unwrap();
    assert_eq!((refused.kind, refused.status), (CmEventKind::Rejected, 8));
    assert!(!id.channel().has_event());
    id.destroy().unwrap();
    assert!(id.last_event().is_none());
}

#[test]
fn an_address_that_is_not_resolved_fails_the_call() {
    let pair = Pair::simulated(2, DeviceKind::Roce);
    let id = CmId::create_synchronous(&pair.client.process, PortSpace::Tcp).unwrap();
    let unspecified = SocketAddr::from(([0, 0, 0, 0], 9));
    assert_eq!(errno(id.resolve_addr(None, unspecified)), Errno::INVAL);
    assert_eq!(last_kind(&id), Some(CmEventKind::AddrError));
}

#[test]
fn a_synchronous_listener_gives_identifiers_with_queue_pairs() {
    for kind in [DeviceKind::Roce, DeviceKind::Iwarp] {
        let pair = Pair::simulated(3, kind);
        let (listener, address) = listen(&pair.server);
        let client = pair.client.resolved(address);
        let client = crate::common::End::new(&pair.client, client, None);
        client.id.connect(&parameters(b"hello")).unwrap();
        let server = listener.get_request().unwrap();
        let request = server.last_event().unwrap();
        assert_eq!(request.kind, CmEventKind::ConnectRequest);
        assert_eq!(request.parameters.private_data, b"hello");
        assert!(server.is_synchronous() && !Arc::ptr_eq(&server.channel(), &listener.channel()));
        let qp = server.queue_pair().unwrap();
        assert_eq!(qp.state(), QpState::Init);
        // The program acknowledges nothing.
        listener.destroy().unwrap();
        server.accept(&parameters(b"welcome")).unwrap();
        assert_eq!(last_kind(&server), Some(CmEventKind::Established));
        pair.client.expect(CmEventKind::Established);
        client.id.disconnect().unwrap();
        server.disconnect().unwrap();
        assert_eq!(last_kind(&server), Some(CmEventKind::Disconnected));
        // A second call does not wait for an event that does not come.
        server.disconnect().unwrap();
        server.destroy_endpoint().unwrap();
        assert!(server.queue_pair().is_none());
    }
}

#[test]
fn only_a_synchronous_listener_is_asked_for_requests() {
    let pair = Pair::simulated(4, DeviceKind::Roce);
    let (listener, address) = pair.server.listen();
    assert_eq!(errno(listener.get_request()), Errno::INVAL);
    // An event of another kind is not a request.
    let id = CmId::create(&pair.client.channel).unwrap();
    id.resolve_addr(None, address).unwrap();
    id.migrate(None).unwrap();
    assert_eq!(errno(id.get_request()), Errno::INVAL);
    assert_eq!(last_kind(&id), Some(CmEventKind::AddrResolved));
}

#[test]
fn an_identifier_becomes_synchronous_and_back_by_migration() {
    let pair = Pair::simulated(5, DeviceKind::Roce);
    let id = CmId::create(&pair.client.channel).unwrap();
    id.migrate(None).unwrap();
    pair.client.channel.destroy().unwrap();
    id.resolve_addr(None, ([10, 0, 0, 2], 7).into()).unwrap();
    assert_eq!(last_kind(&id), Some(CmEventKind::AddrResolved));
    id.migrate(Some(&pair.client.channel)).unwrap();
    assert!(!id.is_synchronous() && id.last_event().is_none());
    id.resolve_route().unwrap();
    pair.client.expect(CmEventKind::RouteResolved);
}

#[test]
fn a_request_that_cannot_have_its_queue_pair_is_refused() {
    let pair = Pair::simulated(6, DeviceKind::Roce);
    let too_much = IdQpOptions {
        caps: softverbs::QpCaps {
            max_send_sge: u32::MAX,
            ..CAPS
        },
        ..IdQpOptions::default()
    };
    let info = listener_info(&pair.server);
    let listener = CmId::create_endpoint(&pair.server.process, &info, Some(too_much)).unwrap();
    listener.listen(0).unwrap();
    let client = pair.client.resolved(listener.local().unwrap());
    client.connect(&parameters(b"")).unwrap();
    assert_eq!(errno(listener.get_request()), Errno::INVAL);
    let event = pair.client.event(CmEventKind::Rejected);
    event.acknowledge();
}

#[test]
fn endpoints_need_their_addresses_and_queue_pairs_of_connections() {
    let pair = Pair::simulated(7, DeviceKind::Roce);
    let create = |info: AddrInfo| CmId::create_endpoint(&pair.client.process, &info, None);
    let [passive, active] = [AddrInfoFlags::PASSIVE, AddrInfoFlags::empty()];
    assert_eq!(errno(create(info(passive))), Errno::INVAL);
    assert_eq!(errno(create(info(active))), Errno::INVAL);
    let foreign = AddrInfo {
        source: Some(([192, 0, 2, 1], 0).into()),
        ..info(passive)
    };
    assert_eq!(errno(create(foreign)), Errno::NODEV);
    let datagrams = AddrInfo {
        qp_type: 4,
        ..listener_info(&pair.client)
    };
    assert_eq!(errno(create(datagrams)), Errno::OPNOTSUPP);
    let (_listener, address) = pair.server.listen();
    let id = create(client_info(address)).unwrap();
    assert_eq!(last_kind(&id), Some(CmEventKind::RouteResolved));
    assert_eq!(id.peer(), Some(address));
}

#[test]
fn queues_that_are_left_out_belong_to_the_identifier() {
    let pair = Pair::simulated(8, DeviceKind::Roce);
    let host = &pair.client;
    let (_listener, address) = pair.server.listen();
    let id = CmId::create_endpoint(&host.process, &client_info(address), with_queues()).unwrap();
    let [send_cq, receive_cq] = &id.own_queues()[..] else {
        panic!("two completion queues");
    };
    assert!(send_cq.channel().is_some() && receive_cq.channel().is_some());
    assert_eq!((send_cq.depth(), receive_cq.depth()), (32, 32));
    let shared = SharedDevice::get(&host.process, &host.process.devices()[0]).unwrap();
    let qp = id.queue_pair().unwrap();
    assert!(Arc::ptr_eq(qp.pd(), shared.pd()));
    let options = || QpOptions {
        service: Service::Reliable,
        send_cq: send_cq.clone(),
        receive_cq: send_cq.clone(),
        srq: None,
        caps: CAPS,
        signal_all: false,
    };
    assert_eq!(
        errno(id.make_queue_pair(IdQpOptions::default())),
        Errno::INVAL
    );
    let other = QueuePair::create(shared.pd(), options()).unwrap();
    assert_eq!(errno(id.destroy_queue_pair()), Errno::BUSY);
    assert!(id.queue_pair().is_none() && !id.own_queues().is_empty());
    other.destroy().unwrap();
    id.destroy_endpoint().unwrap();
    assert!(id.own_queues().is_empty());
}

#[test]
fn the_queue_pair_draws_from_the_shared_receive_queue_of_its_identifier() {
    let pair = Pair::simulated(9, DeviceKind::Roce);
    let (_listener, address) = pair.server.listen();
    let id = pair.client.resolved(address);
    let attributes = SrqAttributes {
        max_wr: 8,
        max_sge: 1,
        limit: 0,
    };
    let srq = id.create_shared_receive_queue(None, attributes).unwrap();
    let again = id.create_shared_receive_queue(None, attributes);
    assert_eq!(errno(again), Errno::INVAL);
    let qp = id.make_queue_pair(with_queues().unwrap()).unwrap();
    assert!(Arc::ptr_eq(qp.options().srq.as_ref().unwrap(), &srq));
    assert_eq!(qp.options().caps.max_recv_wr, 0);
    assert_eq!(errno(id.destroy_shared_receive_queue()), Errno::BUSY);
    drop(qp);
    id.destroy_endpoint().unwrap();
    assert!(id.shared_receive_queue().is_none() && id.own_queues().is_empty());
}

#[test]
fn both_sides_may_be_synchronous() {
    let pair = Pair::on_sockets();
    let (listener, address) = listen(&pair.server);
    let serve = move || {
        let id = listener.get_request().unwrap();
        let qp = id.queue_pair().unwrap();
        qp.post_receive(7, &[]).unwrap();
        id.accept(&parameters(b"welcome")).unwrap();
        assert_eq!(completion(&qp.options().receive_cq), (7, WcStatus::Success));
        id.disconnect().unwrap();
        drop(qp);
        id.destroy_endpoint().unwrap();
        listener.destroy_endpoint().unwrap();
    };
    let server = thread::spawn(serve);
    let process = &pair.client.process;
    let id = CmId::create_endpoint(process, &client_info(address), with_queues()).unwrap();
    id.connect(&parameters(b"hello")).unwrap();
    let welcome = id.last_event().unwrap();
    assert_eq!(welcome.kind, CmEventKind::Established);
    assert_eq!(welcome.parameters.private_data, b"welcome");
    let qp = id.queue_pair().unwrap();
    qp.post_send(&send_of(3, SendData::Sges(&[]))).unwrap();
    assert_eq!(completion(&qp.options().send_cq), (3, WcStatus::Success));
    id.disconnect().unwrap();
    drop(qp);
    id.destroy_endpoint().unwrap();
    server.join().unwrap();
}
