//! An open adapter, and the objects that it makes.

use std::ptr;

use conform_report::{Step, Stop, ensure};
use netdirect::{AdapterFlags, Status, VERSION_2};
use netdirect_com::abi::{
    AdapterInfo, AdapterTable, CompletionQueueTable, ConnectorTable, Guid, Handle,
    IID_ND2_COMPLETION_QUEUE, IID_ND2_CONNECTOR, IID_ND2_LISTENER, IID_ND2_MEMORY_REGION,
    IID_ND2_MEMORY_WINDOW, IID_ND2_QUEUE_PAIR, IID_ND2_SHARED_RECEIVE_QUEUE, ListenerTable,
    MemoryRegionTable, MemoryWindowTable, OverlappedTable, QueuePairTable, SharedReceiveQueueTable,
    This, UnknownTable,
};
use netdirect_com::import::{OwnedHandle, Pointer};

use crate::call::call;
use crate::client::Client;
use crate::common::status;

/// The objects that an adapter makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    CompletionQueue,
    MemoryRegion,
    MemoryWindow,
    SharedReceiveQueue,
    QueuePair,
    Connector,
    Listener,
}

impl ObjectKind {
    pub(crate) const ALL: [Self; 7] = [
        Self::CompletionQueue,
        Self::MemoryRegion,
        Self::MemoryWindow,
        Self::SharedReceiveQueue,
        Self::QueuePair,
        Self::Connector,
        Self::Listener,
    ];

    /// The name of the object, in words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CompletionQueue => "a completion queue",
            Self::MemoryRegion => "a memory region",
            Self::MemoryWindow => "a memory window",
            Self::SharedReceiveQueue => "a shared receive queue",
            Self::QueuePair => "a queue pair",
            Self::Connector => "a connector",
            Self::Listener => "a listener",
        }
    }

    /// The method that makes it.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::CompletionQueue => "CreateCompletionQueue",
            Self::MemoryRegion => "CreateMemoryRegion",
            Self::MemoryWindow => "CreateMemoryWindow",
            Self::SharedReceiveQueue => "CreateSharedReceiveQueue",
            Self::QueuePair => "CreateQueuePair",
            Self::Connector => "CreateConnector",
            Self::Listener => "CreateListener",
        }
    }

    /// The interface that ND2's page for the method names.
    pub(crate) fn iid(self) -> Guid {
        match self {
            Self::CompletionQueue => IID_ND2_COMPLETION_QUEUE,
            Self::MemoryRegion => IID_ND2_MEMORY_REGION,
            Self::MemoryWindow => IID_ND2_MEMORY_WINDOW,
            Self::SharedReceiveQueue => IID_ND2_SHARED_RECEIVE_QUEUE,
            Self::QueuePair => IID_ND2_QUEUE_PAIR,
            Self::Connector => IID_ND2_CONNECTOR,
            Self::Listener => IID_ND2_LISTENER,
        }
    }

    /// Returns true if the object has overlapped requests, and so the interface `IND2Overlapped`.
    pub(crate) fn is_overlapped(self) -> bool {
        !matches!(self, Self::MemoryWindow | Self::QueuePair)
    }
}

/// An open adapter with an overlapped file. The fields are given back in their order.
pub(crate) struct OpenAdapter {
    pub(crate) adapter: Pointer<AdapterTable>,
    pub(crate) file: OwnedHandle,
    pub(crate) info: AdapterInfo,
    pub(crate) client: Client,
}

/// The depth of a completion queue of a check.
const DEPTH: u32 = 16;

impl OpenAdapter {
    /// Opens the adapter. Its provider is given back.
    pub(crate) fn open(client: Client) -> Step<Self> {
        let provider = client.provider()?;
        let adapter = client.adapter(&provider)?;
        drop(provider);
        let file = file(&client, &adapter)?;
        client.step("Query");
        // More room than any version of the structure needs.
        let mut infos = [AdapterInfo::default(); 8];
        infos[0].info_version = VERSION_2;
        let mut size = u32::try_from(size_of_val(&infos)).unwrap_or(u32::MAX);
        let returned = call!(&adapter, query(infos.as_mut_ptr(), &raw mut size));
        status("Query", Status::SUCCESS, returned)?;
        Ok(Self {
            adapter,
            file,
            info: infos[0],
            client,
        })
    }

    pub(crate) fn step(&self, what: impl Into<String>) {
        self.client.step(what);
    }

    /// Skips the check unless the adapter can connect to itself.
    pub(crate) fn needs_connections(&self) -> Step {
        let flags = AdapterFlags::from_bits_retain(self.info.adapter_flags);
        if flags.contains(AdapterFlags::LOOPBACK_CONNECTIONS_SUPPORTED) {
            return Ok(());
        }
        let why = "the adapter lacks the flag LOOPBACK_CONNECTIONS_SUPPORTED";
        Err(Stop::Skip(why.to_owned()))
    }

    /// Returns true if the adapter can make objects of this kind at all.
    pub(crate) fn has(&self, kind: ObjectKind) -> bool {
        kind != ObjectKind::SharedReceiveQueue || self.info.max_shared_receive_queue_depth > 0
    }

