//! The program: its objects, its memory, and its calls.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;

use netdirect::Status;
use netdirect_com::abi::*;
use netdirect_com::export::{Library, get_class_object};
use netdirect_com::handle::{self, EventRef, PortRef};

use super::arena::Arena;
use crate::input::Input;

/// The addresses of the two adapters.
pub(super) const ADDRESSES: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
/// The most interface pointers and handles of a kind.
const MOST: usize = 64;
/// The OVERLAPPEDs of the program.
const SLOTS: usize = 16;
/// A count that is beyond every limit.
const TOO_MANY: u32 = 1 << 24;
/// An address where no object is.
const NO_OBJECT: usize = 8;

/// The table that a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Factory,
    Provider,
    Adapter,
    CompletionQueue,
    Region,
    Window,
    SharedReceives,
    QueuePair,
    Connector,
    Listener,
    /// An extension, of which only the functions of `IUnknown` are called.
    Extension,
    ExtendedResults,
}

/// The interfaces that can be asked for, with the kind of their tables where these are not the object's main one.
const INTERFACES: [(Guid, Option<Kind>); 17] = [
    (IID_IUNKNOWN, None),
    (IID_CLASS_FACTORY, None),
    (IID_ND2_PROVIDER, None),
    (IID_ND2_OVERLAPPED, None),
    (IID_ND2_ADAPTER, None),
    (IID_ND2_COMPLETION_QUEUE, None),
    (IID_ND2_MEMORY_REGION, None),
    (IID_ND2_MEMORY_WINDOW, None),
    (IID_ND2_SHARED_RECEIVE_QUEUE, None),
    (IID_ND2_QUEUE_PAIR, None),
    (IID_ND2_CONNECTOR, None),
    (IID_ND2_LISTENER, None),
    (IID_PROVIDER_EXTENSION, Some(Kind::Extension)),
    (IID_ADAPTER_EXTENSION, Some(Kind::Extension)),
    (IID_COMPLETION_QUEUE_EXTENSION, Some(Kind::ExtendedResults)),
    (IID_QUEUE_PAIR_EXTENSION, Some(Kind::Extension)),
    (IID_LISTENER_EXTENSION, Some(Kind::Extension)),
];

/// An interface pointer, which has a reference.
#[derive(Clone, Copy)]
struct Pointer {
    this: This,
    kind: Kind,
    /// The number of the object, and the kind of its main table.
    object: usize,
    main: Kind,
}

/// Calls a function of an object's table.
macro_rules! call {
    ($this:expr, $table:ty, $($path:ident).+ ($($arg:expr),* $(,)?)) => {{
        let this: This = $this;
        // SAFETY: the pointer is one of the program's, which has a reference, and leads to this table.
        let table = unsafe { this.cast::<*const $table>().read() };
        // SAFETY: the table lives as long as the program.
        let table = unsafe { &*table };
        // SAFETY: the arguments are what the promise of clients allows (netdirect_com::export).
        unsafe { (table.$($path).+)(this, $($arg),*) }
    }};
}

pub(super) struct Client {
    library: &'static Library,
    pointers: Vec<Pointer>,
    /// The references of each object.
    references: BTreeMap<usize, u32>,
    objects: usize,
    files: Vec<Handle>,
    /// Events and a completion port, which live as long as the run.
    events: Vec<Handle>,
    port: Handle,
    data: Arena,
    overlapped: Arena,
    /// OVERLAPPEDs that a request may have had in flight.
    used: [bool; SLOTS],
}

impl Client {
    pub(super) fn new(library: &'static Library) -> Self {
        let mut client = Self {
            library,
            pointers: Vec::new(),
            references: BTreeMap::new(),
            objects: 0,
            files: Vec::new(),
            events: [false, true]
                .map(|manual| EventRef::create(manual, false).into_handle())
                .to_vec(),
            port: PortRef::create().into_handle(),
            data: Arena::new(2),
            overlapped: Arena::new(1),
            used: [false; SLOTS],
        };
        let provider = client.class_object(&IID_ND2_PROVIDER);
        client.made(provider, Kind::Provider);
        for id in 0..2 {
            let adapter_id = client.resolve(provider, id);
            let out = client.data.place(0, size_of::<This>());
            let status = call!(
                provider,
                ProviderTable,
                open_adapter(&IID_ND2_ADAPTER, adapter_id, out.cast())
            );
            assert_eq!(status, Status::SUCCESS);
            client.made(client.data.read(out), Kind::Adapter);
            let status = call!(
                client.pointers[id + 1].this,
                AdapterTable,
                create_overlapped_file(out.cast())
            );
            assert_eq!(status, Status::SUCCESS);
            client.files.push(client.data.read(out));
        }
        client
    }

