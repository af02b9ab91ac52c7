//! The two machines of the connection set-up: octets, cuts, times and calls in any order.

use std::time::{Duration, Instant};

use iwarp_io::setup::{
    Acceptance, Agreed, Initiator, InitiatorConfig, InitiatorOutcome, MAX_FRAME, Machine, Offer,
    ReadLimits, ReadyKinds, Responder, ResponderConfig, ResponderOutcome, StreamEnd,
};

use crate::input::Input;

const MOST: ReadLimits = ReadLimits { ird: 128, ord: 128 };
/// The octets of a frame before its Private Data.
const HEADER_LEN: usize = 20;
const REQUEST_KEY: &[u8] = b"MPA ID Req Frame";
const REPLY_KEY: &[u8] = b"MPA ID Rep Frame";

/// A time that only passes when the input says so.
struct Clock(Instant);

impl Clock {
    fn new() -> Self {
        Self(Instant::now())
    }

    /// Lets 2^exponent microseconds pass: from no time worth speaking of to half an hour.
    fn pass(&mut self, exponent: u8) {
        self.0 += Duration::from_micros(1 << (exponent & 31));
    }
}

/// The octets that a peer has sent, and the number of those that were taken.
struct Stream {
    octets: Vec<u8>,
    taken: usize,
}

impl Stream {
    /// Hands over what a machine wants, at most `most` octets.
    fn feed<M: Machine>(
        &mut self,
        machine: &mut M,
        now: Instant,
        most: usize,
    ) -> Option<M::Outcome> {
        let left = &self.octets[self.taken..];
        let count = machine.wanted().min(left.len()).min(most);
        self.taken += count;
        let outcome = machine.handle_bytes(now, &left[..count]);
        assert!(
            self.taken <= self.frame_len(),
            "octets behind the frame were taken"
        );
        outcome
    }

    /// How many octets may be taken: the header, and what it announces if that is no more than a frame may have.
    fn frame_len(&self) -> usize {
        let length = self.octets.get(18..HEADER_LEN);
        let length = length.map_or(0, |length| u16::from_be_bytes([length[0], length[1]]));
        let frame = HEADER_LEN + usize::from(length);
        if frame > MAX_FRAME { HEADER_LEN } else { frame }
    }

    /// A whole frame was taken, and not an octet behind it.
    fn assert_one_frame(&self) {
        assert_eq!(self.taken, self.frame_len());
    }

    fn has_more(&self) -> bool {
        self.taken < self.octets.len()
    }
}

fn limits(input: &mut Input<'_>) -> ReadLimits {
    ReadLimits {
        ird: u32::from(input.octet()),
        ord: u32::from(input.octet()),
    }
}

/// A time limit, or none.
fn limit(input: &mut Input<'_>) -> Option<Duration> {
    match input.octet() {
        0 => None,
        octet => Some(Duration::from_micros(1 << (octet & 31))),
    }
}

fn end(octet: u8) -> StreamEnd {
    if octet & 128 == 0 {
        StreamEnd::Fin
    } else {
        StreamEnd::Reset
    }
}

fn acceptance(input: &mut Input<'_>) -> Acceptance {
    let [crc, markers, ..] = input.flags();
    let limits = limits(input);
    let length = usize::from(input.octet());
    Acceptance {
        crc,
        markers,
        ready: ReadyKinds::UNSEEN,
        limits,
        private_data: input.take(length).to_vec(),
    }
}

fn offer(input: &mut Input<'_>) -> Offer {
    let [rev2, peer_to_peer, crc, markers, ..] = input.flags();
    let limits = limits(input);
    let length = usize::from(input.octet());
    Offer {
        revision: 1 + u8::from(rev2),
        peer_to_peer,
        ready: ReadyKinds::UNSEEN,
        crc,
        markers,
        limits: ReadLimits {
            ird: limits.ird.min(MOST.ird),
            ord: limits.ord.min(MOST.ord),
        },
        private_data: input.take(length).to_vec(),
    }
}

/// The octets of a peer: arbitrary ones, perhaps behind the right key.
fn sent(input: &mut Input<'_>, key: &[u8], keyed: bool) -> Vec<u8> {
    let length = usize::from(input.word16()) % (MAX_FRAME + 64);
    let mut octets = if keyed { key.to_vec() } else { Vec::new() };
    octets.extend_from_slice(input.take(length));
    octets
}

/// Where an Initiator has to stand, seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Awaits,
    Holds,
    Sent,
    Over,
}

