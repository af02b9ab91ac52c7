//! One side's end of the RDMA connection under test: memory, queues, and how to wait for completions.
//!
//! The turns themselves, in which the two sides differ, are in `client` and `server`.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use nd_base::errors::{Failure, Result};
use nd_base::memory;
use nd_base::session::{Depths, Endpoint, Region, Session};
use nd_base::{stderr, units};
use netdirect::{
    CompletionQueue, CompletionResult, Connector, Event, MrFlags, NotifyType, OpFlags, Overlapped,
    QueuePair, ReadLimits, RequestType, Sge, Started, Status,
};

use super::affinity;
use super::limit::SilenceLimit;
use super::pattern;
use super::sequence::Signals;
use super::spec::{Mode, Op, Receives, Rings, SPARE, Spec};

/// The most completions that are taken at a time.
const BATCH: usize = 64;

/// Empty polls between two looks at the clock.
const LOOK: u32 = 1 << 14;

/// Registered memory whose slots are used in turn, one for each message.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) region: Region,
    slots: Vec<Sge>,
    size: usize,
}

impl Ring {
    fn new(session: &Session, spec: &Spec, flags: MrFlags) -> Result<Self> {
        let size = spec.size as usize;
        let len = size * spec.slots() as usize;
        let region = match spec.page_offset {
            None => session.register(len, flags)?,
            Some(offset) => session.register_at(len, offset.into(), flags)?,
        };
        let slots = (0..spec.slots() as usize)
            .map(|slot| region.sge(size * slot..size * (slot + 1)))
            .collect();
        Ok(Self {
            region,
            slots,
            size,
        })
    }

    /// The memory of a slot's message.
    #[inline]
    pub(super) fn slot(&self, slot: usize) -> [Sge; 1] {
        [self.slots[slot]]
    }

    /// The slot behind this one.
    #[inline]
    pub(super) fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() {
            0
        } else {
            slot + 1
        }
    }

    /// The offset of a slot's message in the ring, which is the same in the rings of both sides.
    #[inline]
    pub(super) fn offset(&self, slot: usize) -> u64 {
        (slot * self.size) as u64
    }

    fn count(&self) -> usize {
        self.slots.len()
    }

    /// Sets the last octet of the first message.
    #[inline]
    pub(super) fn set_last(&self, value: u8) {
        self.region.buffer.write(self.size - 1, &[value]);
    }

    /// The last octet of the first message, as it is now.
    #[inline]
    fn last(&self) -> u8 {
        self.region.buffer.load(self.size - 1)
    }

    /// Writes what the other side expects into every slot.
    pub(super) fn fill(&self) -> Result<()> {
        let mut octets = memory::zeroed(self.size)?;
        for slot in 0..self.count() {
            pattern::fill(slot, &mut octets);
            self.region.buffer.write(slot * self.size, &octets);
        }
        Ok(())
    }

    /// Checks that every slot holds the data of the other side's slot. `last` is the last octet of each message, if it is not that of the
    /// pattern.
    pub(super) fn verify(&self, last: Option<u8>) -> Result<()> {
        let mut octets = memory::zeroed(self.size)?;
        let mut wanted = memory::zeroed(self.size)?;
        for slot in 0..self.count() {
            self.region.buffer.read(slot * self.size, &mut octets);
            pattern::fill(slot, &mut wanted);
            if let (Some(last), Some(octet)) = (last, wanted.last_mut()) {
                *octet = last;
            }
            if octets != wanted {
                return Err(pattern::mismatch(slot));
            }
        }
        Ok(())
    }

    /// Clears data that was verified, so that later checks find only new data.
    pub(super) fn clear(&self) {
        self.region.buffer.fill(0);
    }
}

/// The memory of one side.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) source: Option<Ring>,
    pub(super) sink: Option<Ring>,
}

impl Memory {
    /// Registers the rings, with the rights that the operation needs, and fills the source.
    pub(super) fn new(session: &Session, spec: &Spec, rings: Rings) -> Result<Self> {
        let (source, sink) = match spec.op {
            Op::Send => (MrFlags::empty(), MrFlags::ALLOW_LOCAL_WRITE),
            Op::Write => (MrFlags::empty(), MrFlags::ALLOW_REMOTE_WRITE),
            Op::Read => (
                MrFlags::ALLOW_REMOTE_READ,
                MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK,
            ),
        };
        let ring =
            |wanted: bool, flags| wanted.then(|| Ring::new(session, spec, flags)).transpose();
        let memory = Self {
            source: ring(rings.source, source)?,
            sink: ring(rings.sink, sink)?,
        };
        if let Some(source) = &memory.source {
            source.fill()?;
        }
        if let Some(sink) = &memory.sink {
            sink.clear(); // touches every page, as the source's were
        }
        Ok(memory)
    }

