//! The rows of the table, by the question that a user has.

use clap::ValueEnum;

use super::judge::Promise;
use crate::perf::spec::{Boundaries, Mode, Op, Placement, Receives, Spec, Test, Transport};

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// What a user asks. Each question has its own table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Question {
    /// How fast is one message?
    Message,
    /// How much goes through?
    Through,
    /// How many connections?
    Connections,
    /// What does CRC cost?
    Crc,
    /// What does UDP cost?
    Udp,
    /// What does the provider over verbs cost?
    Verbs,
    /// Where to put buffers?
    Memory,
}

impl Question {
    pub(super) const ALL: [Self; 7] = [
        Self::Message,
        Self::Through,
        Self::Connections,
        Self::Crc,
        Self::Udp,
        Self::Verbs,
        Self::Memory,
    ];

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Message => "How fast is one message?",
            Self::Through => "How much goes through?",
            Self::Connections => "How many connections?",
            Self::Crc => "What does CRC cost?",
            Self::Udp => "What does UDP cost?",
            Self::Verbs => "What does the provider over verbs cost?",
            Self::Memory => "Where to put buffers?",
        }
    }

    /// The name of the part of the page that has the table.
    pub(super) const fn part(self) -> &'static str {
        match self {
            Self::Message => "table of messages",
            Self::Through => "table of throughput",
            Self::Connections => "table of connections",
            Self::Crc => "table of CRC",
            Self::Udp => "table of UDP",
            Self::Verbs => "table of verbs",
            Self::Memory => "table of memory",
        }
    }
}

/// Measurements, and all promises about each of them.
#[derive(Clone, Debug)]
pub(super) struct PromisedRow {
    pub(super) question: Question,
    /// One, or several that differ in their size alone. Of several, the worst counts.
    pub(super) specs: Vec<Spec>,
    pub(super) promises: Vec<Promise>,
}

impl PromisedRow {
    fn new(question: Question, spec: Spec, promise: Promise) -> Self {
        Self {
            question,
            specs: vec![spec],
            promises: vec![promise],
        }
    }

    /// At every power of two from one size to the other.
    fn at_every_size(question: Question, spec: Spec, sizes: [u32; 2], promise: Promise) -> Self {
        let [least, most] = sizes;
        let sizes = std::iter::successors(Some(least), |size| Some(size * 2));
        let specs = sizes.take_while(|size| *size <= most);
        Self {
            question,
            specs: specs.map(|size| Spec { size, ..spec }).collect(),
            promises: vec![promise],
        }
    }
}

/// Octets one way, over TCP.
fn flow(op: Op, size: u32, depth: u32, crc: bool) -> Spec {
    Spec {
        op,
        test: Test::Bandwidth,
        size,
        depth,
        mode: Mode::Poll,
        crc,
        segment: None,
        boundaries: Boundaries::OutsideCrcs,
        placement: Placement::Apart,
        transport: Transport::Tcp,
        connections: 0,
        receives: Receives::Own,
        page_offset: None,
    }
}

/// One message at a time, over TCP.
fn ping(op: Op, mode: Mode, crc: bool) -> Spec {
    Spec {
        test: Test::Latency,
        mode,
        ..flow(op, 8, 1, crc)
    }
}

/// Small messages without end, over TCP.
fn rate(crc: bool) -> Spec {
    Spec {
        test: Test::Rate,
        ..flow(Op::Send, 64, 128, crc)
    }
}

fn shared(spec: Spec) -> Spec {
    Spec {
        receives: Receives::Shared,
        ..spec
    }
}

pub(super) fn rows() -> Vec<PromisedRow> {
    let mut all = messages(Question::Message, false);
    all.push(PromisedRow::at_every_size(
        Question::Message,
        ping(Op::Send, Mode::Poll, false),
        [8, MIB],
        Promise::Times(1.3, None),
    ));
    all.extend(throughput());
    all.extend(connections(false));
    all.extend(messages(Question::Crc, true));
    all.extend(with_crc());
    all.extend(connections(true).map(|row| PromisedRow {
        question: Question::Crc,
        ..row
    }));
    all.extend(over_udp());
    all.extend(memory());
    all
}

