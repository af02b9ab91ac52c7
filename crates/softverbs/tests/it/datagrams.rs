//! Queue pairs for datagrams.

use std::sync::Arc;

use rdma_buffer::Buffer;
use softverbs::{
    AddressHandle, AddressVector, AsyncEventKind, Chance, CompletionChannel, CompletionQueue,
    Conditions, Destination, DeviceKind, Errno, MemoryRegion, ProcessOptions, QpAttributes, QpMask,
    QpOptions, QpState, QueuePair, RemotePlace, SendData, SendOperation, SendRequest, Service, Sge,
    SharedReceiveQueue, SrqAttributes, WcOpcode, WcStatus, WorkCompletion, World, faults, gid,
};

use crate::common::{Host, errno, loopback, options_over, polled, send_of};

use WcStatus::{Flushed, LocalProtection, Success};

pub(crate) const KEY: u32 = 0x1111_1111;
pub(crate) const GRH: u64 = 40;

/// A queue pair with memory.
pub(crate) struct Datagrams {
    pub(crate) qp: Arc<QueuePair>,
    pub(crate) cq: Arc<CompletionQueue>,
    region: Arc<MemoryRegion>,
    buffer: Buffer,
}

const INIT: QpMask = QpMask::STATE
    .union(QpMask::PKEY_INDEX)
    .union(QpMask::PORT)
    .union(QpMask::QKEY);

fn attributes(state: QpState) -> QpAttributes {
    QpAttributes {
        state,
        port: 1,
        qkey: KEY,
        ..QpAttributes::default()
    }
}

fn datagram_options(cq: &Arc<CompletionQueue>) -> QpOptions {
    QpOptions {
        service: Service::Datagram,
        ..options_over(cq, false)
    }
}

impl Datagrams {
    /// In RTS.
    pub(crate) fn new(host: &Host) -> Self {
        let cq = CompletionQueue::create(&host.context, 128, None).unwrap();
        Self::with(host, &cq, datagram_options(&cq))
    }

    fn with(host: &Host, cq: &Arc<CompletionQueue>, options: QpOptions) -> Self {
        let qp = QueuePair::create(&host.pd, options).unwrap();
        let buffer = Buffer::new(1 << 16);
        let region = host.region(&buffer);
        let this = Self {
            qp,
            cq: cq.clone(),
            region,
            buffer,
        };
        this.init();
        this.advance();
        this
    }

    pub(crate) fn init(&self) {
        self.qp.modify(&attributes(QpState::Init), INIT).unwrap();
    }

    pub(crate) fn to(&self, state: QpState, mask: QpMask) -> softverbs::Result<()> {
        self.qp.modify(&attributes(state), QpMask::STATE | mask)
    }

    pub(crate) fn advance(&self) {
        self.to(QpState::Rtr, QpMask::empty()).unwrap();
        self.to(QpState::Rts, QpMask::SQ_PSN).unwrap();
    }

    pub(crate) fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: self.region.first() + offset,
            length,
            lkey: self.region.key(),
        }
    }

    fn receive(&self, wr_id: u64, offset: u64) {
        let sges = [self.sge(offset, 1024)];
        self.qp.post_receive(wr_id, &sges).unwrap();
    }

    pub(crate) fn written(&self, offset: u64, octets: &[u8]) {
        self.buffer.write(usize::try_from(offset).unwrap(), octets);
    }

    pub(crate) fn read<const N: usize>(&self, offset: u64) -> [u8; N] {
        let mut octets = [0; N];
        self.buffer
            .read(usize::try_from(offset).unwrap(), &mut octets);
        octets
    }

    /// Sends octets of this region to the queue pair of that number.
    fn send(
        &self,
        wr_id: u64,
        to: Destination<'_>,
        offset: u64,
        length: u32,
    ) -> softverbs::Result<()> {
        let sges = [self.sge(offset, length)];
        self.qp.post_send(&SendRequest {
            to: Some(to),
            ..send_of(wr_id, SendData::Sges(&sges))
        })
    }

    fn completions(&self, count: usize) -> Vec<WorkCompletion> {
        polled(&self.cq, count)
    }

    /// Polls one by one, so that no further completion is taken.
    fn completions_of(&self, count: usize) -> Vec<WorkCompletion> {
        let mut all = Vec::new();
        while all.len() < count {
            let mut one = [WorkCompletion::default()];
            let taken = self.cq.poll(&mut one);
            all.extend(&one[..taken]);
        }
        all
    }

    fn statuses(&self, count: usize) -> Vec<(u64, WcStatus)> {
        let completions = self.completions(count).into_iter();
        completions.map(|one| (one.wr_id, one.status)).collect()
    }
}

