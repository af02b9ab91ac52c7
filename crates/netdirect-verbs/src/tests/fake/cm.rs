//! The functions of librdmacm.

use std::mem;

use super::*;

pub(super) unsafe extern "C" fn create_event_channel() -> *mut c::rdma_event_channel {
    if with(|world| world.lacks_device) {
        fail(libc::ENODEV);
        return ptr::null_mut();
    }
    let own = descriptor();
    let channel = Box::into_raw(Box::new(c::rdma_event_channel {
        fd: own.as_raw_fd(),
    }));
    with(|world| {
        world.channel = channel as usize;
        world.channels.push((channel as usize, own));
    });
    channel
}

pub(super) unsafe extern "C" fn destroy_event_channel(channel: *mut c::rdma_event_channel) {
    with(|world| {
        world.channels.retain(|(at, _)| *at != channel as usize);
        // Events that were not taken are dropped with the channel, as in the kernel.
        let (gone, left) = mem::take(&mut world.cm_events)
            .into_iter()
            .partition(|(raised_on, _)| *raised_on == channel as usize);
        world.cm_events = left;
        let gone: VecDeque<(usize, Box<Event>)> = gone;
        for (_, event) in gone {
            if !event.event.listen_id.is_null() {
                let id = event.event.id;
                world.ids.retain(|at| *at != id as usize);
                // SAFETY: made by `make_id` for this event, which was not reported.
                drop(unsafe { Box::from_raw(id) });
            }
        }
    });
    // SAFETY: made by `create_event_channel`.
    drop(unsafe { Box::from_raw(channel) });
}

pub(super) unsafe extern "C" fn create_id(
    channel: *mut c::rdma_event_channel,
    into: *mut *mut c::rdma_cm_id,
    context: *mut c_void,
    _: c::rdma_port_space,
) -> c_int {
    let id = with(|world| world.make_id(channel as usize, context));
    // SAFETY: the caller gives a place for it.
    unsafe { *into = id };
    0
}

pub(super) unsafe extern "C" fn destroy_id(id: *mut c::rdma_cm_id) -> c_int {
    with(|world| {
        world.calls.push("destroy id");
        world.ids.retain(|at| *at != id as usize);
    });
    // SAFETY: made by `make_id`.
    drop(unsafe { Box::from_raw(id) });
    0
}

pub(super) unsafe extern "C" fn bind_addr(id: *mut c::rdma_cm_id, address: *mut sockaddr) -> c_int {
    let returned = with(|world| world.bind_returns.pop_front().unwrap_or(0));
    if returned != 0 {
        return fail(returned);
    }
    // SAFETY: the caller gives a whole address.
    let family = unsafe { (*address).sa_family };
    if libc::c_int::from(family) != libc::AF_INET {
        return 0;
    }
    // SAFETY: an address of this family has this type.
    let raw = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
    let is_of_device = raw.sin_addr.s_addr == u32::from_ne_bytes([127, 0, 0, 1]);
    if is_of_device && with(|world| !world.lacks_device && !world.lacks_address) {
        let context = verbs::kept(with(|world| world.is_infiniband));
        // SAFETY: the identifier exists.
        unsafe { (*id).verbs = context };
        // SAFETY: as above.
        unsafe { (*id).port_num = 1 };
    }
    0
}

pub(super) unsafe extern "C" fn resolve_addr(
    id: *mut c::rdma_cm_id,
    _: *mut sockaddr,
    _: *mut sockaddr,
    _: c_int,
) -> c_int {
    tell_at_once(id, c::RDMA_CM_EVENT_ADDR_RESOLVED)
}

pub(super) unsafe extern "C" fn resolve_route(id: *mut c::rdma_cm_id, _: c_int) -> c_int {
    tell_at_once(id, c::RDMA_CM_EVENT_ROUTE_RESOLVED)
}

