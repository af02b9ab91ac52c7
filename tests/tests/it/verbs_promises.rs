//! The promises of the libraries to C programs under `nd run`: each program in `tests/verbs` is about one promise.

use std::process::{Command, Output, Stdio};

use softnd_tests::c_programs::CProgram;
use softnd_tests::verbs_programs::nd_run;
use softnd_tests::{nd, tool};

const HEADERS: [&str; 2] = ["infiniband/verbs.h", "rdma/rdma_cma.h"];
const LIBRARIES: [&str; 3] = ["-libverbs", "-lrdmacm", "-pthread"];

/// Runs a program as `keeps_with`, without arguments.
#[track_caller]
fn keeps(name: &str, environment: &[(&str, &str)]) {
    keeps_with(name, &[], environment);
}

/// Runs a program with arguments, and checks that it and the libraries report nothing.
#[track_caller]
fn keeps_with(name: &str, arguments: &[&str], environment: &[(&str, &str)]) {
    keeps_within("120", name, arguments, environment);
}

/// `limit`, in seconds, only ends a hang.
#[track_caller]
fn keeps_within(limit: &str, name: &str, arguments: &[&str], environment: &[(&str, &str)]) {
    keeps_as(limit, name, (&[], arguments), environment);
}

/// As `keeps_within`, with options of `nd run` in front of the arguments.
#[track_caller]
fn keeps_as(
    limit: &str,
    name: &str,
    (options, arguments): (&[&str], &[&str]),
    environment: &[(&str, &str)],
) {
    let Some(program) = CProgram::compile(name, &HEADERS, &LIBRARIES) else {
        return;
    };
    nd::build_libraries();
    let mut command = Command::new(nd::binary());
    command.arg("run").args(options);
    command.args(["--", "timeout", limit, program.path()]);
    command.args(arguments);
    command.envs(environment.iter().copied());
    command.stdin(Stdio::null());
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(
        status.success() && stdout == "0 failures\n" && stderr.is_empty(),
        "{name}: {status}\n{stdout}\n{stderr}"
    );
}

#[test]
fn descriptors_are_readable_exactly_while_an_event_waits() {
    keeps("descriptors", &[]);
}

#[test]
fn receives_stay_posted_behind_a_peer_that_leaves() {
    keeps("leaves", &[]);
}

#[test]
fn a_server_that_stops_at_the_first_failed_completion_misses_no_message() {
    keeps("few_at_a_time", &[]);
}

#[test]
fn a_peer_that_acknowledges_nothing_ends_the_connection_after_the_time_that_the_program_sets() {
    keeps("silence", &[]);
}

/// The reader's process takes up every seventh Write late, so that what is said over TCP overtakes the Write.
const LATE: (&str, &str) = (
    "SOFTND_VERBS_FAULTS",
    "when every 7th Write received: hold for 2 ms",
);

#[test]
fn data_of_a_write_that_is_done_is_there_when_tcp_says_so() {
    keeps("placed", &[]);
    keeps("placed", &[LATE]);
}

