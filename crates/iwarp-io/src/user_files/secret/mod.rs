//! Files that only this user may read: captures, and logs of keys.
//!
//! What a name leads to may change at any time, so each decision is made about the opened file. What may be written to:
//!
//! - a name that does not exist, which is made with mode 0600;
//! - a regular file of this user that has no other name;
//! - pipes and terminals that belong to this user, or to root and are not open to others;
//! - the system's null, zero and full;
//! - the standard streams of this process, whatever they are.
//!
//! All else is refused, and left as it was. Links that this user or root has made are followed, but not to regular files.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{append, create};
#[cfg(windows)]
pub(crate) use windows::{append, create};
