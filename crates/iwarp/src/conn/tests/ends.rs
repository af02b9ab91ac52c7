//! How streams end, and the status of the requests.

use super::*;
use crate::ddp::UntaggedError;
use crate::rdmap::TerminateCode;

use WqeStatus::{Flushed, NoReceive, RemoteAccess, RemoteError, Success};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// `b` waits two seconds for a Receive.
fn patient() -> Pair {
    let b = StreamConfig {
        receive_wait: Duration::from_secs(2),
        ..stream(Role::Responder)
    };
    let mut pair = Pair::with(stream(Role::Initiator), b, Knobs::default());
    pair.a.conn.send_ready();
    pair.run();
    pair
}

#[test]
fn amb_008_a_send_waits_for_a_receive() {
    let mut pair = patient();
    pair.a.post(1, inline(&[b"hello"])).unwrap();
    pair.a.post(2, inline(&[b"again"])).unwrap();
    pair.run();
    assert!(pair.b.conn.is_stalled());
    assert_eq!(
        pair.b.conn.poll_timeout(pair.now),
        Some(pair.now + Duration::from_secs(2))
    );
    pair.advance(Duration::from_secs(1));
    let sge = pair.b.mem.register(vec![0; 16], Rights::ALL, PD);
    pair.b.conn.post_receive(1, &[sge]).unwrap();
    assert!(!pair.b.conn.is_stalled());
    assert_eq!(pair.b.conn.poll_timeout(pair.now), None);
    pair.run();
    assert_eq!(pair.b.mem.bytes(sge.token)[..5], *b"hello");
    // The second one has its own wait.
    assert_eq!(
        pair.b.conn.poll_timeout(pair.now),
        Some(pair.now + Duration::from_secs(2))
    );
    assert_eq!(pair.b.conn.counters().stalls, 2);
    pair.advance(Duration::from_secs(2));
    pair.run();
    assert_eq!(
        pair.b.fault(),
        Some(Fault::Untagged(UntaggedError::NoBuffer))
    );
    let terminate = pair.a.terminated().unwrap();
    assert_eq!(terminate.code, TerminateCode::new(1, 2, 2));
    assert_eq!(terminate.segment_length, Some(23));
    // AMB-007: handed over, so they keep their success.
    assert_eq!(statuses(&pair.a, RequestKind::Send), [Success, Success]);
}

#[test]
fn amb_008_a_send_not_handed_over_times_out() {
    let mut pair = patient();
    let source = pair.a.mem.register(vec![1; 100_000], Rights::NONE, PD);
    pair.a.post(1, sends(Payload::Sges(&[source]))).unwrap();
    pair.a.post(2, inline(&[])).unwrap();
    pair.knobs.write = 5000;
    let knobs = pair.knobs;
    let octets = pair.a.transmit(&knobs);
    pair.b.receive(&octets);
    assert!(pair.b.conn.is_stalled());
    pair.advance(Duration::from_secs(2));
    let terminate = pair.b.transmit(&knobs);
    pair.a.receive(&terminate);
    assert_eq!(statuses(&pair.a, RequestKind::Send), [NoReceive, Flushed]);
}

/// The time from the Send's arrival to the first question does not count: the engine has no clock.
#[test]
fn amb_008_the_wait_counts_from_when_the_owner_names_the_time() {
    let wait = Duration::from_secs(1);
    let stalled = || {
        let mut raw = Raw::with(StreamConfig {
            receive_wait: wait,
            ..stream(Role::Responder)
        });
        raw.receive(&vector("D1"));
        raw.now += 3 * wait;
        raw
    };
    let mut raw = stalled();
    let end = raw.now + wait;
    assert_eq!(raw.end.conn.poll_timeout(raw.now), Some(end));
    assert_eq!(raw.end.conn.poll_timeout(raw.now + wait / 2), Some(end));
    raw.end.conn.handle_timeout(raw.now + wait / 2);
    assert!(raw.end.conn.is_stalled());
    raw.end.conn.handle_timeout(end);
    assert!(raw.last_terminate().is_some());
    // Without a call of `poll_timeout` before.
    let mut raw = stalled();
    raw.end.conn.handle_timeout(raw.now);
    assert!(raw.end.conn.is_stalled());
    raw.end.conn.handle_timeout(raw.now + wait);
    assert!(raw.last_terminate().is_some());
    raw.receive(&[]);
    assert!(raw.end.staging.is_empty());
}

