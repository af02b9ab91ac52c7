//! The public names of libibverbs.

use crate::unsupported;

export! {
    default "IBVERBS_1.0" {
        ibv_copy_path_rec_from_kern = unsupported::nothing,
        ibv_copy_path_rec_to_kern = unsupported::nothing,
        ibv_copy_qp_attr_from_kern = unsupported::nothing,
        ibv_create_comp_channel = unsupported::null,
        ibv_destroy_comp_channel = unsupported::code,
        ibv_get_sysfs_path = unsupported::null,
        ibv_rate_to_mult = unsupported::code,
        ibv_read_sysfs_file = unsupported::minus_one,
        mult_to_ibv_rate = unsupported::code,
    }
    default "IBVERBS_1.1" {
        ibv_ack_async_event = unsupported::nothing,
        ibv_ack_cq_events = unsupported::nothing,
        ibv_alloc_pd = unsupported::null,
        ibv_attach_mcast = unsupported::code,
        ibv_close_device = unsupported::code,
        ibv_copy_ah_attr_from_kern = unsupported::nothing,
        ibv_create_ah = unsupported::null,
        ibv_create_ah_from_wc = unsupported::null,
        ibv_create_cq = unsupported::null,
        ibv_create_qp = unsupported::null,
        ibv_create_srq = unsupported::null,
        ibv_dealloc_pd = unsupported::code,
        ibv_dereg_mr = unsupported::code,
        ibv_destroy_ah = unsupported::code,
        ibv_destroy_cq = unsupported::code,
        ibv_destroy_qp = unsupported::code,
        ibv_destroy_srq = unsupported::code,
        ibv_detach_mcast = unsupported::code,
        ibv_dofork_range = unsupported::code,
        ibv_dontfork_range = unsupported::code,
        ibv_event_type_str = unsupported::null,
        ibv_fork_init = unsupported::code,
        ibv_free_device_list = unsupported::nothing,
        ibv_get_async_event = unsupported::minus_one,
        ibv_get_cq_event = unsupported::minus_one,
        ibv_get_device_guid = unsupported::code,
        ibv_get_device_list = unsupported::null,
        ibv_get_device_name = unsupported::null,
        ibv_init_ah_from_wc = unsupported::minus_one,
        ibv_modify_qp = unsupported::code,
        ibv_modify_srq = unsupported::code,
        ibv_node_type_str = unsupported::null,
        ibv_open_device = unsupported::null,
        ibv_port_state_str = unsupported::null,
        ibv_query_device = unsupported::code,
        ibv_query_gid = unsupported::minus_one,
        ibv_query_pkey = unsupported::minus_one,
        ibv_query_port = unsupported::code,
        ibv_query_qp = unsupported::code,
        ibv_query_srq = unsupported::code,
        ibv_rate_to_mbps = unsupported::code,
        ibv_reg_mr = unsupported::null,
        ibv_rereg_mr = unsupported::code,
        ibv_resize_cq = unsupported::code,
        ibv_resolve_eth_l2_from_gid = unsupported::code,
        ibv_wc_status_str = unsupported::null,
        mbps_to_ibv_rate = unsupported::code,
    }
    default "IBVERBS_1.5" {
        ibv_get_pkey_index = unsupported::minus_one,
    }
    default "IBVERBS_1.6" {
        ibv_qp_to_qp_ex = unsupported::null,
    }
    default "IBVERBS_1.7" {
        ibv_reg_mr_iova = unsupported::null,
    }
    default "IBVERBS_1.8" {
        ibv_reg_mr_iova2 = unsupported::null,
    }
    default "IBVERBS_1.9" {
        ibv_get_device_index = unsupported::minus_one,
    }
    default "IBVERBS_1.10" {
        ibv_import_device = unsupported::null,
        ibv_import_mr = unsupported::null,
        ibv_import_pd = unsupported::null,
        ibv_query_ece = unsupported::code,
        ibv_set_ece = unsupported::code,
        ibv_unimport_mr = unsupported::nothing,
        ibv_unimport_pd = unsupported::nothing,
    }
    default "IBVERBS_1.11" {
        _ibv_query_gid_ex = unsupported::code,
        _ibv_query_gid_table = unsupported::code,
    }
    default "IBVERBS_1.12" {
        ibv_reg_dmabuf_mr = unsupported::null,
    }
    default "IBVERBS_1.13" {
        ibv_import_dm = unsupported::null,
        ibv_is_fork_initialized = unsupported::code,
        ibv_unimport_dm = unsupported::nothing,
    }
    default "IBVERBS_1.14" {
        ibv_query_qp_data_in_order = unsupported::code,
    }
}
