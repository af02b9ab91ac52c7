//! Queue pairs, ND2's `IND2QueuePair`. A queue pair is an [`Endpoint`] whose owner turns completions into ND2's results.
//!
//! ND2's states of a queue pair follow from the [`Phase`] of its endpoint and from whether a connector has
//! [claimed](Claim::claim) the queue pair. While a connector sets up a connection, the queue pair is claimed and its endpoint is
//! idle. A failed attempt leaves the queue pair unclaimed, so that another attempt can follow (CONN-033). A queue pair that was
//! connected cannot be connected again (CONN-114). The removal of the device [shuts](Phase::Shut) all endpoints (GEN-015).

mod handle;

use std::sync::{Arc, Weak};
use std::time::Duration;

use iwarp_io::endpoint::queue_pair::{self, PairOwner, PairQueues, PairState};
use iwarp_io::endpoint::{
    self, Completion, ConnectionEnd, Endpoint, EndpointOptions, Phase, QueueSizes,
    ReceivedImmediate, Refused, Rules, Scope, StreamId,
};
use netdirect::{
    CompletionResult, Error, Immediate, PendingOverlapped, QueuePairOptions, Result, Status,
};
use netdirect_provider::connector::QueuePairOwner;
use tracing::Span;

use crate::core::{Core, PD};
use crate::cq::{Cq, Entry};
use crate::leniency::LenientCase;
use crate::options::Profile;
use crate::srq::Srq;
use crate::status::{fail, no_memory, post_error, removed, request_type, result_status};

pub(crate) use endpoint::{Drivers, Signals, Start};
pub(crate) use handle::{ClientQp, QpHandle};

/// The connector of a queue pair, which sets up and ends the connection. Called with the queue pair unlocked.
pub(crate) trait ConnectionOwner: QueuePairOwner + queue_pair::ConnectionOwner {}

/// The queue pair itself, shared by its handle, its connector and the drivers.
pub(crate) type Qp = Endpoint<QpOwner>;

pub(crate) type DeferredWork = endpoint::DeferredWork<QpOwner>;

/// While a guard exists, the client does not see flushed requests, because NotifyDisconnect has to complete before them
/// (CONN-106).
/// The thread that drops the last guard must not have locked the connector.
pub(crate) type FlushGuard = endpoint::FlushGuard<QpOwner>;

/// The parts of a queue pair other than its connection.
pub(crate) struct QpOwner {
    core: Arc<Core>,
    id: StreamId,
    context: u64,
    queues: PairQueues<Self>,
    /// The strict profile holds (AMB-071).
    strict: bool,
    /// The numbers of SGEs that the client asked for: for initiator requests, and for Receives.
    asked_sges: (u32, u32),
    /// The time that a Send of the peer waits for a Receive; unlimited with [`Duration::MAX`].
    receive_wait: Duration,
}

/// ND2's data under the queue pair's lock.
#[derive(Default)]
pub(crate) struct QpState {
    /// A connector sets up a connection for the queue pair, or has done so.
    claimed: bool,
}

fn new(
    core: Arc<Core>,
    receive_cq: Arc<Cq>,
    initiator_cq: Arc<Cq>,
    srq: Option<Arc<Srq>>,
    options: &QueuePairOptions,
) -> Result<Arc<Qp>> {
    let strict = core.options.profile == Profile::Strict;
    let limits = core.options.limits;
    let grant = |asked: u32| {
        if strict || asked == 0 {
            asked // AMB-036: 0 grants none
        } else {
            asked.max(2).min(limits.sges) // AMB-009
        }
    };
    let initiator_sges = grant(options.max_initiator_request_sge);
    let id = core.next_stream();
    let (receive_depth, receive_sges, receive_wait) = match &srq {
        // The engine needs room for one drawn Receive.
        Some(srq) => (1, srq.receives.sges(), Duration::MAX), // ADPT-076, IW-027
        None => (
            options.receive_queue_depth,
            grant(options.max_receive_request_sge),
            core.options.effective_receive_wait(),
        ),
    };
    let endpoint = EndpointOptions {
        sizes: QueueSizes {
            initiator_depth: options.initiator_queue_depth,
            receive_depth,
            initiator_sges,
            receive_sges,
            read_sges: initiator_sges.min(limits.read_sges),
            inline: options.inline_data_size,
            max_transfer: limits.transfer_length,
        },
        scope: Scope { pd: PD, stream: id },
        receive_pd: PD,
        end_within: core.options.timeouts.disconnect, // IW-065
        early_posts: false,
        keeps_receives: false,
    };
    let driver = Arc::clone(&core.driver);
    let shared = srq.as_ref().map(|srq| (Arc::clone(srq), &srq.receives));
    let owner = |this: &Weak<Qp>| QpOwner {
        core,
        id,
        context: options.context,
        queues: PairQueues::new(initiator_cq, receive_cq, shared, this.clone()),
        strict,
        asked_sges: (
            options.max_initiator_request_sge,
            options.max_receive_request_sge,
        ),
        receive_wait,
    };
    let qp = Endpoint::new(driver, endpoint, owner, PairState::default());
    let short = no_memory(
        Status::INSUFFICIENT_RESOURCES, // ADPT-058, ADPT-073
        "cannot create a queue pair",
    );
    let qp = qp.map_err(short)?;
    let queues = &qp.owner().queues;
    let user: Weak<Qp> = Arc::downgrade(&qp);
    queues.attach(user.clone());
    if let Some((srq, _)) = &queues.shared {
        srq.users.add(user);
    }
    Ok(qp)
}