#[test]
fn the_longest_wait_for_a_receive_has_no_end() {
    let mut raw = Raw::with(StreamConfig {
        receive_wait: Duration::MAX,
        ..stream(Role::Responder)
    });
    raw.receive(&vector("D1"));
    assert_eq!(raw.end.conn.poll_timeout(raw.now), None);
    raw.end.conn.handle_timeout(raw.now + 1000 * YEAR);
    assert!(raw.end.conn.is_stalled());
    raw.post_receive(1, 16);
    raw.receive(&[]);
    assert_eq!(statuses(&raw.end, RequestKind::Receive), [Success]);
}

/// Each Send that finds no Receive is one event, behind [`Event::Ready`] and behind what was completed before it.
#[test]
fn a_stalled_send_is_an_event() {
    let mut raw = Raw::with(StreamConfig {
        receive_wait: Duration::from_secs(1),
        ..stream(Role::Responder)
    });
    // PEER-012 and the like: the client may post its Receive only when the connection is up.
    raw.receive(&vector("D1"));
    assert_eq!(raw.end.events, [Event::Ready, Event::Stalled]);
    raw.receive(&[]);
    raw.end.conn.poll_timeout(raw.now);
    raw.end.conn.handle_timeout(raw.now);
    raw.receive(&[]);
    assert_eq!(raw.end.events.len(), 2, "told once");
    raw.post_receive(1, 16);
    let second = frames(&vector("D5"), true).remove(0);
    raw.receive(&[]);
    raw.ulpdu(&second);
    assert!(matches!(
        raw.end.events[2..],
        [Event::Completed(_), Event::Stalled]
    ));
    assert_eq!(raw.end.conn.counters().stalls, 2);
}

#[test]
fn a_fin_behind_a_stalled_send_waits_with_it() {
    let config = StreamConfig {
        receive_wait: Duration::from_secs(1),
        ..stream(Role::Responder)
    };
    let mut raw = Raw::with(config);
    raw.receive(&vector("D1"));
    let unread = raw.end.staging.len();
    raw.end.conn.handle_stream_end(StreamEnd::Fin, unread);
    raw.end.collect();
    assert_eq!(raw.end.events, [Event::Ready, Event::Stalled]);
    raw.post_receive(1, 16);
    raw.receive(&[]);
    assert_eq!(statuses(&raw.end, RequestKind::Receive), [Success]);
    assert_eq!(raw.end.events.last(), Some(&Event::PeerClosed));
    assert!(raw.end.conn.write_side_done());
}

#[test]
fn a_fin_behind_a_stalled_send_is_told_when_the_send_is_given_up() {
    for given_up in [
        (|raw: &mut Raw| {
            raw.end.conn.poll_timeout(raw.now);
            raw.now += Duration::from_secs(1);
            raw.end.conn.handle_timeout(raw.now);
        }) as fn(&mut Raw),
        |raw| raw.end.conn.disconnect(),
        |raw| raw.end.conn.flush(),
    ] {
        let receive_wait = Duration::from_secs(1);
        let mut raw = Raw::with(StreamConfig {
            receive_wait,
            ..stream(Role::Responder)
        });
        raw.receive(&vector("D1"));
        let unread = raw.end.staging.len();
        raw.end.conn.handle_stream_end(StreamEnd::Fin, unread);
        given_up(&mut raw);
        raw.end.collect();
        assert_eq!(raw.end.events.last(), Some(&Event::Ended));
    }
}

