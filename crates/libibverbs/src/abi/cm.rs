//! The structures of librdmacm.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{sockaddr, sockaddr_storage, socklen_t};

use super::attributes::ibv_ah_attr;
use super::device::ibv_gid;
use super::objects::{ibv_comp_channel, ibv_context, ibv_cq, ibv_pd, ibv_qp, ibv_srq};

layouts! {
    record ibv_sa_path_rec {
        dgid: ibv_gid,
        sgid: ibv_gid,
        dlid: u16,
        slid: u16,
        raw_traffic: c_int,
        flow_label: u32,
        hop_limit: u8,
        traffic_class: u8,
        reversible: c_int,
        numb_path: u8,
        pkey: u16,
        sl: u8,
        mtu_selector: u8,
        mtu: u8,
        rate_selector: u8,
        rate: u8,
        packet_life_time_selector: u8,
        packet_life_time: u8,
        preference: u8,
    }
    record rdma_ib_addr {
        sgid: ibv_gid,
        dgid: ibv_gid,
        pkey: u16,
    }
    record rdma_addr {
        src_storage: sockaddr_storage,
        dst_storage: sockaddr_storage,
        addr: rdma_ib_addr,
    }
    record rdma_route {
        addr: rdma_addr,
        path_rec: *mut ibv_sa_path_rec,
        num_paths: c_int,
    }
    record rdma_event_channel {
        fd: c_int,
    }
    record rdma_cm_id {
        verbs: *mut ibv_context,
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        qp: *mut ibv_qp,
        route: rdma_route,
        ps: c_uint,
        port_num: u8,
        event: *mut rdma_cm_event,
        send_cq_channel: *mut ibv_comp_channel,
        send_cq: *mut ibv_cq,
        recv_cq_channel: *mut ibv_comp_channel,
        recv_cq: *mut ibv_cq,
        srq: *mut ibv_srq,
        pd: *mut ibv_pd,
        qp_type: c_uint,
    }
    record rdma_conn_param {
        private_data: *const c_void,
        private_data_len: u8,
        responder_resources: u8,
        initiator_depth: u8,
        flow_control: u8,
        retry_count: u8,
        rnr_retry_count: u8,
        srq: u8,
        qp_num: u32,
    }
    record rdma_ud_param {
        private_data: *const c_void,
        private_data_len: u8,
        ah_attr: ibv_ah_attr,
        qp_num: u32,
        qkey: u32,
    }
    record rdma_cm_event {
        id: *mut rdma_cm_id,
        listen_id: *mut rdma_cm_id,
        event: c_int,
        status: c_int,
        // A union: the parameters of a connection, or those of a queue pair for datagrams.
        private_data = "param.conn.private_data": *const c_void,
        private_data_len = "param.conn.private_data_len": u8,
        responder_resources = "param.conn.responder_resources": u8,
        initiator_depth = "param.conn.initiator_depth": u8,
        flow_control = "param.conn.flow_control": u8,
        retry_count = "param.conn.retry_count": u8,
        rnr_retry_count = "param.conn.rnr_retry_count": u8,
        srq = "param.conn.srq": u8,
        qp_num = "param.conn.qp_num": u32,
        // The number lies where the GID begins.
        ud_dgid_rest = "": [u8; 12],
        ud_flow_label = "param.ud.ah_attr.grh.flow_label": u32,
        ud_sgid_index = "param.ud.ah_attr.grh.sgid_index": u8,
        ud_hop_limit = "param.ud.ah_attr.grh.hop_limit": u8,
        ud_traffic_class = "param.ud.ah_attr.grh.traffic_class": u8,
        ud_dlid = "param.ud.ah_attr.dlid": u16,
        ud_sl = "param.ud.ah_attr.sl": u8,
        ud_src_path_bits = "param.ud.ah_attr.src_path_bits": u8,
        ud_static_rate = "param.ud.ah_attr.static_rate": u8,
        ud_is_global = "param.ud.ah_attr.is_global": u8,
        ud_port_num = "param.ud.ah_attr.port_num": u8,
        ud_qp_num = "param.ud.qp_num": u32,
        ud_qkey = "param.ud.qkey": u32,
    }
    record rdma_addrinfo {
        ai_flags: c_int,
        ai_family: c_int,
        ai_qp_type: c_int,
        ai_port_space: c_int,
        ai_src_len: socklen_t,
        ai_dst_len: socklen_t,
        ai_src_addr: *mut sockaddr,
        ai_dst_addr: *mut sockaddr,
        ai_src_canonname: *mut c_char,
        ai_dst_canonname: *mut c_char,
        ai_route_len: usize,
        ai_route: *mut c_void,
        ai_connect_len: usize,
        ai_connect: *mut c_void,
        ai_next: *mut rdma_addrinfo,
    }
}
