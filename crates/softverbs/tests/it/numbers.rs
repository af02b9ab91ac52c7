//! Queue pairs whose numbers the programs exchange by themselves.

use std::sync::Arc;
use std::time::Duration;

use rdma_buffer::Buffer;
use softverbs::{
    AddressVector, CompletionQueue, Conditions, DeviceKind, Errno, MemoryRegion, ProcessOptions,
    QpAttributes, QpCaps, QpMask, QpOptions, QpState, QueuePair, RemotePlace, SendData,
    SendOperation, SendRequest, Service, Sge, WcStatus, WorkCompletion, World,
};

use crate::common::{CAPS, Host, errno, loopback, send_of};

use WcStatus::{Flushed, RetryExceeded, Success};

/// A queue pair with memory.
struct Numbered {
    qp: Arc<QueuePair>,
    cq: Arc<CompletionQueue>,
    region: Arc<MemoryRegion>,
    buffer: Buffer,
}

pub(crate) const INIT: QpMask = QpMask::STATE
    .union(QpMask::PKEY_INDEX)
    .union(QpMask::PORT)
    .union(QpMask::ACCESS_FLAGS);
pub(crate) const RTR: QpMask = QpMask::STATE
    .union(QpMask::AV)
    .union(QpMask::PATH_MTU)
    .union(QpMask::DEST_QPN)
    .union(QpMask::RQ_PSN)
    .union(QpMask::MAX_DEST_RD_ATOMIC)
    .union(QpMask::MIN_RNR_TIMER);
pub(crate) const RTS: QpMask = QpMask::STATE
    .union(QpMask::TIMEOUT)
    .union(QpMask::RETRY_CNT)
    .union(QpMask::RNR_RETRY)
    .union(QpMask::SQ_PSN)
    .union(QpMask::MAX_QP_RD_ATOMIC);

impl Numbered {
    fn new(host: &Host) -> Self {
        let cq = CompletionQueue::create(&host.context, 128, None).unwrap();
        Self::with(host, &cq)
    }

    fn with(host: &Host, cq: &Arc<CompletionQueue>) -> Self {
        let options = QpOptions {
            service: Service::Reliable,
            send_cq: cq.clone(),
            receive_cq: cq.clone(),
            srq: None,
            caps: QpCaps {
                max_send_wr: 32,
                ..CAPS
            },
            signal_all: false,
        };
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
        this
    }

    fn init(&self) {
        self.qp.modify(&init_attributes(), INIT).unwrap();
    }

    fn rtr(&self, number: u32, host: &Host) -> softverbs::Result<()> {
        self.qp.modify(&rtr(number, host), RTR)
    }

    fn rts(&self, timeout: u8) {
        self.qp.modify(&rts_attributes(timeout), RTS).unwrap();
    }

    fn connect(&self, number: u32, host: &Host) {
        self.rtr(number, host).unwrap();
        self.rts(14);
    }

    fn reset(&self) {
        let attributes = QpAttributes::default();
        self.qp.modify(&attributes, QpMask::STATE).unwrap();
    }

    fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge {
            addr: self.region.first() + offset,
            length,
            lkey: self.region.key(),
        }
    }

    fn receive(&self, wr_id: u64) {
        self.qp.post_receive(wr_id, &[self.sge(1024, 64)]).unwrap();
    }

    fn send(&self, wr_id: u64) {
        let sges = [self.sge(0, 64)];
        let request = send_of(wr_id, SendData::Sges(&sges));
        self.qp.post_send(&request).unwrap();
    }

    fn read(&self, wr_id: u64, from: &Self) {
        let sges = [self.sge(2048, 64)];
        let place = RemotePlace {
            addr: from.region.first(),
            rkey: from.region.key(),
        };
        let request = SendRequest {
            operation: SendOperation::Read(place),
            ..send_of(wr_id, SendData::Sges(&sges))
        };
        self.qp.post_send(&request).unwrap();
    }

    fn found(&self, count: usize) -> Vec<(u64, WcStatus)> {
        let mut all = Vec::new();
        let mut some = [WorkCompletion::default(); 8];
        let mut polls = 0_u64;
        while all.len() < count {
            let taken = self.cq.poll(&mut some);
            all.extend(some[..taken].iter().map(|one| (one.wr_id, one.status)));
            polls += 1;
            assert!(polls < 50_000_000, "{all:?} of {count}");
        }
        all.sort_by_key(|(wr_id, _)| *wr_id);
        all
    }
}

