//! Devices that are not adapters.

/// An RDMA device that cannot be used now, or a note that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnlistedDevice {
    /// The device's name, such as `siw0`; `None` if this machine has no RDMA device at all.
    pub name: Option<String>,
    /// The reason why the device is not an adapter, and the remedy, in one line.
    pub why: String,
}
