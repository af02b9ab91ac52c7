//! What `nd perf --format json` prints, as far as promises are about it.

use std::time::Duration;

use nd_perf::cores::Watch;
use serde::Deserialize;

/// A ratio of softnd to what it is compared with, within each turn. Not a number without any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// That of the typical turn.
    pub typical: f64,
    /// Half of the turns lie between these two.
    pub quartiles: (f64, f64),
}

impl Ratio {
    fn new(typical: Option<f64>, low: Option<f64>, high: Option<f64>) -> Self {
        let [typical, low, high] = [typical, low, high].map(|number| number.unwrap_or(f64::NAN));
        Self {
            typical,
            quartiles: (low, high),
        }
    }

    /// The ratio of the other side to this one.
    #[must_use]
    pub fn inverted(self) -> Self {
        let (low, high) = self.quartiles;
        Self {
            typical: self.typical.recip(),
            quartiles: (high.recip(), low.recip()),
        }
    }
}

/// A row of `nd perf local`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Measured {
    test: String,
    /// Whether all turns were measured.
    pub complete: bool,
    transport: String,
    p50_ns: Option<f64>,
    /// The median of the same row with both sides polling, where it was measured too.
    #[serde(skip)]
    pub polling_ns: Option<f64>,
    ratio: Option<f64>,
    ratio_q1: Option<f64>,
    ratio_q3: Option<f64>,
    ratio_p99: Option<f64>,
    ratio_p99_q1: Option<f64>,
    ratio_p99_q3: Option<f64>,
    handover_ns: Option<f64>,
    moves: u32,
    bytes_per_connection: Option<f64>,
    peer_bytes_per_connection: Option<f64>,
    idle_cpu: Option<f64>,
    peer_idle_cpu: Option<f64>,
}

impl Measured {
    /// Returns true if times are compared, and not rates.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        ["latency", "scale"].contains(&&*self.test)
    }

    /// The ratio of latency at the median, or of throughput.
    #[must_use]
    pub fn ratio(&self) -> Ratio {
        Ratio::new(self.ratio, self.ratio_q1, self.ratio_q3)
    }

    /// The ratio of latency at the 99th percentile.
    #[must_use]
    pub fn ratio_p99(&self) -> Ratio {
        Ratio::new(self.ratio_p99, self.ratio_p99_q1, self.ratio_p99_q3)
    }

    /// The name of the transport that has carried the connections: as they say it, with the numbers of each if there are several.
    #[must_use]
    pub fn transport(&self) -> &str {
        &self.transport
    }

    /// Half a round trip at the median, in nanoseconds. Not a number without any.
    #[must_use]
    pub fn half_round_trip(&self) -> f64 {
        self.p50_ns.unwrap_or(f64::NAN)
    }

    /// The median as a ratio to that of both sides polling. Not a number without both.
    #[must_use]
    pub fn of_polling(&self) -> f64 {
        self.half_round_trip() / self.polling_ns.unwrap_or(f64::NAN)
    }

    /// The time that a cache line took from core to core in this row, in nanoseconds, if it was seen.
    #[must_use]
    pub const fn cache_line(&self) -> Option<f64> {
        self.handover_ns
    }

    /// The octets of an idle connection, at both sides.
    #[must_use]
    pub const fn memory(&self) -> [Option<f64>; 2] {
        [self.bytes_per_connection, self.peer_bytes_per_connection]
    }

    /// The processor time while nothing happens, at both sides.
    #[must_use]
    pub const fn idle_cpu(&self) -> [Option<f64>; 2] {
        [self.idle_cpu, self.peer_idle_cpu]
    }

    /// How long a cache line took from core to core in this row, and how often the cores moved.
    #[must_use]
    pub fn cores(&self) -> Watch {
        let looks = self
            .handover_ns
            .map(|nanos| Duration::from_secs_f64(nanos / 1e9));
        Watch {
            looks: looks.into_iter().collect(),
            moves: self.moves,
        }
    }
}

