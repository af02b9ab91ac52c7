//! The caller's handle of a request, and the provider's half.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::future::count_end;
use super::{Awaited, CompletionSink, Overlapped, OverlappedFile, Packet, Shared};
use crate::event::Origin;
use crate::{Error, Event, Result, Status};

impl Overlapped {
    /// Without an event. The end of a request queues a packet if the file is associated with a completion port.
    pub fn new() -> Self {
        Self::default()
    }

    /// With an event, which is reset when a request starts and set when the request ends.
    pub fn with_event(event: &Event) -> Self {
        Self(Arc::new(Shared {
            event: Some(event.clone()),
            ..Shared::default()
        }))
    }

    /// With a sink, which is called once for every request that returned [`Pending`](crate::Started::Pending). Before the call,
    /// the status can be read, the packet is in the completion port, and threads and tasks have been woken. No lock is held
    /// during the call, and it is made before the call returns in which the provider ended the request (TST-030). A
    /// request that ends within its method ([`Done`](crate::Started::Done) or an error) does not call the sink (GEN-008,
    /// GEN-009).
    ///
    /// The sink may use any `Overlapped`, including this one, and any completion port, and may start requests. If another
    /// thread learns the end of a request before the sink is called and starts the next request, the sink may be called for
    /// the second request first.
    ///
    /// A sink must not own its `Overlapped`: the two would keep each other alive for ever.
    pub fn with_sink(sink: Arc<dyn CompletionSink>) -> Self {
        Self(Arc::new(Shared {
            sink: Some(sink),
            ..Shared::default()
        }))
    }

    /// With an event and a sink: at the end of a request the event is set, and then the sink is called. Otherwise as
    /// [`with_sink`](Self::with_sink).
    pub fn with_event_and_sink(event: &Event, sink: Arc<dyn CompletionSink>) -> Self {
        Self(Arc::new(Shared {
            event: Some(event.clone()),
            sink: Some(sink),
            ..Shared::default()
        }))
    }

    /// Queues no packets in the completion port, as with an event handle whose lowest bit is set (OVL-021).
    #[must_use]
    pub fn without_port(self) -> Self {
        self.0.port_off.store(true, Ordering::Relaxed);
        self
    }

    /// Sets a value for the application's own use, which packets carry too ([`Packet::user`]).
    pub fn set_user(&self, user: u64) {
        self.0.user.store(user, Ordering::Relaxed);
    }

    /// The value that [`set_user`](Self::set_user) has set, or 0.
    pub fn user(&self) -> u64 {
        self.0.user.load(Ordering::Relaxed)
    }

    /// The event, if there is one.
    pub fn event(&self) -> Option<&Event> {
        self.0.event.as_ref()
    }

    /// Returns true if both are the same `Overlapped`.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The exact status: [`Status::PENDING`] while a request is in flight, its final status afterwards, and [`Status::SUCCESS`]
    /// before the first request. Does not run the provider.
    pub fn status(&self) -> Status {
        Status::from_bits(self.0.status.load(Ordering::SeqCst))
    }

    /// The [status](Self::status) as a result, in which an error has the provider's explanation of why the request ended, for logs
    /// and for people: why a Connect was refused, for example. The explanation may be empty. [`Status::PENDING`] is an error here,
    /// see [`Status::ok`]; after a wait that has ended with [`POSSIBLE_DEADLOCK`](Status::POSSIBLE_DEADLOCK) it has the report of the
    /// simulation.
    ///
    /// # Errors
    ///
    /// Every status but [`Status::SUCCESS`].
    pub fn result(&self) -> Result<()> {
        let state = self.0.state.lock();
        let status = self.status();
        if status == Status::SUCCESS {
            return Ok(());
        }
        Err(Error::new(status, state.reason.clone()))
    }

    /// Returns true if a request is in flight (`!HasOverlappedIoCompleted`).
    pub fn is_pending(&self) -> bool {
        self.status() == Status::PENDING
    }

    /// The status, as `GetOverlappedResult` without waiting returns it. If a request is in flight, the call first runs the
    /// provider once. Suited to programs that ask in a loop (TST-114).
    pub fn poll(&self) -> Status {
        if let Some(file) = self.file() {
            file.progress();
            if self.is_pending() {
                match file.simulation() {
                    // Time has to pass for a program that asks in a loop. An error does not matter for a single look.
                    Some(simulation) => drop(simulation.step(None)),
                    None => file.polled_in_vain(),
                }
            }
        }
        self.status()
    }

