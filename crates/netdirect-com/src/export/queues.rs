//! `IND2CompletionQueue`, `IND2SharedReceiveQueue` and `IND2QueuePair`.

use std::ffi::c_char;
use std::sync::Arc;

use netdirect::{
    Adapter, Affinity, AtomicOp, CompletionQueue, Error, Immediate, NotifyType, OpFlags, QueuePair,
    QueuePairExtensions, RemoteAddress, RemoteToken, Result, SharedReceiveQueue, Started, Status,
};

use super::connection_end;
use super::memory::{RegionObject, WindowObject};
use super::object::{
    Class, Interface, Object, method, no_more, unknown, unknown_of_end, unknown_of_more,
};
use super::overlapped::{Kind, ObjectWithRequests, overlapped};
use super::parts::Parts;
use super::pointers::{ClientOverlapped, Context, In, MostEntries, Octets, Out, copy_inline};
use crate::abi::{
    Atomic, CompletionQueueExtensionTable, CompletionQueueTable, CompletionResult, ConnectionEnd,
    ConnectionEndTable, ExtendedResult, Guid, IID_COMPLETION_QUEUE_EXTENSION,
    IID_ND2_COMPLETION_QUEUE, IID_ND2_OVERLAPPED, IID_ND2_QUEUE_PAIR, IID_ND2_SHARED_RECEIVE_QUEUE,
    IID_QUEUE_PAIR_EXTENSION, QueuePairExtensionTable, QueuePairTable, Sge,
    SharedReceiveQueueTable, This,
};
use crate::context;

pub(super) type CompletionQueueObject = ObjectWithRequests<dyn CompletionQueue>;

static COMPLETION_QUEUE: CompletionQueueTable = CompletionQueueTable {
    overlapped: overlapped::<dyn CompletionQueue>(),
    get_notify_affinity: method!(CompletionQueueObject, get_notify_affinity(group: Out<u16>, affinity: Out<usize>) -> Result<()>),
    resize: method!(CompletionQueueObject, resize(depth: u32) -> Result<()>),
    notify: method!(CompletionQueueObject, notify(kind: u32, overlapped: ClientOverlapped) -> Result<Started>),
    get_results: method!(CompletionQueueObject, get_results(results: Out<CompletionResult>, count: u32) -> u32),
};

static COMPLETION_QUEUE_EXTENSION: CompletionQueueExtensionTable = CompletionQueueExtensionTable {
    unknown: unknown_of_more::<CompletionQueueObject>(),
    get_results: method!(more CompletionQueueObject, get_extended_results(results: Out<ExtendedResult>, count: u32) -> u32),
};

impl Kind for dyn CompletionQueue {
    type Table = CompletionQueueTable;
    const INTERFACES: &'static [Guid] = &[IID_ND2_COMPLETION_QUEUE, IID_ND2_OVERLAPPED];

    type More = CompletionQueueExtensionTable;
    const MORE: Option<Guid> = Some(IID_COMPLETION_QUEUE_EXTENSION);

    fn more() -> &'static CompletionQueueExtensionTable {
        &COMPLETION_QUEUE_EXTENSION
    }

    fn table() -> &'static CompletionQueueTable {
        &COMPLETION_QUEUE
    }
}

/// The most results that are taken at once.
const RESULTS: usize = 16;

impl CompletionQueueObject {
    #[expect(clippy::needless_pass_by_value, reason = "arguments of a method")]
    fn get_notify_affinity(&self, group: Out<u16>, affinity: Out<usize>) -> Result<()> {
        tell_affinity(|| self.object.get_notify_affinity(), &group, &affinity)
    }

    fn resize(&self, depth: u32) -> Result<()> {
        self.object.resize(depth)
    }

    fn notify(&self, kind: u32, overlapped: ClientOverlapped) -> Result<Started> {
        let kind = NotifyType::try_from(kind)?;
        self.requests
            .submit(overlapped, 2, |request| self.object.notify(kind, request))
    }

    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of a method")]
    fn get_results(&self, results: Out<CompletionResult>, count: u32) -> u32 {
        if results.is_null() {
            return 0;
        }
        self.take(count, |index, result| {
            results.set_at(index, result_of(result))
        })
    }

    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of a method")]
    fn get_extended_results(&self, results: Out<ExtendedResult>, count: u32) -> u32 {
        if results.is_null() {
            return 0;
        }
        self.take(count, |index, result| {
            let octets = result.immediate.as_ref();
            let octets = octets.map_or(&[][..], netdirect::Immediate::as_bytes);
            let mut immediate = [0; 8];
            immediate[..octets.len()].copy_from_slice(octets);
            let extended = ExtendedResult {
                result: result_of(result),
                immediate_length: u32::try_from(octets.len()).expect("at most 8 octets"),
                immediate,
            };
            results.set_at(index, extended);
        })
    }

