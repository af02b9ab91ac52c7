//! The result of a row: the figures of its turns, and the figures of the comparison.

use std::fmt::{self, Display};

use super::spec::{Receives, Spec};
use super::stats::{Figures, Ratio, SideTurns};
use crate::cores::Watch;

/// The cost of an idle connection at each side. `None` where it was not measured, or cannot be measured on this system.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Costs {
    /// Octets by which the process has grown, per connection: here, and at the other side.
    pub(super) memory: [Option<f64>; 2],
    /// Processor time of the whole process while nothing happens, as a share of one core: here, and at the other side.
    pub(super) cpu: [Option<f64>; 2],
}

/// The baseline of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// A bare TCP connection.
    Tcp,
    /// A bare QUIC stream.
    Quic,
    /// A connection of the same kind whose queue pairs have their own Receives, and whose memory begins at the best place.
    Plain,
    /// A single connection of the same kind, for the cost of many.
    Alone,
}

impl Comparison {
    /// The name of the protocol, if the row is compared with a bare stream.
    pub(super) const fn bare_name(self) -> Option<&'static str> {
        match self {
            Self::Tcp => Some("TCP"),
            Self::Quic => Some("QUIC"),
            Self::Plain | Self::Alone => None,
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
            Self::Plain => "plain",
            Self::Alone => "alone",
        })
    }
}

/// The figures of the connection with which a row is compared.
#[derive(Clone, Debug)]
pub(super) struct BaselineFigures {
    pub(super) with: Comparison,
    /// The congestion control of a bare connection.
    pub(super) congestion: Option<String>,
    /// The size of its writes, where that was chosen.
    pub(super) write: Option<usize>,
    pub(super) figures: Figures,
    /// The ratio of the row to this.
    pub(super) ratio: Option<Ratio>,
}

/// The result of a row.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) spec: Spec,
    /// Where the other side takes its Receives from; `None` if it did not come to that.
    pub(super) peer_receives: Option<Receives>,
    /// Turns that were measured.
    pub(super) turns: usize,
    /// Whether these are all the turns that were wanted.
    pub(super) complete: bool,
    pub(super) figures: Figures,
    /// The cost of idle connections, where there are some.
    pub(super) costs: Costs,
    /// How far the two cores were from each other.
    pub(super) cores: Watch,
    /// The connection with which the row is compared; of several bare ones the best.
    pub(super) baseline: Option<BaselineFigures>,
    /// The bare connection with the system's own congestion control, if that is not the best.
    pub(super) systems_own: Option<BaselineFigures>,
}

/// The results of the turns so far.
pub(super) struct Measured {
    pub(super) peer_receives: Option<Receives>,
    pub(super) ours: SideTurns,
    pub(super) costs: Costs,
    pub(super) cores: Watch,
    pub(super) best: Option<Compared>,
    pub(super) own: Option<Compared>,
}

/// The result of the row's baseline.
pub(super) struct Compared {
    pub(super) side: SideTurns,
    with: Comparison,
    congestion: Option<String>,
    write: Option<usize>,
}

impl Compared {
    /// A bare connection with this congestion control, and the size of its writes where that was chosen.
    pub(super) fn bare(with: Comparison, congestion: String, write: Option<usize>) -> Self {
        Self {
            side: SideTurns::new(),
            with,
            congestion: Some(congestion),
            write,
        }
    }

    /// Connections for which nothing was chosen.
    pub(super) fn new(with: Comparison) -> Self {
        Self {
            side: SideTurns::new(),
            with,
            congestion: None,
            write: None,
        }
    }

    fn baseline(self, ours: &SideTurns, spec: &Spec) -> Option<BaselineFigures> {
        (self.side.turns() > 0).then(|| BaselineFigures {
            with: self.with,
            figures: self.side.figures(spec),
            ratio: ours.ratio(&self.side, spec),
            congestion: self.congestion,
            write: self.write,
        })
    }
}

impl Measured {
    pub(super) fn new() -> Self {
        Self {
            peer_receives: None,
            ours: SideTurns::new(),
            costs: Costs::default(),
            cores: Watch::default(),
            best: None,
            own: None,
        }
    }

    pub(super) fn outcome(self, spec: &Spec, complete: bool) -> Outcome {
        let Self {
            peer_receives,
            ours,
            costs,
            cores,
            best,
            own,
        } = self;
        Outcome {
            spec: *spec,
            peer_receives,
            turns: ours.turns(),
            complete,
            figures: ours.figures(spec),
            costs,
            cores,
            baseline: best.and_then(|compared| compared.baseline(&ours, spec)),
            systems_own: own.and_then(|compared| compared.baseline(&ours, spec)),
        }
    }
}
