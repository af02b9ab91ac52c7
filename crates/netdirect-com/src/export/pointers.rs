//! Arguments of clients other than objects: memory to read, room to fill, numbers.

use std::ffi::c_void;
use std::net::{IpAddr, SocketAddr};
use std::{ptr, slice};

use netdirect::{Buffer, Error, Result, Status};
use rdma_buffer::is_usable;

use crate::abi::{Guid, Handle, Overlapped, This};
use crate::context;
use crate::sockaddr::{self, V6};

/// The type that represents an argument of a method.
pub(super) trait Passed {
    /// The argument's type in the table.
    type Raw;

    /// The value of an argument.
    ///
    /// # Safety
    ///
    /// The promise of clients holds for `raw` ([`export`](super)), for a method whose argument this type represents.
    unsafe fn passed(raw: Self::Raw) -> Self;
}

macro_rules! passed_as_is {
    ($($type:ty),*) => {
        $(impl Passed for $type {
            type Raw = Self;

            unsafe fn passed(raw: Self) -> Self {
                raw
            }
        })*
    };
}

passed_as_is!(i32, u16, u32, u64, usize, Handle);

/// The error for a missing argument: a null pointer.
fn missing(position: u32) -> Error {
    Error::new(
        Status::invalid_parameter(position),
        format!("argument {position} is a null pointer"),
    )
}

/// A context: a pointer of the client that is never dereferenced.
#[derive(Clone, Copy)]
pub(super) struct Context(pub(super) u64);

impl Passed for Context {
    type Raw = *mut c_void;

    unsafe fn passed(raw: *mut c_void) -> Self {
        Self(context::number(raw))
    }
}

/// `const T*` of a client, or null: one `T`, or an array.
pub(super) struct In<T>(*const T);

impl<T> Passed for In<T> {
    type Raw = *const T;

    unsafe fn passed(raw: *const T) -> Self {
        Self(raw)
    }
}

impl<T> In<T> {
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

impl<T: Copy> In<T> {
    /// The structure, in argument `position`.
    pub(super) fn value(&self, position: u32) -> Result<T> {
        if self.0.is_null() {
            return Err(missing(position));
        }
        // SAFETY: not null, so it is a structure (export, "the promise of clients").
        Ok(unsafe { self.0.read_unaligned() })
    }
}

impl In<std::ffi::c_char> {
    /// A copy of `len` octets of text, in argument `position`, whose length is the argument behind it.
    pub(super) fn octets(&self, len: u32, position: u32) -> Result<Vec<u8>> {
        if len > LONGEST_TEXT {
            return Err(Error::new(
                Status::invalid_parameter(position + 1),
                format!("a text of {len} octets; {LONGEST_TEXT} are the most"),
            ));
        }
        Octets(self.0.cast()).copy(len, LONGEST_TEXT, position)
    }
}

/// The most octets of a text that a client passes.
const LONGEST_TEXT: u32 = 1 << 20;

impl In<Guid> {
    /// The identifier of the interface that a method is to return, its first argument.
    pub(super) fn iid(&self) -> Result<Guid> {
        self.value(1)
    }
}

/// The most entries that a request may have, and the status of one that has more.
#[derive(Clone, Copy, Debug)]
pub(super) struct MostEntries {
    pub(super) count: u32,
    pub(super) beyond: Status,
}

impl In<crate::abi::Sge> {
    /// The entries of a request, which are in argument `position`. They are not looked at if there are more than there may be.
    pub(super) fn sges<R>(
        &self,
        count: u32,
        most: MostEntries,
        position: u32,
        use_them: impl FnOnce(&[netdirect::Sge]) -> Result<R>,
    ) -> Result<R> {
        if count == 0 {
            return use_them(&[]);
        }
        if count > most.count {
            return Err(Error::new(
                most.beyond,
                format!("{count} entries; the adapter allows {}", most.count),
            ));
        }
        if self.0.is_null() {
            return Err(missing(position));
        }
        let entries = self.0.cast::<netdirect::Sge>();
        if !entries.is_aligned() {
            // The client's structure may be unaligned.
            let entry = |index| {
                // SAFETY: the client passes as many entries (export, "the promise of clients").
                unsafe { entries.wrapping_add(index).read_unaligned() }
            };
            return use_them(&(0..count as usize).map(entry).collect::<Vec<_>>());
        }
        // SAFETY: the client passes as many entries (export, "the promise of clients"), for the length of the call, and changes none
        // meanwhile. `netdirect::Sge` has the layout of ND2_SGE.
        let sges = unsafe { slice::from_raw_parts(entries, count as usize) };
        use_them(sges)
    }
}

/// Copies the memory that entries name, at most `limit` octets, for inline data: it need not be registered, and another thread may change
/// it meanwhile.
///
/// # Errors
///
/// [`BUFFER_OVERFLOW`](Status::BUFFER_OVERFLOW) for more octets, of which none is read (QP-025).
pub(super) fn copy_inline(sges: &[netdirect::Sge], limit: usize) -> Result<Vec<u8>> {
    let total: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
    let Some(total) = usize::try_from(total).ok().filter(|total| *total <= limit) else {
        return Err(Error::new(
            Status::BUFFER_OVERFLOW,
            format!("{total} octets of inline data; the adapter allows {limit}"),
        ));
    };
    let mut data = Vec::with_capacity(total);
    for sge in sges {
        let len = sge.length as usize;
        let from = context::pointer(sge.address).cast::<u8>();
        if len == 0 {
            continue;
        }
        if from.is_null() {
            return Err(Error::new(
                Status::ACCESS_VIOLATION,
                "an entry of inline data with a null pointer",
            ));
        }
        // SAFETY: the client may read the memory of inline data for the length of the call (export, "the promise of clients"); an
        // octet that it changes meanwhile is sent in either form, as with every such library in C.
        let part = unsafe { Buffer::from_pages(from, len) };
        let start = data.len();
        data.resize(start + len, 0);
        part.read(0, &mut data[start..]);
    }
    Ok(data)
}

/// `const VOID*` with a length: private data.
pub(super) struct Octets(*const c_void);

impl Passed for Octets {
    type Raw = *const c_void;