    fn class_object(&self, iid: &Guid) -> This {
        let out = self.data.place(usize::MAX, size_of::<This>());
        // SAFETY: an identifier, and room for a pointer.
        let status = unsafe { get_class_object(self.library, iid, out.cast()) };
        assert_eq!(status, Status::SUCCESS);
        self.data.read(out)
    }

    fn resolve(&self, provider: This, adapter: usize) -> u64 {
        let address = self.data.place(usize::MAX, 16);
        self.data.write(address, ipv4(adapter, 0));
        let id = self.data.place(0, size_of::<u64>());
        let status = call!(
            provider,
            ProviderTable,
            resolve_address(address.cast(), 16, id.cast())
        );
        assert_eq!(status, Status::SUCCESS);
        self.data.read(id)
    }

    /// A new object, of which the program has the first reference.
    fn made(&mut self, this: This, main: Kind) {
        assert!(!this.is_null(), "a call has succeeded without an object");
        self.objects += 1;
        let object = self.objects;
        self.references.insert(object, 1);
        self.pointers.push(Pointer {
            this,
            kind: main,
            object,
            main,
        });
    }

    /// Puts octets of the input into the memory.
    pub(super) fn write(&self, input: &mut Input<'_>) {
        let at = usize::from(input.word16()) % self.data.len();
        let length = usize::from(input.octet());
        for (offset, octet) in input.take(length).iter().enumerate() {
            let place = self.data.place(at + offset, 1);
            self.data.write(place, *octet);
        }
    }

    /// Closes files, sets events and takes packets.
    pub(super) fn handles(&mut self, input: &mut Input<'_>) {
        let which = usize::from(input.octet());
        match input.octet() & 3 {
            0 if self.files.len() > 1 => close(self.files.swap_remove(which % self.files.len())),
            1 => {
                let factory = self.class_object(&IID_CLASS_FACTORY);
                self.made(factory, Kind::Factory);
            }
            2 => {
                let file = self.files.get(which % self.files.len().max(1)).copied();
                if let Some(file) = file {
                    // SAFETY: files have this table.
                    let table = unsafe { file.cast::<*const FileTable>().read() };
                    // SAFETY: the table lives as long as the program.
                    let table = unsafe { &*table };
                    // SAFETY: a file and a port that live.
                    let _ = unsafe { (table.associate)(file, self.port, which) };
                }
            }
            _ => {
                let packets = self.data.place(usize::MAX, 4 * size_of::<Packet>());
                // SAFETY: ports have this table.
                let table = unsafe { self.port.cast::<*const PortTable>().read() };
                // SAFETY: the table lives as long as the program.
                let table = unsafe { &*table };
                // SAFETY: a port that lives, and room for four packets.
                let taken = unsafe { (table.take)(self.port, packets.cast(), 4, 0) };
                assert!(taken <= 4);
            }
        }
    }

    /// A place for an object of the program.
    fn place(&self, input: &mut Input<'_>, size: usize) -> *mut u8 {
        match input.octet() {
            0 => ptr::null_mut(),
            octet @ 1..=127 => self.data.place(usize::from(octet) * 64, size),
            // Right before the page that cannot be accessed, perhaps not aligned.
            octet => self
                .data
                .place(self.data.len() - size - usize::from(octet & 7), size),
        }
    }

    /// The same, never null, for what the promise demands.
    fn certain(&self, input: &mut Input<'_>, size: usize) -> *mut u8 {
        let place = self.place(input, size);
        if place.is_null() {
            return self.data.place(usize::MAX, size);
        }
        place
    }

