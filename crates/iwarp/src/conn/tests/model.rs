//! Random operations on a pair, compared with a simple model of memory; and random ends, compared with a record of all
//! requests. Whatever happens, every request comes back exactly once and in order.

use proptest::prelude::*;

use super::rows::confirmations;
use super::*;
use crate::AtomicOp;
use crate::rdmap::Opcode;
use crate::testing::marked_frames;

/// One thing that happens to one side, or to the transport.
#[derive(Clone, Debug)]
enum Action {
    Post {
        by_a: bool,
        what: What,
        len: u16,
        cut: u16,
        silent: bool,
        fence: bool,
    },
    Receives {
        by_a: bool,
        count: u8,
    },
    /// The transport works for a few turns.
    Turns {
        write: u16,
        read: u16,
        count: u8,
    },
    /// Only FPDUs are made, nothing is sent.
    Make {
        by_a: bool,
        fpdus: u8,
    },
    Trouble {
        to_a: bool,
        what: Trouble,
    },
}

#[derive(Clone, Copy, Debug)]
enum What {
    Send,
    Inline,
    Write,
    WriteImmediate,
    Read,
    Immediate,
    Atomic,
    Bind,
    Invalidate,
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Disconnect,
    Flush,
    Fin,
    Reset,
    Deregister(u8),
    Garbage(u8),
    Time,
}

fn what() -> impl Strategy<Value = What> {
    use What::{Atomic, Bind, Immediate, Inline, Invalidate, Read, Send, Write, WriteImmediate};
    prop_oneof![
        4 => Just(Send),
        2 => Just(Inline),
        4 => Just(Write),
        1 => Just(WriteImmediate),
        4 => Just(Read),
        1 => Just(Immediate),
        2 => Just(Atomic),
        1 => Just(Bind),
        1 => Just(Invalidate),
    ]
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        Just(Trouble::Disconnect),
        Just(Trouble::Flush),
        Just(Trouble::Fin),
        Just(Trouble::Reset),
        (0u8..4).prop_map(Trouble::Deregister),
        any::<u8>().prop_map(Trouble::Garbage),
        Just(Trouble::Time),
    ]
}

fn post() -> impl Strategy<Value = Action> {
    let len = prop_oneof![Just(0u16), 1..50u16, 50..700u16, 4000..9000u16];
    (
        any::<bool>(),
        what(),
        len,
        any::<u16>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(by_a, what, len, cut, silent, fence)| Action::Post {
            by_a,
            what,
            len,
            cut,
            silent,
            fence,
        })
}

fn calm() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => post(),
        2 => (any::<bool>(), 0..4u8).prop_map(|(by_a, count)| Action::Receives { by_a, count }),
        4 => (1..9000u16, 1..9000u16, 1..5u8)
            .prop_map(|(write, read, count)| Action::Turns { write, read, count }),
        1 => (any::<bool>(), 0..5u8).prop_map(|(by_a, fpdus)| Action::Make { by_a, fpdus }),
    ]
}

/// Configurations that differ where the paths do.
#[derive(Clone, Copy, Debug)]
struct Setting {
    crc: bool,
    /// In what `a` sends, in what `b` sends.
    markers: [bool; 2],
    private: bool,
    /// Of `a`, of `b`.
    confirmations: [Confirmations; 2],
    mulpdu: u32,
    limits: ReadLimits,
    ready: Option<Ready>,
}

fn setting() -> impl Strategy<Value = Setting> {
    let mulpdu = prop_oneof![Just(128u32), Just(1442), Just(5000), Just(64_768)];
    let ready = prop_oneof![
        Just(None),
        Just(Some(Ready::Write)),
        Just(Some(Ready::Read))
    ];
    let confirms = [confirmations(), confirmations()];
    let flags = (any::<bool>(), any::<bool>(), confirms);
    let markers = prop_oneof![2 => Just([false; 2]), 1 => any::<[bool; 2]>()];
    (flags, markers, mulpdu, 1..5u32, ready).prop_map(
        |((crc, private, confirmations), markers, mulpdu, limit, ready)| Setting {
            crc,
            markers,
            private,
            confirmations,
            mulpdu,
            limits: ReadLimits {
                ird: limit,
                ord: limit,
            },
            ready,
        },
    )
}

