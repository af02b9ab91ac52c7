//! The objects behind the structures of librdmacm.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softverbs::{AddrInfo, CmEvent, CmId, Device, PortSpace, Result, SharedDevice};

use super::channel::{self, CmChannel};
use crate::abi::cm::{ibv_sa_path_rec, rdma_cm_event, rdma_cm_id};
use crate::abi::constants::{IBV_QPT_RC, IBV_QPT_UD, RDMA_PS_TCP, RDMA_PS_UDP};
use crate::abi::describe::Zeroed;
use crate::abi::device::ibv_gid;
use crate::border::{Facade, Handle, Kept, PerProcess, storage};
use crate::calls::device::handles;
use crate::calls::objects::{Context, Cq, Pd};
use crate::calls::port::mtu_number;
use crate::calls::{context, pd};
use crate::process;

/// An event, until the program acknowledges it; without one, what a synchronous identifier has waited for.
pub(crate) struct Event {
    pub(crate) event: Mutex<Option<CmEvent>>,
    /// The memory that the structure points to.
    #[expect(dead_code, reason = "C programs read it")]
    pub(crate) private_data: Vec<u8>,
}

impl Facade for Event {
    type C = rdma_cm_event;
}

pub(crate) struct Id {
    pub(crate) id: Arc<CmId>,
    pub(crate) data: Mutex<IdData>,
}

impl Facade for Id {
    type C = rdma_cm_id;
}

/// The structures that belong to an identifier's. Queue pairs and shared receive queues are in the structure only, because programs move
/// them from one identifier to another.
#[derive(Default)]
pub(crate) struct IdData {
    /// That of the channel which the identifier has for itself.
    pub(crate) own_channel: Option<Handle<CmChannel>>,
    /// The event that a call which waits has got last.
    pub(crate) event: Option<Handle<Event>>,
    /// The completion queues that were made with the queue pair.
    pub(crate) own_queues: Vec<Handle<Cq>>,
    /// The options for the queue pairs of a listener's requests.
    pub(crate) template: Option<Template>,
    /// The addresses that the last look-up has found.
    pub(crate) addresses: Option<AddrInfo>,
    /// The route, to which the structure points.
    pub(crate) route: Option<Handle<Route>>,
}

/// The pointers of the queue pairs that a listener by `rdma_create_ep` makes.
#[derive(Clone, Copy)]
pub(crate) struct Template {
    pub(crate) pd: Handle<Pd>,
    pub(crate) qp_context: Kept<*mut c_void>,
}

/// A path record.
pub(crate) struct Route;

impl Facade for Route {
    type C = ibv_sa_path_rec;
}

impl Id {
    pub(crate) fn data(&self) -> MutexGuard<'_, IdData> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the structure of an identifier.
pub(crate) fn make_id(id: Arc<CmId>, context: *mut c_void) -> Result<Handle<Id>> {
    let mut c = rdma_cm_id::zeroed();
    c.context = context;
    (c.ps, c.qp_type) = match id.space() {
        PortSpace::Tcp => (RDMA_PS_TCP, IBV_QPT_RC),
        PortSpace::Udp => (RDMA_PS_UDP, IBV_QPT_UD),
    };
    let data = Mutex::default();
    let handle = Handle::new(c, Id { id, data });
    handle.get()?.rust().id.tag().set(handle.tag());
    show_channel(handle)?;
    refresh(handle)?;
    Ok(handle)
}

/// Shows the channel of an identifier. That of a synchronous identifier gets its structure here.
pub(crate) fn show_channel(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let channel = object.rust().id.channel();
    let known = Handle::<CmChannel>::tagged(channel.tag().get());
    let (shown, own) = match known.is_null() {
        true => {
            let made = channel::show(channel)?;
            (made, Some(made))
        }
        false => (known, None),
    };
    field!(object, channel = shown.raw());
    let mut data = object.rust().data();
    let is_kept = |old: &mut Handle<CmChannel>| old.tag() != shown.tag();
    let old = data.own_channel.take_if(is_kept);
    data.own_channel = own.or(data.own_channel);
    drop(data);
    if let Some(old) = old {
        old.release();
    }
    Ok(())
}

/// Brings the structure up to date: the device, and the addresses.
pub(crate) fn refresh(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let inner = &object.rust().id;
    if let Some(device) = inner.device() {
        let (context, pd) = shared(&device)?;
        field!(object, verbs = context.raw());
        field!(object, port_num = 1);
        if field!(object, pd).is_null() {
            field!(object, pd = pd.raw());
        }
    }
    let (local, peer) = (inner.local(), inner.peer());
    field!(object, route.addr.src_storage = storage(local).0);
    field!(object, route.addr.dst_storage = storage(peer).0);
    let gid = |address: Option<std::net::SocketAddr>| ibv_gid {
        raw: address.map_or([0; 16], |address| softverbs::gid(address.ip())),
    };
    field!(object, route.addr.addr.sgid = gid(local));
    field!(object, route.addr.addr.dgid = gid(peer));
    field!(object, route.addr.addr.pkey = u16::MAX);
    Ok(())
}

/// Fills in the route, which is one path.
pub(crate) fn set_route(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let mut path = ibv_sa_path_rec::zeroed();
    path.sgid = field!(object, route.addr.addr.sgid);
    path.dgid = field!(object, route.addr.addr.dgid);
    path.raw_traffic = 0;
    path.hop_limit = 64;
    path.reversible = 1;
    path.numb_path = 1;
    path.pkey = u16::MAX;
    let mtu = object
        .rust()
        .id
        .device()
        .map_or(1024, |device| device.mtu());
    path.mtu_selector = 2;
    path.mtu = u8::try_from(mtu_number(mtu)).unwrap_or(3);
    let route = Handle::new(path, Route);
    field!(object, route.path_rec = route.raw());
    field!(object, route.num_paths = 1);
    if let Some(old) = object.rust().data().route.replace(route) {
        old.release();
    }
    Ok(())
}

/// The shared objects of a device's identifiers, with their structures, which are never released.
struct SharedRow {
    device: usize,
    #[expect(dead_code, reason = "kept so that later identifiers get the same")]
    shared_device: Arc<SharedDevice>,
    context: Handle<Context>,
    pd: Handle<Pd>,
}

static SHARED: PerProcess<Mutex<Vec<SharedRow>>> = PerProcess::new();

/// The context and the protection domain that the identifiers of a device share.
fn shared(device: &Arc<Device>) -> Result<(Handle<Context>, Handle<Pd>)> {
    let rows = SHARED.get().lock();
    let mut rows = rows.unwrap_or_else(PoisonError::into_inner);
    let index = device.index();
    if let Some(row) = rows.iter().find(|row| row.device == index) {
        return Ok((row.context, row.pd));
    }
    let shared_device = SharedDevice::get(&process::process()?, device)?;
    let device = handles()?.get(index).copied().unwrap_or(Handle::NULL);
    let context = context::show(device, Arc::clone(shared_device.context()))?;
    let pd = pd::show(context, Arc::clone(shared_device.pd()), false);
    rows.push(SharedRow {
        device: index,
        shared_device,
        context,
        pd,
    });
    Ok((context, pd))
}

/// The contexts of all devices.
pub(crate) fn contexts() -> Result<Vec<Handle<Context>>> {
    let process = process::process()?;
    let devices = process.devices().iter();
    devices.map(|device| Ok(shared(device)?.0)).collect()
}
