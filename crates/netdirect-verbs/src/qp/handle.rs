//! The client's reference to a queue pair: checks of arguments, and their conversion to what the device takes.

use std::sync::Arc;

use netdirect::{
    AtomicOp, Capabilities, Immediate, MemoryRegion, MemoryWindow, OpFlags, QueuePair,
    QueuePairExtensions, RemoteAddress, RequestType, Result, Sge, Status,
};
use netdirect_provider::checks::{flags, own};
use netdirect_provider::{ProviderAdapter, owned};

use super::Qp;
use crate::core::Core;
use crate::entries::{NotPosted, Posting, with_entries};
use crate::handle::{
    Access, Operation, PostFailure, RemoteMemory, SendRequest, WindowBind, WindowRange,
};
use crate::mr::Region;
use crate::mw::{ToInvalidate, Window, WindowBinding, WindowState};
use crate::status::fail;

/// The client's reference to a queue pair. Releasing it disconnects the queue pair.
#[derive(Debug)]
pub(crate) struct QpHandle(pub(crate) Arc<Qp>);

impl Drop for QpHandle {
    fn drop(&mut self) {
        self.0.released();
    }
}

owned!(QpHandle of Core: |qp| qp.0.core());

fn remote(address: RemoteAddress) -> RemoteMemory {
    RemoteMemory {
        address: address.address,
        key: address.token.to_host(),
    }
}

/// A request that the driver has, although it could not tell the device, ends with the connection.
fn queued(posted: Result<(), PostFailure>) -> Result<(), PostFailure> {
    posted.or_else(|failure| match failure.is_queued {
        true => Ok(()),
        false => Err(failure),
    })
}

impl QpHandle {
    fn capabilities(&self) -> Capabilities {
        self.0.core().capabilities()
    }

    /// A Bind or an Invalidate.
    fn of_window(context: u64, kind: RequestType, flags: OpFlags) -> Posting {
        Posting {
            context,
            kind,
            silent: flags.contains(OpFlags::SILENT_SUCCESS),
            sges: (0, 0),
            octets: (0, 0),
            denied: false,
        }
    }

    /// Posts a request whose data is in registered memory.
    fn post(
        &self,
        context: u64,
        kind: RequestType,
        operation: Operation<'_>,
        sges: &[Sge],
        flags: OpFlags,
    ) -> Result<()> {
        let qp = &self.0;
        let limits = &qp.core().limits;
        let asked = qp.options.max_initiator_request_sge;
        let is_read = kind == RequestType::Read;
        let most = if is_read {
            asked.min(limits.read_sges)
        } else {
            asked
        };
        let octets = sges.iter().map(|sge| u64::from(sge.length)).sum();
        let posting = Posting {
            context,
            kind,
            silent: flags.contains(OpFlags::SILENT_SUCCESS),
            sges: (sges.len(), most),
            octets: (octets, limits.transfer_length),
            denied: !qp.core().allows(sges),
        };
        let needs = &qp.core().needs;
        let fence = flags.contains(OpFlags::READ_FENCE) && !(is_read && needs.fences_no_reads);
        qp.post(posting, |raw, id, signaled| {
            with_entries(qp.core(), sges, |sges| {
                raw.post(&SendRequest {
                    id,
                    operation,
                    sges,
                    signaled,
                    fence,
                    solicited: flags.contains(OpFlags::SEND_AND_SOLICIT_EVENT),
                })
            })
        })
    }

    /// Posts a request whose data the call copies.
    fn post_inline(
        &self,
        context: u64,
        kind: RequestType,
        operation: Operation<'_>,
        data: &[&[u8]],
        flags: OpFlags,
    ) -> Result<()> {
        let octets: usize = data.iter().map(|part| part.len()).sum();
        let posting = Posting {
            context,
            kind,
            silent: flags.contains(OpFlags::SILENT_SUCCESS),
            sges: (0, 0),
            octets: (octets as u64, self.0.options.inline_data_size),
            denied: false,
        };
        let whole;
        let data = match data {
            [one] => one,
            parts => {
                // Any number of slices is one entry for the device (QP-024).
                whole = parts.concat();
                whole.as_slice()
            }
        };
        self.0.post(posting, |raw, id, signaled| {
            let request = SendRequest {
                id,
                operation,
                sges: &[],
                signaled,
                fence: flags.contains(OpFlags::READ_FENCE),
                solicited: flags.contains(OpFlags::SEND_AND_SOLICIT_EVENT),
            };
            raw.post_inline(&request, data)
        })
    }
}

impl QueuePair for QpHandle {
    fn flush(&self) -> Result<()> {
        self.0.flush();
        Ok(())
    }

