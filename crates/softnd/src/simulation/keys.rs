//! The keys of a URL that set [`Conditions`]: their forms, their defaults, and the protocol on which they have an effect.

use std::ops::RangeInclusive;
use std::time::Duration;

use iwarp_io::simulation::{Chance, Conditions};

use crate::provider::Protocol;

/// The adapters on whose connections a key has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Both,
    Streams,
    Datagrams,
}

/// One key.
pub(super) struct Key {
    pub(super) name: &'static str,
    of: Of,
    form: &'static str,
    /// The value of a URL without the key.
    default: &'static str,
    /// Sets the condition. `None` for a value of another form.
    set: fn(&mut Conditions, &str) -> Option<()>,
}

const CHANCE: &str = "a chance from 0 to 1, such as 0.01 or 1%";
const TIMES: &str = "a time or a range of times, such as 5us..2ms (ns, us, ms, s)";
const LENGTHS: &str = "a number of octets above 0 or a range of them, such as 1..1460 or 64k";
const OCTETS: &str = "a number of octets above 0, such as 1400 or 64k";
const OCTETS_OR_NO_LIMIT: &str = "a number of octets, such as 64k, or 0 for no limit";
const RATE: &str = "a number of octets per second, such as 10M, or 0 for no limit";

/// Makes the functions of the table.
macro_rules! set {
    ($field:ident, $parse:expr) => {
        |conditions, value| {
            conditions.$field = $parse(value)?;
            Some(())
        }
    };
}

/// A line of the table for a condition that is a chance, and never happens by default.
macro_rules! chance {
    ($name:literal, $of:ident, $field:ident) => {
        Key {
            name: $name,
            of: Of::$of,
            form: CHANCE,
            default: "0",
            set: set!($field, chance),
        }
    };
}

/// A line of the table for a time that is drawn from a range.
macro_rules! times {
    ($name:literal, $of:ident, $field:ident, $default:literal) => {
        Key {
            name: $name,
            of: Of::$of,
            form: TIMES,
            default: $default,
            set: set!($field, |value| range(value, time)),
        }
    };
}

/// The table, in the order in which messages name the keys.
const KEYS: [Key; 20] = [
    times!("latency", Both, latency, "5us..50us"),
    Key {
        name: "segment",
        of: Of::Streams,
        form: LENGTHS,
        default: "1..1460",
        set: set!(segment, |value| range(value, above_0)),
    },
    Key {
        name: "bandwidth",
        of: Of::Both,
        form: RATE,
        default: "0",
        set: set!(bandwidth, octets),
    },
    Key {
        name: "buffer",
        of: Of::Streams,
        form: OCTETS,
        default: "64k",
        set: set!(buffer, above_0),
    },
    chance!("stall", Streams, stall),
    times!("stall-time", Streams, stall_time, "1ms..100ms"),
    chance!("reset", Streams, reset),
    chance!("half-close", Streams, half_close),
    chance!("refusal", Streams, refusal),
    chance!("silence", Streams, silence),
    chance!("late-reply", Streams, late_reply),
    times!("late-reply-time", Streams, late_reply_time, "1s..600s"),
    chance!("no-reply", Streams, no_reply),
    chance!("loss", Datagrams, loss),
    chance!("duplication", Datagrams, duplication),
    chance!("reordering", Datagrams, reordering),
    times!("reordering-time", Datagrams, reordering_time, "50us..1ms"),
    chance!("corruption", Datagrams, corruption),
    Key {
        name: "datagram-buffer",
        of: Of::Datagrams,
        form: OCTETS_OR_NO_LIMIT,
        default: "0",
        set: set!(datagram_buffer, length),
    },
    Key {
        name: "largest-datagram",
        of: Of::Datagrams,
        form: OCTETS,
        default: "65507",
        set: set!(largest_datagram, above_0),
    },
];

/// The key of this name.
pub(super) fn find(name: &str) -> Result<&'static Key, String> {
    KEYS.iter()
        .find(|key| key.name == name)
        .ok_or_else(|| format!("there is no key {name:?}; keys are {}", names()))
}

