//! The start of a check that opens its providers and adapters by itself.

use crate::limits::Limits;
use crate::need::Profile;
use crate::steps::Steps;
use crate::target::Ends;

/// The providers of a check, of which nothing is opened. Checks of how a provider itself is opened and released begin here.
#[derive(Debug)]
pub struct Unopened {
    /// Both ends.
    pub ends: Ends,
    /// How long to wait.
    pub limits: Limits,
    /// The profile of the run.
    pub profile: Profile,
    /// Where the check says what it does: a hang is blamed on the last step.
    pub steps: Steps,
}
