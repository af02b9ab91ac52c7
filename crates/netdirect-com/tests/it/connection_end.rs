//! The reason why a connection ended, through `INDXConnectionEnd`.

use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;
use std::thread;

use netdirect::{
    Affinity, Buffer, Connector, EndReason, EndedBy, MrFlags, OpFlags, Overlapped, QueuePair,
    QueuePairOptions, ReadLimits, Sge, ext,
};
use netdirect_com::abi::{
    ConnectionEnd, ConnectionEndTable, Guid, IID_CONNECTION_END, IID_IUNKNOWN, IID_ND2_CONNECTOR,
    IID_ND2_QUEUE_PAIR, Status, This, UnknownTable,
};
use netdirect_com::export::{can_unload_now, get_class_object};
use netdirect_com::import::{Linked, linked};

use crate::client::{End, SOFTND, adapter, call, close, file, release};

unsafe extern "system" fn class_object(
    _: *const Guid,
    iid: *const Guid,
    object: *mut This,
) -> Status {
    // SAFETY: the arguments are those of DllGetClassObject.
    unsafe { get_class_object(&SOFTND, iid, object) }
}

unsafe extern "system" fn unload() -> Status {
    can_unload_now()
}

pub(crate) const SOFTND_AS_LIBRARY: Linked = Linked {
    get_class_object: class_object,
    can_unload_now: unload,
    exports: &[],
};

/// One side of a connection, in the traits.
struct Side {
    connector: Arc<dyn Connector>,
    qp: Arc<dyn QueuePair>,
    /// 64 registered octets.
    sge: Sge,
    _kept: Box<dyn std::any::Any>,
}

/// A connection through the tables of a library.
fn pair() -> [Side; 2] {
    // SAFETY: the functions are those of this project's libraries.
    let provider = unsafe { linked("softnd", SOFTND_AS_LIBRARY) }.unwrap();
    let loopback = "127.0.0.1:0".parse().unwrap();
    let id = provider.resolve_address(loopback).unwrap();
    let adapter = provider.open_adapter(id).unwrap();
    let file = adapter.create_overlapped_file().unwrap();
    let side = || {
        let cq = adapter
            .create_completion_queue(&file, 8, Affinity::default())
            .unwrap();
        let options = QueuePairOptions::default();
        let qp = adapter.create_queue_pair(&cq, &cq, options).unwrap();
        let (region, buffer) = (
            adapter.create_memory_region(&file).unwrap(),
            Buffer::new(64),
        );
        let overlapped = Overlapped::new();
        let registered = region.register(&buffer, MrFlags::ALLOW_LOCAL_WRITE, &overlapped);
        ext::wait(registered, &overlapped).unwrap();
        Side {
            connector: adapter.create_connector(&file).unwrap(),
            qp,
            sge: Sge {
                address: buffer.address(),
                length: 64,
                token: region.get_local_token(),
            },
            _kept: Box::new((region, buffer)),
        }
    };
    let (active, passive) = (side(), side());
    let listener = adapter.create_listener(&file).unwrap();
    listener.bind(loopback).unwrap();
    listener.listen(0).unwrap();
    let address = listener.get_local_address().unwrap();
    let limits = ReadLimits {
        inbound: 1,
        outbound: 1,
    };
    thread::scope(|scope| {
        scope.spawn(|| ext::connect(&active.connector, &active.qp, address, limits, &[]).unwrap());
        ext::get_connection_request(&listener, &passive.connector).unwrap();
        ext::accept(&passive.connector, &passive.qp, limits, &[]).unwrap();
    });
    [active, passive]
}

/// The end of the side's connection, which connector and queue pair agree on.
fn ended(side: &Side) -> netdirect::ConnectionEnd {
    let overlapped = Overlapped::new();
    let notified = side.connector.notify_disconnect(&overlapped);
    ext::wait(notified, &overlapped).unwrap();
    let end = side.connector.connection_end().expect("a reason");
    assert_eq!(side.qp.connection_end().as_ref(), Some(&end));
    end
}

#[test]
fn each_end_knows_which_one_disconnected() {
    let [active, passive] = pair();
    for side in [&active, &passive] {
        assert_eq!(side.connector.connection_end(), None);
        assert_eq!(side.qp.connection_end(), None);
    }
    ext::disconnect(&active.connector).unwrap();
    let end = active.connector.connection_end().expect("a reason");
    assert_eq!(
        (end.by(), end.reason()),
        (EndedBy::ThisSide, EndReason::Disconnect)
    );
    assert_eq!(
        (end.what(), end.terminate_code()),
        ("this side disconnected", None)
    );
    let end = ended(&passive);
    assert_eq!(
        (end.by(), end.reason()),
        (EndedBy::Peer, EndReason::Disconnect)
    );
    assert_eq!(
        (end.what(), end.terminate_code()),
        ("the peer disconnected", None)
    );
}

