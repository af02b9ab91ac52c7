//! The objects whose first octets C programs read, and the requests that they take.
//!
//! They are in one file because they name each other: an object its context, a context the functions of its objects.

use std::ffi::{c_int, c_uint, c_void};

use libc::{pthread_cond_t, pthread_mutex_t};

use super::device::ibv_device;

/// The address of a function, which C calls with the types of the headers. Null where there is none.
pub(crate) type Function = *const c_void;

layouts! {
    record ibv_context_ops {
        query_device = "_compat_query_device": usize,
        query_port = "_compat_query_port": Function,
        alloc_pd = "_compat_alloc_pd": usize,
        dealloc_pd = "_compat_dealloc_pd": usize,
        reg_mr = "_compat_reg_mr": usize,
        rereg_mr = "_compat_rereg_mr": usize,
        dereg_mr = "_compat_dereg_mr": usize,
        alloc_mw: Function,
        bind_mw: Function,
        dealloc_mw: Function,
        create_cq = "_compat_create_cq": usize,
        poll_cq: Function,
        req_notify_cq: Function,
        cq_event = "_compat_cq_event": usize,
        resize_cq = "_compat_resize_cq": usize,
        destroy_cq = "_compat_destroy_cq": usize,
        create_srq = "_compat_create_srq": usize,
        modify_srq = "_compat_modify_srq": usize,
        query_srq = "_compat_query_srq": usize,
        destroy_srq = "_compat_destroy_srq": usize,
        post_srq_recv: Function,
        create_qp = "_compat_create_qp": usize,
        query_qp = "_compat_query_qp": usize,
        modify_qp = "_compat_modify_qp": usize,
        destroy_qp = "_compat_destroy_qp": usize,
        post_send: Function,
        post_recv: Function,
        create_ah = "_compat_create_ah": usize,
        destroy_ah = "_compat_destroy_ah": usize,
        attach_mcast = "_compat_attach_mcast": usize,
        detach_mcast = "_compat_detach_mcast": usize,
        async_event = "_compat_async_event": usize,
    }
    record ibv_context {
        device: *mut ibv_device,
        ops: ibv_context_ops,
        cmd_fd: c_int,
        async_fd: c_int,
        num_comp_vectors: c_int,
        mutex: pthread_mutex_t,
        abi_compat: usize,
    }
    record ibv_pd {
        context: *mut ibv_context,
        handle: u32,
    }
    record ibv_td {
        context: *mut ibv_context,
    }
    record ibv_mr {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }
    record ibv_mw {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        rkey: u32,
        handle: u32,
        kind = "type": c_int,
    }
    record ibv_ah {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        handle: u32,
    }
    record ibv_comp_channel {
        context: *mut ibv_context,
        fd: c_int,
        refcnt: c_int,
    }
    record ibv_cq {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        comp_events_completed: u32,
        async_events_completed: u32,
    }
    record ibv_cq_ex {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        comp_events_completed: u32,
        async_events_completed: u32,
        comp_mask: u32,
        status: c_int,
        wr_id: u64,
        start_poll: Function,
        next_poll: Function,
        end_poll: Function,
        read_opcode: Function,
        read_vendor_err: Function,
        read_byte_len: Function,
        read_imm_data: Function,
        read_qp_num: Function,
        read_src_qp: Function,
        read_wc_flags: Function,
        read_slid: Function,
        read_sl: Function,
        read_dlid_path_bits: Function,
        read_completion_ts: usize,
        read_cvlan: usize,
        read_flow_tag: usize,
        read_tm_info: usize,
        read_completion_wallclock_ns: usize,
    }
    record ibv_srq {
        context: *mut ibv_context,
        srq_context: *mut c_void,
        pd: *mut ibv_pd,
        handle: u32,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
    }
    record ibv_qp {
        context: *mut ibv_context,
        qp_context: *mut c_void,
        pd: *mut ibv_pd,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        handle: u32,
        qp_num: u32,
        state: c_uint,
        qp_type: c_uint,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        events_completed: u32,
    }
    record ibv_qp_ex {
        qp_base: ibv_qp,
        comp_mask: u64,
        wr_id: u64,
        wr_flags: c_uint,
        wr_atomic_cmp_swp: Function,
        wr_atomic_fetch_add: Function,
        wr_bind_mw: usize,
        wr_local_inv: Function,
        wr_rdma_read: Function,
        wr_rdma_write: Function,
        wr_rdma_write_imm: Function,
        wr_send: Function,
        wr_send_imm: Function,
        wr_send_inv: Function,
        wr_send_tso: usize,
        wr_set_ud_addr: Function,
        wr_set_xrc_srqn: usize,
        wr_set_inline_data: Function,
        wr_set_inline_data_list: Function,
        wr_set_sge: Function,
        wr_set_sge_list: Function,
        wr_start: Function,
        wr_complete: Function,
        wr_abort: Function,
        wr_atomic_write: usize,
    }
    record ibv_sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }
    record ibv_data_buf {
        addr: *mut c_void,
        length: usize,
    }
    record ibv_recv_wr {
        wr_id: u64,
        next: *mut ibv_recv_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
    }
    record ibv_mw_bind_info {
        mr: *mut ibv_mr,
        addr: u64,
        length: u64,
        mw_access_flags: c_uint,
    }
    record ibv_mw_bind {
        wr_id: u64,
        send_flags: c_uint,
        bind_info: ibv_mw_bind_info,
    }
    record ibv_send_wr {
        wr_id: u64,
        next: *mut ibv_send_wr,
        sg_list: *mut ibv_sge,
        num_sge: c_int,
        opcode: c_uint,
        send_flags: c_uint,
        invalidate_rkey: u32,
        remote_addr = "wr.rdma.remote_addr": u64,
        rkey = "wr.rdma.rkey": u32,
        remote_qkey = "wr.ud.remote_qkey": u32,
        swap = "wr.atomic.swap": u64,
        atomic_rkey = "wr.atomic.rkey": u32,
        end_of_wr = "": u32,
        remote_srqn = "qp_type.xrc.remote_srqn": u32,
        mw = "bind_mw.mw": *mut ibv_mw,
        mw_rkey = "bind_mw.rkey": u32,
        bind_info = "bind_mw.bind_info": ibv_mw_bind_info,
    }
    record ibv_wc {
        wr_id: u64,
        status: c_int,
        opcode: c_int,
        vendor_err: u32,
        byte_len: u32,
        invalidated_rkey: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: c_uint,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }
    record ibv_async_event {
        element: *mut c_void,
        event_type: c_int,
    }
}
