//! Unreliable connected queue pairs (UC).

use std::sync::Arc;
use std::time::Duration;

use rdma_buffer::Buffer;
use softverbs::{
    CompletionQueue, DeviceKind, Errno, MemoryRegion, QpAttributes, QpMask, QpOptions, QpState,
    QueuePair, RemotePlace, SendData, SendOperation, SendRequest, Service, WcOpcode, WcStatus,
    WorkCompletion, World,
};

use crate::common::{Host, errno, options_over, polled, send_of};
use crate::numbers::{INIT, hosts, init_attributes, rtr};

use WcStatus::Success;

const RTR: QpMask = QpMask::STATE
    .union(QpMask::AV)
    .union(QpMask::PATH_MTU)
    .union(QpMask::DEST_QPN)
    .union(QpMask::RQ_PSN);

struct Unreliable {
    qp: Arc<QueuePair>,
    cq: Arc<CompletionQueue>,
    region: Arc<MemoryRegion>,
    buffer: Buffer,
}

impl Unreliable {
    fn new(host: &Host) -> Self {
        let cq = CompletionQueue::create(&host.context, 128, None).unwrap();
        let options = QpOptions {
            service: Service::Unreliable,
            ..options_over(&cq, false)
        };
        let qp = QueuePair::create(&host.pd, options).unwrap();
        qp.modify(&init_attributes(), INIT).unwrap();
        let buffer = Buffer::new(1 << 16);
        let region = host.region(&buffer);
        Self {
            qp,
            cq,
            region,
            buffer,
        }
    }

    fn connect(&self, number: u32, host: &Host) {
        self.qp.modify(&rtr(number, host), RTR).unwrap();
        let attributes = QpAttributes {
            state: QpState::Rts,
            ..QpAttributes::default()
        };
        let mask = QpMask::STATE | QpMask::SQ_PSN;
        self.qp.modify(&attributes, mask).unwrap();
    }

    fn sge(&self, offset: u64, length: u32) -> softverbs::Sge {
        softverbs::Sge {
            addr: self.region.first() + offset,
            length,
            lkey: self.region.key(),
        }
    }

    fn place(&self, offset: u64) -> RemotePlace {
        RemotePlace {
            addr: self.region.first() + offset,
            rkey: self.region.key(),
        }
    }

    fn post(&self, wr_id: u64, operation: SendOperation, length: u32) -> softverbs::Result<()> {
        let sges = [self.sge(0, length)];
        self.qp.post_send(&SendRequest {
            operation,
            ..send_of(wr_id, SendData::Sges(&sges))
        })
    }

    fn statuses(&self, count: usize) -> Vec<(u64, WcStatus)> {
        let found = polled(&self.cq, count).into_iter();
        found.map(|one| (one.wr_id, one.status)).collect()
    }
}

fn pair(seed: u64) -> (World, [Host; 2], [Unreliable; 2]) {
    let (world, hosts) = hosts(seed);
    let [a, b] = hosts.each_ref().map(Unreliable::new);
    a.connect(b.qp.number(), &hosts[1]);
    b.connect(a.qp.number(), &hosts[0]);
    (world, hosts, [a, b])
}

#[test]
fn sends_and_writes_arrive() {
    let (_world, _hosts, [a, b]) = pair(1);
    a.buffer.write(0, b"sent and written");
    b.qp.post_receive(7, &[b.sge(1024, 64)]).unwrap();
    b.qp.post_receive(8, &[b.sge(2048, 64)]).unwrap();
    a.post(1, SendOperation::Write(b.place(512)), 16).unwrap();
    a.post(2, SendOperation::SendImmediate([1, 2, 3, 4]), 4)
        .unwrap();
    a.post(3, SendOperation::WriteImmediate(b.place(600), [5; 4]), 8)
        .unwrap();
    assert_eq!(a.statuses(3), [1, 2, 3].map(|wr_id| (wr_id, Success)));
    let got = polled(&b.cq, 2);
    assert_eq!(
        (got[0].byte_len(), got[0].immediate),
        (4, Some([1, 2, 3, 4]))
    );
    assert_eq!(
        (got[1].opcode, got[1].byte_len()),
        (WcOpcode::ReceiveImmediate, 8)
    );
    let mut written = [0; 16];
    b.buffer.read(512, &mut written);
    assert_eq!(&written, b"sent and written");
}

