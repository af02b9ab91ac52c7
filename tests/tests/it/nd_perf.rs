//! `nd perf`: every kind of row is measured and shown, and rows that cannot be measured are refused by name. No test here
//! depends on speed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;

use rustix::process::Signal;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use softnd_tests::nd::Finished;
use softnd_tests::{args, nd};

/// The least that makes a row: three turns of two milliseconds.
const TINY: [&str; 4] = ["--turns", "3", "--duration", "0.006"];

fn local(line: &str) -> Finished {
    nd::run(["perf", "local"].into_iter().chain(line.split_whitespace()))
}

fn local_tiny(line: &str) -> Finished {
    let words = ["perf", "local"].into_iter().chain(TINY);
    nd::run(words.chain(line.split_whitespace()))
}

/// The values of a flat JSON object, as they are written.
fn object(line: &str) -> BTreeMap<&str, &str> {
    let inside = line
        .strip_prefix('{')
        .and_then(|line| line.strip_suffix('}'))
        .unwrap_or_else(|| panic!("no object: {line}"));
    let pair = |field| -> (&str, &str) {
        let (name, value): (&str, &str) = str::split_once(field, ':').expect("name and value");
        (name.trim_matches('"'), value.trim_matches('"'))
    };
    inside.split(',').map(pair).collect()
}

fn rows(stdout: &str) -> Vec<BTreeMap<&str, &str>> {
    stdout.lines().map(object).collect()
}

/// Checks that a row has these values.
fn assert_fields(row: &BTreeMap<&str, &str>, run: &Finished, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(row[name], *value, "{name}: {run}");
    }
}

/// Checks that these figures of a row were measured.
fn assert_measured(row: &BTreeMap<&str, &str>, run: &Finished, names: &[&str]) {
    for name in names {
        assert!(row[name].parse::<f64>().unwrap() > 0.0, "{name}: {run}");
    }
}

#[test]
fn every_operation_is_measured_in_every_way_beside_the_baseline() {
    let run = local_tiny("--size 100 --depth 4 --crc on --baseline tcp --format json");
    run.assert_success();
    assert!(run.stderr.is_empty(), "{run}");
    let rows = rows(&run.stdout);
    let mut seen = Vec::new();
    for row in &rows {
        assert_eq!(
            (row["turns"], row["complete"], row["crc"], row["size"]),
            ("3", "true", "true", "100")
        );
        seen.push((row["test"], row["op"], row["mode"]));
        let timed = row["test"] == "latency";
        assert_eq!(row["depth"], if timed { "1" } else { "4" });
        let (present, absent) = if timed {
            (
                [
                    "p50_ns",
                    "p99_ns",
                    "p999_ns",
                    "baseline_p50_ns",
                    "ratio_p99",
                ],
                ["bytes_per_s", "msgs_per_s", "baseline_bytes_per_s"],
            )
        } else {
            (
                [
                    "bytes_per_s",
                    "msgs_per_s",
                    "baseline_bytes_per_s",
                    "baseline_msgs_per_s",
                    "ratio",
                ],
                ["p50_ns", "p99_ns", "baseline_p50_ns"],
            )
        };
        for name in present.into_iter().chain(["ratio"]) {
            let value: f64 = row[name]
                .parse()
                .unwrap_or_else(|_| panic!("{name}: {run}"));
            assert!(value > 0.0, "{name}: {run}");
        }
        assert!(absent.iter().all(|name| row[name] == "null"), "{run}");
        assert_ne!(row["baseline_congestion"], "null", "{run}");
    }
    seen.sort_unstable();
    let mut wanted: Vec<_> = [
        ("latency", "send", "poll"),
        ("latency", "send", "event"),
        ("latency", "write", "poll"),
        ("latency", "read", "poll"),
        ("latency", "read", "event"),
        ("rate", "send", "poll"),
        ("rate", "send", "event"),
    ]
    .into();
    for op in ["send", "write", "read"] {
        wanted.extend([("bandwidth", op, "poll"), ("bandwidth", op, "event")]);
    }
    wanted.sort_unstable();
    assert_eq!(seen, wanted, "{run}");
}

