//! The definition of a check.

use std::time::Duration;

use conform_report::{About, Level, Verdict};

use crate::bench::Bench;
use crate::need::Need;
use crate::unopened::Unopened;

/// The interfaces of ND2, in the order in which their checks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interface {
    /// `IND2Provider`.
    Provider,
    /// `IND2Adapter` and `ND2_ADAPTER_INFO`.
    Adapter,
    /// `IND2Overlapped`, and what all objects have in common.
    Overlapped,
    /// `IND2MemoryRegion`.
    MemoryRegion,
    /// `IND2MemoryWindow`.
    MemoryWindow,
    /// `IND2CompletionQueue`.
    CompletionQueue,
    /// `IND2QueuePair`, `ND2_SGE` and `ND2_RESULT`.
    QueuePair,
    /// `IND2SharedReceiveQueue`.
    SharedReceiveQueue,
    /// `IND2Connector`.
    Connector,
    /// `IND2Listener`.
    Listener,
    /// The meaning of ND2 over iWARP.
    Iwarp,
    /// Expectations of existing programs on every provider.
    Clients,
    /// The border between programs in C and a provider: the checks of `netdirect-com-conform`.
    Border,
}

impl Interface {
    /// The heading of the interface.
    pub fn title(self) -> &'static str {
        match self {
            Self::Provider => "Provider",
            Self::Adapter => "Adapter",
            Self::Overlapped => "Overlapped requests",
            Self::MemoryRegion => "Memory regions",
            Self::MemoryWindow => "Memory windows",
            Self::CompletionQueue => "Completion queues",
            Self::QueuePair => "Queue pairs",
            Self::SharedReceiveQueue => "Shared receive queues",
            Self::Connector => "Connectors",
            Self::Listener => "Listeners",
            Self::Iwarp => "ND2 over iWARP",
            Self::Clients => "What clients expect",
            Self::Border => "COM's border",
        }
    }
}

/// The function that makes a check.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// On two adapters that were opened for it.
    Opened(fn(&Bench) -> Verdict),
    /// On the providers alone: the check opens what it uses. What it needs is up to the check.
    Unopened(fn(Unopened) -> Verdict),
}

/// One check: one question, answered on its own objects.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The row that the check proves, a dot, and what about it: `MR-012.one-octet`.
    pub name: &'static str,
    /// Further rows that it proves.
    pub also: &'static [&'static str],
    /// Where it belongs.
    pub interface: Interface,
    /// The actions of the check, in one sentence.
    pub title: &'static str,
    /// What has to be there.
    pub needs: &'static [Need],
    /// The time limits that the provider is to have towards peers, if the check waits for one.
    pub time_limits: Option<Duration>,
    /// The largest buffer that the provider is to register, if the check makes one that is larger.
    pub largest_registration: Option<u64>,
    /// How long the provider is to wait for its own client to complete a connection, if the check waits for that.
    pub patience: Option<Duration>,
    /// Makes the check.
    pub run: Work,
}

impl Check {
    /// A check of another crate, which opens what it uses by itself.
    pub const fn unopened(
        interface: Interface,
        name: &'static str,
        title: &'static str,
        run: fn(Unopened) -> Verdict,
    ) -> Self {
        Self {
            name,
            also: &[],
            interface,
            title,
            needs: &[],
            time_limits: None,
            largest_registration: None,
            patience: None,
            run: Work::Unopened(run),
        }
    }

    /// The check in the words of reports.
    pub fn about(&self) -> About {
        About {
            name: self.name,
            also: self.also,
            section: self.interface.title(),
            level: Level::Must,
            title: self.title,
        }
    }

    /// The row in the name.
    pub fn row(&self) -> &'static str {
        self.about().row()
    }

    /// All rows of the check.
    pub fn rows(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.about().rows()
    }

    /// Further rows that the check proves.
    #[must_use]
    pub const fn also(mut self, rows: &'static [&'static str]) -> Self {
        self.also = rows;
        self
    }

    /// What has to be there.
    pub(crate) const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }

    /// The provider is to have these time limits towards peers.
    pub(crate) const fn time_limits(mut self, limits: Duration) -> Self {
        self.time_limits = Some(limits);
        self
    }

    /// The provider is to register no buffer above this size.
    pub(crate) const fn largest_registration(mut self, octets: u64) -> Self {
        self.largest_registration = Some(octets);
        self
    }

    /// The provider is to wait this long for its own client to complete a connection.
    pub(crate) const fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }
}

/// A check without needs.
pub(crate) const fn check(
    interface: Interface,
    name: &'static str,
    title: &'static str,
    run: fn(&Bench) -> Verdict,
) -> Check {
    Check {
        name,
        also: &[],
        interface,
        title,
        needs: &[],
        time_limits: None,
        largest_registration: None,
        patience: None,
        run: Work::Opened(run),
    }
}
