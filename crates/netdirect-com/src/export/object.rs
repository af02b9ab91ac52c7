//! Objects of COM: tables, the client's references, and arguments that are objects.

use std::any::TypeId;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use netdirect::{Adapter, Error, Result, Status};
use rdma_buffer::forks::{self, forked};

use super::alive::ALIVE;
use super::guard::{Answer, guarded};
use super::planted::planted;
use super::pointers::Passed;
use crate::abi::{
    ConnectionEndTable, Guid, IID_CONNECTION_END, IID_IUNKNOWN, IID_OVERLAPPED_EXTENSION,
    OverlappedExtensionTable, This, UnknownTable,
};
use crate::context;

/// A class of objects.
pub(super) trait Class: Send + Sync + Sized + 'static {
    /// The table of its main interface, which begins with [`UnknownTable`].
    type Table: Sync + 'static;
    /// The interfaces that the main table serves, in addition to `IUnknown`.
    const INTERFACES: &'static [Guid];

    /// The table of a second interface, which begins with [`UnknownTable`] by [`unknown_of_more`]; `()` if there is none.
    type More: Sync + 'static;
    /// The second interface.
    const MORE: Option<Guid>;

    /// The table.
    fn table() -> &'static Self::Table;

    /// The table of the second interface.
    fn more() -> &'static Self::More;

    /// Returns true if this object has the second interface.
    fn has_more(&self) -> bool {
        true
    }

    /// The table of `INDXConnectionEnd`, if objects of the class have connections. It begins with [`unknown_of_end`].
    const END: Option<&'static ConnectionEndTable> = None;

    /// The table of `INDXOverlapped`, if objects of the class have requests. It begins with [`unknown_of_explanations`].
    const EXPLANATIONS: Option<&'static OverlappedExtensionTable> = None;

    /// The adapter that ends when a method panics.
    fn adapter(&self) -> Option<&dyn Adapter> {
        None
    }

    /// In the child of a fork the object goes on: it has no state of the parent's adapters.
    const OUTLIVES_FORKS: bool = false;

    /// The client has given back its last reference.
    fn release(self) {}
}

/// An object in the form that a client sees: it begins with a pointer to a table.
#[repr(C)]
pub(super) struct Object<C: Class> {
    table: &'static C::Table,
    /// The second interface's pointer points here.
    more: &'static C::More,
    /// At the same place in objects of all classes, so that an argument can be asked for its class.
    class_is: TypeId,
    /// The pointer to `INDXConnectionEnd` points here.
    end: Option<&'static ConnectionEndTable>,
    /// The pointer to `INDXOverlapped` points here.
    explanations: Option<&'static OverlappedExtensionTable>,
    /// The references of the client.
    references: AtomicU32,
    /// The forks behind the process that has made the object.
    forks: u32,
    class: C,
}

/// The beginning of objects of all classes.
#[repr(C)]
struct Head {
    table: *const c_void,
    _more: *const c_void,
    class_is: TypeId,
}

/// The identifier of an interface that only objects of this image have: it contains an address of the image. A second copy of the same
/// library has another.
fn private_interface() -> Guid {
    let address = ptr::from_ref(&ALIVE).addr() as u64;
    Guid::new(0x6B3C_5A70, 0x2E14, 0x4F0D, address)
}

impl<C: Class> Object<C> {
    /// Makes an object, with one reference for the client, whose interface `iid` is asked for.
    ///
    /// # Errors
    ///
    /// [`NO_INTERFACE`](Status::NO_INTERFACE): the class does not have the interface.
    pub(super) fn create(class: C, iid: Guid) -> Result<This> {
        if iid != IID_IUNKNOWN && !C::INTERFACES.contains(&iid) {
            return Err(no_interface(iid));
        }
        forks::watch();
        ALIVE.fetch_add(1, Ordering::Relaxed);
        let object = Box::new(Self {
            table: C::table(),
            more: C::more(),
            class_is: TypeId::of::<C>(),
            end: C::END,
            explanations: C::EXPLANATIONS,
            references: AtomicU32::new(1),
            forks: forked(),
            class,
        });
        Ok(Box::into_raw(object).cast())
    }