#[test]
fn memory_mode_one_core_and_small_segments_are_measured() {
    for line in [
        "--op write --test latency --size 8 --mode memory --crc off",
        "--op send --test latency --size 8 --mode event --crc off --one-core",
        "--op write --test bandwidth --size 64k --mode event --crc on --segment 1448",
        "--op send --test bandwidth --size 1M --depth 1 --mode event --crc off",
        "--op write,read --test rate --size 1 --depth 3 --mode poll --crc off",
    ] {
        let run = local_tiny(&format!("{line} --baseline tcp --format json"));
        run.assert_success();
        for row in rows(&run.stdout) {
            assert_eq!((row["turns"], row["complete"]), ("3", "true"), "{run}");
        }
    }
}

#[test]
fn a_steady_run_measures_every_row() {
    // With one row there is none before it to go by, and the cores of no machine are a second from each other. So `nd` does not wait.
    for (line, sizes) in [
        ("--size 8 --steady", &["8"][..]),
        ("--size 8,64 --steady=1000000000", &["8", "64"]),
    ] {
        let what = "--op send --test latency --mode poll --crc off --format json";
        let run = local_tiny(&format!("{what} {line}"));
        run.assert_success();
        let rows = rows(&run.stdout);
        let complete: Vec<_> = rows
            .iter()
            .filter(|row| row["complete"] == "true")
            .map(|row| row["size"])
            .collect();
        assert_eq!(complete, sizes, "{run}");
    }
    // It would wait for nothing.
    let pointless = local("--op send --test latency --mode event --one-core --steady");
    pointless.assert_failure("--steady");
}

#[test]
fn a_bare_quic_stream_is_measured_beside_every_operation() {
    let run = local_tiny("--size 100 --depth 4 --crc off --baseline quic --format json");
    run.assert_success();
    let mut rows = rows(&run.stdout);
    // As many operations, tests and modes as with a bare socket.
    assert_eq!(rows.len(), 13, "{run}");
    // Datagrams of the size that a segment has.
    let cut = "--op write --test bandwidth --size 64k --mode poll --segment 1448 --crc off";
    let cut = local_tiny(&format!("{cut} --baseline quic --format json"));
    cut.assert_success();
    rows.extend(self::rows(&cut.stdout));
    for row in &rows {
        assert_fields(
            row,
            &run,
            &[
                ("baseline", "quic"),
                ("baseline_congestion", "cubic"),
                ("default_congestion", "null"),
                ("default_p50_ns", "null"),
                ("turns", "3"),
                ("complete", "true"),
            ],
        );
        let figure = if row["test"] == "latency" {
            "baseline_p50_ns"
        } else {
            "baseline_bytes_per_s"
        };
        assert_measured(row, &run, &["ratio", figure]);
    }
}

/// Octets that the congestion window holds back at first are sent, too, although nothing is in flight any more.
#[test]
fn a_turn_of_a_bare_quic_stream_ends_when_everything_has_arrived() {
    for _ in 0..5 {
        let read = "--op read --test bandwidth --size 100 --depth 4 --mode event --crc off";
        let run = local_tiny(&format!("{read} --baseline quic --format json"));
        run.assert_success();
        let rows = rows(&run.stdout);
        assert_fields(&rows[0], &run, &[("turns", "3"), ("complete", "true")]);
    }
}

#[test]
fn without_a_baseline_there_is_nothing_to_compare_with() {
    let run =
        local_tiny("--op write --test bandwidth --size 4k --mode poll --crc off --format json");
    run.assert_success();
    let rows = rows(&run.stdout);
    assert_eq!(rows.len(), 1, "{run}");
    for name in [
        "baseline_bytes_per_s",
        "baseline_congestion",
        "ratio",
        "segment",
    ] {
        assert_eq!(rows[0][name], "null", "{name}: {run}");
    }
}

