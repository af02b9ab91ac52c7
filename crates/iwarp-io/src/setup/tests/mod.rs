//! Both machines on a virtual clock, against each other and against errors of a peer.

#[cfg(unix)]
mod driven;

use std::time::{Duration, Instant};

use iwarp::mpa::startup::{Enhanced, FrameKind, HEADER_LEN};
use iwarp::{Ready, TerminateCode, terminate_frame};
use proptest::prelude::*;

use super::*;

const MOST: ReadLimits = ReadLimits { ird: 128, ord: 128 };
const UNSTATED: u32 = 32;
const SECOND: Duration = Duration::from_secs(1);

fn limits(ird: u32, ord: u32) -> ReadLimits {
    ReadLimits { ird, ord }
}

fn offer(revision: u8) -> Offer {
    Offer {
        revision,
        peer_to_peer: true,
        ready: ReadyKinds::UNSEEN,
        crc: true,
        markers: false,
        limits: limits(8, 4),
        private_data: b"caller".to_vec(),
    }
}

fn asking(offer: Offer) -> InitiatorConfig {
    InitiatorConfig {
        spares_crc: false,
        offer,
        most: MOST,
        unstated: UNSTATED,
        strict_peer_to_peer: false,
        revision_1_fallback: true,
        reply_within: Some(120 * SECOND),
        reply_frame_within: Some(10 * SECOND),
        hold_ready: Some(10 * SECOND),
    }
}

fn answering() -> ResponderConfig {
    ResponderConfig {
        spares_crc: false,
        most: MOST,
        unstated: UNSTATED,
        request_within: Some(10 * SECOND),
        ready_within: Some(60 * SECOND),
    }
}

fn acceptance() -> Acceptance {
    Acceptance {
        crc: true,
        markers: false,
        ready: ReadyKinds::UNSEEN,
        limits: limits(16, 16),
        private_data: b"callee".to_vec(),
    }
}

/// Passes octets to a machine as a driver does, in pieces that end at `cuts`: never more than are wanted. The others are not read.
fn feed<M: Machine>(
    machine: &mut M,
    now: Instant,
    octets: &[u8],
    cuts: &[usize],
) -> (Option<M::Outcome>, usize) {
    let mut taken = 0;
    let ends = cuts.iter().copied().chain([octets.len()]);
    for end in ends {
        while taken < end.min(octets.len()) && machine.wanted() > 0 {
            let count = machine.wanted().min(end - taken);
            let outcome = machine.handle_bytes(now, &octets[taken..taken + count]);
            taken += count;
            if outcome.is_some() {
                return (outcome, taken);
            }
        }
    }
    (None, taken)
}

/// An Initiator whose transport has connected, and its Request.
fn connected(config: InitiatorConfig, now: Instant) -> (Initiator, Vec<u8>) {
    let mut initiator = Initiator::new(config);
    let request = initiator.handle_connected(now).expect("a Request is due");
    (initiator, request)
}

/// A Responder that has a whole Request.
fn requested(config: ResponderConfig, request: &[u8], now: Instant) -> Responder {
    let mut responder = Responder::new(now, config);
    let (outcome, taken) = feed(&mut responder, now, request, &[]);
    assert_eq!(
        (outcome, taken),
        (Some(ResponderOutcome::Requested), request.len())
    );
    responder
}

fn agreement(outcome: Option<InitiatorOutcome>) -> Agreement {
    match outcome {
        Some(InitiatorOutcome::Agreed(agreement)) => *agreement,
        other => panic!("no agreement: {other:?}"),
    }
}

fn failure(outcome: Option<InitiatorOutcome>) -> InitiatorFailure {
    match outcome {
        Some(InitiatorOutcome::Failed(failure)) => failure,
        other => panic!("no failure: {other:?}"),
    }
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut octets = Vec::new();
    frame.encode(&mut octets);
    octets
}

/// A Reply of revision 2.
fn reply(words: Enhanced) -> Frame {
    Frame {
        kind: FrameKind::Reply,
        markers: false,
        crc: true,
        rejected: false,
        revision: 2,
        enhanced: Some(words),
        private_data: Vec::new(),
    }
}

