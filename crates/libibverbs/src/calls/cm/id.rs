//! Identifiers: life, addresses, options.

use std::ffi::{c_int, c_uint, c_void};

use softverbs::{CmId, Errno, PortSpace, QpState, Result};

use super::channel::CmChannel;
use super::events::show_last;
use super::objects::{Id, contexts, make_id, refresh, show_channel};
use crate::abi::attributes::ibv_qp_attr;
use crate::abi::constants::{
    RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, RDMA_OPTION_ID_AFONLY, RDMA_OPTION_ID_REUSEADDR,
    RDMA_OPTION_ID_TOS, RDMA_PS_TCP, RDMA_PS_UDP,
};
use crate::abi::objects::ibv_context;
use crate::border::{
    Address, Handle, InOut, Input, Output, cancellable, error, guarded, minus_one,
};
use crate::calls::device::array;
use crate::calls::qp::c_attributes;
use crate::process;

fn make(channel: Handle<CmChannel>, context: *mut c_void, space: PortSpace) -> Result<Handle<Id>> {
    let id = match channel.is_null() {
        true => CmId::create_synchronous(&process::process()?, space)?,
        false => CmId::create_in(&channel.get()?.rust().channel()?, space)?,
    };
    make_id(id, context)
}

pub(crate) extern "C" fn create(
    channel: Handle<CmChannel>,
    to: Output<Handle<Id>>,
    context: *mut c_void,
    space: c_uint,
) -> c_int {
    minus_one(|| {
        let space = match space {
            RDMA_PS_TCP => PortSpace::Tcp,
            RDMA_PS_UDP => PortSpace::Udp,
            _ => {
                return Err(error(
                    Errno::OPNOTSUPP,
                    "the port spaces are RDMA_PS_TCP and RDMA_PS_UDP",
                ));
            }
        };
        to.set(make(channel, context, space)?);
        Ok(0)
    })
}

/// Releases the structure of an identifier, and those that belong to it.
pub(crate) fn release(id: Handle<Id>) -> Result<()> {
    show_last(id, Handle::NULL)?;
    let (own, route) = {
        let mut data = id.get()?.rust().data();
        (data.own_channel.take(), data.route.take())
    };
    id.release();
    if let Some(route) = route {
        route.release();
    }
    if let Some(own) = own {
        own.release();
    }
    Ok(())
}

pub(crate) extern "C" fn destroy(id: Handle<Id>) -> c_int {
    minus_one(|| {
        if let Some(object) = id.get_own()? {
            object.rust().id.destroy()?;
            release(id)?;
        }
        Ok(0)
    })
}

/// Calls `body` with the identifier, then brings its structure up to date.
pub(crate) fn with(id: Handle<Id>, body: impl FnOnce(&CmId) -> Result<()>) -> c_int {
    minus_one(|| {
        body(&id.get()?.rust().id)?;
        refresh(id)?;
        Ok(0)
    })
}

/// As [`with`], for calls that an event answers, for which synchronous identifiers wait and which they show.
pub(crate) fn with_event(id: Handle<Id>, body: impl FnOnce(&CmId) -> Result<()> + Copy) -> c_int {
    let call = || {
        let answered = body(&id.get()?.rust().id);
        refresh(id)?;
        show_last(id, Handle::NULL)?;
        answered.map(|()| 0)
    };
    cancellable(|| minus_one(call))
}

pub(crate) extern "C" fn bind(id: Handle<Id>, address: Address) -> c_int {
    with(id, |id| id.bind(address.get()?))
}

pub(crate) extern "C-unwind" fn resolve_addr(
    id: Handle<Id>,
    source: Address,
    peer: Address,
    _timeout: c_int,
) -> c_int {
    with_event(id, |id| {
        let source = match source.is_null() {
            true => None,
            false => Some(source.get()?),
        };
        id.resolve_addr(source, peer.get()?)
    })
}

pub(crate) extern "C-unwind" fn resolve_route(id: Handle<Id>, _timeout: c_int) -> c_int {
    with_event(id, CmId::resolve_route)
}

pub(crate) extern "C" fn listen(id: Handle<Id>, backlog: c_int) -> c_int {
    with(id, |id| id.listen(backlog))
}

pub(crate) extern "C" fn migrate(id: Handle<Id>, channel: Handle<CmChannel>) -> c_int {
    minus_one(|| {
        let to = match channel.is_null() {
            true => None,
            false => Some(channel.get()?.rust().channel()?),
        };
        id.get()?.rust().id.migrate(to.as_ref())?;
        show_channel(id)?;
        show_last(id, Handle::NULL)?;
        Ok(0)
    })
}

fn port(id: Handle<Id>, which: impl FnOnce(&CmId) -> Option<std::net::SocketAddr>) -> u16 {
    let port = guarded(|| Ok(which(&id.get()?.rust().id).map_or(0, |address| address.port())));
    port.unwrap_or(0).to_be()
}

pub(crate) extern "C" fn source_port(id: Handle<Id>) -> u16 {
    port(id, CmId::local)
}

pub(crate) extern "C" fn destination_port(id: Handle<Id>) -> u16 {
    port(id, CmId::peer)
}

pub(crate) extern "C" fn set_option(
    id: Handle<Id>,
    level: c_int,
    option: c_int,
    value: Input<u8>,
    len: usize,
) -> c_int {
    minus_one(|| {
        let object = id.get()?;
        if level != RDMA_OPTION_ID || len == 0 {
            return Err(error(Errno::NOSYS, "an option that does not exist"));
        }
        match option {
            // The first octet of an int on little-endian machines.
            RDMA_OPTION_ID_AFONLY => object.rust().id.set_one_family(value.get()? != 0)?,
            RDMA_OPTION_ID_ACK_TIMEOUT => object.rust().id.set_ack_timeout(value.get()?)?,
            // Marks of packets, and ports that are in use: a socket of TCP has its own rules.
            RDMA_OPTION_ID_TOS | RDMA_OPTION_ID_REUSEADDR => {
                value.get()?;
            }
            _ => return Err(error(Errno::NOSYS, "an option that does not exist")),
        }
        Ok(0)
    })
}

pub(crate) extern "C" fn init_qp_attr(
    id: Handle<Id>,
    attributes: InOut<ibv_qp_attr>,
    mask: Output<c_int>,
) -> c_int {
    minus_one(|| {
        let to = match attributes.get()?.qp_state {
            1 => QpState::Init,
            2 => QpState::Rtr,
            3 => QpState::Rts,
            _ => return Err(error(Errno::INVAL, "no attributes lead to this state")),
        };
        let (filled, bits) = id.get()?.rust().id.init_qp_attributes(to)?;
        attributes.set(c_attributes(&filled));
        mask.set(bits.bits().cast_signed());
        Ok(0)
    })
}

pub(crate) extern "C" fn devices(count: Output<c_int>) -> *mut *mut ibv_context {
    let made = guarded(|| {
        let all: Vec<*mut ibv_context> = contexts()?.iter().map(|context| context.raw()).collect();
        Ok((array(&all)?, all.len()))
    });
    match made {
        Ok((array, len)) => {
            count.set(c_int::try_from(len).unwrap_or(c_int::MAX));
            array
        }
        Err(error) => {
            crate::border::set_errno(error.raw());
            count.set(0);
            std::ptr::null_mut()
        }
    }
}
