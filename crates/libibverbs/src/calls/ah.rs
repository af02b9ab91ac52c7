//! Address handles.

use std::ffi::c_int;

use softverbs::{AddressHandle, AddressVector, Device, Result};

use super::objects::{Ah, Context, Pd};
use crate::abi::attributes::ibv_ah_attr;
use crate::abi::constants::IBV_WC_GRH;
use crate::abi::describe::Zeroed;
use crate::abi::objects::{ibv_ah, ibv_wc};
use crate::border::{Handle, Input, Output, code, minus_one, null};

/// The octets of `struct ibv_grh`.
type Grh = [u8; 40];

/// The address of a peer as `softverbs` has it.
pub(crate) fn vector_of(attr: &ibv_ah_attr) -> AddressVector {
    AddressVector {
        is_global: attr.is_global != 0,
        dgid: attr.grh.dgid.raw,
        sgid_index: attr.grh.sgid_index,
        flow_label: attr.grh.flow_label,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        dlid: attr.dlid,
        sl: attr.sl,
        src_path_bits: attr.src_path_bits,
        static_rate: attr.static_rate,
        port: attr.port_num,
    }
}

/// The address of a peer as C has it.
pub(crate) fn c_vector(from: &AddressVector) -> ibv_ah_attr {
    let mut to = ibv_ah_attr::zeroed();
    to.is_global = u8::from(from.is_global);
    to.grh.dgid.raw = from.dgid;
    (to.grh.sgid_index, to.grh.flow_label) = (from.sgid_index, from.flow_label);
    (to.grh.hop_limit, to.grh.traffic_class) = (from.hop_limit, from.traffic_class);
    (to.dlid, to.sl) = (from.dlid, from.sl);
    (to.src_path_bits, to.static_rate) = (from.src_path_bits, from.static_rate);
    to.port_num = from.port;
    to
}

fn make(pd: Handle<Pd>, vector: AddressVector) -> Result<Handle<Ah>> {
    let domain = pd.get()?;
    let handle = AddressHandle::create(&domain.rust().pd, vector)?;
    let mut c = ibv_ah::zeroed();
    c.context = field!(domain, context);
    c.pd = pd.raw();
    Ok(Handle::new(c, Ah(handle)))
}

pub(crate) extern "C" fn create(pd: Handle<Pd>, attributes: Input<ibv_ah_attr>) -> Handle<Ah> {
    null(|| make(pd, vector_of(&attributes.get()?)))
}

/// The address of the sender of a datagram, from its completion and its GRH.
fn sender(device: &Device, port: u8, wc: Input<ibv_wc>, grh: Input<Grh>) -> Result<AddressVector> {
    let wc = wc.get()?;
    let mut vector = match wc.wc_flags & IBV_WC_GRH {
        0 => AddressVector::default(),
        _ => AddressVector::of_sender(device, &grh.get()?)?,
    };
    (vector.dlid, vector.sl, vector.src_path_bits) = (wc.slid, wc.sl, wc.dlid_path_bits);
    vector.port = port;
    Ok(vector)
}

pub(crate) extern "C" fn init_from_wc(
    context: Handle<Context>,
    port: u8,
    wc: Input<ibv_wc>,
    grh: Input<Grh>,
    to: Output<ibv_ah_attr>,
) -> c_int {
    minus_one(|| {
        let context = context.get()?;
        let vector = sender(context.rust().0.device(), port, wc, grh)?;
        to.set(c_vector(&vector));
        Ok(0)
    })
}

pub(crate) extern "C" fn create_from_wc(
    pd: Handle<Pd>,
    wc: Input<ibv_wc>,
    grh: Input<Grh>,
    port: u8,
) -> Handle<Ah> {
    null(|| {
        let domain = pd.get()?;
        let device = domain.rust().pd.context().device();
        make(pd, sender(device, port, wc, grh)?)
    })
}

pub(crate) extern "C" fn destroy(ah: Handle<Ah>) -> c_int {
    code(|| {
        if let Some(object) = ah.get_own()? {
            object.rust().0.destroy();
            ah.release();
        }
        Ok(())
    })
}
