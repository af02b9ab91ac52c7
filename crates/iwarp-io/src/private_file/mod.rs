//! Files that only this user may read: captures, and logs of keys.
//!
//! The target of a name may change at any time, so each decision is made about the opened file. A name that is a link is not followed to a
//! regular file: another user could have made the link, so that this process overwrites one of this user's files, or writes secrets into a
//! file that others can read.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{append, create};
#[cfg(windows)]
pub(crate) use windows::{append, create};