/// Input: one octet of flags (the peer's octets have the key in front; the peer is a Responder of ours; strict; falls back;
/// limits the time of the frame), what to ask for, two time limits, what the peer sends, then calls: an octet each, of which the low three bits say which one.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn initiator(data: &[u8]) {
    let mut input = Input::new(data);
    let [keyed, ours, strict, fallback, hurries, ..] = input.flags();
    let config = InitiatorConfig {
        spares_crc: false,
        offer: offer(&mut input),
        most: MOST,
        unstated: 32,
        strict_peer_to_peer: strict,
        revision_1_fallback: fallback,
        reply_within: limit(&mut input),
        reply_frame_within: hurries.then_some(Duration::from_secs(10)),
        hold_ready: limit(&mut input),
    };
    let mut clock = Clock::new();
    let mut initiator = Initiator::new(config.clone());
    let mut stream = if ours {
        Stream {
            octets: reply_of_ours(&initiator, &mut input, clock.0),
            taken: 0,
        }
    } else {
        Stream {
            octets: sent(&mut input, REPLY_KEY, keyed),
            taken: 0,
        }
    };
    let mut stage = Stage::Idle;
    let mut requests = 0;
    while !input.is_empty() {
        let call = input.octet();
        let due = initiator.poll_timeout().is_some_and(|at| at <= clock.0);
        let outcome = match call & 7 {
            0 => {
                let request = initiator.handle_connected(clock.0);
                assert_eq!(request.is_some(), stage == Stage::Idle);
                if let Some(request) = request {
                    assert!(request.starts_with(REQUEST_KEY) && request.len() <= MAX_FRAME);
                    requests += 1;
                    stage = Stage::Awaits;
                }
                None
            }
            1 => {
                let due = initiator.complete();
                assert_eq!(due, stage == Stage::Holds);
                if matches!(stage, Stage::Holds | Stage::Sent) {
                    stage = Stage::Over;
                }
                None
            }
            2 => {
                let outcome = initiator.handle_end(clock.0, end(call));
                assert_eq!(outcome.is_some(), stage == Stage::Awaits);
                outcome
            }
            3 => initiator.handle_unwanted(),
            4 => {
                clock.pass(call >> 3);
                None
            }
            5 => {
                let outcome = initiator.handle_timeout(clock.0);
                assert_eq!(outcome.is_some(), due);
                outcome
            }
            _ => stream.feed(&mut initiator, clock.0, usize::from(call >> 3) + 1),
        };
        stage = follow(stage, outcome, &config, &stream);
        assert_eq!(initiator.wanted() > 0, stage == Stage::Awaits);
        let waits = match stage {
            Stage::Awaits => {
                let began = config.reply_frame_within.filter(|_| stream.taken > 0);
                config.reply_within.or(began).is_some()
            }
            Stage::Holds => config.hold_ready.is_some(),
            Stage::Idle | Stage::Sent | Stage::Over => false,
        };
        assert_eq!(initiator.poll_timeout().is_some(), waits);
    }
    assert!(requests <= 1 + u8::from(config.revision_1_fallback));
}

/// Checks an outcome of an Initiator. Returns its phase after the outcome.
fn follow(
    stage: Stage,
    outcome: Option<InitiatorOutcome>,
    config: &InitiatorConfig,
    stream: &Stream,
) -> Stage {
    match (stage, outcome) {
        (stage, None) => stage,
        (Stage::Awaits, Some(InitiatorOutcome::Agreed(agreement))) => {
            stream.assert_one_frame();
            let Agreed {
                revision, limits, ..
            } = agreement.agreed;
            assert!(revision <= config.offer.revision);
            assert!(limits.ord <= config.offer.limits.ord && limits.ird <= MOST.ird);
            assert!(agreement.limits.ird <= limits.ird && agreement.limits.ord == limits.ord);
            assert!(!(config.strict_peer_to_peer && agreement.changes_peer_to_peer));
            Stage::Holds
        }
        (Stage::Awaits, Some(InitiatorOutcome::FallBack)) => {
            assert!(config.revision_1_fallback && config.offer.revision == 2);
            assert_eq!(stream.taken, 0, "the peer has said nothing");
            Stage::Idle
        }
        (Stage::Holds, Some(InitiatorOutcome::SendReady)) => Stage::Sent,
        (Stage::Awaits, Some(InitiatorOutcome::Failed(failure))) => {
            assert!(!failure.to_string().is_empty());
            Stage::Over
        }
        (stage, Some(outcome)) => panic!("{outcome:?} where the Initiator is at {stage:?}"),
    }
}

/// The Reply of a Responder of `iwarp`.
fn reply_of_ours(initiator: &Initiator, input: &mut Input<'_>, now: Instant) -> Vec<u8> {
    let mut request = Vec::new();
    initiator.offer().request().encode(&mut request);
    let config = ResponderConfig {
        spares_crc: false,
        most: MOST,
        unstated: 32,
        request_within: None,
        ready_within: None,
    };
    let mut responder = Responder::new(now, config);
    let mut stream = Stream {
        octets: request,
        taken: 0,
    };
    while stream.has_more() {
        stream.feed(&mut responder, now, usize::MAX);
    }
    let [rejects, ..] = input.flags();
    let with = acceptance(input);
    if rejects {
        responder
            .reject(&with.private_data)
            .expect("the Request is here")
    } else {
        responder
            .accept(now, with)
            .expect("the Request is here")
            .reply
    }
}

