//! The requests of a connector that are in flight, and those that end once no lock is held.

use std::sync::Arc;

use netdirect::{Error, PendingOverlapped};

use crate::qp::{FlushGuard, News};

/// Requests in the order in which they were made: a cancel ends them in this order (OVL-001).
#[derive(Debug, Default)]
pub(super) struct Requests(Vec<(Kind, PendingOverlapped)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Connect, CompleteConnect, Accept or Disconnect. Only one of them can be in flight.
    StateChange,
    /// NotifyDisconnect.
    Notification,
}

impl Requests {
    pub(super) fn add_state_change(&mut self, request: PendingOverlapped) {
        self.0.push((Kind::StateChange, request));
    }

    pub(super) fn add_notification(&mut self, request: PendingOverlapped) {
        self.0.push((Kind::Notification, request));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take_state_change(&mut self) -> impl Iterator<Item = PendingOverlapped> {
        self.take(Kind::StateChange)
    }

    pub(super) fn take_notifications(&mut self) -> impl Iterator<Item = PendingOverlapped> {
        self.take(Kind::Notification)
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = PendingOverlapped> {
        self.0.drain(..).map(|(_, request)| request)
    }

    fn take(&mut self, kind: Kind) -> impl Iterator<Item = PendingOverlapped> {
        let of_kind = self.0.extract_if(.., move |(of, _)| *of == kind);
        of_kind.map(|(_, request)| request)
    }
}

/// What is to be done once no lock is held.
#[must_use]
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Requests to be completed.
    requests: Vec<(PendingOverlapped, Error)>,
    /// Delivered after the requests have been completed.
    pub(super) news: Vec<News>,
    /// Dropped last, so that flushed requests are seen after that (CONN-106).
    pub(super) guard: Option<Arc<FlushGuard>>,
}

impl Done {
    pub(super) fn push(
        &mut self,
        requests: impl IntoIterator<Item = PendingOverlapped>,
        end: impl Into<Error>,
    ) {
        let (requests, end) = (requests.into_iter(), end.into());
        self.requests
            .extend(requests.map(|request| (request, end.clone())));
    }

    pub(super) fn deliver(self) {
        for (request, end) in self.requests {
            request.complete(end);
        }
        drop(self.news);
        drop(self.guard);
    }
}
