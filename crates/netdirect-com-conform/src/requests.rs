//! Requests: the changes of their OVERLAPPED, event and completion port.

use conform_report::{Pass, Step, Verdict, ensure, fail};
use netdirect::{Buffer, MrFlags, Status};
use netdirect_com::abi::{Handle, MemoryRegionTable, WAKE_EVENT_BIT};
use netdirect_com::handle::{EventRef, PortRef, wait};
use netdirect_com::import::Pointer;
use netdirect_conform::{Check, Unopened};

use crate::call::call;
use crate::client::Client;
use crate::common::{check, status};
use crate::open_adapter::OpenAdapter;
use crate::request::{Request, end};

pub(crate) const CHECKS: &[Check] = &[
    check(
        "TST-005.unused",
        "asks each object with requests for the result of an OVERLAPPED of zeros that was never used",
        unused,
    ),
    check(
        "TST-006.internal",
        "registers and deregisters with an OVERLAPPED that has old content, and looks at its Internal",
        old_content,
    ),
    check(
        "GEN-007.border",
        "registers with an event on a file with a port: the event is set, and one packet arrives with key, status and OVERLAPPED",
        notified,
    )
    .also(&["ADPT-007"]),
    check(
        "OVL-021.border",
        "registers with the lowest bit of the event's handle set: no packet arrives, and the event is set",
        without_packet,
    ),
    check(
        "ADPT-086.kinds",
        "passes an event for a file, and a file and a port for an event",
        wrong_handles,
    ),
];

fn unused(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    for kind in near.kinds().filter(|kind| kind.is_overlapped()) {
        let object = near.overlapped(kind)?;
        let mut request = Request::zeroed();
        let what = format!(
            "GetOverlappedResult of {} for an unused OVERLAPPED",
            kind.name()
        );
        near.step(&*what);
        let returned = call!(&object, get_overlapped_result(request.pointer(), 1));
        request.is_free();
        status(&what, Status::SUCCESS, returned)?;
    }
    Ok(Pass::Right)
}

/// A region, and memory for it.
struct TestRegion {
    region: Pointer<MemoryRegionTable>,
    buffer: Buffer,
}

impl TestRegion {
    fn new(near: &OpenAdapter) -> Step<Self> {
        Ok(Self {
            region: near.region()?,
            buffer: Buffer::new(4096),
        })
    }

    fn register(&self, near: &OpenAdapter, request: &mut Request) -> Status {
        near.step("Register");
        let (start, len) = (self.buffer.as_ptr().cast_const().cast(), self.buffer.len());
        let flags = MrFlags::ALLOW_LOCAL_WRITE.bits();
        call!(&self.region, register(start, len, flags, request.pointer()))
    }
}

fn old_content(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let place = TestRegion::new(&near)?;
    let written = |what: &str, request: &Request| {
        let internal = request.internal();
        let wanted = Status::SUCCESS.bits() as usize;
        ensure(
            internal == wanted,
            format!("{wanted:#x} in Internal after {what}"),
            format!("{internal:#x}"),
        )
    };
    let mut request = Request::new();
    let started = place.register(&near, &mut request);
    let returned = end!(request, &place.region, started);
    status("Register", Status::SUCCESS, returned)?;
    written("Register", &request)?;
    near.step("Deregister");
    let mut request = Request::new();
    let started = call!(&place.region, deregister(request.pointer()));
    let returned = end!(request, &place.region, started);
    status("Deregister", Status::SUCCESS, returned)?;
    written("Deregister", &request)?;
    Ok(Pass::Right)
}

/// The key of the port's packets.
const KEY: usize = 0x1234;

fn port(near: &OpenAdapter) -> Step<PortRef> {
    let port = PortRef::create();
    near.step("tie the file to a port");
    // SAFETY: `port` keeps its handle open.
    let returned = unsafe { near.file.associate(port.handle(), KEY) };
    status(
        "the file's association with a port",
        Status::SUCCESS,
        returned,
    )?;
    Ok(port)
}

/// Checks that the next packet is this request's.
fn packet(near: &OpenAdapter, port: &PortRef, request: &mut Request) -> Step {
    near.step("wait for a packet");
    let packet = port.take_one(near.client.answer).ok().flatten();
    let packet = packet.ok_or_else(|| fail("a packet in the port", "none"))?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only 32 bits of a packet's Internal mean something"
    )]
    let of_packet = Status::from_bits(packet.internal as u32);
    let seen = (packet.key, of_packet, packet.overlapped);
    ensure(
        seen == (KEY, Status::SUCCESS, request.pointer()),
        format!("a packet with the key {KEY:#x}, status 0 and the request's OVERLAPPED"),
        format!("{packet:?}"),
    )
}

/// Programs with a port depend on it (AMB-065).
fn is_pending(started: Status) -> Step {
    status("Register", Status::PENDING, started)
}

fn notified(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let port = port(&near)?;
    let (place, event) = (TestRegion::new(&near)?, EventRef::create(true, false));
    let mut request = Request::with_event(event.handle());
    let started = place.register(&near, &mut request);
    is_pending(started)?;
    packet(&near, &port, &mut request)?;
    near.step("wait for the event");
    ensure(
        wait(&event, near.client.answer),
        "a set event after the packet",
        "none",
    )?;
    let returned = end!(request, &place.region, started);
    status("Register", Status::SUCCESS, returned)?;
    let more = port.take_one(0).ok().flatten();
    ensure(
        more.is_none(),
        "one packet for one request",
        format!("{more:?} behind it"),
    )?;
    Ok(Pass::Right)
}

fn without_packet(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let port = port(&near)?;
    let event = EventRef::create(false, false);
    let marked: Handle = event.handle().map_addr(|address| address | WAKE_EVENT_BIT);
    let first = TestRegion::new(&near)?;
    let mut quiet = Request::with_event(marked);
    let started = first.register(&near, &mut quiet);
    is_pending(started)?;
    near.step("wait for the event");
    ensure(wait(&event, near.client.answer), "a set event", "none")?;
    let returned = end!(quiet, &first.region, started);
    status("Register", Status::SUCCESS, returned)?;
    // A packet of the first request would have come before that of the second.
    let second = TestRegion::new(&near)?;
    let mut loud = Request::new();
    let started = second.register(&near, &mut loud);
    is_pending(started)?;
    packet(&near, &port, &mut loud)?;
    let returned = end!(loud, &second.region, started);
    status("Register", Status::SUCCESS, returned)?;
    Ok(Pass::Right)
}

fn wrong_handles(unopened: Unopened) -> Verdict {
    let near = OpenAdapter::open(Client::new(unopened)?)?;
    let (event, port) = (EventRef::create(false, false), PortRef::create());
    for kind in near.kinds().filter(|kind| kind.is_overlapped()) {
        near.refuses_file(kind, event.handle())?;
    }
    let queue = near.completion_queue()?;
    for (what, handle) in [("a file", near.file.handle()), ("a port", port.handle())] {
        let mut request = Request::with_event(handle);
        let what = format!("Notify with {what} in hEvent");
        near.step(&*what);
        let returned = call!(&queue, notify(1, request.pointer()));
        status(&what, Status::INVALID_HANDLE, returned)?;
        request.is_free();
    }
    Ok(Pass::Right)
}
