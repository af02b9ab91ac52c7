//! Sizes, rates and times as people read them.

use std::time::Duration;

/// A size in binary units, exact where it is a whole number of them: `64 KiB`, `1.5 MiB`, `4097 B`.
#[must_use]
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut unit = 0;
    let mut scale = 1024_u64;
    while unit + 1 < UNITS.len() && n / scale >= 1024 {
        scale *= 1024;
        unit += 1;
    }
    if n.is_multiple_of(scale) {
        format!("{} {}", n / scale, UNITS[unit])
    } else {
        format!("{:.1} {}", ratio(n, scale), UNITS[unit])
    }
}

/// A whole number with its thousands apart: `1 048 576`.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Octets in a time, in decimal units as network rates are given: `1.23 GB/s`.
#[must_use]
pub fn rate(n: u64, time: Duration) -> String {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
    let per_second = ratio(n, nanos) * 1e9;
    match per_second {
        r if r >= 1e9 => format!("{:.2} GB/s", r / 1e9),
        r if r >= 1e6 => format!("{:.0} MB/s", r / 1e6),
        r if r >= 1e3 => format!("{:.0} kB/s", r / 1e3),
        r => format!("{r:.0} B/s"),
    }
}

/// A time with three digits or so: `8.3 µs`, `12 ms`, `2.41 s`.
#[must_use]
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-2 => format!("{:.0} ms", s * 1e3),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s if s >= 1e-4 => format!("{:.0} µs", s * 1e6),
        s => format!("{:.1} µs", s * 1e6),
    }
}

/// A number with this many digits behind the point. A number below 1 gets more digits if it has leading zeros, so that only 0 is shown as
/// 0.
#[must_use]
pub fn decimal(number: f64, digits: usize) -> String {
    // At most 20 digits, because nothing here can measure a smaller figure above 0.
    let mut text = format!("{number:.digits$}");
    for more in digits + 1..20 {
        let shown = text.trim_start_matches(['-', '0', '.']).len();
        if number == 0.0 || !number.is_finite() || number.abs() >= 1.0 || shown >= digits {
            break;
        }
        text = format!("{number:.more$}");
    }
    text
}

/// Only for display, because above 2^53 the last digits are lost.
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_show_as_many_digits_however_small_the_number_is() {
        assert_eq!(decimal(0.95, 4), "0.9500");
        assert_eq!(decimal(0.051_234, 4), "0.05123");
        assert_eq!(decimal(0.000_032, 2), "0.000032");
        assert_eq!(decimal(-0.000_032, 2), "-0.000032");
        assert_eq!(decimal(12.345, 2), "12.35");
        assert_eq!(decimal(0.0, 2), "0.00");
        assert_eq!(decimal(f64::NAN, 2), "NaN");
    }

    #[test]
    fn sizes_are_exact_when_they_can_be() {
        for (n, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (65_537, "64.0 KiB"),
            (1 << 20, "1 MiB"),
            (3 << 19, "1.5 MiB"),
            (300 << 20, "300 MiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        assert_eq!(
            (count(7), count(999), count(1000)),
            ("7".into(), "999".into(), "1 000".into())
        );
        assert_eq!(count(1_048_576), "1 048 576");
    }

    #[test]
    fn rates_survive_no_time_at_all() {
        assert_eq!(rate(1_230_000_000, Duration::from_secs(1)), "1.23 GB/s");
        assert_eq!(rate(0, Duration::ZERO), "0 B/s");
        assert_eq!(rate(5_000, Duration::from_secs(1)), "5 kB/s");
    }

    #[test]
    fn times_keep_three_digits() {
        assert_eq!(time(Duration::from_micros(8_300)), "8.3 ms");
        assert_eq!(time(Duration::from_nanos(8_312)), "8.3 µs");
        assert_eq!(time(Duration::from_millis(2_410)), "2.41 s");
    }
}