const WORDS: Enhanced = Enhanced {
    peer_to_peer: true,
    rtr_send: false,
    rtr_write: true,
    rtr_read: false,
    ird: 4,
    ord: 8,
};

/// MPA-016: each frame arrives in two pieces, cut anywhere, and octet by octet.
#[test]
fn mpa_016_two_of_ours_agree_wherever_their_frames_are_cut() {
    let now = Instant::now();
    for revision in [1, 2] {
        let (fresh, request) = connected(asking(offer(revision)), now);
        let cuts = (0..=request.len()).map(|cut| vec![cut]);
        for cuts in cuts.chain([(0..request.len()).collect()]) {
            let mut responder = Responder::new(now, answering());
            let (outcome, taken) = feed(&mut responder, now, &request, &cuts);
            assert_eq!(outcome, Some(ResponderOutcome::Requested));
            assert_eq!((taken, responder.wanted()), (request.len(), 0));
            assert_eq!(responder.request().unwrap().private_data, b"caller");
            let accepted = responder.accept(now, acceptance()).unwrap();
            let cuts = (0..=accepted.reply.len()).map(|cut| vec![cut]);
            for cuts in cuts.chain([(0..accepted.reply.len()).collect()]) {
                let mut initiator = fresh.clone();
                // Octets behind the Reply are not read (MPA-017).
                let more = [&accepted.reply[..], b"behind"].concat();
                let (outcome, taken) = feed(&mut initiator, now, &more, &cuts);
                let agreement = agreement(outcome);
                assert_eq!((taken, initiator.wanted()), (accepted.reply.len(), 0));
                assert_eq!(agreement.private_data, b"callee");
                assert_eq!(agreement.agreed.ready, accepted.agreed.ready);
                assert_eq!(agreement.agreed.revision, revision);
                assert!(initiator.complete() && !initiator.complete());
            }
        }
    }
}

#[test]
fn mpa2_036_without_revision_2_the_connection_is_made_with_the_reply() {
    let now = Instant::now();
    for (offer, waits) in [
        (offer(1), false),
        (offer(2), true),
        (
            Offer {
                peer_to_peer: false,
                ..offer(2)
            },
            false,
        ),
    ] {
        let (_, request) = connected(asking(offer), now);
        let mut responder = requested(answering(), &request, now);
        let accepted = responder.accept(now, acceptance()).unwrap();
        assert_eq!(accepted.agreed.ready.is_some(), waits);
        assert_eq!(responder.poll_timeout().is_some(), waits);
        let ready = responder.handle_ready();
        assert_eq!(ready, waits.then_some(ResponderOutcome::Connected));
        assert_eq!(responder.handle_end(now, StreamEnd::Fin), None);
    }
}

