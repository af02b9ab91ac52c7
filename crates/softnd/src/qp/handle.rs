//! The client's reference to a queue pair. Checks the arguments of calls and converts them to the engine's types.

use std::sync::Arc;

use iwarp_io::endpoint::{self as engine, InitiatorWqe, Operation, Payload};
use iwarp_io::memory::{BindError, STag};
use netdirect::{
    AtomicOp, Error, Immediate, MemoryRegion, MemoryWindow, OpFlags, QueuePair,
    QueuePairExtensions, QueuePairOptions, RemoteAddress, Result, Sge, Status,
};
use netdirect_provider::checks::{flags, own};
use netdirect_provider::owned;

use super::Qp;
use crate::core::{Core, NetworkHold};
use crate::cq::Cq;
use crate::device::{DeviceListEntry, DeviceObject, RemovalOrder};
use crate::mr::Region;
use crate::mw::Window;
use crate::sge::{self, with_sges};
use crate::srq::Srq;
use crate::status::fail;

/// The client's reference to a queue pair. Releasing the handle disconnects the queue pair.
#[derive(Debug)]
pub(crate) struct QpHandle(
    pub(crate) Arc<Qp>,
    #[expect(dead_code, reason = "kept until it is dropped")] (DeviceListEntry, NetworkHold),
);

impl QpHandle {
    pub(crate) fn new(
        core: Arc<Core>,
        receive: Arc<Cq>,
        initiator: Arc<Cq>,
        srq: Option<Arc<Srq>>,
        options: &QueuePairOptions,
        hold: NetworkHold,
    ) -> Result<Self> {
        let device = Arc::clone(&core.device);
        let qp = super::new(core, receive, initiator, srq, options)?;
        let this = Arc::downgrade(&(Arc::clone(&qp) as Arc<dyn DeviceObject>));
        let entry = device.add_object(RemovalOrder::QueuePair, this)?;
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
        self.post(context, operation, flags)
    }

    /// Inlined, with all that it calls until the request is in its queue, so that each kind of request has code of its own, which does
    /// not ask for the kind.
    #[inline(always)]
    fn post(&self, context: u64, operation: Operation<Payload<'_>>, flags: OpFlags) -> Result<()> {
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

    /// Calls `post` with the SGEs converted to the engine's type.
    #[inline(always)]
    fn with_sges(
        &self,
        sges: &[Sge],
        post: impl FnOnce(&[engine::Sge]) -> Result<()>,
    ) -> Result<()> {
        with_sges(sges, post, |count| self.0.owner().posted_sges(count))
    }
}

impl Drop for QpHandle {
    fn drop(&mut self) {
        super::released(&self.0);
    }
}

owned!(QpHandle of Core: |qp| qp.0.owner().core());

fn remote(address: RemoteAddress) -> engine::RemoteAddress {
    engine::RemoteAddress {
        stag: STag(u32::from_be(address.token.0)),
        to: address.address,
    }
}

impl QueuePair for QpHandle {
    fn flush(&self) -> Result<()> {
        super::flush(&self.0);
        Ok(())
    }

    fn send(&self, context: u64, sges: &[Sge], flags: OpFlags) -> Result<()> {
        flags::send(flags)?;
        let solicited = flags.contains(OpFlags::SEND_AND_SOLICIT_EVENT);
        self.with_sges(sges, |sges| {
            let operation = Operation::Send {
                data: Payload::Sges(sges),
                solicited,
                invalidate: None,
            };
            self.post(context, operation, flags)
        })
    }

    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        if self.0.owner().has_shared_receives() {
            return fail(
                Status::INVALID_DEVICE_REQUEST,
                "the queue pair uses a shared receive queue: post the Receive to that queue",
            ); // QP-032, AMB-050
        }
        let post = |sges: &[_]| self.0.post_receive(context, sges).map_err(super::refused);
        with_sges(sges, post, |count| {
            self.0.owner().posted_receive_sges(count)
        })
    }

