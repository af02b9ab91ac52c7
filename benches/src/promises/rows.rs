//! The rows of the table, by the question that a user has. Each row names the arguments of `nd perf local` that measure it.

use clap::ValueEnum;

use super::judge::Promise;

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// What a user asks. Each question has its own table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Question {
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
    /// How fast within one machine, through shared memory?
    OneMachine,
}

impl Question {
    /// All questions, in the order of their tables.
    pub const ALL: [Self; 8] = [
        Self::Message,
        Self::Through,
        Self::Connections,
        Self::Crc,
        Self::Udp,
        Self::Verbs,
        Self::Memory,
        Self::OneMachine,
    ];

    /// The question in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Message => "How fast is one message?",
            Self::Through => "How much goes through?",
            Self::Connections => "How many connections?",
            Self::Crc => "What does CRC cost?",
            Self::Udp => "What does UDP cost?",
            Self::Verbs => "What does the provider over verbs cost?",
            Self::Memory => "Where to put buffers?",
            Self::OneMachine => "How fast within one machine?",
        }
    }

    /// The name of the part of the page that has the table.
    #[must_use]
    pub const fn part(self) -> &'static str {
        match self {
            Self::Message => "table of messages",
            Self::Through => "table of throughput",
            Self::Connections => "table of connections",
            Self::Crc => "table of CRC",
            Self::Udp => "table of UDP",
            Self::Verbs => "table of verbs",
            Self::Memory => "table of memory",
            Self::OneMachine => "table of one machine",
        }
    }
}

/// Measurements, and all promises about each of them.
#[derive(Clone, Debug)]
pub struct PromisedRow {
    /// The question that it answers.
    pub question: Question,
    /// What is measured, without the size.
    pub title: String,
    /// The arguments of `nd perf local` for it, without those of the baseline and the size.
    pub arguments: String,
    /// Octets of a message: one, or several, of which the worst counts. Connections that come and go have none.
    pub sizes: Vec<u32>,
    /// What it has to keep.
    pub promises: Vec<Promise>,
}

impl PromisedRow {
    /// Returns true if the connections are over UDP.
    #[must_use]
    pub fn is_over_udp(&self) -> bool {
        self.has("--udp")
    }

    /// Returns true if the row watches connections on which nothing happens.
    #[must_use]
    pub fn watches_idle_connections(&self) -> bool {
        self.has("--test scale")
    }

    /// Returns true if both processes have the same core.
    #[must_use]
    pub fn is_on_one_core(&self) -> bool {
        self.has("--one-core")
    }

    /// Returns true if the connections go through shared memory.
    #[must_use]
    pub fn is_within_one_machine(&self) -> bool {
        self.has(SAME_HOST)
    }

    /// Returns true if a promise compares the row with one in which both sides poll.
    #[must_use]
    pub fn is_compared_with_polling(&self) -> bool {
        let mut promises = self.promises.iter();
        promises.any(|promise| matches!(promise, Promise::TimesPolling(_)))
    }

    /// The same row with both sides polling, for a promise that compares a row with it.
    #[must_use]
    pub fn polling(&self) -> Self {
        Self {
            arguments: self.arguments.replace("--mode event", "--mode poll"),
            ..self.clone()
        }
    }

    fn has(&self, arguments: &str) -> bool {
        self.arguments.contains(arguments)
    }
}

/// What is measured, with the arguments of `nd perf local` for it.
#[derive(Clone)]
struct Measurement {
    title: String,
    arguments: String,
    size: u32,
}

impl Measurement {
    /// With a further property, and the arguments for it.
    fn with(mut self, property: &str, arguments: &str) -> Self {
        self.title += property;
        self.arguments += arguments;
        self
    }

    fn of_shared_receives(self) -> Self {
        self.with(", shared Receives", " --receives shared")
    }

    /// On streams where TCP may cut CRC fields.
    fn cut_anywhere(self) -> Self {
        self.with(", segments begin anywhere", " --boundaries any")
    }

    /// In segments as short as those of Ethernet.
    fn in_short_segments(self) -> Self {
        self.with(", segments of 1448 B", " --segment 1448")
    }