/// MPA-024: a deadline is kept to the nanosecond, and no octet that arrives meanwhile defers it.
#[test]
fn mpa_024_each_deadline_ends_its_wait() {
    let start = Instant::now();
    let tick = Duration::from_nanos(1);

    // The deadline of the Reply counts from the Request.
    let all = InitiatorConfig {
        reply_frame_within: None,
        ..asking(offer(2))
    };
    let (mut initiator, request) = connected(all, start);
    let due = start + 120 * SECOND;
    for octet in 0..HEADER_LEN {
        let at = due - tick * u32::try_from(HEADER_LEN - octet).unwrap();
        assert_eq!(initiator.poll_timeout(), Some(due));
        assert_eq!(initiator.handle_timeout(at), None);
        let header = encoded(&reply(WORDS));
        assert_eq!(initiator.handle_bytes(at, &header[octet..=octet]), None);
    }
    let failed = failure(initiator.handle_timeout(due));
    assert_eq!(failed, InitiatorFailure::TimedOut);
    assert_eq!(failed.ending(), StreamEnd::Reset);

    // The deadline of the frame counts from its first octet, which may arrive a day later.
    let frame = InitiatorConfig {
        reply_within: None,
        ..asking(offer(2))
    };
    let (mut initiator, _) = connected(frame, start);
    let first = start + 86_400 * SECOND;
    assert_eq!(initiator.poll_timeout(), None);
    assert_eq!(initiator.handle_timeout(first), None);
    let due = first + 10 * SECOND;
    for octet in 0..HEADER_LEN {
        let at = if octet == 0 { first } else { due - tick };
        let header = encoded(&reply(WORDS));
        assert_eq!(initiator.handle_bytes(at, &header[octet..=octet]), None);
        assert_eq!(initiator.poll_timeout(), Some(due));
        assert_eq!(initiator.handle_timeout(at), None);
    }
    let failed = failure(initiator.handle_timeout(due));
    assert_eq!(failed, InitiatorFailure::TimedOut);

    // The earlier of the two ends the wait.
    let (mut initiator, _) = connected(asking(offer(2)), start);
    let first = start + 115 * SECOND;
    let header = encoded(&reply(WORDS));
    assert_eq!(initiator.handle_bytes(first, &header[..1]), None);
    assert_eq!(initiator.poll_timeout(), Some(start + 120 * SECOND));

    // MPA-023: the deadline of the Request.
    let mut responder = Responder::new(start, answering());
    let due = start + 10 * SECOND;
    for octet in 0..request.len() - 1 {
        assert_eq!(responder.poll_timeout(), Some(due));
        assert_eq!(responder.handle_timeout(due - tick), None);
        let outcome = responder.handle_bytes(due - tick, &request[octet..=octet]);
        assert_eq!(outcome, None);
    }
    let late = ResponderOutcome::Failed(ResponderFailure::TimedOut);
    assert_eq!(responder.handle_timeout(due), Some(late));

    // The application has unlimited time, then the peer's time begins.
    let mut responder = requested(answering(), &request, start);
    let day = start + 86_400 * SECOND;
    assert_eq!(responder.poll_timeout(), None);
    assert_eq!(responder.handle_timeout(day), None);
    responder.accept(day, acceptance()).unwrap();
    let due = day + 60 * SECOND;
    assert_eq!(responder.poll_timeout(), Some(due));
    assert_eq!(responder.handle_timeout(due - tick), None);
    assert_eq!(responder.handle_timeout(due), Some(late));
    assert_eq!(responder.handle_timeout(due), None);
}

#[test]
fn the_ready_message_is_held_for_the_application_and_not_for_ever() {
    let start = Instant::now();
    let agreed = || {
        let (mut initiator, _) = connected(asking(offer(2)), start);
        let (outcome, _) = feed(&mut initiator, start, &encoded(&reply(WORDS)), &[]);
        agreement(outcome);
        initiator
    };
    let due = start + 10 * SECOND;
    let mut early = agreed();
    assert_eq!(early.poll_timeout(), Some(due));
    assert!(early.complete());
    assert_eq!(
        (early.poll_timeout(), early.handle_timeout(due)),
        (None, None)
    );

    let mut late = agreed();
    assert_eq!(late.handle_timeout(due - Duration::from_nanos(1)), None);
    assert_eq!(late.handle_timeout(due), Some(InitiatorOutcome::SendReady));
    assert_eq!(
        (late.poll_timeout(), late.handle_timeout(due)),
        (None, None)
    );
    assert!(!late.complete(), "the message has left");
}

#[test]
fn without_a_limit_nothing_is_waited_for_in_vain() {
    let start = Instant::now();
    let patient = InitiatorConfig {
        reply_within: None,
        reply_frame_within: None,
        hold_ready: None,
        ..asking(offer(2))
    };
    let (mut initiator, request) = connected(patient, start);
    assert_eq!(initiator.poll_timeout(), None);
    feed(&mut initiator, start, &encoded(&reply(WORDS)), &[]);
    assert_eq!(initiator.poll_timeout(), None);
    let patient = ResponderConfig {
        request_within: None,
        ready_within: Some(Duration::MAX), // beyond the range of the clock
        ..answering()
    };
    assert_eq!(Responder::new(start, patient).poll_timeout(), None);
    let mut responder = requested(patient, &request, start);
    responder.accept(start, acceptance()).unwrap();
    assert_eq!(responder.poll_timeout(), None);
}

