//! An OVERLAPPED of a check.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use netdirect::Status;
use netdirect_com::abi::{Handle, Overlapped};

/// The OVERLAPPED of one request. The library may use it until the request has ended; if it never ends, the OVERLAPPED is leaked.
pub(crate) struct Request {
    overlapped: ManuallyDrop<Box<UnsafeCell<Overlapped>>>,
    is_in_flight: bool,
}

impl Request {
    /// An OVERLAPPED of a careless program: `Internal` has any value (TST-006).
    pub(crate) fn new() -> Self {
        Self::with_event(ptr::null_mut())
    }

    /// An OVERLAPPED with this event in `hEvent`.
    pub(crate) fn with_event(event: Handle) -> Self {
        Self::with(Overlapped {
            internal: 0x5A5A_5A5A,
            internal_high: 7,
            offset: 7,
            offset_high: 7,
            event,
        })
    }

    /// An OVERLAPPED of a careful program.
    pub(crate) fn zeroed() -> Self {
        Self::with(Overlapped {
            internal: 0,
            internal_high: 0,
            offset: 0,
            offset_high: 0,
            event: ptr::null_mut(),
        })
    }

    fn with(overlapped: Overlapped) -> Self {
        Self {
            overlapped: ManuallyDrop::new(Box::new(UnsafeCell::new(overlapped))),
            is_in_flight: false,
        }
    }

    /// The pointer to pass to the call that makes the request.
    pub(crate) fn pointer(&mut self) -> *mut Overlapped {
        self.is_in_flight = true;
        self.overlapped.get()
    }

    /// The call has not started a request.
    pub(crate) fn is_free(&mut self) {
        self.is_in_flight = false;
    }

    /// `Internal`.
    pub(crate) fn internal(&self) -> usize {
        let internal = self.overlapped.get().cast::<AtomicUsize>();
        // SAFETY: `internal` is the first field; this value keeps the structure, and the library writes the field as a whole.
        unsafe { &*internal }.load(Ordering::Acquire)
    }

    /// The final status of the request, which was started with the status `started`. `ask` calls GetOverlappedResult, and waits.
    pub(crate) fn end(
        &mut self,
        started: Status,
        ask: impl FnOnce(*mut Overlapped) -> Status,
    ) -> Status {
        let status = match started {
            Status::PENDING => ask(self.overlapped.get()),
            other => other,
        };
        self.is_in_flight = status == Status::PENDING;
        status
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.is_in_flight {
            // SAFETY: dropped once, here, when the library does not use it any more.
            unsafe { ManuallyDrop::drop(&mut self.overlapped) };
        }
    }
}

/// Waits for the end of a request, by a call of an object that has overlapped requests.
macro_rules! end {
    ($request:expr, $object:expr, $started:expr) => {{
        let started = $started;
        $request.end(started, |pointer| {
            $crate::call::call!($object, overlapped.get_overlapped_result(pointer, 1))
        })
    }};
}

pub(crate) use end;
