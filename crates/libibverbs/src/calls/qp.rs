//! Queue pairs.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Condvar, Mutex};

use softverbs::{
    Errno, QpAttributes, QpCaps, QpMask, QpOptions, QpState, QueuePair, Result, Service,
};

use super::ah::{c_vector, vector_of};
use super::objects::{Built, Context, Cq, Pd, Qp, Srq};
use super::qp_ex;
use super::requests::{post_list, post_receives};
use crate::abi::attributes::{ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_qp_init_attr_ex};
use crate::abi::constants::{
    IBV_QP_INIT_ATTR_CREATE_FLAGS, IBV_QP_INIT_ATTR_PD, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
    IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE,
    IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD,
};
use crate::abi::describe::Zeroed;
use crate::abi::objects::{ibv_qp_ex, ibv_recv_wr, ibv_send_wr};
use crate::border::{Handle, InOut, Input, Output, code, code_quick, error, null};
use crate::process::process;

/// Checks the attributes that a queue pair may have.
pub(crate) fn check_attributes(attr: &ibv_qp_init_attr_ex) -> Result<()> {
    let service = service_of(attr.qp_type)?;
    let known =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    let has_flags = attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 && attr.create_flags != 0;
    if attr.comp_mask & !known != 0 || has_flags {
        return Err(error(
            Errno::OPNOTSUPP,
            "attributes of a queue pair that are not supported",
        ));
    }
    let kind = process()?.options().kind;
    qp_ex::check_operations(send_ops(attr).unwrap_or(0), service, kind)
}

/// The service of a type of queue pairs.
pub(crate) fn service_of(qp_type: c_uint) -> Result<Service> {
    match qp_type {
        IBV_QPT_RC => Ok(Service::Reliable),
        IBV_QPT_UC => Ok(Service::Unreliable),
        IBV_QPT_UD => Ok(Service::Datagram),
        _ => Err(error(
            Errno::OPNOTSUPP,
            "queue pairs are those of the types IBV_QPT_RC, IBV_QPT_UC and IBV_QPT_UD",
        )),
    }
}

fn send_ops(attr: &ibv_qp_init_attr_ex) -> Option<u64> {
    let has_operations = attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS != 0;
    has_operations.then_some(attr.send_ops_flags)
}

fn options(attr: &ibv_qp_init_attr_ex) -> Result<QpOptions> {
    let cq = |pointer| {
        let handle = Handle::<Cq>::passed(pointer);
        handle.get().map(|cq| Arc::clone(&cq.rust().cq))
    };
    let srq = Handle::<Srq>::passed(attr.srq);
    Ok(QpOptions {
        service: service_of(attr.qp_type)?,
        send_cq: cq(attr.send_cq)?,
        receive_cq: cq(attr.recv_cq)?,
        caps: caps_of(&attr.cap),
        srq: srq.get_if().map(|srq| Arc::clone(&srq.rust().0)),
        signal_all: attr.sq_sig_all != 0,
    })
}

/// Capabilities as `softverbs` has them.
pub(crate) fn caps_of(c: &ibv_qp_cap) -> QpCaps {
    QpCaps {
        max_send_wr: c.max_send_wr,
        max_recv_wr: c.max_recv_wr,
        max_send_sge: c.max_send_sge,
        max_recv_sge: c.max_recv_sge,
        max_inline_data: c.max_inline_data,
    }
}

fn c_caps(caps: QpCaps) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: caps.max_send_wr,
        max_recv_wr: caps.max_recv_wr,
        max_send_sge: caps.max_send_sge,
        max_recv_sge: caps.max_recv_sge,
        max_inline_data: caps.max_inline_data,
    }
}

