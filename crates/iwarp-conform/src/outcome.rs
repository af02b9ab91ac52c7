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
    /// As well as can be told: for example it closed, which may have overtaken its Terminate (RFC 5040 §6.2.1).
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
    /// The check cannot be made on this target.
    Skip(String),
    /// The suite's own side broke: sockets, mostly.
    Broken(String),
}

/// A failure.
pub(crate) fn fail(expected: impl Into<String>, seen: impl Into<String>) -> Stop {
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
pub(crate) fn ensure(right: bool, expected: impl Into<String>, seen: impl Into<String>) -> Step {
    if right {
        Ok(())
    } else {
        Err(fail(expected, seen))
    }
}
