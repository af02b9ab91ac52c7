//! Overlapped files: handles of this library.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::File;
#[cfg(windows)]
pub(super) use windows::File;