    /// Checks that the sink holds the data of `moved` messages, if these were enough to fill the whole sink. Clears the
    /// sink.
    pub(super) fn verify(&self, spec: &Spec, moved: u64) -> Result<()> {
        let Some(sink) = &self.sink else {
            return Ok(());
        };
        if moved >= u64::from(spec.slots()) {
            sink.verify(spec.last_octet())?;
        }
        sink.clear();
        Ok(())
    }

    /// The ring that data is taken from, where the row has one.
    pub(super) fn source(&self) -> Result<&Ring> {
        self.source.as_ref().ok_or_else(no_ring)
    }

    /// The ring that data is put into, where the row has one.
    pub(super) fn sink(&self) -> Result<&Ring> {
        self.sink.as_ref().ok_or_else(no_ring)
    }
}

fn no_ring() -> Failure {
    Failure::new(
        "the test has no memory for that direction",
        "this should not happen: report it",
    )
}

/// The way in which a side sleeps until Notify has ended.
#[derive(Debug)]
enum Sleep {
    /// In a call that runs the adapter.
    InCall,
    /// On this event, which Notify sets.
    OnEvent(Event),
    /// In a thread that polls the future of Notify.
    AsFuture,
}

impl Sleep {
    fn for_mode(mode: Mode) -> Option<Self> {
        match mode {
            Mode::Poll | Mode::Memory => None,
            Mode::Event => Some(Self::InCall),
            Mode::EventObject => Some(Self::OnEvent(Event::new())),
            Mode::Future => Some(Self::AsFuture),
        }
    }
}

/// Wakes a thread that polls a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls the future of a request, and parks the thread in between: the least that an executor does. `None` if the time has run out.
fn park_on(request: &Overlapped, limit: Duration) -> Option<Status> {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(request.into_future());
    let start = Instant::now();
    loop {
        if let Poll::Ready(status) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(status);
        }
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

/// The queues and the connection of one side, and how it waits.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) endpoint: Endpoint,
    pub(super) qp: Arc<dyn QueuePair>,
    cq: Arc<dyn CompletionQueue>,
    sleep: Option<Sleep>,
    /// Whether the last poll found fewer completions than there was room for.
    drained: bool,
    notify: Overlapped,
    limit: SilenceLimit,
    results: [CompletionResult; BATCH],
}

impl Lane {
    /// The objects of a connection. `receives` Receives fit, and as many requests as the row's depth.
    pub(super) fn new(
        session: &Session,
        spec: &Spec,
        connector: Arc<dyn Connector>,
        (from, receives): (Receives, u32),
        limit: SilenceLimit,
    ) -> Result<Self> {
        let depths = Depths {
            receives,
            initiator: spec.initiator(),
            initiator_sges: 1,
        };
        let cq = session.completion_queue(depths.receives + depths.initiator)?;
        let srq = match from {
            Receives::Own => None,
            Receives::Shared => Some(session.shared_receive_queue(receives)?),
        };
        let endpoint = session.endpoint_on(cq, srq, depths, connector)?;
        Ok(Self::over(endpoint, spec, limit))
    }

    /// Makes a lane over the objects of a connection.
    pub(super) fn over(endpoint: Endpoint, spec: &Spec, limit: SilenceLimit) -> Self {
        let (qp, cq) = (Arc::clone(&endpoint.qp), Arc::clone(endpoint.cq()));
        let sleep = Sleep::for_mode(spec.mode);
        Self {
            endpoint,
            qp,
            cq,
            notify: match &sleep {
                Some(Sleep::OnEvent(event)) => Overlapped::with_event(event),
                _ => Overlapped::new(),
            },
            sleep,
            drained: false,
            limit,
            results: [CompletionResult::default(); BATCH],
        }
    }

    /// Takes the completions that are there now. Returns their number.
    #[inline]
    pub(super) fn poll(&mut self) -> usize {
        let n = self.cq.get_results(&mut self.results);
        self.drained = n < BATCH;
        n
    }

    /// Waits for completions in the row's mode. Returns their number, at least one.
    #[inline]
    pub(super) fn wait(&mut self) -> Result<usize> {
        if self.sleep.is_some() && self.drained {
            // A queue that was found empty is not polled again before Notify, which sees results that have arrived since (CQ-037).
            return self.sleep();
        }
        match self.poll() {
            0 if self.sleep.is_some() => self.sleep(),
            0 => self.spin(),
            n => Ok(n),
        }
    }

