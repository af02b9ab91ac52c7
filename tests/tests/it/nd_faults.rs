//! `nd … --fault` and `SOFTND_FAULTS`: a plan takes effect, and the error of a wrong plan shows the place.

use std::process::Command;

use softnd_tests::nd::Finished;
use softnd_tests::{args, nd};

/// A server that follows one plan and a client that follows another.
fn rping(of_server: &[&str], of_client: &[&str]) -> (Finished, Finished) {
    let line = ["rping", "-s", "-a", "127.0.0.1", "-p", "0"];
    let mut server = nd::start(line.iter().chain(of_server));
    let port = server.address().port().to_string();
    let line = [
        "-vv",
        "rping",
        "-c",
        "-a",
        "127.0.0.1",
        "-p",
        &port,
        "-C",
        "5",
    ];
    let client = nd::start(line.iter().chain(of_client)).finish();
    (server.finish(), client)
}

#[test]
fn a_plan_is_followed_and_each_fault_is_logged() {
    let plan = "when 2nd Send sent: reset";
    let (_, client) = rping(&[], &["--fault", plan]);
    assert!(!client.status.success(), "{client}");
    let logged = client
        .stderr
        .lines()
        .filter(|line| line.contains("a fault of the plan happens"));
    let logged: Vec<_> = logged.collect();
    let [line] = logged[..] else {
        panic!("one line: {client}");
    };
    for part in ["line=1", plan, "connection=1", "peer=127.0.0.1:"] {
        assert!(line.contains(part), "{part} is missing: {line}");
    }
}

#[test]
fn a_plan_that_never_happens_changes_nothing() {
    let (server, client) = rping(
        &["--fault", "when 1000th Send sent: reset"],
        &["--fault", "when 3rd connect: refuse"],
    );
    for side in [server, client] {
        side.assert_success();
        assert!(!side.stderr.contains("a fault of the plan"), "{side}");
    }
}

/// The least that `nd perf` measures.
const PERF: [&str; 14] = [
    "--op",
    "send",
    "--test",
    "latency",
    "--size",
    "8",
    "--mode",
    "event",
    "--crc",
    "off",
    "--turns",
    "3",
    "--duration",
    "0.006",
];

#[test]
fn a_measurement_meets_the_faults_of_a_plan() {
    let plan = "when 10th Send sent: reset";
    let line = ["-vv", "perf", "local", "--fault", plan];
    let run = nd::run(line.iter().chain(&PERF));
    assert!(!run.status.success(), "{run}");
    assert!(run.stderr.contains("cannot go on with the test"), "{run}");
    let logged = run.stderr.lines();
    let logged = logged.filter(|line| line.contains("a fault of the plan happens"));
    // The plan is that of the process that runs the tests, and not of the other one.
    assert_eq!(logged.count(), 1, "{run}");
    assert!(run.stdout.contains("incomplete"), "{run}");
}

#[test]
fn each_side_of_a_measurement_has_a_plan_of_its_own() {
    let plan = "when 1st Listen called: fail with ND_INSUFFICIENT_RESOURCES";
    let mut serve = nd::start(["perf", "serve", "--fault", plan]);
    let address = serve.address().to_string();
    // Each row begins the plan anew.
    for _ in 0..2 {
        let run = nd::run(["perf", "run", &address].iter().chain(&PERF));
        run.assert_failure("the other side gave up: cannot listen on 127.0.0.1:0");
    }
    let mut serve = nd::start(["perf", "serve"]);
    let address = serve.address().to_string();
    for (plan, fails) in [
        (
            "when 1st Listen called: fail with ND_INSUFFICIENT_RESOURCES",
            false,
        ),
        (
            "when 1st CreateConnector called: fail with ND_NO_MEMORY",
            true,
        ),
    ] {
        let line = ["perf", "run", &address, "--fault", plan];
        let run = nd::run(line.iter().chain(&PERF));
        if fails {
            run.assert_failure("cannot create a connector");
        } else {
            run.assert_success();
        }
    }
}

