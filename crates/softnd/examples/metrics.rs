//! The counters of adapters for Prometheus, by a small HTTP server that needs the standard library alone.
//!
//! `cargo run -p softnd --example metrics -- serve 127.0.0.1:9400` serves `http://127.0.0.1:9400/metrics` until it is stopped. Without
//! arguments the example asks itself once, and prints the answer.
//!
//! The server answers one request after another, each within a time limit, and closes the connection behind the answer. It has no
//! encryption and asks for no password, so give it an address that only your Prometheus reaches.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, thread};

use netdirect::{Adapter, Call, Counters, Fault, Status};

/// The time for a request and its answer, and the most octets of a request.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST: usize = 8 << 10;

/// The adapters, with the names that Prometheus shows.
type Adapters = Vec<(&'static str, Arc<dyn Adapter>)>;

fn adapters() -> netdirect::Result<Adapters> {
    let urls = ["softnd+tcp://127.0.0.1", "softnd+sim://seed=1"];
    let adapters = urls.map(|url| Ok((url, softnd::open(url, softnd::Options::default())?)));
    adapters.into_iter().collect()
}

/// The counters of all adapters at this moment.
fn metrics(adapters: &Adapters) -> String {
    let counters = adapters.iter().map(|(name, adapter)| {
        let extensions = adapter.extensions();
        let counters = extensions.map(|extensions| extensions.counters());
        (name, counters.unwrap_or_default())
    });
    Counters::prometheus(counters)
}

/// Reads up to the empty line behind the header fields.
fn request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let end = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let mut octets = [0; 1024];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let read = stream.read(&mut octets)?;
        if read == 0 || request.len() > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        request.extend_from_slice(&octets[..read]);
    }
    Ok(request)
}

/// Answers one request.
fn answer(stream: &mut TcpStream, adapters: &Adapters) -> io::Result<()> {
    let request = request(stream)?;
    let request = String::from_utf8_lossy(&request);
    let line = request.lines().next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split('?').next();
    let (status, kind, body) = match (method, path) {
        (Some("GET" | "HEAD"), Some("/metrics")) => (
            "200 OK",
            Counters::PROMETHEUS_CONTENT_TYPE,
            metrics(adapters),
        ),
        (Some("GET" | "HEAD"), _) => (
            "404 Not Found",
            "text/plain",
            "the counters are at /metrics\n".to_owned(),
        ),
        _ => (
            "405 Method Not Allowed\r\nAllow: GET, HEAD",
            "text/plain",
            "use GET\n".to_owned(),
        ),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(head.as_bytes())?;
    if method != Some("HEAD") {
        stream.write_all(body.as_bytes())?;
    }
    Ok(())
}

/// Answers requests for ever.
fn serve(listener: &TcpListener, adapters: &Adapters) {
    for stream in listener.incoming() {
        let answered = stream.and_then(|mut stream| answer(&mut stream, adapters));
        if let Err(error) = answered {
            eprintln!("a request was not answered: {error}");
        }
    }
}

/// Asks a server, as Prometheus does.
fn ask(server: SocketAddr, line: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server)?;
    write!(stream, "{line}\r\nHost: {server}\r\n\r\n")?;
    io::read_to_string(stream)
}

/// Serves in a thread, with adapters that have counted a fault, and returns the address.
fn start() -> Result<SocketAddr, Box<dyn Error>> {
    let adapters = adapters()?;
    // The first adapter refuses to create a file, so that a counter is not 0.
    let (_, adapter) = &adapters[0];
    let extensions = adapter.extensions().ok_or("softnd has extensions")?;
    extensions.inject(Fault::Call {
        call: Call::Any,
        nth: 1,
        status: Status::NO_MEMORY,
    })?;
    assert!(adapter.create_overlapped_file().is_err());
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || serve(&listener, &adapters));
    Ok(address)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match &arguments[..] {
        [command, address] if command == "serve" => {
            let listener = TcpListener::bind(address)?;
            println!("listening on {}", listener.local_addr()?);
            serve(&listener, &adapters()?);
        }
        [] => println!("{}", ask(start()?, "GET /metrics HTTP/1.1")?),
        _ => return Err("usage: metrics [serve ADDRESS:PORT]".into()),
    }
    Ok(())
}

#[test]
fn prometheus_gets_the_counters_of_all_adapters() {
    let server = start().unwrap();
    let answer = ask(server, "GET /metrics HTTP/1.1").unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let kind = "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n";
    assert!(head.contains(kind), "{head}");
    let length = format!("\r\nContent-Length: {}\r\n", body.len());
    assert!(head.contains(&length), "{head}");
    for line in [
        "# TYPE netdirect_faults_happened_total counter",
        "netdirect_faults_happened_total{adapter=\"softnd+tcp://127.0.0.1\"} 1",
        "netdirect_faults_happened_total{adapter=\"softnd+sim://seed=1\"} 0",
        "netdirect_lenient_cases_total{adapter=\"softnd+sim://seed=1\",case=\"read_sink\"} 0",
    ] {
        assert!(body.lines().any(|found| found == line), "{line}: {body}");
    }
    // Every counter of softnd has words of its own.
    assert!(!body.contains(" The counter "), "{body}");
}

#[cfg(feature = "udp")]
#[test]
fn every_counter_over_udp_has_words_of_its_own() {
    let url = "softnd+udp://127.0.0.1";
    let adapter = softnd::open(url, softnd::Options::default()).unwrap();
    let text = metrics(&vec![(url, adapter)]);
    let sample = "netdirect_udp_retries_total{adapter=\"softnd+udp://127.0.0.1\"} 0";
    assert!(text.lines().any(|line| line == sample), "{text}");
    assert!(!text.contains(" The counter "), "{text}");
}

#[test]
fn other_requests_are_answered_by_a_status() {
    let server = start().unwrap();
    for (line, status) in [
        ("HEAD /metrics?x=1 HTTP/1.1", "200 OK"),
        ("GET / HTTP/1.1", "404 Not Found"),
        ("POST /metrics HTTP/1.1", "405 Method Not Allowed"),
        ("", "405 Method Not Allowed"),
    ] {
        let answer = ask(server, line).unwrap();
        let start = format!("HTTP/1.1 {status}\r\n");
        assert!(answer.starts_with(&start), "{line}: {answer}");
        let has_body = !answer.ends_with("\r\n\r\n");
        assert_eq!(has_body, !line.starts_with("HEAD"), "{line}: {answer}");
    }
    // A connection without a request does not stop the server.
    drop(TcpStream::connect(server).unwrap());
    assert!(
        ask(server, "GET /metrics HTTP/1.1")
            .unwrap()
            .contains(" 200 OK\r\n")
    );
}