#[test]
fn shared_receives_are_measured_beside_own_ones() {
    let what = "--receives shared --baseline plain --size 64 --depth 4 --crc off";
    let run = local_tiny(&format!("{what} --format json"));
    run.assert_success();
    let rows = rows(&run.stdout);
    // As many operations, tests and modes as without a choice of Receives.
    assert_eq!(rows.len(), 13, "{run}");
    for row in &rows {
        assert_fields(
            row,
            &run,
            &[
                ("receives", "shared"),
                ("peer_receives", "shared"),
                ("baseline", "plain"),
                ("baseline_congestion", "null"),
                ("default_p50_ns", "null"),
                ("turns", "3"),
                ("complete", "true"),
            ],
        );
        let figure = if row["test"] == "latency" {
            "baseline_p50_ns"
        } else {
            "baseline_msgs_per_s"
        };
        assert_measured(row, &run, &["ratio", figure]);
    }
    let run = local_tiny(&format!("{what} --op send --test latency --mode poll"));
    run.assert_success();
    for words in [
        "Send latency, poll, CRC off, shared Receives",
        "plain t_typical[usec]",
    ] {
        assert!(run.stdout.contains(words), "{words}: {run}");
    }
}

#[test]
fn each_side_chooses_where_it_takes_its_receives_from() {
    for (theirs, ours, heading) in [
        ("shared", "own", ", shared Receives at the other side"),
        ("own", "shared", ", shared Receives at this side"),
        ("shared", "shared", ", shared Receives"),
    ] {
        let mut serve = nd::start(["perf", "serve", "--receives", theirs]);
        let address = serve.address().to_string();
        let run = |more: &str| {
            let what = "--op send --test latency,bandwidth --size 100 --depth 3 --mode event";
            let words = ["perf", "run", &address, "--receives", ours].into_iter();
            let words = words.chain(TINY).chain(what.split_whitespace());
            let run = nd::run(words.chain(["--crc", "off"]).chain(more.split_whitespace()));
            run.assert_success();
            run
        };
        let measured = run("--baseline plain --format csv");
        let mut lines = measured.stdout.lines().map(|line| line.split(','));
        let heads: Vec<_> = lines.next().expect("a head").collect();
        let at = |name| heads.iter().position(|head| *head == name).expect(name);
        for line in lines {
            let values: Vec<_> = line.collect();
            let named = ["receives", "peer_receives", "baseline", "complete"];
            let values = named.map(|name| values[at(name)]);
            assert_eq!(values, [ours, theirs, "plain", "true"], "{measured}");
        }
        let table = run("");
        // Where all connections of the machine are asked for it, the heading ends with the transport.
        let mut lines = table.stdout.lines();
        let is_there =
            lines.any(|line| line.trim_end_matches(", shared memory").ends_with(heading));
        assert!(is_there, "{table}");
    }
}

#[test]
fn memory_at_any_place_of_a_page_is_measured_beside_memory_at_the_best() {
    for offset in ["0", "1", "16", "4095"] {
        let what = "--op send,write,read --test latency,bandwidth --mode poll --crc on";
        let run = local_tiny(&format!(
            "{what} --size 5000 --depth 3 --page-offset {offset} --baseline plain --format json"
        ));
        run.assert_success();
        let rows = rows(&run.stdout);
        assert_eq!(rows.len(), 6, "{run}");
        for row in &rows {
            let fields = [
                ("page_offset", offset),
                ("baseline", "plain"),
                ("complete", "true"),
            ];
            assert_fields(row, &run, &fields);
            assert_measured(row, &run, &["ratio"]);
        }
    }
}

#[test]
fn set_ups_take_turns_with_bare_connections() {
    let run = local_tiny("--test setup --crc off --baseline tcp --format json");
    run.assert_success();
    let rows = rows(&run.stdout);
    let fields = [("baseline", "tcp"), ("turns", "3"), ("complete", "true")];
    assert_fields(&rows[0], &run, &fields);
    assert_measured(&rows[0], &run, &["connections_per_s", "ratio"]);
    let run = local_tiny("--test setup --crc off --baseline tcp");
    run.assert_success();
    assert!(run.stdout.contains("TCP connections/s"), "{run}");
}

