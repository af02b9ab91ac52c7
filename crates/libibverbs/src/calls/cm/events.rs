//! Events of the connection manager.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use softverbs::{CmEvent, CmEventKind, ConnParameters, Errno, Result};

use super::channel::CmChannel;
use super::objects::{Event, Id, make_id, refresh, set_route};
use super::queues::{qp_of, show_qp_state};
use crate::abi::cm::rdma_cm_event;
use crate::abi::describe::Zeroed;
use crate::abi::newer::RDMA_CM_EVENT_USER;
use crate::border::{Handle, Output, cancellable, error, explain, minus_one};

/// The structure of the identifier that an event is about. That of a new connection is made now.
fn id_of(event: &CmEvent) -> Result<Handle<Id>> {
    let id = event.id();
    let known = Handle::<Id>::tagged(id.tag().get());
    if !known.is_null() {
        return Ok(known);
    }
    let listener = listener_of(event);
    make_id(Arc::clone(id), field!(listener.get()?, context))
}

fn listener_of(event: &CmEvent) -> Handle<Id> {
    Handle::tagged(event.listener().map_or(0, |listener| listener.tag().get()))
}

/// The structure of an event, which points to no private data yet.
fn structure(kind: CmEventKind, status: c_int, parameters: &ConnParameters) -> rdma_cm_event {
    let mut c = rdma_cm_event::zeroed();
    c.event = kind as c_int;
    c.status = status;
    c.private_data_len = u8::try_from(parameters.private_data.len()).unwrap_or(u8::MAX);
    let Some(datagrams) = &parameters.datagrams else {
        c.responder_resources = parameters.responder_resources;
        c.initiator_depth = parameters.initiator_depth;
        c.qp_num = parameters.qp_num;
        (c.retry_count, c.rnr_retry_count) = (7, 7);
        return c;
    };
    let address = &datagrams.address;
    let ([first, rest @ ..], []) = address.dgid.as_chunks::<4>() else {
        return c;
    };
    c.qp_num = u32::from_ne_bytes(*first);
    c.ud_dgid_rest.copy_from_slice(rest.as_flattened());
    (c.ud_flow_label, c.ud_sgid_index) = (address.flow_label, address.sgid_index);
    (c.ud_hop_limit, c.ud_traffic_class) = (address.hop_limit, address.traffic_class);
    (c.ud_dlid, c.ud_sl, c.ud_src_path_bits) = (address.dlid, address.sl, address.src_path_bits);
    (c.ud_static_rate, c.ud_is_global) = (address.static_rate, u8::from(address.is_global));
    c.ud_port_num = address.port;
    (c.ud_qp_num, c.ud_qkey) = (datagrams.number, datagrams.key);
    c
}

/// Makes an event of a structure and its private data.
fn handle(
    c: rdma_cm_event,
    event: Option<CmEvent>,
    private_data: Vec<u8>,
) -> Result<Handle<Event>> {
    let has_data = !private_data.is_empty();
    let data = private_data.as_ptr();
    let event = Mutex::new(event);
    let handle = Handle::new(
        c,
        Event {
            event,
            private_data,
        },
    );
    if has_data {
        field!(handle.get()?, private_data = data.cast());
    }
    Ok(handle)
}

/// The kind and the status of an event. A queue pair that the program has put into the structure of the identifier before it gets the peer's
/// answer is connected here.
fn complete(id: Handle<Id>, event: &CmEvent) -> Result<(CmEventKind, c_int)> {
    let qp = qp_of(id)?;
    let is_answer = event.kind() == CmEventKind::ConnectResponse && event.status() == 0;
    if !is_answer || qp.is_null() {
        return Ok((event.kind(), event.status()));
    }
    Ok(match event.id().complete(&qp.get()?.rust().qp) {
        Ok(()) => (CmEventKind::Established, 0),
        Err(error) => {
            explain(&error);
            (CmEventKind::ConnectError, -error.raw())
        }
    })
}

/// Makes the structure of an event.
fn make(event: CmEvent) -> Result<Handle<Event>> {
    let id = id_of(&event)?;
    refresh(id)?;
    if event.kind() == CmEventKind::RouteResolved {
        set_route(id)?;
    }
    let parameters = event.parameters().clone();
    let (kind, status) = complete(id, &event)?;
    if kind == CmEventKind::Established {
        show_qp_state(id)?;
    }
    if let Some(cause) = event.cause() {
        explain(cause);
    }
    let mut c = structure(kind, status, &parameters);
    c.id = id.raw();
    c.listen_id = listener_of(&event).raw();
    if kind == CmEventKind::User {
        // The number is where the union begins.
        let argument = usize::try_from(event.argument()).unwrap_or(usize::MAX);
        c.private_data = std::ptr::without_provenance(argument);
    }
    handle(c, Some(event), parameters.private_data)
}

/// Shows the event that the last call of a synchronous identifier has waited for, in place of the one before.
pub(crate) fn show_last(id: Handle<Id>, listener: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let old = object.rust().data().event.take();
    // A program that has taken the event from the field releases it itself.
    if let Some(old) = old
        && Handle::<Event>::passed(field!(object, event)).tag() == old.tag()
    {
        field!(object, event = std::ptr::null_mut());
        old.release();
    }
    let Some(last) = object.rust().id.last_event() else {
        return Ok(());
    };
    if last.kind == CmEventKind::RouteResolved {
        set_route(id)?;
    }
    let mut c = structure(last.kind, last.status, &last.parameters);
    (c.id, c.listen_id) = (id.raw(), listener.raw());
    let event = handle(c, None, last.parameters.private_data)?;
    object.rust().data().event = Some(event);
    field!(object, event = event.raw());
    Ok(())
}

pub(crate) extern "C-unwind" fn get(
    channel: Handle<CmChannel>,
    to: Output<Handle<Event>>,
) -> c_int {
    let get = || {
        to.set(make(channel.get()?.rust().channel_to_wait()?.get_event()?)?);
        Ok(0)
    };
    cancellable(|| minus_one(get))
}

/// Acknowledges an event, and releases its structure. Events of synchronous identifiers need no acknowledgement.
pub(crate) extern "C" fn ack(event: Handle<Event>) -> c_int {
    minus_one(|| {
        let taken = event.get()?.rust().event.lock();
        let taken = taken.unwrap_or_else(PoisonError::into_inner).take();
        event.release();
        if let Some(taken) = taken {
            taken.acknowledge();
        }
        Ok(0)
    })
}

/// Leaves an event of the program in the channel of an identifier.
pub(crate) extern "C" fn write(id: Handle<Id>, kind: c_int, status: c_int, argument: u64) -> c_int {
    minus_one(|| {
        let inner = &id.get()?.rust().id;
        if kind != RDMA_CM_EVENT_USER {
            return Err(error(
                Errno::INVAL,
                "programs write events of the kind RDMA_CM_EVENT_USER",
            ));
        }
        inner.write_event(status, argument).map(|()| 0)
    })
}
