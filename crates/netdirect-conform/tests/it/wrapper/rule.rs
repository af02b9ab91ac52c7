//! The rules that a broken provider breaks.

use netdirect::{Error, Result, Status};

/// The methods whose statuses can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Resolve,
    Open,
    File,
    Cq,
    Region,
    Window,
    QueuePair,
    SharedQueuePair,
    Connector,
    Listener,
    Register,
    Deregister,
    Affinity,
    Resize,
    Notify,
    NotifySolicited,
    LocalAddress,
    PeerAddress,
    Connect,
    ListenerAddress,
    Listen,
    GetConnectionRequest,
    Receive,
    Bind,
    BindConnector,
    BindListener,
    Accept,
    CompleteConnect,
    Reject,
    NotifyDisconnect,
    Disconnect,
    Send,
    SendInline,
    Invalidate,
    Read,
    Write,
    WriteInline,
    PoolReceive,
    PoolModify,
    PoolNotify,
    PoolAffinity,
}

/// Broken rules of connectors and listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// GetReadLimits returns each limit in the other's place.
    LimitsSwapped,
    /// GetPrivateData returns 36 octets at most.
    PrivateDataCut,
    /// Reject drops its private data.
    RejectDataLost,
    /// GetPeerAddress returns port 0.
    PeerPortLost,
    /// Listen sets no limit.
    BacklogIgnored,
    /// A listener's Bind to a port of the client's choice says that the port is in use.
    PortNeverBack,
    /// A connector that is released goes on connecting.
    ConnectorStays,
    /// CancelOverlappedRequests of a connector does nothing.
    CancelForgotten,
    /// NotifyDisconnect ends within the call.
    NotifiedAtOnce,
    /// A connector that asks for no Reads may issue one.
    ReadsForAll,
}

/// Broken rules of shared receive queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolDeed {
    /// A message that finds the queue empty ends its connection.
    EmptyEndsConnection,
    /// Notify does not end at once where too few Receives are left already.
    NotifiedNeverAtOnce,
    /// Notify does not end when messages use up Receives.
    NotifiedNeverLater,
    /// Notify ends when as many Receives as the threshold are left.
    NotifiedEarly,
    /// Notify ends when no Receive is left, also with a threshold of 0.
    NotifiedWithoutThreshold,
    /// The release of a queue pair takes Receives along that the queue pair has not taken.
    ReceivesLostAtRelease,
    /// No request ends when the queue breaks down.
    BreakdownUntold,
    /// The queue pairs go on when the queue breaks down.
    BreakdownSparesPairs,
    /// Results of one queue pair that are fetched together come in reverse order.
    ResultsReversed,
    /// A Receive that is too short ends the connections of all queue pairs.
    ShortEndsAll,
    /// The queue takes one Receive more than its depth.
    DepthExceeded,
    /// A slot is free when its result is there, not when the client has taken it.
    SlotFreeEarly,
}

