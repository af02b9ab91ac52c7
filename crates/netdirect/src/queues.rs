//! `IND2CompletionQueue`, `IND2SharedReceiveQueue` and `IND2QueuePair`.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use crate::{
    Affinity, CompletionResult, ConnectionEnd, Error, MemoryRegion, MemoryWindow, NotifyType,
    OpFlags, Overlapped, OverlappedObject, QueuePairExtensions, RemoteAddress, Result, Sge,
    Started,
};

/// `IND2CompletionQueue`: receives the results of requests on queue pairs.
///
/// The initiator requests of a queue pair complete in the order in which they were posted, and so do its Receives (CQ-042).
/// There is no order between the two kinds, or between queue pairs (CQ-043). A completion queue that overflows breaks down,
/// with all its queue pairs (CQ-022).
pub trait CompletionQueue: OverlappedObject {
    /// `GetNotifyAffinity`: the processors that receive the notifications.
    ///
    /// # Errors
    ///
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the affinity cannot be set and is not known.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES) and
    ///   [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER): ND2 documents these, but providers in Rust never return them
    ///   (AMB-060).
    /// - [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn get_notify_affinity(&self) -> Result<Affinity>;

    /// `Resize`: makes the queue larger or smaller, even while results arrive (CQ-017).
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER): `depth` is 0 or above the adapter's limit (CQ-012, CQ-013).
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): more than `depth` results are queued. The queue is unchanged.
    /// - [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED): the adapter lacks
    ///   [`CQ_RESIZE_SUPPORTED`](crate::AdapterFlags::CQ_RESIZE_SUPPORTED).
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the queue has overflowed or broken down.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn resize(&self, depth: u32) -> Result<()>;

    /// `Notify`: ends when the next result of this kind arrives. It ends at once if such a result is queued already for which
    /// no Notify has ended yet (CQ-031, CQ-037).
    ///
    /// All Notify requests in flight end together (CQ-033). If one of them is for [`NotifyType::Any`], any result ends those for
    /// [`NotifyType::Solicited`] too (CQ-035). A request may end early, with [`SUCCESS`](crate::Status::SUCCESS) and without a result of
    /// its kind in the queue: if the device cannot say which results are solicited
    /// ([`SOLICITED_EVENTS`](crate::Capabilities::SOLICITED_EVENTS)), any result ends it. So callers look into the queue, and call Notify
    /// again if they find nothing.
    ///
    /// To miss no result: call [`get_results`](Self::get_results) until it returns fewer results than fit, call `notify`, wait
    /// for its end, and start again.
    ///
    /// # Errors
    ///
    /// Returned by the call: [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    ///
    /// As the final status:
    ///
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): the queue has overflowed. The queue and its queue pairs cannot be
    ///   used any more.
    /// - [`INTERNAL_ERROR`](crate::Status::INTERNAL_ERROR): the queue has broken down for another reason, with the same
    ///   consequences.
    /// - [`CANCELED`](crate::Status::CANCELED): the request was cancelled, or the queue was released.
    fn notify(&self, kind: NotifyType, overlapped: &Overlapped) -> Result<Started>;

    /// `GetResults`: moves the oldest results to the start of `results` and returns their number, which is 0 if the queue is
    /// empty. The call runs the provider, and never blocks. It may return results of queue pairs that were released (CQ-044).
    fn get_results(&self, results: &mut [CompletionResult]) -> usize;

    /// As [`get_results`](Self::get_results), for a future. In a simulation ([`SimulatedTime`](crate::SimulatedTime)) the call moves no
    /// time even if it finds nothing, because the future moves the simulation itself ([`SimulatedWait`](crate::SimulatedWait)). By
    /// default the same as `get_results`.
    fn take_results(&self, results: &mut [CompletionResult]) -> usize {
        self.get_results(results)
    }
}