    /// The class behind an interface pointer.
    ///
    /// # Safety
    ///
    /// `this` was made by [`create`](Self::create) of the same class, and the client has a reference as long as the result lives.
    pub(super) unsafe fn class_behind<'a>(this: This) -> &'a C {
        // SAFETY: the contract of this function; objects are shared only.
        let object = unsafe { &*this.cast::<Self>() };
        &object.class
    }

    /// Returns true in a process that has forked since the object was made: the object is its parent's.
    ///
    /// # Safety
    ///
    /// As [`class_behind`](Self::class_behind).
    pub(super) unsafe fn is_of_parent(this: This) -> bool {
        // SAFETY: the contract of this function; objects are shared only.
        let object = unsafe { &*this.cast::<Self>() };
        !C::OUTLIVES_FORKS && object.forks != forked()
    }

    /// The main interface pointer of an object whose second one is `more`.
    pub(super) fn main(more: This) -> This {
        more.wrapping_byte_sub(offset_of!(Self, more))
    }

    /// The main interface pointer of an object whose pointer to `INDXConnectionEnd` is `end`.
    pub(super) fn main_of_end(end: This) -> This {
        end.wrapping_byte_sub(offset_of!(Self, end))
    }

    /// The main interface pointer of an object whose pointer to `INDXOverlapped` is `explanations`.
    pub(super) fn main_of_explanations(explanations: This) -> This {
        explanations.wrapping_byte_sub(offset_of!(Self, explanations))
    }
}

pub(super) fn no_interface(iid: Guid) -> Error {
    Error::new(
        Status::NO_INTERFACE,
        format!("the object has no interface {iid}"),
    )
}

/// `IUnknown` for a class.
pub(super) const fn unknown<C: Class>() -> UnknownTable {
    UnknownTable {
        query_interface: query_interface::<C>,
        add_ref: add_ref::<C>,
        release: release::<C>,
    }
}

/// `IUnknown` for a table whose pointers become the main one by the function `$main` of [`Object`].
macro_rules! unknown_by {
    ($main:ident) => {{
        unsafe extern "system" fn query<C: Class>(
            this: This,
            iid: *const Guid,
            object: *mut This,
        ) -> Status {
            // SAFETY: the caller's promises; the object's main interface has this function.
            unsafe { query_interface::<C>(Object::<C>::$main(this), iid, object) }
        }
        unsafe extern "system" fn add<C: Class>(this: This) -> u32 {
            // SAFETY: as above.
            unsafe { add_ref::<C>(Object::<C>::$main(this)) }
        }
        unsafe extern "system" fn give<C: Class>(this: This) -> u32 {
            // SAFETY: as above.
            unsafe { release::<C>(Object::<C>::$main(this)) }
        }
        UnknownTable {
            query_interface: query::<C>,
            add_ref: add::<C>,
            release: give::<C>,
        }
    }};
}

/// `IUnknown` in the table of the second interface of a class.
pub(super) const fn unknown_of_more<C: Class>() -> UnknownTable {
    unknown_by!(main)
}

/// `IUnknown` in the table of `INDXConnectionEnd` of a class.
pub(super) const fn unknown_of_end<C: Class>() -> UnknownTable {
    unknown_by!(main_of_end)
}

/// `IUnknown` in the table of `INDXOverlapped` of a class.
pub(super) const fn unknown_of_explanations<C: Class>() -> UnknownTable {
    unknown_by!(main_of_explanations)
}

