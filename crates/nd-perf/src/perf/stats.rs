//! From turns to figures.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::spec::{Op, Spec};

/// The measurements of one turn, for one side of the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Turn {
    messages: u64,
    elapsed: Duration,
    /// Nanoseconds at the 50th and the 99th percentile, of messages that were timed one by one.
    p50: f64,
    p99: f64,
}

impl Turn {
    /// Not a number if nothing moved, or if the clock measured no time.
    fn messages_per_second(&self) -> f64 {
        if self.messages == 0 || self.elapsed.is_zero() {
            return f64::NAN;
        }
        self.messages as f64 / self.elapsed.as_secs_f64()
    }
}

/// All turns of one side of the comparison.
#[derive(Clone, Debug)]
pub(super) struct SideTurns {
    turns: Vec<Turn>,
    /// Of all turns together, in nanoseconds of whole round trips.
    times: Histogram<u64>,
}

/// Latency in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

/// The figures of one side of the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) messages: u64,
    /// On average over all turns.
    pub(super) bytes_per_s: f64,
    /// In the best turn.
    pub(super) peak_bytes_per_s: f64,
    /// On average over all turns.
    pub(super) msgs_per_s: f64,
    pub(super) latency: Option<Latency>,
}

/// The ratio of one side to the other. Above 1 is more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// Of latency at the 50th percentile, or of throughput.
    pub(super) typical: f64,
    /// Half of the turns lie between these two. If they are far apart, something else used the machine.
    pub(super) quartiles: (f64, f64),
    /// Of latency at the 99th percentile.
    pub(super) p99: Option<f64>,
    /// Half of the turns lie between these two at the 99th percentile.
    pub(super) p99_quartiles: Option<(f64, f64)>,
}

impl Ratio {
    /// Of the ratios within each turn. Not a number without any.
    pub(super) fn of_turns(ratios: &[f64]) -> Self {
        Self {
            typical: median(ratios),
            quartiles: quartiles(ratios),
            p99: None,
            p99_quartiles: None,
        }
    }
}

impl SideTurns {
    /// No turn yet.
    pub(super) fn new() -> Self {
        // Up to a minute with three digits. A longer time counts as a minute.
        let times = Histogram::new_with_max(60_000_000_000, 3);
        Self {
            turns: Vec::new(),
            times: times.expect("the bounds are in the library's range"),
        }
    }

    /// Adds a turn. `times` are the nanoseconds of single round trips, which are sorted here. Empty if only the whole turn
    /// was timed.
    pub(super) fn add(&mut self, messages: u64, elapsed: Duration, times: &mut [u64]) {
        times.sort_unstable();
        self.turns.push(Turn {
            messages,
            elapsed,
            p50: quantile(times, 0.50),
            p99: quantile(times, 0.99),
        });
        for time in times {
            self.times.saturating_record(*time);
        }
    }

