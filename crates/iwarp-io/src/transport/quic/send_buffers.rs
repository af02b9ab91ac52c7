//! Buffers for octets that QUIC has to send. Each is used again when its octets were acknowledged: fresh memory costs more than the copy
//! into it.

use std::sync::{Arc, Weak};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

/// At most this many octets get a separate allocation.
const SMALL: usize = 8 * 1024;

/// The number of unused buffers that are kept.
const IDLE: usize = 16;

/// Buffers of one length, which the connections of a socket use in turn.
#[derive(Debug)]
pub(super) struct SendBuffers {
    len: usize,
    idle: Arc<Mutex<Vec<Box<[u8]>>>>,
}

impl SendBuffers {
    /// Makes a list of buffers of `len` octets.
    pub(super) fn new(len: usize) -> Self {
        let idle = Arc::default();
        Self { len, idle }
    }

    /// Lets `fill` write to a buffer with room for `wanted` octets, or a whole buffer if that is less. Returns the octets written, whose
    /// number `fill` returns.
    pub(super) fn filled<E>(
        &self,
        wanted: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Bytes, E> {
        if wanted <= SMALL {
            let mut octets = BytesMut::zeroed(wanted.min(self.len));
            let filled = fill(&mut octets)?;
            octets.truncate(filled);
            return Ok(octets.freeze());
        }
        let octets = self.idle.lock().pop();
        let mut buffer = SendBuffer {
            octets: octets.unwrap_or_else(|| vec![0; self.len].into()),
            filled: 0,
            home: Arc::downgrade(&self.idle),
        };
        buffer.filled = fill(&mut buffer.octets)?;
        Ok(Bytes::from_owner(buffer))
    }
}

/// A buffer in use.
struct SendBuffer {
    octets: Box<[u8]>,
    filled: usize,
    home: Weak<Mutex<Vec<Box<[u8]>>>>,
}

impl AsRef<[u8]> for SendBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.octets[..self.filled]
    }
}

impl Drop for SendBuffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            let mut idle = home.lock();
            if idle.len() < IDLE {
                idle.push(std::mem::take(&mut self.octets));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn filled(buffers: &SendBuffers, octet: u8, count: usize) -> Bytes {
        let fill = |room: &mut [u8]| {
            room[..count].fill(octet);
            Ok::<_, Infallible>(count)
        };
        buffers.filled(count, fill).unwrap()
    }

    #[test]
    fn a_buffer_is_used_again_when_nobody_has_its_octets_any_more() {
        let buffers = SendBuffers::new(64 * 1024);
        let first = filled(&buffers, 1, 20_000);
        let place = first.as_ptr();
        let rest = first.slice(19_000..);
        drop(first);
        let second = filled(&buffers, 2, 64 * 1024);
        assert_ne!(second.as_ptr(), place);
        assert_eq!(rest[..], [1; 1000]);
        drop(rest);
        let third = filled(&buffers, 3, 10_000);
        assert_eq!(third.as_ptr(), place);
        assert_eq!(third[..], [3; 10_000]);
        assert_eq!(second[..], [2; 64 * 1024]);
    }

    #[test]
    fn only_a_few_unused_buffers_are_kept_and_none_after_their_owner() {
        let buffers = SendBuffers::new(64 * 1024);
        let used: Vec<_> = (0..2 * IDLE)
            .map(|_| filled(&buffers, 1, 64 * 1024))
            .collect();
        drop(used);
        assert_eq!(buffers.idle.lock().len(), IDLE);
        let last = filled(&buffers, 7, 64 * 1024);
        let idle = Arc::downgrade(&buffers.idle);
        drop(buffers);
        assert_eq!(last[..], [7; 64 * 1024]);
        drop(last);
        assert!(idle.upgrade().is_none());
    }

    #[test]
    fn what_cannot_be_filled_leaves_the_buffer_for_others() {
        let buffers = SendBuffers::new(64 * 1024);
        assert_eq!(
            buffers.filled(64 * 1024, |_| Err("revoked")),
            Err("revoked")
        );
        assert_eq!(buffers.idle.lock().len(), 1);
        assert_eq!(filled(&buffers, 1, 5)[..], [1; 5]);
    }
}
