//! Registered memory, as the owner of endpoints needs it.

pub use iwarp::{BindError, Pd, STag, WindowId};
pub use iwarp_mem::{
    Busy, OnLenientSink, ProtectionDomain, RegisterError, Registration, Rights, Table,
    TableOptions, Window,
};
