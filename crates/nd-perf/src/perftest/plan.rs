//! The arguments of `nd perftest`, and the test that they describe.

use std::time::Duration;

use clap::Args;
use nd_base::errors::{Failure, Result};
use nd_base::peer::PeerArgs;
use netdirect::AdapterInfo;

use super::record::Speed;
use crate::device::Program;

/// The default port of perftest.
const PORT: u16 = 18515;

/// The most Receives that the side taking Sends posts, and the most outstanding Reads: perftest's own defaults.
const RECEIVES: u32 = 512;
const READS: u32 = 128;

/// The flags have perftest's names, and both sides need the same, as with perftest. The connection is always made as
/// with its `-R`.
#[derive(Debug, Args)]
#[command(
    after_help = "Speaks the exchange of perftest 4.5+0.17 (version 6.06) with -R, on one queue pair. The other side runs \
                        ib_<TEST> -R, or nd perftest."
)]
pub struct PerftestArgs {
    /// What to measure
    #[arg(value_enum)]
    test: Program,

    /// The server to connect to
    #[arg(required_unless_present = "listen", conflicts_with = "listen")]
    pub(super) host: Option<String>,

    /// Runs the server, which listens on this address of an adapter
    #[arg(long, value_name = "ADDR")]
    pub(super) listen: Option<String>,

    /// The server's port; with 0 a server takes any free port
    #[arg(short, long, default_value_t = PORT)]
    pub(super) port: u16,

    /// Octets per message [default: 65536 for bandwidth, 2 for latency]
    #[arg(short, long, value_parser = number::<1>)]
    size: Option<u32>,

    /// Number of messages, at least 5 [default: 5000 for write_bw, 1000 for the others]
    #[arg(short = 'n', long, value_parser = number::<5>)]
    iters: Option<u32>,

    /// Outstanding messages, for bandwidth
    #[arg(short, long, value_name = "DEPTH", default_value_t = 128, value_parser = number::<1>)]
    tx_depth: u32,

    /// Receives on the side that receives Sends; give the same number on both sides
    #[arg(short, long, value_name = "DEPTH", default_value_t = RECEIVES, value_parser = number::<3>)]
    rx_depth: u32,

    /// Sleeps until notified instead of polling
    #[arg(short, long)]
    events: bool,

    /// Number of queue pairs, which has to be 1
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1))]
    qp: u32,

    /// Accepted because perftest has this option; nd always connects in this way
    #[arg(short = 'R', long = "rdma_cm")]
    rdma_cm: bool,

    #[command(flatten)]
    pub(super) peer: PeerArgs,
}

/// A number as perftest reads it: decimal, hexadecimal behind `0x`, octal behind `0`, with `K` or `M` for 1,024 and its square.
fn number<const LEAST: u32>(text: &str) -> Result<u32, String> {
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    let is_number = digits.starts_with(|first: char| first.is_digit(radix));
    let number = is_number.then(|| u32::from_str_radix(digits, radix).ok());
    let number = number
        .flatten()
        .and_then(|number| number.checked_mul(factor));
    match number {
        Some(number) if number >= LEAST => Ok(number),
        Some(number) => Err(format!("{number} is less than {LEAST}")),
        None => Err(format!(
            "not a number below {}, such as 4096, 4K, 1M or 0x1000",
            1_u64 << 32
        )),
    }
}

/// A test as both sides understand it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TestPlan {
    pub(super) test: Program,
    pub(super) size: u32,
    pub(super) count: u32,
    /// Outstanding requests.
    pub(super) depth: u32,
    /// Receives posted by a side that takes Sends.
    pub(super) receives: u32,
    /// Whether to sleep while there is nothing to do.
    pub(super) sleeps: bool,
}

