//! Structures and numbers that releases after rdma-core 44 have added, as rdma-core 65 has them.

use std::ffi::{c_int, c_void};

layouts! {
    record ibv_mr_init_attr {
        length: usize,
        access: c_int,
        comp_mask: u64,
        iova: u64,
        addr: *mut c_void,
        // Programs of rdma-core 59 to 63 end before `buf`. What follows here is read by no call.
        fd: c_int,
        fd_offset: u64,
        dmah: *mut c_void,
    }
}

constants! {
    u64 {
        IBV_REG_MR_MASK_IOVA = 1 << 0,
        IBV_REG_MR_MASK_ADDR = 1 << 1,
    }
    c_int {
        RAI_SA = 0x10,
        RDMA_CM_EVENT_USER = 18,
    }
}
