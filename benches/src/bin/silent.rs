//! Measures how long an honest client's connection set-up takes while a crowd of silent connections is open.
//!
//! `cargo run --release -p softnd-benches --bin silent`. Three processes on one host: a server, the crowd, which has as many
//! addresses of 127.0.0.0/8 as its option says, and the honest client, which measures. Linux only: it reads `/proc`.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use netdirect::{
    Adapter, Affinity, CompletionQueue, OverlappedFile, QueuePairOptions, ReadLimits, ext,
};
use socket2::{Domain, Socket, Type};
use softnd::Options;

/// Measures how long an honest client needs to connect while a crowd of silent connections waits at the listener.
#[derive(Debug, Parser)]
struct Arguments {
    /// Silent connections
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    connections: usize,

    /// Addresses that they come from, 127.0.0.2 and following
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u8).range(1..=250))]
    addresses: u8,

    /// The crowd also uses the honest client's address
    #[arg(long)]
    shared: bool,

    /// How many of them the crowd opens anew in a second, in the last part
    #[arg(long, value_name = "N", default_value_t = 5000)]
    rate: u32,

    /// Seconds of each part
    #[arg(long, value_name = "S", default_value_t = 5)]
    seconds: u64,

    /// The role of this process; the first process starts the others
    #[arg(long, hide = true, value_enum, default_value_t = Role::Client)]
    role: Role,

    /// Where the server listens
    #[arg(long, hide = true)]
    server: Option<SocketAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    Client,
    Server,
    /// Opens its connections and holds them.
    Crowd,
    /// Opens them again and again.
    Storm,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match (arguments.role, arguments.server) {
        (Role::Server, _) => serve(),
        (Role::Crowd | Role::Storm, Some(server)) => crowd(&arguments, server),
        _ => measure(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("silent: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// The objects of one end of a connection.
struct Side {
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    cq: Arc<dyn CompletionQueue>,
}

impl Side {
    fn new() -> netdirect::Result<Self> {
        let adapter = softnd::open("127.0.0.1", Options::default())?;
        let file = adapter.create_overlapped_file()?;
        let cq = adapter.create_completion_queue(&file, 64, Affinity::default())?;
        Ok(Self { adapter, file, cq })
    }

    fn queue_pair(&self) -> netdirect::Result<Arc<dyn netdirect::QueuePair>> {
        let options = QueuePairOptions::default();
        self.adapter.create_queue_pair(&self.cq, &self.cq, options)
    }
}

const LIMITS: ReadLimits = ReadLimits {
    inbound: 1,
    outbound: 1,
};

/// Accepts one connection after the other, and waits for the end of each.
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
    loop {
        let (qp, connector) = (
            side.queue_pair()?,
            side.adapter.create_connector(&side.file)?,
        );
        ext::get_connection_request(&listener, &connector)?;
        if let Err(error) = ext::accept(&connector, &qp, LIMITS, b"") {
            eprintln!("silent: server: {error}");
            continue;
        }
        let ended = netdirect::Overlapped::new();
        ext::wait(connector.notify_disconnect(&ended), &ended)?;
        ext::disconnect(&connector)?;
    }
}

/// Opens connections that say nothing, as fast as it can.
fn crowd(arguments: &Arguments, server: SocketAddr) -> Result<(), Failure> {
    let mut sockets: Vec<Socket> = Vec::new();
    let first = if arguments.shared { 1 } else { 2 };
    let open = |at: usize| -> std::io::Result<Socket> {
        let host = first + u8::try_from(at % usize::from(arguments.addresses)).unwrap_or(0);
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)?;
        socket.set_linger(Some(Duration::ZERO))?;
        socket.bind(&SocketAddr::from(([127, 0, 0, host], 0)).into())?;
        match socket.connect(&server.into()) {
            // The attempt is in progress. It does not matter when, or whether, it ends.
            Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => Err(error),
            _ => Ok(socket),
        }
    };
    for at in 0..arguments.connections {
        sockets.push(open(at)?);
    }
    println!("opened");
    let input = std::thread::spawn(|| std::io::stdin().read(&mut [0]));
    let (mut opened, start) = (0, Instant::now());
    while arguments.role == Role::Storm && !input.is_finished() {
        let due = start.elapsed().as_secs_f64() * f64::from(arguments.rate);
        while (opened as f64) < due {
            let at = opened % arguments.connections;
            sockets[at] = open(at)?;
            opened += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let rate = opened as f64 / start.elapsed().as_secs_f64();
    let _ = input.join();
    let alive = sockets.iter().filter(|socket| {
        let mut octet = [std::mem::MaybeUninit::uninit()];
        let read = socket.recv(&mut octet);
        let open = read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        open && socket.peer_addr().is_ok()
    });
    println!("{rate:.0} {}", alive.count());
    Ok(())
}

const IN_PROGRESS: i32 = 115;

/// A process of this program.
struct Process {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(
        arguments: &Arguments,
        role: &str,
        server: Option<SocketAddr>,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["--role", role])
            .args(["--connections", &arguments.connections.to_string()])
            .args(["--addresses", &arguments.addresses.to_string()])
            .args(["--rate", &arguments.rate.to_string()]);
        if arguments.shared {
            command.arg("--shared");
        }
        if let Some(server) = server {
            command.args(["--server", &server.to_string()]);
        }
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

    /// Closes the input of the process, and returns its last line.
    fn end(mut self) -> Result<String, Failure> {
        drop(self.child.stdin.take());
        let line = self.line();
        self.child.wait()?;
        line
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The times that the honest client needed, connection by connection.
#[derive(Default)]
struct Times {
    times: Vec<Duration>,
    failures: usize,
}

impl Times {
    /// Connects again and again for a while, ten milliseconds apart.
    fn measure(&mut self, side: &Side, server: SocketAddr, limit: Duration) -> Result<(), Failure> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            let start = Instant::now();
            // After a failure comes another attempt, whose time counts as well.
            while let Err(error) = connect(side, server) {
                self.failures += 1;
                if start.elapsed() > Duration::from_secs(30) {
                    return Err(format!("no connection within 30 s: {error}").into());
                }
            }
            self.times.push(start.elapsed());
            std::thread::sleep(Duration::from_millis(10));
        }
        self.times.sort();
        Ok(())
    }

    fn at(&self, hundredths: usize) -> f64 {
        let last = self.times.len().saturating_sub(1);
        let time = self.times.get(last * hundredths / 100);
        time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

fn connect(side: &Side, server: SocketAddr) -> netdirect::Result<()> {
    let (qp, connector) = (
        side.queue_pair()?,
        side.adapter.create_connector(&side.file)?,
    );
    ext::connect(&connector, &qp, server, LIMITS, b"")?;
    ext::disconnect(&connector)
}

/// The resources that the server has used: processor time, memory, descriptors.
struct Use {
    time: Duration,
    memory: u64,
    files: usize,
}

impl Use {
    fn read(process: &Process) -> Result<Self, Failure> {
        let folder = format!("/proc/{}", process.child.id());
        let stat = fs::read_to_string(format!("{folder}/stat"))?;
        let fields = stat.rsplit(')').next().unwrap_or_default();
        // utime and stime, in hundredths of a second.
        let ticks: u64 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        let status = fs::read_to_string(format!("{folder}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = resident.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        Ok(Self {
            time: Duration::from_millis(10 * ticks),
            memory: kibibytes.unwrap_or(0),
            files: fs::read_dir(format!("{folder}/fd"))?.count(),
        })
    }
}

fn measure(arguments: &Arguments) -> Result<(), Failure> {
    let limit = Duration::from_secs(arguments.seconds);
    let mut server = Process::start(arguments, "server", None)?;
    let address: SocketAddr = server.line()?.parse()?;
    let side = Side::new()?;
    let out = &mut std::io::stdout();
    writeln!(
        out,
        "{} silent connections from {} addresses{}; connection set-up of an honest client in ms\n",
        arguments.connections,
        arguments.addresses,
        if arguments.shared {
            ", its own among them"
        } else {
            ""
        }
    )?;
    writeln!(
        out,
        "| the crowd | set-ups | failed attempts | median | 99 of 100 | longest | server: core | memory | descriptors | crowd: still open | connects/s |"
    )?;
    writeln!(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for (name, role) in [
        ("is not there", None),
        ("connects and stays", Some("crowd")),
        ("connects again and again", Some("storm")),
    ] {
        let crowd = role.map(|role| Process::start(arguments, role, Some(address)));
        let crowd = crowd.transpose()?;
        let (before, start) = (Use::read(&server)?, Instant::now());
        let mut times = Times::default();
        let measured = times.measure(&side, address, limit);
        let (after, took) = (Use::read(&server)?, start.elapsed());
        let end = crowd.map(|mut crowd| {
            crowd.line()?;
            crowd.end()
        });
        let end = end.transpose()?.unwrap_or_default();
        let mut end = end.split_whitespace();
        let (rate, alive) = (end.next().unwrap_or("-"), end.next().unwrap_or("-"));
        let share = (after.time.saturating_sub(before.time)).as_secs_f64() / took.as_secs_f64();
        let cells: [&dyn Display; 11] = [
            &name,
            &times.times.len(),
            &times.failures,
            &format!("{:.2}", times.at(50)),
            &format!("{:.2}", times.at(99)),
            &format!("{:.2}", times.at(100)),
            &format!("{:.0} %", share * 100.0),
            &format!("{:.1} MiB", after.memory as f64 / 1024.0),
            &after.files,
            &alive,
            &if rate == "0" { "-" } else { rate },
        ];
        for cell in cells {
            write!(out, "| {cell} ")?;
        }
        writeln!(out, "|")?;
        measured?;
    }
    Ok(())
}
