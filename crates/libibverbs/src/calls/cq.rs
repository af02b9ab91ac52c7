//! Completion queues.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use softverbs::{CompletionQueue, Errno, Error, Result, WorkCompletion};

use super::objects::{Channel, Context, Cq};
use crate::abi::attributes::ibv_modify_cq_attr;
use crate::abi::constants::{IBV_WC_GRH, IBV_WC_WITH_IMM, IBV_WC_WITH_INV};
use crate::abi::describe::Zeroed;
use crate::abi::objects::{ibv_cq_ex, ibv_wc};
use crate::border::{Handle, Output, code, code_quick, error, guarded_quick, null};

/// Completions that are converted at a time.
const BATCH: usize = 16;

pub(crate) fn make(
    context: Handle<Context>,
    depth: u32,
    cq_context: *mut c_void,
    channel: Handle<Channel>,
    vector: u32,
) -> Result<Handle<Cq>> {
    let parent = context.get()?;
    if vector != 0 {
        return Err(error(Errno::INVAL, "the only completion vector is 0"));
    }
    let through = channel.get_if().map(|channel| &channel.rust().0);
    let cq = CompletionQueue::create(&parent.rust().0, depth, through)?;
    show(context, cq_context, channel, cq)
}

/// Makes the structure of a completion queue.
pub(crate) fn show(
    context: Handle<Context>,
    cq_context: *mut c_void,
    channel: Handle<Channel>,
    cq: Arc<CompletionQueue>,
) -> Result<Handle<Cq>> {
    let mut c = ibv_cq_ex::zeroed();
    c.context = context.raw();
    c.channel = channel.raw();
    c.cq_context = cq_context;
    c.cqe = c_int::try_from(cq.depth()).unwrap_or(c_int::MAX);
    let current = Mutex::new(WorkCompletion::default());
    let handle = Handle::new(c, Cq { cq, current });
    handle.get()?.rust().cq.tag().set(handle.tag());
    Ok(handle)
}

pub(crate) extern "C" fn create(
    context: Handle<Context>,
    depth: c_int,
    cq_context: *mut c_void,
    channel: Handle<Channel>,
    vector: c_int,
) -> Handle<Cq> {
    null(|| {
        let depth = u32::try_from(depth).unwrap_or(0);
        let vector = u32::try_from(vector).unwrap_or(u32::MAX);
        make(context, depth, cq_context, channel, vector)
    })
}

pub(crate) fn destroy_handle(cq: Handle<Cq>) -> Result<()> {
    if let Some(object) = cq.get_own()? {
        object.rust().cq.destroy()?;
        cq.release();
    }
    Ok(())
}

pub(crate) extern "C" fn destroy(cq: Handle<Cq>) -> c_int {
    code(|| destroy_handle(cq))
}

pub(crate) extern "C" fn resize(cq: Handle<Cq>, depth: c_int) -> c_int {
    code(|| {
        let object = cq.get()?;
        object.rust().cq.resize(u32::try_from(depth).unwrap_or(0))?;
        field!(object, cqe = depth);
        Ok(())
    })
}

/// Moderation of events is not offered.
pub(crate) extern "C" fn modify(_: Handle<Cq>, _: Output<ibv_modify_cq_attr>) -> c_int {
    libc::EOPNOTSUPP
}

pub(crate) extern "C" fn request_notification(cq: Handle<Cq>, solicited_only: c_int) -> c_int {
    code_quick(|| {
        cq.get()?
            .rust()
            .cq
            .request_notification(solicited_only != 0);
        Ok(())
    })
}

fn convert(from: &WorkCompletion) -> ibv_wc {
    ibv_wc {
        wr_id: from.wr_id,
        status: from.status as c_int,
        opcode: from.opcode as c_int,
        vendor_err: from.vendor_err(),
        byte_len: from.byte_len(),
        invalidated_rkey: besides(from),
        qp_num: from.qp_num,
        src_qp: from.source.unwrap_or(0),
        wc_flags: flags(from),
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}

/// The invalidated key, or the number that came with a Write in the order of its octets.
pub(crate) fn besides(from: &WorkCompletion) -> u32 {
    let immediate = from.immediate.map(u32::from_ne_bytes);
    from.invalidated.or(immediate).unwrap_or(0)
}

pub(crate) fn flags(from: &WorkCompletion) -> c_uint {
    let invalidated = from.invalidated.map_or(0, |_| IBV_WC_WITH_INV);
    let immediate = from.immediate.map_or(0, |_| IBV_WC_WITH_IMM);
    let grh = from.source.map_or(0, |_| IBV_WC_GRH);
    invalidated | immediate | grh
}

/// The error of a queue that has lost completions, once the program has taken those that it has not lost.
#[cold]
pub(crate) fn overrun() -> Error {
    error(Errno::IO, "the completion queue was overrun")
}

/// Takes up to `room` completions, at most `N` at a time, and returns their number.
#[inline]
fn take<const N: usize>(cq: &CompletionQueue, room: usize, to: Output<ibv_wc>) -> usize {
    let mut batch = [WorkCompletion::default(); N];
    let mut done = 0;
    while done < room {
        let wanted = (room - done).min(N);
        let got = cq.poll(&mut batch[..wanted]);
        for (index, completion) in batch[..got].iter().enumerate() {
            to.set_at(done + index, convert(completion));
        }
        done += got;
        if got < wanted {
            break;
        }
    }
    done
}

pub(crate) extern "C" fn poll(cq: Handle<Cq>, room: c_int, to: Output<ibv_wc>) -> c_int {
    let polled = guarded_quick(|| {
        let cq = &cq.get()?.rust().cq;
        let done = match usize::try_from(room).unwrap_or(0) {
            // Most programs poll for one at a time, and most polls find none: a whole batch is not worth its initialization.
            1 => take::<1>(cq, 1, to),
            room => take::<BATCH>(cq, room, to),
        };
        if done == 0 && cq.is_broken() {
            return Err(overrun());
        }
        Ok(c_int::try_from(done).unwrap_or(c_int::MAX))
    });
    polled.unwrap_or(-1)
}
