//! Completion channels: descriptors that are readable exactly while an event waits, and the thread that makes progress meanwhile.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use softverbs::{
    CmEventKind, CompletionChannel, CompletionQueue, DeviceKind, Errno, SendData, SendRequest,
    WcStatus,
};

use crate::common::{End, Host, Pair, errno, send_of};

fn channel(host: &Host) -> Arc<CompletionChannel> {
    let channel = CompletionChannel::create(&host.context).unwrap();
    channel.tag().set(1);
    channel
}

fn is_readable(descriptor: BorrowedFd<'_>, limit: Option<i64>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let limit = limit.map(|tv_sec| Timespec { tv_sec, tv_nsec: 0 });
    poll(&mut watched, limit.as_ref()).unwrap() > 0
}

/// Only to end a hang.
const LONG: Option<i64> = Some(60);

/// A pair on sockets whose server has a channel.
fn with_channel(pair: &Pair) -> (End, End, Arc<CompletionChannel>) {
    let channel = channel(&pair.server);
    let (client, server) = pair.connect_with([None, Some(&channel)]);
    server.cq.tag().set(42);
    for wr_id in 0..16 {
        server.qp.post_receive(wr_id, &[server.sge(0, 64)]).unwrap();
    }
    (client, server, channel)
}

fn send(client: &End, wr_id: u64, solicited: bool) {
    client
        .qp
        .post_send(&SendRequest {
            solicited,
            ..send_of(wr_id, SendData::Sges(&[client.sge(0, 8)]))
        })
        .unwrap();
}

#[test]
fn a_program_that_sleeps_in_its_own_poll_is_served() {
    let pair = Pair::on_sockets();
    let (client, server, channel) = with_channel(&pair);
    let descriptor = channel.descriptor().unwrap();
    assert!(!is_readable(descriptor, Some(0)));
    for round in 0..8 {
        server.cq.request_notification(false);
        assert!(!is_readable(descriptor, Some(0)), "in vain");
        // Both ways of going to sleep: at once, and after a poll that finds nothing.
        if round % 2 == 0 {
            assert_eq!(
                server.cq.poll(&mut [softverbs::WorkCompletion::default()]),
                0
            );
        }
        send(&client, round, false);
        assert!(is_readable(descriptor, LONG), "no event in round {round}");
        let event = channel.get_event().unwrap();
        assert_eq!(event.tag(), 42);
        assert!(!is_readable(descriptor, Some(0)), "in vain");
        server.cq.acknowledge_events(1);
        assert_eq!(server.statuses(1), [(round, WcStatus::Success)]);
        assert_eq!(client.statuses(1), [(round, WcStatus::Success)]);
    }
}

#[test]
fn a_program_that_waits_in_the_channel_drives_its_streams() {
    for pair in [Pair::simulated(40, DeviceKind::Roce), Pair::on_sockets()] {
        let (client, server, channel) = with_channel(&pair);
        for round in 0..8 {
            server.cq.request_notification(false);
            send(&client, round, false);
            assert_eq!(channel.get_event().unwrap().tag(), 42);
            server.cq.acknowledge_events(1);
            assert_eq!(server.statuses(1), [(round, WcStatus::Success)]);
        }
    }
}

/// The descriptor is not changed for events that a waiting thread takes, but for those that are left.
#[test]
fn a_thread_that_waits_in_vain_leaves_the_descriptor_to_the_next_event() {
    let pair = Pair::simulated(43, DeviceKind::Roce);
    let (client, server, channel) = with_channel(&pair);
    server.cq.request_notification(false);
    assert_eq!(errno(channel.get_event()), Errno::DEADLK);
    assert!(!channel.has_event());
    send(&client, 1, false);
    assert_eq!(client.statuses(1), [(1, WcStatus::Success)]);
    while !channel.has_event() {
        assert_eq!(client.cq.poll(&mut [Default::default()]), 0);
    }
    channel.get_event().unwrap();
    assert!(!channel.has_event());
    server.cq.acknowledge_events(1);
    assert_eq!(server.statuses(1), [(0, WcStatus::Success)]);
}

/// A program that has waited in the channel continues in its own `poll`.
#[test]
fn a_program_may_change_how_it_waits() {
    let pair = Pair::on_sockets();
    let (client, server, channel) = with_channel(&pair);
    let descriptor = channel.descriptor().unwrap();
    for round in 0..12 {
        server.cq.request_notification(false);
        if round % 6 < 2 {
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| channel.get_event().unwrap().tag());
                send(&client, round, false);
                assert_eq!(waiting.join().unwrap(), 42);
            });
        } else {
            send(&client, round, false);
            assert!(is_readable(descriptor, LONG), "no event in round {round}");
            assert_eq!(channel.get_event().unwrap().tag(), 42);
        }
        assert!(!is_readable(descriptor, Some(0)), "in vain");
        server.cq.acknowledge_events(1);
        assert_eq!(server.statuses(1), [(round, WcStatus::Success)]);
        assert_eq!(client.statuses(1), [(round, WcStatus::Success)]);
    }
}

