//! `IND2CompletionQueue`, `IND2SharedReceiveQueue` and `IND2QueuePair`.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::{
    Affinity, CompletionResult, MemoryRegion, MemoryWindow, NotifyType, OpFlags, Overlapped,
    OverlappedObject, QueuePairExtensions, RemoteAddress, Result, Sge, Started,
};

/// `IND2CompletionQueue`: where the results of requests on queue pairs arrive.
///
/// Requests of one queue pair complete in the order they were posted, initiator requests among themselves and Receives
/// among themselves (CQ-042); between queue pairs there is no order (CQ-043). A queue that overflows is dead, with all its
/// queue pairs (CQ-022).
pub trait CompletionQueue: OverlappedObject {
    /// `GetNotifyAffinity`: the processors that notifications go to.
    ///
    /// # Errors
    ///
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): affinity cannot be set, and is not known.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES) and
    ///   [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER) are documented but never come from providers in Rust (AMB-060).
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn get_notify_affinity(&self) -> Result<Affinity>;

    /// `Resize`: changes the number of results that fit, up or down, with traffic running (CQ-017).
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER): 0 or above the adapter's limit (CQ-012, CQ-013).
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): fewer than results are queued now; nothing changed.
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the adapter lacks
    ///   [`CQ_RESIZE_SUPPORTED`](crate::AdapterFlags::CQ_RESIZE_SUPPORTED).
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn resize(&self, depth: u32) -> Result<()>;

    /// `Notify`: ends when a result of this kind arrives that no notification has been fired for yet, or at once if one is
    /// queued (CQ-031, CQ-037). All requests in flight end together (CQ-033), and with [`NotifyType::Any`] among them
    /// any result ends those for [`NotifyType::Solicited`] too (CQ-035). A request may end early, with
    /// [`SUCCESS`](crate::Status::SUCCESS) and no result of its kind in the queue: where the device does not tell solicited
    /// results apart ([`SOLICITED_EVENTS`](crate::Capabilities::SOLICITED_EVENTS)), any result ends it. Callers look, and
    /// notify again.
    ///
    /// The pattern that loses nothing: drain with [`get_results`](Self::get_results) until fewer come back than asked for,
    /// notify, wait, drain.
    ///
    /// # Errors
    ///
    /// At once: [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    ///
    /// As final status: [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): the queue overflowed;
    /// [`INTERNAL_ERROR`](crate::Status::INTERNAL_ERROR): it broke down; both are the end of the queue and its queue pairs.
    /// [`CANCELED`](crate::Status::CANCELED): cancelled, or the queue was released.
    fn notify(&self, kind: NotifyType, overlapped: &Overlapped) -> Result<Started>;

    /// `GetResults`: moves the oldest results to the start of `results` and returns their number; 0 when there is none. Never
    /// blocks; makes progress. Results of queue pairs that were released may still come (CQ-044).
    fn get_results(&self, results: &mut [CompletionResult]) -> usize;
}

/// `IND2SharedReceiveQueue`: a pool of Receives that several queue pairs take from.
///
/// The result of a Receive appears in the receive completion queue of the queue pair that used it (AMB-021).
pub trait SharedReceiveQueue: OverlappedObject {
    /// `GetNotifyAffinity`: as for [completion queues](CompletionQueue::get_notify_affinity).
    ///
    /// # Errors
    ///
    /// [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED),
    /// [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER), [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn get_notify_affinity(&self) -> Result<Affinity>;

