//! Start-up frames: the vectors of sections 14.2 and 14.7 byte for byte, cuts at every octet, and the negotiation of
//! section 7.2 from both sides.

use super::frame::{FLAG_ENHANCED, FLAG_REJECTED, FLAGS, KEY_LEN, REVISION};
use super::*;
use crate::mpa::testing::hex;
use crate::{Markers, ReadLimits, Ready};
use proptest::prelude::*;

const REQUEST_KEY: &str = "4d504120 49442052 65712046 72616d65";
const REPLY_KEY: &str = "4d504120 49442052 65702046 72616d65";

fn words(flags: [bool; 4], ird: u16, ord: u16) -> Enhanced {
    let [peer_to_peer, rtr_send, rtr_write, rtr_read] = flags;
    Enhanced {
        peer_to_peer,
        rtr_send,
        rtr_write,
        rtr_read,
        ird,
        ord,
    }
}

fn frame(kind: FrameKind, revision: u8, enhanced: Option<Enhanced>) -> Frame {
    Frame {
        kind,
        markers: false,
        crc: true,
        rejected: false,
        revision,
        enhanced,
        private_data: Vec::new(),
    }
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(&mut out);
    out
}

/// Reads one frame as a transport would hand it over: never more than wanted.
fn read(kind: FrameKind, octets: &[u8]) -> Result<Frame, StartupError> {
    let mut reader = FrameReader::new(kind);
    let mut rest = octets;
    loop {
        let (now, later) = rest.split_at(rest.len().min(reader.wanted()));
        if let Some(frame) = reader.push(now)? {
            assert_eq!(
                (reader.wanted(), later.len()),
                (0, 0),
                "the whole frame, and no more"
            );
            return Ok(frame);
        }
        assert!(!now.is_empty(), "frame ends early");
        rest = later;
    }
}

/// Section 14.2: name, octets, the frame they are.
fn vectors() -> Vec<(&'static str, Vec<u8>, Frame)> {
    use FrameKind::{Reply, Request};
    let both = [true, false, true, true];
    let read = [true, false, false, true];
    let rejected = |frame: Frame| Frame {
        rejected: true,
        ..frame
    };
    let s6 = Frame {
        private_data: b"ping".to_vec(),
        ..frame(Request, 2, Some(words([false; 4], 32, 8)))
    };
    [
        ("S1", REQUEST_KEY, "40 01 0000", frame(Request, 1, None)),
        ("S2", REPLY_KEY, "40 01 0000", frame(Reply, 1, None)),
        (
            "S3",
            REPLY_KEY,
            "60 01 0000",
            rejected(frame(Reply, 1, None)),
        ),
        (
            "S4",
            REQUEST_KEY,
            "50 02 0004 8010 c010",
            frame(Request, 2, Some(words(both, 16, 16))),
        ),
        (
            "S5",
            REPLY_KEY,
            "50 02 0004 8010 4010",
            frame(Reply, 2, Some(words(read, 16, 16))),
        ),
        ("S6", REQUEST_KEY, "50 02 0008 0020 0008 70696e67", s6),
        (
            "S7",
            REQUEST_KEY,
            "50 02 0004 bfff 7fff",
            frame(Request, 2, Some(words(read, 0x3FFF, 0x3FFF))),
        ),
        (
            "S8",
            REPLY_KEY,
            "70 02 0004 8004 4020",
            rejected(frame(Reply, 2, Some(words(read, 4, 32)))),
        ),
    ]
    .map(|(name, key, rest, frame)| (name, [hex(key), hex(rest)].concat(), frame))
    .to_vec()
}

fn vector(name: &str) -> (Vec<u8>, Frame) {
    let (_, octets, frame) = vectors().into_iter().find(|(n, ..)| *n == name).unwrap();
    (octets, frame)
}

fn offer(limits: ReadLimits) -> Offer {
    Offer {
        markers: false,
        ready: ReadyKinds::UNSEEN,
        revision: 2,
        peer_to_peer: true,
        crc: true,
        limits,
        private_data: Vec::new(),
    }
}

const fn limits(ird: u32, ord: u32) -> ReadLimits {
    ReadLimits { ird, ord }
}

const MAX: ReadLimits = limits(128, 128);

