//! Requests that succeed when the peer has placed the Writes before them, and Writes that ask for nothing by themselves.

use super::*;
use crate::Recognition;
use Confirmations::OnDemand;
use WqeStatus::{Flushed, LocalAccess, RemoteAccess, Success};

/// `a` confirms on demand, with `limit` Reads each way. `b` serves one more if they are apart. `b` has 64 KiB at 0x1000.
fn on_demand(limit: u32, apart: bool) -> Pair {
    let limits = ReadLimits {
        ird: limit,
        ord: limit,
    };
    let a = StreamConfig {
        limits,
        confirmations: OnDemand { apart },
        ..stream(Role::Initiator)
    };
    let b = StreamConfig {
        limits: ReadLimits {
            ird: limit + u32::from(apart),
            ..limits
        },
        ..stream(Role::Responder)
    };
    let mut pair = Pair::with(a, b, Knobs::default());
    pair.a.conn.send_ready();
    pair.run();
    let memory = vec![0; 1 << 16];
    pair.b
        .mem
        .register_as(TARGET, 0x1000, memory, Rights::ALL, PD);
    pair
}

fn write<'a>(data: &'a [&'a [u8]], at: u64) -> Operation<Payload<'a>> {
    Operation::Write {
        data: Payload::Inline(data),
        remote: remote(TARGET, at),
    }
}

fn hello() -> Operation<Payload<'static>> {
    write(&[b"hello"], 0x1000)
}

fn silent(context: u64, operation: Operation<Payload<'_>>) -> InitiatorWqe<'_> {
    InitiatorWqe {
        silent: true,
        ..wqe(context, operation)
    }
}

/// The kinds of the messages that `a` sends next, which arrive at `b`. `b` does not answer yet.
fn sent(pair: &mut Pair) -> Vec<u8> {
    let knobs = pair.knobs;
    let octets = pair.a.transmit(&knobs);
    pair.a.collect();
    pair.b.receive(&octets);
    let ulpdus = frames(&octets, true);
    let last = ulpdus.iter().filter(|ulpdu| ulpdu[0] & 0x40 != 0);
    last.map(|ulpdu| ulpdu[1] & 0x0f).collect()
}

/// What `b` has to answer arrives at `a`.
fn answer(pair: &mut Pair) {
    let knobs = pair.knobs;
    let octets = pair.b.transmit(&knobs);
    pair.a.receive(&octets);
}

fn contexts(end: &End) -> Vec<u64> {
    let done = end.completions().into_iter();
    done.map(|done| done.context).collect()
}

const WRITE: u8 = 0;
const READ: u8 = 1;
const SEND: u8 = 3;
const IMMEDIATE: u8 = 8;

/// Whatever its kind, a request that is not silent waits for the silent Write before it.
#[test]
fn a_request_waits_until_the_writes_before_it_are_placed() {
    let window = |pair: &Pair| pair.a.mem.window(PD);
    for kind in ["Send", "Write", "empty Write", "with data", "data", "bind"] {
        let mut pair = on_demand(4, true);
        for context in 0..3 {
            pair.b.conn.post_receive(context, &[]).unwrap();
        }
        pair.a.conn.post_initiator(silent(1, hello())).unwrap();
        assert_eq!(sent(&mut pair), [WRITE], "it asks for nothing");
        let memory = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
        let (operation, mut messages) = match kind {
            "Send" => (inline(&[]), vec![SEND]),
            "Write" => (hello(), vec![WRITE]),
            "empty Write" => (write(&[], 0), vec![WRITE]),
            "with data" => {
                let operation = Operation::WriteImmediate {
                    data: Payload::Inline(&[b"hello"]),
                    remote: remote(TARGET, 0x1000),
                    immediate: [7; 8],
                    solicited: false,
                };
                (operation, vec![WRITE, IMMEDIATE])
            }
            "data" => {
                let operation = Operation::Immediate {
                    data: [7; 8],
                    solicited: false,
                };
                (operation, vec![IMMEDIATE])
            }
            _ => {
                let bind = pair.a.mem.prepare(window(&pair), memory, true, true);
                (Operation::Bind(bind), vec![])
            }
        };
        pair.a.post(2, operation).unwrap();
        messages.push(READ);
        assert_eq!(sent(&mut pair), messages, "{kind}");
        assert_eq!(pair.a.completions(), [], "{kind} is not done");
        pair.run();
        assert_eq!(outcomes(&pair.a), [Success], "{kind}");
        assert_eq!(&pair.b.mem.bytes(TARGET)[..5], b"hello");
        assert!(pair.a.conn.is_idle());
    }
}

/// With all Writes placed, a Send is done when it is sent.
#[test]
fn a_send_waits_for_no_write_that_is_placed() {
    let mut pair = on_demand(4, true);
    for context in 0..3 {
        pair.b.conn.post_receive(context, &[]).unwrap();
    }
    pair.a.post(1, inline(&[])).unwrap();
    assert_eq!(sent(&mut pair), [SEND]);
    assert_eq!(outcomes(&pair.a), [Success]);
    pair.a.post(2, hello()).unwrap();
    pair.run();
    pair.a.post(3, inline(&[])).unwrap();
    assert_eq!(sent(&mut pair), [SEND]);
    assert_eq!(outcomes(&pair.a), [Success; 3]);
}

/// A Write of no octets alone is a Write: a program posts it to learn that everything before it is placed.
#[test]
fn an_empty_write_is_confirmed() {
    let mut pair = on_demand(4, true);
    pair.a.post(1, write(&[], 0)).unwrap();
    assert_eq!(sent(&mut pair), [WRITE, READ]);
    assert_eq!(pair.a.completions(), []);
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success]);
}