/// One rule that the provider breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// None: the wrapper itself changes nothing.
    Nothing,
    /// Slots of queue pairs are free when their results are there, not when the client has taken them.
    SlotFreeEarly,
    /// A method that should answer with the first status, at once or later, answers with the second.
    Status(Method, Status, Status),
    /// Connectors or listeners do something wrong.
    Connection(Deed),
    /// Shared receive queues do something wrong.
    Pool(PoolDeed),
    /// Query returns a smaller limit once objects have been made.
    LimitsFollowLoad,
    /// Query returns another adapter's number.
    WrongAdapterId,
    /// A Read may have more entries than a Send.
    ReadEntriesAboveAll,
    /// MaxWindowSize is 0.
    NoWindowSize,
    /// The inline threshold is above the limit for inline data.
    ThresholdAboveInline,
    /// The list of the adapter's addresses has an address that no adapter has.
    ForeignAddress,
    /// The list of the adapter's addresses is without the one it was opened by.
    AddressMissing,
    /// The largest depth of a completion queue is refused.
    LargestDepthRefused,
    /// An affinity that cannot be honoured is refused.
    AffinityRefused,
    /// The largest queue pairs are refused.
    LargestQueuePairRefused,
    /// Queue pairs for 4 to 10 initiator requests take two.
    ShallowInitiator,
    /// Queue pairs for 4 to 10 Receives take two.
    ShallowReceives,
    /// Results have no context of their queue pair.
    NoQueuePairContext,
    /// The top bit of each request's context is lost.
    ContextCut,
    /// The results of initiator requests are handed out newest first.
    NewestFirst,
    /// Requests that asked for silence have results.
    NotSilent,
    /// GetResults without room for a result says that there is one.
    CountsTooMany,
    /// A Notify for errors ends for any result.
    ErrorsMeanAny,
    /// A Notify for solicited results ends for any result.
    SolicitedMeansAny,
    /// A Notify for any result ends for solicited ones only.
    AnyMeansSolicited,
    /// A Notify for solicited results does not end by failures: it waits for errors of the queue.
    SolicitedMeansErrors,
    /// A Notify cancels those of its kind before it.
    NewerCancels,
    /// CancelOverlappedRequests of a listener fails where there is nothing to cancel.
    NothingToCancel,
    /// Resize leaves the queue as it was.
    ResizeForgotten,
    /// Register finishes within the call.
    RegisterAtOnce,
    /// Deregister finishes within the call.
    DeregisterAtOnce,
    /// Register refuses odd addresses.
    AlignedOnly,
    /// Register refuses the flag DO_NOT_SECURE_VM.
    SecureOnly,
    /// Unknown flags of Register are passed over.
    FlagsIgnored,
    /// A region without flags takes Receives.
    LocalWriteForAll,
    /// A region that peers may read takes Receives.
    ReadableIsWritable,
    /// A region for Receives alone may be read by peers.
    LocalIsReadable,
    /// A region that peers may write may be read by them.
    WritableIsReadable,
    /// A region for Reads may be read by peers.
    SinkIsReadable,
    /// A region that peers may only read may not be read.
    RemoteReadForNone,
    /// A region that peers may only write may not be written.
    RemoteWriteForNone,
    /// Deregister of a region without flags is put off.
    DeregisterLocalLate,
    /// Deregister of a region with remote rights is put off.
    DeregisterRemoteLate,
    /// A region that is released stays registered.
    ReleasedRegionStays,
    /// A region takes no other buffer than its first one.
    RegisterOnce,
    /// A window opens its whole region.
    WindowIsRegion,
    /// A window lets the peer write whatever its rights.
    WindowWritable,
    /// A window that the peer may write may be read.
    WindowReadable,
    /// A Bind without rights is refused.
    BindNeedsRights,
    /// A window that is released stays bound.
    ReleasedWindowStays,
    /// A window's token is available only when the Bind is done.
    LateToken,
    /// GetOverlappedResult of a completion queue says success of requests that were cancelled.
    FailureIsSuccess,
    /// GetOverlappedResult of a completion queue says success of requests that run.
    PendingIsSuccess,
    /// GetOverlappedResult does not wait.
    WaitForgotten,
    /// GetOverlappedResult of a connector takes its own requests only.
    OwnRequestsOnly,
    /// Deregister queues a second packet.
    TwoPackets,
    /// A call that was refused queues a packet.
    RefusedNotifies,
    /// A connection to the own address is refused.
    NoLoopback,
    /// Flush cancels nothing.
    FlushForgotten,
    /// The read fence is passed over.
    FenceForgotten,
    /// The flag for a solicited event is passed over.
    SolicitForgotten,
    /// Results have 16 bits of the number of octets.
    CountCut,
    /// A Read of no octets is refused.
    NoEmptyRead,
    /// A queue pair that is released lives on.
    ReleasedPairStays,
    /// Inline data may not come in pieces.
    InlineInOnePiece,
    /// Results never say that a Receive was too short.
    ShortIsSuccess,
    /// Modify of a shared receive queue with a depth of 0 is refused.
    ModifyNeedsDepth,
    /// Modify of a shared receive queue passes over the threshold.
    ThresholdForgotten,
    /// A cancel of a shared receive queue's requests does nothing.
    PoolCancelForgotten,
    /// A shared receive queue's contexts lose their top bit.
    PoolContextCut,
    /// The provider's list has addresses with ports.
    ListWithPorts,
    /// ResolveAddress takes addresses that no adapter has.
    AnyAddress,
    /// OpenAdapter takes any number.
    AnyNumber,
    /// Read takes flags of other requests.
    ReadFlagsIgnored,
    /// ResolveAddress refuses addresses with a port.
    PortCounts,
    /// Private data cannot be sent with Accept.
    NoCalleeData,
    /// The adapter has room for one completion queue of the largest depth.
    OneLargeQueue,
    /// Queue pairs with two entries for each request are refused.
    TwoEntriesRefused,
    /// Lenient acts of the default profile are not counted.
    LenienceUncounted,
    /// Objects whose client has given up the file start no requests.
    FileGivenUp,
    /// A region can be registered a thousand times.
    RegistrationsRunOut,
    /// Windows are smaller than regions.
    WindowSmall,
    /// GetNotifyAffinity returns the wish.
    AffinityEchoed,
    /// Notify ends for results that come later only.
    NotifyForNewOnly,
    /// Notify ends for results that come later only, once the client has got other results.
    LookIsNotify,
    /// Resize loses the oldest result.
    ResizeLoses,
    /// A completion queue with many results holds up the others.
    OneEngine,
    /// Flush panics.
    FlushPanics,
    /// Flush never returns.
    FlushHangs,
}

impl Break {
    /// The status that a method answers with in place of another.
    pub(crate) fn status(self, method: Method, status: Status) -> Status {
        match self {
            Self::Status(broken, from, to) if broken == method && from == status => to,
            _ => status,
        }
    }

    /// The result of a call, in place of another error.
    pub(crate) fn call<T>(self, method: Method, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            let status = self.status(method, error.status());
            Error::new(status, error.what().to_owned())
        })
    }

    /// The method that answers with a wrong status, if that is what is broken.
    pub(crate) fn method(self) -> Option<Method> {
        match self {
            Self::Status(broken, ..) => Some(broken),
            _ => None,
        }
    }

    /// Returns true if the statuses of a method are wrong.
    pub(crate) fn is_about(self, method: Method) -> bool {
        self.method() == Some(method)
    }
}