/// Input: one octet of flags (the peer's octets have the key in front; the peer is an Initiator of ours), two time limits, what the
/// peer sends, then calls: an octet each, of which the low three bits say which one.
///
/// # Panics
///
/// When a property does not hold: that is what fuzzing looks for.
pub fn responder(data: &[u8]) {
    let mut input = Input::new(data);
    let [keyed, ours, ..] = input.flags();
    let config = ResponderConfig {
        spares_crc: false,
        most: MOST,
        unstated: 32,
        request_within: limit(&mut input),
        ready_within: limit(&mut input),
    };
    let octets = if ours {
        let mut octets = Vec::new();
        offer(&mut input).request().encode(&mut octets);
        octets
    } else {
        sent(&mut input, REQUEST_KEY, keyed)
    };
    let mut stream = Stream { octets, taken: 0 };
    let mut clock = Clock::new();
    let mut responder = Responder::new(clock.0, config);
    // Awaits: the Request; Holds: the application decides; Sent: the ready-to-receive message is awaited.
    let mut stage = Stage::Awaits;
    while !input.is_empty() {
        let call = input.octet();
        let due = responder.poll_timeout().is_some_and(|at| at <= clock.0);
        let outcome = match call & 7 {
            0 => {
                let accepted = responder.accept(clock.0, acceptance(&mut input));
                assert_eq!(accepted.is_some(), stage == Stage::Holds);
                if let Some(accepted) = accepted {
                    assert!(
                        accepted.reply.starts_with(REPLY_KEY) && accepted.reply.len() <= MAX_FRAME
                    );
                    let Agreed { limits, ready, .. } = accepted.agreed;
                    assert!(limits.ird <= MOST.ird && limits.ord <= MOST.ord);
                    stage = if ready.is_some() {
                        Stage::Sent
                    } else {
                        Stage::Over
                    };
                }
                None
            }
            1 => {
                let reply = responder.reject(input.take(usize::from(call >> 3)));
                assert_eq!(reply.is_some(), stage == Stage::Holds);
                if let Some(reply) = reply {
                    assert!(reply.starts_with(REPLY_KEY) && reply.len() <= MAX_FRAME);
                }
                // Without a Request it ends the set-up as well: nothing is sent.
                stage = Stage::Over;
                None
            }
            2 => {
                let outcome = responder.handle_end(clock.0, end(call));
                assert_eq!(outcome.is_some(), stage != Stage::Over);
                outcome
            }
            3 if call & 8 == 0 => {
                let outcome = responder.handle_unwanted();
                assert_eq!(outcome.is_some(), stage == Stage::Holds);
                outcome
            }
            3 => {
                let outcome = responder.handle_ready();
                assert_eq!(outcome.is_some(), stage == Stage::Sent);
                outcome
            }
            4 => {
                clock.pass(call >> 3);
                None
            }
            5 => {
                let outcome = responder.handle_timeout(clock.0);
                assert_eq!(outcome.is_some(), due);
                outcome
            }
            _ => stream.feed(&mut responder, clock.0, usize::from(call >> 3) + 1),
        };
        stage = responder_stage(stage, outcome, &stream, &responder);
        assert_eq!(responder.wanted() > 0, stage == Stage::Awaits);
        assert_eq!(responder.request().is_some(), stage == Stage::Holds);
        let waits = match stage {
            Stage::Awaits => config.request_within.is_some(),
            Stage::Sent => config.ready_within.is_some(),
            Stage::Idle | Stage::Holds | Stage::Over => false,
        };
        assert_eq!(responder.poll_timeout().is_some(), waits);
    }
}

/// Returns the phase of a Responder after the outcome of a call.
///
/// # Panics
///
/// If the outcome cannot happen in phase `stage`.
fn responder_stage(
    stage: Stage,
    outcome: Option<ResponderOutcome>,
    stream: &Stream,
    responder: &Responder,
) -> Stage {
    match (stage, outcome) {
        (stage, None) => stage,
        (Stage::Awaits, Some(ResponderOutcome::Requested)) => {
            stream.assert_one_frame();
            assert!(responder.offered().is_some());
            Stage::Holds
        }
        (Stage::Sent, Some(ResponderOutcome::Connected)) => Stage::Over,
        (Stage::Awaits | Stage::Holds | Stage::Sent, Some(ResponderOutcome::Failed(failure))) => {
            assert!(!failure.to_string().is_empty());
            Stage::Over
        }
        (stage, Some(outcome)) => panic!("{outcome:?} where the Responder is at {stage:?}"),
    }
}