#[test]
fn a_message_under_way_is_finished_behind_the_peers_fin() {
    // OPEN-10: a response must not follow an incomplete message.
    let mut raw = Raw::initiator().with_buffers();
    raw.knobs.limit.fpdus = 2;
    let source = raw.end.mem.register(vec![1; 5000], Rights::ALL, PD);
    let sink = SINK_OF_4;
    raw.end.post(1, read(&[sink], 0)).unwrap();
    raw.end.post(2, sends(Payload::Sges(&[source]))).unwrap();
    let mut sent = raw.transmit();
    raw.receive(&vector("D3"));
    raw.end.conn.handle_stream_end(StreamEnd::Fin, 0);
    while !raw.end.conn.write_side_done() {
        sent.extend(raw.transmit());
    }
    let opcodes: Vec<u8> = frames(&sent, true).iter().map(|ulpdu| ulpdu[1]).collect();
    assert_eq!(opcodes, [0x41, 0x43, 0x43, 0x43, 0x43, 0x42, 0x42, 0x42]);
    let done = outcomes(&raw.end);
    assert_eq!(done[0], Flushed);
}

#[test]
fn iw_021_to_023_the_peer_closes() {
    let mut pair = Pair::ready(Knobs::default());
    for context in 0..3 {
        pair.b.conn.post_receive(context, &[]).unwrap();
    }
    pair.a.post(1, inline(&[])).unwrap();
    let source = pair.b.mem.register(vec![1; 50_000], Rights::NONE, PD);
    pair.b.post(9, sends(Payload::Sges(&[source]))).unwrap();
    let sink = pair.a.mem.register(vec![0; 50_000], Rights::ALL, PD);
    pair.a.conn.post_receive(5, &[sink]).unwrap();
    // A takes what B sends even though its own direction is closed; it is not disconnected.
    let mut knobs = pair.knobs;
    let octets = pair.a.transmit(&knobs);
    pair.b.receive(&octets);
    knobs.write = 10_000;
    let mut sent = pair.b.transmit(&knobs);
    pair.b.conn.handle_stream_end(StreamEnd::Fin, 0);
    pair.b.collect();
    // Step 1 and 2.
    assert_eq!(statuses(&pair.b, RequestKind::Receive), [Success]);
    assert_eq!(pair.b.events.last(), Some(&Event::PeerClosed));
    assert!(!pair.b.conn.write_side_done());
    // The queue runs on, and takes more.
    pair.b.post(10, inline(&[])).unwrap();
    while !pair.b.conn.write_side_done() {
        sent.extend(pair.b.transmit(&knobs));
    }
    pair.b.collect();
    // Step 3.
    assert_eq!(statuses(&pair.b, RequestKind::Send), [Success, Success]);
    assert_eq!(
        statuses(&pair.b, RequestKind::Receive),
        [Success, Flushed, Flushed]
    );
    assert_eq!(
        frames(&sent, true)
            .iter()
            .filter(|ulpdu| ulpdu[0] & 0x40 != 0)
            .count(),
        2
    );
    // AMB-046
    pair.b.post(11, inline(&[])).unwrap();
    pair.b.conn.post_receive(12, &[]).unwrap();
    pair.b.collect();
    let last_two = pair.b.completions().split_off(5);
    assert_eq!(
        last_two.iter().map(|done| done.status).collect::<Vec<_>>(),
        [Flushed; 2]
    );
}

#[test]
fn the_peers_fin_is_told_behind_what_was_done_before_it() {
    let mut pair = Pair::ready(Knobs::default());
    for context in 0..2 {
        pair.b.conn.post_receive(context, &[]).unwrap();
    }
    pair.a.post(1, inline(&[])).unwrap();
    pair.b.post(2, inline(&[])).unwrap();
    let seen = pair.b.events.len();
    // Events are fetched only at the end.
    let knobs = pair.knobs;
    let octets = pair.a.transmit(&knobs);
    pair.b.conn.handle_bytes(&octets, &pair.b.mem, OwnQueue);
    pair.b.transmit(&knobs);
    pair.b.conn.handle_stream_end(StreamEnd::Fin, 0);
    pair.b.collect();
    let order: Vec<_> = pair.b.events[seen..]
        .iter()
        .map(|event| match event {
            Event::Completed(done) => Some((done.kind, done.status)),
            _ => None,
        })
        .collect();
    let (send, receive) = (RequestKind::Send, RequestKind::Receive);
    let expected = [
        Some((send, Success)),
        Some((receive, Success)),
        None,
        Some((receive, Flushed)),
    ];
    assert_eq!(order, expected); // IW-062, IW-021 to IW-023
}