/// MPA-019, MPA2-011: in revision 1 and in revision 2.
#[test]
fn mpa_019_a_rejection_carries_private_data_and_closes_in_good_order() {
    let now = Instant::now();
    for revision in [1, 2] {
        let (mut initiator, request) = connected(asking(offer(revision)), now);
        let mut responder = requested(answering(), &request, now);
        let refusal = responder.reject(b"not today").unwrap();
        assert_eq!(responder.reject(b"again"), None);
        assert_eq!(responder.accept(now, acceptance()), None);
        let (outcome, taken) = feed(&mut initiator, now, &refusal, &[]);
        assert_eq!(taken, refusal.len());
        let failed = failure(outcome);
        assert_eq!(failed.ending(), StreamEnd::Fin);
        let private_data = b"not today".to_vec();
        assert_eq!(failed, InitiatorFailure::Rejected { private_data });
        assert_eq!(initiator.handle_end(now, StreamEnd::Fin), None);
    }
}

/// MPA2-010: only before the first octet, only soon, only once, and only if the configuration asks for it.
#[test]
fn mpa2_010_a_peer_that_ends_the_stream_at_once_is_asked_for_revision_1() {
    let start = Instant::now();
    for end in [StreamEnd::Fin, StreamEnd::Reset] {
        let ended = |config, after, octets: &[u8]| {
            let (mut initiator, _) = connected(config, start);
            feed(&mut initiator, start, octets, &[]);
            let outcome = initiator.handle_end(start + after, end);
            (initiator, outcome)
        };
        let soon = 5 * SECOND - Duration::from_nanos(1);
        let (mut initiator, outcome) = ended(asking(offer(2)), soon, b"");
        assert_eq!(outcome, Some(InitiatorOutcome::FallBack));
        assert_eq!(initiator.poll_timeout(), None);
        let request = initiator.handle_connected(start).unwrap();
        let once_more = requested(answering(), &request, start);
        let request = once_more.request().unwrap();
        assert_eq!((request.revision, request.enhanced), (1, None));
        assert_eq!(request.private_data, b"caller");
        let again = failure(initiator.handle_end(start, end));
        assert_eq!(again, InitiatorFailure::Ended(end));
        assert_eq!(again.ending(), StreamEnd::Reset);

        let unwanted = InitiatorConfig {
            revision_1_fallback: false,
            ..asking(offer(2))
        };
        let ends = [
            ended(asking(offer(2)), 5 * SECOND, b""),
            ended(asking(offer(2)), soon, b"M"),
            ended(asking(offer(1)), soon, b""),
            ended(unwanted, soon, b""),
        ];
        for (_, outcome) in ends {
            assert_eq!(failure(outcome), InitiatorFailure::Ended(end));
        }
    }
}

/// MPA-027: at any place in the frame.
#[test]
fn mpa_027_the_peers_end_fails_a_set_up_that_is_under_way() {
    let now = Instant::now();
    let (_, request) = connected(asking(offer(2)), now);
    let whole = encoded(&reply(WORDS));
    for end in [StreamEnd::Fin, StreamEnd::Reset] {
        for cut in 1..whole.len() {
            let (mut initiator, _) = connected(asking(offer(2)), now);
            feed(&mut initiator, now, &whole[..cut], &[]);
            let failed = failure(initiator.handle_end(now, end));
            assert_eq!(failed, InitiatorFailure::Ended(end));
        }
        let ended = Some(ResponderOutcome::Failed(ResponderFailure::Ended(end)));
        // If the peer ends behind the whole Request, the application is still deciding.
        for cut in 0..=request.len() {
            let mut responder = Responder::new(now, answering());
            feed(&mut responder, now, &request[..cut], &[]);
            assert_eq!(responder.handle_end(now, end), ended);
            assert_eq!(responder.accept(now, acceptance()), None);
            assert_eq!(responder.reject(b""), None);
        }
        let mut responder = requested(answering(), &request, now);
        responder.accept(now, acceptance()).unwrap();
        assert_eq!(responder.handle_end(now, end), ended);
        assert_eq!(responder.handle_ready(), None);
    }
}