#[test]
fn vectors_s1_to_s8_are_decoded_and_encoded() {
    for (name, octets, frame) in vectors() {
        assert_eq!(read(frame.kind, &octets).as_ref(), Ok(&frame), "{name}");
        assert_eq!(encoded(&frame), octets, "{name}");
    }
}

#[test]
fn frames_print_on_one_line() {
    assert_eq!(
        vector("S4").1.to_string(),
        "MPA Request Rev 2 CRC, IRD 16 ORD 16 A C D, 0 octets of Private Data"
    );
    assert_eq!(
        vector("S3").1.to_string(),
        "MPA Reply Rev 1 CRC rejected, 0 octets of Private Data"
    );
}

/// The frames of section 14.2 are what the negotiation itself produces.
#[test]
fn s1_to_s8_come_out_of_offer_accept_and_reject() {
    let plain = Offer {
        revision: 1,
        peer_to_peer: false,
        ..offer(limits(0, 0))
    };
    let (s1, s4, s6, s7) = (
        vector("S1").1,
        vector("S4").1,
        vector("S6").1,
        vector("S7").1,
    );
    assert_eq!(plain.request(), s1);
    assert_eq!(offer(limits(16, 16)).request(), s4);
    let client_server = Offer {
        peer_to_peer: false,
        private_data: b"ping".to_vec(),
        ..offer(limits(32, 8))
    };
    assert_eq!(client_server.request(), s6);

    let with = Acceptance {
        markers: false,
        ready: ReadyKinds::UNSEEN,
        crc: false,
        limits: limits(16, 16),
        private_data: vec![],
    };
    assert_eq!(accept(&s1, &with).0, vector("S2").1);
    assert_eq!(reject(&s1, limits(0, 0), &[]), vector("S3").1);
    // S5 is the answer of a Responder that takes Read; ours does so where Write was not offered.
    let mut only_read = s4;
    only_read.enhanced = Some(words([true, false, false, true], 16, 16));
    assert_eq!(accept(&only_read, &with).0, vector("S5").1);
    assert_eq!(reject(&only_read, limits(4, 32), &[]), vector("S8").1);
    // OPEN-17: without negotiation the Read is chosen nevertheless.
    let (reply, agreed) = accept(&s7, &with);
    assert_eq!(
        reply.enhanced,
        Some(words([true, false, false, true], 0x3FFF, 0x3FFF))
    );
    assert_eq!(
        (agreed.ready, agreed.limits),
        (Some(Ready::Read), limits(16, 16))
    );
}

/// MPA-016: one octet at a time, and cut in two at every position, for every vector and one frame of full length.
#[test]
fn frames_are_put_together_from_any_pieces() {
    let mut all: Vec<_> = vectors()
        .into_iter()
        .map(|(_, octets, frame)| (octets, frame))
        .collect();
    let long = Frame {
        private_data: (0..508).map(|i: u32| i.to_le_bytes()[0]).collect(),
        ..vector("S4").1
    };
    all.push((encoded(&long), long));
    for (octets, frame) in all {
        for cut in 0..octets.len() {
            let mut reader = FrameReader::new(frame.kind);
            assert!(!reader.started());
            assert_eq!(reader.push(&octets[..cut]), Ok(None), "cut at {cut}");
            assert_eq!(reader.started(), cut > 0);
            let wanted = if cut < HEADER_LEN {
                HEADER_LEN
            } else {
                octets.len()
            } - cut;
            assert_eq!(reader.wanted(), wanted, "cut at {cut}");
            assert_eq!(reader.push(&[]), Ok(None));
            assert_eq!(
                reader.push(&octets[cut..]),
                Ok(Some(frame.clone())),
                "cut at {cut}"
            );
            assert_eq!((reader.wanted(), reader.push(&[])), (0, Ok(None)));
        }
        let mut reader = FrameReader::new(frame.kind);
        for (at, octet) in octets.iter().enumerate() {
            assert!(reader.wanted() > 0, "octet {at}");
            let whole = reader.push(&[*octet]).unwrap();
            assert_eq!(whole.is_some(), at + 1 == octets.len(), "octet {at}");
        }
    }
}

