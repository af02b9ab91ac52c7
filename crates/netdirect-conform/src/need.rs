//! The needs and the expectations of checks.

use std::fmt;

use conform_report::Stop;

/// The strictness of a provider towards its clients. Some expectations differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Runs every client known.
    #[default]
    Default,
    /// As narrow as the narrowest adapter.
    Strict,
}

impl Profile {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Strict => "strict",
        }
    }
}

/// A need of a check. Where an adapter lacks it, the check is skipped, and the report names the need. Some needs are not up to the adapter:
/// a check without these is [not part of the run](Self::is_of_run).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The near adapter has memory windows.
    Windows,
    /// The far adapter has memory windows.
    FarWindows,
    /// The near adapter can say which results are solicited.
    Solicited,
    /// The near adapter has shared receive queues.
    SharedReceiveQueues,
    /// The far adapter has shared receive queues.
    FarSharedReceiveQueues,
    /// The near adapter has none.
    NoSharedReceiveQueues,
    /// The near adapter can resize completion queues.
    Resize,
    /// The near adapter cannot.
    NoResize,
    /// The near adapter takes inline data.
    Inline,
    /// The near adapter can connect to the far one: they are different adapters, or connections to the own address work.
    Connections,
    /// Faults can be injected into the near adapter.
    Faults,
    /// The near adapter can be used by several threads: it is not in a simulation.
    Threads,
    /// Both ends are adapters of one provider, opened twice.
    TwoOfOneProvider,
    /// The two ends were opened separately.
    TwoAdapters,
    /// The run uses the default profile.
    DefaultProfile,
    /// The run uses the strict profile.
    StrictProfile,
}

impl Need {
    /// Returns true if the run is to provide this, by its options and by the provider's aids for tests. All else depends on what the adapter
    /// can do.
    pub fn is_of_run(self) -> bool {
        match self {
            Self::Faults
            | Self::Threads
            | Self::TwoOfOneProvider
            | Self::TwoAdapters
            | Self::DefaultProfile
            | Self::StrictProfile => true,
            Self::Windows
            | Self::FarWindows
            | Self::Solicited
            | Self::SharedReceiveQueues
            | Self::FarSharedReceiveQueues
            | Self::NoSharedReceiveQueues
            | Self::Resize
            | Self::NoResize
            | Self::Inline
            | Self::Connections => false,
        }
    }

    /// Why a check without this is not made.
    pub(crate) fn stop(self) -> Stop {
        if self.is_of_run() {
            Stop::LeftOut(self.to_string())
        } else {
            Stop::Skip(self.to_string())
        }
    }
}

impl fmt::Display for Need {
    /// The need in words, as missing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Windows => "the adapter lacks the capability MEMORY_WINDOWS",
            Self::FarWindows => "the far adapter lacks the capability MEMORY_WINDOWS",
            Self::Solicited => "the adapter lacks the capability SOLICITED_EVENTS",
            Self::SharedReceiveQueues => {
                "the adapter has no shared receive queues (MaxSharedReceiveQueueDepth is 0)"
            }
            Self::FarSharedReceiveQueues => {
                "the far adapter has no shared receive queues (MaxSharedReceiveQueueDepth is 0)"
            }
            Self::NoSharedReceiveQueues => "the adapter has shared receive queues",
            Self::Resize => "the adapter lacks the flag CQ_RESIZE_SUPPORTED",
            Self::NoResize => "the adapter has the flag CQ_RESIZE_SUPPORTED",
            Self::Inline => "the adapter takes no inline data (MaxInlineDataSize is 0)",
            Self::Connections => {
                "the adapter lacks the flag LOOPBACK_CONNECTIONS_SUPPORTED, and both ends are this adapter"
            }
            Self::Faults => "the provider lacks fault injection (AdapterExtensions::inject)",
            Self::Threads => "the adapter is in a simulation, which belongs to one thread",
            Self::TwoOfOneProvider => "the two ends belong to different providers",
            Self::TwoAdapters => "one adapter is used for both ends",
            Self::DefaultProfile => "the run is not of the default profile",
            Self::StrictProfile => "the run is not of the strict profile",
        })
    }
}
