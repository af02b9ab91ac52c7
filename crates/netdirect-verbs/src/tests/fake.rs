//! A library of our own in place of rdma-core: it makes objects, notes the calls, and tells what a test has it tell. So the tests
//! run on machines without rdma-core and without devices.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::sockaddr;
use rustix::event::{EventfdFlags, eventfd};

use crate::sys::bindings as c;
use crate::sys::{CmLibrary, Libraries, VerbsLibrary};

/// The tables of the fake library.
pub(super) static LIBRARIES: Libraries = Libraries {
    verbs: VerbsLibrary {
        ibv_get_device_list: get_device_list,
        ibv_free_device_list: free_device_list,
        ibv_get_device_name: get_device_name,
        ibv_open_device: open_device,
        ibv_close_device: close_device,
        ibv_query_device: query_device,
        ibv_query_port: query_port,
        ibv_get_async_event: get_async_event,
        ibv_ack_async_event: ack_async_event,
        ibv_alloc_pd: alloc_pd,
        ibv_dealloc_pd: dealloc_pd,
        ibv_reg_mr: reg_mr,
        ibv_dereg_mr: dereg_mr,
        ibv_create_comp_channel: create_comp_channel,
        ibv_destroy_comp_channel: destroy_comp_channel,
        ibv_create_cq: create_cq,
        ibv_resize_cq: resize_cq,
        ibv_destroy_cq: destroy_cq,
        ibv_get_cq_event: get_cq_event,
        ibv_ack_cq_events: ack_cq_events,
        ibv_create_srq: create_srq,
        ibv_modify_srq: modify_srq,
        ibv_destroy_srq: destroy_srq,
        ibv_create_qp: create_qp,
        ibv_modify_qp: modify_qp,
        ibv_destroy_qp: destroy_qp,
    },
    cm: CmLibrary {
        rdma_create_event_channel: create_event_channel,
        rdma_destroy_event_channel: destroy_event_channel,
        rdma_create_id: create_id,
        rdma_destroy_id: destroy_id,
        rdma_bind_addr: bind_addr,
        rdma_resolve_addr: resolve_addr,
        rdma_resolve_route: resolve_route,
        rdma_connect: connect,
        rdma_establish: establish,
        rdma_listen: listen,
        rdma_accept: accept,
        rdma_reject: reject,
        rdma_disconnect: disconnect,
        rdma_init_qp_attr: init_qp_attr,
        rdma_get_cm_event: get_cm_event,
        rdma_ack_cm_event: ack_cm_event,
    },
};

/// What the fake library has and does. Pointers are kept as numbers, since no thread owns them.
#[derive(Default)]
pub(super) struct World {
    /// The number that the device gives as its vendor's: that of siw, unless a test wants another driver.
    pub(super) vendor_id: u32,
    pub(super) is_infiniband: bool,
    pub(super) has_atomics: bool,
    /// The device has shared receive queues.
    pub(super) has_shared_receives: bool,
    /// What the device says of windows: bits of `device_cap_flags`.
    pub(super) windows: u32,
    /// The driver has no windows of type 2, whatever the device says.
    pub(super) lacks_windows_2: bool,
    /// The machine has no device.
    pub(super) lacks_device: bool,
    /// The device has no address. Otherwise it has 127.0.0.1, and no other.
    pub(super) lacks_address: bool,
    /// The state of the device's port.
    pub(super) port_state: c_uint,
    next: u32,
    open_devices: u32,
    context: usize,
    channel: usize,
    channels: Vec<(usize, OwnedFd)>,
    cm_events: VecDeque<(usize, usize)>,
    /// With the queue pair that they are about, or 0.
    async_events: VecDeque<(c_uint, usize)>,
    queues: Vec<Queue>,
    /// The device was pulled out: completion channels fail, and stay readable.
    has_gone: bool,
    /// Completion queues tell of results, but nobody is woken up by that.
    pub(super) holds_events: bool,
    /// Queue pairs that exist: the pointer, the number, and the completion queues of initiator and Receives.
    pub(super) pairs: Vec<Pair>,
    /// Identifiers that exist.
    pub(super) ids: Vec<usize>,
    /// What was posted and has not been looked at: the number of the queue pair, whether it is a Receive, and its identifier.
    pub(super) posted: VecDeque<Post>,
    /// What posts return, in order; 0 when there is nothing left.
    pub(super) post_returns: VecDeque<c_int>,
    /// What Binds and Listens of identifiers return, in order; 0 when there is nothing left.
    pub(super) bind_returns: VecDeque<c_int>,
    pub(super) listen_returns: VecDeque<c_int>,
    pub(super) connect_returns: c_int,
    pub(super) accept_returns: c_int,
    /// What making a queue pair ready to receive returns.
    pub(super) ready_returns: c_int,
    pub(super) register_fails: c_int,
    /// The number of the next queue pair, where a test wants it to be one that was used before.
    pub(super) next_pair: Option<u32>,
    /// Destroying a queue pair takes as long as this is set.
    pub(super) holds_pairs: bool,
    /// Making a queue pair takes as long as this is set.
    pub(super) holds_new_pairs: bool,
    /// Private data and limits of the last Connect, Accept or Reject.
    pub(super) told: Option<(Vec<u8>, u8, u8)>,
    /// How often the peer is to send again what has found no Receive here, and whether Receives are shared.
    pub(super) told_of_receives: Option<(u8, bool)>,
    pub(super) calls: Vec<&'static str>,
    /// The addresses of peers' requests, of this side and of the peer.
    pub(super) addresses: Option<(SocketAddrV4, SocketAddrV4)>,
    /// What enlarging a shared receive queue returns.
    pub(super) enlarge_returns: c_int,
    /// The depths that shared receive queues were enlarged to, and the limits that they were armed with.
    pub(super) enlarged: Vec<u32>,
    pub(super) armed: Vec<u32>,
    /// How long peers wait before they send again what has found no Receive, as queue pairs were made ready to receive.
    pub(super) receive_timers: Vec<u8>,
    /// How queue pairs were changed.
    pub(super) changes: Vec<Change>,
}

