//! Requests that a program posts to a queue pair.

use std::sync::atomic::Ordering;

use iwarp_io::endpoint::{AtomicOp, InitiatorWqe, Operation, Payload, Posts, Refused};
use iwarp_io::memory::STag;

use super::connected::Connected;
use super::options::Service;
use super::owner::QpOwner;
use super::request::{SendData, SendOperation, SendRequest};
use super::state::QpState;
use super::{Carrier, QueuePair};
use crate::device::DeviceKind;
use crate::error::{Errno, Error, Result, fail};
use crate::sge::{Sge, post_error, with_sges};

impl QueuePair {
    /// Posts a request to the send queue.
    ///
    /// # Errors
    ///
    /// EINVAL before RTS, for too many SGEs or octets, for a datagram longer than the port's MTU or without a destination, for inline data of a Read or an Atomic, and for an Atomic that has not one SGE of 8
    /// octets; ENOMEM when the queue is full: a request has its slot
    /// until the program has taken its completion, or, without one, until it is done. EOPNOTSUPP for a Send with a number on devices for
    /// iWARP, and once the peer is known not to take it. In error a request is accepted and comes back flushed.
    #[inline]
    pub fn post_send(&self, request: &SendRequest<'_>) -> Result<()> {
        let connected = match &self.carrier {
            Carrier::Connected(connected) => connected,
            Carrier::Datagrams(pair) => return pair.post(request),
        };
        self.check_may_post(connected, request)?;
        self.with_wqe(request, |wqe| connected.endpoint.post(wqe).map_err(refused))
    }