unsafe extern "system" fn query_interface<C: Class>(
    this: This,
    iid: *const Guid,
    object: *mut This,
) -> Status {
    if object.is_null() {
        return Status::INVALID_PARAMETER_2;
    }
    if iid.is_null() {
        // SAFETY: not null, so the client has room for a pointer (export, "the promise of clients").
        unsafe { object.write(ptr::null_mut()) };
        return Status::INVALID_PARAMETER_1;
    }
    // SAFETY: not null, so it is an identifier (export, "the promise of clients").
    let iid = unsafe { iid.read_unaligned() };
    let is_known =
        iid == IID_IUNKNOWN || C::INTERFACES.contains(&iid) || iid == private_interface();
    // SAFETY: the client calls the function in the table of an object of this class.
    let is_more = C::MORE == Some(iid) && unsafe { Object::<C>::class_behind(this) }.has_more();
    let answer = if is_known {
        this
    } else if is_more {
        this.wrapping_byte_add(offset_of!(Object<C>, more))
    } else if iid == IID_CONNECTION_END && C::END.is_some() {
        this.wrapping_byte_add(offset_of!(Object<C>, end))
    } else if iid == IID_OVERLAPPED_EXTENSION && C::EXPLANATIONS.is_some() {
        this.wrapping_byte_add(offset_of!(Object<C>, explanations))
    } else {
        ptr::null_mut()
    };
    // SAFETY: as above.
    unsafe { object.write(answer) };
    if answer.is_null() {
        return Status::NO_INTERFACE;
    }
    // SAFETY: the client called this function of the object's own table.
    unsafe { add_ref::<C>(this) };
    Status::SUCCESS
}

unsafe extern "system" fn add_ref<C: Class>(this: This) -> u32 {
    let references = this
        .wrapping_byte_add(offset_of!(Object<C>, references))
        .cast::<AtomicU32>();
    // SAFETY: the object is alive, since the client has a reference.
    let references = unsafe { &*references };
    references.fetch_add(1, Ordering::Relaxed) + 1
}

unsafe extern "system" fn release<C: Class>(this: This) -> u32 {
    let references = this
        .wrapping_byte_add(offset_of!(Object<C>, references))
        .cast::<AtomicU32>();
    // SAFETY: the object is alive, since the client has the reference that it gives back.
    let references = unsafe { &*references };
    let left = references.fetch_sub(1, Ordering::AcqRel) - 1;
    // SAFETY: as above. A child leaves what belongs to its parent as it is.
    if left == 0 && !unsafe { Object::<C>::is_of_parent(this) } {
        // SAFETY: `create` has made the box, and this was the last reference.
        let object = unsafe { Box::from_raw(this.cast::<Object<C>>()) };
        guarded(None, || {
            object.class.release();
            0_u32
        });
        // Last: from here on this object does not keep the library loaded.
        ALIVE.fetch_sub(1, Ordering::Release);
    }
    left
}

/// An object of this image that a client has passed as an argument, with a reference while this lives.
pub(super) struct Argument<C: Class> {
    object: This,
    class: PhantomData<fn() -> C>,
}

impl<C: Class> Argument<C> {
    /// The object behind the pointer.
    pub(super) fn get(&self) -> &C {
        // SAFETY: `Interface::of_class` has seen that it is an object of this class, and this value has a reference.
        unsafe { Object::<C>::class_behind(self.object) }
    }
}

impl<C: Class> Drop for Argument<C> {
    fn drop(&mut self) {
        // SAFETY: the reference that QueryInterface has given.
        unsafe { release::<C>(self.object) };
    }
}

/// `IUnknown*` in an argument: any interface pointer of any object, or null.
pub(super) struct Interface(This);

