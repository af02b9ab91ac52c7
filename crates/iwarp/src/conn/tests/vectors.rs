//! The frames of sections 14.3 to 14.5 by name, made and taken octet for octet.

use super::*;
use crate::rdmap::{Describe, TerminateCode};

/// A sink, 4096 octets at 0 under the catalogue's name, and the SGE for its first `len` octets.
fn sink(length: u32) -> Sge {
    Sge {
        token: SINK,
        address: 0,
        length,
    }
}

#[test]
fn mpa_055_every_vector_has_a_good_crc_and_one_line_of_text() {
    for name in [
        "R1", "R2", "R3", "R4", "D1", "D2", "D3", "D4", "D5", "D6", "D7", "D8a", "D8b", "D9a",
        "D9b", "D10", "D11", "D12", "D13", "D14", "T1", "T2", "T3", "T4", "T5", "T6",
    ] {
        let ulpdu = ulpdu(name);
        let text = Describe(&ulpdu).to_string();
        assert!(!text.is_empty() && !text.contains('\n'), "{name}: {text}");
    }
}

#[test]
fn r1_to_r4_ready_to_receive_messages_are_made() {
    let made = |ready| {
        let mut raw = Raw::with(StreamConfig {
            ready,
            ..stream(Role::Initiator)
        });
        raw.end.conn.send_ready();
        raw.end.conn.send_ready();
        let octets = raw.transmit();
        raw.end.conn.send_ready();
        assert_eq!(raw.transmit(), [], "once is enough");
        octets
    };
    assert_eq!(made(Some(Ready::Write)), vector("R1"));
    assert_eq!(made(Some(Ready::Read)), vector("R2"));
    assert_eq!(made(Some(Ready::Send)), vector("R4"));
    // PEER-033, PEER-063: without an agreement a message opens the fence of the peer nevertheless.
    assert_eq!(made(None), vector("R1"));
}

#[test]
fn r1_opens_the_fence_and_completes_nothing() {
    let mut raw = Raw::responder();
    raw.post_receive(1, 16);
    assert!(raw.end.conn.is_fenced());
    raw.receive(&vector("R1"));
    assert_eq!(raw.end.events, [Event::Ready]);
    assert!(!raw.end.conn.is_fenced());
}

#[test]
fn r2_and_r3_a_ready_read_is_answered_at_any_limit() {
    // PEER-033, PEER-063, design section 4: outside the client's limits on both sides.
    let config = StreamConfig {
        limits: NO_READS,
        ..stream(Role::Responder)
    };
    let mut raw = Raw::with(config);
    raw.receive(&vector("R2"));
    assert_eq!(raw.end.events, [Event::Ready]);
    assert_eq!(raw.transmit(), vector("R3"));

    let ready = Some(Ready::Read);
    let mut raw = Raw::with(StreamConfig {
        ready,
        limits: NO_READS,
        ..stream(Role::Initiator)
    });
    raw.end.conn.send_ready();
    raw.transmit();
    raw.receive(&vector("R3"));
    assert_eq!(raw.end.events, []);
    assert_eq!(raw.end.conn.counters().received.read_responses, 1);
}

#[test]
fn peer_013_a_ready_read_of_siw_names_sink_0_and_gets_it_back() {
    let mut siw = ulpdu("R2");
    siw[18..22].fill(0);
    let mut raw = Raw::responder();
    raw.ulpdu(&siw);
    let answer = frames(&raw.transmit(), true).remove(0);
    assert_eq!(answer, hex("c142 00000000 0000000000000000"));
}

#[test]
fn r4_takes_a_receive() {
    // MPA2-033
    let config = StreamConfig {
        ready: Some(Ready::Send),
        ..stream(Role::Responder)
    };
    let mut raw = Raw::with(config);
    raw.post_receive(9, 16);
    raw.receive(&vector("R4"));
    assert_eq!(raw.end.events[0], Event::Ready);
    let done = raw.end.completions();
    assert_eq!((done.len(), done[0].context, done[0].octets), (1, 9, 0));
    assert_eq!(done[0].status, WqeStatus::Success);
}

