//! The provider in a simulated network: tests that only a simulation can run.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::*;
use netdirect::{
    CompletionPort, Event, Fault, NotifyType, OpFlags, Overlapped, OverlappedFile, Started, Status,
    ext,
};
use softnd::Options;
use softnd::simulation::{Chance, Conditions, Simulation};

fn sides(simulation: &Simulation) -> (Side, Side) {
    let side = |host| {
        let adapter = simulation.open([10, 0, 0, host], Options::default());
        Side::on_adapter(adapter.unwrap())
    };
    (side(1), side(2))
}

#[test]
fn two_adapters_connect_and_exchange_a_message() {
    for seed in 0..50 {
        let simulation = Simulation::new(seed);
        let (active, passive) = sides(&simulation);
        let pair = connect(active, passive, 4);
        let (from, to) = (
            pair.active.region(5000, ALL),
            pair.passive.region(5000, ALL),
        );
        from.buffer.fill(7);
        pair.passive_qp.receive(1, &[to.sge(0, 5000)]).unwrap();
        let sges = [from.sge(0, 5000)];
        pair.active_qp.send(2, &sges, OpFlags::empty()).unwrap();
        assert_eq!(pair.active.result().status, Status::SUCCESS);
        let received = pair.passive.result();
        assert_eq!(
            (received.status, received.bytes_transferred),
            (Status::SUCCESS, 5000)
        );
        assert_eq!(to.buffer.slice(0..5000).to_vec(), [7; 5000]);
        run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
        assert!(simulation.time() < Duration::from_secs(1));
    }
}

#[test]
fn a_wait_that_nothing_can_end_is_an_error() {
    let simulation = Simulation::new(1);
    let (side, _) = sides(&simulation);
    let (listener, _) = side.listener(0);
    let (connector, asked) = (side.connector(), Overlapped::new());
    let _ = listener.get_connection_request(&connector, &asked).unwrap();
    assert_eq!(asked.wait(), Status::POSSIBLE_DEADLOCK);
    assert!(asked.is_pending());
    // The error names the request that waits, and the event that it waits for.
    let error = side.file.park(&|| false, None).unwrap_err();
    let listens = "10.0.0.1: GetConnectionRequest (1 in flight) waits for a peer";
    assert!(error.to_string().contains(listens), "{error}");
    // A wait with a limit ends when its virtual time has passed, which takes no real time.
    assert_eq!(asked.wait_timeout(Duration::from_secs(3600)), None);
    assert!(simulation.time() >= Duration::from_secs(3600));
}

/// Both sides write while fault plans hold, cut and reset their streams. Returns the octets that arrived, the statuses, and the time.
fn run_with_plans(seed: u64) -> (Vec<usize>, Vec<Status>, Duration) {
    let simulation = Simulation::new(seed);
    let side = |host: u8, plan: &str| {
        let options = Options::default().faults(plan.parse().unwrap()).unwrap();
        Side::on_adapter(simulation.open([10, 0, 0, host], options).unwrap())
    };
    let active = side(
        1,
        "when 2nd Write sent: hold for 3 ms after octet 30000; when 4th Write sent: reset after octet 5000",
    );
    let passive = side(2, "when each completion: hold for 1 ms");
    let pair = connect(active, passive, 4);
    let (here, there) = (
        pair.active.region(1 << 18, ALL),
        pair.passive.region(1 << 18, ALL),
    );
    here.buffer.fill(1);
    there.buffer.fill(2);
    let ended = Overlapped::new();
    let _ = pair.passive_connector.notify_disconnect(&ended).unwrap();
    let mut statuses = Vec::new();
    for at in 0..5u64 {
        let piece = 50_000 * usize::try_from(at).unwrap();
        let sges = |region: &Region| [region.sge(piece, 50_000)];
        let none = OpFlags::empty();
        pair.passive_qp.receive(at, &[]).unwrap();
        pair.active_qp
            .write(at, &sges(&here), there.remote(piece), none)
            .unwrap();
        pair.active_qp.send(at, &[], none).unwrap();
        if at < 3 {
            pair.active.results(2);
            statuses.push(pair.passive.result().status);
        }
    }
    assert_eq!(ended.wait_timeout(LONG), Some(Status::SUCCESS));
    let arrived = there
        .buffer
        .to_vec()
        .chunks(50_000)
        .map(|piece| piece.iter().filter(|octet| **octet == 1).count())
        .collect();
    statuses.extend(pair.passive.results(2).iter().map(|result| result.status));
    (arrived, statuses, simulation.time())
}

