//! Limits of devices, ports, GIDs and partitions.

use std::ffi::{c_char, c_int};

use softverbs::{Device, DeviceKind, Errno, GidEntry, Result, check_port, limits};

use super::objects::Context;
use crate::abi::constants::{
    IBV_ATOMIC_HCA, IBV_DEVICE_MEM_MGT_EXTENSIONS, IBV_DEVICE_PORT_ACTIVE_EVENT,
    IBV_DEVICE_RC_RNR_NAK_GEN, IBV_DEVICE_SRQ_RESIZE, IBV_DEVICE_SYS_IMAGE_GUID, IBV_GID_TYPE_IB,
    IBV_GID_TYPE_ROCE_V2, IBV_LINK_LAYER_ETHERNET, IBV_MTU_4096, IBV_PORT_ACTIVE, IBV_PORT_CM_SUP,
    IBV_PORT_IP_BASED_GIDS,
};
use crate::abi::describe::Zeroed;
use crate::abi::device::{
    ibv_device_attr, ibv_device_attr_ex, ibv_gid, ibv_gid_entry, ibv_port_attr,
    ibv_query_device_ex_input,
};
use crate::border::{Handle, Input, Output, code, error, minus_one};

/// The only partition.
const PKEY: u16 = 0xFFFF;

/// An OUI that nobody can be assigned, because it is locally administered: programs look for their vendors by this number.
const VENDOR: u32 = 0x02_53_4E;

fn int(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

fn attributes(device: &Device) -> ibv_device_attr {
    let mut attr = ibv_device_attr::zeroed();
    for (to, from) in attr
        .fw_ver
        .iter_mut()
        .zip(env!("CARGO_PKG_VERSION").bytes())
    {
        *to = c_char::from_ne_bytes([from]);
    }
    attr.node_guid = u64::from_ne_bytes(device.guid());
    attr.sys_image_guid = attr.node_guid;
    attr.vendor_id = VENDOR;
    attr.max_mr_size = limits::REGION;
    attr.page_size_cap = 4096;
    attr.max_qp = int(limits::QUEUE_PAIRS);
    attr.max_qp_wr = int(limits::REQUESTS);
    attr.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN
        | IBV_DEVICE_SRQ_RESIZE
        | IBV_DEVICE_SYS_IMAGE_GUID
        | IBV_DEVICE_PORT_ACTIVE_EVENT
        | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    attr.max_sge = int(limits::SGES);
    attr.max_sge_rd = int(limits::SGES);
    attr.max_cq = int(limits::OBJECTS);
    attr.max_cqe = int(limits::COMPLETIONS);
    attr.max_mr = int(limits::REGIONS);
    attr.max_pd = int(limits::OBJECTS);
    attr.max_ah = int(limits::OBJECTS);
    attr.max_qp_rd_atom = int(limits::READS);
    attr.max_qp_init_rd_atom = int(limits::READS);
    attr.max_res_rd_atom = int(limits::READS).saturating_mul(int(limits::QUEUE_PAIRS));
    attr.atomic_cap = IBV_ATOMIC_HCA;
    attr.max_srq = int(limits::OBJECTS);
    attr.max_srq_wr = int(limits::REQUESTS);
    attr.max_srq_sge = int(limits::SGES);
    attr.max_pkeys = 1;
    attr.phys_port_cnt = 1;
    attr
}

fn device(context: &Handle<Context>) -> Result<&Device> {
    Ok(context.get()?.rust().0.device())
}

pub(crate) extern "C" fn query_device(
    context: Handle<Context>,
    to: Output<ibv_device_attr>,
) -> c_int {
    code(|| {
        to.set(attributes(device(&context)?));
        Ok(())
    })
}

pub(crate) extern "C" fn query_device_ex(
    context: Handle<Context>,
    input: Input<ibv_query_device_ex_input>,
    to: Output<ibv_device_attr_ex>,
    size: usize,
) -> c_int {
    code(|| {
        if input.get_if().is_some_and(|input| input.comp_mask != 0) {
            return Err(error(Errno::INVAL, "an input that does not exist"));
        }
        let mut attr = ibv_device_attr_ex::zeroed();
        attr.orig_attr = attributes(device(&context)?);
        attr.device_cap_flags_ex = u64::from(attr.orig_attr.device_cap_flags);
        attr.phys_port_cnt_ex = 1;
        to.set_start(&attr, size);
        Ok(())
    })
}

/// The number of an MTU in octets, from 256 up.
pub(crate) fn mtu_number(octets: u32) -> c_int {
    int(octets.max(256).ilog2() - 7).min(IBV_MTU_4096)
}

fn port(device: &Device) -> ibv_port_attr {
    let mut attr = ibv_port_attr::zeroed();
    attr.state = IBV_PORT_ACTIVE;
    attr.max_mtu = IBV_MTU_4096;
    attr.active_mtu = mtu_number(device.mtu());
    attr.gid_tbl_len = c_int::try_from(device.gids().len()).unwrap_or(c_int::MAX);
    attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
    attr.max_msg_sz = limits::MESSAGE;
    attr.pkey_tbl_len = 1;
    attr.max_vl_num = 1;
    // The speed of a socket is not known: a width of 4 lanes and a speed of 10 Gbit/s each, as rxe and siw say.
    attr.active_width = 2;
    attr.active_speed = 4;
    // Link up.
    attr.phys_state = 5;
    attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    attr
}

/// For programs of all ages: those before `port_cap_flags2` have room for less.
pub(crate) extern "C" fn query_port_sized(
    context: Handle<Context>,
    number: u8,
    to: Output<ibv_port_attr>,
    size: usize,
) -> c_int {
    code(|| {
        let device = device(&context)?;
        check_port(number)?;
        to.set_start(&port(device), size);
        Ok(())
    })
}

/// The speed of a port in units of 100 Mbit/s: that of [`port`].
pub(crate) extern "C" fn query_port_speed(
    context: Handle<Context>,
    number: u32,
    to: Output<u64>,
) -> c_int {
    code(|| {
        device(&context)?;
        check_port(u8::try_from(number).unwrap_or(0))?;
        to.set(4 * 100);
        Ok(())
    })
}

pub(crate) extern "C" fn query_port(
    context: Handle<Context>,
    number: u8,
    to: Output<ibv_port_attr>,
) -> c_int {
    let size = std::mem::offset_of!(ibv_port_attr, link_layer) + 2;
    query_port_sized(context, number, to, size)
}

fn entry(context: &Handle<Context>, number: u32, index: u32) -> Result<(GidEntry, u32)> {
    let device = device(context)?;
    check_port(u8::try_from(number).unwrap_or(0))?;
    let gids = device.gids();
    let entry = gids.get(index as usize);
    let entry = entry.ok_or_else(|| error(Errno::INVAL, "the GID table has no such row"))?;
    let kind = match device.kind() {
        DeviceKind::Iwarp => IBV_GID_TYPE_IB,
        _ => IBV_GID_TYPE_ROCE_V2,
    };
    Ok((*entry, kind))
}

fn c_entry((entry, gid_type): (GidEntry, u32)) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: ibv_gid { raw: entry.gid },
        gid_index: entry.index,
        port_num: 1,
        gid_type,
        ndev_ifindex: entry.interface,
    }
}

