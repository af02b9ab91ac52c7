//! The specification of one row of the output.

use std::fmt::{self, Display};

use clap::ValueEnum;
use nd_base::errors::{Failure, Result};
use nd_base::units;
use netdirect::{AdapterInfo, Buffer};
use serde::{Deserialize, Serialize};

/// The RDMA operation that moves the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Op {
    /// Send into Receives
    Send,
    /// RDMA Write into the other side's memory
    Write,
    /// RDMA Read from the other side's memory
    Read,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Test {
    /// One message at a time: half of a round trip of Sends or Writes, or a whole Read
    Latency,
    /// Octets per second, one way, with --depth messages outstanding
    Bandwidth,
    /// Small messages per second, with --depth messages outstanding
    Rate,
    /// What --connections idle connections cost in memory and processor time, and the Send latency on one of them compared
    /// with that of a single connection (not part of a sweep unless named)
    Scale,
    /// Connections set up and torn down per second, one after the other, beside --connections idle ones (not part of a
    /// sweep unless named)
    Setup,
}

/// How both sides wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// Both sides poll their completion queue
    Poll,
    /// Both sides sleep until they are notified, in a call that runs the adapter
    Event,
    /// Both sides sleep on an event object, which the adapter's own thread sets
    EventObject,
    /// Both sides poll a future and sleep until the adapter's own thread wakes it
    Future,
    /// Both sides spin on the last byte of their buffer and never call the adapter to wait (Write latency only)
    Memory,
}

/// Where the queue pairs of a side take their Receives from.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Receives {
    /// Each queue pair has its own receive queue
    #[default]
    Own,
    /// All queue pairs of a side take their Receives from a shared receive queue
    Shared,
}

/// Where the TCP segments of the adapter begin.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Boundaries {
    /// Not inside CRC fields, if the system allows that
    #[default]
    OutsideCrcs,
    /// Anywhere
    Any,
}

/// What carries the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Transport {
    /// Streams of TCP.
    #[default]
    Tcp,
    /// Streams of QUIC, over UDP.
    Udp,
}

/// On which cores the two processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Placement {
    /// On the cores that the system chooses, because the processes are on different machines.
    Free,
    /// Each on its own core.
    Apart,
    /// Both on the same one.
    Together,
}

/// A value is shown by the name that it has on the command line and in messages.
macro_rules! shown_by_name {
    ($($type:ident)+) => {$(
        impl Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.serialize(f)
            }
        }
    )+};
}

shown_by_name!(Op Test Mode Receives Boundaries Transport Placement);

impl Mode {
    /// Returns true if both sides sleep while they wait.
    pub(crate) const fn sleeps(self) -> bool {
        match self {
            Self::Event | Self::EventObject | Self::Future => true,
            Self::Poll | Self::Memory => false,
        }
    }
}

impl Test {
    /// Returns true if the test is about connections rather than about messages.
    pub(crate) fn is_of_connections(self) -> bool {
        matches!(self, Self::Scale | Self::Setup)
    }
}

/// One row: everything that both sides have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pub(crate) op: Op,
    pub(crate) test: Test,
    /// Octets per message.
    pub(crate) size: u32,
    /// Requests that may be outstanding at the side that issues them.
    pub(crate) depth: u32,
    pub(crate) mode: Mode,
    pub(crate) crc: bool,
    /// TCP's maximum segment size, if it is to be limited.
    pub(crate) segment: Option<u16>,
    pub(crate) boundaries: Boundaries,
    pub(crate) placement: Placement,
    /// Connections that are open and idle during the measurement. 0 if the row is not about connections.
    pub(crate) connections: u32,
    /// Octets that each of these connections moves in each direction before it is idle.
    pub(crate) traffic: Option<u32>,
    /// Where the side that runs the test takes its Receives from. The side that serves the test chooses for itself.
    pub(crate) receives: Receives,
    pub(crate) transport: Transport,
    /// Where in a page of 4,096 octets the memory for messages begins, at both sides. `None`: at the best place.
    pub(crate) page_offset: Option<u16>,
    /// Whether connections within one machine go through shared memory, at both sides. `None`: as the environment of each says.
    pub(crate) same_host: Option<bool>,
}