    fn iid(&self, input: &mut Input<'_>) -> (*const Guid, Option<Kind>) {
        let octet = input.octet();
        if octet == 255 {
            return (self.place(input, size_of::<Guid>()).cast(), None);
        }
        let (iid, kind) = &INTERFACES[usize::from(octet) % INTERFACES.len()];
        (iid, *kind)
    }

    /// An argument that is an object: mostly one of these kinds.
    fn object(&self, input: &mut Input<'_>, kind: Kind) -> This {
        let octet = usize::from(input.octet());
        if octet < 2 {
            return ptr::without_provenance_mut(octet * NO_OBJECT);
        }
        let of_kind = self.pointers.iter().filter(|one| one.kind == kind);
        let of_kind: Vec<_> = of_kind.collect();
        if octet < 16 || of_kind.is_empty() {
            return self.pointers[octet % self.pointers.len()].this;
        }
        of_kind[octet % of_kind.len()].this
    }

    fn file(&self, input: &mut Input<'_>) -> Handle {
        match usize::from(input.octet()) {
            octet @ 0..=1 => ptr::without_provenance_mut(octet * NO_OBJECT),
            2 => self.events[0],
            3 => self.port,
            octet => self.files[octet % self.files.len()],
        }
    }

    fn slot(&self, slot: usize) -> *mut Overlapped {
        let size = size_of::<Overlapped>();
        let first = self.overlapped.len() - SLOTS * size;
        let place = self.overlapped.place(first + slot * size, size);
        place.cast()
    }

    /// An OVERLAPPED. Only one that has no request gets another event.
    fn overlapped(&mut self, input: &mut Input<'_>) -> *mut Overlapped {
        let octet = usize::from(input.octet());
        if octet < 2 {
            return ptr::without_provenance_mut(octet * NO_OBJECT);
        }
        let (slot, how) = (octet % SLOTS, input.octet());
        let place = self.slot(slot);
        let internal: usize = self.overlapped.read(place.cast());
        if internal != Status::PENDING.bits() as usize && !self.used[slot] {
            let event = match how & 7 {
                0..=2 => ptr::null_mut(),
                3 => ptr::without_provenance_mut(WAKE_EVENT_BIT),
                4 => ptr::without_provenance_mut(2 * NO_OBJECT),
                5 => self.port,
                how => self.events[usize::from(how) % self.events.len()],
            };
            let new = Overlapped {
                internal: 0,
                internal_high: usize::MAX,
                offset: 7,
                offset_high: 7,
                event,
            };
            self.overlapped.write(place.cast(), new);
        }
        self.used[slot] = true;
        place
    }

    /// Entries of a request, and their number. Beyond every limit they lie in memory that cannot be read.
    fn entries(&self, input: &mut Input<'_>) -> (*const Sge, u32) {
        let count = input.octet();
        if count == 255 {
            return (
                self.data.place(usize::MAX, 1).wrapping_add(1).cast(),
                TOO_MANY,
            );
        }
        let count = count & 7;
        let size = usize::from(count) * size_of::<Sge>();
        // Null is a mistake that has a status.
        let place = self.place(input, size);
        if place.is_null() {
            return (ptr::null(), u32::from(count));
        }
        for index in 0..usize::from(count) {
            let length = u32::from(input.octet()) * 8;
            let entry = Sge {
                // Inline data is read where the entry says.
                buffer: self.certain(input, length as usize).cast(),
                buffer_length: length,
                memory_region_token: self.token(input, false),
            };
            let at = place.wrapping_add(index * size_of::<Sge>());
            self.data.write(at, entry);
        }
        (place.cast_const().cast(), u32::from(count))
    }

    /// A token of a region, or any number.
    fn token(&self, input: &mut Input<'_>, is_remote: bool) -> u32 {
        let octet = input.octet();
        let is_region = |one: &&Pointer| one.kind == Kind::Region;
        let regions: Vec<_> = self.pointers.iter().filter(is_region).collect();
        if octet == 0 || regions.is_empty() {
            return u32::from(octet);
        }
        let region = regions[usize::from(octet) % regions.len()].this;
        if is_remote {
            call!(region, MemoryRegionTable, get_remote_token())
        } else {
            call!(region, MemoryRegionTable, get_local_token())
        }
    }

