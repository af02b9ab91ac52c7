//! The machine that figures were measured on.

use std::fs;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// The cargo profile that this program was built with, as its folder below `target` is called: `release`, or `debug` for a build without
/// optimisation.
pub const PROFILE: &str = env!("ND_PROFILE");

/// Facts about the machine, as names and values. Unknown values are left out.
#[must_use]
pub fn describe() -> Vec<(&'static str, String)> {
    let memory = meminfo().as_deref().and_then(gibibytes);
    let load =
        first("/proc/loadavg").and_then(|text| text.split_whitespace().next().map(str::to_owned));
    known([
        ("processor", processor()),
        ("cores", Some(cores().to_string())),
        (
            "virtual machine",
            is_virtual().map(|guest| if guest { "yes" } else { "no" }.to_owned()),
        ),
        ("memory", memory),
        ("system", system()),
        (
            "congestion control by default",
            first("/proc/sys/net/ipv4/tcp_congestion_control"),
        ),
        (
            "congestion controls available",
            first("/proc/sys/net/ipv4/tcp_available_congestion_control"),
        ),
        ("load when the run began", load),
        ("date", Some(date())),
    ])
}

/// The machine in a few words: `2 cores of Some CPU, with AVX-512, virtual machine, Linux 6.1`.
#[must_use]
pub fn summary() -> String {
    let cores = match cores() {
        1 => "1 core".to_owned(),
        cores => format!("{cores} cores"),
    };
    let suffix = processor().map_or_else(String::new, |name| format!(" of {name}"));
    let wide = has_avx512().map(|has| {
        if has {
            "with AVX-512"
        } else {
            "without AVX-512"
        }
    });
    let guest = is_virtual().filter(|guest| *guest);
    let more = [
        wide.map(str::to_owned),
        guest.map(|_| "virtual machine".to_owned()),
        system(),
    ];
    let more: String = more
        .iter()
        .flatten()
        .map(|text| format!(", {text}"))
        .collect();
    format!("{cores}{suffix}{more}")
}

/// The date in UTC: `2026-01-31`.
#[must_use]
pub fn date() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    date_of(since_1970.map_or(0, |time| time.as_secs() / 86_400))
}

/// The date this many days after 1970-01-01, in the Gregorian calendar.
fn date_of(mut days: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

/// The pairs whose value is known.
pub fn known<const N: usize>(
    all: [(&'static str, Option<String>); N],
) -> Vec<(&'static str, String)> {
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)))
        .collect()
}

/// Cores that this process may use.
#[must_use]
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The processor in a word or two: `AMD EPYC`, `Intel Xeon`. Where the system does not report it, `this processor`.
#[must_use]
pub fn short_name() -> String {
    processor().map_or_else(|| "this processor".to_owned(), |name| shortened(&name))
}

/// Without marks, words that every name has, and the frequency.
fn shortened(name: &str) -> String {
    let name = name.split(" @").next().unwrap_or(name);
    let name = name.replace("(R)", "").replace("(TM)", "");
    let words = name.split_whitespace();
    let words: Vec<_> = words
        .filter(|word| !["CPU", "Processor"].contains(word))
        .collect();
    words.join(" ")
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    field(&text, "model name").map(str::to_owned)
}

/// Whether the processor has AVX-512. `None` where the system does not say.
fn has_avx512() -> Option<bool> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = field(&text, "flags")?;
    Some(has_word(flags, "avx512f"))
}

fn is_virtual() -> Option<bool> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    Some(field(&text, "flags").is_some_and(|flags| has_word(flags, "hypervisor")))
}

fn system() -> Option<String> {
    first("/proc/sys/kernel/osrelease").map(|release| format!("Linux {release}"))
}

fn meminfo() -> Option<String> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    field(&text, "MemTotal").map(str::to_owned)
}

/// The text of a file of one line.
fn first(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// `name : value`, the first of that name.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|found| found == word)
}

/// `16384 kB` in GiB.
fn gibibytes(text: &str) -> Option<String> {
    let kib: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(format!("{:.0} GiB", kib / f64::from(1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates_of_the_gregorian_calendar() {
        for (days, date) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (11_322, "2000-12-31"),
            (11_323, "2001-01-01"),
            (20_484, "2026-01-31"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date_of(days), date);
        }
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 17\nmodel name\t: Some CPU @ 2 GHz\nflags : fpu hypervisor\n";
        assert_eq!(field(text, "model name"), Some("Some CPU @ 2 GHz"));
        assert_eq!(field(text, "name"), None);
        assert!(has_word("fpu hypervisor", "hypervisor"));
        assert!(!has_word("nohypervisor", "hypervisor"));
        assert_eq!(gibibytes("16384000 kB").as_deref(), Some("16 GiB"));
    }

    #[test]
    fn names_are_short() {
        for (name, short) in [
            ("AMD EPYC", "AMD EPYC"),
            ("Intel(R) Xeon(R) Processor", "Intel Xeon"),
            (
                "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz",
                "Intel Core i7-8700",
            ),
        ] {
            assert_eq!(shortened(name), short);
        }
        assert!(!short_name().is_empty());
    }

    #[test]
    fn every_machine_has_cores() {
        let all = describe();
        assert!(all.iter().any(|(found, _)| *found == "cores"));
        assert!(all.iter().all(|(_, value)| !value.is_empty()));
        assert!(summary().contains(&format!("{} core", cores())));
    }
}
