//! Objects whose first octets a C program reads and writes.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use softverbs::{Errno, Error};

use rdma_buffer::forks::forked;

/// The object behind the octets that C programs see.
pub(crate) trait Facade: Send + Sync + Sized + 'static {
    /// The structure in C.
    type C: Copy;
    /// Where in this structure the pointer points that programs hold.
    const SEEN_AT: usize = 0;
    /// The child of a fork may use the objects of its parent.
    const OUTLIVES_FORKS: bool = false;
}

/// An object of a C program.
#[repr(C)]
pub(crate) struct Object<T: Facade> {
    c: UnsafeCell<T::C>,
    rust: T,
    /// How many forks this process had behind it when the object was made.
    forks: u32,
}

impl<T: Facade> Object<T> {
    /// The Rust object behind the structure.
    pub(crate) fn rust(&self) -> &T {
        &self.rust
    }

    /// The structure. Only [`field!`] uses it.
    pub(crate) fn c(&self) -> *mut T::C {
        self.c.get()
    }

    /// Returns true in a process that has forked since the object was made: the object is its parent's.
    fn is_of_parent(&self) -> bool {
        self.forks != forked()
    }
}

/// A pointer to an object, or null.
#[repr(transparent)]
pub(crate) struct Handle<T>(*mut c_void, PhantomData<fn() -> T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: objects may be used by any thread of a program (`Facade: Send + Sync`), and the structure of C by plain accesses that the
// program orders (border).
unsafe impl<T: Facade> Send for Handle<T> {}

/// A structure of C that a program has passed and that is kept. Its pointers may be used by any thread.
#[derive(Clone, Copy)]
pub(crate) struct Kept<C>(pub(crate) C);

// SAFETY: the structure consists of numbers and pointers, and the program lets any thread use what these name (border).
unsafe impl<C: Copy> Send for Kept<C> {}

impl<T: Facade> Handle<T> {
    pub(crate) const NULL: Self = Self(ptr::null_mut(), PhantomData);

    /// Makes an object.
    pub(crate) fn new(c: T::C, rust: T) -> Self {
        let object = Object {
            c: UnsafeCell::new(c),
            rust,
            forks: forked(),
        };
        let start = Box::into_raw(Box::new(object)).cast::<u8>();
        Self(start.wrapping_add(T::SEEN_AT).cast(), PhantomData)
    }

    /// The handle that a program has written to a field, or an object of Rust to its tag.
    pub(crate) fn passed<P>(pointer: *mut P) -> Self {
        Self(pointer.cast(), PhantomData)
    }

    /// The handle of an object whose tag is `tag`.
    pub(crate) fn tagged(tag: u64) -> Self {
        Self::passed(ptr::with_exposed_provenance_mut::<c_void>(
            usize::try_from(tag).unwrap_or(0),
        ))
    }

    /// The number by which an object of Rust finds this handle again.
    pub(crate) fn tag(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    /// The pointer, for a field.
    pub(crate) fn raw<P>(self) -> *mut P {
        self.0.cast()
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    fn start(self) -> *mut Object<T> {
        self.0.cast::<u8>().wrapping_sub(T::SEEN_AT).cast()
    }

    /// The object.
    ///
    /// # Errors
    ///
    /// EINVAL for null; EIO for an object of the parent process, whose sockets a child of a fork must not touch.
    #[inline]
    pub(crate) fn get(&self) -> Result<&Object<T>, Error> {
        self.get_own()?
            .ok_or_else(|| super::error(Errno::IO, "an object of the parent process"))
    }

    /// The object, to be destroyed; `None` for one of the parent process, of which nothing may be touched.
    ///
    /// # Errors
    ///
    /// EINVAL for null.
    #[inline]
    pub(crate) fn get_own(&self) -> Result<Option<&Object<T>>, Error> {
        let object = self
            .get_if()
            .ok_or_else(|| super::error(Errno::INVAL, "a null pointer in place of an object"))?;
        Ok((T::OUTLIVES_FORKS || !object.is_of_parent()).then_some(object))
    }

    /// The object, or `None` for null.
    #[inline]
    pub(crate) fn get_if(&self) -> Option<&Object<T>> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: `new` has made the object, and the program has not destroyed it (border, "the promise of every C interface"). The part
        // that the program writes is in an UnsafeCell.
        Some(unsafe { &*self.start() })
    }

    /// Releases the object.
    pub(crate) fn release(self) {
        if !self.0.is_null() {
            // SAFETY: `new` has made the box, and the program destroys an object once (border).
            drop(unsafe { Box::from_raw(self.start()) });
        }
    }
}

/// Reads or writes a field of the structure that the program sees.
macro_rules! field {
    ($object:expr, $($field:ident).+) => {{
        let structure = $object.c();
        // SAFETY: the structure is part of an object that exists.
        let place = unsafe { &raw const (*structure).$($field).+ };
        // SAFETY: the field is initialized, and the program does not write it during a call that reads it (border).
        unsafe { place.read() }
    }};
    ($object:expr, $($field:ident).+ = $value:expr) => {{
        let value = $value;
        let structure = $object.c();
        // SAFETY: the structure is part of an object that exists.
        let place = unsafe { &raw mut (*structure).$($field).+ };
        // SAFETY: the program reads the field only after the call that writes it (border).
        unsafe { place.write(value) }
    }};
}

/// Calls `hook` when the program exits.
pub(crate) fn at_exit(hook: extern "C" fn()) {
    // SAFETY: the function is part of a library that is never unloaded (`-z nodelete`), and lets no panic out.
    let _ = unsafe { libc::atexit(hook) };
}
