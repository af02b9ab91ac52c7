//! `IND2Adapter`.

use std::ffi::c_char;
use std::sync::Arc;

use netdirect::{
    Adapter, Affinity, Error, QueuePairOptions, Result, SharedReceiveQueueOptions, Status,
    VERSION_1, VERSION_2,
};

use super::connection::{ConnectorObject, ListenerObject};
use super::faults;
use super::file::File;
use super::memory::{RegionObject, WindowObject};
use super::object::{Class, Interface, Object, method, no_interface, unknown, unknown_of_more};
use super::parts::Parts;
use super::pointers::{Context, In, Out, Room, without_port};
use super::queues::{CompletionQueueObject, QueuePairObject, SharedReceiveQueueObject};
use crate::abi::{
    AdapterExtensionTable, AdapterInfo, AdapterTable, Guid, Handle, IID_ADAPTER_EXTENSION,
    IID_IUNKNOWN, IID_ND2_ADAPTER, IID_ND2_COMPLETION_QUEUE, IID_ND2_CONNECTOR, IID_ND2_LISTENER,
    IID_ND2_MEMORY_REGION, IID_ND2_MEMORY_WINDOW, IID_ND2_OVERLAPPED, IID_ND2_QUEUE_PAIR,
    IID_ND2_SHARED_RECEIVE_QUEUE, InjectedFault, SocketAddressList, This,
};

pub(super) struct AdapterObject(Parts);

static TABLE: AdapterTable = AdapterTable {
    unknown: unknown::<AdapterObject>(),
    create_overlapped_file: method!(AdapterObject, create_overlapped_file(file: Out<Handle>) -> Result<()>),
    query: method!(AdapterObject, query(info: Out<AdapterInfo>, size: Out<u32>) -> Result<()>),
    query_address_list: method!(AdapterObject, query_address_list(list: Out<SocketAddressList>, size: Out<u32>) -> Result<()>),
    create_completion_queue: method!(AdapterObject, create_completion_queue(
        iid: In<Guid>, file: Handle, depth: u32, group: u16, affinity: usize, queue: Out<This>) -> Result<()>),
    create_memory_region: method!(AdapterObject, create_memory_region(iid: In<Guid>, file: Handle, region: Out<This>) -> Result<()>),
    create_memory_window: method!(AdapterObject, create_memory_window(iid: In<Guid>, window: Out<This>) -> Result<()>),
    create_shared_receive_queue: method!(AdapterObject, create_shared_receive_queue(
        iid: In<Guid>, file: Handle, depth: u32, max_request_sge: u32, notify_threshold: u32, group: u16, affinity: usize,
        queue: Out<This>) -> Result<()>),
    create_queue_pair: method!(AdapterObject, create_queue_pair(
        iid: In<Guid>, receive_cq: Interface, initiator_cq: Interface, context: Context, receive_queue_depth: u32,
        initiator_queue_depth: u32, max_receive_request_sge: u32, max_initiator_request_sge: u32, inline_data_size: u32,
        queue_pair: Out<This>) -> Result<()>),
    create_queue_pair_with_srq: method!(AdapterObject, create_queue_pair_with_srq(
        iid: In<Guid>, receive_cq: Interface, initiator_cq: Interface, srq: Interface, context: Context,
        initiator_queue_depth: u32, max_initiator_request_sge: u32, inline_data_size: u32, queue_pair: Out<This>) -> Result<()>),
    create_connector: method!(AdapterObject, create_connector(iid: In<Guid>, file: Handle, connector: Out<This>) -> Result<()>),
    create_listener: method!(AdapterObject, create_listener(iid: In<Guid>, file: Handle, listener: Out<This>) -> Result<()>),
};

static EXTENSION: AdapterExtensionTable = AdapterExtensionTable {
    unknown: unknown_of_more::<AdapterObject>(),
    get_capabilities: method!(more AdapterObject, get_capabilities() -> u64),
    get_counters: method!(more AdapterObject, get_counters(text: Out<c_char>, size: Out<u32>) -> Result<()>),
    inject: method!(more AdapterObject, inject(fault: In<InjectedFault>) -> Result<()>),
};

impl Class for AdapterObject {
    type Table = AdapterTable;
    const INTERFACES: &'static [Guid] = &[IID_ND2_ADAPTER];

    type More = AdapterExtensionTable;
    const MORE: Option<Guid> = Some(IID_ADAPTER_EXTENSION);

    fn more() -> &'static AdapterExtensionTable {
        &EXTENSION
    }

    fn has_more(&self) -> bool {
        self.0.adapter.extensions().is_some()
    }

    fn table() -> &'static AdapterTable {
        &TABLE
    }

    fn adapter(&self) -> Option<&dyn Adapter> {
        Some(&*self.0.adapter)
    }

    fn release(self) {
        drop(self);
        File::collect_all();
    }
}