/// MPA-003, MPA-004, X15: the first wrong octet is refused, before anything behind it is asked for.
#[test]
fn x15_one_key_octet_changed_is_refused_at_that_octet() {
    for name in ["S1", "S2"] {
        let (good, frame) = vector(name);
        for at in 0..KEY_LEN {
            let mut bad = good.clone();
            bad[at] ^= 0x80;
            let mut reader = FrameReader::new(frame.kind);
            assert_eq!(reader.push(&bad[..at]), Ok(None));
            assert_eq!(
                reader.push(&bad[at..=at]),
                Err(StartupError::Key { at }),
                "{name}"
            );
            assert_eq!((reader.wanted(), reader.started()), (0, true));
            assert_eq!(
                reader.push(&good),
                Err(StartupError::Key { at }),
                "a refused reader stays refused"
            );
        }
    }
    // A peer that is no iWARP stack at all.
    assert_eq!(
        FrameReader::new(FrameKind::Reply).push(b"HTTP/1.1 400 Bad R"),
        Err(StartupError::Key { at: 0 })
    );
}

/// MPA-010, X16: refused when Rev arrives, without waiting for the rest.
#[test]
fn x16_other_revisions_are_refused() {
    for revision in (0..=255).filter(|revision| !matches!(revision, 1 | 2)) {
        for name in ["S1", "S2"] {
            let (mut octets, frame) = vector(name);
            octets[REVISION] = revision;
            let mut reader = FrameReader::new(frame.kind);
            assert_eq!(
                reader.push(&octets[..=REVISION]),
                Err(StartupError::Revision(revision))
            );
        }
    }
}

/// MPA-012, X17; MPA-013: 512 is fine.
#[test]
fn x17_private_data_of_513_octets_is_refused_and_of_512_handed_over() {
    let (mut octets, _) = vector("S1");
    octets[18..20].copy_from_slice(&513u16.to_be_bytes());
    let header_alone = read(FrameKind::Request, &octets);
    assert_eq!(header_alone, Err(StartupError::PrivateDataLength(513)));
    octets.extend([0; 513]);
    let mut reader = FrameReader::new(FrameKind::Request);
    assert_eq!(
        reader.push(&octets),
        Err(StartupError::PrivateDataLength(513))
    );

    let full = Frame {
        private_data: vec![0xa5; 512],
        ..vector("S1").1
    };
    assert_eq!(encoded(&full).len(), MAX_FRAME);
    assert_eq!(read(FrameKind::Request, &encoded(&full)), Ok(full));
}

/// MPA2-003, X18: S = 1 with 0 to 3 octets of Private Data.
#[test]
fn x18_s_without_the_four_octets_is_refused() {
    for len in 0..4u16 {
        let (mut octets, _) = vector("S4");
        octets.truncate(HEADER_LEN + usize::from(len));
        octets[18..20].copy_from_slice(&len.to_be_bytes());
        let mut reader = FrameReader::new(FrameKind::Request);
        let refused = reader.push(&octets[..HEADER_LEN]);
        assert_eq!(refused, Err(StartupError::EnhancedLength(len)));
    }
}

/// MPA-015, X19: D1 in the same segment as S1. A reader that is fed what it asks for leaves it in the transport.
#[test]
fn x19_octets_behind_the_request_are_not_asked_for_and_refused_when_given() {
    let (s1, frame) = vector("S1");
    let d1 = hex("00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000");
    let both = [s1.clone(), d1].concat();
    let mut reader = FrameReader::new(FrameKind::Request);
    assert_eq!(reader.wanted(), s1.len());
    assert_eq!(
        reader.push(&both[..reader.wanted()]),
        Ok(Some(frame.clone()))
    );
    assert_eq!(reader.wanted(), 0);
    assert_eq!(reader.push(&both[s1.len()..]), Err(StartupError::Trailing));

    assert_eq!(
        FrameReader::new(FrameKind::Request).push(&both),
        Err(StartupError::Trailing)
    );
}

/// MPA-005, X20: each kind where the other is due.
#[test]
fn x20_the_other_kind_of_frame_is_refused_where_the_keys_part() {
    for (name, kind) in [("S1", FrameKind::Reply), ("S2", FrameKind::Request)] {
        let (octets, frame) = vector(name);
        let mut reader = FrameReader::new(kind);
        assert_eq!(reader.push(&octets[..9]), Ok(None));
        assert_eq!(
            reader.push(&octets[9..10]),
            Err(StartupError::WrongKind(frame.kind))
        );
    }
}