pub(crate) fn handle(from: &Host, to: &Host) -> Arc<AddressHandle> {
    let vector = AddressVector {
        is_global: true,
        dgid: gid(to.address),
        port: 1,
        ..AddressVector::default()
    };
    AddressHandle::create(&from.pd, vector).unwrap()
}

fn to<'a>(handle: &'a AddressHandle, peer: &Datagrams) -> Destination<'a> {
    Destination {
        handle,
        number: peer.qp.number(),
        key: KEY,
    }
}

/// Two hosts in a simulated network.
fn hosts(seed: u64) -> (World, Host, Host) {
    let world = World::new(seed, Conditions::default());
    let first = Host::simulated(&world, 1, DeviceKind::Roce);
    let second = Host::simulated(&world, 2, DeviceKind::Roce);
    (world, first, second)
}

pub(crate) fn dropped(host: &Host, why: &str) -> u64 {
    host.process.counters()[&*format!("datagrams.{why}")]
}

/// Lets everything in the network arrive.
fn settle(world: &World) {
    while world.step() {}
}

#[test]
fn a_datagram_has_its_header_its_sender_and_its_number() {
    let (_world, a, b) = hosts(1);
    let (from, peer) = (Datagrams::new(&a), Datagrams::new(&b));
    peer.receive(7, 0);
    from.written(100, b"hello");
    let there = handle(&a, &b);
    let sges = [from.sge(100, 2), from.sge(102, 0), from.sge(102, 3)];
    let request = SendRequest {
        operation: SendOperation::SendImmediate([1, 2, 3, 4]),
        to: Some(to(&there, &peer)),
        ..send_of(1, SendData::Sges(&sges))
    };
    from.qp.post_send(&request).unwrap();
    assert_eq!(from.statuses(1), [(1, Success)]);
    let [got] = peer.completions(1)[..] else {
        unreachable!()
    };
    assert_eq!(
        (got.wr_id, got.status, got.opcode),
        (7, Success, WcOpcode::Receive)
    );
    assert_eq!(got.byte_len(), 45);
    assert_eq!(got.immediate, Some([1, 2, 3, 4]));
    assert_eq!(got.source, Some(from.qp.number()));
    assert_eq!(got.qp_num, peer.qp.number());
    assert_eq!(&peer.read::<5>(GRH), b"hello");
    let grh: [u8; 40] = peer.read(0);
    assert_eq!(grh[0] >> 4, 6);
    assert_eq!(grh[4..6], [0, 5]);
    assert_eq!(grh[8..24], gid(a.address));
    assert_eq!(grh[24..], gid(b.address));

    // The answer finds its way by this header alone.
    let back = AddressVector::of_sender(b.context.device(), &grh).unwrap();
    let back = AddressHandle::create(&b.pd, back).unwrap();
    from.receive(8, 0);
    let answer = Destination {
        handle: &back,
        number: got.source.unwrap(),
        key: 1 << 31, // that of the queue pair
    };
    let inline: [&[u8]; 2] = [b"wel", b"come"];
    let request = SendRequest {
        to: Some(answer),
        ..send_of(2, SendData::Inline(&inline))
    };
    peer.qp.post_send(&request).unwrap();
    let [answer] = from.completions(1)[..] else {
        unreachable!()
    };
    assert_eq!(
        (answer.wr_id, answer.byte_len(), answer.immediate),
        (8, 47, None)
    );
    assert_eq!(&from.read::<7>(GRH), b"welcome");
}

