//! The type of a check.

use conform_report::{About, Level, Verdict};

use crate::bench::Bench;

/// The targets to which a check applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A target that listens.
    Responder,
    /// A target that connects.
    Initiator,
    /// Both kinds of targets.
    Both,
}

/// A condition of a check on the target or the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The target speaks the Send protocol.
    Service,
    /// CRCs are in use.
    Crc,
    /// CRCs are not in use.
    NoCrc,
    /// The target inserts markers.
    MarkersIn,
    /// The suite inserts markers.
    MarkersOut,
    /// Frames of RFC 6581.
    Enhanced,
    /// The peer-to-peer model was agreed.
    PeerToPeer,
    /// A shared region that may be read only.
    Readable,
    /// A shared region that may be written only.
    Writable,
    /// A shared region that may be read and written.
    ReadWrite,
    /// A shared region without rights.
    NoRights,
    /// A window that may be invalidated.
    Window,
    /// Atomics of RFC 7306.
    Atomics,
    /// No Atomics.
    NoAtomics,
    /// Immediate Data of RFC 7306.
    Immediate,
}

/// Sections of the suite, in the order in which they run. Checks that may break a fragile target come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// RFC 5044 §7.1.
    Startup,
    /// RFC 6581.
    Negotiation,
    /// RFC 5044 §4.
    Framing,
    /// RFC 5044 §4.3.
    Markers,
    /// RFC 5041 §4, §5.
    Ddp,
    /// RFC 5040 §5.1.
    Write,
    /// RFC 5040 §5.2.
    Read,
    /// RFC 5040 §5.3.
    Send,
    /// RFC 5040 §4.1, §7.
    Rdmap,
    /// RFC 5040 §4.8, §5.4.
    Terminate,
    /// RFC 7306.
    Extensions,
    /// RFC 5044 §7.2, RFC 5040 §6.2.
    Close,
    /// RFC 5042, and robustness.
    Security,
    /// RFC 5044 §7.1.2: invalid frames, peers that do not go on, errors before anything legal.
    Hostile,
}

impl Section {
    /// The heading of the section.
    pub fn title(self) -> &'static str {
        match self {
            Self::Startup => "MPA start-up (RFC 5044 §7.1)",
            Self::Negotiation => "MPA Rev 2 negotiation (RFC 6581)",
            Self::Framing => "FPDUs and CRC (RFC 5044 §4)",
            Self::Markers => "Markers (RFC 5044 §4.3)",
            Self::Ddp => "DDP segments (RFC 5041 §4, §5, §7)",
            Self::Write => "RDMA Write (RFC 5040 §5.1, RFC 5041 §7)",
            Self::Read => "RDMA Read (RFC 5040 §5.2)",
            Self::Send => "Send (RFC 5040 §5.3)",
            Self::Rdmap => "RDMAP headers (RFC 5040 §4, §7)",
            Self::Terminate => "Terminate (RFC 5040 §4.8, §5.4)",
            Self::Extensions => "Atomics and Immediate Data (RFC 7306)",
            Self::Close => "Close and half-close (RFC 5044 §7.2, RFC 5040 §6.2)",
            Self::Security => "Security and robustness (RFC 5042)",
            Self::Hostile => "Hostile start-up (RFC 5044 §7.1.2, §8)",
        }
    }
}

/// One check: one connection, one question.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The row that the check is about, a dot, and the aspect of the row.
    pub name: &'static str,
    /// Further rows that the check covers.
    pub also: &'static [&'static str],
    /// The section of the check.
    pub section: Section,
    /// The weight of a failure.
    pub level: Level,
    /// The targets to which the check applies.
    pub role: Role,
    /// What the check needs.
    pub needs: &'static [Need],
    /// The rule in one line.
    pub title: &'static str,
    /// Makes the check.
    pub run: fn(&mut Bench) -> Verdict,
}

impl Check {
    /// The row in the name.
    pub fn row(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(row, _)| row)
    }

    /// All rows of the check.
    pub fn rows(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.row()).chain(self.also.iter().copied())
    }

    /// Returns true if the check applies to a target in this role.
    pub fn is_about(&self, initiator: bool) -> bool {
        match self.role {
            Role::Responder => !initiator,
            Role::Initiator => initiator,
            Role::Both => true,
        }
    }

    /// The check in the words of reports.
    pub fn about(&self) -> About {
        About {
            name: self.name,
            also: self.also,
            section: self.section.title(),
            level: self.level,
            title: self.title,
        }
    }

    /// Returns true if `--only` with this text means the check: a family of rows (`MPA`), or the beginning of the check's name or of
    /// one of its rows (`MPA-02`).
    pub fn is_meant_by(&self, text: &str) -> bool {
        self.about().is_meant_by(text)
    }
}

/// A check of both roles, without needs, whose failure counts.
pub(crate) const fn check(
    section: Section,
    name: &'static str,
    title: &'static str,
    run: fn(&mut Bench) -> Verdict,
) -> Check {
    Check {
        name,
        also: &[],
        section,
        level: Level::Must,
        role: Role::Both,
        needs: &[],
        title,
        run,
    }
}

impl Check {
    /// Further rows that the check covers.
    pub(crate) const fn also(mut self, rows: &'static [&'static str]) -> Self {
        self.also = rows;
        self
    }

    /// A failure counts only with `--strict`.
    pub(crate) const fn should(mut self) -> Self {
        self.level = Level::Should;
        self
    }

    /// Only for a target that listens.
    pub(crate) const fn responder(mut self) -> Self {
        self.role = Role::Responder;
        self
    }

    /// Only for a target that connects.
    pub(crate) const fn initiator(mut self) -> Self {
        self.role = Role::Initiator;
        self
    }

    /// What the check needs.
    pub(crate) const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }
}