    unsafe fn passed(raw: *const c_void) -> Self {
        Self(raw)
    }
}

/// Checks that all of the memory can be read, and written if `is_written` (AMB-012).
///
/// # Errors
///
/// [`ACCESS_VIOLATION`](Status::ACCESS_VIOLATION).
pub(super) fn check_usable(start: *mut u8, len: usize, is_written: bool) -> Result<()> {
    if is_usable(start, len, is_written) {
        return Ok(());
    }
    let use_ = match is_written {
        true => "read and written",
        false => "read",
    };
    Err(Error::new(
        Status::ACCESS_VIOLATION,
        format!("not all of the {len} octets from {start:p} on can be {use_}"),
    ))
}

impl Octets {
    /// A copy of `len` octets, in argument `position`, up to one more than `limit`, so that the provider finds it too long.
    pub(super) fn copy(&self, len: u32, limit: u32, position: u32) -> Result<Vec<u8>> {
        let len = len.min(limit.saturating_add(1)) as usize;
        if len == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(missing(position));
        }
        // CONN-025, CONN-057, CONN-072.
        check_usable(self.memory(), len, false)?;
        // SAFETY: the client passes as many octets (export, "the promise of clients"), and changes none meanwhile.
        Ok(unsafe { slice::from_raw_parts(self.0.cast::<u8>(), len) }.to_vec())
    }

    /// The address only; the memory is not read here.
    pub(super) fn memory(&self) -> *mut u8 {
        self.0.cast_mut().cast()
    }

    /// The octets behind a pointer in a structure of the client.
    pub(super) fn at(pointer: *const c_void) -> Self {
        Self(pointer)
    }

    /// The memory as a buffer to register.
    pub(super) fn buffer(&self, size: usize) -> Buffer {
        let start = self.memory();
        start.expose_provenance();
        // SAFETY: the client keeps the memory as long as it is registered (export, "the promise of clients"), and is a program in another
        // language or uses atomics.
        unsafe { Buffer::from_pages(start, size) }
    }

    /// The socket address of `len` octets in argument `position`, whose length is the argument behind it.
    pub(super) fn address(&self, len: u32, position: u32) -> Result<SocketAddr> {
        if self.0.is_null() {
            return Err(missing(position));
        }
        let mut octets = [0; V6];
        let known = (len as usize).min(V6);
        // SAFETY: the client passes `len` octets (export, "the promise of clients").
        unsafe { ptr::copy_nonoverlapping(self.0.cast::<u8>(), octets.as_mut_ptr(), known) };
        sockaddr::parse(&octets, known)
    }
}

/// `T*` of a client, or null: room for one value, or for an array.
pub(super) struct Out<T>(*mut T);

impl<T> Passed for Out<T> {
    type Raw = *mut T;

    unsafe fn passed(raw: *mut T) -> Self {
        Self(raw)
    }
}

impl<T: Copy> Out<T> {
    /// Returns true if the client wants no value.
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes a value to the client's pointer, unless it is null.
    #[inline]
    pub(super) fn set(&self, value: T) {
        self.set_at(0, value);
    }

