//! The reason why a connection ended, as both ends have it.

use std::sync::Arc;
use std::time::Duration;

use crate::common::ending::{Ending, watched, write_astray};
use crate::common::{
    ALL, LONG, Pair, Side, TRANSPORT, end, idle, now, pair, pair_with, run, status, wait,
};
use netdirect::{
    ConnectionEnd, Connector, EndReason, EndedBy, Fault, LocalToken, MrFlags, OpFlags, Overlapped,
    QueuePair, Sge, Status,
};
use softnd::Options;

/// The end as both objects report it, when the connection has ended.
fn ended(connector: &Arc<dyn Connector>, qp: &Arc<dyn QueuePair>) -> ConnectionEnd {
    run(|overlapped| connector.notify_disconnect(overlapped)).unwrap();
    let end = connector.connection_end().expect("a reason");
    assert_eq!(qp.connection_end().as_ref(), Some(&end));
    assert!(!end.what().is_empty() && !end.hint().is_empty(), "{end:?}");
    end
}

fn active(pair: &Pair) -> ConnectionEnd {
    ended(&pair.active_connector, &pair.active_qp)
}

fn passive(pair: &Pair) -> ConnectionEnd {
    ended(&pair.passive_connector, &pair.passive_qp)
}

fn is(end: &ConnectionEnd, by: EndedBy, reason: EndReason) {
    assert_eq!((end.by(), end.reason()), (by, reason), "{end:?}");
}

/// This side has found the error of this code, and the other side has its Terminate.
fn terminates(finder: &ConnectionEnd, other: &ConnectionEnd, code: &str) {
    is(finder, EndedBy::ThisSide, EndReason::Terminate);
    is(other, EndedBy::Peer, EndReason::Terminate);
    for end in [finder, other] {
        let sent = end.terminate_code().expect("a Terminate").to_string();
        assert_eq!(sent, code, "{end:?}");
        assert!(end.what().contains(code), "{end:?}");
    }
}

#[test]
fn a_connection_that_lives_has_no_end() {
    let pair = pair();
    assert_eq!(pair.active_connector.connection_end(), None);
    assert_eq!(pair.passive_qp.connection_end(), None);
    let side = Side::new();
    assert_eq!(side.connector().connection_end(), None);
    assert_eq!(side.queue_pair().connection_end(), None);
}

/// Also afterwards, when the client asks why the connection has ended.
#[test]
fn each_end_names_the_transport_of_the_connection() {
    // Whatever the environment says.
    let options = || Options::default().same_host(false);
    let pair = pair_with(options(), options());
    assert_eq!(pair.active.connector().transport(), None);
    let names = || {
        [
            pair.active_connector.transport(),
            pair.passive_connector.transport(),
        ]
    };
    assert_eq!(names(), [Some(TRANSPORT); 2]);
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    assert_eq!(names(), [Some(TRANSPORT); 2]);
}

#[test]
fn each_end_knows_which_one_disconnected() {
    let pair = pair();
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    let end = pair.active_connector.connection_end().expect("a reason");
    is(&end, EndedBy::ThisSide, EndReason::Disconnect);
    is(&passive(&pair), EndedBy::Peer, EndReason::Disconnect);
}

#[test]
fn a_terminate_names_the_error_at_both_ends() {
    let pair = pair();
    write_astray(&pair.active_qp);
    terminates(&passive(&pair), &active(&pair), "1/1/00");
}

#[test]
fn a_message_that_is_too_long_is_named_at_both_ends() {
    let pair = pair();
    let (from, to) = (pair.active.region(64, ALL), pair.passive.region(64, ALL));
    pair.passive_qp.receive(1, &[to.sge(0, 8)]).unwrap();
    let send = pair.active_qp.send(2, &[from.sge(0, 64)], OpFlags::empty());
    send.unwrap();
    terminates(&passive(&pair), &active(&pair), "1/2/05");
}

#[test]
fn a_send_without_a_receive_is_named_at_both_ends() {
    let short = Options::default().receive_wait(Duration::from_millis(1));
    let pair = pair_with(Options::default(), short);
    let from = pair.active.region(8, ALL);
    let send = pair.active_qp.send(2, &[from.sge(0, 8)], OpFlags::empty());
    send.unwrap();
    terminates(&passive(&pair), &active(&pair), "1/2/02");
}

#[test]
fn a_request_that_fails_here_is_named_at_both_ends() {
    let pair = pair();
    let unknown = Sge {
        address: 0,
        length: 1,
        token: LocalToken(0xDEAD_BEEF),
    };
    let send = pair.active_qp.send(98, &[unknown], OpFlags::empty());
    send.unwrap();
    terminates(&active(&pair), &passive(&pair), "0/0/00");
}

