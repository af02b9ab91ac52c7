use super::*;

const SHAPE: Shape = Shape {
    block: 0x0004_0000,
    blocks: 16,
};

fn offer(via: Via) -> Offer {
    let ring = RemoteAddress {
        address: 0x0102_0304_0506_0708,
        token: RemoteToken::from_host(0xA1B2_C3D4),
    };
    Offer {
        via,
        shape: SHAPE,
        size: Some(0x1122_3344_5566_7788),
        ring,
    }
}

fn messages() -> Vec<Message> {
    let block = Block {
        slot: 3,
        length: 65_536,
    };
    let whole = Whole {
        length: 1 << 40,
        digest: [7; 32],
    };
    vec![
        Message::Written(block),
        Message::Ready(block),
        Message::Free(9),
        Message::End(whole),
        Message::Verdict(whole),
        Message::Abort("no space left on device".to_owned()),
        Message::Abort(String::new()),
    ]
}

fn decode(octets: &[u8]) -> Option<Message> {
    Message::decode(octets, u32::try_from(octets.len()).expect("short"))
}

#[test]
fn an_offer_is_laid_out_as_documented() {
    let expected = [
        &b"ND cat\r\n"[..],                                // magic
        &[0x00, 0x03],                                     // version
        &[0x01],                                           // offer
        &[0x03],                                           // mode read
        &[0x00, 0x04, 0x00, 0x00],                         // block length
        &[0x00, 0x00, 0x00, 0x10],                         // blocks
        &[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88], // size
        &[0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08], // ring address
        &[0xA1, 0xB2, 0xC3, 0xD4],                         // ring token
    ]
    .concat();
    assert_eq!(offer(Via::Read).encode(), expected);
    assert_eq!(Offer::decode(&expected), Ok(offer(Via::Read)));
}

#[test]
fn offers_and_answers_survive_the_way() {
    for via in [Via::Send, Via::Write, Via::Read] {
        let offer = offer(via);
        assert_eq!(Offer::decode(&offer.encode()), Ok(offer));
        let unknown = Offer {
            size: None,
            ..offer
        };
        assert_eq!(Offer::decode(&unknown.encode()), Ok(unknown));
        let answer = Answer {
            via,
            shape: SHAPE,
            ring: NO_RING,
        };
        assert_eq!(Answer::decode(&answer.encode(), &offer), Ok(answer));
    }
}

#[test]
fn another_version_is_refused_by_its_number() {
    let mut octets = offer(Via::Write).encode();
    octets[9] = 4;
    octets.truncate(12); // whatever that version puts behind
    let reason = Offer::decode(&octets).expect_err("version 4");
    assert_eq!(reason, "this side speaks version 3 of the protocol, not 4");
}

#[test]
fn an_offer_cut_anywhere_is_refused() {
    let whole = offer(Via::Write).encode();
    for n in 0..whole.len() {
        assert!(Offer::decode(&whole[..n]).is_err(), "{n}");
    }
}

#[test]
fn other_private_data_is_no_offer() {
    assert_eq!(
        Offer::decode(b"GET / HTTP/1.1\r\n"),
        Err("the peer is not `nd cat`".to_owned())
    );
    assert!(
        Offer::decode(
            &Refusal {
                reason: "no".to_owned()
            }
            .encode()
        )
        .is_err()
    );
    assert!(Offer::decode(&[]).is_err());
}

#[test]
fn an_offer_cannot_ask_for_unbounded_memory() {
    for (block, blocks) in [
        (0, 16),
        (1, 0),
        (MAX_BLOCK + 1, 1),
        (1, MAX_BLOCKS + 1),
        (u32::MAX, u32::MAX),
        (1 << 20, 17),
    ] {
        let asked = Offer {
            shape: Shape { block, blocks },
            ..offer(Via::Write)
        };
        assert!(Offer::decode(&asked.encode()).is_err(), "{block} {blocks}");
    }
}

