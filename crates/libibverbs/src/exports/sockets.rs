//! The names of rsockets in librdmacm: sockets over RDMA, which this library does not offer.

use crate::unsupported;

export! {
    default "RDMACM_1.0" {
        raccept = unsupported::minus_one,
        rbind = unsupported::minus_one,
        rclose = unsupported::minus_one,
        rconnect = unsupported::minus_one,
        rfcntl = unsupported::minus_one,
        rgetpeername = unsupported::minus_one,
        rgetsockname = unsupported::minus_one,
        rgetsockopt = unsupported::minus_one,
        riomap = unsupported::minus_one,
        riounmap = unsupported::minus_one,
        riowrite = unsupported::minus_one,
        rlisten = unsupported::minus_one,
        rpoll = unsupported::minus_one,
        rread = unsupported::minus_one,
        rreadv = unsupported::minus_one,
        rrecv = unsupported::minus_one,
        rrecvfrom = unsupported::minus_one,
        rrecvmsg = unsupported::minus_one,
        rselect = unsupported::minus_one,
        rsend = unsupported::minus_one,
        rsendmsg = unsupported::minus_one,
        rsendto = unsupported::minus_one,
        rsetsockopt = unsupported::minus_one,
        rshutdown = unsupported::minus_one,
        rsocket = unsupported::minus_one,
        rwrite = unsupported::minus_one,
        rwritev = unsupported::minus_one,
    }
    default "RDMACM_1.5" {
        repoll_create = unsupported::minus_one,
        repoll_ctl = unsupported::minus_one,
        repoll_wait = unsupported::minus_one,
    }
}
