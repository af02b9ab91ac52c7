//! The arguments of `nd perf`, and the rows that they stand for.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use nd_base::args::{Format, octets, seconds};
use nd_base::errors::{Failure, Result};
use nd_base::provider::OVER_TCP;
use nd_base::units;

use super::plan::{Baseline, Plan};
use super::spec::{Boundaries, Mode, Op, Placement, Receives, Spec, Test, Transport};

/// The arguments of `nd perf`.
#[derive(Debug, Args)]
pub struct Perf {
    #[command(subcommand)]
    pub(super) command: PerfCommand,
}

/// The commands below `nd perf`.
#[derive(Debug, Subcommand)]
pub(super) enum PerfCommand {
    /// Serves `nd perf run`, one client after the other
    Serve(ServeArgs),
    /// Measures with a waiting `nd perf serve` on the other side
    Run(RunArgs),
    /// Measures between two processes on this machine
    Local(LocalArgs),
    /// Compares this program over verbs:// with perftest's own programs, on an RDMA device of this machine
    Device(DeviceArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen: HOST:PORT; port 0 takes any free port [default: any free port of 127.0.0.1, or of ::1 without IPv4]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,

    /// Serves only tests with this way of waiting
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,

    /// Serves only tests of this operation
    #[arg(long, value_enum)]
    pub(crate) op: Option<Op>,

    /// The most memory that a client may have this side allocate; k, M and G are binary
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = octets)]
    pub(crate) memory: u64,

    /// Gives a client up that says nothing for this many seconds, or with which nothing completes for this long, whatever its --timeout
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub(crate) silence: Duration,

    /// Ends after the first client, which is the process that has started this one: without limits
    #[arg(long, hide = true)]
    pub(crate) once: bool,

    /// The URL of the adapter of this side; the other side chooses its own [default: the adapter that has the address, or from
    /// which it can be reached]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    #[command(flatten)]
    pub(crate) side: SideArgs,
}

/// The options that each of the two processes chooses for itself.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SideArgs {
    /// Where queue pairs take their Receives from; `nd perf run` and `nd perf serve` choose each for itself, `nd perf local`
    /// chooses for both processes
    #[arg(long, value_enum, default_value_t)]
    pub(crate) receives: Receives,

    /// Has things go wrong by a fault plan: its text, or @ and the file that has it (with `nd perf local` in the process that
    /// runs the tests). Each row begins the plan anew
    #[arg(long, value_name = "PLAN")]
    pub(crate) fault: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Where `nd perf serve` listens: HOST:PORT
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,

    /// The URL of the adapter of this side; the other side chooses its own [default: the adapter that has the address, or from
    /// which it can be reached]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    #[command(flatten)]
    pub(crate) tests: TestArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LocalArgs {
    /// Binds both processes to one core (with --mode event)
    #[arg(long)]
    pub(crate) one_core: bool,

    /// Waits, up to a minute before a row and 20 s within one, while a cache line takes more than twice this long from core to core,
    /// because the host has moved them apart [default: as long as in most of the rows before]
    #[arg(long, value_name = "NANOSECONDS", num_args = 0..=1, require_equals = true)]
    #[arg(conflicts_with = "one_core")]
    pub(crate) steady: Option<Option<NonZeroU32>>,

    /// The URL of the adapter, which both processes open [default: the one that has 127.0.0.1, or ::1 without IPv4]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    #[command(flatten)]
    pub(crate) tests: TestArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    /// The device, such as mlx5_0; `rdma link` shows those of this machine
    #[arg(value_name = "NAME")]
    pub(crate) device: String,

    /// Turns of each program, of which each is a pair of processes
    #[arg(long, value_name = "N", default_value = "9")]
    pub(crate) turns: NonZeroU32,

    /// How the results are printed
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = Format::parser(FORMATS))]
    pub(crate) format: Format,
}

