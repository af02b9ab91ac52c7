//! How many FPDUs leave with one system call, from a trace of the calls.
//!
//! `strace` shows how many octets each sending call took. Tracing slows every call down, so the speed of these runs means
//! nothing, and gathering looks better than without a trace, because more is posted while a call takes long.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use iwarp::ddp::{TaggedHeader, UntaggedHeader};
use iwarp::mpa::fpdu;
use nd_perf::process;
use socket2::SockRef;

use super::Failure;
use super::nd::Nd;

/// The lower bounds of the classes of calls.
pub const CLASSES: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// The calls that send one buffer or several. Without a baseline `nd` sends little besides the traffic of the test.
const SENDING: &str = "trace=sendto,sendmsg";

/// The traffic that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The name in `nd perf`.
    pub op: &'static str,
    /// The name in `nd perf`.
    pub test: &'static str,
    /// Octets of a message.
    pub size: usize,
    /// Outstanding messages.
    pub depth: u32,
}

/// The kinds of traffic that are shown: single messages, small ones in a row, and bulk.
pub const TRAFFIC: [Traffic; 5] = [
    traffic("send", "latency", 8, 1),
    traffic("send", "rate", 64, 128),
    traffic("send", "bandwidth", 64 << 10, 32),
    traffic("write", "bandwidth", 64 << 10, 32),
    traffic("write", "bandwidth", 1 << 20, 32),
];

const fn traffic(op: &'static str, test: &'static str, size: usize, depth: u32) -> Traffic {
    Traffic {
        op,
        test,
        size,
        depth,
    }
}

/// Calls by the number of FPDUs they took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Calls per class of [`CLASSES`].
    pub calls: [u64; CLASSES.len()],
    /// FPDUs of all calls. Parts of an FPDU count as fractions.
    pub fpdus: f64,
}

impl Histogram {
    fn add(&mut self, fpdus: f64) {
        let class = CLASSES.iter().rposition(|from| fpdus >= *from as f64);
        // Less than one FPDU is the rest of an FPDU that was cut, or a message shorter than those of the test.
        self.calls[class.unwrap_or(0)] += 1;
        self.fpdus += fpdus;
    }

    /// All calls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.calls.iter().sum()
    }
}

impl Traffic {
    /// FPDUs of one message, and their octets.
    fn message(&self, mulpdu: u32) -> (usize, usize) {
        let header = if self.op == "send" {
            UntaggedHeader::LEN
        } else {
            TaggedHeader::LEN
        };
        let most = mulpdu as usize - header;
        let (whole, rest) = (self.size / most, self.size % most);
        let last = usize::from(rest > 0);
        let octets = whole * fpdu::fpdu_len(mulpdu as usize) + last * fpdu::fpdu_len(header + rest);
        (whole + last, octets)
    }

    fn histogram(&self, calls: &[u64], mulpdu: u32) -> Histogram {
        let (fpdus, octets) = self.message(mulpdu);
        let mut histogram = Histogram::default();
        for taken in calls {
            histogram.add(*taken as f64 * fpdus as f64 / octets as f64);
        }
        histogram
    }
}

/// Traces one kind of traffic.
///
/// # Errors
///
/// If `strace` may not trace, or `nd` fails.
pub fn trace(nd: &Nd, strace: &Path, traffic: &Traffic) -> Result<Histogram, Failure> {
    let io = |error: std::io::Error| Failure::new(format!("trace system calls: {error}"));
    let folder = tempfile::tempdir().map_err(io)?;
    let file = folder.path().join("calls");
    let mut command = Command::new(strace);
    command
        .args([
            "-f",
            "-q",
            "-s",
            "0",
            "-e",
            SENDING,
            "-e",
            "signal=none",
            "-o",
        ])
        .arg(&file)
        .arg(&nd.program);
    nd.arguments(&mut command);
    command
        .args(["--op", traffic.op, "--test", traffic.test])
        .args(["--size", &traffic.size.to_string()])
        .args(["--depth", &traffic.depth.to_string()]);
    process::run(command)?;
    let trace = fs::read_to_string(&file).map_err(io)?;
    let mulpdu = fpdu::mulpdu(loopback_segment().map_err(io)?);
    let calls = busiest(&trace).ok_or_else(|| Failure::new("strace saw nothing sent"))?;
    Ok(traffic.histogram(&calls, mulpdu))
}

/// The segment size of a connection over the loopback interface.
fn loopback_segment() -> std::io::Result<u32> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    SockRef::from(&stream).tcp_mss()
}

/// The octets that the calls of the thread with the most sent octets took. Other threads send credits, or the last message
/// of a test.
fn busiest(trace: &str) -> Option<Vec<u64>> {
    let mut threads: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for line in trace.lines() {
        if let Some((thread, taken)) = call(line) {
            threads.entry(thread).or_default().push(taken);
        }
    }
    threads
        .into_values()
        .max_by_key(|calls| calls.iter().sum::<u64>())
}

/// `1234 sendmsg(7, {…}, MSG_DONTWAIT|MSG_NOSIGNAL) = 88`, or `1234 <... sendto resumed>) = 88`: thread and octets.
fn call(line: &str) -> Option<(&str, u64)> {
    let (thread, rest) = line.split_once(' ')?;
    let (call, result) = rest.rsplit_once(" = ")?;
    let taken = result.split_whitespace().next()?.parse().ok()?;
    (call.contains("send") && taken > 0).then_some((thread, taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MULPDU: u32 = 64_768;

    #[test]
    fn calls_are_read_from_a_trace() {
        let trace = "\
100  sendmsg(7, {msg_name=NULL, msg_iov=[{iov_base=\"\"..., iov_len=88}], msg_iovlen=1}, MSG_DONTWAIT) = 88
101  sendmsg(9, {msg_name=NULL}, MSG_DONTWAIT <unfinished ...>
100  sendmsg(7, {msg_name=NULL}, MSG_DONTWAIT) = -1 EAGAIN (Resource temporarily unavailable)
101  <... sendmsg resumed>)                   = 24
100  +++ exited with 0 +++
100  sendto(7, \"\"..., 176, MSG_DONTWAIT, NULL, 0) = 176
100  close(7) = 0
";
        assert_eq!(busiest(trace), Some(vec![88, 176]));
        assert_eq!(busiest("nothing"), None);
    }

    #[test]
    fn a_message_is_as_many_fpdus_as_its_octets_need() {
        // 2 length + 18 header + 64 + 4 CRC.
        assert_eq!(traffic("send", "rate", 64, 1).message(MULPDU), (1, 88));
        let (fpdus, octets) = traffic("write", "bandwidth", 64 << 10, 1).message(MULPDU);
        assert_eq!(fpdus, 2);
        // 20 octets of frame and header around each, and the pad.
        assert_eq!(octets, (64 << 10) + 2 * 20 + 4);
    }

    #[test]
    fn calls_are_sorted_by_their_fpdus() {
        let histogram = traffic("send", "rate", 64, 1).histogram(&[88, 264, 44, 88 * 200], MULPDU);
        assert_eq!(histogram.calls, [2, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(histogram.total(), 4);
        assert!((histogram.fpdus - 204.5).abs() < 1e-9);
    }

    #[test]
    fn the_loopback_interface_has_a_segment_size() {
        assert!(loopback_segment().unwrap() >= 88);
    }
}