#[test]
fn silent_writes_ask_for_nothing_and_keep_no_slot() {
    let mut pair = on_demand(4, true);
    for context in 0..40 {
        pair.a
            .conn
            .post_initiator(silent(context, hello()))
            .unwrap();
        assert_eq!(sent(&mut pair), [WRITE]);
    }
    assert_eq!(pair.a.completions(), []);
    assert!(pair.a.conn.is_idle());
}

/// One confirmation is under way at a time, and covers all that was sent before it. The queue of 16 goes on meanwhile.
#[test]
fn one_confirmation_at_a_time_covers_all_before_it() {
    let mut pair = on_demand(4, true);
    for context in 0..16 {
        pair.a.post(context, hello()).unwrap();
    }
    // A quarter of the queue is confirmed first, so that the program can go on.
    let mut expected = vec![WRITE; 4];
    expected.push(READ);
    expected.resize(17, WRITE);
    assert_eq!(sent(&mut pair), expected);
    assert!(!pair.a.conn.wants_transmit());
    answer(&mut pair);
    assert_eq!(contexts(&pair.a), (0..4).collect::<Vec<_>>());
    // The next one is sent at once, however few requests it covers.
    pair.a.post(16, hello()).unwrap();
    assert_eq!(sent(&mut pair), [READ, WRITE]);
    pair.a.post(17, hello()).unwrap();
    assert_eq!(sent(&mut pair), [WRITE]);
    answer(&mut pair);
    assert_eq!(contexts(&pair.a), (0..16).collect::<Vec<_>>());
    assert_eq!(sent(&mut pair), [READ]);
    answer(&mut pair);
    assert_eq!(contexts(&pair.a), (0..18).collect::<Vec<_>>());
    assert!(pair.a.conn.is_idle() && !pair.a.conn.wants_transmit());
    assert_eq!(pair.b.fault(), None);
}

/// A Read or an Atomic of the client confirms what is before it.
#[test]
fn a_read_of_the_client_confirms() {
    let mut pair = on_demand(1, true);
    let sink = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
    pair.a.post(1, write(&[b"hello wo"], 0x1000)).unwrap();
    pair.a.post(2, read(&[sink], 0x1000)).unwrap();
    assert_eq!(sent(&mut pair), [WRITE, READ]);
    assert_eq!(pair.a.completions(), []);
    // What comes behind it needs a confirmation, which is apart.
    pair.a.post(3, hello()).unwrap();
    assert_eq!(sent(&mut pair), [WRITE, READ]);
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success; 3]);
    assert_eq!(pair.a.mem.bytes(sink.token), b"hello wo");
}

