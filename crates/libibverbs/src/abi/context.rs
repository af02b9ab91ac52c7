//! The functions that the headers call through an opened device, beyond those of [`ibv_context`].

use std::ffi::{c_int, c_void};

use super::attributes::{
    ibv_cq_init_attr_ex, ibv_modify_cq_attr, ibv_parent_domain_init_attr, ibv_qp_init_attr_ex,
    ibv_srq_init_attr_ex, ibv_td_init_attr,
};
use super::device::{ibv_device_attr_ex, ibv_port_attr, ibv_query_device_ex_input};
use super::objects::{ibv_context, ibv_cq, ibv_cq_ex, ibv_pd, ibv_qp, ibv_sge, ibv_srq, ibv_td};

layouts! {
    record verbs_context {
        query_port: Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>,
        advise_mr: Option<unsafe extern "C" fn(*mut ibv_pd, c_int, u32, *mut ibv_sge, u32) -> c_int>,
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
        alloc_parent_domain: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd>,
        dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>,
        alloc_td: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td>,
        modify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int>,
        post_srq_ops: usize,
        destroy_rwq_ind_table: usize,
        create_rwq_ind_table: usize,
        destroy_wq: usize,
        modify_wq: usize,
        create_wq: usize,
        query_rt_values: usize,
        create_cq_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
        private = "priv": *mut c_void,
        query_device_ex: Option<
            unsafe extern "C" fn(*mut ibv_context, *const ibv_query_device_ex_input, *mut ibv_device_attr_ex, usize) -> c_int,
        >,
        destroy_flow = "ibv_destroy_flow": usize,
        placeholder_2 = "ABI_placeholder2": usize,
        create_flow = "ibv_create_flow": usize,
        placeholder_1 = "ABI_placeholder1": usize,
        open_qp: usize,
        create_qp_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
        get_srq_num: usize,
        create_srq_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq>,
        open_xrcd: usize,
        close_xrcd: usize,
        placeholder_3 = "_ABI_placeholder3": u64,
        sz: usize,
        context: ibv_context,
    }
}
