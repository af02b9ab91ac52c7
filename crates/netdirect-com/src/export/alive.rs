//! The number of objects.

use std::sync::atomic::AtomicUsize;

/// The number of objects and overlapped files of this library that clients have. Code of a library must not be unloaded while there are
/// some. On Windows files are not counted.
pub(super) static ALIVE: AtomicUsize = AtomicUsize::new(0);