#[test]
fn the_same_seed_and_plans_give_the_same_run() {
    let mut runs = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let (arrived, statuses, time) = run_with_plans(seed);
        assert_eq!(
            run_with_plans(seed),
            (arrived.clone(), statuses.clone(), time),
            "seed {seed}"
        );
        assert_eq!(arrived[..3], [50_000; 3], "seed {seed}");
        assert!(
            arrived[3] < 5000 && arrived[4] == 0,
            "seed {seed}: {arrived:?}"
        );
        let ends = [
            Status::SUCCESS,
            Status::SUCCESS,
            Status::SUCCESS,
            Status::CANCELED,
            Status::CANCELED,
        ];
        assert_eq!(statuses, ends, "seed {seed}");
        runs.insert(time);
    }
    assert!(runs.len() > 10, "seeds differ");
}

#[test]
fn a_wait_ends_at_its_limit_and_not_at_the_next_thing_that_happens() {
    let simulation = Simulation::new(1);
    simulation.change(|network| network.silence = Chance::ALWAYS);
    let (side, _) = sides(&simulation);
    let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
    let _ = connector
        .connect(&qp, at("10.0.0.2:9"), 0, 0, b"", &connects)
        .unwrap();
    // The network is silent until the Connect gives up, which takes much longer.
    let second = Duration::from_secs(1);
    for seconds in 1..=3 {
        assert_eq!(connects.wait_timeout(second), None);
        assert_eq!(simulation.time(), Duration::from_secs(seconds));
    }
    let port = CompletionPort::new();
    side.file.associate(&port, 0).unwrap();
    assert!(port.get(Some(second)).is_none());
    assert_eq!(simulation.time(), Duration::from_secs(4));
    let event = Event::new();
    let notice = Overlapped::with_event(&event);
    let _ = side.cq.notify(NotifyType::Any, &notice).unwrap();
    assert!(!event.wait_timeout(second));
    assert_eq!(simulation.time(), Duration::from_secs(5));
    assert_eq!(connects.wait(), Status::IO_TIMEOUT);
}

