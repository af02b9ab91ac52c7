//! What stands behind the structures of librdmacm.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softverbs::{CmEvent, CmId, Device, EventChannel, Result};

use crate::abi::attributes::ibv_qp_init_attr;
use crate::abi::cm::{ibv_sa_path_rec, rdma_cm_event, rdma_cm_id, rdma_event_channel};
use crate::abi::constants::{IBV_QPT_RC, RDMA_PS_TCP};
use crate::abi::describe::Zeroed;
use crate::abi::device::ibv_gid;
use crate::border::{Facade, Handle, Kept, forked, storage};
use crate::calls::context::open_index;
use crate::calls::device::handles;
use crate::calls::objects::{Context, Cq, Pd};
use crate::calls::pd;
use crate::calls::port::mtu_number;

pub(crate) struct CmChannel(pub(crate) Arc<EventChannel>);

impl Facade for CmChannel {
    type C = rdma_event_channel;
}

/// An event, until the program acknowledges it.
pub(crate) struct Event {
    pub(crate) event: Mutex<Option<CmEvent>>,
    /// What the structure points to.
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

/// What the library keeps at an identifier for the program.
#[derive(Default)]
pub(crate) struct IdData {
    /// The channel of the identifier's own, whose calls wait.
    pub(crate) own_channel: Option<Handle<CmChannel>>,
    /// The event that a call which waits has got last.
    pub(crate) event: Option<Handle<Event>>,
    /// The completion queues that were made with the queue pair.
    pub(crate) own_queues: Vec<Handle<Cq>>,
    /// How a listener by `rdma_create_ep` makes the queue pairs of its connections.
    pub(crate) template: Option<(Handle<Pd>, Kept<ibv_qp_init_attr>)>,
    /// The route, to which the structure points.
    pub(crate) route: Option<Handle<Route>>,
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
pub(crate) fn make_id(
    id: Arc<CmId>,
    channel: Handle<CmChannel>,
    context: *mut c_void,
) -> Result<Handle<Id>> {
    let mut c = rdma_cm_id::zeroed();
    c.channel = channel.raw();
    c.context = context;
    c.ps = RDMA_PS_TCP;
    c.qp_type = IBV_QPT_RC;
    let data = Mutex::default();
    let handle = Handle::new(c, Id { id, data });
    handle.get()?.rust().id.tag().set(handle.tag());
    refresh(handle)?;
    Ok(handle)
}

/// Brings the structure up to date: the device, and the addresses.
pub(crate) fn refresh(id: Handle<Id>) -> Result<()> {
    let object = id.get()?;
    let of = &object.rust().id;
    if let Some(device) = of.device() {
        let (context, _) = of_device(&device)?;
        field!(object, verbs = context.raw());
        field!(object, port_num = 1);
        if field!(object, pd).is_null() {
            field!(object, pd = default_pd(&device)?.raw());
        }
    }
    let (local, peer) = (of.local(), of.peer());
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

/// The contexts and protection domains that identifiers share, one of each for a device.
type Shared = (u32, Vec<(Handle<Context>, Option<Handle<Pd>>)>);

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// The context that identifiers of a device share, and its place in the list.
pub(crate) fn of_device(device: &Device) -> Result<(Handle<Context>, usize)> {
    let all = contexts()?;
    let index = device.index();
    let context = all.get(index).copied().unwrap_or(Handle::NULL);
    Ok((context, index))
}

/// The contexts of all devices.
pub(crate) fn contexts() -> Result<Vec<Handle<Context>>> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_current = shared.as_ref().is_some_and(|shared| shared.0 == forked());
    if !is_current {
        let opened: Result<Vec<_>> = handles()?
            .into_iter()
            .map(|device| Ok((open_index(device)?, None)))
            .collect();
        *shared = Some((forked(), opened?));
    }
    let all = shared.iter().flat_map(|shared| &shared.1);
    Ok(all.map(|(context, _)| *context).collect())
}

/// The protection domain of identifiers for which the program names none.
fn default_pd(device: &Device) -> Result<Handle<Pd>> {
    let (context, index) = of_device(device)?;
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let row = shared.as_mut().and_then(|shared| shared.1.get_mut(index));
    match row {
        Some((_, Some(pd))) => Ok(*pd),
        Some((_, empty)) => {
            let made = pd::make(context)?;
            *empty = Some(made);
            Ok(made)
        }
        None => Ok(Handle::NULL),
    }
}
