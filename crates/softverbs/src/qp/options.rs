//! The properties that a queue pair is made with.

use std::sync::Arc;

use crate::cq::CompletionQueue;
use crate::device::limits;
use crate::error::{Errno, Result, fail};
use crate::srq::SharedReceiveQueue;

/// The octets of an SGE in the queues of most devices.
const SGE_OCTETS: u32 = 16;

/// The service of a queue pair, with the values of `enum ibv_qp_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Service {
    /// `IBV_QPT_RC`: messages arrive once and in order, or the queue pair fails.
    #[default]
    Reliable = 2,
    /// `IBV_QPT_UC`: messages arrive in order, and those that the peer cannot take are dropped.
    Unreliable = 3,
    /// `IBV_QPT_UD`: each message is a datagram that names its receiver, and may get lost.
    Datagram = 4,
}

/// The properties of a new queue pair, as in `struct ibv_qp_init_attr`.
#[derive(Clone, Debug)]
pub struct QpOptions {
    /// The service.
    pub service: Service,
    /// The completion queue of requests of the send queue.
    pub send_cq: Arc<CompletionQueue>,
    /// The completion queue of Receives.
    pub receive_cq: Arc<CompletionQueue>,
    /// The queue that Receives come from, if not the queue pair's own queue.
    pub srq: Option<Arc<SharedReceiveQueue>>,
    /// The sizes.
    pub caps: QpCaps,
    /// Every request of the send queue yields a completion (`sq_sig_all`).
    pub signal_all: bool,
}

/// The sizes of a queue pair, as in `struct ibv_qp_cap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCaps {
    /// Requests in the send queue.
    pub max_send_wr: u32,
    /// Receives.
    pub max_recv_wr: u32,
    /// SGEs of a request in the send queue.
    pub max_send_sge: u32,
    /// SGEs of a Receive.
    pub max_recv_sge: u32,
    /// Octets of inline data. A queue pair is granted at least 16 for each SGE of a request, up to the device's limit.
    pub max_inline_data: u32,
}

impl QpCaps {
    /// Grants the inline data for which drivers find room in the SGEs of a request: programs send as much without having asked for it.
    pub(super) fn grant_inline(&mut self) {
        let room = self.max_send_sge * SGE_OCTETS;
        self.max_inline_data = self.max_inline_data.max(room.min(limits::INLINE));
    }

    pub(super) fn check(self) -> Result<()> {
        let limits = [
            ("max_send_wr", self.max_send_wr, limits::REQUESTS),
            ("max_recv_wr", self.max_recv_wr, limits::REQUESTS),
            ("max_send_sge", self.max_send_sge, limits::SGES),
            ("max_recv_sge", self.max_recv_sge, limits::SGES),
            ("max_inline_data", self.max_inline_data, limits::INLINE),
        ];
        for (name, wanted, most) in limits {
            if wanted > most {
                return fail(
                    Errno::INVAL,
                    format!("{name} is {wanted}; the device allows {most}"),
                );
            }
        }
        Ok(())
    }
}
