//! The octets of one stream that have arrived, and the memory that quinn-proto needs for those that cannot be delivered.

use std::collections::BTreeMap;
use std::time::Instant;

/// The memory that quinn-proto and this module need for a frame besides its datagram, in octets.
const FRAME: u64 = 128;

/// quinn-proto keeps the datagrams of frames, but copies the octets of a stream once the datagrams take this many octets, or one and a half
/// times the octets of the stream, more than these. It copies them as well once there are more than 2,048 frames.
const SLACK: u64 = 32 * 1024 + 2049 * FRAME;

/// Returns the most memory that quinn-proto needs for `octets` octets of a stream that have arrived in frames with these `costs`.
fn memory(octets: u64, costs: u64) -> u64 {
    match octets {
        0 => 0,
        _ => costs.min(octets.saturating_mul(5) / 2 + SLACK),
    }
}

/// Octets behind a gap.
#[derive(Debug)]
struct Island {
    end: u64,
    costs: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The end of the octets before the first gap.
    end: u64,
    delivered: u64,
    /// The costs of the frames before the first gap that were not delivered.
    costs: u64,
    /// The octets behind gaps, by their beginnings.
    islands: BTreeMap<u64, Island>,
    /// The number of octets behind gaps.
    behind: u64,
    /// The costs of their frames.
    costs_behind: u64,
    /// The time since which the oldest of the octets that are held has waited.
    since: Option<Instant>,
    /// quinn-proto keeps no octets of the stream any more.
    closed: bool,
}

impl Arrivals {
    /// A frame in a datagram of this length has arrived. Returns the number of octets that can be delivered more than before.
    pub(super) fn note(&mut self, start: u64, end: u64, datagram: usize, now: Instant) -> u64 {
        if self.closed || end <= self.delivered {
            return 0;
        }
        let costs = datagram as u64 + FRAME;
        if start > self.end {
            if self.islands.is_empty() {
                self.since = Some(now);
            }
            self.note_behind(start, end, costs);
            return 0;
        }
        self.costs += costs;
        let before = self.end;
        self.end = self.end.max(end);
        while let Some(first) = self.islands.first_entry()
            && *first.key() <= self.end
        {
            let (start, island) = first.remove_entry();
            self.behind -= island.end - start;
            self.costs_behind -= island.costs;
            self.costs += island.costs;
            self.end = self.end.max(island.end);
        }
        if self.end > before && !self.islands.is_empty() {
            self.since = Some(now);
        }
        self.since.get_or_insert(now);
        self.end - before
    }

    /// Like [`note`](Self::note), if the frame continues the octets in order and nothing is behind a gap: the memory that is held for a
    /// stream in use stays 0.
    #[inline]
    pub(super) fn note_next(
        &mut self,
        start: u64,
        end: u64,
        datagram: usize,
        now: Instant,
    ) -> Option<u64> {
        if start != self.end || self.closed || !self.islands.is_empty() {
            return None;
        }
        self.costs += datagram as u64 + FRAME;
        self.end = end;
        self.since.get_or_insert(now);
        Some(end - start)
    }

    fn note_behind(&mut self, mut start: u64, end: u64, costs: u64) {
        let mut island = Island { end, costs };
        self.costs_behind += costs;
        while let Some((&known, other)) = self.islands.range(..=island.end).next_back()
            && other.end >= start
        {
            island.end = island.end.max(other.end);
            island.costs += other.costs;
            self.behind -= other.end - known;
            start = start.min(known);
            self.islands.remove(&known);
        }
        self.behind += island.end - start;
        self.islands.insert(start, island);
    }

    /// Octets were delivered.
    pub(super) fn deliver(&mut self, count: u64) {
        self.delivered += count;
        if self.delivered >= self.end {
            // The frames of the octets may not have been noted yet.
            self.end = self.delivered;
            self.costs = 0;
            if self.islands.is_empty() {
                self.since = None;
            }
        }
    }

    /// quinn-proto has thrown away what it had of the stream, and keeps nothing that follows.
    pub(super) fn close(&mut self) {
        *self = Self {
            closed: true,
            ..Self::default()
        };
    }

    /// The octets that can be delivered.
    pub(super) fn waiting(&self) -> u64 {
        self.end - self.delivered
    }

