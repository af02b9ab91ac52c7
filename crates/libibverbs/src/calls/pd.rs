//! Protection domains, parent domains and thread domains.

use std::ffi::c_int;
use std::sync::Arc;

use softverbs::{Errno, ProtectionDomain};

use super::objects::{Context, Pd, Td};
use crate::abi::attributes::{ibv_parent_domain_init_attr, ibv_td_init_attr};
use crate::abi::constants::IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
use crate::abi::describe::Zeroed;
use crate::abi::objects::{ibv_pd, ibv_td};
use crate::border::{Handle, Input, code, error, null};

/// Makes the structure of a protection domain, or of a parent domain.
pub(crate) fn show(
    context: Handle<Context>,
    pd: Arc<ProtectionDomain>,
    is_parent_domain: bool,
) -> Handle<Pd> {
    let mut c = ibv_pd::zeroed();
    c.context = context.raw();
    Handle::new(
        c,
        Pd {
            pd,
            is_parent_domain,
        },
    )
}

pub(crate) extern "C" fn allocate(context: Handle<Context>) -> Handle<Pd> {
    null(|| {
        let pd = ProtectionDomain::allocate(&context.get()?.rust().0)?;
        Ok(show(context, pd, false))
    })
}

pub(crate) extern "C" fn deallocate(pd: Handle<Pd>) -> c_int {
    code(|| {
        let Some(object) = pd.get_own()? else {
            return Ok(());
        };
        if !object.rust().is_parent_domain {
            object.rust().pd.destroy()?;
        }
        pd.release();
        Ok(())
    })
}

pub(crate) extern "C" fn allocate_thread_domain(
    context: Handle<Context>,
    attributes: Input<ibv_td_init_attr>,
) -> Handle<Td> {
    null(|| {
        context.get()?;
        if attributes.get()?.comp_mask != 0 {
            return Err(error(Errno::OPNOTSUPP, "thread domains have no attributes"));
        }
        let mut c = ibv_td::zeroed();
        c.context = context.raw();
        Ok(Handle::new(c, Td))
    })
}

pub(crate) extern "C" fn deallocate_thread_domain(td: Handle<Td>) -> c_int {
    code(|| {
        td.get()?;
        td.release();
        Ok(())
    })
}

/// A parent domain is another handle of its protection domain. Objects of this library take no memory from allocators.
pub(crate) extern "C" fn allocate_parent_domain(
    context: Handle<Context>,
    attributes: Input<ibv_parent_domain_init_attr>,
) -> Handle<Pd> {
    null(|| {
        let attributes = attributes.get()?;
        if attributes.comp_mask & !IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT != 0 {
            return Err(error(Errno::OPNOTSUPP, "allocators are not used"));
        }
        let pd = Handle::<Pd>::passed(attributes.pd);
        let pd = Arc::clone(&pd.get()?.rust().pd);
        Ok(show(context, pd, true))
    })
}
