//! Queries that use buffers in a wrong way.

use std::ffi::c_void;
use std::mem::offset_of;

use netdirect::{Status, VERSION_1};
use netdirect_com::abi::*;

use super::library::{get, original, put};
use super::{Line, line};

/// A method that fills a buffer.
type Fill<T> = unsafe extern "system" fn(This, *mut T, *mut u32) -> Status;

pub(super) const LINES: &[Line] = &[
    line(
        "the provider's list is begun in a buffer that is too small",
        |broken| broken.tables.provider.query_address_list = provider::touches,
        &["PROV-007.small"],
    ),
    line(
        "the provider does not say how long its list is",
        |broken| broken.tables.provider.query_address_list = provider::keeps_size,
        &["PROV-008.large"],
    ),
    line(
        "the provider answers the question for the size with success",
        |broken| broken.tables.provider.query_address_list = provider::succeeds,
        &["PROV-009.none"],
    ),
    line(
        "an address of the provider's list lies elsewhere",
        |broken| broken.tables.provider.query_address_list = elsewhere,
        &["PROV-011.layout"],
    ),
    line(
        "the adapter's list is begun in a buffer that is too small",
        |broken| broken.tables.adapter.query_address_list = adapter_list::touches,
        &["ADPT-018.small"],
    ),
    line(
        "the adapter does not say how long its list is",
        |broken| broken.tables.adapter.query_address_list = adapter_list::keeps_size,
        &["ADPT-019.sizes"],
    ),
    line(
        "the adapter answers the question for the size with success",
        |broken| broken.tables.adapter.query_address_list = adapter_list::succeeds,
        &["ADPT-019.sizes"],
    ),
    line(
        "Query begins in a buffer that is too small",
        |broken| broken.tables.adapter.query = query::touches,
        &["ADPT-010.small"],
    ),
    line(
        "Query does not say how much it has filled in",
        |broken| broken.tables.adapter.query = query::keeps_size,
        &["ADPT-012.large"],
    ),
    line(
        "Query answers the question for the size with success",
        |broken| broken.tables.adapter.query = query::succeeds,
        &["ADPT-011.none"],
    ),
    line(
        "Query needs room for something behind the structure",
        |broken| broken.tables.adapter.query = needs_more,
        &["ADPT-013.exact"],
    ),
    line(
        "Query refuses version 1",
        |broken| broken.tables.adapter.query = one_version,
        &["AMB-017.versions"],
    ),
    line(
        "Query leaves another version than the client's",
        |broken| broken.tables.adapter.query = wrong_version,
        &["AMB-017.versions"],
    ),
    line(
        "a connector's address is begun in a buffer that is too small",
        |broken| broken.tables.connector.get_local_address = local::touches,
        &["CONN-093.small"],
    ),
    line(
        "a connector answers the question for its address' size with success",
        |broken| broken.tables.connector.get_local_address = local::succeeds,
        &["CONN-095.sizes"],
    ),
    line(
        "a connector does not say how long its address is",
        |broken| broken.tables.connector.get_local_address = local::keeps_size,
        &["CONN-095.sizes"],
    ),
    line(
        "the address of a peer is begun in a buffer that is too small",
        |broken| broken.tables.connector.get_peer_address = peer::touches,
        &["CONN-098.small"],
    ),
    line(
        "a connector answers the question for its peer's size with success",
        |broken| broken.tables.connector.get_peer_address = peer::succeeds,
        &["CONN-100.sizes"],
    ),
    line(
        "a connector does not say how long its peer's address is",
        |broken| broken.tables.connector.get_peer_address = peer::keeps_size,
        &["CONN-100.sizes"],
    ),
    line(
        "a listener's address is begun in a buffer that is too small",
        |broken| broken.tables.listener.get_local_address = listening::touches,
        &["LSTN-020.small"],
    ),
    line(
        "a listener answers the question for its address' size with success",
        |broken| broken.tables.listener.get_local_address = listening::succeeds,
        &["LSTN-022.sizes"],
    ),
    line(
        "a listener does not say how long its address is",
        |broken| broken.tables.listener.get_local_address = listening::keeps_size,
        &["LSTN-022.sizes"],
    ),
    line(
        "private data is left out where it does not fit",
        |broken| broken.tables.connector.get_private_data = all_or_nothing,
        &["CONN-085.partly"],
    ),
    line(
        "GetPrivateData answers the question for the size with success",
        |broken| broken.tables.connector.get_private_data = private::succeeds,
        &["CONN-086.none"],
    ),
];