/// Apart, a confirmation takes no Read of the client, and the client's Reads leave one for it.
#[test]
fn a_confirmation_apart_takes_no_read_of_the_client() {
    for limit in [0, 1, 2] {
        let mut pair = on_demand(limit, true);
        let sink = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
        pair.a.post(1, hello()).unwrap();
        let mut expected = vec![WRITE, READ];
        assert_eq!(sent(&mut pair), expected, "limit {limit}");
        for context in 0..u64::from(limit) {
            pair.a.post(2 + context, read(&[sink], 0x1000)).unwrap();
            expected = vec![READ];
            assert_eq!(sent(&mut pair), expected, "limit {limit}");
        }
        pair.run();
        let all = 1 + usize::try_from(limit).unwrap();
        assert_eq!(outcomes(&pair.a), vec![Success; all]);
        assert_eq!(pair.b.fault(), None, "RDMAP-049");
    }
}

/// Not apart, a confirmation is one of the Reads that were agreed on.
#[test]
fn a_confirmation_waits_for_a_free_read() {
    let mut pair = on_demand(1, false);
    let sink = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
    pair.a.post(1, read(&[sink], 0x1000)).unwrap();
    pair.a.post(2, hello()).unwrap();
    assert_eq!(sent(&mut pair), [READ, WRITE]);
    pair.a.post(3, hello()).unwrap();
    assert_eq!(sent(&mut pair), [WRITE], "a row goes on");
    answer(&mut pair);
    assert_eq!(contexts(&pair.a), [1]);
    assert_eq!(sent(&mut pair), [READ]);
    pair.a.post(4, read(&[sink], 0x1000)).unwrap();
    assert_eq!(sent(&mut pair), [] as [u8; 0], "the Read is taken");
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success; 4]);
    assert_eq!(pair.b.fault(), None, "RDMAP-049");
}

/// The Reads of a client that may have none outstanding leave one for confirmations, where these count.
#[test]
fn a_limit_leaves_a_read_to_confirmations() {
    let mut pair = on_demand(4, false);
    pair.a.conn.limit_reads(0);
    pair.a.post(1, hello()).unwrap();
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success]);
    assert_eq!(pair.a.conn.read_limits().ord, 1);
    let mut pair = on_demand(4, true);
    pair.a.conn.limit_reads(0);
    pair.a.post(1, hello()).unwrap();
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success]);
    assert_eq!(pair.a.conn.read_limits().ord, 0);
}

/// Towards a peer that serves no Reads nothing is confirmed, until it is known to serve one more.
#[test]
fn a_peer_that_serves_no_reads_confirms_nothing() {
    let mut pair = on_demand(0, false);
    pair.a.post(1, hello()).unwrap();
    assert_eq!(sent(&mut pair), [WRITE]);
    assert_eq!(outcomes(&pair.a), [Success]);
    let mut pair = on_demand(0, true);
    let mut unknown = StreamConfig {
        limits: NO_READS,
        confirmations: OnDemand { apart: false },
        ..stream(Role::Initiator)
    };
    unknown.ready = None;
    pair.a = End::new(SIZES);
    pair.a.conn.start(unknown);
    pair.a.conn.confirm_apart();
    pair.a.post(1, hello()).unwrap();
    assert_eq!(sent(&mut pair), [WRITE, READ]);
    assert_eq!(pair.a.completions(), []);
}

/// With an open confirmation that counted, the limit holds until it is answered; later ones are apart.
#[test]
fn a_peer_that_is_recognised_late() {
    let mut pair = on_demand(1, true);
    pair.a = End::new(SIZES);
    pair.a.conn.start(StreamConfig {
        limits: ReadLimits { ird: 1, ord: 1 },
        confirmations: OnDemand { apart: false },
        ..stream(Role::Initiator)
    });
    let sink = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
    pair.a.post(1, hello()).unwrap();
    pair.a.post(2, read(&[sink], 0x1000)).unwrap();
    // The Read confirms the Write.
    assert_eq!(sent(&mut pair), [WRITE, READ]);
    pair.a.post(3, hello()).unwrap();
    assert_eq!(sent(&mut pair), [WRITE]);
    pair.a.conn.confirm_apart();
    assert_eq!(sent(&mut pair), [READ]);
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success; 3]);
    assert_eq!(pair.b.fault(), None, "RDMAP-049");
}