    /// The memory for octets behind gaps, and of a stream that is not `in_use`, for all octets.
    pub(super) fn held(&self, in_use: bool) -> u64 {
        let behind = memory(self.behind, self.costs_behind);
        match in_use {
            true => behind,
            false => behind + memory(self.waiting(), self.costs),
        }
    }

    /// The time since which the oldest of the octets that are held has waited.
    pub(super) fn since(&self, in_use: bool) -> Option<Instant> {
        self.since.filter(|_| self.held(in_use) > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const DATAGRAM: usize = 1200;
    const COST: u64 = DATAGRAM as u64 + FRAME;

    #[test]
    fn octets_behind_a_gap_are_held_until_the_gap_is_filled() {
        let (mut arrivals, now) = (Arrivals::default(), Instant::now());
        assert_eq!(arrivals.note(0, 1000, DATAGRAM, now), 1000);
        assert_eq!((arrivals.held(true), arrivals.held(false)), (0, COST));
        arrivals.deliver(1000);
        assert_eq!((arrivals.held(false), arrivals.since(false)), (0, None));
        for number in [3, 2, 5] {
            assert_eq!(
                arrivals.note(number * 1000, number * 1000 + 1000, DATAGRAM, now),
                0
            );
        }
        assert_eq!((arrivals.held(true), arrivals.islands.len()), (3 * COST, 2));
        let later = now + Duration::from_secs(1);
        assert_eq!(arrivals.since(true), Some(now));
        assert_eq!(arrivals.note(1000, 2000, DATAGRAM, later), 3000);
        assert_eq!(
            (arrivals.held(true), arrivals.since(true)),
            (COST, Some(later))
        );
        assert_eq!(arrivals.held(false), 4 * COST);
        arrivals.deliver(3000);
        assert_eq!(arrivals.held(false), COST);
        assert_eq!(arrivals.note(4000, 5000, DATAGRAM, later), 2000);
        arrivals.deliver(2000);
        assert_eq!((arrivals.held(false), arrivals.since(false)), (0, None));
    }

    #[test]
    fn small_frames_in_long_datagrams_cost_what_quinn_proto_keeps_of_them() {
        let (mut arrivals, now) = (Arrivals::default(), Instant::now());
        for number in 1..=10_000 {
            arrivals.note(2 * number, 2 * number + 1, DATAGRAM, now);
            let most = number * 5 / 2 + SLACK;
            assert_eq!(arrivals.held(true), (number * COST).min(most));
        }
    }

    #[test]
    fn a_stream_that_is_closed_holds_nothing() {
        let (mut arrivals, now) = (Arrivals::default(), Instant::now());
        arrivals.note(0, 10, DATAGRAM, now);
        arrivals.note(20, 30, DATAGRAM, now);
        arrivals.close();
        assert_eq!(arrivals.note(30, 40, DATAGRAM, now), 0);
        assert_eq!((arrivals.held(false), arrivals.waiting()), (0, 0));
    }

    proptest! {
        /// Compared with a map of all octets.
        #[test]
        fn every_octet_is_in_order_or_behind_a_gap(
            steps in prop::collection::vec((0..60_usize, 0..20_usize, any::<bool>()), 0..40)
        ) {
            let (mut arrivals, now) = (Arrivals::default(), Instant::now());
            let (mut there, mut delivered) = ([false; 80], 0);
            for (start, len, reads) in steps {
                there[start..start + len].fill(true);
                let (first, last) = (start as u64, (start + len) as u64);
                if arrivals.note_next(first, last, DATAGRAM, now).is_none() {
                    arrivals.note(first, last, DATAGRAM, now);
                }
                let end = there.iter().position(|there| !there).unwrap_or(80);
                if reads {
                    arrivals.deliver((end - delivered) as u64);
                    delivered = end;
                }
                let behind = there[end..].iter().filter(|there| **there).count();
                prop_assert_eq!(arrivals.waiting(), (end - delivered) as u64);
                prop_assert_eq!(arrivals.behind, behind as u64);
                prop_assert_eq!(arrivals.held(true) > 0, behind > 0);
                let costs: u64 = arrivals.islands.values().map(|island| island.costs).sum();
                prop_assert_eq!(costs, arrivals.costs_behind);
            }
        }
    }
}
