//! The caller's handle of a request, and the provider's half.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{CompletionSink, Overlapped, OverlappedFile, Packet, Shared};
use crate::{Error, Event, Result, Status};

impl Overlapped {
    /// Without event; its end goes to the completion port of the file, if there is one.
    pub fn new() -> Self {
        Self::default()
    }

    /// With an event, which is reset when a request begins and set when it ends.
    pub fn with_event(event: &Event) -> Self {
        Self(Arc::new(Shared {
            event: Some(event.clone()),
            ..Shared::default()
        }))
    }

    /// With a sink, which is told the status of every request that returned [`Pending`](crate::Started::Pending), once: when the
    /// status can be read, the packet is in the completion port and threads and tasks were woken, with no lock held, and
    /// before the call returns in which the provider ended the request (TST-030). A request that ended in its method
    /// ([`Done`](crate::Started::Done), or an error) is not told (GEN-008, GEN-009).
    ///
    /// The sink may use this and any other `Overlapped` and completion port, and may begin requests. A thread that sees the
    /// end by other means and begins the next request before the sink was told may have the sink told of the second end first.
    ///
    /// A sink that owns the `Overlapped` it belongs to keeps it, and itself, alive for ever.
    pub fn with_sink(sink: Arc<dyn CompletionSink>) -> Self {
        Self(Arc::new(Shared {
            sink: Some(sink),
            ..Shared::default()
        }))
    }

    /// Keeps packets away from the completion port, as an event handle with its lowest bit set does (OVL-021).
    #[must_use]
    pub fn without_port(self) -> Self {
        self.0.port_off.store(true, Ordering::Relaxed);
        self
    }

    /// Sets a value of the application's own, which packets carry too ([`Packet::user`]).
    pub fn set_user(&self, user: u64) {
        self.0.user.store(user, Ordering::Relaxed);
    }

    /// The value from [`set_user`](Self::set_user); 0 at first.
    pub fn user(&self) -> u64 {
        self.0.user.load(Ordering::Relaxed)
    }

    /// The event, if it has one.
    pub fn event(&self) -> Option<&Event> {
        self.0.event.as_ref()
    }

    /// Whether both are the same `Overlapped`.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The exact status: [`Status::PENDING`] while a request is in flight, then its final one; [`Status::SUCCESS`] before the
    /// first use. Progresses nothing.
    pub fn status(&self) -> Status {
        Status::from_bits(self.0.status.load(Ordering::SeqCst))
    }

    /// Whether a request is in flight (`!HasOverlappedIoCompleted`).
    pub fn is_pending(&self) -> bool {
        self.status() == Status::PENDING
    }

    /// The status, after one round of progress if the request is in flight: what `GetOverlappedResult` does that does not
    /// wait. Right for programs that ask in a loop (TST-114).
    pub fn poll(&self) -> Status {
        if let Some(file) = self.file() {
            file.progress();
            if self.is_pending()
                && let Some(simulation) = file.simulation()
            {
                // Who asks in a loop has to see time pass. That nothing is left to happen is no matter for one look.
                let _ = simulation.step();
            }
        }
        self.status()
    }

    /// Waits for the end of the request in flight and returns its final status; returns at once when none is. A progress
    /// call: the thread drives the overlapped file of the request. Any number of threads may wait. If the `Overlapped` is used
    /// for another request before a waiting thread has looked, that thread waits for the other one too.
    ///
    /// With an event, the event is set as well, and stays so until someone waits on it.
    ///
    /// In a [`Simulation`](crate::Simulation) a wait may end with [`POSSIBLE_DEADLOCK`](Status::POSSIBLE_DEADLOCK) while the
    /// request stays in flight.
    pub fn wait(&self) -> Status {
        loop {
            if let Some(status) = self.wait_until(None) {
                return status;
            }
        }
    }