/// What follows from the end, and what the program does then, does not replace the reason.
#[test]
fn the_first_reason_counts() {
    let pair = pair();
    write_astray(&pair.active_qp);
    let before = active(&pair);
    run(|overlapped| pair.active_connector.disconnect(overlapped)).unwrap();
    assert_eq!(pair.active_connector.connection_end(), Some(before));
}

#[test]
fn a_reason_outlives_the_queue_pair() {
    let watched = watched(Ending::Orderly);
    (watched.end)();
    run(|overlapped| watched.connector.notify_disconnect(overlapped)).unwrap();
    drop(watched.qp);
    let end = watched.connector.connection_end().expect("a reason");
    is(&end, EndedBy::Peer, EndReason::Disconnect);
}

#[test]
fn the_removal_of_the_device_is_a_reason() {
    let pair = pair();
    let extensions = pair.active.adapter.extensions().unwrap();
    extensions.inject(Fault::RemoveDevice).unwrap();
    let end = pair.active_connector.connection_end().expect("a reason");
    is(&end, EndedBy::ThisSide, EndReason::Removed);
    let of_qp = pair.active_qp.connection_end().expect("a reason");
    is(&of_qp, EndedBy::ThisSide, EndReason::Removed);
    is(&passive(&pair), EndedBy::Peer, EndReason::Reset);
}

#[test]
fn a_queue_that_breaks_down_is_a_reason() {
    let pair = pair();
    let fault = Fault::BreakCompletionQueue {
        queue: Arc::clone(&pair.active.cq),
        status: Status::INTERNAL_ERROR,
    };
    let extensions = pair.active.adapter.extensions().unwrap();
    extensions.inject(fault).unwrap();
    is(&active(&pair), EndedBy::ThisSide, EndReason::QueueBroke);
    is(&passive(&pair), EndedBy::Peer, EndReason::Reset);
}

/// The end of a Connect that fails.
fn refused(side: &Side, to: std::net::SocketAddr) -> ConnectionEnd {
    let (qp, connector) = (side.queue_pair(), side.connector());
    let connects = run(|overlapped| connector.connect(&qp, to, 0, 0, b"", overlapped));
    assert_eq!(connects, Err(Status::CONNECTION_REFUSED));
    assert_eq!(qp.connection_end(), None, "it was never connected");
    connector.connection_end().expect("a reason")
}

#[test]
fn a_connect_to_nobody_is_refused() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    drop(listener);
    is(
        &refused(&active, address),
        EndedBy::Peer,
        EndReason::Refused,
    );
}

/// MPA's Reply tells a rejection by the program and a full backlog apart by the program's private data alone. Without them both are named.
#[test]
fn a_rejection_and_a_full_backlog_are_named() {
    for private_data in [&b"no"[..], b""] {
        let (active, passive) = (Side::new(), Side::new());
        let (listener, address) = passive.listener(0);
        let (qp, connector, theirs) =
            (active.queue_pair(), active.connector(), passive.connector());
        let (arrives, connects) = (Overlapped::new(), Overlapped::new());
        let arrival = listener.get_connection_request(&theirs, &arrives);
        let connecting = connector.connect(&qp, address, 0, 0, b"", &connects);
        end(arrival, &arrives).unwrap();
        theirs.reject(private_data).unwrap();
        assert_eq!(end(connecting, &connects), Err(Status::CONNECTION_REFUSED));
        let end = connector.connection_end().expect("a reason");
        is(&end, EndedBy::Peer, EndReason::Rejected);
        let names_backlog = end.what().contains("backlog");
        assert_eq!(names_backlog, private_data.is_empty(), "{end}");
    }

    // Either of two requests may find the backlog full.
    let (active, passive) = (Side::new(), Side::new());
    let (_listener, address) = passive.listener(1);
    let connect = || {
        let (qp, connector, connects) =
            (active.queue_pair(), active.connector(), Overlapped::new());
        let _ = connector
            .connect(&qp, address, 0, 0, b"", &connects)
            .unwrap();
        (qp, connector, connects)
    };
    let both = [connect(), connect()];
    let refused = || {
        both.iter()
            .find(|(_, _, request)| request.poll() != Status::PENDING)
    };
    let (begun, mut found) = (now(), refused());
    while found.is_none() {
        assert!(now() - begun < LONG, "one is refused");
        idle();
        found = refused();
    }
    let second = found.and_then(|(_, connector, _)| connector.connection_end());
    let second = second.expect("a reason");
    is(&second, EndedBy::Peer, EndReason::Rejected);
    assert!(second.what().contains("backlog"), "{second}");
}

