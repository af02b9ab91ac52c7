//! The conditions of the network of a run.

use super::*;

fn chance(draw: &mut dyn FnMut(u64) -> u64, most: u64) -> Chance {
    Chance::per_million(u32::try_from(draw(most)).unwrap())
}

fn latency(draw: &mut dyn FnMut(u64) -> u64) -> std::ops::RangeInclusive<Duration> {
    Duration::from_micros(draw(20))..=Duration::from_micros(20 + draw(200))
}

/// The conditions for streams, and true if these may break streams.
pub(super) fn of_streams(draw: &mut dyn FnMut(u64) -> u64) -> (Conditions, bool) {
    let mut conditions = Conditions::default();
    conditions.latency = latency(draw);
    conditions.segment = match draw(3) {
        0 => 1..=7,
        1 => 1..=1460,
        _ => 536..=9000,
    };
    conditions.buffer = [200, 3000, 64 * 1024][usize::try_from(draw(3)).unwrap()];
    // Half of the networks only delay and split segments.
    let lossy = draw(2) == 0;
    if lossy {
        match draw(4) {
            0 => conditions.reset = chance(draw, 20_000),
            1 => conditions.half_close = chance(draw, 20_000),
            2 => conditions.refusal = chance(draw, 500_000),
            _ => conditions.silence = chance(draw, 500_000),
        }
    }
    if draw(3) == 0 {
        conditions.stall = chance(draw, 100_000);
    }
    (conditions, lossy)
}

/// The conditions for datagrams, none of which may break a connection. A third of the networks only delays them.
pub(super) fn of_datagrams(draw: &mut dyn FnMut(u64) -> u64) -> Conditions {
    let mut conditions = Conditions::default();
    conditions.latency = latency(draw);
    if draw(3) > 0 {
        let mut sometimes = |most| match draw(2) {
            0 => Chance::NEVER,
            _ => chance(draw, most),
        };
        conditions.loss = sometimes(50_000);
        conditions.duplication = sometimes(100_000);
        conditions.reordering = sometimes(200_000);
        conditions.corruption = sometimes(50_000);
    }
    conditions.reordering_time = Duration::from_micros(10)..=Duration::from_micros(50 + draw(5000));
    conditions.largest_datagram = [1280, 1472, 9000, 65_507][usize::try_from(draw(4)).unwrap()];
    conditions
}
