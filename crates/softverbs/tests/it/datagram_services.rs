//! Queue pairs for datagrams that find each other by the connection manager (`RDMA_PS_UDP`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rdma_buffer::Buffer;
use softverbs::{
    AddrInfo, AddrInfoFlags, AddressFamily, AddressHandle, Chance, CmEventKind, CmId,
    CompletionQueue, Conditions, ConnParameters, Destination, DeviceKind, Errno, IdQpOptions,
    MemoryRegion, PortSpace, QpOptions, QpState, QueuePair, SendData, SendRequest, Service, Sge,
    WcStatus, World,
};

use crate::common::{CAPS, Host, errno, options_over, polled, send_of};
use crate::numbers::hosts;

/// The queue pair of an identifier, with memory.
struct End {
    id: Arc<CmId>,
    qp: Arc<QueuePair>,
    cq: Arc<CompletionQueue>,
    region: Arc<MemoryRegion>,
    buffer: Buffer,
}

impl End {
    fn new(host: &Host, id: Arc<CmId>) -> Self {
        let cq = CompletionQueue::create(&host.context, 64, None).unwrap();
        let options = QpOptions {
            service: Service::Datagram,
            ..options_over(&cq, false)
        };
        let qp = id.create_queue_pair(&host.pd, options).unwrap();
        assert_eq!(qp.state(), QpState::Rts);
        let buffer = Buffer::new(4096);
        Self {
            id,
            qp,
            cq,
            region: host.region(&buffer),
            buffer,
        }
    }

    fn sge(&self, length: u32) -> Sge {
        Sge {
            addr: self.region.first(),
            length,
            lkey: self.region.key(),
        }
    }
}

fn with_data(private_data: &[u8]) -> ConnParameters {
    ConnParameters {
        private_data: private_data.to_vec(),
        ..ConnParameters::default()
    }
}

fn listen(host: &Host) -> (Arc<CmId>, SocketAddr) {
    let listener = CmId::create_in(&host.channel, PortSpace::Udp).unwrap();
    listener.bind((host.address, 0).into()).unwrap();
    listener.listen(8).unwrap();
    let address = listener.local().unwrap();
    (listener, address)
}

fn resolved(host: &Host, peer: SocketAddr) -> Arc<CmId> {
    let id = CmId::create_in(&host.channel, PortSpace::Udp).unwrap();
    id.resolve_addr(None, peer).unwrap();
    host.expect(CmEventKind::AddrResolved);
    id.resolve_route().unwrap();
    host.expect(CmEventKind::RouteResolved);
    id
}

/// One message from the side that has asked, which finds its way by the answer alone.
fn message(client: &Host, from: &End, to: &End, answer: &ConnParameters) {
    let peer = answer.datagrams.unwrap();
    let handle = AddressHandle::create(&client.pd, peer.address).unwrap();
    to.qp.post_receive(7, &[to.sge(1024)]).unwrap();
    from.buffer.write(0, b"hello");
    let sges = [from.sge(5)];
    let request = SendRequest {
        to: Some(Destination {
            handle: &handle,
            number: peer.number,
            key: peer.key,
        }),
        ..send_of(1, SendData::Sges(&sges))
    };
    from.qp.post_send(&request).unwrap();
    assert_eq!(polled(&from.cq, 1)[0].status, WcStatus::Success);
    let got = polled(&to.cq, 1)[0];
    assert_eq!((got.wr_id, got.byte_len()), (7, 45));
    assert_eq!(got.source, Some(from.qp.number()));
}

fn exchange(client: &Host, server: &Host) {
    let (listener, address) = listen(server);
    let asks = End::new(client, resolved(client, address));
    asks.id.connect(&with_data(b"ask")).unwrap();
    let (id, asked) = server.request();
    assert_eq!(asked.private_data, b"ask");
    assert_eq!(id.space(), PortSpace::Udp);
    assert_eq!(id.peer().unwrap().ip(), client.address);
    let answers = End::new(server, id);
    answers.id.accept(&with_data(b"answer")).unwrap();
    let answer = client.expect(CmEventKind::Established);
    assert_eq!(answer.private_data, b"answer");
    assert_eq!(answer.datagrams.unwrap().number, answers.qp.number());
    message(client, &asks, &answers, &answer);
    assert_eq!(errno(asks.id.disconnect()), Errno::INVAL);
    assert!(!server.channel.has_event() && !client.channel.has_event());
    for end in [asks, answers] {
        end.id.destroy_queue_pair().unwrap();
        end.id.destroy().unwrap();
    }
    listener.destroy().unwrap();
}

