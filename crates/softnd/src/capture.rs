//! The traffic of adapters in files for Wireshark, by [`Options::capture`](crate::Options::capture).

pub use iwarp_io::capture::{Capture, CaptureOptions};
// For tests of the files themselves: connections that are written down by hand.
#[doc(hidden)]
pub use iwarp_io::capture::{FlowRole, SentBy};
