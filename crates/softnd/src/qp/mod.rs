//! Queue pairs, ND2's `IND2QueuePair`. A queue pair is an [`Endpoint`] whose owner turns completions into ND2's results.
//!
//! ND2's states of a queue pair follow from the [`Phase`] of its endpoint and from whether a connector has
//! [claimed](Claim::claim) the queue pair. While a connector sets up a connection, the queue pair is claimed and its endpoint is
//! idle. A failed attempt leaves the queue pair unclaimed, so that another attempt can follow (CONN-033). A queue pair that was
//! connected cannot be connected again (CONN-114). The removal of the device [shuts](Phase::Shut) all endpoints (GEN-015).

mod handle;

use std::sync::{Arc, Weak};
use std::time::Duration;

use iwarp_io::cq::{Untaken, each_run};
use iwarp_io::endpoint::shared_receives::{Membership, ReceiveSupply, Waiter, wake};
use iwarp_io::endpoint::{
    self, Completion, Endpoint, EndpointOptions, Owner, Phase, QueueSizes, Refused, RequestKind,
    Scope, StreamId, WorkQueue,
};
use iwarp_io::planted;
use iwarp_io::progress::domain::Domain;
use netdirect::{CompletionResult, Error, Immediate, QueuePairOptions, Result, Status};
use netdirect_provider::connector::QueuePairOwner;

use crate::core::{BreakableQueue, Core, LingeringQueuePair, PD};
use crate::cq::{CompletedNotifies, Cq, Entry};
use crate::fault_plan;
use crate::leniency::LenientCase;
use crate::options::Profile;
use crate::srq::Srq;
use crate::status::{fail, no_memory, post_error, removed, request_type, result_status};

pub(crate) use endpoint::{Drivers, Signals, Start};
pub(crate) use handle::{ClientQp, QpHandle};

/// The number of results that are placed in their completion queue at a time.
const RESULTS: usize = 16;

/// The connector of a queue pair, which sets up and ends the connection. Called with the queue pair unlocked.
pub(crate) trait ConnectionOwner: QueuePairOwner {
    /// These events have happened to the connection.
    fn signalled(&self, signals: Signals);
}

/// The queue pair itself, shared by its handle, its connector and the drivers.
pub(crate) type Qp = Endpoint<QpOwner>;

pub(crate) type News = endpoint::News<QpOwner>;

/// While a guard exists, the client does not see flushed requests, because NotifyDisconnect has to complete before them
/// (CONN-106).
/// The thread that drops the last guard must not have locked the connector.
pub(crate) type FlushGuard = endpoint::FlushGuard<QpOwner>;

/// The parts of a queue pair other than its connection.
pub(crate) struct QpOwner {
    core: Arc<Core>,
    id: StreamId,
    context: u64,
    receive_cq: Arc<Cq>,
    initiator_cq: Arc<Cq>,
    /// The strict profile holds (AMB-071).
    strict: bool,
    /// The numbers of SGEs that the client asked for: for initiator requests, and for Receives.
    asked_sges: (u32, u32),
    /// The time that a Send of the peer waits for a Receive; unlimited with [`Duration::MAX`].
    receive_wait: Duration,
    shared: Option<Shared>,
}

/// The shared receive queue of a queue pair.
struct Shared {
    srq: Arc<Srq>,
    membership: Membership,
}

/// The data under the queue pair's lock other than its connection.
#[derive(Default)]
pub(crate) struct QpState {
    /// A connector sets up a connection for the queue pair, or has done so.
    claimed: bool,
    connector: Option<Weak<dyn ConnectionOwner>>,
    /// Results on their way from the engine to the queues, in order.
    results: Vec<(bool, Entry)>,
    /// Results that the client has not taken: of initiator requests, and of the queue pair's own Receives.
    untaken: [Untaken; 2],
    queue_notifies: QueueNotifies,
    shared: SharedNews,
}

/// News of the shared receive queue.
#[derive(Default)]
struct SharedNews {
    /// The number of Receives may have fallen below the threshold, or queue pairs may have to be driven.
    look: bool,
    /// The queue pair that gets the Receive promised to this queue pair.
    next: Option<Weak<dyn Waiter>>,
}

/// Notifications to send once the queue pair is unlocked.
pub(crate) struct Notices {
    queue_notifies: QueueNotifies,
    signals: Signals,
    connector: Option<Arc<dyn ConnectionOwner>>,
    shared: SharedNews,
}

/// Requests of Notify of the two completion queues that complete because of placed results.
#[derive(Default)]
struct QueueNotifies {
    receive: Option<CompletedNotifies>,
    initiator: Option<CompletedNotifies>,
}

impl QueueNotifies {
    fn is_empty(&self) -> bool {
        self.receive.is_none() && self.initiator.is_none()
    }

    fn add(of: &mut Option<CompletedNotifies>, notifies: Option<CompletedNotifies>) {
        if let Some(notifies) = notifies {
            *of = Some(match of.take() {
                Some(before) => before.and(notifies),
                None => notifies,
            });
        }
    }
}