#[test]
fn csv_has_one_head_and_tables_have_the_columns_of_perftest() {
    let what = "--op read --mode event --crc off --size 8,64 --baseline tcp";
    let run = local_tiny(&format!("{what} --test bandwidth --format csv"));
    run.assert_success();
    let lines: Vec<_> = run.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{run}");
    assert!(lines[0].starts_with("op,test,size,"), "{run}");
    for line in &lines {
        assert_eq!(
            line.split(',').count(),
            lines[0].split(',').count(),
            "{run}"
        );
    }
    let run = local_tiny(&format!("{what} --test latency,bandwidth"));
    run.assert_success();
    for head in [
        "#bytes",
        "#iterations",
        "t_typical[usec]",
        "BW peak[MB/s]",
        "BW average[MB/s]",
        "MsgRate[Mpps]",
        "ratio",
    ] {
        assert!(run.stdout.contains(head), "{head}: {run}");
    }
}

#[test]
fn many_connections_are_measured_at_both_sides() {
    let run = local_tiny("--test scale --connections 50 --mode poll,event --format json");
    run.assert_success();
    assert!(run.stderr.is_empty(), "{run}");
    let rows = rows(&run.stdout);
    let seen: Vec<_> = rows.iter().map(|row| (row["mode"], row["crc"])).collect();
    let wanted = [
        ("poll", "false"),
        ("poll", "true"),
        ("event", "false"),
        ("event", "true"),
    ];
    assert_eq!(seen, wanted, "{run}");
    for row in &rows {
        assert_fields(
            row,
            &run,
            &[
                ("op", "send"),
                ("connections", "50"),
                ("size", "8"),
                ("turns", "3"),
                ("complete", "true"),
                ("connections_per_s", "null"),
                ("baseline_congestion", "null"),
            ],
        );
        assert_measured(row, &run, &["p50_ns", "baseline_p50_ns", "ratio"]);
        // The cost of this few connections may be too small to be seen among other changes of the process's memory, but it was measured.
        for name in [
            "bytes_per_connection",
            "peer_bytes_per_connection",
            "idle_cpu",
            "peer_idle_cpu",
        ] {
            assert!(row[name].parse::<f64>().unwrap() >= 0.0, "{name}: {run}");
        }
    }
}

/// `nd` compares the octets that have moved with those that were written.
#[test]
fn connections_move_octets_before_they_are_idle() {
    for transport in ["", "--udp", "--same-host"] {
        let run = local_tiny(&format!(
            "--test scale --connections 20 --traffic 1M --mode event {transport} --format json"
        ));
        run.assert_success();
        for row in &rows(&run.stdout) {
            let wanted = [("connections", "20"), ("traffic", "1048576")];
            assert_fields(row, &run, &wanted);
            assert_fields(row, &run, &[("complete", "true")]);
            assert_measured(row, &run, &["p50_ns"]);
        }
    }
}

/// The last of the connections is the one to which the plan applies.
#[test]
fn octets_of_idle_connections_that_are_not_those_that_were_written_are_reported() {
    for (event, reported) in [
        ("20th Write sent", true),
        ("20th Read Response received", true),
        ("21st Write sent", false),
        ("21st Read Response received", false),
    ] {
        let fault = format!("when {event} over all connections: flip bit 5 of payload");
        let words = "perf local --test scale --connections 20 --traffic 64k --mode event --crc off";
        let words = words.split(' ').chain(TINY);
        let run = nd::run(words.chain(["--fault", &fault]));
        let text = "the octets that a connection has moved are not those that were written";
        assert_eq!(run.stderr.contains(text), reported, "{run}");
        assert_eq!(run.status.success(), !reported, "{run}");
    }
}

