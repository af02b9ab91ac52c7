//! Calls that do several steps at once: `rdma_create_ep`, `rdma_get_request`.

use std::ffi::c_int;

use softverbs::{Errno, Result};

use super::events::{acknowledge, next};
use super::id::{bind, destroy_handle, make, migrate_to, resolve_addr, resolve_route};
use super::objects::{CmChannel, Id};
use super::queues::{destroy_qp_of, destroy_srq_of, make_qp};
use crate::abi::attributes::ibv_qp_init_attr;
use crate::abi::cm::rdma_addrinfo;
use crate::abi::constants::{RAI_PASSIVE, RDMA_CM_EVENT_CONNECT_REQUEST};
use crate::border::{Address, Handle, InOut, Input, Kept, Output, error, guarded, minus_one};
use crate::calls::objects::Pd;
use crate::calls::qp::extended;

/// The error of a call of this library that has returned -1.
fn checked(result: c_int) -> Result<()> {
    match result {
        0 => Ok(()),
        _ => {
            let errno = std::io::Error::last_os_error().raw_os_error();
            let errno = Errno::from_raw_os_error(errno.unwrap_or(libc::EIO));
            Err(error(errno, "a step of the call failed"))
        }
    }
}

/// The steps that lead to an endpoint, after its identifier was made.
fn prepare(
    id: Handle<Id>,
    info: &rdma_addrinfo,
    pd: Handle<Pd>,
    attributes: InOut<ibv_qp_init_attr>,
) -> Result<()> {
    let source = Address::passed(info.ai_src_addr);
    if info.ai_flags & RAI_PASSIVE != 0 {
        checked(bind(id, source))?;
        if let Some(mut attr) = attributes.get_if() {
            attr.qp_type = info.ai_qp_type.cast_unsigned();
            id.get()?.rust().data().template = Some((pd, Kept(attr)));
        }
        return Ok(());
    }
    checked(resolve_addr(
        id,
        source,
        Address::passed(info.ai_dst_addr),
        2000,
    ))?;
    checked(resolve_route(id, 2000))?;
    if let Some(mut attr) = attributes.get_if() {
        attr.qp_type = info.ai_qp_type.cast_unsigned();
        let mut all = extended(&attr);
        make_qp(id, pd, &mut all)?;
        (attr.cap, attr.send_cq, attr.recv_cq) = (all.cap, all.send_cq, all.recv_cq);
        attributes.set(attr);
    }
    Ok(())
}

pub(crate) extern "C" fn create(
    to: Output<Handle<Id>>,
    info: Input<rdma_addrinfo>,
    pd: Handle<Pd>,
    attributes: InOut<ibv_qp_init_attr>,
) -> c_int {
    minus_one(|| {
        let info = info.get()?;
        let id = make(Handle::NULL, std::ptr::null_mut())?;
        if let Err(error) = prepare(id, &info, pd, attributes) {
            destroy_handle(id)?;
            return Err(error);
        }
        to.set(id);
        Ok(0)
    })
}

pub(crate) extern "C" fn destroy(id: Handle<Id>) {
    let _ = guarded(|| {
        destroy_qp_of(id)?;
        destroy_srq_of(id)?;
        destroy_handle(id)
    });
}

pub(crate) extern "C" fn get_request(listener: Handle<Id>, to: Output<Handle<Id>>) -> c_int {
    minus_one(|| {
        let object = listener.get()?;
        let own = object.rust().data().own_channel;
        let Some(channel) = own else {
            return Err(error(
                Errno::INVAL,
                "the listener has a channel: get its events from there",
            ));
        };
        let event = next(channel)?;
        let kind = field!(event.get()?, event);
        let status = field!(event.get()?, status);
        if kind != RDMA_CM_EVENT_CONNECT_REQUEST || status != 0 {
            acknowledge(event)?;
            return Err(error(Errno::INVAL, "the event is no request"));
        }
        let id = Handle::<Id>::passed(field!(event.get()?, id));
        migrate_to(id, Handle::<CmChannel>::NULL)?;
        let template = object.rust().data().template;
        if let Some((pd, Kept(attr))) = template {
            let made = make_qp(id, pd, &mut extended(&attr));
            if let Err(error) = made {
                acknowledge(event)?;
                destroy_handle(id)?;
                return Err(error);
            }
        }
        let new = id.get()?;
        new.rust().data().event = Some(event);
        field!(new, event = event.raw());
        to.set(id);
        Ok(0)
    })
}