/// Virtual time passes for a loop that only polls, by any call.
#[test]
fn a_look_moves_the_simulation() {
    let ways: [fn(&Overlapped, &CompletionPort, &Event); 3] = [
        |connects, _, _| {
            let _ = connects.poll();
        },
        |_, port, _| drop(port.get(Some(Duration::ZERO))),
        |_, _, event| assert!(!event.wait_timeout(Duration::ZERO)),
    ];
    for look in ways {
        let simulation = Simulation::new(1);
        simulation.change(|network| network.silence = Chance::ALWAYS);
        let (side, _) = sides(&simulation);
        let (port, event) = (CompletionPort::new(), Event::new());
        side.file.associate(&port, 0).unwrap();
        let notice = Overlapped::with_event(&event);
        let _ = side.cq.notify(NotifyType::Any, &notice).unwrap();
        let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
        let _ = connector
            .connect(&qp, at("10.0.0.2:9"), 0, 0, b"", &connects)
            .unwrap();
        let looks = (0..1000).take_while(|_| {
            look(&connects, &port, &event);
            connects.is_pending()
        });
        assert!(looks.count() < 999, "no time passes");
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn raw_streams_reach_each_other_and_say_how_they_end() {
    for seed in 0..50 {
        let simulation = Simulation::new(seed);
        let listener = simulation.listen_raw(at("10.0.0.2:0")).unwrap();
        let address = listener.local_addr();
        let nobody = listener.try_accept().unwrap_err();
        assert_eq!(nobody.kind(), ErrorKind::WouldBlock);
        let connect = || {
            let client = simulation.dial_raw([10, 0, 0, 1], address).unwrap();
            (client, listener.accept().unwrap())
        };
        let (mut client, mut server) = connect();
        assert_eq!(client.peer_addr(), address);
        assert_eq!(server.peer_addr(), client.local_addr());
        // In one thread, writing more than the network holds at a time would block for ever.
        client.write_all(&[7; 50_000]).unwrap();
        client.shutdown_write().unwrap();
        let mut octets = Vec::new();
        server.read_to_end(&mut octets).unwrap();
        assert_eq!(octets, [7; 50_000]);
        let nothing = client.try_read(&mut [0]).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        assert_eq!(server.try_write(b"back").unwrap(), 4);
        drop(server);
        client.read_to_end(&mut octets).unwrap();
        assert_eq!(octets[50_000..], *b"back");

        let (client, mut server) = connect();
        client.reset();
        let reset = server.read(&mut [0]).unwrap_err();
        assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_raw_stream_that_cannot_go_on_says_why() {
    let simulation = Simulation::new(1);
    let dial = |to| {
        let dialled = simulation.dial_raw([10, 0, 0, 1], at(to));
        dialled.map(|_| ()).unwrap_err().kind()
    };
    assert_eq!(dial("10.0.0.2:9"), ErrorKind::ConnectionRefused);
    assert_eq!(dial("127.0.0.1:9"), ErrorKind::NetworkUnreachable);
    assert_eq!(dial("[2001:db8::1]:9"), ErrorKind::NetworkUnreachable);
    let listener = simulation.listen_raw(at("10.0.0.2:9")).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::Deadlock);
    let taken = simulation.listen_raw(at("10.0.0.2:9"));
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AddrInUse);
    let mut client = simulation.dial_raw([10, 0, 0, 1], at("10.0.0.2:9"));
    let stuck = client.as_mut().unwrap().read(&mut [0]).unwrap_err();
    assert_eq!(stuck.kind(), ErrorKind::Deadlock);
    let full = client.as_mut().unwrap().write_all(&[0; 1 << 20]);
    assert_eq!(full.unwrap_err().kind(), ErrorKind::Deadlock);
    // Every call of another thread fails as well.
    let elsewhere = std::thread::scope(|scope| {
        let calls = || {
            let to = at("10.0.0.2:9");
            let dialled = simulation.dial_raw([10, 0, 0, 1], to).map(|_| ());
            let listened = simulation.listen_raw(at("10.0.0.3:9")).map(|_| ());
            let read = client.as_mut().unwrap().read(&mut [0]).map(|_| ());
            [dialled, listened, read].map(|call| call.unwrap_err().kind())
        };
        scope.spawn(calls).join().unwrap()
    });
    assert_eq!(elsewhere, [ErrorKind::PermissionDenied; 3]);
}

#[test]
fn a_wait_that_nothing_can_end_tells_what_each_side_waits_for() {
    let simulation = Simulation::new(1);
    let (active, passive) = sides(&simulation);
    let (listener, address) = passive.listener(0);
    let (qp, connector) = (active.queue_pair(), active.connector());
    let connects = Overlapped::new();
    // The request waits in the listener's queue, because GetConnectionRequest is not called.
    let _ = connector
        .connect(&qp, address, 1, 1, b"", &connects)
        .unwrap();
    let _ = connects.wait_timeout(Duration::from_millis(1));
    let report = simulation.report();
    let waits = format!("10.0.0.1: Connect waits for {address} to accept or reject");
    assert!(report.contains(&waits), "{report:#?}");
    assert!(
        report.iter().any(|line| line.ends_with("quiet")),
        "{report:#?}"
    );
    // The waits of programs have the report in their words.
    let waited = ext::wait(Ok(Started::Pending), &connects).unwrap_err();
    assert_eq!(waited.status(), Status::POSSIBLE_DEADLOCK);
    assert!(waited.what().contains(&waits), "{waited}");
    let in_flight = connects.result().unwrap_err();
    assert_eq!(in_flight.status(), Status::PENDING);
    assert!(in_flight.what().contains(&waits), "{in_flight}");
    drop(listener);
    assert_eq!(connects.wait(), Status::CONNECTION_REFUSED);
    let ended = connects.result().unwrap_err();
    assert!(!ended.what().contains(&waits), "{ended}");

    let pair = connect(active, passive, 4);
    let notice = Overlapped::new();
    let _ = pair.active_connector.notify_disconnect(&notice).unwrap();
    pair.active_qp.send(1, &[], OpFlags::empty()).unwrap();
    assert_eq!(pair.active.result().status, Status::SUCCESS);
    let _ = notice.wait_timeout(Duration::from_millis(1));
    let report = simulation.report().join("; ");
    for what in [
        "NotifyDisconnect waits for the end",
        "a Send of the peer waits for a Receive",
    ] {
        assert!(report.contains(what), "{what}: {report}");
    }
}

/// AMB-031: a port that the client has not chosen, and that an ended connection to the same peer still holds, is passed over.
#[test]
fn connects_in_quick_succession_find_free_ports() {
    // This many Connects draw more than a few ports twice.
    const CONNECTS: usize = 800;
    let simulation = Simulation::new(1);
    simulation.change(|conditions| conditions.time_wait = Duration::from_secs(24 * 3600));
    let (active, passive) = sides(&simulation);
    let (listener, address) = passive.listener(0);
    for _ in 0..CONNECTS {
        let (own, other) = (active.queue_pair(), passive.queue_pair());
        let (connector, peer) = (active.connector(), passive.connector());
        let (asks, connects, accepts) = (Overlapped::new(), Overlapped::new(), Overlapped::new());
        let asking = listener.get_connection_request(&peer, &asks);
        let connecting = connector.connect(&own, address, 1, 1, b"", &connects);
        end(asking, &asks).unwrap();
        let accepting = peer.accept(&other, 1, 1, b"", &accepts);
        end(connecting, &connects).unwrap();
        run(|overlapped| connector.complete_connect(overlapped)).unwrap();
        end(accepting, &accepts).unwrap();
        let (here, there) = (Overlapped::new(), Overlapped::new());
        let disconnecting = connector.disconnect(&here);
        let started = peer.notify_disconnect(&there);
        end(started, &there).unwrap();
        let answered = run(|overlapped| peer.disconnect(overlapped));
        answered.unwrap();
        end(disconnecting, &here).unwrap();
    }
}

/// A poll or a step in another thread finds nothing and moves nothing, so that the run still follows from the seed.
#[test]
fn another_thread_does_not_move_a_simulation() {
    let simulation = Simulation::new(1);
    let (active, passive) = sides(&simulation);
    let (_listener, address) = passive.listener(0);
    let (qp, connector) = (active.queue_pair(), active.connector());
    let connects = Overlapped::new();
    let _ = connector
        .connect(&qp, address, 1, 1, b"", &connects)
        .unwrap();
    let before = simulation.time();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut results = [netdirect::CompletionResult::default(); 4];
            for _ in 0..10 {
                assert_eq!(active.cq.get_results(&mut results), 0);
                assert!(!simulation.step());
            }
            simulation.pass(Duration::from_secs(1));
            assert_eq!(connects.poll(), Status::PENDING);
        });
    });
    assert_eq!(simulation.time(), before);
    assert!(simulation.step(), "its own thread goes on");
}

