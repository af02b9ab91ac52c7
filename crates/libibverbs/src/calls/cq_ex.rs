//! Extended completion queues: one completion at a time, read by functions.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::PoisonError;

use softverbs::{Errno, Result, WorkCompletion};

use super::cq::{self, besides, flags};
use super::objects::{Channel, Context, Cq};
use crate::abi::attributes::ibv_cq_init_attr_ex;
use crate::abi::constants::{
    IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CQ_INIT_ATTR_MASK_PD, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED, IBV_WC_EX_WITH_BYTE_LEN, IBV_WC_EX_WITH_DLID_PATH_BITS,
    IBV_WC_EX_WITH_IMM, IBV_WC_EX_WITH_QP_NUM, IBV_WC_EX_WITH_SL, IBV_WC_EX_WITH_SLID,
    IBV_WC_EX_WITH_SRC_QP,
};
use crate::border::{Handle, InOut, error, guarded_quick, null};

/// The fields that can be read of a completion.
const READABLE: u64 = IBV_WC_EX_WITH_BYTE_LEN
    | IBV_WC_EX_WITH_IMM
    | IBV_WC_EX_WITH_QP_NUM
    | IBV_WC_EX_WITH_SRC_QP
    | IBV_WC_EX_WITH_SLID
    | IBV_WC_EX_WITH_SL
    | IBV_WC_EX_WITH_DLID_PATH_BITS;

pub(crate) extern "C" fn create(
    context: Handle<Context>,
    attributes: InOut<ibv_cq_init_attr_ex>,
) -> Handle<Cq> {
    null(|| {
        let attr = attributes.get()?;
        let known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
        let flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
        let has_flags = attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0;
        if attr.comp_mask & !known != 0
            || attr.wc_flags & !READABLE != 0
            || has_flags && attr.flags & !flags != 0
        {
            return Err(error(
                Errno::OPNOTSUPP,
                "timestamps and other fields of completions are not supported",
            ));
        }
        let channel = Handle::<Channel>::passed(attr.channel);
        let handle = cq::make(
            context,
            attr.cqe,
            attr.cq_context,
            channel,
            attr.comp_vector,
        )?;
        set_functions(handle)?;
        Ok(handle)
    })
}

fn set_functions(handle: Handle<Cq>) -> Result<()> {
    let object = handle.get()?;
    field!(object, start_poll = start_poll as *const c_void);
    field!(object, next_poll = next_poll as *const c_void);
    field!(object, end_poll = end_poll as *const c_void);
    field!(object, read_opcode = read_opcode as *const c_void);
    field!(object, read_vendor_err = read_vendor_err as *const c_void);
    field!(object, read_byte_len = read_byte_len as *const c_void);
    field!(object, read_imm_data = read_imm_data as *const c_void);
    field!(object, read_qp_num = read_qp_num as *const c_void);
    field!(object, read_src_qp = read_src_qp as *const c_void);
    field!(object, read_wc_flags = read_wc_flags as *const c_void);
    field!(object, read_slid = read_zero as *const c_void);
    field!(object, read_sl = read_zero_octet as *const c_void);
    field!(
        object,
        read_dlid_path_bits = read_zero_octet as *const c_void
    );
    Ok(())
}

/// Takes the next completion, if there is one.
fn take(cq: Handle<Cq>) -> c_int {
    let taken = guarded_quick(|| {
        let object = cq.get()?;
        let mut one = [WorkCompletion::default()];
        let cq = &object.rust().cq;
        if cq.poll(&mut one) == 0 {
            return match cq.is_broken() {
                true => Err(cq::overrun()),
                false => Ok(libc::ENOENT),
            };
        }
        let [one] = one;
        field!(object, wr_id = one.wr_id);
        field!(object, status = one.status as c_int);
        let current = object.rust().current.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = one;
        Ok(0)
    });
    taken.unwrap_or_else(|error| error.raw())
}

extern "C" fn start_poll(cq: Handle<Cq>, _attributes: *mut c_void) -> c_int {
    take(cq)
}

extern "C" fn next_poll(cq: Handle<Cq>) -> c_int {
    take(cq)
}

extern "C" fn end_poll(_: Handle<Cq>) {}

fn current(cq: Handle<Cq>) -> WorkCompletion {
    let current = cq.get_if().map(|object| {
        let current = object.rust().current.lock();
        *current.unwrap_or_else(PoisonError::into_inner)
    });
    current.unwrap_or_default()
}

extern "C" fn read_opcode(cq: Handle<Cq>) -> c_int {
    current(cq).opcode as c_int
}

extern "C" fn read_byte_len(cq: Handle<Cq>) -> u32 {
    current(cq).byte_len()
}

extern "C" fn read_vendor_err(cq: Handle<Cq>) -> u32 {
    current(cq).vendor_err()
}

extern "C" fn read_imm_data(cq: Handle<Cq>) -> u32 {
    besides(&current(cq))
}

extern "C" fn read_qp_num(cq: Handle<Cq>) -> u32 {
    current(cq).qp_num
}

extern "C" fn read_src_qp(cq: Handle<Cq>) -> u32 {
    current(cq).source.unwrap_or(0)
}

extern "C" fn read_wc_flags(cq: Handle<Cq>) -> c_uint {
    flags(&current(cq))
}

extern "C" fn read_zero(_: Handle<Cq>) -> u32 {
    0
}

extern "C" fn read_zero_octet(_: Handle<Cq>) -> u8 {
    0
}
