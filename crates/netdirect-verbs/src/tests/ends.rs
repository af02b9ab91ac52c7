//! The reasons why connections end or are not made.

use netdirect::{
    ConnectionEnd, EndReason, EndedBy, Fault, LocalToken, OpFlags, Overlapped, Sge, Started, Status,
};

use super::connections::{connecting, newest, requested};
use super::{Objects, eventually, fake, last_post};
use crate::sys::bindings as c;

const SGE: Sge = Sge {
    address: 4096,
    length: 8,
    token: LocalToken(1),
};

/// The vendor's numbers of devices: siw, softnd's own libraries, Chelsio, and Mellanox, whose device is not of iWARP here.
const SIW: u32 = 0x62_6D_74;
const SOFTND: u32 = 0x02_53_4E;
const CXGB4: u32 = 0x1425;
const MLX: u32 = 0x02C9;

/// Who ended it, by what, and a part of the sentence.
type Expected = (EndedBy, EndReason, &'static str);

fn is_as_expected(end: Option<ConnectionEnd>, (by, reason, part): Expected) {
    let end = end.expect("a reason");
    assert_eq!((end.by(), end.reason()), (by, reason), "{end}");
    assert!(end.what().contains(part), "{end}");
    assert!(!end.what().ends_with('.'), "{end}");
}

fn device(vendor_id: u32) {
    fake::with(|world| (world.vendor_id, world.is_infiniband) = (vendor_id, vendor_id == MLX));
}

/// An established connection of a device.
fn connected(vendor_id: u32) -> Objects {
    device(vendor_id);
    let objects = Objects::new();
    if vendor_id != MLX {
        let overlapped = objects.connect(&[]);
        super::complete_connect(&*objects.connector, &overlapped);
        return objects;
    }
    let (overlapped, id) = connecting(&objects, &[]);
    fake::with(|world| {
        let event = c::RDMA_CM_EVENT_CONNECT_RESPONSE;
        world.tell_with(id, event, 0, &[], (4, 2));
    });
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    let completed = objects.connector.complete_connect(&overlapped);
    assert_eq!(completed, Ok(Started::Pending));
    assert_eq!(overlapped.wait(), Status::SUCCESS);
    objects
}

/// Waits until the reason of the end is known, on which connector and queue pair agree.
fn ended(objects: &Objects, expected: Expected) -> ConnectionEnd {
    assert!(eventually(|| objects.qp.connection_end().is_some()));
    let end = objects.connector.connection_end();
    assert_eq!(objects.qp.connection_end(), end);
    is_as_expected(end.clone(), expected);
    end.expect("a reason")
}

#[test]
fn an_attempt_that_fails_says_why_in_its_end_and_in_its_words() {
    use EndReason::{Disconnect, Network, Refused, Rejected, Reset, Silence, TimeLimit};
    use EndedBy::{Neither, Peer};
    let rows: [(u32, c::rdma_cm_event_type, i32, &[u8], Expected); 12] = [
        (
            SIW,
            c::RDMA_CM_EVENT_REJECTED,
            -libc::ECONNRESET,
            b"no",
            (Peer, Rejected, "program rejected"),
        ),
        (
            SIW,
            c::RDMA_CM_EVENT_REJECTED,
            -libc::ECONNREFUSED,
            b"",
            (
                Peer,
                Rejected,
                "nothing listens at the address; the device does not say which",
            ),
        ),
        (
            MLX,
            c::RDMA_CM_EVENT_REJECTED,
            28,
            b"",
            (Peer, Rejected, "program rejected"),
        ),
        (
            MLX,
            c::RDMA_CM_EVENT_REJECTED,
            8,
            b"",
            (Peer, Refused, "nothing listens"),
        ),
        (
            MLX,
            c::RDMA_CM_EVENT_REJECTED,
            10,
            b"",
            (Peer, Rejected, "reason 10 of InfiniBand"),
        ),
        (
            SIW,
            c::RDMA_CM_EVENT_UNREACHABLE,
            -libc::ETIMEDOUT,
            b"",
            (Neither, TimeLimit, "not answered the request"),
        ),
        (
            SIW,
            c::RDMA_CM_EVENT_ROUTE_ERROR,
            -libc::ENETUNREACH,
            b"",
            (Neither, Network, "unreachable"),
        ),
        (
            SIW,
            c::RDMA_CM_EVENT_CONNECT_ERROR,
            -libc::ETIMEDOUT,
            b"",
            (Neither, Silence, "host has not answered"),
        ),
        (
            SIW,
            c::RDMA_CM_EVENT_CONNECT_ERROR,
            -libc::ECONNRESET,
            b"",
            (Peer, Reset, "reset"),
        ),
        (
            SIW,
            c::RDMA_CM_EVENT_CONNECT_ERROR,
            0,
            b"",
            (Neither, Network, "does not say why"),
        ),
        (
            SIW,
            c::RDMA_CM_EVENT_CONNECT_ERROR,
            -libc::EADDRINUSE,
            b"",
            (EndedBy::ThisSide, Network, "local address"),
        ),
        (
            SIW,
            c::RDMA_CM_EVENT_DISCONNECTED,
            0,
            b"",
            (Peer, Disconnect, "before it answered"),
        ),
    ];
    for (vendor_id, event, status, data, expected) in rows {
        let _turn = fake::turn();
        device(vendor_id);
        let objects = Objects::new();
        assert_eq!(objects.connector.connection_end(), None);
        let (overlapped, id) = connecting(&objects, &[]);
        fake::with(|world| world.tell_with(id, event, status, data, (0, 0)));
        let _ = overlapped.wait();
        let end = objects.connector.connection_end();
        let error = overlapped.result().expect_err("it fails");
        assert_eq!(Some(error.what()), end.as_ref().map(ConnectionEnd::what));
        is_as_expected(end, expected);
        // The queue pair was never connected.
        assert_eq!(objects.qp.connection_end(), None);
    }
}

#[test]
fn a_call_that_fails_is_a_reason_and_another_attempt_forgets_it() {
    let _turn = fake::turn();
    let objects = Objects::new();
    fake::with(|world| world.connect_returns = libc::ECONNREFUSED);
    assert_eq!(objects.connect(&[]).wait(), Status::CONNECTION_REFUSED);
    let refused = (EndedBy::Peer, EndReason::Refused, "refused the connection");
    is_as_expected(objects.connector.connection_end(), refused);
    fake::with(|world| world.connect_returns = 0);
    let overlapped = objects.connect(&[]);
    assert_eq!(objects.connector.connection_end(), None);
    objects
        .connector
        .cancel_overlapped_requests()
        .expect("cancelled");
    assert_eq!(overlapped.status(), Status::CANCELED);
    let given_up = (
        EndedBy::ThisSide,
        EndReason::Disconnect,
        "gave the attempt up",
    );
    is_as_expected(objects.connector.connection_end(), given_up);
}

#[test]
fn an_accept_that_fails_says_why() {
    use EndReason::{Disconnect, Reset, TimeLimit};
    use EndedBy::{Peer, ThisSide};
    for (event, status, expected) in [
        (
            c::RDMA_CM_EVENT_UNREACHABLE,
            -libc::ETIMEDOUT,
            (ThisSide, TimeLimit, "in time"),
        ),
        (
            c::RDMA_CM_EVENT_CONNECT_ERROR,
            -libc::ECONNRESET,
            (Peer, Reset, "ended or reset"),
        ),
        (
            c::RDMA_CM_EVENT_DISCONNECTED,
            0,
            (Peer, Disconnect, "gave the connection up"),
        ),
        (
            c::RDMA_CM_EVENT_REJECTED,
            0,
            (Peer, Disconnect, "gave the connection up"),
        ),
    ] {
        let _turn = fake::turn();
        let objects = Objects::new();
        requested(&objects);
        let overlapped = Overlapped::new();
        let (connector, qp) = (&objects.connector, &objects.qp);
        let accepted = connector.accept(qp, 1, 1, &[], &overlapped);
        assert_eq!(accepted, Ok(Started::Pending));
        let id = newest();
        fake::with(|world| world.tell(id, event, status));
        let _ = overlapped.wait();
        let error = overlapped.result().expect_err("it fails");
        let end = connector.connection_end();
        assert_eq!(Some(error.what()), end.as_ref().map(ConnectionEnd::what));
        is_as_expected(end, expected);
    }
}

#[test]
fn the_connection_manager_tells_little_about_an_end() {
    use EndReason::{Disconnect, Reset, Silence};
    use EndedBy::{Neither, Peer};
    for (vendor_id, event, status, expected) in [
        (
            SIW,
            c::RDMA_CM_EVENT_DISCONNECTED,
            0,
            (
                Peer,
                Disconnect,
                "or the connection was reset or lost; the device does not say which",
            ),
        ),
        (
            SOFTND,
            c::RDMA_CM_EVENT_DISCONNECTED,
            0,
            (Peer, Disconnect, "or the connection was reset or lost"),
        ),
        (
            CXGB4,
            c::RDMA_CM_EVENT_DISCONNECTED,
            -libc::ECONNRESET,
            (Peer, Reset, "reset"),
        ),
        (
            MLX,
            c::RDMA_CM_EVENT_DISCONNECTED,
            0,
            (Peer, Disconnect, "the peer disconnected"),
        ),
        (
            MLX,
            c::RDMA_CM_EVENT_UNREACHABLE,
            -libc::ETIMEDOUT,
            (Neither, Silence, "not answered in time"),
        ),
    ] {
        let _turn = fake::turn();
        let objects = connected(vendor_id);
        assert_eq!(objects.connector.connection_end(), None);
        assert_eq!(objects.qp.connection_end(), None);
        let id = newest();
        fake::with(|world| world.tell(id, event, status));
        ended(&objects, expected);
        // What follows does not replace it.
        let overlapped = Overlapped::new();
        let _ = objects.connector.disconnect(&overlapped).expect("started");
        assert_eq!(overlapped.wait(), Status::SUCCESS);
        is_as_expected(objects.connector.connection_end(), expected);
    }
}

#[test]
fn this_side_is_the_one_that_disconnects_flushes_or_releases() {
    type Act = fn(&Objects);
    let ends: [(Act, &str); 2] = [
        (
            |objects| drop(objects.connector.disconnect(&Overlapped::new())),
            "this side disconnected",
        ),
        (
            |objects| objects.qp.flush().expect("flushed"),
            "flushed the queue pair",
        ),
    ];
    for (end, part) in ends {
        let _turn = fake::turn();
        let objects = Objects::connected();
        end(&objects);
        let expected = (EndedBy::ThisSide, EndReason::Disconnect, part);
        is_as_expected(objects.connector.connection_end(), expected);
        is_as_expected(objects.qp.connection_end(), expected);
    }
    let _turn = fake::turn();
    let Objects {
        adapter,
        file,
        cq,
        qp,
        connector,
    } = Objects::connected();
    drop(qp);
    let released = (
        EndedBy::ThisSide,
        EndReason::Disconnect,
        "released the queue pair",
    );
    is_as_expected(connector.connection_end(), released);
    drop((adapter, file, cq));
}

#[test]
fn only_softnds_own_libraries_tell_the_terminate() {
    for (vendor_err, by, code) in [
        (0x3_1205, EndedBy::Peer, "1/2/05"),
        (0x1_2002, EndedBy::ThisSide, "2/0/02"),
    ] {
        let _turn = fake::turn();
        let objects = connected(SOFTND);
        objects.qp.receive(1, &[SGE]).expect("posted");
        let post = last_post();
        let id = newest();
        fake::with(|world| {
            // In one turn of the adapter's thread: the result says more than the event.
            world.holds_events = true;
            world.complete_as(post, c::IBV_WC_WR_FLUSH_ERR, |result| {
                result.vendor_err = vendor_err
            });
            world.tell(id, c::RDMA_CM_EVENT_DISCONNECTED, 0);
        });
        let end = ended(&objects, (by, EndReason::Terminate, "found an error"));
        assert!(end.what().contains(&format!("Terminate {code}")), "{end}");
        let terminate = end.terminate_code().expect("a code");
        assert_eq!(terminate.to_string(), code);
        // The end is known a moment before the result is in the queue.
        let failed = objects.result();
        let error = objects.qp.explain(&failed);
        assert!(error.what().contains(code), "{error}");
    }
}

#[test]
fn a_failed_request_says_which_side_found_an_error() {
    use EndReason::{Silence, Terminate};
    use EndedBy::{Neither, Peer, ThisSide};
    for (vendor_id, status, expected) in [
        (
            CXGB4,
            c::IBV_WC_REM_ACCESS_ERR,
            (Peer, Terminate, "memory to which it has no right"),
        ),
        (
            CXGB4,
            c::IBV_WC_LOC_PROT_ERR,
            (ThisSide, Terminate, "memory that is not registered"),
        ),
        (
            MLX,
            c::IBV_WC_RNR_RETRY_EXC_ERR,
            (Peer, Terminate, "no Receive"),
        ),
        (
            MLX,
            c::IBV_WC_RETRY_EXC_ERR,
            (Neither, Silence, "not answered in time"),
        ),
        (MLX, c::IBV_WC_REM_INV_REQ_ERR, (Peer, Terminate, "invalid")),
        (
            MLX,
            c::IBV_WC_REM_OP_ERR,
            (Peer, Terminate, "could not carry"),
        ),
        (
            MLX,
            c::IBV_WC_FATAL_ERR,
            (ThisSide, Terminate, "does not say more"),
        ),
        (
            SIW,
            c::IBV_WC_LOC_QP_OP_ERR,
            (ThisSide, Terminate, "memory that is not registered"),
        ),
    ] {
        let _turn = fake::turn();
        let objects = connected(vendor_id);
        let flags = OpFlags::empty();
        objects.qp.send(1, &[SGE], flags).expect("posted");
        let post = last_post();
        fake::with(|world| {
            world.complete_as(post, status, |result| result.vendor_err = 0xAB);
        });
        assert_eq!(objects.result().request_context, 1);
        let end = ended(&objects, expected);
        assert_eq!(end.terminate_code(), None);
        assert!(
            end.what().ends_with("the device's own code is 0xab"),
            "{end}"
        );
    }
}

#[test]
fn siw_does_not_say_what_was_wrong_with_a_message() {
    let _turn = fake::turn();
    let objects = connected(SIW);
    objects.qp.receive(1, &[SGE]).expect("posted");
    let post = last_post();
    fake::with(|world| world.complete(post, c::IBV_WC_GENERAL_ERR, 0));
    assert_eq!(objects.result().status, Status::ACCESS_VIOLATION);
    let expected = (
        EndedBy::ThisSide,
        EndReason::Terminate,
        "an error in a message; the device does not say which",
    );
    ended(&objects, expected);
}

#[test]
fn the_device_tells_of_errors_that_fail_no_request() {
    use EndReason::Terminate;
    use EndedBy::ThisSide;
    for (event, part) in [
        (
            c::IBV_EVENT_QP_ACCESS_ERR,
            "no right (IBV_EVENT_QP_ACCESS_ERR)",
        ),
        (c::IBV_EVENT_QP_REQ_ERR, "invalid (IBV_EVENT_QP_REQ_ERR)"),
        (c::IBV_EVENT_QP_FATAL, "IBV_EVENT_QP_FATAL"),
    ] {
        let _turn = fake::turn();
        let objects = connected(MLX);
        fake::with(|world| world.tell_of_pair(event));
        ended(&objects, (ThisSide, Terminate, part));
    }
    // The error of a queue pair that is not connected is no end of a connection.
    let _turn = fake::turn();
    device(MLX);
    let objects = Objects::new();
    fake::with(|world| world.tell_of_pair(c::IBV_EVENT_QP_FATAL));
    fake::until(|world| !world.has_device_events());
    assert_eq!(objects.qp.connection_end(), None);
}

#[test]
fn a_broken_queue_and_a_removed_device_are_reasons() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    let extensions = objects.adapter.extensions().expect("some");
    let broken = Fault::BreakCompletionQueue {
        queue: objects.cq.clone(),
        status: Status::INTERNAL_ERROR,
    };
    extensions.inject(broken).expect("broken");
    ended(
        &objects,
        (EndedBy::ThisSide, EndReason::QueueBroke, "broke down"),
    );
    drop(objects);
    fake::until_closed();

    let objects = Objects::connected();
    let extensions = objects.adapter.extensions().expect("some");
    extensions.inject(Fault::RemoveDevice).expect("removed");
    let removed = (EndedBy::ThisSide, EndReason::Removed, "was removed");
    is_as_expected(objects.connector.connection_end(), removed);
    is_as_expected(objects.qp.connection_end(), removed);
}