    /// In memory that begins here in a page.
    fn at_page_offset(self, offset: u16) -> Self {
        let property = match offset {
            0 => ", page-aligned memory".to_owned(),
            offset => format!(", memory at {offset} of a page"),
        };
        self.with(&property, &format!(" --page-offset {offset}"))
    }

    fn promise(self, question: Question, promise: Promise) -> PromisedRow {
        let sizes = vec![self.size];
        PromisedRow {
            question,
            title: self.title,
            arguments: self.arguments,
            sizes,
            promises: vec![promise],
        }
    }

    /// At every power of two from one size to the other.
    fn promise_at(self, question: Question, sizes: [u32; 2], promise: Promise) -> PromisedRow {
        let [least, most] = sizes;
        let sizes = std::iter::successors(Some(least), |size| Some(size * 2));
        PromisedRow {
            sizes: sizes.take_while(|size| *size <= most).collect(),
            ..self.promise(question, promise)
        }
    }
}

/// The transport of a measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Tcp { crc: bool },
    Udp,
}

const TCP: Over = Over::Tcp { crc: false };

/// One measurement. `depth` is the number of outstanding messages, where more than one is.
fn measurement(op: &str, test: &str, mode: &str, over: Over, size: u32, depth: u32) -> Measurement {
    let name = match op {
        "write" => "RDMA Write",
        "read" => "RDMA Read",
        _ => "Send",
    };
    let (crc, options) = match over {
        Over::Tcp { crc: true } => (", CRC on", "--crc on"),
        Over::Tcp { crc: false } => (", CRC off", "--crc off"),
        Over::Udp => ("", "--udp"),
    };
    let mut measurement = Measurement {
        title: format!("{name} {test}, {mode}{crc}"),
        arguments: format!("--op {op} --test {test} --mode {mode} {options}"),
        size,
    };
    if depth > 1 {
        measurement = measurement.with(&format!(", depth {depth}"), &format!(" --depth {depth}"));
    }
    if over == Over::Udp {
        measurement = measurement.with(", over UDP", "");
    }
    measurement
}

/// Octets one way.
fn flow(op: &str, size: u32, depth: u32, over: Over) -> Measurement {
    measurement(op, "bandwidth", "poll", over, size, depth)
}

/// One message at a time.
fn ping(op: &str, mode: &str, over: Over) -> Measurement {
    measurement(op, "latency", mode, over, 8, 1)
}

/// Small messages without end.
fn rate(over: Over) -> Measurement {
    measurement("send", "rate", "poll", over, 64, 128)
}

/// All rows.
#[must_use]
pub fn rows() -> Vec<PromisedRow> {
    let with_crc = Over::Tcp { crc: true };
    let mut all = messages(Question::Message, TCP);
    all.push(ping("send", "poll", TCP).promise_at(
        Question::Message,
        [8, MIB],
        Promise::Times(1.3, None),
    ));
    all.extend(throughput());
    all.extend(connections(Question::Connections, "off"));
    all.extend(messages(Question::Crc, with_crc));
    all.extend(throughput_with_crc(with_crc));
    all.extend(connections(Question::Crc, "on"));
    all.extend(over_udp());
    all.extend(memory());
    all.extend(within_one_machine());
    all
}

/// The option of `nd perf` by which connections go through shared memory.
const SAME_HOST: &str = "--same-host";

/// Connections through shared memory, compared with the same adapter over TCP.
fn within_one_machine() -> Vec<PromisedRow> {
    let row = |measurement: Measurement, sizes: &[u32], promises: &[Promise]| {
        let measurement = measurement.with(", shared memory", &format!(" {SAME_HOST}"));
        PromisedRow {
            question: Question::OneMachine,
            title: measurement.title,
            arguments: measurement.arguments,
            sizes: sizes.to_vec(),
            promises: promises.to_vec(),
        }
    };
    let small = [Promise::TimesTcp(0.15), SHORTEST];
    let poll = || ping("send", "poll", TCP);
    let both = [64 * KIB, MIB];
    let twice = [Promise::ShareTcp(2.0)];
    let mut all = vec![
        row(poll(), &[8], &small),
        row(ping("write", "poll", TCP), &[8], &small),
        row(poll(), &[64 * KIB], &[Promise::TimesTcp(0.5)]),
        row(poll(), &[MIB], &[Promise::TimesTcp(0.6)]),
        row(flow("write", MIB, 32, TCP), &both, &twice),
        row(flow("send", MIB, 32, TCP), &both, &twice),
        row(flow("read", MIB, 16, TCP), &both, &twice),
        row(rate(TCP), &[64], &twice),
        row(
            ping("send", "event", TCP),
            &[8],
            &[Promise::TimesPolling(3.0)],
        ),
        row(
            ping("send", "event-object", TCP),
            &[8],
            &[Promise::TimesTcp(1.05)],
        ),
    ];
    all.extend(connections(Question::OneMachine, "off").map(|mut row| {
        row.title += ", shared memory";
        row.arguments += &format!(" {SAME_HOST}");
        for promise in &mut row.promises {
            if let Promise::SetUps(_) = promise {
                *promise = Promise::ShareTcp(0.75);
            }
        }
        row
    }));
    all
}