/// The limits of a side whose peer may send a Read more than was agreed on, if it confirms so.
fn served(limits: ReadLimits, of_peer: Confirmations) -> ReadLimits {
    let apart = of_peer == Confirmations::OnDemand { apart: true };
    ReadLimits {
        ird: limits.ird + u32::from(apart),
        ..limits
    }
}

const DEPTH: u64 = 16;
const ROOM: usize = 10_000;

/// The requests that one side has posted, and the results that it expects.
#[derive(Default)]
struct Books {
    /// Contexts posted to the initiator queue; silent ones apart.
    loud: Vec<u64>,
    posted: u64,
    receives: u64,
    inboxes: Vec<Sge>,
    /// Messages sent, in order.
    sent: Vec<(Vec<u8>, Option<[u8; 8]>)>,
    /// A word at the peer that only this side's Atomics change, and what it has to hold after those posted.
    word: Option<Sge>,
    total: u64,
    /// Where data has to end up: at this side (true) or at the peer.
    expected: Vec<(bool, STag, Vec<u8>)>,
    /// Writes: their context, their place at the peer and what it has to hold.
    writes: Vec<(u64, STag, Vec<u8>)>,
    /// Writes that were found in the peer's memory, because a later request waits for those before it.
    found: usize,
    /// The places in `writes` of those with Immediate Data.
    with_data: Vec<usize>,
    /// Completions that were looked at.
    seen: usize,
    window: Option<crate::WindowId>,
    bound: bool,
}

struct Run {
    setting: Setting,
    pair: Pair,
    /// Of `a`, of `b`.
    books: [Books; 2],
}

impl Run {
    fn new(setting: Setting) -> Self {
        let a = StreamConfig {
            role: Role::Initiator,
            crc: setting.crc,
            markers: Markers {
                sent: setting.markers[0],
                received: setting.markers[1],
            },
            limits: served(setting.limits, setting.confirmations[1]),
            ready: setting.ready,
            recognition: crate::Recognition::Never,
            receive_wait: Duration::from_secs(3600),
            copied: if setting.private {
                CopiedPayload::All
            } else {
                CopiedPayload::AtSlowPlaces
            },
            copied_below: 4096,
            confirmations: setting.confirmations[0],
            early: 40,
        };
        let mut knobs = Knobs::default();
        knobs.limit.mulpdu = setting.mulpdu;
        let mut pair = Pair::with(
            a,
            StreamConfig {
                role: Role::Responder,
                markers: Markers {
                    sent: setting.markers[1],
                    received: setting.markers[0],
                },
                limits: served(setting.limits, setting.confirmations[0]),
                confirmations: setting.confirmations[1],
                ..a
            },
            knobs,
        );
        pair.a.conn.send_ready();
        Self {
            setting,
            pair,
            books: Default::default(),
        }
    }

    /// AMB-002: a Write that ended well on a side that confirms them is in the peer's memory by now. On demand, all Writes are that were
    /// posted before a request that ended well, whatever its kind.
    fn check_confirmed(&mut self) -> Result<(), TestCaseError> {
        for a in [true, false] {
            let confirmations = self.setting.confirmations[usize::from(!a)];
            let (end, peer, books) = self.side(a);
            let done = end.completions();
            let new = done[books.seen..].iter().filter(|done| {
                done.kind != RequestKind::Receive && done.status == WqeStatus::Success
            });
            for done in new {
                let placed = match confirmations {
                    Confirmations::OnDemand { .. } => {
                        let before = |write: &(u64, _, _)| write.0 <= done.context;
                        books.found..books.writes.partition_point(before)
                    }
                    Confirmations::EachWrite
                        if done.kind == RequestKind::Write && done.octets > 0 =>
                    {
                        let at = |write: &(u64, _, _)| write.0 == done.context;
                        let at = books.writes.iter().position(at);
                        // A Write with Immediate Data is none that is confirmed.
                        at.filter(|at| !books.with_data.contains(at))
                            .map_or(0..0, |at| at..at + 1)
                    }
                    Confirmations::EachWrite | Confirmations::Off => 0..0,
                };
                books.found = books.found.max(placed.end);
                for (context, place, data) in &books.writes[placed] {
                    let (octets, by) = (peer.mem.bytes(*place), done.context);
                    prop_assert_eq!(&octets, data, "Write {} at the end of {}", context, by);
                }
            }
            books.seen = done.len();
        }
        Ok(())
    }