/// `IND2SharedReceiveQueue`: a pool of Receives that several queue pairs share.
///
/// The result of a Receive appears in the receive completion queue of the queue pair that used the Receive (AMB-021).
pub trait SharedReceiveQueue: OverlappedObject {
    /// `GetNotifyAffinity`: as for [completion queues](CompletionQueue::get_notify_affinity).
    ///
    /// # Errors
    ///
    /// [`NOT_SUPPORTED`](crate::Status::NOT_SUPPORTED),
    /// [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER), [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn get_notify_affinity(&self) -> Result<Affinity>;

    /// `Modify`: changes the depth and the threshold. An argument of 0 leaves its value unchanged (SRQ-010, SRQ-011).
    ///
    /// # Errors
    ///
    /// - [`INVALID_PARAMETER`](crate::Status::INVALID_PARAMETER): the depth is above the adapter's limit.
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): more Receives than the new depth are outstanding. The queue is
    ///   unchanged.
    /// - [`INVALID_DEVICE_STATE`](crate::Status::INVALID_DEVICE_STATE): the queue has broken down.
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    ///   [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    fn modify(&self, queue_depth: u32, notify_threshold: u32) -> Result<()>;

    /// `Notify`: ends when fewer Receives than the threshold are outstanding. It ends at once if there are fewer already
    /// (AMB-052). All Notify requests in flight end together (SRQ-024).
    ///
    /// # Errors
    ///
    /// Returned by the call: [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES),
    /// [`DEVICE_REMOVED`](crate::Status::DEVICE_REMOVED).
    ///
    /// As the final status: [`INTERNAL_ERROR`](crate::Status::INTERNAL_ERROR) if the queue has broken down, with its queue
    /// pairs (AMB-051); [`CANCELED`](crate::Status::CANCELED).
    fn notify(&self, overlapped: &Overlapped) -> Result<Started>;

    /// `Receive`: adds a Receive to the pool. Its queue pairs may be connected or not (SRQ-034). A Receive without entries
    /// takes an empty message. The call copies the entries.
    ///
    /// # Errors
    ///
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): the entries are longer than the adapter's `max_transfer_length`.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the queue is full. A Receive has its slot until the client has taken the
    ///   result from the completion queue of the queue pair that has used it.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): there are too many entries.
    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()>;
}

/// `IND2QueuePair`: the data path of one connection.
///
/// A request has a slot of the initiator queue or the receive queue until the client has taken its result
/// ([`get_results`](CompletionQueue::get_results)), whatever the state of the queue pair. Without a free slot a call fails with
/// [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES). So a completion queue as deep as all queues whose results it gets never overflows.
/// A request with `SILENT_SUCCESS` that succeeds has its slot until it is done.
///
/// Every request produces one [`CompletionResult`] with the `context` of its call, except a request with
/// [`OpFlags::SILENT_SUCCESS`] that succeeds (CQ-045). If a call fails, the queue pair can still be used (QP-002). If a request
/// completes with a failure, the connection ends, and all later requests complete with
/// [`CANCELED`](crate::Status::CANCELED) (QP-003).
///
/// Each call copies its entries. Whether an entry names registered memory is checked when the request is processed; if not, the
/// request completes with [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION) (SGE-004).
///
/// An initiator request is any request but a Receive. Before the connection exists, and after the local side has
/// disconnected, calls for initiator requests fail with [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID). After an
/// error, and after the peer has disconnected, the calls succeed and the requests complete with
/// [`CANCELED`](crate::Status::CANCELED) (AMB-046).
///
/// Releasing the last reference to a queue pair disconnects it and cancels all its requests (QP-074).
pub trait QueuePair: Any + Debug + Send + Sync {
    /// `Flush`: cancels all outstanding requests of this queue pair. They complete with
    /// [`CANCELED`](crate::Status::CANCELED), possibly after the call has returned (QP-006). The queue pair need not be
    /// connected (QP-009).
    ///
    /// # Errors
    ///
    /// ND2 documents no errors.
    fn flush(&self) -> Result<()>;