/// A change of a queue pair: its state, what the peer may do, and how many inbound and outbound Reads there may be.
pub(super) type Change = (u32, u32, u8, u8);

/// A completion queue.
struct Queue {
    at: usize,
    channel: usize,
    depth: usize,
    results: VecDeque<c::ibv_wc>,
    /// The channel tells of the next result; with `true` of the next one that has failed. No result of this library is solicited.
    armed: Option<bool>,
    /// What the channel has told and nobody has taken.
    events: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    at: usize,
    pub(super) number: u32,
    send: usize,
    receive: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Post {
    pub(super) pair: u32,
    pub(super) is_receive: bool,
    pub(super) id: u64,
    pub(super) entries: i32,
    /// The pointer to the entries is not null.
    pub(super) points: bool,
    pub(super) flags: u32,
    pub(super) opcode: u32,
    /// The key of a Bind or an Invalidate, and how much is bound.
    pub(super) key: u32,
    pub(super) bound: u64,
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);
static TURN: Mutex<()> = Mutex::new(());

/// A test's turn with the fake library. It ends when all devices are closed, which is when no thread works for the test any more.
pub(super) struct Turn(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Drop for Turn {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            until(|world| world.open_devices == 0);
        }
    }
}

/// Waits for a turn, and empties the world.
pub(super) fn turn() -> Turn {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World {
        vendor_id: 0x62_6D_74,
        port_state: c::IBV_PORT_ACTIVE,
        next: 100,
        ..World::default()
    };
    *WORLD.lock().unwrap_or_else(PoisonError::into_inner) = Some(world);
    Turn(turn)
}

/// Looks at the world, or changes it.
pub(super) fn with<T>(act: impl FnOnce(&mut World) -> T) -> T {
    let mut world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    act(world.as_mut().expect("it is somebody's turn"))
}

/// Waits until something is true of the world.
pub(super) fn until(mut is_true: impl FnMut(&mut World) -> bool) {
    while !with(&mut is_true) {
        std::thread::yield_now();
    }
}

impl World {
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn ring(&self, of: usize) {
        if let Some((_, descriptor)) = self.channels.iter().find(|(at, _)| *at == of) {
            rustix::io::write(descriptor, &1_u64.to_ne_bytes()).expect("an eventfd");
        }
    }

    fn quiet(&self, of: usize) {
        if let Some((_, descriptor)) = self.channels.iter().find(|(at, _)| *at == of) {
            let _ = rustix::io::read(descriptor, &mut [0_u8; 8]);
        }
    }

    /// The connection manager tells of the newest identifier, or of the one at a place in the list.
    pub(super) fn tell(&mut self, id: usize, event: c_uint, status: c_int) {
        self.tell_with(id, event, status, &[], (0, 0));
    }

