//! Devices: the list, names, GUIDs.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::PoisonError;

use softverbs::{DeviceKind, Errno, Result};

use super::objects::Device;
use crate::abi::constants::{IBV_NODE_CA, IBV_NODE_RNIC, IBV_TRANSPORT_IB, IBV_TRANSPORT_IWARP};
use crate::abi::describe::Zeroed;
use crate::abi::device::{PaddedDevice, ibv_device};
use crate::border::{Handle, Output, PerProcess, error, guarded, set_errno};
use crate::process;

/// The structures of the devices, which live as long as the process: a program may keep the pointer of a device that it has opened. The
/// child of a fork makes its own, and may use those of its parent.
static STRUCTURES: PerProcess<Mutex<Vec<usize>>> = PerProcess::new();

/// Copies a text to an array of a structure, cut to leave a zero at the end.
fn copy_text(text: &str, to: &mut [c_char]) {
    let room = to.len() - 1;
    for (to, from) in to[..room].iter_mut().zip(text.bytes()) {
        *to = from.cast_signed();
    }
}

fn structure(device: &softverbs::Device) -> PaddedDevice {
    let mut c = ibv_device::zeroed();
    (c.node_type, c.transport_type) = match device.kind() {
        DeviceKind::Iwarp => (IBV_NODE_RNIC, IBV_TRANSPORT_IWARP),
        _ => (IBV_NODE_CA, IBV_TRANSPORT_IB),
    };
    let (name, index) = (device.name(), device.index());
    copy_text(name, &mut c.name);
    copy_text(&format!("uverbs{index}"), &mut c.dev_name);
    let verbs = format!("/sys/class/infiniband_verbs/uverbs{index}");
    copy_text(&verbs, &mut c.dev_path);
    copy_text(&format!("/sys/class/infiniband/{name}"), &mut c.ibdev_path);
    PaddedDevice {
        device: c,
        beyond: [0; 256],
    }
}

/// The handles of all devices, in order.
pub(crate) fn handles() -> Result<Vec<Handle<Device>>> {
    let process = process::process()?;
    let known = STRUCTURES.get().lock();
    let mut known = known.unwrap_or_else(PoisonError::into_inner);
    for device in process.devices().iter().skip(known.len()) {
        let index = device.index();
        let handle = Handle::new(structure(device), Device { index });
        known.push(usize::try_from(handle.tag()).expect("a pointer has the size of usize"));
    }
    let count = process.devices().len();
    Ok(known
        .iter()
        .take(count)
        .map(|tag| Handle::tagged(*tag as u64))
        .collect())
}

/// Memory with zeros that the program may release by `free`.
fn calloc(count: usize, size: usize) -> Result<*mut c_void> {
    // SAFETY: the function has no requirements.
    let memory = unsafe { libc::calloc(count, size) };
    match memory.is_null() {
        true => Err(error(Errno::NOMEM, "out of memory")),
        false => Ok(memory),
    }
}

/// Memory for one structure, which [`free_array`] releases, or the program by `free`.
pub(crate) fn allocate<C: Copy>(structure: C) -> Result<*mut C> {
    let memory = calloc(1, size_of::<C>())?.cast::<C>();
    Output::passed(memory).set(structure);
    Ok(memory)
}

/// An array of pointers with a null behind them, which [`free_array`] releases.
pub(crate) fn array<P>(pointers: &[*mut P]) -> Result<*mut *mut P> {
    let memory = calloc(pointers.len() + 1, size_of::<*mut P>())?;
    let array = Output::passed(memory.cast::<*mut P>());
    for (index, pointer) in pointers.iter().enumerate() {
        array.set_at(index, *pointer);
    }
    Ok(memory.cast())
}

/// Releases what [`array`] or [`allocate`] has made.
pub(crate) extern "C" fn free_array(array: *mut c_void) {
    // SAFETY: the program passes an array that `calloc` has allocated, once (border).
    unsafe { libc::free(array) };
}

pub(crate) extern "C" fn list(count: Output<c_int>) -> *mut *mut ibv_device {
    let made = guarded(|| {
        let handles = handles()?;
        let pointers: Vec<_> = handles.iter().map(|handle| handle.raw()).collect();
        Ok((array(&pointers)?, pointers.len()))
    });
    match made {
        Ok((array, len)) => {
            count.set(c_int::try_from(len).unwrap_or(c_int::MAX));
            array
        }
        Err(error) => {
            count.set(0);
            set_errno(error.raw());
            ptr::null_mut()
        }
    }
}

pub(crate) extern "C" fn name(device: Handle<Device>) -> *const c_char {
    let structure = device.get_if().map(crate::border::Object::c);
    structure.map_or(ptr::null(), |structure| {
        let offset = std::mem::offset_of!(ibv_device, name);
        structure.cast::<c_char>().wrapping_add(offset)
    })
}

pub(crate) extern "C" fn guid(device: Handle<Device>) -> u64 {
    let guid = guarded(|| {
        let device = process::device(device.get()?.rust().index)?;
        Ok(u64::from_ne_bytes(device.guid()))
    });
    guid.unwrap_or(0)
}

pub(crate) extern "C" fn index(device: Handle<Device>) -> c_int {
    let index = device.get_if().map(|device| device.rust().index);
    index.map_or(-1, |index| c_int::try_from(index).unwrap_or(-1))
}

/// The folder of the system's description of devices.
pub(crate) extern "C" fn sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// Reads a file of a folder, without the end of its line.
pub(crate) extern "C" fn read_sysfs_file(
    folder: crate::border::Text,
    file: crate::border::Text,
    to: Output<c_char>,
    size: usize,
) -> c_int {
    crate::border::minus_one(|| {
        let part = |text: &crate::border::Text| text.get().map(CString::from);
        let (Some(folder), Some(file)) = (part(&folder), part(&file)) else {
            return Err(error(Errno::INVAL, "a null pointer in place of a path"));
        };
        let path = [folder.to_string_lossy(), file.to_string_lossy()].join("/");
        let read = std::fs::read(path);
        let mut octets = read.map_err(|_| error(Errno::NOENT, "no such file"))?;
        octets.truncate(size);
        if octets.last() == Some(&b'\n') {
            octets.pop();
        }
        for (index, octet) in octets.iter().enumerate() {
            to.set_at(index, octet.cast_signed());
        }
        if octets.len() < size {
            to.set_at(octets.len(), 0);
        }
        c_int::try_from(octets.len()).map_err(|_| error(Errno::INVAL, "the file is too long"))
    })
}
