//! Shared receive queues.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use softverbs::{Errno, Result, SharedReceiveQueue, SrqAttributes};

use super::objects::{Context, Pd, Srq};
use super::requests::post_receives;
use crate::abi::attributes::{ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex};
use crate::abi::constants::{
    IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_TYPE, IBV_SRQ_LIMIT, IBV_SRQ_MAX_WR, IBV_SRQT_BASIC,
};
use crate::abi::describe::Zeroed;
use crate::abi::objects::{ibv_recv_wr, ibv_srq};
use crate::border::{Handle, InOut, Output, code, code_quick, error, null};

/// Attributes as `softverbs` has them.
pub(crate) fn attributes_of(c: ibv_srq_attr) -> SrqAttributes {
    SrqAttributes {
        max_wr: c.max_wr,
        max_sge: c.max_sge,
        limit: 0,
    }
}

/// Makes the structure of a shared receive queue.
pub(crate) fn show(
    pd: Handle<Pd>,
    srq_context: *mut c_void,
    srq: Arc<SharedReceiveQueue>,
) -> Result<Handle<Srq>> {
    let mut c = ibv_srq::zeroed();
    c.context = field!(pd.get()?, context);
    c.srq_context = srq_context;
    c.pd = pd.raw();
    let handle = Handle::new(c, Srq(srq));
    handle.get()?.rust().0.tag().set(handle.tag());
    Ok(handle)
}

fn make(pd: Handle<Pd>, srq_context: *mut c_void, attr: ibv_srq_attr) -> Result<Handle<Srq>> {
    let domain = pd.get()?;
    let srq = SharedReceiveQueue::create(&domain.rust().pd, attributes_of(attr))?;
    show(pd, srq_context, srq)
}

/// The sizes that a queue has got, for the attributes of the call that has made it.
pub(crate) fn sizes(srq: Handle<Srq>, attr: &mut ibv_srq_attr) -> Result<()> {
    let made = srq.get()?.rust().0.query();
    (attr.max_wr, attr.max_sge) = (made.max_wr, made.max_sge);
    Ok(())
}

pub(crate) extern "C" fn create(
    pd: Handle<Pd>,
    attributes: InOut<ibv_srq_init_attr>,
) -> Handle<Srq> {
    null(|| {
        let mut attr = attributes.get()?;
        let handle = make(pd, attr.srq_context, attr.attr)?;
        sizes(handle, &mut attr.attr)?;
        attributes.set(attr);
        Ok(handle)
    })
}

/// Checks that a queue is to be of the basic type.
pub(crate) fn check_type(attr: &ibv_srq_init_attr_ex) -> Result<()> {
    let known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    let has_type = attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE != 0;
    if attr.comp_mask & !known != 0 || has_type && attr.srq_type != IBV_SRQT_BASIC {
        return Err(error(
            Errno::OPNOTSUPP,
            "shared receive queues are those of the basic type",
        ));
    }
    Ok(())
}

pub(crate) extern "C" fn create_ex(
    _: Handle<Context>,
    attributes: InOut<ibv_srq_init_attr_ex>,
) -> Handle<Srq> {
    null(|| {
        let mut attr = attributes.get()?;
        check_type(&attr)?;
        if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
            return Err(error(Errno::INVAL, "there is no protection domain"));
        }
        let handle = make(Handle::passed(attr.pd), attr.srq_context, attr.attr)?;
        sizes(handle, &mut attr.attr)?;
        attributes.set(attr);
        Ok(handle)
    })
}

pub(crate) extern "C" fn modify(
    srq: Handle<Srq>,
    attributes: InOut<ibv_srq_attr>,
    mask: c_int,
) -> c_int {
    code(|| {
        let attr = attributes.get()?;
        let max_wr = (mask & IBV_SRQ_MAX_WR != 0).then_some(attr.max_wr);
        let limit = (mask & IBV_SRQ_LIMIT != 0).then_some(attr.srq_limit);
        srq.get()?.rust().0.modify(max_wr, limit)
    })
}

pub(crate) extern "C" fn query(srq: Handle<Srq>, to: Output<ibv_srq_attr>) -> c_int {
    code(|| {
        let attributes = srq.get()?.rust().0.query();
        to.set(ibv_srq_attr {
            max_wr: attributes.max_wr,
            max_sge: attributes.max_sge,
            srq_limit: attributes.limit,
        });
        Ok(())
    })
}

pub(crate) fn destroy_handle(srq: Handle<Srq>) -> Result<()> {
    if let Some(object) = srq.get_own()? {
        object.rust().0.destroy()?;
        srq.release();
    }
    Ok(())
}

pub(crate) extern "C" fn destroy(srq: Handle<Srq>) -> c_int {
    code(|| destroy_handle(srq))
}

pub(crate) extern "C" fn post(
    srq: Handle<Srq>,
    first: *mut ibv_recv_wr,
    bad: Output<*mut ibv_recv_wr>,
) -> c_int {
    code_quick(|| {
        let srq = &srq.get()?.rust().0;
        let depth = || srq.query().max_wr;
        post_receives(first, bad, srq.max_sge(), depth, |wr_id, sges| {
            srq.post_receive(wr_id, sges)
        })
    })
}
