//! What an adapter can do at most.

/// The longest private data an adapter can be told to take: 512 octets less the four of RFC 6581.
pub const LONGEST_PRIVATE_DATA: u32 = 508;

/// What an adapter can do at most, as it says in [`netdirect::AdapterInfo`]. The defaults are the largest values that this
/// provider knows; smaller ones show a client what it will meet on an adapter that can do less.
///
/// ```
/// # fn main() -> netdirect::Result<()> {
/// let options = softnd::Options::default().limits(|limits| limits.queue_depth = 256);
/// let adapter = softnd::open("softnd+tcp://127.0.0.1", options)?;
/// assert_eq!(adapter.query()?.max_initiator_queue_depth, 256);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Octets of one region, and so of one window: 1 TiB (MR-011, AMB-058).
    pub registration_size: u64,
    /// Regions that are registered and windows that are bound, or about to be, at a time: 2^24 (MR-008).
    pub memory_tokens: u32,
    /// Results that a completion queue can be made for: 131,072 (ADPT-023, CQ-013).
    pub completion_queue_depth: u32,
    /// Requests that each of the two queues of a queue pair can be made for: 16,384. The two have the same limit, because
    /// tests make one with the other's (TST-021, ADPT-053, ADPT-054).
    pub queue_depth: u32,
    /// Receives that a shared receive queue can be made for: 16,384 (ADPT-044, SRQ-013). With 0 the adapter has no shared
    /// receive queues (SRQ-001).
    pub shared_receive_queue_depth: u32,
    /// SGEs that a Receive, and an initiator request, can be made with: 16 (ADPT-055, ADPT-056).
    pub sges: u32,
    /// SGEs of a Read, where that is less than `sges`: 16 (QP-056).
    pub read_sges: u32,
    /// Octets of one request: 1 GiB (QP-012, QP-027, QP-054, QP-066).
    pub transfer_length: u32,
    /// Octets of inline data that a queue pair can be made for: 1,024 (ADPT-057).
    pub inline_data_size: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            registration_size: 1 << 40,
            memory_tokens: 1 << 24,
            completion_queue_depth: iwarp_io::cq::GREATEST_DEPTH,
            queue_depth: 1 << 14,
            shared_receive_queue_depth: 1 << 14,
            sges: 16,
            read_sges: 16,
            transfer_length: 1 << 30,
            inline_data_size: 1024,
        }
    }
}

impl Limits {
    /// Cut to what there can be.
    pub(crate) fn possible(self) -> Self {
        let most = Self::default();
        Self {
            registration_size: self.registration_size.min(most.registration_size),
            memory_tokens: self.memory_tokens.min(most.memory_tokens),
            completion_queue_depth: self.completion_queue_depth.min(most.completion_queue_depth),
            queue_depth: self.queue_depth.min(most.queue_depth),
            shared_receive_queue_depth: self
                .shared_receive_queue_depth
                .min(most.shared_receive_queue_depth),
            sges: self.sges.min(most.sges),
            read_sges: self.read_sges.min(most.read_sges),
            transfer_length: self.transfer_length.min(most.transfer_length),
            inline_data_size: self.inline_data_size.min(most.inline_data_size),
        }
    }
}
