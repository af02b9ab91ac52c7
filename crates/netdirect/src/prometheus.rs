//! Counters as Prometheus reads them: the text format 0.0.4.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use crate::Counters;

/// A metric for one counter, or for a group of counters whose names differ in their last part.
struct Metric {
    /// The name of the counter, or of the group.
    counter: &'static str,
    /// The name without prefix and suffix.
    name: &'static str,
    /// The label that has the last part of the name of a group's counter.
    label: Option<&'static str>,
    help: &'static str,
}

/// The counters that the providers of this project have. Every other counter becomes a metric of its own.
const KNOWN: &[Metric] = &[
    Metric {
        counter: "lenient",
        name: "lenient_cases",
        label: Some("case"),
        help: "Things that the application or its peer did and that stricter adapters refuse.",
    },
    Metric {
        counter: "faults.happened",
        name: "faults_happened",
        label: None,
        help: "Faults that were injected or planned and have happened.",
    },
    Metric {
        counter: "protection_faults",
        name: "protection_faults",
        label: Some("peer"),
        help: "Messages of a peer that named memory which it may not use; others: those of peers that are not remembered any more.",
    },
    Metric {
        counter: "refused_for_faults",
        name: "connections_refused_for_faults",
        label: None,
        help: "Connections that were refused because their peer had made too many protection faults.",
    },
    Metric {
        counter: "same_host.connections",
        name: "same_host_connections",
        label: None,
        help: "Connections within this machine that went through shared memory.",
    },
    Metric {
        counter: "same_host.refused",
        name: "same_host_refused",
        label: Some("reason"),
        help: "Connections that could not go through shared memory, and offers of it that were dropped, by the reason.",
    },
    Metric {
        counter: "udp.strange_datagrams",
        name: "udp_strange_datagrams",
        label: None,
        help: "Datagrams that belong to no connection and begin none.",
    },
    Metric {
        counter: "udp.retries",
        name: "udp_retries",
        label: None,
        help: "First packets whose sender was asked to prove its address.",
    },
    Metric {
        counter: "udp.refused_connections",
        name: "udp_refused_connections",
        label: None,
        help: "Connections of QUIC that were not let in, or whose handshake has failed.",
    },
    Metric {
        counter: "udp.refused_streams",
        name: "udp_refused_streams",
        label: None,
        help: "Streams of QUIC that were refused.",
    },
    Metric {
        counter: "udp.closed_for_undelivered_octets",
        name: "udp_connections_closed_for_undelivered_data",
        label: None,
        help: "Connections of QUIC that were closed because too much received data could not be delivered.",
    },
];

/// One metric of the text.
struct Family {
    help: String,
    /// The values, by adapter and name of the counter.
    samples: BTreeMap<(String, String), u64>,
}

impl Counters {
    /// The type of the content that [`prometheus`](Self::prometheus) returns, for the header `Content-Type` of HTTP.
    pub const PROMETHEUS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// The counters of some adapters as Prometheus reads them, in the text format 0.0.4.
    ///
    /// Each adapter has a name of the caller's choice, such as its address, which becomes the label `adapter`. Counters of adapters with the
    /// same name are added. Names of metrics begin with `netdirect_` and end in `_total`. All are of the type `counter`, because counters never
    /// decrease, and none has a unit, because each is a number of events. The group `lenient` is one metric with the label `case`, and a
    /// group of counts by peer is one with the label `peer`. A counter that this function does not know becomes a metric of its own, in whose
    /// name `_` stands for each dot.
    ///
    /// Answer each request of Prometheus with counters since the adapter was opened, and not with what [`since`](Self::since) returns.
    ///
    /// ```
    /// use netdirect::Counters;
    ///
    /// let counters = Counters::from_iter([("lenient.read_sink", 3)]);
    /// assert_eq!(
    ///     Counters::prometheus([("192.0.2.1", &counters)]),
    ///     "# HELP netdirect_lenient_cases_total Things that the application or its peer did and that stricter adapters refuse.\n\
    ///      ## TYPE netdirect_lenient_cases_total counter\n\
    ///      netdirect_lenient_cases_total{adapter=\"192.0.2.1\",case=\"read_sink\"} 3\n"
    /// );
    /// ```
    #[must_use]
    pub fn prometheus<N: AsRef<str>, C: Borrow<Self>>(
        adapters: impl IntoIterator<Item = (N, C)>,
    ) -> String {
        let mut families = BTreeMap::<String, Family>::new();
        for (adapter, counters) in adapters {
            for (counter, value) in counters.borrow().iter() {
                let known = known(counter);
                let name = match known {
                    Some((metric, _)) => metric.name.to_owned(),
                    None => permitted(counter),
                };
                let family = families.entry(full(&name)).or_insert_with(|| Family {
                    help: match known {
                        Some((metric, _)) => metric.help.to_owned(),
                        None => format!("The counter {counter}."),
                    },
                    samples: BTreeMap::new(),
                });
                let place = (adapter.as_ref().to_owned(), counter.to_owned());
                let sample = family.samples.entry(place).or_insert(0);
                *sample = sample.saturating_add(value);
            }
        }
        let mut text = String::new();
        for (name, family) in &families {
            // A `String` takes everything.
            let _ = family.write(name, &mut text);
        }
        text
    }
}

impl Family {
    fn write(&self, metric: &str, text: &mut String) -> fmt::Result {
        let help = self.help.replace('\\', r"\\").replace('\n', r"\n");
        writeln!(text, "# HELP {metric} {help}")?;
        writeln!(text, "# TYPE {metric} counter")?;
        let counters: BTreeSet<_> = self.samples.keys().map(|(_, counter)| counter).collect();
        for ((adapter, counter), value) in &self.samples {
            write!(text, "{metric}{{adapter=\"{}\"", escaped(adapter))?;
            match known(counter) {
                Some((
                    Metric {
                        label: Some(label), ..
                    },
                    member,
                )) => {
                    write!(text, ",{label}=\"{}\"", escaped(member))?;
                }
                // Several counters have names that become the same.
                _ if counters.len() > 1 => write!(text, ",counter=\"{}\"", escaped(counter))?,
                _ => {}
            }
            writeln!(text, "}} {value}")?;
        }
        Ok(())
    }
}

/// The metric of a counter, and the counter's part of its group's name.
fn known(counter: &str) -> Option<(&'static Metric, &str)> {
    KNOWN.iter().find_map(|metric| {
        let rest = counter.strip_prefix(metric.counter)?;
        let member = match metric.label {
            Some(_) => rest.strip_prefix('.')?,
            None => rest.is_empty().then_some(rest)?,
        };
        Some((metric, member))
    })
}

/// The name with `_` in place of all that names of metrics must not have.
fn permitted(counter: &str) -> String {
    let is_permitted = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let letters = counter.chars();
    letters
        .map(|letter| if is_permitted(letter) { letter } else { '_' })
        .collect()
}

fn full(name: &str) -> String {
    let suffix = match name.ends_with("_total") {
        true => "",
        false => "_total",
    };
    format!("netdirect_{name}{suffix}")
}

/// The value of a label.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', r"\\").replace('"', r#"\""#);
    value.replace('\n', r"\n")
}
