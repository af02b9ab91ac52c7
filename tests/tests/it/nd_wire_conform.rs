//! `nd wire-conform` as a program: exit statuses, reports, the target as its own process.

use std::fs;

use softnd_tests::args;
use softnd_tests::nd::{self, Nd};

/// Returns the output of a process behind these words.
fn after(process: &mut Nd, words: &str) -> String {
    process.wait_for(|line| Some(line.split_once(words)?.1.trim_end().to_owned()))
}

/// A target that listens, and its address.
fn target() -> (Nd, String) {
    let mut target = nd::start([
        "wire-conform",
        "target",
        "softnd+tcp://127.0.0.1",
        "--listen",
        "127.0.0.1:0",
    ]);
    let address = after(&mut target, "listening on ");
    (target, address)
}

#[test]
fn what_passes_is_status_0_and_a_report() {
    let (_target, address) = target();
    let found = nd::run(["wire-conform", &address, "--only", "MPA-053,RDMAP-033"]);
    assert_eq!(found.status.code(), Some(0), "{found:?}");
    assert!(found.stdout.contains("pass    MPA-053.sent"), "{found:?}");
    assert!(found.stdout.contains("2 checks: 2 passed"), "{found:?}");
    let json = nd::run([
        "wire-conform",
        &address,
        "--only",
        "MPA-053",
        "--format",
        "json",
    ]);
    assert!(json.stdout.contains("\"outcome\": \"pass\""), "{json:?}");
    for (format, mark) in [
        ("junit", "<testsuites "),
        ("html", "<!DOCTYPE html>"),
        ("markdown", "| pass | `MPA-053.sent` |"),
    ] {
        let report = nd::run([
            "wire-conform",
            &address,
            "--only",
            "MPA-053",
            "--format",
            format,
        ]);
        assert!(report.stdout.contains(mark), "{report:?}");
    }
}

#[test]
fn a_failing_should_is_status_1_with_strict_only() {
    let (_target, address) = target();
    // No target gives up a peer so soon.
    let hasty = [
        "wire-conform",
        &address,
        "--only",
        "MPA-023",
        "--startup",
        "0.2",
    ];
    let lenient = nd::run(hasty);
    assert_eq!(lenient.status.code(), Some(0), "{lenient:?}");
    assert!(
        lenient.stdout.contains("should  MPA-023.silence"),
        "{lenient:?}"
    );
    let strict = nd::run(hasty.into_iter().chain(["--strict"]));
    assert_eq!(strict.status.code(), Some(1), "{strict:?}");
}

#[test]
fn known_deviations_are_data() {
    let (_target, address) = target();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known.toml");
    let hasty = args![
        "wire-conform",
        &address,
        "--only",
        "MPA-023",
        "--startup",
        "0.2",
        "--strict",
        "--deviations",
        &file
    ];
    fs::write(
        &file,
        "peer = 'a test'\n[[deviation]]\ncheck = 'MPA-023'\nreason = 'takes its time'\nsource = 'this test'\n",
    )
    .unwrap();
    let known = nd::run(&hasty);
    assert_eq!(known.status.code(), Some(0), "{known:?}");
    assert!(
        known.stdout.contains("takes its time (this test)"),
        "{known:?}"
    );
    fs::write(
        &file,
        "[[deviation]]\ncheck = 'MPA-999'\nreason = 'x'\nsource = 'y'\n",
    )
    .unwrap();
    let wrong = nd::run(&hasty);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("MPA-999"), "{wrong:?}");
}

#[test]
fn what_cannot_be_checked_is_status_2_and_one_line() {
    let nowhere = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    for (arguments, hint) in [
        (&["wire-conform", &nowhere][..], "cannot connect"),
        (&["wire-conform", &nowhere, "--only", "XYZ-1"], "XYZ-1"),
        (
            &["wire-conform", &nowhere, "--only", "MPA-082"],
            "the row MPA-082 has no check (depends on the EMSS",
        ),
        (&["wire-conform", "nonsense"], "HOST:PORT"),
        (
            &["wire-conform", &nowhere, "--deviations", "no/such/file"],
            "siw-6.1",
        ),
    ] {
        let found = nd::run(arguments);
        assert_eq!(found.status.code(), Some(2), "{found:?}");
        assert!(found.stderr.contains(hint), "{found:?}");
        assert_eq!(found.stderr.lines().count(), 1, "{found:?}");
    }
    let usage = nd::run(["wire-conform"]);
    assert_eq!(usage.status.code(), Some(2), "{usage:?}");
}

#[test]
fn a_list_needs_no_target() {
    let list = nd::run(["wire-conform", "--list", "--only", "SEC-033"]);
    assert_eq!(list.status.code(), Some(0), "{list:?}");
    assert!(list.stdout.contains("SEC-033.first"), "{list:?}");
    assert!(!list.stdout.contains("MPA-053"), "{list:?}");
}

#[test]
fn the_target_connects_to_a_suite_that_listens() {
    let mut suite = nd::start([
        "wire-conform",
        "--listen",
        "127.0.0.1:0",
        "--only",
        "MPA-001,RDMAP-047",
    ]);
    let address = after(&mut suite, "waiting for a target on ");
    let _target = nd::start([
        "wire-conform",
        "target",
        "softnd+tcp://127.0.0.1",
        "--connect",
        &address,
    ]);
    let found = suite.finish();
    assert_eq!(found.status.code(), Some(0), "{found:?}");
    assert!(found.stdout.contains("3 checks: 3 passed"), "{found:?}");
}

/// Enough to show that both sides exchange frames, FPDUs and a Terminate.
const SOME: [&str; 2] = ["--only", "MPA-021,MPA2-032,RDMAP-047,RDMAP-074"];

#[test]
fn a_target_is_checked_over_udp_in_both_roles() {
    let url = "softnd+udp://127.0.0.1";
    let listen = ["wire-conform", "target", url, "--listen", "127.0.0.1:0"];
    let mut target = nd::start(listen);
    let address = after(&mut target, "listening on ");
    let pin = target.wait_for(|line| Some(line.split_once("--pin ")?.1.trim().to_owned()));
    let suite = ["wire-conform", &address, "--udp"];
    let run = |trust: &[&str]| nd::run(suite.iter().chain(trust).chain(&SOME));
    for trust in [&["--pin", &pin][..], &["--insecure"]] {
        let found = run(trust);
        assert_eq!(found.status.code(), Some(0), "{found}");
        assert!(found.stdout.contains("pass    RDMAP-047"), "{found}");
        assert!(found.stdout.contains("over UDP: conforms"), "{found}");
    }
    let untrusted = run(&[]);
    assert_eq!(untrusted.status.code(), Some(2), "{untrusted}");
    untrusted.assert_failure(&format!(
        "if that is what the target printed, add --pin {pin}"
    ));

    let listen = ["wire-conform", "--udp", "--listen", "127.0.0.1:0"];
    let mut suite = nd::start(listen.iter().chain(&SOME));
    let address = after(&mut suite, "waiting for a target on ");
    let pin = after(&mut suite, "the target connects with --pin ");
    let connect = ["wire-conform", "target", url, "--connect", &address];
    let _target = nd::start(connect.iter().chain(&["--pin", &pin]));
    let found = suite.finish();
    assert_eq!(found.status.code(), Some(0), "{found}");
    assert!(found.stdout.contains("over UDP: conforms"), "{found}");
}
