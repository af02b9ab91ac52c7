//! Sends with a number.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use softverbs::{
    CmEventKind, CompletionQueue, Conditions, DeviceKind, Errno, ProcessOptions, QpState,
    QueuePair, SendData, SendOperation, SendRequest, WcOpcode, WcStatus, WorkCompletion, World,
};

use crate::common::{End, Host, Pair, errno, parameters, send_of};
use crate::numbers::{INIT, RTR, RTS, init_attributes, rtr, rts_attributes};

use DeviceKind::{Iwarp, Roce};
use WcStatus::{Flushed, LocalQpOperation, Success};

const NUMBER: SendOperation = SendOperation::SendImmediate([9, 8, 7, 6]);

/// A signaled Send with a number.
fn with_number(wr_id: u64, data: SendData<'_>) -> SendRequest<'_> {
    SendRequest {
        operation: NUMBER,
        ..send_of(wr_id, data)
    }
}

/// Each end sends to the other one at the same time, three messages of which the second has no number.
fn exchange(ends: [&End; 2]) {
    for (end, text) in ends.into_iter().zip([b"from here", b"and there"]) {
        end.buffer.write(0, text);
        for wr_id in 0..3 {
            let sges = [end.sge(1024 + 64 * wr_id, 64)];
            end.qp.post_receive(wr_id, &sges).unwrap();
        }
    }
    for end in ends {
        let sges = [end.sge(0, 4), end.sge(4, 5)];
        let data = SendData::Sges(&sges);
        end.qp.post_send(&with_number(10, data)).unwrap();
        end.qp.post_send(&send_of(11, data)).unwrap();
        let inline = SendData::Inline(&[b"in", b"line"]);
        let solicited = SendRequest {
            solicited: true,
            ..with_number(12, inline)
        };
        end.qp.post_send(&solicited).unwrap();
    }
    for (end, text) in ends.into_iter().zip([b"and there", b"from here"]) {
        let (received, sent) = apart(end.completions(6));
        let number = Some([9, 8, 7, 6]);
        assert_eq!(
            received,
            [(0, 9, number), (1, 9, None), (2, 6, number)],
            "once, in order, with the length of the message"
        );
        assert_eq!(sent, [10, 11, 12]);
        assert_eq!(end.buffer.slice(1024..1033).to_vec(), text);
        assert_eq!(end.buffer.slice(1152..1158).to_vec(), b"inline");
    }
}

type Received = (u64, u32, Option<[u8; 4]>);

/// The successful completions of Receives and of Sends.
fn apart(all: Vec<WorkCompletion>) -> (Vec<Received>, Vec<u64>) {
    assert!(all.iter().all(|one| one.status == Success), "{all:?}");
    let (received, sent): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|one| one.opcode == WcOpcode::Receive);
    assert!(sent.iter().all(|one| one.opcode == WcOpcode::Send));
    let received = received.iter();
    let received = received.map(|one| (one.wr_id, one.byte_len(), one.immediate));
    (
        received.collect(),
        sent.iter().map(|one| one.wr_id).collect(),
    )
}

#[test]
fn a_send_brings_a_number_over_rdma_cm() {
    for pair in [Pair::simulated(80, Roce), Pair::on_sockets()] {
        let (client, server) = pair.connect();
        exchange([&client, &server]);
    }
}

/// Over UDP the start-up is the same.
#[test]
fn a_send_brings_a_number_over_udp() {
    let mut options = ProcessOptions::default();
    options.udp = Some(softverbs::security::Security::default());
    let pair = Pair::simulated_with(81, options.clone(), options);
    let (client, server) = pair.connect();
    exchange([&client, &server]);
}

