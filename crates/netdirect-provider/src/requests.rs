//! Requests that are in flight, and work to do once a lock is released.
//!
//! The end of a request wakes tasks and calls sinks, and both may call the provider again. So a request never ends under a lock
//! that a call of the provider takes: it is put into an [`AfterUnlock`] and ends when the lock is released.

use std::convert::Infallible;
use std::sync::Arc;

use netdirect::{Error, Overlapped, OverlappedFile, PendingOverlapped, Result};

/// Begins the request of a call that takes a resource. If `admit` fails, the request is taken back and the call fails.
///
/// # Errors
///
/// Those of [`Overlapped::begin`] and of `admit`.
pub fn begin_admitted(
    overlapped: &Overlapped,
    file: &Arc<dyn OverlappedFile>,
    admit: impl FnOnce() -> Result<()>,
) -> Result<PendingOverlapped> {
    let request = overlapped.begin(file)?;
    match admit() {
        Ok(()) => Ok(request),
        Err(error) => {
            request.abandon(error.status());
            Err(error)
        }
    }
}

/// The requests of a connector that are in flight, in the order in which they were made: a cancel ends them in this order
/// (OVL-001).
#[derive(Debug, Default)]
pub struct Requests(Vec<(RequestKind, PendingOverlapped)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    /// Connect, CompleteConnect, Accept or Disconnect. Only one of them can be in flight.
    StateChange,
    /// NotifyDisconnect.
    Notification,
}

impl Requests {
    /// Adds a Connect, CompleteConnect, Accept or Disconnect.
    pub fn add_state_change(&mut self, request: PendingOverlapped) {
        self.0.push((RequestKind::StateChange, request));
    }

    /// Adds a NotifyDisconnect.
    pub fn add_notification(&mut self, request: PendingOverlapped) {
        self.0.push((RequestKind::Notification, request));
    }

    /// Returns true if no request is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out the Connect, CompleteConnect, Accept or Disconnect.
    pub fn take_state_change(&mut self) -> Vec<PendingOverlapped> {
        self.take(RequestKind::StateChange)
    }

    /// Takes out all requests of NotifyDisconnect.
    pub fn take_notifications(&mut self) -> Vec<PendingOverlapped> {
        self.take(RequestKind::Notification)
    }

    /// Takes out all requests.
    pub fn take_all(&mut self) -> Vec<PendingOverlapped> {
        self.0.drain(..).map(|(_, request)| request).collect()
    }

    fn take(&mut self, kind: RequestKind) -> Vec<PendingOverlapped> {
        let of_kind = self.0.extract_if(.., |(requested, _)| *requested == kind);
        of_kind.map(|(_, request)| request).collect()
    }
}

/// Work of a provider to do once no lock is held.
pub trait Action {
    /// Does the work.
    fn run(self);
}

/// Work that a closure does.
pub struct Work(Box<dyn FnOnce() + Send>);

impl<F: FnOnce() + Send + 'static> From<F> for Work {
    fn from(work: F) -> Self {
        Self(Box::new(work))
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}

impl Action for Work {
    fn run(self) {
        (self.0)();
    }
}

/// There is no such work.
impl Action for Infallible {
    fn run(self) {
        match self {}
    }
}

/// Work to do once no lock is held: requests that end, and actions of the provider before and after that.
#[must_use]
#[derive(Debug)]
pub struct AfterUnlock<A> {
    before: Vec<A>,
    requests: Vec<(PendingOverlapped, Error)>,
    after: Vec<A>,
    last: Vec<A>,
}

impl<A> Default for AfterUnlock<A> {
    fn default() -> Self {
        Self {
            before: Vec::new(),
            requests: Vec::new(),
            after: Vec::new(),
            last: Vec::new(),
        }
    }
}

impl<A> AfterUnlock<A> {
    /// Ends these requests.
    pub fn end(
        &mut self,
        requests: impl IntoIterator<Item = PendingOverlapped>,
        end: impl Into<Error>,
    ) {
        let (requests, end) = (requests.into_iter(), end.into());
        let requests = requests.map(|request| (request, end.clone()));
        self.requests.extend(requests);
    }

    /// Adds an action before the end of the requests.
    pub fn before(&mut self, action: impl Into<A>) {
        self.before.push(action.into());
    }

    /// Adds an action after the end of the requests.
    pub fn after(&mut self, action: impl Into<A>) {
        self.after.push(action.into());
    }

    /// Adds an action after everything else.
    pub fn last(&mut self, action: impl Into<A>) {
        self.last.push(action.into());
    }
}

impl<A: Action> AfterUnlock<A> {
    /// Does all work. The caller holds no lock.
    pub fn run(self) {
        self.before.into_iter().for_each(A::run);
        for (request, end) in self.requests {
            request.complete(end);
        }
        let rest = self.after.into_iter().chain(self.last);
        rest.for_each(A::run);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use netdirect::Status;

    use super::*;
    use crate::testing::file;

    type Log = Arc<Mutex<Vec<&'static str>>>;

    fn note(log: &Log, what: &'static str) -> impl FnOnce() + Send + use<> {
        let log = Arc::clone(log);
        move || log.lock().unwrap().push(what)
    }

    #[test]
    fn work_is_done_in_its_order_whatever_the_order_in_which_it_was_added() {
        let log = Log::default();
        let ended = Overlapped::new();
        let mut after = AfterUnlock::<Work>::default();
        after.last(note(&log, "last"));
        after.after(note(&log, "after"));
        after.end([ended.begin(&file()).unwrap()], Status::CANCELED);
        let seen = (Arc::clone(&log), ended.clone());
        after.before(move || {
            let (log, ended) = seen;
            assert!(ended.is_pending());
            log.lock().unwrap().push("before");
        });
        assert!(ended.is_pending());
        after.run();
        assert_eq!(ended.status(), Status::CANCELED);
        assert_eq!(*log.lock().unwrap(), ["before", "after", "last"]);
    }

    #[test]
    fn ovl_001_requests_come_out_in_the_order_in_which_they_were_made() {
        let overlapped: [Overlapped; 3] = std::array::from_fn(|_| Overlapped::new());
        let begin = |at: usize| overlapped[at].begin(&file()).unwrap();
        let place = |request: &PendingOverlapped| {
            let found = overlapped
                .iter()
                .position(|other| request.is_request_of(other));
            found.unwrap()
        };
        let fill = || {
            let mut requests = Requests::default();
            requests.add_notification(begin(0));
            requests.add_state_change(begin(1));
            requests.add_notification(begin(2));
            requests
        };
        let finish = |taken: Vec<PendingOverlapped>| {
            let places: Vec<_> = taken.iter().map(place).collect();
            for request in taken {
                request.complete(Status::SUCCESS);
            }
            places
        };
        let mut requests = fill();
        assert_eq!(finish(requests.take_all()), [0, 1, 2]);
        assert!(requests.is_empty());
        let mut requests = fill();
        assert_eq!(finish(requests.take_notifications()), [0, 2]);
        assert_eq!(finish(requests.take_state_change()), [1]);
        assert!(requests.is_empty());
    }

    #[test]
    fn a_request_that_is_not_admitted_is_taken_back() {
        let overlapped = Overlapped::new();
        let no = || Err(Error::new(Status::NO_MEMORY, "no"));
        let refused = begin_admitted(&overlapped, &file(), no);
        assert_eq!(refused.unwrap_err().status(), Status::NO_MEMORY);
        let taken = begin_admitted(&overlapped, &file(), || Ok(()));
        taken.unwrap().complete(Status::SUCCESS);
        assert_eq!(overlapped.status(), Status::SUCCESS);
    }
}
