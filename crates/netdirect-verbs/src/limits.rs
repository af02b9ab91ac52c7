//! The limits of an adapter: the device's limits in ND2's terms.

use std::io;
use std::sync::Arc;

use crate::handle::{
    CompletionChannelQueue, Context, DeviceLimits, MemoryWindowHandle, ProtectionDomain,
    QueuePairHandle, QueuePairSizes, WindowKind,
};
use crate::options::Options;
use crate::quirks::Needs;

/// More memory than any program has, in octets.
const LARGEST_REGISTRATION: u64 = 1 << 47;
/// The most inline data that is tried.
const MOST_INLINE: u32 = 1024;
/// Private data of both sides over iWARP: the limit of siw and other drivers, without the octets of RFC 6581.
const IWARP_PRIVATE_DATA: u32 = 248;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) device: DeviceLimits,
    pub(crate) is_iwarp: bool,
    pub(crate) registration_size: u64,
    pub(crate) transfer_length: u32,
    pub(crate) queue_depth: u32,
    pub(crate) sges: u32,
    pub(crate) read_sges: u32,
    pub(crate) inline: u32,
    pub(crate) inbound_reads: u32,
    pub(crate) outbound_reads: u32,
    pub(crate) completion_queue_depth: u32,
    pub(crate) shared_receive_depth: u32,
    pub(crate) shared_receive_sges: u32,
    pub(crate) caller_data: u32,
    pub(crate) callee_data: u32,
    pub(crate) resizes_queues: bool,
    pub(crate) windows: Option<WindowKind>,
}

impl Limits {
    /// Queries the device, and finds limits that it does not report by trying.
    pub(crate) fn query(
        pd: &Arc<ProtectionDomain>,
        device: &DeviceLimits,
        needs: Needs,
        options: &Options,
    ) -> io::Result<Self> {
        let context = pd.context();
        let is_iwarp = context.is_iwarp();
        let longest = context.port(1)?.longest;
        let queue = Arc::new(CompletionChannelQueue::new(context, 2, 0, 0)?);
        let (caller_data, callee_data) = if is_iwarp {
            (IWARP_PRIVATE_DATA, IWARP_PRIVATE_DATA)
        } else {
            (56, 148)
        };
        Ok(Self {
            device: *device,
            is_iwarp,
            registration_size: device
                .registration_size
                .min(LARGEST_REGISTRATION)
                .min(options.registration_limit.unwrap_or(u64::MAX)),
            transfer_length: longest.clamp(1 << 20, i32::MAX.cast_unsigned()),
            queue_depth: device.queue_depth,
            sges: device.sges,
            read_sges: device.read_sges.min(device.sges),
            inline: most_inline(pd, &queue),
            // The numbers in a connection's messages have one octet each.
            inbound_reads: device.inbound_reads.min(254),
            outbound_reads: device.outbound_reads.min(254),
            completion_queue_depth: most_results(context, device, needs),
            shared_receive_depth: if device.shared_receive_queues == 0 {
                0
            } else {
                device.shared_receives
            },
            shared_receive_sges: device.shared_receive_sges.min(device.sges),
            caller_data,
            callee_data,
            resizes_queues: queue.resize(4).is_ok(),
            windows: best_windows(pd, device),
        })
    }
}

/// The type of the device's windows that is used. ND2's windows are those of type 2: they belong to one queue pair (MW-010).
fn best_windows(pd: &Arc<ProtectionDomain>, device: &DeviceLimits) -> Option<WindowKind> {
    let kinds = [
        (WindowKind::Type2, device.has_window_type_2),
        (WindowKind::Type1, device.has_window_type_1),
    ];
    let mut supported = kinds
        .into_iter()
        .filter(|(_, has)| *has)
        .map(|(kind, _)| kind);
    if device.memory_windows == 0 {
        return None;
    }
    // Some drivers have a limit for windows, and no windows.
    supported.find(|kind| MemoryWindowHandle::new(pd, *kind).is_ok())
}

/// The depth of the longest queue. A driver in which every request must report its end needs room for silent ones too.
fn most_results(_: &Context, device: &DeviceLimits, needs: Needs) -> u32 {
    if needs.completes_out_of_order {
        device.completion_queue_depth / 4
    } else {
        device.completion_queue_depth
    }
}

/// The most inline data that a queue pair can be made for. No attribute of a device reports it.
fn most_inline(pd: &Arc<ProtectionDomain>, queue: &Arc<CompletionChannelQueue>) -> u32 {
    let works = |inline: u32| {
        let sizes = QueuePairSizes {
            send_depth: 1,
            receive_depth: 1,
            send_sges: 1,
            receive_sges: 1,
            inline,
            serves_atomics: false,
        };
        QueuePairHandle::new(pd, queue, queue, None, sizes).is_ok()
    };
    let (mut works_up_to, mut fails_from) = (0, MOST_INLINE + 1);
    while fails_from - works_up_to > 1 {
        let middle = works_up_to + (fails_from - works_up_to) / 2;
        if works(middle) {
            works_up_to = middle;
        } else {
            fails_from = middle;
        }
    }
    works_up_to
}