#[test]
fn both_ends_have_the_code_of_a_terminate() {
    let [active, passive] = pair();
    let short = Sge {
        length: 8,
        ..passive.sge
    };
    passive.qp.receive(1, &[short]).unwrap();
    active.qp.send(2, &[active.sge], OpFlags::empty()).unwrap();
    for (side, by) in [(&active, EndedBy::Peer), (&passive, EndedBy::ThisSide)] {
        let end = ended(side);
        assert_eq!((end.by(), end.reason()), (by, EndReason::Terminate));
        assert_eq!(
            end.terminate_code().expect("a Terminate").to_string(),
            "1/2/05"
        );
        assert!(end.what().contains("Terminate 1/2/05"), "{end}");
    }
}

fn query(object: This, iid: &Guid) -> This {
    let mut other = ptr::null_mut();
    let status = call!(object, UnknownTable, query_interface(iid, &raw mut other));
    assert_eq!(status, Status::SUCCESS);
    other
}

/// Asks for the end, with as much room for the sentence.
fn get(object: This, room: &mut [u8]) -> (Status, ConnectionEnd, u32) {
    let (mut end, mut size) = (ConnectionEnd::default(), u32::try_from(room.len()).unwrap());
    let text = match room {
        [] => ptr::null_mut(),
        room => room.as_mut_ptr().cast::<c_char>(),
    };
    let status = call!(
        object,
        ConnectionEndTable,
        get_connection_end(&raw mut end, text, &raw mut size)
    );
    (status, end, size)
}

#[test]
fn a_connector_that_has_failed_says_why_in_the_room_that_it_gets() {
    let adapter = adapter(&SOFTND);
    let file = file(adapter);
    let end = End::new(adapter, file);
    let of_qp = query(end.qp, &IID_CONNECTION_END);
    let of_connector = query(end.connector, &IID_CONNECTION_END);
    // Both are the objects that they were asked of.
    for (other, main, iid) in [
        (of_qp, end.qp, IID_ND2_QUEUE_PAIR),
        (of_connector, end.connector, IID_ND2_CONNECTOR),
    ] {
        for iid in [&iid, &IID_IUNKNOWN] {
            assert_eq!(query(other, iid), main);
            assert_eq!(call!(main, UnknownTable, release()), 2);
        }
    }
    let nothing = ConnectionEnd::default();
    for object in [of_qp, of_connector] {
        assert_eq!(
            get(object, &mut [0; 8]),
            (Status::CONNECTION_INVALID, nothing, 8)
        );
    }

    let refused = refuse(&end);
    assert_eq!(refused, Status::CONNECTION_REFUSED);
    let by = EndedBy::ALL
        .iter()
        .position(|by| *by == EndedBy::Peer)
        .unwrap();
    let reason = EndReason::ALL
        .iter()
        .position(|reason| *reason == EndReason::Refused)
        .unwrap();
    let expected = ConnectionEnd {
        ended_by: u32::try_from(by).unwrap() + 1,
        reason: u32::try_from(reason).unwrap() + 1,
        ..nothing
    };
    let (status, found, size) = get(of_connector, &mut []);
    assert_eq!((status, found), (Status::BUFFER_OVERFLOW, expected));
    let mut room = [0; 256];
    let len = size as usize;
    assert_eq!(
        get(of_connector, &mut room[..len - 1]),
        (Status::BUFFER_OVERFLOW, expected, size)
    );
    assert_eq!(room, [0; 256]);
    assert_eq!(
        get(of_connector, &mut room),
        (Status::SUCCESS, expected, size)
    );
    assert!(str::from_utf8(&room[..len]).unwrap().contains("refused"));
    assert_eq!(room[len..], [0; 256][len..]);
    // The queue pair was never connected.
    assert_eq!(get(of_qp, &mut room).0, Status::CONNECTION_INVALID);

    let (mut left, mut size) = (nothing, 256);
    let text = room.as_mut_ptr().cast::<c_char>();
    for (fields, text, size, status) in [
        (
            ptr::null_mut(),
            text,
            &raw mut size,
            Status::INVALID_PARAMETER_1,
        ),
        (
            &raw mut left,
            ptr::null_mut(),
            &raw mut size,
            Status::INVALID_PARAMETER_2,
        ),
        (
            &raw mut left,
            text,
            ptr::null_mut(),
            Status::INVALID_PARAMETER_3,
        ),
    ] {
        let answer = call!(
            of_connector,
            ConnectionEndTable,
            get_connection_end(fields, text, size)
        );
        assert_eq!(answer, status);
    }
    assert_eq!(release(of_qp), 1);
    assert_eq!(release(of_connector), 1);
    end.release();
    close(file);
    assert_eq!(release(adapter), 0);
}

/// Connects to a port where nothing listens, and returns the final status.
fn refuse(end: &End) -> Status {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = unused.local_addr().unwrap().port();
    drop(unused);
    let mut address = crate::client::LOOPBACK;
    address[2..4].copy_from_slice(&port.to_be_bytes());
    let mut overlapped = crate::client::overlapped();
    let started = call!(
        end.connector,
        netdirect_com::abi::ConnectorTable,
        connect(
            end.qp,
            address.as_ptr().cast(),
            16,
            0,
            0,
            ptr::null(),
            0,
            &raw mut overlapped
        )
    );
    crate::client::end(end.connector, started, &mut overlapped)
}
