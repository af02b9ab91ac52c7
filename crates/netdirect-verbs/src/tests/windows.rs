//! Memory windows of both types.

use std::sync::Arc;

use netdirect::{
    Capabilities, CompletionResult, MemoryRegion, MemoryWindow, MrFlags, OpFlags, Overlapped,
    RequestType, Sge, Started, Status,
};

use super::{Objects, fake, last_post};
use crate::sys::bindings as c;

const TYPE_1: u32 = c::IBV_DEVICE_MEM_WINDOW;
const TYPE_2: u32 = c::IBV_DEVICE_MEM_WINDOW_TYPE_2B;

/// A connected queue pair, a region of 8 octets, and a window, on a device whose windows have the flags `windows`.
struct Bench {
    objects: Objects,
    region: Arc<dyn MemoryRegion>,
    window: Arc<dyn MemoryWindow>,
    entry: Sge,
}

impl Bench {
    fn new(windows: u32) -> Self {
        fake::with(|world| world.windows = windows);
        let objects = Objects::connected();
        let (entry, region) = objects.registered(MrFlags::ALLOW_LOCAL_WRITE);
        let window = objects.adapter.create_memory_window();
        Self {
            window: window.expect("a window"),
            objects,
            region,
            entry,
        }
    }

    fn bind(&self, context: u64, flags: OpFlags) -> netdirect::Result<()> {
        let (region, window, address) = (&self.region, &self.window, self.entry.address);
        let qp = &self.objects.qp;
        qp.bind(context, region, window, address, 8, flags)
    }

    fn invalidate(&self, context: u64) -> netdirect::Result<()> {
        let qp = &self.objects.qp;
        qp.invalidate(context, &self.window, OpFlags::empty())
    }

    /// Binds the window, and ends the Bind.
    fn bound(windows: u32) -> Self {
        let bench = Self::new(windows);
        bench.bind(1, OpFlags::ALLOW_READ).expect("posted");
        assert_eq!(bench.end(c::IBV_WC_SUCCESS), (1, Status::SUCCESS));
        bench
    }

    /// Ends the request that was posted last. Returns its context and status.
    fn end(&self, status: u32) -> (u64, Status) {
        let post = last_post();
        fake::with(|world| world.complete(post, status, 0));
        self.result()
    }

    /// The next result, which has to be in the queue.
    fn result(&self) -> (u64, Status) {
        let result = self.completed();
        (result.request_context, result.status)
    }

    fn completed(&self) -> CompletionResult {
        let mut results = [CompletionResult::default()];
        assert_eq!(self.objects.cq.get_results(&mut results), 1);
        results[0]
    }

    fn deregister(&self) -> Result<Started, Status> {
        let deregistered = self.region.deregister(&Overlapped::new());
        deregistered.map_err(|error| error.status())
    }

    /// Deregisters the region. The device has released the memory when the call returns (MR-034).
    fn free(&self) {
        fake::with(|world| world.calls.clear());
        assert_eq!(self.deregister(), Ok(Started::Pending));
        assert_eq!(fake::with(|world| world.calls.clone()), ["deregister"]);
    }
}

const BUSY: Result<Started, Status> = Err(Status::DEVICE_BUSY);

fn posts() -> usize {
    fake::with(|world| world.posted.len())
}

#[test]
fn windows_of_type_1_are_bound_and_invalidated_by_the_call_for_them() {
    let _turn = fake::turn();
    let bench = Bench::new(TYPE_1);
    let has = bench.objects.adapter.capabilities();
    assert!(has.contains(Capabilities::MEMORY_WINDOWS));
    let token = bench.window.get_remote_token();
    let outside = bench.objects.qp.bind(
        1,
        &bench.region,
        &bench.window,
        bench.entry.address,
        9,
        OpFlags::ALLOW_WRITE,
    );
    let outside = outside.map_err(|error| error.status());
    assert_eq!(outside, Err(Status::ACCESS_VIOLATION)); // QP-038
    bench
        .bind(1, OpFlags::ALLOW_WRITE | OpFlags::READ_FENCE)
        .expect("posted");
    assert_ne!(bench.window.get_remote_token(), token); // MW-008
    assert_eq!(bench.window.get_remote_token().to_host(), last_post().key);
    assert_ne!(last_post().flags & c::IBV_SEND_FENCE, 0); // QP-020
    let post = last_post();
    fake::with(|world| world.complete(post, c::IBV_WC_SUCCESS, 0));
    assert_eq!(bench.completed().request_type, RequestType::Bind);
    assert_eq!(bench.deregister(), BUSY); // MR-026
    bench.invalidate(2).expect("posted");
    assert_eq!(last_post().bound, 0);
    assert_eq!(bench.deregister(), BUSY);
    let post = last_post();
    fake::with(|world| world.complete(post, c::IBV_WC_SUCCESS, 0));
    assert_eq!(bench.completed().request_type, RequestType::Invalidate);
    bench.free();
}

