//! softnd's part of a queue pair's handle. Converts requests to the engine's types.

use std::sync::Arc;

use iwarp_io::endpoint::{self as engine, InitiatorWqe, Operation, Payload, RemoteRights};
use iwarp_io::memory::{BindError, STag, WindowBind};
use netdirect::{
    AtomicOp, ConnectionEnd, OpFlags, QueuePairOptions, RemoteAddress, Result, Sge, Status,
};
use netdirect_provider::ProviderAdapter;
use netdirect_provider::queue_pair::{
    QueuePairHandle, QueuePairLine, Request, Source, WindowRange, outside_region,
};
use netdirect_provider::removal::{DeviceObject, RemovalOrder};

use super::Qp;
use crate::connection_end;
use crate::core::{Core, NetworkHold};
use crate::cq::Cq;
use crate::device::DeviceListEntry;
use crate::mr::RegisteredBuffer;
use crate::mw::Window;
use crate::sge::{self, with_sges};
use crate::srq::Srq;
use crate::status::fail;

/// The client's reference to a queue pair.
pub(crate) type QpHandle = QueuePairHandle<ClientQp>;

/// softnd's part of a queue pair's handle. Dropping it disconnects the queue pair.
#[derive(Debug)]
pub(crate) struct ClientQp(
    pub(crate) Arc<Qp>,
    #[expect(dead_code, reason = "kept until it is dropped")] (DeviceListEntry, NetworkHold),
);

impl ClientQp {
    pub(crate) fn new(
        core: Arc<Core>,
        receive: Arc<Cq>,
        initiator: Arc<Cq>,
        srq: Option<Arc<Srq>>,
        options: &QueuePairOptions,
        hold: NetworkHold,
    ) -> Result<Self> {
        let qp = super::new(core, receive, initiator, srq, options)?;
        let object = DeviceObject::new(&qp, super::device_removed, super::waits);
        let entry = qp.owner().core().list(RemovalOrder::QueuePair, object)?;
        Ok(Self(qp, (entry, hold)))
    }

    /// Posts a request of a kind that few programs post often.
    #[inline(never)]
    fn post_seldom(
        &self,
        context: u64,
        operation: Operation<Payload<'_>>,
        flags: OpFlags,
    ) -> Result<()> {
        self.post_operation(context, operation, flags)
    }

    /// Inlined, with all functions that it calls until the request is in its queue, so that each kind of request has its own code, which
    /// does not check the kind.
    #[inline(always)]
    fn post_operation(
        &self,
        context: u64,
        operation: Operation<Payload<'_>>,
        flags: OpFlags,
    ) -> Result<()> {
        let silent = flags.contains(OpFlags::SILENT_SUCCESS);
        let fence = flags.contains(OpFlags::READ_FENCE);
        let wqe = InitiatorWqe {
            context,
            operation,
            silent,
            fence,
        };
        self.0.post(wqe).map_err(super::refused)
    }

    /// Posts a request with SGEs, which `operation` gets converted to the engine's type.
    #[inline(always)]
    fn post_sges(
        &self,
        context: u64,
        sges: &[Sge],
        flags: OpFlags,
        operation: impl for<'a> FnOnce(Payload<'a>) -> Operation<Payload<'a>>,
    ) -> Result<()> {
        let post = |sges: &[_]| self.post_operation(context, operation(Payload::Sges(sges)), flags);
        with_sges(sges, post, |count| super::posted_sges(&self.0, count))
    }
}

impl Drop for ClientQp {
    fn drop(&mut self) {
        super::released(&self.0);
    }
}

fn remote(address: RemoteAddress) -> engine::RemoteAddress {
    engine::RemoteAddress {
        stag: STag(address.token.to_host()),
        to: address.address,
    }
}

/// The engine's form of an operation. An operation that the traits have and this provider does not know is refused.
fn atomic(op: AtomicOp) -> Result<engine::AtomicOp> {
    Ok(match op {
        AtomicOp::FetchAdd { add, mask } => engine::AtomicOp::FetchAdd { add, mask },
        AtomicOp::CompareSwap {
            compare,
            compare_mask,
            swap,
            swap_mask,
        } => engine::AtomicOp::CompareSwap {
            compare,
            compare_mask,
            swap,
            swap_mask,
        },
        _ => {
            return fail(
                Status::NOT_SUPPORTED,
                "softnd does not have this Atomic: take FetchAdd or CompareSwap",
            );
        }
    })
}

