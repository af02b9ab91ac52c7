//! Devices that are no adapters.

/// An RDMA device that cannot be used now, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnlistedDevice {
    /// The device's name, such as `siw0`; `None` if this machine has no RDMA device at all.
    pub name: Option<String>,
    /// Why the device is no adapter, and what to do, in one line.
    pub why: String,
}
