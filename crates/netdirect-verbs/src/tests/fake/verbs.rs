//! The functions of libibverbs, and those of the device's driver.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A device, which lives as long as a list or a context that has it, as in libibverbs.
#[repr(C)]
struct Device {
    // First, so that a pointer to it is a pointer to the whole.
    device: c::ibv_device,
    holders: AtomicUsize,
}

/// Makes a device that one list or context has.
fn device(is_infiniband: bool) -> *mut c::ibv_device {
    // SAFETY: all zero is a value of this structure.
    let mut device: c::ibv_device = unsafe { std::mem::zeroed() };
    device.transport_type = if is_infiniband {
        c::IBV_TRANSPORT_IB
    } else {
        c::IBV_TRANSPORT_IWARP
    };
    let holders = AtomicUsize::new(1);
    Box::into_raw(Box::new(Device { device, holders })).cast()
}

/// Takes a list or a context off the holders of a device.
fn let_go(device: *mut c::ibv_device) {
    let whole = device.cast::<Device>();
    // SAFETY: made by `device`, and this holder is still counted.
    let holders = unsafe { &(*whole).holders };
    if holders.fetch_sub(1, Ordering::AcqRel) == 1 {
        // SAFETY: made by `device`, and this was the last holder.
        drop(unsafe { Box::from_raw(whole) });
    }
}

/// The contexts that librdmacm opens for its identifiers and never closes, one for each kind of device.
pub(super) fn kept(is_infiniband: bool) -> *mut c::ibv_context {
    static KEPT: Mutex<[usize; 2]> = Mutex::new([0; 2]);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let place = &mut kept[usize::from(is_infiniband)];
    if *place == 0 {
        // SAFETY: all zero is a value of this structure.
        let mut context: Box<c::ibv_context> = Box::new(unsafe { std::mem::zeroed() });
        context.device = device(is_infiniband);
        *place = Box::into_raw(context) as usize;
    }
    *place as *mut _
}

pub(super) unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut c::ibv_device {
    let (is_infiniband, lacks_device) = with(|world| (world.is_infiniband, world.lacks_device));
    let first = if lacks_device {
        ptr::null_mut()
    } else {
        device(is_infiniband)
    };
    // SAFETY: the caller gives a place for the number.
    unsafe { *count = (!lacks_device).into() };
    Box::into_raw(Box::new([first, ptr::null_mut()])).cast()
}

pub(super) unsafe extern "C" fn free_device_list(list: *mut *mut c::ibv_device) {
    // SAFETY: made by `get_device_list`.
    let list = unsafe { Box::from_raw(list.cast::<[*mut c::ibv_device; 2]>()) };
    for device in list.iter().filter(|device| !device.is_null()) {
        let_go(*device);
    }
}

pub(super) unsafe extern "C" fn get_device_name(_: *mut c::ibv_device) -> *const c_char {
    c"fake0".as_ptr()
}

pub(super) unsafe extern "C" fn open_device(device: *mut c::ibv_device) -> *mut c::ibv_context {
    // SAFETY: all zero is a value of this structure.
    let mut context: Box<c::ibv_context> = Box::new(unsafe { std::mem::zeroed() });
    let own = descriptor();
    // SAFETY: a device of a list that has not been freed.
    let holders = unsafe { &(*device.cast::<Device>()).holders };
    holders.fetch_add(1, Ordering::AcqRel);
    context.device = device;
    context.async_fd = own.as_raw_fd();
    context.num_comp_vectors = 1;
    context.ops.poll_cq = Some(poll_cq);
    context.ops.req_notify_cq = Some(req_notify_cq);
    context.ops.post_send = Some(post_send);
    context.ops.post_recv = Some(post_recv);
    context.ops.post_srq_recv = Some(post_srq_recv);
    context.ops.alloc_mw = Some(alloc_mw);
    context.ops.bind_mw = Some(bind_mw);
    context.ops.dealloc_mw = Some(dealloc_mw);
    let context = Box::into_raw(context);
    with(|world| {
        world.open_devices += 1;
        world.context = context as usize;
        world.channels.push((context as usize, own));
    });
    context
}

pub(super) unsafe extern "C" fn close_device(context: *mut c::ibv_context) -> c_int {
    // SAFETY: made by `open_device`.
    let closed = unsafe { Box::from_raw(context) };
    let_go(closed.device);
    drop(closed);
    with(|world| {
        world.calls.push("close");
        world.channels.retain(|(at, _)| *at != context as usize);
        world.open_devices -= 1;
    });
    0
}