impl TestPlan {
    /// perftest's defaults, cut to the number of messages as perftest does.
    pub(super) fn new(args: &PerftestArgs) -> Self {
        let test = args.test;
        let size = if test.is_bandwidth() { 65536 } else { 2 };
        let count = if test == Program::WriteBw { 5000 } else { 1000 };
        let count = args.iters.unwrap_or(count);
        let depth = if test.is_bandwidth() {
            args.tx_depth
        } else {
            1
        };
        Self {
            test,
            size: args.size.unwrap_or(size),
            count,
            depth: depth.min(count),
            receives: args.rx_depth.min(count),
            sleeps: args.events,
        }
    }

    /// Checks that the adapter's limits allow the test.
    pub(super) fn check(&self, info: &AdapterInfo) -> Result<()> {
        let limits = [
            ("-s", "octets", self.size, info.max_transfer_length),
            ("-t", "requests", self.depth, info.max_initiator_queue_depth),
            (
                "-r",
                "Receives",
                self.receives,
                info.max_receive_queue_depth,
            ),
        ];
        for (flag, what, wanted, limit) in limits {
            if wanted > limit {
                return Err(Failure::new(
                    format!("the adapter cannot have {wanted} {what}, only {limit}"),
                    format!("choose a smaller {flag}"),
                ));
            }
        }
        Ok(())
    }

    /// Messages between two credits that the side taking Sends returns: perftest's rule, which the sender relies on.
    pub(super) fn credit(&self, received: u32) -> bool {
        (received % self.receives).is_multiple_of((self.receives / 3).max(1))
    }

    /// The most outstanding Reads, which both sides state in their start-up frames.
    pub(super) fn reads(&self, limit: u32) -> u32 {
        if self.test.reads() {
            READS.min(limit)
        } else {
            0
        }
    }

    /// Octets of the memory that the other side reads or writes. Small messages use `cycle` octets in turn.
    pub(super) fn reach(&self, cycle: u32) -> usize {
        self.size.max(cycle) as usize
    }

    /// A time longer than the test takes on any useful connection: 1 ms for each message, and 1 MB/s.
    pub(super) fn longest(&self) -> Duration {
        const A_YEAR: f64 = 31_536_000.0;
        let messages = f64::from(self.count);
        let seconds = messages * (1e-3 + f64::from(self.size) / 1e6);
        Duration::from_secs_f64(seconds.min(A_YEAR))
    }

    /// Checks that the client's figures are about the test that the server was asked for. For the server the test `lasted` this long.
    pub(super) fn check_speed(&self, speed: &Speed, lasted: Duration) -> Result<()> {
        let alike = [
            ("-n", "messages", u64::from(self.count), speed.count),
            (
                "-s",
                "octets in a message",
                u64::from(self.size),
                speed.size,
            ),
        ];
        for (flag, what, ours, theirs) in alike {
            if ours != theirs {
                return Err(Failure::new(
                    format!(
                        "the other side has measured {theirs} {what}, and {flag} says {ours} here"
                    ),
                    format!("give both sides the same {flag}, and neither of them -a or -D"),
                ));
            }
        }
        // The time by perftest's figures, which use a processor's clock and may be wrong by some per cent.
        let took = speed.count as f64 / (speed.rate * 1e6);
        if took.is_finite() && took > 2.0 * lasted.as_secs_f64() {
            return Err(Failure::new(
                "the other side has measured after it had ended the test, as it does with -b",
                "leave out -b: this side moves nothing by itself",
            ));
        }
        Ok(())
    }