#[test]
fn a_reply_that_does_not_come_in_time_is_a_reason() {
    let short = Options::default().timeouts(|times| times.reply = Some(Duration::from_millis(1)));
    let (active, passive) = (Side::with(short), Side::new());
    let (_listener, address) = passive.listener(0);
    let (qp, connector) = (active.queue_pair(), active.connector());
    let connects = run(|overlapped| connector.connect(&qp, address, 0, 0, b"", overlapped));
    assert_eq!(connects, Err(Status::IO_TIMEOUT));
    let end = connector.connection_end().expect("a reason");
    is(&end, EndedBy::Neither, EndReason::TimeLimit);
}

/// A new Connect forgets the end of the failed one.
#[test]
fn a_new_attempt_forgets_the_end_of_the_last_one() {
    let (active, passive) = (Side::new(), Side::new());
    let (listener, address) = passive.listener(0);
    drop(listener);
    let (qp, connector) = (active.queue_pair(), active.connector());
    let connects = run(|overlapped| connector.connect(&qp, address, 0, 0, b"", overlapped));
    assert_eq!(connects, Err(Status::CONNECTION_REFUSED));
    let (_listener, address) = passive.listener(0);
    let connects = Overlapped::new();
    let _ = connector
        .connect(&qp, address, 0, 0, b"", &connects)
        .unwrap();
    assert_eq!(connector.connection_end(), None);
    assert_eq!(
        status(connector.cancel_overlapped_requests()),
        Status::SUCCESS
    );
    assert_eq!(wait(&connects), Status::CANCELED);
    let end = connector.connection_end().expect("a reason");
    is(&end, EndedBy::ThisSide, EndReason::Disconnect);
}

/// The words about the next results of a side, which have these statuses.
fn words(side: &Side, qp: &Arc<dyn QueuePair>, statuses: &[Status]) -> Vec<String> {
    let results = side.results(statuses.len());
    let found: Vec<_> = results.iter().map(|result| result.status).collect();
    assert_eq!(found, statuses);
    let explained = results.iter().map(|result| qp.explain(result));
    explained.map(|error| error.what().to_owned()).collect()
}

#[test]
fn each_failed_request_has_words() {
    let pair = pair();
    let (from, to) = (pair.active.region(64, ALL), pair.passive.region(64, ALL));
    pair.active_qp.receive(1, &[]).unwrap();
    pair.passive_qp.receive(1, &[to.sge(0, 8)]).unwrap();
    pair.passive_qp.receive(2, &[]).unwrap();
    let send = pair
        .active_qp
        .send(2, &[from.sge(0, 64)], OpFlags::SILENT_SUCCESS);
    send.unwrap();
    let statuses = [Status::BUFFER_OVERFLOW, Status::CANCELED];
    let said = words(&pair.passive, &pair.passive_qp, &statuses);
    assert_eq!(said[0], "the message was longer than this Receive");
    let flushed = "the connection ended before the request was done: ";
    let expected = format!("{flushed}{}", passive(&pair));
    assert_eq!(said[1], expected);
    assert!(expected.contains("1/2/05"), "{expected}");
    let said = words(&pair.active, &pair.active_qp, &[Status::CANCELED]);
    assert_eq!(said, [format!("{flushed}{}", active(&pair))]);
    assert!(said[0].contains("1/2/05"), "{said:?}");
}

#[test]
fn memory_that_is_not_to_be_used_is_named_on_the_side_that_refuses_it() {
    let (here, there) = (pair(), pair());
    let unknown = Sge {
        address: 0,
        length: 1,
        token: LocalToken(0xDEAD_BEEF),
    };
    here.active_qp
        .send(1, &[unknown], OpFlags::empty())
        .unwrap();
    let said = words(&here.active, &here.active_qp, &[Status::ACCESS_VIOLATION]);
    assert!(
        said[0].starts_with("an entry of the request names memory"),
        "{said:?}"
    );

    let target = there.passive.region(8, MrFlags::ALLOW_LOCAL_WRITE);
    let into = there.active.region(8, ALL);
    let read = there
        .active_qp
        .read(1, &[into.sge(0, 8)], target.remote(0), OpFlags::empty());
    read.unwrap();
    let said = words(&there.active, &there.active_qp, &[Status::ACCESS_VIOLATION]);
    let expected = format!("the peer refused access to its memory: {}", active(&there));
    assert_eq!(said, [expected]);
}
