//! Receives that several connections share.

use proptest::prelude::*;

use super::*;
use crate::ddp::UntaggedError;
use crate::testing::SharedReceives;

use WqeStatus::{Flushed, ReceiveTooShort, Success};

/// Octets of a shared Receive.
const LENGTH: u32 = 64;

/// Streams whose passive ends draw from one queue, and have no Receives of their own.
struct Streams {
    pairs: Vec<Pair>,
    shared: SharedReceives,
}

impl Streams {
    fn new(count: usize, config: StreamConfig, knobs: Knobs) -> Self {
        let pairs = (0..count).map(|_| {
            let a = StreamConfig {
                role: Role::Initiator,
                ..config
            };
            let mut pair = Pair::with(a, config, knobs);
            pair.a.conn.send_ready();
            pair.run();
            pair
        });
        Self {
            pairs: pairs.collect(),
            shared: SharedReceives::default(),
        }
    }

    /// Sends that wait without end for a Receive.
    fn patient(count: usize) -> Self {
        let config = StreamConfig {
            receive_wait: Duration::MAX,
            ..stream(Role::Responder)
        };
        Self::new(count, config, Knobs::default())
    }

    fn id(at: usize) -> StreamId {
        StreamId(u32::try_from(at).expect("few"))
    }

    /// Posts a Receive whose buffer every stream knows. Streams that waited handle their octets again.
    fn post(&mut self, context: u64, length: u32) {
        let sge = Sge {
            token: STag(u32::try_from(context).expect("few")),
            address: 0,
            length,
        };
        for pair in &self.pairs {
            let bytes = vec![0; length as usize];
            pair.b.mem.register_as(sge.token, 0, bytes, Rights::ALL, PD);
        }
        for waiting in self.shared.post(context, &[sge]) {
            self.deliver(waiting.0 as usize, &[]);
        }
    }

    fn send(&mut self, at: usize, data: &[u8]) {
        self.pairs[at].a.post(0, inline(&[data])).expect("room");
    }

    /// A message of two segments, of which the first has 136 octets with its frame; returns it, and both as they are sent.
    fn long_send(&mut self, at: usize) -> (Vec<u8>, Vec<u8>) {
        let end = &mut self.pairs[at].a;
        let data = pattern(150, 3);
        let source = end.mem.register(data.clone(), Rights::ALL, PD);
        end.post(0, sends(Payload::Sges(&[source]))).expect("room");
        let mut knobs = Knobs::default();
        knobs.limit.mulpdu = 128;
        (data, end.transmit(&knobs))
    }

    fn deliver(&mut self, at: usize, octets: &[u8]) {
        let source = self.shared.for_stream(Self::id(at));
        self.pairs[at].b.receive_with(octets, source);
    }

    /// Octets of what was posted go to the other end.
    fn carry(&mut self, at: usize) {
        let knobs = self.pairs[at].knobs;
        let octets = self.pairs[at].a.transmit(&knobs);
        self.deliver(at, &octets);
    }

    fn reset(&mut self, at: usize) {
        let end = &mut self.pairs[at].b;
        end.conn.handle_stream_end(StreamEnd::Reset, 0);
        end.collect();
    }

    /// The completions of a stream: contexts and statuses.
    fn done(&self, at: usize) -> Vec<(u64, WqeStatus)> {
        let done = self.pairs[at].b.completions();
        done.iter()
            .map(|done| (done.context, done.status))
            .collect()
    }

    fn stalls(&self, at: usize) -> usize {
        let events = self.pairs[at].b.events.iter();
        events.filter(|event| **event == Event::Stalled).count()
    }

    /// The front of a Receive's buffer, as a stream has it.
    fn holds(&self, at: usize, context: u32, data: &[u8]) -> bool {
        self.pairs[at].b.mem.bytes(STag(context)).starts_with(data)
    }
}

/// SRQ-033: a Receive completes on the connection that drew it.
#[test]
fn srq_033_receives_are_drawn_in_order_by_whoever_needs_one() {
    let mut streams = Streams::patient(2);
    for context in 1..=4 {
        streams.post(context, LENGTH);
    }
    for (at, data) in [(0, b"one"), (1, b"two"), (0, b"san")] {
        streams.send(at, data);
        streams.carry(at);
    }
    assert_eq!(streams.done(0), [(1, Success), (3, Success)]);
    assert_eq!(streams.done(1), [(2, Success)]);
    assert!(streams.holds(0, 1, b"one") && streams.holds(1, 2, b"two"));
    assert_eq!(streams.shared.contexts(), [4]);
}

