//! The machine and the programs with which figures were measured.

use std::env;
use std::process::Command;

/// Facts about the machine, the version of softnd, and those of the programs of these packages, as names and values. Unknown values are
/// left out.
#[must_use]
pub fn describe(version: &str, packages: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    let softnd = [("softnd", version.to_owned())];
    let others = packages
        .iter()
        .filter_map(|(name, file)| Some((*name, package(file)?)));
    nd_perf::machine::describe()
        .into_iter()
        .chain(softnd)
        .chain(others)
        .collect()
}

/// Names the commit where this program runs far from its clone, as in a guest.
const COMMIT: &str = "SOFTND_COMMIT";

/// The version of the workspace, and the commit if it is known. It is to be asked for before a part of a page is written, because the
/// clone has changes from then on.
#[must_use]
pub fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut git = Command::new("git");
    git.args([
        "-C",
        env!("CARGO_MANIFEST_DIR"),
        "describe",
        "--always",
        "--dirty",
    ]);
    let given = env::var(COMMIT).ok().filter(|commit| !commit.is_empty());
    match given.or_else(|| said(git)) {
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
    fn every_machine_has_cores_and_a_version() {
        let all = describe(&version(), &[("nothing", "no-such-package")]);
        for name in ["cores", "softnd"] {
            assert!(all.iter().any(|(found, _)| *found == name), "{name}");
        }
        assert!(all.iter().all(|(_, value)| !value.is_empty()));
        assert!(all.iter().all(|(name, _)| *name != "nothing"));
    }
}
