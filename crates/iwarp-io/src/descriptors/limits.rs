//! The limit of descriptors of a process on Unix.

use crate::log::targets;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The largest limit that macOS accepts for a process, whatever maximum it reports (`OPEN_MAX`).
const MOST: Option<u64> = if cfg!(target_vendor = "apple") {
    Some(10_240)
} else {
    None
};

/// The limits of open files. On Linux they are read from proc(5), because `getrlimit` cannot return an error, and some sandboxes refuse
/// the system call behind it.
fn limits() -> Rlimit {
    let text = std::fs::read_to_string("/proc/self/limits").ok();
    let of_proc = text.and_then(|text| parse(&text));
    of_proc.unwrap_or_else(|| getrlimit(Resource::Nofile))
}

/// The limits of open files in `/proc/self/limits`.
fn parse(text: &str) -> Option<Rlimit> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    let mut limits = line.split_whitespace().map(|word| match word {
        "unlimited" => Some(None),
        number => number.parse().ok().map(Some),
    });
    Some(Rlimit {
        current: limits.next()??,
        maximum: limits.next()??,
    })
}

/// Raises the process's soft limit of descriptors to the hard limit, because every connected queue pair has a descriptor.
pub fn allow() {
    let mut limit = limits();
    let maximum = limit.maximum.into_iter().chain(MOST).min();
    let is_less = |current| maximum.is_none_or(|maximum| current < maximum);
    if limit.current.is_some_and(is_less) {
        limit.current = maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(target: targets::ADAPTER, %error, "cannot raise the limit of open files");
        }
    }
}

/// The number of descriptors that the process may have.
pub fn limit() -> usize {
    let limit = limits().current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_the_system_writes_them() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 unlimited            files \n";
        let limits = parse(text).unwrap();
        assert_eq!((limits.current, limits.maximum), (Some(1024), None));
        assert!(parse("Max open files").is_none());
        let known = getrlimit(Resource::Nofile);
        assert_eq!(limits_of(&super::limits()), limits_of(&known));
    }

    fn limits_of(limits: &Rlimit) -> (Option<u64>, Option<u64>) {
        (limits.current, limits.maximum)
    }
}
