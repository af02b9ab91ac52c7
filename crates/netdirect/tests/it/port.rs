//! Completion ports: OVL-001, ADPT-007, ADPT-008, TST-008, TST-010, TST-026, TST-030 to TST-032, AMB-069.

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::MockFile;
use netdirect::{CompletionPort, Overlapped, OverlappedFile, Status};

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

#[test]
fn one_port_per_file() {
    let (_, file) = MockFile::shared();
    let (one, two) = (CompletionPort::new(), CompletionPort::new());
    file.associate(&one, 1).unwrap();
    assert_eq!(
        file.associate(&two, 2).unwrap_err().status(),
        Status::INVALID_DEVICE_STATE
    );
    assert_eq!(
        file.associate(&one, 3).unwrap_err().status(),
        Status::INVALID_DEVICE_STATE
    );
    Overlapped::new()
        .begin(&file)
        .unwrap()
        .complete(Status::SUCCESS);
    assert_eq!(one.get(AT_ONCE).unwrap().key, 1);
    assert!(two.get(AT_ONCE).is_none());
}

#[test]
fn requests_in_flight_before_the_tie_arrive_too() {
    // ADPT-008
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    let pending = Overlapped::new().begin(&file).unwrap();
    Overlapped::new()
        .begin(&file)
        .unwrap()
        .complete(Status::SUCCESS); // ends before: no packet
    file.associate(&port, 4).unwrap();
    pending.complete(Status::NOT_SUPPORTED);
    assert_eq!(port.get(AT_ONCE).unwrap().status, Status::NOT_SUPPORTED);
    assert!(port.is_empty());
}

#[test]
fn closed_file_sends_no_packets_and_cannot_be_tied() {
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 4).unwrap();
    let overlapped = Overlapped::new();
    let pending = overlapped.begin(&file).unwrap();
    file.association().close();
    pending.complete(Status::CANCELED);
    assert_eq!(overlapped.wait(), Status::CANCELED);
    assert!(port.get(AT_ONCE).is_none());
    assert_eq!(
        file.associate(&port, 4).unwrap_err().status(),
        Status::INVALID_DEVICE_STATE
    );
}

#[test]
fn packets_are_there_at_once_and_in_the_order_of_ends() {
    // TST-030, TST-031: ends in reverse order of beginning, on two files of one port
    let port = CompletionPort::new();
    let (one, two) = (MockFile::shared().1, MockFile::shared().1);
    one.associate(&port, 1).unwrap();
    two.associate(&port, 2).unwrap();
    for _ in 0..1000 {
        let first = Overlapped::new().begin(&one).unwrap();
        let second = Overlapped::new().begin(&two).unwrap();
        second.complete(Status::CANCELED);
        first.complete(Status::CANCELED);
        let keys =
            [port.get(AT_ONCE), port.get(AT_ONCE)].map(|packet| packet.map(|packet| packet.key));
        assert_eq!(keys, [Some(2), Some(1)]);
    }
}

#[test]
fn packet_carries_the_real_status_even_when_the_overlapped_is_used_again() {
    // AMB-069, TST-107
    let (_, file) = MockFile::shared();
    let port = CompletionPort::new();
    file.associate(&port, 0).unwrap();
    let overlapped = Overlapped::new();
    overlapped
        .begin(&file)
        .unwrap()
        .complete(Status::CONNECTION_REFUSED);
    let _second = overlapped.begin(&file).unwrap();
    let packet = port.get(AT_ONCE).unwrap();
    assert_eq!(packet.status, Status::CONNECTION_REFUSED);
    assert!(packet.overlapped.unwrap().is_pending());
}

#[test]
fn getting_drives_every_file() {
    let port = CompletionPort::new();
    let files: Vec<_> = (0..3).map(|_| MockFile::shared()).collect();
    for (key, (_, file)) in (0..).zip(&files) {
        file.associate(&port, key).unwrap();
    }
    for timeout in [AT_ONCE, None] {
        let mut keys = HashSet::new();
        for (mock, file) in &files {
            let pending = Overlapped::new().begin(file).unwrap();
            mock.submit(move || pending.complete(Status::SUCCESS));
        }
        for _ in &files {
            keys.insert(port.get(timeout).unwrap().key);
        }
        assert_eq!(keys, HashSet::from([0, 1, 2]));
    }
}

#[test]
fn thread_parked_on_one_file_is_woken_by_an_end_on_another() {
    let port = CompletionPort::new();
    let ((one_mock, one), (_, two)) = (MockFile::shared(), MockFile::shared());
    one.associate(&port, 1).unwrap();
    two.associate(&port, 2).unwrap();
    let getter = thread::spawn({
        let port = port.clone();
        move || port.get(None).unwrap().key
    });
    one_mock.wait_for_sleepers(1);
    Overlapped::new()
        .begin(&two)
        .unwrap()
        .complete(Status::SUCCESS);
    assert_eq!(getter.join().unwrap(), 2);
}

#[test]
fn threads_spread_over_files() {
    let port = CompletionPort::new();
    let (one, two) = (MockFile::shared(), MockFile::shared());
    one.1.associate(&port, 1).unwrap();
    two.1.associate(&port, 2).unwrap();
    let getters: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn({
                let port = port.clone();
                move || port.get(None)
            })
        })
        .collect();
    one.0.wait_for_sleepers(2);
    two.0.wait_for_sleepers(2);
    for user in 0..4 {
        port.post(0, user);
    }
    let users: HashSet<_> = getters
        .into_iter()
        .map(|getter| getter.join().unwrap().unwrap().user)
        .collect();
    assert_eq!(users.len(), 4);
}