/// A message that has begun keeps its Receive while others draw theirs.
#[test]
fn srq_a_message_under_way_keeps_its_receive() {
    for crc in [true, false] {
        let config = StreamConfig {
            crc,
            receive_wait: Duration::MAX,
            ..stream(Role::Responder)
        };
        let mut streams = Streams::new(2, config, Knobs::default());
        streams.post(1, 200);
        streams.post(2, 200);
        let (data, octets) = streams.long_send(0);
        // The first segment and the front of the second; without CRCs the front of the first.
        let cut = if crc { 140 } else { 100 };
        streams.deliver(0, &octets[..cut]);
        assert_eq!(streams.shared.contexts(), [2], "CRC {crc}");
        streams.send(1, b"two");
        streams.carry(1);
        assert_eq!(streams.done(1), [(2, Success)]);
        streams.deliver(0, &octets[cut..]);
        assert_eq!(streams.done(0), [(1, Success)]);
        assert!(streams.holds(0, 1, &data) && streams.holds(1, 2, b"two"));
    }
}

/// IW-027, ADPT-076: a connection that finds the queue empty waits without a limit, and goes on when a Receive is posted.
#[test]
fn iw_027_a_post_to_the_shared_queue_wakes_who_waits() {
    let mut streams = Streams::patient(3);
    for at in [1, 0] {
        streams.send(at, b"wait");
        streams.carry(at);
        assert!(streams.pairs[at].b.conn.is_stalled());
        assert_eq!(streams.stalls(at), 1);
        let pair = &mut streams.pairs[at];
        assert_eq!(pair.b.conn.poll_timeout(pair.now), None);
        pair.advance(Duration::from_secs(1 << 40));
        assert!(pair.b.conn.is_running());
    }
    streams.post(1, LENGTH);
    assert_eq!(
        (streams.done(1), streams.done(0)),
        (vec![(1, Success)], vec![])
    );
    assert!(!streams.pairs[1].b.conn.is_stalled() && streams.pairs[0].b.conn.is_stalled());
    assert_eq!(
        (streams.stalls(0), streams.stalls(1)),
        (1, 1),
        "each was told once"
    );
    streams.post(2, LENGTH);
    assert_eq!(streams.done(0), [(2, Success)]);
    assert!(streams.holds(0, 2, b"wait"));
    // The next one has its own wait.
    streams.send(0, b"more");
    streams.carry(0);
    assert_eq!(streams.stalls(0), 2);
    assert_eq!(streams.pairs[0].b.conn.counters().stalls, 2);
}

/// With a limit, the wait ends as it does for a connection's own queue (DDP-061).
#[test]
fn ddp_061_a_shared_queue_that_stays_empty_ends_the_stream_that_waits() {
    let mut streams = Streams::new(2, stream(Role::Responder), Knobs::default());
    streams.send(0, b"one");
    streams.carry(0);
    let fault = Fault::Untagged(UntaggedError::NoBuffer);
    assert_eq!(streams.pairs[0].b.fault(), Some(fault));
    assert!(streams.pairs[1].b.conn.is_running());
}

/// SRQ-039: an ended connection gives back what it drew, once, on its own; the rest stays for the others.
#[test]
fn srq_039_an_ended_connection_flushes_what_it_drew_and_nothing_else() {
    let mut streams = Streams::patient(2);
    for context in 1..=3 {
        streams.post(context, 200);
    }
    streams.send(0, b"whole");
    streams.carry(0);
    let (_, octets) = streams.long_send(0);
    streams.deliver(0, &octets[..140]);
    assert_eq!(streams.shared.contexts(), [3]);
    for _ in 0..2 {
        streams.reset(0);
        streams.pairs[0].b.conn.flush();
        streams.pairs[0].b.conn.disconnect();
        streams.pairs[0].b.collect();
        streams.deliver(0, &octets[140..]);
    }
    assert_eq!(streams.done(0), [(1, Success), (2, Flushed)]);
    assert_eq!(streams.shared.contexts(), [3]);
    streams.send(1, b"goes on");
    streams.carry(1);
    assert_eq!(streams.done(1), [(3, Success)]);
}

/// A stalled connection that ends has drawn nothing, and what is posted later is not for it.
#[test]
fn srq_039_a_connection_that_ends_while_it_waits_takes_no_receive() {
    let mut streams = Streams::patient(2);
    streams.send(0, b"lost");
    streams.carry(0);
    streams.reset(0);
    streams.send(1, b"found");
    streams.carry(1);
    streams.post(1, LENGTH);
    assert_eq!(
        (streams.done(0), streams.done(1)),
        (vec![], vec![(1, Success)])
    );
}

