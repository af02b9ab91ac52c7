//! Connections of verbs programs: what a peer sends to both sides of the connection manager, and calls in any order.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use iwarp_io::progress::readiness::Edges;
use iwarp_io::setup::MAX_FRAME;
use iwarp_io::transport::purpose::Purpose;
use iwarp_io::transport::{Dialer, Listener, Transport, Wire};
use softverbs::{
    CmEventKind, CmId, CompletionQueue, Conditions, ConnParameters, Context, DeviceKind,
    EventChannel, NetworkInterface, Process, ProcessOptions, ProtectionDomain, QpCaps, QpOptions,
    SendData, SendOperation, SendRequest, Service, WorkCompletion, World,
};

use crate::input::Input;

const REQUEST_KEY: &[u8] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8] = b"MPA ID Rep Frame";

/// The most connections of the peer, and identifiers of the program.
const MOST: usize = 4;

const fn at(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), port)
}

/// A program with a device.
struct Program {
    process: Arc<Process>,
    context: Arc<Context>,
    pd: Arc<ProtectionDomain>,
    cq: Arc<CompletionQueue>,
    channel: Arc<EventChannel>,
}

impl Program {
    fn new(world: &World, host: u8, kind: DeviceKind, crc: bool) -> Self {
        let interface = NetworkInterface::simulated(host.into(), vec![at(host, 0).ip()]);
        let mut options = ProcessOptions::default();
        options.kind = kind;
        options.crc = Some(crc);
        let process = Process::simulated(world, vec![interface], options).expect("a device");
        let context = Context::open(&process, &process.devices()[0]).expect("it opens");
        Self {
            pd: ProtectionDomain::allocate(&context).expect("a domain"),
            cq: CompletionQueue::create(&context, 128, None).expect("a queue"),
            channel: EventChannel::create(&process).expect("a channel"),
            context,
            process,
        }
    }

    fn listener(&self, host: u8, port: u16) -> Arc<CmId> {
        let listener = CmId::create(&self.channel).expect("an identifier");
        listener.bind(at(host, port)).expect("a free port");
        listener.listen(8).expect("it listens");
        listener
    }

    /// A queue pair for an identifier, unless it has one or cannot have one.
    fn queue_pair(&self, id: &Arc<CmId>) {
        let options = QpOptions {
            service: Service::Reliable,
            send_cq: self.cq.clone(),
            receive_cq: self.cq.clone(),
            srq: None,
            caps: QpCaps {
                max_send_wr: 4,
                max_recv_wr: 4,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 16,
            },
            signal_all: true,
        };
        drop(id.create_queue_pair(&self.pd, options));
    }

    /// Posts what needs no memory.
    fn post(id: &CmId) {
        if let Some(qp) = id.queue_pair() {
            let request = SendRequest {
                wr_id: 1,
                operation: SendOperation::Send,
                data: SendData::Sges(&[]),
                to: None,
                signaled: true,
                solicited: false,
                fence: false,
            };
            let _ = qp.post_send(&request);
        }
    }

    fn poll(&self) {
        let mut some = [WorkCompletion::default(); 8];
        while self.cq.poll(&mut some) == some.len() {}
    }
}

/// A connection of the peer.
enum Link {
    Dialing(Dialer),
    Open(Wire),
}

/// A peer that speaks TCP alone.
struct Peer {
    transport: Transport,
    listener: Listener,
    links: Vec<Link>,
    /// All that it has sent.
    sent: Vec<u8>,
}

