//! Names that the drivers of adapters need when a program or libmlx5 and its like load them.
//!
//! No driver finds an adapter here. So the names only have to exist: registering a driver does nothing, and what a driver would ask
//! of the kernel is not supported. Each release of rdma-core has a node of its own for them.

use crate::calls::port;
use crate::unsupported;

/// Exports the names under the node of one release.
macro_rules! of_release {
    ($which:ident $node:literal $register:ident) => {
        export! {
            $which $node {
                $register = unsupported::nothing,
                __ioctl_final_num_attrs = unsupported::code,
                __verbs_log = unsupported::nothing,
                _verbs_init_and_alloc_context = unsupported::null,
                execute_ioctl = unsupported::code,
                ibv_cmd_advise_mr = unsupported::code,
                ibv_cmd_alloc_dm = unsupported::code,
                ibv_cmd_alloc_mw = unsupported::code,
                ibv_cmd_alloc_pd = unsupported::code,
                ibv_cmd_attach_mcast = unsupported::code,
                ibv_cmd_close_xrcd = unsupported::code,
                ibv_cmd_create_ah = unsupported::code,
                ibv_cmd_create_counters = unsupported::code,
                ibv_cmd_create_cq = unsupported::code,
                ibv_cmd_create_cq_ex = unsupported::code,
                ibv_cmd_create_cq_ex2 = unsupported::code,
                ibv_cmd_create_flow = unsupported::code,
                ibv_cmd_create_flow_action_esp = unsupported::code,
                ibv_cmd_create_qp = unsupported::code,
                ibv_cmd_create_qp_ex = unsupported::code,
                ibv_cmd_create_qp_ex2 = unsupported::code,
                ibv_cmd_create_rwq_ind_table = unsupported::code,
                ibv_cmd_create_srq = unsupported::code,
                ibv_cmd_create_srq_ex = unsupported::code,
                ibv_cmd_create_wq = unsupported::code,
                ibv_cmd_dealloc_mw = unsupported::code,
                ibv_cmd_dealloc_pd = unsupported::code,
                ibv_cmd_dereg_mr = unsupported::code,
                ibv_cmd_destroy_ah = unsupported::code,
                ibv_cmd_destroy_counters = unsupported::code,
                ibv_cmd_destroy_cq = unsupported::code,
                ibv_cmd_destroy_flow = unsupported::code,
                ibv_cmd_destroy_flow_action = unsupported::code,
                ibv_cmd_destroy_qp = unsupported::code,
                ibv_cmd_destroy_rwq_ind_table = unsupported::code,
                ibv_cmd_destroy_srq = unsupported::code,
                ibv_cmd_destroy_wq = unsupported::code,
                ibv_cmd_detach_mcast = unsupported::code,
                ibv_cmd_free_dm = unsupported::code,
                ibv_cmd_get_context = unsupported::code,
                ibv_cmd_modify_cq = unsupported::code,
                ibv_cmd_modify_flow_action_esp = unsupported::code,
                ibv_cmd_modify_qp = unsupported::code,
                ibv_cmd_modify_qp_ex = unsupported::code,
                ibv_cmd_modify_srq = unsupported::code,
                ibv_cmd_modify_wq = unsupported::code,
                ibv_cmd_open_qp = unsupported::code,
                ibv_cmd_open_xrcd = unsupported::code,
                ibv_cmd_poll_cq = unsupported::code,
                ibv_cmd_post_recv = unsupported::code,
                ibv_cmd_post_send = unsupported::code,
                ibv_cmd_post_srq_recv = unsupported::code,
                ibv_cmd_query_context = unsupported::code,
                ibv_cmd_query_device_any = unsupported::code,
                ibv_cmd_query_mr = unsupported::code,
                ibv_cmd_query_port = unsupported::code,
                ibv_cmd_query_qp = unsupported::code,
                ibv_cmd_query_srq = unsupported::code,
                ibv_cmd_read_counters = unsupported::code,
                ibv_cmd_reg_dm_mr = unsupported::code,
                ibv_cmd_reg_dmabuf_mr = unsupported::code,
                ibv_cmd_reg_mr = unsupported::code,
                ibv_cmd_req_notify_cq = unsupported::code,
                ibv_cmd_rereg_mr = unsupported::code,
                ibv_cmd_resize_cq = unsupported::code,
                ibv_query_gid_type = port::query_gid_type,
                ibv_read_ibdev_sysfs_file = unsupported::minus_one,
                ibv_wr_opcode_str = unsupported::null,
                verbs_init_cq = unsupported::nothing,
                verbs_open_device = unsupported::null,
                verbs_set_ops = unsupported::nothing,
                verbs_uninit_context = unsupported::nothing,
            }
        }
        // A flag of one octet, which says that drivers may not be taken away while objects live.
        core::arch::global_asm!(
            ".pushsection .bss.softnd,\"aw\",@nobits",
            concat!(".globl \"allow_destroy/", $node, "\""),
            concat!(".type \"allow_destroy/", $node, "\",@object"),
            concat!("\"allow_destroy/", $node, "\": .zero 1"),
            concat!(".size \"allow_destroy/", $node, "\", 1"),
            concat!(
                ".symver \"allow_destroy/", $node, "\", verbs_allow_disassociate_destroy",
                export!(@at $which), $node, ", remove"
            ),
            ".popsection",
        );
    };
}

/// Names that newer releases have as well. Releases add names to the node of an earlier one, so every node has all of them.
macro_rules! of_newer_release {
    ($which:ident $node:literal) => {
        export! {
            $which $node {
                ibv_cmd_alloc_dmah = unsupported::code,
                ibv_cmd_create_comp_cntr = unsupported::code,
                ibv_cmd_destroy_comp_cntr = unsupported::code,
                ibv_cmd_export_dmabuf_fd = unsupported::code,
                ibv_cmd_free_dmah = unsupported::code,
                ibv_cmd_inc_comp_cntr = unsupported::code,
                ibv_cmd_inc_err_comp_cntr = unsupported::code,
                ibv_cmd_qp_attach_comp_cntr = unsupported::code,
                ibv_cmd_query_comp_cntr_caps = unsupported::code,
                ibv_cmd_query_port_speed = unsupported::code,
                ibv_cmd_read_comp_cntr = unsupported::code,
                ibv_cmd_read_err_comp_cntr = unsupported::code,
                ibv_cmd_reg_mr_ex = unsupported::code,
                ibv_cmd_set_comp_cntr = unsupported::code,
                ibv_cmd_set_err_comp_cntr = unsupported::code,
                ibv_dmabuf_heap_alloc = unsupported::null,
                ibv_dmabuf_heap_cc_shared_init = unsupported::null,
                ibv_dmabuf_heap_destroy = unsupported::nothing,
                ibv_dmabuf_heap_free = unsupported::nothing,
            }
        }
    };
}

of_release!(default "IBVERBS_PRIVATE_34" verbs_register_driver_34);
of_release!(also "IBVERBS_PRIVATE_57" verbs_register_driver_57);
of_newer_release!(also "IBVERBS_PRIVATE_57");
of_release!(also "IBVERBS_PRIVATE_59" verbs_register_driver_59);
of_newer_release!(also "IBVERBS_PRIVATE_59");
of_release!(also "IBVERBS_PRIVATE_64" verbs_register_driver_64);
of_newer_release!(also "IBVERBS_PRIVATE_64");
of_release!(also "IBVERBS_PRIVATE_65" verbs_register_driver_65);
of_newer_release!(default "IBVERBS_PRIVATE_65");