/// What is measured, and how it is shown. Without a choice, all values are measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct TestArgs {
    /// The operations to measure [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) op: Vec<Op>,

    /// What to measure [default: latency, bandwidth and rate; scale and setup only if named]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) test: Vec<Test>,

    /// Octets per message; k, M and G are binary [default: several sizes]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size)]
    pub(crate) size: Vec<u32>,

    /// Outstanding messages, except for latency [default: 32; for Reads 16, for rate 128]
    #[arg(long, value_name = "N")]
    pub(crate) depth: Option<u32>,

    /// Idle connections, for --test scale [default: 10000] and --test setup [default: 0]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(crate) connections: Vec<u32>,

    /// Octets that each idle connection moves in each direction before it is idle, for --test scale; k, M and G are binary [default: none]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) traffic: Option<u32>,

    /// How both sides wait [default: poll and event; for scale poll]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) mode: Vec<Mode>,

    /// Measures connections over UDP instead of TCP; QUIC takes the place of the CRC
    #[arg(long, conflicts_with_all = ["crc", "segment", "boundaries"])]
    pub(crate) udp: bool,

    /// Has connections within this machine go through shared memory, at both sides
    #[arg(long, conflicts_with_all = ["udp", "segment", "boundaries"])]
    pub(crate) same_host: bool,

    /// With and without CRC [default: both]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) crc: Vec<Switch>,

    /// Limits the TCP segments of the adapter, and the segments or datagrams of the baseline, to this many octets
    #[arg(long, value_name = "N")]
    pub(crate) segment: Option<u16>,

    /// Where TCP segments of the adapter begin, at both sides
    #[arg(long, value_enum, default_value_t)]
    pub(crate) boundaries: Boundaries,

    /// Where in a page of 4,096 octets the memory for messages begins, at both sides [default: at the place that is best for the
    /// kernel's copies]
    #[arg(long, value_name = "N")]
    pub(crate) page_offset: Option<u16>,

    /// Compares each row with the same exchange over another connection; the two take turns
    #[arg(long, value_enum)]
    pub(crate) baseline: Option<Baseline>,

    /// Turns per row and side of the comparison [default: at least 9]
    #[arg(long, value_name = "N")]
    pub(crate) turns: Option<u32>,

    /// Seconds per row and side of the comparison; a turn takes at most a tenth of it [default: 0.45; for the idle time of --test scale 3]
    #[arg(long, value_name = "SECONDS", value_parser = duration)]
    pub(crate) duration: Option<Duration>,

    /// Gives up if nothing has completed for this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    // On a slow path a whole window of messages is under way.
    #[arg(default_value = "60")]
    pub(crate) timeout: Duration,

    /// How the results are printed
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = Format::parser(FORMATS))]
    pub(crate) format: Format,

    /// Draws latency and bandwidth over message size
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) side: SideArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

const FORMATS: &[(Format, &str)] = &[
    (Format::Text, "Tables for people"),
    (Format::Json, "One JSON object per line and row"),
    (
        Format::Csv,
        "One line of comma-separated values per row, after a header line",
    ),
];

/// The default number of turns of a row.
const TURNS: u32 = 9;

/// The default length of a turn.
const TURN: Duration = Duration::from_millis(50);

/// The default time for which many connections are idle.
const IDLE: Duration = Duration::from_secs(3);

/// The default number of idle connections of `--test scale`.
const CONNECTIONS: u32 = 10_000;

/// The longest turn. The machine drifts within seconds, so turns that are compared have to be close together.
const LONGEST_TURN: Duration = Duration::from_millis(100);

impl ServeArgs {
    /// The most memory that a client may have this side allocate, if there is a limit.
    pub(super) fn memory(&self) -> Option<u64> {
        (!self.once).then_some(self.memory)
    }

    /// Returns how long a client may be silent, unless it may choose that itself.
    pub(super) fn silence(&self) -> Option<Duration> {
        (!self.once).then_some(self.silence)
    }

    /// Checks that this side serves a row.
    pub(super) fn check(&self, spec: &Spec) -> Result<()> {
        let other = |what: &str, ours: String, theirs: String| {
            Err(Failure::new(
                format!("this side serves {what} {ours}, and {what} {theirs} was asked for"),
                format!("run with --{what} {ours}, or serve without --{what}"),
            ))
        };
        match (self.mode, self.op) {
            (Some(mode), _) if mode != spec.mode => {
                other("mode", mode.to_string(), spec.mode.to_string())
            }
            (_, Some(op)) if op != spec.op => other("op", op.to_string(), spec.op.to_string()),
            _ => Ok(()),
        }
    }
}

/// The rows that a user has chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// Those that are measured.
    pub(super) measured: Vec<Spec>,
    /// Those that cannot be measured, each with the reason.
    pub(super) senseless: Vec<(Spec, String)>,
}

