//! The counters of a process, and the file that it writes them to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use softverbs::faults::Plan;
use softverbs::{
    CmEventKind, CmId, Conditions, DeviceKind, Errno, EventChannel, NetworkInterface, Process,
    ProcessOptions, RemotePlace, SendData, SendOperation, WcStatus, WorkCompletion, World,
};

use crate::common::{Host, Pair, parameters};

/// The counters that are not 0.
fn counted(host: &Host) -> BTreeMap<String, u64> {
    let counters = host.process.counters().into_iter();
    counters
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.into_owned(), count))
        .collect()
}

fn only(name: &str, count: u64) -> BTreeMap<String, u64> {
    [(name.to_owned(), count)].into()
}

#[test]
fn every_counter_is_there_before_the_first_connection() {
    let pair = Pair::simulated(71, DeviceKind::Roce);
    let counters = pair.client.process.counters();
    let names: Vec<_> = counters.keys().map(|name| &**name).collect();
    let expected = [
        "datagrams.foreign",
        "datagrams.no_receive",
        "datagrams.not_sent",
        "datagrams.receive_too_short",
        "datagrams.unknown_number",
        "datagrams.wrong_key",
        "faults.happened",
        "lenient.no_ready_message",
        "lenient.passive_first",
        "lenient.read_sink",
        "lenient.receive_wait",
        "lenient.surplus_sges",
        "protection_faults.others",
        "refused_for_faults",
    ];
    assert_eq!(names, expected);
    assert_eq!(counted(&pair.client), BTreeMap::new());
}

#[test]
fn a_connection_whose_passive_side_sends_first_is_counted_once() {
    let pair = Pair::simulated(72, DeviceKind::Roce);
    for connections in 1..=2 {
        let (client, server) = pair.connect();
        for number in 0..2 {
            let here = [client.sge(0, 100)];
            client.qp.post_receive(number, &here).unwrap();
            server.post(number, SendOperation::Send, &[server.sge(0, 100)]);
        }
        assert_eq!(client.completions(2).len(), 2);
        let expected = only("lenient.passive_first", connections);
        assert_eq!(counted(&pair.server), expected);
    }
    assert_eq!(counted(&pair.client), BTreeMap::new());
}

#[test]
fn a_send_that_waits_for_a_receive_is_counted() {
    let pair = Pair::simulated(73, DeviceKind::Roce);
    let (client, server) = pair.connect();
    client.post(1, SendOperation::Send, &[client.sge(0, 100)]);
    let mut none = [WorkCompletion::default(); 1];
    for _ in 0..100_000 {
        assert_eq!(server.cq.poll(&mut none), 0);
        if !counted(&pair.server).is_empty() {
            break;
        }
    }
    assert_eq!(counted(&pair.server), only("lenient.receive_wait", 1));
    server.qp.post_receive(2, &[server.sge(0, 100)]).unwrap();
    assert_eq!(server.statuses(1), [(2, WcStatus::Success)]);
    // The next Send finds its Receive.
    server.qp.post_receive(3, &[server.sge(0, 100)]).unwrap();
    client.post(4, SendOperation::Send, &[client.sge(0, 100)]);
    assert_eq!(server.statuses(1), [(3, WcStatus::Success)]);
    assert_eq!(counted(&pair.server), only("lenient.receive_wait", 1));
    assert_eq!(counted(&pair.client), BTreeMap::new());
}

#[test]
fn a_peer_that_names_memory_it_may_not_use_is_counted_by_its_address() {
    let pair = Pair::simulated(74, DeviceKind::Roce);
    let (client, server) = pair.connect();
    let wrong = RemotePlace {
        rkey: server.region.key() ^ 1,
        ..server.place(0)
    };
    let write = SendOperation::Write(wrong);
    client
        .try_post(1, write, SendData::Sges(&[client.sge(0, 100)]))
        .unwrap();
    pair.server.expect(CmEventKind::Disconnected);
    let expected = only("protection_faults.10.0.0.1", 1);
    assert_eq!(counted(&pair.server), expected);
    assert_eq!(counted(&pair.client), BTreeMap::new());
}

#[test]
fn faults_of_the_plan_are_counted() {
    let mut options = ProcessOptions::default();
    let plan: Plan = "when 1st connect: refuse; when 2nd connect: refuse"
        .parse()
        .unwrap();
    options.faults = Some(plan);
    let pair = Pair::simulated_with(75, options, ProcessOptions::default());
    let (listener, address) = pair.server.listen();
    for refused in 1..=2 {
        let client = pair.client.resolved(address);
        client.connect(&parameters(b"")).unwrap();
        pair.client.event(CmEventKind::Rejected).acknowledge();
        assert_eq!(counted(&pair.client), only("faults.happened", refused));
        client.destroy().unwrap();
    }
    listener.destroy().unwrap();
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[test]
fn the_file_is_written_once_something_has_begun_and_again_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = ProcessOptions::default();
    options.counters = Some(folder.path().to_owned());
    let world = World::new(76, Conditions::default());
    let interface = NetworkInterface::simulated(1, vec![[10, 0, 0, 1].into()]);
    let process = Process::simulated(&world, vec![interface], options).unwrap();
    process.write_counters().unwrap();
    assert_eq!(files(folder.path()), [""; 0]);

    let channel = EventChannel::create(&process).unwrap();
    let _id = CmId::create(&channel).unwrap();
    for _ in 0..2 {
        process.write_counters().unwrap();
        let [name] = &files(folder.path())[..] else {
            panic!("one file");
        };
        assert!(name.ends_with(&format!("-{}.json", std::process::id())));
        let text = fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.contains("    \"faults.happened\": 0,\n"), "{text}");
        assert!(text.starts_with("{\n") && text.ends_with("\n}\n"), "{text}");
        fs::write(folder.path().join(name), "something else").unwrap();
    }
    fs::remove_dir_all(folder.path()).unwrap();
    let error = process.write_counters().unwrap_err();
    assert_eq!(error.errno(), Errno::NOENT);
    assert!(error.to_string().starts_with("cannot write the counters: "));
}