    /// `Send`: sends a message, which uses one of the peer's Receives. A Send without entries sends an empty message, which
    /// uses a Receive too (QP-016).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the queue pair is not connected.
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): the message is longer than `max_transfer_length`.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): there are too many entries.
    /// - [`INVALID_PARAMETER_4`](crate::Status::INVALID_PARAMETER_4): `flags` has a flag other than `SILENT_SUCCESS`,
    ///   `READ_FENCE` and `SEND_AND_SOLICIT_EVENT`. For `INLINE` see [`send_inline`](Self::send_inline).
    fn send(&self, context: u64, sges: &[Sge], flags: OpFlags) -> Result<()>;

    /// `Receive`: provides memory for one message of the peer. Messages use Receives in the order in which these were posted.
    /// A Receive may be posted at any time, even before connecting (QP-031). If a message is longer than its Receive, the
    /// Receive completes with [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW) and the connection ends (QP-034).
    ///
    /// # Errors
    ///
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): the entries are longer than `max_transfer_length`.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the receive queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): there are too many entries.
    /// - [`INVALID_DEVICE_REQUEST`](crate::Status::INVALID_DEVICE_REQUEST): the queue pair uses a shared receive queue
    ///   (AMB-050).
    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()>;

    /// `Bind`: gives the peer access, through a window, to `length` octets at `address` in a region. `flags` has the peer's
    /// rights: [`ALLOW_READ`](OpFlags::ALLOW_READ), [`ALLOW_WRITE`](OpFlags::ALLOW_WRITE), both, or neither (AMB-010). The
    /// region needs no remote rights of its own (QP-041).
    ///
    /// [`MemoryWindow::get_remote_token`] returns the new token as soon as this call returns (MW-008). The Bind takes effect
    /// before any request that is posted later (QP-044). If the window is bound already, the request completes with
    /// [`INVALID_DEVICE_REQUEST`](crate::Status::INVALID_DEVICE_REQUEST) (QP-043).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the queue pair is not connected.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION): the range is not inside the region, or the peer is to write and
    ///   the region lacks [`ALLOW_LOCAL_WRITE`](crate::MrFlags::ALLOW_LOCAL_WRITE) (AMB-011).
    /// - [`INVALID_PARAMETER_2`](crate::Status::INVALID_PARAMETER_2): the region is not valid;
    ///   [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): the window is not valid (AMB-011).
    /// - [`INVALID_PARAMETER_6`](crate::Status::INVALID_PARAMETER_6): `flags` has a flag that Bind does not take (AMB-055).
    /// - [`INSUFFICIENT_RESOURCES`](crate::Status::INSUFFICIENT_RESOURCES): no token is left.
    fn bind(
        &self,
        context: u64,
        region: &Arc<dyn MemoryRegion>,
        window: &Arc<dyn MemoryWindow>,
        address: u64,
        length: u64,
        flags: OpFlags,
    ) -> Result<()>;

    /// `Invalidate`: ends the peer's access through a window. Transfers in progress fail (QP-048). If the peer uses the token
    /// later, the connection ends (QP-049). If the window is not bound, the request completes with
    /// [`INVALID_DEVICE_REQUEST`](crate::Status::INVALID_DEVICE_REQUEST).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the queue pair is not connected.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`INVALID_PARAMETER_2`](crate::Status::INVALID_PARAMETER_2): the window is not valid.
    /// - [`INVALID_PARAMETER_3`](crate::Status::INVALID_PARAMETER_3): `flags` has a flag that Invalidate does not take
    ///   (AMB-055).
    fn invalidate(
        &self,
        context: u64,
        window: &Arc<dyn MemoryWindow>,
        flags: OpFlags,
    ) -> Result<()>;

    /// `Read`: reads from the peer's memory as many octets as the entries hold, and fills the entries in order. A Read of no
    /// octets is legal (QP-060).
    ///
    /// If the outbound read limit is 0, the request completes with
    /// [`INVALID_DEVICE_REQUEST`](crate::Status::INVALID_DEVICE_REQUEST) (AMB-045). If the peer refuses the Read, the request
    /// completes with [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION) or
    /// [`REMOTE_ERROR`](crate::Status::REMOTE_ERROR) (AMB-002).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the queue pair is not connected.
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): the entries are longer than `max_transfer_length`.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): there are too many entries for this queue pair, or for a Read.
    /// - [`INVALID_PARAMETER_6`](crate::Status::INVALID_PARAMETER_6): `flags` has a flag that Read does not take (QP-061).
    fn read(&self, context: u64, sges: &[Sge], remote: RemoteAddress, flags: OpFlags)
    -> Result<()>;

    /// `Write`: writes the octets of the entries into the peer's memory. The peer's application gets no result (QP-071). A
    /// Write without entries writes nothing.
    ///
    /// If the peer refuses the Write, the connection ends. A Write that is still outstanding then completes with
    /// [`ACCESS_VIOLATION`](crate::Status::ACCESS_VIOLATION). With many adapters the Write has completed with success before,
    /// because they complete a Write as soon as it has been sent (AMB-002).
    ///
    /// # Errors
    ///
    /// - [`CONNECTION_INVALID`](crate::Status::CONNECTION_INVALID): the queue pair is not connected.
    /// - [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW): the entries are longer than `max_transfer_length`.
    /// - [`NO_MORE_ENTRIES`](crate::Status::NO_MORE_ENTRIES): the initiator queue is full.
    /// - [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN): there are too many entries.
    /// - [`INVALID_PARAMETER_6`](crate::Status::INVALID_PARAMETER_6): `flags` has a flag other than `SILENT_SUCCESS` and
    ///   `READ_FENCE`. For `INLINE` see [`write_inline`](Self::write_inline).
    fn write(
        &self,
        context: u64,
        sges: &[Sge],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()>;

    /// `Send` with `ND_OP_FLAG_INLINE`: sends the octets of all slices, one after the other. The call copies the data, which
    /// need not be in registered memory (QP-023). There may be any number of slices (QP-024). The flag
    /// [`INLINE`](OpFlags::INLINE) is optional.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), except that [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW) means that the data is longer
    /// than the queue pair's `inline_data_size` (AMB-048), and that [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN) cannot
    /// occur.
    fn send_inline(&self, context: u64, data: &[&[u8]], flags: OpFlags) -> Result<()>;

    /// `Write` with `ND_OP_FLAG_INLINE`: writes the octets of all slices into the peer's memory; otherwise as
    /// [`send_inline`](Self::send_inline).
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), except that [`BUFFER_OVERFLOW`](crate::Status::BUFFER_OVERFLOW) means that the data is longer
    /// than the queue pair's `inline_data_size` (AMB-048), and that [`DATA_OVERRUN`](crate::Status::DATA_OVERRUN) cannot occur.
    fn write_inline(
        &self,
        context: u64,
        data: &[&[u8]],
        remote: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()>;

    /// The reason why the connection ended. `None` before that, and if the provider cannot tell. ND2 has no such call; in C it is
    /// `INDXConnectionEnd`.
    fn connection_end(&self) -> Option<ConnectionEnd> {
        None
    }

    /// The error of a request of this queue pair that has failed: the status of its result, and a sentence that says why, with the
    /// [end of the connection](Self::connection_end) where that is the reason. ND2 has no such call.
    ///
    /// ```
    /// # use netdirect::{CompletionQueue, CompletionResult, QueuePair, Status};
    /// # fn demo(cq: &dyn CompletionQueue, qp: &dyn QueuePair) {
    /// let mut results = [CompletionResult::default(); 16];
    /// let taken = cq.get_results(&mut results);
    /// for result in &results[..taken] {
    ///     if result.status != Status::SUCCESS {
    ///         eprintln!("request {} failed: {}", result.request_context, qp.explain(result));
    ///     }
    /// }
    /// # }
    /// ```
    #[cold]
    fn explain(&self, result: &CompletionResult) -> Error {
        result.explain(self.connection_end().as_ref())
    }

    /// Requests that ND2 does not have: Atomics and Immediate Data. `None` if the provider has no such requests. ND2 programs
    /// would use `QueryInterface`.
    fn extensions(&self) -> Option<&dyn QueuePairExtensions> {
        None
    }
}
