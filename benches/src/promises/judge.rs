//! The requirement of a row, and the judgement whether it holds.

use nd_base::units;

use super::measured::{Measured, Ratio};

/// The requirement of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Promise {
    /// Throughput, at least this much of the bare stream's.
    Share(f64),
    /// Messages, at least this many of those of a bare stream that sends the same octets, gathered alike.
    Gathered(f64),
    /// Latency, at most this many times the bare stream's: at the median, and at the 99th percentile.
    Times(f64, Option<f64>),
    /// At least this many times as fast as with Receives of each queue pair's own.
    OwnReceives(f64),
    /// At least this many times as fast as with memory at the best place.
    BestPlace(f64),
    /// At most this many times as fast as with whole CRC fields, for which the row does not pay.
    Cost(f64),
    /// At most this many octets of each idle connection, at either side.
    Memory(f64),
    /// Less than this much of a core while nothing happens, at either side.
    Idle(f64),
    /// Latency on one of many connections, at most this many times that of a single connection.
    OneOfMany(f64),
    /// Connections set up and torn down, at least this many of those of bare sockets that connect, make one exchange and close.
    SetUps(f64),
    /// Latency through shared memory, at most this many times that of the same adapter over TCP.
    TimesTcp(f64),
    /// Throughput or set-ups through shared memory, at least this many times those of the same adapter over TCP.
    ShareTcp(f64),
    /// Latency of sides that sleep, at most this many times that of sides that poll.
    TimesPolling(f64),
    /// Half a round trip, at most this many nanoseconds while a cache line takes at most `line` nanoseconds from core to core.
    HalfRoundTrip {
        /// The most nanoseconds.
        most: f64,
        /// The nanoseconds of a cache line beyond which nothing is promised.
        line: f64,
    },
}

/// The measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The figure.
    pub measured: String,
    /// The quartiles of the turns.
    pub spread: String,
    /// How far the measurement is from what is promised: below 1 it is better. Of a ratio that was measured in turns, the worse
    /// quartile counts. Not a number without a measurement.
    pub margin: f64,
    /// Whether the promise holds.
    pub holds: bool,
}

impl Verdict {
    fn new(measured: String, spread: String, margin: f64, complete: bool) -> Self {
        Self {
            measured,
            spread,
            margin,
            // NaN does not hold.
            holds: margin <= 1.0 && complete,
        }
    }

    /// Of a ratio that has to be at least this much.
    #[must_use]
    pub fn at_least(least: f64, ratio: Ratio, complete: bool) -> Self {
        let measured = units::decimal(ratio.typical, 2);
        let (low, _) = ratio.quartiles;
        Self::new(measured, between(ratio.quartiles), least / low, complete)
    }

    /// Of a ratio of times, at the median, that may be at most this much.
    #[must_use]
    pub fn at_most(most: f64, ratio: Ratio, complete: bool) -> Self {
        let measured = format!("p50 {:.2}", ratio.typical);
        let (_, high) = ratio.quartiles;
        Self::new(measured, between(ratio.quartiles), high / most, complete)
    }

    /// The verdict of a measurement that failed, which says why.
    #[must_use]
    pub fn failed(why: String) -> Self {
        Self::new(why, String::new(), f64::NAN, false)
    }

    /// Returns true if this is further from what is promised than the other one.
    #[must_use]
    pub fn is_worse_than(&self, other: &Self) -> bool {
        other.holds && !self.holds
            || self.holds == other.holds && !(self.margin <= other.margin || other.margin.is_nan())
    }
}

/// The quartiles; empty where nothing was measured.
fn between((low, high): (f64, f64)) -> String {
    if low.is_nan() || high.is_nan() {
        return String::new();
    }
    format!("{}–{}", units::decimal(low, 2), units::decimal(high, 2))
}