/// Messages of 8 octets. Promises that do not mention CRC hold with and without CRC.
fn messages(question: Question, crc: bool) -> Vec<PromisedRow> {
    let event = ping(Op::Send, Mode::Event, crc);
    let one_core = Spec {
        placement: Placement::Together,
        ..event
    };
    let poll = ping(Op::Send, Mode::Poll, crc);
    [
        (poll, Promise::Times(1.15, Some(1.5))),
        (ping(Op::Write, Mode::Poll, crc), Promise::Times(1.15, None)),
        (event, Promise::Times(1.15, None)),
        (one_core, Promise::Times(1.5, None)),
        (
            ping(Op::Write, Mode::Memory, crc),
            Promise::Times(3.0, None),
        ),
        (shared(poll), Promise::Plain(0.95)),
    ]
    .map(|(spec, promise)| PromisedRow::new(question, spec, promise))
    .into()
}

/// This row on streams where TCP may cut CRC fields.
fn cut_anywhere(spec: Spec) -> Spec {
    Spec {
        boundaries: Boundaries::Any,
        ..spec
    }
}

fn throughput() -> Vec<PromisedRow> {
    let cut = Spec {
        segment: Some(1448),
        ..flow(Op::Write, MIB, 32, false)
    };
    let row = |spec, promise| PromisedRow::new(Question::Through, spec, promise);
    let long = |spec| {
        let sizes = [64 * KIB, MIB];
        PromisedRow::at_every_size(Question::Through, spec, sizes, Promise::Share(0.9))
    };
    let short = |spec, sizes| {
        PromisedRow::at_every_size(Question::Through, spec, sizes, Promise::Gathered(0.9))
    };
    vec![
        row(flow(Op::Write, 64 * KIB, 32, false), Promise::Share(0.95)),
        row(flow(Op::Write, MIB, 32, false), Promise::Share(0.95)),
        row(flow(Op::Read, MIB, 16, false), Promise::Share(0.90)),
        row(flow(Op::Send, 64 * KIB, 32, false), Promise::Share(0.95)),
        long(flow(Op::Write, MIB, 32, false)),
        long(flow(Op::Send, MIB, 32, false)),
        short(rate(false), [8, 32 * KIB]),
        row(rate(false), Promise::Gathered(RATE)),
        row(shared(rate(false)), Promise::Plain(0.95)),
        row(cut, Promise::Share(0.65)),
        row(cut_anywhere(rate(false)), Promise::Cost(1.1)),
        row(
            cut_anywhere(flow(Op::Write, 64 * KIB, 32, false)),
            Promise::Cost(1.1),
        ),
    ]
}

/// The share of messages of 64 octets that a socket has which sends the same octets gathered alike.
const RATE: f64 = 0.25;

/// The share of set-ups that bare sockets have which connect, make one exchange and close.
const SET_UPS: f64 = 0.5;

fn with_crc() -> Vec<PromisedRow> {
    let cut = Spec {
        segment: Some(1448),
        ..flow(Op::Write, MIB, 32, true)
    };
    [
        (flow(Op::Write, 64 * KIB, 32, true), Promise::Share(0.75)),
        (flow(Op::Write, MIB, 32, true), Promise::Share(0.75)),
        (rate(true), Promise::Gathered(RATE)),
        (shared(rate(true)), Promise::Plain(0.95)),
        (cut, Promise::Share(0.55)),
        (cut_anywhere(rate(true)), Promise::Cost(1.1)),
        (
            cut_anywhere(flow(Op::Send, MIB, 32, true)),
            Promise::Cost(1.1),
        ),
    ]
    .map(|(spec, promise)| PromisedRow::new(Question::Crc, spec, promise))
    .into()
}

