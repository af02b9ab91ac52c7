//! Flags of requests (QP-015, QP-072, AMB-055).
//!
//! Each function fails for flags that are unknown, or that do not apply to the request, with the number of the flags among the
//! parameters of the call.

use netdirect::{OpFlags, Result, Status};

use crate::error::fail;

const ALWAYS: OpFlags = OpFlags::SILENT_SUCCESS.union(OpFlags::READ_FENCE);
const SEND: OpFlags = ALWAYS.union(OpFlags::SEND_AND_SOLICIT_EVENT);
const BIND: OpFlags = ALWAYS
    .union(OpFlags::ALLOW_READ)
    .union(OpFlags::ALLOW_WRITE);

#[inline]
fn allow(flags: OpFlags, allowed: OpFlags, status: Status) -> Result<()> {
    if flags.bits() & !allowed.bits() == 0 {
        return Ok(());
    }
    fail(
        status,
        "the flags have bits that are unknown or do not apply to this request",
    )
}

/// Checks the flags of a Send.
///
/// # Errors
///
/// [`INVALID_PARAMETER_4`](Status::INVALID_PARAMETER_4).
#[inline]
pub fn send(flags: OpFlags) -> Result<()> {
    allow(flags, SEND, Status::INVALID_PARAMETER_4)
}

/// Checks the flags of a Send of inline data, which may include the flag for inline data.
///
/// # Errors
///
/// [`INVALID_PARAMETER_4`](Status::INVALID_PARAMETER_4).
#[inline]
pub fn send_inline(flags: OpFlags) -> Result<()> {
    allow(
        flags,
        SEND.union(OpFlags::INLINE),
        Status::INVALID_PARAMETER_4,
    )
}

/// Checks the flags of a Read, or of a Write from registered memory.
///
/// # Errors
///
/// [`INVALID_PARAMETER_6`](Status::INVALID_PARAMETER_6).
#[inline]
pub fn read_or_write(flags: OpFlags) -> Result<()> {
    allow(flags, ALWAYS, Status::INVALID_PARAMETER_6)
}

/// Checks the flags of a Write of inline data, which may include the flag for inline data.
///
/// # Errors
///
/// [`INVALID_PARAMETER_6`](Status::INVALID_PARAMETER_6).
#[inline]
pub fn write_inline(flags: OpFlags) -> Result<()> {
    allow(
        flags,
        ALWAYS.union(OpFlags::INLINE),
        Status::INVALID_PARAMETER_6,
    )
}

/// Checks the flags of a Bind, which have the rights of the window.
///
/// # Errors
///
/// [`INVALID_PARAMETER_6`](Status::INVALID_PARAMETER_6).
#[inline]
pub fn bind(flags: OpFlags) -> Result<()> {
    allow(flags, BIND, Status::INVALID_PARAMETER_6)
}

/// Checks the flags of an Invalidate.
///
/// # Errors
///
/// [`INVALID_PARAMETER_3`](Status::INVALID_PARAMETER_3).
#[inline]
pub fn invalidate(flags: OpFlags) -> Result<()> {
    allow(flags, ALWAYS, Status::INVALID_PARAMETER_3)
}

/// Checks the flags of a Send of Immediate Data.
///
/// # Errors
///
/// [`INVALID_PARAMETER_3`](Status::INVALID_PARAMETER_3).
#[inline]
pub fn send_immediate(flags: OpFlags) -> Result<()> {
    allow(flags, SEND, Status::INVALID_PARAMETER_3)
}

/// Checks the flags of an Atomic.
///
/// # Errors
///
/// [`INVALID_PARAMETER_5`](Status::INVALID_PARAMETER_5).
#[inline]
pub fn atomic(flags: OpFlags) -> Result<()> {
    allow(flags, ALWAYS, Status::INVALID_PARAMETER_5)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(OpFlags) -> Result<()>;

    #[test]
    fn qp_015_qp_072_amb_055_each_request_takes_its_flags_and_no_others() {
        let inline = OpFlags::INLINE;
        let rows: [(Check, OpFlags, Status); 8] = [
            (send, SEND, Status::INVALID_PARAMETER_4),
            (send_inline, SEND | inline, Status::INVALID_PARAMETER_4),
            (read_or_write, ALWAYS, Status::INVALID_PARAMETER_6),
            (write_inline, ALWAYS | inline, Status::INVALID_PARAMETER_6),
            (bind, BIND, Status::INVALID_PARAMETER_6),
            (invalidate, ALWAYS, Status::INVALID_PARAMETER_3),
            (send_immediate, SEND, Status::INVALID_PARAMETER_3),
            (atomic, ALWAYS, Status::INVALID_PARAMETER_5),
        ];
        for (check, allowed, status) in rows {
            for bit in 0..32 {
                let flag = OpFlags::from_bits_retain(1 << bit);
                let wanted = match allowed.contains(flag) {
                    true => Ok(()),
                    false => Err(status),
                };
                assert_eq!(check(flag).map_err(|error| error.status()), wanted);
            }
            assert_eq!(check(allowed), Ok(()));
        }
    }
}
