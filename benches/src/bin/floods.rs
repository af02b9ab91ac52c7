//! Measures the echo of an honest client on one connection while another connection is flooded with short FPDUs.
//!
//! `cargo run --release -p softnd-benches --bin floods`. Three processes on one host: a server, the flood, and the honest client,
//! which measures.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, CompletionResult, Connector, Listener,
    MemoryRegion, MrFlags, NotifyType, OpFlags, Overlapped, OverlappedFile, QueuePair,
    QueuePairOptions, ReadLimits, RequestType, Sge, Status, ext,
};
use softnd::Options;

/// Measures the echo of an honest client while another connection of the same server is flooded.
#[derive(Debug, Parser)]
struct Arguments {
    /// Seconds of each part
    #[arg(long, value_name = "S", default_value_t = 5)]
    seconds: u64,

    /// The role of this process; the first process starts the others
    #[arg(long, hide = true, value_enum, default_value_t = Role::Client)]
    role: Role,

    /// Kind of the flood
    #[arg(long, hide = true, value_enum, default_value_t = Flood::Nothing)]
    flood: Flood,

    /// Where the server listens
    #[arg(long, hide = true)]
    server: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    Client,
    Server,
    Flood,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Flood {
    Nothing,
    LongWrites,
    EmptyWrites,
    ShortWrites,
    EmptySends,
}

impl Flood {
    const ALL: [(Self, &str, &str); 5] = [
        (Self::Nothing, "nothing", "nothing"),
        (Self::LongWrites, "long-writes", "Writes of 32 KiB"),
        (Self::EmptyWrites, "empty-writes", "Writes of no octets"),
        (Self::ShortWrites, "short-writes", "Writes of one octet"),
        (Self::EmptySends, "empty-sends", "Sends of no octets"),
    ];
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match (arguments.role, arguments.server) {
        (Role::Server, _) => serve(),
        (Role::Flood, Some(server)) => flood(arguments.flood, server),
        _ => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("floods: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Octets of the region that the flood writes to.
const ROOM: usize = 32 * 1024;

/// Receives of the flooded connection.
const DEPTH: u32 = 256;

const LIMITS: ReadLimits = ReadLimits {
    inbound: 1,
    outbound: 1,
};

/// The objects of one process.
struct Side {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    cq: Arc<dyn CompletionQueue>,
    buffer: Buffer,
    region: Arc<dyn MemoryRegion>,
}

impl Side {
    fn new() -> netdirect::Result<Self> {
        let adapter = softnd::open("127.0.0.1", Options::default())?;
        let file = adapter.create_overlapped_file()?;
        let cq = adapter.create_completion_queue(&file, 4 * DEPTH, Affinity::default())?;
        let region = adapter.create_memory_region(&file)?;
        let buffer = Buffer::new(ROOM);
        let flags = MrFlags::ALLOW_LOCAL_WRITE | MrFlags::ALLOW_REMOTE_WRITE;
        let registered = Overlapped::new();
        ext::wait(region.register(&buffer, flags, &registered), &registered)?;
        Ok(Self {
            adapter,
            file,
            cq,
            buffer,
            region,
        })
    }

    fn queue_pair(&self, context: u64) -> netdirect::Result<Arc<dyn QueuePair>> {
        let options = QueuePairOptions::default()
            .context(context)
            .receive_queue_depth(DEPTH)
            .initiator_queue_depth(DEPTH);
        self.adapter.create_queue_pair(&self.cq, &self.cq, options)
    }

    fn sge(&self) -> Sge {
        Sge::new(&self.buffer, ..8, self.region.get_local_token())
    }

    /// Sleeps until there are results, and takes them.
    fn wait(&self, into: &mut [CompletionResult]) -> netdirect::Result<usize> {
        loop {
            let taken = self.cq.get_results(into);
            if taken > 0 {
                return Ok(taken);
            }
            let some = Overlapped::new();
            ext::wait(self.cq.notify(NotifyType::Any, &some), &some)?;
        }
    }
}

/// A connection that the server has accepted.
type Accepted = (Arc<dyn QueuePair>, Arc<dyn Connector>);

/// The private data of the acceptance has the place of the region.
fn accept(side: &Side, listener: &Arc<dyn Listener>, context: u64) -> netdirect::Result<Accepted> {
    let qp = side.queue_pair(context)?;
    let connector = side.adapter.create_connector(&side.file)?;
    ext::get_connection_request(listener, &connector)?;
    let mut place = side.region.get_remote_token().0.to_be_bytes().to_vec();
    place.extend(side.buffer.address().to_be_bytes());
    for _ in 0..DEPTH {
        qp.receive(context, &[side.sge()])?;
    }
    ext::accept(&connector, &qp, LIMITS, &place)?;
    Ok((qp, connector))
}

/// Accepts the honest client and then one flood after the other. Sends back what the honest client sends.
fn serve() -> Result<(), Failure> {
    let side = Side::new()?;
    let listener = side.adapter.create_listener(&side.file)?;
    listener.bind("127.0.0.1:0".parse()?)?;
    listener.listen(0)?;
    println!("{}", listener.get_local_address()?);
    std::thread::spawn(|| {
        // The end of the input is the end of the measurement.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let honest = accept(&side, &listener, 0)?;
    let flooded = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for context in 1.. {
                match accept(&side, &listener, context) {
                    Ok(connection) => lock(&flooded).push(connection),
                    Err(error) => return eprintln!("floods: server: {error}"),
                }
            }
        });
        echo(&side, &honest, &flooded)
    })?;
    Ok(())
}

fn lock(flooded: &Mutex<Vec<Accepted>>) -> MutexGuard<'_, Vec<Accepted>> {
    flooded.lock().unwrap_or_else(PoisonError::into_inner)
}

fn echo(side: &Side, honest: &Accepted, flooded: &Mutex<Vec<Accepted>>) -> netdirect::Result<()> {
    let mut results = [CompletionResult::default(); 64];
    loop {
        let taken = side.wait(&mut results)?;
        for result in &results[..taken] {
            // A flood that has ended takes its Receives with it.
            if result.status != Status::SUCCESS || result.request_type != RequestType::Receive {
                continue;
            }
            match result.request_context {
                0 => {
                    honest.0.receive(0, &[side.sge()])?;
                    honest.0.send(0, &[side.sge()], OpFlags::empty())?;
                }
                context => {
                    let flooded = lock(flooded);
                    let connection = usize::try_from(context).map(|at| flooded.get(at - 1));
                    if let Ok(Some((qp, _))) = connection {
                        qp.receive(context, &[side.sge()])?;
                    }
                }
            }
        }
    }
}

/// Connects without softnd, and sends FPDUs as fast as they are taken, until it is ended.
fn flood(flood: Flood, server: SocketAddr) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(b"MPA ID Req Frame\x40\x01\0\0")?;
    let mut reply = [0; 32];
    stream.read_exact(&mut reply)?;
    if !reply.starts_with(b"MPA ID Rep Frame\x40\x01\0\x0c") {
        return Err("the server has not accepted the flood".into());
    }
    let place = &reply[20..];
    let write = |octets: usize| fpdu(&[&[0xc1, 0x40], place, &vec![7; octets]].concat());
    let mut frames = match flood {
        Flood::Nothing => return Ok(()),
        Flood::LongWrites => write(ROOM).repeat(8),
        Flood::EmptyWrites => write(0).repeat(4096),
        Flood::ShortWrites => write(1).repeat(4096),
        Flood::EmptySends => Vec::new(),
    };
    println!("flows");
    let mut number = 0_u32;
    loop {
        if flood == Flood::EmptySends {
            frames.clear();
            for _ in 0..4096 {
                number = number.wrapping_add(1);
                let head = [0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0];
                frames.extend(fpdu(&[&head[..], &number.to_be_bytes(), &[0; 4]].concat()));
            }
        }
        stream.write_all(&frames)?;
    }
}