    /// Posts a list of requests to the send queue, which are sent together.
    pub fn post_sends(&self) -> SendList<'_> {
        let posts = match &self.carrier {
            Carrier::Connected(connected) => Some((connected, connected.endpoint.posts())),
            Carrier::Datagrams(_) => None,
        };
        SendList { qp: self, posts }
    }

    #[inline(always)]
    fn check_may_post(&self, connected: &Connected, request: &SendRequest<'_>) -> Result<()> {
        use SendOperation::{Send, Write, WriteImmediate};
        if !matches!(request.operation, Send | Write(_) | WriteImmediate(..)) {
            self.check_operation(&request.operation)?;
        }
        if connected.endpoint.owner().state.load(Ordering::Acquire) < QpState::Rts as u8 {
            return fail(
                Errno::INVAL,
                "requests are posted to a queue pair in RTS: connect the queue pair first",
            );
        }
        Ok(())
    }

    /// Devices for iWARP have no Sends with a number, and unreliable queue pairs nothing that the peer answers.
    #[inline(never)]
    fn check_operation(&self, operation: &SendOperation) -> Result<()> {
        let is_number = matches!(operation, SendOperation::SendImmediate(_));
        if is_number && self.kind() == DeviceKind::Iwarp {
            return fail(
                Errno::OPNOTSUPP,
                "iWARP has no Sends with a number: use a Write with a number, or devices for RoCE at both ends",
            );
        }
        if !is_number && self.options.service == Service::Unreliable {
            return fail(
                Errno::INVAL,
                "an unreliable queue pair (IBV_QPT_UC) sends and writes, and does nothing else",
            );
        }
        Ok(())
    }

    /// Calls `post` with the engine's form of a request.
    #[inline(always)]
    fn with_wqe(
        &self,
        request: &SendRequest<'_>,
        post: impl FnOnce(InitiatorWqe<'_>) -> Result<()>,
    ) -> Result<()> {
        match request.data {
            SendData::Inline(pieces) => post(self.wqe(request, Payload::Inline(pieces))),
            SendData::Sges(sges) => {
                with_sges(sges, |sges| post(self.wqe(request, Payload::Sges(sges))))
            }
        }
    }

    #[inline(always)]
    fn wqe<'a>(&self, request: &SendRequest<'_>, data: Payload<'a>) -> InitiatorWqe<'a> {
        let operation = match request.operation {
            SendOperation::Send => Operation::Send {
                data,
                solicited: request.solicited,
                invalidate: None,
            },
            SendOperation::SendInvalidate(rkey) => Operation::Send {
                data,
                solicited: request.solicited,
                invalidate: Some(STag(rkey)),
            },
            SendOperation::SendImmediate(number) => Operation::SendImmediate {
                data,
                number,
                solicited: request.solicited,
            },
            SendOperation::Write(place) => Operation::Write {
                data,
                remote: place.into(),
            },
            SendOperation::WriteImmediate(place, number) => Operation::WriteImmediate {
                data,
                remote: place.into(),
                immediate: immediate_data(number),
                solicited: request.solicited,
            },
            SendOperation::Read(place) => Operation::Read {
                sink: data,
                remote: place.into(),
            },
            SendOperation::CompareSwap(place, compare, swap) => Operation::Atomic {
                op: AtomicOp::compare_swap(compare, swap),
                sink: data,
                remote: place.into(),
            },
            SendOperation::FetchAdd(place, add) => Operation::Atomic {
                op: AtomicOp::add(add),
                sink: data,
                remote: place.into(),
            },
        };
        InitiatorWqe {
            context: request.wr_id,
            operation,
            silent: !(request.signaled || self.options.signal_all),
            fence: request.fence,
        }
    }

    /// Posts a Receive.
    ///
    /// # Errors
    ///
    /// EINVAL in RESET, for too many SGEs, and if the queue pair uses a shared receive queue; ENOMEM when the queue is full: a Receive
    /// has its slot until the program has taken its completion. In error a Receive is accepted and comes back flushed.
    pub fn post_receive(&self, wr_id: u64, sges: &[Sge]) -> Result<()> {
        let endpoint = match &self.carrier {
            Carrier::Connected(connected) => &connected.endpoint,
            Carrier::Datagrams(pair) => return pair.post_receive(wr_id, sges),
        };
        let owner = endpoint.owner();
        if owner.queues.shared.is_some() {
            return fail(
                Errno::INVAL,
                "the queue pair uses a shared receive queue: post the Receive to that queue",
            );
        }
        if owner.state.load(Ordering::Acquire) == QpState::Reset as u8 {
            return fail(
                Errno::INVAL,
                "Receives are posted to a queue pair in INIT or later",
            );
        }
        with_sges(sges, |sges| {
            endpoint.post_receive(wr_id, sges).map_err(refused)
        })
    }
}

/// A list of requests for the send queue, which is locked meanwhile. They are sent together when the list is dropped, at the latest.
#[derive(Debug)]
pub struct SendList<'a> {
    qp: &'a QueuePair,
    /// Those of a connected queue pair. Datagrams are sent one by one.
    posts: Option<(&'a Connected, Posts<'a, QpOwner>)>,
}

impl SendList<'_> {
    /// Posts one more request. Those before it stay posted if this one fails.
    ///
    /// # Errors
    ///
    /// See [`QueuePair::post_send`].
    #[inline]
    pub fn post(&mut self, request: &SendRequest<'_>) -> Result<()> {
        let Self { qp, posts } = self;
        let Some((connected, posts)) = posts else {
            return qp.post_send(request);
        };
        qp.check_may_post(connected, request)?;
        qp.with_wqe(request, |wqe| posts.post(wqe).map_err(refused))
    }
}

/// The Immediate Data of a Write: the program's number, then zeros.
pub(super) fn immediate_data(number: [u8; 4]) -> [u8; 8] {
    let mut data = [0; 8];
    data[..4].copy_from_slice(&number);
    data
}

/// The error of a refused request.
#[cold]
fn refused(refused: Refused) -> Error {
    match refused {
        Refused::Shut | Refused::SpeaksFirst => Error::new(Errno::IO, "the queue pair has ended"),
        Refused::Request(error) => post_error(error),
    }
}
