//! The limits of an adapter.

/// The largest private data limit that an adapter can have, in octets: the 512 octets of MPA, less the four octets that RFC
/// 6581 uses.
pub const LONGEST_PRIVATE_DATA: u32 = 508;

/// The limits of an adapter, as [`netdirect::AdapterInfo`] reports them. The defaults are the largest values that this provider
/// supports. Set smaller values to run a client as on a smaller adapter.
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
    /// The largest size of a memory region, and of a memory window, in octets. Default: 1 TiB (MR-011, AMB-058).
    pub registration_size: u64,
    /// The largest number of registered regions and bound windows at a time. Windows with a queued Bind count as bound. Default:
    /// 2^24 (MR-008).
    pub memory_tokens: u32,
    /// The largest depth of a completion queue, in results. Default: 131,072 (ADPT-023, CQ-013).
    pub completion_queue_depth: u32,
    /// The largest depth of the initiator queue of a queue pair, and of its receive queue, in requests. Default: 16,384. The two
    /// queues have the same limit, because test programs create one queue with the limit of the other (TST-021, ADPT-053,
    /// ADPT-054).
    pub queue_depth: u32,
    /// The largest depth of a shared receive queue, in Receives. Default: 16,384 (ADPT-044, SRQ-013). With 0, the adapter does
    /// not support shared receive queues (SRQ-001).
    pub shared_receive_queue_depth: u32,
    /// The largest number of SGEs of a Receive, and of an initiator request. Default: 16 (ADPT-055, ADPT-056).
    pub sges: u32,
    /// The largest number of SGEs of a Read. The smaller of this limit and `sges` holds. Default: 16 (QP-056).
    pub read_sges: u32,
    /// The largest length of a request's data, in octets. Default: 1 GiB (QP-012, QP-027, QP-054, QP-066).
    pub transfer_length: u32,
    /// The largest length of inline data that a queue pair can be created for, in octets. Default: 1,024 (ADPT-057).
    pub inline_data_size: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            registration_size: 1 << 40,
            memory_tokens: 1 << 24,
            completion_queue_depth: 1 << 17,
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
    /// Cuts each limit to the default, which is the largest value supported.
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