    /// Takes up to `count` results, and passes each to `tell`.
    #[inline]
    fn take(&self, count: u32, tell: impl Fn(usize, &netdirect::CompletionResult)) -> u32 {
        let mut taken = [netdirect::CompletionResult::default(); RESULTS];
        let mut delivered = 0;
        while delivered < count as usize {
            let room = RESULTS.min(count as usize - delivered);
            let taken = &mut taken[..room];
            let number = if delivered == 0 {
                self.object.get_results(taken)
            } else {
                self.object.take_results(taken)
            };
            for result in &taken[..number] {
                tell(delivered, result);
                delivered += 1;
            }
            if number < room {
                break;
            }
        }
        if delivered == 0 && !self.requests.is_idle() {
            // The client has requested a notification, and is about to sleep in code outside this library: from here on a thread of the
            // provider does the work.
            self.requests.file().file().hand_over();
        }
        u32::try_from(delivered).unwrap_or(u32::MAX)
    }
}

fn result_of(result: &netdirect::CompletionResult) -> CompletionResult {
    CompletionResult {
        status: result.status,
        bytes_transferred: result.bytes_transferred,
        queue_pair_context: context::pointer(result.queue_pair_context),
        request_context: context::pointer(result.request_context),
        request_type: result.request_type.value(),
    }
}

/// Leaves an affinity, which `find` finds, once both pointers are there.
fn tell_affinity(
    find: impl FnOnce() -> Result<Affinity>,
    group: &Out<u16>,
    affinity: &Out<usize>,
) -> Result<()> {
    let (group, affinity) = (group.required(1)?, affinity.required(2)?);
    let found = find()?;
    group.set(found.group);
    affinity.set(usize::try_from(found.mask).unwrap_or(usize::MAX));
    Ok(())
}

pub(super) type SharedReceiveQueueObject = ObjectWithRequests<dyn SharedReceiveQueue>;

static SHARED_RECEIVE_QUEUE: SharedReceiveQueueTable = SharedReceiveQueueTable {
    overlapped: overlapped::<dyn SharedReceiveQueue>(),
    get_notify_affinity: method!(SharedReceiveQueueObject, get_notify_affinity(group: Out<u16>, affinity: Out<usize>) -> Result<()>),
    modify: method!(SharedReceiveQueueObject, modify(depth: u32, notify_threshold: u32) -> Result<()>),
    notify: method!(SharedReceiveQueueObject, notify(overlapped: ClientOverlapped) -> Result<Started>),
    receive: method!(SharedReceiveQueueObject, receive(context: Context, sges: In<Sge>, count: u32) -> Result<()>),
};

impl Kind for dyn SharedReceiveQueue {
    type Table = SharedReceiveQueueTable;
    const INTERFACES: &'static [Guid] = &[IID_ND2_SHARED_RECEIVE_QUEUE, IID_ND2_OVERLAPPED];

    no_more!();

    fn table() -> &'static SharedReceiveQueueTable {
        &SHARED_RECEIVE_QUEUE
    }
}

impl SharedReceiveQueueObject {
    #[expect(clippy::needless_pass_by_value, reason = "arguments of a method")]
    fn get_notify_affinity(&self, group: Out<u16>, affinity: Out<usize>) -> Result<()> {
        tell_affinity(|| self.object.get_notify_affinity(), &group, &affinity)
    }

    fn modify(&self, depth: u32, notify_threshold: u32) -> Result<()> {
        self.object.modify(depth, notify_threshold)
    }

    fn notify(&self, overlapped: ClientOverlapped) -> Result<Started> {
        self.requests
            .submit(overlapped, 1, |request| self.object.notify(request))
    }

    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of a method")]
    fn receive(&self, context: Context, sges: In<Sge>, count: u32) -> Result<()> {
        sges.sges(count, self.parts.receive_entries, 2, |sges| {
            self.object.receive(context.0, sges)
        })
    }
}