#[test]
fn what_nobody_takes_is_dropped_and_counted() {
    let (world, a, b) = hosts(2);
    let (from, peer) = (Datagrams::new(&a), Datagrams::new(&b));
    let there = handle(&a, &b);
    let good = to(&there, &peer);
    let names = [
        "foreign",
        "unknown_number",
        "wrong_key",
        "no_receive",
        "receive_too_short",
        "not_sent",
    ];
    let counts = |host: &Host| names.map(|name| dropped(host, name));
    assert_eq!(counts(&b), [0; 6]);

    from.send(1, good, 0, 8).unwrap();
    settle(&world);
    assert_eq!(counts(&b), [0, 0, 0, 1, 0, 0]);

    peer.qp.post_receive(7, &[peer.sge(0, 47)]).unwrap();
    from.send(2, good, 0, 8).unwrap();
    from.send(3, Destination { key: 5, ..good }, 0, 7).unwrap();
    let other = Destination {
        number: good.number + 1,
        ..good
    };
    from.send(4, other, 0, 7).unwrap();
    // A number that names no port: nothing is sent.
    from.send(5, Destination { number: 1, ..good }, 0, 7)
        .unwrap();
    settle(&world);
    assert_eq!(counts(&b), [0, 1, 1, 1, 1, 0]);
    assert_eq!(counts(&a), [0; 6]);
    let sent = from.statuses(5);
    assert_eq!(sent, [1, 2, 3, 4, 5].map(|wr_id| (wr_id, Success)));

    // The Receive is still there.
    from.send(6, good, 0, 7).unwrap();
    assert_eq!(peer.statuses(1), [(7, Success)]);
}

#[test]
fn memory_that_is_not_there_fails_the_request_that_names_it() {
    let (_world, a, b) = hosts(3);
    let (from, peer) = (Datagrams::new(&a), Datagrams::new(&b));
    let there = handle(&a, &b);
    let good = to(&there, &peer);
    peer.receive(6, 0);
    let bad = Sge {
        lkey: 12345,
        ..peer.sge(0, 64)
    };
    peer.qp.post_receive(7, &[bad]).unwrap();
    peer.receive(8, 0);
    from.send(1, good, 0, 8).unwrap();
    from.send(2, good, 0, 8).unwrap();
    let expected = [(6, Success), (7, LocalProtection), (8, Flushed)];
    assert_eq!(peer.statuses(3), expected);
    assert_eq!(peer.qp.state(), QpState::Err);
    assert_eq!(from.statuses(2), [(1, Success), (2, Success)]);

    let far = Sge {
        addr: from.region.first() + (1 << 16) - 4,
        ..from.sge(0, 8)
    };
    from.receive(9, 0);
    let sges = [far];
    let request = SendRequest {
        to: Some(good),
        ..send_of(3, SendData::Sges(&sges))
    };
    from.qp.post_send(&request).unwrap();
    from.send(4, good, 0, 8).unwrap();
    assert_eq!(from.statuses(2), [(3, LocalProtection), (4, Flushed)]);
    assert_eq!(from.qp.state(), QpState::Sqe);

    // In SQE messages still arrive, and a change to RTS ends it.
    let (fresh, here) = (Datagrams::new(&b), handle(&b, &a));
    fresh.send(5, to(&here, &from), 0, 8).unwrap();
    assert_eq!(from.statuses(1), [(9, Success)]);
    from.to(QpState::Rts, QpMask::empty()).unwrap();
    from.send(6, to(&there, &fresh), 0, 8).unwrap();
    assert_eq!(from.statuses(1), [(6, Success)]);
}

