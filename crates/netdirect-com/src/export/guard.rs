//! The place where panics are caught, and where results become statuses.

use std::panic::{AssertUnwindSafe, catch_unwind};

use netdirect::{Adapter, Fault, Result, Started, Status};

/// The result of a method of a class, and of its function in the table.
pub(super) trait Answer {
    /// The type that the client gets.
    type C;

    /// Converts the result for the client.
    fn into_c(self) -> Self::C;

    /// The result for the client in place of a panic.
    fn broken() -> Self::C;

    /// The result for the child of a fork, whose parent has the object.
    fn of_parent() -> Self::C;
}

impl Answer for Result<()> {
    type C = Status;

    fn into_c(self) -> Status {
        match self {
            Ok(()) => Status::SUCCESS,
            Err(error) => {
                explain(&error);
                error.status()
            }
        }
    }

    fn broken() -> Status {
        Status::INTERNAL_ERROR
    }

    fn of_parent() -> Status {
        Status::DEVICE_REMOVED
    }
}

impl Answer for Result<Started> {
    type C = Status;

    fn into_c(self) -> Status {
        match self {
            Ok(Started::Pending) => Status::PENDING,
            Ok(Started::Done) => Status::SUCCESS,
            Err(error) => Err::<(), _>(error).into_c(),
        }
    }

    fn broken() -> Status {
        Status::INTERNAL_ERROR
    }

    fn of_parent() -> Status {
        Status::DEVICE_REMOVED
    }
}

impl Answer for Status {
    type C = Self;

    fn into_c(self) -> Self {
        self
    }

    fn broken() -> Self {
        Self::INTERNAL_ERROR
    }

    fn of_parent() -> Self {
        Self::DEVICE_REMOVED
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Answer for $type {
            type C = Self;

            fn into_c(self) -> Self {
                self
            }

            fn broken() -> Self {
                0
            }

            fn of_parent() -> Self {
                0
            }
        })*
    };
}

numbers!(u32, u64);

/// Writes the sentence of an error to the log.
#[cold]
fn explain(error: &netdirect::Error) {
    tracing::debug!(target: crate::log::TARGET, "{error}");
}

/// Calls `body`, which works for `adapter`. A panic in it ends the adapter, because its objects may be in any state, and becomes
/// ND_INTERNAL_ERROR: no panic may pass through the frames of a C program.
#[inline]
pub(super) fn guarded<A: Answer>(adapter: Option<&dyn Adapter>, body: impl FnOnce() -> A) -> A::C {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(answer) => answer.into_c(),
        Err(_) => {
            broke(adapter);
            A::broken()
        }
    }
}

#[cold]
fn broke(adapter: Option<&dyn Adapter>) {
    tracing::error!(target: crate::log::TARGET, "a panic in the provider; its adapter ends");
    let end = || {
        let extensions = adapter.and_then(Adapter::extensions);
        extensions.map(|extensions| extensions.inject(Fault::RemoveDevice))
    };
    if catch_unwind(AssertUnwindSafe(end)).is_err() {
        tracing::error!(target: crate::log::TARGET, "another panic while the adapter was ended");
    }
}