    /// `Modify`: changes depth and threshold; 0 leaves the one in question as it is (SRQ-010, SRQ-011).
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER): depth above the adapter's limit.
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): depth below the Receives outstanding; nothing changed.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn modify(&self, queue_depth: u32, notify_threshold: u32) -> Result<()>;

    /// `Notify`: ends when fewer Receives than the threshold are outstanding; at once if that is so already (AMB-052). All
    /// requests in flight end together (SRQ-024).
    ///
    /// # Errors
    ///
    /// At once: [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    ///
    /// As final status: [`INTERNAL_ERROR`](crate::Status::INTERNAL_ERROR): the queue broke down, with its queue pairs
    /// (AMB-051); [`CANCELED`](crate::Status::CANCELED).
    fn notify(&self, overlapped: &Overlapped) -> Result<Started>;

    /// `Receive`: adds a Receive to the pool, connected or not (SRQ-034). No entries at all take a message of no length. The
    /// entries are copied during the call.
    ///
    /// # Errors
    ///
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): longer than the adapter's `max_transfer_length`.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): too many entries.
    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()>;
}

/// `IND2QueuePair`: the data path of one connection.
///
/// Every request yields one [`CompletionResult`] with the `context` given here, except successful ones with
/// [`OpFlags::SILENT_SUCCESS`] (CQ-045). A call that fails leaves the queue pair usable (QP-002); a result that failed ends
/// the connection, and everything behind it completes with [`CANCELED`](crate::Status::CANCELED) (QP-003). Entries are copied
/// during the call, and whether they name registered memory is checked when the request is processed:
/// [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION) is then the result (SGE-004).
///
/// Initiator requests before the connection exists, or after the local side has disconnected, fail with
/// [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID); after an error or the peer's disconnect they are taken and
/// complete with [`CANCELED`](crate::Status::CANCELED) (AMB-046).
///
/// Releasing the last reference disconnects and cancels all requests (QP-074).
pub trait QueuePair: Any + Debug + Send + Sync {
    /// `Flush`: cancels all outstanding requests of this queue pair: they complete with
    /// [`CANCELED`](crate::Status::CANCELED), perhaps after the call (QP-006). Works without a connection too (QP-009).
    ///
    /// # Errors
    ///
    /// None is documented.
    fn flush(&self) -> Result<()>;