impl Peer {
    fn new(world: &World) -> Self {
        let transport = Transport::Sim(world.own());
        let bound = transport.bind(at(2, 7), Purpose::Listening);
        Self {
            listener: bound.and_then(|bound| bound.listen()).expect("a port"),
            transport,
            links: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn connect(&mut self, to: SocketAddr) {
        if self.links.len() == MOST {
            return;
        }
        let bound = self.transport.bind(at(2, 0), Purpose::Connecting);
        if let Ok(dialer) = bound.and_then(|bound| bound.connect(to)) {
            self.links.push(Link::Dialing(dialer));
        }
    }

    /// Takes connections that are there by now.
    fn look(&mut self) {
        while let Ok(wire) = self.listener.accept() {
            if self.links.len() == MOST {
                self.links.remove(0);
            }
            self.links.push(Link::Open(wire));
        }
        let links = std::mem::take(&mut self.links).into_iter();
        self.links = links
            .filter_map(|link| match link {
                Link::Dialing(dialer) => match dialer.is_connected(Edges::WRITE) {
                    Ok(true) => dialer.into_wire().ok().map(Link::Open),
                    Ok(false) => Some(Link::Dialing(dialer)),
                    Err(_) => None,
                },
                open => Some(open),
            })
            .collect();
    }

    fn wire(&mut self, which: u8) -> Option<usize> {
        self.look();
        let at = usize::from(which) % self.links.len().max(1);
        matches!(self.links.get(at), Some(Link::Open(_))).then_some(at)
    }

    fn send(&mut self, which: u8, octets: &[u8]) {
        if let Some(at) = self.wire(which)
            && let Link::Open(wire) = &self.links[at]
            && let Ok(count) = wire.write(octets)
        {
            self.sent.extend_from_slice(&octets[..count]);
        }
    }

    fn read(&mut self, which: u8) {
        if let Some(at) = self.wire(which)
            && let Link::Open(wire) = &self.links[at]
        {
            let _ = wire.read(&mut [0; 1024]);
        }
    }

    fn end(&mut self, which: u8, resets: bool) {
        let Some(at) = self.wire(which) else { return };
        if !resets && let Link::Open(wire) = &self.links[at] {
            let _ = wire.close_write();
            return;
        }
        if let Link::Open(wire) = self.links.remove(at) {
            wire.reset();
        }
    }
}

/// The octets that a peer sends at a time: arbitrary ones, perhaps behind a key and with a length that fits.
fn octets(input: &mut Input<'_>) -> Vec<u8> {
    let [request, reply, fits, ..] = input.flags();
    let key = match (request, reply) {
        (true, false) => REQUEST_KEY,
        (false, true) => REPLY_KEY,
        _ => &[],
    };
    let length = usize::from(input.word16()) % (MAX_FRAME + 64);
    let behind = input.take(length);
    let mut octets = [key, behind].concat();
    if fits && octets.len() >= 20 {
        let length = u16::try_from(octets.len() - 20).expect("a frame is short");
        octets[18..20].copy_from_slice(&length.to_be_bytes());
    }
    octets
}

fn parameters(input: &mut Input<'_>) -> ConnParameters {
    let length = usize::from(input.octet());
    ConnParameters {
        private_data: input.take(length).to_vec(),
        responder_resources: input.octet(),
        initiator_depth: input.octet(),
        rnr_retry_count: input.octet() & 7,
        ..ConnParameters::default()
    }
}

/// The program under test, its peer, and what it has been told.
struct Scene {
    world: World,
    program: Program,
    peer: Peer,
    ids: Vec<Arc<CmId>>,
}

impl Scene {
    /// Takes the events that are there. Private data is what the peer has sent, and no more than a frame can hold.
    fn events(&mut self) {
        while self.program.channel.has_event() {
            let Ok(event) = self.program.channel.get_event() else {
                return;
            };
            let data = &event.parameters().private_data;
            assert!(data.len() <= MAX_FRAME - 20, "longer than a frame");
            let is_sent = data.is_empty()
                || (self.peer.sent.windows(data.len())).any(|sent| sent == &data[..]);
            assert!(is_sent, "{:?} has octets that nobody sent", event.kind());
            let id = event.id().clone();
            if event.kind() == CmEventKind::ConnectRequest {
                assert_eq!(event.status(), 0);
                if self.ids.len() < MOST {
                    self.ids.push(id);
                } else {
                    event.acknowledge();
                    let _ = id.destroy();
                    continue;
                }
            }
            event.acknowledge();
        }
    }

    fn act(&mut self, input: &mut Input<'_>) {
        let (call, which) = (input.octet(), input.octet());
        let at = usize::from(which) % self.ids.len().max(1);
        let id = self.ids.get(at).cloned();
        match (call & 15, id) {
            (0, _) => self.peer.connect(self::at(1, 1)),
            (1 | 2, _) => {
                let octets = octets(input);
                self.peer.send(which, &octets);
            }
            (3, _) => self.peer.read(which),
            (4, _) => self.peer.end(which, call & 16 != 0),
            (5, _) => {
                let time = Duration::from_micros(1 << (which & 31));
                self.world.pass(time.min(Duration::from_secs(600)));
            }
            (6, _) => self.program.poll(),
            (7, _) => {
                if self.ids.len() < MOST
                    && let Ok(id) = CmId::create(&self.program.channel)
                {
                    self.ids.push(id);
                }
            }
            (8, Some(id)) => {
                // There is nobody at the second address.
                let peer = self::at(if call & 16 == 0 { 2 } else { 9 }, 7);
                let _ = id.resolve_addr(None, peer);
                let _ = id.resolve_route();
            }
            (9, Some(id)) => self.program.queue_pair(&id),
            (10, Some(id)) => drop(id.connect(&parameters(input))),
            (11, Some(id)) => drop(id.accept(&parameters(input))),
            (12, Some(id)) => {
                let length = usize::from(input.octet());
                let _ = id.reject(input.take(length));
            }
            (13, Some(id)) => {
                let _ = if call & 16 == 0 {
                    id.establish()
                } else {
                    id.disconnect()
                };
            }
            (14, Some(id)) => Program::post(&id),
            (15, Some(id)) => {
                let _ = id.destroy_queue_pair();
                if id.destroy().is_ok() {
                    self.ids.remove(at);
                }
            }
            _ => {}
        }
    }
}

/// An honest program connects to the program under test, and private data goes both ways.
fn assert_is_served(world: &World, program: &Program) {
    let client = Program::new(world, 3, DeviceKind::Iwarp, true);
    let channel = EventChannel::create(&program.process).expect("a channel");
    let listener = CmId::create(&channel).expect("an identifier");
    listener.bind(at(1, 2)).expect("a free port");
    listener.listen(8).expect("it listens");
    let id = CmId::create(&client.channel).expect("an identifier");
    let next = |channel: &Arc<EventChannel>, kind| {
        let event = channel.get_event().expect("an event comes");
        assert_eq!((event.kind(), event.status()), (kind, 0));
        let found = (event.id().clone(), event.parameters().private_data.clone());
        event.acknowledge();
        found
    };
    let parameters = |data: &[u8]| ConnParameters {
        private_data: data.to_vec(),
        ..ConnParameters::unstated()
    };
    id.resolve_addr(None, at(1, 2)).expect("it is resolved");
    next(&client.channel, CmEventKind::AddrResolved);
    id.resolve_route().expect("it is resolved");
    next(&client.channel, CmEventKind::RouteResolved);
    client.queue_pair(&id);
    id.connect(&parameters(b"ask")).expect("it begins");
    let (asked, data) = next(&channel, CmEventKind::ConnectRequest);
    assert_eq!(data, b"ask");
    let pd = ProtectionDomain::allocate(&program.context).expect("a domain");
    let other = Program {
        process: program.process.clone(),
        context: program.context.clone(),
        cq: program.cq.clone(),
        channel: channel.clone(),
        pd,
    };
    other.queue_pair(&asked);
    asked.accept(&parameters(b"answer")).expect("it is asked");
    let (_, data) = next(&client.channel, CmEventKind::Established);
    assert_eq!(data, b"answer");
    next(&channel, CmEventKind::Established);
    for id in [&id, &asked, &listener] {
        give_back(id);
    }
}

/// Destroys an identifier and its queue pair.
fn give_back(id: &CmId) {
    let _ = id.destroy_queue_pair();
    id.destroy().expect("all its events are acknowledged");
}

/// Input: an octet of flags (the device presents itself as one for iWARP; asks for no CRCs), then calls: an octet, of which the low four bits
/// say which one, an octet that says on which connection or identifier, and what the call needs. The calls are those of the peer (it connects,
/// sends, reads, ends), of time, and of a program that listens, and connects to the peer.
///
/// # Panics
///
/// Panics if the program learns octets that nobody sent, or if an honest program is not served at the end.
pub fn verbs(octets: &[u8]) {
    let mut input = Input::new(octets);
    let [iwarp, no_crc, ..] = input.flags();
    let kind = if iwarp {
        DeviceKind::Iwarp
    } else {
        DeviceKind::default()
    };
    let world = World::new(1, Conditions::default());
    let program = Program::new(&world, 1, kind, !no_crc);
    let listener = program.listener(1, 1);
    let mut scene = Scene {
        peer: Peer::new(&world),
        world,
        program,
        ids: Vec::new(),
    };
    for _ in 0..64 {
        if input.is_empty() {
            break;
        }
        scene.act(&mut input);
        scene.events();
    }
    assert_is_served(&scene.world, &scene.program);
    // A program that leaves identifiers behind leaks them.
    scene.events();
    for id in scene.ids.iter().chain([&listener]) {
        give_back(id);
    }
    scene.peer.links.clear();
    scene.world.pass(Duration::from_secs(60));
}