#[test]
fn foreign_posts_wake_with_and_without_files() {
    let port = CompletionPort::new();
    let getter = thread::spawn({
        let port = port.clone();
        move || port.get(None).unwrap()
    });
    port.post(3, 33);
    let packet = getter.join().unwrap();
    assert_eq!(
        (packet.key, packet.user, packet.status),
        (3, 33, Status::SUCCESS)
    );
    assert!(packet.overlapped.is_none());

    let (mock, file) = MockFile::shared();
    file.associate(&port, 0).unwrap();
    let getter = thread::spawn({
        let port = port.clone();
        move || port.get(None).unwrap().user
    });
    mock.wait_for_sleepers(1);
    port.post(0, 34);
    assert_eq!(getter.join().unwrap(), 34);
}

#[test]
fn file_tied_while_a_thread_sleeps_is_driven_by_it() {
    let port = CompletionPort::new();
    let getter = thread::spawn({
        let port = port.clone();
        move || port.get(None).unwrap().key
    });
    let (mock, file) = MockFile::shared();
    let pending = Overlapped::new().begin(&file).unwrap();
    file.associate(&port, 8).unwrap();
    mock.submit(move || pending.complete(Status::SUCCESS)); // nobody but the sleeper can run this
    assert_eq!(getter.join().unwrap(), 8);
}

#[test]
fn limits_of_time_hold() {
    let port = CompletionPort::new();
    assert!(port.get(AT_ONCE).is_none());
    assert!(port.get(Some(Duration::from_millis(2))).is_none());
    let (_, file) = MockFile::shared();
    file.associate(&port, 0).unwrap();
    assert!(port.get(AT_ONCE).is_none());
    assert!(port.get(Some(Duration::from_millis(2))).is_none());
    port.post(0, 1);
    assert_eq!(port.get(Some(Duration::MAX)).unwrap().user, 1); // a limit beyond the clock is none
}

#[test]
fn several_packets_at_once_keep_their_order() {
    let port = CompletionPort::new();
    (0..10).for_each(|user| port.post(0, user));
    let mut packets = Vec::new();
    assert_eq!(port.get_many(&mut packets, 0, None), 0);
    assert_eq!(port.get_many(&mut packets, 4, None), 4);
    assert_eq!(port.len(), 6);
    assert_eq!(port.get_many(&mut packets, 100, None), 6);
    assert_eq!(port.get_many(&mut packets, 100, AT_ONCE), 0);
    assert!(packets.iter().map(|packet| packet.user).eq(0..10));
}

#[test]
fn the_port_does_not_keep_files_alive() {
    // TST-026, TST-110: the client closes the file first, and the port goes on
    let port = CompletionPort::new();
    let (mock, file) = MockFile::shared();
    let weak = Arc::downgrade(&mock);
    file.associate(&port, 0).unwrap();
    drop((mock, file));
    assert!(weak.upgrade().is_none());
    port.post(0, 5);
    assert_eq!(port.get(None).unwrap().user, 5);
    assert!(port.get(AT_ONCE).is_none());
}

#[test]
fn no_wake_up_is_lost_under_load() {
    // TST-010: several threads behind one port, requests ending in the threads that drive, in threads that do not, and
    // posts of the application's own. A lost wake-up hangs the test; a lost or doubled packet fails it.
    const FILES: u64 = 3;
    const PER_FILE: u64 = 2000;
    let port = CompletionPort::new();
    let getters: Vec<_> = (0..4)
        .map(|_| {
            let port = port.clone();
            thread::spawn(move || {
                let mut users = Vec::new();
                loop {
                    let packet = port.get(None).expect("no limit");
                    match packet.user {
                        u64::MAX => return users,
                        user => users.push(user),
                    }
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..FILES)
        .map(|key| {
            let port = port.clone();
            thread::spawn(move || {
                let (mock, file) = MockFile::shared();
                file.associate(&port, key).unwrap();
                for n in 0..PER_FILE {
                    let user = key * PER_FILE + n;
                    let overlapped = Overlapped::new();
                    overlapped.set_user(user);
                    let begun = overlapped.begin(&file).unwrap();
                    match n % 4 {
                        0 => begun.complete(Status::SUCCESS),
                        1 => mock.submit(move || begun.complete(Status::SUCCESS)),
                        2 => {
                            begun.abandon(Status::SUCCESS);
                            port.post(key, user);
                        }
                        _ => {
                            mock.submit(move || begun.complete(Status::SUCCESS));
                            assert_eq!(overlapped.wait(), Status::SUCCESS); // competes with the getters
                        }
                    }
                }
                (mock, file) // kept until all packets were taken
            })
        })
        .collect();
    let files: Vec<_> = producers
        .into_iter()
        .map(|producer| producer.join().unwrap())
        .collect();
    // Work may still wait for a driver; when it has run, as many packets as there were requests have been queued.
    for (mock, _) in &files {
        mock.progress();
    }
    for _ in &getters {
        port.post(0, u64::MAX);
    }
    let mut users: Vec<_> = getters
        .into_iter()
        .flat_map(|getter| getter.join().unwrap())
        .collect();
    while let Some(packet) = port.get(AT_ONCE) {
        users.push(packet.user);
    }
    users.sort_unstable();
    assert!(users.into_iter().eq(0..FILES * PER_FILE));
}