    /// As [`wait`](Self::wait), for a limited time. `None` when the time ran out; the request is then still in flight.
    pub fn wait_timeout(&self, limit: Duration) -> Option<Status> {
        let now = self.file().map_or_else(Instant::now, |file| file.now());
        self.wait_until(now.checked_add(limit))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> Option<Status> {
        loop {
            let status = self.status();
            if status != Status::PENDING {
                return Some(status);
            }
            let mut now = None;
            if let Some(file) = self.file() {
                let parked = file.park(&|| !self.is_pending(), deadline);
                if let Err(error) = parked
                    && self.is_pending()
                {
                    return Some(error.status());
                }
                now = deadline.map(|_| file.now());
            }
            let now = now.unwrap_or_else(Instant::now);
            if self.is_pending() && deadline.is_some_and(|deadline| deadline <= now) {
                let status = self.poll();
                return (status != Status::PENDING).then_some(status);
            }
        }
    }

    /// The file of the request in flight.
    fn file(&self) -> Option<Arc<dyn OverlappedFile>> {
        self.0.state.lock().file.clone()
    }

    /// For providers: marks a request of an object of `file` as in flight.
    ///
    /// The method then returns [`Pending`](crate::Started::Pending), now or after the request was
    /// [completed](PendingOverlapped::complete): its end is notified either way, which programs rely on that handle nothing
    /// but pending (TST-003). A method that is going to return anything else [abandons](PendingOverlapped::abandon) the
    /// request, or does not begin it.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID_PARAMETER_MIX`]: a request is in flight already.
    pub fn begin(&self, file: &Arc<dyn OverlappedFile>) -> Result<PendingOverlapped> {
        let mut state = self.0.state.lock();
        if state.file.is_some() {
            return Err(Error::new(
                Status::INVALID_PARAMETER_MIX,
                "the Overlapped is in flight with another request",
            ));
        }
        state.file = Some(file.clone());
        if let Some(event) = &self.0.event {
            event.reset();
            if let Some(simulation) = file.simulation() {
                event.moves(&simulation);
            }
        }
        self.0
            .status
            .store(Status::PENDING.bits(), Ordering::SeqCst);
        drop(state);
        Ok(PendingOverlapped {
            overlapped: Some(self.clone()),
        })
    }

    fn finish(&self, status: Status, notify: bool) {
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
        self.0.status.store(status.bits(), Ordering::SeqCst);
        let mut sleepers = None;
        if notify {
            if let Some(event) = &self.0.event {
                event.set();
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
            }
        }
        drop(state);

        // Without the lock, as all of these run code of others.
        if let Some(sleepers) = sleepers {
            sleepers.wake();
        }
        for (_, waker) in wakers {
            waker.wake();
        }
        if let Some(file) = file {
            file.wake();
        }
        // Last, so that a sink that panics costs nobody else the news.
        if let Some(sink) = self.0.sink.as_ref().filter(|_| notify) {
            sink.completed(status);
        }
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

/// The provider's half of a request in flight, from [`Overlapped::begin`].
///
/// Dropped without [`complete`](Self::complete), the request ends with [`Status::CANCELED`]: an object that goes away with
/// requests in flight cancels them by dropping them.
#[must_use = "dropping it cancels the request"]
pub struct PendingOverlapped {
    /// Taken when the request ends.
    overlapped: Option<Overlapped>,
}

impl PendingOverlapped {
    /// Ends the request. In this order: the status can be read, the event is set, the packet is in the port, tasks are
    /// woken, threads parked on the file are woken, the [sink](Overlapped::with_sink) is told. All of it has happened when this
    /// returns (TST-030).
    ///
    /// Hold no lock that [`OverlappedFile::wake`] takes, and none that any method of the provider takes: a sink may call it. State of the object that callers rely on after the end has to be
    /// in place before (OVL-013).
    pub fn complete(mut self, status: Status) {
        self.finish(status, true);
    }

    /// Takes the request back because its method is going to return [`Done`](crate::Started::Done) or an error: it gets this
    /// status (TST-006), and neither event nor packet nor sink tells of it (GEN-008, GEN-009). Threads and tasks that wait for it
    /// already are released.
    pub fn abandon(mut self, status: Status) {
        self.finish(status, false);
    }

    /// Whether this is a request of `overlapped`.
    pub fn is(&self, overlapped: &Overlapped) -> bool {
        self.overlapped
            .as_ref()
            .is_some_and(|own| own.is(overlapped))
    }

    fn finish(&mut self, status: Status, notify: bool) {
        if let Some(overlapped) = self.overlapped.take() {
            overlapped.finish(status, notify);
        }
    }
}

impl Drop for PendingOverlapped {
    fn drop(&mut self) {
        self.finish(Status::CANCELED, true);
    }
}

impl fmt::Debug for PendingOverlapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PendingOverlapped")
            .field(&self.overlapped)
            .finish()
    }
}
