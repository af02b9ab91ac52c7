//! `nd run --counters`: the files that programs leave, however they end.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

use serde_json::Value;
use softnd_tests::c_programs::CProgram;
use softnd_tests::nd;
use softnd_tests::verbs_programs::nd_run;

const HEADERS: [&str; 2] = ["infiniband/verbs.h", "rdma/rdma_cma.h"];
const LIBRARIES: [&str; 3] = ["-libverbs", "-lrdmacm", "-pthread"];
const SIGKILL: i32 = 9;

/// The names of the counters that an adapter of NetworkDirect has, and of those of datagrams.
fn names_of(url: &str) -> Vec<String> {
    let adapter = softnd::open(url, softnd::Options::default()).unwrap();
    let counters = adapter.extensions().expect("it has counters").counters();
    let of_adapters = counters.iter().map(|(name, _)| name.to_owned());
    let of_datagrams = [
        "foreign",
        "no_receive",
        "not_sent",
        "receive_too_short",
        "unknown_number",
        "wrong_key",
    ];
    let of_datagrams = of_datagrams.map(|why| format!("datagrams.{why}"));
    let mut all: Vec<_> = of_adapters.chain(of_datagrams).collect();
    all.sort();
    all
}

/// The number of connections whose passive side has sent first, in each file of a folder. Checks what else a file has to have: the
/// counters of the adapter with this URL.
fn counted(folder: &Path, url: &str) -> Vec<u64> {
    let known = names_of(url);
    let files: BTreeMap<_, _> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    let mut counts = Vec::new();
    for (name, text) in files {
        let file: Value = serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{name}: {error}: {text}");
        });
        assert_eq!(file["program"], "counted");
        assert_eq!(name, format!("counted-{}.json", file["pid"]));
        let counters = file["counters"].as_object().unwrap();
        let names: Vec<_> = counters.keys().cloned().collect();
        assert_eq!(names, known);
        counts.push(counters["lenient.passive_first"].as_u64().unwrap());
    }
    counts.sort_unstable();
    counts
}

/// Runs the program in this role. Returns how it has ended, and what its files say, or `None` without a compiler.
fn run(role: &str) -> Option<(ExitStatus, Vec<u64>)> {
    let program = CProgram::compile("counted", &HEADERS, &LIBRARIES)?;
    let folder = program.folder().join("counters");
    let (status, said) = run_with(&program, role, &[]);
    assert_eq!(said, "", "{role}: {status}");
    Some((status, counted(&folder, "softnd+tcp://127.0.0.1")))
}

/// Runs the program in this role, with further options of `nd run`. Returns how it has ended, and its standard error.
fn run_with(program: &CProgram, role: &str, options: &[&str]) -> (ExitStatus, String) {
    nd::build_libraries();
    let mut command = Command::new(nd::binary());
    command.args(["run", "--counters"]);
    command.arg(program.folder().join("counters"));
    command.args(options).arg("--");
    // `timeout` only ends a hang.
    command.args(["timeout", "--foreground", "120", program.path(), role]);
    command.stdin(Stdio::null());
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr).into_owned(),
    );
    assert_eq!(stdout, "0 failures\n", "{role}: {status}\n{stderr}");
    (status, stderr)
}

/// The program succeeds, and leaves these files.
#[track_caller]
fn leaves(role: &str, files: &[u64]) {
    let Some((status, left)) = run(role) else {
        return;
    };
    assert!(status.success(), "{role}: {status}");
    assert_eq!(left, files, "{role}");
}

/// SIGKILL ends the program, which leaves these files.
#[track_caller]
fn leaves_although_killed(role: &str, files: &[u64]) {
    let Some((status, left)) = run(role) else {
        return;
    };
    // `timeout` ends itself as its program has ended, or says so by its status.
    let is_killed = status.signal() == Some(SIGKILL) || status.code() == Some(128 + SIGKILL);
    assert!(is_killed, "{role}: {status}");
    assert_eq!(left, files, "{role}");
}

#[test]
fn counters_are_written_at_the_end_of_a_program() {
    for role in ["returns", "quits", "quits-as-iso-c"] {
        leaves(role, &[1]);
    }
}

#[test]
fn counters_over_udp_are_those_of_an_adapter_over_udp() {
    let Some(program) = CProgram::compile("counted", &HEADERS, &LIBRARIES) else {
        return;
    };
    let (status, said) = run_with(&program, "returns", &["--udp"]);
    assert!(status.success(), "{said}");
    let folder = program.folder().join("counters");
    assert_eq!(counted(&folder, "softnd+udp://127.0.0.1"), [1]);
}

#[test]
fn counters_are_written_before_another_program_takes_the_place() {
    for role in [
        "executes",
        "executes-without-variables",
        "executes-by-path",
        "executes-descriptor",
    ] {
        leaves(role, &[1]);
    }
    leaves("fails-to-execute", &[2]);
}

#[test]
fn children_of_a_fork_have_files_of_their_own() {
    leaves("forks", &[1, 2]);
    leaves("vforks", &[1]);
}

#[test]
fn a_program_that_only_lists_devices_leaves_no_counters() {
    leaves("lists", &[]);
}

#[test]
fn a_signal_has_counters_written_and_sigkill_does_not() {
    leaves_although_killed("signalled", &[2]);
    leaves_although_killed("killed", &[]);
}

#[test]
fn a_program_that_sets_the_signal_keeps_it() {
    leaves_although_killed("handles-before", &[]);
    leaves_although_killed("handles-after", &[]);
    leaves("ignores", &[1]);
}

/// `/proc` belongs to root and is open to no one else, so that its rights look fine to root.
#[test]
fn a_folder_that_cannot_be_written_is_refused_before_the_program_starts() {
    let _ = nd_run(&["true"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for option in ["--counters", "--capture"] {
        for bad in [Path::new("/proc"), file.as_path()] {
            let mut command = Command::new(nd::binary());
            command.args(["run", option]).arg(bad);
            let output = command.args(["--", "echo", "started"]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && output.stdout.is_empty());
            let place = format!("into {}", bad.display());
            assert!(said.contains(&place) && said.contains(option), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

/// The folder is gone when the program ends: the program says so, and its status stays.
#[test]
fn counters_that_cannot_be_written_at_the_end_are_a_line() {
    let Some(program) = CProgram::compile("counted", &HEADERS, &LIBRARIES) else {
        return;
    };
    let counters = program.folder().join("counters");
    let _ = nd_run(&["true"]);
    let mut command = Command::new(nd::binary());
    command.args(["run", "--counters"]).arg(&counters);
    let script = "rmdir \"$0\" && exec \"$1\" returns";
    command.args(["--", "sh", "-c", script]).arg(&counters);
    let output = command.arg(program.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let start = "softnd's libibverbs: cannot write the counters: ";
    assert!(
        said.starts_with(start) && said.lines().count() == 1,
        "{said}"
    );
}
