//! UCX by `ucx_perftest`, libfabric by `fi_pingpong`.
//!
//! Both take a number of messages instead of a time. So each turn derives this number from the time of the turn before.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nd_perf::device::Device;
use nd_perf::process::{self, on_core};

use super::nd::Nd;
use super::{Failure, Times};

/// The least and the greatest number of messages of a turn.
const MESSAGES: std::ops::RangeInclusive<f64> = 50.0..=200_000.0;

/// The number of messages that take one turn.
#[derive(Debug)]
pub struct Pace {
    turn: Duration,
    /// Nanoseconds per message.
    each: Cell<f64>,
}

impl Pace {
    /// The first estimate for messages of `size` octets: one way at least 10 µs, and 1 ns per octet.
    #[must_use]
    pub fn new(turn: Duration, size: usize) -> Self {
        Self {
            turn,
            each: Cell::new(10_000.0 + size as f64),
        }
    }

    /// The number for the next turn.
    pub(super) fn messages(&self) -> u32 {
        let wanted = self.turn.as_nanos() as f64 / self.each.get();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "cut to a range that fits"
        )]
        let messages = wanted.clamp(*MESSAGES.start(), *MESSAGES.end()) as u32;
        messages
    }

    /// A message took this many nanoseconds.
    pub(super) fn learn(&self, each: f64) {
        self.each.set(each.max(1.0));
    }
}

/// The programs that take part besides softnd and raw TCP.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    /// UCX.
    pub ucx: Option<Ucx>,
    /// libfabric.
    pub fabric: Option<Fabric>,
    /// An RDMA device, with perftest's programs.
    pub device: Option<Device>,
}

/// UCX's own benchmark.
#[derive(Clone, Debug)]
pub struct Ucx {
    program: PathBuf,
    /// Starts it over softnd's libraries for verbs.
    nd: Nd,
}

/// The transports of UCX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UcxOver {
    /// TCP on the loopback interface.
    Tcp,
    /// POSIX shared memory.
    Posix,
    /// POSIX shared memory, and for long messages the kernel's copy from process to process (cross-memory attach).
    Cma,
    /// Verbs, by queue pairs whose numbers it exchanges.
    RcVerbs,
}

impl UcxOver {
    /// The variables of the environment that choose it.
    const fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Tcp => &[("UCX_TLS", "tcp"), ("UCX_NET_DEVICES", "lo")],
            Self::Posix => &[("UCX_TLS", "posix,self")],
            Self::Cma => &[("UCX_TLS", "posix,cma,self")],
            Self::RcVerbs => &[("UCX_TLS", "rc_v,self"), ("UCX_NET_DEVICES", "softnd0:1")],
        }
    }
}

/// One run of it, from its last line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct UcxResult {
    p50_us: f64,
    mean_us: f64,
    messages_per_s: f64,
}

impl Ucx {
    /// The program, if it is installed.
    #[must_use]
    pub fn find(nd: &Nd) -> Option<Self> {
        let program = process::find("ucx_perftest")?;
        let nd = nd.clone();
        Some(Self { program, nd })
    }

    fn command(&self, over: UcxOver, core: usize) -> Command {
        if over != UcxOver::RcVerbs {
            return on_core(core, &self.program);
        }
        let mut command = self.nd.run(Some(core));
        command.arg("--").arg(&self.program);
        command
    }

    fn run(
        &self,
        over: UcxOver,
        test: &str,
        size: usize,
        messages: u32,
    ) -> Result<UcxResult, Failure> {
        let port = process::free_port()?;
        let base = |core| {
            let mut command = self.command(over, core);
            command.envs(over.variables().iter().copied()).args([
                "-p",
                &port.to_string(),
                "-f",
                "-v",
            ]);
            command
        };
        let mut client = base(0);
        client
            .arg("127.0.0.1")
            .args(["-t", test, "-s", &size.to_string()])
            .args(["-n", &messages.to_string()])
            .args(["-w", &(messages / 10 + 10).to_string()]);
        ucx_result(&process::run_pair(base(1), client, port)?)
    }

    /// One turn of tagged ping-pong.
    ///
    /// # Errors
    ///
    /// When the program fails, or prints something unknown.
    pub fn ping_pong(&self, over: UcxOver, size: usize, pace: &Pace) -> Result<Times, Failure> {
        let result = self.run(over, "tag_lat", size, pace.messages())?;
        pace.learn(2e3 * result.mean_us);
        Ok(Times {
            p50: Some(1e3 * result.p50_us),
            mean: 1e3 * result.mean_us,
        })
    }

    /// One turn of a test that sends one way: `tag_bw`, `ucp_put_bw`; in octets per second.
    ///
    /// # Errors
    ///
    /// When the program fails, or prints something unknown.
    pub fn one_way(
        &self,
        over: UcxOver,
        test: &str,
        size: usize,
        pace: &Pace,
    ) -> Result<f64, Failure> {
        let result = self.run(over, test, size, pace.messages())?;
        pace.learn(1e9 / result.messages_per_s);
        Ok(result.messages_per_s * size as f64)
    }
}

