//! Why a request failed, through `INDXOverlapped`.

use std::ffi::c_char;
use std::net::SocketAddr;
use std::ptr;
use std::sync::Arc;

use netdirect::{
    Affinity, Error, Fault, Listener, NotifyType, Overlapped as Request, Provider,
    QueuePairOptions, Started, Status,
};
use netdirect_com::abi::*;
use netdirect_com::import::linked;

use crate::client::{End, LOOPBACK, SOFTND, adapter, call, close, end, file, overlapped, release};
use crate::connection_end::SOFTND_AS_LIBRARY;

/// A listener that is bound and does not listen: its port refuses connections.
fn bound_only() -> (Arc<dyn Listener>, SocketAddr) {
    let provider = softnd::provider(softnd::Options::default());
    let loopback = "127.0.0.1:0".parse().unwrap();
    let adapter = provider
        .open_adapter(provider.resolve_address(loopback).unwrap())
        .unwrap();
    let file = adapter.create_overlapped_file().unwrap();
    let listener = adapter.create_listener(&file).unwrap();
    listener.bind(loopback).unwrap();
    let address = listener.get_local_address().unwrap();
    (listener, address)
}

/// The errors of requests that were pending: a Connect that is refused, a GetConnectionRequest that is cancelled, and a Notify whose device
/// is removed.
fn failures(provider: &dyn Provider, refuses: SocketAddr) -> [Error; 3] {
    let loopback = (refuses.ip(), 0).into();
    let adapter = provider
        .open_adapter(provider.resolve_address(loopback).unwrap())
        .unwrap();
    let file = adapter.create_overlapped_file().unwrap();
    let connector = || adapter.create_connector(&file).unwrap();
    let cq = adapter
        .create_completion_queue(&file, 8, Affinity::default())
        .unwrap();
    let options = QueuePairOptions::default();
    let qp = adapter.create_queue_pair(&cq, &cq, options).unwrap();
    let failed = |started: netdirect::Result<Started>, request: &Request| {
        assert_eq!(started.unwrap(), Started::Pending);
        request.wait();
        request.result().expect_err("the request fails")
    };

    let request = Request::new();
    let active = connector();
    let started = active.connect(&qp, refuses, 0, 0, &[], &request);
    let refused = failed(started, &request);

    let listener = adapter.create_listener(&file).unwrap();
    listener.bind(loopback).unwrap();
    listener.listen(0).unwrap();
    let started = listener.get_connection_request(&connector(), &request);
    listener.cancel_overlapped_requests().unwrap();
    let cancelled = failed(started, &request);

    let started = cq.notify(NotifyType::Any, &request);
    let extensions = adapter.extensions().expect("softnd has extensions");
    extensions.inject(Fault::RemoveDevice).unwrap();
    let removed = failed(started, &request);
    [refused, cancelled, removed]
}

#[test]
fn requests_that_fail_later_have_the_words_of_the_traits() {
    let (_bound, refuses) = bound_only();
    // SAFETY: the functions are those of this project's libraries.
    let library = unsafe { linked("softnd", SOFTND_AS_LIBRARY) }.unwrap();
    let direct = softnd::provider(softnd::Options::default());
    let by_traits = failures(&*direct, refuses);
    assert_eq!(failures(&*library, refuses), by_traits);
    let statuses = [
        Status::CONNECTION_REFUSED,
        Status::CANCELED,
        Status::DEVICE_REMOVED,
    ];
    assert_eq!(by_traits.each_ref().map(Error::status), statuses);
    for error in by_traits {
        assert!(error.what().len() > 10, "{error:?}");
    }
}

fn query(object: This, iid: &Guid) -> This {
    let mut other = ptr::null_mut();
    let status = call!(object, UnknownTable, query_interface(iid, &raw mut other));
    assert_eq!(status, Status::SUCCESS);
    other
}

/// Asks for the explanation of a request, with as much room.
fn get(object: This, overlapped: &mut Overlapped, room: &mut [u8]) -> (Status, usize) {
    let mut size = u32::try_from(room.len()).unwrap();
    let text = match room {
        [] => ptr::null_mut(),
        room => room.as_mut_ptr().cast::<c_char>(),
    };
    let status = call!(
        object,
        OverlappedExtensionTable,
        get_explanation(&raw mut *overlapped, text, &raw mut size)
    );
    (status, size as usize)
}

/// A Connect to a port that refuses: its final status.
fn connect(end_: &End, refuses: SocketAddr, overlapped: &mut Overlapped) -> Status {
    let mut address = LOOPBACK;
    address[2..4].copy_from_slice(&refuses.port().to_be_bytes());
    let address = address.as_ptr().cast();
    let (connector, data) = (end_.connector, ptr::null());
    let started = call!(
        connector,
        ConnectorTable,
        connect(end_.qp, address, 16, 0, 0, data, 0, &raw mut *overlapped)
    );
    assert_eq!(started, Status::PENDING);
    end(connector, started, overlapped)
}

