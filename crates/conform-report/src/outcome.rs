//! How a check, or one step of it, can end.

/// How one step of a check goes on, or ends the check.
pub type Step<T = ()> = Result<T, Stop>;

/// How a check ends.
pub type Verdict = Step<Pass>;

/// The target did what it had to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Exactly.
    Right,
    /// As far as can be seen: for example it closed, which may have overtaken its Terminate (RFC 5040 §6.2.1).
    Weak(String),
}

/// Why a check ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The target does not do what the row asks for.
    Fail {
        /// What the row asks for.
        expected: String,
        /// What the target did.
        seen: String,
    },
    /// The check cannot be made on this target, for a reason of the target's: what it lacks.
    Skip(String),
    /// The check is not part of this run, for a reason that is not the target's.
    LeftOut(String),
    /// The suite's own side broke.
    Broken(String),
}

/// A failure.
pub fn fail(expected: impl Into<String>, seen: impl Into<String>) -> Stop {
    Stop::Fail {
        expected: expected.into(),
        seen: seen.into(),
    }
}

/// A failure unless `right`.
///
/// # Errors
///
/// The failure.
pub fn ensure(right: bool, expected: impl Into<String>, seen: impl Into<String>) -> Step {
    if right {
        Ok(())
    } else {
        Err(fail(expected, seen))
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it has to be.
    Pass,
    /// Passed, as far as can be seen.
    Weak(String),
    /// Not so.
    Fail(Failure),
    /// Not so, as is known of this peer.
    Known(Failure, String),
    /// As it has to be, though this peer is known for something else.
    Mended(String),
    /// It could not be made, because of what the target lacks.
    Skip(String),
    /// It is not part of this run, for a reason that is not the target's: the options of the run, the machine, or the provider's aids
    /// for tests. Reports list it apart, and count it nowhere.
    LeftOut(String),
}

/// The expected behaviour, the behaviour seen instead, and the events before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// What the row asks for.
    pub expected: String,
    /// What the target did.
    pub seen: String,
    /// The last events before.
    pub trace: Vec<String>,
}

impl Failure {
    /// Of a check that ended early. `wanted` is what the suite's own side needed in case that it broke.
    pub fn from_stop(stop: Stop, wanted: &str, trace: Vec<String>) -> Self {
        let (expected, seen) = match stop {
            Stop::Fail { expected, seen } => (expected, seen),
            Stop::Broken(why) | Stop::Skip(why) | Stop::LeftOut(why) => (wanted.to_owned(), why),
        };
        Self {
            expected,
            seen,
            trace,
        }
    }
}
