//! What registered memory may be used for.

bitflags::bitflags! {
    /// What a region may be used for. Its owner may always send from it (MR-019). The bits are those of the
    /// ND_MR_FLAG_… values, with the local-write bit that ND_MR_FLAG_ALLOW_REMOTE_WRITE contains kept apart.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Rights: u32 {
        /// The adapter may place what a Receive takes (ND_MR_FLAG_ALLOW_LOCAL_WRITE, MR-013), and windows that allow
        /// writing may be bound (QP-038).
        const LOCAL_WRITE = 1;
        /// Peers may read through the region's own STag (ND_MR_FLAG_ALLOW_REMOTE_READ, MR-014).
        const REMOTE_READ = 2;
        /// Peers may write through the region's own STag (ND_MR_FLAG_ALLOW_REMOTE_WRITE, MR-015).
        const REMOTE_WRITE = 4;
        /// Responses to local Reads may be placed (ND_MR_FLAG_RDMA_READ_SINK, MR-017). Opens nothing to peers (IW-046).
        const READ_SINK = 8;
    }
}
