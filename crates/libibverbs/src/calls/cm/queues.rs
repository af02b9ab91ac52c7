//! Queue pairs and shared receive queues of identifiers.

use std::ffi::{c_int, c_void};
use std::ptr;

use softverbs::{Errno, Result};

use super::objects::{Id, refresh};
use crate::abi::attributes::{
    ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_srq_init_attr, ibv_srq_init_attr_ex,
};
use crate::abi::constants::{IBV_QP_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_PD};
use crate::abi::describe::Zeroed;
use crate::border::{Handle, InOut, error, guarded, minus_one};
use crate::calls::channel;
use crate::calls::cq;
use crate::calls::objects::{Channel, Context, Cq, Pd, Qp, Srq};
use crate::calls::qp::{extended, make_by};
use crate::calls::srq;

/// A completion queue with a channel, for one direction of the queue pair of an identifier.
fn queue(
    id: Handle<Id>,
    context: Handle<Context>,
    depth: u32,
) -> Result<(Handle<Channel>, Handle<Cq>)> {
    let channel = channel::make(context)?;
    let cq = cq::make(context, depth.max(1), id.raw::<c_void>(), channel, 0);
    match cq {
        Ok(cq) => Ok((channel, cq)),
        Err(error) => {
            channel.release();
            Err(error)
        }
    }
}

/// Makes the completion queues that the program has left out.
fn fill_queues(id: Handle<Id>, attr: &mut ibv_qp_init_attr_ex) -> Result<()> {
    let object = id.get()?;
    let context = Handle::<Context>::passed(field!(object, verbs));
    if attr.send_cq.is_null() {
        let (channel, cq) = queue(id, context, attr.cap.max_send_wr)?;
        object.rust().data().own_queues.push(cq);
        field!(object, send_cq_channel = channel.raw());
        attr.send_cq = cq.raw();
    }
    if attr.recv_cq.is_null() {
        let (channel, cq) = queue(id, context, attr.cap.max_recv_wr)?;
        object.rust().data().own_queues.push(cq);
        field!(object, recv_cq_channel = channel.raw());
        attr.recv_cq = cq.raw();
    }
    field!(object, send_cq = attr.send_cq);
    field!(object, recv_cq = attr.recv_cq);
    Ok(())
}

/// Destroys the completion queues that were made with the queue pair.
fn destroy_queues(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let own = std::mem::take(&mut object.rust().data().own_queues);
    for cq in own {
        let channel = Handle::<Channel>::passed(field!(cq.get()?, channel));
        cq.get()?.rust().cq.destroy()?;
        cq.release();
        channel.release();
    }
    field!(object, send_cq = ptr::null_mut());
    field!(object, recv_cq = ptr::null_mut());
    field!(object, send_cq_channel = ptr::null_mut());
    field!(object, recv_cq_channel = ptr::null_mut());
    Ok(())
}

/// Makes the queue pair of an identifier.
pub(crate) fn make_qp(
    id: Handle<Id>,
    pd: Handle<Pd>,
    attr: &mut ibv_qp_init_attr_ex,
) -> Result<()> {
    let object = id.get()?;
    refresh(id)?;
    if !field!(object, qp).is_null() {
        return Err(error(Errno::INVAL, "the identifier has a queue pair"));
    }
    let pd = match pd.is_null() {
        true => Handle::passed(field!(object, pd)),
        false => pd,
    };
    if attr.srq.is_null() {
        attr.srq = field!(object, srq);
    }
    fill_queues(id, attr)?;
    let of = pd.get()?;
    let made = make_by(
        pd,
        attr,
        Box::new(|options| object.rust().id.create_queue_pair(&of.rust().pd, options)),
    );
    let qp = match made {
        Ok(qp) => qp,
        Err(error) => {
            destroy_queues(id)?;
            return Err(error);
        }
    };
    field!(object, qp = qp.raw());
    field!(object, pd = pd.raw());
    Ok(())
}

pub(crate) extern "C" fn create_qp(
    id: Handle<Id>,
    pd: Handle<Pd>,
    attributes: InOut<ibv_qp_init_attr>,
) -> c_int {
    minus_one(|| {
        let mut attr = attributes.get()?;
        let mut all = extended(&attr);
        make_qp(id, pd, &mut all)?;
        (attr.cap, attr.send_cq, attr.recv_cq) = (all.cap, all.send_cq, all.recv_cq);
        attributes.set(attr);
        Ok(0)
    })
}

pub(crate) extern "C" fn create_qp_ex(
    id: Handle<Id>,
    attributes: InOut<ibv_qp_init_attr_ex>,
) -> c_int {
    minus_one(|| {
        let mut attr = attributes.get()?;
        let pd = match attr.comp_mask & IBV_QP_INIT_ATTR_PD {
            0 => Handle::NULL,
            _ => Handle::passed(attr.pd),
        };
        make_qp(id, pd, &mut attr)?;
        attributes.set(attr);
        Ok(0)
    })
}

/// Destroys the queue pair of an identifier, and the queues that were made with it.
pub(crate) fn destroy_qp_of(id: Handle<Id>) -> Result<()> {
    let Some(object) = id.get_own()? else {
        return Ok(());
    };
    let qp = Handle::<Qp>::passed(field!(object, qp));
    if qp.is_null() {
        return Ok(());
    }
    object.rust().id.destroy_queue_pair()?;
    field!(object, qp = ptr::null_mut());
    qp.release();
    destroy_queues(id)
}

pub(crate) extern "C" fn destroy_qp(id: Handle<Id>) {
    let _ = guarded(|| destroy_qp_of(id));
}

fn make_srq(id: Handle<Id>, pd: Handle<Pd>, attr: &mut ibv_srq_init_attr_ex) -> Result<()> {
    let object = id.get()?;
    if !field!(object, srq).is_null() {
        return Err(error(
            Errno::INVAL,
            "the identifier has a shared receive queue",
        ));
    }
    attr.pd = match pd.is_null() {
        true => field!(object, pd),
        false => pd.raw(),
    };
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    let made = srq::make_ex(attr)?;
    field!(object, srq = made.raw());
    Ok(())
}

pub(crate) extern "C" fn create_srq(
    id: Handle<Id>,
    pd: Handle<Pd>,
    attributes: InOut<ibv_srq_init_attr>,
) -> c_int {
    minus_one(|| {
        let mut attr = attributes.get()?;
        let mut all = ibv_srq_init_attr_ex::zeroed();
        (all.srq_context, all.attr) = (attr.srq_context, attr.attr);
        make_srq(id, pd, &mut all)?;
        attr.attr = all.attr;
        attributes.set(attr);
        Ok(0)
    })
}

pub(crate) extern "C" fn create_srq_ex(
    id: Handle<Id>,
    attributes: InOut<ibv_srq_init_attr_ex>,
) -> c_int {
    minus_one(|| {
        let mut attr = attributes.get()?;
        let pd = match attr.comp_mask & IBV_SRQ_INIT_ATTR_PD {
            0 => Handle::NULL,
            _ => Handle::passed(attr.pd),
        };
        make_srq(id, pd, &mut attr)?;
        attributes.set(attr);
        Ok(0)
    })
}

/// Destroys the shared receive queue of an identifier.
pub(crate) fn destroy_srq_of(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let queue = Handle::<Srq>::passed(field!(object, srq));
    if !queue.is_null() {
        srq::destroy_handle(queue)?;
        field!(object, srq = ptr::null_mut());
    }
    Ok(())
}

pub(crate) extern "C" fn destroy_srq(id: Handle<Id>) {
    let _ = guarded(|| destroy_srq_of(id));
}
