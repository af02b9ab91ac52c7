//! Queue pairs, completion queues and shared receive queues of identifiers.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use softverbs::{CompletionQueue, IdQpOptions, Result};

use super::objects::{Id, refresh};
use crate::abi::attributes::{
    ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_srq_init_attr, ibv_srq_init_attr_ex,
};
use crate::abi::constants::{IBV_QP_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_PD};
use crate::abi::describe::Zeroed;
use crate::border::{Handle, InOut, guarded, minus_one};
use crate::calls::objects::{Channel, Context, Cq, Pd, Qp, Srq};
use crate::calls::qp::{check_attributes, extended};
use crate::calls::{channel, cq, qp, srq};

/// The options of a program for the queue pair of an identifier.
pub(crate) fn options(pd: Handle<Pd>, attr: &ibv_qp_init_attr_ex) -> Result<IdQpOptions> {
    check_attributes(attr)?;
    let cq = |pointer| {
        let handle = Handle::<Cq>::passed(pointer);
        handle.get_if().map(|cq| Arc::clone(&cq.rust().cq))
    };
    let srq = Handle::<Srq>::passed(attr.srq);
    Ok(IdQpOptions {
        pd: pd.get_if().map(|pd| Arc::clone(&pd.rust().pd)),
        send_cq: cq(attr.send_cq),
        receive_cq: cq(attr.recv_cq),
        srq: srq.get_if().map(|srq| Arc::clone(&srq.rust().0)),
        caps: qp::caps_of(&attr.cap),
        signal_all: attr.sq_sig_all != 0,
    })
}

/// Makes the structures of a completion queue that was made with a queue pair, and of its channel.
fn show_queue(
    id: Handle<Id>,
    context: Handle<Context>,
    of: Arc<CompletionQueue>,
) -> Result<Handle<Cq>> {
    let channel = match of.channel() {
        Some(channel) => channel::show(context, Arc::clone(channel)),
        None => Handle::NULL,
    };
    cq::show(context, id.raw::<c_void>(), channel, of)
}

/// Makes the structures of the queue pair of an identifier and of the queues that were made with it, and fills in the attributes.
pub(crate) fn show_qp(
    id: Handle<Id>,
    pd: Handle<Pd>,
    attr: &mut ibv_qp_init_attr_ex,
) -> Result<()> {
    let object = id.get()?;
    let Some(made) = object.rust().id.queue_pair() else {
        return Ok(());
    };
    let context = Handle::<Context>::passed(field!(object, verbs));
    let own = object.rust().id.own_queues().into_iter();
    let own: Result<Vec<_>> = own.map(|of| show_queue(id, context, of)).collect();
    let pd = match pd.is_null() {
        true => Handle::passed(field!(object, pd)),
        false => pd,
    };
    let of = made.options();
    let cq = |cq: &CompletionQueue| Handle::<Cq>::tagged(cq.tag().get());
    let (send_cq, receive_cq) = (cq(&of.send_cq), cq(&of.receive_cq));
    let srq = of.srq.as_ref().map_or(0, |srq| srq.tag().get());
    (attr.send_cq, attr.recv_cq) = (send_cq.raw(), receive_cq.raw());
    attr.srq = Handle::<Srq>::tagged(srq).raw();
    let handle = qp::show(pd, attr, made)?;
    {
        let mut data = object.rust().data();
        (data.own_queues, data.qp) = (own?, Some(handle));
    }
    let channel = |cq: Handle<Cq>| Ok(field!(cq.get()?, channel));
    field!(object, send_cq = send_cq.raw());
    field!(object, recv_cq = receive_cq.raw());
    let own = object.rust().data().own_queues.clone();
    for cq in own {
        if cq.tag() == send_cq.tag() {
            field!(object, send_cq_channel = channel(cq)?);
        } else {
            field!(object, recv_cq_channel = channel(cq)?);
        }
    }
    field!(object, qp = handle.raw());
    field!(object, pd = pd.raw());
    Ok(())
}