/// Two sides that recognize each other by their first FPDUs serve one Read more, and know it.
#[test]
fn a_recognized_peer_confirms_apart() {
    for recognizes in [true, false] {
        let limits = ReadLimits { ird: 1, ord: 1 };
        let recognition = match recognizes {
            true => Recognition::ByWrites,
            false => Recognition::Never,
        };
        let a = StreamConfig {
            limits,
            confirmations: OnDemand { apart: false },
            recognition: Recognition::ByWrites,
            ..stream(Role::Initiator)
        };
        let b = StreamConfig {
            limits: ReadLimits { ird: 2, ..limits },
            recognition,
            ..stream(Role::Responder)
        };
        let mut pair = Pair::with(a, b, Knobs::default());
        pair.a.conn.send_ready();
        pair.run();
        pair.b
            .mem
            .register_as(TARGET, 0x1000, vec![0; 8], Rights::ALL, PD);
        let sink = pair.a.mem.register(vec![0; 8], Rights::ALL, PD);
        pair.a.post(1, read(&[sink], 0x1000)).unwrap();
        pair.a.post(2, hello()).unwrap();
        let expected: &[u8] = match recognizes {
            true => &[READ, WRITE, READ],
            false => &[READ, WRITE],
        };
        assert_eq!(sent(&mut pair), expected);
        pair.run();
        assert_eq!(outcomes(&pair.a), [Success; 2]);
        assert_eq!(pair.b.fault(), None, "RDMAP-049");
    }
}

/// The peer refuses a silent Write, which was done when it was sent: the oldest request that waits says so.
#[test]
fn a_refused_silent_write_fails_the_request_that_waits() {
    for own in [inline(&[]), hello()] {
        let mut pair = on_demand(4, true);
        pair.b.conn.post_receive(1, &[]).unwrap();
        let beyond = write(&[b"hello"], 0);
        pair.a.conn.post_initiator(silent(1, beyond)).unwrap();
        pair.a.post(2, own).unwrap();
        pair.a.post(3, inline(&[])).unwrap();
        pair.run();
        assert_eq!(contexts(&pair.a), [2, 3]);
        assert_eq!(outcomes(&pair.a), [RemoteAccess, Flushed]);
    }
}

/// A Write that the peer refuses fails itself. Those before it were placed.
#[test]
fn a_refused_write_says_so_itself() {
    let mut pair = on_demand(4, true);
    pair.b.conn.post_receive(1, &[]).unwrap();
    pair.a.post(1, hello()).unwrap();
    pair.a.post(2, write(&[b"hello"], 0)).unwrap();
    pair.a.post(3, inline(&[])).unwrap();
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success, RemoteAccess, Flushed]);
}

/// QP-003: a request that cannot be started fails when all before it have ended, for a Write by its confirmation.
#[test]
fn a_failing_request_waits_for_the_confirmation() {
    let mut pair = on_demand(1, true);
    pair.a.post(1, hello()).unwrap();
    pair.a
        .post(2, sends(Payload::Sges(&[super::NOWHERE])))
        .unwrap();
    assert_eq!(sent(&mut pair), [WRITE, READ]);
    assert_eq!(pair.a.completions(), []);
    pair.run();
    assert_eq!(outcomes(&pair.a), [Success, LocalAccess]);
}

#[cfg(planted_bugs)]
#[test]
fn planted_bugs_are_found() {
    use crate::planted::{Bug, is_found_by};
    assert!(is_found_by(
        Bug::DoneBeforePlaced,
        a_request_waits_until_the_writes_before_it_are_placed
    ));
}