    /// `Send`: a message for one of the peer's Receives. No entries at all make a message of no length, which uses up a Receive
    /// too (QP-016).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not connected.
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): longer than `max_transfer_length`.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): too many entries.
    /// - [`INVALID_PARAMETER_4`](crate::Status::INVALID_PARAMETER_4): `flags` has others than `SILENT_SUCCESS`, `READ_FENCE`
    ///   and `SEND_AND_SOLICIT_EVENT`. `INLINE` is among those others: see [`send_inline`](Self::send_inline).
    fn send(&self, context: u64, sges: &[Sge], flags: OpFlags) -> Result<()>;

    /// `Receive`: room for one message of the peer, in the order posted. May be posted at any time, before connecting too
    /// (QP-031). A longer message completes it with [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW) and ends the
    /// connection (QP-034).
    ///
    /// # Errors
    ///
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): longer than `max_transfer_length`.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the receive queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): too many entries.
    /// - [`INVALID_DEVICE_REQUEST`](crate::Status::INVALID_DEVICE_REQUEST): the queue pair takes from a shared queue (AMB-050).
    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()>;

    /// `Bind`: gives the peer access to `length` octets at `address` in a region, through a window, with the rights in `flags`
    /// ([`ALLOW_READ`](OpFlags::ALLOW_READ), [`ALLOW_WRITE`](OpFlags::ALLOW_WRITE); neither is legal, AMB-010). The region
    /// needs no remote rights of its own (QP-041).
    ///
    /// [`MemoryWindow::get_remote_token`] is right as soon as this returns (MW-008); the bind itself takes effect before any
    /// request posted after it (QP-044). Binding a window that is bound completes with
    /// [`INVALID_DEVICE_REQUEST`](crate::Status::INVALID_DEVICE_REQUEST) (QP-043).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not connected.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION): the region does not allow it (writing needs
    ///   [`ALLOW_LOCAL_WRITE`](crate::MrFlags::ALLOW_LOCAL_WRITE)), or the range is not inside it (AMB-011).
    /// - [`INVALID_PARAMETER_2`](crate::Status::INVALID_PARAMETER_2),
    ///   [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): region, window (AMB-011).
    /// - [`INVALID_PARAMETER_6`](crate::Status::INVALID_PARAMETER_6): `flags` (AMB-055).
    fn bind(
        &self,
        context: u64,
        region: &Arc<dyn MemoryRegion>,
        window: &Arc<dyn MemoryWindow>,
        address: u64,
        length: u64,
        flags: OpFlags,
    ) -> Result<()>;

    /// `Invalidate`: ends the peer's access through a window. Transfers under way fail (QP-048), and what the peer does with
    /// the token later ends the connection (QP-049). A window that is not bound completes with
    /// [`INVALID_DEVICE_REQUEST`](crate::Status::INVALID_DEVICE_REQUEST).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not connected.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`INVALID_PARAMETER_2`](crate::Status::INVALID_PARAMETER_2): window.
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `flags` (AMB-055).
    fn invalidate(
        &self,
        context: u64,
        window: &Arc<dyn MemoryWindow>,
        flags: OpFlags,
    ) -> Result<()>;

    /// `Read`: fetches from the peer's memory into the entries, in order, as many octets as they hold. A Read of no length
    /// is legal (QP-060).
    ///
    /// With an outbound read limit of 0 the request completes with
    /// [`INVALID_DEVICE_REQUEST`](crate::Status::INVALID_DEVICE_REQUEST) (AMB-045); where the peer refuses, with
    /// [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION) or [`REMOTE_ERROR`](crate::Status::REMOTE_ERROR) (AMB-002).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not connected.
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): longer than `max_transfer_length`.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): too many entries, for the queue pair or for Reads.
    /// - [`INVALID_PARAMETER_6`](crate::Status::INVALID_PARAMETER_6): `flags` (QP-061).
    fn read(&self, context: u64, sges: &[Sge], remote: RemoteAddress, flags: OpFlags)
    -> Result<()>;

    /// `Write`: puts the octets of the entries into the peer's memory. The peer sees no completion (QP-071). No entries at all
    /// make a Write of no length.
    ///
    /// Where the peer refuses, the connection ends. The Write completes with
    /// [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION) if it was still under way; many adapters complete a Write when it has
    /// been sent, with success (AMB-002).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): not connected.
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): longer than `max_transfer_length`.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): too many entries.
    /// - [`INVALID_PARAMETER_6`](crate::Status::INVALID_PARAMETER_6): `flags` has others than `SILENT_SUCCESS` and
    ///   `READ_FENCE`. `INLINE` is among those others: see [`write_inline`](Self::write_inline).
    fn write(
        &self,
        context: u64,
        sges: &[Sge],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()>;

    /// `Send` with `ND_OP_FLAG_INLINE`: the data, all slices one after the other, is copied during the call and need not be
    /// registered (QP-023). The number of slices is not limited (QP-024).
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), but [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW) when the data is longer than the
    /// `inline_data_size` of the queue pair (AMB-048), and never [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN). The flag
    /// [`INLINE`](OpFlags::INLINE) may be given or not.
    fn send_inline(&self, context: u64, data: &[&[u8]], flags: OpFlags) -> Result<()>;

    /// `Write` with `ND_OP_FLAG_INLINE`: as [`send_inline`](Self::send_inline).
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), but [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW) when the data is longer than the
    /// `inline_data_size` of the queue pair (AMB-048), and never [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN). The flag
    /// [`INLINE`](OpFlags::INLINE) may be given or not.
    fn write_inline(
        &self,
        context: u64,
        data: &[&[u8]],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()>;

    /// `QueryInterface` for what ND2 does not have: Atomics and Immediate Data. `None` where the provider lacks them.
    fn extensions(&self) -> Option<&dyn QueuePairExtensions> {
        None
    }
}