/// A row of `nd perf device`.
#[derive(Clone, Debug, Deserialize)]
pub struct OnDevice {
    /// The test in words.
    pub title: String,
    /// perftest's name of the test.
    pub program: String,
    /// Octets of a message.
    pub size: u32,
    ratio: Option<f64>,
    ratio_q1: Option<f64>,
    ratio_q3: Option<f64>,
    error: Option<String>,
}

impl OnDevice {
    /// Why the test has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns true if rates are compared, and not times.
    #[must_use]
    pub fn is_bandwidth(&self) -> bool {
        self.program.ends_with("_bw")
    }

    /// The ratio of `nd perftest` to perftest's own program.
    #[must_use]
    pub fn ratio(&self) -> Ratio {
        Ratio::new(self.ratio, self.ratio_q1, self.ratio_q3)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn row(test: &str) -> Measured {
        Measured {
            test: test.to_owned(),
            complete: true,
            ..Measured::default()
        }
    }

    /// Bandwidth, as fast as what it is compared with.
    pub(in super::super) fn bandwidth() -> Measured {
        with(row("bandwidth"), (1.0, 1.0), (1.0, 1.0))
    }

    /// Latency, as long as what it is compared with.
    pub(in super::super) fn latency() -> Measured {
        with(row("latency"), (1.0, 1.0), (1.0, 1.0))
    }

    /// What connections cost at both sides, each a list of two numbers.
    pub(in super::super) fn scale(memory: &str, cpu: &str) -> Measured {
        let parse = |text: &str| serde_json::from_str::<[Option<f64>; 2]>(text).unwrap();
        let ([memory, peer_memory], [cpu, peer_cpu]) = (parse(memory), parse(cpu));
        from_value(json!({
            "op": "send", "test": "scale", "transport": "tcp", "complete": true, "moves": 0, "handover_ns": 31.0,
            "ratio": 1.0, "ratio_q1": 1.0, "ratio_q3": 1.0, "ratio_p99": null,
            "bytes_per_connection": memory, "peer_bytes_per_connection": peer_memory,
            "idle_cpu": cpu, "peer_idle_cpu": peer_cpu,
        }))
        .unwrap()
    }

    /// With these ratios in its quartiles, at the median and at the 99th percentile.
    pub(in super::super) fn with(
        row: Measured,
        quartiles: (f64, f64),
        p99: (f64, f64),
    ) -> Measured {
        Measured {
            ratio: Some(f64::midpoint(quartiles.0, quartiles.1)),
            ratio_q1: Some(quartiles.0),
            ratio_q3: Some(quartiles.1),
            ratio_p99: Some(f64::midpoint(p99.0, p99.1)),
            ratio_p99_q1: Some(p99.0),
            ratio_p99_q3: Some(p99.1),
            ..row
        }
    }

    /// With this half round trip at the median, and this time of a cache line from core to core, both in nanoseconds.
    pub(in super::super) fn lasting(row: Measured, time: f64, line: Option<f64>) -> Measured {
        Measured {
            p50_ns: Some(time),
            handover_ns: line,
            ..row
        }
    }

    /// Carried by this transport.
    pub(in super::super) fn over(row: Measured, transport: &str) -> Measured {
        Measured {
            transport: transport.to_owned(),
            ..row
        }
    }

    impl Measured {
        /// This row, cut short.
        pub(in super::super) fn cut(self) -> Self {
            Self {
                complete: false,
                ..self
            }
        }
    }

    #[test]
    fn a_row_is_read_by_its_names() {
        let row = scale("[4096, null]", "[0.5, 0.25]");
        assert_eq!(row.memory(), [Some(4096.0), None]);
        assert_eq!(row.cores().median(), Some(Duration::from_nanos(31)));
        assert!(row.ratio_p99().typical.is_nan() && row.is_timed());
        assert!(!bandwidth().is_timed());
    }
}