    /// Writes a value into the client's array, unless the pointer is null.
    #[inline]
    pub(super) fn set_at(&self, index: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: the client has room for the value, and says how long its array is (export, "the promise of clients").
            unsafe { self.0.wrapping_add(index).write_unaligned(value) };
        }
    }

    /// The pointer, which must not be null, in argument `position`.
    pub(super) fn required(&self, position: u32) -> Result<&Self> {
        if self.0.is_null() {
            return Err(missing(position));
        }
        Ok(self)
    }
}

impl Out<This> {
    /// Writes the object that a method makes to the pointer in argument `position`, or null if the method fails.
    pub(super) fn object(&self, position: u32, make: impl FnOnce() -> Result<This>) -> Result<()> {
        self.required(position)?.set(ptr::null_mut());
        self.set(make()?);
        Ok(())
    }
}

/// A buffer with its size in a variable of the client, in arguments 1 and 2 of every method that has them (GEN-016).
pub(super) struct Room {
    start: *mut u8,
    size: Out<u32>,
    /// The argument that has `start`. The next one has `size`.
    position: u32,
}

impl Room {
    pub(super) fn new<T>(start: &Out<T>, size: Out<u32>) -> Self {
        Self::of_argument(1, start, size)
    }

    /// `start` is argument `position`, and `size` is the next one.
    pub(super) fn of_argument<T>(position: u32, start: &Out<T>, size: Out<u32>) -> Self {
        Self {
            start: start.0.cast(),
            size,
            position,
        }
    }

    /// Octets that the client has room for.
    pub(super) fn capacity(&self) -> Result<usize> {
        self.size.required(self.position + 1)?;
        // SAFETY: not null, so the client has written the size (export, "the promise of clients").
        Ok(unsafe { self.size.0.read_unaligned() } as usize)
    }

    /// Octet `at` of what the client has written.
    pub(super) fn given<const N: usize>(&self) -> Result<Option<[u8; N]>> {
        if self.start.is_null() || self.capacity()? < N {
            return Ok(None);
        }
        // SAFETY: the client's buffer has as many octets (export, "the promise of clients").
        Ok(Some(unsafe {
            self.start.cast::<[u8; N]>().read_unaligned()
        }))
    }

    /// Leaves `octets`, or only their number if there is no room.
    pub(super) fn fill(&self, octets: &[u8]) -> Result<()> {
        let capacity = self.capacity()?;
        self.size
            .set(u32::try_from(octets.len()).unwrap_or(u32::MAX));
        if capacity < octets.len() {
            return Err(Status::BUFFER_OVERFLOW.into());
        }
        self.copy(octets)
    }

    /// Leaves as many octets as fit, and the number of all (CONN-085, AMB-043).
    pub(super) fn fill_partly(&self, octets: &[u8]) -> Result<()> {
        let capacity = self.capacity()?;
        self.size
            .set(u32::try_from(octets.len()).unwrap_or(u32::MAX));
        if capacity < octets.len() {
            if !self.start.is_null() {
                self.copy(&octets[..capacity])?;
            }
            return Err(Status::BUFFER_OVERFLOW.into());
        }
        self.copy(octets)
    }

    fn copy(&self, octets: &[u8]) -> Result<()> {
        if octets.is_empty() {
            return Ok(());
        }
        if self.start.is_null() {
            return Err(missing(self.position));
        }
        // SAFETY: the caller has compared the length with the room that the client has (export, "the promise of clients").
        unsafe { ptr::copy_nonoverlapping(octets.as_ptr(), self.start, octets.len()) };
        Ok(())
    }

    /// Leaves the limits of an adapter.
    pub(super) fn fill_info(&self, info: &crate::abi::AdapterInfo) -> Result<()> {
        let start = ptr::from_ref(info).cast::<u8>();
        // SAFETY: the structure consists of numbers without a gap between them.
        self.fill(unsafe { slice::from_raw_parts(start, size_of_val(info)) })
    }

    /// Leaves an address.
    pub(super) fn fill_address(&self, address: SocketAddr) -> Result<()> {
        let (octets, len) = sockaddr::from_address(address);
        self.fill(&octets[..len])
    }

    /// Leaves a SOCKET_ADDRESS_LIST: the entries, and behind them the addresses that they point to (PROV-011). Port 0.
    pub(super) fn fill_list(&self, addresses: &[SocketAddr]) -> Result<()> {
        let list = sockaddr::list_at(self.start, addresses);
        self.fill(&list)
    }
}

/// The OVERLAPPED of a request, which the client keeps until the request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientOverlapped(*mut Overlapped);

// SAFETY: any thread may end a request, and the client leaves the structure to the library until then (export, "the promise of clients").
unsafe impl Send for ClientOverlapped {}
// SAFETY: as above; this module writes one word, and the client reads it.
unsafe impl Sync for ClientOverlapped {}

impl Passed for ClientOverlapped {
    type Raw = *mut Overlapped;

    unsafe fn passed(raw: *mut Overlapped) -> Self {
        Self(raw)
    }
}