pub(super) unsafe extern "C" fn query_device(
    _: *mut c::ibv_context,
    into: *mut c::ibv_device_attr,
) -> c_int {
    let windows = with(|world| world.windows);
    let shared = with(|world| i32::from(world.has_shared_receives));
    let attributes = c::ibv_device_attr {
        max_mr_size: u64::MAX,
        vendor_id: with(|world| world.vendor_id),
        max_qp_wr: 1024,
        max_sge: 4,
        max_sge_rd: 1,
        max_cqe: 4096,
        max_qp_rd_atom: 16,
        max_qp_init_rd_atom: 16,
        atomic_cap: if with(|world| world.has_atomics) {
            c::IBV_ATOMIC_HCA
        } else {
            c::IBV_ATOMIC_NONE
        },
        max_srq: shared * 4,
        max_srq_wr: shared * 64,
        max_srq_sge: shared * 4,
        max_mw: if windows == 0 { 0 } else { 16 },
        device_cap_flags: windows,
        phys_port_cnt: 1,
        ..c::ibv_device_attr::default()
    };
    // SAFETY: the caller gives a place for the structure.
    unsafe { *into = attributes };
    0
}

pub(super) unsafe extern "C" fn query_port(
    _: *mut c::ibv_context,
    port: u8,
    into: *mut c::_compat_ibv_port_attr,
) -> c_int {
    if port != 1 {
        return libc::EINVAL;
    }
    let attributes = into.cast::<c::ibv_port_attr>();
    // SAFETY: the caller gives a place for the structure.
    unsafe { (*attributes).state = with(|world| world.port_state) };
    0
}

pub(super) unsafe extern "C" fn get_async_event(
    context: *mut c::ibv_context,
    into: *mut c::ibv_async_event,
) -> c_int {
    let event = with(|world| {
        world.quiet(context as usize);
        world.async_events.pop_front()
    });
    let Some((event, pair)) = event else {
        return fail(libc::EAGAIN);
    };
    // SAFETY: the caller gives a place for the event.
    let into = unsafe { &mut *into };
    into.event_type = event;
    into.element.qp = pair as *mut c::ibv_qp;
    0
}

pub(super) unsafe extern "C" fn ack_async_event(_: *mut c::ibv_async_event) {}

pub(super) unsafe extern "C" fn alloc_pd(context: *mut c::ibv_context) -> *mut c::ibv_pd {
    Box::into_raw(Box::new(c::ibv_pd { context, handle: 0 }))
}

pub(super) unsafe extern "C" fn dealloc_pd(pd: *mut c::ibv_pd) -> c_int {
    // SAFETY: made by `alloc_pd`.
    drop(unsafe { Box::from_raw(pd) });
    0
}

pub(super) unsafe extern "C" fn reg_mr(
    pd: *mut c::ibv_pd,
    addr: *mut c_void,
    length: usize,
    _: c_int,
) -> *mut c::ibv_mr {
    let (fails, key) = with(|world| (world.register_fails, world.number()));
    if fails != 0 {
        fail(fails);
        return ptr::null_mut();
    }
    Box::into_raw(Box::new(c::ibv_mr {
        pd,
        addr,
        length,
        lkey: key,
        rkey: key,
        ..c::ibv_mr::default()
    }))
}

pub(super) unsafe extern "C" fn dereg_mr(region: *mut c::ibv_mr) -> c_int {
    with(|world| world.calls.push("deregister"));
    // SAFETY: made by `reg_mr`.
    drop(unsafe { Box::from_raw(region) });
    0
}

pub(super) unsafe extern "C" fn create_comp_channel(
    context: *mut c::ibv_context,
) -> *mut c::ibv_comp_channel {
    let own = descriptor();
    let channel = Box::into_raw(Box::new(c::ibv_comp_channel {
        context,
        fd: own.as_raw_fd(),
        refcnt: 0,
    }));
    with(|world| world.channels.push((channel as usize, own)));
    channel
}

pub(super) unsafe extern "C" fn destroy_comp_channel(channel: *mut c::ibv_comp_channel) -> c_int {
    with(|world| world.channels.retain(|(at, _)| *at != channel as usize));
    // SAFETY: made by `create_comp_channel`.
    drop(unsafe { Box::from_raw(channel) });
    0
}

pub(super) unsafe extern "C" fn create_cq(
    context: *mut c::ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut c::ibv_comp_channel,
    _: c_int,
) -> *mut c::ibv_cq {
    // SAFETY: all zero is a value of this structure.
    let mut queue: Box<c::ibv_cq> = Box::new(unsafe { std::mem::zeroed() });
    (queue.context, queue.cqe, queue.cq_context, queue.channel) =
        (context, cqe, cq_context, channel);
    let queue = Box::into_raw(queue);
    with(|world| {
        world.queues.push(Queue {
            at: queue as usize,
            channel: channel as usize,
            depth: cqe.try_into().expect("a depth"),
            results: VecDeque::new(),
            armed: None,
            events: 0,
        });
    });
    queue
}

pub(super) unsafe extern "C" fn resize_cq(_: *mut c::ibv_cq, _: c_int) -> c_int {
    -libc::EOPNOTSUPP
}

