//! Measures what threads cost that wait on one file, each for its own connection request: while nothing happens, and for each peer that is
//! turned away.
//!
//! `cargo run --release -p softnd-benches --bin waiters`. Linux only: it reads `/proc`.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use netdirect::Overlapped;
use softnd::Options;

/// Measures the processor time of threads that wait for connection requests.
#[derive(Debug, Parser)]
struct Arguments {
    /// Numbers of threads
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1, 2, 64, 100, 500, 2000])]
    threads: Vec<usize>,

    /// Seconds in which nothing happens
    #[arg(long, value_name = "S", default_value_t = 3)]
    seconds: u64,

    /// Peers that are turned away
    #[arg(long, value_name = "N", default_value_t = 1000)]
    peers: u32,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("waiters: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<(), Failure> {
    println!("| threads that wait | of a core, idle | for each peer turned away | descriptors |");
    println!("|--:|--:|--:|--:|");
    for threads in &arguments.threads {
        let [idle, busy, descriptors] = with_threads(*threads, arguments)?;
        println!("| {threads} | {idle:.2} % | {busy:.3} ms | {descriptors} |");
    }
    Ok(())
}

/// The share of a core in per cent, the milliseconds for a peer, and the descriptors of the process.
fn with_threads(count: usize, arguments: &Arguments) -> Result<[f64; 3], Failure> {
    let adapter = softnd::open("127.0.0.1", Options::default())?;
    let file = adapter.create_overlapped_file()?;
    let listener = adapter.create_listener(&file)?;
    listener.bind("127.0.0.1:0".parse()?)?;
    listener.listen(0)?;
    let address = listener.get_local_address()?;
    let mut requests = Vec::new();
    for _ in 0..count {
        let (connector, arrives) = (adapter.create_connector(&file)?, Overlapped::new());
        let _ = listener.get_connection_request(&connector, &arrives)?;
        requests.push((connector, arrives));
    }
    let before = fs::read_dir("/proc/self/fd")?.count();
    std::thread::scope(|scope| {
        let (sender, receiver) = crossbeam_channel::unbounded();
        let mut started = 0;
        for (_, arrives) in &requests {
            let sender = sender.clone();
            let thread = std::thread::Builder::new().stack_size(256 * 1024);
            let waits = move || {
                let name = fs::read_link("/proc/thread-self");
                let _ = sender.send(name);
                arrives.wait()
            };
            if thread.spawn_scoped(scope, waits).is_err() {
                break;
            }
            started += 1;
        }
        let figures = figures(address, started, &receiver, arguments);
        let descriptors = fs::read_dir("/proc/self/fd").map(Iterator::count);
        listener.cancel_overlapped_requests()?;
        if started < count {
            return Err(format!("the system allows {started} threads and not {count}").into());
        }
        let [idle, busy] = figures?;
        Ok([idle, busy, (descriptors? - before) as f64])
    })
}

fn figures(
    address: SocketAddr,
    count: usize,
    receiver: &crossbeam_channel::Receiver<std::io::Result<std::path::PathBuf>>,
    arguments: &Arguments,
) -> Result<[f64; 2], Failure> {
    let mut threads = Vec::new();
    for _ in 0..count {
        let name = receiver.recv()??;
        threads.push(format!("/proc/{}/schedstat", name.display()));
    }
    // The processor time of all threads that wait.
    let used = || -> Result<Duration, Failure> {
        let mut sum = 0;
        for thread in &threads {
            let line = fs::read_to_string(thread)?;
            let time = line.split_whitespace().next().ok_or("no time")?;
            sum += time.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(sum))
    };
    std::thread::sleep(Duration::from_millis(500));
    let (before, start) = (used()?, Instant::now());
    std::thread::sleep(Duration::from_secs(arguments.seconds));
    let (after, took) = (used()?, start.elapsed());
    let idle = 100.0 * (after - before).as_secs_f64() / took.as_secs_f64();
    for _ in 0..arguments.peers {
        let mut peer = TcpStream::connect(address)?;
        peer.write_all(&[0; 20])?;
        // The listener ends the connection.
        let _ = peer.read_to_end(&mut Vec::new());
    }
    let busy = (used()? - after).as_secs_f64() * 1e3 / f64::from(arguments.peers);
    Ok([idle, busy])
}