#[test]
fn the_peers_fin_is_told_behind_a_send_done_before_it() {
    let mut raw = Raw::initiator();
    raw.post_receive(1, 16);
    raw.end.post(2, inline(&[])).unwrap();
    let knobs = raw.knobs;
    raw.end.transmit(&knobs);
    raw.end.conn.handle_stream_end(StreamEnd::Fin, 0);
    raw.end.collect();
    assert_eq!(raw.end.events.len(), 3);
    assert_eq!(raw.end.events[1], Event::PeerClosed);
    assert_eq!(statuses(&raw.end, RequestKind::Send), [Success]);
}

/// AMB-046: a request is not carried out behind others that the end of the connection has flushed, though answers to the peer
/// may still leave.
#[test]
fn iw_023_what_is_posted_behind_flushed_requests_is_flushed() {
    let mut pair = Pair::ready(Knobs::default());
    let sinks =
        [&mut pair.a, &mut pair.b].map(|end| end.mem.register(vec![0; 16], Rights::ALL, PD));
    let remote = |at: Sge| RemoteAddress {
        stag: at.token,
        to: at.address,
    };
    let read = |own: usize| Operation::Read {
        sink: Payload::Sges(&sinks[own..=own]),
        remote: remote(sinks[1 - own]),
    };
    pair.a.post(1, read(0)).unwrap();
    pair.b.post(2, read(1)).unwrap();
    let knobs = pair.knobs;
    pair.b.transmit(&knobs);
    let asked = pair.a.transmit(&knobs);
    pair.b.conn.handle_bytes(&asked, &pair.b.mem, OwnQueue);
    pair.b.conn.handle_stream_end(StreamEnd::Fin, 0);
    assert!(pair.b.conn.wants_transmit(), "the answer has not left");
    pair.b.post(3, inline(&[])).unwrap();
    pair.b.transmit(&knobs);
    pair.b.collect();
    assert_eq!(outcomes(&pair.b), [Flushed, Flushed]);
    assert!(pair.b.conn.write_side_done());
}

#[test]
fn iw_023_reads_that_nobody_can_answer_are_flushed() {
    let mut pair = Pair::ready(Knobs::default());
    pair.b.conn.post_receive(1, &[]).unwrap();
    let sink = pair.b.mem.register(vec![0; 16], Rights::ALL, PD);
    pair.b.post(1, inline(&[])).unwrap();
    pair.b.post(2, read(&[sink], 0)).unwrap();
    pair.b.post(3, inline(&[])).unwrap();
    pair.b.conn.handle_stream_end(StreamEnd::Fin, 0);
    let knobs = pair.knobs;
    pair.b.transmit(&knobs);
    pair.b.collect();
    assert_eq!(
        pair.b.conn.counters().sent.sends,
        1,
        "the one before the Read"
    );
    let done = outcomes(&pair.b);
    assert_eq!(done, [Success, Flushed, Flushed, Flushed]);
    assert!(pair.b.conn.write_side_done());
    // At once when it is the first, and before the event nothing of it is seen.
    let mut pair = Pair::ready(Knobs::default());
    pair.b.post(2, read(&[sink], 0)).unwrap();
    pair.b.conn.handle_stream_end(StreamEnd::Fin, 0);
    pair.b.collect();
    let events = &pair.b.events[pair.b.events.len() - 2..];
    assert_eq!(events[0], Event::PeerClosed);
    assert!(matches!(
        events[1],
        Event::Completed(Completion {
            status: Flushed,
            ..
        })
    ));
}

