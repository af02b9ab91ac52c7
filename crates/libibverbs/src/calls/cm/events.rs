//! Events of the connection manager.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use softverbs::{CmEvent, CmEventKind, Errno, Result};

use super::objects::{CmChannel, Event, Id, make_id, refresh, set_route};
use crate::abi::cm::rdma_cm_event;
use crate::abi::describe::Zeroed;
use crate::border::{Handle, Output, error, minus_one};

/// The structure of the identifier that an event is about. That of a new connection is made now.
fn id_of(event: &CmEvent) -> Result<Handle<Id>> {
    let id = event.id();
    let known = Handle::<Id>::tagged(id.tag().get());
    if !known.is_null() {
        return Ok(known);
    }
    let listener = event.listener().map_or(0, |listener| listener.tag().get());
    let listener = Handle::<Id>::tagged(listener);
    let listener = listener.get()?;
    let channel = Handle::<CmChannel>::passed(field!(listener, channel));
    make_id(Arc::clone(id), channel, field!(listener, context))
}

/// Makes the structure of an event.
pub(crate) fn make(event: CmEvent) -> Result<Handle<Event>> {
    let id = id_of(&event)?;
    refresh(id)?;
    if event.kind() == CmEventKind::RouteResolved {
        set_route(id)?;
    }
    let mut c = rdma_cm_event::zeroed();
    c.id = id.raw();
    let listener = event.listener().map_or(0, |listener| listener.tag().get());
    c.listen_id = Handle::<Id>::tagged(listener).raw();
    c.event = event.kind() as c_int;
    c.status = event.status();
    let parameters = event.parameters();
    c.conn.private_data_len = u8::try_from(parameters.private_data.len()).unwrap_or(u8::MAX);
    c.conn.responder_resources = parameters.responder_resources;
    c.conn.initiator_depth = parameters.initiator_depth;
    c.conn.qp_num = parameters.qp_num;
    (c.conn.retry_count, c.conn.rnr_retry_count) = (7, 7);
    let private_data = parameters.private_data.clone();
    let has_data = !private_data.is_empty();
    let data = private_data.as_ptr();
    let handle = Handle::new(
        c,
        Event {
            event: Mutex::new(Some(event)),
            private_data,
        },
    );
    if has_data {
        field!(handle.get()?, conn.private_data = data.cast());
    }
    Ok(handle)
}

/// Waits for the next event of a channel.
pub(crate) fn next(channel: Handle<CmChannel>) -> Result<Handle<Event>> {
    make(channel.get()?.rust().0.get_event()?)
}

pub(crate) extern "C" fn get(channel: Handle<CmChannel>, to: Output<Handle<Event>>) -> c_int {
    minus_one(|| {
        to.set(next(channel)?);
        Ok(0)
    })
}

/// Acknowledges an event, and releases its structure.
pub(crate) fn acknowledge(event: Handle<Event>) -> Result<()> {
    let object = event.get()?;
    let taken = object.rust().event.lock();
    let taken = taken.unwrap_or_else(PoisonError::into_inner).take();
    event.release();
    let taken = taken.ok_or_else(|| error(Errno::INVAL, "the event was acknowledged before"))?;
    taken.acknowledge();
    Ok(())
}

pub(crate) extern "C" fn ack(event: Handle<Event>) -> c_int {
    minus_one(|| acknowledge(event).map(|()| 0))
}

/// Where an identifier has a channel of its own: waits for the event that ends the call. Its failure is the call's failure.
pub(crate) fn complete(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let own = object.rust().data().own_channel;
    let Some(channel) = own else {
        return Ok(());
    };
    let old = object.rust().data().event.take();
    field!(object, event = std::ptr::null_mut());
    if let Some(old) = old {
        acknowledge(old)?;
    }
    let event = next(channel)?;
    object.rust().data().event = Some(event);
    field!(object, event = event.raw());
    let (kind, status) = (field!(event.get()?, event), field!(event.get()?, status));
    if status == 0 {
        return Ok(());
    }
    let errno = match kind == CmEventKind::Rejected as c_int {
        true => Errno::CONNREFUSED,
        false => Errno::from_raw_os_error(status.wrapping_abs()),
    };
    Err(error(errno, "the connection manager reports a failure"))
}
