//! ND2's SGEs, in the engine's form.

use iwarp_io::endpoint::{self, STag};
use netdirect::{Result, Sge};
use smallvec::SmallVec;

/// SGEs turned on the stack; more of them go to the heap and are refused by the engine.
const INLINE_SGES: usize = 16;

/// The engine's form of an SGE.
pub(crate) fn engine(sge: &Sge) -> endpoint::Sge {
    endpoint::Sge {
        token: STag(sge.token.0),
        address: sge.address,
        length: sge.length,
    }
}

/// Calls `post` with the engine's form of an SGE list, and `several` when it has taken more than one.
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