    /// The side, its peer, and its books.
    fn side(&mut self, a: bool) -> (&mut End, &mut End, &mut Books) {
        let [of_a, of_b] = &mut self.books;
        if a {
            (&mut self.pair.a, &mut self.pair.b, of_a)
        } else {
            (&mut self.pair.b, &mut self.pair.a, of_b)
        }
    }

    fn act(&mut self, action: &Action) -> Result<(), TestCaseError> {
        match *action {
            Action::Post {
                by_a,
                what,
                len,
                cut,
                silent,
                fence,
            } => {
                let (end, peer, books) = self.side(by_a);
                books.post(end, peer, what, (len.into(), cut.into()), (silent, fence));
            }
            Action::Receives { by_a, count } => {
                let (end, _, books) = self.side(by_a);
                for _ in 0..count {
                    books.receive(end);
                }
            }
            Action::Turns { write, read, count } => {
                let before = self.pair.knobs;
                self.pair.knobs = Knobs {
                    write: write.into(),
                    read: read.into(),
                    ..before
                };
                for _ in 0..count {
                    self.pair.step();
                    self.check_confirmed()?;
                }
                self.pair.knobs = before;
            }
            Action::Make { by_a, fpdus } => {
                let limit = self.pair.knobs.limit;
                let (end, ..) = self.side(by_a);
                let limit = TxLimit {
                    fpdus: fpdus.into(),
                    ..limit
                };
                end.conn.poll_transmit(&end.mem, limit, &mut end.batch);
            }
            Action::Trouble { to_a, what } => self.trouble(to_a, what),
        }
        self.check_confirmed()
    }

    fn trouble(&mut self, to_a: bool, what: Trouble) {
        if let Trouble::Time = what {
            return self.pair.advance(Duration::from_secs(3600));
        }
        let (end, peer, books) = self.side(to_a);
        match what {
            Trouble::Disconnect => end.disconnect(),
            Trouble::Flush => end.conn.flush(),
            Trouble::Fin => end
                .conn
                .handle_stream_end(StreamEnd::Fin, end.staging.len()),
            Trouble::Reset => {
                for end in [end, peer] {
                    end.conn.handle_stream_end(StreamEnd::Reset, 0);
                }
            }
            Trouble::Deregister(which) => {
                if let Some(sge) = books.inboxes.get(usize::from(which)) {
                    end.mem.deregister(sge.token);
                }
                if let Some((here, token, _)) = books.expected.get(usize::from(which)) {
                    let end = if *here { end } else { peer };
                    end.mem.deregister(*token);
                }
            }
            Trouble::Garbage(octet) => {
                end.staging.push(octet);
                end.receive(&[octet; 40]);
            }
            Trouble::Time => {}
        }
        self.pair.a.collect();
        self.pair.b.collect();
    }

    /// Everything comes to rest, with as many Receives as Sends.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.run()?;
        for _ in 0..200 {
            if !self.pair.a.conn.is_stalled() && !self.pair.b.conn.is_stalled() {
                break;
            }
            for a in [true, false] {
                let (end, _, books) = self.side(a);
                if end.conn.is_stalled() {
                    books.receive(end);
                }
            }
            self.run()?;
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), TestCaseError> {
        while self.pair.step() {
            self.check_confirmed()?;
        }
        Ok(())
    }
}

impl Books {
    fn receive(&mut self, end: &mut End) {
        let inbox = end.mem.register(vec![0; ROOM], Rights::ALL, PD);
        let front = Sge {
            length: 77,
            ..inbox
        };
        let rest = Sge {
            address: inbox.address + 77,
            length: inbox.length - 77,
            ..inbox
        };
        if end.conn.post_receive(self.receives, &[front, rest]).is_ok() {
            self.receives += 1;
            self.inboxes.push(inbox);
        }
    }