    /// The kind of one of the completions taken last, if it succeeded.
    #[inline]
    pub(super) fn kind(&self, index: usize) -> Result<RequestType> {
        succeeded(&self.endpoint, &self.results[index])
    }

    fn spin(&mut self) -> Result<usize> {
        let mut patience = SpinLimit::new(self.limit);
        loop {
            match self.poll() {
                0 => patience.spent()?,
                n => return Ok(n),
            };
        }
    }

    fn sleep(&mut self) -> Result<usize> {
        loop {
            if !self.notify.is_pending() {
                // A result that has arrived since the queue was found empty ends the request at once (CQ-037).
                let started = self.cq.notify(NotifyType::Any, &self.notify);
                if started.map_err(|error| Failure::nd("wait for completions", &error))?
                    == Started::Done
                {
                    let n = self.poll();
                    if n > 0 {
                        return Ok(n);
                    }
                }
            }
            self.sleep_for_one()?;
            match self.poll() {
                0 => {}
                n => return Ok(n),
            }
        }
    }

    /// Sleeps until Notify has ended.
    fn sleep_for_one(&self) -> Result<()> {
        let mut patience = Patience::new(self.limit);
        loop {
            let limit = patience.next();
            let ended = match &self.sleep {
                None | Some(Sleep::InCall) => self.notify.wait_timeout(limit),
                Some(Sleep::OnEvent(event)) => {
                    event.wait_timeout(limit);
                    Some(self.notify.status()).filter(|status| *status != Status::PENDING)
                }
                Some(Sleep::AsFuture) => park_on(&self.notify, limit),
            };
            match ended {
                Some(Status::SUCCESS) => return Ok(()),
                Some(status) => {
                    return Err(Failure::status("go on with the connection", status).by_peer());
                }
                None => patience.passed()?,
            }
        }
    }

    /// Posts a Receive into a slot of the ring.
    #[inline]
    pub(super) fn receive(&self, slot: usize, sges: &[Sge]) -> Result<()> {
        posted(self.endpoint.receive(slot as u64, sges))
    }

    /// Posts Receives for messages without data, as many as marks may come.
    pub(super) fn receive_marks(&self) -> Result<()> {
        (0..SPARE).try_for_each(|_| self.receive(0, &[]))
    }

    /// Posts a message without data (a mark), which reports the progress of this side to the other side.
    #[inline]
    pub(super) fn mark(&self) -> Result<()> {
        posted(self.qp.send(0, &[], OpFlags::empty()))
    }

    /// Waits for a mark and for this many completions of requests of this side. Posts the mark's Receive again.
    pub(super) fn await_mark(&mut self, mut own: u64) -> Result<()> {
        let mut heard = false;
        while !heard || own > 0 {
            for i in 0..self.wait()? {
                if self.kind(i)? == RequestType::Receive {
                    heard = true;
                    self.receive(0, &[])?;
                } else {
                    own = own.saturating_sub(1);
                }
            }
        }
        Ok(())
    }