/// Makes the structure of a queue pair, with the pointers of its attributes, and fills the capabilities in there.
pub(crate) fn show(
    pd: Handle<Pd>,
    attr: &mut ibv_qp_init_attr_ex,
    qp: Arc<QueuePair>,
) -> Result<Handle<Qp>> {
    let domain = pd.get()?;
    let caps = c_caps(qp.options().caps);
    let signal_all = qp.options().signal_all;
    let sends_datagrams = qp.options().service == Service::Datagram;
    attr.cap = caps;
    let mut c = ibv_qp_ex::zeroed();
    let base = &mut c.qp_base;
    base.context = field!(domain, context);
    base.qp_context = attr.qp_context;
    base.pd = pd.raw();
    (base.send_cq, base.recv_cq, base.srq) = (attr.send_cq, attr.recv_cq, attr.srq);
    (base.handle, base.qp_num) = (qp.number(), qp.number());
    base.state = qp.state() as c_uint;
    base.qp_type = attr.qp_type;
    let send_ops = send_ops(attr);
    if let Some(operations) = send_ops {
        qp_ex::set_functions(&mut c, operations);
    }
    let handle = Handle::new(
        c,
        Qp {
            qp,
            caps,
            signal_all,
            sends_datagrams,
            has_builders: send_ops.is_some(),
            built: Mutex::new(Built::default()),
            is_free: Condvar::new(),
        },
    );
    handle.get()?.rust().qp.tag().set(handle.tag());
    Ok(handle)
}

/// The extended form of plain attributes.
pub(crate) fn extended(attr: &ibv_qp_init_attr) -> ibv_qp_init_attr_ex {
    let mut all = ibv_qp_init_attr_ex::zeroed();
    all.qp_context = attr.qp_context;
    (all.send_cq, all.recv_cq, all.srq) = (attr.send_cq, attr.recv_cq, attr.srq);
    (all.cap, all.qp_type, all.sq_sig_all) = (attr.cap, attr.qp_type, attr.sq_sig_all);
    all
}

fn make(pd: Handle<Pd>, attr: &mut ibv_qp_init_attr_ex) -> Result<Handle<Qp>> {
    let domain = pd.get()?;
    check_attributes(attr)?;
    let qp = QueuePair::create(&domain.rust().pd, options(attr)?)?;
    show(pd, attr, qp)
}

pub(crate) extern "C" fn create(pd: Handle<Pd>, attributes: InOut<ibv_qp_init_attr>) -> Handle<Qp> {
    null(|| {
        let mut attr = attributes.get()?;
        let mut all = extended(&attr);
        let handle = make(pd, &mut all)?;
        attr.cap = all.cap;
        attributes.set(attr);
        Ok(handle)
    })
}

pub(crate) extern "C" fn create_ex(
    _: Handle<Context>,
    attributes: InOut<ibv_qp_init_attr_ex>,
) -> Handle<Qp> {
    null(|| {
        let mut attr = attributes.get()?;
        if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
            return Err(error(Errno::INVAL, "there is no protection domain"));
        }
        let handle = make(Handle::passed(attr.pd), &mut attr)?;
        attributes.set(attr);
        Ok(handle)
    })
}

pub(crate) fn destroy_handle(qp: Handle<Qp>) -> Result<()> {
    if let Some(object) = qp.get_own()? {
        object.rust().qp.destroy()?;
        qp.release();
    }
    Ok(())
}

pub(crate) extern "C" fn destroy(qp: Handle<Qp>) -> c_int {
    code(|| destroy_handle(qp))
}

fn state_of(number: c_uint) -> Result<QpState> {
    Ok(match number {
        IBV_QPS_RESET => QpState::Reset,
        IBV_QPS_INIT => QpState::Init,
        IBV_QPS_RTR => QpState::Rtr,
        IBV_QPS_RTS => QpState::Rts,
        IBV_QPS_SQD => QpState::Sqd,
        IBV_QPS_SQE => QpState::Sqe,
        IBV_QPS_ERR => QpState::Err,
        _ => return Err(error(Errno::INVAL, "a state that does not exist")),
    })
}

/// Attributes as `softverbs` has them. States are looked at only if the mask names them.
fn attributes_of(attr: &ibv_qp_attr, mask: QpMask) -> Result<QpAttributes> {
    let mut to = QpAttributes::default();
    if mask.contains(QpMask::STATE) {
        to.state = state_of(attr.qp_state)?;
    }
    if mask.contains(QpMask::CUR_STATE) {
        to.cur_state = state_of(attr.cur_qp_state)?;
    }
    to.access = attr.qp_access_flags;
    (to.pkey_index, to.port) = (attr.pkey_index, attr.port_num);
    to.address = vector_of(&attr.ah_attr);
    to.qkey = attr.qkey;
    (to.dest_qp_num, to.path_mtu) = (attr.dest_qp_num, attr.path_mtu);
    (to.rq_psn, to.sq_psn) = (attr.rq_psn, attr.sq_psn);
    (to.max_rd_atomic, to.max_dest_rd_atomic) = (attr.max_rd_atomic, attr.max_dest_rd_atomic);
    (to.min_rnr_timer, to.timeout) = (attr.min_rnr_timer, attr.timeout);
    (to.retry_cnt, to.rnr_retry) = (attr.retry_cnt, attr.rnr_retry);
    Ok(to)
}

