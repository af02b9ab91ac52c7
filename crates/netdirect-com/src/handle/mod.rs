//! Windows' handles, on systems that have none: events, completion ports and overlapped files ([`abi`](crate::abi) has their tables).

mod refs;

pub use refs::{EventRef, PortRef};
