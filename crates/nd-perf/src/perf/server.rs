//! The turns of the side that serves the test, over RDMA.

use nd_base::errors::Result;
use netdirect::{RemoteAddress, RequestType};

use super::lane::{Lane, Memory, posted};
use super::sequence::{Signals, successor};
use super::spec::{Mode, Op, Spec};

/// The connection under test, at the side that serves it.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) lane: Lane,
    memory: Memory,
    spec: Spec,
    /// The other side's ring, where this one writes.
    remote: RemoteAddress,
    /// The slot of the next Receive to be posted.
    slot: usize,
    /// Messages since the sink was cleared.
    moved: u64,
}

impl Server {
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

    /// Posts the Receives that the row needs. Called once, before the connection is established.
    pub(super) fn prepare(&mut self) -> Result<()> {
        if self.spec.op != Op::Send {
            return self.lane.receive_marks();
        }
        let sink = self.memory.sink()?;
        for _ in 0..self.spec.server_receives() {
            self.lane.receive(self.slot, &sink.slot(self.slot))?;
            self.slot = sink.next(self.slot);
        }
        Ok(())
    }

    /// Serves one turn of `count` messages.
    pub(super) fn turn(&mut self, count: u64) -> Result<()> {
        self.moved = self.moved.saturating_add(count);
        match (self.spec.is_timed(), self.spec.op) {
            (true, Op::Send) => self.pong_by_send(count),
            (true, Op::Write) => self.pong_by_write(count),
            (false, Op::Send) => self.take_sends(count),
            (_, Op::Read) | (false, Op::Write) => self.stand_by(),
        }
    }

    /// Checks that the received data is the other side's. Clears the memory, which is to be filled again.
    pub(super) fn verify(&mut self) -> Result<()> {
        self.memory
            .verify(&self.spec, std::mem::take(&mut self.moved))
    }

    fn pong_by_send(&mut self, count: u64) -> Result<()> {
        let (source, sink) = (self.memory.source()?.slot(0), self.memory.sink()?.slot(0));
        let lane = &mut self.lane;
        let mut own = Signals::one_in(self.spec.signals());
        for left in (0..count).rev() {
            let mut asked = false;
            while !asked {
                for i in 0..lane.wait()? {
                    if lane.kind(i)? == RequestType::Receive {
                        asked = true;
                    } else {
                        own.complete();
                    }
                }
            }
            posted(lane.qp.send(0, &source, own.post(left == 0)))?;
            lane.receive(0, &sink)?;
        }
        lane.await_own(own.outstanding())
    }

    fn pong_by_write(&mut self, count: u64) -> Result<()> {
        let poll = self.spec.mode != Mode::Memory;
        let (source, sink) = (self.memory.source()?, self.memory.sink()?);
        let (lane, slot) = (&mut self.lane, source.slot(0));
        let mut own = Signals::one_in(self.spec.signals());
        let mut value = 0;
        for left in (0..count).rev() {
            value = successor(value);
            lane.watch(sink, value, poll, &mut own)?;
            source.set_last(value);
            posted(lane.qp.write(0, &slot, self.remote, own.post(left == 0)))?;
        }
        sink.set_last(0);
        lane.await_own(own.outstanding())
    }

    fn take_sends(&mut self, count: u64) -> Result<()> {
        let batch = u64::from(self.spec.credit_batch());
        let sink = self.memory.sink()?;
        let lane = &mut self.lane;
        let (mut received, mut own) = (0_u64, 0_u64);
        while received < count {
            for i in 0..lane.wait()? {
                if lane.kind(i)? != RequestType::Receive {
                    own -= 1;
                    continue;
                }
                lane.receive(self.slot, &sink.slot(self.slot))?;
                self.slot = sink.next(self.slot);
                received += 1;
                if received.is_multiple_of(batch) {
                    lane.mark()?;
                    own += 1;
                }
            }
        }
        lane.mark()?;
        lane.await_own(own + 1)
    }

    /// Does nothing until the other side reports that it has finished, and answers.
    fn stand_by(&mut self) -> Result<()> {
        self.lane.await_mark(0)?;
        self.lane.mark()?;
        self.lane.await_own(1)
    }
}
