//! The rights of registered memory.

bitflags::bitflags! {
    /// The rights of a region. The owner may always send from the region (MR-019). The bits are those of the ND_MR_FLAG_… values, except
    /// that ND_MR_FLAG_ALLOW_REMOTE_WRITE contains the local-write bit, which is separate here, and that ND2 has no flag for Atomics.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Rights: u32 {
        /// The adapter may place the data of Receives (ND_MR_FLAG_ALLOW_LOCAL_WRITE, MR-013), and windows that allow
        /// writing may be bound (QP-038).
        const LOCAL_WRITE = 1;
        /// Peers may read through the region's own STag (ND_MR_FLAG_ALLOW_REMOTE_READ, MR-014).
        const REMOTE_READ = 2;
        /// Peers may write through the region's own STag (ND_MR_FLAG_ALLOW_REMOTE_WRITE, MR-015).
        const REMOTE_WRITE = 4;
        /// Responses to local Reads may be placed (ND_MR_FLAG_RDMA_READ_SINK, MR-017). This gives peers no access (IW-046).
        const READ_SINK = 8;
        /// Peers may use Atomics through the region's own STag (RDMAPX-011). Neither of the other rights contains this one.
        const REMOTE_ATOMIC = 1 << 31;
    }
}