/// MPA2-001, MPA2-002: Rev 1 has no S.
#[test]
fn s_in_a_rev_1_frame_is_refused() {
    let (mut octets, _) = vector("S6");
    octets[REVISION] = 1;
    let mut reader = FrameReader::new(FrameKind::Request);
    assert_eq!(
        reader.push(&octets[..HEADER_LEN]),
        Err(StartupError::EnhancedRevision)
    );
}

/// MPA-006 to MPA-008, PEER-018: reserved bits, and R in a Request, are read over and find their way into no answer.
#[test]
fn reserved_bits_are_ignored_and_never_echoed() {
    let with = Acceptance {
        markers: false,
        ready: ReadyKinds::UNSEEN,
        crc: true,
        limits: limits(4, 4),
        private_data: vec![],
    };
    for (name, ignored) in [("S1", 0x2F), ("S4", 0x2F), ("S6", 0x2F)] {
        let (mut octets, frame) = vector(name);
        octets[FLAGS] |= ignored;
        let got = read(FrameKind::Request, &octets).unwrap();
        assert_eq!(got, frame, "{name}");
        assert_eq!(encoded(&accept(&got, &with).0)[FLAGS] & ignored, 0);
        assert_eq!(
            encoded(&reject(&got, limits(4, 4), &[]))[FLAGS] & ignored,
            FLAG_REJECTED
        );
    }
    let (mut octets, frame) = vector("S5");
    octets[FLAGS] |= 0x0F;
    assert_eq!(read(FrameKind::Reply, &octets), Ok(frame));
}

/// MPA-035, PEER-008: CRC is on if either side asks, and the Reply says so.
#[test]
fn crc_is_on_if_either_side_asks() {
    for (asked, wanted) in [(false, false), (false, true), (true, false), (true, true)] {
        let offer = Offer {
            crc: asked,
            ..offer(limits(1, 1))
        };
        let with = Acceptance {
            markers: false,
            ready: ReadyKinds::UNSEEN,
            crc: wanted,
            limits: limits(1, 1),
            private_data: vec![],
        };
        let (reply, agreed) = accept(&offer.request(), &with);
        assert_eq!((reply.crc, agreed.crc), (asked || wanted, asked || wanted));
        assert_eq!(offer.conclude(&reply, MAX).unwrap().crc, asked || wanted);
        // A Reply that does not repeat our C cannot switch it off.
        let reply = Frame {
            crc: wanted,
            ..reply
        };
        assert_eq!(offer.conclude(&reply, MAX).unwrap().crc, asked || wanted);
    }
}

/// MPA-032: each side's M counts for what that side receives, whatever the other's says.
#[test]
fn mpa_032_markers_go_where_their_receiver_asks_for_them() {
    for [asked, wanted] in [[false, false], [false, true], [true, false], [true, true]] {
        let offer = Offer {
            markers: asked,
            ..offer(limits(1, 1))
        };
        let request = offer.request();
        assert_eq!(request.markers, asked);
        let with = Acceptance {
            crc: true,
            markers: wanted,
            ready: ReadyKinds::UNSEEN,
            limits: limits(1, 1),
            private_data: vec![],
        };
        let (reply, agreed) = accept(&request, &with);
        assert_eq!(reply.markers, wanted);
        let here = Markers {
            sent: asked,
            received: wanted,
        };
        assert_eq!(agreed.markers, here);
        let there = Markers {
            sent: wanted,
            received: asked,
        };
        assert_eq!(offer.conclude(&reply, MAX).unwrap().markers, there);
        assert!(!reject(&request, limits(1, 1), &[]).markers);
    }
}

