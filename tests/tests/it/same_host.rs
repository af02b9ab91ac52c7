//! Connections within one machine through shared memory, between processes.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use softnd_tests::nd::{self, Finished, Nd};
use softnd_tests::tool;
use softnd_tests::verbs_programs::free_port;

const SHARED: &str = "a connection within this machine is over shared memory";

/// The reason of a connector whose listener has not had the processor in time.
const NOT_IN_TIME: &str = "the listener has not answered in time";

/// Whether a side says that its connection is over shared memory, in the log, in the span of the connection and in its report, and its reason
/// if it is not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Way {
    shared: bool,
    reason: Option<String>,
}

impl Way {
    pub(crate) fn of(side: &Finished) -> Self {
        side.assert_success();
        let said = &side.stderr;
        let lines = said.lines().filter(|line| line.starts_with('{'));
        let lines: Vec<Value> = lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let reasons = lines.iter().filter_map(|line| line["reason"].as_str());
        let shared = lines.iter().any(|line| line["message"] == SHARED);
        let (transport, report) = match shared {
            true => ("shm", "by write through shared memory in "),
            false => ("tcp", "by write over TCP in "),
        };
        assert!(side.stdout.contains(report), "{side}");
        let starts = |line: &&Value| line["message"] == "a connection starts";
        let start = lines.iter().find(starts).unwrap();
        assert_eq!(start["span"]["transport"], transport, "{side}");
        Self {
            shared,
            reason: reasons.map(str::to_owned).next(),
        }
    }
}

pub(crate) const SHARED_WAY: Way = Way {
    shared: true,
    reason: None,
};

pub(crate) fn over_tcp(reason: Option<&str>) -> Way {
    Way {
        shared: false,
        reason: reason.map(str::to_owned),
    }
}

/// Starts `nd`, behind another program if one is named.
fn start(by: &[OsString], args: Vec<OsString>) -> Nd {
    if by.is_empty() {
        nd::start(args)
    } else {
        nd::start_by(by, args)
    }
}

/// Sends a file from one process to another, each with what is to stand before `nd`, and compares the copy. Returns the ways of the receiver
/// and of the sender. Sends the file again if the receiver has not had the processor in time to agree.
fn cat(by: [&[OsString]; 2], options: [&[&str]; 2]) -> [Way; 2] {
    loop {
        let ways = cat_once(by, options);
        if ways[1].reason.as_deref() != Some(NOT_IN_TIME) {
            return ways;
        }
    }
}

fn cat_once(by: [&[OsString]; 2], options: [&[&str]; 2]) -> [Way; 2] {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let octets: Vec<u8> = (0..=250).cycle().take(5_000_000).collect();
    fs::write(&from, &octets).unwrap();
    let args = |args: &[&str], path: &Path, more: &[&str], side: usize| -> Vec<OsString> {
        let log = ["-vv", "--log-format", "json", "cat"];
        let before = log.iter().chain(args).map(OsString::from);
        let behind = more.iter().chain(options[side]).map(OsString::from);
        before.chain([path.into()]).chain(behind).collect()
    };
    let recv = args(&["recv", "--listen", "127.0.0.1:0", "--out"], &to, &[], 0);
    let mut receiver = start(by[0], recv);
    let address = receiver.address().to_string();
    let sender = start(by[1], args(&["send"], &from, &[&address], 1)).finish();
    let receiver = receiver.finish();
    assert!(fs::read(&to).unwrap() == octets);
    [Way::of(&receiver), Way::of(&sender)]
}

#[test]
fn two_processes_that_ask_for_it_share_memory() {
    let ask: &[&str] = &["--same-host"];
    assert_eq!(cat([&[], &[]], [ask, ask]), [SHARED_WAY, SHARED_WAY]);
    let with_crc: &[&str] = &["--same-host", "--crc"];
    assert_eq!(cat([&[], &[]], [ask, with_crc]), [SHARED_WAY, SHARED_WAY]);
}

