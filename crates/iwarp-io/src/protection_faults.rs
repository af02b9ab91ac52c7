//! Protection faults by peer (SEC-036).
//!
//! A message of a peer that names memory it may not use ends its connection. Guesses of STags look like that, so faults are counted for
//! each peer, and new connections of a peer with many can be refused for a time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::Span;

use crate::log::targets;
use crate::peer_network::PeerNetwork;

/// The most peers that are remembered. In a full table the one with the fewest faults gives way.
const MOST: usize = 1024;

/// The limit of protection faults after which new connections of a peer are refused, and the time for which they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultLimit {
    /// The number of faults. Faults before a time of this length without a fault do not count.
    pub faults: u32,
    /// The time from the last of these faults.
    pub time: Duration,
}

/// The protection faults of an adapter.
#[derive(Debug, Default)]
pub struct ProtectionFaults(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    limit: Option<FaultLimit>,
    peers: HashMap<PeerNetwork, Record>,
    /// Faults of peers that are not remembered any more.
    others: u64,
    /// Connections that were refused.
    refused: u64,
}

#[derive(Debug)]
struct Record {
    faults: u64,
    /// Faults that count towards the limit.
    recent: u32,
    last: Instant,
    refused_until: Option<Instant>,
}

impl Record {
    fn is_refused(&self, now: Instant) -> bool {
        self.refused_until.is_some_and(|until| now < until)
    }
}

impl ProtectionFaults {
    /// Sets the limit after which connections are refused. Without a limit, no connections are refused.
    pub fn set_limit(&self, limit: Option<FaultLimit>) {
        self.0.lock().limit = limit;
    }

    /// Counts a fault of a peer, and writes a log line, at most one a minute.
    pub(crate) fn count(&self, peer: IpAddr, now: Instant, span: &Span) {
        let peer = PeerNetwork::from_address(peer);
        let faults = self.0.lock().count(peer, now);
        limited!(
            warn, target: targets::CONNECTION, parent: span, %peer, faults,
            "a peer named memory that it may not use, and its connection ends; many such faults of one peer are guesses of tokens"
        );
    }

    /// Returns true if a new connection of this peer is to be refused, and counts it then.
    pub(crate) fn refuses(&self, peer: IpAddr, now: Instant) -> bool {
        let mut state = self.0.lock();
        let record = state.peers.get(&PeerNetwork::from_address(peer));
        let refused = record.is_some_and(|record| record.is_refused(now));
        state.refused += u64::from(refused);
        refused
    }

    /// The names and values of the counters.
    pub fn counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        let state = self.0.lock();
        let peers = state.peers.iter();
        let name = |peer| Cow::Owned(format!("protection_faults.{peer}"));
        let mut counters: Vec<_> = peers
            .map(|(peer, record)| (name(peer), record.faults))
            .collect();
        counters.extend([
            ("protection_faults.others".into(), state.others),
            ("refused_for_faults".into(), state.refused),
        ]);
        counters
    }
}

impl State {
    /// Counts a fault, and returns the number of faults of the peer.
    fn count(&mut self, peer: PeerNetwork, now: Instant) -> u64 {
        if self.peers.len() >= MOST && !self.peers.contains_key(&peer) {
            self.forget_one(now);
        }
        let limit = self.limit;
        let record = self.peers.entry(peer).or_insert(Record {
            faults: 0,
            recent: 0,
            last: now,
            refused_until: None,
        });
        record.faults += 1;
        if let Some(FaultLimit { faults, time }) = limit {
            if now.saturating_duration_since(record.last) > time {
                record.recent = 0;
            }
            record.recent = record.recent.saturating_add(1);
            if record.recent >= faults {
                record.recent = 0;
                record.refused_until = now.checked_add(time);
            }
        }
        record.last = now;
        record.faults
    }

