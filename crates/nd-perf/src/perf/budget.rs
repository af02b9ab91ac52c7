//! The memory that a client of `nd perf serve` may have this side allocate.
//!
//! What a row needs is known before it is allocated: rings, queues, connections, and the memory of bare connections. Each part is
//! taken from the budget first. All of it is free again when the row is over.

use nd_base::errors::{Failure, Result};
use nd_base::units;

use super::spec::{Rings, Spec};
use super::wire::Wire;

/// Octets of an adapter: its threads, staging buffers, batches and socket buffers.
const ADAPTER: u64 = 16 << 20;

/// Octets that an entry of a receive queue or initiator queue needs, with its results in the completion queue.
const QUEUE_ENTRY: u64 = 512;

/// Octets of a connection without its queues.
const CONNECTION: u64 = 16 << 10;

/// Octets of a bare connection without its rings: the buffers of a QUIC connection hold most.
const BARE: u64 = 16 << 20;

/// Octets that a message needs in addition to its place in a ring.
const MESSAGE: u64 = 32;

/// The memory that is left for a row.
#[derive(Debug)]
pub(super) struct Budget {
    /// `None`: any amount, because the client is a process of the same user.
    limit: Option<u64>,
    taken: u64,
}

impl Budget {
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self { limit, taken: 0 }
    }

    /// Takes the memory of a connection under test, which has its own adapter.
    pub(super) fn take_connection(&mut self, spec: &Spec) -> Result<()> {
        let connection = CONNECTION + queues(spec.initiator(), spec.server_receives());
        self.take(&[ADAPTER, connection, of_rings(spec, spec.server_rings())])
    }

    /// Takes the memory of a bare connection.
    pub(super) fn take_wire(&mut self, spec: &Spec) -> Result<()> {
        self.take(&[BARE, Wire::memory(spec)])
    }

    /// Takes the memory of this many connections with queues of these depths, which share an adapter and rings.
    pub(super) fn take_crowd(
        &mut self,
        spec: &Spec,
        rings: Rings,
        connections: u32,
        (initiator, receives): (u32, u32),
    ) -> Result<()> {
        let each = CONNECTION + queues(initiator, receives);
        let all = each.saturating_mul(connections.max(1).into());
        self.take(&[ADAPTER, all, of_rings(spec, rings)])
    }

    /// Takes the memory with which idle connections move octets.
    pub(super) fn take_traffic(&mut self, spec: &Spec) -> Result<()> {
        self.take(&[spec.traffic.unwrap_or(0).into()])
    }

    fn take(&mut self, parts: &[u64]) -> Result<()> {
        let taken = parts.iter().copied().fold(self.taken, u64::saturating_add);
        if let Some(limit) = self.limit
            && taken > limit
        {
            return Err(Failure::new(
                format!(
                    "this side gives a client at most {} of memory, and {} are asked for",
                    units::bytes(limit),
                    units::bytes(taken)
                ),
                "choose a smaller --size, --depth, --traffic or --connections, or serve with more --memory",
            ));
        }
        self.taken = taken;
        Ok(())
    }
}

/// Octets of the queues of a connection.
fn queues(initiator: u32, receives: u32) -> u64 {
    QUEUE_ENTRY * (u64::from(initiator) + u64::from(receives))
}

/// Octets of rings, and of the copies with which they are filled and checked.
fn of_rings(spec: &Spec, Rings { source, sink }: Rings) -> u64 {
    let ring = (spec.ring()).saturating_add(MESSAGE * u64::from(spec.slots()));
    let rings = ring.saturating_mul(u64::from(source) + u64::from(sink));
    rings.saturating_add(2 * u64::from(spec.size))
}

#[cfg(test)]
mod tests {
    use super::super::spec::Op;
    use super::super::spec::tests::SPEC;
    use super::*;

    /// 32 MiB in a ring.
    const LARGE: Spec = Spec {
        size: 1 << 20,
        depth: 32,
        op: Op::Write,
        ..SPEC
    };

    #[test]
    fn everything_that_is_asked_for_counts_together() {
        let mut budget = Budget::new(Some(256 << 20));
        budget.take_connection(&LARGE).expect("some 50 MiB");
        budget
            .take_connection(&LARGE.plain())
            .expect("as much again");
        budget.take_wire(&LARGE).expect("some 80 MiB");
        let text = budget.take_wire(&LARGE).expect_err("some 80 MiB more");
        let text = text.to_string();
        assert!(text.contains("at most 256 MiB"), "{text}");
        assert!(text.contains("more --memory"), "{text}");
        let mut any = Budget::new(None);
        for _ in 0..1000 {
            any.take_wire(&LARGE).expect("no limit");
        }
    }

    #[test]
    fn memory_for_traffic_counts_too() {
        let spec = Spec {
            traffic: Some(1 << 20),
            ..SPEC
        };
        let mut budget = Budget::new(Some(3 << 19));
        budget.take_traffic(&spec).expect("1 MiB");
        assert!(budget.take_traffic(&spec).is_err());
        budget.take_traffic(&SPEC).expect("nothing");
    }

    #[test]
    fn what_no_number_can_hold_is_too_much() {
        let spec = Spec {
            size: u32::MAX,
            depth: u32::MAX,
            connections: u32::MAX,
            ..SPEC
        };
        for op in [Op::Send, Op::Write, Op::Read] {
            let spec = Spec { op, ..spec };
            let mut budget = Budget::new(Some(u64::MAX - 1));
            assert!(budget.take_connection(&spec).is_err() || budget.take_wire(&spec).is_err());
            let rings = spec.server_rings();
            let crowd = budget.take_crowd(&spec, rings, u32::MAX, (u32::MAX, u32::MAX));
            assert!(crowd.is_err());
        }
    }
}