#[test]
fn many_connections_take_shared_receives() {
    let what = "--test scale,setup --connections 20 --crc off --receives shared";
    let run = local_tiny(&format!("{what} --format json"));
    run.assert_success();
    let rows = rows(&run.stdout);
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row["test"], row["receives"], row["peer_receives"]))
        .collect();
    let wanted = ["scale", "setup"].map(|test| (test, "shared", "shared"));
    assert_eq!(seen, wanted, "{run}");
    assert!(rows.iter().all(|row| row["complete"] == "true"), "{run}");
    assert_eq!(rows[0]["baseline"], "alone", "{run}");
}

#[test]
fn connections_come_and_go_beside_idle_ones() {
    for (connections, segment) in [("0", ""), ("20", "--segment 1448")] {
        let run = local_tiny(&format!(
            "--test setup --connections {connections} --crc on {segment} --format json"
        ));
        run.assert_success();
        let rows = rows(&run.stdout);
        assert_eq!(rows.len(), 1, "{run}");
        assert_fields(
            &rows[0],
            &run,
            &[
                ("op", "null"),
                ("size", "null"),
                ("connections", connections),
                ("turns", "3"),
                ("complete", "true"),
                ("msgs_per_s", "null"),
            ],
        );
        assert_measured(&rows[0], &run, &["iterations", "connections_per_s"]);
    }
    let run = local_tiny("--test scale,setup --connections 3 --crc off");
    run.assert_success();
    for words in [
        "3 idle connections, Send latency on one",
        "beside 3 idle ones",
        "memory each[B]",
        "connections/s",
    ] {
        assert!(run.stdout.contains(words), "{words}: {run}");
    }
}

#[test]
fn the_limit_of_open_files_is_raised_or_named() {
    let what = "--test scale --connections 100 --crc off --format json";
    let words = || {
        let words = ["perf", "local"].into_iter().chain(TINY);
        words.chain(what.split_whitespace())
    };
    let run = nd::start_after("ulimit -Sn 64", words()).finish();
    run.assert_success();
    assert_eq!(rows(&run.stdout)[0]["complete"], "true", "{run}");
    let run = nd::start_after("ulimit -n 100", words()).finish();
    run.assert_failure("164 open files");
    assert!(run.stderr.contains("may have 100 here"), "{run}");
    // The other side's limit counts as well.
    let mut serve = nd::start_after("ulimit -n 100", ["perf", "serve"]);
    let address = serve.address().to_string();
    let words = ["perf", "run", &address].into_iter().chain(TINY);
    let run = nd::run(words.chain(what.split_whitespace()));
    run.assert_failure("the other side gave up");
    assert!(run.stderr.contains("164 open files"), "{run}");
}

#[test]
fn a_plot_is_a_drawing_of_both() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plot.svg");
    let what = "--op send --test latency,bandwidth --size 8,64 --mode event --crc on --plot";
    let words = ["perf", "local"].into_iter().chain(TINY);
    let words = words.chain(what.split_whitespace());
    let words = words.map(Into::into).chain([path.clone().into_os_string()]);
    nd::run(words).assert_success();
    let drawing = std::fs::read_to_string(path).unwrap();
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
    for word in ["Latency", "Bandwidth", "Send, event, CRC on"] {
        assert!(drawing.contains(word), "{word}");
    }
}

/// Where both sides have to share a processor, spinning without a pause would measure the time slices of the system.
#[test]
fn one_processor_is_told_and_shared() {
    let allowed = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set(
        (0..CpuSet::MAX_CPU)
            .find(|core| allowed.is_set(*core))
            .unwrap(),
    );
    // Processes that this thread starts inherit it.
    sched_setaffinity(None, &one).unwrap();
    let note = "this process has one processor only";
    for (op, mode, has_note) in [
        ("send", "poll", true),
        ("write", "memory", true),
        ("send", "event", false),
    ] {
        let what =
            format!("--op {op} --mode {mode} --test latency --size 8 --crc off --baseline tcp");
        let run = local_tiny(&what);
        run.assert_success();
        assert_eq!(run.stderr.contains(note), has_note, "{run}");
    }
    let mut serve = nd::start(["perf", "serve"]);
    serve.wait_for(|line| line.contains(note).then_some(()));
}

