//! One connection.

use std::collections::VecDeque;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netdirect::{
    CompletionQueue, CompletionResult, Connector, EndReason, EndedBy, NotifyType, Overlapped,
    QueuePair, ReadLimits, Sge, SharedReceiveQueue, Started, Status,
};

use super::deadline::{Deadline, settle, silence};
use crate::errors::{Failure, Result, refusal};
use crate::provider::{Refusals, RefusedConnect};

/// One connection: before, while and after it is connected.
#[derive(Debug)]
pub struct Endpoint {
    /// The connector of the queue pair.
    pub connector: Arc<dyn Connector>,
    /// The queue pair.
    pub qp: Arc<dyn QueuePair>,
    /// Where the queue pair takes its Receives from, unless they are its own.
    srq: Option<Arc<dyn SharedReceiveQueue>>,
    cq: Arc<dyn CompletionQueue>,
    ready: VecDeque<CompletionResult>,
    notify: Overlapped,
    ended: Overlapped,
    /// How long the peer may stay silent.
    limit: Duration,
    /// The time by which the peer has to have done everything, even if it is not silent.
    deadline: Option<Deadline>,
    refusals: Arc<Refusals>,
}

/// The parts of a connection other than its connector.
pub(super) struct Queues {
    pub(super) qp: Arc<dyn QueuePair>,
    pub(super) srq: Option<Arc<dyn SharedReceiveQueue>>,
    pub(super) cq: Arc<dyn CompletionQueue>,
}

impl Endpoint {
    pub(super) fn new(
        connector: Arc<dyn Connector>,
        queues: Queues,
        limit: Duration,
        refusals: Arc<Refusals>,
    ) -> Self {
        Self {
            connector,
            qp: queues.qp,
            srq: queues.srq,
            cq: queues.cq,
            ready: VecDeque::new(),
            notify: Overlapped::new(),
            ended: Overlapped::new(),
            limit,
            deadline: None,
            refusals,
        }
    }

    /// Limits all waits together by a deadline. With `None`, limits each wait by itself again.
    pub fn set_deadline(&mut self, deadline: Option<Deadline>) {
        self.deadline = deadline;
    }

    fn patience(&self) -> Deadline {
        self.deadline.unwrap_or_else(|| Deadline::after(self.limit))
    }

    /// Connects from `local` and waits for the answer. Returns the status, whatever it is, unless more is known of why the
    /// connection failed. Without a local address, the
    /// system chooses a port that is free for this destination. There are more of these than ports that are free for all
    /// destinations.
    pub fn connect(
        &self,
        local: impl Into<Option<SocketAddr>>,
        destination: SocketAddr,
        limits: ReadLimits,
        private_data: &[u8],
    ) -> Result<Status> {
        let doing = format!("connect to {destination}");
        if let Some(local) = local.into() {
            self.connector
                .bind(local)
                .map_err(|error| Failure::nd(&doing, &error))?;
        }
        let overlapped = Overlapped::new();
        let ReadLimits { inbound, outbound } = limits;
        let started = self.connector.connect(
            &self.qp,
            destination,
            inbound,
            outbound,
            private_data,
            &overlapped,
        );
        let status = self.settle_connector(started, &overlapped, &doing)?;
        if status != Status::SUCCESS
            && let Some(RefusedConnect { what, advice }) = self.refusals.take(destination, status)
        {
            return Err(Failure::refused(doing, status, &what).advise(advice));
        }
        Ok(status)
    }

    /// The failure of a request with this status: who ended the connection, and by what, if it has ended.
    pub fn failure(&self, doing: impl Display, status: Status) -> Failure {
        use EndReason::{Network, Refused, Rejected, TimeLimit};
        match self.connector.connection_end() {
            // The status says the same of an attempt, with better advice.
            Some(end) if !matches!(end.reason(), Refused | Network | TimeLimit | Rejected) => {
                Failure::ended(doing, status, Some(&end))
            }
            _ => Failure::status(doing, status),
        }
    }

    /// The failure of a request that the end of the connection has ended: `disconnected` if the peer has ended it without a Terminate, as it does
    /// when its program ends, or if the adapter does not say who ended the connection.
    pub fn cut_off(&self, doing: impl Display, disconnected: impl FnOnce() -> Failure) -> Failure {
        match self.connector.connection_end() {
            Some(end) if end.by() != EndedBy::Peer || end.terminate_code().is_some() => {
                Failure::ended(doing, Status::CANCELED, Some(&end))
            }
            _ => disconnected(),
        }
    }

    /// The failure of a Connect that ended with this status. If the peer answered by a rejection, a program accepts connections there.
    pub fn not_connected(&self, destination: SocketAddr, status: Status) -> Failure {
        let doing = format!("connect to {destination}");
        if status == Status::CONNECTION_REFUSED && self.connector.get_private_data().is_ok() {
            let why = "the program that listens there has rejected the connection";
            return Failure::refused(doing, status, why)
                .advise("check address and port, and look at what that program says");
        }
        self.failure(doing, status)
    }

    /// Completes a connection that was answered, and watches for its end from then on.
    pub fn complete_connect(&self) -> Result<Status> {
        let overlapped = Overlapped::new();
        let started = self.connector.complete_connect(&overlapped);
        let status = self.settle_connector(started, &overlapped, "complete the connection")?;
        self.watch(status)
    }

