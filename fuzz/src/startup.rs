//! The connection set-up frames: reading, writing, and what both sides agree on.

use iwarp::mpa::startup::{
    Acceptance, ConcludeError, Frame, FrameKind, FrameReader, MAX_FRAME, NOT_NEGOTIATED, Offer,
    ReadyKinds, StartupError, accept, reject,
};
use iwarp::{ReadLimits, Ready};

use crate::input::Input;

const MAX: ReadLimits = ReadLimits { ird: 128, ord: 128 };

/// Input: one octet of flags (Reply; complete a key; four bits unused; a pair of ours), one that says how to cut, then what a
/// peer sent.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn startup(data: &[u8]) {
    let mut input = Input::new(data);
    let [reply, keyed, .., ours] = input.flags();
    if ours {
        return two_of_ours(&mut input);
    }
    let kind = if reply {
        FrameKind::Reply
    } else {
        FrameKind::Request
    };
    let step = usize::from(input.octet());
    let mut octets = if keyed { key(kind) } else { Vec::new() };
    octets.extend_from_slice(input.rest());
    if let Some(frame) = read_both_ways(kind, &octets, step) {
        survives(&frame);
        match kind {
            FrameKind::Request => answer(&frame, &octets),
            FrameKind::Reply => conclude(&frame, &octets),
        }
    }
}

fn key(kind: FrameKind) -> Vec<u8> {
    let mut octets = encoded(&Frame {
        kind,
        markers: false,
        crc: false,
        rejected: false,
        revision: 1,
        enhanced: None,
        private_data: Vec::new(),
    });
    octets.truncate(16);
    octets
}

fn encoded(frame: &Frame) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(&mut out);
    assert!(out.len() <= MAX_FRAME);
    out
}

/// Passes a frame in pieces, never more than wanted. The result must not depend on the pieces.
fn read_in_pieces(
    kind: FrameKind,
    octets: &[u8],
    step: usize,
) -> Result<Option<Frame>, StartupError> {
    let mut reader = FrameReader::new(kind);
    let mut rest = octets;
    loop {
        assert!(octets.len() - rest.len() + reader.wanted() <= MAX_FRAME);
        let (now, later) = rest.split_at(rest.len().min(reader.wanted()).min(step.max(1)));
        let result = reader.push(now);
        assert_eq!(
            reader.started(),
            rest.len() < octets.len() || !now.is_empty()
        );
        match result {
            Ok(None) if !now.is_empty() => rest = later,
            Ok(None) => {
                assert!(octets.len() < MAX_FRAME && reader.wanted() > 0);
                return Ok(None);
            }
            done => {
                assert_eq!(reader.wanted(), 0);
                return done;
            }
        }
    }
}

fn read_both_ways(kind: FrameKind, octets: &[u8], step: usize) -> Option<Frame> {
    let whole = read_in_pieces(kind, octets, usize::MAX);
    assert_eq!(read_in_pieces(kind, octets, step), whole);
    match &whole {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(Some(frame)) => {
            // A frame with octets behind it is refused as a whole.
            let len = encoded(frame).len();
            let more = FrameReader::new(kind).push(octets);
            if octets.len() > len {
                assert_eq!(more, Err(StartupError::Trailing));
            } else {
                assert_eq!(more, whole);
            }
        }
        Ok(None) => {}
    }
    whole.ok().flatten()
}

/// Print, encode, parse.
fn survives(frame: &Frame) {
    assert!(!frame.to_string().contains('\n'));
    assert_eq!(
        FrameReader::new(frame.kind).push(&encoded(frame)),
        Ok(Some(frame.clone()))
    );
}

/// Limits and flags that depend on the input, without consuming it.
fn limits_from(octets: &[u8]) -> ReadLimits {
    let sum = iwarp::crc32c(octets);
    ReadLimits {
        ird: sum & 0xff,
        ord: sum >> 8 & 0xff,
    }
}

