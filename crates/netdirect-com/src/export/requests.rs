//! Requests of clients: from the call that makes one to the last access of the client's memory.
//!
//! Each request has an [`Overlapped`](netdirect::Overlapped), whose sink is the [`Request`]. The end of a request writes the client's
//! status, takes the record away, queues the packet and sets the event. The client's memory is not touched after its status was written:
//! packet and event go to objects to which the request has references.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_char;
use std::sync::Arc;

use netdirect::{CompletionSink, Error, OverlappedObject, Result, Started, Status};
use parking_lot::{Condvar, Mutex};
use rdma_buffer::forks::{PerProcess, forked};

use super::file::File;
use super::planted::planted;
use super::pointers::{ClientOverlapped, Out, Room};
use crate::abi::{Handle, WAKE_EVENT_BIT};
use crate::handle::EventRef;

/// The requests of one object.
#[derive(Debug)]
pub(super) struct Requests {
    file: Arc<File>,
    under_way: Mutex<usize>,
    none: Condvar,
    /// Why requests have failed, the oldest first: at most [`EXPLANATIONS`], each by the address of its OVERLAPPED.
    explanations: Mutex<VecDeque<(usize, Error)>>,
}

/// The failed requests of one object whose explanations are kept. A client that uses a new OVERLAPPED for each request, and never asks,
/// would otherwise let the list grow without end.
const EXPLANATIONS: usize = 64;

/// One request.
struct Request {
    client: ClientOverlapped,
    event: Option<EventRef>,
    goes_to_port: bool,
    requests: Arc<Requests>,
    /// Keeps this request alive, and so is taken when the request ends.
    overlapped: Mutex<Option<netdirect::Overlapped>>,
    /// [`Status::PENDING`] until the client's status is written.
    ended: Mutex<Status>,
    has_ended: Condvar,
}

/// A record that answers GetOverlappedResult while a request is in flight, on any object of the library (OVL-023).
struct Record {
    request: Arc<Request>,
    overlapped: netdirect::Overlapped,
}

/// The records, by the address of the client's OVERLAPPED. One address may have several: a client may use an OVERLAPPED twice (TST-024).
type Records = Mutex<HashMap<usize, Vec<Record>>>;

/// Shards, so that threads seldom meet.
struct Shards([Records; 64]);

impl Default for Shards {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

static RECORDS: PerProcess<Shards> = PerProcess::new();

fn records(client: ClientOverlapped) -> (&'static Records, usize) {
    let address = client.pointer().addr();
    let Shards(shards) = RECORDS.get();
    // An OVERLAPPED has 32 octets.
    (&shards[(address >> 5) % shards.len()], address)
}

impl Requests {
    pub(super) fn new(file: Arc<File>) -> Arc<Self> {
        Arc::new(Self {
            file,
            under_way: Mutex::new(0),
            none: Condvar::new(),
            explanations: Mutex::default(),
        })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Makes a request with the client's OVERLAPPED, which is argument `position`.
    pub(super) fn submit(
        self: &Arc<Self>,
        client: ClientOverlapped,
        position: u32,
        start: impl FnOnce(&netdirect::Overlapped) -> Result<Started>,
    ) -> Result<Started> {
        let client = client.required(position)?;
        let (event, goes_to_port) = event_of(client)?;
        let request = Arc::new(Request {
            client,
            event,
            goes_to_port,
            requests: Arc::clone(self),
            overlapped: Mutex::new(None),
            ended: Mutex::new(Status::PENDING),
            has_ended: Condvar::new(),
        });
        let overlapped = netdirect::Overlapped::with_sink(Arc::clone(&request) as _);
        *request.overlapped.lock() = Some(overlapped.clone());
        self.forget(client);
        client.write(Status::PENDING);
        if let Some(event) = &request.event {
            event.reset();
        }
        *self.under_way.lock() += 1;
        let started = start(&overlapped);
        match &started {
            // Most requests on regions have ended by now, and need no record.
            Ok(Started::Pending) => request.keep_record(overlapped),
            Ok(Started::Done) => request.end(Status::SUCCESS, false),
            Err(error) => request.end(error.status(), false),
        }
        started
    }

    /// Leaves the explanation of the last request with this OVERLAPPED, if the request was pending and has failed; otherwise an empty text.
    pub(super) fn explain(
        &self,
        client: ClientOverlapped,
        text: &Out<c_char>,
        size: Out<u32>,
    ) -> Result<()> {
        let address = client.required(1)?.pointer().addr();
        let explanations = self.explanations.lock();
        let of_client = explanations.iter().find(|(of, _)| *of == address);
        let error = of_client.map(|(_, error)| error.clone());
        drop(explanations);
        let what = error.as_ref().map_or("", Error::what);
        Room::of_argument(2, text, size).fill(what.as_bytes())
    }

    /// Keeps the explanation of a request that has failed.
    #[cold]
    fn keep(&self, client: ClientOverlapped, error: Error) {
        let mut explanations = self.explanations.lock();
        if explanations.len() == EXPLANATIONS {
            explanations.pop_front();
        }
        explanations.push_back((client.pointer().addr(), error));
    }

    /// A new request uses this OVERLAPPED.
    fn forget(&self, client: ClientOverlapped) {
        let address = client.pointer().addr();
        self.explanations.lock().retain(|(of, _)| *of != address);
    }

    /// Returns true if no request is in flight, and none is being ended.
    pub(super) fn is_idle(&self) -> bool {
        *self.under_way.lock() == 0
    }

    /// Gives back the client's object of these requests: they end, and when this returns, no thread uses the client's memory for them.
    pub(super) fn release<T: OverlappedObject + ?Sized>(&self, object: Arc<T>) {
        if planted!(release_forgets) {
            std::mem::forget(object);
            return;
        }
        let weak = Arc::downgrade(&object);
        drop(object);
        if !self.is_idle()
            && let Some(object) = weak.upgrade()
        {
            // An error means that some could not be cancelled; they are waited for.
            let _ = object.cancel_overlapped_requests();
        }
        let mut under_way = self.under_way.lock();
        while *under_way > 0 {
            self.none.wait(&mut under_way);
        }
    }
}

/// The event of a request, and true if its end goes to the completion port.
fn event_of(client: ClientOverlapped) -> Result<(Option<EventRef>, bool)> {
    let handle = client.event();
    let goes_to_port = handle.addr() & WAKE_EVENT_BIT == 0;
    let event: Handle = handle.map_addr(|address| address & !WAKE_EVENT_BIT);
    if event.is_null() {
        return Ok((None, goes_to_port));
    }
    // SAFETY: a handle that is not null points to an object that is not closed (export, "the promise of clients").
    match unsafe { EventRef::retain(event) } {
        Ok(event) => Ok((Some(event), goes_to_port)),
        Err(status) => Err(Error::new(status, "hEvent is not an event")),
    }
}

impl CompletionSink for Request {
    fn completed(&self, status: Status) {
        self.end(status, true);
    }
}

impl Request {
    /// The call has returned, and the request may be in flight: from here on the library's record answers GetOverlappedResult.
    fn keep_record(self: &Arc<Self>, overlapped: netdirect::Overlapped) {
        let (records, address) = records(self.client);
        let mut all = records.lock();
        // `end` writes this under the same lock.
        if *self.ended.lock() == Status::PENDING {
            let record = Record {
                request: Arc::clone(self),
                overlapped,
            };
            all.entry(address).or_default().push(record);
        }
    }