    /// Accepts the request in the connector, waits until the connection is established, and watches for its end from then
    /// on.
    pub fn accept(&self, limits: ReadLimits, private_data: &[u8]) -> Result<Status> {
        self.accept_if(limits, private_data, || true)
    }

    /// Accepts like [`accept`](Self::accept), but cancels the Accept that has begun unless the connection `is_wanted`. A thread that turns
    /// the connection away first says so, and then cancels the requests of the connector, so that an Accept never goes on.
    pub fn accept_if(
        &self,
        limits: ReadLimits,
        private_data: &[u8],
        is_wanted: impl FnOnce() -> bool,
    ) -> Result<Status> {
        let overlapped = Overlapped::new();
        let ReadLimits { inbound, outbound } = limits;
        let started = self
            .connector
            .accept(&self.qp, inbound, outbound, private_data, &overlapped);
        if !is_wanted() {
            // It is no error if the Accept has ended already (OVL-004).
            let _ = self.connector.cancel_overlapped_requests();
        }
        let status = self.settle_connector(started, &overlapped, "accept the connection")?;
        self.watch(status)
    }

    fn settle_connector(
        &self,
        started: netdirect::Result<Started>,
        overlapped: &Overlapped,
        doing: &str,
    ) -> Result<Status> {
        let settled = settle(started, overlapped, self.patience(), doing).inspect_err(|_| {
            // Cancels requests that are still pending. It is no error if there are none (OVL-004).
            let _ = self.connector.cancel_overlapped_requests();
        });
        if let Err(error) = overlapped.result()
            && refusal(error.what()).is_some()
        {
            return Err(Failure::nd(doing, &error));
        }
        settled
    }

    /// Asks to be notified of the end of an established connection.
    fn watch(&self, status: Status) -> Result<Status> {
        if status == Status::SUCCESS {
            let started = self.connector.notify_disconnect(&self.ended);
            // `ended` says whether the request is complete already.
            let _ = started.map_err(|error| Failure::nd("watch the connection", &error))?;
        }
        Ok(status)
    }

    /// Posts a Receive to the queue from which the queue pair takes its Receives.
    #[inline]
    pub fn receive(&self, context: u64, sges: &[Sge]) -> netdirect::Result<()> {
        match &self.srq {
            None => self.qp.receive(context, sges),
            Some(srq) => srq.receive(context, sges),
        }
    }

    /// The completion queue, for those who take completions from it themselves.
    pub fn cq(&self) -> &Arc<dyn CompletionQueue> {
        &self.cq
    }

    /// A completion that is there already. The call drives the connection.
    pub fn poll(&mut self) -> Option<CompletionResult> {
        if self.ready.is_empty() {
            self.fetch();
        }
        self.ready.pop_front()
    }

    /// Returns true if the peer has disconnected or the connection has been lost. The call itself does not drive the connection.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_pending()
    }

    /// Waits until the peer has disconnected. Returns the status of NotifyDisconnect, or `None` if `limit` passed first.
    pub fn wait_for_end(&self, limit: Duration) -> Option<Status> {
        self.ended.wait_timeout(limit)
    }

    /// Disconnects in good order. Returns the status of Disconnect.
    pub fn disconnect(&self) -> Result<Status> {
        self.disconnect_within(self.limit)
    }

    /// Disconnects with another limit, after which the connection is given up.
    pub fn disconnect_within(&self, limit: Duration) -> Result<Status> {
        let overlapped = Overlapped::new();
        let started = self.connector.disconnect(&overlapped);
        settle(started, &overlapped, Deadline::after(limit), "disconnect")
    }

    /// The next completion, whatever its status. `doing` goes into the error if none comes.
    pub fn next(&mut self, doing: impl Display) -> Result<CompletionResult> {
        let (limit, left) = match &self.deadline {
            None => (self.limit, self.limit),
            Some(deadline) => (deadline.limit(), deadline.left()),
        };
        self.next_within(left)?
            .ok_or_else(|| silence(&doing.to_string(), limit))
    }

    /// The next completion, or `None` if `limit` passed first.
    pub fn next_within(&mut self, limit: Duration) -> Result<Option<CompletionResult>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(result) = self.ready.pop_front() {
                return Ok(Some(result));
            }
            if self.fetch() || self.arm()? {
                continue;
            }
            match self
                .notify
                .wait_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Some(Status::SUCCESS) => {}
                Some(status) => return Err(Failure::status("go on with the connection", status)),
                None => return Ok(None),
            }
        }
    }

    /// Takes what the completion queue holds. Returns whether there was anything.
    fn fetch(&mut self) -> bool {
        let mut results = [CompletionResult::default(); 32];
        let n = self.cq.get_results(&mut results);
        self.ready.extend(&results[..n]);
        n > 0
    }

    /// Asks to be notified of the next completion. Returns whether there is one already (CQ-037).
    fn arm(&self) -> Result<bool> {
        if self.notify.is_pending() {
            return Ok(false);
        }
        let started = self.cq.notify(NotifyType::Any, &self.notify);
        let started = started.map_err(|error| Failure::nd("wait for completions", &error))?;
        Ok(started == Started::Done)
    }
}