/// All keys of URLs.
pub(super) fn names() -> String {
    let mut names = String::from("seed, address, protocol");
    for key in &KEYS {
        names += ", ";
        names += key.name;
    }
    names
}

impl Key {
    /// Sets the condition that the key is about.
    pub(super) fn set(&self, conditions: &mut Conditions, value: &str) -> Result<(), String> {
        (self.set)(conditions, value).ok_or_else(|| {
            format!(
                "{value:?} is not {} (of {}; without the key it is {})",
                self.form, self.name, self.default
            )
        })
    }

    /// Checks that the key has an effect on connections of this protocol.
    pub(super) fn check(&self, protocol: Protocol) -> Result<(), String> {
        match (self.of, protocol) {
            (Of::Streams, Protocol::Quic) => Err(format!(
                "{} has no effect with protocol=udp, because it is about streams; leave out one of the two",
                self.name
            )),
            (Of::Datagrams, Protocol::Streams) => Err(format!(
                "{} has no effect without protocol=udp, because it is about datagrams; add protocol=udp",
                self.name
            )),
            _ => Ok(()),
        }
    }
}

fn range<T: Clone + PartialOrd>(
    text: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<RangeInclusive<T>> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (parse(least)?, parse(most)?);
    (least <= most).then_some(least..=most)
}

fn time(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().ok()?;
    match unit {
        "ns" => Some(Duration::from_nanos(number)),
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

/// A number of octets. As in the options of `nd`, k, M, G and T are binary, and `iB` or `B` may follow.
fn octets(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|sign: char| !sign.is_ascii_digit());
    let shift = match text[digits.len()..].trim_end_matches(['i', 'B']) {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn length(text: &str) -> Option<usize> {
    octets(text)?.try_into().ok()
}

fn above_0(text: &str) -> Option<usize> {
    length(text).filter(|octets| *octets > 0)
}

fn chance(text: &str) -> Option<Chance> {
    let (digits, whole) = match text.strip_suffix('%') {
        Some(digits) => (digits, 100.0),
        None => (text, 1.0),
    };
    let chance = digits.parse::<f64>().ok()? / whole;
    if !(0.0..=1.0).contains(&chance) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 1,000,000"
    )]
    let millionths = (chance * 1e6).round() as u32;
    Some(Chance::per_million(millionths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_a_network_without_keys() {
        for key in &KEYS {
            let mut conditions = Conditions::default();
            key.set(&mut conditions, key.default).expect(key.name);
            assert_eq!(conditions, Conditions::default(), "{}", key.name);
        }
    }

    #[test]
    fn numbers_may_have_units() {
        for (text, number) in [
            ("0", 0),
            ("1400", 1400),
            ("64k", 65_536),
            ("10M", 10 << 20),
            ("1MiB", 1 << 20),
            ("2T", 2 << 40),
        ] {
            assert_eq!(octets(text), Some(number), "{text}");
        }
        for bad in [
            "",
            "k",
            "-1",
            "1.5",
            "1.5k",
            "64q",
            "64kk",
            "16777216T",
            "6M4",
        ] {
            assert_eq!(octets(bad), None, "{bad}");
        }
        for (text, millionths) in [
            ("0.01", 10_000),
            ("1%", 10_000),
            ("0.5%", 5_000),
            ("100%", 1_000_000),
            ("1", 1_000_000),
        ] {
            assert_eq!(
                chance(text).map(Chance::millionths),
                Some(millionths),
                "{text}"
            );
        }
        for bad in ["", "%", "101%", "-1%", "1.1", "NaN", "x", "1 %"] {
            assert_eq!(chance(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_key_has_an_effect_on_the_protocol_that_it_is_about() {
        let works = |name: &str, protocol| find(name).unwrap().check(protocol).is_ok();
        for (name, streams, datagrams) in [
            ("latency", true, true),
            ("bandwidth", true, true),
            ("segment", true, false),
            ("no-reply", true, false),
            ("loss", false, true),
            ("largest-datagram", false, true),
        ] {
            assert_eq!(works(name, Protocol::Streams), streams, "{name}");
            assert_eq!(works(name, Protocol::Quic), datagrams, "{name}");
        }
    }
}
