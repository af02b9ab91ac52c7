//! Stretches of registered memory, and the errors of refused requests.

use iwarp_io::endpoint::{self as engine, PostError};
use iwarp_io::memory::STag;

use crate::device::limits;
use crate::error::{Errno, Error, Result, fail};

/// A stretch of registered memory, laid out as `struct ibv_sge`. It is packed because programs also pass lists that are not aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed)]
pub struct Sge {
    /// The offset of the first octet: its address, unless the region counts from another number.
    pub addr: u64,
    /// The length in octets.
    pub length: u32,
    /// The key of the region.
    pub lkey: u32,
}

impl Sge {
    #[inline]
    pub(crate) fn engine(self) -> engine::Sge {
        engine::Sge {
            token: STag(self.lkey),
            address: self.addr,
            length: self.length,
        }
    }
}

/// Calls `post` with the SGEs converted to the engine's type.
#[inline(always)]
pub(crate) fn with_sges<T>(
    sges: &[Sge],
    post: impl FnOnce(&[engine::Sge]) -> Result<T>,
) -> Result<T> {
    const MOST: usize = limits::SGES as usize;
    if let [one] = sges {
        return post(&[one.engine()]);
    }
    if sges.len() > MOST {
        return fail(
            Errno::INVAL,
            format!("{} SGEs; a request has at most {MOST}", sges.len()),
        );
    }
    let mut converted = [engine::Sge::default(); MOST];
    for (to, from) in converted.iter_mut().zip(sges) {
        *to = from.engine();
    }
    post(&converted[..sges.len()])
}

/// The error of a request that the engine refuses.
#[cold]
pub(crate) fn post_error(error: PostError) -> Error {
    let errno = match error {
        PostError::QueueFull => Errno::NOMEM,
        PostError::NotRecognized => Errno::OPNOTSUPP,
        PostError::NotConnected
        | PostError::TooManySges
        | PostError::TooLong
        | PostError::WrongLength => Errno::INVAL,
    };
    Error::new(errno, format!("cannot post: {error}"))
}