#[test]
fn requests_that_cannot_be_are_refused() {
    let (_world, a, b) = hosts(4);
    let (from, peer) = (Datagrams::new(&a), Datagrams::new(&b));
    let there = handle(&a, &b);
    let good = to(&there, &peer);
    let mtu = a.context.device().mtu();
    assert_eq!(errno(from.send(1, good, 0, mtu + 1)), Errno::INVAL);
    from.send(1, good, 0, mtu).unwrap();
    let sges = [from.sge(0, 8)];
    let plain = send_of(2, SendData::Sges(&sges));
    assert_eq!(errno(from.qp.post_send(&plain)), Errno::INVAL, "no address");
    let place = RemotePlace {
        addr: peer.region.first(),
        rkey: peer.region.key(),
    };
    for operation in [
        SendOperation::Write(place),
        SendOperation::Read(place),
        SendOperation::FetchAdd(place, 1),
        SendOperation::SendInvalidate(1),
    ] {
        let request = SendRequest {
            operation,
            to: Some(good),
            ..plain
        };
        assert_eq!(
            errno(from.qp.post_send(&request)),
            Errno::INVAL,
            "{operation:?}"
        );
    }
    let long = [0; 2000];
    let pieces: [&[u8]; 1] = [&long];
    let inline = SendRequest {
        to: Some(good),
        ..send_of(3, SendData::Inline(&pieces))
    };
    assert_eq!(errno(from.qp.post_send(&inline)), Errno::INVAL);
    // Before RTS.
    let cq = CompletionQueue::create(&a.context, 16, None).unwrap();
    let fresh = QueuePair::create(&a.pd, datagram_options(&cq)).unwrap();
    let request = SendRequest {
        to: Some(good),
        ..plain
    };
    assert_eq!(errno(fresh.post_send(&request)), Errno::INVAL);
    assert_eq!(errno(fresh.post_receive(1, &sges)), Errno::INVAL);
    // Devices for iWARP have none.
    let world = World::new(1, Conditions::default());
    let iwarp = Host::simulated(&world, 1, DeviceKind::Iwarp);
    let cq = CompletionQueue::create(&iwarp.context, 16, None).unwrap();
    let refused = QueuePair::create(&iwarp.pd, datagram_options(&cq));
    assert_eq!(errno(refused), Errno::OPNOTSUPP);
}

/// A request has its slot until the program has taken its completion.
#[test]
fn the_send_queue_is_as_deep_as_it_was_made() {
    let (_world, a, b) = hosts(5);
    let (from, peer) = (Datagrams::new(&a), Datagrams::new(&b));
    let there = handle(&a, &b);
    let good = to(&there, &peer);
    for wr_id in 0..32 {
        from.send(wr_id, good, 0, 8).unwrap();
    }
    assert_eq!(errno(from.send(99, good, 0, 8)), Errno::NOMEM);
    from.completions_of(2);
    for wr_id in 32..34 {
        from.send(wr_id, good, 0, 8).unwrap();
    }
    assert_eq!(errno(from.send(99, good, 0, 8)), Errno::NOMEM);
    // Without completions slots are free at once.
    from.completions_of(32);
    for wr_id in 0..100 {
        let sges = [from.sge(0, 8)];
        let silent = SendRequest {
            to: Some(good),
            signaled: false,
            ..send_of(wr_id, SendData::Sges(&sges))
        };
        from.qp.post_send(&silent).unwrap();
    }
    // And so are Receives.
    for wr_id in 0..32 {
        peer.receive(wr_id, 0);
    }
    assert_eq!(errno(peer.qp.post_receive(99, &[])), Errno::NOMEM);
}

#[test]
fn error_flushes_and_reset_begins_anew() {
    let (world, a, b) = hosts(6);
    let (from, peer) = (Datagrams::new(&a), Datagrams::new(&b));
    let there = handle(&a, &b);
    let good = to(&there, &peer);
    peer.receive(1, 0);
    peer.receive(2, 0);
    peer.to(QpState::Err, QpMask::empty()).unwrap();
    assert_eq!(peer.statuses(2), [(1, Flushed), (2, Flushed)]);
    peer.receive(3, 0);
    peer.send(4, good, 0, 8).unwrap();
    assert_eq!(peer.statuses(2), [(3, Flushed), (4, Flushed)]);

    peer.receive(5, 0);
    let number = peer.qp.number();
    peer.to(QpState::Reset, QpMask::empty()).unwrap();
    assert_eq!(peer.cq.poll(&mut [WorkCompletion::default(); 4]), 0);
    from.send(1, good, 0, 8).unwrap();
    settle(&world);
    assert_eq!(dropped(&b, "unknown_number"), 1);
    peer.init();
    peer.advance();
    assert_eq!(peer.qp.number(), number);
    for wr_id in 0..32 {
        peer.receive(wr_id, 0);
    }
    from.send(2, good, 0, 8).unwrap();
    assert_eq!(peer.statuses(1), [(0, Success)]);

    peer.qp.destroy().unwrap();
    assert_eq!(errno(peer.qp.destroy()), Errno::INVAL);
    assert_eq!(peer.cq.poll(&mut [WorkCompletion::default(); 4]), 0);
    peer.cq.destroy().unwrap();
    peer.region.deregister().unwrap();
    b.pd.destroy().unwrap();
}