/// Makes the queue pair of an identifier.
fn make_qp(id: Handle<Id>, pd: Handle<Pd>, attr: &mut ibv_qp_init_attr_ex) -> Result<()> {
    let object = id.get()?;
    refresh(id)?;
    // The program may have changed the fields.
    let pd = match pd.is_null() {
        true => Handle::passed(field!(object, pd)),
        false => pd,
    };
    if attr.srq.is_null() {
        attr.srq = field!(object, srq);
    }
    object.rust().id.make_queue_pair(options(pd, attr)?)?;
    show_qp(id, pd, attr)
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

/// Releases the structures of queues that the identifier has no more.
pub(crate) fn hide(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let of = &object.rust().id;
    if of.queue_pair().is_none() {
        let qp = object.rust().data().qp.take();
        if let Some(qp) = qp {
            qp.release();
            field!(object, qp = ptr::null_mut());
            field!(object, send_cq = ptr::null_mut());
            field!(object, recv_cq = ptr::null_mut());
        }
    }
    if of.own_queues().is_empty() {
        let own = std::mem::take(&mut object.rust().data().own_queues);
        for cq in own {
            let channel = Handle::<Channel>::passed(field!(cq.get()?, channel));
            cq.release();
            channel.release();
        }
        field!(object, send_cq_channel = ptr::null_mut());
        field!(object, recv_cq_channel = ptr::null_mut());
    }
    if of.shared_receive_queue().is_none() {
        let srq = object.rust().data().srq.take();
        if let Some(srq) = srq {
            srq.release();
            field!(object, srq = ptr::null_mut());
        }
    }
    Ok(())
}

/// Destroys a queue pair and a shared receive queue that the program has made itself and then put into the structure.
pub(crate) fn destroy_foreign(id: Handle<Id>) -> Result<()> {
    destroy_foreign_qp(id)?;
    destroy_foreign_srq(id)
}

fn destroy_foreign_srq(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let srq = Handle::<Srq>::passed(field!(object, srq));
    let own = object.rust().data().srq;
    if !srq.is_null() && own.is_none_or(|own| own.tag() != srq.tag()) {
        srq::destroy_handle(srq)?;
        field!(object, srq = own.unwrap_or(Handle::NULL).raw());
    }
    Ok(())
}

fn destroy_foreign_qp(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let qp = Handle::<Qp>::passed(field!(object, qp));
    let own = object.rust().data().qp;
    if !qp.is_null() && own.is_none_or(|own| own.tag() != qp.tag()) {
        qp::destroy_handle(qp)?;
        field!(object, qp = own.unwrap_or(Handle::NULL).raw());
    }
    Ok(())
}

pub(crate) extern "C" fn destroy_qp(id: Handle<Id>) {
    let _ = guarded(|| {
        let Some(object) = id.get_own()? else {
            return Ok(());
        };
        destroy_foreign_qp(id)?;
        let of = &object.rust().id;
        let destroyed = match of.queue_pair() {
            Some(_) => of.destroy_queue_pair(),
            None => Ok(()),
        };
        hide(id)?;
        destroyed
    });
}

fn make_srq(id: Handle<Id>, pd: Handle<Pd>, attr: &mut ibv_srq_init_attr_ex) -> Result<()> {
    let object = id.get()?;
    refresh(id)?;
    srq::check_type(attr)?;
    let pd = match pd.is_null() {
        true => Handle::passed(field!(object, pd)),
        false => pd,
    };
    let of = pd.get_if().map(|pd| Arc::clone(&pd.rust().pd));
    let wanted = srq::attributes_of(attr.attr);
    let made = object.rust().id.create_shared_receive_queue(of, wanted)?;
    let handle = srq::show(pd, attr.srq_context, made)?;
    srq::sizes(handle, &mut attr.attr)?;
    object.rust().data().srq = Some(handle);
    field!(object, srq = handle.raw());
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

pub(crate) extern "C" fn destroy_srq(id: Handle<Id>) {
    let _ = guarded(|| {
        let Some(object) = id.get_own()? else {
            return Ok(());
        };
        destroy_foreign_srq(id)?;
        let destroyed = object.rust().id.destroy_shared_receive_queue();
        hide(id)?;
        destroyed
    });
}
