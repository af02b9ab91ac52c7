//! A fake library in place of rdma-core: it makes objects, notes the calls, and reports the events that a test requests. So the tests run
//! on machines without rdma-core and without devices.

mod cm;
mod verbs;

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
        ibv_get_device_list: verbs::get_device_list,
        ibv_free_device_list: verbs::free_device_list,
        ibv_get_device_name: verbs::get_device_name,
        ibv_open_device: verbs::open_device,
        ibv_close_device: verbs::close_device,
        ibv_query_device: verbs::query_device,
        ibv_query_port: verbs::query_port,
        ibv_get_async_event: verbs::get_async_event,
        ibv_ack_async_event: verbs::ack_async_event,
        ibv_alloc_pd: verbs::alloc_pd,
        ibv_dealloc_pd: verbs::dealloc_pd,
        ibv_reg_mr: verbs::reg_mr,
        ibv_dereg_mr: verbs::dereg_mr,
        ibv_create_comp_channel: verbs::create_comp_channel,
        ibv_destroy_comp_channel: verbs::destroy_comp_channel,
        ibv_create_cq: verbs::create_cq,
        ibv_resize_cq: verbs::resize_cq,
        ibv_destroy_cq: verbs::destroy_cq,
        ibv_get_cq_event: verbs::get_cq_event,
        ibv_ack_cq_events: verbs::ack_cq_events,
        ibv_create_srq: verbs::create_srq,
        ibv_modify_srq: verbs::modify_srq,
        ibv_destroy_srq: verbs::destroy_srq,
        ibv_create_qp: verbs::create_qp,
        ibv_modify_qp: verbs::modify_qp,
        ibv_destroy_qp: verbs::destroy_qp,
    },
    cm: CmLibrary {
        rdma_create_event_channel: cm::create_event_channel,
        rdma_destroy_event_channel: cm::destroy_event_channel,
        rdma_create_id: cm::create_id,
        rdma_destroy_id: cm::destroy_id,
        rdma_bind_addr: cm::bind_addr,
        rdma_resolve_addr: cm::resolve_addr,
        rdma_resolve_route: cm::resolve_route,
        rdma_connect: cm::connect,
        rdma_establish: cm::establish,
        rdma_listen: cm::listen,
        rdma_accept: cm::accept,
        rdma_reject: cm::reject,
        rdma_disconnect: cm::disconnect,
        rdma_init_qp_attr: cm::init_qp_attr,
        rdma_get_cm_event: cm::get_cm_event,
        rdma_ack_cm_event: cm::ack_cm_event,
    },
};

/// The state and the behaviour of the fake library. Pointers are kept as numbers, since no thread owns them.
#[derive(Default)]
pub(super) struct World {
    /// The number that the device gives as its vendor's: that of siw, unless a test wants another driver.
    pub(super) vendor_id: u32,
    pub(super) is_infiniband: bool,
    pub(super) has_atomics: bool,
    /// The device has shared receive queues.
    pub(super) has_shared_receives: bool,
    /// The device's flags about windows: bits of `device_cap_flags`.
    pub(super) windows: u32,
    /// The driver has no windows of type 2, even if the device reports them.
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
    cm_events: VecDeque<(usize, Box<Event>)>,
    /// With the queue pair that they are about, or 0.
    async_events: VecDeque<(c_uint, usize)>,
    queues: Vec<Queue>,
    /// The device was pulled out: completion channels fail, and stay readable.
    has_gone: bool,
    /// Completion queues report results, but this wakes no thread up.
    pub(super) holds_events: bool,
    /// Queue pairs that exist: the pointer, the number, and the completion queues of initiator and Receives.
    pub(super) pairs: Vec<Pair>,
    /// Identifiers that exist.
    pub(super) ids: Vec<usize>,
    /// Posts that were not checked yet: the number of the queue pair, true for a Receive, and its identifier.
    pub(super) posted: VecDeque<Post>,
    /// The results of posts, in order; 0 when there is nothing left.
    pub(super) post_returns: VecDeque<c_int>,
    /// The results of Binds and Listens of identifiers, in order; 0 when there is nothing left.
    pub(super) bind_returns: VecDeque<c_int>,
    pub(super) listen_returns: VecDeque<c_int>,
    pub(super) connect_returns: c_int,
    pub(super) accept_returns: c_int,
    /// The result of making a queue pair ready to receive.
    pub(super) ready_returns: c_int,
    pub(super) register_fails: c_int,
    /// The number of the next queue pair, for a test that reuses a number.
    pub(super) next_pair: Option<u32>,
    /// Destroying a queue pair takes as long as this is set.
    pub(super) holds_pairs: bool,
    /// Making a queue pair takes as long as this is set.
    pub(super) holds_new_pairs: bool,
    /// Private data and limits of the last Connect, Accept or Reject.
    pub(super) sent_data: Option<(Vec<u8>, u8, u8)>,
    /// The number of times that the peer should send a message again that has found no Receive here, and true if Receives are shared.
    pub(super) sent_receive_options: Option<(u8, bool)>,
    pub(super) calls: Vec<&'static str>,
    /// The addresses of peers' requests, of this side and of the peer.
    pub(super) addresses: Option<(SocketAddrV4, SocketAddrV4)>,
    /// The result of enlarging a shared receive queue.
    pub(super) enlarge_returns: c_int,
    /// The depths that shared receive queues were enlarged to, and the limits that they were armed with.
    pub(super) enlarged: Vec<u32>,
    pub(super) armed: Vec<u32>,
    /// The times that peers wait before they send a message again that has found no Receive, set when queue pairs were made ready to
    /// receive.
    pub(super) receive_timers: Vec<u8>,
    /// The changes of queue pairs.
    pub(super) changes: Vec<Change>,
}