#[test]
fn datagrams_take_receives_of_a_shared_queue() {
    let (world, a, b) = hosts(7);
    let from = Datagrams::new(&a);
    let cq = CompletionQueue::create(&b.context, 128, None).unwrap();
    let sizes = SrqAttributes {
        max_wr: 4,
        max_sge: 1,
        limit: 0,
    };
    let srq = SharedReceiveQueue::create(&b.pd, sizes).unwrap();
    let shared = || QpOptions {
        srq: Some(srq.clone()),
        ..datagram_options(&cq)
    };
    let (first, second) = (
        Datagrams::with(&b, &cq, shared()),
        Datagrams::with(&b, &cq, shared()),
    );
    assert_eq!(errno(first.qp.post_receive(1, &[])), Errno::INVAL);
    for wr_id in 0..3 {
        srq.post_receive(wr_id, &[first.sge(1024 * wr_id, 1024)])
            .unwrap();
    }
    srq.modify(None, Some(2)).unwrap();
    let there = handle(&a, &b);
    from.send(1, to(&there, &second), 0, 8).unwrap();
    from.send(2, to(&there, &first), 0, 8).unwrap();
    let got = polled(&cq, 2);
    let got: Vec<_> = got.iter().map(|one| (one.wr_id, one.qp_num)).collect();
    assert_eq!(got, [(0, second.qp.number()), (1, first.qp.number())]);
    let event = b.context.get_async_event().unwrap();
    assert_eq!(event.kind(), AsyncEventKind::SharedReceiveLimit);
    event.acknowledge();
    first.to(QpState::Err, QpMask::empty()).unwrap();
    let event = b.context.get_async_event().unwrap();
    assert_eq!(event.kind(), AsyncEventKind::LastReceiveReached);
    event.acknowledge();
    from.send(3, to(&there, &first), 0, 8).unwrap();
    settle(&world);
    assert_eq!(cq.poll(&mut [WorkCompletion::default(); 4]), 0);
    from.send(4, to(&there, &second), 0, 8).unwrap();
    assert_eq!(polled(&cq, 1)[0].wr_id, 2);
}

/// A program that sleeps in a channel is woken, and by a solicited message alone if it asks for that.
#[test]
fn a_datagram_wakes_a_program_that_waits() {
    let (world, a, b) = hosts(8);
    let from = Datagrams::new(&a);
    let channel = CompletionChannel::create(&b.context).unwrap();
    let cq = CompletionQueue::create(&b.context, 128, Some(&channel)).unwrap();
    let peer = Datagrams::with(&b, &cq, datagram_options(&cq));
    let there = handle(&a, &b);
    for wr_id in 0..3 {
        peer.receive(wr_id, 0);
    }
    cq.request_notification(false);
    from.send(1, to(&there, &peer), 0, 8).unwrap();
    channel.get_event().unwrap();
    cq.acknowledge_events(1);
    assert_eq!(peer.statuses(1), [(0, Success)]);
    cq.request_notification(true);
    from.send(2, to(&there, &peer), 0, 8).unwrap();
    settle(&world);
    let sges = [from.sge(0, 8)];
    let solicited = SendRequest {
        to: Some(to(&there, &peer)),
        solicited: true,
        ..send_of(3, SendData::Sges(&sges))
    };
    from.qp.post_send(&solicited).unwrap();
    channel.get_event().unwrap();
    cq.acknowledge_events(1);
    assert_eq!(peer.statuses(2), [(1, Success), (2, Success)]);
}