/// Checks, before an object is made, that it has the interface (GEN-004).
fn check(iid: &In<Guid>, interfaces: &[Guid]) -> Result<Guid> {
    let iid = iid.iid()?;
    if iid == IID_IUNKNOWN || interfaces.contains(&iid) {
        Ok(iid)
    } else {
        Err(no_interface(iid))
    }
}

impl AdapterObject {
    /// Checks that an adapter has the interface.
    pub(super) fn check(iid: Guid) -> Result<()> {
        if iid == IID_IUNKNOWN || Self::INTERFACES.contains(&iid) {
            Ok(())
        } else {
            Err(no_interface(iid))
        }
    }

    pub(super) fn create(adapter: Arc<dyn Adapter>, iid: Guid) -> Result<This> {
        let info = adapter.query()?;
        let parts = Parts::new(adapter, &info);
        Object::create(Self(parts), iid)
    }

    fn get_capabilities(&self) -> u64 {
        self.0.adapter.capabilities().bits()
    }

    fn get_counters(&self, text: Out<c_char>, size: Out<u32>) -> Result<()> {
        let extensions = self.0.adapter.extensions();
        let counters = extensions.map(netdirect::AdapterExtensions::counters);
        Room::new(&text, size).fill(counters.unwrap_or_default().to_string().as_bytes())
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments of a method")]
    fn inject(&self, fault: In<InjectedFault>) -> Result<()> {
        let extensions = self.0.adapter.extensions();
        let extensions = extensions.ok_or(Status::NOT_SUPPORTED)?;
        faults::inject(&fault, |fault| extensions.inject(fault))
    }

    fn create_overlapped_file(&self, file: Out<Handle>) -> Result<()> {
        file.required(1)?.set(std::ptr::null_mut());
        file.set(File::create(self.0.adapter.create_overlapped_file()?)?);
        Ok(())
    }

    fn query(&self, info: Out<AdapterInfo>, size: Out<u32>) -> Result<()> {
        let room = Room::new(&info, size);
        // ADPT-014: the client writes the version that it was compiled for into the buffer.
        let version = match room.given()? {
            Some(octets) => u32::from_ne_bytes(octets),
            None => VERSION_2,
        };
        let fits = room.capacity()? >= size_of::<AdapterInfo>();
        if fits && ![VERSION_1, VERSION_2].contains(&version) {
            return Err(Error::new(
                Status::INVALID_PARAMETER_1,
                format!("InfoVersion {version:#x} is neither 1 nor {VERSION_2:#x}"),
            ));
        }
        let limits = self.0.adapter.query()?;
        room.fill_info(&AdapterInfo {
            info_version: version,
            vendor_id: limits.vendor_id,
            device_id: limits.device_id,
            adapter_id: limits.adapter_id.0,
            max_registration_size: usize::try_from(limits.max_registration_size)
                .unwrap_or(usize::MAX),
            max_window_size: usize::try_from(limits.max_window_size).unwrap_or(usize::MAX),
            max_initiator_sge: limits.max_initiator_sge,
            max_receive_sge: limits.max_receive_sge,
            max_read_sge: limits.max_read_sge,
            max_transfer_length: limits.max_transfer_length,
            max_inline_data_size: limits.max_inline_data_size,
            max_inbound_read_limit: limits.max_inbound_read_limit,
            max_outbound_read_limit: limits.max_outbound_read_limit,
            max_receive_queue_depth: limits.max_receive_queue_depth,
            max_initiator_queue_depth: limits.max_initiator_queue_depth,
            max_shared_receive_queue_depth: limits.max_shared_receive_queue_depth,
            max_completion_queue_depth: limits.max_completion_queue_depth,
            inline_request_threshold: limits.inline_request_threshold,
            large_request_threshold: limits.large_request_threshold,
            max_caller_data: limits.max_caller_data,
            max_callee_data: limits.max_callee_data,
            adapter_flags: limits.flags.bits(),
        })
    }

    fn query_address_list(&self, list: Out<SocketAddressList>, size: Out<u32>) -> Result<()> {
        let addresses = self.0.adapter.query_address_list()?.into_iter();
        let addresses: Vec<_> = addresses.map(without_port).collect();
        Room::new(&list, size).fill_list(&addresses)
    }

    fn create_completion_queue(
        &self,
        iid: In<Guid>,
        file: Handle,
        depth: u32,
        group: u16,
        affinity: usize,
        queue: Out<This>,
    ) -> Result<()> {
        queue.object(6, || {
            let iid = check(&iid, &[IID_ND2_COMPLETION_QUEUE, IID_ND2_OVERLAPPED])?;
            let file = File::from_handle(file)?;
            let made = self.0.adapter.create_completion_queue(
                file.file(),
                depth,
                affinity_of(group, affinity),
            )?;
            CompletionQueueObject::create(made, file, self.0.clone(), iid)
        })
    }

    fn create_memory_region(&self, iid: In<Guid>, file: Handle, region: Out<This>) -> Result<()> {
        region.object(3, || {
            let iid = check(&iid, &[IID_ND2_MEMORY_REGION, IID_ND2_OVERLAPPED])?;
            let file = File::from_handle(file)?;
            let made = self.0.adapter.create_memory_region(file.file())?;
            RegionObject::create(made, file, self.0.clone(), iid)
        })
    }

    fn create_memory_window(&self, iid: In<Guid>, window: Out<This>) -> Result<()> {
        window.object(2, || {
            let iid = check(&iid, &[IID_ND2_MEMORY_WINDOW])?;
            WindowObject::create(self.0.adapter.create_memory_window()?, self.0.clone(), iid)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments are ND2's")]
    fn create_shared_receive_queue(
        &self,
        iid: In<Guid>,
        file: Handle,
        depth: u32,
        max_request_sge: u32,
        notify_threshold: u32,
        group: u16,
        affinity: usize,
        queue: Out<This>,
    ) -> Result<()> {
        queue.object(8, || {
            let iid = check(&iid, &[IID_ND2_SHARED_RECEIVE_QUEUE, IID_ND2_OVERLAPPED])?;
            let file = File::from_handle(file)?;
            let options = SharedReceiveQueueOptions::default()
                .queue_depth(depth)
                .max_request_sge(max_request_sge)
                .notify_threshold(notify_threshold)
                .affinity(affinity_of(group, affinity));
            let made = self
                .0
                .adapter
                .create_shared_receive_queue(file.file(), options)?;
            SharedReceiveQueueObject::create(made, file, self.0.clone(), iid)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments are ND2's")]
    fn create_queue_pair(
        &self,
        iid: In<Guid>,
        receive_cq: Interface,
        initiator_cq: Interface,
        context: Context,
        receive_queue_depth: u32,
        initiator_queue_depth: u32,
        max_receive_request_sge: u32,
        max_initiator_request_sge: u32,
        inline_data_size: u32,
        queue_pair: Out<This>,
    ) -> Result<()> {
        queue_pair.object(10, || {
            let iid = check(&iid, &[IID_ND2_QUEUE_PAIR])?;
            let receive_cq = receive_cq.of_class::<CompletionQueueObject>(2)?;
            let initiator_cq = initiator_cq.of_class::<CompletionQueueObject>(3)?;
            let options = QueuePairOptions::default()
                .context(context.0)
                .receive_queue_depth(receive_queue_depth)
                .initiator_queue_depth(initiator_queue_depth)
                .max_receive_request_sge(max_receive_request_sge)
                .max_initiator_request_sge(max_initiator_request_sge)
                .inline_data_size(inline_data_size);
            let made = self.0.adapter.create_queue_pair(
                &receive_cq.get().object,
                &initiator_cq.get().object,
                options,
            )?;
            QueuePairObject::create(made, self.0.clone(), iid)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the arguments are ND2's")]
    fn create_queue_pair_with_srq(
        &self,
        iid: In<Guid>,
        receive_cq: Interface,
        initiator_cq: Interface,
        srq: Interface,
        context: Context,
        initiator_queue_depth: u32,
        max_initiator_request_sge: u32,
        inline_data_size: u32,
        queue_pair: Out<This>,
    ) -> Result<()> {
        queue_pair.object(9, || {
            let iid = check(&iid, &[IID_ND2_QUEUE_PAIR])?;
            let receive_cq = receive_cq.of_class::<CompletionQueueObject>(2)?;
            let initiator_cq = initiator_cq.of_class::<CompletionQueueObject>(3)?;
            let srq = srq.of_class::<SharedReceiveQueueObject>(4)?;
            let options = QueuePairOptions::default()
                .context(context.0)
                .initiator_queue_depth(initiator_queue_depth)
                .max_initiator_request_sge(max_initiator_request_sge)
                .inline_data_size(inline_data_size);
            let made = self.0.adapter.create_queue_pair_with_srq(
                &receive_cq.get().object,
                &initiator_cq.get().object,
                &srq.get().object,
                options,
            )?;
            QueuePairObject::create(made, self.0.clone(), iid)
        })
    }

    fn create_connector(&self, iid: In<Guid>, file: Handle, connector: Out<This>) -> Result<()> {
        connector.object(3, || {
            let iid = check(&iid, &[IID_ND2_CONNECTOR, IID_ND2_OVERLAPPED])?;
            let file = File::from_handle(file)?;
            let made = self.0.adapter.create_connector(file.file())?;
            ConnectorObject::create(made, file, self.0.clone(), iid)
        })
    }

    fn create_listener(&self, iid: In<Guid>, file: Handle, listener: Out<This>) -> Result<()> {
        listener.object(3, || {
            let iid = check(&iid, &[IID_ND2_LISTENER, IID_ND2_OVERLAPPED])?;
            let file = File::from_handle(file)?;
            let made = self.0.adapter.create_listener(file.file())?;
            ListenerObject::create(made, file, self.0.clone(), iid)
        })
    }
}

fn affinity_of(group: u16, mask: usize) -> Affinity {
    Affinity {
        group,
        mask: mask as u64,
    }
}
