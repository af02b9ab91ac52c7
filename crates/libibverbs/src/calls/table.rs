//! The functions that the headers of libibverbs call through an opened device.

use std::ffi::c_void;

use super::{cq, cq_ex, pd, port, qp, srq};
use crate::abi::context::verbs_context;
use crate::abi::describe::Zeroed;
use crate::unsupported;

/// The table. Functions that are missing in it answer EOPNOTSUPP, by the headers.
pub(crate) fn functions() -> verbs_context {
    let mut table = verbs_context::zeroed();
    table.query_port = port::query_port_sized as *const c_void;
    table.query_device_ex = port::query_device_ex as *const c_void;
    table.alloc_parent_domain = pd::allocate_parent_domain as *const c_void;
    table.alloc_td = pd::allocate_thread_domain as *const c_void;
    table.dealloc_td = pd::deallocate_thread_domain as *const c_void;
    table.create_cq_ex = cq_ex::create as *const c_void;
    table.modify_cq = cq::modify as *const c_void;
    table.create_qp_ex = qp::create_ex as *const c_void;
    table.create_srq_ex = srq::create_ex as *const c_void;
    table.sz = size_of::<verbs_context>();
    let context = &mut table.context;
    // `__VERBS_ABI_IS_EXTENDED`: the table in front of the context exists.
    context.abi_compat = usize::MAX;
    context.num_comp_vectors = 1;
    let ops = &mut context.ops;
    ops.alloc_mw = unsupported::null as *const c_void;
    ops.bind_mw = unsupported::code as *const c_void;
    ops.dealloc_mw = unsupported::code as *const c_void;
    ops.query_port = port::query_port as *const c_void;
    ops.poll_cq = cq::poll as *const c_void;
    ops.req_notify_cq = cq::request_notification as *const c_void;
    ops.post_srq_recv = srq::post as *const c_void;
    ops.post_send = qp::post_send as *const c_void;
    ops.post_recv = qp::post_recv as *const c_void;
    table
}
