//! IND2Provider of a library.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::ptr;

use netdirect_com::abi::{Guid, ProviderTable, Status, This};
use netdirect_com::import::address_list;
use netdirect_com::sockaddr;

/// A provider that a library has issued. The reference is given back when the value is dropped.
#[derive(Debug)]
pub(crate) struct ForeignProvider<'library> {
    object: This,
    library: PhantomData<&'library ()>,
}

impl ForeignProvider<'_> {
    /// Takes over a reference to a provider.
    ///
    /// # Safety
    ///
    /// `object` is a pointer to an IND2Provider with a reference for the caller, whose library stays loaded as long as the value lives.
    pub(crate) unsafe fn from_issued(object: This) -> Self {
        Self {
            object,
            library: PhantomData,
        }
    }

    fn table(&self) -> &ProviderTable {
        // SAFETY: an interface pointer points to a pointer to its table.
        let table = unsafe { self.object.cast::<*const ProviderTable>().read() };
        // SAFETY: the library has the table, and stays loaded as long as this value lives.
        unsafe { &*table }
    }

    /// QueryAddressList. Entries that are neither IPv4 nor IPv6, or too short, are left out (DLL-013). A provider that returns no list has
    /// no addresses.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let query = self.table().query_address_list;
        // SAFETY: the object is alive, and the list has room for `size` octets.
        let list = address_list(|list, size| unsafe { query(self.object, list, size) });
        list.unwrap_or_default()
    }

    /// ResolveAddress: the adapter that has this local address.
    pub(crate) fn resolve(&self, address: SocketAddr) -> Result<u64, Status> {
        let (octets, len) = sockaddr::from_address(address);
        let len = u32::try_from(len).expect("a length of at most 28");
        let octets = Aligned(octets);
        let start = (&raw const octets).cast();
        let mut id = 0;
        let resolve = self.table().resolve_address;
        // SAFETY: the object is alive, and the structure has `len` octets.
        let status = unsafe { resolve(self.object, start, len, &raw mut id) };
        succeeded(status).map(|()| id)
    }

    /// OpenAdapter: returns an interface pointer, whose reference belongs to the caller.
    pub(crate) fn open_adapter(&self, iid: &Guid, id: u64) -> Result<This, Status> {
        let mut adapter = ptr::null_mut();
        let open = self.table().open_adapter;
        // SAFETY: the object is alive, an identifier, and room for a pointer.
        let status = unsafe { open(self.object, iid, id, &raw mut adapter) };
        succeeded(status).map(|()| adapter)
    }
}

impl Drop for ForeignProvider<'_> {
    fn drop(&mut self) {
        let release = self.table().unknown.release;
        // SAFETY: the reference is this one's, and is given back once.
        unsafe { release(self.object) };
    }
}

/// A socket address with the alignment that C programs give it.
#[repr(C, align(8))]
struct Aligned([u8; sockaddr::V6]);

fn succeeded(status: Status) -> Result<(), Status> {
    if status.is_success() {
        Ok(())
    } else {
        Err(status)
    }
}