#[test]
fn a_fin_without_any_fpdu_flushes_what_the_fence_held() {
    // IW-017: Reject by the active side.
    let mut raw = Raw::responder();
    raw.post_receive(1, 8);
    raw.end.post(2, inline(&[])).unwrap();
    raw.end.conn.handle_stream_end(StreamEnd::Fin, 0);
    raw.end.collect();
    assert_eq!(raw.end.events[0], Event::PeerClosed);
    assert_eq!(raw.end.completions().len(), 2);
    assert_eq!(raw.transmit(), []);
    assert!(raw.end.conn.write_side_done());
}

#[test]
fn answers_are_finished_after_the_peers_fin() {
    let mut raw = Raw::responder().with_buffers();
    raw.receive(&vector("D3"));
    raw.end.conn.handle_stream_end(StreamEnd::Fin, 0);
    assert!(!raw.end.conn.write_side_done());
    let limit = raw.knobs.limit;
    raw.end
        .conn
        .poll_transmit(&raw.end.mem, limit, &mut raw.end.batch);
    assert!(!raw.end.conn.write_side_done(), "made, not sent");
    let sent = raw.transmit();
    let octets: usize = frames(&sent, true)
        .iter()
        .map(|ulpdu| ulpdu.len() - 14)
        .sum();
    assert_eq!(octets, 4096);
    assert!(raw.end.conn.write_side_done());
}

#[test]
fn mpa_078_a_fin_in_the_middle_of_an_fpdu() {
    let mut raw = Raw::responder();
    raw.post_receive(1, 16);
    raw.receive(&vector("R1"));
    raw.receive(&vector("D1")[..31]);
    let unread = raw.end.staging.len();
    assert_eq!(unread, 31);
    raw.end.conn.handle_stream_end(StreamEnd::Fin, unread);
    raw.end.collect();
    assert_eq!(raw.end.fault(), Some(Fault::Mpa(crate::mpa::Error::Closed)));
    assert_eq!(raw.end.events.last(), Some(&Event::Ended));
    assert_eq!(raw.transmit(), []); // OPEN-18
    assert_eq!(statuses(&raw.end, RequestKind::Receive), [Flushed]);
    assert!(raw.end.conn.write_side_done());
}

#[test]
fn iw_026_a_reset_flushes_everything() {
    let mut raw = Raw::initiator();
    let sink = raw.end.mem.register(vec![0; 16], Rights::ALL, PD);
    raw.post_receive(1, 16);
    raw.end.post(2, read(&[sink], 0)).unwrap();
    raw.transmit();
    raw.end.post(3, inline(&[])).unwrap();
    raw.end.conn.handle_stream_end(StreamEnd::Reset, 0);
    raw.end.collect();
    let done = outcomes(&raw.end);
    assert_eq!(done, [Flushed; 3]);
    assert!(raw.end.events.contains(&Event::Ended) && raw.end.conn.write_side_done());
    // AMB-046
    raw.end.post(4, inline(&[])).unwrap();
    raw.end.conn.post_receive(5, &[]).unwrap();
    raw.end.collect();
    assert_eq!(raw.end.completions().len(), 5);
}

#[test]
fn a_reset_takes_the_terminate_with_it() {
    let mut raw = Raw::responder();
    raw.receive(&vector("D2"));
    assert!(raw.end.conn.wants_transmit());
    raw.end.conn.handle_stream_end(StreamEnd::Reset, 0);
    assert!(!raw.end.conn.wants_transmit() && raw.end.conn.write_side_done());
    raw.end.collect();
    assert_eq!(raw.end.events.last(), Some(&Event::Ended));
}