#[test]
fn conn_022_a_host_that_cannot_be_reached_has_a_status_of_its_own() {
    let simulation = Simulation::new(22);
    let (active, passive) = sides(&simulation);
    let pair = connect(active, passive, 4);
    let host = pair.passive.address().ip();
    let (_listener, address) = pair.passive.listener(0);
    let (qp, connector) = (pair.active.queue_pair(), pair.active.connector());
    let tried = || run(|overlapped| connector.connect(&qp, address, 1, 1, b"", overlapped));
    let extensions = pair.active.adapter.extensions().unwrap();
    extensions
        .inject(Fault::UnreachableHost { address: host })
        .unwrap();
    assert_eq!(tried(), Err(Status::HOST_UNREACHABLE));
    assert_eq!(extensions.counters().get("faults.happened"), Some(1));
    // An existing connection continues.
    pair.passive_qp.receive(1, &[]).unwrap();
    pair.active_qp.send(2, &[], OpFlags::empty()).unwrap();
    assert_eq!(pair.passive.result().status, Status::SUCCESS);

    simulation.change(|conditions| conditions.unreachable.clear());
    let connects = Overlapped::new();
    let _ = connector
        .connect(&qp, address, 1, 1, b"", &connects)
        .unwrap();
    simulation.pass(Duration::from_secs(1));
    assert!(connects.is_pending(), "the listener has the request");

    // The system's network cannot be cut.
    let tcp = Side::new();
    let extensions = tcp.adapter.extensions().unwrap();
    let fault = Fault::UnreachableHost { address: host };
    assert_eq!(status(extensions.inject(fault)), Status::NOT_SUPPORTED);
}

/// The limits of the set-up, of 10 s and of 60 s, are over when the connection is up.
#[test]
fn a_time_limit_that_was_cancelled_is_no_event() {
    let simulation = Simulation::new(13);
    let (active, passive) = sides(&simulation);
    let pair = connect(active, passive, 4);
    let begun = simulation.time();
    while simulation.step() {
        let time = simulation.time() - begun;
        assert!(
            time < Duration::from_secs(5),
            "something happens at {time:?}"
        );
    }
    pair.passive_qp.receive(1, &[]).unwrap();
    pair.active_qp.send(2, &[], OpFlags::empty()).unwrap();
    assert_eq!(pair.passive.result().status, Status::SUCCESS);
}