#[test]
fn a_wrong_plan_of_a_measurement_is_shown_before_it_begins() {
    for command in [&["local"][..], &["serve"], &["run", "127.0.0.1:1"]] {
        let plan = ["--fault", "when 1st Write send: reset"];
        let run = nd::run(["perf"].iter().chain(command).chain(&plan));
        assert!(!run.status.success() && run.stdout.is_empty(), "{run}");
        for part in [
            "expected `sent` or `received`, found `send`",
            "\n  when 1st Write send: reset\n                 ^",
        ] {
            assert!(run.stderr.contains(part), "{part}: {run}");
        }
    }
}

#[test]
fn a_plan_comes_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan");
    std::fs::write(&path, "# nobody gets through\nwhen each connect: refuse\n").unwrap();
    let plan = format!("@{}", path.display());
    let client = nd::run(args![
        "-vv",
        "rping",
        "-c",
        "-a",
        "127.0.0.1",
        "-p",
        "1",
        "--fault",
        plan
    ]);
    assert!(!client.status.success(), "{client}");
    assert!(client.stderr.contains("line=2"), "{client}");
}

#[test]
fn a_wrong_plan_is_shown_with_the_place() {
    let failed = nd::run(args!["demo", "--fault", "when 1st Write send: reset"]);
    assert!(!failed.status.success());
    let shown = "\n  when 1st Write send: reset\n                 ^";
    assert!(
        failed
            .stderr
            .contains("line 1, column 16: expected `sent` or `received`, found `send`"),
        "{failed}"
    );
    assert!(failed.stderr.contains(shown), "{failed}");
}

fn with_environment(plan: &str) -> (bool, String) {
    let mut command = Command::new(nd::binary());
    let client = command.args(["-vv", "rping", "-c", "-a", "127.0.0.1", "-p", "1"]);
    let output = client.env("SOFTND_FAULTS", plan).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), said)
}

#[test]
fn the_environment_has_a_plan_for_adapters_without() {
    let (ended_well, said) = with_environment("when each connect: refuse");
    assert!(
        !ended_well && said.contains("a fault of the plan happens"),
        "{said}"
    );
    let (ended_well, said) = with_environment("when each connect: refused");
    assert!(!ended_well, "{said}");
    assert!(
        said.contains("SOFTND_FAULTS: fault plan, line 1, column 20: expected `refuse`"),
        "{said}"
    );
    let (ended_well, said) = with_environment("when 1st Listen called: fail with ND_NOTHING");
    assert!(!ended_well, "{said}");
    assert!(
        said.contains(
            "SOFTND_FAULTS: fault plan, line 1, column 35: expected the name of a status"
        ),
        "{said}"
    );
}

/// Each line of the log is an object, and the end of a connection says who ended it and by what.
#[test]
fn the_log_in_json_has_the_fields_of_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::write(&from, vec![7; 3_000_000]).unwrap();
    let options = "-v --log-format json";
    let mut recv = nd::shell(&format!(
        "exec {} {options} cat recv --listen 127.0.0.1:0 --out {}",
        nd::binary().display(),
        to.display()
    ));
    let address = recv.address();
    let send = std::process::Command::new(nd::binary())
        .args(options.split(' '))
        .args(["cat", "send"])
        .arg(&from)
        .arg(address.to_string())
        .args([
            "--fault",
            "when 2nd FPDU of 3rd Write sent: flip bit 9 of payload",
        ])
        .output()
        .unwrap();
    assert!(!send.status.success());
    let said = String::from_utf8(send.stderr).unwrap();
    let end = said
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find(|line| {
            line["message"]
                .as_str()
                .is_some_and(|text| text.starts_with("the connection ended"))
        })
        .unwrap_or_else(|| panic!("no line for the end: {said}"));
    assert_eq!(end["span"]["peer"], address.to_string(), "{end}");
    assert_eq!(end["by"], "Peer", "{end}");
    assert_eq!(end["terminate"], "2/0/02", "{end}");
}