/// SRQ-036, SRQ-037: a Receive that is too short ends the connection that drew it. The queue goes on serving the other connections.
#[test]
fn srq_036_a_receive_that_is_too_short_fails_its_connection_alone() {
    let mut streams = Streams::patient(2);
    streams.post(1, 4);
    streams.post(2, LENGTH);
    streams.send(0, b"too long");
    streams.carry(0);
    assert_eq!(streams.done(0), [(1, ReceiveTooShort)]);
    streams.send(1, b"fits");
    streams.carry(1);
    assert_eq!(streams.done(1), [(2, Success)]);
}

/// Receives of the connection's own go first; one call may complete more than the connection's queue has room for.
#[test]
fn srq_a_connection_draws_more_receives_than_its_queue_has_room_for() {
    let mut streams = Streams::patient(1);
    let depth = u64::from(SIZES.receive_depth);
    let own = streams.pairs[0]
        .b
        .mem
        .register(vec![0; 16], Rights::ALL, PD);
    streams.pairs[0].b.conn.post_receive(1000, &[own]).unwrap();
    for context in 1..=3 * depth {
        streams.post(context, LENGTH);
    }
    let mut stream = Vec::new();
    for _ in 0..=3 * depth {
        streams.send(0, b"many");
        let knobs = streams.pairs[0].knobs;
        stream.extend(streams.pairs[0].a.transmit(&knobs));
        streams.pairs[0].a.collect();
    }
    streams.deliver(0, &stream);
    let expected: Vec<_> = std::iter::once(1000).chain(1..=3 * depth).collect();
    let done = streams.done(0);
    assert!(done.iter().all(|(_, status)| *status == Success));
    assert_eq!(done.iter().map(|done| done.0).collect::<Vec<_>>(), expected);
    assert!((1..=48).all(|context| streams.holds(0, context, b"many")));
    // The connection's own Receives have no more room than before.
    for at in 0..depth {
        streams.pairs[0].b.conn.post_receive(at, &[own]).unwrap();
    }
    let full = streams.pairs[0].b.conn.post_receive(0, &[own]);
    assert_eq!(full, Err(PostError::QueueFull));
}

/// RDMAPX-022: Immediate Data takes a shared Receive as a Send does.
#[test]
fn rdmapx_022_immediate_data_draws_a_shared_receive() {
    let mut streams = Streams::patient(1);
    let data = [7; 8];
    let immediate = Operation::Immediate {
        data,
        solicited: false,
    };
    streams.pairs[0].a.post(0, immediate).expect("room");
    streams.carry(0);
    assert_eq!(streams.stalls(0), 1);
    streams.post(1, LENGTH);
    let completions = streams.pairs[0].b.completions();
    assert_eq!(completions[0].context, 1);
    let data = crate::ReceivedImmediate::Alone(data);
    assert_eq!(completions[0].immediate, Some(data));
}

