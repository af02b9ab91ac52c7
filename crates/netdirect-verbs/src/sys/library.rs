//! The functions of the two libraries as tables of pointers, filled when the first adapter is asked for.
//!
//! A program that is linked with this crate starts without the libraries. Tests fill the tables with other functions.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;

use libc::sockaddr;
use libloading::Library;

use super::bindings as c;
use crate::unavailable::Unavailable;

/// Defines a table with one field for each function, and the code that loads it. The compiler compares the types of the fields with the
/// declarations that bindgen has made of the headers.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($function:ident: fn($($argument:ty),*) $(-> $result:ty)?;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name {
            $(pub(crate) $function: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $name {
            /// Looks all functions up by their names, in their default versions.
            fn load(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    $($function: {
                        let name = concat!(stringify!($function), "\0").as_bytes();
                        // SAFETY: the symbol of this name is a function of the type that the library's header declares.
                        // Below the compiler checks that the type of the field is this type.
                        let symbol = unsafe { library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(name) };
                        *symbol?
                    },)*
                })
            }
        }

        $(const _: unsafe extern "C" fn($($argument),*) $(-> $result)? = c::$function;)*
    };
}

table! {
    /// Functions of libibverbs. The functions of the data path are not among them, since each device's driver has separate ones: they are
    /// in the table of operations of an `ibv_context`.
    VerbsLibrary {
        ibv_get_device_list: fn(*mut c_int) -> *mut *mut c::ibv_device;
        ibv_free_device_list: fn(*mut *mut c::ibv_device);
        ibv_get_device_name: fn(*mut c::ibv_device) -> *const c_char;
        ibv_open_device: fn(*mut c::ibv_device) -> *mut c::ibv_context;
        ibv_close_device: fn(*mut c::ibv_context) -> c_int;
        ibv_query_device: fn(*mut c::ibv_context, *mut c::ibv_device_attr) -> c_int;
        ibv_query_port: fn(*mut c::ibv_context, u8, *mut c::_compat_ibv_port_attr) -> c_int;
        ibv_get_async_event: fn(*mut c::ibv_context, *mut c::ibv_async_event) -> c_int;
        ibv_ack_async_event: fn(*mut c::ibv_async_event);
        ibv_alloc_pd: fn(*mut c::ibv_context) -> *mut c::ibv_pd;
        ibv_dealloc_pd: fn(*mut c::ibv_pd) -> c_int;
        ibv_reg_mr: fn(*mut c::ibv_pd, *mut c_void, usize, c_int) -> *mut c::ibv_mr;
        ibv_dereg_mr: fn(*mut c::ibv_mr) -> c_int;
        ibv_create_comp_channel: fn(*mut c::ibv_context) -> *mut c::ibv_comp_channel;
        ibv_destroy_comp_channel: fn(*mut c::ibv_comp_channel) -> c_int;
        ibv_create_cq: fn(*mut c::ibv_context, c_int, *mut c_void, *mut c::ibv_comp_channel, c_int) -> *mut c::ibv_cq;
        ibv_resize_cq: fn(*mut c::ibv_cq, c_int) -> c_int;
        ibv_destroy_cq: fn(*mut c::ibv_cq) -> c_int;
        ibv_get_cq_event: fn(*mut c::ibv_comp_channel, *mut *mut c::ibv_cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events: fn(*mut c::ibv_cq, c_uint);
        ibv_create_srq: fn(*mut c::ibv_pd, *mut c::ibv_srq_init_attr) -> *mut c::ibv_srq;
        ibv_modify_srq: fn(*mut c::ibv_srq, *mut c::ibv_srq_attr, c_int) -> c_int;
        ibv_destroy_srq: fn(*mut c::ibv_srq) -> c_int;
        ibv_create_qp: fn(*mut c::ibv_pd, *mut c::ibv_qp_init_attr) -> *mut c::ibv_qp;
        ibv_modify_qp: fn(*mut c::ibv_qp, *mut c::ibv_qp_attr, c_int) -> c_int;
        ibv_destroy_qp: fn(*mut c::ibv_qp) -> c_int;
    }
}

table! {
    /// Functions of librdmacm.
    CmLibrary {
        rdma_create_event_channel: fn() -> *mut c::rdma_event_channel;
        rdma_destroy_event_channel: fn(*mut c::rdma_event_channel);
        rdma_create_id: fn(*mut c::rdma_event_channel, *mut *mut c::rdma_cm_id, *mut c_void, c::rdma_port_space) -> c_int;
        rdma_destroy_id: fn(*mut c::rdma_cm_id) -> c_int;
        rdma_bind_addr: fn(*mut c::rdma_cm_id, *mut sockaddr) -> c_int;
        rdma_resolve_addr: fn(*mut c::rdma_cm_id, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
        rdma_resolve_route: fn(*mut c::rdma_cm_id, c_int) -> c_int;
        rdma_connect: fn(*mut c::rdma_cm_id, *mut c::rdma_conn_param) -> c_int;
        rdma_establish: fn(*mut c::rdma_cm_id) -> c_int;
        rdma_listen: fn(*mut c::rdma_cm_id, c_int) -> c_int;
        rdma_accept: fn(*mut c::rdma_cm_id, *mut c::rdma_conn_param) -> c_int;
        rdma_reject: fn(*mut c::rdma_cm_id, *const c_void, u8) -> c_int;
        rdma_disconnect: fn(*mut c::rdma_cm_id) -> c_int;
        rdma_init_qp_attr: fn(*mut c::rdma_cm_id, *mut c::ibv_qp_attr, *mut c_int) -> c_int;
        rdma_get_cm_event: fn(*mut c::rdma_event_channel, *mut *mut c::rdma_cm_event) -> c_int;
        rdma_ack_cm_event: fn(*mut c::rdma_cm_event) -> c_int;
    }
}

/// Both libraries.
#[derive(Clone, Copy)]
pub(crate) struct Libraries {
    pub(crate) verbs: VerbsLibrary,
    pub(crate) cm: CmLibrary,
}

impl fmt::Debug for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Libraries").finish_non_exhaustive()
    }
}

impl Libraries {
    /// The libraries of this machine, which are loaded by the first call and stay loaded.
    pub(crate) fn load() -> Result<&'static Self, Unavailable> {
        static LOADED: OnceLock<Result<Libraries, Unavailable>> = OnceLock::new();
        let loaded = LOADED.get_or_init(|| {
            let verbs = open("libibverbs.so.1", "libibverbs1", VerbsLibrary::load)?;
            let cm = open("librdmacm.so.1", "librdmacm1", CmLibrary::load)?;
            Ok(Self { verbs, cm })
        });
        loaded.as_ref().map_err(Clone::clone)
    }
}

/// Loads one library and fills its table.
fn open<T>(
    file: &'static str,
    package: &'static str,
    load: impl FnOnce(&Library) -> Result<T, libloading::Error>,
) -> Result<T, Unavailable> {
    // SAFETY: the library's constructors only prepare its own data, as in every program that is linked with it.
    let library = unsafe { Library::new(file) };
    let library = library.map_err(|error| Unavailable::LibraryMissing {
        file,
        package,
        error: error.to_string(),
    })?;
    let table = load(&library).map_err(|error| Unavailable::LibraryTooOld {
        file,
        package,
        error: error.to_string(),
    })?;
    // The table points into the library, which is therefore never unloaded.
    std::mem::forget(library);
    Ok(table)
}