#[test]
fn windows_of_type_2_are_bound_and_invalidated_by_requests_with_keys_of_ours() {
    let _turn = fake::turn();
    let bench = Bench::new(TYPE_1 | TYPE_2);
    let mut last = bench.window.get_remote_token().to_host();
    // The lowest octet of a key has 256 values, after which they come again.
    for round in 0..300 {
        bench
            .bind(1, OpFlags::ALLOW_READ | OpFlags::READ_FENCE)
            .expect("posted");
        let bind = last_post();
        assert_eq!((bind.opcode, bind.bound), (c::IBV_WR_BIND_MW, 8));
        assert_ne!(bind.flags & c::IBV_SEND_FENCE, 0); // QP-020
        assert_eq!(bind.key >> 8, last >> 8);
        assert_ne!(bind.key, last, "round {round}");
        assert_eq!(bench.window.get_remote_token().to_host(), bind.key); // MW-008
        last = bind.key;
        assert_eq!(bench.end(c::IBV_WC_SUCCESS), (1, Status::SUCCESS));
        assert_eq!(bench.deregister(), BUSY); // MR-026
        bench.invalidate(2).expect("posted");
        let invalidate = last_post();
        assert_eq!(invalidate.opcode, c::IBV_WR_LOCAL_INV);
        assert_eq!(invalidate.key, last);
        assert_eq!(bench.deregister(), BUSY);
        assert_eq!(bench.end(c::IBV_WC_SUCCESS), (2, Status::SUCCESS));
    }
    bench.free();
}

#[test]
fn mw_003_a_bind_may_follow_an_invalidate_that_is_still_queued() {
    let _turn = fake::turn();
    let bench = Bench::new(TYPE_2);
    bench.bind(1, OpFlags::ALLOW_READ).expect("posted");
    let first = last_post();
    bench.invalidate(2).expect("posted");
    let second = last_post();
    bench.bind(3, OpFlags::ALLOW_READ).expect("posted");
    let third = last_post();
    assert_eq!(third.opcode, c::IBV_WR_BIND_MW);
    fake::with(|world| {
        for post in [first, second, third] {
            world.complete(post, c::IBV_WC_SUCCESS, 0);
        }
    });
    for context in 1..=3 {
        assert_eq!(bench.result(), (context, Status::SUCCESS));
    }
    assert_eq!(bench.deregister(), BUSY);
    bench.invalidate(4).expect("posted");
    assert_eq!(last_post().key, third.key);
    assert_eq!(bench.end(c::IBV_WC_SUCCESS), (4, Status::SUCCESS));
    bench.free();
}

#[test]
fn qp_043_a_window_that_is_bound_cannot_be_bound_again() {
    for windows in [TYPE_1, TYPE_2] {
        let _turn = fake::turn();
        let bench = Bench::bound(windows);
        let before = posts();
        bench.bind(2, OpFlags::ALLOW_READ).expect("posted");
        assert_eq!(bench.result(), (2, Status::INVALID_DEVICE_REQUEST));
        assert_eq!(posts(), before);
    }
}

#[test]
fn qp_050_an_invalidate_of_an_unbound_window_fails_before_the_driver_sees_it() {
    let _turn = fake::turn();
    let bench = Bench::new(TYPE_2);
    let before = posts();
    bench.invalidate(1).expect("posted");
    assert_eq!(bench.result(), (1, Status::INVALID_DEVICE_REQUEST));
    assert_eq!(posts(), before);
}

#[test]
fn mw_002_a_window_belongs_to_the_queue_pair_that_has_bound_it() {
    for windows in [TYPE_1, TYPE_2] {
        let _turn = fake::turn();
        let bench = Bench::bound(windows);
        let (other, _connector) = bench.objects.another();
        let before = posts();
        other
            .invalidate(2, &bench.window, OpFlags::empty())
            .expect("posted");
        assert_eq!(bench.result(), (2, Status::INVALID_DEVICE_REQUEST));
        // The order of requests counts within one queue pair only.
        let (other, _connector) = bench.objects.another();
        bench.invalidate(3).expect("posted");
        let invalidate = last_post();
        let address = bench.entry.address;
        let flags = OpFlags::ALLOW_READ;
        other
            .bind(4, &bench.region, &bench.window, address, 8, flags)
            .expect("posted");
        assert_eq!(bench.result(), (4, Status::INVALID_DEVICE_REQUEST));
        assert_eq!(posts(), before + 1);
        fake::with(|world| world.complete(invalidate, c::IBV_WC_SUCCESS, 0));
        assert_eq!(bench.result(), (3, Status::SUCCESS));
        let (other, _connector) = bench.objects.another();
        other
            .bind(5, &bench.region, &bench.window, address, 8, flags)
            .expect("posted");
        assert_eq!(bench.end(c::IBV_WC_SUCCESS), (5, Status::SUCCESS));
    }
}

