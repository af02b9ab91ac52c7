//! The options of adapters that commands choose, and which of them only some providers know.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::time::Duration;

use crate::args::{AdapterArgs, CaptureRoom, SecurityArgs, Stack};

/// An option of adapters that the traits do not have. Not every provider knows each option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Capture,
    Fault,
    Crc,
    NoCrc,
    SameHost,
    Peer,
    Congestion,
    Segment,
    Boundaries,
    Markers,
    Pin,
    Ca,
    ServerName,
    Insecure,
    Cert,
}

impl Choice {
    /// Returns true if the choice is about certificates and trust.
    pub(super) fn is_of_security(self) -> bool {
        matches!(
            self,
            Self::Pin | Self::Ca | Self::ServerName | Self::Insecure | Self::Cert
        )
    }
}

impl Display for Choice {
    /// The option as the command line has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Capture => "--capture",
            Self::Fault => "--fault",
            Self::Crc => "--crc",
            Self::NoCrc => "--no-crc",
            Self::SameHost => "--same-host",
            Self::Congestion => "--congestion",
            Self::Peer => "--stack",
            Self::Segment => "--segment",
            Self::Boundaries => "--boundaries",
            Self::Markers => "--markers",
            Self::Pin => "--pin",
            Self::Ca => "--ca",
            Self::ServerName => "--server-name",
            Self::Insecure => "--insecure",
            Self::Cert => "--cert",
        })
    }
}

/// The options for all adapters that a command opens.
#[derive(Clone, Debug)]
pub struct AdapterOptions {
    /// Records what is sent and received in this file.
    pub capture: Option<PathBuf>,
    /// The room that the capture may take.
    pub capture_room: CaptureRoom,
    /// A fault plan in the provider's language, or `@` and the name of a file with the plan.
    pub fault: Option<String>,
    /// Whether to ask for CRCs, if that was chosen.
    pub crc: Option<bool>,
    /// Whether connections within this machine go through shared memory, if that was chosen.
    pub same_host: Option<bool>,
    /// How long a connector waits for the listener to agree to shared memory, where the command knows that the listener does. A provider
    /// without such an option stays as it is.
    pub same_host_wait: Option<Duration>,
    /// The congestion control.
    pub congestion: Option<String>,
    /// The stack of the other side.
    pub peer: Option<Stack>,
    /// The trusted certificates, and this side's own certificate.
    pub security: SecurityArgs,
    /// TCP segments have at most this many octets.
    pub segment: Option<u16>,
    /// TCP segments never begin inside a CRC field.
    pub whole_crcs: bool,
    /// Whether to ask for MPA's markers.
    pub markers: bool,
    /// Whether a peer that closes on MPA revision 2 is tried again with revision 1. A provider that leaves MPA to a device never does that,
    /// so this option is never refused.
    pub revision_1_fallback: bool,
    /// Whether the provider is to be as narrow as the narrowest adapter. A provider without profiles stays as it is.
    pub strict: bool,
    /// All time limits towards peers. Callers first look whether the scheme has such options.
    pub time_limits: Option<Duration>,
    /// How long Connect waits for the peer's application, unless the limits above say so. A provider that has such a limit by
    /// itself stays as it is.
    pub reply: Duration,
    /// The largest buffer that can be registered, as for the time limits.
    pub largest_registration: Option<u64>,
    /// The time that the provider waits for its client to complete a connection before it sends the ready-to-receive message without it. A
    /// provider without such an option stays as it is.
    pub patience: Option<Duration>,
}

impl Default for AdapterOptions {
    fn default() -> Self {
        Self {
            capture: None,
            capture_room: CaptureRoom::default(),
            fault: None,
            crc: None,
            same_host: None,
            same_host_wait: None,
            congestion: None,
            peer: None,
            security: SecurityArgs::default(),
            segment: None,
            whole_crcs: true,
            markers: false,
            revision_1_fallback: true,
            strict: false,
            time_limits: None,
            reply: Duration::from_secs(120),
            largest_registration: None,
            patience: None,
        }
    }
}

impl From<&AdapterArgs> for AdapterOptions {
    fn from(args: &AdapterArgs) -> Self {
        Self {
            capture: args.capture.clone(),
            capture_room: args.capture_room,
            fault: args.fault.clone(),
            crc: args.chosen_crc(),
            same_host: args.same_host.then_some(true),
            congestion: args.congestion.clone(),
            peer: args.peer,
            ..Self::default()
        }
    }
}

impl AdapterOptions {
    /// The options of a command that names peers outside this process.
    pub fn new(args: &AdapterArgs, security: &SecurityArgs) -> Self {
        Self {
            security: security.clone(),
            ..Self::from(args)
        }
    }

    /// The choices that differ from the default of all providers.
    pub(super) fn made(&self) -> impl Iterator<Item = Choice> {
        let security = &self.security;
        [
            (Choice::Capture, self.capture.is_some()),
            (Choice::Fault, self.fault.is_some()),
            (Choice::Crc, self.crc == Some(true)),
            (Choice::NoCrc, self.crc == Some(false)),
            (Choice::SameHost, self.same_host == Some(true)),
            (Choice::Peer, self.peer.is_some()),
            (Choice::Congestion, self.congestion.is_some()),
            (Choice::Segment, self.segment.is_some()),
            (Choice::Boundaries, !self.whole_crcs),
            (Choice::Markers, self.markers),
            (Choice::Pin, !security.pins.is_empty()),
            (Choice::Ca, !security.authorities.is_empty()),
            (Choice::ServerName, security.server_name.is_some()),
            (Choice::Insecure, security.insecure),
            (Choice::Cert, security.certificate.is_some()),
        ]
        .into_iter()
        .filter_map(|(choice, made)| made.then_some(choice))
    }
}