#[test]
fn a_client_gets_the_explanation_of_each_failed_request_in_the_room_that_it_has() {
    let (_bound, refuses) = bound_only();
    let adapter = adapter(&SOFTND);
    let file = file(adapter);
    let end_ = End::new(adapter, file);
    let of_connector = query(end_.connector, &IID_OVERLAPPED_EXTENSION);
    let of_cq = query(end_.cq, &IID_OVERLAPPED_EXTENSION);
    // It is the object that it was asked of.
    for iid in [&IID_ND2_CONNECTOR, &IID_IUNKNOWN, &IID_ND2_OVERLAPPED] {
        assert_eq!(query(of_connector, iid), end_.connector);
        assert_eq!(release(end_.connector), 2);
    }
    let mut nobody = ptr::null_mut();
    let (of_qp, iid) = (end_.qp, &IID_OVERLAPPED_EXTENSION);
    let status = call!(of_qp, UnknownTable, query_interface(iid, &raw mut nobody));
    assert_eq!(status, Status::NO_INTERFACE, "a queue pair has no requests");

    let mut failed = overlapped();
    let mut room = [0; 256];
    assert_eq!(
        get(of_connector, &mut failed, &mut []),
        (Status::SUCCESS, 0)
    );
    let status = connect(&end_, refuses, &mut failed);
    assert_eq!(status, Status::CONNECTION_REFUSED);
    let (status, len) = get(of_connector, &mut failed, &mut []);
    assert_eq!(status, Status::BUFFER_OVERFLOW);
    assert_eq!(
        get(of_connector, &mut failed, &mut room[..len - 1]),
        (Status::BUFFER_OVERFLOW, len)
    );
    assert_eq!(room, [0; 256]);
    assert_eq!(
        get(of_connector, &mut failed, &mut room),
        (Status::SUCCESS, len)
    );
    let words = str::from_utf8(&room[..len]).unwrap();
    assert!(words.contains("refused"), "{words}");
    // Of another request, and of another object.
    assert_eq!(
        get(of_connector, &mut overlapped(), &mut room),
        (Status::SUCCESS, 0)
    );
    assert_eq!(get(of_cq, &mut failed, &mut room), (Status::SUCCESS, 0));

    let (mut size, text) = (256, room.as_mut_ptr().cast::<c_char>());
    for (overlapped, text, size, expected) in [
        (
            ptr::null_mut(),
            text,
            &raw mut size,
            Status::INVALID_PARAMETER_1,
        ),
        (
            &raw mut failed,
            ptr::null_mut(),
            &raw mut size,
            Status::INVALID_PARAMETER_2,
        ),
        (
            &raw mut failed,
            text,
            ptr::null_mut(),
            Status::INVALID_PARAMETER_3,
        ),
    ] {
        let status = call!(
            of_connector,
            OverlappedExtensionTable,
            get_explanation(overlapped, text, size)
        );
        assert_eq!(status, expected);
    }
    assert_eq!(release(of_connector), 1);
    assert_eq!(release(of_cq), 1);
    end_.release();
    close(file);
    assert_eq!(release(adapter), 0);
}

#[test]
fn an_object_keeps_64_explanations_and_a_new_request_takes_the_old_one_back() {
    let adapter = adapter(&SOFTND);
    let file = file(adapter);
    let mut cq = ptr::null_mut();
    let iid = &IID_ND2_COMPLETION_QUEUE;
    let status = call!(
        adapter,
        AdapterTable,
        create_completion_queue(iid, file, 4, 0, 0, &raw mut cq)
    );
    assert_eq!(status, Status::SUCCESS);
    let explanations = query(cq, &IID_OVERLAPPED_EXTENSION);
    let mut requests: Vec<_> = (0..65).map(|_| overlapped()).collect();
    for request in &mut requests {
        let started = call!(cq, CompletionQueueTable, notify(1, &raw mut *request));
        assert_eq!(started, Status::PENDING);
        let status = call!(cq, OverlappedTable, cancel_overlapped_requests());
        assert_eq!(status, Status::SUCCESS);
        assert_eq!(end(cq, started, request), Status::CANCELED);
    }
    let has_words = |request: &mut Overlapped| get(explanations, request, &mut [0; 256]).1 > 0;
    let kept: Vec<_> = requests.iter_mut().map(has_words).collect();
    assert!(!kept[0]);
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 64);

    let last = requests.last_mut().unwrap();
    let started = call!(cq, CompletionQueueTable, notify(1, &raw mut *last));
    assert_eq!(started, Status::PENDING);
    assert!(!has_words(last), "a new request uses the OVERLAPPED");
    let status = call!(cq, OverlappedTable, cancel_overlapped_requests());
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(end(cq, started, last), Status::CANCELED);
    assert!(has_words(last));

    assert_eq!(release(explanations), 1);
    assert_eq!(release(cq), 0);
    close(file);
    assert_eq!(release(adapter), 0);
}
