//! Who uses an endpoint, and what the endpoint tells it.

use std::sync::Arc;

use iwarp::{Completion, ReceiveSource};

use crate::progress::domain::Domain;

bitflags::bitflags! {
    /// What has happened to a connection.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Signals: u8 {
        /// The peer's first FPDU has arrived.
        const READY = 1;
        /// The peer has closed its direction in good order.
        const PEER_CLOSED = 2;
        /// One of the two ends found an error, and the connection ends.
        const FAILED = 4;
        /// The peer reported the error, by a Terminate.
        const TERMINATED = 8;
        /// The stream was reset, by either end.
        const RESET = 16;
        /// Nothing is left of the stream, and all results have been placed.
        const GONE = 32;
    }
}

/// One of the two queues of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// Sends, Writes, Reads and what else this side asks for.
    Initiator,
    /// Receives.
    Receive,
}

/// The face of an endpoint: it turns completions into its own results, and tells the client what happens.
///
/// The endpoint is generic over its owner, so that these calls are dispatched statically.
pub trait Owner: Send + Sync + Sized + 'static {
    /// What the endpoint's lock guards for the owner.
    type State: Send;

    /// What the owner does when the lock has been released.
    type Notices;

    /// Where Receives come from that were not posted to the endpoint itself.
    type Receives<'a>: ReceiveSource
    where
        Self: 'a;

    /// The source of Receives; [`OwnQueue`](iwarp::OwnQueue) where all are posted to the endpoint. Called with the endpoint
    /// locked, each time that something may have arrived.
    fn receives(&self) -> Self::Receives<'_>;

    /// The streams that are driven with the results of a queue.
    fn domain(&self, queue: Queue) -> &Arc<Domain>;

    /// Wakes threads that wait for results of a queue: its domain has unfinished work.
    fn wake(&self, queue: Queue);

    /// A stream starts: results will come. Called with the endpoint locked.
    fn started(&self, _state: &mut Self::State) {}

    /// A request has ended. Called with the endpoint locked, in the order of the results. The owner may keep results back until
    /// [`place`](Self::place).
    fn completed(&self, state: &mut Self::State, completion: Completion);

    /// No further completions come for now: what was kept back is placed where the client finds it. Called with the endpoint
    /// locked, before anything is sent that was received after these results: a peer that gets an answer may rely on the
    /// results before it.
    fn place(&self, state: &mut Self::State);

    /// Whether something is to be done when the lock has been released.
    fn has_notices(state: &Self::State) -> bool;

    /// Takes what is to be done when the lock has been released. `signals` is what has happened to the connection, mostly nothing.
    fn take_notices(&self, state: &mut Self::State, signals: Signals) -> Self::Notices;

    /// Does it. Called without the lock.
    fn deliver(&self, notices: Self::Notices);

    /// A Send of the peer has found no Receive, and waits for one. Called with the endpoint locked.
    fn stalled(&self, _state: &mut Self::State) {}

    /// The connection has ended or failed, and uses no further Receives of a shared queue. Called with the endpoint locked, once or
    /// more often.
    fn draws_no_more(&self, _state: &mut Self::State) {}

    /// Whether the client may send as the Responder of a peer that has sent nothing yet but a ready-to-receive message. Asked
    /// once a connection, with the endpoint locked, when the client posts the first such request.
    fn may_speak_first(&self, _state: &mut Self::State) -> bool {
        true
    }

    /// A fault plan wants the queues broken down, with the status of this name. Called with the endpoint locked: what breaks a
    /// queue ends this connection as well, so the owner does it later.
    fn break_queues(&self, _status: &str) {}
}
