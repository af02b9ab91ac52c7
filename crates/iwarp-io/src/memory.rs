//! The parts of registered memory that the owner of endpoints needs.

pub use iwarp::{BindError, Memory, Pd, STag, WindowBind, WindowId};
pub use iwarp_mem::{
    Busy, OnLenientSink, ProtectionDomain, RegisterError, Registration, Rights, Table,
    TableOptions, Window,
};