/// What arrives is what was sent, whatever gets lost.
#[test]
fn under_loss_each_datagram_arrives_whole_or_not_at_all() {
    let world = World::new(9, Conditions::default());
    let mut options = ProcessOptions::default();
    let plan = "when every 3rd datagram sent: drop\nwhen every 5th datagram sent: duplicate\n"
        .parse()
        .unwrap();
    faults::check(&plan, true).unwrap();
    options.faults = Some(plan);
    let a = Host::simulated_with(&world, 1, options);
    let b = Host::simulated(&world, 2, DeviceKind::Roce);
    let (from, peer) = (Datagrams::new(&a), Datagrams::new(&b));
    let there = handle(&a, &b);
    for wr_id in 0..30 {
        peer.receive(wr_id, 1024 * wr_id);
    }
    for round in 0..30_u8 {
        from.written(0, &[round; 100]);
        from.send(round.into(), to(&there, &peer), 0, 100).unwrap();
    }
    settle(&world);
    let mut all = [WorkCompletion::default(); 64];
    let count = peer.cq.poll(&mut all);
    let mut seen = Vec::new();
    for one in &all[..count] {
        let octets: [u8; 100] = peer.read(1024 * one.wr_id + GRH);
        assert_eq!(octets, [octets[0]; 100]);
        seen.push(octets[0]);
    }
    // Each third one is lost, and each fifth one comes twice.
    let expected = (0..30_u8).filter(|round| (round + 1) % 3 > 0);
    let expected = expected.flat_map(|round| {
        let times = match (round + 1) % 5 {
            0 => 2,
            _ => 1,
        };
        std::iter::repeat_n(round, times)
    });
    assert_eq!(seen, expected.collect::<Vec<_>>());
}

/// What the socket does not take at once is sent later, in order, and completes then.
#[test]
fn requests_wait_for_room_in_the_socket() {
    let mut conditions = Conditions::default();
    conditions.full_socket = Chance::per_million(700_000);
    let world = World::new(10, conditions);
    let a = Host::simulated(&world, 1, DeviceKind::Roce);
    let b = Host::simulated(&world, 2, DeviceKind::Roce);
    let (from, peer) = (Datagrams::new(&a), Datagrams::new(&b));
    let there = handle(&a, &b);
    let mut sent = 0;
    let mut got = Vec::new();
    for round in 0..20 {
        for wr_id in 0..20 {
            peer.receive(wr_id, 1024 * wr_id);
        }
        for wr_id in 0..20_u8 {
            from.written(0, &[round, wr_id]);
            from.send(wr_id.into(), to(&there, &peer), 0, 2).unwrap();
        }
        for one in from.completions_of(20) {
            assert_eq!((one.wr_id, one.status), (sent % 20, Success));
            sent += 1;
        }
        for one in peer.completions_of(20) {
            got.push(peer.read::<2>(1024 * one.wr_id + GRH));
        }
    }
    let expected = (0..20).flat_map(|round| (0..20).map(move |wr_id| [round, wr_id]));
    got.sort_unstable(); // datagrams overtake each other
    assert_eq!(got, expected.collect::<Vec<_>>());

    // Those that wait vanish with RESET, and come back flushed in ERR.
    for state in [QpState::Reset, QpState::Err] {
        for wr_id in 0..20 {
            from.send(wr_id, to(&there, &peer), 0, 2).unwrap();
        }
        let mut some = [WorkCompletion::default(); 32];
        let before = from.cq.poll(&mut some);
        from.to(state, QpMask::empty()).unwrap();
        let flushed = from.cq.poll(&mut some[before..]);
        match state {
            QpState::Reset => {
                assert_eq!(flushed, 0);
                from.init();
                from.advance();
            }
            _ => assert_eq!(before + flushed, 20),
        }
    }
}

/// On sockets of this machine, also to the own queue pair, and beside many others of the same port.
#[test]
fn datagrams_over_sockets() {
    let mut options = ProcessOptions::default();
    options.interface = Some(loopback());
    let host = Host::new(softverbs::Process::of_system(options).unwrap());
    let (from, peer) = (Datagrams::new(&host), Datagrams::new(&host));
    let here = handle(&host, &host);
    assert_eq!(from.qp.number() >> 8, peer.qp.number() >> 8, "one port");
    for round in 0..200_u64 {
        peer.receive(round, 0);
        from.written(0, &round.to_be_bytes());
        from.send(round, to(&here, &peer), 0, 8).unwrap();
        assert_eq!(peer.statuses(1), [(round, Success)]);
        assert_eq!(peer.read::<8>(GRH), round.to_be_bytes());
        from.receive(round, 1024);
        from.send(round, to(&here, &from), 0, 8).unwrap();
        let all = from.completions(3);
        assert!(all.iter().all(|one| one.status == Success), "{all:?}");
    }
    from.qp.destroy().unwrap();
    // The other queue pair keeps the port.
    peer.receive(1, 0);
    peer.send(2, to(&here, &peer), 0, 8).unwrap();
    peer.completions(2);
}