fn tell_at_once(id: *mut c::rdma_cm_id, event: c_uint) -> c_int {
    with(|world| {
        world.tell(id as usize, event, 0);
    });
    0
}

/// Notes the parameters for the peer.
fn note(call: &'static str, parameters: *mut c::rdma_conn_param) {
    // SAFETY: the caller gives a whole structure.
    let parameters = unsafe { &*parameters };
    let length = parameters.private_data_len.into();
    // SAFETY: the private data has this many octets.
    let data = unsafe { std::slice::from_raw_parts(parameters.private_data.cast::<u8>(), length) };
    with(|world| {
        world.calls.push(call);
        let limits = (parameters.responder_resources, parameters.initiator_depth);
        world.sent_data = Some((data.to_vec(), limits.0, limits.1));
        world.sent_receive_options = Some((parameters.rnr_retry_count, parameters.srq != 0));
    });
}

pub(super) unsafe extern "C" fn connect(
    _: *mut c::rdma_cm_id,
    parameters: *mut c::rdma_conn_param,
) -> c_int {
    let returned = with(|world| world.connect_returns);
    note("connect", parameters);
    if returned == 0 { 0 } else { fail(returned) }
}

pub(super) unsafe extern "C" fn establish(_: *mut c::rdma_cm_id) -> c_int {
    with(|world| world.calls.push("establish"));
    0
}

pub(super) unsafe extern "C" fn listen(_: *mut c::rdma_cm_id, _: c_int) -> c_int {
    let returned = with(|world| world.listen_returns.pop_front().unwrap_or(0));
    if returned == 0 { 0 } else { fail(returned) }
}

pub(super) unsafe extern "C" fn accept(
    _: *mut c::rdma_cm_id,
    parameters: *mut c::rdma_conn_param,
) -> c_int {
    let returned = with(|world| world.accept_returns);
    note("accept", parameters);
    if returned == 0 { 0 } else { fail(returned) }
}

pub(super) unsafe extern "C" fn reject(
    _: *mut c::rdma_cm_id,
    data: *const c_void,
    length: u8,
) -> c_int {
    // SAFETY: the caller gives this many octets.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length.into()) };
    with(|world| {
        world.calls.push("reject");
        world.sent_data = Some((data.to_vec(), 0, 0));
    });
    0
}

pub(super) unsafe extern "C" fn disconnect(_: *mut c::rdma_cm_id) -> c_int {
    with(|world| world.calls.push("disconnect"));
    0
}

pub(super) unsafe extern "C" fn init_qp_attr(
    _: *mut c::rdma_cm_id,
    attributes: *mut c::ibv_qp_attr,
    _: *mut c_int,
) -> c_int {
    // SAFETY: the caller gives a whole structure.
    let attributes = unsafe { &mut *attributes };
    // The limits that both sides have exchanged, or those of the peer alone.
    (attributes.max_dest_rd_atomic, attributes.max_rd_atomic) = (16, 16);
    attributes.qp_access_flags = c::IBV_ACCESS_REMOTE_WRITE;
    0
}

pub(super) unsafe extern "C" fn get_cm_event(
    channel: *mut c::rdma_event_channel,
    into: *mut *mut c::rdma_cm_event,
) -> c_int {
    let event = with(|world| {
        world.quiet(channel as usize);
        let mut events = world.cm_events.iter();
        let at = events.position(|(raised_on, _)| *raised_on == channel as usize)?;
        world.cm_events.remove(at)
    });
    let Some((_, event)) = event else {
        return fail(libc::EAGAIN);
    };
    // SAFETY: the caller gives a place for it.
    unsafe { *into = Box::into_raw(event).cast() };
    0
}

pub(super) unsafe extern "C" fn ack_cm_event(event: *mut c::rdma_cm_event) -> c_int {
    // SAFETY: made by `tell_with`, and given away by `get_cm_event`.
    drop(unsafe { Box::from_raw(event.cast::<Event>()) });
    0
}