fn answer(request: &Frame, octets: &[u8]) {
    let with = Acceptance {
        markers: false,
        ready: ReadyKinds::UNSEEN,
        crc: octets.len() & 1 == 0,
        limits: limits_from(octets),
        private_data: b"callee".to_vec(),
    };
    let (reply, agreed) = accept(request, &with);
    survives(&reply);
    assert!(!reply.rejected && !reply.markers && reply.revision == request.revision);
    assert_eq!(agreed.crc, request.crc || with.crc);
    assert_eq!(reply.enhanced.is_some(), request.enhanced.is_some());
    if let (Some(asked), Some(shown)) = (request.enhanced, reply.enhanced) {
        assert_eq!(shown.peer_to_peer, asked.peer_to_peer);
        let types = u8::from(shown.rtr_send) + u8::from(shown.rtr_write) + u8::from(shown.rtr_read);
        assert_eq!(types, u8::from(asked.peer_to_peer));
        assert_eq!(agreed.ready.is_some(), asked.peer_to_peer);
        assert_eq!(shown.ird == NOT_NEGOTIATED, asked.ord == NOT_NEGOTIATED);
        assert_eq!(shown.ord == NOT_NEGOTIATED, asked.ird == NOT_NEGOTIATED);
        assert!(shown.ord <= asked.ird);
        // MPA2-020: a Read as ready-to-receive message raises a limit of none to one, unless the peer will send none later.
        let raised = agreed.ready == Some(Ready::Read) && !matches!(asked.ord, 0 | NOT_NEGOTIATED);
        assert!(agreed.limits.ird <= with.limits.ird.max(u32::from(raised)));
        assert!(agreed.limits.ord <= with.limits.ord);
    } else {
        assert_eq!((agreed.ready, agreed.limits), (None, with.limits));
    }
    let refusal = reject(request, with.limits, b"no");
    survives(&refusal);
    assert!(refusal.rejected);
}

fn conclude(reply: &Frame, octets: &[u8]) {
    let offer = Offer {
        markers: false,
        ready: ReadyKinds::UNSEEN,
        revision: 1 + u8::from(octets.len() & 12 != 0),
        peer_to_peer: octets.len() & 1 == 0,
        crc: octets.len() & 2 == 0,
        limits: limits_from(octets),
        private_data: Vec::new(),
    };
    match offer.conclude(reply, MAX) {
        Ok(agreed) => {
            assert!(!reply.rejected && agreed.revision <= offer.revision);
            assert_eq!(agreed.crc, offer.crc || reply.crc);
            assert!(agreed.limits.ord <= offer.limits.ord);
            assert!(agreed.limits.ird <= MAX.ird.max(offer.limits.ird));
            let shown = reply.enhanced.is_some_and(|enhanced| enhanced.peer_to_peer);
            assert_eq!(
                (agreed.ready.is_some(), agreed.peer_to_peer),
                (shown, shown)
            );
        }
        Err(ConcludeError::Rejected) => assert!(reply.rejected),
        Err(error) => assert!(!reply.rejected && !error.to_string().is_empty()),
    }
}

/// Both ends are ours, and agree whatever they want.
fn two_of_ours(input: &mut Input<'_>) {
    let [rev2, peer_to_peer, crc, wanted, ..] = input.flags();
    let mut limits = || ReadLimits {
        ird: u32::from(input.octet()),
        ord: u32::from(input.octet()),
    };
    let (asked, given) = (limits(), limits());
    let offer = Offer {
        markers: false,
        ready: ReadyKinds::UNSEEN,
        revision: 1 + u8::from(rev2),
        peer_to_peer,
        crc,
        limits: asked,
        private_data: input.take(508).to_vec(),
    };
    let with = Acceptance {
        markers: false,
        ready: ReadyKinds::UNSEEN,
        crc: wanted,
        limits: given,
        private_data: input.take(508).to_vec(),
    };
    let request = FrameReader::new(FrameKind::Request).push(&encoded(&offer.request()));
    let request = request
        .expect("our Request is well formed")
        .expect("and whole");
    let (reply, responder) = accept(&request, &with);
    let reply = FrameReader::new(FrameKind::Reply).push(&encoded(&reply));
    let reply = reply.expect("our Reply is well formed").expect("and whole");
    assert_eq!(
        (&request.private_data, &reply.private_data),
        (&offer.private_data, &with.private_data)
    );
    let initiator = offer
        .conclude(&reply, ReadLimits { ird: 255, ord: 255 })
        .expect("our Reply suits our Request");
    assert_eq!(
        (initiator.crc, initiator.ready),
        (responder.crc, responder.ready)
    );
    if rev2 {
        assert_eq!(initiator.limits.ird, responder.limits.ord);
        assert_eq!(initiator.limits.ord, responder.limits.ird);
    } else {
        assert_eq!((initiator.limits, responder.limits), (asked, given));
    }
}