fn connections(crc: bool) -> [PromisedRow; 2] {
    let ping = ping(Op::Send, Mode::Poll, crc);
    let scale = Spec {
        test: Test::Scale,
        connections: 10_000,
        ..ping
    };
    let setup = Spec {
        test: Test::Setup,
        mode: Mode::Event,
        ..ping
    };
    let of_idle = PromisedRow {
        question: Question::Connections,
        specs: vec![scale],
        promises: vec![
            Promise::Memory(16.0 * 1024.0),
            Promise::Idle(0.01),
            Promise::OneOfMany(1.2),
        ],
    };
    let set_ups = PromisedRow::new(Question::Connections, setup, Promise::SetUps(SET_UPS));
    [of_idle, set_ups]
}

fn over_udp() -> Vec<PromisedRow> {
    let udp = |spec| Spec {
        transport: Transport::Udp,
        crc: false,
        ..spec
    };
    let bulk = udp(flow(Op::Write, MIB, 32, false));
    let event = |spec| Spec {
        mode: Mode::Event,
        ..spec
    };
    let message = udp(ping(Op::Send, Mode::Poll, false));
    [
        (bulk, Promise::Share(0.9)),
        (event(bulk), Promise::Share(0.9)),
        (message, Promise::Times(1.25, None)),
        (event(message), Promise::Times(1.25, None)),
    ]
    .map(|(spec, promise)| PromisedRow::new(Question::Udp, spec, promise))
    .into()
}

/// Rows for memory that begins where a page begins, or where allocators put it.
fn memory() -> Vec<PromisedRow> {
    let mut all = Vec::new();
    for offset in [0, 16] {
        for spec in [
            ping(Op::Send, Mode::Poll, false),
            flow(Op::Write, MIB, 32, false),
        ] {
            let spec = Spec {
                page_offset: Some(offset),
                ..spec
            };
            let sizes = [64 * KIB, MIB];
            let promise = Promise::Plain(1.0 / 1.5);
            all.push(PromisedRow::at_every_size(
                Question::Memory,
                spec,
                sizes,
                promise,
            ));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promise_can_be_measured() {
        for row in rows() {
            assert!(!row.specs.is_empty() && !row.promises.is_empty());
            for spec in &row.specs {
                assert!(spec.check().is_ok(), "{spec:?}");
                for promise in &row.promises {
                    let fits = match promise {
                        Promise::Times(..) => spec.test == Test::Latency,
                        Promise::Share(_) => spec.test == Test::Bandwidth,
                        Promise::Gathered(_) => spec.test == Test::Rate,
                        Promise::Plain(_) | Promise::Cost(_) => spec.plain() != *spec,
                        Promise::Memory(_) | Promise::Idle(_) | Promise::OneOfMany(_) => {
                            spec.test == Test::Scale && spec.connections == 10_000
                        }
                        Promise::SetUps(_) => spec.test == Test::Setup,
                    };
                    assert!(fits, "{spec:?} {promise:?}");
                }
            }
        }
    }

    #[test]
    fn every_question_has_rows() {
        let rows = rows();
        // Those about verbs are measured by other programs.
        let questions = Question::ALL.into_iter();
        for question in questions.filter(|question| *question != Question::Verbs) {
            assert!(
                rows.iter().any(|row| row.question == question),
                "{question:?}"
            );
        }
    }

    #[test]
    fn every_size_is_every_power_of_two() {
        let spec = ping(Op::Send, Mode::Poll, false);
        let promise = Promise::Share(1.0);
        let row = PromisedRow::at_every_size(Question::Message, spec, [8, 64], promise);
        let sizes: Vec<_> = row.specs.iter().map(|spec| spec.size).collect();
        assert_eq!(sizes, [8, 16, 32, 64]);
    }
}