    /// The kinds of objects that the adapter can make.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = ObjectKind> + use<> {
        let without =
            (!self.has(ObjectKind::SharedReceiveQueue)).then_some(ObjectKind::SharedReceiveQueue);
        let all = ObjectKind::ALL.into_iter();
        all.filter(move |kind| Some(*kind) != without)
    }

    /// Calls the method that makes such an object. `object` gets the pointer that the method leaves.
    pub(crate) fn create(&self, kind: ObjectKind, iid: Guid, object: &mut This) -> Step<Status> {
        self.create_on(kind, iid, self.file.handle(), object)
    }

    fn create_on(
        &self,
        kind: ObjectKind,
        iid: Guid,
        file: Handle,
        object: &mut This,
    ) -> Step<Status> {
        let queue = match kind {
            ObjectKind::QueuePair => Some(self.completion_queue()?),
            _ => None,
        };
        self.step(kind.method());
        let (iid, out): (*const Guid, *mut This) = (&raw const iid, object);
        Ok(match kind {
            ObjectKind::CompletionQueue => {
                call!(
                    &self.adapter,
                    create_completion_queue(iid, file, DEPTH, 0, 0, out)
                )
            }
            ObjectKind::MemoryRegion => call!(&self.adapter, create_memory_region(iid, file, out)),
            ObjectKind::MemoryWindow => call!(&self.adapter, create_memory_window(iid, out)),
            ObjectKind::SharedReceiveQueue => call!(
                &self.adapter,
                create_shared_receive_queue(iid, file, 4, 1, 0, 0, 0, out)
            ),
            ObjectKind::QueuePair => {
                let queue = queue.as_ref().map_or(ptr::null_mut(), Pointer::this);
                let context = ptr::without_provenance_mut(77);
                call!(
                    &self.adapter,
                    create_queue_pair(iid, queue, queue, context, 4, 4, 1, 1, 0, out)
                )
            }
            ObjectKind::Connector => call!(&self.adapter, create_connector(iid, file, out)),
            ObjectKind::Listener => call!(&self.adapter, create_listener(iid, file, out)),
        })
    }

    fn make<T>(&self, kind: ObjectKind) -> Step<Pointer<T>> {
        let mut object = ptr::null_mut();
        let returned = self.create(kind, kind.iid(), &mut object)?;
        self.client.made(kind.method(), returned, object)
    }

    /// Makes an object of any kind, for `IUnknown`'s methods.
    pub(crate) fn any(&self, kind: ObjectKind) -> Step<Pointer<UnknownTable>> {
        self.make(kind)
    }

    /// Makes an object with overlapped requests, for their methods.
    pub(crate) fn overlapped(&self, kind: ObjectKind) -> Step<Pointer<OverlappedTable>> {
        self.make(kind)
    }

    pub(crate) fn completion_queue(&self) -> Step<Pointer<CompletionQueueTable>> {
        self.make(ObjectKind::CompletionQueue)
    }

    pub(crate) fn region(&self) -> Step<Pointer<MemoryRegionTable>> {
        self.make(ObjectKind::MemoryRegion)
    }

    pub(crate) fn window(&self) -> Step<Pointer<MemoryWindowTable>> {
        self.make(ObjectKind::MemoryWindow)
    }

    /// A shared receive queue, if the adapter has some.
    pub(crate) fn shared_receive_queue(&self) -> Step<Pointer<SharedReceiveQueueTable>> {
        if self.has(ObjectKind::SharedReceiveQueue) {
            return self.make(ObjectKind::SharedReceiveQueue);
        }
        let why = "the adapter has no shared receive queues (MaxSharedReceiveQueueDepth is 0)";
        Err(Stop::Skip(why.to_owned()))
    }

    pub(crate) fn connector(&self) -> Step<Pointer<ConnectorTable>> {
        self.make(ObjectKind::Connector)
    }

    pub(crate) fn listener(&self) -> Step<Pointer<ListenerTable>> {
        self.make(ObjectKind::Listener)
    }

    /// A queue pair whose results go to this queue.
    pub(crate) fn queue_pair(
        &self,
        queue: &Pointer<CompletionQueueTable>,
    ) -> Step<Pointer<QueuePairTable>> {
        self.step("CreateQueuePair");
        let (iid, mut object) = (IID_ND2_QUEUE_PAIR, ptr::null_mut());
        let (queue, context) = (queue.this(), ptr::without_provenance_mut(77));
        let returned = call!(
            &self.adapter,
            create_queue_pair(
                &raw const iid,
                queue,
                queue,
                context,
                4,
                4,
                1,
                1,
                0,
                &raw mut object
            )
        );
        self.client.made("CreateQueuePair", returned, object)
    }

    /// Checks that an object that uses a file is not made with this handle, which does not come from CreateOverlappedFile.
    pub(crate) fn refuses_file(&self, kind: ObjectKind, file: Handle) -> Step {
        let mut object = ptr::without_provenance_mut(8);
        let returned = self.create_on(kind, kind.iid(), file, &mut object)?;
        let what = format!("{} with a handle that is no file", kind.method());
        status(&what, Status::INVALID_HANDLE, returned)?;
        ensure(object.is_null(), "a null pointer", "something else")
    }
}

/// Makes a handle by CreateOverlappedFile.
pub(crate) fn file(client: &Client, adapter: &Pointer<AdapterTable>) -> Step<OwnedHandle> {
    client.step("CreateOverlappedFile");
    let mut file: Handle = ptr::null_mut();
    let returned = call!(adapter, create_overlapped_file(&raw mut file));
    status("CreateOverlappedFile", Status::SUCCESS, returned)?;
    ensure(
        !file.is_null(),
        "a file from CreateOverlappedFile",
        "a null handle",
    )?;
    // SAFETY: the library has just made the file, and nothing else holds its handle.
    Ok(unsafe { OwnedHandle::new(file) })
}
