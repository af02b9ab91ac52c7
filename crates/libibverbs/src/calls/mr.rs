//! Memory regions.

use std::ffi::{c_int, c_uint, c_void};

use softverbs::{AccessFlags, Errno, MemoryRegion, Result};

use super::objects::{Mr, Pd};
use crate::abi::describe::Zeroed;
use crate::abi::newer::{IBV_REG_MR_MASK_ADDR, IBV_REG_MR_MASK_IOVA, ibv_mr_init_attr};
use crate::abi::objects::ibv_mr;
use crate::border::{Handle, Input, Memory, code, error, null};

fn register(
    pd: Handle<Pd>,
    start: *mut c_void,
    len: usize,
    first: u64,
    access: c_uint,
) -> Result<Handle<Mr>> {
    let domain = pd.get()?;
    // Peers may write only where the program may.
    let is_written = AccessFlags::from_bits_retain(access).contains(AccessFlags::LOCAL_WRITE);
    let buffer = Memory { start, len }.buffer(is_written)?;
    let region = MemoryRegion::register(&domain.rust().pd, &buffer, first, access)?;
    let mut c = ibv_mr::zeroed();
    c.context = field!(domain, context);
    c.pd = pd.raw();
    c.addr = start;
    c.length = len;
    c.handle = region.key();
    c.lkey = region.key();
    c.rkey = region.key();
    Ok(Handle::new(c, Mr(region)))
}

pub(crate) extern "C" fn reg_mr(
    pd: Handle<Pd>,
    start: *mut c_void,
    len: usize,
    access: c_int,
) -> Handle<Mr> {
    null(|| register(pd, start, len, start.addr() as u64, access.cast_unsigned()))
}

pub(crate) extern "C" fn reg_mr_iova(
    pd: Handle<Pd>,
    start: *mut c_void,
    len: usize,
    iova: u64,
    access: c_int,
) -> Handle<Mr> {
    null(|| register(pd, start, len, iova, access.cast_unsigned()))
}

pub(crate) extern "C" fn reg_mr_iova2(
    pd: Handle<Pd>,
    start: *mut c_void,
    len: usize,
    iova: u64,
    access: c_uint,
) -> Handle<Mr> {
    null(|| register(pd, start, len, iova, access))
}

/// Registers memory by attributes (`ibv_reg_mr_ex`): those of addresses, and none of files and handles.
pub(crate) extern "C" fn reg_mr_ex(
    pd: Handle<Pd>,
    attributes: Input<ibv_mr_init_attr>,
) -> Handle<Mr> {
    null(|| {
        let attr = attributes.get()?;
        let known = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA;
        if attr.comp_mask & !known != 0 {
            return Err(error(
                Errno::OPNOTSUPP,
                "memory is registered by its address, not by a file, a buffer or a handle for DMA",
            ));
        }
        if attr.comp_mask & IBV_REG_MR_MASK_ADDR == 0 {
            return Err(error(
                Errno::INVAL,
                "comp_mask lacks IBV_REG_MR_MASK_ADDR: there is no address to register",
            ));
        }
        let first = match attr.comp_mask & IBV_REG_MR_MASK_IOVA {
            0 => attr.addr.addr() as u64,
            _ => attr.iova,
        };
        register(
            pd,
            attr.addr,
            attr.length,
            first,
            attr.access.cast_unsigned(),
        )
    })
}

pub(crate) extern "C" fn dereg_mr(mr: Handle<Mr>) -> c_int {
    code(|| {
        if let Some(object) = mr.get_own()? {
            object.rust().0.deregister()?;
            mr.release();
        }
        Ok(())
    })
}