/// The first requests follow the events at once, and those of the passive side come before the ready-to-receive message.
#[test]
fn a_send_with_a_number_is_the_first_request() {
    for seed in 0..100 {
        let pair = Pair::simulated(seed, Roce);
        let (listener, address) = pair.server.listen();
        let client = pair.client.resolved(address);
        let client = End::new(&pair.client, client, None);
        client.qp.post_receive(1, &[client.sge(64, 8)]).unwrap();
        client.id.connect(&parameters(b"hello")).unwrap();
        let (id, _) = pair.server.request();
        let server = End::new(&pair.server, id, None);
        server.qp.post_receive(1, &[server.sge(64, 8)]).unwrap();
        server.id.accept(&parameters(b"welcome")).unwrap();
        let data = SendData::Inline(&[b"x"]);
        server.qp.post_send(&with_number(2, data)).unwrap();
        pair.client.expect(CmEventKind::Established);
        client.qp.post_send(&with_number(2, data)).unwrap();
        pair.server.expect(CmEventKind::Established);
        for end in [&client, &server] {
            let (received, sent) = apart(end.completions(2));
            assert_eq!(received, [(1, 1, Some([9, 8, 7, 6]))], "seed {seed}");
            assert_eq!(sent, [2]);
        }
        listener.destroy().unwrap();
    }
}

/// A queue pair that the program connects by numbers.
struct Numbered {
    qp: Arc<QueuePair>,
    cq: Arc<CompletionQueue>,
}

impl Numbered {
    fn new(host: &Host) -> Self {
        let cq = CompletionQueue::create(&host.context, 64, None).unwrap();
        let options = crate::common::options_over(&cq, false);
        let qp = QueuePair::create(&host.pd, options).unwrap();
        qp.modify(&init_attributes(), INIT).unwrap();
        Self { qp, cq }
    }

    fn connect(&self, number: u32, host: &Host) {
        self.qp.modify(&rtr(number, host), RTR).unwrap();
        self.qp.modify(&rts_attributes(14), RTS).unwrap();
    }

    fn completions(&self, count: usize) -> Vec<WorkCompletion> {
        crate::common::polled(&self.cq, count)
    }
}

/// A message with a number, posted before there is a connection, arrives.
fn brings_a_number(ends: &[&Numbered]) {
    let data = SendData::Inline(&[]);
    for end in ends {
        end.qp.post_receive(1, &[]).unwrap();
        end.qp.post_send(&with_number(2, data)).unwrap();
    }
    for end in ends {
        let (received, sent) = apart(end.completions(2));
        assert_eq!(received, [(1, 0, Some([9, 8, 7, 6]))]);
        assert_eq!(sent, [2]);
    }
}

/// Both sides agree by the version in the private data.
#[test]
fn a_send_brings_a_number_between_numbers() {
    for (seed, hosts) in [(82, 2), (83, 1)] {
        let world = World::new(seed, Conditions::default());
        let hosts: Vec<_> = (1..=hosts)
            .map(|at| Host::simulated(&world, at, Roce))
            .collect();
        let [here, there] = [&hosts[0], &hosts[hosts.len() - 1]];
        let (one, other) = (Numbered::new(here), Numbered::new(there));
        one.connect(other.qp.number(), there);
        other.connect(one.qp.number(), here);
        brings_a_number(&[&one, &other]);
    }
}

/// Its stream has no other side.
#[cfg(target_os = "linux")]
#[test]
fn a_queue_pair_brings_itself_a_number() {
    let host = crate::numbers::on_sockets();
    let itself = Numbered::new(&host);
    itself.connect(itself.qp.number(), &host);
    brings_a_number(&[&itself]);
}

#[test]
fn a_device_for_iwarp_has_no_sends_with_a_number() {
    let pair = Pair::simulated(84, Iwarp);
    let (client, server) = pair.connect();
    let data = SendData::Inline(&[]);
    for end in [&client, &server] {
        let refused = end.qp.post_send(&with_number(1, data));
        assert_eq!(errno(refused), Errno::OPNOTSUPP);
        let mut list = end.qp.post_sends();
        assert_eq!(errno(list.post(&with_number(1, data))), Errno::OPNOTSUPP);
        drop(list);
        assert_eq!(end.qp.state(), QpState::Rts);
    }
    // All else works.
    server.qp.post_receive(1, &[]).unwrap();
    client.post(2, SendOperation::Send, &[]);
    assert_eq!(client.statuses(1), [(2, Success)]);
}