pub(super) struct QueuePairObject {
    qp: Arc<dyn QueuePair>,
    parts: Parts,
}

static QUEUE_PAIR: QueuePairTable = QueuePairTable {
    unknown: unknown::<QueuePairObject>(),
    flush: method!(QueuePairObject, flush() -> Result<()>),
    send: method!(QueuePairObject, send(context: Context, sges: In<Sge>, count: u32, flags: u32) -> Result<()>),
    receive: method!(QueuePairObject, receive(context: Context, sges: In<Sge>, count: u32) -> Result<()>),
    bind: method!(QueuePairObject, bind(
        context: Context, region: Interface, window: Interface, buffer: Octets, size: usize, flags: u32) -> Result<()>),
    invalidate: method!(QueuePairObject, invalidate(context: Context, window: Interface, flags: u32) -> Result<()>),
    read: method!(QueuePairObject, read(
        context: Context, sges: In<Sge>, count: u32, remote_address: u64, remote_token: u32, flags: u32) -> Result<()>),
    write: method!(QueuePairObject, write(
        context: Context, sges: In<Sge>, count: u32, remote_address: u64, remote_token: u32, flags: u32) -> Result<()>),
};

static QUEUE_PAIR_EXTENSION: QueuePairExtensionTable = QueuePairExtensionTable {
    unknown: unknown_of_more::<QueuePairObject>(),
    send_immediate: method!(more QueuePairObject, send_immediate(context: Context, data: Octets, size: u32, flags: u32) -> Result<()>),
    atomic: method!(more QueuePairObject, atomic(
        context: Context, op: In<Atomic>, sink: In<Sge>, remote_address: u64, remote_token: u32, flags: u32) -> Result<()>),
};

static QUEUE_PAIR_END: ConnectionEndTable = ConnectionEndTable {
    unknown: unknown_of_end::<QueuePairObject>(),
    get_connection_end: method!(end QueuePairObject, get_connection_end(
        end: Out<ConnectionEnd>, text: Out<c_char>, size: Out<u32>) -> Result<()>),
};

impl Class for QueuePairObject {
    type Table = QueuePairTable;
    const INTERFACES: &'static [Guid] = &[IID_ND2_QUEUE_PAIR];
    const END: Option<&'static ConnectionEndTable> = Some(&QUEUE_PAIR_END);

    type More = QueuePairExtensionTable;
    const MORE: Option<Guid> = Some(IID_QUEUE_PAIR_EXTENSION);

    fn more() -> &'static QueuePairExtensionTable {
        &QUEUE_PAIR_EXTENSION
    }

    fn has_more(&self) -> bool {
        self.qp.extensions().is_some()
    }

    fn table() -> &'static QueuePairTable {
        &QUEUE_PAIR
    }

    fn adapter(&self) -> Option<&dyn Adapter> {
        Some(&*self.parts.adapter)
    }
}

fn remote(address: u64, token: u32) -> RemoteAddress {
    RemoteAddress {
        address,
        token: RemoteToken(token),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "arguments of methods")]
impl QueuePairObject {
    pub(super) fn create(qp: Arc<dyn QueuePair>, parts: Parts, iid: Guid) -> Result<This> {
        Object::create(Self { qp, parts }, iid)
    }

    pub(super) fn qp(&self) -> &Arc<dyn QueuePair> {
        &self.qp
    }

    fn flush(&self) -> Result<()> {
        self.qp.flush()
    }

    fn get_connection_end(
        &self,
        end: Out<ConnectionEnd>,
        text: Out<c_char>,
        size: Out<u32>,
    ) -> Result<()> {
        connection_end::fill(self.qp.connection_end(), &end, &text, size)
    }

    /// The most entries of a Send or Write with these flags.
    #[inline]
    fn most_entries(&self, flags: OpFlags) -> MostEntries {
        if flags.contains(OpFlags::INLINE) {
            self.parts.inline_entries
        } else {
            self.parts.initiator_entries
        }
    }

