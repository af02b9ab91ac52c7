//! Connection management: ND2's connectors and listeners over the MPA start-up exchange.

mod backlog;
pub(crate) mod connector;
pub(crate) mod listener;

use std::sync::Arc;

use netdirect::{PendingOverlapped, Status};

use crate::qp::{FlushGuard, News};

/// What is to be done once no lock is held.
#[must_use]
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Requests to be completed.
    requests: Vec<(PendingOverlapped, Status)>,
    /// Delivered after the requests have been completed.
    news: Vec<News>,
    /// Dropped last, so that flushed requests are seen after that (CONN-106).
    guard: Option<Arc<FlushGuard>>,
}

impl Done {
    fn push(&mut self, requests: impl IntoIterator<Item = PendingOverlapped>, status: Status) {
        let requests = requests.into_iter();
        self.requests
            .extend(requests.map(|request| (request, status)));
    }

    fn deliver(self) {
        for (request, status) in self.requests {
            request.complete(status);
        }
        drop(self.news);
        drop(self.guard);
    }
}
