//! The attributes by which objects are made, and those that can be queried.

use std::ffi::{c_int, c_uint, c_void};

use super::device::ibv_gid;
use super::objects::{ibv_comp_channel, ibv_cq, ibv_pd, ibv_srq, ibv_td};

layouts! {
    record ibv_global_route {
        dgid: ibv_gid,
        flow_label: u32,
        sgid_index: u8,
        hop_limit: u8,
        traffic_class: u8,
    }
    record ibv_ah_attr {
        grh: ibv_global_route,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
    }
    record ibv_srq_attr {
        max_wr: u32,
        max_sge: u32,
        srq_limit: u32,
    }
    record ibv_srq_init_attr {
        srq_context: *mut c_void,
        attr: ibv_srq_attr,
    }
    record ibv_tm_cap {
        max_num_tags: u32,
        max_ops: u32,
    }
    record ibv_srq_init_attr_ex {
        srq_context: *mut c_void,
        attr: ibv_srq_attr,
        comp_mask: u32,
        srq_type: c_uint,
        pd: *mut ibv_pd,
        xrcd: *mut c_void,
        cq: *mut ibv_cq,
        tm_cap: ibv_tm_cap,
    }
    record ibv_qp_cap {
        max_send_wr: u32,
        max_recv_wr: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
    }
    record ibv_qp_init_attr {
        qp_context: *mut c_void,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        cap: ibv_qp_cap,
        qp_type: c_uint,
        sq_sig_all: c_int,
    }
    record ibv_rx_hash_conf {
        rx_hash_function: u8,
        rx_hash_key_len: u8,
        rx_hash_key: *mut u8,
        rx_hash_fields_mask: u64,
    }
    record ibv_qp_init_attr_ex {
        qp_context: *mut c_void,
        send_cq: *mut ibv_cq,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        cap: ibv_qp_cap,
        qp_type: c_uint,
        sq_sig_all: c_int,
        comp_mask: u32,
        pd: *mut ibv_pd,
        xrcd: *mut c_void,
        create_flags: u32,
        max_tso_header: u16,
        rwq_ind_tbl: *mut c_void,
        rx_hash_conf: ibv_rx_hash_conf,
        source_qpn: u32,
        send_ops_flags: u64,
    }
    record ibv_qp_attr {
        qp_state: c_uint,
        cur_qp_state: c_uint,
        path_mtu: c_uint,
        path_mig_state: c_uint,
        qkey: u32,
        rq_psn: u32,
        sq_psn: u32,
        dest_qp_num: u32,
        qp_access_flags: c_uint,
        cap: ibv_qp_cap,
        ah_attr: ibv_ah_attr,
        alt_ah_attr: ibv_ah_attr,
        pkey_index: u16,
        alt_pkey_index: u16,
        en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8,
        max_dest_rd_atomic: u8,
        min_rnr_timer: u8,
        port_num: u8,
        timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8,
        alt_port_num: u8,
        alt_timeout: u8,
        rate_limit: u32,
    }
    record ibv_cq_init_attr_ex {
        cqe: u32,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: u32,
        wc_flags: u64,
        comp_mask: u32,
        flags: u32,
        parent_domain: *mut ibv_pd,
    }
    record ibv_moderate_cq {
        cq_count: u16,
        cq_period: u16,
    }
    record ibv_modify_cq_attr {
        attr_mask: u32,
        moderate: ibv_moderate_cq,
    }
    record ibv_td_init_attr {
        comp_mask: u32,
    }
    record ibv_parent_domain_init_attr {
        pd: *mut ibv_pd,
        td: *mut ibv_td,
        comp_mask: u32,
        alloc: *mut c_void,
        free: *mut c_void,
        pd_context: *mut c_void,
    }
    record ibv_ece {
        vendor_id: u32,
        options: u32,
        comp_mask: u32,
    }
}