/// An event of the connection manager, with the private data that it points to.
#[repr(C)]
struct Event {
    // First, so that a pointer to it is a pointer to the whole.
    event: c::rdma_cm_event,
    data: Box<[u8]>,
}

// SAFETY: its pointers lead to its own data and to identifiers, which every thread may use.
unsafe impl Send for Event {}

/// A change of a queue pair: its state, the rights of the peer, and the numbers of inbound and outbound Reads.
pub(super) type Change = (u32, u32, u8, u8);

/// A completion queue.
struct Queue {
    at: usize,
    channel: usize,
    depth: usize,
    results: VecDeque<c::ibv_wc>,
    /// The channel reports the next result; with `true` the next one that has failed. No result of this library is solicited.
    armed: Option<bool>,
    /// The reports of the channel that were not taken yet.
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
    /// The key of a Bind or an Invalidate, and the number of octets that are bound.
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
            until_closed();
        }
    }
}

/// Waits until every device is closed: other threads may hold the last references to the objects of an adapter.
pub(super) fn until_closed() {
    until(|world| world.open_devices == 0);
}

/// Waits until no other test uses the fake library, and gives this test a world without objects.
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

    fn ring(&self, channel: usize) {
        if let Some((_, descriptor)) = self.channels.iter().find(|(at, _)| *at == channel) {
            rustix::io::write(descriptor, &1_u64.to_ne_bytes()).expect("an eventfd");
        }
    }

    fn quiet(&self, channel: usize) {
        if let Some((_, descriptor)) = self.channels.iter().find(|(at, _)| *at == channel) {
            let _ = rustix::io::read(descriptor, &mut [0_u8; 8]);
        }
    }

    /// The connection manager reports an event of this identifier.
    pub(super) fn tell(&mut self, id: usize, event: c_uint, status: c_int) {
        self.tell_with(id, event, status, &[], (0, 0));
    }

    /// Like [`tell`](Self::tell), with private data, and with responder resources and initiator depth.
    pub(super) fn tell_with(
        &mut self,
        id: usize,
        event: c_uint,
        status: c_int,
        data: &[u8],
        limits: (u8, u8),
    ) {
        assert!(self.ids.contains(&id), "the identifier exists");
        let mut id = id as *mut c::rdma_cm_id;
        let mut listener = ptr::null_mut();
        if event == c::RDMA_CM_EVENT_CONNECT_REQUEST {
            listener = id;
            id = self.make_id(self.channel, ptr::null_mut());
            if let Some((local, peer)) = self.addresses {
                // SAFETY: just made, and not known to other threads.
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
        let data: Box<[u8]> = data.into();
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
        let event = Box::new(Event { event, data });
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

    /// The device reports an event of its own.
    pub(super) fn tell_of_device(&mut self, event: c_uint) {
        self.async_events.push_back((event, 0));
        self.ring(self.context);
    }

    /// Returns true if an event of the device was not taken yet.
    pub(super) fn has_device_events(&self) -> bool {
        !self.async_events.is_empty()
    }

    /// The device reports an event of the queue pair that was made last.
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

    /// The device is pulled out, which its completion channels report first.
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

    /// The number of results that wait in completion queues.
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