pub(super) unsafe extern "C" fn destroy_cq(queue: *mut c::ibv_cq) -> c_int {
    with(|world| world.queues.retain(|other| other.at != queue as usize));
    // SAFETY: made by `create_cq`.
    drop(unsafe { Box::from_raw(queue) });
    0
}

pub(super) unsafe extern "C" fn get_cq_event(
    channel: *mut c::ibv_comp_channel,
    into: *mut *mut c::ibv_cq,
    _: *mut *mut c_void,
) -> c_int {
    if with(|world| world.has_gone) {
        return fail(libc::EIO);
    }
    let found = with(|world| {
        world.quiet(channel as usize);
        let mut queues = world.queues.iter_mut();
        let found = queues.find(|queue| queue.channel == channel as usize && queue.events > 0)?;
        found.events -= 1;
        Some(found.at)
    });
    let Some(queue) = found else {
        return fail(libc::EAGAIN);
    };
    // SAFETY: the caller gives a place for it.
    unsafe { *into = queue as *mut c::ibv_cq };
    0
}

pub(super) unsafe extern "C" fn ack_cq_events(_: *mut c::ibv_cq, _: c_uint) {}

unsafe extern "C" fn poll_cq(queue: *mut c::ibv_cq, room: c_int, into: *mut c::ibv_wc) -> c_int {
    with(|world| {
        let results = &mut world.queue(queue as usize).results;
        let mut count = 0;
        while count < room
            && let Some(result) = results.pop_front()
        {
            let at = into.wrapping_add(count.try_into().expect("small"));
            // SAFETY: the caller gives room for this many results.
            unsafe { at.write(result) };
            count += 1;
        }
        count
    })
}

unsafe extern "C" fn req_notify_cq(queue: *mut c::ibv_cq, solicited_only: c_int) -> c_int {
    with(|world| {
        let armed = &mut world.queue(queue as usize).armed;
        // An earlier request is not taken back.
        *armed = Some(solicited_only != 0 && *armed != Some(false));
    });
    0
}

pub(super) unsafe extern "C" fn create_srq(
    pd: *mut c::ibv_pd,
    attributes: *mut c::ibv_srq_init_attr,
) -> *mut c::ibv_srq {
    // SAFETY: all zero is a value of this structure.
    let mut queue: Box<c::ibv_srq> = Box::new(unsafe { std::mem::zeroed() });
    // SAFETY: the protection domain exists.
    queue.context = unsafe { (*pd).context };
    // SAFETY: the caller gives a whole structure.
    queue.srq_context = unsafe { (*attributes).srq_context };
    Box::into_raw(queue)
}

pub(super) unsafe extern "C" fn modify_srq(
    _: *mut c::ibv_srq,
    attributes: *mut c::ibv_srq_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: the caller gives a whole structure.
    let attributes = unsafe { &*attributes };
    with(|world| {
        if mask.cast_unsigned() == c::IBV_SRQ_LIMIT {
            world.armed.push(attributes.srq_limit);
            return 0;
        }
        world.enlarged.push(attributes.max_wr);
        world.enlarge_returns
    })
}

pub(super) unsafe extern "C" fn destroy_srq(queue: *mut c::ibv_srq) -> c_int {
    // SAFETY: made by `create_srq`.
    drop(unsafe { Box::from_raw(queue) });
    0
}

unsafe extern "C" fn post_srq_recv(
    _: *mut c::ibv_srq,
    work: *mut c::ibv_recv_wr,
    _: *mut *mut c::ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller gives a whole request.
    let request = unsafe { &*work };
    with(|world| {
        world.posted.push_back(Post {
            is_receive: true,
            id: request.wr_id,
            entries: request.num_sge,
            ..Post::default()
        });
    });
    0
}

pub(super) unsafe extern "C" fn create_qp(
    pd: *mut c::ibv_pd,
    attributes: *mut c::ibv_qp_init_attr,
) -> *mut c::ibv_qp {
    // SAFETY: the caller gives a whole structure.
    let attributes = unsafe { &*attributes };
    if attributes.cap.max_inline_data > 64 {
        fail(libc::EINVAL);
        return ptr::null_mut();
    }
    with(|world| world.calls.push("create pair"));
    until(|world| !world.holds_new_pairs);
    // SAFETY: all zero is a value of this structure.
    let mut pair: Box<c::ibv_qp> = Box::new(unsafe { std::mem::zeroed() });
    // SAFETY: the protection domain exists.
    pair.context = unsafe { (*pd).context };
    with(|world| {
        pair.qp_num = world.next_pair.take().unwrap_or_else(|| world.number());
        let number = pair.qp_num;
        let at = Box::into_raw(pair);
        world.pairs.push(Pair {
            at: at as usize,
            number,
            send: attributes.send_cq as usize,
            receive: attributes.recv_cq as usize,
        });
        at
    })
}

