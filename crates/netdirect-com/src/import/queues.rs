//! `IND2CompletionQueue`, `IND2SharedReceiveQueue` and `IND2QueuePair` of a library.

use std::ptr;
use std::sync::Arc;

use netdirect::{
    Affinity, CompletionQueue, CompletionResult, ConnectionEnd, Error, Immediate, MemoryRegion,
    MemoryWindow, NotifyType, OpFlags, Overlapped, OverlappedObject, QueuePair,
    QueuePairExtensions, RemoteAddress, RequestType, Result, Sge, SharedReceiveQueue, Started,
    Status,
};

use super::connection_end;
use super::memory::{ImportedRegion, ImportedWindow};
use super::of_queue_pair::OfQueuePair;
use super::overlapping::Overlapping;
use super::pointer::{Pointer, argument, call, check};
use crate::abi::{
    self, CompletionQueueExtensionTable, CompletionQueueTable, ExtendedResult,
    IID_COMPLETION_QUEUE_EXTENSION, IID_QUEUE_PAIR_EXTENSION, QueuePairTable,
    SharedReceiveQueueTable, This,
};
use crate::context;

#[derive(Debug)]
pub(super) struct ImportedCompletionQueue {
    object: Overlapping<CompletionQueueTable>,
    extension: Option<Pointer<CompletionQueueExtensionTable>>,
}

/// The most results that are taken at once.
const RESULTS: usize = 16;

impl ImportedCompletionQueue {
    pub(super) fn new(object: Overlapping<CompletionQueueTable>) -> Self {
        Self {
            extension: object.main().query(IID_COMPLETION_QUEUE_EXTENSION).ok(),
            object,
        }
    }

    pub(super) fn this(&self) -> This {
        self.object.main().this()
    }
}

fn affinity(query: impl FnOnce(*mut u16, *mut usize) -> Status) -> Result<Affinity> {
    let (mut group, mut mask) = (0, 0);
    check(query(&raw mut group, &raw mut mask))?;
    Ok(Affinity {
        group,
        mask: mask as u64,
    })
}

impl OverlappedObject for ImportedCompletionQueue {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.object.cancel()
    }
}

impl CompletionQueue for ImportedCompletionQueue {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        affinity(|group, mask| call!(self.object.main(), get_notify_affinity(group, mask)))
    }

    fn resize(&self, depth: u32) -> Result<()> {
        check(call!(self.object.main(), resize(depth)))
    }

    fn notify(&self, kind: NotifyType, overlapped: &Overlapped) -> Result<Started> {
        self.object.submit(overlapped, None, |queue, pointer| {
            call!(queue, notify(kind as u32, pointer))
        })
    }

    #[inline]
    fn get_results(&self, results: &mut [CompletionResult]) -> usize {
        let total = match &self.extension {
            Some(extension) => take(
                results,
                ExtendedResult {
                    result: NOTHING,
                    immediate_length: 0,
                    immediate: [0; 8],
                },
                |taken, count| call!(extension, get_results(taken, count)),
                extended_result_of,
            ),
            None => take(
                results,
                NOTHING,
                |taken, count| call!(self.object.main(), get_results(taken, count)),
                result_of,
            ),
        };
        self.object.drain();
        total
    }
}

const NOTHING: abi::CompletionResult = abi::CompletionResult {
    status: Status::SUCCESS,
    bytes_transferred: 0,
    queue_pair_context: ptr::null_mut(),
    request_context: ptr::null_mut(),
    request_type: 0,
};

/// Takes results by `get`, at most 16 at once.
#[inline]
fn take<T: Copy>(
    results: &mut [CompletionResult],
    empty: T,
    get: impl Fn(*mut T, u32) -> u32,
    convert: impl Fn(&T) -> CompletionResult,
) -> usize {
    let mut taken = [empty; RESULTS];
    let mut total = 0;
    for results in results.chunks_mut(RESULTS) {
        let room = u32::try_from(results.len()).expect("at most 16");
        let count = (get(taken.as_mut_ptr(), room) as usize).min(results.len());
        for (result, taken) in results.iter_mut().zip(&taken[..count]) {
            *result = convert(taken);
        }
        total += count;
        if count < results.len() {
            break;
        }
    }
    total
}

fn result_of(result: &abi::CompletionResult) -> CompletionResult {
    let kind = RequestType::from_value(result.request_type);
    CompletionResult::new(kind, context::number(result.request_context))
        .status(result.status)
        .bytes_transferred(result.bytes_transferred)
        .queue_pair_context(context::number(result.queue_pair_context))
}

fn extended_result_of(extended: &ExtendedResult) -> CompletionResult {
    let [a, b, c, d, ..] = extended.immediate;
    let immediate = match extended.immediate_length {
        4 => Some(Immediate::from([a, b, c, d])),
        8 => Some(Immediate::from(extended.immediate)),
        _ => None,
    };
    result_of(&extended.result).immediate(immediate)
}

#[derive(Debug)]
pub(super) struct ImportedSharedReceiveQueue(Overlapping<SharedReceiveQueueTable>);

impl ImportedSharedReceiveQueue {
    pub(super) fn new(object: Overlapping<SharedReceiveQueueTable>) -> Self {
        Self(object)
    }

    pub(super) fn this(&self) -> This {
        self.0.main().this()
    }
}

impl OverlappedObject for ImportedSharedReceiveQueue {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.0.cancel()
    }
}