impl TestArgs {
    /// Returns the plan by which rows are measured.
    pub(super) fn plan(&self) -> Result<Plan> {
        let shortest = |duration: Duration| duration.div_duration_f64(TURN).ceil();
        let (turns, length) = match (self.turns, self.duration) {
            (None, None) => (TURNS, TURN),
            (Some(turns), None) => (turns, TURN),
            (None, Some(duration)) => {
                // At most a day in turns of 50 ms.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let turns = TURNS.max(shortest(duration) as u32);
                (turns, duration / turns)
            }
            (Some(0), Some(_)) => (0, TURN),
            (Some(turns), Some(duration)) => (turns, duration / turns),
        };
        if turns == 0 {
            return Err(Failure::new(
                "without a turn there is nothing to measure",
                "choose --turns of 1 or more",
            ));
        }
        if length > LONGEST_TURN {
            return Err(Failure::new(
                format!(
                    "{turns} turns in that --duration are {} long each, more than {}",
                    units::time(length),
                    units::time(LONGEST_TURN)
                ),
                "choose more --turns, or a shorter --duration",
            ));
        }
        Ok(Plan {
            baseline: self.baseline,
            turns,
            length,
            idle: self.duration.unwrap_or(IDLE),
            url: None,
            fault: self.side.fault.clone(),
            pin: None,
            timeout: self.timeout,
            steady: false,
            usual: None,
        })
    }

    /// An error for an argument that applies to none of the chosen tests.
    fn check_chosen(&self) -> Result<()> {
        let of_connections = |test: &Test| test.is_of_connections();
        let pointless = |option: &str, tests: &str| {
            Err(Failure::new(
                format!("{option} says nothing about {tests}"),
                format!("leave out {option}, or choose another --test"),
            ))
        };
        if !self.connections.is_empty() && !self.test.iter().any(of_connections) {
            return pointless("--connections", "latency, bandwidth and rate");
        }
        if self.traffic.is_some() && !self.test.contains(&Test::Scale) {
            return pointless("--traffic", "tests other than scale");
        }
        if self.udp && self.baseline == Some(Baseline::OverTcp) {
            return Err(Failure::new(
                format!("--baseline {OVER_TCP} says nothing about connections over UDP"),
                "leave out --udp, or choose another --baseline",
            ));
        }
        if self.test.is_empty() || !self.test.iter().all(of_connections) {
            return Ok(());
        }
        let of_setup = matches!(self.baseline, Some(Baseline::Tcp | Baseline::OverTcp));
        let compared = self.test.contains(&Test::Setup) && of_setup;
        if self.baseline.is_some() && !compared {
            return pointless(
                "--baseline",
                &format!("scale, and only tcp and {OVER_TCP} about setup"),
            );
        }
        let of_messages = [
            ("--op", !self.op.is_empty()),
            ("--size", !self.size.is_empty()),
            ("--mode", !self.mode.is_empty()),
            ("--depth", self.depth.is_some()),
        ];
        match of_messages.iter().find(|(_, given)| *given) {
            Some((option, _)) if self.test.iter().all(|test| *test == Test::Setup) => {
                pointless(option, "setup")
            }
            _ => Ok(()),
        }
    }

    /// The rows, in the order in which they are shown. Combinations that make no sense are left out of a sweep. If no other
    /// combination is left, they are an error.
    pub(super) fn rows(&self, placement: Placement) -> Result<Rows> {
        self.check_chosen()?;
        let (transport, crcs): (_, &[Switch]) = if self.udp {
            (Transport::Udp, &[Switch::Off])
        } else {
            (Transport::Tcp, &[Switch::Off, Switch::On])
        };
        let mut rows = Rows::default();
        let mut senseless = None;
        for test in or(&self.test, &[Test::Latency, Test::Bandwidth, Test::Rate]) {
            // Setting connections up moves no messages, so the choices about messages do not apply.
            let messages = *test != Test::Setup;
            for op in or_if(messages, &self.op, ops(*test)) {
                for mode in or_if(messages, &self.mode, modes(*test)) {
                    for crc in or(&self.crc, crcs) {
                        let sizes = or_if(messages, &self.size, sizes(*test));
                        for (size, connections) in self.sizes_beside(*test, sizes) {
                            let spec = Spec {
                                op: *op,
                                test: *test,
                                size,
                                depth: self.depth(*op, *test),
                                mode: *mode,
                                crc: *crc == Switch::On,
                                segment: self.segment,
                                boundaries: self.boundaries,
                                placement,
                                connections,
                                traffic: self.traffic.filter(|_| *test == Test::Scale),
                                receives: self.side.receives,
                                transport,
                                page_offset: self.page_offset,
                                same_host: self.same_host.then_some(true),
                            };
                            spec.check_numbers()?;
                            match spec.check_sense() {
                                Ok(()) => rows.measured.push(spec),
                                Err(failure) => {
                                    rows.senseless.push((spec, failure.what()));
                                    senseless = Some(failure);
                                }
                            }
                        }
                    }
                }
            }
        }
        match senseless {
            Some(failure) if rows.measured.is_empty() => Err(failure),
            _ => Ok(rows),
        }
    }