#[test]
fn iw_020_disconnect_flushes_and_drops() {
    let mut raw = Raw::responder().with_buffers();
    raw.post_receive(1, 16);
    raw.receive(&vector("R1"));
    raw.end.post(2, inline(&[b"never sent"])).unwrap();
    raw.end.disconnect();
    raw.end.collect();
    let done = outcomes(&raw.end);
    assert_eq!(done, [Flushed; 2]);
    assert!(raw.end.conn.write_side_done() && raw.end.conn.is_disconnected());
    assert_eq!(raw.transmit(), []);
    // IW-064
    raw.receive(&[vector("D2"), vec![1, 2, 3]].concat());
    assert!(raw.end.staging.is_empty());
    assert_eq!((raw.end.mem.placed(), raw.end.fault()), (0, None));
    assert_eq!(raw.end.conn.counters().dropped_octets, 27);
    // AMB-046
    assert_eq!(raw.end.post(3, inline(&[])), Err(PostError::NotConnected));
    raw.end.conn.post_flushed(wqe(5, inline(&[]))).unwrap();
    raw.end.conn.post_receive(4, &[]).unwrap();
    raw.end.conn.handle_stream_end(StreamEnd::Fin, 0);
    raw.end.collect();
    assert_eq!(raw.end.completions().len(), 4);
    assert_eq!(outcomes(&raw.end)[2..], [Flushed; 2]);
    assert_eq!(
        raw.end
            .events
            .iter()
            .filter(|event| **event == Event::Ended)
            .count(),
        1
    );
}

#[test]
fn iw_019_a_disconnect_keeps_what_was_cut() {
    let mut pair = Pair::ready(Knobs::default());
    pair.b.conn.post_receive(1, &[]).unwrap();
    let target = pair.b.mem.register(vec![0; 9000], Rights::ALL, PD);
    let source = pair.a.mem.register(pattern(9000, 1), Rights::ALL, PD);
    let there = remote(target.token, target.address);
    let data = Payload::Sges(&[source]);
    pair.a
        .post(
            1,
            Operation::Write {
                data,
                remote: there,
            },
        )
        .unwrap();
    pair.knobs.write = 2000;
    let knobs = pair.knobs;
    let octets = pair.a.transmit(&knobs);
    pair.b.receive(&octets);
    pair.a.disconnect();
    pair.a.mem.deregister(source.token); // a cut FPDU is private by now
    pair.run();
    // Whole FPDUs, then the FIN: no fault at the peer, only the close.
    assert_eq!(pair.b.fault(), None);
    assert!(pair.b.events.contains(&Event::PeerClosed));
    assert_eq!(
        pair.b.mem.bytes(target.token)[..2856],
        pattern(9000, 1)[..2856]
    );
    assert_eq!(statuses(&pair.a, RequestKind::Write), [Flushed]);
    assert!(pair.a.events.contains(&Event::Ended));
}

#[test]
fn iw_024_disconnects_crossing() {
    let mut pair = Pair::ready(Knobs::default());
    pair.a.disconnect();
    pair.b.disconnect();
    pair.run();
    for end in [&pair.a, &pair.b] {
        assert_eq!(end.events.last(), Some(&Event::Ended));
        assert!(!end.events.contains(&Event::PeerClosed));
    }
}

#[test]
fn qp_009_flush_before_the_start_leaves_the_connection_usable() {
    let mut raw = Raw {
        end: End::new(SIZES),
        now: Instant::now(),
        knobs: Knobs::default(),
    };
    raw.post_receive(1, 16);
    raw.end.conn.flush();
    raw.end.collect();
    assert_eq!(statuses(&raw.end, RequestKind::Receive), [Flushed]);
    raw.post_receive(2, 16);
    raw.end.conn.start(stream(Role::Responder));
    raw.receive(&vector("D1"));
    assert_eq!(statuses(&raw.end, RequestKind::Receive), [Flushed, Success]);
}

#[test]
fn qp_004_flush_ends_a_running_stream() {
    let mut raw = Raw::initiator();
    raw.post_receive(1, 16);
    raw.end.post(2, inline(&[])).unwrap();
    raw.end.conn.flush();
    raw.end.collect();
    let done = outcomes(&raw.end);
    assert_eq!(done, [Flushed, Flushed]);
    assert_eq!((raw.end.fault(), raw.transmit()), (None, vec![]));
    assert!(raw.end.conn.write_side_done());
    raw.end.post(3, inline(&[])).unwrap();
    raw.end.collect();
    assert_eq!(raw.end.completions().len(), 3);
}