/// Attributes as C has them.
pub(crate) fn c_attributes(from: &QpAttributes) -> ibv_qp_attr {
    let mut to = ibv_qp_attr::zeroed();
    (to.qp_state, to.cur_qp_state) = (from.state as c_uint, from.cur_state as c_uint);
    to.qp_access_flags = from.access;
    (to.pkey_index, to.port_num) = (from.pkey_index, from.port);
    to.ah_attr = c_vector(&from.address);
    to.qkey = from.qkey;
    (to.dest_qp_num, to.path_mtu) = (from.dest_qp_num, from.path_mtu);
    (to.rq_psn, to.sq_psn) = (from.rq_psn, from.sq_psn);
    (to.max_rd_atomic, to.max_dest_rd_atomic) = (from.max_rd_atomic, from.max_dest_rd_atomic);
    (to.min_rnr_timer, to.timeout) = (from.min_rnr_timer, from.timeout);
    (to.retry_cnt, to.rnr_retry) = (from.retry_cnt, from.rnr_retry);
    to
}

pub(crate) extern "C" fn modify(
    qp: Handle<Qp>,
    attributes: Input<ibv_qp_attr>,
    mask: c_int,
) -> c_int {
    code(|| {
        let object = qp.get()?;
        let bits = mask.cast_unsigned();
        let mask = QpMask::from_bits(bits)
            .ok_or_else(|| error(Errno::INVAL, "attributes that do not exist"))?;
        let attributes = attributes_of(&attributes.get()?, mask)?;
        object.rust().qp.modify(&attributes, mask)?;
        field!(object, qp_base.state = object.rust().qp.state() as c_uint);
        Ok(())
    })
}

pub(crate) extern "C" fn query(
    qp: Handle<Qp>,
    to: Output<ibv_qp_attr>,
    _mask: c_int,
    init: Output<ibv_qp_init_attr>,
) -> c_int {
    code(|| {
        let object = qp.get()?;
        let inner = object.rust();
        let mut attr = c_attributes(&inner.qp.query());
        attr.cap = inner.caps;
        to.set(attr);
        init.set(ibv_qp_init_attr {
            qp_context: field!(object, qp_base.qp_context),
            send_cq: field!(object, qp_base.send_cq),
            recv_cq: field!(object, qp_base.recv_cq),
            srq: field!(object, qp_base.srq),
            cap: inner.caps,
            qp_type: inner.qp.options().service as c_uint,
            sq_sig_all: c_int::from(inner.signal_all),
        });
        field!(object, qp_base.state = inner.qp.state() as c_uint);
        Ok(())
    })
}

pub(crate) extern "C" fn post_send(
    qp: Handle<Qp>,
    first: *mut ibv_send_wr,
    bad: Output<*mut ibv_send_wr>,
) -> c_int {
    code_quick(|| post_list(qp.get()?.rust(), first, bad))
}

pub(crate) extern "C" fn post_recv(
    qp: Handle<Qp>,
    first: *mut ibv_recv_wr,
    bad: Output<*mut ibv_recv_wr>,
) -> c_int {
    code_quick(|| {
        let qp = qp.get()?.rust();
        let (max_sge, depth) = (qp.caps.max_recv_sge, || qp.caps.max_recv_wr);
        post_receives(first, bad, max_sge, depth, |wr_id, sges| {
            qp.qp.post_receive(wr_id, sges)
        })
    })
}

/// The extended form of a queue pair, for one that was made with `send_ops_flags`.
pub(crate) extern "C" fn to_qp_ex(qp: Handle<Qp>) -> *mut c_void {
    let has_builders = qp.get_if().is_some_and(|qp| qp.rust().has_builders);
    match has_builders {
        true => qp.raw(),
        false => std::ptr::null_mut(),
    }
}

/// Whether the octets of a message come in the order of their addresses (`ibv_query_qp_data_in_order`): not promised.
pub(crate) extern "C" fn data_in_order() -> c_int {
    0
}