#[test]
fn an_unknown_mode_is_refused() {
    let mut octets = offer(Via::Write).encode();
    octets[11] = 4;
    assert!(Offer::decode(&octets).is_err());
}

#[test]
fn an_answer_stays_within_the_offer() {
    let offered = offer(Via::Write);
    let smaller = Shape {
        block: 4096,
        blocks: 2,
    };
    let answer = |via, shape| {
        Answer {
            via,
            shape,
            ring: NO_RING,
        }
        .encode()
    };
    assert!(Answer::decode(&answer(Via::Write, smaller), &offered).is_ok());
    assert!(Answer::decode(&answer(Via::Read, SHAPE), &offered).is_err());
    let larger = Shape {
        blocks: 17,
        block: 4096,
    };
    assert!(Answer::decode(&answer(Via::Write, larger), &offered).is_err());
    // In mode read the sender's ring exists already when it makes the offer.
    assert!(Answer::decode(&answer(Via::Read, smaller), &offer(Via::Read)).is_err());
}

#[test]
fn a_refusal_of_any_version_can_be_read() {
    let refusal = Refusal {
        reason: "this side speaks version 1".to_owned(),
    };
    let mut octets = refusal.encode();
    assert_eq!(Refusal::decode(&octets), Some(refusal.clone()));
    octets[8] = 0xFF;
    assert_eq!(Refusal::decode(&octets), Some(refusal));
    assert_eq!(Refusal::decode(&offer(Via::Send).encode()), None);
    assert_eq!(Refusal::decode(b"no"), None);
}

#[test]
fn private_data_fits_every_adapter() {
    let longest = Refusal {
        reason: "ä".repeat(500),
    }
    .encode();
    assert!(longest.len() <= 248, "{}", longest.len());
    assert!(
        Refusal::decode(&longest).is_some_and(|refusal| refusal.reason.chars().all(|c| c == 'ä'))
    );
    // The narrowest limit of an iWARP adapter's private data that is known is far above this.
    assert_eq!(offer(Via::Read).encode().len(), 40);
}

#[test]
fn messages_survive_the_way() {
    for message in messages() {
        let octets = message.encode();
        assert!(octets.len() <= MAX_MESSAGE);
        assert_eq!(decode(&octets), Some(message));
    }
}

#[test]
fn data_is_its_header_and_a_block_of_that_length() {
    let message = Message::Data(Block {
        slot: 1,
        length: 100,
    });
    let octets = message.encode();
    assert_eq!(octets.len(), HEADER);
    assert_eq!(Message::decode(&octets, 116), Some(message));
    assert_eq!(Message::decode(&octets, 115), None);
    assert_eq!(Message::decode(&octets, 16), None);
}

#[test]
fn a_message_cut_anywhere_is_none() {
    for message in messages() {
        let whole = message.encode();
        for n in 0..whole.len() {
            assert_eq!(decode(&whole[..n]), None, "{message:?} cut to {n}");
        }
    }
}

#[test]
fn messages_with_contradictions_are_none() {
    let free = Message::Free(1).encode();
    for (at, octet) in [(0, 0), (0, 8), (1, 1), (3, 1), (15, 1)] {
        let mut bad = free.clone();
        bad[at] = octet;
        assert_eq!(decode(&bad), None, "octet {at} = {octet}");
    }
    let mut long = Message::Written(Block { slot: 0, length: 0 }).encode();
    long[8] = 1; // a length beyond 32 bits
    assert_eq!(decode(&long), None);
    assert_eq!(Message::decode(&[], 0), None);
}

#[test]
fn text_from_the_peer_is_cut_and_made_valid() {
    let mut octets = Message::Abort("x".repeat(MAX_TEXT)).encode();
    octets[HEADER] = 0xFF;
    let Some(Message::Abort(text)) = decode(&octets) else {
        panic!("no abort")
    };
    assert!(text.starts_with('\u{FFFD}') && text.len() <= MAX_TEXT);
}