/// A Terminate with this control word and the header of a vector, which is a Read Request's own as well for D3.
fn terminate_about(word: &str, vector: &str) -> Vec<u8> {
    let mut octets = hex("4147 00000000 00000002 00000001 00000000");
    octets.extend(hex(word));
    let headers = match vector {
        "" => return octets,
        "D2" | "D4" => 14,
        "D3" => 46,
        _ => 18,
    };
    octets.extend(hex("0000"));
    octets.extend(&ulpdu(vector)[..headers]);
    octets
}

/// The outcomes of four requests, a Send, a Read, a Write and a Send, of which the transport has taken this many octets: 124 for the first
/// one, 52 for the Read.
fn ended_by(taken: usize, terminate: &[u8]) -> Vec<WqeStatus> {
    let mut raw = Raw::initiator();
    let source = raw.end.mem.register(vec![0; 100], Rights::ALL, PD);
    let sink = Sge {
        length: 10,
        ..source
    };
    let data = Payload::Sges(&[source]);
    let there = remote(TARGET, 0);
    raw.end.post(1, sends(data)).unwrap();
    raw.end.post(2, read(&[sink], 0)).unwrap();
    raw.end
        .post(
            3,
            Operation::Write {
                data,
                remote: there,
            },
        )
        .unwrap();
    raw.end.post(4, inline(&[])).unwrap();
    raw.post_receive(5, 1);
    raw.knobs.write = taken;
    raw.transmit();
    raw.ulpdu(terminate);
    let mut events = raw.end.events.iter();
    assert!(events.any(|event| matches!(event, Event::Terminated(_))));
    assert!(raw.end.conn.write_side_done() && !raw.end.conn.wants_transmit());
    let mut done = outcomes(&raw.end);
    assert_eq!(done.pop(), Some(Flushed), "the Receive");
    done
}

/// AMB-002, AMB-007, AMB-008, RDMAP-085: which request a Terminate ends, and how. It ends none that has not begun to leave: what it
/// speaks of has ended before then.
#[test]
fn a_terminate_ends_the_request_it_speaks_of() {
    const IN: [usize; 3] = [10, 130, 190];
    for (word, vector, ended) in [
        ("0101e000", "D3", Some((1, RemoteAccess))),
        ("0102e000", "D3", Some((1, RemoteAccess))),
        ("0207c000", "D3", Some((1, RemoteError))),
        ("1101c000", "D2", Some((2, RemoteAccess))),
        ("1104c000", "D2", Some((2, RemoteError))),
        ("1203c000", "D1", Some((0, RemoteError))),
        ("1202c000", "D1", Some((0, NoReceive))),
        // About an answer to their own Read.
        ("1101c000", "D4", None),
        // Without headers, and the last one as siw writes it.
        ("01000000", "", Some((1, RemoteAccess))),
        ("11000000", "", Some((2, RemoteAccess))),
        ("21020000", "", Some((0, NoReceive))),
        // A CRC error and a local failure speak of no request.
        ("20020000", "", None),
        ("00000000", "", None),
    ] {
        for (begun, taken) in IN.into_iter().enumerate() {
            let mut expected = vec![Flushed; 4];
            if begun > 0 {
                expected[0] = Success;
            }
            if let Some((at, status)) = ended
                && begun >= at
                && expected[at] == Flushed
            {
                expected[at] = status;
            }
            let done = ended_by(taken, &terminate_about(word, vector));
            assert_eq!(done, expected, "{word} {vector}, {taken} octets");
        }
    }
}