impl Interface {
    /// The object of this image behind the pointer.
    ///
    /// # Errors
    ///
    /// `INVALID_PARAMETER_<position>`: null, an object of another library or of another class (GEN-022).
    pub(super) fn of_class<C: Class>(self, position: u32) -> Result<Argument<C>> {
        let position = position + u32::from(planted!(other_position));
        let wrong = |what| Error::new(Status::invalid_parameter(position), what);
        if self.0.is_null() {
            return Err(wrong("a null pointer in place of an object"));
        }
        if !context::may_be_object(self.0.cast::<*const UnknownTable>()) {
            return Err(wrong("a number in place of an object"));
        }
        // SAFETY: an interface pointer points to a pointer to a table that begins with IUnknown (export, "the promise of clients").
        let table = unsafe { *self.0.cast::<*const UnknownTable>() };
        // SAFETY: as above.
        let query_interface = unsafe { (*table).query_interface };
        let (private, mut object) = (private_interface(), ptr::null_mut());
        // SAFETY: the function is the object's own.
        let status = unsafe { query_interface(self.0, &raw const private, &raw mut object) };
        if status != Status::SUCCESS || object.is_null() {
            return Err(wrong("an object of another library"));
        }
        // SAFETY: only objects of this image know the interface, and all begin with `Head`.
        let head = unsafe { &*object.cast::<Head>() };
        if head.class_is != TypeId::of::<C>() {
            // SAFETY: every table of this image begins with IUnknown.
            let release = unsafe { (*head.table.cast::<UnknownTable>()).release };
            // SAFETY: the reference that QueryInterface has given, by a function of the object's own table.
            unsafe { release(object) };
            return Err(wrong("an object of another kind"));
        }
        let argument = Argument {
            object,
            class: PhantomData,
        };
        // SAFETY: the object is of this class, and `argument` has a reference.
        if unsafe { Object::<C>::is_of_parent(object) } {
            return Err(of_parent());
        }
        Ok(argument)
    }
}

impl Passed for Interface {
    type Raw = This;

    unsafe fn passed(raw: This) -> Self {
        Self(raw)
    }
}

/// Calls a method of a class for a function of its table.
///
/// # Safety
///
/// As [`Object::class_behind`].
pub(super) unsafe fn call<C: Class, A: Answer>(this: This, method: impl FnOnce(&C) -> A) -> A::C {
    // SAFETY: the contract of this function.
    if unsafe { Object::<C>::is_of_parent(this) } {
        let refusal = of_parent();
        tracing::debug!(target: crate::log::TARGET, "{refusal}");
        return A::of_parent();
    }
    // SAFETY: the contract of this function.
    let object = unsafe { Object::<C>::class_behind(this) };
    guarded(object.adapter(), || method(object))
}

/// The threads that serve the object do not exist in this process.
#[cold]
fn of_parent() -> Error {
    Error::new(
        Status::DEVICE_REMOVED,
        "the object belongs to the process that has forked: open an adapter in this one",
    )
}

/// A function of a table that calls a method of a class. With `more`, of the table of its second interface; with `end`, of the
/// table of `INDXConnectionEnd`.
macro_rules! method {
    ($class:ty, $method:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty) => {
        $crate::export::object::method!(@ std::convert::identity, $class, $method($($arg: $type),*) -> $ret)
    };
    (more $class:ty, $method:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty) => {
        $crate::export::object::method!(@ $crate::export::object::Object::<$class>::main, $class, $method($($arg: $type),*) -> $ret)
    };
    (end $class:ty, $method:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty) => {
        $crate::export::object::method!(@ $crate::export::object::Object::<$class>::main_of_end, $class, $method($($arg: $type),*) -> $ret)
    };
    (@ $main:expr, $class:ty, $method:ident($($arg:ident: $type:ty),*) -> $ret:ty) => {{
        unsafe extern "system" fn function(
            this: $crate::abi::This,
            $($arg: <$type as $crate::export::pointers::Passed>::Raw,)*
        ) -> <$ret as $crate::export::guard::Answer>::C {
            let this = $main(this);
            $(
                // SAFETY: the promise of clients.
                let $arg = unsafe { <$type as $crate::export::pointers::Passed>::passed($arg) };
            )*
            let method = |object: &$class| -> $ret { object.$method($($arg),*) };
            // SAFETY: a client calls the function in the table of an object of this class, and has a reference (export, "the promise of
            // clients").
            unsafe { $crate::export::object::call(this, method) }
        }
        function
    }};
}

pub(super) use method;

/// A class without a second interface.
macro_rules! no_more {
    () => {
        type More = ();
        const MORE: Option<Guid> = None;

        fn more() -> &'static () {
            &()
        }
    };
}

pub(super) use no_more;
