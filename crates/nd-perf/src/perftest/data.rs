//! The second connection, on which the test runs: memory, queues, and how to wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use nd_base::errors::{Failure, Result};
use nd_base::session::{Depths, Endpoint, Region, Session};
use nd_base::units;
use netdirect::{
    CompletionResult, Connector, MrFlags, OpFlags, RemoteAddress, RequestType, Sge, Status,
};

use super::plan::TestPlan;
use crate::device::Program;

/// Empty polls between two looks at the clock.
const LOOK: u32 = 1 << 10;

/// The time to sleep while the other side may write into memory, which wakes no thread.
const NAP: Duration = Duration::from_millis(1);

/// Octets of a credit: how many messages have been taken so far, in the order of the host's octets.
pub(super) const CREDIT: usize = 4;

/// Messages between two steps of the progress bar.
const STEP: u32 = 64;

/// One side's end of the second connection.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) endpoint: Endpoint,
    pub(super) plan: TestPlan,
    /// Where messages come from.
    source: Region,
    /// Where messages go: the memory that the other side writes in Write tests, and that Receives and Reads fill.
    sink: Region,
    /// The memory that the other side reads or writes.
    reached: Reached,
    /// Credits, as they come in or go out.
    credits: Region,
    bar: ProgressBar,
    /// Messages that are done.
    done: u32,
    limit: Duration,
    empty: u32,
    deadline: Option<Instant>,
}

/// The memory that a test has the other side write to or read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    Source,
    Sink,
    Credits,
}

/// The measurements of a side.
#[derive(Debug)]
pub(super) struct Measurement {
    /// The time from the first message to the last.
    pub(super) time: Duration,
    /// The latency of each message, in nanoseconds, where that is measured.
    pub(super) latencies: Option<Histogram<u64>>,
}

impl Data {
    /// The objects of the connection, with Receives posted where Sends will come.
    pub(super) fn new(
        session: &Session,
        connector: Arc<dyn Connector>,
        plan: TestPlan,
        cycle: u32,
        limit: Duration,
    ) -> Result<Self> {
        let reach = plan.reach(cycle);
        let (source, sink, reached) = match plan.test {
            test if test.reads() => (
                MrFlags::ALLOW_REMOTE_READ,
                MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK,
                Reached::Source,
            ),
            test if test.writes() => (MrFlags::empty(), MrFlags::ALLOW_REMOTE_WRITE, Reached::Sink),
            _ => (
                MrFlags::empty(),
                MrFlags::ALLOW_LOCAL_WRITE,
                Reached::Credits,
            ),
        };
        let receives = if plan.test.sends() { plan.receives } else { 1 };
        let depths = Depths {
            receives,
            initiator: plan.depth + 1,
            initiator_sges: 1,
        };
        let data = Self {
            endpoint: session.endpoint(depths, connector)?,
            plan,
            source: session.register(reach, source)?,
            sink: session.register(reach, sink)?,
            reached,
            credits: session.register(CREDIT, MrFlags::ALLOW_REMOTE_WRITE)?,
            bar: progress(plan),
            done: 0,
            limit,
            empty: 0,
            deadline: None,
        };
        if plan.test.sends() {
            (0..receives).try_for_each(|_| data.receive())?;
        }
        Ok(data)
    }

    /// The address that the other side is to read or write.
    pub(super) fn place(&self) -> RemoteAddress {
        match self.reached {
            Reached::Source => self.source.remote(),
            Reached::Sink => self.sink.remote(),
            Reached::Credits => self.credits.remote(),
        }
    }

