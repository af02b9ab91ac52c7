//! Requests that clients of the traits make to a library.

use std::collections::HashMap;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use netdirect::{Error, Overlapped, OverlappedFile, PendingOverlapped, Result, Started, Status};
use parking_lot::{Mutex, ReentrantMutex};
use rdma_buffer::signals;

use super::pointer::{Pointer, call};
use super::port::Port;
use super::text::text;
use crate::abi::{
    self, IID_ND2_OVERLAPPED, IID_OVERLAPPED_EXTENSION, OverlappedExtensionTable, OverlappedTable,
    Packet,
};

impl fmt::Debug for ImportedRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportedRequests")
            .field("in_flight", &self.in_flight.lock().len())
            .finish_non_exhaustive()
    }
}

/// The action on the object of a request when the request has ended, before the client learns of it.
pub(super) type Then = Box<dyn FnOnce(Status) + Send>;

/// The interfaces of an object that has requests.
#[derive(Debug)]
pub(super) struct Requester {
    pub(super) overlapped: Pointer<OverlappedTable>,
    /// `None` if the library does not say why requests fail.
    explanations: Option<Pointer<OverlappedExtensionTable>>,
}

/// A request that the library works on.
struct InFlight {
    /// Belongs to the library until the request has ended.
    overlapped: Box<Shared>,
    pending: PendingOverlapped,
    /// The object that is asked for the final status.
    object: Weak<Requester>,
    then: Option<Then>,
}

/// An OVERLAPPED that a library may write at any time.
struct Shared(std::cell::UnsafeCell<abi::Overlapped>);

// SAFETY: this side only takes the address.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// The requests of an adapter.
pub(super) struct ImportedRequests {
    in_flight: Mutex<HashMap<usize, InFlight>>,
    /// Packets are ended one after the other. The end of one may call code that cancels others.
    ending: ReentrantMutex<()>,
    pub(super) port: Arc<Port>,
}

impl ImportedRequests {
    /// Starts a thread that ends requests while no other thread does.
    ///
    /// # Errors
    ///
    /// [`INSUFFICIENT_RESOURCES`](Status::INSUFFICIENT_RESOURCES): there is no thread.
    pub(super) fn new() -> Result<Arc<Self>> {
        let requests = Arc::new(Self {
            in_flight: Mutex::default(),
            ending: ReentrantMutex::new(()),
            port: Port::new()?,
        });
        let (port, own) = (Arc::clone(&requests.port), Arc::downgrade(&requests));
        let serve = move || {
            while port.wait_alone() {
                let Some(requests) = own.upgrade() else { break };
                requests.drain();
            }
        };
        let thread = thread::Builder::new().name("netdirect-com".to_owned());
        signals::blocked(|| thread.spawn(serve)).map_err(|error| {
            Error::new(
                Status::INSUFFICIENT_RESOURCES,
                format!("no thread for the adapter's requests: {error}"),
            )
        })?;
        Ok(requests)
    }

    /// Makes a request: `start` calls the method of `object` with the OVERLAPPED.
    pub(super) fn submit(
        &self,
        file: &Arc<dyn OverlappedFile>,
        object: &Arc<Requester>,
        overlapped: &Overlapped,
        then: Option<Then>,
        start: impl FnOnce(*mut abi::Overlapped) -> Status,
    ) -> Result<Started> {
        let shared = Box::new(Shared(std::cell::UnsafeCell::new(abi::Overlapped {
            internal: Status::PENDING.bits() as usize,
            internal_high: 0,
            offset: 0,
            offset_high: 0,
            event: ptr::null_mut(),
        })));
        let pointer = shared.0.get();
        let request = InFlight {
            overlapped: shared,
            pending: overlapped.begin(file)?,
            object: Arc::downgrade(object),
            then,
        };
        // Before the call, because the end may come before the call returns.
        self.in_flight.lock().insert(pointer.addr(), request);
        let status = start(pointer);
        if status == Status::PENDING {
            self.drain();
            return Ok(Started::Pending);
        }
        // Nothing was submitted, or the request has ended already: no packet follows (GEN-008, GEN-009).
        if let Some(request) = self.in_flight.lock().remove(&pointer.addr()) {
            if let Some(then) = request.then {
                then(status);
            }
            request.pending.abandon(status);
        }
        status.ok().map(|()| Started::Done)
    }

    /// Ends the requests whose packets have arrived.
    ///
    /// Every method in which the library may have ended requests calls this before it returns, so that a client of the traits sees the ends
    /// in the order in which the library made them (CONN-106).
    #[inline]
    pub(super) fn drain(&self) {
        if Port::BRINGS_LATER && self.are_some_ended() {
            self.port.settle();
        }
        if !self.port.is_empty() {
            self.drain_some();
        }
    }

    /// As [`drain`](Self::drain), behind a method that has ended requests before it returned, whatever their OVERLAPPEDs say.
    pub(super) fn drain_all(&self) {
        if Port::BRINGS_LATER && !self.in_flight.lock().is_empty() {
            self.port.settle();
        }
        self.drain();
    }

    /// Returns true if the library has written a final status to the OVERLAPPED of a request, whose packet may still be on its way.
    fn are_some_ended(&self) -> bool {
        let in_flight = self.in_flight.lock();
        in_flight.values().any(|request| {
            let internal = request.overlapped.0.get().cast::<AtomicUsize>();
            // SAFETY: the map, which is locked, keeps the structure. `internal` is the first field, and libraries write it as a whole.
            let internal = unsafe { &*internal }.load(Ordering::Acquire);
            #[expect(clippy::cast_possible_truncation, reason = "a status has 32 bits")]
            let status = Status::from_bits(internal as u32);
            status != Status::PENDING
        })
    }

