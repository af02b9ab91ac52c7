//! What some providers and adapters do beside ND2: they tell what they can do, count, and have faults happen on request.

use std::fmt::Debug;

use bitflags::bitflags;

use crate::{AtomicOp, Counters, Error, Fault, Result, Status};

bitflags! {
    /// What an adapter can do beyond the flags of ND2 ([`AdapterFlags`](crate::AdapterFlags)), and what ND2 takes for granted
    /// and some adapters lack.
    ///
    /// A test suite asks here before it runs what needs the capability; an application may ask, or just try.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Capabilities: u64 {
        /// [`Adapter::create_memory_window`](crate::Adapter::create_memory_window) works, and Bind and Invalidate with it.
        const MEMORY_WINDOWS = 1 << 0;
        /// A Notify for solicited events ends for these and for failures alone. Without, it may end for any result, because
        /// the device does not tell them apart.
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
    /// What ND2 takes for granted: what an adapter without [`extensions`](crate::Adapter::extensions) has.
    pub const ND2: Self = Self::MEMORY_WINDOWS.union(Self::SOLICITED_EVENTS);

    /// What it takes to carry out `op`.
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

/// What an adapter offers beside ND2, found by [`Adapter::extensions`](crate::Adapter::extensions).
pub trait AdapterExtensions: Debug + Send + Sync {
    /// What the adapter can do. The same at every call.
    fn capabilities(&self) -> Capabilities;

    /// What the adapter has counted since it was opened; none where it does not count.
    fn counters(&self) -> Counters {
        Counters::new()
    }

    /// Has a mishap happen, now or at a later call as [`Fault`] says. Several may be under way; each happens once.
    ///
    /// # Errors
    ///
    /// - [`NOT_SUPPORTED`](Status::NOT_SUPPORTED): the provider cannot do that. So are all faults unless it says otherwise.
    /// - [`INVALID_PARAMETER`](Status::INVALID_PARAMETER): the fault contradicts itself, such as a status that is no error.
    /// - [`INVALID_PARAMETER_1`](Status::INVALID_PARAMETER_1): an object of another adapter.
    /// - [`DEVICE_REMOVED`](Status::DEVICE_REMOVED): nothing is left to break.
    fn inject(&self, fault: Fault) -> Result<()> {
        Err(not_supported(&fault))
    }
}

/// What a provider offers beside ND2, found by [`Provider::extensions`](crate::Provider::extensions).
pub trait ProviderExtensions: Debug + Send + Sync {
    /// As [`AdapterExtensions::inject`], for calls of the provider itself.
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
