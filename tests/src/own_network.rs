//! Tests that run in a network namespace of their own, with the interfaces and addresses that they name.

use std::env;
use std::process::Command;

use crate::{nd, tool};

/// The variable that is set in such a namespace.
const INSIDE: &str = "SOFTND_TEST_NETWORK";

/// The exit status of the shell when the machine cannot have such a network.
const REFUSED: i32 = 77;

/// Runs `body` in a network of its own, which the shell commands of `network` have made. `test` is the name of the calling test, with its
/// modules. The test calls this and does nothing else: the namespace has a process that runs the test again.
///
/// Outside, the test is skipped by name where the machine refuses such a network.
///
/// # Panics
/// If the test fails inside.
#[track_caller]
pub fn inside(test: &str, network: &str, body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return body();
    }
    let (Some(unshare), Some(_)) = (tool::find("unshare"), tool::find("ip")) else {
        return;
    };
    let myself = env::current_exe().expect("a test knows its own path");
    let script = format!("(set -e; {network}) || exit {REFUSED}; exec \"$@\"");
    let mut command = Command::new(unshare);
    nd::built_for(&mut command);
    let output = command
        .args(["--user", "--map-root-user", "--net", "sh", "-c", &script])
        .arg("sh")
        .arg(myself)
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare starts");
    let said = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
    let never_ran = !stdout.contains("running 1 test");
    if never_ran && (output.status.code() == Some(REFUSED) || !output.status.success()) {
        return tool::skip_here(&format!("no such network can be made: {}", stderr.trim()));
    }
    let passed = output.status.success() && stdout.contains("1 passed");
    assert!(passed, "{test}: {}\n{stdout}\n{stderr}", output.status);
    // What is skipped inside is skipped.
    for line in stderr.lines().filter(|line| line.starts_with("skipped: ")) {
        eprintln!("{line}");
    }
}

/// Changes the network from inside.
///
/// # Panics
/// If `ip` refuses.
#[track_caller]
pub fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    let status = status.expect("ip starts");
    assert!(status.success(), "ip {words}: {status}");
}
