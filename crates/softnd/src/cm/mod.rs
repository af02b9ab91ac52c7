//! Connection management: ND2's connectors and listeners over the MPA start-up exchange.

mod backlog;
pub(crate) mod connector;
pub(crate) mod listener;

use std::sync::Arc;

use netdirect::{Error, PendingOverlapped};

use crate::qp::{FlushGuard, News};

/// What is to be done once no lock is held.
#[must_use]
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Requests to be completed.
    requests: Vec<(PendingOverlapped, Error)>,
    /// Delivered after the requests have been completed.
    news: Vec<News>,
    /// Dropped last, so that flushed requests are seen after that (CONN-106).
    guard: Option<Arc<FlushGuard>>,
}

impl Done {
    fn push(
        &mut self,
        requests: impl IntoIterator<Item = PendingOverlapped>,
        end: impl Into<Error>,
    ) {
        let (requests, end) = (requests.into_iter(), end.into());
        self.requests
            .extend(requests.map(|request| (request, end.clone())));
    }

    fn deliver(self) {
        for (request, end) in self.requests {
            request.complete(end);
        }
        drop(self.news);
        drop(self.guard);
    }
}
