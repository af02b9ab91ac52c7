//! Datagrams of queue pairs that were dropped, by reason.

use std::sync::atomic::{AtomicU64, Ordering};

/// The reason why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// It has no header of this version.
    Foreign,
    /// No queue pair has its number, or the queue pair is not ready to receive.
    UnknownNumber,
    /// It has another Q_Key than the queue pair.
    WrongKey,
    /// The queue pair has no Receive.
    NoReceive,
    /// It is longer than the Receive.
    ReceiveTooShort,
    /// The system has refused to send it.
    NotSent,
}

impl Dropped {
    const ALL: [Self; 6] = [
        Self::Foreign,
        Self::UnknownNumber,
        Self::WrongKey,
        Self::NoReceive,
        Self::ReceiveTooShort,
        Self::NotSent,
    ];

    /// The name of its counter.
    const fn name(self) -> &'static str {
        match self {
            Self::Foreign => "datagrams.foreign",
            Self::UnknownNumber => "datagrams.unknown_number",
            Self::WrongKey => "datagrams.wrong_key",
            Self::NoReceive => "datagrams.no_receive",
            Self::ReceiveTooShort => "datagrams.receive_too_short",
            Self::NotSent => "datagrams.not_sent",
        }
    }
}

/// The datagrams that were dropped, by reason.
#[derive(Debug, Default)]
pub(crate) struct DatagramCounters([AtomicU64; Dropped::ALL.len()]);

impl DatagramCounters {
    pub(crate) fn count(&self, why: Dropped) {
        self.0[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The names and values of the counters.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Dropped::ALL
            .into_iter()
            .map(|why| (why.name(), self.0[why as usize].load(Ordering::Relaxed)))
    }
}