/// What would fail a reliable queue pair because of its peer is dropped.
#[test]
fn what_the_peer_cannot_take_is_dropped() {
    let (world, _hosts, [a, b]) = pair(2);
    a.buffer.write(0, &[1; 64]);
    let bad = RemotePlace {
        rkey: 12345,
        ..b.place(0)
    };
    a.post(1, SendOperation::Send, 64).unwrap(); // there is no Receive
    a.post(2, SendOperation::Write(bad), 64).unwrap();
    a.post(3, SendOperation::WriteImmediate(b.place(0), [1; 4]), 8)
        .unwrap();
    assert_eq!(a.statuses(3), [1, 2, 3].map(|wr_id| (wr_id, Success)));
    while world.step() {}
    // Octets are taken by the thread that polls.
    assert_eq!(b.cq.poll(&mut [WorkCompletion::default(); 4]), 0);
    b.qp.post_receive(7, &[b.sge(1024, 16)]).unwrap();
    a.post(4, SendOperation::Send, 17).unwrap(); // longer than the Receive
    a.post(5, SendOperation::Send, 16).unwrap();
    assert_eq!(a.statuses(2), [(4, Success), (5, Success)]);
    let [got] = polled(&b.cq, 1)[..] else {
        unreachable!()
    };
    assert_eq!((got.wr_id, got.status, got.byte_len()), (7, Success, 16));
    assert_eq!((a.qp.state(), b.qp.state()), (QpState::Rts, QpState::Rts));
}

#[test]
fn it_neither_reads_nor_invalidates() {
    let (_world, hosts, [a, b]) = pair(3);
    for operation in [
        SendOperation::Read(b.place(0)),
        SendOperation::FetchAdd(b.place(0), 1),
        SendOperation::CompareSwap(b.place(0), 1, 2),
        SendOperation::SendInvalidate(1),
    ] {
        assert_eq!(
            errno(a.post(1, operation, 8)),
            Errno::INVAL,
            "{operation:?}"
        );
    }
    let world = World::new(1, softverbs::Conditions::default());
    let iwarp = Host::simulated(&world, 1, DeviceKind::Iwarp);
    let cq = CompletionQueue::create(&iwarp.context, 16, None).unwrap();
    let options = QpOptions {
        service: Service::Unreliable,
        ..options_over(&cq, false)
    };
    let refused = QueuePair::create(&iwarp.pd, options);
    assert_eq!(errno(refused), Errno::OPNOTSUPP);
    drop(hosts);
}

/// Without a peer requests are dropped after a time, and those behind them may find one.
#[test]
fn requests_without_a_peer_succeed_and_a_peer_may_come_later() {
    let (world, hosts) = hosts(4);
    let [a, b] = hosts.each_ref().map(Unreliable::new);
    a.connect(b.qp.number(), &hosts[1]);
    a.post(1, SendOperation::Send, 16).unwrap();
    world.pass(Duration::from_millis(1900));
    assert_eq!(a.cq.poll(&mut [WorkCompletion::default()]), 0);
    assert_eq!(a.statuses(1), [(1, Success)]);
    b.qp.post_receive(7, &[b.sge(1024, 16)]).unwrap();
    b.connect(a.qp.number(), &hosts[0]);
    a.post(2, SendOperation::Send, 8).unwrap();
    assert_eq!(a.statuses(1), [(2, Success)]);
    assert_eq!(polled(&b.cq, 1)[0].byte_len(), 8);

    // A peer that is gone fails nothing.
    b.qp.destroy().unwrap();
    a.qp.post_receive(8, &[a.sge(1024, 16)]).unwrap();
    while world.step() {}
    for wr_id in 3..50 {
        a.post(wr_id, SendOperation::Send, 16).unwrap();
        assert_eq!(a.statuses(1), [(wr_id, Success)]);
    }
    assert_eq!(a.qp.state(), QpState::Rts);
}

/// Both ends are of one service.
#[test]
fn a_reliable_queue_pair_is_no_peer() {
    let (world, hosts) = hosts(5);
    let a = Unreliable::new(&hosts[0]);
    let cq = CompletionQueue::create(&hosts[1].context, 16, None).unwrap();
    let b = QueuePair::create(&hosts[1].pd, options_over(&cq, false)).unwrap();
    b.modify(&init_attributes(), INIT).unwrap();
    b.modify(&rtr(a.qp.number(), &hosts[0]), crate::numbers::RTR)
        .unwrap();
    b.post_receive(7, &[]).unwrap();
    a.connect(b.number(), &hosts[1]);
    a.post(1, SendOperation::Send, 0).unwrap();
    assert_eq!(a.statuses(1), [(1, Success)], "dropped");
    world.pass(Duration::from_secs(60));
    assert_eq!(cq.poll(&mut [WorkCompletion::default()]), 0);
}
