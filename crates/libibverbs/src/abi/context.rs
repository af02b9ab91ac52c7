//! The functions that the headers call through an opened device, beyond those of [`ibv_context`].

use std::ffi::c_void;

use super::objects::{Function, ibv_context};

layouts! {
    record verbs_context {
        query_port: Function,
        advise_mr: Function,
        alloc_null_mr: usize,
        read_counters: usize,
        attach_counters_point_flow: usize,
        create_counters: usize,
        destroy_counters: usize,
        reg_dm_mr: usize,
        alloc_dm: usize,
        free_dm: usize,
        modify_flow_action_esp: usize,
        destroy_flow_action: usize,
        create_flow_action_esp: usize,
        modify_qp_rate_limit: usize,
        alloc_parent_domain: Function,
        dealloc_td: Function,
        alloc_td: Function,
        modify_cq: Function,
        post_srq_ops: usize,
        destroy_rwq_ind_table: usize,
        create_rwq_ind_table: usize,
        destroy_wq: usize,
        modify_wq: usize,
        create_wq: usize,
        query_rt_values: usize,
        create_cq_ex: Function,
        private = "priv": *mut c_void,
        query_device_ex: Function,
        destroy_flow = "ibv_destroy_flow": usize,
        placeholder_2 = "ABI_placeholder2": usize,
        create_flow = "ibv_create_flow": usize,
        placeholder_1 = "ABI_placeholder1": usize,
        open_qp: usize,
        create_qp_ex: Function,
        get_srq_num: usize,
        create_srq_ex: Function,
        open_xrcd: usize,
        close_xrcd: usize,
        placeholder_3 = "_ABI_placeholder3": u64,
        sz: usize,
        context: ibv_context,
    }
}