impl QpState {
    fn connector(&self) -> Option<Arc<dyn ConnectionOwner>> {
        self.connector.as_ref()?.upgrade()
    }
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
    };
    let driver = Arc::clone(&core.driver);
    let owner = |this: &Weak<Qp>| QpOwner {
        shared: srq.map(|srq| Shared {
            membership: {
                let queue: Weak<Cq> = Arc::downgrade(&receive_cq);
                srq.receives.join(this.clone(), queue)
            },
            srq,
        }),
        core,
        id,
        context: options.context,
        receive_cq,
        initiator_cq,
        strict,
        asked_sges: (
            options.max_initiator_request_sge,
            options.max_receive_request_sge,
        ),
        receive_wait,
    };
    let qp = Endpoint::new(driver, endpoint, owner, QpState::default());
    let short = no_memory(
        Status::INSUFFICIENT_RESOURCES, // ADPT-058, ADPT-073
        "cannot create a queue pair",
    );
    let qp = qp.map_err(short)?;
    let QpOwner {
        receive_cq,
        initiator_cq,
        shared,
        ..
    } = qp.owner();
    let feeder: Weak<Qp> = Arc::downgrade(&qp);
    receive_cq.poller.users.add(feeder.clone());
    if !Arc::ptr_eq(receive_cq, initiator_cq) {
        initiator_cq.poller.users.add(feeder.clone());
    }
    if let Some(shared) = shared {
        shared.srq.users.add(feeder);
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
                Phase::Idle if !state.claimed => {}
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
            state.claimed = true;
            state.connector = Some(connector);
            Ok(())
        })
    }

    fn unclaim(&self) {
        self.with(|phase, state| {
            if phase == Phase::Idle {
                state.claimed = false;
                state.connector = None;
            }
        });
    }
}

impl QpOwner {
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Notes that an initiator request was posted with this many SGEs.
    fn posted_sges(&self, count: usize) {
        self.count_surplus(count, self.asked_sges.0);
    }

    /// Notes that a Receive was posted with this many SGEs.
    fn posted_receive_sges(&self, count: usize) {
        self.count_surplus(count, self.asked_sges.1);
    }

    fn count_surplus(&self, count: usize, asked: u32) {
        if count > asked as usize {
            self.core.leniency.count(LenientCase::SurplusSges); // AMB-009
        }
    }

    /// The time that a Send of the peer waits for a Receive.
    pub(crate) fn receive_wait(&self) -> Duration {
        self.receive_wait
    }

    /// Returns true if the queue pair uses a shared receive queue.
    fn has_shared_receives(&self) -> bool {
        self.shared.is_some()
    }

    fn cq(&self, queue: WorkQueue) -> &Arc<Cq> {
        match queue {
            WorkQueue::Initiator => &self.initiator_cq,
            WorkQueue::Receive => &self.receive_cq,
        }
    }
}

/// Disconnects a queue pair whose handle the client has released (QP-074).
fn released(qp: &Arc<Qp>) {
    let connector = qp.with(|_, state| state.connector());
    if let Some(connector) = connector {
        connector.queue_pair_released();
    }
    // Also ends the Receives of a queue pair that was never connected.
    let (gone, news) = qp.disconnect();
    drop(news);
    if !gone {
        let QpOwner { core, id, .. } = qp.owner();
        let lingering: Arc<dyn LingeringQueuePair> = qp.clone();
        core.linger(*id, lingering);
        // The connection may have ended before `linger` kept the queue pair.
        if qp.is_gone() {
            drop(core.unlinger(*id));
        }
    }
}

/// The client flushes the queue pair (QP-004).
fn flush(qp: &Qp) {
    let connector = qp.with(|phase, state| match phase {
        Phase::Starting => state.connector(),
        _ => None,
    });
    if let Some(connector) = connector {
        connector.queue_pair_flushed();
    }
    qp.flush();
}

impl Owner for QpOwner {
    type State = QpState;
    type Notices = Notices;
    type Receives<'a> = ReceiveSupply<'a>;