pub(crate) fn init_attributes() -> QpAttributes {
    QpAttributes {
        state: QpState::Init,
        port: 1,
        access: 7,
        ..QpAttributes::default()
    }
}

pub(crate) fn rts_attributes(timeout: u8) -> QpAttributes {
    QpAttributes {
        state: QpState::Rts,
        timeout,
        retry_cnt: 7,
        rnr_retry: 7,
        max_rd_atomic: 4,
        ..QpAttributes::default()
    }
}

pub(crate) fn rtr(number: u32, host: &Host) -> QpAttributes {
    QpAttributes {
        state: QpState::Rtr,
        dest_qp_num: number,
        path_mtu: 2,
        max_dest_rd_atomic: 4,
        min_rnr_timer: 12,
        address: AddressVector {
            is_global: true,
            dgid: host.context.device().gids()[0].gid,
            port: 1,
            ..AddressVector::default()
        },
        ..QpAttributes::default()
    }
}

pub(crate) fn hosts(seed: u64) -> (World, [Host; 2]) {
    let world = World::new(seed, Conditions::default());
    let hosts = [1, 2].map(|last| Host::simulated(&world, last, DeviceKind::Roce));
    (world, hosts)
}

pub(crate) fn on_sockets() -> Host {
    let mut options = ProcessOptions::default();
    options.interface = Some(loopback());
    Host::new(softverbs::Process::of_system(options).unwrap())
}

/// One message each way, and a Read.
fn exchange(a: &Numbered, b: &Numbered) {
    for (from, to) in [(a, b), (b, a)] {
        from.buffer.write(0, &[7; 64]);
        to.receive(1);
        from.send(2);
        from.read(3, to);
        if Arc::ptr_eq(&from.cq, &to.cq) {
            assert_eq!(from.found(3), [(1, Success), (2, Success), (3, Success)]);
        } else {
            assert_eq!(to.found(1), [(1, Success)]);
            assert_eq!(from.found(2), [(2, Success), (3, Success)]);
        }
        let mut octets = [0; 64];
        to.buffer.read(1024, &mut octets);
        assert_eq!(octets, [7; 64]);
    }
}

#[test]
fn two_queue_pairs_connect_whoever_is_ready_first() {
    for seed in 0..8 {
        let (world, [one, other]) = hosts(200 + seed);
        let ends = [Numbered::new(&one), Numbered::new(&other)];
        let numbers = [0, 1].map(|end: usize| ends[end].qp.number());
        assert!(numbers.iter().all(|number| *number >= 0x4_0000));
        let first = usize::from(seed % 2 == 1);
        let peers = [&other, &one];
        ends[first].rtr(numbers[1 - first], peers[first]).unwrap();
        if seed % 4 >= 2 {
            // The call comes before the other program is ready, and is held.
            world.pass(Duration::from_secs(1));
        }
        ends[1 - first].connect(numbers[first], peers[1 - first]);
        ends[first].rts(14);
        exchange(&ends[0], &ends[1]);
    }
}