    /// As [`tell`](Self::tell), with private data, and with responder resources and initiator depth.
    pub(super) fn tell_with(
        &mut self,
        id: usize,
        event: c_uint,
        status: c_int,
        data: &'static [u8],
        limits: (u8, u8),
    ) {
        let mut id = self.ids[id] as *mut c::rdma_cm_id;
        let mut listener = ptr::null_mut();
        if event == c::RDMA_CM_EVENT_CONNECT_REQUEST {
            listener = id;
            id = self.make_id(self.channel, ptr::null_mut());
            if let Some((local, peer)) = self.addresses {
                // SAFETY: just made, and nobody else knows it.
                let addresses = unsafe { &raw mut (*id).route.addr };
                // SAFETY: the identifier has places for two addresses of any kind.
                unsafe {
                    addresses
                        .cast::<libc::sockaddr_in>()
                        .write(raw_address(local))
                };
                // SAFETY: as above.
                let second = unsafe { &raw mut (*addresses).__bindgen_anon_2 };
                // SAFETY: as above.
                unsafe { second.cast::<libc::sockaddr_in>().write(raw_address(peer)) };
            }
        }
        let event = c::rdma_cm_event {
            id,
            listen_id: listener,
            event,
            status,
            param: c::rdma_cm_event__bindgen_ty_1 {
                conn: c::rdma_conn_param {
                    private_data: data.as_ptr().cast(),
                    private_data_len: data.len().try_into().expect("a length"),
                    responder_resources: limits.0,
                    initiator_depth: limits.1,
                    ..c::rdma_conn_param::default()
                },
            },
        };
        let event = Box::into_raw(Box::new(event)) as usize;
        self.cm_events.push_back((self.channel, event));
        self.ring(self.channel);
    }

    fn make_id(&mut self, channel: usize, context: *mut c_void) -> *mut c::rdma_cm_id {
        // SAFETY: all zero is a value of this structure of numbers and pointers.
        let mut id: Box<c::rdma_cm_id> = Box::new(unsafe { std::mem::zeroed() });
        id.context = context;
        id.channel = channel as *mut _;
        let id = Box::into_raw(id);
        self.ids.push(id as usize);
        id
    }

    /// The device tells an event of its own.
    pub(super) fn tell_of_device(&mut self, event: c_uint) {
        self.async_events.push_back((event, 0));
        self.ring(self.context);
    }

    /// Whether somebody still has to take an event of the device.
    pub(super) fn has_device_events(&self) -> bool {
        !self.async_events.is_empty()
    }

    /// The device tells an event of the queue pair that was made last.
    pub(super) fn tell_of_pair(&mut self, event: c_uint) {
        let pair = self.pairs.last().expect("a queue pair");
        self.async_events.push_back((event, pair.at));
        self.ring(self.context);
    }

    /// A request ends.
    pub(super) fn complete(&mut self, post: Post, status: c_uint, octets: u32) {
        self.complete_as(post, status, |result| result.byte_len = octets);
    }

    /// A request ends, with a result that `finish` completes.
    pub(super) fn complete_as(
        &mut self,
        post: Post,
        status: c_uint,
        finish: impl FnOnce(&mut c::ibv_wc),
    ) {
        let pair = self.pairs.iter().find(|pair| pair.number == post.pair);
        let pair = *pair.expect("the queue pair exists");
        let queue = if post.is_receive {
            pair.receive
        } else {
            pair.send
        };
        let mut result = c::ibv_wc {
            wr_id: post.id,
            status,
            qp_num: post.pair,
            ..c::ibv_wc::default()
        };
        finish(&mut result);
        let holds_events = self.holds_events;
        let queue = self.queue(queue);
        if queue.results.len() == queue.depth {
            let event = (c::IBV_EVENT_CQ_ERR, queue.at);
            self.async_events.push_back(event);
            self.calls.push("overflow");
            return self.ring(self.context);
        }
        queue.results.push_back(result);
        let tells = match queue.armed {
            Some(failures_only) => !failures_only || status != c::IBV_WC_SUCCESS,
            None => false,
        };
        if tells {
            queue.armed = None;
            queue.events += 1;
            let channel = queue.channel;
            if !holds_events {
                self.ring(channel);
            }
        }
    }

    /// The device is pulled out, of which its completion channels tell first.
    pub(super) fn pull_out(&mut self) {
        self.has_gone = true;
        for queue in &self.queues {
            self.ring(queue.channel);
        }
    }