#[test]
fn mpa_015_octets_behind_the_request_are_a_violation() {
    let now = Instant::now();
    let (_, request) = connected(asking(offer(2)), now);
    let mut responder = requested(answering(), &request, now);
    let failed = ResponderOutcome::Failed(ResponderFailure::SentTooEarly);
    assert_eq!(responder.handle_unwanted(), Some(failed));
    assert_eq!(responder.accept(now, acceptance()), None);
    // Once the Reply was sent, octets belong to the connection.
    let mut responder = requested(answering(), &request, now);
    responder.accept(now, acceptance()).unwrap();
    assert_eq!(responder.handle_unwanted(), None);
}

/// MPA-003, MPA-004, MPA-005, MPA-010, MPA-012, MPA-021, MPA-022: the first wrong octet of a header ends the set-up, and nothing is sent.
#[test]
fn mpa_021_malformed_frames_end_the_set_up() {
    let now = Instant::now();
    let (_, request) = connected(asking(offer(2)), now);
    let good = encoded(&reply(WORDS));
    let checked = (0..16).chain([17, 18]);
    for at in checked {
        let spoil = |frame: &[u8]| {
            let mut frame = frame.to_vec();
            frame[at] ^= 0x80;
            frame
        };
        let mut responder = Responder::new(now, answering());
        let (outcome, taken) = feed(&mut responder, now, &spoil(&request), &[at, at + 1]);
        let Some(ResponderOutcome::Failed(ResponderFailure::Malformed(_))) = outcome else {
            panic!("octet {at}: {outcome:?}");
        };
        assert!(taken <= HEADER_LEN);
        assert_eq!(responder.reject(b""), None);
        let (mut initiator, _) = connected(asking(offer(2)), now);
        let (outcome, _) = feed(&mut initiator, now, &spoil(&good), &[at, at + 1]);
        let failed = failure(outcome);
        assert!(matches!(failed, InitiatorFailure::Malformed(_)), "{at}");
        assert_eq!(failed.ending(), StreamEnd::Reset);
    }
    // Two Initiators, two Responders.
    let (mut initiator, _) = connected(asking(offer(2)), now);
    let (outcome, _) = feed(&mut initiator, now, &request, &[]);
    let wrong = StartupError::WrongKind(FrameKind::Request);
    assert_eq!(failure(outcome), InitiatorFailure::Malformed(wrong));
    let mut responder = Responder::new(now, answering());
    let (outcome, _) = feed(&mut responder, now, &good, &[]);
    let wrong = ResponderFailure::Malformed(StartupError::WrongKind(FrameKind::Reply));
    assert_eq!(outcome, Some(ResponderOutcome::Failed(wrong)));
    // A Reply that is well formed but answers another Request (MPA2-036).
    let (mut initiator, _) = connected(asking(offer(1)), now);
    let (outcome, _) = feed(&mut initiator, now, &good, &[]);
    let failed = failure(outcome);
    let wrong = StartupError::ReplyRevision(2);
    assert_eq!(failed, InitiatorFailure::Malformed(wrong));
    assert_eq!(failed.ending(), StreamEnd::Reset);
}

fn answered(config: InitiatorConfig, reply: &Frame) -> Option<InitiatorOutcome> {
    let now = Instant::now();
    let (mut initiator, _) = connected(config, now);
    feed(&mut initiator, now, &encoded(reply), &[]).0
}