/// As the programs of rdma-core's tests do it: one thread, one completion queue.
#[test]
fn two_queue_pairs_of_one_process_connect() {
    let (_world, [host, _]) = hosts(210);
    for host in [host, on_sockets()] {
        let cq = CompletionQueue::create(&host.context, 128, None).unwrap();
        let ends = [(); 2].map(|()| Numbered::with(&host, &cq));
        ends[0].connect(ends[1].qp.number(), &host);
        ends[1].connect(ends[0].qp.number(), &host);
        exchange(&ends[0], &ends[1]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_queue_pair_connects_to_itself() {
    let host = on_sockets();
    let own = Numbered::new(&host);
    own.connect(own.qp.number(), &host);
    exchange(&own, &own);
}

/// The two ends of a connection may begin anew, in any order.
#[test]
fn a_queue_pair_is_used_again_after_reset() {
    let (_world, [one, other]) = hosts(220);
    let (a, b) = (Numbered::new(&one), Numbered::new(&other));
    let number = a.qp.number();
    for round in 0..6 {
        a.connect(b.qp.number(), &other);
        b.connect(a.qp.number(), &one);
        exchange(&a, &b);
        let ends = if round % 2 == 0 { [&a, &b] } else { [&b, &a] };
        ends.iter().for_each(|end| end.reset());
        ends.iter().for_each(|end| end.init());
        assert_eq!(a.qp.number(), number);
    }
}

/// What has completed as sent arrives, although the sender resets its queue pair at once.
#[test]
fn reset_ends_the_stream_in_order() {
    for seed in 0..50 {
        let (world, [one, other]) = hosts(300 + seed);
        let (a, b) = (Numbered::new(&one), Numbered::new(&other));
        a.connect(b.qp.number(), &other);
        b.connect(a.qp.number(), &one);
        for wr_id in 0..16 {
            b.receive(wr_id);
        }
        for wr_id in 0..16 {
            a.send(wr_id);
        }
        assert!(a.found(16).iter().all(|(_, status)| *status == Success));
        a.reset();
        assert!(b.found(16).iter().all(|(_, status)| *status == Success));
        assert_eq!(b.qp.state(), QpState::Rts);
        // The connection of this change to RTR was used.
        a.init();
        a.connect(b.qp.number(), &other);
        world.pass(Duration::from_secs(1));
        b.send(20);
        assert_eq!(b.found(1), [(20, RetryExceeded)]);
    }
}

/// A request finds no peer: it fails after the time of the attributes, and what is behind it is flushed.
#[test]
fn a_request_without_a_peer_fails() {
    let (world, [one, other]) = hosts(230);
    let (a, b) = (Numbered::new(&one), Numbered::new(&other));
    a.connect(b.qp.number(), &other);
    world.pass(Duration::from_secs(100));
    assert_eq!(
        a.qp.state(),
        QpState::Rts,
        "without a request it waits for ever"
    );
    a.receive(1);
    a.send(2);
    a.send(3);
    world.pass(Duration::from_millis(1900));
    assert_eq!(a.cq.poll(&mut [WorkCompletion::default()]), 0);
    assert_eq!(a.found(3), [(1, Flushed), (2, RetryExceeded), (3, Flushed)]);
    assert_eq!(a.qp.state(), QpState::Err);
    // With a time of 0 it waits for ever.
    a.reset();
    a.init();
    a.rtr(b.qp.number(), &other).unwrap();
    a.rts(0);
    a.send(4);
    world.pass(Duration::from_secs(1000));
    b.receive(5);
    b.connect(a.qp.number(), &one);
    assert_eq!(a.found(1), [(4, Success)]);
    assert_eq!(b.found(1), [(5, Success)]);
}

/// A queue pair that another peer was named to takes no call of this one.
#[test]
fn a_peer_that_was_not_named_is_refused() {
    let (world, [one, other]) = hosts(240);
    let ends = [(); 3].map(|()| Numbered::new(&one));
    let target = Numbered::new(&other);
    ends[0].connect(target.qp.number(), &other);
    ends[1].connect(target.qp.number(), &other);
    target.connect(ends[1].qp.number(), &one);
    world.pass(Duration::from_secs(3));
    exchange(&ends[1], &target);
    ends[0].send(9);
    assert_eq!(ends[0].found(1), [(9, RetryExceeded)]);
    exchange(&ends[1], &target);
}

#[test]
fn a_change_to_rtr_names_an_address_and_a_number_that_can_be() {
    let (_world, [one, other]) = hosts(250);
    let a = Numbered::new(&one);
    let good = rtr(0xC0_0000, &other);
    let global = AddressVector {
        is_global: false,
        ..good.address
    };
    let row = AddressVector {
        sgid_index: 7,
        ..good.address
    };
    let zero = AddressVector {
        dgid: [0; 16],
        ..good.address
    };
    let bad = [
        QpAttributes {
            address: global,
            ..good
        },
        QpAttributes {
            address: row,
            ..good
        },
        QpAttributes {
            address: zero,
            ..good
        },
        QpAttributes {
            path_mtu: 5,
            ..good
        },
        QpAttributes {
            path_mtu: 0,
            ..good
        },
        QpAttributes {
            min_rnr_timer: 32,
            ..good
        },
        QpAttributes {
            dest_qp_num: 0x2_0000,
            ..good
        },
        QpAttributes {
            dest_qp_num: 1 << 24,
            ..good
        },
    ];
    for attributes in bad {
        assert_eq!(errno(a.qp.modify(&attributes, RTR)), Errno::INVAL);
        assert_eq!(a.qp.state(), QpState::Init);
    }
    a.qp.modify(&good, RTR).unwrap();
    assert_eq!(a.qp.query().address, good.address);
    for (timeout, retry_cnt, rnr_retry) in [(32, 7, 7), (14, 8, 7), (14, 7, 8)] {
        let attributes = QpAttributes {
            state: QpState::Rts,
            timeout,
            retry_cnt,
            rnr_retry,
            ..QpAttributes::default()
        };
        assert_eq!(errno(a.qp.modify(&attributes, RTS)), Errno::INVAL);
    }
}

/// All Reads that the device allows are outstanding, and a confirmation of Writes beside them. A queue pair that may have no Read has
/// its Writes confirmed as well.
#[test]
fn confirmations_of_writes_take_no_read_of_the_program() {
    for reads in [0, 1, 128] {
        let (world, [one, other]) = hosts(270 + u64::from(reads));
        let cq = CompletionQueue::create(&one.context, 512, None).unwrap();
        let options = QpOptions {
            service: Service::Reliable,
            send_cq: cq.clone(),
            receive_cq: cq.clone(),
            srq: None,
            caps: QpCaps {
                max_send_wr: 300,
                ..CAPS
            },
            signal_all: true,
        };
        let qp = QueuePair::create(&one.pd, options).unwrap();
        let a = Numbered {
            qp,
            cq,
            ..Numbered::new(&one)
        };
        a.init();
        let b = Numbered::new(&other);
        a.rtr(b.qp.number(), &other).unwrap();
        let attributes = QpAttributes {
            max_rd_atomic: reads,
            ..rts_attributes(14)
        };
        a.qp.modify(&attributes, RTS).unwrap();
        b.connect(a.qp.number(), &one);
        a.buffer.write(0, b"written!");
        let write = |wr_id| {
            let place = RemotePlace {
                addr: b.region.first() + 64 * wr_id,
                rkey: b.region.key(),
            };
            let sges = [a.sge(0, 8)];
            let request = SendRequest {
                operation: SendOperation::Write(place),
                ..send_of(wr_id, SendData::Sges(&sges))
            };
            a.qp.post_send(&request).unwrap();
        };
        write(0);
        assert_eq!(a.found(1), [(0, Success)]);
        // The peer answers nothing before it has a Receive, and then finds all Reads at once.
        a.send(1);
        let last = u64::from(reads) + 2;
        for wr_id in 2..last {
            a.read(wr_id, &b);
        }
        write(last);
        world.pass(Duration::from_secs(1));
        b.receive(1);
        let all: Vec<_> = (1..=last).map(|wr_id| (wr_id, Success)).collect();
        assert_eq!(a.found(all.len()), all);
        let mut octets = [0; 8];
        b.buffer
            .read(64 * usize::try_from(last).unwrap(), &mut octets);
        assert_eq!(&octets, b"written!");
        assert_eq!(a.qp.state(), QpState::Rts);
    }
}

/// A number that was given back is used again as late as possible, and a port has 256 of them.
#[test]
fn numbers_are_used_again_as_late_as_possible() {
    let (_world, [host, _]) = hosts(260);
    let mut seen = Vec::new();
    for _ in 0..256 {
        seen.push(Numbered::new(&host).qp.number());
    }
    let first = seen[0];
    assert_eq!(first % 256, 0);
    assert_eq!(seen, (first..first + 256).collect::<Vec<_>>());
    let kept: Vec<_> = (0..256).map(|_| Numbered::new(&host)).collect();
    assert_eq!(kept[0].qp.number(), first);
    let next = Numbered::new(&host).qp.number();
    assert_ne!(next / 256, first / 256, "a further port");
}
