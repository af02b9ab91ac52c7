//! The tests of the provider that do not run in a simulated network, with their reasons.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The subject of a test that a simulated network does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// Several threads.
    Threads,
    /// Descriptors, and their limit for a process.
    Descriptors,
    /// The limit of a process's memory.
    Memory,
    /// Sockets of the system, their ports and readiness, and the processors that they are served on.
    Sockets,
}
use Subject::{Descriptors, Memory, Sockets, Threads};

/// Tests of these files make simulated networks themselves, unless the system's sockets are their subject.
const SIMULATED: [&str; 5] = [
    "fault_datagrams::",
    "fault_seeds::",
    "guesses::",
    "simulated::",
    "simulated_udp::",
];

/// The tests that are not in this program.
const ELSEWHERE: &[(&str, Subject)] = &[
    ("allocations::warm_requests_allocate_nothing", Sockets),
    (
        "descriptors::a_peer_is_served_as_soon_as_another_part_of_the_process_frees_a_descriptor",
        Descriptors,
    ),
    (
        "descriptors::a_peer_is_served_when_a_connection_of_ours_ends",
        Descriptors,
    ),
    (
        "descriptors::nobody_gives_way_where_nobody_waits",
        Descriptors,
    ),
    (
        "descriptors::peers_that_have_spoken_do_not_give_way",
        Descriptors,
    ),
    (
        "descriptors::silent_peers_give_their_descriptors_up",
        Descriptors,
    ),
    (
        "descriptors::threads_that_wait_need_no_descriptors",
        Descriptors,
    ),
    (
        "hand_over::a_wait_ends_beside_a_connection_that_is_over",
        Threads,
    ),
    (
        "hand_over::completion_queues_can_be_made_while_others_come_and_go",
        Threads,
    ),
    (
        "hand_over::every_wait_ends_while_connections_come_and_go",
        Threads,
    ),
    (
        "killed::a_peer_that_is_stopped_costs_no_processor_time_and_goes_on",
        Sockets,
    ),
    ("killed::a_victim", Sockets),
    (
        "killed::peers_that_are_killed_leave_nothing_behind",
        Descriptors,
    ),
    (
        "memory::adpt_021_adpt_042_adpt_058_adpt_073_cq_011_srq_012_no_memory_for_queues_is_a_status",
        Memory,
    ),
    ("one_processor::eight_threads_that_poll_yield", Threads),
    (
        "one_processor::threads_that_ask_for_the_end_of_a_request_yield",
        Threads,
    ),
    (
        "one_processor::threads_that_choose_one_of_several_processors_do_not_yield",
        Threads,
    ),
    ("one_processor::two_threads_that_poll_yield", Threads),
    (
        "panics::gen_015_a_panic_of_a_thread_that_polls_removes_the_device",
        Threads,
    ),
    (
        "panics::gen_015_a_panic_of_the_background_thread_removes_the_device",
        Threads,
    ),
    (
        "readiness::an_adapter_uses_the_interface_that_is_named",
        Sockets,
    ),
    (
        "readiness::an_unknown_interface_opens_no_adapter_and_is_told_which_there_are",
        Sockets,
    ),
    (
        "resident_set::ten_thousand_simulated_networks_take_no_more_memory_than_a_thousand",
        Memory,
    ),
    (
        "same_host::a_connector_waits_for_as_long_as_its_options_say",
        Sockets,
    ),
    (
        "same_host::both_ends_name_shared_memory_if_both_have_the_option",
        Sockets,
    ),
    (
        "same_host::both_ends_name_tcp_if_one_end_alone_has_the_option",
        Sockets,
    ),
    (
        "scale::a_few_of_thousands_are_served_and_all_others_are_silent",
        Descriptors,
    ),
    (
        "scale::srq_027_thousands_share_fewer_receives_and_each_message_completes_once",
        Descriptors,
    ),
    (
        "scale::thousands_over_one_udp_socket_are_all_served_and_each_message_completes_once",
        Sockets,
    ),
    (
        "small_over_udp::small_reads_get_through_where_nobody_polls",
        Sockets,
    ),
    (
        "small_over_udp::small_requests_get_through_beside_sends_without_end",
        Sockets,
    ),
    (
        "small_over_udp::small_requests_get_through_beside_writes_without_end",
        Sockets,
    ),
    (
        "small_over_udp::small_requests_get_through_beside_writes_without_end_on_the_same_connection",
        Sockets,
    ),
    (
        "small_over_udp::the_time_of_a_small_read_beside_writes_without_end",
        Sockets,
    ),
    (
        "sockets::by_a_loop_of_the_clients_own_over_the_files_descriptor",
        Descriptors,
    ),
    (
        "sockets::cq_003_cq_009_iw_043_notify_affinity_is_the_one_in_use",
        Sockets,
    ),
    (
        "sockets::lstn_009_lstn_010_the_wildcards_port_is_free_on_every_address",
        Sockets,
    ),
    (
        "stalled::stalled_queue_pairs_do_not_take_the_window_of_the_last_one",
        Sockets,
    ),
    (
        "stalled::the_rate_beside_a_hundred_stalled_queue_pairs",
        Sockets,
    ),
    (
        "threads::a_call_of_the_connector_ends_requests_with_no_lock_held",
        Threads,
    ),
    (
        "threads::after_polling_a_wait_in_another_thread_is_woken",
        Threads,
    ),
    (
        "threads::by_a_completion_port_with_several_threads",
        Threads,
    ),
    ("threads::by_waiting_while_another_thread_sends", Threads),
    (
        "threads::conn_106_a_poller_that_finds_the_flush_finds_notify_disconnect_done",
        Threads,
    ),
    (
        "threads::conn_106_the_flush_waits_for_a_cancel_under_way",
        Threads,
    ),
    (
        "threads::lstn_025_withdrawing_while_peers_arrive_loses_none",
        Threads,
    ),
    (
        "threads::qp_028_threads_that_take_results_find_the_slots_free",
        Threads,
    ),
    ("threads::removal_meets_calls_of_other_threads", Threads),
    (
        "threads::small_reads_get_through_where_another_thread_polls",
        Threads,
    ),
    (
        "threads::two_threads_wait_for_two_things_on_one_file",
        Threads,
    ),
    (
        "waiters::a_hundred_idle_threads_sleep_and_an_arrival_wakes_one",
        Threads,
    ),
    (
        "waiters::five_hundred_idle_threads_sleep_and_an_arrival_wakes_one",
        Threads,
    ),
    (
        "waiters::two_thousand_idle_threads_sleep_and_an_arrival_wakes_one",
        Threads,
    ),
];

