//! Each event and each action on a stream that is cut at every octet: the effect with the plan, and no effect without the
//! plan.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use iwarp::Role;
use iwarp::mpa::startup::FrameKind;
use iwarp::mpa::{fpdu, marker};

use super::super::*;
use super::script::{READY, Script, empty_read_response, ready_startup_frame, startup_frame};

const PEER: &str = "10.0.0.7:4711";

fn peer() -> SocketAddr {
    PEER.parse().unwrap()
}

fn faults(text: &str) -> std::sync::Arc<Faults> {
    Faults::new(text.parse().unwrap_or_else(|error| panic!("{error}")))
}

fn stream(text: &str, role: Role) -> StreamFaults {
    faults(text)
        .stream(role, peer())
        .expect("a rule for the stream")
}

/// The state behind the octets that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum After {
    /// Everything passed.
    Rest,
    Reset,
    Closed,
    /// The other octets are held until this time after the start. `None`: for ever.
    Held(Option<Duration>),
}

/// The octets that passed, and the state behind them.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    passed: Vec<u8>,
    after: After,
    effects: Vec<Effect>,
}

/// Makes a direction carry the pieces, all at one moment.
fn carry(stream: &mut StreamFaults, direction: Direction, pieces: &[&[u8]]) -> Outcome {
    let now = Instant::now();
    let mut passed = Vec::new();
    let after = match direction {
        Direction::Sent => send(stream, now, pieces, &mut passed),
        Direction::Received => receive(stream, now, pieces, &mut passed),
    };
    let until = stream.wake_at().map(|at| at - now);
    let effects = stream.take_effects();
    Outcome {
        passed,
        after: match after {
            After::Held(_) => After::Held(until),
            other => other,
        },
        effects,
    }
}

fn send(stream: &mut StreamFaults, now: Instant, pieces: &[&[u8]], passed: &mut Vec<u8>) -> After {
    for piece in pieces {
        let sink = |octets: &[u8]| {
            passed.extend_from_slice(octets);
            Ok(octets.len())
        };
        match stream.write(now, piece, sink) {
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                assert!(stream.is_reset());
                return After::Reset;
            }
            Ok((_, Some(blocked))) => {
                assert!(matches!(blocked, Blocked::Held(_)));
                return After::Held(None);
            }
            Ok((count, None)) => assert_eq!(count, piece.len()),
        }
    }
    match stream.has_closed_sending() {
        true => After::Closed,
        false => After::Rest,
    }
}