/// A connector has at most one queue pair, and a queue pair at most one connector.
pub(crate) trait Claim {
    /// Reserves the queue pair for a connection attempt.
    fn claim(&self, connector: Weak<dyn ConnectionOwner>) -> Result<()>;

    /// Ends the reservation, after an attempt that failed before the endpoint was started.
    fn unclaim(&self);
}

impl Claim for Qp {
    fn claim(&self, connector: Weak<dyn ConnectionOwner>) -> Result<()> {
        self.with(|phase, state| {
            match phase {
                Phase::Idle if !state.own.claimed => {}
                Phase::Idle | Phase::Starting | Phase::Unheard | Phase::Open => {
                    return fail(
                        Status::CONNECTION_ACTIVE,
                        "the queue pair is connected or connecting already",
                    ); // CONN-020
                }
                Phase::Ended | Phase::Disconnected => {
                    return fail(
                        Status::INVALID_DEVICE_STATE,
                        "the queue pair was connected before, or its completion queue has broken down; create a new queue pair",
                    ); // AMB-035
                }
                Phase::Shut => return Err(removed()),
            }
            state.own.claimed = true;
            state.connection = Some(connector);
            Ok(())
        })
    }

    fn unclaim(&self) {
        self.with(|phase, state| {
            if phase == Phase::Idle {
                state.own.claimed = false;
                state.connection = None;
            }
        });
    }
}

impl QpOwner {
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The time that a Send of the peer waits for a Receive.
    pub(crate) fn receive_wait(&self) -> Duration {
        self.receive_wait
    }

    /// Returns true if the queue pair uses a shared receive queue.
    fn has_shared_receives(&self) -> bool {
        self.queues.shared.is_some()
    }
}

/// Notes that an initiator request was posted with this many SGEs.
fn posted_sges(qp: &Qp, count: usize) {
    count_surplus(qp, count, qp.owner().asked_sges.0);
}

/// Notes that a Receive was posted with this many SGEs.
fn posted_receive_sges(qp: &Qp, count: usize) {
    count_surplus(qp, count, qp.owner().asked_sges.1);
}

fn count_surplus(qp: &Qp, count: usize, asked: u32) {
    if count > asked as usize {
        let leniency = &qp.owner().core.leniency;
        leniency.count_in(LenientCase::SurplusSges, || qp.span()); // AMB-009
    }
}

/// Disconnects a queue pair whose handle the client has released (QP-074).
fn released(qp: &Arc<Qp>) {
    let connector = qp.with(|_, state| state.connection());
    if let Some(connector) = connector {
        connector.queue_pair_released();
    }
    let QpOwner { core, id, .. } = qp.owner();
    core.lingering.release(*id, qp);
}

/// The client flushes the queue pair (QP-004).
fn flush(qp: &Qp) {
    let connector = qp.with(|phase, state| match phase {
        Phase::Starting => state.connection(),
        _ => None,
    });
    if let Some(connector) = connector {
        connector.queue_pair_flushed();
    }
    qp.flush();
}

impl PairOwner for QpOwner {
    type Cq = Cq;
    type Srq = Srq;
    type Entry = Entry;
    type Request = PendingOverlapped;
    type Connection = dyn ConnectionOwner;
    type State = QpState;

    #[inline]
    fn queues(&self) -> &PairQueues<Self> {
        &self.queues
    }

    #[inline]
    fn ended(&self, state: &mut PairState<Self>, completion: Completion) {
        let kind = request_type(completion.kind);
        let (octets, immediate) = match completion.immediate {
            Some(ReceivedImmediate::Alone(data)) => (0, Some(Immediate::from(data))), // nothing is placed
            // No peer is asked whether it has Sends with Immediate Data.
            Some(ReceivedImmediate::OfSend(_)) | None => (completion.octets, None),
        };
        let result = CompletionResult::new(kind, completion.context)
            .status(result_status(completion.status))
            .bytes_transferred(octets)
            .queue_pair_context(self.context)
            .immediate(immediate);
        let solicited = completion.solicited;
        let entry = Entry { result, solicited };
        state.push(completion.kind, entry, &self.queues);
    }

    fn gone(&self) {
        self.core.lingering.gone(self.id);
    }
}

impl Rules for QpOwner {
    fn stalled(&self, span: &Span) {
        if !self.has_shared_receives() {
            self.core.leniency.count(LenientCase::ReceiveWait, span); // AMB-008
        }
    }

    /// Some adapters refuse such a Send (AMB-040, AMB-071).
    fn may_speak_first(&self, span: &Span) -> bool {
        if !self.strict {
            self.core.leniency.count(LenientCase::PassiveFirst, span);
        }
        !self.strict
    }
}

/// The event that a stalled queue pair waits for, in words.
fn waits(qp: &Qp) -> Option<String> {
    let stalled = qp.is_stalled()?;
    stalled.then(|| "a Send of the peer waits for a Receive of a queue pair".to_owned())
}

/// Resets the stream, and completes all outstanding requests with ND_CANCELED. The connector has been notified before.
fn device_removed(qp: &Qp) {
    drop(qp.shut(ConnectionEnd::Removed));
}

/// The error of a refused post.
#[cold]
fn refused(refused: Refused) -> Error {
    match refused {
        Refused::Shut => removed(),
        Refused::SpeaksFirst => Error::new(
            Status::CONNECTION_INVALID,
            "the strict profile refuses a Send of the passive side before the active side has sent; have the active side send first",
        ), // AMB-071
        Refused::Request(error) => post_error(error),
    }
}