/// Shows that the test above can fail, because nothing is confirmed here.
#[test]
fn data_of_a_write_that_was_sent_may_be_missing() {
    let Some(program) = CProgram::compile("placed", &HEADERS, &LIBRARIES) else {
        return;
    };
    let mut command = nd_run(&["timeout", "120", program.path(), "100"]);
    command.envs([("SOFTND_VERBS_WRITES", "sent"), LATE]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    for way in ["rdma_cm", "numbers"] {
        let missing = said.lines().filter(|line| line.starts_with(way));
        let missing = missing.filter(|line| line.ends_with("did not find the data"));
        assert_eq!(missing.count(), 1, "{said}");
    }
    assert!(said.ends_with("2 failures\n"), "{said}");
}

#[test]
fn reads_and_writes_are_done_while_a_message_waits_for_a_receive() {
    keeps("passes", &[]);
    keeps("passes", &[("SOFTND_SAME_HOST", "1")]);
}

#[test]
fn a_fork_leaves_the_connections_of_the_parent_alone() {
    keeps("forks", &[]);
}

#[test]
fn a_child_finds_no_lock_that_a_thread_of_its_parent_holds() {
    keeps("fork_locks", &[]);
}

#[test]
fn what_was_posted_before_the_end_of_a_program_arrives() {
    keeps("exits", &[]);
}

#[test]
fn a_channel_that_was_destroyed_refuses_late_calls() {
    keeps("late_channel", &[]);
}

#[test]
fn signals_end_calls_unless_all_handlers_restart() {
    keeps("signals", &[]);
}

#[test]
fn calls_that_block_are_cancellation_points() {
    // Its threads yield to each other, which takes long where the processors have other work.
    keeps_within("600", "cancels", &[], &[]);
}

#[test]
fn registrations_overlap() {
    keeps("memory", &[]);
}

/// Where the kernel copies all long payload: without CRCs, and whatever the processor.
#[test]
fn memory_that_is_unmapped_ends_its_queue_pair_alone() {
    let kernel_copies = [
        ("SOFTND_VERBS_CRC", "off"),
        ("SOFTND_PAGE_OFFSETS", "equal"),
    ];
    keeps("memory", &kernel_copies);
}

#[test]
fn atomics_lose_no_change_and_end_as_on_hardware() {
    keeps("atomics", &[]);
}

/// 1,000 connections, from both ends.
#[test]
fn a_send_with_a_number_may_be_the_first_request() {
    keeps_within("600", "sends_numbers", &["1000"], &[]);
}

#[test]
fn devices_for_iwarp_refuse_sends_with_a_number() {
    let as_iwarp = &["--as", "iwarp"];
    keeps_as("120", "refuses_numbers", (as_iwarp, &[]), &[]);
}

#[test]
fn memory_is_registered_and_used_by_its_rights() {
    keeps("rights", &[]);
}

/// Without CRCs the kernel copies long data that is sent from its place.
#[test]
fn memory_that_has_lost_its_rights_ends_its_connection_where_the_kernel_copies() {
    let kernel_copies = [
        ("SOFTND_VERBS_CRC", "off"),
        ("SOFTND_PAGE_OFFSETS", "equal"),
    ];
    keeps_with("rights", &["without"], &kernel_copies);
}

#[test]
fn threads_share_a_completion_queue() {
    keeps("threads", &[]);
}

#[test]
fn threads_see_the_devices_by_their_first_calls() {
    keeps("opens", &[]);
}

/// SEC-018: the slot of a request is used until its completion was polled.
#[test]
fn a_program_that_polls_nothing_overruns_no_queue() {
    keeps("slots", &[]);
}

#[test]
fn what_the_library_changes_is_shown() {
    keeps("queried", &[]);
}

/// Libraries over verbs ask for queues of a million completions, and hold a few.
#[test]
fn a_deep_queue_takes_memory_for_what_it_holds() {
    keeps("deep_queue", &[]);
}

/// A run of 20,000 failures takes less than some seconds, each of which has ten lines of a kind.
#[test]
fn explanations_of_one_kind_are_few_and_say_how_many_were_left_out() {
    let Some(program) = CProgram::compile("explained", &HEADERS, &LIBRARIES) else {
        return;
    };
    nd::build_libraries();
    let mut command = Command::new(nd::binary());
    command.args(["run", "--explain", "--", program.path()]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let (left_out, explained): (Vec<_>, Vec<_>) = said
        .lines()
        .partition(|line| line.contains("were left out"));
    assert!(!said.contains("no event waits"), "{said}");
    let number = |line: &&str| -> usize {
        let (_, behind) = line.split_once(": ").expect("a line of the library");
        let digits = behind.split(' ').next().expect("a number");
        digits.parse().expect("a number")
    };
    let left_out: usize = left_out.iter().map(number).sum();
    assert_eq!(explained.len() + left_out, 20_000, "{said}");
    assert!(explained.len() < 2_000, "{} lines", explained.len());
}

#[test]
fn failed_completions_say_by_which_terminate_the_connection_ended() {
    keeps("terminates", &[]);
}

/// The program makes six connections: four end by an error, which both ends explain, and two by a disconnect.
#[test]
fn connections_that_end_by_an_error_are_explained() {
    let Some(program) = CProgram::compile("terminates", &HEADERS, &LIBRARIES) else {
        return;
    };
    nd::build_libraries();
    let mut command = Command::new(nd::binary());
    command.args(["run", "--explain", "--", program.path()]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let ends = |words: &str| said.lines().filter(|line| line.contains(words)).count();
    let connection = "softnd's libibverbs: the connection with 127.0.0.1:";
    assert_eq!((ends(connection), said.lines().count()), (8, 8), "{said}");
    for code in ["1/2/05", "0/1/00"] {
        let sent = format!("it sent Terminate {code}");
        assert_eq!(ends(&sent), 4, "{said}");
    }
    assert_eq!(ends("ended: this side found an error"), 4, "{said}");
    assert_eq!(ends("ended: the peer found an error"), 4, "{said}");
}

#[test]
fn polls_yield_on_one_processor() {
    keeps_with("one_processor", &["2"], &[]);
    keeps_with("one_processor", &["8"], &[]);
}

/// Shows that the test above can fail, because these polls do not yield.
#[test]
fn threads_that_choose_one_of_several_processors_do_not_yield() {
    let processors = std::thread::available_parallelism();
    if processors.is_ok_and(|count| count.get() > 1) {
        keeps_with("one_processor", &["2", "several"], &[]);
    } else {
        tool::skip("there is one processor");
    }
}

#[test]
fn a_destroyed_queue_has_no_later_event() {
    keeps_within("1200", "late_event", &["100"], &[]);
}

/// The step `late-event` of the night.
#[test]
#[ignore = "takes a minute"]
fn late_events_of_many_rounds() {
    keeps_within("3600", "late_event", &["25000"], &[]);
}

#[test]
fn bad_input_gets_the_documented_errors() {
    keeps("errors", &[]);
}

#[test]
fn members_that_programs_write_are_read() {
    keeps("members", &[]);
}

#[test]
fn a_device_closes_with_objects_left() {
    keeps("closes", &[]);
}

#[test]
fn names_of_newer_releases_exist() {
    keeps("newer_names", &[]);
}

#[test]
fn lists_are_compared_with_the_limits_of_their_object_and_end() {
    keeps("lists", &[]);
}

#[test]
fn structures_and_lists_need_not_be_aligned() {
    keeps("unaligned", &[]);
}

#[test]
fn names_lead_to_addresses_or_to_the_codes_of_getaddrinfo() {
    keeps("names", &[]);
}

#[test]
fn identifiers_without_a_channel_wait_and_endpoints_come_and_go_in_one_call() {
    keeps("endpoints", &[]);
}

#[test]
fn iw_055_an_address_with_many_connections_leaves_room_for_others() {
    keeps("shares", &[]);
}

/// As many as an attacker can have: all places of the longest backlog, and all descriptors of a server that may have 1,024.
#[test]
#[ignore = "opens some 20,000 connections: .ci/night attacks"]
fn iw_055_another_address_is_served_in_a_flood() {
    keeps("shares", &[("SHARES_LARGE", "1")]);
}