    /// An address, and its length.
    fn address(&self, input: &mut Input<'_>) -> (*const c_void, u32) {
        let (length, which) = (u32::from(input.octet() & 31), usize::from(input.octet()));
        let place = self.place(input, 28);
        if !place.is_null() && which < 128 {
            let port = 1000 + u16::try_from(which / 2 % 4).unwrap_or_default();
            self.data.write(place, ipv4(which % 2, port));
            return (place.cast(), 16);
        }
        (place.cast(), length)
    }

    /// Private data: the memory is asked for before it is read, so it may end in the page that cannot be accessed.
    fn private_data(&self, input: &mut Input<'_>) -> (*const c_void, u32) {
        let octet = input.octet();
        let length = match octet {
            255 => u32::MAX,
            octet => u32::from(octet) * 4,
        };
        let fits = octet & 1 == 0;
        let size = if fits { length as usize } else { 1 };
        (self.place(input, size).cast(), length)
    }

    /// A buffer, and a variable with its size.
    fn room(&self, input: &mut Input<'_>) -> (*mut u8, *mut u32) {
        let capacity = u32::from(input.octet()) * 2;
        let buffer = self.place(input, capacity as usize);
        let size = self.place(input, size_of::<u32>());
        if !size.is_null() {
            self.data.write(size, capacity);
        }
        (buffer, size.cast())
    }

    fn number(input: &mut Input<'_>) -> u32 {
        match input.octet() {
            255 => u32::MAX,
            octet => u32::from(octet & 31),
        }
    }

