//! The public names of libibverbs.

use crate::calls::{ah, channel, context, cq, device, fork, mr, pd, port, qp, srq, strings};
use crate::unsupported;

export! {
    default "IBVERBS_1.0" {
        ibv_copy_path_rec_from_kern = unsupported::nothing,
        ibv_copy_path_rec_to_kern = unsupported::nothing,
        ibv_copy_qp_attr_from_kern = unsupported::nothing,
        ibv_create_comp_channel = channel::create,
        ibv_destroy_comp_channel = channel::destroy,
        ibv_get_sysfs_path = device::sysfs_path,
        ibv_rate_to_mult = strings::rate_to_mult,
        ibv_read_sysfs_file = device::read_sysfs_file,
        mult_to_ibv_rate = strings::mult_to_rate,
    }
    default "IBVERBS_1.1" {
        ibv_ack_async_event = context::ack_async_event,
        ibv_ack_cq_events = channel::ack_events,
        ibv_alloc_pd = pd::allocate,
        ibv_attach_mcast = unsupported::code,
        ibv_close_device = context::close,
        ibv_copy_ah_attr_from_kern = unsupported::nothing,
        ibv_create_ah = ah::create,
        ibv_create_ah_from_wc = ah::create_from_wc,
        ibv_create_cq = cq::create,
        ibv_create_qp = qp::create,
        ibv_create_srq = srq::create,
        ibv_dealloc_pd = pd::deallocate,
        ibv_dereg_mr = mr::dereg_mr,
        ibv_destroy_ah = ah::destroy,
        ibv_destroy_cq = cq::destroy,
        ibv_destroy_qp = qp::destroy,
        ibv_destroy_srq = srq::destroy,
        ibv_detach_mcast = unsupported::code,
        ibv_dofork_range = fork::range,
        ibv_dontfork_range = fork::range,
        ibv_event_type_str = strings::event_type,
        ibv_fork_init = fork::init,
        ibv_free_device_list = device::free_array,
        ibv_get_async_event = context::get_async_event,
        ibv_get_cq_event = channel::get_event,
        ibv_get_device_guid = device::guid,
        ibv_get_device_list = device::list,
        ibv_get_device_name = device::name,
        ibv_init_ah_from_wc = ah::init_from_wc,
        ibv_modify_qp = qp::modify,
        ibv_modify_srq = srq::modify,
        ibv_node_type_str = strings::node_type,
        ibv_open_device = context::open,
        ibv_port_state_str = strings::port_state,
        ibv_query_device = port::query_device,
        ibv_query_gid = port::query_gid,
        ibv_query_pkey = port::query_pkey,
        ibv_query_port = port::query_port,
        ibv_query_qp = qp::query,
        ibv_query_srq = srq::query,
        ibv_rate_to_mbps = strings::rate_to_mbps,
        ibv_reg_mr = mr::reg_mr,
        ibv_rereg_mr = unsupported::minus_one,
        ibv_resize_cq = cq::resize,
        ibv_resolve_eth_l2_from_gid = unsupported::code,
        ibv_wc_status_str = strings::wc_status,
        mbps_to_ibv_rate = strings::mbps_to_rate,
    }
    default "IBVERBS_1.5" {
        ibv_get_pkey_index = port::pkey_index,
    }
    default "IBVERBS_1.6" {
        ibv_qp_to_qp_ex = qp::to_qp_ex,
    }
    default "IBVERBS_1.7" {
        ibv_reg_mr_iova = mr::reg_mr_iova,
    }
    default "IBVERBS_1.8" {
        ibv_reg_mr_iova2 = mr::reg_mr_iova2,
    }
    default "IBVERBS_1.9" {
        ibv_get_device_index = device::index,
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
        _ibv_query_gid_ex = port::query_gid_ex,
        _ibv_query_gid_table = port::query_gid_table,
    }
    default "IBVERBS_1.12" {
        ibv_reg_dmabuf_mr = unsupported::null,
    }
    default "IBVERBS_1.13" {
        ibv_import_dm = unsupported::null,
        ibv_is_fork_initialized = fork::status,
        ibv_unimport_dm = unsupported::nothing,
    }
    default "IBVERBS_1.14" {
        ibv_query_qp_data_in_order = qp::data_in_order,
    }
    default "IBVERBS_1.15" {
        ibv_alloc_dmah = unsupported::null,
        ibv_dealloc_dmah = unsupported::code,
        ibv_reg_mr_ex = mr::reg_mr_ex,
    }
    default "IBVERBS_1.16" {
        ibv_dm_export_dmabuf_fd = unsupported::minus_one,
        ibv_query_port_speed = port::query_port_speed,
    }
    default "IBVERBS_1.17" {
        ibv_alloc_buf = unsupported::null,
        ibv_free_buf = unsupported::nothing,
        ibv_reg_buf_mr = unsupported::null,
    }
    default "IBVERBS_1.18" {
        _ibv_query_comp_cntr_caps = unsupported::code,
        ibv_create_comp_cntr = unsupported::null,
        ibv_destroy_comp_cntr = unsupported::code,
        ibv_export_buf_dmabuf_fd = unsupported::minus_one,
        ibv_inc_comp_cntr = unsupported::code,
        ibv_inc_err_comp_cntr = unsupported::code,
        ibv_qp_attach_comp_cntr = unsupported::code,
        ibv_read_comp_cntr = unsupported::code,
        ibv_read_err_comp_cntr = unsupported::code,
        ibv_set_comp_cntr = unsupported::code,
        ibv_set_err_comp_cntr = unsupported::code,
    }
}
