//! The result of a row: the figures of its turns, and the figures of the comparison.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use nd_base::provider::OVER_TCP;

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

/// The names of the transports that carry the connections of a row, as the connections have them, with how many there were of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Transports(BTreeMap<&'static str, u64>);

impl Transports {
    /// One more connection of a row, if its adapter can tell.
    pub(super) fn add(&mut self, name: Option<&'static str>) {
        if let Some(name) = name {
            *self.0.entry(name).or_default() += 1;
        }
    }

    /// Returns true if no connection has said anything.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if all connections go through shared memory.
    pub(super) fn are_shared_memory(&self) -> bool {
        self.0.keys().eq(&["shm"])
    }
}

impl Display for Transports {
    /// The name alone if there is one: `shm`. Otherwise the number of connections of each: `508 shm, 9492 tcp`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() == 1 {
            return self.0.keys().try_for_each(|name| f.write_str(name));
        }
        for (i, (name, count)) in self.0.iter().enumerate() {
            let between = if i == 0 { "" } else { ", " };
            write!(f, "{between}{count} {name}")?;
        }
        Ok(())
    }
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
    /// A connection of the same kind over TCP, for a row within one machine.
    OverTcp,
    /// A single connection of the same kind, for the cost of many.
    Alone,
}

impl Comparison {
    /// The name of the protocol, if the row is compared with a bare stream.
    pub(super) const fn bare_name(self) -> Option<&'static str> {
        match self {
            Self::Tcp => Some("TCP"),
            Self::Quic => Some("QUIC"),
            Self::Plain | Self::OverTcp | Self::Alone => None,
        }
    }

    /// The name in the heads of tables.
    pub(super) const fn head(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Quic => "QUIC",
            Self::Plain => "plain",
            Self::OverTcp => OVER_TCP,
            Self::Alone => "alone",
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
            Self::Plain => "plain",
            Self::OverTcp => OVER_TCP,
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
    /// What carries the connections.
    pub(super) transports: Transports,
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
    pub(super) transports: Transports,
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
            transports: Transports::default(),
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
            transports,
            ours,
            costs,
            cores,
            best,
            own,
        } = self;
        Outcome {
            spec: *spec,
            peer_receives,
            transports,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_transport_is_named_and_several_are_counted() {
        let shown = |names: &[Option<&'static str>]| {
            let mut all = Transports::default();
            names.iter().for_each(|name| all.add(*name));
            (all.to_string(), all.are_shared_memory())
        };
        assert_eq!(shown(&[None]), (String::new(), false));
        assert_eq!(shown(&[Some("shm"), Some("shm")]), ("shm".to_owned(), true));
        let mixed = [Some("tcp"), Some("shm"), Some("tcp")];
        assert_eq!(shown(&mixed), ("1 shm, 2 tcp".to_owned(), false));
    }
}