    /// Waits for the end of the request in flight and returns its final status. If no request is in flight, the call returns
    /// the status at once. The calling thread runs the provider. Any number of threads may wait. If the `Overlapped` is used
    /// for another request before a waiting thread has noticed the end of the first, this thread waits for the other request
    /// too.
    ///
    /// `wait` does not reset the event of the `Overlapped`: the event stays set until a thread waits on it.
    ///
    /// In a [simulation](crate::SimulatedTime) a wait may end with [`POSSIBLE_DEADLOCK`](Status::POSSIBLE_DEADLOCK). The request
    /// is then still in flight.
    pub fn wait(&self) -> Status {
        loop {
            if let Some(status) = self.wait_until(None) {
                return status;
            }
        }
    }

    /// As [`wait`](Self::wait), for a limited time. Returns `None` if the time has run out; the request is then still in
    /// flight.
    #[inline]
    pub fn wait_timeout(&self, limit: Duration) -> Option<Status> {
        let now = self.file().map_or_else(Instant::now, |file| file.now());
        self.wait_until(now.checked_add(limit))
    }

    #[inline]
    fn wait_until(&self, deadline: Option<Instant>) -> Option<Status> {
        loop {
            let status = self.status();
            if status != Status::PENDING {
                return Some(status);
            }
            // If there is no file any more, the request has just ended.
            let Some(file) = self.file() else { continue };
            let ended = || !self.is_pending();
            let parked = file.park_for(Awaited::new(&self.0), &ended, deadline);
            if !self.is_pending() {
                continue;
            }
            if let Err(error) = parked {
                return Some(self.cannot_wait(error));
            }
            if deadline.is_some_and(|deadline| deadline <= file.now()) {
                // One more look, for which no time passes: a poll would move a simulation on, past the deadline.
                file.progress();
                let status = self.status();
                return (status != Status::PENDING).then_some(status);
            }
        }
    }

    /// A wait has ended without the request, with this error. [`result`](Self::result) has its explanation until the request ends.
    #[cold]
    pub(super) fn cannot_wait(&self, error: Error) -> Status {
        let status = error.status();
        let mut state = self.0.state.lock();
        if state.file.is_some() {
            state.reason = error.into_what();
        }
        status
    }

    /// The file of the request in flight.
    fn file(&self) -> Option<Arc<dyn OverlappedFile>> {
        self.0.state.lock().file.clone()
    }

    /// For providers: starts a request of an object of `file`.
    ///
    /// The provider's method then returns [`Pending`](crate::Started::Pending), even if the request was
    /// [completed](PendingOverlapped::complete) in the meantime. The end of the request is notified in both cases, and some
    /// programs rely on this because they expect every method to return `Pending` (TST-003). A method that is going to return
    /// anything else [abandons](PendingOverlapped::abandon) the request, or does not call `begin`.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID_PARAMETER_MIX`]: a request is in flight with this `Overlapped` already.
    #[inline]
    pub fn begin(&self, file: &Arc<dyn OverlappedFile>) -> Result<PendingOverlapped> {
        let mut state = self.0.state.lock();
        if state.file.is_some() {
            return Err(Error::new(
                Status::INVALID_PARAMETER_MIX,
                "the Overlapped is in flight with another request",
            ));
        }
        state.file = Some(file.clone());
        state.reason = Cow::Borrowed("");
        if let Some(event) = &self.0.event {
            event.reset();
            event.belongs_to(Arc::as_ptr(file).addr(), || origin(file));
        }
        self.0
            .status
            .store(Status::PENDING.bits(), Ordering::SeqCst);
        drop(state);
        if self.0.sink.is_some() {
            // No later call may show that the thread waits, even if there is an event: a program with a sink may sleep elsewhere.
            file.hand_over();
        }
        Ok(PendingOverlapped {
            overlapped: Some(self.clone()),
        })
    }

