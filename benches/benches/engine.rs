//! The engine at both ends of a stream, over registered memory, without a wire: nanoseconds per message and per FPDU.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use iwarp::{RemoteAddress, Sge};
use iwarp_mem::{Registration, Rights, Table};
use netdirect::Buffer;
use softnd_benches::link::{Link, PD, Places};
use softnd_benches::{crc, octets};

/// The TCP segment sizes of the loopback interface and of Ethernet.
const SEGMENTS: [u32; 2] = [65_483, 1448];

/// Messages of a round: gathered, as softnd does.
#[derive(Clone, Copy)]
enum Message {
    Send(u32),
    Write(u32),
}

impl Message {
    fn length(self) -> u32 {
        match self {
            Self::Send(length) | Self::Write(length) => length,
        }
    }

    fn name(self) -> String {
        let name = match self {
            Self::Send(_) => "Send",
            Self::Write(_) => "Write",
        };
        format!("{name} {}", octets(self.length() as usize))
    }

    /// Messages in a round.
    fn count(self) -> u32 {
        if self.length() < 4096 { 32 } else { 1 }
    }
}

/// A link over registered memory. The registrations live as long as the link.
struct Bench {
    link: Link<Table>,
    _regions: [Registration; 2],
}

/// One round: time at the two ends, and FPDUs.
struct Round {
    elapsed: Duration,
    fpdus: usize,
}

impl Bench {
    fn new(message: Message, crc: bool, segment: u32) -> Self {
        let table = Table::new();
        let len = message.length();
        let register = || {
            let buffer = Buffer::new(len as usize);
            table
                .register(&buffer, Rights::all(), PD)
                .expect("an empty table")
        };
        let (here, there) = (register(), register());
        let sge = |region: &Registration| Sge {
            token: region.stag(),
            address: region.base(),
            length: len,
        };
        let places = Places {
            source: sge(&here),
            inbox: sge(&there),
            target: RemoteAddress {
                stag: there.stag(),
                to: there.base(),
            },
        };
        Self {
            link: Link::new(table, places, crc, segment),
            _regions: [here, there],
        }
    }

    fn round(&mut self, message: Message) -> Round {
        let link = &mut self.link;
        let begun = Instant::now();
        for _ in 0..message.count() {
            match message {
                Message::Send(_) => {
                    link.post_receive();
                    link.post_send();
                }
                Message::Write(_) => link.post_write(),
            }
        }
        let mut round = Round {
            elapsed: begun.elapsed(),
            fpdus: 0,
        };
        loop {
            let begun = Instant::now();
            let made = link.transmit();
            round.elapsed += begun.elapsed();
            if made == 0 {
                return round;
            }
            round.fpdus += made;
            link.carry();
            let begun = Instant::now();
            link.settle();
            link.receive();
            round.elapsed += begun.elapsed();
        }
    }
}

/// The time for `iterations` of a round's `parts`, measured over as many whole rounds as necessary.
fn time(
    bench: &mut Bench,
    message: Message,
    iterations: u64,
    parts: fn(Message, &Round) -> u64,
) -> Duration {
    let (mut done, mut elapsed) = (0, Duration::ZERO);
    while done < iterations {
        let round = bench.round(message);
        done += parts(message, &round);
        elapsed += round.elapsed;
    }
    elapsed.mul_f64(iterations as f64 / done as f64)
}

fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    for message in [Message::Send(64), Message::Write(64 << 10)] {
        for segment in SEGMENTS {
            for sum in [false, true] {
                let name = format!(
                    "{}, {}, segments of {}",
                    message.name(),
                    crc(sum),
                    octets(segment as usize)
                );
                let mut bench = Bench::new(message, sum, segment);
                group.throughput(Throughput::BytesDecimal(message.length().into()));
                group.bench_function(format!("{name}, per message"), |b| {
                    b.iter_custom(|iterations| {
                        time(&mut bench, message, iterations, |message, _| {
                            message.count().into()
                        })
                    });
                });
                // If a message is one FPDU, one of the two figures is enough.
                if matches!(message, Message::Write(_)) {
                    group.throughput(Throughput::Elements(1));
                    group.bench_function(format!("{name}, per FPDU"), |b| {
                        b.iter_custom(|iterations| {
                            time(&mut bench, message, iterations, |_, round| {
                                round.fpdus as u64
                            })
                        });
                    });
                }
            }
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = softnd_benches::timing!();
    targets = engine
}
criterion_main!(benches);
