//! Short messages in a row: they are made as one by one, whatever is between them.

use proptest::prelude::*;

use super::*;
use crate::memory::{
    Access, AccessError, AtomicError, BindError, InvalidateError, LocalAccess, Memory, MessageEnd,
    Revoked, Span, WindowBind,
};
use crate::mpa::Crc;
use crate::rdmap::AtomicOp;
use crate::testing::VecMemory;
use crate::types::WindowId;

/// A memory that refuses what only rows ask for, so that every FPDU is made by the code for all messages.
struct OneByOne<'a>(&'a VecMemory);

impl Memory for OneByOne<'_> {
    fn check(
        &self,
        at: RemoteAddress,
        len: u32,
        need: Access,
        who: Scope,
    ) -> Result<Span, AccessError> {
        self.0.check(at, len, need, who)
    }

    fn check_local(&self, sge: Sge, need: LocalAccess, pd: Pd) -> Result<Span, AccessError> {
        self.0.check_local(sge, need, pd)
    }

    fn place(&self, at: Span, src: &[u8], end: MessageEnd) -> Result<(), Revoked> {
        self.0.place(at, src, end)
    }

    fn fetch(&self, at: Span, dst: &mut [u8], crc: Option<&mut Crc>) -> Result<(), Revoked> {
        self.0.fetch(at, dst, crc)
    }

    fn fetch_local(
        &self,
        _: Sge,
        _: Pd,
        dst: &mut [u8],
        _: Option<&mut Crc>,
    ) -> Result<(), AccessError> {
        dst.fill(0xEE);
        Err(AccessError::InvalidSTag)
    }

    fn atomic(&self, at: Span, op: AtomicOp) -> Result<u64, AtomicError> {
        self.0.atomic(at, op)
    }

    fn bind(&self, bind: &WindowBind, who: Scope) -> Result<(), BindError> {
        self.0.bind(bind, who)
    }

    fn unbind(&self, window: WindowId, who: Scope) -> Result<(), BindError> {
        self.0.unbind(window, who)
    }

    fn invalidate_remote(&self, stag: STag, who: Scope) -> Result<(), InvalidateError> {
        self.0.invalidate_remote(stag, who)
    }
}

#[derive(Clone, Copy, Debug)]
enum What {
    Send { solicited: bool, invalidate: bool },
    Write,
    Inline,
    Read,
    Immediate,
    Nowhere,
    TwoParts,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    what: What,
    length: u32,
    silent: bool,
    fence: bool,
}

fn request() -> impl Strategy<Value = Request> {
    let send = any::<(bool, bool)>().prop_map(|(solicited, invalidate)| What::Send {
        solicited,
        invalidate,
    });
    let what = prop_oneof![
        8 => send,
        6 => Just(What::Write),
        1 => Just(What::Inline),
        1 => Just(What::Read),
        1 => Just(What::Immediate),
        1 => Just(What::Nowhere),
        1 => Just(What::TwoParts),
    ];
    let length = prop_oneof![
        6 => 1..100u32,
        1 => Just(0u32),
        1 => 100..130u32,
        1 => 1410..1450u32,
        1 => 4090..4100u32,
    ];
    let flags = (any::<bool>(), prop::bool::weighted(0.1));
    (what, length, flags).prop_map(|(what, length, (silent, fence))| Request {
        what,
        length,
        silent,
        fence,
    })
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    crc: bool,
    confirmations: Confirmations,
    marked: bool,
    limit: TxLimit,
    room: (usize, usize),
}

/// All of them.
pub(super) fn confirmations() -> impl Strategy<Value = Confirmations> {
    prop_oneof![
        Just(Confirmations::Off),
        Just(Confirmations::EachWrite),
        any::<bool>().prop_map(|apart| Confirmations::OnDemand { apart }),
    ]
}

fn setting() -> impl Strategy<Value = Setting> {
    let mulpdu = prop_oneof![Just(128u32), Just(1442), Just(64_768)];
    let limit = (mulpdu, 1..9usize, 100..20_000usize).prop_map(|(mulpdu, fpdus, octets)| TxLimit {
        octets,
        fpdus,
        mulpdu,
    });
    let flags = (any::<bool>(), confirmations(), prop::bool::weighted(0.1));
    let room = prop_oneof![Just(256usize), Just(2000), Just(1 << 18)];
    (flags, limit, room, 1..20usize).prop_map(
        |((crc, confirmations, marked), limit, room, parts)| Setting {
            crc,
            confirmations,
            marked,
            limit,
            room: (room, parts),
        },
    )
}