    /// Forgets the peer with the fewest faults; if there are several, the one whose last fault is the oldest. A peer that is refused is
    /// forgotten only after those that are not.
    fn forget_one(&mut self, now: Instant) {
        let peers = self.peers.iter();
        let least =
            peers.min_by_key(|(_, record)| (record.is_refused(now), record.faults, record.last));
        let Some(peer) = least.map(|(peer, _)| *peer) else {
            return;
        };
        let forgotten = self.peers.remove(&peer);
        self.others += forgotten.map_or(0, |record| record.faults);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(at: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + at).into())
    }

    fn counted(faults: &ProtectionFaults, name: &str) -> Option<u64> {
        let counters = faults.counters().into_iter();
        let mut found = counters.filter(|(counter, _)| counter == name);
        found.next().map(|(_, value)| value)
    }

    #[test]
    fn sec_036_faults_are_counted_by_peer() {
        let (faults, now) = (ProtectionFaults::default(), Instant::now());
        for address in [
            "192.0.2.1",
            "::ffff:192.0.2.1",
            "2001:db8::1",
            "2001:db8::2:3",
        ] {
            faults.count(address.parse().unwrap(), now, &Span::none());
        }
        faults.count(v4(7), now, &Span::none());
        let expected = [
            ("protection_faults.192.0.2.1", 2),
            ("protection_faults.2001:db8::/64", 2),
            ("protection_faults.10.0.0.7", 1),
            ("protection_faults.others", 0),
            ("refused_for_faults", 0),
        ];
        assert_eq!(faults.counters().len(), expected.len());
        for (name, value) in expected {
            assert_eq!(counted(&faults, name), Some(value), "{name}");
        }
        assert!(!faults.refuses(v4(7), now), "without a limit");
    }

    #[test]
    fn sec_036_the_table_is_bounded_and_keeps_those_with_the_most() {
        let (faults, now) = (ProtectionFaults::default(), Instant::now());
        for _ in 0..3 {
            faults.count(v4(0), now, &Span::none());
        }
        let flood = 5 * u32::try_from(MOST).unwrap();
        for at in 1..=flood {
            faults.count(
                v4(at),
                now + Duration::from_millis(at.into()),
                &Span::none(),
            );
        }
        assert_eq!(faults.0.lock().peers.len(), MOST);
        assert_eq!(counted(&faults, "protection_faults.10.0.0.0"), Some(3));
        let all: u64 = { faults.counters().into_iter() }
            .map(|(_, value)| value)
            .sum();
        assert_eq!(all, u64::from(flood) + 3, "none is lost");
        assert_eq!(
            counted(&faults, "protection_faults.10.0.0.1"),
            None,
            "the oldest"
        );
    }

    #[test]
    fn sec_036_a_peer_with_many_faults_is_refused_for_a_time() {
        let (faults, start) = (ProtectionFaults::default(), Instant::now());
        let time = Duration::from_secs(60);
        faults.set_limit(Some(FaultLimit { faults: 3, time }));
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in [0, 10] {
            faults.count(v4(1), at(second), &Span::none());
            assert!(!faults.refuses(v4(1), at(second)));
        }
        // After a minute without a fault, the count begins again.
        for second in [71, 72] {
            faults.count(v4(1), at(second), &Span::none());
            assert!(!faults.refuses(v4(1), at(second)));
        }
        faults.count(v4(1), at(73), &Span::none());
        assert!(faults.refuses(v4(1), at(73)) && faults.refuses(v4(1), at(132)));
        assert!(!faults.refuses(v4(2), at(73)), "another peer");
        assert!(!faults.refuses(v4(1), at(133)));
        assert_eq!(counted(&faults, "refused_for_faults"), Some(2));
        // A refused peer is remembered, although others have more faults.
        for second in [134, 135, 136] {
            faults.count(v4(1), at(second), &Span::none());
        }
        for other in (2..).take(MOST + 1).flat_map(|other| [other; 7]) {
            faults
                .0
                .lock()
                .count(PeerNetwork::from_address(v4(other)), at(137));
        }
        assert!(faults.refuses(v4(1), at(137)));
    }
}