    /// The descriptors of the completion channels.
    pub(super) fn completion_channels(&self) -> Vec<RawFd> {
        let of_queue = |at: usize| self.queues.iter().any(|queue| queue.channel == at);
        let channels = self.channels.iter().filter(|(at, _)| of_queue(*at));
        channels.map(|(_, own)| own.as_raw_fd()).collect()
    }

    /// How many results wait in completion queues.
    pub(super) fn waiting_results(&self) -> usize {
        let queues = self.queues.iter();
        queues.map(|queue| queue.results.len()).sum()
    }

    fn queue(&mut self, at: usize) -> &mut Queue {
        let mut queues = self.queues.iter_mut();
        queues.find(|queue| queue.at == at).expect("a queue")
    }

    fn post(&mut self, at: usize, post: Post) -> c_int {
        let returned = self.post_returns.pop_front().unwrap_or(0);
        if returned == 0 {
            let pair = self
                .pairs
                .iter()
                .find(|pair| pair.at == at)
                .expect("a queue pair");
            self.posted.push_back(Post {
                pair: pair.number,
                ..post
            });
        }
        returned
    }
}

fn raw_address(address: SocketAddrV4) -> libc::sockaddr_in {
    // SAFETY: all zero is a value of this structure of numbers.
    let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    raw.sin_family = libc::AF_INET.try_into().expect("small");
    raw.sin_port = address.port().to_be();
    raw.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
    raw
}

fn descriptor() -> OwnedFd {
    eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("an eventfd")
}

fn fail(errno: c_int) -> c_int {
    // SAFETY: errno belongs to the calling thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place = errno };
    -1
}

// ---- libibverbs ----

unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut c::ibv_device {
    let is_infiniband = with(|world| world.is_infiniband);
    // SAFETY: all zero is a value of this structure.
    let mut device: Box<c::ibv_device> = Box::new(unsafe { std::mem::zeroed() });
    device.transport_type = if is_infiniband {
        c::IBV_TRANSPORT_IB
    } else {
        c::IBV_TRANSPORT_IWARP
    };
    let lacks_device = with(|world| world.lacks_device);
    let first = if lacks_device {
        ptr::null_mut()
    } else {
        Box::into_raw(device)
    };
    let list = Box::new([first, ptr::null_mut()]);
    // SAFETY: the caller gives a place for the number.
    unsafe { *count = (!lacks_device).into() };
    Box::into_raw(list).cast()
}

unsafe extern "C" fn free_device_list(_: *mut *mut c::ibv_device) {} // the device stays for its contexts

unsafe extern "C" fn get_device_name(_: *mut c::ibv_device) -> *const c_char {
    c"fake0".as_ptr()
}

