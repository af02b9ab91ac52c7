//! The owner of a queue pair's endpoint: turns the engine's completions into work completions.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use iwarp_io::endpoint::queue_pair::{PairOwner, PairQueues, PairState};
use iwarp_io::endpoint::{
    self, Completion, ConnectionEnd, EndedBy, ReceivedImmediate, RequestKind, Rules, StreamId,
};
use iwarp_io::lenient_cases::LenientCase;

pub(crate) use endpoint::Signals;
pub(crate) use iwarp_io::endpoint::queue_pair::ConnectionOwner;

use super::state::QpState;
use tracing::Span;

use crate::context::{AsyncEventKind, Context};
use crate::cq::{Armed, CompletionQueue, CqEntry, WcOpcode, WcStatus, WorkCompletion, vendor_err};
use crate::process::Process;
use crate::qpn::Line;
use crate::srq::SharedReceiveQueue;
use crate::users::Subject;

/// The endpoint of a queue pair.
pub(crate) type QpEndpoint = endpoint::Endpoint<QpOwner>;

/// Work to do once an endpoint is unlocked.
pub(crate) type QpDeferredWork = endpoint::DeferredWork<QpOwner>;

/// Holds back the results that the end of a connection flushes.
pub(crate) type QpFlushGuard = endpoint::FlushGuard<QpOwner>;

/// The parts of a queue pair other than its connection.
pub(crate) struct QpOwner {
    pub(super) process: Arc<Process>,
    pub(super) context: Arc<Context>,
    pub(super) number: u32,
    /// The number of the connection in the driver.
    pub(super) stream: AtomicU32,
    pub(super) queues: PairQueues<Self>,
    /// A [`QpState`].
    pub(super) state: AtomicU8,
    pub(super) subject: Arc<Subject>,
    /// Requests vanish without a completion: the program has destroyed the queue pair, or resets it.
    pub(super) is_muted: AtomicBool,
    /// The way to a stream, if the number names a port.
    pub(super) line: Option<Weak<Line>>,
}

/// Verbs' data under the queue pair's lock.
#[derive(Default)]
pub(crate) struct QpOwnerState {
    /// A request of the send queue has failed. Requests behind it count as flushed, including those that the transport has accepted.
    has_failed: bool,
    /// [`vendor_err`](WorkCompletion::vendor_err) of the requests that the end of the connection fails.
    vendor_err: u32,
}

impl QpOwner {
    pub(super) fn state(&self) -> QpState {
        QpState::from_bits(self.state.load(Ordering::Acquire))
    }

    pub(super) fn set_state(&self, state: QpState) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// A Send with a number has failed because of its peer. Says why to the program's user.
    #[cold]
    fn explain_number(&self) {
        if let Some(tell) = self.process.options().on_end {
            tell(&format!(
                "queue pair {:#x} has not sent a Send with a number (IBV_WR_SEND_WITH_IMM): the peer is no device for RoCE of softnd, or has \
                 sent nothing for 10 s. Use Writes with a number, or nd run without --as iwarp at both ends",
                self.number
            ));
        }
    }

    pub(super) fn stream(&self) -> StreamId {
        StreamId(self.stream.load(Ordering::Relaxed))
    }
}

impl PairOwner for QpOwner {
    type Cq = CompletionQueue;
    type Srq = SharedReceiveQueue;
    type Entry = CqEntry;
    type Request = Armed;
    type Connection = dyn ConnectionOwner;
    type State = QpOwnerState;

    fn queues(&self) -> &PairQueues<Self> {
        &self.queues
    }

    fn stream_starts(&self, state: &mut QpOwnerState) {
        *state = QpOwnerState::default();
    }

    fn connection_ended(&self, state: &mut QpOwnerState, end: &ConnectionEnd, peer: SocketAddr) {
        state.vendor_err = number_of(end);
        let is_orderly = matches!(
            end,
            ConnectionEnd::Disconnected | ConnectionEnd::PeerDisconnected
        );
        if let Some(tell) = self.process.options().on_end.filter(|_| !is_orderly) {
            tell(&format!("the connection with {peer} ended: {end}"));
        }
    }

    fn ended(&self, state: &mut PairState<Self>, completion: Completion) {
        if self.is_muted.load(Ordering::Relaxed) {
            return state.vanish(completion.kind, &self.queues);
        }
        let mut status = WcStatus::from_engine(completion.status);
        if status == WcStatus::RetryExceeded {
            self.set_state(QpState::Err); // before the program can see the result
        }
        if status == WcStatus::LocalQpOperation && completion.kind == RequestKind::Send {
            self.explain_number();
        }
        if completion.kind != RequestKind::Receive {
            if state.own.has_failed && status == WcStatus::Success {
                status = WcStatus::Flushed;
            }
            state.own.has_failed |= status != WcStatus::Success;
        }
        let mut opcode = WcOpcode::from_engine(completion.kind);
        let immediate = completion.immediate.map(|immediate| match immediate {
            // Peers do not agree about the four octets behind the number.
            ReceivedImmediate::Alone([a, b, c, d, ..]) => {
                opcode = WcOpcode::ReceiveImmediate;
                [a, b, c, d]
            }
            ReceivedImmediate::OfSend(number) => number,
        });
        let detail = match status {
            WcStatus::Success => completion.octets, // with a number those of the Write in front
            _ => state.own.vendor_err,
        };
        let entry = CqEntry {
            completion: WorkCompletion {
                wr_id: completion.context,
                status,
                opcode,
                detail,
                qp_num: self.number,
                invalidated: completion.invalidated.map(|stag| stag.0),
                immediate,
                source: None,
            },
            solicited: completion.solicited,
        };
        state.push(completion.kind, entry, &self.queues);
    }

    fn last_receive(&self) {
        if !self.is_muted.load(Ordering::Relaxed) {
            let subject = Some(&self.subject);
            self.context
                .raise(AsyncEventKind::LastReceiveReached, subject);
        }
    }

    fn waits_for_stream(&self) {
        if let Some(line) = self.line.as_ref().and_then(Weak::upgrade) {
            line.request_waits();
        }
    }

    fn signalled(&self, signals: Signals) {
        if signals.contains(Signals::FLUSHED) && matches!(self.state(), QpState::Rtr | QpState::Rts)
        {
            self.set_state(QpState::Err);
        }
    }

    fn gone(&self) {
        self.process.lingering.gone(self.stream());
    }
}

impl Rules for QpOwner {
    fn stalled(&self, _: &Span) {
        if self.queues.shared.is_none() {
            self.process.lenient_cases.count(LenientCase::ReceiveWait);
        }
    }

    fn may_speak_first(&self, _: &Span) -> bool {
        self.process.lenient_cases.count(LenientCase::PassiveFirst);
        true
    }

    fn number(&self) -> Option<u32> {
        Some(self.number)
    }

    fn queue_broke(&self) {
        self.set_state(QpState::Err);
    }
}

/// The number for programs that says why the connection ended.
fn number_of(end: &ConnectionEnd) -> u32 {
    let Some(code) = end.terminate() else {
        return 0;
    };
    let from_peer = match end.by() {
        EndedBy::Peer => vendor_err::FROM_PEER,
        _ => 0,
    };
    let [layer, etype, code] = [code.layer, code.etype, code.code].map(u32::from);
    vendor_err::TERMINATE | from_peer | layer << 12 | etype << 8 | code
}
