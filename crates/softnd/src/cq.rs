//! Completion queues, ND2's `IND2CompletionQueue`.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use netdirect::{
    Affinity, CompletionQueue, CompletionResult, NotifyType, Overlapped, OverlappedFile,
    OverlappedObject, PendingOverlapped, Result, Started, Status,
};
use parking_lot::Mutex;

use crate::adapter::{Core, MAX_COMPLETION_QUEUE_DEPTH};
use crate::file::File;
use crate::progress::domain::Domain;
use crate::qp::Qp;
use crate::status::{fail, shortage};

/// One result on its way into a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) result: CompletionResult,
    /// A Receive whose Send asked for an event.
    pub(crate) solicited: bool,
}

/// The queue itself, shared by its handle and by the queue pairs that feed it.
#[derive(Debug)]
pub(crate) struct Cq {
    core: Arc<Core>,
    file: Arc<File>,
    file_token: usize,
    pub(crate) domain: Arc<Domain>,
    state: Mutex<State>,
    queue_pairs: Mutex<Vec<Weak<Qp>>>,
    affinity: Affinity,
}

/// Results are numbered in the order of their arrival; the counters say how far each thing has come.
#[derive(Debug)]
struct State {
    ring: VecDeque<Entry>,
    depth: usize,
    /// Results ever placed.
    placed: u64,
    /// The number of the last result that a solicited Notify waits for.
    solicited: u64,
    /// All results up to this one have fired a notification.
    fired: u64,
    /// Results ever taken by the client.
    taken: u64,
    requests: Vec<(NotifyType, PendingOverlapped)>,
    broken: bool,
}

/// Notifications to be delivered once no lock is held.
#[must_use]
#[derive(Debug, Default)]
pub(crate) struct Firing {
    requests: Few,
    status: Status,
    broken: bool,
}

/// Requests that fire together: seldom more than one, which then costs no allocation.
#[derive(Debug, Default)]
struct Few {
    first: Option<PendingOverlapped>,
    rest: Vec<PendingOverlapped>,
}

impl FromIterator<PendingOverlapped> for Few {
    fn from_iter<I: IntoIterator<Item = PendingOverlapped>>(requests: I) -> Self {
        let mut requests = requests.into_iter();
        let first = requests.next();
        Self {
            first,
            rest: requests.collect(),
        }
    }
}

impl Few {
    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn into_iter(self) -> impl Iterator<Item = PendingOverlapped> {
        self.first.into_iter().chain(self.rest)
    }
}

impl Firing {
    /// Both, to be delivered together.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.requests = self
            .requests
            .into_iter()
            .chain(other.requests.into_iter())
            .collect();
        if other.status != Status::SUCCESS {
            self.status = other.status;
        }
        self.broken |= other.broken;
        self
    }
}

impl State {
    fn place(&mut self, entry: Entry) {
        if self.broken {
            return;
        }
        if self.ring.len() == self.depth {
            self.broken = true; // IW-041
            return;
        }
        self.placed += 1;
        // A failed request satisfies a solicited Notify as well (CQ-029).
        if entry.solicited || entry.result.status != Status::SUCCESS {
            self.solicited = self.placed;
        }
        self.ring.push_back(entry);
    }

    /// Takes out the requests that what has been placed since the last firing satisfies (CQ-031 to CQ-035).
    fn fire(&mut self) -> Firing {
        if self.broken {
            let requests = self
                .requests
                .drain(..)
                .map(|(_, request)| request)
                .collect();
            return Firing {
                requests,
                status: Status::BUFFER_OVERFLOW,
                broken: true,
            };
        }
        let news = self.fired.max(self.taken);
        // One request for any completion makes the queue fire for the solicited ones as well.
        let any = self
            .requests
            .iter()
            .any(|(kind, _)| *kind == NotifyType::Any);
        let solicited = self
            .requests
            .iter()
            .any(|(kind, _)| *kind == NotifyType::Solicited);
        if !(any && self.placed > news || solicited && self.solicited > news) {
            return Firing::default();
        }
        self.fired = self.placed;
        let fires = |kind: &NotifyType| *kind != NotifyType::Errors;
        let requests = self
            .requests
            .extract_if(.., |(kind, _)| fires(kind))
            .map(|(_, request)| request)
            .collect();
        Firing {
            requests,
            status: Status::SUCCESS,
            broken: false,
        }
    }

    fn take(&mut self, results: &mut [CompletionResult]) -> usize {
        let count = results.len().min(self.ring.len());
        for (slot, entry) in results.iter_mut().zip(self.ring.drain(..count)) {
            *slot = entry.result;
        }
        self.taken += count as u64;
        count
    }
}

impl Cq {
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Has parked threads look for unfinished work.
    pub(crate) fn wake(&self) {
        OverlappedFile::wake(&*self.file);
    }

    pub(crate) fn attach(&self, qp: Weak<Qp>) {
        let mut queue_pairs = self.queue_pairs.lock();
        queue_pairs.retain(|qp| qp.strong_count() > 0);
        queue_pairs.push(qp);
    }