#[test]
fn d1_d5_d6_d7_sends_are_made() {
    let hello: &[&[u8]] = &[b"hel", b"", b"lo"];
    let mut raw = Raw::initiator();
    let mut sent = Vec::new();
    for (solicited, invalidate) in [
        (false, None),
        (false, Some(TARGET)),
        (true, None),
        (true, Some(TARGET)),
    ] {
        let data = Payload::Inline(hello);
        raw.end
            .post(
                1,
                Operation::Send {
                    data,
                    solicited,
                    invalidate,
                },
            )
            .unwrap();
        sent.extend(raw.transmit());
    }
    let expected: Vec<u8> = ["D1", "D5", "D6", "D7"]
        .into_iter()
        .flat_map(vector)
        .collect();
    assert_eq!(sent, expected);
    assert_eq!(
        statuses(&raw.end, RequestKind::Send),
        [WqeStatus::Success; 4]
    );
}

#[test]
fn d1_d5_d6_d7_sends_are_delivered() {
    let mut raw = Raw::responder();
    let region = raw.end.mem.register(vec![0; 64], Rights::ALL, PD);
    let window = raw.end.mem.window(PD);
    // The catalogue's STag names a window, bound anew for the second invalidation.
    let bind = crate::WindowBind {
        stag: TARGET,
        ..raw.end.mem.prepare(window, region, true, true)
    };
    let buffers: Vec<Sge> = (0..4)
        .map(|context| raw.post_receive(context, 16))
        .collect();
    for (name, rebind) in [("D1", true), ("D5", true), ("D6", false), ("D7", false)] {
        if rebind && name == "D1" {
            raw.end.post(10, Operation::Bind(bind)).unwrap();
            raw.transmit();
        }
        raw.receive(&vector(name));
        if rebind && name == "D5" {
            raw.end.post(11, Operation::Bind(bind)).unwrap();
            raw.transmit();
        }
    }
    let receives: Vec<Completion> = raw
        .end
        .completions()
        .into_iter()
        .filter(|done| done.kind == RequestKind::Receive)
        .collect();
    assert_eq!(receives.len(), 4, "{:?}", raw.end.events);
    for (at, done) in receives.iter().enumerate() {
        assert_eq!((done.context, done.octets), (at as u64, 5));
        assert_eq!(done.status, WqeStatus::Success);
        assert_eq!(done.solicited, at >= 2);
        assert_eq!(done.invalidated, (at % 2 == 1).then_some(TARGET));
        assert_eq!(raw.end.mem.bytes(buffers[at].token)[..6], *b"hello\0");
    }
    // RDMAP-066: the window is not bound any more.
    raw.ulpdu(&ulpdu("D2"));
    assert_eq!(
        raw.end.fault(),
        Some(Fault::Tagged(crate::ddp::TaggedError::InvalidSTag))
    );
}

