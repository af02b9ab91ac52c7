//! The turns of the side that runs the test, over RDMA.

use std::time::{Duration, Instant};

use nd_base::errors::Result;
use netdirect::{OpFlags, RemoteAddress, RequestType};

use super::lane::{Lane, Memory, posted};
use super::sequence::{Signals, successor};
use super::spec::{Mode, Op, Spec};

/// The connection under test, at the side that runs it.
#[derive(Debug)]
pub(super) struct Client {
    lane: Lane,
    memory: Memory,
    spec: Spec,
    /// The other side's ring.
    remote: RemoteAddress,
    /// The slot from which the next message is taken, or into which it is put.
    slot: usize,
    /// Messages since the sink was cleared.
    moved: u64,
}

impl Client {
    pub(super) fn new(lane: Lane, memory: Memory, spec: Spec, remote: RemoteAddress) -> Self {
        Self {
            lane,
            memory,
            spec,
            remote,
            slot: 0,
            moved: 0,
        }
    }

    /// The name of the connection's transport, if the adapter can tell.
    pub(super) fn transport(&self) -> Option<&'static str> {
        self.lane.endpoint.connector.transport()
    }

    /// One turn of `count` messages. The time of each round trip goes to `times`, in nanoseconds, where that is measured.
    /// When this returns, every message has been placed, and the other side has confirmed this or has answered.
    pub(super) fn turn(&mut self, count: u64, times: &mut Vec<u64>) -> Result<Duration> {
        self.moved += count;
        match (self.spec.is_timed(), self.spec.op) {
            (true, Op::Send) => self.ping_by_send(count, times),
            (true, Op::Write) => self.ping_by_write(count, times),
            (true, Op::Read) => self.read_one_by_one(count, times),
            (false, Op::Send) => self.stream_sends(count),
            (false, Op::Write) => self.stream_writes(count),
            (false, Op::Read) => self.stream_reads(count),
        }
    }

    /// Checks that the received data is the other side's. Clears the memory, which is to be filled again.
    pub(super) fn verify(&mut self) -> Result<()> {
        self.memory
            .verify(&self.spec, std::mem::take(&mut self.moved))
    }

    fn ping_by_send(&mut self, count: u64, times: &mut Vec<u64>) -> Result<Duration> {
        let (source, sink) = (self.memory.source()?.slot(0), self.memory.sink()?.slot(0));
        let lane = &mut self.lane;
        let mut own = Signals::one_in(self.spec.signals());
        let begun = Instant::now();
        let mut last = begun;
        for left in (0..count).rev() {
            posted(lane.qp.send(0, &source, own.post(left == 0)))?;
            let mut answered = false;
            while !answered {
                for i in 0..lane.wait()? {
                    if lane.kind(i)? == RequestType::Receive {
                        answered = true;
                    } else {
                        own.complete();
                    }
                }
            }
            let now = Instant::now();
            times.push(nanos(now - last));
            last = now;
            lane.receive(0, &sink)?;
        }
        lane.await_own(own.outstanding())?;
        Ok(last - begun)
    }

    fn ping_by_write(&mut self, count: u64, times: &mut Vec<u64>) -> Result<Duration> {
        let poll = self.spec.mode != Mode::Memory;
        let (source, sink) = (self.memory.source()?, self.memory.sink()?);
        let (lane, slot) = (&mut self.lane, source.slot(0));
        let mut own = Signals::one_in(self.spec.signals());
        let mut value = 0;
        let begun = Instant::now();
        let mut last = begun;
        for left in (0..count).rev() {
            value = successor(value);
            source.set_last(value);
            posted(lane.qp.write(0, &slot, self.remote, own.post(left == 0)))?;
            lane.watch(sink, value, poll, &mut own)?;
            let now = Instant::now();
            times.push(nanos(now - last));
            last = now;
        }
        sink.set_last(0);
        lane.await_own(own.outstanding())?;
        Ok(last - begun)
    }

    fn read_one_by_one(&mut self, count: u64, times: &mut Vec<u64>) -> Result<Duration> {
        let sink = self.memory.sink()?.slot(0);
        let lane = &mut self.lane;
        let begun = Instant::now();
        let mut last = begun;
        for _ in 0..count {
            posted(lane.qp.read(0, &sink, self.remote, OpFlags::empty()))?;
            lane.await_own(1)?;
            let now = Instant::now();
            times.push(nanos(now - last));
            last = now;
        }
        self.finish()?;
        Ok(last - begun)
    }

    fn stream_sends(&mut self, count: u64) -> Result<Duration> {
        let (depth, window) = (u64::from(self.spec.depth), u64::from(self.spec.window()));
        let batch = u64::from(self.spec.credit_batch());
        let source = self.memory.source()?;
        let lane = &mut self.lane;
        // One mark for each batch that was received, and one at the end.
        let marks = count / batch + 1;
        let mut own = Signals::one_in(self.spec.signals());
        let mut heard = 0;
        let begun = Instant::now();
        while heard < marks || own.done() < count {
            let allowed = count.min(own.done() + depth).min(window + heard * batch);
            while own.posted() < allowed {
                let flags = own.post(own.posted() + 1 == count);
                posted(lane.qp.send(0, &source.slot(self.slot), flags))?;
                self.slot = source.next(self.slot);
            }
            for i in 0..lane.wait()? {
                if lane.kind(i)? == RequestType::Receive {
                    heard += 1;
                    lane.receive(0, &[])?;
                } else {
                    own.complete();
                }
            }
        }
        Ok(begun.elapsed())
    }

    fn stream_writes(&mut self, count: u64) -> Result<Duration> {
        let depth = u64::from(self.spec.depth);
        let source = self.memory.source()?;
        let lane = &mut self.lane;
        let mut own = Signals::one_in(self.spec.signals());
        let begun = Instant::now();
        while own.posted() < count {
            let allowed = count.min(own.done() + depth);
            while own.posted() < allowed {
                let to = self.remote.offset(source.offset(self.slot));
                let flags = own.post(own.posted() + 1 == count);
                posted(lane.qp.write(0, &source.slot(self.slot), to, flags))?;
                self.slot = source.next(self.slot);
            }
            if own.posted() < count {
                for i in 0..lane.wait()? {
                    lane.kind(i)?;
                    own.complete();
                }
            }
        }
        // A Write's completion says nothing about the other side, but the answer to a message behind the Write does.
        lane.mark()?;
        lane.await_mark(own.outstanding() + 1)?;
        Ok(begun.elapsed())
    }

    fn stream_reads(&mut self, count: u64) -> Result<Duration> {
        let depth = u64::from(self.spec.depth);
        let sink = self.memory.sink()?;
        let lane = &mut self.lane;
        let (mut sent, mut done) = (0, 0);
        let begun = Instant::now();
        while done < count {
            let allowed = count.min(done + depth);
            while sent < allowed {
                let from = self.remote.offset(sink.offset(self.slot));
                posted(
                    lane.qp
                        .read(0, &sink.slot(self.slot), from, OpFlags::empty()),
                )?;
                self.slot = sink.next(self.slot);
                sent += 1;
            }
            for i in 0..lane.wait()? {
                lane.kind(i)?;
                done += 1;
            }
        }
        let elapsed = begun.elapsed();
        self.finish()?;
        Ok(elapsed)
    }

    /// Reports the end of the Reads to the other side, which takes no part in them.
    fn finish(&mut self) -> Result<()> {
        self.lane.mark()?;
        self.lane.await_mark(1)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
