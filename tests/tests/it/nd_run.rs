//! `nd run`: Debian's programs for verbs, unmodified, over softnd's libraries.

use std::process::{Command, Stdio};

use softnd_tests::verbs_programs::{Server, free_port, nd_run, run};
use softnd_tests::{nd, tool};

/// What a program prints that must succeed.
fn output(program: &[&str]) -> String {
    let output = nd_run(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn programs_find_a_device() {
    if tool::find("ibv_devices").is_none() {
        return;
    }
    let devices = output(&["ibv_devices"]);
    assert!(devices.contains("softnd0"), "{devices}");
    let info = output(&["ibv_devinfo", "-v"]);
    for line in [
        "InfiniBand (0)",
        "PORT_ACTIVE (4)",
        "link_layer:\t\tEthernet",
        "RoCE v2",
    ] {
        assert!(info.contains(line), "{line}: {info}");
    }
    let mut as_iwarp = Command::new(nd::binary());
    let as_iwarp = as_iwarp.args(["run", "--as", "iwarp", "--", "ibv_devinfo"]);
    let info = String::from_utf8(as_iwarp.output().unwrap().stdout).unwrap();
    assert!(info.contains("iWARP (1)"), "{info}");
}

#[test]
fn rping_verifies_its_data() {
    if tool::find("rping").is_none() {
        return;
    }
    let port = free_port();
    let common = [
        "-a",
        "127.0.0.1",
        "-p",
        &port,
        "-C",
        "20",
        "-V",
        "-S",
        "4096",
    ];
    let server = Server::start(&[&["rping", "-s"][..], &common].concat());
    run(&[&["rping", "-c"][..], &common].concat());
    drop(server);
}

#[test]
fn ib_send_lat_measures() {
    if tool::find("ib_send_lat").is_none() {
        return;
    }
    let port = free_port();
    let common = ["ib_send_lat", "-R", "-F", "-n", "50", "-p", &port];
    let server = Server::start(&common);
    let measured = run(&[&common[..], &["127.0.0.1"]].concat());
    assert!(measured.contains("t_typical[usec]"), "{measured}");
    server.ends_well();
}

#[test]
fn the_program_keeps_its_status_and_its_streams() {
    let mut shell = nd_run(&["sh", "-c", "cat; echo to stderr >&2; exit 7"]);
    shell.stdin(Stdio::null());
    let output = shell.output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stderr, b"to stderr\n");
    let killed = nd_run(&["sh", "-c", "kill -KILL $$"]).output().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&killed.status),
        Some(9)
    );
}

#[test]
fn what_cannot_be_run_is_one_line() {
    for (args, expected) in [
        (
            &["run", "--", "no-such-program"][..],
            "no program no-such-program in PATH",
        ),
        (
            &["run", "--interface", "none0", "--", "sh"],
            "no interface none0",
        ),
        (&["run", "--ports", "9-8", "--", "sh"], "9 is above 8"),
    ] {
        // The libraries have to be there.
        let _ = nd_run(&["true"]);
        let output = Command::new(nd::binary()).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{args:?}");
        assert!(said.contains(expected), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