#[test]
fn one_event_for_all_requests_and_none_without_one() {
    let pair = Pair::simulated(41, DeviceKind::Roce);
    let (client, server, channel) = with_channel(&pair);
    for _ in 0..100 {
        server.cq.request_notification(true);
        server.cq.request_notification(false);
    }
    send(&client, 0, false);
    send(&client, 1, false);
    channel.get_event().unwrap();
    assert_eq!(server.completions(2).len(), 2);
    assert!(!channel.has_event());
    send(&client, 2, false);
    assert_eq!(server.completions(1).len(), 1);
    assert!(!channel.has_event(), "the queue was not armed");
    server.cq.acknowledge_events(1);
}

#[test]
fn a_queue_armed_for_solicited_completions_lets_others_pass() {
    let pair = Pair::simulated(42, DeviceKind::Roce);
    let (client, server, channel) = with_channel(&pair);
    server.cq.request_notification(true);
    send(&client, 0, false);
    assert_eq!(server.completions(1).len(), 1);
    assert!(!channel.has_event());
    send(&client, 1, true);
    channel.get_event().unwrap();
    server.cq.acknowledge_events(1);
    assert_eq!(server.completions(1).len(), 1);
    // A failed request counts as a solicited one.
    server.cq.request_notification(true);
    client.id.disconnect().unwrap();
    pair.server.expect(CmEventKind::Disconnected);
    server.id.disconnect().unwrap();
    channel.get_event().unwrap();
    server.cq.acknowledge_events(1);
}

#[test]
fn a_descriptor_that_must_not_block_gives_eagain() {
    let pair = Pair::on_sockets();
    let (_client, server, channel) = with_channel(&pair);
    let nonblocking = |descriptor: BorrowedFd<'_>| fcntl_setfl(descriptor, OFlags::NONBLOCK);
    nonblocking(channel.descriptor().unwrap()).unwrap();
    nonblocking(pair.server.channel.descriptor().unwrap()).unwrap();
    nonblocking(pair.server.context.descriptor().unwrap()).unwrap();
    server.cq.request_notification(false);
    assert_eq!(errno(channel.get_event()), Errno::AGAIN);
    assert_eq!(errno(pair.server.channel.get_event()), Errno::AGAIN);
    assert_eq!(errno(pair.server.context.get_async_event()), Errno::AGAIN);
}

#[test]
fn a_program_that_sleeps_on_connection_events_is_served() {
    let pair = Pair::on_sockets();
    let (client, server) = pair.connect();
    client.id.disconnect().unwrap();
    let descriptor = pair.server.channel.descriptor().unwrap();
    assert!(is_readable(descriptor, LONG));
    pair.server.expect(CmEventKind::Disconnected);
    drop(server);
}

#[test]
fn a_parent_is_destroyed_after_its_children() {
    let pair = Pair::simulated(43, DeviceKind::Roce);
    let (client, server, channel) = with_channel(&pair);
    server.cq.request_notification(false);
    send(&client, 0, false);
    channel.get_event().unwrap();
    let End {
        id, qp, cq, region, ..
    } = server;
    let Host { context, pd, .. } = &pair.server;
    assert_eq!(errno(pd.destroy()), Errno::BUSY);
    assert_eq!(errno(cq.destroy()), Errno::BUSY);
    assert_eq!(errno(channel.destroy()), Errno::BUSY);
    assert!(context.has_objects());
    id.destroy_queue_pair().unwrap();
    assert_eq!(errno(qp.destroy()), Errno::INVAL);
    drop(qp);
    id.destroy().unwrap();
    assert_eq!(
        errno(cq.destroy()),
        Errno::DEADLK,
        "an event is not acknowledged"
    );
    cq.acknowledge_events(1);
    cq.destroy().unwrap();
    let other = CompletionQueue::create(context, 1, Some(&channel)).unwrap();
    assert_eq!(errno(channel.destroy()), Errno::BUSY);
    other.destroy().unwrap();
    drop((cq, other));
    channel.destroy().unwrap();
    drop(channel);
    region.deregister().unwrap();
    assert_eq!(errno(region.deregister()), Errno::INVAL);
    drop(region);
    pd.destroy().unwrap();
}