/// MPA2-016, MPA2-029, MPA2-037: with the CRC and the markers that the two frames agree on.
#[test]
fn mpa2_016_mpa2_029_a_demand_that_cannot_be_met_is_answered_with_a_terminate() {
    let too_much = Enhanced { ord: 129, ..WORDS };
    let only_send = Enhanced {
        rtr_send: true,
        rtr_write: false,
        ..WORDS
    };
    let demands = [
        (too_much, ConcludeError::InsufficientIrd, 6),
        (only_send, ConcludeError::NoReady, 7),
    ];
    for (words, why, code) in demands {
        for (asked, given, markers) in [
            (true, true, false),
            (false, true, true),
            (true, false, true),
            (false, false, false),
        ] {
            let crc = asked || given;
            let config = asking(Offer {
                crc: asked,
                ..offer(2)
            });
            let reply = Frame {
                crc: given,
                markers,
                ..reply(words)
            };
            let terminate = terminate_frame(TerminateCode::new(2, 0, code), crc, markers);
            let failed = failure(answered(config, &reply));
            assert_eq!(failed.ending(), StreamEnd::Fin);
            assert_eq!(failed, InitiatorFailure::Unacceptable { why, terminate });
        }
    }
}

#[test]
fn mpa2_022_a_reply_that_changes_a_is_taken_or_not() {
    for asked in [false, true] {
        let config = |strict| InitiatorConfig {
            strict_peer_to_peer: strict,
            ..asking(Offer {
                peer_to_peer: asked,
                ..offer(2)
            })
        };
        let changed = reply(Enhanced {
            peer_to_peer: !asked,
            ..WORDS
        });
        let agreement = agreement(answered(config(false), &changed));
        assert!(agreement.changes_peer_to_peer);
        assert_eq!(agreement.agreed.ready, (!asked).then_some(Ready::Write));
        let failed = failure(answered(config(true), &changed));
        let why = ConcludeError::NoReady;
        let terminate = terminate_frame(TerminateCode::new(2, 0, 7), true, false);
        assert_eq!(failed, InitiatorFailure::Unacceptable { why, terminate });
        let same = reply(Enhanced {
            peer_to_peer: asked,
            ..WORDS
        });
        assert!(matches!(
            answered(config(true), &same),
            Some(InitiatorOutcome::Agreed(agreement)) if !agreement.changes_peer_to_peer
        ));
    }
}

/// MPA2-017 to MPA2-019, MPA2-034: for a limit that a frame does not state, the number that adapters agree on is used.
#[test]
fn mpa2_019_limits_that_are_not_stated() {
    let none = 0x3FFF;
    let wide = Offer {
        limits: limits(100, 90),
        ..offer(2)
    };
    let unstated = reply(Enhanced {
        ird: none,
        ord: none,
        ..WORDS
    });
    let got = agreement(answered(asking(wide.clone()), &unstated));
    assert_eq!(got.limits, limits(32, 32));
    assert_eq!(got.agreed.limits, limits(100, 32));
    let stated = reply(Enhanced {
        ird: 60,
        ord: 50,
        ..WORDS
    });
    let got = agreement(answered(asking(wide.clone()), &stated));
    assert_eq!(
        (got.limits, got.agreed.limits),
        (limits(50, 60), limits(50, 60))
    );

    // The Responder's side: its own inbound limit is unchanged.
    let now = Instant::now();
    let (_, stated) = connected(asking(wide.clone()), now);
    let (_, plain) = connected(
        asking(Offer {
            revision: 1,
            ..wide
        }),
        now,
    );
    let with = || Acceptance {
        limits: limits(200, 200),
        ..acceptance()
    };
    let mut responder = requested(answering(), &plain, now);
    assert_eq!(responder.offered(), Some(limits(32, 32)));
    let accepted = responder.accept(now, with()).unwrap();
    assert_eq!(accepted.agreed.limits, limits(128, 32));
    let mut responder = requested(answering(), &stated, now);
    assert_eq!(responder.offered(), Some(limits(90, 100)));
    let accepted = responder.accept(now, with()).unwrap();
    assert_eq!(accepted.agreed.limits, limits(90, 100));
    // MPA2-034: cut to the adapter's.
    let narrow = ResponderConfig {
        spares_crc: false,
        most: limits(5, 6),
        ..answering()
    };
    let mut responder = requested(narrow, &stated, now);
    assert_eq!(responder.offered(), Some(limits(5, 6)));
    assert_eq!(
        responder.accept(now, with()).unwrap().agreed.limits,
        limits(5, 6)
    );
}