/// Half a round trip in nanoseconds, while a cache line takes no longer than this from core to core.
const SHORTEST: Promise = Promise::HalfRoundTrip {
    most: 500.0,
    line: 70.0,
};

/// Messages of 8 octets. Promises that do not mention CRC hold with and without CRC.
fn messages(question: Question, over: Over) -> Vec<PromisedRow> {
    let event = ping("send", "event", over);
    let poll = ping("send", "poll", over);
    [
        (poll.clone(), Promise::Times(1.15, Some(1.5))),
        (ping("write", "poll", over), Promise::Times(1.15, None)),
        (event.clone(), Promise::Times(1.15, None)),
        (
            event.with(", one core", " --one-core"),
            Promise::Times(1.5, None),
        ),
        (ping("write", "memory", over), Promise::Times(3.0, None)),
        (poll.of_shared_receives(), Promise::OwnReceives(0.95)),
    ]
    .map(|(measurement, promise)| measurement.promise(question, promise))
    .into()
}

fn throughput() -> Vec<PromisedRow> {
    let row = |measurement: Measurement, promise| measurement.promise(Question::Through, promise);
    let at = |measurement: Measurement, sizes, promise| {
        measurement.promise_at(Question::Through, sizes, promise)
    };
    let flow = |op, size, depth| flow(op, size, depth, TCP);
    vec![
        row(flow("write", 64 * KIB, 32), Promise::Share(0.95)),
        row(flow("write", MIB, 32), Promise::Share(0.95)),
        row(flow("read", MIB, 16), Promise::Share(0.90)),
        row(flow("send", 64 * KIB, 32), Promise::Share(0.95)),
        at(flow("write", MIB, 32), [64 * KIB, MIB], Promise::Share(0.9)),
        at(flow("send", MIB, 32), [64 * KIB, MIB], Promise::Share(0.9)),
        at(rate(TCP), [8, 32 * KIB], Promise::Gathered(0.9)),
        row(rate(TCP), Promise::Gathered(RATE)),
        row(rate(TCP).of_shared_receives(), Promise::OwnReceives(0.95)),
        row(
            flow("write", MIB, 32).in_short_segments(),
            Promise::Share(0.65),
        ),
        row(rate(TCP).cut_anywhere(), Promise::Cost(1.1)),
        row(
            flow("write", 64 * KIB, 32).cut_anywhere(),
            Promise::Cost(1.1),
        ),
    ]
}

/// The share of messages of 64 octets that a socket has which sends the same octets gathered alike.
const RATE: f64 = 0.25;

/// The share of set-ups that bare sockets have which connect, make one exchange and close.
const SET_UPS: f64 = 0.5;

fn throughput_with_crc(on: Over) -> [PromisedRow; 7] {
    [
        (flow("write", 64 * KIB, 32, on), Promise::Share(0.75)),
        (flow("write", MIB, 32, on), Promise::Share(0.75)),
        (rate(on), Promise::Gathered(RATE)),
        (rate(on).of_shared_receives(), Promise::OwnReceives(0.95)),
        (
            flow("write", MIB, 32, on).in_short_segments(),
            Promise::Share(0.55),
        ),
        (rate(on).cut_anywhere(), Promise::Cost(1.1)),
        (flow("send", MIB, 32, on).cut_anywhere(), Promise::Cost(1.1)),
    ]
    .map(|(measurement, promise)| measurement.promise(Question::Crc, promise))
}

