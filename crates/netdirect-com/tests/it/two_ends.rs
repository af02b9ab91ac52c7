//! softnd as objects of COM.

use std::ptr;

use netdirect::Status;
use netdirect_com::abi::*;
use netdirect_com::export::can_unload_now;

use crate::client::{End, LOOPBACK, SOFTND, adapter, call, close, end, file, overlapped, release};

#[test]
fn two_ends_connect_and_send_through_tables() {
    let adapter = adapter(&SOFTND);
    let file = file(adapter);
    let (mut active, mut passive) = (End::new(adapter, file), End::new(adapter, file));
    let mut listener = ptr::null_mut();
    let id = &IID_ND2_LISTENER;
    let status = call!(
        adapter,
        AdapterTable,
        create_listener(id, file, &raw mut listener)
    );
    assert_eq!(status, Status::SUCCESS);
    let status = call!(listener, ListenerTable, bind(LOOPBACK.as_ptr().cast(), 16));
    assert_eq!(status, Status::SUCCESS);
    let status = call!(listener, ListenerTable, listen(0));
    assert_eq!(status, Status::SUCCESS);
    let (mut address, mut size) = ([0_u8; 28], 28);
    let status = call!(
        listener,
        ListenerTable,
        get_local_address(address.as_mut_ptr().cast(), &raw mut size)
    );
    assert_eq!((status, size), (Status::SUCCESS, 16));

    let mut request = overlapped();
    let started = call!(
        listener,
        ListenerTable,
        get_connection_request(passive.connector, &raw mut request)
    );
    let mut connect = overlapped();
    let data = *b"hello";
    let connected = call!(
        active.connector,
        ConnectorTable,
        connect(
            active.qp,
            address.as_ptr().cast(),
            16,
            1,
            1,
            data.as_ptr().cast(),
            5,
            &raw mut connect
        )
    );
    assert_eq!(end(listener, started, &mut request), Status::SUCCESS);
    // A buffer that is too short gets what fits (CONN-085).
    let (mut private_data, mut private_data_size) = ([0_u8; 2], 2);
    let status = call!(
        passive.connector,
        ConnectorTable,
        get_private_data(private_data.as_mut_ptr().cast(), &raw mut private_data_size)
    );
    assert_eq!(
        (status, private_data_size, private_data),
        (Status::BUFFER_OVERFLOW, 5, *b"he")
    );

    let sge = passive.sge();
    let context = ptr::without_provenance_mut(5);
    let status = call!(
        passive.qp,
        QueuePairTable,
        receive(context, &raw const sge, 1)
    );
    assert_eq!(status, Status::SUCCESS);
    let mut accept = overlapped();
    let accepted = call!(
        passive.connector,
        ConnectorTable,
        accept(passive.qp, 1, 1, ptr::null(), 0, &raw mut accept)
    );
    assert_eq!(
        end(active.connector, connected, &mut connect),
        Status::SUCCESS
    );
    let mut complete = overlapped();
    let completed = call!(
        active.connector,
        ConnectorTable,
        complete_connect(&raw mut complete)
    );
    assert_eq!(end(active.cq, completed, &mut complete), Status::SUCCESS); // OVL-023
    assert_eq!(
        end(passive.connector, accepted, &mut accept),
        Status::SUCCESS
    );

    active.buffer.copy_from_slice(&[b'x'; 64]);
    let sge = active.sge();
    let status = call!(
        active.qp,
        QueuePairTable,
        send(ptr::null_mut(), &raw const sge, 1, 0)
    );
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(active.result().status, Status::SUCCESS);
    let received = passive.result();
    assert_eq!(
        (received.status, received.bytes_transferred),
        (Status::SUCCESS, 64)
    );
    assert_eq!(received.queue_pair_context.addr(), 77);
    assert_eq!(received.request_context.addr(), 5);
    assert_eq!(received.request_type, 0);
    assert_eq!(passive.buffer, [b'x'; 64]);

    // TST-024: neither result is waited for, and both use one OVERLAPPED.
    let mut last = overlapped();
    let _ = call!(active.connector, ConnectorTable, disconnect(&raw mut last));
    let _ = call!(active.region, MemoryRegionTable, deregister(&raw mut last));
    active.release();
    // The OVERLAPPED is not used any more, and still has the value that the last release left.
    assert_ne!(last.internal, Status::PENDING.bits() as usize);
    passive.release();
    assert_eq!(release(listener), 0);
    assert_eq!(can_unload_now(), Status::FALSE);
    // The file is closed after its objects, by a function of its own table.
    close(file);
    assert_eq!(release(adapter), 0);
}
