//! Measures the border, which is the cost of the interfaces for programs in C, compared with the traits, in turns within one run: of NetworkDirect's COM
//! interface (`benches/com/border.c` with `libsoftnd.so`), and of verbs (`benches/verbs/border.c` with `nd run`). It also measures a
//! client of the traits that sleeps outside the provider: its sink signals a condition variable. This client is compared with
//! `Overlapped::wait`.
//!
//! `cargo build --release --workspace && cargo run --release -p softnd-benches --bin border`
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use netdirect::{
    Affinity, Buffer, CompletionQueue, CompletionResult, Event, MemoryRegion, MrFlags, NotifyType,
    OpFlags, Overlapped, OverlappedFile, QueuePair, QueuePairOptions, ReadLimits, RemoteAddress,
    Sge, Started, Status, ext,
};

/// Octets of a message.
const LENGTH: usize = 8;
/// Rounds before the measurement.
const WARM_UP: usize = 200;
/// The most Writes that are outstanding.
const DEPTH: u32 = 128;
/// The most results that are taken at once.
const RESULTS: usize = 16;

/// Writes one after the other, with some of them outstanding.
#[derive(Clone, Copy, Debug)]
struct Writes {
    octets: usize,
    depth: usize,
    /// Writes for a thousand round trips that the program is asked for.
    per_thousand: usize,
}

const SMALL: Writes = Writes {
    octets: 64,
    depth: DEPTH as usize,
    per_thousand: 20_000,
};
const LARGE: Writes = Writes {
    octets: 1 << 20,
    depth: 32,
    per_thousand: 50,
};

/// Measures what the interfaces for programs in C cost compared with the traits.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds of each measurement
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    rounds: usize,

    /// Measurements of each way, in turn
    #[arg(long, value_name = "N", default_value_t = 9)]
    turns: usize,

    /// The folder with nd, libsoftnd.so, libnetdirect.so and the libraries for verbs
    #[arg(long, value_name = "DIR", default_value = "target/release")]
    libraries: PathBuf,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The way in which a client of the traits waits for a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Polled,
    Wait,
    Event,
    Sink,
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("border: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path(), &arguments.libraries)?;
    let in_c = |way: &str, numbers: &[usize]| in_c(&program, &arguments.libraries, way, numbers);
    let verbs = compile_verbs(folder.path())?;
    let rounds = arguments.rounds;
    let mut polled = (Vec::new(), Vec::new());
    let mut by_event = (Vec::new(), Vec::new());
    let mut by_verbs = Vec::new();
    let (mut by_port, mut by_sink, mut by_wait) = (Vec::new(), Vec::new(), Vec::new());
    let mut registered = (Vec::new(), Vec::new());
    let (mut small, mut large) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for turn in 0..arguments.turns {
        eprintln!("turn {} of {}", turn + 1, arguments.turns);
        polled.0.push(round_trips(Way::Polled, rounds)?);
        polled.1.push(in_c("polled", &[rounds])?);
        by_verbs.push(in_verbs(&verbs, &arguments.libraries, rounds)?);
        by_event.0.push(round_trips(Way::Event, rounds)?);
        by_event.1.push(in_c("event", &[rounds])?);
        by_port.push(in_c("port", &[rounds])?);
        by_wait.push(round_trips(Way::Wait, rounds)?);
        by_sink.push(round_trips(Way::Sink, rounds)?);
        registered.0.push(registrations(rounds)?);
        registered.1.push(in_c("register", &[rounds])?);
        for (case, figures) in [(SMALL, &mut small), (LARGE, &mut large)] {
            let count = case.count(rounds);
            figures.0.push(writes(case, count)?);
            let numbers = [count, case.octets, case.depth];
            figures.1.push(in_c("writes", &numbers)?);
        }
    }
    let rows = [
        ("round trip, polled", &polled.0, &polled.1),
        ("round trip, polled, by verbs", &polled.0, &by_verbs),
        (
            "round trip, by event; the traits by Event",
            &by_event.0,
            &by_event.1,
        ),
        (
            "round trip, by port; the traits by Event",
            &by_event.0,
            &by_port,
        ),
        (
            "round trip, by event; the traits by Overlapped::wait",
            &by_wait,
            &by_event.1,
        ),
        ("a Write of 64 octets, 128 outstanding", &small.0, &small.1),
        ("a Write of 1 MiB, 32 outstanding", &large.0, &large.1),
        (
            "Register and Deregister of 4 KiB",
            &registered.0,
            &registered.1,
        ),
        (
            "round trip, by a sink of the traits; by Overlapped::wait",
            &by_wait,
            &by_sink,
        ),
    ];
    let mut table = String::from("| what | the traits | the other | ratio |\n|--|--:|--:|--:|\n");
    for (what, traits, beside) in rows {
        let (traits, beside) = (median(traits), median(beside));
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let ratio = us(beside) / us(traits);
        writeln!(
            table,
            "| {what} | {:.2} µs | {:.2} µs | {ratio:.2} |",
            us(traits),
            us(beside)
        )?;
    }
    // A round trip has two of each, one on either side.
    let above = median(&by_verbs).as_secs_f64() - median(&polled.0).as_secs_f64();
    writeln!(
        table,
        "\nibv_post_send, ibv_post_recv and ibv_poll_cq together take {:.0} ns more than the same through the traits.",
        above / 2.0 * 1e9
    )?;
    print!("{table}");
    Ok(())
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// The program in C, linked with the archive libnetdirect.a.
fn compile(folder: &Path, libraries: &Path) -> Result<PathBuf, Failure> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join("border");
    let status = Command::new("cc")
        .args(["-std=c11", "-O2", "-pthread", "-I"])
        .arg(root.join("../include"))
        .arg(root.join("com/border.c"))
        .arg(libraries.join("libnetdirect.a"))
        .args(["-ldl", "-lm", "-lgcc_s", "-o"])
        .arg(&program)
        .status()?;
    if !status.success() {
        return Err("cc has failed; build libsoftnd and libnetdirect first".into());
    }
    Ok(program)
}