unsafe extern "C" fn open_device(device: *mut c::ibv_device) -> *mut c::ibv_context {
    // SAFETY: all zero is a value of this structure.
    let mut context: Box<c::ibv_context> = Box::new(unsafe { std::mem::zeroed() });
    let own = descriptor();
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

unsafe extern "C" fn close_device(_: *mut c::ibv_context) -> c_int {
    with(|world| {
        world.calls.push("close");
        world.open_devices -= 1;
    });
    0
}

unsafe extern "C" fn query_device(_: *mut c::ibv_context, into: *mut c::ibv_device_attr) -> c_int {
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

unsafe extern "C" fn query_port(
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

unsafe extern "C" fn get_async_event(
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

unsafe extern "C" fn ack_async_event(_: *mut c::ibv_async_event) {}

unsafe extern "C" fn alloc_pd(context: *mut c::ibv_context) -> *mut c::ibv_pd {
    Box::into_raw(Box::new(c::ibv_pd { context, handle: 0 }))
}

unsafe extern "C" fn dealloc_pd(pd: *mut c::ibv_pd) -> c_int {
    // SAFETY: made by `alloc_pd`.
    drop(unsafe { Box::from_raw(pd) });
    0
}

unsafe extern "C" fn reg_mr(
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

unsafe extern "C" fn dereg_mr(region: *mut c::ibv_mr) -> c_int {
    with(|world| world.calls.push("deregister"));
    // SAFETY: made by `reg_mr`.
    drop(unsafe { Box::from_raw(region) });
    0
}

unsafe extern "C" fn create_comp_channel(context: *mut c::ibv_context) -> *mut c::ibv_comp_channel {
    let own = descriptor();
    let channel = Box::into_raw(Box::new(c::ibv_comp_channel {
        context,
        fd: own.as_raw_fd(),
        refcnt: 0,
    }));
    with(|world| world.channels.push((channel as usize, own)));
    channel
}

unsafe extern "C" fn destroy_comp_channel(channel: *mut c::ibv_comp_channel) -> c_int {
    with(|world| world.channels.retain(|(at, _)| *at != channel as usize));
    // SAFETY: made by `create_comp_channel`.
    drop(unsafe { Box::from_raw(channel) });
    0
}

unsafe extern "C" fn create_cq(
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

unsafe extern "C" fn resize_cq(_: *mut c::ibv_cq, _: c_int) -> c_int {
    -libc::EOPNOTSUPP
}

unsafe extern "C" fn destroy_cq(queue: *mut c::ibv_cq) -> c_int {
    with(|world| world.queues.retain(|other| other.at != queue as usize));
    // SAFETY: made by `create_cq`.
    drop(unsafe { Box::from_raw(queue) });
    0
}

unsafe extern "C" fn get_cq_event(
    channel: *mut c::ibv_comp_channel,
    into: *mut *mut c::ibv_cq,
    _: *mut *mut c_void,
) -> c_int {
    if with(|world| world.has_gone) {
        return fail(libc::EIO);
    }
    let told = with(|world| {
        world.quiet(channel as usize);
        let mut queues = world.queues.iter_mut();
        let told = queues.find(|queue| queue.channel == channel as usize && queue.events > 0)?;
        told.events -= 1;
        Some(told.at)
    });
    let Some(queue) = told else {
        return fail(libc::EAGAIN);
    };
    // SAFETY: the caller gives a place for it.
    unsafe { *into = queue as *mut c::ibv_cq };
    0
}

unsafe extern "C" fn ack_cq_events(_: *mut c::ibv_cq, _: c_uint) {}

unsafe extern "C" fn poll_cq(queue: *mut c::ibv_cq, room: c_int, into: *mut c::ibv_wc) -> c_int {
    with(|world| {
        let results = &mut world.queue(queue as usize).results;
        let mut count = 0;
        while count < room
            && let Some(result) = results.pop_front()
        {
            let at = into.wrapping_add(count.try_into().expect("small"));
            // SAFETY: the caller gives room for so many results.
            unsafe { at.write(result) };
            count += 1;
        }
        count
    })
}

unsafe extern "C" fn req_notify_cq(queue: *mut c::ibv_cq, solicited_only: c_int) -> c_int {
    with(|world| {
        let armed = &mut world.queue(queue as usize).armed;
        // What was asked for before is not taken back.
        *armed = Some(solicited_only != 0 && *armed != Some(false));
    });
    0
}

unsafe extern "C" fn create_srq(
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

unsafe extern "C" fn modify_srq(
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

unsafe extern "C" fn destroy_srq(queue: *mut c::ibv_srq) -> c_int {
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

unsafe extern "C" fn create_qp(
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

unsafe extern "C" fn modify_qp(
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

unsafe extern "C" fn destroy_qp(pair: *mut c::ibv_qp) -> c_int {
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

// ---- librdmacm ----

unsafe extern "C" fn create_event_channel() -> *mut c::rdma_event_channel {
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

unsafe extern "C" fn destroy_event_channel(channel: *mut c::rdma_event_channel) {
    with(|world| world.channels.retain(|(at, _)| *at != channel as usize));
    // SAFETY: made by `create_event_channel`.
    drop(unsafe { Box::from_raw(channel) });
}

unsafe extern "C" fn create_id(
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

unsafe extern "C" fn destroy_id(id: *mut c::rdma_cm_id) -> c_int {
    with(|world| {
        world.calls.push("destroy id");
        world.ids.retain(|at| *at != id as usize);
    });
    // SAFETY: made by `make_id`.
    drop(unsafe { Box::from_raw(id) });
    0
}

unsafe extern "C" fn bind_addr(id: *mut c::rdma_cm_id, address: *mut sockaddr) -> c_int {
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
        let mut count = 0;
        // SAFETY: the count may be written.
        let list = unsafe { get_device_list(&raw mut count) };
        // SAFETY: all zero is a value of this structure.
        let mut context: Box<c::ibv_context> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: the list has a device.
        context.device = unsafe { *list };
        // As librdmacm does, which never closes the devices that it opens.
        let context = Box::into_raw(context);
        // SAFETY: the identifier exists.
        unsafe { (*id).verbs = context };
        // SAFETY: as above.
        unsafe { (*id).port_num = 1 };
    }
    0
}

unsafe extern "C" fn resolve_addr(
    id: *mut c::rdma_cm_id,
    _: *mut sockaddr,
    _: *mut sockaddr,
    _: c_int,
) -> c_int {
    tell_at_once(id, c::RDMA_CM_EVENT_ADDR_RESOLVED)
}

unsafe extern "C" fn resolve_route(id: *mut c::rdma_cm_id, _: c_int) -> c_int {
    tell_at_once(id, c::RDMA_CM_EVENT_ROUTE_RESOLVED)
}

fn tell_at_once(id: *mut c::rdma_cm_id, event: c_uint) -> c_int {
    with(|world| {
        let at = world.ids.iter().position(|at| *at == id as usize);
        world.tell(at.expect("the identifier exists"), event, 0);
    });
    0
}

/// Notes what the peer is told.
fn note(call: &'static str, parameters: *mut c::rdma_conn_param) {
    // SAFETY: the caller gives a whole structure.
    let parameters = unsafe { &*parameters };
    let length = parameters.private_data_len.into();
    // SAFETY: the private data has so many octets.
    let data = unsafe { std::slice::from_raw_parts(parameters.private_data.cast::<u8>(), length) };
    with(|world| {
        world.calls.push(call);
        let limits = (parameters.responder_resources, parameters.initiator_depth);
        world.told = Some((data.to_vec(), limits.0, limits.1));
        world.told_of_receives = Some((parameters.rnr_retry_count, parameters.srq != 0));
    });
}

unsafe extern "C" fn connect(_: *mut c::rdma_cm_id, parameters: *mut c::rdma_conn_param) -> c_int {
    let returned = with(|world| world.connect_returns);
    note("connect", parameters);
    if returned == 0 { 0 } else { fail(returned) }
}

unsafe extern "C" fn establish(_: *mut c::rdma_cm_id) -> c_int {
    with(|world| world.calls.push("establish"));
    0
}

unsafe extern "C" fn listen(_: *mut c::rdma_cm_id, _: c_int) -> c_int {
    let returned = with(|world| world.listen_returns.pop_front().unwrap_or(0));
    if returned == 0 { 0 } else { fail(returned) }
}

unsafe extern "C" fn accept(_: *mut c::rdma_cm_id, parameters: *mut c::rdma_conn_param) -> c_int {
    let returned = with(|world| world.accept_returns);
    note("accept", parameters);
    if returned == 0 { 0 } else { fail(returned) }
}

unsafe extern "C" fn reject(_: *mut c::rdma_cm_id, data: *const c_void, length: u8) -> c_int {
    // SAFETY: the caller gives so many octets.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length.into()) };
    with(|world| {
        world.calls.push("reject");
        world.told = Some((data.to_vec(), 0, 0));
    });
    0
}

unsafe extern "C" fn disconnect(_: *mut c::rdma_cm_id) -> c_int {
    with(|world| world.calls.push("disconnect"));
    0
}

unsafe extern "C" fn init_qp_attr(
    _: *mut c::rdma_cm_id,
    attributes: *mut c::ibv_qp_attr,
    _: *mut c_int,
) -> c_int {
    // SAFETY: the caller gives a whole structure.
    let attributes = unsafe { &mut *attributes };
    // What both sides have told each other, or the peer alone.
    (attributes.max_dest_rd_atomic, attributes.max_rd_atomic) = (16, 16);
    attributes.qp_access_flags = c::IBV_ACCESS_REMOTE_WRITE;
    0
}

unsafe extern "C" fn get_cm_event(
    channel: *mut c::rdma_event_channel,
    into: *mut *mut c::rdma_cm_event,
) -> c_int {
    let event = with(|world| {
        world.quiet(channel as usize);
        let mut events = world.cm_events.iter();
        let at = events.position(|(of, _)| *of == channel as usize)?;
        world.cm_events.remove(at)
    });
    let Some((_, event)) = event else {
        return fail(libc::EAGAIN);
    };
    // SAFETY: the caller gives a place for it.
    unsafe { *into = event as *mut c::rdma_cm_event };
    0
}

unsafe extern "C" fn ack_cm_event(event: *mut c::rdma_cm_event) -> c_int {
    // SAFETY: made by `tell_with`.
    drop(unsafe { Box::from_raw(event) });
    0
}
