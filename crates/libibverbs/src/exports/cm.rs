//! The names of librdmacm that begin with `rdma_`.

use crate::unsupported;

export! {
    default "RDMACM_1.0" {
        rdma_accept = unsupported::minus_one,
        rdma_ack_cm_event = unsupported::minus_one,
        rdma_bind_addr = unsupported::minus_one,
        rdma_connect = unsupported::minus_one,
        rdma_create_ep = unsupported::minus_one,
        rdma_create_event_channel = unsupported::null,
        rdma_create_id = unsupported::minus_one,
        rdma_create_qp = unsupported::minus_one,
        rdma_create_qp_ex = unsupported::minus_one,
        rdma_create_srq = unsupported::minus_one,
        rdma_create_srq_ex = unsupported::minus_one,
        rdma_destroy_ep = unsupported::nothing,
        rdma_destroy_event_channel = unsupported::nothing,
        rdma_destroy_id = unsupported::minus_one,
        rdma_destroy_qp = unsupported::nothing,
        rdma_destroy_srq = unsupported::nothing,
        rdma_disconnect = unsupported::minus_one,
        rdma_event_str = unsupported::null,
        rdma_free_devices = unsupported::nothing,
        rdma_freeaddrinfo = unsupported::nothing,
        rdma_get_cm_event = unsupported::minus_one,
        rdma_get_devices = unsupported::null,
        rdma_get_dst_port = unsupported::minus_one,
        rdma_get_request = unsupported::minus_one,
        rdma_get_src_port = unsupported::minus_one,
        rdma_getaddrinfo = unsupported::minus_one,
        rdma_join_multicast = unsupported::minus_one,
        rdma_leave_multicast = unsupported::minus_one,
        rdma_listen = unsupported::minus_one,
        rdma_migrate_id = unsupported::minus_one,
        rdma_notify = unsupported::minus_one,
        rdma_reject = unsupported::minus_one,
        rdma_resolve_addr = unsupported::minus_one,
        rdma_resolve_route = unsupported::minus_one,
        rdma_set_option = unsupported::minus_one,
    }
    default "RDMACM_1.1" {
        rdma_join_multicast_ex = unsupported::minus_one,
    }
    default "RDMACM_1.2" {
        rdma_establish = unsupported::minus_one,
        rdma_init_qp_attr = unsupported::minus_one,
    }
    default "RDMACM_1.3" {
        rdma_get_remote_ece = unsupported::minus_one,
        rdma_reject_ece = unsupported::minus_one,
        rdma_set_local_ece = unsupported::minus_one,
    }
}