/// Reads the line of numbers below
/// `iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr`. "Overall" is the whole run,
/// "avg" only the time since the last report.
fn ucx_result(printed: &str) -> Result<UcxResult, Failure> {
    let unknown = || Failure::new(format!("ucx_perftest printed something unknown: {printed}"));
    let numbers = printed
        .lines()
        .rev()
        .map(|line| line.split(',').map(|word| word.trim().parse()).collect())
        .find_map(|numbers: Result<Vec<f64>, _>| numbers.ok().filter(|n| n.len() == 8));
    let numbers = numbers.ok_or_else(unknown)?;
    let result = UcxResult {
        p50_us: numbers[1],
        mean_us: numbers[3],
        messages_per_s: numbers[7],
    };
    if result.p50_us >= 0.0 && result.mean_us > 0.0 && result.messages_per_s > 0.0 {
        Ok(result)
    } else {
        Err(unknown())
    }
}

/// libfabric's ping-pong.
#[derive(Clone, Debug)]
pub struct Fabric(PathBuf);

/// The transport of libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricOver {
    /// Connected endpoints of its tcp provider.
    Tcp,
    /// Reliable datagrams over UDP.
    Udp,
    /// Reliable datagrams over its provider for shared memory.
    Shm,
}

impl FabricOver {
    const fn options(self) -> [&'static str; 4] {
        match self {
            Self::Tcp => ["-p", "tcp", "-e", "msg"],
            Self::Udp => ["-p", "udp;ofi_rxd", "-e", "rdm"],
            Self::Shm => ["-p", "shm", "-e", "rdm"],
        }
    }
}

impl Fabric {
    /// The program, if it is installed.
    #[must_use]
    pub fn find() -> Option<Self> {
        process::find("fi_pingpong").map(Self)
    }

    /// One turn of ping-pong. The program reports only the mean.
    ///
    /// # Errors
    ///
    /// When the program fails, or prints something unknown.
    pub fn ping_pong(&self, over: FabricOver, size: usize, pace: &Pace) -> Result<Times, Failure> {
        let port = process::free_port()?;
        let messages = pace.messages();
        let base = |core| {
            let mut command: Command = on_core(core, &self.0);
            command.args(over.options()).args([
                "-I",
                &messages.to_string(),
                "-S",
                &size.to_string(),
            ]);
            command
        };
        let (mut server, mut client) = (base(1), base(0));
        server.args(["-B", &port.to_string()]);
        client.args(["-P", &port.to_string(), "127.0.0.1"]);
        let mean = fabric_result(&process::run_pair(server, client, port)?)?;
        pace.learn(2.0 * mean);
        Ok(Times { p50: None, mean })
    }
}

/// Half a round trip in nanoseconds, from `bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec` and the line below.
fn fabric_result(printed: &str) -> Result<f64, Failure> {
    let mut lines = printed
        .lines()
        .skip_while(|line| !line.starts_with("bytes"));
    let heads = lines.next().map(str::split_whitespace);
    let column = heads.and_then(|mut heads| heads.position(|head| head == "usec/xfer"));
    let cell = column
        .zip(lines.next())
        .and_then(|(column, line)| line.split_whitespace().nth(column));
    cell.and_then(|cell| cell.parse::<f64>().ok())
        .filter(|micros| *micros > 0.0)
        .map(|micros| 1e3 * micros)
        .ok_or_else(|| Failure::new(format!("fi_pingpong printed something unknown: {printed}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As UCX 1.13 prints it with `-f -v`.
    const UCX: &str = "\
+------------------------------+
| Test:         tag match bandwidth |
+------------------------------+
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
2000,5.213,250.590,529.674,249.41,118.00,3991,1888
";

    /// As libfabric 1.17 prints it.
    const FABRIC: &str = "\
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64k     2k      =2k      250m        8.23s     31.84    2058.26       0.00
";

    #[test]
    fn the_whole_run_of_ucx_counts() {
        let result = ucx_result(UCX).unwrap();
        assert_eq!((result.p50_us, result.mean_us), (5.213, 529.674));
        assert_eq!(result.messages_per_s, 1888.0);
        for bad in ["", "a,b", "1,2,3", "1,2,3,0,5,6,7,8", "1,2,3,4,5,6,7,inf-"] {
            assert!(ucx_result(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_column_of_libfabric_is_found_by_its_head() {
        assert_eq!(fabric_result(FABRIC).unwrap().round(), 2_058_260.0);
        for bad in ["", "bytes #sent\n1 2\n", "usec/xfer\n7\n"] {
            assert!(fabric_result(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn turns_keep_their_length() {
        let pace = Pace::new(Duration::from_millis(100), 8);
        pace.learn(4_000.0);
        assert_eq!(pace.messages(), 25_000);
        pace.learn(1e9);
        assert_eq!(pace.messages(), 50);
        pace.learn(0.0);
        assert_eq!(pace.messages(), 200_000);
    }
}
