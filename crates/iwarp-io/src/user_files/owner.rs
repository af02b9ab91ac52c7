//! Whom files belong to.

use rustix::process::geteuid;

/// Returns true if the user is this process's.
pub(super) fn is_this_user(user: u32) -> bool {
    user == geteuid().as_raw()
}

/// Returns true if the user is root. In a user namespace where root of the whole system has no number, that root's files seem to belong to
/// the overflow user, as those of all other users without a number do.
pub(super) fn is_root(user: u32) -> bool {
    user == 0 || user == without_number::OVERFLOW_USER && without_number::is_root_without_number()
}

/// Returns true if the user may decide what this process does anyway.
pub(super) fn is_trusted(user: u32) -> bool {
    is_this_user(user) || is_root(user)
}

#[cfg(target_os = "linux")]
mod without_number {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    /// The usual number (user_namespaces(7)). It is no trusted user where an administrator has chosen another one.
    pub(super) const OVERFLOW_USER: u32 = 65_534;

    /// `/proc/sys` belongs to root of the whole system, in every user namespace.
    pub(super) fn is_root_without_number() -> bool {
        fs::metadata("/proc/sys").is_ok_and(|found| found.uid() == OVERFLOW_USER)
    }
}

#[cfg(not(target_os = "linux"))]
mod without_number {
    pub(super) const OVERFLOW_USER: u32 = u32::MAX;

    pub(super) fn is_root_without_number() -> bool {
        false
    }
}