#[test]
fn a_bind_that_fails_leaves_the_region_and_the_window_free() {
    for (windows, expected, status) in [
        (
            TYPE_2,
            c::IBV_WC_MW_BIND_ERR,
            Status::INVALID_DEVICE_REQUEST,
        ),
        (TYPE_2, c::IBV_WC_WR_FLUSH_ERR, Status::CANCELED),
        (TYPE_1, c::IBV_WC_WR_FLUSH_ERR, Status::CANCELED),
    ] {
        let _turn = fake::turn();
        let bench = Bench::new(windows);
        bench.bind(1, OpFlags::ALLOW_READ).expect("posted");
        fake::with(|world| world.calls.clear());
        assert_eq!(bench.end(expected), (1, status));
        // The state of the device's window and its key are unknown. It may be bound, so it ends before the region.
        assert_eq!(fake::with(|world| world.calls.clone()), ["free window"]);
        bench.free();
        // Another one takes its place.
        let (entry, region) = bench.objects.registered(MrFlags::ALLOW_LOCAL_WRITE);
        let (other, _connector) = bench.objects.another();
        let flags = OpFlags::ALLOW_READ;
        other
            .bind(2, &region, &bench.window, entry.address, 8, flags)
            .expect("posted");
        assert_eq!(bench.end(c::IBV_WC_SUCCESS), (2, Status::SUCCESS));
    }
}

#[test]
fn an_invalidate_that_fails_leaves_the_window_bound() {
    let _turn = fake::turn();
    let bench = Bench::bound(TYPE_2);
    bench.invalidate(2).expect("posted");
    assert_eq!(bench.end(c::IBV_WC_WR_FLUSH_ERR), (2, Status::CANCELED));
    assert_eq!(bench.deregister(), BUSY);
    let Bench { region, window, .. } = bench;
    fake::with(|world| world.calls.clear());
    drop(window); // MW-014
    assert!(fake::with(|world| world.calls.contains(&"free window")));
    let deregistered = region.deregister(&Overlapped::new());
    assert_eq!(deregistered, Ok(Started::Pending));
}

#[test]
fn iw_058_a_peer_may_invalidate_a_window_of_type_2() {
    let _turn = fake::turn();
    let bench = Bench::bound(TYPE_2);
    let key = last_post().key;
    bench.objects.qp.receive(2, &[]).expect("posted");
    let receive = last_post();
    fake::with(|world| {
        world.complete_as(receive, c::IBV_WC_SUCCESS, |result| {
            result.wc_flags = c::IBV_WC_WITH_INV;
            result.__bindgen_anon_1.invalidated_rkey = key;
        });
    });
    assert_eq!(bench.result(), (2, Status::SUCCESS));
    bench.free();
    // The owner's Invalidate succeeds once, and the device, which would fail it, does not see it.
    let before = posts();
    bench.invalidate(3).expect("posted");
    assert_eq!(bench.result(), (3, Status::SUCCESS));
    assert_eq!(posts(), before);
    assert!(!fake::with(|world| world.calls.contains(&"fail")));
    bench.invalidate(4).expect("posted");
    assert_eq!(bench.result(), (4, Status::INVALID_DEVICE_REQUEST));
}

#[test]
fn mw_014_a_window_is_freed_before_its_region() {
    for windows in [TYPE_1, TYPE_2] {
        let _turn = fake::turn();
        let Bench {
            objects,
            region,
            window,
            ..
        } = Bench::bound(windows);
        fake::with(|world| world.calls.clear());
        drop(region);
        drop(window);
        let calls = fake::with(|world| world.calls.clone());
        assert_eq!(calls, ["free window", "deregister"]);
        drop(objects);
    }
}

#[test]
fn a_bind_that_the_driver_refuses_changes_nothing() {
    let _turn = fake::turn();
    let bench = Bench::new(TYPE_2);
    let token = bench.window.get_remote_token();
    fake::with(|world| world.post_returns.push_back(libc::EINVAL));
    let refused = bench.bind(1, OpFlags::ALLOW_READ);
    let refused = refused.map_err(|error| error.status());
    assert_eq!(refused, Err(Status::INVALID_DEVICE_REQUEST));
    assert_eq!(bench.window.get_remote_token(), token);
    bench.free();
}

#[test]
fn windows_are_those_of_type_2_else_of_type_1_else_none() {
    for (windows, lacks, found) in [
        (TYPE_1 | TYPE_2, false, Some(c::IBV_WR_BIND_MW)),
        (
            c::IBV_DEVICE_MEM_WINDOW_TYPE_2A,
            false,
            Some(c::IBV_WR_BIND_MW),
        ),
        (TYPE_1, false, Some(0)),
        (TYPE_1 | TYPE_2, true, Some(0)),
        (TYPE_2, true, None),
        (0, false, None),
    ] {
        let _turn = fake::turn();
        fake::with(|world| {
            world.windows = windows;
            world.lacks_windows_2 = lacks;
        });
        let Some(opcode) = found else {
            let objects = Objects::new();
            let has = objects.adapter.capabilities();
            assert!(!has.contains(Capabilities::MEMORY_WINDOWS));
            let refused = objects.adapter.create_memory_window().map(drop);
            let refused = refused.map_err(|error| error.status());
            assert_eq!(refused, Err(Status::NOT_SUPPORTED));
            continue;
        };
        let bench = Bench::bound(windows);
        assert_eq!(last_post().opcode, opcode, "{windows:#x}");
        drop(bench);
    }
}