#[test]
fn one_side_alone_is_over_tcp() {
    let ask: &[&str] = &["--same-host"];
    let no_offer = over_tcp(Some("the peer has made no offer"));
    assert_eq!(cat([&[], &[]], [ask, &[]]), [no_offer, over_tcp(None)]);
    let no_name = "no listener of this machine that has the option is at the address";
    assert_eq!(
        cat([&[], &[]], [&[], ask]),
        [over_tcp(None), over_tcp(Some(no_name))]
    );
    // Neither has it, so neither says anything.
    assert_eq!(
        cat([&[], &[]], [&[], &[]]),
        [over_tcp(None), over_tcp(None)]
    );
}

#[test]
fn a_value_that_the_variable_does_not_have_is_refused_by_name() {
    let info = |value| {
        let mut nd = Command::new(nd::binary());
        nd.args(["cat", "recv", "--listen", "127.0.0.1:0", "--out", "-"]);
        nd.env("SOFTND_SAME_HOST", value).output().unwrap()
    };
    let output = info("yes");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("SOFTND_SAME_HOST is \"yes\": it has to be 1 or 0"),
        "{said}"
    );
}

#[test]
fn adapters_over_udp_refuse_the_option_and_ignore_the_variable() {
    let udp = nd::run([
        "cat",
        "recv",
        "--udp",
        "--same-host",
        "--listen",
        "127.0.0.1:0",
        "--out",
        "-",
    ]);
    udp.assert_failure("do not know --same-host");
    let run = nd::run(["run", "--udp", "--same-host", "--", "true"]);
    assert!(!run.status.success(), "{}", run.stderr);
    let mut demo = Command::new(nd::binary());
    let demo = demo.args(["demo", "--udp"]).env("SOFTND_SAME_HOST", "1");
    let output = demo.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Runs an unchanged program for verbs over shared memory. Returns how many of its connections went through it, and how many had no answer in
/// time. `None` if the client has left no counters: its second thread may end it while the first one writes them.
fn rping() -> Option<[u64; 2]> {
    let folder = tempfile::tempdir().unwrap();
    let counters = folder.path().join("counters");
    let port = free_port();
    let options = [
        "run",
        "--same-host",
        "--counters",
        counters.to_str().unwrap(),
        "--",
    ];
    let rping = |args: &[&str]| {
        let mut command = Command::new(nd::binary());
        command.args(options).arg("rping").args(args).args([
            "-a",
            "127.0.0.1",
            "-p",
            &port,
            "-C",
            "10",
        ]);
        command
    };
    let mut server = rping(&["-s"]).stdout(Stdio::null()).spawn().unwrap();
    // The server may not listen yet.
    let client = loop {
        let mut client = rping(&["-c"]).stdout(Stdio::null()).spawn().unwrap();
        if client.wait().unwrap().success() {
            break client.id();
        }
        assert!(server.try_wait().unwrap().is_none(), "the server has ended");
    };
    server.wait().unwrap();
    let mut counts = [0; 2];
    for process in [client, server.id()] {
        // `nd run` becomes the program.
        let path = counters.join(format!("rping-{process}.json"));
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound && process == client => return None,
            text => text.unwrap(),
        };
        let file: Value = serde_json::from_str(&text).unwrap();
        for (count, name) in counts.iter_mut().zip(["connections", "refused.no_answer"]) {
            let name = format!("same_host.{name}");
            *count += file["counters"][name].as_u64().unwrap();
        }
    }
    Some(counts)
}

#[test]
fn verbs_programs_share_memory_by_an_option_of_their_run() {
    if tool::find("rping").is_none() {
        return;
    }
    nd::build_libraries();
    loop {
        let Some([shared, not_in_time]) = rping() else {
            continue;
        };
        if shared > 0 {
            return;
        }
        // The server has not had the processor in time.
        assert!(not_in_time > 0, "over TCP for another reason");
    }
}