    fn bind(
        &self,
        context: u64,
        region: &Arc<dyn MemoryRegion>,
        window: &Arc<dyn MemoryWindow>,
        address: u64,
        length: u64,
        flags: OpFlags,
    ) -> Result<()> {
        flags::bind(flags)?;
        let region = own::memory_region::<Region>(region, self.0.owner().core())?;
        let window = own::memory_window::<Window>(
            window,
            self.0.owner().core(),
            Status::INVALID_PARAMETER_3,
        )?;
        let read = flags.contains(OpFlags::ALLOW_READ);
        let write = flags.contains(OpFlags::ALLOW_WRITE);
        let prepared = region
            .with(|registered| {
                window
                    .window
                    .prepare(&registered.0, address, length, read, write)
            })
            .ok_or_else(|| {
                Error::new(
                    Status::INVALID_PARAMETER_2,
                    "the memory region has no registered buffer; register a buffer first",
                )
            })?; // AMB-011
        let bind = match prepared {
            Ok(bind) => bind,
            Err(BindError::Access) => {
                return fail(
                    Status::ACCESS_VIOLATION,
                    "the range lies outside the memory region, or the memory region does not have these rights",
                ); // QP-038
            }
            Err(BindError::InvalidState) => {
                return fail(
                    Status::INSUFFICIENT_RESOURCES,
                    "the adapter has no token left for the window; release unused regions and windows",
                );
            }
        };
        self.post_seldom(context, Operation::Bind(bind), flags)
            .inspect_err(|_| window.window.cancel(bind.stag))
    }

    fn invalidate(
        &self,
        context: u64,
        window: &Arc<dyn MemoryWindow>,
        flags: OpFlags,
    ) -> Result<()> {
        flags::invalidate(flags)?;
        let window = own::memory_window::<Window>(
            window,
            self.0.owner().core(),
            Status::INVALID_PARAMETER_2,
        )?;
        self.post_seldom(context, Operation::Invalidate(window.window.id()), flags)
    }

    fn read(&self, context: u64, sges: &[Sge], from: RemoteAddress, flags: OpFlags) -> Result<()> {
        flags::read_or_write(flags)?;
        self.with_sges(sges, |sink| {
            self.post(
                context,
                Operation::Read {
                    sink: Payload::Sges(sink),
                    remote: remote(from),
                },
                flags,
            )
        })
    }

    fn write(&self, context: u64, sges: &[Sge], to: RemoteAddress, flags: OpFlags) -> Result<()> {
        flags::read_or_write(flags)?;
        self.with_sges(sges, |sges| {
            self.post(
                context,
                Operation::Write {
                    data: Payload::Sges(sges),
                    remote: remote(to),
                },
                flags,
            )
        })
    }

    fn send_inline(&self, context: u64, data: &[&[u8]], flags: OpFlags) -> Result<()> {
        flags::send_inline(flags)?;
        let solicited = flags.contains(OpFlags::SEND_AND_SOLICIT_EVENT);
        let operation = Operation::Send {
            data: Payload::Inline(data),
            solicited,
            invalidate: None,
        };
        self.post(context, operation, flags)
    }

    fn write_inline(
        &self,
        context: u64,
        data: &[&[u8]],
        to: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        flags::write_inline(flags)?;
        self.post(
            context,
            Operation::Write {
                data: Payload::Inline(data),
                remote: remote(to),
            },
            flags,
        )
    }

    fn extensions(&self) -> Option<&dyn QueuePairExtensions> {
        Some(self)
    }
}

impl QueuePairExtensions for QpHandle {
    fn send_immediate(&self, context: u64, data: Immediate, flags: OpFlags) -> Result<()> {
        let Some(data) = data.eight() else {
            return fail(
                Status::INVALID_PARAMETER_2,
                "iWARP carries Immediate Data of 8 octets only",
            ); // RFC 7306 §6.1
        };
        flags::send_immediate(flags)?;
        let solicited = flags.contains(OpFlags::SEND_AND_SOLICIT_EVENT);
        self.post_seldom(context, Operation::Immediate { data, solicited }, flags)
    }

    fn atomic(
        &self,
        context: u64,
        op: AtomicOp,
        sink: &Sge,
        target: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        flags::atomic(flags)?;
        let op = match op {
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
        };
        let operation = Operation::Atomic {
            op,
            sink: Payload::Sges(&[sge::engine(sink)]),
            remote: remote(target),
        };
        self.post_seldom(context, operation, flags)
    }
}