#[test]
fn both_processes_use_the_adapter_that_is_named() {
    let line = "--op send --test latency --size 8 --mode event --crc on --url";
    local_tiny(&format!("{line} softnd+tcp://127.0.0.2")).assert_success();
    local_tiny(&format!("{line} softnd+sim://seed=1")).assert_failure("a network of its own");
    local_tiny(&format!("{line} softnd+udp://127.0.0.1")).assert_failure("--udp");
}

#[test]
fn a_plot_that_cannot_be_drawn_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no/such.svg");
    let drawing = folder.path().join("plot.svg");
    for (tests, path, why) in [
        ("latency", &nowhere, "cannot write the plot"),
        ("rate", &drawing, "there is nothing to draw"),
    ] {
        let line = args![
            "perf", "local", "--op", "send", "--crc", "on", "--mode", "event"
        ];
        let run = nd::run(
            line.into_iter()
                .chain(args!["--test", tests, "--plot", path]),
        );
        run.assert_failure(why);
        assert!(run.stdout.is_empty(), "{run}");
        assert!(!path.exists(), "{run}");
    }
}

#[test]
fn what_measures_nothing_is_refused_by_name() {
    for (line, what) in [
        ("--size 0", "message of 0 bytes"),
        ("--depth 0", "depth of 0"),
        ("--turns 0", "without a turn"),
        ("--turns 1 --duration 5", "--duration"),
        ("--segment 1", "segment of 1"),
        ("--mode memory --op send", "--mode memory"),
        ("--mode event --op write --test latency", "--mode event"),
        ("--mode poll --one-core", "--one-core"),
        ("--test scale --connections 0", "0 connections"),
        ("--test scale --connections 4294967295", "open files"),
        ("--test scale --op read", "--test scale"),
        ("--test scale --size 2G --connections 1", "message size"),
        ("--test scale --baseline tcp", "--baseline"),
        ("--test scale --baseline plain", "--baseline"),
        ("--page-offset 4096", "--page-offset"),
        ("--test setup --baseline quic", "--baseline"),
        ("--test setup --depth 4", "--depth"),
        ("--connections 7", "--connections"),
        ("--op write --test bandwidth --size 2G", "message size"),
        (
            "--op write --test bandwidth --size 8 --depth 1000000",
            "depth 1000000",
        ),
        (
            "--op write --test bandwidth --size 1G --depth 32",
            "depth 32",
        ),
    ] {
        let run = local(line);
        run.assert_failure(what);
    }
}

#[test]
fn a_device_that_does_not_exist_is_named_before_anything_is_measured() {
    for device in ["none0", "verbs://none0"] {
        let run = nd::run(["perf", "device", device, "--format", "json"]);
        run.assert_failure("RDMA device");
        assert!(run.stdout.is_empty(), "{run}");
    }
}

#[test]
fn two_processes_find_each_other_and_the_server_goes_on() {
    let mut serve = nd::start(["perf", "serve"]);
    let address = serve.address().to_string();
    let what = "--op send --test latency --size 8 --mode event --crc off --format json";
    for _ in 0..2 {
        let words = ["perf", "run", &address].into_iter().chain(TINY);
        let run = nd::run(words.chain(what.split_whitespace()));
        run.assert_success();
        assert_eq!(rows(&run.stdout)[0]["complete"], "true");
    }
}

#[test]
fn each_side_may_name_its_adapter() {
    let mut serve = nd::start(["perf", "serve", "--url", "softnd+tcp://127.0.0.1"]);
    let address = serve.address().to_string();
    let run = |url| {
        let words = ["perf", "run", &address, "--url", url].into_iter();
        let what = "--op send --test latency --size 8 --mode event --crc off";
        nd::run(words.chain(TINY).chain(what.split_whitespace()))
    };
    run("softnd+tcp://127.0.0.1").assert_success();
    let wrong = run("softnd+udp://127.0.0.1");
    assert!(
        !wrong.status.success() && wrong.stdout.is_empty(),
        "{wrong:?}"
    );
    assert!(
        wrong.stderr.contains("does not carry connections over tcp"),
        "{wrong:?}"
    );
    assert!(wrong.stderr.contains("--udp"), "{wrong:?}");
}