/// The ones of a side's two rings that a row needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rings {
    /// The ring that data is taken from.
    pub(crate) source: bool,
    /// The ring that data is put into.
    pub(crate) sink: bool,
}

/// The largest ring of one side. More would be a mistake of the user.
const MAX_RING: u64 = 4 << 30;

/// Queue entries beyond those for data: marks at the end of a turn, credits.
pub(super) const SPARE: u32 = 16;

/// In memory mode one Write in this many reports its success. No completion is taken during a turn, because that would be a call of the
/// adapter: all of them have room in the completion queue, which holds more than [`MAX_QUIET`] / [`QUIET`].
pub(super) const QUIET: u32 = 512;

/// Round trips of a turn in memory mode, at most.
pub(super) const MAX_QUIET: u64 = QUIET as u64 * QUIET as u64;

/// The smallest segment size that systems take for TCP over IPv4.
const MIN_SEGMENT: u16 = 88;

impl Spec {
    /// The row with Receives of each queue pair's own, memory at the best place, and whole CRC fields.
    pub(crate) fn plain(&self) -> Self {
        Self {
            receives: Receives::Own,
            boundaries: Boundaries::OutsideCrcs,
            page_offset: None,
            ..*self
        }
    }

    /// The row over TCP, also within one machine.
    pub(crate) fn over_tcp(&self) -> Self {
        Self {
            same_host: Some(false),
            ..*self
        }
    }

    /// Returns how many messages the ring holds: one for each request that may be outstanding.
    pub(crate) fn slots(&self) -> u32 {
        self.depth
    }

    /// Octets of a ring.
    pub(crate) fn ring(&self) -> u64 {
        u64::from(self.size) * u64::from(self.slots())
    }

    /// Messages that the sender may have on their way to Receives: twice the depth, so that credits return before they are
    /// needed.
    pub(crate) fn window(&self) -> u32 {
        self.depth.saturating_mul(2)
    }

    /// The octets that a message has on its stream, if it is a Send that is short enough for one FPDU: length, header of an untagged
    /// segment, payload, padding and CRC field (RFC 5044 section 4, RFC 5041 section 4).
    pub(crate) fn octets_of_send(&self) -> usize {
        (2 + 18 + self.size as usize).next_multiple_of(4) + 4
    }

    /// Messages for which one credit message is sent.
    pub(crate) fn credit_batch(&self) -> u32 {
        (self.depth / 2).max(1)
    }