    #[inline]
    fn finish(&self, end: Error, notify: bool) {
        let status = end.status();
        debug_assert_ne!(
            status,
            Status::PENDING,
            "a request cannot end with ND_PENDING"
        );
        let status = if status == Status::PENDING {
            Status::INTERNAL_ERROR
        } else {
            status
        };

        // Status, event and packet change under one lock, which `begin` takes too: a caller that sees the status and uses the
        // Overlapped again cannot get ahead of the notifications of its first request.
        let mut state = self.0.state.lock();
        let file = state.file.take();
        let wakers = std::mem::take(&mut state.wakers);
        state.reason = end.into_what();
        self.0.status.store(status.bits(), Ordering::SeqCst);
        let mut sleepers = None;
        let mut awaited = [Awaited::new(&self.0); 2];
        if notify {
            if let Some(event) = &self.0.event {
                event.mark();
            }
            let off = self.0.port_off.load(Ordering::Relaxed);
            if let Some((port, key)) = file
                .as_ref()
                .filter(|_| !off)
                .and_then(|file| file.association().port())
            {
                let packet = Packet {
                    key,
                    overlapped: Some(self.clone()),
                    status,
                    user: self.user(),
                };
                sleepers = Some(port.push(packet, file.as_ref()));
                awaited[1] = port.awaited();
            }
        }
        drop(state);
        count_end();

        // Without the lock, which a thread that wakes up takes when it begins the next request.
        if let Some(event) = self.0.event.as_ref().filter(|_| notify) {
            event.announce();
        }
        // Without the lock, as all of these run code of others.
        if let Some(sleepers) = sleepers {
            sleepers.wake();
        }
        for (_, waker) in wakers {
            waker.wake();
        }
        if let Some(file) = file {
            file.wake_for(&awaited);
        }
        // Last, so that a sink that panics keeps no other waiter from being woken.
        if let Some(sink) = self.0.sink.as_ref().filter(|_| notify) {
            sink.completed(status);
        }
    }
}

/// The parts of this file that the event of a request needs.
fn origin(file: &Arc<dyn OverlappedFile>) -> Origin {
    let weak = Arc::downgrade(file);
    let hand_over = move || {
        if let Some(file) = weak.upgrade() {
            file.hand_over();
        }
    };
    Origin {
        file: Arc::as_ptr(file).addr(),
        hand_over: Some(Arc::new(hand_over)),
        simulation: file.simulation().map(|it| Arc::downgrade(&it)),
    }
}

impl fmt::Debug for Overlapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlapped")
            .field("status", &self.status())
            .field("user", &self.user())
            .finish_non_exhaustive()
    }
}

/// The provider's handle of a request in flight, from [`Overlapped::begin`].
///
/// If the handle is dropped without [`complete`](Self::complete), the request ends with [`Status::CANCELED`]. So an object that
/// is released cancels its requests by dropping their handles.
#[must_use = "dropping it cancels the request"]
pub struct PendingOverlapped {
    /// Taken when the request ends.
    overlapped: Option<Overlapped>,
}

impl PendingOverlapped {
    /// Ends the request. In this order, `complete` stores the status, sets the event, queues the packet, wakes tasks, wakes the
    /// threads that are parked on the file for it, and calls the [sink](Overlapped::with_sink). All of this has happened when the
    /// call returns (TST-030).
    ///
    /// The caller must not hold a lock that [`OverlappedFile::wake`] or any method of the provider takes, because a sink may
    /// call these methods. Before the call, the object has to be in the state that callers may rely on after the end of the
    /// request (OVL-013).
    ///
    /// `end` is a [`Status`], or an [`Error`] that explains it: [`Overlapped::result`] has the explanation.
    pub fn complete(mut self, end: impl Into<Error>) {
        self.finish(end.into(), true);
    }

    /// Ends the request without a notification, because its method is going to return [`Done`](crate::Started::Done) or an
    /// error. The `Overlapped` gets this status (TST-006). No event is set, no packet is queued and no sink is called
    /// (GEN-008, GEN-009). Threads and tasks that wait for the request already are woken.
    pub fn abandon(mut self, status: Status) {
        self.finish(status.into(), false);
    }

    /// Returns true if this is a request of `overlapped`.
    pub fn is_request_of(&self, overlapped: &Overlapped) -> bool {
        self.overlapped
            .as_ref()
            .is_some_and(|own| own.is_same(overlapped))
    }

    #[inline]
    fn finish(&mut self, end: Error, notify: bool) {
        if let Some(overlapped) = self.overlapped.take() {
            overlapped.finish(end, notify);
        }
    }
}

impl Drop for PendingOverlapped {
    fn drop(&mut self) {
        self.finish(Status::CANCELED.into(), true);
    }
}

impl fmt::Debug for PendingOverlapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingOverlapped")
            .field(&self.overlapped)
            .finish()
    }
}