impl Promise {
    /// Judges what was measured.
    #[must_use]
    pub fn judge(self, outcome: &Measured) -> Verdict {
        let ratio = match self {
            // Of speeds, not of times.
            Self::OwnReceives(_) | Self::BestPlace(_) | Self::Cost(_) if outcome.is_timed() => {
                outcome.ratio().inverted()
            }
            _ => outcome.ratio(),
        };
        let complete = outcome.complete;
        match self {
            Self::Share(least)
            | Self::Gathered(least)
            | Self::OwnReceives(least)
            | Self::BestPlace(least)
            | Self::SetUps(least)
            | Self::ShareTcp(least) => Verdict::at_least(least, ratio, complete),
            Self::Cost(most) => {
                let measured = units::decimal(ratio.typical, 2);
                let margin = ratio.quartiles.1 / most;
                Verdict::new(measured, between(ratio.quartiles), margin, complete)
            }
            Self::TimesPolling(most) => {
                let ratio = outcome.of_polling();
                let measured = format!("p50 {ratio:.2}");
                Verdict::new(measured, String::new(), ratio / most, complete)
            }
            Self::HalfRoundTrip { most, line } => {
                let time = outcome.half_round_trip();
                let measured = format!("{:.2} µs", time / 1e3);
                match outcome.cache_line() {
                    Some(taken) if taken > line && time.is_finite() => {
                        let why = format!("{measured}, while a cache line took {taken:.0} ns");
                        Verdict::new(why, String::new(), 0.0, complete)
                    }
                    _ => Verdict::new(measured, String::new(), time / most, complete),
                }
            }
            Self::Times(most, None) | Self::OneOfMany(most) | Self::TimesTcp(most) => {
                Verdict::at_most(most, ratio, complete)
            }
            Self::Times(most, Some(most_p99)) => {
                let median = Verdict::at_most(most, ratio, complete);
                let p99 = outcome.ratio_p99();
                Verdict::new(
                    format!("{}, p99 {:.2}", median.measured, p99.typical),
                    format!("{}, {}", median.spread, between(p99.quartiles)),
                    worse(median.margin, p99.quartiles.1 / most_p99),
                    complete,
                )
            }
            Self::Memory(most) => {
                let each = worse_of(outcome.memory());
                let measured = format!("{:.1} KiB", each / 1024.0);
                Verdict::new(measured, String::new(), each / most, complete)
            }
            Self::Idle(limit) => {
                let share = worse_of(outcome.idle_cpu());
                let measured = format!("{:.2} %", share * 100.0);
                // Less than, not at most.
                let margin = if share < limit {
                    share / limit
                } else {
                    f64::INFINITY
                };
                Verdict::new(measured, String::new(), margin, complete)
            }
        }
    }

    /// The promise about a row over UDP or over TCP, in words.
    #[must_use]
    pub fn wanted(self, over_udp: bool) -> String {
        let bare = if over_udp {
            "a bare QUIC stream"
        } else {
            "raw TCP"
        };
        match self {
            Self::Share(least) => format!("at least {least:.2} of {bare}"),
            Self::Gathered(least) => {
                format!("at least {least:.2} of {bare} with the same octets gathered alike")
            }
            Self::Times(most, None) => format!("p50 at most {most:.2} of {bare}"),
            Self::Times(most, Some(p99)) => {
                format!("p50 at most {most:.2} of {bare}, p99 {p99:.2}")
            }
            Self::OwnReceives(least) => {
                format!("at least {least:.2} times as fast as with own Receives")
            }
            Self::BestPlace(least) => {
                format!("at least {least:.2} times as fast as with memory at the best place")
            }
            Self::Cost(most) => {
                format!("at most {most:.2} times as fast as with whole CRC fields")
            }
            Self::Memory(most) => format!("at most {:.0} KiB each", most / 1024.0),
            Self::Idle(limit) => format!("below {:.0} % of a core", limit * 100.0),
            Self::OneOfMany(most) => format!("p50 at most {most:.2} of one alone"),
            Self::SetUps(least) => {
                format!("at least {least:.2} of bare sockets: connect, one exchange, close")
            }
            Self::TimesTcp(most) => format!("p50 at most {most:.2} of softnd over TCP"),
            Self::ShareTcp(least) => format!("at least {least:.2} of softnd over TCP"),
            Self::TimesPolling(most) => format!("p50 at most {most:.2} of polling"),
            Self::HalfRoundTrip { most, line } => format!(
                "p50 at most {:.2} µs while a cache line takes at most {line:.0} ns",
                most / 1e3
            ),
        }
    }