    /// `send_bw of 65536 B, 1000 times`.
    pub(super) fn title(&self) -> String {
        format!(
            "{} of {} B, {} times",
            self.test.name(),
            self.size,
            self.count
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// The command line behind `nd`.
    #[derive(Debug, Parser)]
    struct Perftest {
        #[command(flatten)]
        args: PerftestArgs,
    }

    fn plan(line: &str) -> TestPlan {
        let words = ["perftest"].into_iter().chain(line.split(' '));
        TestPlan::new(&Perftest::parse_from(words).args)
    }

    #[test]
    fn numbers_are_written_as_for_perftest() {
        for (text, value) in [
            ("4096", 4096),
            ("4K", 4096),
            ("4k", 4096),
            ("4M", 4 << 20),
            ("0x1000", 4096),
            ("0X10k", 16 << 10),
            ("010", 8),
        ] {
            assert_eq!(number::<1>(text), Ok(value), "{text}");
        }
        for bad in [
            "", "K", "0", "-1", "+1", "0x", "0x-1", "4G", "4 K", "4096M", "08", "1.5",
        ] {
            assert!(number::<1>(bad).is_err(), "{bad}");
        }
        assert!(number::<5>("4").is_err());
    }

    #[test]
    fn defaults_are_perftests() {
        let plan = plan("send_bw host");
        assert_eq!((plan.size, plan.count), (65536, 1000));
        assert_eq!((plan.depth, plan.receives), (128, 512));
        let plan = self::plan("write_bw -R host");
        assert_eq!((plan.size, plan.count), (65536, 5000));
        let plan = self::plan("read_lat host");
        assert_eq!((plan.size, plan.count, plan.depth), (2, 1000, 1));
    }

    #[test]
    fn depths_are_cut_to_the_messages() {
        let plan = plan("send_bw -n 40 --listen 127.0.0.1");
        assert_eq!((plan.depth, plan.receives), (40, 40));
    }

    #[test]
    fn credits_come_as_perftest_returned_them_in_captures() {
        let returned = |line: &str| {
            let plan = plan(line);
            let credits: Vec<_> = (1..=plan.count).filter(|n| plan.credit(*n)).collect();
            credits
        };
        assert_eq!(returned("send_bw -n 40 host"), [13, 26, 39, 40]);
        assert_eq!(returned("send_bw -n 600 host"), [170, 340, 510, 512]);
    }

    #[test]
    fn what_was_not_asked_for_is_not_reported() {
        let plan = plan("write_bw -n 1000 -s 4096 host");
        let speed = Speed {
            size: 4096,
            count: 1000,
            rate: 0.01, // so it took 0.1 s
            ..Speed::default()
        };
        let lasted = Duration::from_millis(120);
        assert!(plan.check_speed(&speed, lasted).is_ok());
        // A clock that is wrong by a quarter.
        assert!(plan.check_speed(&speed, lasted.mul_f64(0.7)).is_ok());
        // A figure without meaning.
        let silent = Speed { rate: 0.0, ..speed };
        assert!(plan.check_speed(&silent, lasted).is_ok());
        for (speed, lasted, named) in [
            (
                Speed {
                    count: 2000,
                    ..speed
                },
                lasted,
                "2000 messages, and -n says 1000",
            ),
            (
                Speed {
                    size: 1 << 23,
                    ..speed
                },
                lasted,
                "8388608 octets in a message, and -s says 4096",
            ),
            (speed, Duration::from_millis(1), "-b"),
        ] {
            let text = plan
                .check_speed(&speed, lasted)
                .expect_err(named)
                .to_string();
            assert!(text.contains(named), "{text}");
        }
    }

    #[test]
    fn the_longest_test_is_longer_than_a_slow_one() {
        let longest = |line: &str| plan(line).longest();
        assert_eq!(
            longest("write_bw -n 1000 -s 1000000 host"),
            Duration::from_secs(1001)
        );
        assert!(
            longest("write_bw -n 4294967295 -s 1073741824 host") <= Duration::from_secs(31_536_000)
        );
    }

    #[test]
    fn other_numbers_of_queue_pairs_are_refused() {
        let words = ["perftest", "send_bw", "-q", "2", "host"];
        let failure = Perftest::try_parse_from(words).expect_err("two queue pairs");
        assert!(
            failure.to_string().contains("1..=1") || failure.to_string().contains("not in 1"),
            "{failure}"
        );
    }
}