    pub(super) fn turns(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn figures(&self, spec: &Spec) -> Figures {
        let rates = self.turns.iter().map(Turn::messages_per_second);
        let size = f64::from(spec.size);
        let messages = self.turns.iter().map(|turn| turn.messages).sum();
        let elapsed: Duration = self.turns.iter().map(|turn| turn.elapsed).sum();
        let average = messages as f64 / elapsed.as_secs_f64();
        Figures {
            messages,
            bytes_per_s: average * size,
            peak_bytes_per_s: rates.fold(f64::NAN, f64::max) * size,
            msgs_per_s: average,
            latency: self.latency(spec),
        }
    }

    fn latency(&self, spec: &Spec) -> Option<Latency> {
        if !spec.is_timed() || self.times.is_empty() {
            return None;
        }
        let share = share(spec);
        let at = |quantile| self.times.value_at_quantile(quantile) as f64 * share;
        Some(Latency {
            min: self.times.min() as f64 * share,
            max: self.times.max() as f64 * share,
            mean: self.times.mean() * share,
            p50: at(0.50),
            p99: at(0.99),
            p999: at(0.999),
        })
    }

    /// The median of the ratios of each turn to the neighbouring turn of the other side. It is not the ratio of medians,
    /// because the machine drifts less between two turns than within a run. `None` if no two such turns measured anything.
    pub(super) fn ratio(&self, other: &Self, spec: &Spec) -> Option<Ratio> {
        let median_of = |figure: fn(&Turn) -> f64| {
            let pairs = self.turns.iter().zip(&other.turns);
            let ratios: Vec<f64> = pairs
                .map(|(ours, theirs)| figure(ours) / figure(theirs))
                .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
                .collect();
            (!ratios.is_empty()).then_some(ratios)
        };
        let timed = spec.is_timed();
        let ratios = if timed {
            median_of(|turn| turn.p50)?
        } else {
            median_of(Turn::messages_per_second)?
        };
        let p99 = timed.then(|| median_of(|turn| turn.p99)).flatten();
        Some(Ratio {
            p99: p99.as_deref().map(median),
            p99_quartiles: p99.as_deref().map(quartiles),
            ..Ratio::of_turns(&ratios)
        })
    }
}

/// The share of a timed exchange that is the latency: half of a ping-pong, which goes both ways, and all of a Read.
fn share(spec: &Spec) -> f64 {
    if spec.op == Op::Read { 1.0 } else { 0.5 }
}

/// The middle value, or the mean of the middle two. Not a number if there are no values.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// The two values between which the middle half of all values lies.
fn quartiles(values: &[f64]) -> (f64, f64) {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    match values.len().checked_sub(1) {
        None => (f64::NAN, f64::NAN),
        Some(last) => (values[last / 4], values[last - last / 4]),
    }
}

/// The smallest value that this share of all values does not exceed. The values are sorted.
fn quantile(sorted: &[u64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let rank = (share * sorted.len() as f64).ceil();
    // A rank in a slice is far below the range in which a float is exact, and never negative.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let at = (rank as usize).saturating_sub(1).min(last);
    sorted[at] as f64
}

#[cfg(test)]
mod tests {
    use super::super::spec::Test;
    use super::super::spec::tests::SPEC;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn side(rates: &[u64]) -> SideTurns {
        let mut side = SideTurns::new();
        rates
            .iter()
            .for_each(|rate| side.add(*rate, SECOND, &mut []));
        side
    }

    #[test]
    fn medians_need_no_order_and_average_the_middle_two() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_ratio_is_the_median_of_the_turns_ratios() {
        // The machine drifts: each turn of the adapter is 0.9 of its neighbour, while the medians compare as 90 to 200.
        let (ours, theirs) = (
            side(&[90, 90, 270, 45, 180]),
            side(&[100, 100, 300, 50, 200]),
        );
        assert_eq!(ours.ratio(&theirs, &SPEC).expect("turns").typical, 0.9);
        let (ours, theirs) = (side(&[10, 100, 100]), side(&[100, 10, 50]));
        assert_eq!(ours.ratio(&theirs, &SPEC).expect("turns").typical, 2.0);
    }

    #[test]
    fn half_of_the_turns_lie_between_the_quartiles() {
        assert_eq!(quartiles(&[5.0, 1.0, 2.0, 4.0, 3.0]), (2.0, 4.0));
        assert_eq!(quartiles(&[7.0]), (7.0, 7.0));
        let ratio = side(&[10, 20, 30, 40, 50]).ratio(&side(&[10; 5]), &SPEC);
        assert_eq!(ratio.expect("turns").quartiles, (2.0, 4.0));
    }

    #[test]
    fn a_turn_without_its_neighbour_does_not_count() {
        let ratio = side(&[50, 1]).ratio(&side(&[100]), &SPEC);
        assert_eq!(ratio.expect("one pair").typical, 0.5);
        assert_eq!(side(&[50]).ratio(&side(&[]), &SPEC), None);
    }

    #[test]
    fn a_turn_that_measured_nothing_does_not_count() {
        for (messages, elapsed) in [(0, SECOND), (50, Duration::ZERO)] {
            let mut ours = side(&[50]);
            ours.add(messages, elapsed, &mut []);
            let ratio = ours.ratio(&side(&[100, 100]), &SPEC);
            assert_eq!(ratio.expect("one pair").typical, 0.5);
            let mut ours = SideTurns::new();
            ours.add(messages, elapsed, &mut []);
            assert_eq!(ours.ratio(&side(&[100]), &SPEC), None);
            assert_eq!(side(&[100]).ratio(&ours, &SPEC), None);
        }
    }

    #[test]
    fn throughput_is_the_average_and_the_peak_that_of_the_best_turn() {
        let figures = side(&[10, 30, 20]).figures(&SPEC);
        assert_eq!((figures.messages, figures.msgs_per_s), (60, 20.0));
        assert_eq!(figures.bytes_per_s, 20.0 * 65_536.0);
        assert_eq!(figures.peak_bytes_per_s, 30.0 * 65_536.0);
        assert_eq!(figures.latency, None);
    }

    #[test]
    fn latency_is_half_the_round_trip_but_the_whole_of_a_read() {
        let spec = Spec {
            test: Test::Latency,
            ..SPEC
        };
        let mut side = SideTurns::new();
        side.add(100, SECOND, &mut (1..=100).rev().collect::<Vec<_>>());
        let latency = side.figures(&spec).latency.expect("times");
        assert_eq!((latency.min, latency.p50, latency.p99), (0.5, 25.0, 49.5));
        assert_eq!(
            (latency.p999, latency.max, latency.mean),
            (50.0, 50.0, 25.25)
        );
        let read = Spec {
            op: Op::Read,
            ..spec
        };
        assert_eq!(side.figures(&read).latency.expect("times").p50, 50.0);
    }

    #[test]
    fn ratios_of_latency_compare_the_percentiles_of_each_turn() {
        let spec = Spec {
            test: Test::Latency,
            ..SPEC
        };
        let (mut ours, mut theirs) = (SideTurns::new(), SideTurns::new());
        ours.add(2, SECOND, &mut [20, 90]);
        theirs.add(2, SECOND, &mut [30, 10]);
        let ratio = ours.ratio(&theirs, &spec).expect("one pair");
        assert_eq!((ratio.typical, ratio.p99), (2.0, Some(3.0)));
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        assert_eq!(quantile(&[7], 0.99), 7.0);
        assert_eq!(quantile(&[1, 2, 3, 4], 0.50), 2.0);
        assert_eq!(quantile(&[1, 2, 3, 4], 0.99), 4.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
