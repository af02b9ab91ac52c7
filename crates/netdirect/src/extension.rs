//! Features beyond ND2 that some providers and adapters have: capabilities, counters and faults for tests.

use std::fmt::Debug;

use bitflags::bitflags;

use crate::{AtomicOp, Counters, Error, Fault, Result, Status};

bitflags! {
    /// Capabilities of an adapter that ND2's flags ([`AdapterFlags`](crate::AdapterFlags)) do not show: features that ND2 does not have,
    /// and features that ND2 expects of every adapter and some adapters lack.
    ///
    /// A test suite looks at the capabilities before it runs a test that needs them. An application may do so, or try.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Capabilities: u64 {
        /// [`Adapter::create_memory_window`](crate::Adapter::create_memory_window), Bind and Invalidate work.
        const MEMORY_WINDOWS = 1 << 0;
        /// A Notify for solicited events ends only for solicited results and failures. Without this flag it may end for any result, because
        /// the device cannot say which results are solicited.
        const SOLICITED_EVENTS = 1 << 1;
        /// [`AtomicOp::FetchAdd`] with a mask of 0.
        const FETCH_ADD = 1 << 2;
        /// [`AtomicOp::FetchAdd`] with any mask.
        const FETCH_ADD_MASK = 1 << 3;
        /// [`AtomicOp::CompareSwap`] with both masks full.
        const COMPARE_SWAP = 1 << 4;
        /// [`AtomicOp::CompareSwap`] with any masks.
        const COMPARE_SWAP_MASK = 1 << 5;
        /// [`send_immediate`](crate::QueuePairExtensions::send_immediate) with 4 octets.
        const IMMEDIATE_4 = 1 << 6;
        /// [`send_immediate`](crate::QueuePairExtensions::send_immediate) with 8 octets.
        const IMMEDIATE_8 = 1 << 7;
    }
}

impl Capabilities {
    /// The capabilities that ND2 expects of every adapter. An adapter without [`extensions`](crate::Adapter::extensions) has
    /// exactly these.
    pub const ND2: Self = Self::MEMORY_WINDOWS.union(Self::SOLICITED_EVENTS);

    /// The capability that `op` needs.
    pub const fn needed_for(op: AtomicOp) -> Self {
        match op {
            AtomicOp::FetchAdd { mask: 0, .. } => Self::FETCH_ADD,
            AtomicOp::FetchAdd { .. } => Self::FETCH_ADD_MASK,
            AtomicOp::CompareSwap {
                compare_mask: u64::MAX,
                swap_mask: u64::MAX,
                ..
            } => Self::COMPARE_SWAP,
            AtomicOp::CompareSwap { .. } => Self::COMPARE_SWAP_MASK,
        }
    }
}

/// Features of an adapter beyond ND2, from [`Adapter::extensions`](crate::Adapter::extensions).
pub trait AdapterExtensions: Debug + Send + Sync {
    /// The adapter's capabilities, which never change.
    fn capabilities(&self) -> Capabilities;

    /// The adapter's counters since it was opened; empty if the adapter counts nothing.
    fn counters(&self) -> Counters {
        Counters::new()
    }

    /// Injects a fault, which happens now or at a later call, as [`Fault`] says. Several faults may be waiting for their calls.
    /// Each fault happens once.
    ///
    /// # Errors
    ///
    /// - [`NOT_SUPPORTED`](Status::NOT_SUPPORTED): the provider cannot inject this fault. The default implementation returns
    ///   this status for all faults.
    /// - [`INVALID_PARAMETER`](Status::INVALID_PARAMETER): the fault contradicts itself, for example with a status that is
    ///   not an error.
    /// - [`INVALID_PARAMETER_1`](Status::INVALID_PARAMETER_1): the fault names an object of another adapter.
    /// - [`DEVICE_REMOVED`](Status::DEVICE_REMOVED): the device was removed.
    fn inject(&self, fault: Fault) -> Result<()> {
        Err(not_supported(&fault))
    }
}

/// Features of a provider beyond ND2, from [`Provider::extensions`](crate::Provider::extensions).
pub trait ProviderExtensions: Debug + Send + Sync {
    /// Injects a fault into calls of the provider itself, as [`AdapterExtensions::inject`] does for an adapter.
    ///
    /// # Errors
    ///
    /// As [`AdapterExtensions::inject`].
    fn inject(&self, fault: Fault) -> Result<()> {
        Err(not_supported(&fault))
    }
}

fn not_supported(fault: &Fault) -> Error {
    Error::new(
        Status::NOT_SUPPORTED,
        format!("this provider cannot have this happen: {fault:?}"),
    )
}