    fn send(&self, context: u64, sges: &[Sge], flags: OpFlags) -> Result<()> {
        flags::send(flags)?;
        self.post(context, RequestType::Send, Operation::Send, sges, flags)
    }

    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        if self.0.srq.is_some() {
            return fail(
                Status::INVALID_DEVICE_REQUEST,
                "the queue pair uses a shared receive queue: post the Receive to that queue",
            ); // QP-032, AMB-050
        }
        self.0.post_receive(context, sges)
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
        let region = own::memory_region::<Region>(region, self.0.core())?;
        let window =
            own::memory_window::<Window>(window, self.0.core(), Status::INVALID_PARAMETER_3)?;
        let write = flags.contains(OpFlags::ALLOW_WRITE);
        let bound = region.with(|registered| {
            let buffer = registered.registration.buffer();
            let offset = address.checked_sub(buffer.address());
            let whole = buffer.len() as u64;
            let is_inside =
                offset.is_some_and(|offset| offset <= whole && length <= whole - offset);
            (is_inside && length > 0 && (registered.can_be_written || !write)).then(|| {
                WindowBinding::new(
                    &registered.registration,
                    &registered.windows,
                    self.0.number(),
                )
            })
        });
        let Some(bound) = bound else {
            return fail(
                Status::INVALID_PARAMETER_2,
                "the memory region has no registered buffer; register a buffer first",
            ); // AMB-011
        };
        let Some(binding) = bound else {
            return fail(
                Status::ACCESS_VIOLATION,
                "the range lies outside the memory region, or the memory region does not have these rights",
            ); // QP-038
        };
        let range = WindowRange {
            address,
            length,
            access: Access {
                remote_read: flags.contains(OpFlags::ALLOW_READ),
                remote_write: write,
                ..Access::default()
            },
        };
        let posting = Self::of_window(context, RequestType::Bind, flags);
        self.0.post_keeping(posting, |raw, id, signaled| {
            let mut state = window.state.lock();
            if state.is_bound_for(self.0.number()) {
                return Err(NotPosted::Ends(Status::INVALID_DEVICE_REQUEST)); // QP-043
            }
            let handle = state.bindable(&window)?;
            let Some(region) = binding.registration() else {
                return Err(NotPosted::Ends(Status::CANCELED));
            };
            let bind = WindowBind {
                id,
                window: &handle,
                region: &region,
                range,
                signaled,
                fence: flags.contains(OpFlags::READ_FENCE),
            };
            queued(raw.bind(&bind))?;
            Ok(Some(state.bound(&window, handle, &binding)))
        })?;
        self.0.add_window(&binding);
        Ok(())
    }

    fn invalidate(
        &self,
        context: u64,
        window: &Arc<dyn MemoryWindow>,
        flags: OpFlags,
    ) -> Result<()> {
        flags::invalidate(flags)?;
        let window =
            own::memory_window::<Window>(window, self.0.core(), Status::INVALID_PARAMETER_2)?;
        let posting = Self::of_window(context, RequestType::Invalidate, flags);
        self.0.post_keeping(posting, |raw, id, signaled| {
            let state = window.state.lock();
            let binding = match state.to_invalidate(self.0.number()) {
                ToInvalidate::Bound(binding) => binding,
                ToInvalidate::Lapsed => return Err(NotPosted::Ends(Status::SUCCESS)), // IW-058
                ToInvalidate::Nothing => {
                    return Err(NotPosted::Ends(Status::INVALID_DEVICE_REQUEST)); // QP-050
                }
            };
            let (Some(handle), Some(region)) = (state.handle(), binding.registration()) else {
                return Err(NotPosted::Ends(Status::CANCELED)); // A Bind behind it has failed, and so has the queue pair.
            };
            let bind = WindowBind {
                id,
                window: &handle,
                region: &region,
                range: WindowRange {
                    address: region.buffer().address(),
                    length: 0,
                    access: Access::default(),
                },
                signaled,
                fence: flags.contains(OpFlags::READ_FENCE),
            };
            queued(raw.unbind(&bind, binding.key()))?;
            Ok(Some(WindowState::invalidates(&window, handle, binding)))
        })
    }

    fn read(&self, context: u64, sges: &[Sge], from: RemoteAddress, flags: OpFlags) -> Result<()> {
        flags::read_or_write(flags)?;
        let operation = Operation::Read(remote(from));
        self.post(context, RequestType::Read, operation, sges, flags)
    }

    fn write(&self, context: u64, sges: &[Sge], to: RemoteAddress, flags: OpFlags) -> Result<()> {
        flags::read_or_write(flags)?;
        let operation = Operation::Write(remote(to));
        self.post(context, RequestType::Write, operation, sges, flags)
    }

    fn send_inline(&self, context: u64, data: &[&[u8]], flags: OpFlags) -> Result<()> {
        flags::send_inline(flags)?;
        self.post_inline(context, RequestType::Send, Operation::Send, data, flags)
    }

    fn write_inline(
        &self,
        context: u64,
        data: &[&[u8]],
        to: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        flags::write_inline(flags)?;
        let operation = Operation::Write(remote(to));
        self.post_inline(context, RequestType::Write, operation, data, flags)
    }

    fn extensions(&self) -> Option<&dyn QueuePairExtensions> {
        let any = Capabilities::FETCH_ADD | Capabilities::IMMEDIATE_4;
        self.capabilities().intersects(any).then_some(self)
    }
}

impl QueuePairExtensions for QpHandle {
    fn send_immediate(&self, context: u64, data: Immediate, flags: OpFlags) -> Result<()> {
        let four = data.four();
        let has = self.capabilities().contains(Capabilities::IMMEDIATE_4);
        let Some(octets) = four.filter(|_| has) else {
            return fail(
                Status::INVALID_PARAMETER_2,
                "the adapter cannot send Immediate Data of this length: InfiniBand carries 4 octets",
            );
        };
        flags::send_immediate(flags)?;
        let operation = Operation::SendImmediate(octets);
        self.post(context, RequestType::SendImmediate, operation, &[], flags)
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
        if !self.capabilities().contains(Capabilities::needed_for(op)) {
            return fail(Status::NOT_SUPPORTED, "the device has no such Atomic");
        }
        if sink.length != 8 {
            return fail(
                Status::INVALID_PARAMETER_3,
                "the sink of an Atomic has 8 octets",
            );
        }
        let target = remote(target);
        let operation = match op {
            AtomicOp::FetchAdd { add, .. } => Operation::FetchAdd { target, add },
            AtomicOp::CompareSwap { compare, swap, .. } => Operation::CompareSwap {
                target,
                compare,
                swap,
            },
        };
        self.post(context, RequestType::Atomic, operation, &[*sink], flags)
    }
}