#[test]
fn a_server_of_another_mode_or_operation_says_so() {
    let mut serve = nd::start(["perf", "serve", "--mode", "event", "--op", "read"]);
    let address = serve.address().to_string();
    for (what, named) in [
        ("--op read --mode poll", "serves mode event"),
        ("--op send --mode event", "serves op read"),
    ] {
        let words = ["perf", "run", &address].into_iter().chain(TINY);
        let run = nd::run(words.chain(what.split_whitespace()));
        run.assert_failure(named);
    }
}

/// Answers one connection with these octets, and keeps it until the other side is gone.
fn impostor(greeting: &'static [u8]) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(greeting).unwrap();
        // Ends with the connection, no matter how that ends.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    address
}

#[test]
fn a_peer_of_another_version_or_kind_is_named() {
    for (greeting, what) in [
        (
            &b"nd-perf 99 12.3.4\n"[..],
            "version 99 of nd perf (nd 12.3.4)",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak nd perf"),
        (b"\xFF\xFE\n", "does not speak nd perf"),
        (&[b'x'; 10_000], "does not speak nd perf"),
    ] {
        let address = impostor(greeting);
        let run = nd::run(args!["perf", "run", &address, "--op", "send"]);
        run.assert_failure(what);
        assert!(run.stdout.is_empty(), "{run}");
    }
}

/// The server greets as the client does, and has it wait before it gives up.
#[test]
fn a_client_that_has_to_wait_says_so() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut said = BufReader::new(stream.try_clone().unwrap()).lines();
        let greeting = said.next().unwrap().unwrap();
        writeln!(stream, "{greeting}").unwrap();
        said.next().unwrap().unwrap();
        let why = "the server has been measuring with 192.0.2.7:1";
        writeln!(stream, r#"{{"waiting":"{why}"}}"#).unwrap();
        writeln!(stream, r#"{{"failed":"it ended; run again"}}"#).unwrap();
    });
    let run = nd::run(args!["perf", "run", &address, "--op", "send"]);
    assert_eq!(run.status.code(), Some(1), "{run}");
    assert_eq!(
        run.stderr,
        "nd: waiting: the server has been measuring with 192.0.2.7:1\n\
         nd: error: the other side gave up: it ended; run again\n"
    );
    server.join().unwrap();
}

/// Waits until the server has begun this many turns: more than checks and warms up.
fn wait_for_turns(serve: &mut nd::Nd) {
    let begun = Cell::new(0);
    serve.wait_for(|line| {
        begun.set(begun.get() + u32::from(line.contains(": turn ")));
        (begun.get() > 40).then_some(())
    });
}

#[test]
fn a_server_that_disappears_leaves_an_incomplete_row() {
    let mut serve = nd::start(["-vv", "perf", "serve"]);
    let address = serve.address().to_string();
    let what =
        "--op write --test bandwidth --size 4k --mode event --crc off --duration 600 --format json";
    let words = ["perf", "run", &address].into_iter();
    let run = nd::start(words.chain(what.split_whitespace()));
    wait_for_turns(&mut serve);
    serve.signal(Signal::KILL);
    let run = run.finish();
    run.assert_failure("gone");
    let rows = rows(&run.stdout);
    assert_eq!((rows.len(), rows[0]["complete"]), (1, "false"), "{run}");
    assert!(rows[0]["turns"].parse::<u32>().unwrap() > 0, "{run}");
    assert_ne!(rows[0]["bytes_per_s"], "null", "{run}");
}