/// AMB-007: a Write that waits behind a fence cannot have been refused, wherever the refused one went.
#[test]
fn a_terminate_does_not_end_a_write_that_waits_behind_a_fence() {
    // Where the Terminate has it.
    let header = ulpdu("D2");
    let named = RemoteAddress {
        stag: STag(u32::from_be_bytes(header[2..6].try_into().unwrap())),
        to: u64::from_be_bytes(header[6..14].try_into().unwrap()),
    };
    for fence in [false, true] {
        let mut raw = Raw::initiator();
        let source = raw.end.mem.register(vec![0; 100], Rights::ALL, PD);
        let write = Operation::Write {
            data: Payload::Sges(&[source]),
            remote: named,
        };
        raw.end.post(1, read(&[source], 0)).unwrap();
        let fenced = InitiatorWqe {
            fence,
            ..wqe(2, write)
        };
        raw.end.conn.post_initiator(fenced).unwrap();
        // The Read Request, and ten octets of what follows it.
        raw.knobs.write = 62;
        raw.transmit();
        raw.ulpdu(&terminate_about("1101c000", "D2"));
        let expected = if fence { Flushed } else { RemoteAccess };
        assert_eq!(outcomes(&raw.end), [Flushed, expected]);
    }
}

#[test]
fn amb_007_nothing_is_open_when_the_terminate_comes() {
    let mut pair = Pair::ready(Knobs::default());
    let short = pair.b.mem.register(vec![0; 2], Rights::ALL, PD);
    pair.b.conn.post_receive(1, &[short]).unwrap();
    pair.a.post(1, inline(&[b"longer"])).unwrap();
    pair.a.conn.post_receive(2, &[]).unwrap();
    pair.run();
    assert_eq!(statuses(&pair.a, RequestKind::Send), [Success]); // IW-061
    assert_eq!(statuses(&pair.a, RequestKind::Receive), [Flushed]);
    assert_eq!(
        statuses(&pair.b, RequestKind::Receive),
        [WqeStatus::ReceiveTooShort]
    );
    assert_eq!(
        pair.a.terminated().unwrap().code,
        TerminateCode::new(1, 2, 5)
    );
    for end in [&pair.a, &pair.b] {
        assert!(end.events.contains(&Event::Ended));
    }
}

#[test]
fn a_terminate_still_goes_out_after_a_disconnect() {
    let mut raw = Raw::responder();
    raw.receive(&vector("D2"));
    raw.end.conn.disconnect();
    assert!(!raw.end.conn.write_side_done());
    assert!(raw.last_terminate().is_some());
    assert!(raw.end.conn.write_side_done());
}

#[test]
fn a_terminate_dropped_from_the_batch_is_made_again() {
    let mut raw = Raw::responder();
    raw.receive(&vector("D2"));
    let limit = raw.knobs.limit;
    raw.end
        .conn
        .poll_transmit(&raw.end.mem, limit, &mut raw.end.batch);
    assert!(raw.end.conn.write_side_done());
    raw.end.batch.keep_cut_only();
    raw.end.conn.handle_transmitted(&mut raw.end.batch);
    assert!(!raw.end.conn.write_side_done());
    assert!(raw.last_terminate().is_some());
}

#[test]
fn mpa_031_a_fenced_responder_does_not_speak_of_its_own_failures() {
    let mut raw = Raw::responder();
    let window = raw.end.mem.window(PD);
    raw.end.post(1, Operation::Invalidate(window)).unwrap();
    assert_eq!(raw.transmit(), []);
    assert_eq!(raw.end.fault(), Some(Fault::Local));
    assert!(raw.end.conn.write_side_done());
}

#[test]
fn dropping_fpdus_of_a_running_stream_fails_it() {
    let mut raw = Raw::initiator();
    raw.end.post(1, inline(&[b"hello"])).unwrap();
    let limit = raw.knobs.limit;
    raw.end
        .conn
        .poll_transmit(&raw.end.mem, limit, &mut raw.end.batch);
    raw.end.batch.keep_cut_only();
    raw.end.conn.handle_transmitted(&mut raw.end.batch);
    raw.end.collect();
    assert_eq!(statuses(&raw.end, RequestKind::Send), [WqeStatus::Internal]);
    assert_eq!(raw.end.conn.counters().withdrawn_octets, 32);
}

#[test]
fn no_wait_is_the_default_of_the_harness() {
    assert_eq!(stream(Role::Responder).receive_wait, NONE);
}
