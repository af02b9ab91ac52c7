//! Connections: their set-up and their end.

use std::ffi::{c_int, c_void};

use softverbs::{ConnParameters, Errno, Result};

use super::id::{with, with_event};
use super::objects::Id;
use super::queues::{qp_of, show_qp_state, use_qp};
use crate::abi::cm::rdma_conn_param;
use crate::border::{Handle, Input, Octets, error, minus_one};

/// Private data, none for a null pointer.
fn private_data(data: *const c_void, len: u8) -> Result<Vec<u8>> {
    let data = Octets::passed(data);
    if data.is_null() {
        return Ok(Vec::new());
    }
    // `softverbs` knows the limit of the connection, which is lower.
    data.get(len.into(), u8::MAX.into())
}

/// The parameters that a program passes, or the defaults for a null pointer.
fn parameters(from: Input<rdma_conn_param>) -> Result<ConnParameters> {
    let Some(from) = from.get_if() else {
        return Ok(ConnParameters::unstated());
    };
    Ok(ConnParameters {
        private_data: private_data(from.private_data, from.private_data_len)?,
        responder_resources: from.responder_resources,
        initiator_depth: from.initiator_depth,
        qp_num: from.qp_num,
        retry_count: from.retry_count,
        rnr_retry_count: from.rnr_retry_count,
        datagrams: None,
    })
}

pub(crate) extern "C-unwind" fn connect(id: Handle<Id>, from: Input<rdma_conn_param>) -> c_int {
    with_event(id, |inner| {
        use_qp(id)?;
        inner.connect(&parameters(from)?)?;
        show_qp_state(id)
    })
}

pub(crate) extern "C-unwind" fn accept(id: Handle<Id>, from: Input<rdma_conn_param>) -> c_int {
    with_event(id, |inner| {
        use_qp(id)?;
        inner.accept(&parameters(from)?)?;
        show_qp_state(id)
    })
}

pub(crate) extern "C" fn establish(id: Handle<Id>) -> c_int {
    with(id, |inner| match qp_of(id)?.is_null() {
        true => inner.establish(),
        false => Err(error(
            Errno::INVAL,
            "the identifier has a queue pair, which the event of the answer connects",
        )),
    })
}

pub(crate) extern "C" fn reject(id: Handle<Id>, data: *const c_void, len: u8) -> c_int {
    with(id, |id| id.reject(&private_data(data, len)?))
}

pub(crate) extern "C-unwind" fn disconnect(id: Handle<Id>) -> c_int {
    with_event(id, |inner| {
        inner.disconnect()?;
        show_qp_state(id)
    })
}

/// The program has seen data before the event of the connection: the connection is established by then anyway.
pub(crate) extern "C" fn notify(id: Handle<Id>, _event: c_int) -> c_int {
    minus_one(|| id.get().map(|_| 0))
}