/// The third table of `nd info`, as one line.
fn shared_memory(info: &Finished) -> String {
    info.assert_success();
    let table = info.stdout.split("through shared memory").nth(1).unwrap();
    table.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn info_says_which_adapters_share_memory_and_which_call_the_system_refuses() {
    let info = |refused: &[&str], value: &str| {
        let variable = format!("SOFTND_SAME_HOST={value}");
        let mut by: Vec<OsString> = vec!["env".into(), variable.into()];
        if !refused.is_empty() {
            by.push(env!("CARGO_BIN_EXE_refuse_calls").into());
            by.extend(refused.iter().map(OsString::from));
            by.push("--".into());
        }
        shared_memory(&nd::start_by(&by, ["info"]).finish())
    };
    let off = info(&[], "0");
    assert!(
        off.contains("softnd+tcp:// no: set --same-host, or SOFTND_SAME_HOST=1"),
        "{off}"
    );
    assert!(
        off.contains("softnd+udp:// no, whatever SOFTND_SAME_HOST says"),
        "{off}"
    );
    assert!(info(&[], "1").contains("softnd+tcp:// yes"));
    // The address without a name has 2 octets.
    for (call, words) in [
        (
            "memfd_create:EPERM",
            "the system refuses memfd_create: Operation not permitted",
        ),
        (
            "bind:EACCES:2=2",
            "the system refuses bind to an abstract name: Permission denied",
        ),
    ] {
        let off = info(&[call], "0");
        assert!(off.contains(&format!("softnd+tcp:// no: {words}")), "{off}");
        let on = info(&[call], "1");
        let although = format!("softnd+tcp:// no, although the option is set: {words}");
        assert!(on.contains(&although), "{on}");
    }
}

#[test]
fn perf_compares_shared_memory_with_the_same_adapter_over_tcp() {
    let tiny = ["--turns", "3", "--duration", "0.006", "--crc", "off"];
    for tests in [
        &[
            "--op", "send", "--test", "latency", "--size", "8", "--mode", "poll",
        ][..],
        &[
            "--op",
            "write",
            "--test",
            "bandwidth",
            "--size",
            "4k",
            "--mode",
            "poll",
        ],
        &["--test", "setup"],
    ] {
        let line = ["perf", "local", "--same-host", "--baseline", "softnd-tcp"];
        let row = |finished: &Finished| -> Value {
            serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished}"))
        };
        let format = ["--format", "json"];
        let finished = nd::run(line.iter().chain(&tiny).chain(tests).chain(&format));
        finished.assert_success();
        let row = row(&finished);
        assert_eq!(row["transport"], "shm", "{finished}");
        assert_eq!(row["baseline"], "softnd-tcp", "{finished}");
        assert!(row["ratio"].as_f64().unwrap() > 0.0, "{finished}");
    }
    let tests = [
        "--op", "send", "--test", "latency", "--size", "8", "--mode", "poll",
    ];
    let line = ["perf", "local", "--same-host", "--baseline", "softnd-tcp"];
    let finished = nd::run(line.iter().chain(&tiny).chain(&tests));
    finished.assert_success();
    for words in [
        "Send latency, poll, CRC off, shared memory",
        "transport",
        " shm ",
        "softnd-tcp t_typical[usec]",
    ] {
        assert!(finished.stdout.contains(words), "{words}: {finished}");
    }
}

#[test]
fn perf_refuses_shared_memory_where_there_is_none() {
    for line in [
        &["--udp", "--baseline", "softnd-tcp"][..],
        &["--udp", "--same-host"],
        &["--same-host", "--segment", "1448"],
        &["--same-host", "--url", "softnd+sim://seed=1"],
    ] {
        let run = nd::run(["perf", "local"].iter().chain(line));
        assert!(!run.status.success(), "{run}");
    }
}

#[test]
fn conformance_names_the_transport_of_its_connections() {
    let conform = |more: &[&str]| {
        let line = [
            "conform",
            "softnd+tcp://127.0.0.1",
            "--only",
            "MR-015",
            "--format",
            "json",
        ];
        let run = nd::run(line.iter().chain(more));
        run.assert_success();
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        report["facts"]["transports"].clone()
    };
    assert_eq!(conform(&["--same-host"]), serde_json::json!(["shm"]));
    let udp = nd::run(["conform", "softnd+udp://127.0.0.1", "--same-host"]);
    udp.assert_failure("do not know --same-host");
}
