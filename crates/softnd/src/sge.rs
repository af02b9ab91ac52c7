//! Conversion of ND2's SGEs to the engine's type.

use iwarp_io::endpoint::{self, STag};
use netdirect::{Result, Sge};
use smallvec::SmallVec;

/// The number of SGEs that are converted on the stack. Longer lists are converted on the heap, and the engine refuses them.
const INLINE_SGES: usize = 16;

/// Converts an SGE to the engine's type.
pub(crate) fn engine(sge: &Sge) -> endpoint::Sge {
    endpoint::Sge {
        token: STag(sge.token.0),
        address: sge.address,
        length: sge.length,
    }
}

/// Calls `post` with the converted SGEs. Calls `several` after `post` has taken a list of more than one SGE.
#[inline(always)]
pub(crate) fn with_sges(
    sges: &[Sge],
    post: impl FnOnce(&[endpoint::Sge]) -> Result<()>,
    several: impl FnOnce(usize),
) -> Result<()> {
    match sges {
        [] => post(&[]),
        [one] => post(&[engine(one)]),
        more => {
            let more: SmallVec<[_; INLINE_SGES]> = more.iter().map(engine).collect();
            post(&more)?;
            several(more.len());
            Ok(())
        }
    }
}