#[test]
fn d2_write_both_ways() {
    let mut raw = Raw::initiator();
    let data = Payload::Inline(&[&[0xde, 0xad, 0xbe, 0xef]]);
    raw.end
        .post(
            1,
            Operation::Write {
                data,
                remote: remote(TARGET, 0x1000),
            },
        )
        .unwrap();
    assert_eq!(raw.transmit(), vector("D2"));

    let mut raw = Raw::responder().with_buffers();
    raw.receive(&vector("D2"));
    assert_eq!(raw.end.mem.bytes(TARGET)[..4], [0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(raw.end.mem.messages(), 1);
    assert_eq!(raw.end.events, [Event::Ready]); // RDMAP-021
}

#[test]
fn d3_read_request_both_ways() {
    let mut raw = Raw::initiator().with_buffers();
    let operation = Operation::Read {
        sink: Payload::Sges(&[sink(4096)]),
        remote: remote(TARGET, 0x1000),
    };
    raw.end.post(1, operation).unwrap();
    assert_eq!(raw.transmit(), vector("D3"));

    let mut raw = Raw::responder().with_buffers();
    raw.receive(&vector("D3"));
    let answer = frames(&raw.transmit(), true);
    let data: Vec<u8> = answer
        .iter()
        .flat_map(|ulpdu| ulpdu[14..].to_vec())
        .collect();
    assert_eq!(data, raw.end.mem.bytes(TARGET));
    let mut to = 0u64;
    for (at, ulpdu) in answer.iter().enumerate() {
        let last = at + 1 == answer.len();
        assert_eq!(ulpdu[..2], [if last { 0xc1 } else { 0x81 }, 0x42]);
        assert_eq!(ulpdu[2..6], SINK.0.to_be_bytes()); // RDMAP-035
        assert_eq!(ulpdu[6..14], to.to_be_bytes());
        to += ulpdu.len() as u64 - 14;
    }
}

#[test]
fn d4_read_response_both_ways() {
    let mut raw = Raw::responder().with_buffers();
    raw.end.mem.write(TARGET, 0, &[0xca, 0xfe, 0xf0, 0x0d]);
    let mut request = ulpdu("D3");
    request[30..34].copy_from_slice(&4u32.to_be_bytes());
    raw.ulpdu(&request);
    assert_eq!(raw.transmit(), vector("D4"));

    let mut raw = Raw::initiator().with_buffers();
    let operation = Operation::Read {
        sink: Payload::Sges(&[sink(4)]),
        remote: remote(TARGET, 0x1000),
    };
    raw.end.post(5, operation).unwrap();
    raw.transmit();
    assert_eq!(raw.end.events, []); // RDMAP-052
    raw.receive(&vector("D4"));
    assert_eq!(raw.end.mem.bytes(SINK)[..5], [0xca, 0xfe, 0xf0, 0x0d, 0]);
    let done = raw.end.completions();
    assert_eq!((done.len(), done[0].context, done[0].octets), (1, 5, 4));
}

/// Segments of 8 octets of payload are below the smallest MULPDU: they are taken as they are, and made in proportion.
#[test]
fn d8_and_d9_segmented_messages_are_taken() {
    let mut raw = Raw::responder().with_buffers();
    let sge = raw.post_receive(1, 16);
    for (name, msn) in [("D8a", 1u32), ("D8b", 1)] {
        let mut segment = ulpdu(name);
        segment[10..14].copy_from_slice(&msn.to_be_bytes());
        raw.ulpdu(&segment);
    }
    raw.receive(&vector("D9a"));
    raw.receive(&vector("D9b"));
    assert_eq!(raw.end.mem.bytes(sge.token)[..11], *b"ABCDEFGHIJK");
    assert_eq!(raw.end.mem.bytes(TARGET)[..11], *b"ABCDEFGHIJK");
    assert_eq!(raw.end.completions()[0].octets, 11);
    assert_eq!(raw.end.fault(), None);
}

/// D8 unchanged, MSN 5 included.
#[test]
fn d8_after_four_messages() {
    let conn = Connection::with_first_msn(SIZES, SCOPE, 5).unwrap();
    let mut raw = Raw {
        end: End::with(conn),
        now: Instant::now(),
        knobs: Knobs::default(),
    };
    raw.end.conn.start(stream(Role::Responder));
    let sge = raw.post_receive(1, 16);
    raw.receive(&[vector("D8a"), vector("D8b")].concat());
    assert_eq!(raw.end.mem.bytes(sge.token)[..11], *b"ABCDEFGHIJK");
}

#[test]
fn d8_and_d9_segmented_messages_are_made() {
    // MULPDU 128 is the smallest there is: 110 and 114 octets of payload in each segment.
    let data = pattern(300, 3);
    let mut raw = Raw::initiator();
    raw.knobs.limit.mulpdu = 128;
    let source = raw.end.mem.register(data.clone(), Rights::NONE, PD);
    raw.end.post(1, sends(Payload::Sges(&[source]))).unwrap();
    let write = Operation::Write {
        data: Payload::Sges(&[source]),
        remote: remote(TARGET, 0x1001),
    };
    raw.end.post(2, write).unwrap();
    let ulpdus = frames(&raw.transmit(), true);
    let lens: Vec<usize> = ulpdus.iter().map(Vec::len).collect();
    assert_eq!(lens, [128, 128, 98, 128, 128, 86]);
    let (send, write) = ulpdus.split_at(3);
    for (at, ulpdu) in (0u32..).zip(send) {
        let control = if at == 2 { 0x41 } else { 0x01 };
        assert_eq!(ulpdu[..10], [control, 0x43, 0, 0, 0, 0, 0, 0, 0, 0]); // DDP-021, DDP-030
        assert_eq!(ulpdu[10..14], 1u32.to_be_bytes()); // DDP-034
        assert_eq!(ulpdu[14..18], (at * 110).to_be_bytes()); // DDP-035
        let at = at as usize;
        assert_eq!(ulpdu[18..], data[at * 110..(at * 110 + 110).min(300)]);
    }
    for (at, ulpdu) in write.iter().enumerate() {
        assert_eq!(ulpdu[..2], [if at == 2 { 0xc1 } else { 0x81 }, 0x40]);
        assert_eq!(ulpdu[2..6], TARGET.0.to_be_bytes()); // DDP-027
        assert_eq!(ulpdu[6..14], (0x1001 + at as u64 * 114).to_be_bytes()); // DDP-029
        assert_eq!(ulpdu[14..], data[at * 114..(at * 114 + 114).min(300)]);
    }
}

#[test]
fn t1_bounds_violation_of_d2() {
    let mut raw = Raw::responder();
    raw.end
        .mem
        .register_as(TARGET, 0x2000, vec![0; 16], Rights::ALL, PD);
    raw.receive(&vector("D2"));
    assert_eq!(raw.transmit(), vector("T1"));
    assert_eq!(raw.end.mem.placed(), 0);
}

#[test]
fn t2_bounds_violation_of_d3() {
    let mut raw = Raw::responder();
    raw.end
        .mem
        .register_as(TARGET, 0x1000, vec![0; 4095], Rights::ALL, PD);
    raw.receive(&vector("D3"));
    assert_eq!(raw.transmit(), vector("T2"));
}

#[test]
fn t3_crc_error() {
    let mut raw = Raw::responder();
    raw.post_receive(1, 16);
    let mut frame = vector("D1");
    *frame.last_mut().unwrap() = 0x0d;
    raw.receive(&frame);
    assert_eq!(raw.transmit(), vector("T3"));
    assert_eq!(raw.end.mem.placed(), 0); // MPA-060
}

#[test]
fn t4_t5_t6_terminates_without_headers() {
    let made =
        |layer, etype, code| terminate_frame(TerminateCode::new(layer, etype, code), true, false);
    assert_eq!(made(0, 2, 6), vector("T4"));
    assert_eq!(made(2, 0, 6), vector("T5"));
    assert_eq!(made(2, 0, 7), vector("T6"));
    assert_eq!(made(2, 0, 2), vector("T3"));
    let without = terminate_frame(TerminateCode::new(2, 0, 6), false, false);
    assert_eq!(without[..24], vector("T5")[..24]);
    assert_eq!(without[24..], [0; 4]);
}

#[test]
fn t1_to_t6_terminates_are_taken() {
    for (name, role, code) in [
        ("T1", Role::Initiator, TerminateCode::new(1, 1, 1)),
        ("T2", Role::Initiator, TerminateCode::new(0, 1, 1)),
        ("T3", Role::Initiator, TerminateCode::new(2, 0, 2)),
        ("T4", Role::Initiator, TerminateCode::new(0, 2, 6)),
        // An Initiator's first FPDU.
        ("T5", Role::Responder, TerminateCode::new(2, 0, 6)),
        ("T6", Role::Responder, TerminateCode::new(2, 0, 7)),
    ] {
        let mut raw = Raw::with(stream(role));
        raw.post_receive(1, 16);
        raw.receive(&vector(name));
        let seen = raw.end.terminated().expect(name);
        assert_eq!((seen.code, seen.swapped), (code, false), "{name}");
        assert_eq!(seen.ddp.is_some(), name < "T3", "{name}");
        assert_eq!(seen.read.is_some(), name == "T2", "{name}");
        assert_eq!(
            statuses(&raw.end, RequestKind::Receive),
            [WqeStatus::Flushed],
            "{name}"
        );
        // RDMAP-073, and no Accept on the strength of a Terminate.
        assert_eq!(raw.transmit(), [], "{name}");
        assert!(!raw.end.events.contains(&Event::Ready), "{name}");
        assert!(raw.end.conn.write_side_done(), "{name}");
    }
}