    /// The part of a row that the promise is about, if a row has several.
    #[must_use]
    pub const fn part(self) -> Option<&'static str> {
        match self {
            Self::Memory(_) => Some("memory beyond posted buffers and kernel sockets"),
            Self::Idle(_) => Some("background CPU"),
            Self::OneOfMany(_) => Some("ping-pong on one"),
            _ => None,
        }
    }

    /// The baseline that has to take turns with the row, as `nd perf` calls it.
    #[must_use]
    pub const fn baseline(self, over_udp: bool) -> Option<&'static str> {
        match self {
            Self::Share(_) | Self::Gathered(_) | Self::Times(..) | Self::SetUps(_) => {
                Some(if over_udp { "quic" } else { "tcp" })
            }
            Self::OwnReceives(_) | Self::BestPlace(_) | Self::Cost(_) => Some("plain"),
            Self::TimesTcp(_) | Self::ShareTcp(_) => Some("softnd-tcp"),
            Self::Memory(_)
            | Self::Idle(_)
            | Self::OneOfMany(_)
            | Self::TimesPolling(_)
            | Self::HalfRoundTrip { .. } => None,
        }
    }
}

/// The higher of two figures. Not a number if one of them is none, which might be anything.
fn worse(one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() {
        f64::NAN
    } else {
        one.max(other)
    }
}

/// The higher figure of both sides.
fn worse_of(sides: [Option<f64>; 2]) -> f64 {
    let [here, there] = sides.map(|side| side.unwrap_or(f64::NAN));
    worse(here, there)
}

#[cfg(test)]
mod tests {
    use super::super::measured::tests::{bandwidth, lasting, latency, scale, with};
    use super::*;

    #[test]
    fn the_worse_quartile_decides() {
        let share = with(bandwidth(), (0.9, 1.1), (1.0, 1.0));
        assert!(Promise::Share(0.9).judge(&share).holds);
        let verdict = Promise::Share(0.95).judge(&share);
        assert!(!verdict.holds);
        assert_eq!(
            (&*verdict.measured, &*verdict.spread),
            ("1.00", "0.90–1.10")
        );
        let times = with(latency(), (1.0, 1.2), (1.0, 1.6));
        assert!(Promise::Times(1.2, None).judge(&times).holds);
        assert!(!Promise::Times(1.19, None).judge(&times).holds);
        assert!(Promise::Times(1.2, Some(1.6)).judge(&times).holds);
        let verdict = Promise::Times(1.2, Some(1.5)).judge(&times);
        assert!(!verdict.holds);
        assert_eq!(verdict.measured, "p50 1.10, p99 1.30");
        assert_eq!(verdict.spread, "1.00–1.20, 1.00–1.60");
    }

    #[test]
    fn shared_receives_are_judged_by_their_speed() {
        let slower = with(latency(), (1.0, 1.25), (1.0, 1.0));
        assert!(Promise::OwnReceives(0.8).judge(&slower).holds);
        assert!(!Promise::OwnReceives(0.81).judge(&slower).holds);
        // A ratio of rates is one of speeds already.
        let faster = with(bandwidth(), (1.0, 1.25), (1.0, 1.0));
        assert!(Promise::BestPlace(1.0).judge(&faster).holds);
        assert!(!Promise::BestPlace(1.01).judge(&faster).holds);
        assert!(Promise::Cost(1.25).judge(&faster).holds);
        assert!(!Promise::Cost(1.24).judge(&faster).holds);
    }