    /// Each size with each number of idle connections.
    fn sizes_beside(&self, test: Test, sizes: &[u32]) -> Vec<(u32, u32)> {
        let connections: &[u32] = match test {
            Test::Latency | Test::Bandwidth | Test::Rate => &[0],
            Test::Scale => or(&self.connections, &[CONNECTIONS]),
            Test::Setup => or(&self.connections, &[0]),
        };
        let beside = |size: &u32| {
            let size = *size;
            connections.iter().map(move |number| (size, *number))
        };
        sizes.iter().flat_map(beside).collect()
    }

    fn depth(&self, op: Op, test: Test) -> u32 {
        match (test, op) {
            // An explicit 0 is an error for every test.
            (Test::Latency | Test::Scale, _) => self.depth.unwrap_or(1).min(1),
            (Test::Setup, _) => 1,
            (Test::Rate, _) => self.depth.unwrap_or(128),
            (Test::Bandwidth, Op::Read) => self.depth.unwrap_or(16),
            (Test::Bandwidth, Op::Send | Op::Write) => self.depth.unwrap_or(32),
        }
    }
}

/// The chosen values, or all values if none was chosen.
fn or<'a, T>(chosen: &'a [T], all: &'a [T]) -> &'a [T] {
    or_if(true, chosen, all)
}

/// The chosen or all values if there is a choice, otherwise one fixed value.
fn or_if<'a, T>(choice: bool, chosen: &'a [T], all: &'a [T]) -> &'a [T] {
    if !choice || chosen.is_empty() {
        all
    } else {
        chosen
    }
}

fn ops(test: Test) -> &'static [Op] {
    match test {
        Test::Latency | Test::Bandwidth => &[Op::Send, Op::Write, Op::Read],
        Test::Rate | Test::Scale | Test::Setup => &[Op::Send],
    }
}

fn modes(test: Test) -> &'static [Mode] {
    match test {
        Test::Latency | Test::Bandwidth | Test::Rate => &[Mode::Poll, Mode::Event],
        Test::Scale => &[Mode::Poll],
        // Connectors have nothing to poll.
        Test::Setup => &[Mode::Event],
    }
}

fn sizes(test: Test) -> &'static [u32] {
    match test {
        Test::Latency => &[8, 64, 512, 4 << 10, 32 << 10, 256 << 10],
        Test::Bandwidth => &[64, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
        Test::Rate => &[64],
        Test::Scale | Test::Setup => &[8],
    }
}

/// A number of octets: `8`, `64k`, `1M`.
fn size(text: &str) -> std::result::Result<u32, String> {
    let octets = octets(text)?;
    u32::try_from(octets).map_err(|_| "a message is shorter than 4 GiB".to_owned())
}