    fn post(
        &mut self,
        end: &mut End,
        peer: &End,
        what: What,
        (len, cut): (usize, usize),
        (silent, fence): (bool, bool),
    ) {
        let context = self.posted;
        let data = pattern(len, context.to_be_bytes()[7]);
        let cut = if len == 0 { 0 } else { cut % len };
        let source = end.mem.register(data.clone(), Rights::ALL, PD);
        let window = *self.window.get_or_insert_with(|| end.mem.window(PD));
        let request = Request {
            context,
            silent,
            fence,
        };
        let done = match what {
            What::Send | What::Inline | What::Immediate => {
                self.post_message(end, what, request, (source, data, cut))
            }
            What::Write | What::WriteImmediate | What::Read | What::Atomic => {
                self.post_one_sided(end, peer, what, request, (source, data, cut))
            }
            // The window goes from bound to unbound and back, so that nothing is refused.
            What::Bind | What::Invalidate => {
                let operation = if self.bound {
                    Operation::Invalidate(window)
                } else {
                    Operation::Bind(end.mem.prepare(window, source, true, true))
                };
                let done = request.post(end, operation);
                self.bound ^= done;
                done
            }
        };
        if done {
            self.posted += 1;
            if !silent {
                self.loud.push(context);
            }
        }
    }

    /// Posts a message that takes a Receive of the peer; false if it could not be posted.
    fn post_message(
        &mut self,
        end: &mut End,
        what: What,
        request: Request,
        (source, data, cut): (Sge, Vec<u8>, usize),
    ) -> bool {
        let (done, arrives) = match what {
            What::Inline => {
                let data = &data[..data.len().min(64)];
                let (front, back) = data.split_at(cut.min(data.len()));
                let done = request.post(end, inline(&[front, back]));
                (done, (data.to_vec(), None))
            }
            What::Immediate => {
                let octets = request.context.to_be_bytes();
                let operation = Operation::Immediate {
                    data: octets,
                    solicited: data.len() % 2 == 1,
                };
                (request.post(end, operation), (Vec::new(), Some(octets)))
            }
            _ => {
                let done = request.post(end, sends(Payload::Sges(&halves(source, cut))));
                (done, (data, None))
            }
        };
        if done {
            self.sent.push(arrives);
        }
        done
    }

    /// Posts a request that names memory of the peer; false if it could not be posted.
    fn post_one_sided(
        &mut self,
        end: &mut End,
        peer: &End,
        what: What,
        request: Request,
        (source, data, cut): (Sge, Vec<u8>, usize),
    ) -> bool {
        let len = data.len();
        let at = |sge: Sge| remote(sge.token, sge.address);
        let (done, changes) = match what {
            What::Read => {
                let there = peer.mem.register(data.clone(), Rights::ALL, PD);
                let sink = end.mem.register(vec![0; len], Rights::ALL, PD);
                let operation = Operation::Read {
                    sink: Payload::Sges(&halves(sink, cut)),
                    remote: at(there),
                };
                (request.post(end, operation), (true, sink.token, data))
            }
            What::Atomic => {
                let make = || peer.mem.register(vec![0; 8], Rights::ALL, PD);
                let word = *self.word.get_or_insert_with(make);
                let sink = end.mem.register(vec![0xff; 8], Rights::ALL, PD);
                let op = match len % 2 {
                    0 => AtomicOp::add(len as u64 + 1),
                    _ => AtomicOp::compare_swap(self.total, len as u64),
                };
                let remote = at(word);
                let operation = Operation::Atomic {
                    op,
                    sink: Payload::Sges(&[sink]),
                    remote,
                };
                let done = request.post(end, operation);
                let before = self.total.to_ne_bytes().to_vec();
                if done {
                    self.total = op.apply(self.total);
                }
                (done, (true, sink.token, before))
            }
            _ => {
                let target = peer.mem.register(vec![0; len], Rights::ALL, PD);
                let (data_of, remote) = (halves(source, cut), at(target));
                let immediate = request.context.to_be_bytes();
                let operation = match what {
                    What::WriteImmediate => Operation::WriteImmediate {
                        data: Payload::Sges(&data_of),
                        remote,
                        immediate,
                        solicited: false,
                    },
                    _ => Operation::Write {
                        data: Payload::Sges(&data_of),
                        remote,
                    },
                };
                let done = request.post(end, operation);
                if done {
                    if let What::WriteImmediate = what {
                        self.with_data.push(self.writes.len());
                        self.sent.push((Vec::new(), Some(immediate)));
                    }
                    let write = (request.context, target.token, data.clone());
                    self.writes.push(write);
                }
                (done, (false, target.token, data))
            }
        };
        if done {
            self.expected.push(changes);
        }
        done
    }
}

