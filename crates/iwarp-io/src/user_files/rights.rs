//! Rights of files that have or take the place of others.

use std::fs::{File, Metadata};
use std::io;

/// The rights of a file that takes the place of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenOver {
    /// Owner, group and mode are those of the old file.
    All,
    /// The old file belonged to another user or group, and only root gives files away: the new file has the rights of any new one.
    Nothing,
}

/// Gives a new file the owner, group and mode of the one whose place it will take. The mode comes last, and without set-user-ID, set-group-ID
/// and sticky bits.
///
/// # Errors
///
/// Those of changing owner and mode.
pub fn take_after(new: &File, old: &Metadata) -> io::Result<TakenOver> {
    system::take_after(new, old)
}

/// Takes the set-user-ID, set-group-ID and sticky bits away.
pub(super) fn drop_special_bits(file: &File) -> io::Result<()> {
    system::drop_special_bits(file)
}

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata, Permissions};
    use std::io;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    use rustix::io::Errno;

    use super::TakenOver;

    /// Read, write and execute for owner, group and others. Set-user-ID, set-group-ID and the sticky bit are above.
    const RIGHTS: u32 = 0o777;

    pub(super) fn take_after(new: &File, old: &Metadata) -> io::Result<TakenOver> {
        let made = new.metadata()?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            match fchown(new, Some(old.uid()), Some(old.gid())) {
                Ok(()) => {}
                // EINVAL: the owner has no number in this user namespace.
                Err(error) if [Errno::PERM, Errno::INVAL].contains(&errno(&error)) => {
                    return Ok(TakenOver::Nothing);
                }
                Err(error) => return Err(error),
            }
        }
        new.set_permissions(Permissions::from_mode(old.mode() & RIGHTS))?;
        Ok(TakenOver::All)
    }

    /// The system itself takes these bits away when a user without special rights writes to a file of another user, who alone may change the
    /// mode.
    pub(super) fn drop_special_bits(file: &File) -> io::Result<()> {
        let mode = file.metadata()?.mode() & 0o7777;
        if mode & !RIGHTS == 0 {
            return Ok(());
        }
        match file.set_permissions(Permissions::from_mode(mode & RIGHTS)) {
            Err(error) if errno(&error) == Errno::PERM => Ok(()),
            done => done,
        }
    }

    fn errno(error: &io::Error) -> Errno {
        Errno::from_io_error(error).unwrap_or(Errno::IO)
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::{File, Metadata};
    use std::io;

    use super::TakenOver;

    pub(super) fn take_after(new: &File, old: &Metadata) -> io::Result<TakenOver> {
        new.set_permissions(old.permissions())
            .map(|()| TakenOver::All)
    }

    pub(super) fn drop_special_bits(_file: &File) -> io::Result<()> {
        Ok(())
    }
}