pub(crate) extern "C" fn query_gid(
    context: Handle<Context>,
    number: u8,
    index: c_int,
    to: Output<ibv_gid>,
) -> c_int {
    minus_one(|| {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let (entry, _) = entry(&context, number.into(), index)?;
        to.set(ibv_gid { raw: entry.gid });
        Ok(0)
    })
}

/// A name of libibverbs for its drivers, which `ibv_devinfo` calls. Its numbers are those of the kernel: 0 for IB and RoCE v1, 1 for
/// RoCE v2.
pub(crate) extern "C" fn query_gid_type(
    context: Handle<Context>,
    number: u8,
    index: u32,
    to: Output<u32>,
) -> c_int {
    minus_one(|| {
        let (_, kind) = entry(&context, number.into(), index)?;
        to.set(u32::from(kind == IBV_GID_TYPE_ROCE_V2));
        Ok(0)
    })
}

pub(crate) extern "C" fn query_gid_ex(
    context: Handle<Context>,
    number: u32,
    index: u32,
    to: Output<ibv_gid_entry>,
    flags: u32,
    size: usize,
) -> c_int {
    code(|| {
        if flags != 0 {
            return Err(error(Errno::OPNOTSUPP, "flags that do not exist"));
        }
        to.set_start(&c_entry(entry(&context, number, index)?), size);
        Ok(())
    })
}

pub(crate) extern "C" fn query_gid_table(
    context: Handle<Context>,
    to: Output<u8>,
    room: usize,
    flags: u32,
    size: usize,
) -> isize {
    let filled = crate::border::guarded(|| {
        if flags != 0 {
            return Err(error(Errno::OPNOTSUPP, "flags that do not exist"));
        }
        let rows = u32::try_from(device(&context)?.gids().len()).unwrap_or(u32::MAX);
        if rows as usize > room {
            return Err(error(
                Errno::INVAL,
                "the array is too short for the GID table",
            ));
        }
        for index in 0..rows {
            let row = c_entry(entry(&context, 1, index)?);
            to.at::<ibv_gid_entry>(index as usize * size)
                .set_start(&row, size);
        }
        Ok(isize::try_from(rows).unwrap_or(isize::MAX))
    });
    filled.unwrap_or_else(|error| -isize::try_from(error.raw()).unwrap_or(1))
}

pub(crate) extern "C" fn query_pkey(
    context: Handle<Context>,
    number: u8,
    index: c_int,
    to: Output<u16>,
) -> c_int {
    minus_one(|| {
        context.get()?;
        check_port(number)?;
        if index != 0 {
            return Err(error(Errno::INVAL, "the only partition has index 0"));
        }
        to.set(PKEY.to_be());
        Ok(0)
    })
}

pub(crate) extern "C" fn pkey_index(context: Handle<Context>, number: u8, pkey: u16) -> c_int {
    minus_one(|| {
        context.get()?;
        check_port(number)?;
        match u16::from_be(pkey) {
            PKEY => Ok(0),
            _ => Err(error(Errno::INVAL, "the only partition is 0xffff")),
        }
    })
}