/// MPA2-005, MPA2-007, MPA2-036, OPEN-12: Rev and S of the Reply are the Request's.
#[test]
fn plain_requests_get_plain_replies_and_keep_their_own_limits() {
    let with = Acceptance {
        markers: false,
        ready: ReadyKinds::UNSEEN,
        crc: true,
        limits: limits(7, 9),
        private_data: vec![1, 2],
    };
    for revision in [1, 2] {
        let request = frame(FrameKind::Request, revision, None);
        assert_eq!(peer_limits(&request), (None, None));
        let (reply, agreed) = accept(&request, &with);
        let expected = Frame {
            private_data: vec![1, 2],
            ..frame(FrameKind::Reply, revision, None)
        };
        assert_eq!(reply, expected);
        assert_eq!(
            agreed,
            Agreed {
                revision,
                crc: true,
                limits: limits(7, 9),
                ready: None,
                peer_to_peer: false,
                markers: Markers::NONE
            }
        );
        let refusal = reject(&request, limits(7, 9), &[3]);
        assert_eq!(
            (refusal.rejected, refusal.revision, refusal.enhanced),
            (true, revision, None)
        );
        assert_eq!(refusal.private_data, [3]);
    }
}

/// MPA2-006, MPA2-036, OPEN-12: which Replies fit which offer.
#[test]
fn replies_have_to_fit_the_offer() {
    let own = limits(5, 6);
    let words = Some(words([true, false, true, false], 3, 4));
    for (offered, revision, enhanced, expected) in [
        (1, 1, None, Ok((own, None))),
        (1, 2, None, Err(StartupError::ReplyRevision(2))),
        (1, 2, words, Err(StartupError::ReplyRevision(2))),
        (2, 1, None, Ok((own, None))),
        (2, 1, words, Err(StartupError::EnhancedRevision)),
        (2, 2, None, Err(StartupError::ReplyNotEnhanced)),
        (2, 2, words, Ok((limits(4, 3), Some(Ready::Write)))),
        (2, 0, None, Err(StartupError::ReplyRevision(0))),
        (2, 3, words, Err(StartupError::ReplyRevision(3))),
    ] {
        let offer = Offer {
            revision: offered,
            ..offer(own)
        };
        let reply = frame(FrameKind::Reply, revision, enhanced);
        let concluded = offer.conclude(&reply, MAX).map(|agreed| {
            assert_eq!(agreed.revision, revision);
            (agreed.limits, agreed.ready)
        });
        let case = format!("Rev {offered} answered by {reply}");
        assert_eq!(
            concluded,
            expected.map_err(ConcludeError::Malformed),
            "{case}"
        );
        let rejected = Frame {
            rejected: true,
            ..reply
        };
        assert_eq!(
            offer.conclude(&rejected, MAX),
            Err(ConcludeError::Rejected),
            "{case}"
        );
    }
    let request = offer(own).request();
    let wrong = ConcludeError::Malformed(StartupError::WrongKind(FrameKind::Request));
    assert_eq!(offer(own).conclude(&request, MAX), Err(wrong));
}

fn all_flags() -> impl Iterator<Item = [bool; 4]> {
    (0..16).map(|bits| [8, 4, 2, 1].map(|bit| bits & bit != 0))
}

