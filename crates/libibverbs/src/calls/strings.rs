//! Names of numbers, and conversions of rates.

use std::ffi::{CStr, c_char, c_int};

/// The name at a place in a list, or the name of numbers that are not in it.
fn name(names: &'static [&'static CStr], number: c_int, unknown: &'static CStr) -> *const c_char {
    let index = usize::try_from(number).ok();
    let name = index.and_then(|index| names.get(index));
    name.unwrap_or(&unknown).as_ptr()
}

pub(crate) extern "C" fn node_type(number: c_int) -> *const c_char {
    const NAMES: &[&CStr] = &[
        c"unknown",
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    name(NAMES, number, c"unknown")
}

pub(crate) extern "C" fn port_state(number: c_int) -> *const c_char {
    const NAMES: &[&CStr] = &[
        c"no state change (NOP)",
        c"down",
        c"init",
        c"armed",
        c"active",
        c"active defer",
    ];
    name(NAMES, number, c"invalid state")
}

pub(crate) extern "C" fn event_type(number: c_int) -> *const c_char {
    const NAMES: &[&CStr] = &[
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
    ];
    name(NAMES, number, c"unknown")
}

pub(crate) extern "C" fn wc_status(number: c_int) -> *const c_char {
    const NAMES: &[&CStr] = &[
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    name(NAMES, number, c"unknown")
}

pub(crate) extern "C" fn cm_event(number: c_int) -> *const c_char {
    const NAMES: &[&CStr] = &[
        c"RDMA_CM_EVENT_ADDR_RESOLVED",
        c"RDMA_CM_EVENT_ADDR_ERROR",
        c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        c"RDMA_CM_EVENT_ROUTE_ERROR",
        c"RDMA_CM_EVENT_CONNECT_REQUEST",
        c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        c"RDMA_CM_EVENT_CONNECT_ERROR",
        c"RDMA_CM_EVENT_UNREACHABLE",
        c"RDMA_CM_EVENT_REJECTED",
        c"RDMA_CM_EVENT_ESTABLISHED",
        c"RDMA_CM_EVENT_DISCONNECTED",
        c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        c"RDMA_CM_EVENT_MULTICAST_JOIN",
        c"RDMA_CM_EVENT_MULTICAST_ERROR",
        c"RDMA_CM_EVENT_ADDR_CHANGE",
        c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
        c"RDMA_CM_EVENT_ADDRINFO_ERROR",
        c"RDMA_CM_EVENT_USER",
    ];
    name(NAMES, number, c"UNKNOWN EVENT")
}

/// Rates: the number of `enum ibv_rate`, the multiple of 2.5 Gbit/s (0 where it is none), and Mbit/s.
const RATES: [(c_int, c_int, c_int); 23] = [
    (2, 1, 2500),
    (5, 2, 5000),
    (3, 4, 10000),
    (6, 8, 20000),
    (4, 12, 30000),
    (7, 16, 40000),
    (8, 24, 60000),
    (9, 32, 80000),
    (10, 48, 120_000),
    (11, 0, 14062),
    (12, 0, 56250),
    (13, 0, 112_500),
    (14, 0, 168_750),
    (15, 0, 25781),
    (16, 0, 103_125),
    (17, 0, 206_250),
    (18, 0, 309_375),
    (19, 0, 28125),
    (20, 0, 53125),
    (21, 0, 425_000),
    (22, 0, 637_500),
    (23, 0, 850_000),
    (24, 0, 1_275_000),
];

fn rate(wanted: impl Fn(&(c_int, c_int, c_int)) -> bool) -> Option<(c_int, c_int, c_int)> {
    RATES.into_iter().find(wanted)
}

pub(crate) extern "C" fn rate_to_mult(number: c_int) -> c_int {
    let found = rate(|rate| rate.0 == number && rate.1 > 0);
    found.map_or(-1, |rate| rate.1)
}

pub(crate) extern "C" fn mult_to_rate(multiple: c_int) -> c_int {
    let found = rate(|rate| rate.1 == multiple && multiple > 0);
    found.map_or(0, |rate| rate.0)
}

pub(crate) extern "C" fn rate_to_mbps(number: c_int) -> c_int {
    rate(|rate| rate.0 == number).map_or(-1, |rate| rate.2)
}

pub(crate) extern "C" fn mbps_to_rate(mbps: c_int) -> c_int {
    rate(|rate| rate.2 == mbps).map_or(0, |rate| rate.0)
}