/// Writes to a buffer that is too small.
fn touch<T>(fill: Fill<T>, this: This, buffer: *mut T, size: *mut u32) -> Status {
    let room = get(size);
    // SAFETY: the client's arguments.
    let status = unsafe { fill(this, buffer, size) };
    if status == Status::BUFFER_OVERFLOW && room > 0 {
        put(buffer.cast::<u8>(), 1);
    }
    status
}

/// Leaves the size of the room in place of the size of the result.
fn keep_size<T>(fill: Fill<T>, this: This, buffer: *mut T, size: *mut u32) -> Status {
    let room = get(size);
    // SAFETY: the client's arguments.
    let status = unsafe { fill(this, buffer, size) };
    if status == Status::SUCCESS {
        put(size, room);
    }
    status
}

/// Answers the question for the size with success.
fn succeed<T>(fill: Fill<T>, this: This, buffer: *mut T, size: *mut u32) -> Status {
    // SAFETY: the client's arguments.
    match unsafe { fill(this, buffer, size) } {
        Status::BUFFER_OVERFLOW if buffer.is_null() => Status::SUCCESS,
        status => status,
    }
}

macro_rules! faults {
    ($($module:ident: $table:ident.$method:ident($type:ty), $($fault:ident by $with:ident),*;)*) => {$(
        mod $module {
            use super::*;
            $(
                pub(super) unsafe extern "system" fn $fault(this: This, buffer: *mut $type, size: *mut u32) -> Status {
                    let fill = super::super::library::ORIGINAL.$table.$method;
                    $with(fill, this, buffer, size)
                }
            )*
        }
    )*};
}

faults! {
    provider: provider.query_address_list(SocketAddressList),
        touches by touch, keeps_size by keep_size, succeeds by succeed;
    adapter_list: adapter.query_address_list(SocketAddressList),
        touches by touch, keeps_size by keep_size, succeeds by succeed;
    query: adapter.query(AdapterInfo), touches by touch, keeps_size by keep_size, succeeds by succeed;
    local: connector.get_local_address(c_void), touches by touch, keeps_size by keep_size, succeeds by succeed;
    peer: connector.get_peer_address(c_void), touches by touch, keeps_size by keep_size, succeeds by succeed;
    listening: listener.get_local_address(c_void), touches by touch, keeps_size by keep_size, succeeds by succeed;
    private: connector.get_private_data(c_void), succeeds by succeed;
}

unsafe extern "system" fn elsewhere(
    this: This,
    list: *mut SocketAddressList,
    size: *mut u32,
) -> Status {
    let status = original!(provider.query_address_list(this, list, size));
    if status == Status::SUCCESS {
        let entry = list.wrapping_byte_add(offset_of!(SocketAddressList, addresses));
        let entry = entry.cast::<SocketAddress>();
        let inside = get(entry);
        let copy = Box::leak(Box::new(get(inside.address.cast::<[u8; 16]>())));
        put(
            entry,
            SocketAddress {
                address: std::ptr::from_mut(copy).cast(),
                ..inside
            },
        );
    }
    status
}

unsafe extern "system" fn needs_more(this: This, info: *mut AdapterInfo, size: *mut u32) -> Status {
    #[expect(clippy::cast_possible_truncation, reason = "a small structure")]
    const NEEDED: u32 = size_of::<AdapterInfo>() as u32 + 8;
    if get(size) < NEEDED || info.is_null() {
        put(size, NEEDED);
        return Status::BUFFER_OVERFLOW;
    }
    let status = original!(adapter.query(this, info, size));
    if status == Status::SUCCESS {
        put(size, NEEDED);
    }
    status
}

unsafe extern "system" fn one_version(
    this: This,
    info: *mut AdapterInfo,
    size: *mut u32,
) -> Status {
    if !info.is_null() && get(info.cast::<u32>()) == VERSION_1 {
        return Status::INVALID_PARAMETER_1;
    }
    original!(adapter.query(this, info, size))
}

unsafe extern "system" fn wrong_version(
    this: This,
    info: *mut AdapterInfo,
    size: *mut u32,
) -> Status {
    let status = original!(adapter.query(this, info, size));
    if status == Status::SUCCESS {
        put(info.cast::<u32>(), 0x30000);
    }
    status
}

unsafe extern "system" fn all_or_nothing(this: This, data: *mut c_void, size: *mut u32) -> Status {
    let mut none = 0;
    let room = get(size);
    original!(connector.get_private_data(this, std::ptr::null_mut(), &raw mut none));
    if room < none {
        put(size, none);
        return Status::BUFFER_OVERFLOW;
    }
    original!(connector.get_private_data(this, data, size))
}