impl QueuePairLine for ClientQp {
    type Adapter = Core;
    type Registration = RegisteredBuffer;
    type Window = Window;
    type Bind = WindowBind;

    fn adapter(&self) -> &Arc<Core> {
        self.0.owner().core()
    }

    #[inline]
    fn has_shared_receives(&self) -> bool {
        self.0.owner().has_shared_receives()
    }

    fn flush(&self) {
        super::flush(&self.0);
    }

    fn connection_end(&self) -> Option<ConnectionEnd> {
        connection_end::of_queue_pair(&self.0)
    }

    #[inline]
    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        let post = |sges: &[_]| self.0.post_receive(context, sges).map_err(super::refused);
        with_sges(sges, post, |count| {
            super::posted_receive_sges(&self.0, count);
        })
    }

    #[inline(always)]
    fn post(&self, context: u64, request: Request<'_>, flags: OpFlags) -> Result<()> {
        let solicited = flags.contains(OpFlags::SEND_AND_SOLICIT_EVENT);
        let invalidate = None;
        match request {
            Request::Send(Source::Sges(sges)) => {
                self.post_sges(context, sges, flags, |data| Operation::Send {
                    data,
                    solicited,
                    invalidate,
                })
            }
            Request::Send(Source::Inline(data)) => {
                let send = Operation::Send {
                    data: Payload::Inline(data),
                    solicited,
                    invalidate,
                };
                self.post_operation(context, send, flags)
            }
            Request::Write(Source::Sges(sges), to) => {
                let remote = remote(to);
                self.post_sges(context, sges, flags, |data| Operation::Write {
                    data,
                    remote,
                })
            }
            Request::Write(Source::Inline(data), to) => {
                let (data, remote) = (Payload::Inline(data), remote(to));
                self.post_operation(context, Operation::Write { data, remote }, flags)
            }
            Request::Read(sges, from) => {
                let remote = remote(from);
                let posted = self.post_sges(context, sges, flags, |sink| Operation::Read {
                    sink,
                    remote,
                });
                let leniency = &self.0.owner().core().leniency;
                leniency.tell_read_sink(|| self.0.span());
                posted
            }
            Request::SendImmediate(data) => {
                let Some(data) = data.eight() else {
                    return fail(
                        Status::INVALID_PARAMETER_2,
                        "iWARP carries Immediate Data of 8 octets only",
                    ); // RFC 7306 §6.1
                };
                self.post_seldom(context, Operation::Immediate { data, solicited }, flags)
            }
            Request::Atomic(op, sink, target) => {
                let operation = Operation::Atomic {
                    op: atomic(op)?,
                    sink: Payload::Sges(&[sge::engine(sink)]),
                    remote: remote(target),
                };
                let posted = self.post_seldom(context, operation, flags);
                let leniency = &self.0.owner().core().leniency;
                leniency.tell_read_sink(|| self.0.span());
                posted
            }
        }
    }

    fn prepare_bind(
        &self,
        registered: &RegisteredBuffer,
        window: &Window,
        range: WindowRange,
    ) -> Result<WindowBind> {
        let WindowRange {
            address,
            length,
            read,
            write,
        } = range;
        // ND2 has no flag for Atomics.
        let rights = RemoteRights::with_both(read, write);
        let bind = (window.window).prepare(&registered.0, address, length, rights);
        bind.or_else(|error| match error {
            BindError::Access => Err(outside_region()),
            BindError::InvalidState => fail(
                Status::INSUFFICIENT_RESOURCES,
                "the adapter has no token left for the window; release unused regions and windows",
            ),
        })
    }

    fn bind(
        &self,
        context: u64,
        window: &Arc<Window>,
        bind: WindowBind,
        flags: OpFlags,
    ) -> Result<()> {
        self.post_seldom(context, Operation::Bind(bind), flags)
            .inspect_err(|_| window.window.cancel(bind.stag))
    }

    fn invalidate(&self, context: u64, window: &Arc<Window>, flags: OpFlags) -> Result<()> {
        self.post_seldom(context, Operation::Invalidate(window.window.id()), flags)
    }
}