/// Section 7.2, the Responder's half: every A, B, C, D against limits of every kind.
#[test]
fn section_7_2_as_responder() {
    for flags @ [a, _, c, d] in all_flags() {
        for offered_ird in [0, 1, 8, 0x3FFE, 0x3FFF] {
            for offered_ord in [0, 1, 8, 0x3FFE, 0x3FFF] {
                for own in [limits(0, 0), limits(4, 4), limits(16, 0), limits(0, 16)] {
                    let request = frame(
                        FrameKind::Request,
                        2,
                        Some(words(flags, offered_ird, offered_ord)),
                    );
                    let with = Acceptance {
                        markers: false,
                        ready: ReadyKinds::UNSEEN,
                        crc: true,
                        limits: own,
                        private_data: vec![],
                    };
                    let (reply, agreed) = accept(&request, &with);
                    let case = format!("{request} accepted with {own:?}");
                    let shown = reply.enhanced.expect("MPA2-006");

                    // MPA2-022, MPA2-023, MPA2-025, PEER-031: exactly one type, offered if possible, Write before Read.
                    let ready = match (a, c, d) {
                        (false, ..) => None,
                        (true, false, true) => Some(Ready::Read),
                        (true, ..) => Some(Ready::Write),
                    };
                    assert_eq!(shown.peer_to_peer, a, "{case}");
                    assert!(!shown.rtr_send, "{case}");
                    assert_eq!(shown.rtr_write, ready == Some(Ready::Write), "{case}");
                    assert_eq!(shown.rtr_read, ready == Some(Ready::Read), "{case}");
                    assert_eq!((agreed.ready, agreed.peer_to_peer), (ready, a), "{case}");

                    // MPA2-012, MPA2-017, MPA2-018, MPA2-020.
                    let cut = |own: u32, offered: u16| match offered {
                        0x3FFF => own,
                        _ => own.min(u32::from(offered)),
                    };
                    let expected = limits(cut(own.ird, offered_ord), cut(own.ord, offered_ird));
                    // The limit in the Reply is served.
                    let raised = if ready == Some(Ready::Read) && !matches!(offered_ord, 0 | 0x3FFF)
                    {
                        expected.ird.max(1)
                    } else {
                        expected.ird
                    };
                    assert_eq!(agreed.limits, limits(raised, expected.ord), "{case}");
                    let shown_ird = match offered_ord {
                        0x3FFF => 0x3FFF,
                        _ if ready == Some(Ready::Read) => expected.ird.max(1),
                        _ => expected.ird,
                    };
                    let shown_ord = if offered_ird == 0x3FFF {
                        0x3FFF
                    } else {
                        expected.ord
                    };
                    assert_eq!(
                        (u32::from(shown.ird), u32::from(shown.ord)),
                        (shown_ird, shown_ord),
                        "{case}"
                    );

                    // A rejection shows the same words but for limits, which are not cut (MPA2-014).
                    let refusal = reject(&request, own, &[]);
                    let refused = refusal.enhanced.unwrap();
                    assert!(refusal.rejected, "{case}");
                    assert_eq!(
                        Enhanced {
                            ird: 0,
                            ord: 0,
                            ..refused
                        },
                        Enhanced {
                            ird: 0,
                            ord: 0,
                            ..shown
                        },
                        "{case}"
                    );
                    if offered_ird != 0x3FFF {
                        assert_eq!(u32::from(refused.ord), own.ord, "{case}");
                    }
                }
            }
        }
    }
}

