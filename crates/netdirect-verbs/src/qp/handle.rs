//! The provider's part of a queue pair's handle. Converts requests to the types of the device.

use std::sync::Arc;

use netdirect::{
    AtomicOp, Capabilities, ConnectionEnd, OpFlags, RemoteAddress, RequestType, Result, Sge, Status,
};
use netdirect_provider::ProviderAdapter;
use netdirect_provider::queue_pair::{
    self, QueuePairHandle, QueuePairLine, Request, Source, outside_region,
};

use super::Qp;
use crate::core::Core;
use crate::entries::{NotPosted, Posting, with_entries};
use crate::handle::{
    Access, Operation, PostFailure, RemoteMemory, SendRequest, WindowBind, WindowRange,
};
use crate::mr::RegisteredBuffer;
use crate::mw::{ToInvalidate, Window, WindowBinding, WindowState};
use crate::status::fail;

/// The client's reference to a queue pair.
pub(crate) type QpHandle = QueuePairHandle<ClientQp>;

/// The provider's part of a queue pair's handle. Dropping it disconnects the queue pair.
#[derive(Debug)]
pub(crate) struct ClientQp(pub(crate) Arc<Qp>);

impl Drop for ClientQp {
    fn drop(&mut self) {
        self.0.released();
    }
}

fn remote(address: RemoteAddress) -> RemoteMemory {
    RemoteMemory {
        address: address.address,
        key: address.token.to_host(),
    }
}

/// The device's form of an operation. An operation that the traits have and verbs do not is refused.
fn atomic<'a>(op: AtomicOp, target: RemoteMemory) -> Result<Operation<'a>> {
    Ok(match op {
        AtomicOp::FetchAdd { add, .. } => Operation::FetchAdd { target, add },
        AtomicOp::CompareSwap { compare, swap, .. } => Operation::CompareSwap {
            target,
            compare,
            swap,
        },
        _ => {
            return fail(
                Status::NOT_SUPPORTED,
                "verbs do not have this Atomic: take FetchAdd or CompareSwap",
            );
        }
    })
}

/// A request that the driver has, although the device does not know of it, ends with the connection.
fn queued(posted: Result<(), PostFailure>) -> Result<(), PostFailure> {
    posted.or_else(|failure| match failure.is_queued {
        true => Ok(()),
        false => Err(failure),
    })
}

impl ClientQp {
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
    fn post_sges(
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

impl QueuePairLine for ClientQp {
    type Adapter = Core;
    type Registration = RegisteredBuffer;
    type Window = Window;
    type Bind = (Arc<WindowBinding>, WindowRange);

    fn adapter(&self) -> &Arc<Core> {
        self.0.core()
    }

    fn has_shared_receives(&self) -> bool {
        self.0.srq.is_some()
    }

    fn flush(&self) {
        self.0.flush();
    }

    fn connection_end(&self) -> Option<ConnectionEnd> {
        self.0.connection_end()
    }

    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        self.0.post_receive(context, sges)
    }

    fn post(&self, context: u64, request: Request<'_>, flags: OpFlags) -> Result<()> {
        let (send, write) = (RequestType::Send, RequestType::Write);
        match request {
            Request::Send(Source::Sges(sges)) => {
                self.post_sges(context, send, Operation::Send, sges, flags)
            }
            Request::Send(Source::Inline(data)) => {
                self.post_inline(context, send, Operation::Send, data, flags)
            }
            Request::Write(Source::Sges(sges), to) => {
                let operation = Operation::Write(remote(to));
                self.post_sges(context, write, operation, sges, flags)
            }
            Request::Write(Source::Inline(data), to) => {
                let operation = Operation::Write(remote(to));
                self.post_inline(context, write, operation, data, flags)
            }
            Request::Read(sges, from) => {
                let operation = Operation::Read(remote(from));
                self.post_sges(context, RequestType::Read, operation, sges, flags)
            }
            Request::SendImmediate(data) => {
                let capabilities = self.0.core().capabilities();
                let has = capabilities.contains(Capabilities::IMMEDIATE_4);
                let Some(octets) = data.four().filter(|_| has) else {
                    return fail(
                        Status::INVALID_PARAMETER_2,
                        "the adapter cannot send Immediate Data of this length: InfiniBand carries 4 octets",
                    );
                };
                let operation = Operation::SendImmediate(octets);
                self.post_sges(context, RequestType::SendImmediate, operation, &[], flags)
            }
            Request::Atomic(op, sink, target) => {
                if sink.length != 8 {
                    return fail(
                        Status::INVALID_PARAMETER_3,
                        "the sink of an Atomic has 8 octets",
                    );
                }
                let operation = atomic(op, remote(target))?;
                self.post_sges(context, RequestType::Atomic, operation, &[*sink], flags)
            }
        }
    }

    fn prepare_bind(
        &self,
        registered: &RegisteredBuffer,
        _: &Window,
        range: queue_pair::WindowRange,
    ) -> Result<Self::Bind> {
        let queue_pair::WindowRange {
            address,
            length,
            read,
            write,
        } = range;
        let RegisteredBuffer {
            registration,
            windows,
            can_be_written,
            ..
        } = registered;
        let buffer = registration.buffer();
        let offset = address.checked_sub(buffer.address());
        let whole = buffer.len() as u64;
        let is_inside = offset.is_some_and(|offset| offset <= whole && length <= whole - offset);
        if !is_inside || length == 0 || write && !can_be_written {
            return Err(outside_region());
        }
        let range = WindowRange {
            address,
            length,
            access: Access {
                remote_read: read,
                remote_write: write,
                ..Access::default()
            },
        };
        let binding = WindowBinding::new(registration, windows, self.0.number());
        Ok((binding, range))
    }

    fn bind(
        &self,
        context: u64,
        window: &Arc<Window>,
        (binding, range): Self::Bind,
        flags: OpFlags,
    ) -> Result<()> {
        let posting = Self::of_window(context, RequestType::Bind, flags);
        self.0.post_keeping(posting, |raw, id, signaled| {
            let mut state = window.state.lock();
            if state.is_bound_for(self.0.number()) {
                return Err(NotPosted::Ends(Status::INVALID_DEVICE_REQUEST)); // QP-043
            }
            let handle = state.bindable(window)?;
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
            Ok(Some(state.bound(window, handle, &binding)))
        })?;
        self.0.add_window(&binding);
        Ok(())
    }

    fn invalidate(&self, context: u64, window: &Arc<Window>, flags: OpFlags) -> Result<()> {
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
            Ok(Some(WindowState::invalidates(window, handle, binding)))
        })
    }
}