    /// Places results; what is returned is to be delivered when no lock is held. Called with the queue pair locked,
    /// which keeps its results in order.
    pub(crate) fn place(&self, entries: impl Iterator<Item = Entry>) -> Option<Firing> {
        let mut state = self.state.lock();
        let was_broken = state.broken;
        entries.for_each(|entry| state.place(entry));
        let mut firing = state.fire();
        firing.broken &= !was_broken;
        self.settle_interest(&state, &firing);
        (firing.broken || !firing.requests.is_empty()).then_some(firing)
    }

    /// Keeps the domain's interest in step with whether a request waits.
    fn settle_interest(&self, state: &State, firing: &Firing) {
        if !firing.requests.is_empty() && state.requests.is_empty() {
            self.domain.drop_interest();
        }
    }

    /// Delivers notifications, with no lock held; an overflow ends every queue pair of the queue.
    pub(crate) fn deliver(&self, firing: Firing) {
        if firing.broken {
            tracing::error!("a completion queue overflowed; it and its queue pairs are dead");
            let queue_pairs = std::mem::take(&mut *self.queue_pairs.lock());
            queue_pairs
                .iter()
                .filter_map(Weak::upgrade)
                .for_each(|qp| qp.abort());
        }
        for request in firing.requests.into_iter() {
            request.complete(firing.status);
        }
    }

    fn cancel(&self) {
        let requests = {
            let mut state = self.state.lock();
            let requests = std::mem::take(&mut state.requests);
            if !requests.is_empty() {
                self.domain.drop_interest();
            }
            requests
        };
        for (_, request) in requests {
            request.complete(Status::CANCELED);
        }
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        self.file.remove_queue(&self.domain, self.file_token);
        self.core.remove_domain(&self.domain);
    }
}

/// The client's reference to a queue; with it goes what is pending on the queue.
#[derive(Debug)]
pub(crate) struct Handle(pub(crate) Arc<Cq>);

impl Handle {
    pub(crate) fn new(
        core: Arc<Core>,
        file: Arc<File>,
        depth: u32,
        affinity: Affinity,
    ) -> Result<Self> {
        let domain =
            Domain::new(file.parked()).map_err(shortage("cannot create a completion queue"))?;
        let domain = Arc::new(domain);
        core.add_domain(&domain)
            .map_err(shortage("cannot create a completion queue"))?;
        let file_token = file.add_queue(&domain);
        let depth = depth as usize;
        let state = State {
            ring: VecDeque::with_capacity(depth),
            depth,
            placed: 0,
            solicited: 0,
            fired: 0,
            taken: 0,
            requests: Vec::with_capacity(2),
            broken: false,
        };
        // Affinity that cannot be honoured is ignored (ADPT-026), and what is reported is what is used (CQ-009): none.
        let affinity = Affinity {
            group: 0,
            ..affinity
        };
        let queue_pairs = Mutex::default();
        Ok(Self(Arc::new(Cq {
            core,
            file,
            file_token,
            domain,
            state: Mutex::new(state),
            queue_pairs,
            affinity,
        })))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.cancel(); // CQ-023
    }
}

impl OverlappedObject for Handle {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.0.cancel();
        Ok(())
    }
}

impl CompletionQueue for Handle {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        Ok(Affinity {
            mask: 0,
            ..self.0.affinity
        })
    }

    fn resize(&self, depth: u32) -> Result<()> {
        if depth == 0 || depth > MAX_COMPLETION_QUEUE_DEPTH {
            return fail(
                Status::INVALID_PARAMETER,
                "the depth is zero or above the adapter's limit",
            ); // CQ-012, CQ-013
        }
        let depth = depth as usize;
        let mut state = self.0.state.lock();
        if depth < state.ring.len() {
            return fail(
                Status::BUFFER_OVERFLOW,
                "more results are queued than the new depth holds",
            ); // CQ-016
        }
        let missing = depth.saturating_sub(state.ring.len());
        state.ring.reserve_exact(missing);
        state.ring.shrink_to(depth);
        state.depth = depth;
        Ok(())
    }

    fn notify(&self, kind: NotifyType, overlapped: &Overlapped) -> Result<Started> {
        let cq = &self.0;
        let file: Arc<dyn OverlappedFile> = cq.file.clone();
        let request = overlapped.begin(&file)?;
        let firing = {
            let mut state = cq.state.lock();
            if state.requests.is_empty() {
                cq.domain.add_interest();
            }
            state.requests.push((kind, request));
            let mut firing = state.fire();
            firing.broken = false; // the queue pairs were told when it broke
            cq.settle_interest(&state, &firing);
            firing
        };
        if firing.requests.is_empty() {
            cq.file.arm(&cq.domain, cq.file_token);
        }
        cq.deliver(firing);
        Ok(Started::Pending)
    }

    fn get_results(&self, results: &mut [CompletionResult]) -> usize {
        let cq = &self.0;
        cq.domain.polled();
        let taken = cq.state.lock().take(results);
        // Who finds results has something better to do than to ask the streams for more; the next poll does.
        if taken == results.len() || taken > 0 && !cq.domain.has_unfinished() {
            return taken;
        }
        cq.domain.poll();
        if cq.domain.has_unfinished() {
            cq.core.notice(&cq.domain);
        }
        taken + cq.state.lock().take(&mut results[taken..])
    }
}