impl SharedReceiveQueue for ImportedSharedReceiveQueue {
    fn get_notify_affinity(&self) -> Result<Affinity> {
        affinity(|group, mask| call!(self.0.main(), get_notify_affinity(group, mask)))
    }

    fn modify(&self, queue_depth: u32, notify_threshold: u32) -> Result<()> {
        check(call!(self.0.main(), modify(queue_depth, notify_threshold)))
    }

    fn notify(&self, overlapped: &Overlapped) -> Result<Started> {
        self.0.submit(overlapped, None, |queue, pointer| {
            call!(queue, notify(pointer))
        })
    }

    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        let (list, count) = list(sges);
        check(call!(
            self.0.main(),
            receive(context::pointer(context), list, count)
        ))
    }
}

/// The entries in the form that a library takes: [`Sge`] has the layout of ND2_SGE.
fn list(sges: &[Sge]) -> (*const abi::Sge, u32) {
    let count = u32::try_from(sges.len()).unwrap_or(u32::MAX);
    (sges.as_ptr().cast(), count)
}

#[derive(Debug)]
pub(super) struct ImportedQueuePair {
    object: Pointer<QueuePairTable>,
    extension: Option<OfQueuePair>,
}

impl ImportedQueuePair {
    pub(super) fn new(object: Pointer<QueuePairTable>) -> Self {
        let extension = object.query(IID_QUEUE_PAIR_EXTENSION).ok();
        Self {
            object,
            extension: extension.map(OfQueuePair),
        }
    }

    pub(super) fn this(&self) -> This {
        self.object.this()
    }

    #[inline]
    fn send_any(&self, context: u64, sges: &[Sge], flags: OpFlags) -> Result<()> {
        let (list, count) = list(sges);
        let context = context::pointer(context);
        check(call!(
            &self.object,
            send(context, list, count, flags.bits())
        ))
    }

    #[inline]
    fn write_any(
        &self,
        context: u64,
        sges: &[Sge],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        let (list, count) = list(sges);
        let context = context::pointer(context);
        let RemoteAddress { address, token } = remote;
        check(call!(
            &self.object,
            write(context, list, count, address, token.0, flags.bits())
        ))
    }
}

/// Entries of the traits name registered memory: the traits have separate methods for inline data.
#[inline]
fn refuse_inline(flags: OpFlags, position: u32) -> Result<()> {
    if flags.contains(OpFlags::INLINE) {
        return Err(Error::new(
            Status::invalid_parameter(position),
            "inline data is passed as slices",
        ));
    }
    Ok(())
}

/// Entries for slices, whose octets the library copies within the call.
fn inline_list(data: &[&[u8]]) -> Result<Vec<Sge>> {
    let entry = |part: &&[u8]| {
        let too_long = |_| Error::new(Status::BUFFER_OVERFLOW, "inline data of more than 4 GiB");
        Ok(Sge {
            address: part.as_ptr().expose_provenance() as u64,
            length: u32::try_from(part.len()).map_err(too_long)?,
            ..Sge::default()
        })
    };
    data.iter().map(entry).collect()
}

impl QueuePair for ImportedQueuePair {
    fn flush(&self) -> Result<()> {
        check(call!(&self.object, flush()))
    }

    #[inline]
    fn send(&self, context: u64, sges: &[Sge], flags: OpFlags) -> Result<()> {
        refuse_inline(flags, 4)?;
        self.send_any(context, sges, flags)
    }

    #[inline]
    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        let (list, count) = list(sges);
        check(call!(
            &self.object,
            receive(context::pointer(context), list, count)
        ))
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
        let region = argument::<ImportedRegion>(&**region, 2)?.this();
        let window = argument::<ImportedWindow>(&**window, 3)?.this();
        let too_long = |_| Error::new(Status::ACCESS_VIOLATION, "a range beyond the address space");
        let length = usize::try_from(length).map_err(too_long)?;
        let (context, buffer) = (context::pointer(context), context::pointer(address));
        check(call!(
            &self.object,
            bind(context, region, window, buffer, length, flags.bits())
        ))
    }

    fn invalidate(
        &self,
        context: u64,
        window: &Arc<dyn MemoryWindow>,
        flags: OpFlags,
    ) -> Result<()> {
        let window = argument::<ImportedWindow>(&**window, 2)?.this();
        let context = context::pointer(context);
        check(call!(
            &self.object,
            invalidate(context, window, flags.bits())
        ))
    }

    #[inline]
    fn read(
        &self,
        context: u64,
        sges: &[Sge],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        let (list, count) = list(sges);
        let context = context::pointer(context);
        let RemoteAddress { address, token } = remote;
        check(call!(
            &self.object,
            read(context, list, count, address, token.0, flags.bits())
        ))
    }

    #[inline]
    fn write(
        &self,
        context: u64,
        sges: &[Sge],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        refuse_inline(flags, 6)?;
        self.write_any(context, sges, remote, flags)
    }

    fn send_inline(&self, context: u64, data: &[&[u8]], flags: OpFlags) -> Result<()> {
        self.send_any(context, &inline_list(data)?, flags | OpFlags::INLINE)
    }

    fn write_inline(
        &self,
        context: u64,
        data: &[&[u8]],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        let list = inline_list(data)?;
        self.write_any(context, &list, remote, flags | OpFlags::INLINE)
    }

    fn connection_end(&self) -> Option<ConnectionEnd> {
        connection_end::of(&self.object)
    }

    fn extensions(&self) -> Option<&dyn QueuePairExtensions> {
        self.extension.as_ref().map(|extension| extension as _)
    }
}