/// A Receive that could not be posted to a connection cannot be drawn by it either.
#[test]
fn srq_030_a_receive_with_too_many_sges_is_not_drawn() {
    #[derive(Clone, Copy)]
    struct Unfit(&'static [Sge], PostError);
    impl ReceiveSource for Unfit {
        fn draw(self, slot: ReceiveSlot<'_>) {
            assert_eq!(slot.fill(1, self.0), Err(self.1));
        }
    }
    const LONG: Sge = Sge {
        length: u32::MAX,
        ..NOWHERE
    };
    for unfit in [
        Unfit(&[NOWHERE; 4], PostError::TooManySges),
        Unfit(&[LONG; 2], PostError::TooLong),
    ] {
        let mut streams = Streams::patient(1);
        streams.send(0, b"wait");
        let knobs = streams.pairs[0].knobs;
        let octets = streams.pairs[0].a.transmit(&knobs);
        streams.pairs[0].b.receive_with(&octets, unfit);
        assert!(streams.pairs[0].b.conn.is_stalled() && streams.done(0).is_empty());
    }
}

/// As many Receives are needed as are then drawn, wherever the octets end.
#[test]
fn the_receives_that_octets_need_are_known_before() {
    let octets = |streams: &mut Streams| {
        for data in [&b"one"[..], b"", b"three"] {
            streams.send(0, data);
        }
        let immediate = Operation::Immediate {
            data: [7; 8],
            solicited: true,
        };
        streams.pairs[0].a.post(0, immediate).expect("room");
        let (_, mut long) = streams.long_send(0);
        streams.send(0, b"last");
        let knobs = streams.pairs[0].knobs;
        long.extend(streams.pairs[0].a.transmit(&knobs));
        long
    };
    let length = octets(&mut Streams::patient(1)).len();
    for cut in 0..=length {
        let mut streams = Streams::patient(1);
        let octets = octets(&mut streams);
        (0..8).for_each(|context| streams.post(context, 150));
        let mut drawn = 0;
        for part in [&octets[..cut], &octets[cut..]] {
            let conn = &streams.pairs[0].b.conn;
            let input = [&streams.pairs[0].b.staging, part].concat();
            let needed = conn.receives_needed(&input, 16);
            assert_eq!(conn.receives_needed(&input, 2), needed.min(2));
            streams.deliver(0, part);
            let now = 8 - streams.shared.contexts().len();
            // The first segment of the long message has drawn its Receive, although the message has not ended.
            let begun = now - streams.done(0).len();
            assert_eq!(needed + begun, now - drawn, "cut at {cut}");
            drawn = now;
        }
        assert_eq!(drawn, 6);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Post,
    Send(usize),
    /// A stream carries at most this many octets.
    Carry(usize, usize),
    Reset(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = 0..3usize;
    let step = prop_oneof![
        8 => Just(Step::Post),
        8 => at.clone().prop_map(Step::Send),
        16 => (at.clone(), 1..80usize).prop_map(|(at, most)| Step::Carry(at, most)),
        1 => at.prop_map(Step::Reset),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    /// Whatever the streams do: every Receive ends once or is still in the queue, and those that were drawn are those that
    /// were posted first.
    #[test]
    fn srq_every_receive_ends_once_or_stays(steps in steps(), crc in any::<bool>()) {
        let config = StreamConfig {
            crc,
            early: 32,
            receive_wait: Duration::MAX,
            ..stream(Role::Responder)
        };
        let mut streams = Streams::new(3, config, Knobs::default());
        let (mut posted, mut ended) = (0, [false; 3]);
        let mut sent = [0u64; 3];
        for step in steps {
            match step {
                Step::Post => {
                    posted += 1;
                    streams.post(posted, LENGTH);
                }
                Step::Send(at) if streams.pairs[at].a.conn.is_running() => {
                    let data = sent[at].to_be_bytes();
                    if streams.pairs[at].a.post(0, inline(&[&data, &data, &data])).is_ok() {
                        sent[at] += 1;
                    }
                }
                Step::Carry(at, most) => {
                    let knobs = Knobs { write: most, ..Knobs::default() };
                    let octets = streams.pairs[at].a.transmit(&knobs);
                    streams.pairs[at].a.collect();
                    if !ended[at] {
                        streams.deliver(at, &octets);
                    }
                }
                Step::Reset(at) => {
                    ended[at] = true;
                    streams.reset(at);
                }
                Step::Send(_) => {}
            }
        }
        let left = streams.shared.contexts();
        prop_assert!(left.iter().copied().eq(posted + 1 - left.len() as u64..=posted));
        let mut seen = left;
        for (at, sent) in sent.into_iter().enumerate() {
            streams.reset(at); // a message under way gives its Receive back
            let done = streams.done(at);
            let mut count = 0u64;
            for (context, status) in done {
                seen.push(context);
                let context = u32::try_from(context).unwrap();
                match status {
                    Success => {
                        prop_assert!(streams.holds(at, context, &count.to_be_bytes()));
                        count += 1;
                    }
                    status => prop_assert_eq!(status, Flushed),
                }
            }
            prop_assert!(count <= sent);
        }
        seen.sort_unstable();
        prop_assert!(seen.into_iter().eq(1..=posted));
    }
}

/// The memory of shared Receives is in the protection domain of their queue, which is not that of the connection. All else that the
/// connection does stays in its own.
#[test]
fn shared_receives_name_memory_of_their_own_domain() {
    const THERE: Pd = Pd(PD.0 + 1);
    // One piece, and several.
    for pieces in [1, 2] {
        for (set, registered, expected) in [
            (true, THERE, Success),
            (true, PD, WqeStatus::LocalAccess),
            (false, THERE, WqeStatus::LocalAccess),
            (false, PD, Success),
        ] {
            let config = StreamConfig {
                crc: false,
                ..stream(Role::Responder)
            };
            let a = StreamConfig {
                role: Role::Initiator,
                ..config
            };
            let mut pair = Pair::with(a, config, Knobs::default());
            pair.a.conn.send_ready();
            pair.run();
            if set {
                pair.b.conn.set_receive_pd(THERE);
            }
            let mem = &pair.b.mem;
            let sges: Vec<_> = (0..pieces)
                .map(|_| mem.register(vec![0; 200], Rights::ALL, registered))
                .collect();
            pair.b.conn.post_receive(7, &sges).unwrap();
            let data = pattern(150, 3);
            let source = pair.a.mem.register(data.clone(), Rights::ALL, PD);
            let source = [source];
            let message = sends(Payload::Sges(&source));
            pair.a.post(0, message).expect("room");
            pair.run();
            assert_eq!(
                outcomes(&pair.b),
                [expected],
                "{pieces} {set} {registered:?}"
            );
            let arrived = pair.b.mem.bytes(sges[0].token)[..150] == data[..150];
            assert_eq!(arrived, expected == Success);
        }
    }
}