/// An FPDU with CRC (RFC 5044 section 4.1).
fn fpdu(ulpdu: &[u8]) -> Vec<u8> {
    let mut fpdu = u16::try_from(ulpdu.len())
        .unwrap_or(0)
        .to_be_bytes()
        .to_vec();
    fpdu.extend(ulpdu);
    fpdu.resize(fpdu.len().next_multiple_of(4), 0);
    let crc = iwarp::mpa::crc32c(&fpdu);
    fpdu.extend(crc.to_be_bytes());
    fpdu
}

/// A process of this program.
struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn start(arguments: &[&str]) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let command = command.args(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, lines })
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        if line.is_empty() {
            return Err("a process ended before it was told to".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(arguments: &Arguments) -> Result<(), Failure> {
    let mut server = Process::start(&["--role", "server"])?;
    let address = server.line()?;
    let side = Side::new()?;
    let qp = side.queue_pair(0)?;
    let connector = side.adapter.create_connector(&side.file)?;
    for _ in 0..DEPTH {
        qp.receive(0, &[side.sge()])?;
    }
    ext::connect(&connector, &qp, address.parse()?, LIMITS, b"")?;
    let out = &mut std::io::stdout();
    writeln!(
        out,
        "| another connection is flooded with | echoes | median in ms | 99 of 100 | longest |"
    )?;
    writeln!(out, "|---|--:|--:|--:|--:|")?;
    for (flood, name, text) in Flood::ALL {
        let process = (flood != Flood::Nothing)
            .then(|| Process::start(&["--role", "flood", "--flood", name, "--server", &address]));
        let mut process = process.transpose()?;
        if let Some(process) = &mut process {
            process.line()?;
        }
        let end = Instant::now() + Duration::from_secs(arguments.seconds);
        let mut times = Vec::new();
        while Instant::now() < end {
            let start = Instant::now();
            echoed(&side, &qp)?;
            times.push(start.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
        times.sort();
        let at = |hundredths: usize| {
            let time = times.get((times.len() - 1) * hundredths / 100);
            time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
        };
        let [median, most, longest] = [50, 99, 100].map(at);
        writeln!(
            out,
            "| {text} | {} | {median:.2} | {most:.2} | {longest:.2} |",
            times.len()
        )?;
        if let Some(process) = &mut process
            && let Some(status) = process.child.try_wait()?
        {
            return Err(format!("the flood has ended: {status}").into());
        }
    }
    Ok(())
}

/// Sends once, and waits for the answer.
fn echoed(side: &Side, qp: &Arc<dyn QueuePair>) -> Result<(), Failure> {
    let mut results = [CompletionResult::default(); 4];
    qp.send(0, &[side.sge()], OpFlags::SILENT_SUCCESS)?;
    let taken = side.wait(&mut results)?;
    for result in &results[..taken] {
        result.status.ok()?;
        qp.receive(0, &[side.sge()])?;
    }
    Ok(())
}