    /// Returns true if single messages are timed. Otherwise the messages in a time are counted.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(self.test, Test::Latency | Test::Scale)
    }

    /// Returns true if the row is about connections rather than about messages.
    pub(crate) fn is_of_connections(&self) -> bool {
        self.test.is_of_connections()
    }

    /// Returns true if data flows into Receives without a pause, so that credits are needed.
    pub(crate) fn is_credited(&self) -> bool {
        self.op == Op::Send && !self.is_timed()
    }

    /// Returns true if data comes to the side that runs the test in its Receives.
    pub(crate) fn client_receives_data(&self) -> bool {
        self.op == Op::Send && self.is_timed()
    }

    /// The rings of the side that runs the test.
    pub(crate) fn client_rings(&self) -> Rings {
        Rings {
            source: self.op != Op::Read,
            sink: self.op == Op::Read || self.is_timed(),
        }
    }

    /// The rings of the side that serves it.
    pub(crate) fn server_rings(&self) -> Rings {
        let Rings { source, sink } = self.client_rings();
        Rings {
            source: sink,
            sink: source,
        }
    }

    /// Receives that the side which serves the test keeps posted.
    pub(crate) fn server_receives(&self) -> u32 {
        if self.is_credited() {
            self.window()
        } else {
            SPARE
        }
    }

    /// The last octet of a message at the end of a turn, where each side notices messages by this octet.
    pub(crate) fn last_octet(&self) -> Option<u8> {
        (self.op == Op::Write && self.is_timed()).then_some(0)
    }

    /// Requests other than Receives that each side's queue pair holds.
    pub(crate) fn initiator(&self) -> u32 {
        let quiet = if self.mode == Mode::Memory {
            2 * QUIET
        } else {
            0
        };
        self.depth.saturating_add(SPARE).max(quiet)
    }

    /// Of this many requests, one reports its success.
    pub(crate) fn signals(&self) -> u32 {
        match self.mode {
            Mode::Memory => QUIET,
            _ if self.is_timed() => SPARE / 2,
            // Often enough that the queue never runs empty because a report is missing.
            _ => (self.depth / 8).max(1),
        }
    }

    /// Checks the row as far as possible without an adapter.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_numbers()?;
        self.check_sense()
    }

    /// Checks the row's numbers.
    pub(crate) fn check_numbers(&self) -> Result<()> {
        if self.size == 0 {
            return Err(Failure::new(
                "a message of 0 bytes cannot be measured",
                "choose a --size of 1 or more",
            ));
        }
        if self.depth == 0 {
            return Err(Failure::new(
                "at a depth of 0 nothing would be under way",
                "choose a --depth of 1 or more",
            ));
        }
        if self.test == Test::Scale && self.connections == 0 {
            return Err(Failure::new(
                "the cost of 0 connections cannot be measured",
                "choose --connections of 1 or more",
            ));
        }
        if self.traffic == Some(0) {
            return Err(Failure::new(
                "traffic of 0 bytes is none",
                "choose a --traffic of 1 or more, or leave it out",
            ));
        }
        if let Some(offset) = self
            .page_offset
            .filter(|offset| usize::from(*offset) >= Buffer::PAGE)
        {
            return Err(Failure::new(
                format!(
                    "an offset of {offset} is not in a page of {} bytes",
                    Buffer::PAGE
                ),
                format!("choose a --page-offset below {}", Buffer::PAGE),
            ));
        }
        if let Some(segment) = self.segment.filter(|segment| *segment < MIN_SEGMENT) {
            return Err(Failure::new(
                format!("a segment of {segment} bytes is too small for TCP"),
                format!("choose a --segment of {MIN_SEGMENT} or more"),
            ));
        }
        Ok(())
    }

    /// Checks that the row's values make sense together.
    pub(crate) fn check_sense(&self) -> Result<()> {
        if self.is_of_connections() && self.op != Op::Send {
            return Err(Failure::new(
                format!("--test {} cannot measure {}s", self.test, self.op),
                "leave out --op, or use --op send",
            ));
        }
        if self.traffic.is_some() && self.test != Test::Scale {
            return Err(Failure::new(
                format!("--traffic says nothing about {}", self.test),
                "leave out --traffic, or use --test scale",
            ));
        }
        match (self.mode, self.op, self.test) {
            (Mode::Memory, Op::Write, Test::Latency) => {}
            (Mode::Memory, op, test) => {
                return Err(Failure::new(
                    format!(
                        "--mode memory cannot measure {op} {test}: it watches the memory that a Write changes"
                    ),
                    "use it with --op write --test latency",
                ));
            }
            (mode, Op::Write, Test::Latency) if mode.sleeps() => {
                return Err(Failure::new(
                    format!(
                        "--mode {mode} cannot measure write latency: a Write makes no event at its target"
                    ),
                    "use --mode poll or --mode memory, or --op send",
                ));
            }
            _ => {}
        }
        if self.placement == Placement::Together && !self.mode.sleeps() {
            return Err(Failure::new(
                format!(
                    "--one-core cannot measure --mode {}: each side would wait for the other's time slice to end",
                    self.mode
                ),
                "use it with --mode event",
            ));
        }
        Ok(())
    }

    /// Checks the row against the limits of an adapter that takes its Receives from there.
    pub(crate) fn check_limits(&self, info: &AdapterInfo, from: Receives) -> Result<()> {
        let over = |what: &str, asked: u64, limit: u64| {
            Failure::new(
                format!("{what} {asked} is over the adapter's limit of {limit}"),
                "compare with the limits that `nd info` shows",
            )
        };
        let sizes = [
            ("the message size", self.size),
            ("the traffic of a connection,", self.traffic.unwrap_or(0)),
        ];
        for (what, size) in sizes {
            if size > info.max_transfer_length {
                return Err(over(what, size.into(), info.max_transfer_length.into()));
            }
        }
        let ring = self.ring();
        if ring > MAX_RING {
            return Err(Failure::new(
                format!(
                    "depth {} times {} is more than the {} that a test may use",
                    self.depth,
                    units::bytes(self.size.into()),
                    units::bytes(MAX_RING)
                ),
                "choose a smaller --depth or --size",
            ));
        }
        if ring > info.max_registration_size {
            return Err(over(
                "the memory for depth times size,",
                ring,
                info.max_registration_size,
            ));
        }
        let initiator = u64::from(self.initiator());
        let receives = u64::from(self.server_receives());
        let max_receives = match from {
            Receives::Own => info.max_receive_queue_depth,
            Receives::Shared => info.max_shared_receive_queue_depth,
        };
        if max_receives == 0 && from == Receives::Shared {
            return Err(Failure::new(
                "the adapter has no shared receive queues",
                "leave out --receives shared",
            ));
        }
        let limits = [
            ("depth", initiator, info.max_initiator_queue_depth),
            ("depth", receives, max_receives),
            (
                "depth",
                initiator + receives,
                info.max_completion_queue_depth,
            ),
        ];
        for (what, needed, limit) in limits {
            if needed > u64::from(limit) {
                return Err(Failure::new(
                    format!(
                        "{what} {} needs queues of {needed} entries, over the adapter's limit of {limit}",
                        self.depth
                    ),
                    "choose a smaller --depth, or compare with the limits that `nd info` shows",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const SPEC: Spec = Spec {
        op: Op::Write,
        test: Test::Bandwidth,
        size: 65_536,
        depth: 32,
        mode: Mode::Poll,
        crc: false,
        segment: None,
        boundaries: Boundaries::OutsideCrcs,
        placement: Placement::Apart,
        connections: 0,
        traffic: None,
        receives: Receives::Own,
        transport: Transport::Tcp,
        page_offset: None,
        same_host: None,
    };

    fn info() -> AdapterInfo {
        let mut info = AdapterInfo::default();
        info.max_transfer_length = 1 << 20;
        info.max_registration_size = 1 << 40;
        info.max_initiator_queue_depth = 256;
        info.max_receive_queue_depth = 256;
        info.max_shared_receive_queue_depth = 64;
        info.max_completion_queue_depth = 512;
        info
    }

    /// Rows in which every value has another one somewhere.
    pub(crate) const SPECS: [Spec; 4] = [
        SPEC,
        Spec {
            op: Op::Read,
            crc: true,
            segment: Some(1448),
            boundaries: Boundaries::Any,
            same_host: Some(true),
            ..SPEC
        },
        Spec {
            test: Test::Latency,
            mode: Mode::EventObject,
            placement: Placement::Together,
            receives: Receives::Shared,
            transport: Transport::Udp,
            page_offset: Some(16),
            ..SPEC
        },
        Spec {
            op: Op::Send,
            test: Test::Scale,
            connections: 10_000,
            traffic: Some(1 << 20),
            ..SPEC
        },
    ];

    #[test]
    fn values_are_shown_by_the_names_of_the_command_line() {
        for mode in Mode::value_variants() {
            let value = mode.to_possible_value().expect("none is hidden");
            assert_eq!(mode.to_string(), value.get_name());
        }
        let boundaries = Boundaries::OutsideCrcs.to_possible_value();
        assert_eq!(
            boundaries.expect("not hidden").get_name(),
            Boundaries::OutsideCrcs.to_string()
        );
    }

    #[test]
    fn zero_is_refused_by_name() {
        for (bad, name) in [
            (Spec { size: 0, ..SPEC }, "--size"),
            (Spec { depth: 0, ..SPEC }, "--depth"),
            (
                Spec {
                    segment: Some(1),
                    ..SPEC
                },
                "--segment",
            ),
            (
                Spec {
                    test: Test::Scale,
                    ..SPEC
                },
                "--connections",
            ),
        ] {
            let failure = bad.check().expect_err(name).to_string();
            assert!(failure.contains(name), "{failure}");
        }
        assert!(SPEC.check().is_ok());
    }

    #[test]
    fn modes_that_cannot_wait_for_an_operation_are_refused() {
        let latency = Spec {
            test: Test::Latency,
            ..SPEC
        };
        for (bad, name) in [
            (
                Spec {
                    mode: Mode::Memory,
                    ..SPEC
                },
                "write bandwidth",
            ),
            (
                Spec {
                    mode: Mode::Event,
                    ..latency
                },
                "write latency",
            ),
            (
                Spec {
                    placement: Placement::Together,
                    ..SPEC
                },
                "--one-core",
            ),
            (
                Spec {
                    test: Test::Setup,
                    ..SPEC
                },
                "--test setup cannot measure writes",
            ),
        ] {
            let failure = bad.check().expect_err(name).to_string();
            assert!(failure.contains(name), "{failure}");
        }
        assert!(
            Spec {
                mode: Mode::Memory,
                ..latency
            }
            .check()
            .is_ok()
        );
    }

    #[test]
    fn what_is_over_the_adapters_limits_is_refused_by_name() {
        assert!(SPEC.check_limits(&info(), Receives::Own).is_ok());
        for (bad, name) in [
            (
                Spec {
                    size: (1 << 20) + 1,
                    ..SPEC
                },
                "message size",
            ),
            (Spec { depth: 241, ..SPEC }, "depth 241"),
            (
                Spec {
                    op: Op::Send,
                    depth: 129,
                    ..SPEC
                },
                "depth 129",
            ),
            (
                Spec {
                    size: 1 << 20,
                    depth: 1 << 13,
                    ..SPEC
                },
                "4 GiB",
            ),
        ] {
            let failure = bad.check_limits(&info(), Receives::Own);
            let failure = failure.expect_err(name).to_string();
            assert!(failure.contains(name), "{failure}");
        }
    }

    #[test]
    fn shared_receives_have_a_limit_of_their_own() {
        let send = |depth| Spec {
            op: Op::Send,
            depth,
            ..SPEC
        };
        assert!(send(33).check_limits(&info(), Receives::Own).is_ok());
        assert!(send(32).check_limits(&info(), Receives::Shared).is_ok());
        let failure = send(33).check_limits(&info(), Receives::Shared);
        let failure = failure.expect_err("66 Receives").to_string();
        assert!(failure.contains("depth 33"), "{failure}");
        let mut without = info();
        without.max_shared_receive_queue_depth = 0;
        assert!(SPEC.check_limits(&without, Receives::Own).is_ok());
        let failure = SPEC.check_limits(&without, Receives::Shared);
        let failure = failure.expect_err("none").to_string();
        assert!(failure.contains("no shared receive queues"), "{failure}");
    }

    #[test]
    fn each_side_has_the_rings_that_data_moves_between() {
        let rings = |op, test| {
            let spec = Spec { op, test, ..SPEC };
            let (client, server) = (spec.client_rings(), spec.server_rings());
            [client.source, client.sink, server.source, server.sink]
        };
        assert_eq!(
            rings(Op::Write, Test::Bandwidth),
            [true, false, false, true]
        );
        assert_eq!(rings(Op::Read, Test::Bandwidth), [false, true, true, false]);
        assert_eq!(rings(Op::Read, Test::Latency), [false, true, true, false]);
        assert_eq!(rings(Op::Send, Test::Latency), [true; 4]);
    }
}