/// All tests of the files in the folders `tests` and `tests/it`, as `file::test`.
fn all() -> BTreeSet<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let folders = [tests.join("it"), tests];
    let mut all = BTreeSet::new();
    for entry in folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
    {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let file = path.file_stem().unwrap().to_str().unwrap();
        let source = fs::read_to_string(&path).unwrap();
        let mut lines = source.lines();
        while lines.any(|line| line.trim() == "#[test]") {
            let name = lines.find_map(|line| line.trim().strip_prefix("fn "));
            let (name, _) = name.and_then(|name| name.split_once('(')).unwrap();
            all.insert(format!("{file}::{name}"));
        }
    }
    all
}

/// The tests of this program, as `file::test`.
fn here() -> BTreeSet<String> {
    let listed = Command::new(std::env::current_exe().unwrap())
        .arg("--list")
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    let own = |name: &&str| name.starts_with("list::") || name.starts_with("seeds::");
    names.filter(|name| !own(name)).map(str::to_owned).collect()
}

#[test]
fn every_test_runs_in_a_simulated_network_or_is_listed_with_its_subject() {
    let (all, here) = (all(), here());
    assert!(all.len() > 200, "{} tests were found", all.len());
    let unknown: Vec<_> = here.difference(&all).collect();
    assert!(unknown.is_empty(), "in no file: {unknown:?}");
    let simulated = |name: &String| SIMULATED.iter().any(|file| name.starts_with(file));
    let others = all.difference(&here);
    let others: BTreeSet<_> = others.filter(|name| !simulated(name)).collect();
    let listed: BTreeSet<_> = ELSEWHERE.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed.len(), ELSEWHERE.len(), "one is listed twice");
    let unlisted: Vec<_> = others
        .iter()
        .filter(|name| !listed.contains(name.as_str()))
        .collect();
    assert!(
        unlisted.is_empty(),
        "neither in a simulated network nor listed with the reason: {unlisted:?}"
    );
    let gone: Vec<_> = listed
        .iter()
        .filter(|name| !others.contains(&(**name).to_owned()))
        .collect();
    assert!(
        gone.is_empty(),
        "listed, but gone or in a simulated network: {gone:?}"
    );
    let most = (listed.len() + here.len()) / 5;
    assert!(
        listed.len() <= most,
        "{} tests are not in a simulated network, which is more than a fifth: {most}",
        listed.len()
    );
}