    /// Creates an object: `call` gets room for the pointer. It fails with null, or has made one.
    fn create(
        &mut self,
        input: &mut Input<'_>,
        kind: Kind,
        create: impl FnOnce(&mut Self, &mut Input<'_>, *const Guid, *mut This) -> Status,
    ) -> Status {
        // Any other interface is refused, or is one of the same pointer.
        let main = INTERFACES
            .iter()
            .position(|(iid, _)| *iid == main_iid(kind));
        let octet = input.octet();
        let iid: *const Guid = if octet < 224 {
            &INTERFACES[main.expect("a main interface")].0
        } else {
            self.iid(input).0
        };
        let out = self.place(input, size_of::<This>());
        if !out.is_null() {
            self.data.write(out, usize::MAX);
        }
        let status = create(self, input, iid, out.cast());
        if status == Status::SUCCESS {
            self.made(self.data.read(out), kind);
        }
        status
    }

    /// A method of an object.
    pub(super) fn call(&mut self, input: &mut Input<'_>) {
        let which = usize::from(input.octet());
        let Some(pointer) = self
            .pointers
            .get(which % self.pointers.len().max(1))
            .copied()
        else {
            return;
        };
        let method = input.octet();
        if method >= 240 || matches!(pointer.kind, Kind::Extension) {
            return self.unknown(which % self.pointers.len(), method, input);
        }
        if self.pointers.len() >= MOST || self.files.len() >= MOST {
            return;
        }
        let this = pointer.this;
        let status = match pointer.kind {
            Kind::Extension => Status::SUCCESS,
            Kind::Factory => self.factory(this, method, input),
            Kind::Provider => self.provider(this, method, input),
            Kind::Adapter => self.adapter(this, method, input),
            Kind::Region => self.region(this, method, input),
            Kind::Window => {
                call!(this, MemoryWindowTable, get_remote_token());
                Status::SUCCESS
            }
            Kind::CompletionQueue => self.completion_queue(this, method, input),
            Kind::SharedReceives => self.shared_receives(this, method, input),
            Kind::QueuePair => self.queue_pair(this, method, input),
            Kind::Connector => self.connector(this, method, input),
            Kind::Listener => self.listener(this, method, input),
            Kind::ExtendedResults => {
                let (count, size) = (u32::from(input.octet() & 7), size_of::<ExtendedResult>());
                let place = self.place(input, count as usize * size);
                let taken = call!(
                    this,
                    CompletionQueueExtensionTable,
                    get_results(place.cast(), count)
                );
                assert!(taken <= count);
                Status::SUCCESS
            }
        };
        assert!(
            status.name().is_some(),
            "{:?}, method {method}, returned {status:?}",
            pointer.kind
        );
    }

    /// The functions of `IUnknown`.
    fn unknown(&mut self, at: usize, method: u8, input: &mut Input<'_>) {
        let pointer = self.pointers[at];
        match method & 3 {
            0 if self.pointers.len() < MOST => {
                let now = call!(pointer.this, UnknownTable, add_ref());
                self.referenced(pointer);
                assert_eq!(now, self.references[&pointer.object], "AddRef");
            }
            1 if self.pointers.len() < MOST => {
                let (iid, kind) = self.iid(input);
                let out = self.place(input, size_of::<This>());
                let status = call!(pointer.this, UnknownTable, query_interface(iid, out.cast()));
                if status == Status::SUCCESS {
                    self.referenced(Pointer {
                        this: self.data.read(out),
                        kind: kind.unwrap_or(pointer.main),
                        ..pointer
                    });
                }
            }
            _ => self.release(at),
        }
    }

    fn referenced(&mut self, pointer: Pointer) {
        assert!(!pointer.this.is_null());
        *self.references.entry(pointer.object).or_default() += 1;
        self.pointers.push(pointer);
    }

    fn release(&mut self, at: usize) {
        let pointer = self.pointers.swap_remove(at);
        let left = call!(pointer.this, UnknownTable, release());
        let known = self
            .references
            .get_mut(&pointer.object)
            .expect("it is known");
        *known -= 1;
        assert_eq!(left, *known, "Release of {:?} (AMB-070)", pointer.main);
    }

    /// Gives everything back, the newest first.
    pub(super) fn finish(mut self) {
        while !self.pointers.is_empty() {
            self.release(self.pointers.len() - 1);
        }
        let handles = self.files.drain(..).chain(self.events.drain(..));
        handles.chain([self.port]).for_each(close);
    }

    fn factory(&mut self, this: This, method: u8, input: &mut Input<'_>) -> Status {
        let outer = if method & 1 == 0 {
            ptr::null_mut()
        } else {
            this
        };
        let status = self.create(input, Kind::Provider, |_, _, iid, out| {
            call!(this, ClassFactoryTable, create_instance(outer, iid, out))
        });
        // CLASS_E_NOAGGREGATION is COM's.
        if method & 1 == 0 {
            status
        } else {
            Status::SUCCESS
        }
    }

    fn provider(&mut self, this: This, method: u8, input: &mut Input<'_>) -> Status {
        match method % 3 {
            0 => {
                let (list, size) = self.room(input);
                call!(this, ProviderTable, query_address_list(list.cast(), size))
            }
            1 => {
                let (address, length) = self.address(input);
                let id = self.place(input, size_of::<u64>());
                call!(
                    this,
                    ProviderTable,
                    resolve_address(address, length, id.cast())
                )
            }
            _ => {
                let which = usize::from(input.octet());
                self.create(input, Kind::Adapter, |client, _, iid, out| {
                    let id = if which < 128 {
                        client.resolve(this, which % 2)
                    } else {
                        77
                    };
                    call!(this, ProviderTable, open_adapter(iid, id, out))
                })
            }
        }
    }

    fn adapter(&mut self, this: This, method: u8, input: &mut Input<'_>) -> Status {
        match method % 10 {
            0 => {
                let out = self.place(input, size_of::<Handle>());
                let status = call!(this, AdapterTable, create_overlapped_file(out.cast()));
                if status == Status::SUCCESS {
                    self.files.push(self.data.read(out));
                }
                status
            }
            1 => {
                let (info, size) = self.room(input);
                call!(this, AdapterTable, query(info.cast(), size))
            }
            2 => {
                let (list, size) = self.room(input);
                call!(this, AdapterTable, query_address_list(list.cast(), size))
            }
            3 => self.create(input, Kind::CompletionQueue, |client, input, iid, out| {
                let (file, depth) = (client.file(input), Self::number(input));
                call!(
                    this,
                    AdapterTable,
                    create_completion_queue(iid, file, depth, 0, 0, out)
                )
            }),
            4 => self.create(input, Kind::Region, |client, input, iid, out| {
                let file = client.file(input);
                call!(this, AdapterTable, create_memory_region(iid, file, out))
            }),
            5 => self.create(input, Kind::Window, |_, _, iid, out| {
                call!(this, AdapterTable, create_memory_window(iid, out))
            }),
            6 => self.create(input, Kind::SharedReceives, |client, input, iid, out| {
                let file = client.file(input);
                let [depth, sges, threshold] = [(); 3].map(|()| Self::number(input));
                call!(
                    this,
                    AdapterTable,
                    create_shared_receive_queue(iid, file, depth, sges, threshold, 0, 0, out)
                )
            }),
            7 => self.create(input, Kind::QueuePair, |client, input, iid, out| {
                let [receive, initiator] =
                    [(); 2].map(|()| client.object(input, Kind::CompletionQueue));
                if input.octet() & 128 == 0 {
                    let [receives, sends, receive_sges, send_sges, inline] =
                        [(); 5].map(|()| Self::number(input));
                    return call!(
                        this,
                        AdapterTable,
                        create_queue_pair(
                            iid,
                            receive,
                            initiator,
                            ptr::without_provenance_mut(77),
                            receives,
                            sends,
                            receive_sges,
                            send_sges,
                            inline,
                            out
                        )
                    );
                }
                let shared = client.object(input, Kind::SharedReceives);
                let [sends, send_sges, inline] = [(); 3].map(|()| Self::number(input));
                call!(
                    this,
                    AdapterTable,
                    create_queue_pair_with_srq(
                        iid,
                        receive,
                        initiator,
                        shared,
                        ptr::without_provenance_mut(78),
                        sends,
                        send_sges,
                        inline,
                        out
                    )
                )
            }),
            8 => self.create(input, Kind::Connector, |client, input, iid, out| {
                let file = client.file(input);
                call!(this, AdapterTable, create_connector(iid, file, out))
            }),
            _ => self.create(input, Kind::Listener, |client, input, iid, out| {
                let file = client.file(input);
                call!(this, AdapterTable, create_listener(iid, file, out))
            }),
        }
    }

    /// The methods of `IND2Overlapped`.
    fn requests(&self, this: This, method: u8, input: &mut Input<'_>) -> Status {
        if method & 1 == 0 {
            return call!(this, OverlappedTable, cancel_overlapped_requests());
        }
        let octet = usize::from(input.octet());
        let slot = octet % SLOTS;
        // A request that may be in flight might never end.
        let waits = i32::from(!self.used[slot]);
        let place = if octet == 0 {
            ptr::null_mut()
        } else {
            self.slot(slot)
        };
        let status = call!(this, OverlappedTable, get_overlapped_result(place, waits));
        // An OVERLAPPED that was never used has any number (TST-005).
        if self.used[slot] {
            status
        } else {
            Status::SUCCESS
        }
    }

    fn region(&mut self, this: This, method: u8, input: &mut Input<'_>) -> Status {
        match method % 5 {
            0..=1 => {
                let flags = u32::from(input.octet());
                let (buffer, size) = match input.octet() {
                    // Memory that cannot be accessed, in part or as a whole.
                    0 => (self.data.place(usize::MAX, 64), 4096),
                    1 => (ptr::without_provenance_mut(NO_OBJECT), 4096),
                    2 => (self.data.start(), usize::MAX),
                    octet => {
                        let size = usize::from(octet) * 16;
                        (self.place(input, size), size)
                    }
                };
                let overlapped = self.overlapped(input);
                call!(
                    this,
                    MemoryRegionTable,
                    register(buffer.cast(), size, flags, overlapped)
                )
            }
            2 => {
                let overlapped = self.overlapped(input);
                call!(this, MemoryRegionTable, deregister(overlapped))
            }
            3 => {
                call!(this, MemoryRegionTable, get_local_token());
                call!(this, MemoryRegionTable, get_remote_token());
                Status::SUCCESS
            }
            _ => self.requests(this, input.octet(), input),
        }
    }

    fn completion_queue(&mut self, this: This, method: u8, input: &mut Input<'_>) -> Status {
        match method % 5 {
            0 => {
                let group = self.place(input, size_of::<u16>());
                let affinity = self.place(input, size_of::<usize>());
                call!(
                    this,
                    CompletionQueueTable,
                    get_notify_affinity(group.cast(), affinity.cast())
                )
            }
            1 => {
                let depth = Self::number(input);
                call!(this, CompletionQueueTable, resize(depth))
            }
            2 => {
                let (kind, overlapped) = (u32::from(input.octet() & 3), self.overlapped(input));
                call!(this, CompletionQueueTable, notify(kind, overlapped))
            }
            3 => {
                let (count, size) = (u32::from(input.octet() & 7), size_of::<CompletionResult>());
                let place = self.place(input, count as usize * size);
                let taken = call!(this, CompletionQueueTable, get_results(place.cast(), count));
                assert!(taken <= count);
                Status::SUCCESS
            }
            _ => self.requests(this, input.octet(), input),
        }
    }

    fn shared_receives(&mut self, this: This, method: u8, input: &mut Input<'_>) -> Status {
        match method % 5 {
            0 => {
                let group = self.place(input, size_of::<u16>());
                let affinity = self.place(input, size_of::<usize>());
                call!(
                    this,
                    SharedReceiveQueueTable,
                    get_notify_affinity(group.cast(), affinity.cast())
                )
            }
            1 => {
                let [depth, threshold] = [(); 2].map(|()| Self::number(input));
                call!(this, SharedReceiveQueueTable, modify(depth, threshold))
            }
            2 => {
                let overlapped = self.overlapped(input);
                call!(this, SharedReceiveQueueTable, notify(overlapped))
            }
            3 => {
                let (entries, count) = self.entries(input);
                let context = ptr::without_provenance_mut(79);
                call!(
                    this,
                    SharedReceiveQueueTable,
                    receive(context, entries, count)
                )
            }
            _ => self.requests(this, input.octet(), input),
        }
    }

    fn queue_pair(&self, this: This, method: u8, input: &mut Input<'_>) -> Status {
        let context = ptr::without_provenance_mut(usize::from(method));
        match method % 7 {
            0 => call!(this, QueuePairTable, flush()),
            1 => {
                let flags = u32::from(input.octet());
                let (entries, count) = self.entries(input);
                call!(this, QueuePairTable, send(context, entries, count, flags))
            }
            2 => {
                let (entries, count) = self.entries(input);
                call!(this, QueuePairTable, receive(context, entries, count))
            }
            3 => {
                let region = self.object(input, Kind::Region);
                let window = self.object(input, Kind::Window);
                let size = usize::from(input.octet()) * 16;
                let buffer = self.place(input, size);
                let flags = u32::from(input.octet());
                call!(
                    this,
                    QueuePairTable,
                    bind(context, region, window, buffer.cast(), size, flags)
                )
            }
            4 => {
                let window = self.object(input, Kind::Window);
                let flags = u32::from(input.octet());
                call!(this, QueuePairTable, invalidate(context, window, flags))
            }
            method => {
                let flags = u32::from(input.octet());
                let (entries, count) = self.entries(input);
                let at = self.certain(input, 1).addr() as u64;
                let token = self.token(input, true);
                if method == 5 {
                    return call!(
                        this,
                        QueuePairTable,
                        read(context, entries, count, at, token, flags)
                    );
                }
                call!(
                    this,
                    QueuePairTable,
                    write(context, entries, count, at, token, flags)
                )
            }
        }
    }

    fn connector(&mut self, this: This, method: u8, input: &mut Input<'_>) -> Status {
        match method % 12 {
            0 => {
                let (address, length) = self.address(input);
                call!(this, ConnectorTable, bind(address, length))
            }
            1 => {
                let qp = self.object(input, Kind::QueuePair);
                let (address, length) = self.address(input);
                let (data, size) = self.private_data(input);
                let [inbound, outbound] = [(); 2].map(|()| Self::number(input));
                let overlapped = self.overlapped(input);
                call!(
                    this,
                    ConnectorTable,
                    connect(
                        qp, address, length, inbound, outbound, data, size, overlapped
                    )
                )
            }
            2 => {
                let overlapped = self.overlapped(input);
                call!(this, ConnectorTable, complete_connect(overlapped))
            }
            3 => {
                let qp = self.object(input, Kind::QueuePair);
                let (data, size) = self.private_data(input);
                let [inbound, outbound] = [(); 2].map(|()| Self::number(input));
                let overlapped = self.overlapped(input);
                call!(
                    this,
                    ConnectorTable,
                    accept(qp, inbound, outbound, data, size, overlapped)
                )
            }
            4 => {
                let (data, size) = self.private_data(input);
                call!(this, ConnectorTable, reject(data, size))
            }
            5 => {
                let [inbound, outbound] = [(); 2].map(|()| self.place(input, size_of::<u32>()));
                call!(
                    this,
                    ConnectorTable,
                    get_read_limits(inbound.cast(), outbound.cast())
                )
            }
            6 => {
                let (data, size) = self.room(input);
                call!(this, ConnectorTable, get_private_data(data.cast(), size))
            }
            7 => {
                let (address, size) = self.room(input);
                call!(
                    this,
                    ConnectorTable,
                    get_local_address(address.cast(), size)
                )
            }
            8 => {
                let (address, size) = self.room(input);
                call!(this, ConnectorTable, get_peer_address(address.cast(), size))
            }
            9 => {
                let overlapped = self.overlapped(input);
                call!(this, ConnectorTable, notify_disconnect(overlapped))
            }
            10 => {
                let overlapped = self.overlapped(input);
                call!(this, ConnectorTable, disconnect(overlapped))
            }
            _ => self.requests(this, input.octet(), input),
        }
    }

    fn listener(&mut self, this: This, method: u8, input: &mut Input<'_>) -> Status {
        match method % 5 {
            0 => {
                let (address, length) = self.address(input);
                call!(this, ListenerTable, bind(address, length))
            }
            1 => {
                let backlog = Self::number(input);
                call!(this, ListenerTable, listen(backlog))
            }
            2 => {
                let (address, size) = self.room(input);
                call!(this, ListenerTable, get_local_address(address.cast(), size))
            }
            3 => {
                let connector = self.object(input, Kind::Connector);
                let overlapped = self.overlapped(input);
                call!(
                    this,
                    ListenerTable,
                    get_connection_request(connector, overlapped)
                )
            }
            _ => self.requests(this, input.octet(), input),
        }
    }
}

fn main_iid(kind: Kind) -> Guid {
    match kind {
        Kind::Factory => IID_CLASS_FACTORY,
        Kind::Provider => IID_ND2_PROVIDER,
        Kind::Adapter => IID_ND2_ADAPTER,
        Kind::CompletionQueue => IID_ND2_COMPLETION_QUEUE,
        Kind::Region => IID_ND2_MEMORY_REGION,
        Kind::Window => IID_ND2_MEMORY_WINDOW,
        Kind::SharedReceives => IID_ND2_SHARED_RECEIVE_QUEUE,
        Kind::QueuePair => IID_ND2_QUEUE_PAIR,
        Kind::Connector => IID_ND2_CONNECTOR,
        Kind::Listener => IID_ND2_LISTENER,
        Kind::Extension => IID_ADAPTER_EXTENSION,
        Kind::ExtendedResults => IID_COMPLETION_QUEUE_EXTENSION,
    }
}

/// A `sockaddr_in` of one of the two adapters.
fn ipv4(adapter: usize, port: u16) -> [u8; 16] {
    let mut octets = [0; 16];
    octets[0] = 2; // AF_INET
    octets[2..4].copy_from_slice(&port.to_be_bytes());
    octets[4..8].copy_from_slice(&ADDRESSES[adapter % 2]);
    octets
}

fn close(handle: Handle) {
    // SAFETY: a handle of the program, which it does not use any more.
    let closed = unsafe { handle::close(handle) };
    assert_eq!(closed, Ok(()));
}
