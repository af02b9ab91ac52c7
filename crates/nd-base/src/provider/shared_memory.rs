//! Connections within this machine through shared memory.

/// The name of the adapters over TCP where connections through shared memory are compared with theirs.
pub const OVER_TCP: &str = "softnd-tcp";