/// The MPA header of a Reply of revision 1 without private data.
const REPLY: &[u8] = b"MPA ID Rep Frame\x40\x01\x00\x00";
const SECOND: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(600);

#[test]
fn conn_031_connect_waits_for_a_slow_application() {
    for quic in [false, true] {
        let simulation = Simulation::new(31);
        let network = if quic {
            simulation.over_udp()
        } else {
            simulation.clone()
        };
        let (active, passive) = sides(&network);
        let (listener, address) = passive.listener(0);
        let (here, there) = (active.connector(), passive.connector());
        let (here_qp, there_qp) = (active.queue_pair(), passive.queue_pair());
        let (connects, accepts) = (Overlapped::new(), Overlapped::new());
        let connecting = here.connect(&here_qp, address, 1, 1, b"", &connects);
        // The application takes a long time for the request, and as long to accept it.
        assert_eq!(connects.wait_timeout(LATE), None);
        run(|overlapped| listener.get_connection_request(&there, overlapped)).unwrap();
        assert_eq!(connects.wait_timeout(LATE), None);
        let accepting = there.accept(&there_qp, 1, 1, b"", &accepts);
        end(connecting, &connects).unwrap();
        run(|overlapped| here.complete_connect(overlapped)).unwrap();
        end(accepting, &accepts).unwrap();
        assert!(simulation.time() >= 2 * LATE);
    }
}

#[test]
fn mpa_024_a_reply_that_has_begun_has_ten_seconds() {
    for octets in [1, 16, REPLY.len() - 1] {
        let simulation = Simulation::new(24);
        let (side, _) = sides(&simulation);
        let server = simulation
            .listen_raw("10.0.0.9:4000".parse::<SocketAddr>().unwrap())
            .unwrap();
        let (qp, connector, connects) = (side.queue_pair(), side.connector(), Overlapped::new());
        let _ = connector
            .connect(&qp, server.local_addr(), 0, 0, b"", &connects)
            .unwrap();
        let mut peer = server.accept().unwrap();
        assert_eq!(connects.wait_timeout(LATE), None);
        peer.write_all(&REPLY[..octets]).unwrap();
        let before = simulation.time();
        assert_eq!(connects.wait(), Status::IO_TIMEOUT, "{octets} octets");
        let waited = simulation.time() - before;
        let limit = Duration::from_secs(10);
        assert!(
            waited >= limit && waited < limit + Duration::from_millis(1),
            "{waited:?}"
        );
    }
}

#[test]
fn a_peer_that_replies_late_or_never() {
    let connect = |name: &str, options: &Options| {
        let provider = softnd::simulation::provider(name, options.clone()).unwrap();
        let addresses = provider.query_address_list().unwrap();
        let side = |at: usize| {
            let id = provider.resolve_address(addresses[at]).unwrap();
            Side::on_adapter(provider.open_adapter(id).unwrap())
        };
        let (active, passive) = (side(0), side(1));
        let (listener, address) = passive.listener(0);
        let (here, there) = (active.connector(), passive.connector());
        let (here_qp, there_qp) = (active.queue_pair(), passive.queue_pair());
        let (connects, accepts) = (Overlapped::new(), Overlapped::new());
        let connecting = here.connect(&here_qp, address, 1, 1, b"", &connects);
        run(|overlapped| listener.get_connection_request(&there, overlapped)).unwrap();
        let _ = there.accept(&there_qp, 1, 1, b"", &accepts);
        let _ = connecting.unwrap();
        connects.wait()
    };
    // The side that accepts does not give up.
    let patient = Options::default().timeouts(|limits| limits.ready = None);
    let limit = Some(LATE / 2);
    let impatient = patient.clone().timeouts(|limits| limits.reply = limit);
    let late = "seed=3,late-reply=1,late-reply-time=600s";
    assert_eq!(connect(late, &patient), Status::SUCCESS);
    assert_eq!(connect(late, &impatient), Status::IO_TIMEOUT);
    let never = "seed=3,no-reply=1";
    assert_eq!(connect(never, &patient), Status::POSSIBLE_DEADLOCK);
    assert_eq!(connect(never, &impatient), Status::IO_TIMEOUT);
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(output) = polled {
            return output;
        }
    }
}