/// The octets that a connection makes of these requests, in one batch after the other, and the events.
fn made(
    mem: &impl Memory,
    backing: &VecMemory,
    source: Sge,
    requests: &[Request],
    setting: Setting,
) -> (Vec<Vec<u8>>, Vec<Event>) {
    let mut conn = Connection::new(SIZES, SCOPE).unwrap();
    conn.start(StreamConfig {
        crc: setting.crc,
        confirmations: setting.confirmations,
        markers: Markers {
            sent: setting.marked,
            received: false,
        },
        ..stream(Role::Initiator)
    });
    let (mut batches, mut events) = (Vec::new(), Vec::new());
    let mut batch = TxBatch::with_capacity(setting.room.0, setting.room.1);
    for (context, request) in (0..).zip(requests) {
        let length = match request.what {
            What::Inline => request.length.min(SIZES.inline),
            _ => request.length,
        };
        let one = [part(source, length % 7, length)];
        let two = [
            part(source, 0, length / 2),
            part(source, 90, length - length / 2),
        ];
        let octets = vec![0x5A; length as usize];
        let pieces = [&octets[..]];
        let operation = match request.what {
            What::Send {
                solicited,
                invalidate,
            } => Operation::Send {
                data: Payload::Sges(&one),
                solicited,
                invalidate: invalidate.then_some(TARGET),
            },
            What::Write => Operation::Write {
                data: Payload::Sges(&one),
                remote: remote(TARGET, context),
            },
            What::Inline => inline(&pieces),
            What::Read => read(&one, 0),
            What::Immediate => Operation::Immediate {
                data: *b"eight oc",
                solicited: false,
            },
            What::Nowhere => sends(Payload::Sges(&[NOWHERE])),
            What::TwoParts => sends(Payload::Sges(&two)),
        };
        let _ = conn.post_initiator(InitiatorWqe {
            context,
            operation,
            silent: request.silent,
            fence: request.fence,
        });
    }
    for _ in 0..200 {
        conn.poll_transmit(mem, setting.limit, &mut batch);
        let mut octets = Vec::new();
        for (piece, _) in batch.pieces() {
            match piece {
                PieceRef::Bytes(bytes) => octets.extend_from_slice(bytes),
                PieceRef::Payload(span) => {
                    let start = octets.len();
                    octets.resize(start + span.len() as usize, 0);
                    backing.fetch(span, &mut octets[start..], None).unwrap();
                }
            }
        }
        if octets.is_empty() {
            break;
        }
        batch.advance(octets.len() as u64);
        conn.handle_transmitted(&mut batch);
        batches.push(octets);
        events.extend(std::iter::from_fn(|| conn.poll_event()));
    }
    events.extend(std::iter::from_fn(|| conn.poll_event()));
    (batches, events)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(500)
    })]

    #[test]
    fn a_row_is_made_as_its_messages_one_by_one(
        requests in prop::collection::vec(request(), 1..16),
        setting in setting(),
    ) {
        let mem = VecMemory::new();
        let source = mem.register(pattern(8192, 3), Rights::ALL, PD);
        let row = made(&mem, &mem, source, &requests, setting);
        let single = made(&OneByOne(&mem), &mem, source, &requests, setting);
        prop_assert_eq!(row, single);
    }
}

/// The counters and the order of completions are those of single messages as well.
#[test]
fn a_row_of_sends_arrives_and_completes_in_order() {
    let mut pair = pair(Knobs::default());
    let before = pair.a.conn.counters().sent.fpdus;
    let source = pair.a.mem.register(pattern(64, 1), Rights::NONE, PD);
    let sinks: Vec<_> = (0..12)
        .map(|context| {
            let sink = pair.b.mem.register(vec![0; 64], Rights::ALL, PD);
            pair.b.conn.post_receive(context, &[sink]).unwrap();
            sink
        })
        .collect();
    for context in 0..12u32 {
        let data = [part(source, context, 50)];
        pair.a
            .post(context.into(), sends(Payload::Sges(&data)))
            .unwrap();
    }
    pair.run();
    let contexts =
        |end: &End| -> Vec<u64> { end.completions().iter().map(|done| done.context).collect() };
    assert_eq!(contexts(&pair.a), Vec::from_iter(0..12));
    assert_eq!(contexts(&pair.b), Vec::from_iter(0..12));
    for (at, sink) in sinks.iter().enumerate() {
        assert_eq!(
            pair.b.mem.bytes(sink.token)[..50],
            pattern(64, 1)[at..at + 50]
        );
    }
    assert_eq!(pair.a.conn.counters().sent.fpdus - before, 12);
    assert_eq!(pair.a.conn.counters().sent.sends, 12);
}