pub(super) unsafe extern "C" fn modify_qp(
    _: *mut c::ibv_qp,
    attributes: *mut c::ibv_qp_attr,
    _: c_int,
) -> c_int {
    // SAFETY: the caller gives a whole structure.
    let attributes = unsafe { &*attributes };
    with(|world| {
        if attributes.qp_state == c::IBV_QPS_ERR {
            world.calls.push("fail");
        }
        if attributes.qp_state == c::IBV_QPS_RTR {
            world.receive_timers.push(attributes.min_rnr_timer);
        }
        world.changes.push((
            attributes.qp_state,
            attributes.qp_access_flags,
            attributes.max_dest_rd_atomic,
            attributes.max_rd_atomic,
        ));
        match attributes.qp_state {
            c::IBV_QPS_RTR => world.ready_returns,
            _ => 0,
        }
    })
}

pub(super) unsafe extern "C" fn destroy_qp(pair: *mut c::ibv_qp) -> c_int {
    with(|world| world.calls.push("destroy pair"));
    until(|world| !world.holds_pairs);
    with(|world| world.pairs.retain(|other| other.at != pair as usize));
    // SAFETY: made by `create_qp`.
    drop(unsafe { Box::from_raw(pair) });
    0
}

unsafe extern "C" fn post_send(
    pair: *mut c::ibv_qp,
    work: *mut c::ibv_send_wr,
    bad: *mut *mut c::ibv_send_wr,
) -> c_int {
    // SAFETY: the caller gives a whole request.
    let request = unsafe { &*work };
    let (key, bound) = match request.opcode {
        c::IBV_WR_BIND_MW => {
            // SAFETY: a Bind has this member of the union.
            let bind = unsafe { request.__bindgen_anon_2.bind_mw };
            (bind.rkey, bind.bind_info.length)
        }
        // SAFETY: an Invalidate has this member of the union.
        c::IBV_WR_LOCAL_INV => (unsafe { request.__bindgen_anon_1.invalidate_rkey }, 0),
        _ => (0, 0),
    };
    let post = Post {
        id: request.wr_id,
        entries: request.num_sge,
        points: !request.sg_list.is_null(),
        flags: request.send_flags,
        opcode: request.opcode,
        key,
        bound,
        ..Post::default()
    };
    let returned = with(|world| world.post(pair as usize, post));
    if returned != 0 {
        // SAFETY: the caller gives a place for it.
        unsafe { *bad = work };
    }
    returned
}

unsafe extern "C" fn post_recv(
    pair: *mut c::ibv_qp,
    work: *mut c::ibv_recv_wr,
    bad: *mut *mut c::ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller gives a whole request.
    let request = unsafe { &*work };
    let returned = with(|world| {
        world.post(
            pair as usize,
            Post {
                is_receive: true,
                id: request.wr_id,
                entries: request.num_sge,
                points: !request.sg_list.is_null(),
                ..Post::default()
            },
        )
    });
    if returned != 0 {
        // SAFETY: the caller gives a place for it.
        unsafe { *bad = work };
    }
    returned
}

unsafe extern "C" fn alloc_mw(pd: *mut c::ibv_pd, kind: c::ibv_mw_type) -> *mut c::ibv_mw {
    if kind == c::IBV_MW_TYPE_2 && with(|world| world.lacks_windows_2) {
        fail(libc::EOPNOTSUPP);
        return ptr::null_mut();
    }
    // SAFETY: all zero is a value of this structure.
    let mut window: Box<c::ibv_mw> = Box::new(unsafe { std::mem::zeroed() });
    (window.pd, window.type_) = (pd, kind);
    window.rkey = with(World::number) << 8;
    Box::into_raw(window)
}

unsafe extern "C" fn bind_mw(
    pair: *mut c::ibv_qp,
    window: *mut c::ibv_mw,
    work: *mut c::ibv_mw_bind,
) -> c_int {
    // SAFETY: the caller gives a whole request.
    let request = unsafe { &*work };
    let (key, returned) = with(|world| {
        let key = world.number();
        let post = Post {
            id: request.wr_id,
            flags: request.send_flags,
            key,
            bound: request.bind_info.length,
            ..Post::default()
        };
        (key, world.post(pair as usize, post))
    });
    // SAFETY: the window exists, and its owner holds the lock under which it is bound.
    let window = unsafe { &mut *window };
    assert_eq!(window.type_, c::IBV_MW_TYPE_1, "libibverbs refuses others");
    window.rkey = key;
    returned
}

unsafe extern "C" fn dealloc_mw(window: *mut c::ibv_mw) -> c_int {
    with(|world| world.calls.push("free window"));
    // SAFETY: made by `alloc_mw`.
    drop(unsafe { Box::from_raw(window) });
    0
}