/// The program for verbs, linked with the system's libraries, which `nd run` replaces.
fn compile_verbs(folder: &Path) -> Result<PathBuf, Failure> {
    let program = folder.join("verbs");
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-pthread", "-o"])
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("verbs/border.c"))
        .args(["-libverbs", "-lrdmacm"])
        .status()?;
    if !status.success() {
        return Err("cc has failed; install libibverbs-dev and librdmacm-dev first".into());
    }
    Ok(program)
}

fn in_verbs(program: &Path, libraries: &Path, rounds: usize) -> Result<Duration, Failure> {
    let mut command = Command::new(libraries.join("nd"));
    command.args(["run", "--"]).arg(program);
    measured(command.arg(rounds.to_string()))
}

/// Runs the program in C with the numbers that belong to the way.
fn in_c(
    program: &Path,
    libraries: &Path,
    way: &str,
    numbers: &[usize],
) -> Result<Duration, Failure> {
    let mut command = Command::new(program);
    command
        .arg(libraries.canonicalize()?.join("libsoftnd.so"))
        .arg(way)
        .args(numbers.iter().map(usize::to_string));
    measured(&mut command)
}

/// The figure that a program in C prints, in nanoseconds.
fn measured(command: &mut Command) -> Result<Duration, Failure> {
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("the program in C has failed: {said}").into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(Duration::from_nanos(text.trim().parse()?))
}

/// The median of the round trips of one connection.
fn round_trips(way: Way, rounds: usize) -> Result<Duration, Failure> {
    with_server(way, rounds + WARM_UP, 0, |place| ping(way, rounds, place.0))
}

/// The time for each of `count` Writes of one connection.
fn writes(case: Writes, count: usize) -> Result<Duration, Failure> {
    with_server(Way::Polled, 2, case.octets, |place| {
        write(case, count, place)
    })
}