#[test]
fn a_server_that_disappears_leaves_what_was_found_out_about_connections() {
    for (test, known) in [
        ("scale", "bytes_per_connection"),
        ("setup", "connections_per_s"),
    ] {
        let mut serve = nd::start(["-vv", "perf", "serve"]);
        let address = serve.address().to_string();
        let what = "--connections 20 --crc off --duration 600 --format json --test";
        let words = ["perf", "run", &address].into_iter();
        let run = nd::start(words.chain(what.split_whitespace()).chain([test]));
        if test == "scale" {
            serve.wait_for(|line| line.contains(": idle for").then_some(()));
        } else {
            wait_for_turns(&mut serve);
        }
        serve.signal(Signal::KILL);
        let run = run.finish();
        run.assert_failure("gone");
        let rows = rows(&run.stdout);
        assert_eq!((rows.len(), rows[0]["complete"]), (1, "false"), "{run}");
        assert_ne!(rows[0][known], "null", "{run}");
    }
}

#[test]
fn a_client_that_disappears_does_not_end_the_server() {
    let mut serve = nd::start(["-vv", "perf", "serve"]);
    let address = serve.address().to_string();
    for mode in ["event", "memory"] {
        let what = "--op write --size 8 --crc off --duration 600 --test";
        let test = if mode == "memory" {
            "latency"
        } else {
            "bandwidth"
        };
        let words = ["perf", "run", &address, "--mode", mode].into_iter();
        let run = nd::start(words.chain(what.split_whitespace()).chain([test]));
        wait_for_turns(&mut serve);
        run.signal(Signal::KILL);
        serve.wait_for(|line| line.contains("gone").then_some(()));
    }
    let what = "--op send --test rate --mode event --crc off --format json";
    let words = ["perf", "run", &address].into_iter().chain(TINY);
    nd::run(words.chain(what.split_whitespace())).assert_success();
}

#[test]
fn connections_over_udp_are_measured_beside_tcp() {
    let run = local_tiny("--udp --size 100 --depth 4 --mode event --baseline tcp --format json");
    run.assert_success();
    assert!(run.stderr.is_empty(), "{run}");
    let measured = rows(&run.stdout);
    let ways: Vec<_> = measured
        .iter()
        .map(|row| (row["test"], row["op"]))
        .collect();
    // A Write makes no event at its target, so its latency is not measured so.
    let all = [
        ("latency", "send"),
        ("latency", "read"),
        ("bandwidth", "send"),
        ("bandwidth", "write"),
        ("bandwidth", "read"),
        ("rate", "send"),
    ];
    assert_eq!(ways, all, "{run}");
    for row in &measured {
        let shown = (row["transport"], row["crc"], row["turns"], row["complete"]);
        assert_eq!(shown, ("udp", "false", "3", "true"), "{run}");
        assert_eq!(row["baseline"], "tcp");
    }
    local("--udp --crc on").assert_failure("--crc");
}

#[test]
fn many_connections_over_udp_are_counted() {
    let run = local_tiny("--udp --test scale,setup --connections 8 --mode event --format json");
    run.assert_success();
    let rows = rows(&run.stdout);
    let tests: Vec<_> = rows
        .iter()
        .map(|row| (row["test"], row["transport"]))
        .collect();
    assert_eq!(tests, [("scale", "udp"), ("setup", "udp")], "{run}");
}

#[test]
fn two_machines_measure_over_udp_without_more_options() {
    let mut server = nd::start(["perf", "serve", "--once"]);
    let address = server.address().to_string();
    let line = [
        "perf", "run", &address, "--udp", "--op", "send", "--test", "latency", "--size", "8",
    ];
    let client = nd::run(line.into_iter().chain(["--mode", "event"]).chain(TINY));
    client.assert_success();
    assert!(client.stdout.contains("over UDP"), "{client}");
    server.finish().assert_success();
}

#[test]
fn a_side_that_has_waited_in_vain_names_the_limit_and_its_option() {
    let hold = ["--fault", "when 30th Send sent: hold", "--timeout", "0.5"];
    for mode in ["event", "poll"] {
        let what = [
            "perf", "local", "--op", "send", "--test", "latency", "--mode", mode,
        ];
        let run = nd::run(what.iter().chain(&hold));
        run.assert_failure("nothing has completed for 500 ms");
        run.assert_failure("--timeout");
    }
}