/// The parts of every request besides its operation.
#[derive(Clone, Copy)]
struct Request {
    context: u64,
    silent: bool,
    fence: bool,
}

impl Request {
    /// False when there is no room.
    fn post(self, end: &mut End, operation: Operation<Payload<'_>>) -> bool {
        let wqe = InitiatorWqe {
            context: self.context,
            operation,
            silent: self.silent,
            fence: self.fence,
        };
        end.conn.post_initiator(wqe).is_ok()
    }
}

fn halves(sge: Sge, cut: usize) -> [Sge; 2] {
    let cut = u32::try_from(cut).unwrap();
    [part(sge, 0, cut), part(sge, cut, sge.length - cut)]
}

type Results = Vec<(u64, WqeStatus)>;

/// Contexts of one side's completions, initiator requests and Receives apart, with their statuses.
fn results(end: &End) -> (Results, Results) {
    let (receives, others): (Vec<_>, Vec<_>) = end
        .completions()
        .into_iter()
        .partition(|done| done.kind == RequestKind::Receive);
    let list = |list: Vec<Completion>| {
        list.iter()
            .map(|done| (done.context, done.status))
            .collect()
    };
    (list(others), list(receives))
}

/// The octets sent are whole messages of good FPDUs; nothing follows a Terminate; messages of one side are not interleaved.
fn check_stream(sent: &[u8], crc: bool, markers: bool, whole: bool) -> Result<(), TestCaseError> {
    let mut open: Option<Opcode> = None;
    let mut over = false;
    let ulpdus = if markers {
        marked_frames(sent, crc, 0)
    } else {
        frames(sent, crc)
    };
    for ulpdu in ulpdus {
        prop_assert!(!over, "RDMAP-071");
        let opcode = Opcode::parse(ulpdu[1]).expect("one of ours");
        over = opcode == Opcode::Terminate;
        if let Some(open) = open.filter(|_| !over) {
            prop_assert_eq!(opcode, open);
        }
        open = (ulpdu[0] & 0x40 == 0).then_some(opcode);
    }
    prop_assert!(!whole || open.is_none());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// CQ-042, RDMAP-094, RDMAP-098: everything succeeds, in order, and lands where it should.
    #[test]
    fn a_pair_moves_data_like_a_plain_vector(
        setting in setting(),
        actions in prop::collection::vec(calm(), 1..60),
    ) {
        let mut run = Run::new(setting);
        for action in &actions {
            run.act(action)?;
        }
        run.settle()?;
        for a in [true, false] {
            let (end, peer, books) = run.side(a);
            prop_assert_eq!(end.fault(), None);
            prop_assert!(end.conn.is_idle() && !end.conn.wants_transmit());
            let success: Vec<_> = books.loud.iter().map(|at| (*at, WqeStatus::Success)).collect();
            prop_assert_eq!(results(end).0, success);
            for (here, token, data) in &books.expected {
                let mem = if *here { &end.mem } else { &peer.mem };
                prop_assert_eq!(&mem.bytes(*token), data);
            }
            if let Some(word) = books.word {
                prop_assert_eq!(peer.mem.bytes(word.token), books.total.to_ne_bytes());
            }
            check_stream(&end.sent, setting.crc, setting.markers[usize::from(!a)], true)?;
        }
        for a in [true, false] {
            let sent = core::mem::take(&mut run.side(!a).2.sent);
            let (end, _, books) = run.side(a);
            let (_, receives) = results(end);
            let expected: Vec<_> =
                (0..sent.len() as u64).map(|at| (at, WqeStatus::Success)).collect();
            prop_assert_eq!(receives, expected);
            for ((message, _), inbox) in sent.iter().zip(&books.inboxes) {
                prop_assert_eq!(&end.mem.bytes(inbox.token)[..message.len()], &message[..]);
            }
            let done = end.completions().into_iter();
            let received: Vec<_> = done
                .filter(|done| done.kind == RequestKind::Receive)
                .map(|done| done.immediate)
                .collect();
            let sent = sent.iter().map(|message| message.1);
            let sent: Vec<_> = sent.map(|data| data.map(crate::ReceivedImmediate::Alone)).collect();
            prop_assert_eq!(received, sent);
        }
    }

    /// QP-003, QP-005, RDMAP-114: whatever ends the stream, every request comes back exactly once and in order, a silent
    /// one at most once, and the connection comes to rest.
    #[test]
    fn every_request_comes_back_once_whatever_happens(
        setting in setting(),
        before in prop::collection::vec(calm(), 1..30),
        trouble in prop::collection::vec(
            (any::<bool>(), trouble()).prop_map(|(to_a, what)| Action::Trouble { to_a, what }), 1..3),
        after in prop::collection::vec(calm(), 0..10),
    ) {
        let mut run = Run::new(setting);
        for action in before.iter().chain(&trouble).chain(&after) {
            run.act(action)?;
        }
        run.settle()?;
        for a in [true, false] {
            run.side(a).0.disconnect();
        }
        run.settle()?;
        for a in [true, false] {
            let (end, _, books) = run.side(a);
            let (requests, receives) = results(end);
            let contexts: Vec<u64> = requests.iter().map(|done| done.0).collect();
            prop_assert!(contexts.is_sorted_by(|one, next| one < next), "{:?}", contexts);
            let loud: Vec<u64> =
                contexts.iter().copied().filter(|at| books.loud.contains(at)).collect();
            prop_assert_eq!(loud, &books.loud[..]);
            prop_assert!(contexts.iter().all(|at| *at < books.posted));
            let quiet = requests.iter().filter(|(at, _)| !books.loud.contains(at));
            let successes = quiet.filter(|(_, status)| *status == WqeStatus::Success);
            prop_assert_eq!(successes.count(), 0);
            prop_assert_eq!(
                receives.iter().map(|done| done.0).collect::<Vec<_>>(),
                (0..books.receives).collect::<Vec<_>>()
            );
            // QP-003: at most one request of each queue says why.
            for list in [&requests, &receives] {
                let own = list.iter().filter(|(_, status)| {
                    !matches!(status, WqeStatus::Success | WqeStatus::Flushed)
                });
                prop_assert!(own.count() <= 1);
            }
            prop_assert!(!end.conn.wants_transmit() || !end.batch.is_empty());
            prop_assert!(end.conn.write_side_done());
            check_stream(&end.sent, setting.crc, setting.markers[usize::from(!a)], false)?;
        }
    }

    /// MPA-071, SEC-032, RDMAP-114: arbitrary octets, and arbitrary ULPDUs in good FPDUs, never panic, and what is found
    /// wrong is final.
    #[test]
    fn arbitrary_input_is_survived(
        ulpdus in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..6),
        control in prop::collection::vec((any::<bool>(), 0u8..16, any::<bool>()), 6),
        tail in prop::collection::vec(any::<u8>(), 0..64),
        responder in any::<bool>(),
    ) {
        let mut raw = if responder { Raw::responder() } else { Raw::initiator() }.with_buffers();
        raw.post_receive(1, 16);
        let sink = Sge { token: SINK, address: 0, length: 40 };
        raw.end.post(2, Operation::Read { sink: Payload::Sges(&[sink]), remote: remote(TARGET, 0) }).unwrap();
        raw.transmit();
        for (ulpdu, (tagged, opcode, last)) in ulpdus.iter().zip(&control) {
            let mut ulpdu = ulpdu.clone();
            if let [first, second, ..] = &mut ulpdu[..] {
                *first = 1 | u8::from(*tagged) << 7 | u8::from(*last) << 6;
                *second = 0x40 | opcode;
            }
            raw.ulpdu(&ulpdu);
            raw.transmit();
        }
        raw.receive(&tail);
        raw.transmit();
        prop_assert!(raw.end.conn.counters().sent.terminates <= 1);
        raw.end.disconnect();
        raw.transmit();
        prop_assert_eq!(raw.end.completions().len(), 2);
        prop_assert!(raw.end.conn.write_side_done());
    }
}

#[test]
fn the_model_posts_what_the_queues_can_take() {
    assert_eq!(u64::from(SIZES.initiator_depth), DEPTH);
}