/// A step without a limit meets the time of each sleep to the nanosecond, but not that of one that was dropped.
#[test]
fn a_virtual_timer_is_an_event_of_the_world() {
    let simulation = Simulation::new(5);
    let (side, _) = sides(&simulation);
    let of_file = OverlappedFile::simulation(&*side.file).unwrap();
    let begun = simulation.time();
    let times = [3, 1, 2].map(Duration::from_secs);
    let mut sleeps = Vec::from(times.map(|time| simulation.sleep(time)));
    let another = Duration::from_nanos(1_500_000_001);
    sleeps.push(of_file.sleep(another));
    let dropped = Duration::from_nanos(1_700_000_003);
    drop(simulation.sleep(dropped));
    let mut stops = Vec::new();
    while simulation.time() - begun < times[0] {
        assert!(simulation.step());
        stops.push(simulation.time() - begun);
    }
    for time in times.into_iter().chain([another]) {
        assert!(stops.contains(&time), "{time:?}: {stops:?}");
    }
    assert!(!stops.contains(&dropped));
    let ended = simulation.time();
    for sleep in sleeps {
        block_on(sleep).unwrap();
    }
    assert_eq!(simulation.time(), ended);
}

/// The task that sleeps has its turn at its time, although another task waits for an event that takes longer.
#[test]
fn a_virtual_timer_ends_while_another_task_waits() {
    let simulation = Simulation::new(5);
    let (side, _) = sides(&simulation);
    let (listener, _) = side.listener(0);
    let (connector, asked) = (side.connector(), Overlapped::new());
    let _ = listener.get_connection_request(&connector, &asked).unwrap();
    let (mut longer, mut request) = (
        pin!(simulation.sleep(10 * SECOND)),
        pin!(asked.into_future()),
    );
    let mut short = pin!(simulation.sleep(SECOND));
    let context = &mut Context::from_waker(Waker::noop());
    while short.as_mut().poll(context).is_pending() {
        assert!(longer.as_mut().poll(context).is_pending());
        assert!(request.as_mut().poll(context).is_pending());
    }
    assert_eq!(simulation.time(), SECOND);
}

/// A sleep alone moves the simulation.
#[test]
fn a_virtual_timer_ends_by_itself_and_in_its_own_thread_alone() {
    let simulation = Simulation::new(6);
    block_on(simulation.sleep(7 * SECOND)).unwrap();
    assert_eq!(simulation.time(), 7 * SECOND);
    let other = simulation.clone();
    let ended = std::thread::spawn(move || block_on(other.sleep(SECOND)));
    let error = ended.join().unwrap().unwrap_err();
    assert_eq!(error.status(), Status::INVALID_DEVICE_REQUEST);
    assert_eq!(simulation.time(), 7 * SECOND);
}

/// The status is for decisions of a program, and the result of the `Overlapped` explains the failure to people.
#[test]
fn a_connect_that_fails_says_why() {
    let network = Simulation::new(8);
    let attempt = |change: fn(&mut Conditions)| {
        let mut conditions = Conditions::default();
        change(&mut conditions);
        network.change(|old| *old = conditions);
        let (active, passive) = sides(&network);
        let (listener, address) = passive.listener(0);
        let connector = passive.connector();
        let arrives = Overlapped::new();
        let _ = listener
            .get_connection_request(&connector, &arrives)
            .unwrap();
        let (here, qp, connects) = (active.connector(), active.queue_pair(), Overlapped::new());
        let connecting = here.connect(&qp, address, 1, 1, b"", &connects);
        if arrives.wait_timeout(SECOND) == Some(Status::SUCCESS) {
            connector.reject(b"").unwrap();
        }
        ext::wait(connecting, &connects).unwrap_err().to_string()
    };
    let rejected = attempt(|_| {});
    assert!(
        rejected.starts_with("ND_CONNECTION_REFUSED: the peer rejected"),
        "{rejected}"
    );
    let refused = attempt(|conditions| conditions.refusal = Chance::ALWAYS);
    assert!(
        refused.starts_with("ND_CONNECTION_REFUSED: Connection refused"),
        "{refused}"
    );
    let silent = attempt(|conditions| conditions.silence = Chance::ALWAYS);
    assert!(
        silent.starts_with("ND_IO_TIMEOUT: no connection with 10.0.0.2:"),
        "{silent}"
    );
}
