//! Memory regions.

use std::ffi::{c_int, c_uint, c_void};

use softverbs::{AccessFlags, MemoryRegion, Result};

use super::objects::{Mr, Pd};
use crate::abi::describe::Zeroed;
use crate::abi::objects::ibv_mr;
use crate::border::{Handle, Memory, code, null};

fn register(
    pd: Handle<Pd>,
    start: *mut c_void,
    len: usize,
    first: u64,
    access: c_uint,
) -> Result<Handle<Mr>> {
    let of = pd.get()?;
    // Peers may write only where the program may.
    let is_written = AccessFlags::from_bits_retain(access).contains(AccessFlags::LOCAL_WRITE);
    let buffer = Memory { start, len }.buffer(is_written)?;
    let region = MemoryRegion::register(&of.rust().pd, &buffer, first, access)?;
    let mut c = ibv_mr::zeroed();
    c.context = field!(of, context);
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

pub(crate) extern "C" fn dereg_mr(mr: Handle<Mr>) -> c_int {
    code(|| {
        if let Some(object) = mr.get_own()? {
            object.rust().0.deregister()?;
            mr.release();
        }
        Ok(())
    })
}
