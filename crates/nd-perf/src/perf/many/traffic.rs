//! What connections move before they are idle (`--traffic`): an RDMA Write to the other side's memory, and an RDMA Read of the same octets.
//!
//! The other side only has the memory. So the connections keep all their Receives, as idle ones that have moved nothing.

use std::time::{Duration, Instant};

use nd_base::errors::{Failure, Result};
use nd_base::session::{Region, Session};
use netdirect::{CompletionResult, MrFlags, OpFlags, RemoteAddress, Status};

use super::Crowd;
use crate::perf::control::{Control, not_understood};
use crate::perf::lane::{SpinLimit, gone, posted};
use crate::perf::limit::SilenceLimit;
use crate::perf::messages::ControlRequest;
use crate::perf::spec::Spec;

/// How often the other side hears that the connections still move octets.
const BETWEEN_REPORTS: Duration = Duration::from_millis(500);

/// Registers the memory of one side, if the row has traffic.
pub(super) fn memory(session: &Session, spec: &Spec) -> Result<Option<Region>> {
    let rights = MrFlags::ALLOW_LOCAL_WRITE
        | MrFlags::ALLOW_REMOTE_READ
        | MrFlags::ALLOW_REMOTE_WRITE
        | MrFlags::RDMA_READ_SINK;
    let register = |octets: u32| session.register(octets as usize, rights);
    spec.traffic.map(register).transpose()
}

/// Waits at the side that serves the test until all connections have moved their octets.
pub(super) fn see(control: &mut Control) -> Result<()> {
    loop {
        match control.heed()?.ok_or_else(gone)? {
            ControlRequest::Traffic(0) => return Ok(()),
            ControlRequest::Traffic(_) => {}
            _ => return Err(not_understood()),
        }
    }
}

/// The side that runs the test: its memory, and that of the other side.
pub(super) struct Traffic {
    memory: Region,
    there: RemoteAddress,
}

impl Traffic {
    pub(super) fn new(memory: Region, there: RemoteAddress) -> Self {
        Self { memory, there }
    }

    /// Moves octets on each connection, one connection after the other.
    pub(super) fn move_on_each(
        &self,
        crowd: &Crowd,
        control: &mut Control,
        limit: SilenceLimit,
    ) -> Result<()> {
        let mut reported = Instant::now();
        for (index, member) in crowd.members.iter().enumerate() {
            if reported.elapsed() >= BETWEEN_REPORTS {
                let left = crowd.members.len() - index;
                let left = u32::try_from(left).unwrap_or(u32::MAX);
                control.say(&ControlRequest::Traffic(left))?;
                reported = Instant::now();
            }
            // Neighbours have different values.
            let value = if index.is_multiple_of(2) { 0x55 } else { 0xAA };
            self.memory.buffer.fill(value);
            let octets = [self.memory.sge(0..self.memory.buffer.len())];
            let qp = &member.qp;
            posted(qp.write(0, &octets, self.there, OpFlags::empty()))?;
            await_one(crowd, limit)?;
            self.memory.buffer.fill(0);
            posted(qp.read(0, &octets, self.there, OpFlags::empty()))?;
            await_one(crowd, limit)?;
            let last = self.memory.buffer.len() - 1;
            if [0, last].map(|at| self.memory.buffer.load(at)) != [value; 2] {
                return Err(Failure::new(
                    "the octets that a connection has moved are not those that were written",
                    "this should not happen: report it",
                ));
            }
        }
        control.say(&ControlRequest::Traffic(0))
    }
}

/// Waits for the only request under way.
fn await_one(crowd: &Crowd, limit: SilenceLimit) -> Result<()> {
    let mut patience = SpinLimit::new(limit);
    let mut result = [CompletionResult::default()];
    while crowd.cq.get_results(&mut result) == 0 {
        patience.spent()?;
    }
    match result[0].status {
        Status::SUCCESS => Ok(()),
        status => Err(Failure::status("move octets on an idle connection", status).by_peer()),
    }
}
