//! Helpers of several interfaces.

use conform_report::{Step, Stop};
use netdirect::{Call, Fault, MrFlags, OpFlags, RequestType, Result, Status};

use crate::link::Link;
use crate::side::{Memory, Side};

/// A region that Receives and Reads of this side may fill.
pub(super) fn sink(side: &Side, length: usize) -> Step<Memory> {
    side.memory(length, MrFlags::ALLOW_LOCAL_WRITE | MrFlags::RDMA_READ_SINK)
}

/// A region with octets to send, which differ from place to place.
pub(super) fn source(side: &Side, length: usize) -> Step<Memory> {
    let memory = side.memory(length, MrFlags::empty())?;
    memory.buffer.write(0, &pattern(length));
    Ok(memory)
}

/// A region that peers may read and write, with octets that differ from place to place.
pub(super) fn shared(side: &Side, length: usize) -> Step<Memory> {
    let rights = MrFlags::ALLOW_REMOTE_READ | MrFlags::ALLOW_REMOTE_WRITE;
    let memory = side.memory(length, rights)?;
    memory.buffer.write(0, &pattern(length));
    Ok(memory)
}

/// Octets that differ from place to place.
pub(super) fn pattern(length: usize) -> Vec<u8> {
    let octets = (0..length).map(|at| u8::try_from((at * 7 + at / 251) % 251).unwrap_or(0));
    octets.collect()
}

/// The near side sends one message, which the far side receives: the connection works.
pub(super) fn exchange(link: &Link<'_>) -> Step {
    let (from, to) = (source(link.near.side, 64)?, sink(link.far.side, 64)?);
    link.far.receive(1, &[to.sge(..)])?;
    link.near.send(2, &[from.sge(..)], OpFlags::empty())?;
    link.near.succeeds(RequestType::Send)?;
    link.far.takes()?;
    link.far
        .side
        .equal("the message", to.octets(0, 64), pattern(64))
}

/// A call for which a resource is missing fails with each of these statuses, and succeeds when it is tried again.
pub(super) fn shortage<T>(
    side: &Side,
    call: Call,
    statuses: &[Status],
    make: impl Fn() -> Result<T>,
) -> Step {
    for status in statuses {
        let fault = Fault::Call {
            call,
            nth: 1,
            status: *status,
        };
        side.inject(fault)?;
        side.refused(format_args!("{call:?} without resources"), make(), *status)?;
        side.expect(format_args!("{call:?} afterwards"), make())?;
    }
    Ok(())
}

/// An adapter of the near side's provider whose device is removed. The side's own adapter is not touched.
pub(super) fn removed(side: &Side) -> Step<Side> {
    let gone = side.open_again()?;
    remove(&gone)?;
    Ok(gone)
}

/// Removes the device of a side.
pub(super) fn remove(side: &Side) -> Step {
    side.inject(Fault::RemoveDevice)
}

/// One more than a limit. A limit that is the largest value of its type cannot be exceeded.
pub(super) fn above(limit: u32, name: &str) -> Step<u32> {
    let above = limit.checked_add(1);
    above.ok_or_else(|| Stop::Skip(format!("{name} is the largest number there is")))
}