    fn drain_some(&self) {
        let _one_at_a_time = self.ending.lock();
        while let Some(packet) = self.port.pop() {
            self.end(&packet);
        }
    }

    fn end(&self, packet: &Packet) {
        let pointer = packet.overlapped;
        let object = match self.in_flight.lock().get(&pointer.addr()) {
            Some(request) => request.object.upgrade(),
            None => {
                tracing::debug!(target: crate::log::TARGET, "a packet for {pointer:p}, which is no request");
                return;
            }
        };
        #[expect(clippy::cast_possible_truncation, reason = "a status has 32 bits")]
        let of_packet = Status::from_bits(packet.internal as u32);
        let end = object.map_or(of_packet.into(), |object| object.result(pointer));
        let status = end.status();
        // Only now, because the library may use the OVERLAPPED until it has returned the final status.
        let request = self.in_flight.lock().remove(&pointer.addr());
        if let Some(request) = request {
            if let Some(then) = request.then {
                then(status);
            }
            drop(request.overlapped);
            request.pending.complete(end);
        }
    }
}

impl Requester {
    /// The interfaces of `object`.
    pub(super) fn of<T>(object: &Pointer<T>) -> Result<Self> {
        Ok(Self {
            overlapped: object.query(IID_ND2_OVERLAPPED)?,
            explanations: object.query(IID_OVERLAPPED_EXTENSION).ok(),
        })
    }

    /// The final status of a request, and why it failed. A library may continue a request when it is asked for it (OVL-018); then this
    /// waits.
    fn result(&self, pointer: *mut abi::Overlapped) -> Error {
        let ask = |wait| call!(&self.overlapped, get_overlapped_result(pointer, wait));
        let status = match ask(0) {
            Status::PENDING => ask(1),
            status => status,
        };
        match &self.explanations {
            Some(explanations) if status != Status::SUCCESS => {
                let get = |start, size| call!(explanations, get_explanation(pointer, start, size));
                Error::new(status, text(256, get).unwrap_or_default())
            }
            _ => status.into(),
        }
    }
}

impl Drop for ImportedRequests {
    fn drop(&mut self) {
        self.port.close();
        for (_, request) in self.in_flight.get_mut().drain() {
            // The library may still write to it.
            std::mem::forget(request.overlapped);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Instant;

    use netdirect::Association;

    use super::super::loaded::{Loaded, Source};
    use super::*;
    use crate::abi::{Bool, Guid, Handle, IID_IUNKNOWN, This, UnknownTable};
    use crate::handle::PortRef;

    /// An object of a library that has ND2's interfaces alone, whose requests fail.
    static FOREIGN: &OverlappedTable = &OverlappedTable {
        unknown: UnknownTable {
            query_interface,
            add_ref: one,
            release: one,
        },
        cancel_overlapped_requests: cancel,
        get_overlapped_result: refused,
    };

    unsafe extern "system" fn query_interface(
        this: This,
        iid: *const Guid,
        object: *mut This,
    ) -> Status {
        // SAFETY: the caller passes an identifier.
        let iid = unsafe { *iid };
        let is_known = iid == IID_IUNKNOWN || iid == IID_ND2_OVERLAPPED;
        let answer = if is_known { this } else { ptr::null_mut() };
        // SAFETY: the caller has room for a pointer.
        unsafe { *object = answer };
        if is_known {
            Status::SUCCESS
        } else {
            Status::NO_INTERFACE
        }
    }

    unsafe extern "system" fn one(_: This) -> u32 {
        1
    }

    unsafe extern "system" fn cancel(_: This) -> Status {
        Status::SUCCESS
    }

    unsafe extern "system" fn refused(_: This, _: *mut abi::Overlapped, _: Bool) -> Status {
        Status::CONNECTION_REFUSED
    }

    unsafe extern "system" fn no_class(_: *const Guid, _: *const Guid, _: *mut This) -> Status {
        Status::NO_INTERFACE
    }

    unsafe extern "system" fn stays() -> Status {
        Status::PENDING
    }

    #[derive(Debug, Default)]
    struct File(Association);

    impl OverlappedFile for File {
        fn association(&self) -> &Association {
            &self.0
        }

        fn progress(&self) {}

        fn park(&self, _: &dyn Fn() -> bool, _: Option<Instant>) -> Result<()> {
            Ok(())
        }

        fn wake(&self) {}

        #[cfg(unix)]
        fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            None
        }
    }

    /// Queues a packet, as the library does.
    fn post(port: Handle, overlapped: *mut abi::Overlapped) {
        // SAFETY: the handle of a port.
        let port = unsafe { PortRef::retain(port) }.unwrap();
        port.post(&Packet {
            overlapped,
            ..super::super::port::empty_packet()
        });
    }

    #[test]
    fn a_library_without_explanations_gives_the_status_alone() {
        let path = PathBuf::from("foreign");
        let library = Arc::new(Loaded::new(Source::Program(&[]), path, no_class, stays));
        let this = ptr::from_ref(&FOREIGN).cast_mut().cast();
        // SAFETY: the object begins with a pointer to this table.
        let object: Pointer<OverlappedTable> =
            unsafe { Pointer::made(&library, Status::SUCCESS, this) }.unwrap();
        let requester = Arc::new(Requester::of(&object).unwrap());
        let requests = ImportedRequests::new().unwrap();
        let file: Arc<dyn OverlappedFile> = Arc::new(File::default());
        let overlapped = Overlapped::new();
        let port = requests.port.handle();
        let started = requests.submit(&file, &requester, &overlapped, None, |pointer| {
            post(port, pointer);
            Status::PENDING
        });
        assert_eq!(started.unwrap(), Started::Pending);
        requests.drain_all();
        assert_eq!(overlapped.result(), Err(Status::CONNECTION_REFUSED.into()));
    }
}
