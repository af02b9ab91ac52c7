//! The machine that figures were measured on.

use std::fs;
use std::process::Command;

use super::process::cores;

/// What is known of it, as name and value; what cannot be found out is left out.
#[must_use]
pub fn describe() -> Vec<(&'static str, String)> {
    let processor = fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| field(&text, "model name").map(str::to_owned));
    let memory = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| field(&text, "MemTotal").and_then(gibibytes));
    let first = |path: &str| {
        let text = fs::read_to_string(path).ok()?;
        Some(text.trim().to_owned())
    };
    let virtual_ = fs::read_to_string("/proc/cpuinfo").ok().map(|text| {
        let guest = field(&text, "flags").is_some_and(|flags| has_word(flags, "hypervisor"));
        if guest { "yes" } else { "no" }.to_owned()
    });
    let system = first("/proc/sys/kernel/osrelease").map(|release| format!("Linux {release}"));
    let load =
        first("/proc/loadavg").and_then(|text| text.split_whitespace().next().map(str::to_owned));
    [
        ("processor", processor),
        ("cores", Some(cores().to_string())),
        ("virtual machine", virtual_),
        ("memory", memory),
        ("system", system),
        (
            "congestion control by default",
            first("/proc/sys/net/ipv4/tcp_congestion_control"),
        ),
        (
            "congestion controls available",
            first("/proc/sys/net/ipv4/tcp_available_congestion_control"),
        ),
        ("load when the run began", load),
        ("softnd", Some(version())),
        ("UCX", package("ucx-utils")),
        ("libfabric", package("libfabric-bin")),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)))
    .collect()
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

/// The version of the workspace, and the commit if this is a clone.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut git = Command::new("git");
    git.args([
        "-C",
        env!("CARGO_MANIFEST_DIR"),
        "describe",
        "--always",
        "--dirty",
    ]);
    match said(git) {
        Some(commit) => format!("{version}, commit {commit}"),
        None => version.to_owned(),
    }
}

/// The version of an installed package, where dpkg knows packages.
fn package(name: &str) -> Option<String> {
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${Version}", name]);
    said(query)
}

fn said(mut command: Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_machine_has_cores_and_a_version() {
        let all = describe();
        for name in ["cores", "softnd"] {
            assert!(all.iter().any(|(found, _)| *found == name), "{name}");
        }
        assert!(all.iter().all(|(_, value)| !value.is_empty()));
    }
}
