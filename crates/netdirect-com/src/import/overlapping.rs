//! Objects that have requests.

use std::sync::Arc;

use netdirect::{Overlapped, OverlappedFile, Result, Started, Status};

use super::file::ImportedFile;
use super::pointer::{Pointer, call, check};
use super::requests::{Requester, Then};
use crate::abi;

/// An object by its main interface with the table `T`, its requests, and the file where they end.
#[derive(Debug)]
pub(super) struct Overlapping<T> {
    main: Pointer<T>,
    requester: Arc<Requester>,
    /// Last: the release of the object ends its requests, whose packets are taken then.
    file: Drained,
}

#[derive(Debug)]
struct Drained(Arc<dyn OverlappedFile>);

impl Drained {
    fn file(&self) -> &ImportedFile {
        ImportedFile::from_argument(&self.0).expect("made with a file of this provider")
    }
}

impl Drop for Drained {
    fn drop(&mut self) {
        self.file().requests().drain_all();
    }
}

impl<T> Overlapping<T> {
    /// `file` belongs to this provider, and `main` was made with it.
    pub(super) fn new(main: Pointer<T>, file: &Arc<dyn OverlappedFile>) -> Result<Self> {
        Ok(Self {
            requester: Arc::new(Requester::of(&main)?),
            main,
            file: Drained(Arc::clone(file)),
        })
    }

    pub(super) fn main(&self) -> &Pointer<T> {
        &self.main
    }

    /// Makes a request: `start` calls a method of the object with the OVERLAPPED.
    pub(super) fn submit(
        &self,
        overlapped: &Overlapped,
        then: Option<Then>,
        start: impl FnOnce(&Pointer<T>, *mut abi::Overlapped) -> Status,
    ) -> Result<Started> {
        self.file.file().requests().submit(
            &self.file.0,
            &self.requester,
            overlapped,
            then,
            |pointer| start(&self.main, pointer),
        )
    }

    /// Ends the requests whose packets have arrived.
    #[inline]
    pub(super) fn drain(&self) {
        self.file.file().requests().drain();
    }

    /// As [`drain`](Self::drain), behind a method that has ended requests before it returned.
    pub(super) fn drain_all(&self) {
        self.file.file().requests().drain_all();
    }

    /// Cancels all requests. Their packets are in the client's port when this returns (AMB-023).
    pub(super) fn cancel(&self) -> Result<()> {
        let status = call!(&self.requester.overlapped, cancel_overlapped_requests());
        self.drain_all();
        check(status)
    }
}