fn receive(
    stream: &mut StreamFaults,
    now: Instant,
    pieces: &[&[u8]],
    passed: &mut Vec<u8>,
) -> After {
    let mut pieces: VecDeque<&[u8]> = pieces.iter().copied().collect();
    let mut ended = false;
    loop {
        let mut into = [0; 1024];
        let source = |into: &mut [u8]| {
            while pieces.front().is_some_and(|piece| piece.is_empty()) {
                pieces.pop_front();
            }
            let Some(piece) = pieces.front_mut() else {
                ended = true;
                return Ok(0);
            };
            let (now, later) = piece.split_at(piece.len().min(into.len()));
            into[..now.len()].copy_from_slice(now);
            *piece = later;
            Ok(now.len())
        };
        match stream.read(now, &mut into, source) {
            Ok(0) if ended => return After::Rest,
            Ok(0) => return After::Closed,
            Ok(count) => passed.extend_from_slice(&into[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return After::Held(None),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                assert!(stream.is_reset());
                return After::Reset;
            }
        }
    }
}

/// Octets of a direction, whole, one by one, and in two pieces for every octet between them.
fn cuts(octets: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    let whole = std::iter::once(vec![octets]);
    let singly = std::iter::once(octets.chunks(1).collect());
    let in_two = (1..octets.len()).map(|at| {
        let (front, rest) = octets.split_at(at);
        vec![front, rest]
    });
    whole.chain(singly).chain(in_two)
}

/// Runs the plan in both directions, with all cuts. In `text`, `DIR` stands for `sent` or `received`.
fn check(text: &str, due: impl Fn(&Script) -> Outcome) {
    for (direction, role, startup) in [
        (Direction::Sent, Role::Initiator, FrameKind::Request),
        (Direction::Received, Role::Responder, FrameKind::Request),
        (Direction::Sent, Role::Responder, FrameKind::Reply),
        (Direction::Received, Role::Initiator, FrameKind::Reply),
    ] {
        let frame = if startup == FrameKind::Request {
            "MPA Request"
        } else {
            "MPA Reply"
        };
        let text = text
            .replace("DIR", &direction.to_string())
            .replace("STARTUP", frame);
        let script = Script::new(startup, false, 0);
        let due = due(&script);
        let plan: Plan = text.parse().unwrap_or_else(|error| panic!("{error}"));
        // The two roles differ only in their start-up frames.
        let all = role == Role::Initiator;
        for pieces in cuts(&script.octets).take(if all { usize::MAX } else { 2 }) {
            let mut stream = Faults::new(plan.clone()).stream(role, peer()).unwrap();
            let outcome = carry(&mut stream, direction, &pieces);
            assert_eq!(outcome, due, "{text}, {:?}", pieces[0].len());
        }
        // The other direction is as without the plan.
        let (other, startup) = match direction {
            Direction::Sent => (Direction::Received, startup_other(startup)),
            Direction::Received => (Direction::Sent, startup_other(startup)),
        };
        let script = Script::new(startup, false, 0);
        let outcome = carry(&mut stream(&text, role), other, &[&script.octets]);
        assert_eq!(
            outcome,
            passes(&script, script.octets.len(), After::Rest),
            "{text}"
        );
    }
}

fn startup_other(kind: FrameKind) -> FrameKind {
    match kind {
        FrameKind::Request => FrameKind::Reply,
        FrameKind::Reply => FrameKind::Request,
    }
}

fn passes(script: &Script, octets: usize, after: After) -> Outcome {
    Outcome {
        passed: script.octets[..octets].to_vec(),
        after,
        effects: Vec::new(),
    }
}

/// The plan stops the stream behind this frame of the script.
fn stops_behind(event: &str, frame: usize) {
    let due = |script: &Script| passes(script, script.end(frame), After::Reset);
    check(&format!("when {event}: reset"), due);
}

#[test]
fn each_kind_of_message_is_known() {
    for (kind, frame) in [
        ("STARTUP", 0),
        ("Write", 1),
        ("Read Request", 4),
        ("Read Response", 7),
        ("Send", 8),
        ("Immediate Data", 11),
        ("Atomic Request", 12),
        ("Atomic Response", 13),
        ("Terminate", 20),
        ("message", 1),
    ] {
        stops_behind(&format!("1st {kind} DIR"), frame);
    }
}

#[test]
fn ordinals_select_messages_and_fpdus() {
    for (event, frame) in [
        ("2nd Write DIR", 3),
        ("3rd FPDU of 2nd Read Response DIR", 16),
        ("last FPDU of 2nd Read Response DIR", 17),
        ("last FPDU of 2nd Send DIR", 10),
        ("2nd FPDU of each Read Response DIR", 6),
        ("1st FPDU of 3rd Write DIR", 19),
        ("2nd FPDU of each message DIR", 3),
        ("every 3rd Write DIR", 19),
        ("every other Send DIR", 10),
        ("from 2nd on Immediate Data DIR", 18),
        ("20th FPDU DIR", 20),
        ("each FPDU DIR", 1),
        ("13th message DIR", 20),
    ] {
        stops_behind(event, frame);
    }
}

#[test]
fn what_does_not_happen_changes_nothing() {
    for event in [
        "14th message DIR",
        "21st FPDU DIR",
        "4th Write DIR",
        "4th FPDU of 1st Read Response DIR",
        "2nd STARTUP DIR",
        "1st Write DIR over all connections with peer 10.0.0.7:4711 : reset after octet 1000\nwhen 2nd Terminate DIR",
    ] {
        let due = |script: &Script| passes(script, script.octets.len(), After::Rest);
        check(&format!("when {event}: reset"), due);
    }
    for text in [
        "",
        "when each connect: refuse",
        "when 1st Write sent on connection 2: reset",
        "when 1st Write sent with peer 10.0.0.7:4712: reset",
        "when 1st Write sent with peer ::1: reset",
    ] {
        assert!(
            faults(text).stream(Role::Initiator, peer()).is_none(),
            "{text}"
        );
    }
}

#[test]
fn each_action_is_done_at_its_place() {
    let held = |time| After::Held(time);
    let ms = |ms| Some(Duration::from_millis(ms));
    for (action, after) in [
        ("reset", After::Reset),
        ("close", After::Closed),
        ("hold", held(None)),
        ("hold for 5 ms", held(ms(5))),
    ] {
        // The Read Response in frames 14 to 17.
        for (place, at) in [
            (" after octet 0", 0),
            (" after octet 1", 1),
            (" after octet 28", 28),
            (" after octet 29", 29),
            (" after octet 112", 112),
            ("", 112),
        ] {
            check(
                &format!("when 2nd Read Response DIR: {action}{place}"),
                |script| {
                    assert_eq!(
                        script.end(17) - script.start(14),
                        112,
                        "four FPDUs of 28 octets"
                    );
                    passes(script, script.start(14) + at, after.clone())
                },
            );
        }
        check(
            &format!("when 2nd FPDU of 2nd Read Response DIR: {action} after octet 3"),
            |script| passes(script, script.start(15) + 3, after.clone()),
        );
        check(
            &format!("when 2nd FPDU DIR: {action} after octet 0"),
            |script| passes(script, script.end(1), after.clone()),
        );
        check(
            &format!("when 1st STARTUP DIR: {action} after octet 19"),
            |script| passes(script, 19, after.clone()),
        );
        check(
            &format!("when 1st STARTUP DIR: {action} after octet 0"),
            |script| passes(script, 0, after.clone()),
        );
    }
    check(
        "when 2nd Read Response DIR: reset after octet 113",
        |script| passes(script, script.octets.len(), After::Rest),
    );
}

#[test]
fn what_happens_to_more_than_the_stream_is_handed_to_its_owner_and_nothing_follows() {
    for (action, effect) in [
        ("remove device", Effect::RemoveDevice),
        (
            "break queue with ND_X",
            Effect::BreakQueue("ND_X".to_owned()),
        ),
    ] {
        check(
            &format!("when 1st Send DIR: {action} after octet 2"),
            |script| Outcome {
                effects: vec![effect.clone()],
                ..passes(script, script.start(8) + 2, After::Held(None))
            },
        );
    }
}

/// The octets with some bits inverted.
fn flipped(script: &Script, flips: &[(usize, u8)]) -> Outcome {
    let mut outcome = passes(script, script.octets.len(), After::Rest);
    for (at, mask) in flips {
        outcome.passed[*at] ^= mask;
    }
    outcome
}

#[test]
fn each_field_can_be_changed() {
    // Frame 2 is the first FPDU of a Write, with 20 octets of payload: 2 + 14 + 20 + 4.
    for (field, at, mask) in [
        ("bit 0 of length", 0, 0x80),
        ("bit 15 of length", 1, 0x01),
        ("bit 0 of header", 2, 0x80),
        ("bit 111 of header", 15, 0x01),
        ("bit 1 of payload", 16, 0x40),
        ("bit 159 of payload", 35, 0x01),
        ("bit 8 of CRC", 37, 0x80),
    ] {
        for unit in ["2nd Write", "1st FPDU of 2nd Write", "2nd FPDU"] {
            check(&format!("when {unit} DIR: flip {field}"), |script| {
                assert_eq!(script.end(2) - script.start(2), 40);
                flipped(script, &[(script.start(2) + at, mask)])
            });
        }
    }
    for field in ["bit 112 of header", "bit 160 of payload"] {
        check(&format!("when 2nd Write DIR: flip {field}"), |script| {
            flipped(script, &[])
        });
    }
    for (field, at, mask) in [
        ("bit 7 of header", 0, 0x01),
        ("bit 15 of length", 19, 0x01),
        ("bit 0 of payload", 20, 0x80),
        ("bit 39 of payload", 24, 0x01),
    ] {
        check(&format!("when 1st STARTUP DIR: flip {field}"), |script| {
            flipped(script, &[(at, mask)])
        });
    }
    check(
        "when 2nd FPDU DIR: flip bit 0 of CRC; when 3rd FPDU DIR: reset; when 2nd Write DIR: flip bit 1 of CRC",
        |script| {
            let mut due = flipped(script, &[(script.end(2) - 4, 0xc0)]);
            due.passed.truncate(script.end(3));
            due.after = After::Reset;
            due
        },
    );
}

#[test]
fn a_changed_fpdu_can_have_a_good_crc() {
    for field in ["bit 100 of payload", "bit 90 of header"] {
        let text = format!("when 2nd FPDU sent: flip {field} with good CRC");
        let script = Script::new(FrameKind::Request, false, 0);
        let mut good = None;
        for pieces in cuts(&script.octets) {
            let outcome = carry(
                &mut stream(&text, Role::Initiator),
                Direction::Sent,
                &pieces,
            );
            let fpdu = outcome.passed[script.start(2)..script.end(2)].to_vec();
            assert_ne!(fpdu, script.octets[script.start(2)..script.end(2)]);
            assert!(fpdu::parse(&fpdu, true).is_ok(), "the CRC fits");
            assert_eq!(*good.get_or_insert_with(|| fpdu.clone()), fpdu);
            assert_eq!(
                outcome.passed[script.end(2)..],
                script.octets[script.end(2)..]
            );
        }
    }
}

#[test]
fn what_was_held_for_a_time_goes_on_after_it() {
    for direction in [Direction::Sent, Direction::Received] {
        let text = format!(
            "when each Send {direction}: hold for 5 ms after octet 1; when 2nd Send {direction}: hold for 1 ms"
        );
        let role = Role::Initiator;
        let startup = match direction {
            Direction::Sent => FrameKind::Request,
            Direction::Received => FrameKind::Reply,
        };
        let script = Script::new(startup, false, 0);
        let mut stream = stream(&text, role);
        let start = Instant::now();
        let mut passed = Vec::new();
        let mut waits = Vec::new();
        let mut now = start;
        let mut unsent: &[u8] = &script.octets;
        loop {
            let sink = |octets: &[u8]| {
                passed.extend_from_slice(octets);
                Ok(octets.len())
            };
            let done = match direction {
                Direction::Sent => {
                    let (count, blocked) = stream.write(now, unsent, sink).unwrap();
                    unsent = &unsent[count..];
                    blocked.is_none()
                }
                Direction::Received => {
                    let mut into = [0; 100];
                    let read = stream.read(now, &mut into, |into| {
                        let (now, later) = unsent.split_at(unsent.len().min(into.len()));
                        into[..now.len()].copy_from_slice(now);
                        unsent = later;
                        Ok(now.len())
                    });
                    let count = read.as_ref().map_or(0, |count| *count);
                    passed.extend_from_slice(&into[..count]);
                    match read {
                        Ok(0) => true,
                        Ok(_) => continue,
                        Err(error) => {
                            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                            false
                        }
                    }
                }
            };
            if done {
                break;
            }
            waits.push((
                passed.len(),
                stream.wake_at().expect("held for a time") - now,
            ));
            now = stream.wake_at().unwrap();
        }
        assert_eq!(passed, script.octets);
        let ms = Duration::from_millis;
        let due = [
            (script.start(8) + 1, ms(5)),
            (script.start(9) + 1, ms(5)),
            (script.end(10), ms(1)),
        ];
        assert_eq!(waits, due);
        assert_eq!(stream.wake_at(), None);
    }
}

#[test]
fn a_full_transport_and_a_hold_take_no_more() {
    let script = Script::new(FrameKind::Request, false, 0);
    let mut stream = stream("when 1st Send sent: hold for 1 s", Role::Initiator);
    let now = Instant::now();
    let mut passed = Vec::new();
    let mut sink = |octets: &[u8]| {
        let count = octets.len().min(100 - passed.len());
        passed.extend_from_slice(&octets[..count]);
        match count {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    };
    let (first, rest) = script.octets.split_at(script.end(9));
    assert_eq!(
        stream.write(now, first, &mut sink).unwrap(),
        (first.len(), Some(Blocked::Full))
    );
    assert_eq!(
        stream.write(now, rest, &mut sink).unwrap(),
        (0, Some(Blocked::Full))
    );
    let mut sink = |octets: &[u8]| {
        passed.extend_from_slice(octets);
        Ok(octets.len())
    };
    let until = now + Duration::from_secs(1);
    assert_eq!(
        stream.flush(now, &mut sink).unwrap(),
        Some(Blocked::Held(Some(until)))
    );
    assert_eq!(
        stream.write(now, rest, &mut sink).unwrap(),
        (0, Some(Blocked::Held(Some(until))))
    );
    assert_eq!(
        stream.write(until, rest, &mut sink).unwrap(),
        (rest.len(), None)
    );
    assert_eq!(passed, script.octets);
}

#[test]
fn a_part_of_a_frame_at_the_end_of_a_stream_passes() {
    let script = Script::new(FrameKind::Reply, false, 0);
    for cut in [
        1,
        19,
        22,
        script.end(0) + 1,
        script.end(0) + 5,
        script.end(1) + 30,
    ] {
        let mut receiving = stream("when 20th Send received: reset", Role::Initiator);
        let outcome = carry(
            &mut receiving,
            Direction::Received,
            &[&script.octets[..cut]],
        );
        assert_eq!(outcome, passes(&script, cut, After::Rest));
        let mut sending = stream("when 20th Send sent: reset", Role::Responder);
        let mut outcome = carry(&mut sending, Direction::Sent, &[&script.octets[..cut]]);
        sending.end_sending();
        let rest = sending.flush(Instant::now(), |octets| {
            outcome.passed.extend_from_slice(octets);
            Ok(octets.len())
        });
        assert_eq!(rest.unwrap(), None);
        assert_eq!(outcome, passes(&script, cut, After::Rest));
    }
}

#[test]
fn what_is_not_mpa_passes() {
    let octets = b"GET / HTTP/1.1\r\n\r\nand much more than a frame";
    for pieces in cuts(octets) {
        let mut stream = stream(
            "when each FPDU received: reset; when each MPA Request received: reset",
            Role::Responder,
        );
        let outcome = carry(&mut stream, Direction::Received, &pieces);
        assert_eq!(
            (&*outcome.passed, outcome.after),
            (&octets[..], After::Rest)
        );
    }
    // An octet that cannot belong to a frame is not held back.
    let mut stream = stream("when each FPDU received: reset", Role::Responder);
    let mut into = [0; 20];
    let mut once = true;
    let read = stream.read(Instant::now(), &mut into, |into| {
        assert!(std::mem::take(&mut once), "asked again");
        into[0] = b'G';
        Ok(1)
    });
    assert_eq!(read.unwrap(), 1);
}

#[test]
fn nothing_behind_what_is_asked_for_is_taken_from_the_transport() {
    let script = Script::new(FrameKind::Request, false, 0);
    for cut in 1..20 {
        let mut stream = stream(
            "when each MPA Request received: flip bit 0 of payload",
            Role::Responder,
        );
        let mut rest = &script.octets[..];
        let mut wanted = 20;
        let mut source = |into: &mut [u8], most: usize| {
            let count = into.len().min(most);
            into[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            Ok(count)
        };
        let mut first = [cut, usize::MAX].into_iter();
        let mut into = [0; 512];
        let mut got = 0;
        while wanted > 0 {
            let read = stream.read(Instant::now(), &mut into[..wanted], |into| {
                source(into, first.next().unwrap_or(usize::MAX))
            });
            got += read.unwrap();
            wanted = if got < 20 { 20 - got } else { 25 - got };
        }
        assert_eq!(rest.len(), script.octets.len() - 25, "cut {cut}");
    }
}

#[test]
fn markers_are_seen_where_the_other_side_asked_for_them() {
    for more in [0, 100, 495, 600, 1500] {
        let script = Script::new(FrameKind::Request, true, more);
        let marked = |text: &str, act: &dyn Fn(&mut StreamFaults) -> Outcome| {
            let mut stream = stream(text, Role::Initiator);
            let reply = startup_frame(FrameKind::Reply, true, b"");
            // The Reply comes between the Request and the first FPDU.
            let request = carry(
                &mut stream,
                Direction::Sent,
                &[&script.octets[..script.end(0)]],
            );
            assert_eq!(request.after, After::Rest);
            let heard = carry(&mut stream, Direction::Received, &[&reply]);
            assert_eq!(heard.passed, reply);
            act(&mut stream)
        };
        let fpdus = &script.octets[script.end(0)..];
        for (event, frame) in [
            ("3rd FPDU of 2nd Read Response", 16),
            ("2nd Write", 3),
            ("13th message", 20),
        ] {
            let step = if more == 0 { 1 } else { 61 };
            for pieces in cuts(fpdus).step_by(step) {
                let outcome = marked(&format!("when {event} sent: reset"), &|stream| {
                    carry(stream, Direction::Sent, &pieces)
                });
                assert_eq!(outcome.after, After::Reset);
                assert_eq!(
                    outcome.passed,
                    script.octets[script.end(0)..script.end(frame)],
                    "{event}"
                );
            }
        }
        for (frame, field) in [
            (2, "payload"),
            (3, "header"),
            (9, "payload"),
            (12, "header"),
        ] {
            for bit in [0, 7, 24, 50, 100] {
                let text =
                    format!("when {frame}th FPDU sent: flip bit {bit} of {field} with good CRC")
                        .replace("2th", "2nd")
                        .replace("3th", "3rd")
                        .replace("12nd", "12th");
                let outcome = marked(&text, &|stream| carry(stream, Direction::Sent, &[fpdus]));
                let at = |frame: usize| {
                    script.start(frame) - script.end(0)..script.end(frame) - script.end(0)
                };
                let (before, changed) = (&fpdus[at(frame)], &outcome.passed[at(frame)]);
                let position = at(frame).start as u64;
                let payload = |octets: &[u8]| {
                    let mut unmarked = Vec::new();
                    match marker::parse(octets, true, position, &mut unmarked) {
                        Ok(fpdu::Fpdu::Complete { ulpdu, .. }) => ulpdu.to_vec(),
                        other => panic!("{text}: {other:?}"),
                    }
                };
                let header = if frame <= 3 { 14 } else { 18 };
                let skip = if field == "payload" { header } else { 0 };
                let mut due = payload(before);
                if let Some(octet) = due.get_mut(skip + bit / 8) {
                    *octet ^= 0x80 >> (bit % 8);
                }
                assert_eq!(payload(changed), due, "{text}, {more}");
            }
        }
    }
    assert!(Script::new(FrameKind::Request, true, 0).frames() == 21);
}

/// Makes a direction carry octets, behind which more will follow.
fn pass_on(stream: &mut StreamFaults, direction: Direction, octets: &[u8]) {
    let (now, mut rest) = (Instant::now(), octets);
    if direction == Direction::Sent {
        let sent = stream.write(now, octets, |octets| Ok(octets.len()));
        return assert_eq!(sent.unwrap(), (octets.len(), None));
    }
    let mut into = [0; 1024];
    let mut source = |into: &mut [u8]| {
        if rest.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (now, later) = rest.split_at(rest.len().min(into.len()));
        into[..now.len()].copy_from_slice(now);
        rest = later;
        Ok(now.len())
    };
    while stream.read(now, &mut into, &mut source).is_ok() {}
}

/// RFC 6581 §9: neither the ready-to-receive message nor the answer to it is a message of the application.
#[test]
fn the_ready_to_receive_message_is_a_kind_of_its_own() {
    for (at, ready) in READY.iter().enumerate() {
        for (role, direction) in [
            (Role::Initiator, Direction::Sent),
            (Role::Responder, Direction::Received),
        ] {
            let back = match direction {
                Direction::Sent => Direction::Received,
                Direction::Received => Direction::Sent,
            };
            let start = |text: &str| {
                let mut stream = stream(text, role);
                let request = ready_startup_frame(FrameKind::Request);
                pass_on(&mut stream, direction, &request);
                let reply = ready_startup_frame(FrameKind::Reply);
                pass_on(&mut stream, back, &reply);
                stream
            };
            let script = Script::new(FrameKind::Request, false, 0);
            let messages = &script.octets[script.end(0)..];
            let octets = [&ready[..], messages].concat();
            for (event, due) in [
                ("1st RTR", ready.len()),
                ("1st FPDU", ready.len()),
                ("1st Write", ready.len() + script.end(1) - script.end(0)),
                ("1st message", ready.len() + script.end(1) - script.end(0)),
                (
                    "1st Read Request",
                    ready.len() + script.end(4) - script.end(0),
                ),
            ] {
                let mut stream = start(&format!("when {event} {direction}: reset"));
                let outcome = carry(&mut stream, direction, &[&octets]);
                assert_eq!(outcome.passed, octets[..due], "{event}");
                assert_eq!(outcome.after, After::Reset, "{event}");
            }
            // The first Read Response answers the ready-to-receive message, if this message is a Read.
            let script = Script::new(FrameKind::Reply, false, 0);
            let mut stream = start(&format!("when 1st Read Response {back}: reset"));
            pass_on(&mut stream, direction, ready);
            let answers = [
                empty_read_response(),
                script.octets[script.start(5)..].to_vec(),
            ]
            .concat();
            let outcome = carry(&mut stream, back, &[&answers]);
            let first = if at == 1 {
                script.end(7) - script.start(5)
            } else {
                0
            };
            assert_eq!(outcome.passed, answers[..20 + first], "{at}");
        }
    }
}
