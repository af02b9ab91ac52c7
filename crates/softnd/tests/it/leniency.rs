//! AMB-071: the default profile counts each lenient case by name and logs the case once. The strict profile refuses these cases and
//! counts nothing.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use crate::common::{
    self, ALL, LONG, Pair, Side, connect, end, idle, log, now, open_at, raw, run, status,
};
use iwarp_io::setup::{Enhanced, Frame, FrameKind};
use netdirect::{Adapter, CompletionResult, Counters, MrFlags, OpFlags, Overlapped, Status};
use softnd::{Options, Profile};

const ACTS: [&str; 5] = [
    "lenient.surplus_sges",
    "lenient.receive_wait",
    "lenient.passive_first",
    "lenient.no_ready_message",
    "lenient.read_sink",
];

/// A side with a separate address, which distinguishes its log lines from those of other tests.
fn side(profile: Profile, host: u8) -> Side {
    log::keep();
    let address = IpAddr::from([127, 0, 71, host]);
    let options = Options::default().profile(profile).addresses([address]);
    Side::on_adapter(open_at(address, options))
}

fn counters(adapter: &Arc<dyn Adapter>) -> Counters {
    adapter.extensions().unwrap().counters()
}

/// Asserts that this adapter has counted the case this many times and no other case, and has logged at most one line.
fn assert_counted(adapter: &Arc<dyn Adapter>, host: u8, act: &str, times: u64) {
    let counters = counters(adapter);
    for name in ACTS {
        let due = if name == act { times } else { 0 };
        assert_eq!(counters.get(name), Some(due), "{name}");
    }
    assert_eq!(counters.total("lenient"), times);
    let own = format!("127.0.71.{host}");
    let lines = log::lines_with(&[&own]);
    assert_eq!(lines.len(), usize::from(times > 0), "{lines:?}");
    assert!(lines.iter().all(|line| line.contains(act)), "{lines:?}");
    let in_span = |line: &String| line.ends_with(log::IN_SPAN);
    assert!(lines.iter().all(in_span), "{lines:?}");
}

/// Sends a message from the active to the passive side, so that the passive side is not the first to send.
fn greet(pair: &Pair) {
    pair.passive_qp.receive(90, &[]).unwrap();
    pair.active_qp.send(91, &[], OpFlags::empty()).unwrap();
    assert_eq!(pair.passive.result().status, Status::SUCCESS);
    assert_eq!(pair.active.result().status, Status::SUCCESS);
}

#[test]
fn amb_009_requests_with_more_sges_than_asked_for() {
    for (profile, host) in [(Profile::Default, 1), (Profile::Strict, 2)] {
        let lenient = profile == Profile::Default;
        let pair = connect(side(profile, host), Side::new(), 16);
        let adapter = &pair.active.adapter;
        let region = pair.active.region(8, ALL);
        let one = [region.sge(0, 4)];
        let two = [region.sge(0, 4), region.sge(4, 4)];
        for context in 0..2 {
            pair.passive_qp
                .receive(context, &[region_of(&pair)])
                .unwrap();
        }
        pair.active_qp.send(1, &one, OpFlags::empty()).unwrap();
        pair.active_qp.receive(2, &one).unwrap();
        assert_counted(adapter, host, ACTS[0], 0);
        let due = if lenient {
            Status::SUCCESS
        } else {
            Status::DATA_OVERRUN
        };
        assert_eq!(status(pair.active_qp.send(3, &two, OpFlags::empty())), due);
        assert_eq!(status(pair.active_qp.receive(4, &two)), due);
        assert_counted(adapter, host, ACTS[0], if lenient { 2 } else { 0 });
        // A request that both profiles refuse is not counted.
        let three = [region.sge(0, 1); 3];
        let refused = pair.active_qp.send(5, &three, OpFlags::empty());
        assert_eq!(status(refused), Status::DATA_OVERRUN);
        assert_counted(adapter, host, ACTS[0], if lenient { 2 } else { 0 });
    }
}

fn region_of(pair: &Pair) -> netdirect::Sge {
    let region = pair.passive.region(8, ALL);
    let sge = region.sge(0, 8);
    std::mem::forget(region.region); // registered to the end of the process
    sge
}

/// Polls until the counter has this value.
fn await_count(side: &Side, act: &str, due: u64) {
    let began = now();
    while counters(&side.adapter).get(act) != Some(due) {
        let mut none = [CompletionResult::default()];
        assert_eq!(side.cq.get_results(&mut none), 0, "{none:?}");
        assert!(now() - began < LONG, "{act} never became {due}");
        idle();
    }
}

#[test]
fn amb_008_sends_that_wait_for_a_receive() {
    let (act, host) = (ACTS[1], 3);
    let pair = connect(Side::new(), side(Profile::Default, host), 16);
    greet(&pair);
    assert_counted(&pair.passive.adapter, host, act, 0);
    for times in 1..=2 {
        pair.active_qp.send(1, &[], OpFlags::empty()).unwrap();
        await_count(&pair.passive, act, times);
        pair.passive_qp.receive(2, &[]).unwrap();
        assert_eq!(pair.passive.result().status, Status::SUCCESS);
        assert_counted(&pair.passive.adapter, host, act, times);
    }
    let host = 4;
    let pair = connect(Side::new(), side(Profile::Strict, host), 16);
    let ended = run(|overlapped| {
        let started = pair.active_connector.notify_disconnect(overlapped);
        pair.active_qp.send(1, &[], OpFlags::empty()).unwrap();
        started
    });
    assert_eq!(ended, Ok(()));
    assert_counted(&pair.passive.adapter, host, act, 0);
}