    #[test]
    fn the_dearer_side_of_a_connection_counts() {
        let scale = || scale("[4096, 6144]", "[0.002, 0.0005]");
        assert!(Promise::Memory(6144.0).judge(&scale()).holds);
        assert!(!Promise::Memory(6143.0).judge(&scale()).holds);
        assert!(Promise::Idle(0.0021).judge(&scale()).holds);
        assert!(!Promise::Idle(0.002).judge(&scale()).holds);
        assert!(Promise::OneOfMany(1.0).judge(&scale()).holds);
        assert!(!Promise::OneOfMany(0.99).judge(&scale()).holds);
    }

    #[test]
    fn within_one_machine_ratios_are_to_tcp_and_a_far_core_excuses_a_time() {
        let times = with(latency(), (0.1, 0.16), (1.0, 1.0));
        assert!(Promise::TimesTcp(0.16).judge(&times).holds);
        assert!(!Promise::TimesTcp(0.15).judge(&times).holds);
        let share = with(bandwidth(), (1.9, 2.2), (1.0, 1.0));
        assert!(Promise::ShareTcp(1.9).judge(&share).holds);
        assert!(!Promise::ShareTcp(2.0).judge(&share).holds);

        let promise = Promise::HalfRoundTrip {
            most: 500.0,
            line: 70.0,
        };
        let half = |time, line| promise.judge(&lasting(latency(), time, line));
        assert!(half(500.0, Some(70.0)).holds && !half(501.0, Some(70.0)).holds);
        let far = half(800.0, Some(90.0));
        assert!(far.holds, "{far:?}");
        assert_eq!(far.measured, "0.80 µs, while a cache line took 90 ns");
        assert!(!half(800.0, None).holds && !half(f64::NAN, Some(90.0)).holds);

        let mut event = lasting(latency(), 900.0, None);
        assert!(!Promise::TimesPolling(3.0).judge(&event).holds);
        event.polling_ns = Some(300.0);
        let verdict = Promise::TimesPolling(3.0).judge(&event);
        assert!(verdict.holds && verdict.measured == "p50 3.00");
        assert!(!Promise::TimesPolling(2.9).judge(&event).holds);
    }

    #[test]
    fn what_was_not_measured_holds_nothing() {
        let none = with(bandwidth(), (f64::NAN, f64::NAN), (f64::NAN, f64::NAN));
        assert!(!Promise::Share(0.0).judge(&none).holds);
        assert!(!Promise::Times(9.0, Some(9.0)).judge(&none).holds);
        // A figure that one side could not measure might have any value.
        let half = scale("[4096, null]", "[null, 0.0005]");
        assert!(!Promise::Memory(f64::MAX).judge(&half).holds);
        assert!(!Promise::Idle(1.0).judge(&half).holds);
        let cut = bandwidth().cut();
        assert!(!Promise::Share(0.95).judge(&cut).holds);
    }

    #[test]
    fn of_several_sizes_the_worst_counts() {
        let verdict = |low| Promise::Share(0.9).judge(&with(bandwidth(), (low, 2.0), (1.0, 1.0)));
        let cut = bandwidth().cut();
        let failed = Verdict::failed("no".to_owned());
        assert!(verdict(0.8).is_worse_than(&verdict(0.85)));
        assert!(!verdict(0.85).is_worse_than(&verdict(0.8)));
        assert!(verdict(1.0).is_worse_than(&verdict(1.1)));
        assert!(Promise::Share(0.9).judge(&cut).is_worse_than(&verdict(1.0)));
        assert!(failed.is_worse_than(&verdict(0.1)));
        assert!(!verdict(0.1).is_worse_than(&failed));
        assert!(!failed.is_worse_than(&failed));
    }
}
