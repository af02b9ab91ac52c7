//! Bugs that can be planted, so that a test can show that it would find them. They exist only in builds with
//! `RUSTFLAGS='--cfg planted_bugs'`, which only such tests are.

/// Whether a bug is planted: false, and no code at all, in other builds.
#[doc(hidden)]
#[cfg(not(planted_bugs))]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

/// Whether a bug is planted.
#[doc(hidden)]
#[cfg(planted_bugs)]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is_planted($crate::planted::Bug::$bug)
    };
}

#[cfg(planted_bugs)]
pub use bugs::{Bug, is_found_by, is_planted, plant};

#[cfg(planted_bugs)]
mod bugs {
    use std::panic::catch_unwind;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// A bug.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    #[non_exhaustive]
    pub enum Bug {
        /// A request that is posted behind flushed ones is carried out.
        RequestBehindFlushed = 1,
        /// A Terminate ends a request that has not begun.
        TerminateEndsAnyRequest,
        /// The last segment of a longer tagged message is not placed.
        LastSegmentNotPlaced,
        /// Invalidate leaves the window bound.
        InvalidateForgotten,
        /// The length of a received message of several segments is one too small.
        LengthMiscounted,
        /// The last result of a full row is lost.
        ResultLost,
        /// The last of three results that come together comes twice.
        ResultTwice,
        /// NotifyDisconnect completes only when nothing is left of the stream.
        NotificationLate,
        /// An Atomic is carried out twice.
        AtomicTwice,
        /// Work that is left for the next driver is forgotten now and then.
        WorkForgotten,
        /// A shared Receive is given to two messages.
        SharedReceiveTwice,
        /// A posted shared Receive wakes another queue pair than the one that it is promised to.
        OtherWaiterWoken,
        /// A reset is not noticed while a Send waits for a Receive.
        ResetBehindSendMissed,
        /// A slot of a queue of requests is free when the result is placed, not when it is taken.
        SlotFreeEarly,
        /// Over QUIC: now and then a stream that became ready is not reported.
        RaisedStreamForgotten,
        /// Over QUIC: octets are read in the order in which they arrive.
        OrderForgotten,
        /// Over QUIC: one of several streams does not learn that its connection was lost.
        LossForgotten,
        /// Of verbs: the events of an identifier that the program destroys stay in their channel.
        EventsOfDestroyedStay,
        /// Of verbs: a request that the program has received keeps its place in the backlog.
        BacklogPlaceKept,
        /// Over shared memory: no fence stands between what an end says and its look at what the other end says.
        FenceLeftOut,
        /// Over shared memory: a reader that wants a bell does not look again.
        SecondLookLeftOut,
        /// Over shared memory: a reader takes a bell and does not look again.
        BellSwallowed,
        /// Over shared memory: a stream that is put back into a set does not ask for a bell.
        RejoinAsksNothing,
        /// Over shared memory: a stream counts as polled as soon as one of the sets that report it has let it go.
        OneDomainCountsForAll,
        /// Over sets that report once: a stream that was read to its end is not armed again.
        ArmForgotten,
        /// Over shared memory: a connector that answers with another token than that of its offer is taken for its maker.
        TokenUnchecked,
        /// The peer may answer a Read that has not been sent.
        UnsentIsAnswered,
        /// A window is open to the peers of all queue pairs.
        WindowOpenToAll,
        /// An Atomic needs no right.
        AtomicRightUnchecked,
        /// An access may go one octet beyond the end of its region.
        EndUnchecked,
        /// Over QUIC: an address has no share of the octets that cannot be delivered.
        ShareOfGapsForgotten,
        /// Over QUIC: no peer has to prove its address.
        AddressesUnproved,
        /// An address has no share of the connections that have not sent their Request.
        ShareOfSilentForgotten,
        /// In a full backlog no request gives way to that of another address.
        NoneGivesWay,
        /// The peer's end flushes Receives that stay posted.
        ReceivesFlushedByPeer,
        /// A request that waits for Writes to be placed is done when it is sent.
        DoneBeforePlaced,
        /// Of numbers that programs exchange: a connected queue pair takes a call of its peer's next life.
        SecondConnectionTaken,
        /// Of numbers that programs exchange: a queue pair takes such a call once its connection has ended.
        ConnectionTakenAfterEnd,
        /// An Initiator takes its own value, sent back, for the answer of a Responder that takes announced Sends.
        EchoIsAnswer,
        /// An Initiator looks for the answer of a Responder that takes announced Sends behind the first FPDU too.
        AnswerBehindFirst,
    }

    impl Bug {
        /// All bugs of the QUIC transport.
        pub const OF_QUIC: [Self; 3] = [
            Self::RaisedStreamForgotten,
            Self::OrderForgotten,
            Self::LossForgotten,
        ];

        /// All bugs of the identifiers of verbs.
        pub const OF_IDENTIFIERS: [Self; 2] = [Self::EventsOfDestroyedStay, Self::BacklogPlaceKept];

        /// Bugs of connections whose numbers the programs exchange, and what these connections keep.
        pub const OF_NUMBERS: [Self; 4] = [
            Self::SecondConnectionTaken,
            Self::ConnectionTakenAfterEnd,
            Self::ReceivesFlushedByPeer,
            Self::DoneBeforePlaced,
        ];

        /// All bugs of the recognition of peers that take announced Sends.
        pub const OF_RECOGNITION: [Self; 2] = [Self::EchoIsAnswer, Self::AnswerBehindFirst];

        /// All others.
        pub const ALL: [Self; 14] = [
            Self::RequestBehindFlushed,
            Self::TerminateEndsAnyRequest,
            Self::LastSegmentNotPlaced,
            Self::InvalidateForgotten,
            Self::LengthMiscounted,
            Self::ResultLost,
            Self::ResultTwice,
            Self::NotificationLate,
            Self::AtomicTwice,
            Self::WorkForgotten,
            Self::SharedReceiveTwice,
            Self::OtherWaiterWoken,
            Self::ResetBehindSendMissed,
            Self::SlotFreeEarly,
        ];
    }

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Plants one bug in this process, instead of the one that was planted before.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
    }

    /// Returns true if this test, which passes, fails when the bug is planted. No other test may run in this process meanwhile.
    ///
    /// # Panics
    ///
    /// The test fails without the bug.
    pub fn is_found_by(bug: Bug, test: fn()) -> bool {
        test();
        plant(Some(bug));
        let failed = catch_unwind(test).is_err();
        plant(None);
        failed
    }

    /// Returns true if this bug is planted.
    pub fn is_planted(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8
    }
}