fn connections(question: Question, crc: &str) -> [PromisedRow; 2] {
    let row = |title: &str, arguments: &str, promises| PromisedRow {
        question,
        title: format!("{title}, CRC {crc}"),
        arguments: format!("{arguments} --crc {crc}"),
        sizes: Vec::new(),
        promises,
    };
    [
        row(
            "10 000 idle connections, Send latency on one, poll",
            "--test scale --connections 10000 --mode poll",
            vec![
                Promise::Memory(16.0 * 1024.0),
                Promise::Idle(0.01),
                Promise::OneOfMany(1.2),
            ],
        ),
        row(
            "connections set up and torn down beside 0 idle ones",
            "--test setup",
            vec![Promise::SetUps(SET_UPS)],
        ),
    ]
}

fn over_udp() -> [PromisedRow; 4] {
    let bulk = |mode| measurement("write", "bandwidth", mode, Over::Udp, MIB, 32);
    [
        (bulk("poll"), Promise::Share(0.9)),
        (bulk("event"), Promise::Share(0.9)),
        (ping("send", "poll", Over::Udp), Promise::Times(1.25, None)),
        (ping("send", "event", Over::Udp), Promise::Times(1.25, None)),
    ]
    .map(|(measurement, promise)| measurement.promise(Question::Udp, promise))
}

/// Rows for memory that begins where a page begins, or where allocators put it.
fn memory() -> Vec<PromisedRow> {
    let mut all = Vec::new();
    for offset in [0, 16] {
        for measurement in [ping("send", "poll", TCP), flow("write", MIB, 32, TCP)] {
            let measurement = measurement.at_page_offset(offset);
            let sizes = [64 * KIB, MIB];
            all.push(measurement.promise_at(
                Question::Memory,
                sizes,
                Promise::BestPlace(1.0 / 1.5),
            ));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promise_fits_what_is_measured() {
        for row in rows() {
            let has = |words: &str| row.arguments.contains(words);
            assert!(!row.promises.is_empty());
            for promise in &row.promises {
                let fits = match promise {
                    Promise::Times(..) => has("--test latency"),
                    Promise::Share(_) => has("--test bandwidth"),
                    Promise::Gathered(_) => has("--test rate"),
                    Promise::OwnReceives(_) => has("--receives shared"),
                    Promise::BestPlace(_) => has("--page-offset"),
                    Promise::Cost(_) => has("--boundaries any"),
                    Promise::Memory(_) | Promise::Idle(_) | Promise::OneOfMany(_) => {
                        has("--test scale --connections 10000")
                    }
                    Promise::SetUps(_) => has("--test setup"),
                    Promise::TimesTcp(_) => has("--test latency") && has(SAME_HOST),
                    Promise::HalfRoundTrip { .. } => has("--test latency --mode poll"),
                    Promise::TimesPolling(_) => has("--test latency --mode event "),
                    Promise::ShareTcp(_) => !has("--test latency") && has(SAME_HOST),
                };
                assert!(fits, "{row:?} {promise:?}");
            }
        }
    }

    #[test]
    fn every_question_has_rows() {
        let rows = rows();
        // Those about verbs are measured by another command.
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
        let message = ping("send", "poll", TCP);
        let row = message.promise_at(Question::Message, [8, 64], Promise::Share(1.0));
        assert_eq!(row.sizes, [8, 16, 32, 64]);
    }

    #[test]
    fn titles_name_all_that_the_arguments_choose() {
        let rows = rows();
        for (title, arguments) in [
            (
                "RDMA Write bandwidth, poll, CRC off, depth 32, segments of 1448 B",
                "--op write --test bandwidth --mode poll --crc off --depth 32 --segment 1448",
            ),
            (
                "Send latency, event, over UDP",
                "--op send --test latency --mode event --udp",
            ),
            (
                "RDMA Read bandwidth, poll, CRC off, depth 16, shared memory",
                "--op read --test bandwidth --mode poll --crc off --depth 16 --same-host",
            ),
            (
                "Send rate, poll, CRC on, depth 128, shared Receives",
                "--op send --test rate --mode poll --crc on --depth 128 --receives shared",
            ),
        ] {
            let row = rows.iter().find(|row| row.title == title).expect(title);
            assert_eq!(row.arguments, arguments);
        }
    }
}