#[test]
fn a_request_and_its_answer_find_the_queue_pairs() {
    let (_world, [client, server]) = hosts(1);
    exchange(&client, &server);
}

#[test]
fn the_same_over_sockets() {
    let host = crate::numbers::on_sockets();
    exchange(&host, &host);
}

/// The answer says by which GID of the device the queue pair is reached, whatever address the peer has asked at.
#[test]
fn a_listener_at_the_loopback_address_names_its_device() {
    let found = softverbs::Process::of_system(softverbs::ProcessOptions::default()).unwrap();
    let host = Host::new(found);
    let listener = CmId::create_in(&host.channel, PortSpace::Udp).unwrap();
    listener.bind(([127, 0, 0, 1], 0).into()).unwrap();
    listener.listen(8).unwrap();
    let asks = End::new(&host, resolved(&host, listener.local().unwrap()));
    asks.id.connect(&with_data(b"ask")).unwrap();
    let answers = End::new(&host, host.request().0);
    answers.id.accept(&with_data(b"")).unwrap();
    let answer = host.expect(CmEventKind::Established);
    let address = answer.datagrams.unwrap().address;
    let gids = host.context.device().gids();
    assert!(gids.iter().any(|row| row.gid == address.dgid));
    message(&host, &asks, &answers, &answer);
}

/// Each request and each answer may get lost, come twice, and late. The program sees one request and one answer.
#[test]
fn requests_and_answers_are_repeated() {
    for seed in 0..50 {
        let mut conditions = Conditions::default();
        conditions.loss = Chance::per_million(100_000);
        conditions.duplication = Chance::per_million(300_000);
        conditions.full_socket = Chance::per_million(100_000);
        let world = World::new(seed, conditions);
        let client = Host::simulated(&world, 1, DeviceKind::Roce);
        let server = Host::simulated(&world, 2, DeviceKind::Roce);
        let (listener, address) = listen(&server);
        let id = resolved(&client, address);
        id.connect(&with_data(b"ask")).unwrap();
        let (asked, _) = server.request();
        let answers = End::new(&server, asked);
        answers.id.accept(&with_data(b"answer")).unwrap();
        // The answer is repeated without the identifier that gave it.
        answers.id.destroy().unwrap();
        let answer = client.expect(CmEventKind::Established);
        assert_eq!(answer.private_data, b"answer", "seed {seed}");
        world.pass(Duration::from_secs(60));
        assert!(!server.channel.has_event() && !client.channel.has_event());
        listener.destroy().unwrap();
        id.destroy().unwrap();
    }
}

