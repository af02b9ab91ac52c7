//! Interface pointers of a library, with a reference each.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use netdirect::{Error, Result, Status};

use super::loaded::Loaded;
use crate::abi::{Guid, This, UnknownTable};

/// An object of a library, by its interface with the table `T`. It keeps the library loaded.
pub struct Pointer<T> {
    this: This,
    // Last: the object is released first.
    _library: Arc<Loaded>,
    table: PhantomData<fn() -> T>,
}

// SAFETY: any thread may call the functions of an object (GEN-019).
unsafe impl<T> Send for Pointer<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Pointer<T> {}

impl<T> Pointer<T> {
    /// The object that a function has left, whose reference is the caller's.
    ///
    /// # Errors
    ///
    /// The status of the function, or [`INTERNAL_ERROR`](Status::INTERNAL_ERROR) if it has left nothing.
    ///
    /// # Safety
    ///
    /// If `status` is a success, `this` is null or an interface pointer with the table `T`.
    pub unsafe fn made(library: &Arc<Loaded>, status: Status, this: This) -> Result<Self> {
        check(status)?;
        if this.is_null() {
            return Err(Error::new(
                Status::INTERNAL_ERROR,
                "the library has made nothing, and says that it has",
            ));
        }
        Ok(Self {
            this,
            _library: Arc::clone(library),
            table: PhantomData,
        })
    }

    /// The library that has made the object.
    pub fn library(&self) -> &Arc<Loaded> {
        &self._library
    }

    /// The pointer, for arguments, and for functions of the table.
    pub fn this(&self) -> This {
        self.this
    }

    /// The table.
    pub fn table(&self) -> &T {
        // SAFETY: an interface pointer points to a pointer to its table.
        let table = unsafe { *self.this.cast::<*const T>() };
        // SAFETY: the table lives as long as the object (import, "the promise of libraries").
        unsafe { &*table }
    }

    /// The object by its first three functions.
    pub fn into_unknown(self) -> Pointer<UnknownTable> {
        let this = std::mem::ManuallyDrop::new(self);
        Pointer {
            this: this.this,
            // SAFETY: the library's count goes with this value, which is not dropped.
            _library: unsafe { ptr::read(&raw const this._library) },
            table: PhantomData,
        }
    }

    /// Calls QueryInterface for an interface, with the pointer `left`. Returns its status, and the pointer that it leaves.
    pub fn ask(&self, iid: Guid, mut left: This) -> (Status, This) {
        // SAFETY: every table begins with IUnknown.
        let unknown = unsafe { &*ptr::from_ref(self.table()).cast::<UnknownTable>() };
        // SAFETY: an identifier, and room for a pointer.
        let status = unsafe { (unknown.query_interface)(self.this, &raw const iid, &raw mut left) };
        (status, left)
    }

    /// Gives the reference back, and returns the result of Release.
    pub fn give_back(self) -> u32 {
        let object = std::mem::ManuallyDrop::new(self.into_unknown());
        // SAFETY: the library's count goes with this value, which is not dropped.
        let library = unsafe { ptr::read(&raw const object._library) };
        // SAFETY: the reference is this one's, and is given back once.
        let left = unsafe { (object.table().release)(object.this) };
        drop(library);
        left
    }

    /// Another interface of the object.
    pub(super) fn query<U>(&self, iid: Guid) -> Result<Pointer<U>> {
        let (status, other) = self.ask(iid, ptr::null_mut());
        // SAFETY: the interface was asked for by its identifier.
        unsafe { Pointer::made(self.library(), status, other) }
    }
}

impl<T> Drop for Pointer<T> {
    fn drop(&mut self) {
        // SAFETY: every table begins with IUnknown.
        let unknown = unsafe { &*ptr::from_ref(self.table()).cast::<UnknownTable>() };
        // SAFETY: the reference is this one's, and is given back once.
        unsafe { (unknown.release)(self.this) };
    }
}

impl<T> fmt::Debug for Pointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pointer").field(&self.this).finish()
    }
}

/// Calls a function of an object's table, or of a table within it.
macro_rules! call {
    ($object:expr, $($path:ident).+ ($($arg:expr),* $(,)?)) => {{
        let object = $object;
        let function = object.table().$($path).+;
        let this = object.this();
        // SAFETY: the function is the object's own, and the arguments are those of the method: values, memory that outlives the call or,
        // for requests, the request (import, "the promise of libraries").
        unsafe { function(this, $($arg),*) }
    }};
}

/// Makes an object of an adapter: `create!(adapter, create_x(IID, arguments))`.
macro_rules! create {
    ($object:expr, $method:ident ($iid:expr $(, $arg:expr)* $(,)?)) => {{
        let object = $object;
        let iid = $iid;
        let mut made = std::ptr::null_mut();
        let status = call!(object, $method(&raw const iid $(, $arg)*, &raw mut made));
        // SAFETY: the interface was asked for by its identifier.
        unsafe { Pointer::made(object.library(), status, made) }
    }};
}

pub(super) use {call, create};

/// A status as a result. A library gives no reasons.
pub(super) fn check(status: Status) -> Result<()> {
    status.ok()
}

/// The object behind an argument, if it is of the type `T`.
pub(super) fn argument<T: Any>(object: &dyn Any, position: u32) -> Result<&T> {
    object.downcast_ref().ok_or_else(|| {
        Error::new(
            Status::invalid_parameter(position),
            "an object of another provider",
        )
    })
}