    /// Waits for this many completions of requests of this side, when no message to this side is outstanding.
    pub(super) fn await_own(&mut self, mut own: u64) -> Result<()> {
        while own > 0 {
            for i in 0..self.wait()? {
                self.kind(i)?;
                own = own.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// Spins until the octet has the value, without a call of the adapter. With `poll`, polls between two reads of the
    /// octet. Completions that were taken meanwhile are counted in `own`.
    #[inline]
    pub(super) fn watch(
        &mut self,
        ring: &Ring,
        value: u8,
        poll: bool,
        own: &mut Signals,
    ) -> Result<()> {
        let mut patience = SpinLimit::new(self.limit);
        while ring.last() != value {
            if poll {
                for i in 0..self.poll() {
                    self.kind(i)?;
                    own.complete();
                }
            } else {
                std::hint::spin_loop();
            }
            if patience.spent()? && self.endpoint.has_ended() {
                return Err(gone());
            }
        }
        Ok(())
    }

    /// Read limits that are enough for the depth.
    pub(super) fn read_limits(session: &Session, spec: &Spec) -> ReadLimits {
        let info = session.info();
        let wanted = if spec.op == Op::Read { spec.depth } else { 1 };
        ReadLimits {
            inbound: wanted.min(info.max_inbound_read_limit),
            outbound: wanted.min(info.max_outbound_read_limit),
        }
    }
}

/// How often a side says that it still waits.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The time in which nothing may complete, and the part of it that has passed.
#[derive(Debug)]
struct Patience {
    limit: SilenceLimit,
    passed: Duration,
    /// When this side says next that it still waits.
    next_report: Duration,
}

impl Patience {
    fn new(limit: SilenceLimit) -> Self {
        Self {
            limit,
            passed: Duration::ZERO,
            next_report: REPORT_INTERVAL,
        }
    }

    /// Returns how long to wait until [`passed`](Self::passed) is called.
    fn next(&self) -> Duration {
        let left = self.next_report.min(self.limit.longest()) - self.passed;
        self.limit.step(left)
    }

    /// The time that was named last has passed. Fails when it was the last of all, and otherwise says that the test goes on.
    #[cold]
    fn passed(&mut self) -> Result<()> {
        self.passed += self.next();
        if self.passed == self.limit.longest() {
            return Err(silence(self.passed));
        }
        self.limit.yields(self.passed)?;
        if self.passed < self.next_report {
            return Ok(());
        }
        self.next_report += REPORT_INTERVAL;
        stderr::note(format_args!(
            "nothing has completed for {}, and the other side is there: waiting for up to {} (--timeout)",
            units::time(self.passed),
            units::time(self.limit.longest())
        ));
        Ok(())
    }
}

/// The time in which nothing may happen while this side spins.
#[derive(Debug)]
pub(super) struct SpinLimit {
    patience: Patience,
    /// Yields at every look that found nothing.
    yields: bool,
    polls: u32,
    deadline: Option<Instant>,
}

impl SpinLimit {
    pub(super) fn new(limit: SilenceLimit) -> Self {
        Self {
            patience: Patience::new(limit),
            yields: affinity::is_on_one_processor(),
            polls: 0,
            deadline: None,
        }
    }

    /// Counts one more look that found nothing. Returns whether the clock was read, which is rare.
    #[inline]
    pub(super) fn spent(&mut self) -> Result<bool> {
        self.polls += 1;
        if self.yields {
            return self.pass_on();
        }
        if self.polls.is_multiple_of(LOOK) {
            self.look().map(|()| true)
        } else {
            Ok(false)
        }
    }

    /// Lets others run on the only processor, for which this may take long.
    #[cold]
    fn pass_on(&mut self) -> Result<bool> {
        std::thread::yield_now();
        self.look().map(|()| true)
    }

    #[cold]
    fn look(&mut self) -> Result<()> {
        let now = Instant::now();
        if now > *self.deadline.get_or_insert(now + self.patience.next()) {
            self.patience.passed()?;
            self.deadline = Some(now + self.patience.next());
        }
        Ok(())
    }
}

pub(super) fn silence(limit: Duration) -> Failure {
    Failure::peer(
        format!(
            "cannot go on with the test: nothing has completed for {}",
            units::time(limit)
        ),
        "check that the other side is alive, or allow more with --timeout",
    )
}

/// The error for a peer or a connection that is gone.
pub(super) fn gone() -> Failure {
    Failure::peer(
        "cannot go on with the test: the other side has gone",
        "look at what it says",
    )
}

/// The kind of a request that succeeded.
#[inline]
fn succeeded(endpoint: &Endpoint, result: &CompletionResult) -> Result<RequestType> {
    if result.status == Status::SUCCESS {
        Ok(result.request_type)
    } else {
        Err(failed(endpoint, result))
    }
}

#[cold]
fn failed(endpoint: &Endpoint, result: &CompletionResult) -> Failure {
    match result.status {
        Status::CANCELED
        | Status::CONNECTION_ABORTED
        | Status::CONNECTION_DISCONNECTED
        | Status::CONNECTION_INVALID => endpoint.cut_off("go on with the test", gone),
        status => endpoint.failure(format_args!("finish a {:?}", result.request_type), status),
    }
}

/// A call that posts a request.
#[inline]
pub(super) fn posted(call: netdirect::Result<()>) -> Result<()> {
    call.map_err(|error| match error.status() {
        Status::CONNECTION_INVALID => gone(),
        _ => Failure::nd("post a request", &error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_waits_as_long_as_it_was_told_to() {
        let seconds = Duration::from_secs;
        for (limit, steps) in [
            (25, &[10, 10, 5][..]),
            (10, &[10]),
            (3, &[3]),
            (60, &[10; 6]),
        ] {
            let mut patience = Patience::new(seconds(limit).into());
            let (last, others) = steps.split_last().expect("a step");
            for step in others {
                assert_eq!(patience.next(), seconds(*step));
                assert!(patience.passed().is_ok());
            }
            assert_eq!(patience.next(), seconds(*last));
            let text = patience.passed().expect_err("the end").to_string();
            assert!(text.contains(&units::time(seconds(limit))), "{text}");
            assert!(text.contains("--timeout"), "{text}");
        }
    }
}