/// The server's address, and its memory for Writes.
type Place = (SocketAddr, RemoteAddress);

/// Runs `client` with a server that answers `answers` messages and has memory of `octets` octets for Writes.
fn with_server(
    way: Way,
    answers: usize,
    octets: usize,
    client: impl FnOnce(Place) -> Result<Duration, Failure>,
) -> Result<Duration, Failure> {
    let (sender, receiver) = crossbeam_channel::unbounded();
    thread::scope(|scope| {
        let server = scope.spawn(move || serve(way, answers, octets, &sender));
        let measured = match receiver.recv() {
            Ok(place) => client(place),
            Err(_) => Ok(Duration::ZERO), // the server says why
        };
        server.join().map_err(|_| "the server has panicked")??;
        measured
    })
}

impl Writes {
    fn count(self, rounds: usize) -> usize {
        (rounds * self.per_thousand / 1000).max(self.depth)
    }
}

/// One end of a connection.
struct End {
    way: Way,
    file: Arc<dyn OverlappedFile>,
    adapter: Arc<dyn netdirect::Adapter>,
    cq: Arc<dyn CompletionQueue>,
    qp: Arc<dyn QueuePair>,
    incoming: Sge,
    outgoing: Sge,
    _buffer: Buffer,
    _region: Arc<dyn MemoryRegion>,
    overlapped: Overlapped,
    event: Event,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl End {
    fn new(way: Way) -> Result<Self, Failure> {
        let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
        let file = adapter.create_overlapped_file()?;
        let cq = adapter.create_completion_queue(&file, 2 * DEPTH, Affinity::default())?;
        let options = QueuePairOptions::default().initiator_queue_depth(DEPTH);
        let qp = adapter.create_queue_pair(&cq, &cq, options)?;
        let buffer = Buffer::new(2 * LENGTH);
        let region = adapter.create_memory_region(&file)?;
        let registered = Overlapped::new();
        let started = region.register(&buffer, MrFlags::ALLOW_LOCAL_WRITE, &registered);
        ext::wait(started, &registered)?;
        let token = region.get_local_token();
        let event = Event::new();
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let overlapped = match way {
            Way::Polled | Way::Wait => Overlapped::new(),
            Way::Event => Overlapped::with_event(&event),
            Way::Sink => {
                let ended = Arc::clone(&ended);
                Overlapped::with_sink(Arc::new(move |_: Status| {
                    if let Ok(mut has_ended) = ended.0.lock() {
                        *has_ended = true;
                        ended.1.notify_one();
                    }
                }))
            }
        };
        Ok(Self {
            way,
            incoming: Sge::new(&buffer, ..LENGTH, token),
            outgoing: Sge::new(&buffer, LENGTH.., token),
            file,
            adapter,
            cq,
            qp,
            _buffer: buffer,
            _region: region,
            overlapped,
            event,
            ended,
        })
    }

    /// Memory for Writes.
    fn written(
        &self,
        octets: usize,
        flags: MrFlags,
    ) -> netdirect::Result<(Buffer, Arc<dyn MemoryRegion>)> {
        let buffer = Buffer::new(octets);
        let region = self.adapter.create_memory_region(&self.file)?;
        let registered = Overlapped::new();
        ext::wait(region.register(&buffer, flags, &registered), &registered)?;
        Ok((buffer, region))
    }

    /// A Send that the server answers: everything before it is placed then.
    fn exchange(&self) -> netdirect::Result<()> {
        self.receive()?;
        self.send()?;
        self.received()
    }

    fn receive(&self) -> netdirect::Result<()> {
        self.qp.receive(0, &[self.incoming])
    }

    fn send(&self) -> netdirect::Result<()> {
        self.qp.send(0, &[self.outgoing], OpFlags::SILENT_SUCCESS)
    }

    fn received(&self) -> netdirect::Result<()> {
        let mut results = [CompletionResult::default()];
        loop {
            if self.cq.get_results(&mut results) == 1 {
                return results[0].status.ok();
            }
            if self.way == Way::Polled {
                continue;
            }
            let started = self.cq.notify(NotifyType::Any, &self.overlapped)?;
            if started == Started::Pending {
                self.sleep();
            }
        }
    }

    fn sleep(&self) {
        match self.way {
            Way::Polled => {}
            Way::Wait => drop(self.overlapped.wait().ok()),
            Way::Event => drop(self.event.wait()),
            Way::Sink => {
                let Ok(mut ended) = self.ended.0.lock() else {
                    return;
                };
                while !std::mem::take(&mut *ended) {
                    let Ok(woken) = self.ended.1.wait(ended) else {
                        return;
                    };
                    ended = woken;
                }
            }
        }
    }
}

fn serve(
    way: Way,
    answers: usize,
    octets: usize,
    tell: &crossbeam_channel::Sender<Place>,
) -> Result<(), Failure> {
    let end = End::new(way)?;
    let (buffer, region) = end.written(octets.max(1), MrFlags::ALLOW_REMOTE_WRITE)?;
    let memory = RemoteAddress {
        address: buffer.address(),
        token: region.get_remote_token(),
    };
    let listener = end.adapter.create_listener(&end.file)?;
    listener.bind("127.0.0.1:0".parse()?)?;
    listener.listen(1)?;
    end.receive()?;
    tell.send((listener.get_local_address()?, memory))?;
    let connector = end.adapter.create_connector(&end.file)?;
    ext::get_connection_request(&listener, &connector)?;
    ext::accept(&connector, &end.qp, ReadLimits::default(), &[])?;
    for _ in 0..answers {
        end.received()?;
        end.receive()?;
        end.send()?;
    }
    Ok(())
}

fn ping(way: Way, rounds: usize, server: SocketAddr) -> Result<Duration, Failure> {
    let end = End::new(way)?;
    let connector = end.adapter.create_connector(&end.file)?;
    ext::connect(&connector, &end.qp, server, ReadLimits::default(), &[])?;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds + WARM_UP {
        end.receive()?;
        let start = Instant::now();
        end.send()?;
        end.received()?;
        times.push(start.elapsed());
    }
    Ok(median(&times.split_off(WARM_UP)))
}

fn write(case: Writes, count: usize, (server, memory): Place) -> Result<Duration, Failure> {
    let end = End::new(Way::Polled)?;
    let (buffer, region) = end.written(case.octets, MrFlags::ALLOW_LOCAL_WRITE)?;
    let from = [Sge::new(&buffer, .., region.get_local_token())];
    let connector = end.adapter.create_connector(&end.file)?;
    ext::connect(&connector, &end.qp, server, ReadLimits::default(), &[])?;
    end.exchange()?;
    let start = Instant::now();
    let (mut posted, mut done) = (0, 0);
    while done < count {
        while posted < count && posted - done < case.depth {
            end.qp.write(0, &from, memory, OpFlags::empty())?;
            posted += 1;
        }
        let mut results = [CompletionResult::default(); RESULTS];
        let taken = end.cq.get_results(&mut results);
        for result in &results[..taken] {
            result.status.ok()?;
        }
        done += taken;
    }
    end.exchange()?;
    Ok(start.elapsed() / u32::try_from(count)?)
}

fn registrations(rounds: usize) -> Result<Duration, Failure> {
    let end = End::new(Way::Wait)?;
    let region = end.adapter.create_memory_region(&end.file)?;
    let buffer = Buffer::new(4096);
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds + WARM_UP {
        let start = Instant::now();
        let started = region.register(&buffer, MrFlags::ALLOW_LOCAL_WRITE, &end.overlapped);
        ext::wait(started, &end.overlapped)?;
        let started = region.deregister(&end.overlapped);
        ext::wait(started, &end.overlapped)?;
        times.push(start.elapsed());
    }
    Ok(median(&times.split_off(WARM_UP)))
}