    #[inline]
    fn send(&self, context: Context, sges: In<Sge>, count: u32, flags: u32) -> Result<()> {
        let flags = OpFlags::from_bits_retain(flags);
        sges.sges(count, self.most_entries(flags), 2, |sges| {
            if !flags.contains(OpFlags::INLINE) {
                return self.qp.send(context.0, sges, flags);
            }
            let data = copy_inline(sges, self.parts.max_inline)?;
            self.qp.send_inline(context.0, &[&data], flags)
        })
    }

    #[inline]
    fn receive(&self, context: Context, sges: In<Sge>, count: u32) -> Result<()> {
        sges.sges(count, self.parts.receive_entries, 2, |sges| {
            self.qp.receive(context.0, sges)
        })
    }

    fn bind(
        &self,
        context: Context,
        region: Interface,
        window: Interface,
        buffer: Octets,
        size: usize,
        flags: u32,
    ) -> Result<()> {
        let region = region.of_class::<RegionObject>(2)?;
        let window = window.of_class::<WindowObject>(3)?;
        self.qp.bind(
            context.0,
            &region.get().object,
            window.get().window(),
            buffer.memory().expose_provenance() as u64,
            size as u64,
            OpFlags::from_bits_retain(flags),
        )
    }

    fn invalidate(&self, context: Context, window: Interface, flags: u32) -> Result<()> {
        let window = window.of_class::<WindowObject>(2)?;
        self.qp.invalidate(
            context.0,
            window.get().window(),
            OpFlags::from_bits_retain(flags),
        )
    }

    #[inline]
    fn read(
        &self,
        context: Context,
        sges: In<Sge>,
        count: u32,
        remote_address: u64,
        remote_token: u32,
        flags: u32,
    ) -> Result<()> {
        let flags = OpFlags::from_bits_retain(flags);
        sges.sges(count, self.parts.initiator_entries, 2, |sges| {
            self.qp
                .read(context.0, sges, remote(remote_address, remote_token), flags)
        })
    }

    #[inline]
    fn write(
        &self,
        context: Context,
        sges: In<Sge>,
        count: u32,
        remote_address: u64,
        remote_token: u32,
        flags: u32,
    ) -> Result<()> {
        let flags = OpFlags::from_bits_retain(flags);
        let remote = remote(remote_address, remote_token);
        sges.sges(count, self.most_entries(flags), 2, |sges| {
            if !flags.contains(OpFlags::INLINE) {
                return self.qp.write(context.0, sges, remote, flags);
            }
            let data = copy_inline(sges, self.parts.max_inline)?;
            self.qp.write_inline(context.0, &[&data], remote, flags)
        })
    }

    fn extensions(&self) -> Result<&dyn QueuePairExtensions> {
        let extensions = self.qp.extensions();
        extensions.ok_or_else(|| Status::NOT_SUPPORTED.into())
    }

    fn send_immediate(&self, context: Context, data: Octets, size: u32, flags: u32) -> Result<()> {
        let octets = data.copy(size, 8, 2)?;
        let immediate = match *octets {
            [a, b, c, d] => Immediate::from([a, b, c, d]),
            [a, b, c, d, e, f, g, h] => Immediate::from([a, b, c, d, e, f, g, h]),
            _ => {
                return Err(Error::new(
                    Status::INVALID_PARAMETER_2,
                    "Immediate Data has 4 or 8 octets",
                ));
            }
        };
        let flags = OpFlags::from_bits_retain(flags);
        self.extensions()?
            .send_immediate(context.0, immediate, flags)
    }

    fn atomic(
        &self,
        context: Context,
        op: In<Atomic>,
        sink: In<Sge>,
        remote_address: u64,
        remote_token: u32,
        flags: u32,
    ) -> Result<()> {
        let op = op.value(2)?;
        let op = match op.kind {
            1 => AtomicOp::FetchAdd {
                add: op.operand,
                mask: op.mask,
            },
            2 => AtomicOp::CompareSwap {
                compare: op.compare,
                compare_mask: op.compare_mask,
                swap: op.operand,
                swap_mask: op.mask,
            },
            _ => {
                return Err(Error::new(
                    Status::INVALID_PARAMETER_2,
                    "no such Atomic operation",
                ));
            }
        };
        let flags = OpFlags::from_bits_retain(flags);
        let target = remote(remote_address, remote_token);
        sink.sges(1, self.parts.initiator_entries, 3, |sinks| {
            self.extensions()?
                .atomic(context.0, op, &sinks[0], target, flags)
        })
    }
}