#[test]
fn mpa_002_mpa_030_calls_out_of_turn_send_nothing() {
    let now = Instant::now();
    let mut initiator = Initiator::new(asking(offer(2)));
    assert!(!initiator.complete());
    assert_eq!(initiator.wanted(), 0);
    assert_eq!(initiator.handle_bytes(now, b"M"), None);
    assert_eq!(initiator.handle_end(now, StreamEnd::Reset), None);
    assert_eq!(initiator.handle_timeout(now), None);
    assert!(initiator.handle_connected(now).is_some());
    assert_eq!(initiator.handle_connected(now), None);
    assert!(!initiator.complete(), "MPA-030");
    let mut responder = Responder::new(now, answering());
    assert_eq!(responder.offered(), None);
    assert_eq!(responder.accept(now, acceptance()), None);
    assert_eq!(responder.handle_ready(), None);
    assert_eq!(responder.handle_unwanted(), None);
    assert_eq!(responder.reject(b""), None, "MPA-002");
}

proptest! {
    /// For any configurations of both, and any cuts of their frames, both ends agree.
    #[test]
    fn both_ends_of_any_negotiation_agree(
        [rev2, peer_to_peer, crc, wanted] in any::<[bool; 4]>(),
        [asked_markers, given_markers, read_only] in any::<[bool; 3]>(),
        (a_ird, a_ord, b_ird, b_ord) in (0..200u32, 0..200u32, 0..200u32, 0..200u32),
        (caller, callee) in (0..508usize, 0..508usize),
        mut cuts in proptest::collection::vec(0..532usize, 0..8),
    ) {
        cuts.sort_unstable();
        let now = Instant::now();
        let config = asking(Offer {
            revision: if rev2 { 2 } else { 1 },
            peer_to_peer,
            ready: ReadyKinds { send: false, write: !read_only, read: true },
            crc,
            markers: asked_markers,
            limits: limits(a_ird.min(MOST.ird), a_ord.min(MOST.ord)),
            private_data: vec![7; caller],
        });
        let (mut initiator, request) = connected(config.clone(), now);
        let mut responder = Responder::new(now, answering());
        let (outcome, _) = feed(&mut responder, now, &request, &cuts);
        prop_assert_eq!(outcome, Some(ResponderOutcome::Requested));
        prop_assert_eq!(&responder.request().unwrap().private_data, &config.offer.private_data);
        let accepted = responder.accept(now, Acceptance {
            crc: wanted,
            markers: given_markers,
            ready: ReadyKinds::UNSEEN,
            limits: limits(b_ird, b_ord),
            private_data: vec![8; callee],
        }).unwrap();
        let (outcome, taken) = feed(&mut initiator, now, &accepted.reply, &cuts);
        prop_assert_eq!(taken, accepted.reply.len());
        let agreement = agreement(outcome);
        let (ours, theirs) = (agreement.agreed, accepted.agreed);
        prop_assert_eq!(agreement.private_data.len(), callee);
        prop_assert!(!agreement.changes_peer_to_peer);
        prop_assert_eq!((ours.crc, ours.ready, ours.revision), (theirs.crc, theirs.ready, theirs.revision));
        prop_assert_eq!(ours.ready.is_some(), rev2 && peer_to_peer);
        prop_assert_eq!((ours.markers.sent, ours.markers.received), (theirs.markers.received, theirs.markers.sent));
        if rev2 {
            // MPA2-020: also if the Reply makes room for a ready-to-receive Read.
            prop_assert_eq!((ours.limits.ird, ours.limits.ord), (theirs.limits.ord, theirs.limits.ird));
            prop_assert_eq!(agreement.limits, ours.limits);
        } else {
            prop_assert!(agreement.limits.ird <= UNSTATED && agreement.limits.ord <= UNSTATED);
        }
        prop_assert_eq!(responder.poll_timeout().is_some(), theirs.ready.is_some());
        prop_assert!(initiator.complete());
    }
}