    fn receives(&self) -> ReceiveSupply<'_> {
        match &self.shared {
            None => ReceiveSupply::Own,
            Some(shared) => ReceiveSupply::Shared(&shared.membership),
        }
    }

    fn domain(&self, queue: WorkQueue) -> &Arc<Domain> {
        self.cq(queue).poller.domain()
    }

    fn wake(&self, queue: WorkQueue) {
        self.cq(queue).poller.wake();
    }

    fn started(&self, state: &mut QpState) {
        state.results.reserve(RESULTS);
    }

    #[inline]
    fn completed(&self, state: &mut QpState, completion: Completion) {
        let kind = request_type(completion.kind);
        let octets = match completion.immediate {
            None => completion.octets,
            Some(_) => 0, // nothing is placed in the Receive
        };
        let result = CompletionResult::new(kind, completion.context)
            .status(result_status(completion.status))
            .bytes_transferred(octets)
            .queue_pair_context(self.context)
            .immediate(completion.immediate.map(Immediate::from));
        let entry = Entry {
            result,
            solicited: completion.solicited,
        };
        let results = &mut state.results;
        if planted!(ResultLost) && results.len() + 1 == RESULTS {
            return;
        }
        results.push((completion.kind == RequestKind::Receive, entry));
        if planted!(ResultTwice) && results.len() == 3 {
            results.push(results[2]);
        }
        if results.len() == RESULTS {
            self.place(state);
        }
    }

    fn taken(&self, state: &mut QpState, queue: WorkQueue) -> u64 {
        let untaken = &mut state.untaken[usize::from(queue == WorkQueue::Receive)];
        untaken.take_below(self.cq(queue).taken())
    }

    #[inline]
    fn place(&self, state: &mut QpState) {
        if let Some(shared) = &self.shared {
            let receives = &shared.srq.receives;
            state.shared.look |= receives.is_low() || receives.has_due();
        }
        let QpState {
            results,
            untaken,
            queue_notifies,
            ..
        } = state;
        if results.is_empty() {
            return;
        }
        let mut placed = |is_receive, first, count| match &self.shared {
            Some(shared) if is_receive => shared.membership.placed(first, count),
            _ => untaken[usize::from(is_receive)].placed(first, count),
        };
        if Arc::ptr_eq(&self.receive_cq, &self.initiator_cq) {
            let entries = results.iter().map(|(_, entry)| *entry);
            let notifies = self.receive_cq.place(entries, |first, count| {
                if let [(is_receive, _)] = results[..] {
                    return placed(is_receive, first, 1); // most of the time
                }
                let kinds = results[..count].iter().map(|(is_receive, _)| *is_receive);
                each_run(first, kinds, placed);
            });
            QueueNotifies::add(&mut queue_notifies.receive, notifies);
        } else {
            let of = |receive| {
                let results = results.iter();
                results
                    .filter(move |(is, _)| *is == receive)
                    .map(|(_, entry)| *entry)
            };
            let (initiator, receive) = (
                self.initiator_cq.place(of(false), |first, count| {
                    placed(false, first, count as u64);
                }),
                self.receive_cq
                    .place(of(true), |first, count| placed(true, first, count as u64)),
            );
            QueueNotifies::add(&mut queue_notifies.initiator, initiator);
            QueueNotifies::add(&mut queue_notifies.receive, receive);
        }
        results.clear();
    }

    fn has_notices(state: &QpState) -> bool {
        !state.queue_notifies.is_empty() || state.shared.look || state.shared.next.is_some()
    }

    fn take_notices(&self, state: &mut QpState, signals: Signals) -> Notices {
        Notices {
            queue_notifies: std::mem::take(&mut state.queue_notifies),
            signals,
            connector: if signals.is_empty() {
                None
            } else {
                state.connector()
            },
            shared: std::mem::take(&mut state.shared),
        }
    }

    fn deliver(&self, notices: Notices) {
        let Notices {
            queue_notifies,
            signals,
            connector,
            shared,
        } = notices;
        if let Some(notifies) = queue_notifies.receive {
            self.receive_cq.deliver(notifies);
        }
        if let Some(notifies) = queue_notifies.initiator {
            self.initiator_cq.deliver(notifies);
        }
        if let Some(own) = &self.shared
            && shared.look
        {
            own.srq.look();
        }
        wake(shared.next);
        if let Some(connector) = connector {
            connector.signalled(signals);
        }
        if signals.contains(Signals::GONE) {
            drop(self.core.unlinger(self.id));
        }
    }

    fn stalled(&self, _: &mut QpState) {
        if self.shared.is_none() {
            self.core.leniency.count(LenientCase::ReceiveWait); // AMB-008
        }
    }

    /// Passes on a Receive that was promised to this queue pair to another queue pair (SRQ-039).
    fn draws_no_more(&self, state: &mut QpState) {
        if let Some(shared) = &self.shared
            && let Some(next) = shared.membership.step_back()
        {
            debug_assert!(
                state.shared.next.is_none(),
                "one promised Receive was passed on twice"
            );
            state.shared.next = Some(next);
        }
    }

    /// Returns true if the passive side may send while the peer has not sent anything. Some adapters refuse such a Send (AMB-040, AMB-071).
    fn may_speak_first(&self, _: &mut QpState) -> bool {
        if !self.strict {
            self.core.leniency.count(LenientCase::PassiveFirst);
        }
        !self.strict
    }

    /// Breaks down both completion queues for a fault plan, at a time when no lock is held.
    #[cold]
    fn break_queues(&self, status: &str) {
        if let Some(status) = fault_plan::status(status) {
            for queue in [&self.receive_cq, &self.initiator_cq] {
                let queue = Arc::downgrade(&(Arc::clone(queue) as Arc<dyn BreakableQueue>));
                self.core.break_soon(queue, status);
            }
        }
    }
}

/// The event that a stalled queue pair waits for, in words.
fn waits(qp: &Qp) -> Option<String> {
    let stalled = qp.is_stalled()?;
    stalled.then(|| "a Send of the peer waits for a Receive of a queue pair".to_owned())
}

impl LingeringQueuePair for Qp {
    /// Resets the stream, and completes all outstanding requests with ND_CANCELED. The connector has been notified before.
    fn device_removed(&self) {
        drop(self.shut());
    }
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
