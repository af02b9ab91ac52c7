//! The log in JSON: every line about a connection has the fields of its span.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;
use softnd_tests::{nd, tool};

const JSON: [&str; 3] = ["-vv", "--log-format", "json"];

/// The lines of the log among what a program has said.
fn lines(said: &str) -> Vec<Value> {
    let lines = said.lines().filter(|line| line.starts_with('{'));
    let lines = lines.map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// The fields of the connection that started, which all lines of targets about single connections share.
fn connection(said: &str) -> Value {
    let lines = lines(said);
    let span = |line: &Value| line["span"].clone();
    let starts = lines
        .iter()
        .find(|line| line["message"] == "a connection starts");
    let started = span(starts.unwrap_or_else(|| panic!("no line for the start: {said}")));
    let ends = lines.iter().find(|line| {
        let message = line["message"].as_str().unwrap();
        message.starts_with("the connection ended: ")
    });
    assert_eq!(
        span(ends.unwrap_or_else(|| panic!("no line for the end: {said}"))),
        started
    );
    for line in &lines {
        let target = line["target"].as_str().unwrap();
        if matches!(target, "softnd::connection" | "softnd::faults") {
            assert_eq!(span(line), started, "{line}");
        }
    }
    let keys: BTreeSet<_> = started
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = ["local", "name", "peer", "queue_pair", "transport"];
    assert_eq!(keys, BTreeSet::from(expected), "{started}");
    assert_eq!(started["name"], "connection");
    assert!(started["queue_pair"].as_u64().unwrap() > 0, "{started}");
    started
}

/// Sends a file with a fault on the way, and compares what both ends say. The fault is the receiver's: a reset of the sender's can come before
/// the receiver has read its first block, and it then waits for another sender.
fn both_ends_name_the_connection(url: &str, transport: &str, of_sender: &[&str]) {
    let [sender, receiver] = connections(url, "", of_sender);
    for side in [&sender, &receiver] {
        assert_eq!(side["transport"], transport, "{side}");
    }
}

/// The spans of the connection at the sender and at the receiver of a file, which agree on the addresses.
fn connections(url: &str, of_receiver: &str, of_sender: &[&str]) -> [Value; 2] {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    std::fs::write(&from, vec![7; 3_000_000]).unwrap();
    let mut recv = nd::shell(&format!(
        "SOFTND_SAME_HOST=0 exec {} {} cat recv {of_receiver} --url {url} --listen 127.0.0.1:0 --out {} \
         --fault 'when 3rd Write received: reset'",
        nd::binary().display(),
        JSON.join(" "),
        to.display()
    ));
    let address = recv.address();
    let send = Command::new(nd::binary())
        .args(JSON)
        .args(["cat", "send"])
        .arg(&from)
        .arg(address.to_string())
        .args(of_sender)
        .env("SOFTND_SAME_HOST", "0")
        .output()
        .unwrap();
    assert!(!send.status.success());
    let sender = connection(&String::from_utf8(send.stderr).unwrap());
    let receiver = connection(&recv.finish().stderr);
    assert_eq!(sender["peer"], address.to_string());
    assert_eq!(receiver["local"], address.to_string());
    assert_eq!(sender["local"], receiver["peer"]);
    [sender, receiver]
}

#[test]
fn both_ends_name_the_connection_over_tcp() {
    both_ends_name_the_connection("softnd+tcp://127.0.0.1", "tcp", &[]);
}

/// The span is older than the decision. If the receiver does not have the processor in time, the connection is over TCP, and both say so.
#[cfg(target_os = "linux")]
#[test]
fn both_ends_name_the_connection_through_shared_memory() {
    loop {
        let ends = connections("softnd+tcp://127.0.0.1", "--same-host", &["--same-host"]);
        let names = ends.map(|end| end["transport"].as_str().unwrap().to_owned());
        assert_eq!(names[0], names[1]);
        if names[0] == "shm" {
            return;
        }
        assert_eq!(names[0], "tcp");
    }
}

#[test]
fn both_ends_name_the_connection_over_udp() {
    both_ends_name_the_connection("softnd+udp://127.0.0.1", "udp", &["--udp", "--insecure"]);
}

/// The number of the queue pair is the program's own.
#[cfg(target_os = "linux")]
#[test]
fn the_log_of_a_verbs_program_names_its_connections() {
    use softnd_tests::verbs_programs::{Server, free_port};

    if tool::find("rping").is_none() {
        return;
    }
    let port = free_port();
    let common = ["-a", "127.0.0.1", "-p", &port, "-C", "3"];
    let server = Server::start(&[&["rping", "-s"][..], &common].concat());
    let (client, said) = loop {
        let client = Command::new(nd::binary())
            .arg("run")
            .args(JSON)
            .args(["--", "rping", "-c"])
            .args(common)
            .env("SOFTND_SAME_HOST", "0")
            .output()
            .unwrap();
        let said = String::from_utf8(client.stderr.clone()).unwrap();
        // The server may not listen yet.
        if !said.contains("refused") {
            break (client, said);
        }
    };
    drop(server);
    assert!(client.status.success(), "{said}");
    let span = connection(&said);
    assert_eq!(span["transport"], "tcp", "{span}");
    assert_eq!(span["peer"], format!("127.0.0.1:{port}"), "{span}");
    let printed = String::from_utf8(client.stdout).unwrap();
    assert!(!printed.contains("\"level\""), "{printed}");
}

#[test]
fn without_v_a_verbs_program_has_no_log() {
    nd::build_libraries();
    if tool::find("ibv_devinfo").is_none() {
        return;
    }
    let run = |options: &[&str]| {
        let output = Command::new(nd::binary())
            .arg("run")
            .args(options)
            .args(["--", "ibv_devinfo"])
            .env("RUST_LOG", "softnd=loud")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), said)
    };
    assert_eq!(run(&[]), (true, String::new()));
    let (worked, said) = run(&["-v"]);
    assert!(!worked && said.contains("RUST_LOG is no filter"), "{said}");
}

#[test]
fn a_failed_connect_is_a_line_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    std::fs::write(&from, "x").unwrap();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let send = Command::new(nd::binary())
        .args(["-v", "--log-format", "json", "cat", "send"])
        .arg(&from)
        .arg(closed.to_string())
        .env("SOFTND_SAME_HOST", "0")
        .output()
        .unwrap();
    let said = String::from_utf8(send.stderr).unwrap();
    let lines = lines(&said);
    let [line] = &lines[..] else {
        panic!("{said}");
    };
    assert_eq!(line["message"], "no connection");
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["target"], "softnd::connect");
    assert!(
        line["failure"].as_str().unwrap().contains("refused"),
        "{line}"
    );
    assert_eq!(line["span"]["peer"], closed.to_string(), "{line}");
    assert_eq!(line["span"]["transport"], "tcp", "{line}");
    let local = line["span"]["local"].as_str().unwrap();
    assert!(
        local.starts_with("127.0.0.1:") && local != closed.to_string(),
        "{line}"
    );
}