#[test]
fn amb_040_the_passive_side_sends_first() {
    let act = ACTS[2];
    for (profile, host) in [(Profile::Default, 5), (Profile::Strict, 6)] {
        let lenient = profile == Profile::Default;
        let pair = connect(Side::new(), side(profile, host), 16);
        let passive = pair.passive.clone();
        pair.active_qp.receive(1, &[]).unwrap();
        pair.active_qp.receive(2, &[]).unwrap();
        let send = |pair: &Pair| status(pair.passive_qp.send(3, &[], OpFlags::empty()));
        let due = if lenient {
            Status::SUCCESS
        } else {
            Status::CONNECTION_INVALID
        };
        assert_eq!(send(&pair), due);
        assert_counted(&passive.adapter, host, act, u64::from(lenient));
        // The case counts once for each connection.
        assert_eq!(send(&pair), due);
        assert_counted(&passive.adapter, host, act, u64::from(lenient));
        // On this connection the active side sends first.
        let pair = connect(pair.active.clone(), passive, 4);
        pair.active_qp.receive(1, &[]).unwrap();
        greet_after(&pair);
        assert_eq!(send(&pair), Status::SUCCESS);
        assert_counted(&pair.passive.adapter, host, act, u64::from(lenient));
    }
}

/// Like [`greet`], when results of other connections may be in the queues.
fn greet_after(pair: &Pair) {
    pair.passive_qp.receive(90, &[]).unwrap();
    pair.active_qp.send(91, &[], OpFlags::empty()).unwrap();
    while pair.passive.result().request_context != 90 {}
}

#[test]
fn mpa2_022_peers_without_the_ready_to_receive_message() {
    let act = ACTS[3];
    for (profile, host) in [(Profile::Default, 7), (Profile::Strict, 8)] {
        let lenient = profile == Profile::Default;
        let side = side(profile, host);
        let (server, address) = raw::server();
        let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
        let connecting = connector.connect(&qp, address, 1, 1, &[], &connects);
        let mut stream = server.accept();
        stream.receive(24);
        let mut reply = Vec::new();
        plain_reply().encode(&mut reply);
        stream.write_all(&reply).unwrap();
        let connected = end(connecting, &connects);
        let due = if lenient {
            Ok(())
        } else {
            Err(Status::CONNECTION_REFUSED)
        };
        assert_eq!(connected, due);
        assert_counted(&side.adapter, host, act, u64::from(lenient));
        drop((connector, qp));
        stream.rest();
    }
}

/// Revision 2 with A = 0.
fn plain_reply() -> Frame {
    Frame {
        kind: FrameKind::Reply,
        markers: false,
        crc: true,
        rejected: false,
        revision: 2,
        enhanced: Some(Enhanced {
            peer_to_peer: false,
            rtr_send: false,
            rtr_write: false,
            rtr_read: false,
            ird: 4,
            ord: 4,
        }),
        private_data: Vec::new(),
    }
}

#[test]
fn amb_015_reads_into_memory_for_local_writing() {
    let act = ACTS[4];
    for (profile, host) in [(Profile::Default, 9), (Profile::Strict, 10)] {
        let lenient = profile == Profile::Default;
        let pair = connect(side(profile, host), Side::new(), 16);
        let adapter = &pair.active.adapter;
        let target = pair.passive.region(8, ALL);
        let good = pair.active.region(8, MrFlags::RDMA_READ_SINK);
        let narrow = pair.active.region(8, MrFlags::ALLOW_LOCAL_WRITE);
        let read = |region: &common::Region| {
            let sink = [region.sge(0, 8)];
            let none = OpFlags::empty();
            pair.active_qp
                .read(1, &sink, target.remote(0), none)
                .unwrap();
            pair.active.result().status
        };
        assert_eq!(read(&good), Status::SUCCESS);
        assert_counted(adapter, host, act, 0);
        if lenient {
            assert_eq!(
                (read(&narrow), read(&narrow)),
                (Status::SUCCESS, Status::SUCCESS)
            );
            let token = iwarp_io::memory::STag(narrow.token().0).to_string();
            let lines = log::lines_with(&["127.0.71.9", &token]);
            assert_eq!(lines.len(), 1, "the line names the memory: {token}");
        } else {
            assert_eq!(read(&narrow), Status::ACCESS_VIOLATION);
        }
        assert_counted(adapter, host, act, if lenient { 2 } else { 0 });
    }
}

/// A client that works on every adapter is counted in no case.
#[test]
fn a_client_fit_for_adapters_counts_nothing() {
    let host = 11;
    let pair = connect(side(Profile::Default, host), Side::new(), 16);
    greet(&pair);
    let (a, b) = (pair.active.region(8, ALL), pair.passive.region(8, ALL));
    let none = OpFlags::empty();
    pair.active_qp
        .write(1, &[a.sge(0, 8)], b.remote(0), none)
        .unwrap();
    pair.active_qp
        .read(2, &[a.sge(0, 8)], b.remote(0), none)
        .unwrap();
    let results = pair.active.results(2);
    assert!(
        results
            .iter()
            .all(|result| result.status == Status::SUCCESS)
    );
    assert_counted(&pair.active.adapter, host, "", 0);
}