fn duration(text: &str) -> std::result::Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time >= Duration::from_millis(1) && time <= Duration::from_secs(3600) => {
            Ok(time)
        }
        _ => Err("must be from 0.001 to 3600".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        tests: TestArgs,
    }

    fn parse(line: &str) -> TestArgs {
        let words = std::iter::once("nd").chain(line.split_whitespace());
        Only::try_parse_from(words).expect(line).tests
    }

    fn rows(line: &str) -> Vec<Spec> {
        parse(line).rows(Placement::Apart).expect(line).measured
    }

    fn refusal(line: &str) -> String {
        let args = parse(line);
        let refused = args.plan().err().or(args.rows(Placement::Apart).err());
        refused.expect(line).to_string()
    }

    #[test]
    fn sizes_have_binary_suffixes() {
        for (text, octets) in [
            ("8", 8),
            ("64k", 65_536),
            ("64K", 65_536),
            ("1M", 1 << 20),
            ("1MiB", 1 << 20),
            ("1G", 1 << 30),
            ("0", 0),
        ] {
            assert_eq!(size(text), Ok(octets), "{text}");
        }
        for bad in ["", "k", "-1", "1.5k", "4G", "64 k", "1T", "ké"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_left_out_is_gone_through() {
        let all = rows("");
        for wanted in [Op::Send, Op::Write, Op::Read] {
            assert!(all.iter().any(|spec| spec.op == wanted));
        }
        for wanted in [Mode::Poll, Mode::Event] {
            assert!(all.iter().any(|spec| spec.mode == wanted));
        }
        assert!(all.iter().any(|spec| spec.crc) && all.iter().any(|spec| !spec.crc));
        let senseless = |spec: &Spec| {
            spec.op == Op::Write && spec.mode == Mode::Event && spec.test == Test::Latency
        };
        assert!(!all.iter().any(senseless));
        assert!(all.iter().all(|spec| spec.check().is_ok()));
    }

    #[test]
    fn what_is_chosen_is_all_that_is_measured() {
        let one = rows("--op read --test bandwidth --size 1M --mode poll --crc off");
        assert_eq!(one.len(), 1);
        assert_eq!(
            (one[0].size, one[0].depth, one[0].crc),
            (1 << 20, 16, false)
        );
        let lists = rows("--op send,write --test bandwidth --size 8,64k --mode event --crc on");
        assert_eq!(lists.len(), 4);
    }

    #[test]
    fn connections_are_measured_only_if_named() {
        assert!(rows("").iter().all(|spec| !spec.is_of_connections()));
        let all = rows("--test scale,setup --crc off");
        let many: Vec<_> = all
            .iter()
            .map(|spec| (spec.test, spec.connections, spec.size, spec.depth))
            .collect();
        assert_eq!(many, [(Test::Scale, 10_000, 8, 1), (Test::Setup, 0, 8, 1)]);
        let chosen =
            "--test latency,setup --connections 7 --op write,send --size 64,1k --mode poll";
        let setup = rows(chosen);
        let setup: Vec<_> = setup
            .iter()
            .filter(|spec| spec.test == Test::Setup)
            .collect();
        assert_eq!(setup.len(), 2, "with CRC and without: {setup:?}");
        assert!(setup.iter().all(|spec| spec.connections == 7));
    }

    #[test]
    fn latency_has_one_message_under_way_whatever_the_depth() {
        let all = rows("--depth 7");
        let depth = |test| {
            all.iter()
                .find(|spec| spec.test == test)
                .map(|spec| spec.depth)
        };
        assert_eq!(depth(Test::Latency), Some(1));
        assert_eq!(depth(Test::Bandwidth), Some(7));
    }

    #[test]
    fn numbers_that_measure_nothing_are_named() {
        for (line, name) in [
            ("--depth 0", "--depth"),
            ("--size 0", "--size"),
            ("--size 8,0", "--size"),
            ("--turns 0", "--turns"),
            ("--turns 0 --duration 1", "--turns"),
            ("--turns 2 --duration 1", "more --turns"),
            ("--op write --test latency --mode event", "--mode event"),
            ("--mode memory --op send", "--mode memory"),
            ("--connections 5", "--connections"),
            ("--test rate --connections 5", "--connections"),
            ("--test scale --connections 0", "--connections"),
            ("--test scale --traffic 0", "--traffic"),
            ("--test setup --traffic 8", "--traffic"),
            ("--traffic 8", "--traffic"),
            ("--test scale --op write", "--op"),
            ("--test scale --depth 0", "--depth"),
            ("--test scale --mode memory", "--mode memory"),
            ("--test scale --baseline tcp", "--baseline"),
            ("--test setup --size 8", "--size"),
            ("--test setup --mode poll", "--mode"),
        ] {
            let text = refusal(line);
            assert!(text.contains(name), "{line}: {text}");
        }
    }

    #[test]
    fn receives_are_own_unless_shared_ones_are_chosen() {
        assert!(rows("").iter().all(|spec| spec.receives == Receives::Own));
        let shared = rows("--receives shared");
        assert!(shared.iter().all(|spec| spec.receives == Receives::Shared));
        assert_eq!(shared.len(), rows("").len());
    }

    #[test]
    fn turns_are_many_and_short() {
        let plan = |line: &str| {
            let plan = parse(line).plan().expect(line);
            (plan.turns, plan.length)
        };
        assert_eq!(plan(""), (9, TURN));
        assert_eq!(plan("--turns 3"), (3, TURN));
        assert_eq!(plan("--duration 0.09"), (9, Duration::from_millis(10)));
        assert_eq!(plan("--duration 2"), (40, TURN));
        assert_eq!(plan("--duration 1 --turns 10"), (10, LONGEST_TURN));
    }

    #[test]
    fn a_side_that_serves_one_mode_or_operation_refuses_others() {
        let spec = super::super::spec::tests::SPEC;
        let serve = |mode, op| ServeArgs {
            url: None,
            listen: None,
            mode,
            op,
            memory: 0,
            silence: Duration::ZERO,
            once: false,
            side: SideArgs::default(),
        };
        assert!(serve(None, None).check(&spec).is_ok());
        assert!(serve(Some(spec.mode), Some(spec.op)).check(&spec).is_ok());
        for other in [serve(Some(Mode::Event), None), serve(None, Some(Op::Read))] {
            let text = other.check(&spec).expect_err("another").to_string();
            assert!(text.contains("was asked for"), "{text}");
        }
    }
}