/// Section 7.2, the Initiator's half: every A, B, C, D in the Reply against limits of every kind.
#[test]
fn section_7_2_as_initiator() {
    for flags @ [a, _, c, d] in all_flags() {
        for ird in [0, 1, 8, 200, 0x3FFE, 0x3FFF] {
            for ord in [0, 1, 8, 128, 129, 0x3FFE, 0x3FFF] {
                for own in [
                    limits(0, 0),
                    limits(4, 4),
                    limits(16, 0),
                    limits(0, 16),
                    limits(128, 128),
                ] {
                    for peer_to_peer in [false, true] {
                        let offer = Offer {
                            peer_to_peer,
                            ..offer(own)
                        };
                        let reply = frame(FrameKind::Reply, 2, Some(words(flags, ird, ord)));
                        let case = format!("{} answered by {reply}", offer.request());
                        let ready = match (a, c, d) {
                            (false, ..) => Ok(None),
                            (true, true, _) => Ok(Some(Ready::Write)), // both: Write
                            (true, false, true) => Ok(Some(Ready::Read)),
                            (true, false, false) => Err(ConcludeError::NoReady), // MPA2-029
                        };
                        let expected = ready.and_then(|ready| {
                            // MPA2-015, MPA2-016, MPA2-019
                            let inbound = match ord {
                                0x3FFF => own.ird,
                                129.. => return Err(ConcludeError::InsufficientIrd),
                                _ => u32::from(ord),
                            };
                            let outbound = if ird == 0x3FFF {
                                own.ord
                            } else {
                                own.ord.min(u32::from(ird))
                            };
                            Ok((ready, limits(inbound, outbound)))
                        });
                        let concluded = offer.conclude(&reply, MAX).map(|agreed| {
                            assert_eq!(agreed.peer_to_peer, a, "{case}");
                            (agreed.ready, agreed.limits)
                        });
                        assert_eq!(concluded, expected, "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn only_two_conclusions_send_a_terminate() {
    use crate::mpa::Error;
    assert_eq!(
        ConcludeError::InsufficientIrd.terminate(),
        Some(Error::InsufficientIrd)
    );
    assert_eq!(ConcludeError::NoReady.terminate(), Some(Error::NoReady));
    assert_eq!(ConcludeError::Rejected.terminate(), None);
    assert_eq!(
        ConcludeError::Malformed(StartupError::ReplyNotEnhanced).terminate(),
        None
    );
    assert_eq!(
        (Error::InsufficientIrd.code(), Error::NoReady.code()),
        (6, 7)
    );
}

/// A client's zero stays zero on both sides, also where the Read is chosen (design: counted outside the limits).
#[test]
fn zero_limits_stay_zero() {
    let offer = offer(limits(0, 0));
    let mut request = offer.request();
    request.enhanced = request.enhanced.map(|enhanced| Enhanced {
        rtr_write: false,
        ..enhanced
    });
    let with = Acceptance {
        markers: false,
        ready: ReadyKinds::UNSEEN,
        crc: true,
        limits: limits(0, 0),
        private_data: vec![],
    };
    let (reply, responder) = accept(&request, &with);
    assert_eq!(
        (responder.ready, responder.limits),
        (Some(Ready::Read), limits(0, 0))
    );
    assert_eq!(
        reply.enhanced,
        Some(words([true, false, false, true], 1, 0))
    );
    let initiator = offer.conclude(&reply, MAX).unwrap();
    assert_eq!(
        (initiator.ready, initiator.limits),
        (Some(Ready::Read), limits(0, 0))
    );
}

/// 0x3FFF is never sent of our own accord: peers take it for a number (PEER-014, PEER-072).
#[test]
fn limits_beyond_the_field_are_cut_below_0x3fff() {
    for limit in [0x3FFE, 0x3FFF, 0x4000, 0x1_0000, u32::MAX] {
        let request = offer(limits(limit, limit)).request();
        let expected = words([true, false, true, true], 0x3FFE, 0x3FFE);
        assert_eq!(request.enhanced, Some(expected));
        let refusal = reject(&request, limits(limit, limit), &[])
            .enhanced
            .unwrap();
        assert_eq!((refusal.ird, refusal.ord), (0x3FFE, 0x3FFE));
    }
}

#[test]
fn peer_limits_are_the_swapped_view() {
    assert_eq!(peer_limits(&vector("S1").1), (None, None));
    assert_eq!(peer_limits(&vector("S6").1), (Some(8), Some(32)));
    assert_eq!(peer_limits(&vector("S7").1), (None, None));
    assert_eq!(peer_limits(&vector("S8").1), (Some(32), Some(4)));
    let half = frame(FrameKind::Request, 2, Some(words([false; 4], 0x3FFF, 0)));
    assert_eq!(peer_limits(&half), (Some(0), None));
}

#[test]
#[should_panic(expected = "does not fit")]
fn private_data_that_does_not_fit_is_the_callers_fault() {
    let request = Frame {
        private_data: vec![0; 509],
        ..vector("S4").1
    };
    request.encode(&mut Vec::new());
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let words = (any::<[bool; 4]>(), 0..0x4000u16, 0..0x4000u16);
    (
        any::<[bool; 4]>(),
        1..3u8,
        proptest::option::of(words),
        proptest::collection::vec(any::<u8>(), 0..=508),
    )
        .prop_map(
            |([reply, markers, crc, rejected], revision, enhanced, private_data)| Frame {
                kind: if reply {
                    FrameKind::Reply
                } else {
                    FrameKind::Request
                },
                markers,
                crc,
                rejected: reply && rejected,
                revision,
                enhanced: enhanced
                    .filter(|_| revision == 2)
                    .map(|(flags, ird, ord)| words_of(flags, ird, ord)),
                private_data,
            },
        )
}

fn words_of(flags: [bool; 4], ird: u16, ord: u16) -> Enhanced {
    words(flags, ird, ord)
}

proptest! {
    #[test]
    fn frames_survive_encoding(frame in any_frame()) {
        prop_assert_eq!(read(frame.kind, &encoded(&frame)), Ok(frame));
    }

    /// Octets → frame → octets loses the ignored bits only.
    #[test]
    fn arbitrary_octets_behind_a_key_are_refused_or_come_out_again(
        reply in any::<bool>(),
        flags in any::<u8>(),
        revision in 0..4u8,
        body in proptest::collection::vec(any::<u8>(), 0..520),
    ) {
        let kind = if reply { FrameKind::Reply } else { FrameKind::Request };
        let len = u16::try_from(body.len()).unwrap();
        let octets = [kind.key(), &[flags, revision][..], &len.to_be_bytes(), &body].concat();
        if let Ok(Some(frame)) = FrameReader::new(kind).push(&octets) {
            let mut expected = octets;
            expected[FLAGS] &= if reply { 0xF0 } else { 0xD0 };
            prop_assert_eq!(encoded(&frame), expected);
        } else {
            prop_assert!(!(1..3).contains(&revision) || body.len() > 512 || flags & FLAG_ENHANCED != 0);
        }
    }

    /// For every offer of our Initiator and every acceptance of our Responder both ends agree.
    #[test]
    fn two_of_ours_agree(
        [crc, wanted, peer_to_peer, rev2] in any::<[bool; 4]>(),
        (a_ird, a_ord, b_ird, b_ord) in (0..=128u32, 0..=128u32, 0..=128u32, 0..=128u32),
    ) {
        let offer = Offer { markers: false, ready: ReadyKinds::UNSEEN, revision: if rev2 { 2 } else { 1 }, peer_to_peer, crc, limits: limits(a_ird, a_ord), private_data: vec![1] };
        let with = Acceptance { markers: false, ready: ReadyKinds::UNSEEN, crc: wanted, limits: limits(b_ird, b_ord), private_data: vec![2] };
        let request = read(FrameKind::Request, &encoded(&offer.request())).unwrap();
        let (reply, responder) = accept(&request, &with);
        let reply = read(FrameKind::Reply, &encoded(&reply)).unwrap();
        let initiator = offer.conclude(&reply, MAX).unwrap();
        prop_assert_eq!(initiator.crc, responder.crc);
        prop_assert_eq!(initiator.ready, responder.ready);
        prop_assert_eq!(initiator.revision, responder.revision);
        prop_assert_eq!(initiator.peer_to_peer, rev2 && peer_to_peer);
        if rev2 {
            prop_assert_eq!(initiator.limits.ird, responder.limits.ord);
            prop_assert_eq!(initiator.limits.ord, responder.limits.ird);
            prop_assert_eq!(responder.limits, limits(b_ird.min(a_ord), b_ord.min(a_ird)));
        }
    }
}

fn kinds() -> impl Iterator<Item = ReadyKinds> {
    (1..8).map(|bits| ReadyKinds {
        send: bits & 1 != 0,
        write: bits & 2 != 0,
        read: bits & 4 != 0,
    })
}

/// MPA2-021, MPA2-025, MPA2-027, MPA2-029: whatever two sides can do, they settle on one type both have, or the Reply shows
/// one of the Responder's and the Initiator ends it with T 2/0/07.
#[test]
fn mpa2_029_one_common_type_or_none() {
    for offered in kinds() {
        for taken in kinds() {
            let offer = Offer {
                ready: offered,
                ..offer(limits(4, 4))
            };
            let with = Acceptance {
                crc: true,
                markers: false,
                ready: taken,
                limits: limits(4, 4),
                private_data: vec![],
            };
            let request = offer.request();
            assert_eq!(request.enhanced.unwrap().ready(), offered);
            let (reply, agreed) = accept(&request, &with);
            let shown = reply.enhanced.unwrap().ready();
            let count = [shown.send, shown.write, shown.read].map(u8::from);
            assert_eq!(count.iter().sum::<u8>(), 1, "PEER-031");
            assert_eq!(shown.and(taken), shown);
            assert_eq!(agreed.ready, shown.preferred());
            let concluded = offer.conclude(&reply, MAX).map(|agreed| agreed.ready);
            match offered.and(taken).preferred() {
                Some(common) => assert_eq!(concluded, Ok(Some(common))),
                None => assert_eq!(concluded, Err(ConcludeError::NoReady)),
            }
        }
    }
    // MPA2-026: a Reply may show types that were not offered.
    let offer = Offer {
        ready: ReadyKinds {
            send: true,
            write: false,
            read: false,
        },
        ..offer(limits(4, 4))
    };
    let mut reply = frame(FrameKind::Reply, 2, None);
    reply.enhanced = Some(words([true, true, true, true], 4, 4));
    let agreed = offer.conclude(&reply, MAX).unwrap();
    assert_eq!(agreed.ready, Some(Ready::Send));
}