#[test]
fn a_program_rejects_and_one_without_a_listener_does_not_answer() {
    let (world, [client, server]) = hosts(2);
    let (listener, address) = listen(&server);
    let id = resolved(&client, address);
    id.connect(&with_data(b"ask")).unwrap();
    server.request().0.reject(b"no").unwrap();
    let event = client.event(CmEventKind::Unreachable);
    assert_eq!(
        (event.status(), &*event.parameters().private_data),
        (2, &b"no"[..])
    );
    event.acknowledge();

    // An identifier that is destroyed rejects; so does a listener those that the program has not received.
    let again = resolved(&client, address);
    again.connect(&with_data(b"ask")).unwrap();
    server.request().0.destroy().unwrap();
    let event = client.event(CmEventKind::Unreachable);
    assert_eq!(event.status(), 2);
    event.acknowledge();
    let last = resolved(&client, address);
    last.connect(&with_data(b"ask")).unwrap();
    world.pass(Duration::from_millis(50));
    listener.destroy().unwrap();
    let event = client.event(CmEventKind::Unreachable);
    assert_eq!(event.status(), 2);
    event.acknowledge();

    // Nobody listens there any more.
    let before = world.now();
    let none = resolved(&client, address);
    none.connect(&with_data(b"ask")).unwrap();
    let event = client.event(CmEventKind::Unreachable);
    assert_eq!(event.status(), -Errno::TIMEDOUT.raw_os_error());
    assert!(
        event
            .cause()
            .unwrap()
            .to_string()
            .contains("does not answer")
    );
    event.acknowledge();
    let took = world.now() - before;
    assert!((14..15).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let (_world, [client, server]) = hosts(3);
    let (listener, address) = listen(&server);
    let taken = CmId::create_in(&server.channel, PortSpace::Udp).unwrap();
    taken.bind(address).unwrap();
    assert_eq!(errno(taken.listen(8)), Errno::ADDRINUSE);
    // The port spaces are apart.
    let tcp = CmId::create(&server.channel).unwrap();
    tcp.bind(address).unwrap();
    tcp.listen(8).unwrap();

    let id = resolved(&client, address);
    let cq = CompletionQueue::create(&client.context, 64, None).unwrap();
    let reliable = options_over(&cq, false);
    let refused = id.create_queue_pair(&client.pd, reliable.clone());
    assert_eq!(errno(refused), Errno::INVAL);
    assert_eq!(errno(id.connect(&with_data(&[0; 509]))), Errno::INVAL);
    id.connect(&with_data(&[0; 508])).unwrap();
    assert_eq!(errno(id.connect(&with_data(b""))), Errno::INVAL);
    let (asked, parameters) = server.request();
    assert_eq!(parameters.private_data.len(), 508);
    let none = asked.accept(&with_data(b""));
    assert_eq!(errno(none), Errno::INVAL, "there is no queue pair");
    listener.destroy().unwrap();
    let tcp = client.resolved(address);
    let datagrams = QpOptions {
        service: Service::Datagram,
        ..reliable
    };
    assert_eq!(
        errno(tcp.create_queue_pair(&client.pd, datagrams)),
        Errno::INVAL
    );

    let world = World::new(1, Conditions::default());
    let iwarp = Host::simulated(&world, 1, DeviceKind::Iwarp);
    let refused = CmId::create_in(&iwarp.channel, PortSpace::Udp);
    assert_eq!(errno(refused), Errno::OPNOTSUPP);
}

/// `rdma_create_ep` and its like.
#[test]
fn endpoints_in_one_call() {
    let (_world, [client, server]) = hosts(4);
    let info = |flags| AddrInfo {
        flags,
        family: AddressFamily::Ipv4,
        qp_type: Service::Datagram as u32,
        port_space: PortSpace::Udp as u32,
        source: None,
        destination: None,
    };
    let options = || {
        Some(IdQpOptions {
            service: Service::Datagram,
            caps: CAPS,
            ..IdQpOptions::default()
        })
    };
    let passive = AddrInfo {
        source: Some((server.address, 0).into()),
        ..info(AddrInfoFlags::PASSIVE)
    };
    let listener = CmId::create_endpoint(&server.process, &passive, options()).unwrap();
    listener.listen(8).unwrap();
    let active = AddrInfo {
        destination: listener.local(),
        ..info(AddrInfoFlags::empty())
    };
    let asks = CmId::create_endpoint(&client.process, &active, options()).unwrap();
    assert_eq!(
        asks.queue_pair().unwrap().options().service,
        Service::Datagram
    );
    // A call that waits would wait for the other side, which runs in this thread.
    let (id, other) = (resolved(&client, listener.local().unwrap()), &asks);
    id.connect(&with_data(b"ask")).unwrap();
    let asked = listener.get_request().unwrap();
    assert_eq!(asked.last_event().unwrap().parameters.private_data, b"ask");
    asked.accept(&with_data(b"answer")).unwrap();
    assert_eq!(asked.last_event(), None);
    let answer = client.expect(CmEventKind::Established);
    let number = asked.queue_pair().unwrap().number();
    assert_eq!(answer.datagrams.unwrap().number, number);
    for id in [other, &asked, &listener] {
        id.destroy_endpoint().unwrap();
    }
}
