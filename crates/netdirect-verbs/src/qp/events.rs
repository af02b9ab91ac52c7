//! What a queue pair does when its completion queues, the device and the adapter's thread call it.

use netdirect::{Immediate, RequestType, Status};

use super::{Qp, QpPhase, QpState};
use crate::connection_end;
use crate::cq::CqUser;
use crate::device::DeviceQueuePair;
use crate::driver::Timed;
use crate::handle::{QueuePairError, WorkCompletion, immediate, invalidated_key};
use crate::slots::{End, RECEIVE, Slot};
use crate::status::completion_status;
use crate::sys::bindings as c;

impl CqUser for Qp {
    fn completed(&self, completion: &WorkCompletion) -> bool {
        let is_receive = completion.wr_id & RECEIVE != 0;
        let number = completion.wr_id & !RECEIVE;
        let mut state = self.state.lock();
        if is_receive
            && completion.status == c::IBV_WC_SUCCESS
            && let Some(key) = invalidated_key(completion)
        {
            state.peer_has_invalidated(key);
        }
        let was_flushed = completion.status == c::IBV_WC_WR_FLUSH_ERR;
        let srq = self.srq.as_ref().filter(|_| is_receive);
        let mut is_denied = false;
        let waits = matches!(state.phase, QpPhase::Idle | QpPhase::Claimed);
        if was_flushed && waits && srq.is_none() {
            // After an attempt that failed the Receives are posted again.
            return false;
        }
        if let Some(srq) = srq {
            // Its number is that of a Receive of the shared queue, whose slot moves here.
            if let Some(context) = srq.take(completion.wr_id) {
                let slot = state
                    .receives
                    .push(Slot::new(RequestType::Receive, context));
                let vague = self.vague(&state, RequestType::Receive, false);
                let end = end_of(RequestType::Receive, completion, vague);
                state.receives.end(slot, end, false);
            }
        } else {
            let in_order = !self.core.needs.completes_out_of_order;
            let known = if is_receive {
                state.receives.get(number)
            } else {
                state.initiator.get(number)
            };
            if let Some((kind, denied)) = known.map(|slot| (slot.kind, slot.denied)) {
                is_denied = denied;
                let end = end_of(kind, completion, self.vague(&state, kind, denied));
                let slots = if is_receive {
                    &mut state.receives
                } else {
                    &mut state.initiator
                };
                slots.end(number, end, in_order);
            }
        }
        let mut ends = false;
        if completion.status != c::IBV_WC_SUCCESS {
            let reason = connection_end::of_completion(completion, &self.core.needs, is_denied);
            if let Some(reason) = reason {
                state.note(reason);
            }
            ends = self.notice_end(&mut state);
        }
        self.place(&mut state);
        ends || is_receive && self.srq.is_some()
    }

    /// The connector learns of the end of the connection before the client sees flushed requests.
    fn tell(&self) {
        let owner = {
            let mut state = self.state.lock();
            let tells = std::mem::take(&mut state.tells_end);
            tells.then(|| state.owner.clone())
        };
        if let Some(owner) = owner {
            if let Some(owner) = owner {
                owner.connection_ended();
            }
            for cq in self.queues() {
                cq.release();
            }
        }
        if let Some(srq) = &self.srq {
            srq.look();
        }
    }

    fn queue_broke(&self) {
        self.note(connection_end::of_broken_queue());
        self.tell_of_end(|_| true);
        self.begin_end(QpPhase::Ended);
        self.end(QpPhase::Ended);
    }
}

/// The end that a result reports. `vague` is the status of initiator requests for a driver that fails them for one and the same reason.
fn end_of(kind: RequestType, completion: &WorkCompletion, vague: Option<Status>) -> End {
    let status = match (vague, completion.status) {
        (Some(status), c::IBV_WC_LOC_QP_OP_ERR) if kind.allows(status) => status,
        (Some(_), c::IBV_WC_GENERAL_ERR) if kind.allows(Status::ACCESS_VIOLATION) => {
            Status::ACCESS_VIOLATION
        }
        (_, status) => completion_status(kind, status),
    };
    let succeeded = status == Status::SUCCESS;
    let has_immediate = succeeded && completion.wc_flags & c::IBV_WC_WITH_IMM != 0;
    End {
        status,
        // The octets of a Write with Immediate Data are elsewhere.
        octets: if succeeded
            && kind == RequestType::Receive
            && completion.opcode != c::IBV_WC_RECV_RDMA_WITH_IMM
        {
            completion.byte_len
        } else {
            0
        },
        immediate: has_immediate.then(|| Immediate::from(immediate(completion))),
    }
}

impl DeviceQueuePair for Qp {
    fn last_receive_ended(&self, number: u32) {
        self.drained(|draining| draining.raw.number() == number);
    }

    /// On iWARP the driver ends the connection then, and the connection manager reports it. On InfiniBand neither does, and if no request
    /// is outstanding, no result reports the failure.
    fn queue_pair_failed(&self, number: u32, error: QueuePairError) {
        let is_this = |state: &QpState| {
            let raw = state.raw.as_ref();
            raw.is_some_and(|raw| raw.number() == number)
        };
        let is_iwarp = self.core.limits.is_iwarp;
        if is_iwarp && self.core.needs.fails_vaguely || !is_this(&self.state.lock()) {
            return;
        }
        // A request that has failed says more.
        self.poll();
        if let Some(reason) = connection_end::of_queue_pair(error, is_iwarp) {
            self.note(reason);
        }
        if !is_iwarp {
            self.tell_of_end(is_this);
        }
    }
}

impl Timed for Qp {
    fn time_is_up(&self, key: u64) {
        self.drained(|draining| draining.deadline.1 == key);
    }
}
