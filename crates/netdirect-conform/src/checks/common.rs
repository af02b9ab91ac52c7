//! Helpers of several interfaces.

use std::ops::RangeBounds;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use conform_report::{Step, Stop, ensure};
use netdirect::{
    Call, Fault, MemoryWindow, MrFlags, OpFlags, Overlapped, RemoteAddress, RequestType, Result,
    Status,
};

use crate::link::{Link, LinkEnd};
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
    /// Behind this many octets they come again.
    const PERIOD: usize = 251 * 251;
    let first = (0..length.min(PERIOD)).map(|at| (at * 7 + at / 251) % 251);
    let mut octets: Vec<u8> = first
        .map(|octet| u8::try_from(octet).unwrap_or(0))
        .collect();
    while octets.len() < length {
        let more = (length - octets.len()).min(octets.len());
        octets.extend_from_within(..more);
    }
    octets
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

/// Binds a window to part of a buffer and waits for the Bind. What the peer addresses the window by.
pub(super) fn bind(
    end: &LinkEnd<'_>,
    memory: &Memory,
    window: &Arc<dyn MemoryWindow>,
    range: impl RangeBounds<usize>,
    rights: OpFlags,
) -> Step<RemoteAddress> {
    let remote = post_bind(end, memory, window, range, rights)?;
    end.succeeds(RequestType::Bind)?;
    Ok(RemoteAddress {
        token: window.get_remote_token(),
        ..remote
    })
}

/// Posts a Bind. What the peer addresses the window by.
pub(super) fn post_bind(
    end: &LinkEnd<'_>,
    memory: &Memory,
    window: &Arc<dyn MemoryWindow>,
    range: impl RangeBounds<usize>,
    rights: OpFlags,
) -> Step<RemoteAddress> {
    let part = memory.buffer.slice(range);
    let (address, length) = (part.address(), part.len() as u64);
    let posted = end
        .queues
        .qp
        .bind(0xB1, &memory.region, window, address, length, rights);
    end.side.expect("post a Bind", posted)?;
    Ok(RemoteAddress {
        address,
        token: window.get_remote_token(),
    })
}

/// Posts an Invalidate and waits for it.
pub(super) fn invalidate(end: &LinkEnd<'_>, window: &Arc<dyn MemoryWindow>) -> Step {
    let posted = end.queues.qp.invalidate(0xB2, window, OpFlags::empty());
    end.side.expect("post an Invalidate", posted)?;
    end.succeeds(RequestType::Invalidate)?;
    Ok(())
}

/// This end reads 64 octets, which are those of [`pattern`] from `at` on.
pub(super) fn expect_read(end: &LinkEnd<'_>, remote: RemoteAddress, at: usize) -> Step {
    let into = sink(end.side, 64)?;
    end.read(0xE1, &[into.sge(..)], remote)?;
    end.succeeds(RequestType::Read)?;
    let wanted = pattern(at + 64).split_off(at);
    end.side
        .equal("the octets read", into.octets(0, 64), wanted)
}

/// This end writes 64 octets, which arrive in the peer's memory.
pub(super) fn expect_write(
    end: &LinkEnd<'_>,
    remote: RemoteAddress,
    memory: &Memory,
    at: usize,
) -> Step {
    let from = end.side.memory(64, MrFlags::empty())?;
    from.buffer.fill(0xEE);
    end.write(0xE2, &[from.sge(..)], remote)?;
    end.succeeds(RequestType::Write)?;
    end.side.step("wait until the Write is in memory");
    end.side.until(|| memory.octets(at, 64) == [0xEE; 64])
}

/// A Read of 64 octets by this end is refused: nothing is read, and the connection ends (AMB-002).
pub(super) fn expect_refused_read(end: &LinkEnd<'_>, remote: RemoteAddress) -> Step {
    let into = sink(end.side, 64)?;
    end.read(0xE3, &[into.sge(..)], remote)?;
    let result = end.initiated("a Read that the peer refuses")?;
    let refused = [Status::ACCESS_VIOLATION, Status::REMOTE_ERROR];
    ensure(
        result.request_type == RequestType::Read && refused.contains(&result.status),
        "ND_ACCESS_VIOLATION or ND_REMOTE_ERROR for the Read",
        format!("{result:?}"),
    )?;
    end.side
        .equal("the octets read", into.octets(0, 64), vec![0; 64])?;
    expect_end(end)
}

/// A Write of 64 octets by this end is refused: the connection ends, whatever the Write's own status (AMB-002). What the
/// caller has to check is that the peer's memory has not changed.
pub(super) fn expect_refused_write(end: &LinkEnd<'_>, remote: RemoteAddress) -> Step {
    let from = end.side.memory(64, MrFlags::empty())?;
    from.buffer.fill(0xEE);
    end.write(0xE4, &[from.sge(..)], remote)?;
    let result = end.initiated("a Write that the peer refuses")?;
    let allowed = [
        Status::SUCCESS,
        Status::ACCESS_VIOLATION,
        Status::REMOTE_ERROR,
    ];
    ensure(
        result.request_type == RequestType::Write && allowed.contains(&result.status),
        "ND_ACCESS_VIOLATION, ND_REMOTE_ERROR or ND_SUCCESS for the Write",
        format!("{result:?}"),
    )?;
    expect_end(end)
}

/// The connection of this end ends.
pub(super) fn expect_end(end: &LinkEnd<'_>) -> Step {
    let overlapped = Overlapped::new().without_port();
    let started = end.connector.notify_disconnect(&overlapped);
    end.side
        .done("the end of the connection", started, &overlapped)
}

/// Does something in several threads at the same time, each with its number, and returns what they return.
pub(super) fn at_once<T: Send>(threads: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        let ended = started.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}
