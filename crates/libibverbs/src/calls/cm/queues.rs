//! Queue pairs, completion queues and shared receive queues of identifiers.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use softverbs::{CompletionQueue, Errno, IdQpOptions, Result};

use super::objects::{Id, refresh};
use crate::abi::attributes::{
    ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_srq_init_attr, ibv_srq_init_attr_ex,
};
use crate::abi::constants::{IBV_QP_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_PD};
use crate::abi::describe::Zeroed;
use crate::abi::objects::ibv_cq;
use crate::border::{Handle, InOut, error, guarded, minus_one};
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
        service: qp::service_of(attr.qp_type)?,
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
    queue: Arc<CompletionQueue>,
) -> Result<Handle<Cq>> {
    let channel = match queue.channel() {
        Some(channel) => channel::show(context, Arc::clone(channel)),
        None => Handle::NULL,
    };
    cq::show(context, id.raw::<c_void>(), channel, queue)
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
    let own: Result<Vec<_>> = own.map(|queue| show_queue(id, context, queue)).collect();
    let pd = match pd.is_null() {
        true => Handle::passed(field!(object, pd)),
        false => pd,
    };
    let options = made.options();
    let cq = |cq: &CompletionQueue| Handle::<Cq>::tagged(cq.tag().get());
    let (send_cq, receive_cq) = (cq(&options.send_cq), cq(&options.receive_cq));
    let srq = options.srq.as_ref().map_or(0, |srq| srq.tag().get());
    (attr.send_cq, attr.recv_cq) = (send_cq.raw(), receive_cq.raw());
    attr.srq = Handle::<Srq>::tagged(srq).raw();
    let handle = qp::show(pd, attr, made)?;
    object.rust().data().own_queues = own?;
    // Queues that the program has named in the attributes stay out of the structure.
    let own = object.rust().data().own_queues.clone();
    for cq in own {
        let channel = field!(cq.get()?, channel);
        if cq.tag() == send_cq.tag() {
            field!(object, send_cq = cq.raw());
            field!(object, send_cq_channel = channel);
        } else {
            field!(object, recv_cq = cq.raw());
            field!(object, recv_cq_channel = channel);
        }
    }
    field!(object, qp = handle.raw());
    field!(object, pd = pd.raw());
    Ok(())
}

/// The queue pair in the structure, null if there is none.
pub(crate) fn qp_of(id: Handle<Id>) -> Result<Handle<Qp>> {
    Ok(Handle::passed(field!(id.get()?, qp)))
}

/// The connection manager has changed the state of the queue pair in the structure: shows it there.
pub(crate) fn show_qp_state(id: Handle<Id>) -> Result<()> {
    let qp = qp_of(id)?;
    if !qp.is_null() {
        let object = qp.get()?;
        field!(object, qp_base.state = object.rust().qp.state() as c_uint);
    }
    Ok(())
}

/// Lets the next connection of the identifier use the queue pair that is in the structure.
pub(crate) fn use_qp(id: Handle<Id>) -> Result<()> {
    let qp = qp_of(id)?;
    let qp = match qp.is_null() {
        true => None,
        false => Some(&qp.get()?.rust().qp),
    };
    id.get()?.rust().id.use_queue_pair(qp)
}

/// Lets the next queue pair draw from the shared receive queue that is in the structure.
fn use_srq(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let srq = Handle::<Srq>::passed(field!(object, srq));
    let srq = srq.get_if().map(|srq| Arc::clone(&srq.rust().0));
    object.rust().id.use_shared_receive_queue(srq);
    Ok(())
}

/// Takes a completion queue of the structure for one that the attributes leave out.
fn choose_cq(attribute: &mut *mut ibv_cq, of_id: *mut ibv_cq) -> Result<()> {
    if attribute.is_null() {
        *attribute = of_id;
    }
    match of_id.is_null() || *attribute == of_id {
        true => Ok(()),
        false => Err(error(
            Errno::INVAL,
            "the attributes name another completion queue than the identifier has",
        )),
    }
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
    use_qp(id)?;
    use_srq(id)?;
    choose_cq(&mut attr.send_cq, field!(object, send_cq))?;
    choose_cq(&mut attr.recv_cq, field!(object, recv_cq))?;
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

/// Destroys the queue pair in the structure, whoever has made it, and the completion queues there.
pub(crate) fn destroy_qp_of(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let qp = qp_of(id)?;
    if !qp.is_null() {
        qp::destroy_handle(qp)?;
        field!(object, qp = ptr::null_mut());
    }
    object.rust().id.forget_queue_pair();
    destroy_queues_of(id)
}

/// Destroys the completion queues in the structure, with their channels: those that were made with the queue pair, and those that the
/// program has put there.
fn destroy_queues_of(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let own = object.rust().data().own_queues.clone();
    let mut cqs = vec![field!(object, send_cq), field!(object, recv_cq)];
    let mut channels = vec![
        field!(object, send_cq_channel),
        field!(object, recv_cq_channel),
    ];
    for cq in &own {
        let own_channel = field!(cq.get()?, channel);
        channels.retain(|channel| *channel != own_channel);
        cqs.retain(|other| *other != cq.raw());
    }
    destroy_own_queues(object.rust(), &own)?;
    cqs.dedup();
    for cq in cqs.into_iter().filter(|cq| !cq.is_null()) {
        cq::destroy_handle(Handle::passed(cq))?;
    }
    channels.dedup();
    for channel in channels.into_iter().filter(|channel| !channel.is_null()) {
        channel::destroy_handle(Handle::passed(channel))?;
    }
    field!(object, send_cq = ptr::null_mut());
    field!(object, recv_cq = ptr::null_mut());
    field!(object, send_cq_channel = ptr::null_mut());
    field!(object, recv_cq_channel = ptr::null_mut());
    Ok(())
}

/// Destroys the completion queues that were made with a queue pair, and releases their structures.
fn destroy_own_queues(id: &Id, own: &[Handle<Cq>]) -> Result<()> {
    id.id.destroy_own_queues()?;
    id.data().own_queues.clear();
    for cq in own {
        let channel = Handle::<Channel>::passed(field!(cq.get()?, channel));
        cq.release();
        channel.release();
    }
    Ok(())
}

/// Destroys the shared receive queue in the structure, whoever has made it.
pub(crate) fn destroy_srq_of(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let srq = Handle::<Srq>::passed(field!(object, srq));
    if !srq.is_null() {
        srq::destroy_handle(srq)?;
        field!(object, srq = ptr::null_mut());
    }
    use_srq(id)
}

pub(crate) extern "C" fn destroy_qp(id: Handle<Id>) {
    let _ = guarded(|| match id.get_own()? {
        Some(_) => destroy_qp_of(id),
        None => Ok(()),
    });
}

fn make_srq(id: Handle<Id>, pd: Handle<Pd>, attr: &mut ibv_srq_init_attr_ex) -> Result<()> {
    let object = id.get()?;
    refresh(id)?;
    srq::check_type(attr)?;
    use_srq(id)?;
    let pd = match pd.is_null() {
        true => Handle::passed(field!(object, pd)),
        false => pd,
    };
    let domain = pd.get_if().map(|pd| Arc::clone(&pd.rust().pd));
    let wanted = srq::attributes_of(attr.attr);
    let made = object
        .rust()
        .id
        .create_shared_receive_queue(domain, wanted)?;
    let handle = srq::show(pd, attr.srq_context, made)?;
    srq::sizes(handle, &mut attr.attr)?;
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
    let _ = guarded(|| match id.get_own()? {
        Some(_) => destroy_srq_of(id),
        None => Ok(()),
    });
}
