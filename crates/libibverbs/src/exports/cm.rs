//! The names of librdmacm that begin with `rdma_`.

use crate::calls::cm::{addrinfo, channel, connection, endpoint, events, id, queues};
use crate::calls::{device, strings};
use crate::unsupported;

export! {
    default "RDMACM_1.0" {
        rdma_accept = connection::accept,
        rdma_ack_cm_event = events::ack,
        rdma_bind_addr = id::bind,
        rdma_connect = connection::connect,
        rdma_create_ep = endpoint::create,
        rdma_create_event_channel = channel::create,
        rdma_create_id = id::create,
        rdma_create_qp = queues::create_qp,
        rdma_create_qp_ex = queues::create_qp_ex,
        rdma_create_srq = queues::create_srq,
        rdma_create_srq_ex = queues::create_srq_ex,
        rdma_destroy_ep = endpoint::destroy,
        rdma_destroy_event_channel = channel::destroy,
        rdma_destroy_id = id::destroy,
        rdma_destroy_qp = queues::destroy_qp,
        rdma_destroy_srq = queues::destroy_srq,
        rdma_disconnect = connection::disconnect,
        rdma_event_str = strings::cm_event,
        rdma_free_devices = device::free_array,
        rdma_freeaddrinfo = addrinfo::free,
        rdma_get_cm_event = events::get,
        rdma_get_devices = id::devices,
        rdma_get_dst_port = id::destination_port,
        rdma_get_request = endpoint::get_request,
        rdma_get_src_port = id::source_port,
        rdma_getaddrinfo = addrinfo::get,
        rdma_join_multicast = unsupported::minus_one,
        rdma_leave_multicast = unsupported::minus_one,
        rdma_listen = id::listen,
        rdma_migrate_id = id::migrate,
        rdma_notify = connection::notify,
        rdma_reject = connection::reject,
        rdma_resolve_addr = id::resolve_addr,
        rdma_resolve_route = id::resolve_route,
        rdma_set_option = id::set_option,
    }
    default "RDMACM_1.1" {
        rdma_join_multicast_ex = unsupported::minus_one,
    }
    default "RDMACM_1.2" {
        rdma_establish = connection::establish,
        rdma_init_qp_attr = id::init_qp_attr,
    }
    default "RDMACM_1.3" {
        rdma_get_remote_ece = unsupported::minus_one,
        rdma_reject_ece = unsupported::minus_one,
        rdma_set_local_ece = unsupported::minus_one,
    }
    default "RDMACM_1.4" {
        rdma_query_addrinfo = addrinfo::query,
        rdma_resolve_addrinfo = addrinfo::resolve,
        rdma_write_cm_event = events::write,
    }
}