impl ClientOverlapped {
    /// The address, which identifies the request and is carried by packets.
    pub(super) fn pointer(self) -> *mut Overlapped {
        self.0
    }

    /// The structure, in argument `position`.
    pub(super) fn required(self, position: u32) -> Result<Self> {
        if self.0.is_null() {
            return Err(missing(position));
        }
        if !context::may_be_object(self.0) {
            return Err(Error::new(
                Status::invalid_parameter(position),
                "a number in place of an OVERLAPPED, or an address that is no multiple of a pointer's size",
            ));
        }
        Ok(self)
    }

    /// `hEvent`, with its lowest bit.
    pub(super) fn event(self) -> Handle {
        let event = self
            .0
            .wrapping_byte_add(std::mem::offset_of!(Overlapped, event));
        // SAFETY: the structure is the client's for this request (export, "the promise of clients").
        unsafe { event.cast::<Handle>().read_unaligned() }
    }

    /// Writes the status, which the client may read at any time.
    pub(super) fn write(self, status: Status) {
        // SAFETY: as above. `internal` is the first field. A client that looks at it in a loop does so by an atomic or volatile access;
        // the structure is aligned, as every structure with pointers is.
        let internal = unsafe { &*self.0.cast::<std::sync::atomic::AtomicUsize>() };
        internal.store(status.bits() as usize, std::sync::atomic::Ordering::Release);
    }

    /// The status in the structure.
    #[expect(clippy::cast_possible_truncation, reason = "a status has 32 bits")]
    pub(super) fn read(self) -> Status {
        // SAFETY: as above.
        let internal = unsafe { &*self.0.cast::<std::sync::atomic::AtomicUsize>() };
        Status::from_bits(internal.load(std::sync::atomic::Ordering::Acquire) as u32)
    }
}

/// Drops the port, which address lists do not have.
pub(super) fn without_port(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) => (ip, 0).into(),
        IpAddr::V6(_) => {
            let mut address = address;
            address.set_port(0);
            address
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Sge;

    /// A pointer to memory that no program has.
    fn nowhere<T>(offset: usize) -> *const T {
        ptr::without_provenance(1 << 16 | offset)
    }

    #[test]
    fn a_list_beyond_its_limit_is_not_looked_at() {
        let most = MostEntries {
            count: 4,
            beyond: Status::DATA_OVERRUN,
        };
        for offset in [0, 1] {
            let list = In::<Sge>(nowhere(offset));
            for count in [5, 1_000_000, u32::MAX] {
                let taken = list.sges(count, most, 2, |_| Ok(()));
                assert_eq!(taken.unwrap_err().status(), Status::DATA_OVERRUN);
            }
            let len = list.sges(0, most, 2, |sges| Ok(sges.len()));
            assert_eq!(len.unwrap(), 0);
        }
        let missing = In::<Sge>(ptr::null()).sges(1, most, 2, |_| Ok(()));
        assert_eq!(missing.unwrap_err().status(), Status::INVALID_PARAMETER_2);
    }

    #[test]
    fn inline_data_beyond_its_limit_is_not_looked_at() {
        let entry = |length| netdirect::Sge {
            address: nowhere::<u8>(0).addr() as u64,
            length,
            ..netdirect::Sge::default()
        };
        for lengths in [&[9][..], &[4, 5], &[u32::MAX], &[u32::MAX; 3]] {
            let entries: Vec<_> = lengths.iter().map(|length| entry(*length)).collect();
            let copied = copy_inline(&entries, 8);
            assert_eq!(copied.unwrap_err().status(), Status::BUFFER_OVERFLOW);
        }
        assert!(copy_inline(&[entry(0)], 8).unwrap().is_empty());
    }

    #[test]
    fn a_text_beyond_its_limit_is_not_looked_at() {
        let text = In::<std::ffi::c_char>(nowhere(0));
        for len in [LONGEST_TEXT + 1, u32::MAX] {
            let taken = text.octets(len, 1);
            assert_eq!(taken.unwrap_err().status(), Status::INVALID_PARAMETER_2);
        }
    }

    #[test]
    fn small_numbers_are_neither_handles_nor_objects_nor_requests() {
        for number in [0, 4, 8, 16, 0x1F4, 0xFFF8, usize::MAX] {
            let passed: *mut c_void = ptr::without_provenance_mut(number);
            // SAFETY: not handles, which is what this test is about.
            let event = unsafe { crate::handle::EventRef::retain(passed) };
            assert_eq!(event.unwrap_err(), Status::INVALID_HANDLE);
            let request = ClientOverlapped(passed.cast());
            assert_eq!(
                request.required(3).unwrap_err().status(),
                Status::INVALID_PARAMETER_3
            );
        }
    }
}
