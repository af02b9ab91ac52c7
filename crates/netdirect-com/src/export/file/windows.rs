//! Overlapped files on Windows.
//!
//! The client closes its handle by `CloseHandle`, of which nobody learns. So the files of all adapters are in one list, and one that no
//! object uses is given up once all handles of clients for it are closed: this is looked for when files are made and objects are released.

use std::os::windows::io::{AsRawHandle, IntoRawHandle};
use std::sync::Arc;

use netdirect::{Error, OverlappedFile, Result, Status};
use parking_lot::Mutex;

use crate::abi::{Handle, Overlapped};
use crate::handle::FilePipe;

/// An overlapped file.
#[derive(Debug)]
pub(in crate::export) struct File {
    pipe: FilePipe,
    file: Arc<dyn OverlappedFile>,
    /// The number of the handle that the client got, where a file is looked for first. The client may have closed that handle since, and
    /// the number may be another object's.
    number: usize,
}

/// The files that clients may have.
static FILES: Mutex<Files> = Mutex::new(Files {
    all: Vec::new(),
    next: 0,
});

#[derive(Debug)]
struct Files {
    all: Vec<Arc<File>>,
    /// The place of the file that is looked at next.
    next: usize,
}

/// The files that are looked at when a file is made or an object is released. More than one, so that the list becomes shorter while files
/// are made and closed.
const LOOKED_AT: usize = 4;

impl File {
    /// The handle of a new file.
    ///
    /// # Errors
    ///
    /// [`INSUFFICIENT_RESOURCES`](Status::INSUFFICIENT_RESOURCES): the system makes no file.
    pub(in crate::export) fn create(file: Arc<dyn OverlappedFile>) -> Result<Handle> {
        Self::collect_some();
        let (pipe, client) = FilePipe::create().map_err(|error| {
            Error::new(
                Status::INSUFFICIENT_RESOURCES,
                format!("the system makes no overlapped file: {error}"),
            )
        })?;
        let file = Self {
            pipe,
            file,
            number: client.as_raw_handle().addr(),
        };
        FILES.lock().all.push(Arc::new(file));
        Ok(client.into_raw_handle())
    }

    /// The file of this image behind a handle.
    ///
    /// # Errors
    ///
    /// [`INVALID_HANDLE`](Status::INVALID_HANDLE): null, an object of another kind, or a file of another library (ADPT-086).
    pub(in crate::export) fn from_handle(handle: Handle) -> Result<Arc<Self>> {
        let files = FILES.lock();
        let of_number = files.all.iter().filter(|it| it.number == handle.addr());
        let found = of_number
            .chain(&files.all)
            .find(|file| file.pipe.is(handle));
        found.cloned().ok_or_else(|| {
            Error::new(
                Status::INVALID_HANDLE,
                "not an overlapped file of this library",
            )
        })
    }

    /// The provider's file.
    pub(in crate::export) fn file(&self) -> &Arc<dyn OverlappedFile> {
        &self.file
    }

    /// The status of a request of an object of this file has been written: here nothing waits for that.
    #[expect(clippy::unused_self, reason = "other systems have waits for it")]
    pub(in crate::export) fn ended(&self) {}

    /// Queues the end of a request of an object of this file.
    pub(in crate::export) fn post(&self, overlapped: *mut Overlapped, status: Status) {
        self.pipe.end(overlapped, status);
    }

    /// Gives up files that clients have closed, of a few.
    pub(in crate::export) fn collect_some() {
        collect(LOOKED_AT);
    }

    /// Gives up all files that clients have closed.
    pub(in crate::export) fn collect_all() {
        collect(usize::MAX);
    }
}

/// Looks at up to `most` files.
fn collect(most: usize) {
    let mut abandoned = Vec::new();
    let mut files = FILES.lock();
    for _ in 0..most.min(files.all.len()) {
        let at = files.next % files.all.len();
        let file = &files.all[at];
        // Others get a reference only from the list, which is locked.
        if Arc::strong_count(file) == 1 && file.pipe.is_abandoned() {
            abandoned.push(files.all.swap_remove(at));
        } else {
            files.next = at + 1;
        }
    }
    drop(files);
    // Without the lock, because the provider's file may be the last part of an adapter.
    drop(abandoned);
}

#[cfg(test)]
mod tests {
    use std::os::windows::io::{FromRawHandle, OwnedHandle};
    use std::ptr;
    use std::sync::Weak;
    use std::time::Instant;

    use netdirect::Association;

    use super::*;
    use crate::handle::EventRef;

    #[derive(Debug, Default)]
    struct Provided(Association);

    impl OverlappedFile for Provided {
        fn association(&self) -> &Association {
            &self.0
        }

        fn progress(&self) {}

        fn park(&self, _: &dyn Fn() -> bool, _: Option<Instant>) -> Result<()> {
            Ok(())
        }

        fn wake(&self) {}
    }

    /// Held by tests that say which files are given up: another thread that gives one up is done with it a little later.
    static ALONE: Mutex<()> = Mutex::new(());

    fn create() -> (OwnedHandle, Weak<dyn OverlappedFile>) {
        let file: Arc<dyn OverlappedFile> = Arc::new(Provided::default());
        let weak = Arc::downgrade(&file);
        let handle = File::create(file).unwrap();
        // SAFETY: the handle was made for this caller.
        (unsafe { OwnedHandle::from_raw_handle(handle) }, weak)
    }

    #[test]
    fn a_file_is_given_up_when_its_objects_and_its_handles_are_gone() {
        let _alone = ALONE.lock();
        let (handle, file) = create();
        let used = File::from_handle(handle.as_raw_handle()).unwrap();
        let twin = handle.try_clone().unwrap();
        drop(handle);
        File::collect_all();
        assert!(file.upgrade().is_some());
        let by_twin = File::from_handle(twin.as_raw_handle()).unwrap();
        assert!(Arc::ptr_eq(&used, &by_twin));
        drop((twin, by_twin));
        File::collect_all();
        assert!(file.upgrade().is_some(), "an object uses it");
        drop(used);
        File::collect_all();
        assert!(file.upgrade().is_none());
    }

    #[test]
    fn files_that_are_closed_do_not_pile_up() {
        let _alone = ALONE.lock();
        let all: Vec<_> = (0..100).map(|_| create()).collect();
        let (handles, files): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        drop(handles);
        for _ in 0..100 {
            create();
        }
        assert!(files.iter().all(|file| file.upgrade().is_none()));
    }

    #[test]
    fn whatever_is_no_file_is_refused() {
        let _alone = ALONE.lock();
        let (_kept, file) = create();
        let event = EventRef::create(false, false);
        let (_pipe, foreign) = FilePipe::create().unwrap();
        for handle in [
            event.handle(),
            foreign.as_raw_handle(),
            ptr::null_mut(),
            ptr::without_provenance_mut(usize::MAX),
            ptr::without_provenance_mut(0x00DE_AD00),
        ] {
            let refused = File::from_handle(handle).unwrap_err();
            assert_eq!(refused.status(), Status::INVALID_HANDLE, "{handle:p}");
        }
        assert!(file.upgrade().is_some());
    }
}
