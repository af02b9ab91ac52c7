//! The ports of a range that the user has named.

use std::io;
use std::ops::RangeInclusive;

use crate::environment::Environment;
use crate::error_number::Errno;
use crate::system_call::errno;

/// The first port of `range` that `open` does not find in use.
///
/// # Errors
///
/// Those of `open`; EADDRINUSE if all ports are in use.
#[cfg_attr(
    not(feature = "udp"),
    allow(dead_code, reason = "only sockets of UDP have ports of a range")
)]
pub(super) fn first_free<T>(
    environment: &Environment,
    range: &RangeInclusive<u16>,
    open: impl Fn(u16) -> io::Result<T>,
) -> io::Result<T> {
    for port in from(range, environment.random()?) {
        match open(port) {
            Err(error) if errno(&error) == Some(Errno::ADDRINUSE) => {}
            other => return other,
        }
    }
    Err(Errno::ADDRINUSE.into())
}

/// The ports of a range, from the `start`-th on. The search begins at a port that cannot be predicted, so that processes seldom try the same
/// ones.
pub(super) fn from(range: &RangeInclusive<u16>, start: u64) -> impl Iterator<Item = u16> + use<> {
    let first = *range.start();
    let count = u64::from(*range.end()).saturating_sub(u64::from(first)) + 1;
    (0..count).map(move |step| {
        let offset = u16::try_from((start % count + step) % count).unwrap_or(0);
        first.saturating_add(offset)
    })
}