/// What was explained. Tests of this file that look at it run one at a time.
static EXPLAINED: Mutex<Vec<String>> = Mutex::new(Vec::new());
static ALONE: Mutex<()> = Mutex::new(());

/// A client and a server of these kinds, of which the first ones to be RoCE explain themselves.
fn mixed(seed: u64, kinds: [DeviceKind; 2]) -> Pair {
    let options = |kind| {
        let mut options = ProcessOptions::default();
        options.kind = kind;
        options.on_end = Some(|sentence| EXPLAINED.lock().unwrap().push(sentence.to_owned()));
        options
    };
    EXPLAINED.lock().unwrap().clear();
    let [client, server] = kinds.map(options);
    Pair::simulated_with(seed, client, server)
}

/// A peer that is no such device ends the queue pair if the request was posted before that was known, and the request is refused once it is
/// known. No octet of it arrives.
#[test]
fn a_send_with_a_number_to_another_peer_fails() {
    let _alone = ALONE.lock();
    for (seed, kinds, is_known) in [
        (85, [Roce, Iwarp], false),
        (86, [Roce, Iwarp], true),
        (87, [Iwarp, Roce], true),
    ] {
        let pair = mixed(seed, kinds);
        let (client, server) = pair.connect();
        let (roce, iwarp) = match kinds {
            [Roce, _] => (&client, &server),
            _ => (&server, &client),
        };
        roce.qp.post_receive(1, &[]).unwrap();
        roce.qp.post_receive(2, &[]).unwrap();
        iwarp.qp.post_receive(1, &[]).unwrap();
        let data = SendData::Inline(&[]);
        if is_known {
            // The first message of the peer.
            iwarp.post(4, SendOperation::Send, &[]);
            assert_eq!(roce.statuses(1), [(1, Success)]);
            let refused = roce.qp.post_send(&with_number(5, data));
            assert_eq!(errno(refused), Errno::OPNOTSUPP);
            assert_eq!(roce.qp.state(), QpState::Rts, "it goes on");
            roce.post(6, SendOperation::Send, &[]);
            assert_eq!(roce.statuses(1), [(6, Success)]);
            continue;
        }
        roce.qp.post_send(&with_number(5, data)).unwrap();
        roce.qp.post_send(&send_of(6, data)).unwrap();
        iwarp.post(4, SendOperation::Send, &[]);
        let mut all = roce.statuses(4);
        all.sort_by_key(|(wr_id, _)| *wr_id);
        let expected = [
            (1, Success),
            (2, Flushed),
            (5, LocalQpOperation),
            (6, Flushed),
        ];
        assert_eq!(all, expected);
        assert_eq!(roce.qp.state(), QpState::Err);
        let other = iwarp.statuses(2);
        assert_eq!(other[0], (4, Success));
        assert_eq!(other[1], (1, Flushed), "nothing has arrived");
        let said = EXPLAINED.lock().unwrap().join("\n");
        assert!(said.contains("has not sent a Send with a number"), "{said}");
        // In error it is accepted.
        roce.qp.post_send(&with_number(7, data)).unwrap();
        assert_eq!(roce.statuses(1), [(7, Flushed)]);
    }
}

/// All else goes on meanwhile.
#[test]
fn a_send_with_a_number_waits_ten_seconds_for_a_silent_peer() {
    let _alone = ALONE.lock();
    let pair = mixed(88, [Roce, Iwarp]);
    let (client, server) = pair.connect();
    server.qp.post_receive(1, &[server.sge(0, 8)]).unwrap();
    client.post(1, SendOperation::Send, &[]);
    assert_eq!(client.statuses(1), [(1, Success)]);
    let data = SendData::Inline(&[b"x"]);
    client.qp.post_send(&with_number(2, data)).unwrap();
    let start = pair.world().now();
    let failed = client.statuses(1);
    assert_eq!(failed, [(2, LocalQpOperation)]);
    let passed = pair.world().now() - start;
    let limit = Duration::from_secs(10);
    assert!((limit..limit * 2).contains(&passed), "{passed:?}");
    assert_eq!(server.statuses(1), [(1, Success)]);
}