    fn end(&self, status: Status, notify: bool) {
        let overlapped = self.overlapped.lock().take();
        // Before the status, because the client may ask as soon as it sees it.
        if notify
            && let Some(Err(error)) = overlapped.map(|overlapped| overlapped.result())
            && !error.what().is_empty()
        {
            self.requests.keep(self.client, error);
        }
        if notify || !planted!(status_unwritten) {
            self.client.write(status);
        }
        // From here on the OVERLAPPED belongs to the client again.
        let (records, address) = records(self.client);
        let mut all = records.lock();
        *self.ended.lock() = status;
        let taken = all.get_mut(&address).and_then(|of_address| {
            let at = of_address
                .iter()
                .position(|record| std::ptr::eq(&raw const *record.request, self));
            at.map(|at| of_address.swap_remove(at))
        });
        if all.get(&address).is_some_and(Vec::is_empty) {
            all.remove(&address);
        }
        drop(all);
        self.has_ended.notify_all();
        self.requests.file.ended();
        if notify {
            if self.goes_to_port {
                self.requests.file.post(self.client.pointer(), status);
            }
            if let Some(event) = &self.event {
                event.set();
            }
        }
        let mut under_way = self.requests.under_way.lock();
        *under_way -= 1;
        if *under_way == 0 {
            self.requests.none.notify_all();
        }
        drop(under_way);
        drop(taken);
        #[cfg(planted_bugs)]
        if self.goes_to_port && planted!(late_status) {
            super::planted::write_later(self.client);
        }
    }

    fn status(&self) -> Status {
        *self.ended.lock()
    }

    /// Waits until the client's status is written.
    fn wait(&self) -> Status {
        let mut ended = self.ended.lock();
        while *ended == Status::PENDING {
            self.has_ended.wait(&mut ended);
        }
        *ended
    }
}

/// GetOverlappedResult: the library's record answers while the request is in flight, and the OVERLAPPED afterwards (AMB-068), even one that
/// was never used (TST-005).
///
/// The object of the call is not used: its last reference may be given back while this waits.
pub(super) fn overlapped_result(client: ClientOverlapped, wait: bool) -> Status {
    let Ok(client) = client.required(1) else {
        return Status::INVALID_PARAMETER_1;
    };
    if !wait && planted!(record_ignored) {
        return client.read();
    }
    let (records, address) = records(client);
    let all = records.lock();
    let newest = all.get(&address).and_then(|of_address| of_address.last());
    let Some((request, overlapped)) =
        newest.map(|record| (Arc::clone(&record.request), record.overlapped.clone()))
    else {
        drop(all);
        return match client.read() {
            // A request that was in flight when this process was forked is its parent's. The parent's record may be locked for ever here.
            // Of a call that has not returned, another thread has nothing to ask.
            Status::PENDING if forked() != 0 => Status::DEVICE_REMOVED,
            status => status,
        };
    };
    drop(all);
    if wait {
        match overlapped.wait() {
            // A simulated network in which no event is left.
            Status::POSSIBLE_DEADLOCK => Status::POSSIBLE_DEADLOCK,
            _ => request.wait(),
        }
    } else {
        let _ = overlapped.poll();
        let status = request.status();
        if status == Status::PENDING {
            // The poll took the connection's work over, and the client may now sleep in code outside this library.
            request.requests.file.file().hand_over();
        }
        status
    }
}