    /// Returns how long nothing may move.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    fn message(&self, region: &Region) -> [Sge; 1] {
        [region.sge(0..self.plan.size as usize)]
    }

    pub(super) fn receive(&self) -> Result<()> {
        self.posted(self.endpoint.qp.receive(0, &self.message(&self.sink)))
    }

    pub(super) fn send(&self) -> Result<()> {
        let part = self.message(&self.source);
        self.posted(self.endpoint.qp.send(0, &part, OpFlags::empty()))
    }

    pub(super) fn write(&self, to: RemoteAddress) -> Result<()> {
        let part = self.message(&self.source);
        self.posted(self.endpoint.qp.write(0, &part, to, OpFlags::empty()))
    }

    pub(super) fn read(&self, from: RemoteAddress) -> Result<()> {
        let part = self.message(&self.sink);
        self.posted(self.endpoint.qp.read(0, &part, from, OpFlags::empty()))
    }

    /// Writes the credit `taken` to the sender. The number is in the host's order of octets, as the peer reads it.
    pub(super) fn give_credit(&self, taken: u32, to: RemoteAddress) -> Result<()> {
        // Numbers only grow, so a later number in an earlier Write does no harm.
        self.credits.buffer.write(0, &taken.to_ne_bytes());
        let part = [self.credits.sge(0..CREDIT)];
        self.posted(self.endpoint.qp.write(0, &part, to, OpFlags::empty()))
    }

    /// Returns how many messages the other side has confirmed.
    pub(super) fn credit(&self) -> u32 {
        let mut octets = [0; CREDIT];
        self.credits.buffer.read(0, &mut octets);
        u32::from_ne_bytes(octets)
    }

    /// Sets the octet by which the other side of a Write ping-pong knows the message.
    pub(super) fn set_last(&self, value: u8) {
        self.source
            .buffer
            .write(self.plan.size as usize - 1, &[value]);
    }

    /// The same octet as the other side has written it here.
    pub(super) fn last(&self) -> u8 {
        self.sink.buffer.load(self.plan.size as usize - 1)
    }

    /// A completion that is there now or soon: the kind of the request, and how many octets a Receive has.
    pub(super) fn look(&mut self) -> Result<Option<CompletionResult>> {
        let result = if self.plan.sleeps {
            self.endpoint.next_within(NAP)?
        } else {
            self.endpoint.poll()
        };
        // Completions from before the end can still be taken when the end is seen.
        let result = match result {
            None if self.endpoint.has_ended() => match self.endpoint.poll() {
                None => return Err(self.ended()),
                last => last,
            },
            result => result,
        };
        match result {
            Some(result) => {
                self.deadline = None;
                self.empty = 0;
                self.succeeded(result).map(Some)
            }
            None => self.nothing().map(|()| None),
        }
    }

    /// The same, as long as it takes within the limit.
    pub(super) fn wait(&mut self) -> Result<CompletionResult> {
        loop {
            if let Some(result) = self.look()? {
                return Ok(result);
            }
        }
    }

    /// Notes one more look that found nothing.
    fn nothing(&mut self) -> Result<()> {
        self.empty = self.empty.wrapping_add(1);
        if !self.plan.sleeps {
            // The other side, or the thread that drives it, may need this core.
            std::thread::yield_now();
            if !self.empty.is_multiple_of(LOOK) {
                return Ok(());
            }
        }
        let now = Instant::now();
        if now > *self.deadline.get_or_insert(now + self.limit) {
            return Err(self.silence());
        }
        Ok(())
    }

    fn silence(&self) -> Failure {
        let what = format!(
            "cannot go on with the test after {}: nothing has moved for {}",
            self.so_far(),
            units::time(self.limit)
        );
        if self.plan.test == Program::WriteLat && self.done == 0 {
            // The server writes first, which is forbidden before the client has sent something (RFC 5044 §7.1.2).
            let advice = "check that the other side is alive and has the same -s; with siw as the client, its module \
                          parameter peer_to_peer must be 1, or nobody may write first";
            return Failure::peer(what, advice);
        }
        Failure::peer(what, ALIKE)
    }

    /// `100 of 200 messages`.
    pub(super) fn so_far(&self) -> String {
        format!("{} of {} messages", self.done, self.plan.count)
    }

    /// The error for a connection that ended before all messages were done.
    fn ended(&self) -> Failure {
        let so_far = self.so_far();
        let doing = format_args!("go on with the test after {so_far}");
        self.endpoint.cut_off(doing, || {
            let what = format!("the connection of the test has ended after {so_far}");
            Failure::peer(what, ALIKE)
        })
    }

    /// Checks that no more Sends have arrived, when the side that takes Sends has taken all and waits for the end of the test.
    pub(super) fn check_over(&mut self) -> Result<()> {
        match self.endpoint.poll() {
            Some(result)
                if result.request_type == RequestType::Receive
                    && result.status == Status::SUCCESS =>
            {
                Err(self.too_many())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn too_many(&self) -> Failure {
        Failure::new(
            format!(
                "the other side sends more than the {} messages of -n",
                self.plan.count
            ),
            ALIKE,
        )
    }

    /// Notes progress in memory, which no completion reports.
    pub(super) fn noticed(&mut self) {
        self.deadline = None;
    }

    /// Notes how many messages are done.
    pub(super) fn progress(&mut self, done: u32) {
        self.done = done;
        if done.is_multiple_of(STEP) {
            self.bar.set_position(done.into());
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Checks that the other side's Send has filled a Receive as agreed.
    pub(super) fn check(&self, result: &CompletionResult) -> Result<bool> {
        if result.request_type != RequestType::Receive {
            return Ok(false);
        }
        if result.bytes_transferred == self.plan.size {
            return Ok(true);
        }
        Err(Failure::new(
            format!(
                "a message of {} octets came, and -s says {}",
                result.bytes_transferred, self.plan.size
            ),
            "give both sides the same -s, and neither of them -a",
        ))
    }

    fn succeeded(&self, result: CompletionResult) -> Result<CompletionResult> {
        match result.status {
            Status::SUCCESS => Ok(result),
            Status::CANCELED => Err(self.ended()),
            status => {
                let doing = format!("finish a {:?} after {}", result.request_type, self.so_far());
                Err(self.endpoint.failure(doing, status).advise(ALIKE))
            }
        }
    }

    /// Returns an error unless the request was taken.
    fn posted(&self, call: netdirect::Result<()>) -> Result<()> {
        call.map_err(|error| match error.status() {
            Status::CONNECTION_INVALID => self.ended(),
            _ => Failure::nd("post a request", &error),
        })
    }
}

/// The advice about options that both sides need to have alike, and about options that nd does not have. The exchange does
/// not mention them.
pub(super) const ALIKE: &str = "look at what the other side says; both need the same -s, -n and -r, and neither -a, -b, -D \
                                nor --run_infinitely";

/// A bar on standard error, if that is a terminal.
fn progress(plan: TestPlan) -> ProgressBar {
    let bar = ProgressBar::new(plan.count.into()).with_message(plan.test.name());
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar
}

/// An empty histogram: up to an hour with three digits.
pub(super) fn histogram() -> Result<Histogram<u64>> {
    const HOUR: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, HOUR, 3).map_err(|error| {
        Failure::new(
            format!("cannot count latencies: {error}"),
            "this should not happen: report it",
        )
    })
}
