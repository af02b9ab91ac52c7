//! The data that the tests have about each interface and method, and the notes of recorders.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ops::RangeFrom;

use netdirect::Status;
use netdirect_com::abi::{Guid, This};

/// The way in which an argument is written down in C and C++.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pointer,
    /// A pointer in C, a reference in C++.
    Reference,
    Unsigned,
    /// `BOOL`.
    Signed,
}

/// An argument of a method, and the value that the tests pass.
pub(crate) struct Argument {
    pub(crate) c_type: &'static str,
    pub(crate) kind: Kind,
    pub(crate) value: u64,
}

/// A method, with the number of its slot as Rust has it.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) slot: usize,
    pub(crate) returns: &'static str,
    /// The result of the recorders.
    pub(crate) answer: u64,
    pub(crate) arguments: Vec<Argument>,
}

/// An interface, with the methods of its bases first.
pub(crate) struct Interface {
    pub(crate) name: &'static str,
    pub(crate) iid: Guid,
    /// Octets of the table.
    pub(crate) table_size: usize,
    pub(crate) methods: Vec<Method>,
    /// A table of recorders, whose functions note their calls.
    pub(crate) recorder: *const c_void,
    /// Calls every method of an object, with the values of [`Argument::value`], and returns their results.
    pub(crate) call: unsafe fn(object: This, interface: usize) -> Vec<u64>,
}

/// A call that a recorder got: its interface, its slot, the object and the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) interface: usize,
    pub(crate) slot: usize,
    pub(crate) object: u64,
    pub(crate) arguments: Vec<u64>,
}

thread_local! {
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// Notes a call.
pub(crate) fn note(call: Call) {
    CALLS.with_borrow_mut(|calls| calls.push(call));
}

/// All calls of this thread since the last time.
pub(crate) fn take_notes() -> Vec<Call> {
    CALLS.take()
}

/// An object made in Rust.
#[repr(C)]
pub(crate) struct Object {
    pub(crate) table: *const c_void,
    pub(crate) interface: usize,
}

/// The result of the function of a slot: as an HRESULT it is negative, and no two functions have the same.
pub(crate) fn answer(interface: usize, slot: usize) -> u32 {
    0xC0DE_0000 | u32::try_from((interface << 8) | slot).expect("tables are small")
}

/// The argument at the next position of a method. All 64 bits are used, and no two arguments of the tests are equal.
pub(crate) fn argument<T: Word>(
    interface: usize,
    slot: usize,
    positions: &mut RangeFrom<usize>,
) -> T {
    let position = positions.next().expect("the range has no end");
    let number = ((interface << 16) | (slot << 8) | position) as u64 + 1;
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    T::from_pattern((mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9))
}

/// A type of arguments.
pub(crate) trait Word: Copy {
    const KIND: Kind;
    fn from_pattern(pattern: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! words {
    ($($type:ty, $unsigned:ty, $kind:expr;)*) => {$(
        impl Word for $type {
            const KIND: Kind = $kind;
            #[allow(clippy::cast_possible_truncation, reason = "the type's part of the pattern is wanted")]
            fn from_pattern(pattern: u64) -> Self {
                pattern as $type
            }
            fn bits(self) -> u64 {
                self as $unsigned as u64
            }
        }
    )*};
}

words! {
    u16, u16, Kind::Unsigned;
    u32, u32, Kind::Unsigned;
    u64, u64, Kind::Unsigned;
    usize, usize, Kind::Unsigned;
    i32, u32, Kind::Signed;
}

impl<T> Word for *const T {
    const KIND: Kind = Kind::Pointer;
    fn from_pattern(pattern: u64) -> Self {
        // Aligned, because C++ makes references of some.
        std::ptr::without_provenance(usize::from_pattern(pattern) & !15)
    }
    fn bits(self) -> u64 {
        self.addr() as u64
    }
}

impl<T> Word for *mut T {
    const KIND: Kind = Kind::Pointer;
    fn from_pattern(pattern: u64) -> Self {
        <*const T>::from_pattern(pattern).cast_mut()
    }
    fn bits(self) -> u64 {
        self.addr() as u64
    }
}

/// A type that methods return.
pub(crate) trait Answer {
    /// The answer that belongs to a number.
    fn make(number: u32) -> Self;
    fn to_bits(self) -> u64;
}

impl Answer for Status {
    fn make(number: u32) -> Self {
        Self::from_bits(number)
    }
    fn to_bits(self) -> u64 {
        self.bits().into()
    }
}

impl Answer for u32 {
    fn make(number: u32) -> Self {
        number
    }
    fn to_bits(self) -> u64 {
        self.into()
    }
}

impl Answer for u64 {
    fn make(number: u32) -> Self {
        (Self::from(number) << 32) | 0x1234_5678
    }
    fn to_bits(self) -> u64 {
        self
    }
}

/// The way in which an argument of this type is written down.
pub(crate) fn kind_of<T: Word>(c_type: &str) -> Kind {
    if c_type == "REFIID" {
        assert_eq!(T::KIND, Kind::Pointer);
        return Kind::Reference;
    }
    T::KIND
}
