//! Files whose content is for this user alone: captures, and logs of keys.
//!
//! What a name leads to may change at any time, so each decision is made about the opened file. A name that is a link is not followed to
//! a regular file: another user could have put the link there, to have this process overwrite a file of its own, or write into one that
//! others read.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{append, create};
#[cfg(windows)]
pub(crate) use windows::{append, create};
