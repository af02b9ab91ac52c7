//! The requests of a connector in flight, and those that end once its lock is released.

use netdirect::{PendingOverlapped, Status};

#[derive(Debug, Default)]
pub(super) struct Requests(Vec<(RequestKind, PendingOverlapped)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    /// Connect, CompleteConnect, Accept or Disconnect.
    StateChange,
    /// NotifyDisconnect.
    Notification,
}

impl Requests {
    pub(super) fn add_state_change(&mut self, request: PendingOverlapped) {
        self.0.push((RequestKind::StateChange, request));
    }

    pub(super) fn add_notification(&mut self, request: PendingOverlapped) {
        self.0.push((RequestKind::Notification, request));
    }

    pub(super) fn take_state_change(&mut self) -> Vec<PendingOverlapped> {
        self.take(RequestKind::StateChange)
    }

    pub(super) fn take_notifications(&mut self) -> Vec<PendingOverlapped> {
        self.take(RequestKind::Notification)
    }

    pub(super) fn take_all(&mut self) -> Vec<PendingOverlapped> {
        self.0.drain(..).map(|(_, request)| request).collect()
    }

    fn take(&mut self, kind: RequestKind) -> Vec<PendingOverlapped> {
        let of_kind = self.0.extract_if(.., |(of, _)| *of == kind);
        of_kind.map(|(_, request)| request).collect()
    }
}

/// What is done once no lock is held: first what ends queue pairs, then the ends of requests.
#[derive(Default)]
pub(super) struct Done {
    requests: Vec<(PendingOverlapped, Status)>,
    before: Vec<Box<dyn FnOnce() + Send>>,
    after: Vec<Box<dyn FnOnce() + Send>>,
}

impl Done {
    pub(super) fn push(
        &mut self,
        requests: impl IntoIterator<Item = PendingOverlapped>,
        status: Status,
    ) {
        let requests = requests.into_iter().map(|request| (request, status));
        self.requests.extend(requests);
    }

    /// Does something before the requests end.
    pub(super) fn before(&mut self, act: impl FnOnce() + Send + 'static) {
        self.before.push(Box::new(act));
    }

    /// Does something after the requests have ended.
    pub(super) fn after(&mut self, act: impl FnOnce() + Send + 'static) {
        self.after.push(Box::new(act));
    }

    pub(super) fn deliver(self) {
        for act in self.before {
            act();
        }
        for (request, status) in self.requests {
            request.complete(status);
        }
        for act in self.after {
            act();
        }
    }
}
