//! Calls that do several steps at once: `rdma_create_ep`, `rdma_get_request`.

use std::ffi::c_int;

use softverbs::CmId;

use super::addrinfo::info_of;
use super::events::show_last;
use super::id::release;
use super::objects::{Id, Template, make_id};
use super::queues;
use crate::abi::attributes::{ibv_qp_init_attr, ibv_qp_init_attr_ex};
use crate::abi::cm::rdma_addrinfo;
use crate::abi::describe::Zeroed;
use crate::border::{Handle, InOut, Input, Kept, Output, cancellable, guarded, minus_one};
use crate::calls::objects::Pd;
use crate::calls::qp::extended;
use crate::process;

pub(crate) extern "C-unwind" fn create(
    to: Output<Handle<Id>>,
    info: Input<rdma_addrinfo>,
    pd: Handle<Pd>,
    attributes: InOut<ibv_qp_init_attr>,
) -> c_int {
    let call = || {
        let info = info_of(&info.get()?)?;
        let mut attr = attributes.get_if();
        let mut all = attr.as_mut().map(|attr| {
            attr.qp_type = info.qp_type;
            extended(attr)
        });
        let options = all.as_ref().map(|all| queues::options(pd, all));
        let made = CmId::create_endpoint(&process::process()?, &info, options.transpose()?)?;
        let id = make_id(made, std::ptr::null_mut())?;
        show_last(id, Handle::NULL)?;
        if let (Some(all), Some(attr)) = (&mut all, &mut attr) {
            if id.get()?.rust().id.queue_pair().is_some() {
                queues::show_qp(id, pd, all)?;
                (attr.cap, attr.send_cq, attr.recv_cq) = (all.cap, all.send_cq, all.recv_cq);
                attributes.set(*attr);
            } else {
                let qp_context = Kept(all.qp_context);
                id.get()?.rust().data().template = Some(Template { pd, qp_context });
            }
        }
        to.set(id);
        Ok(0)
    };
    cancellable(|| minus_one(call))
}

pub(crate) extern "C" fn destroy(id: Handle<Id>) {
    let _ = guarded(|| {
        let Some(object) = id.get_own()? else {
            return Ok(());
        };
        queues::destroy_qp_of(id)?;
        queues::destroy_srq_of(id)?;
        object.rust().id.destroy()?;
        release(id)
    });
}

pub(crate) extern "C-unwind" fn get_request(listener: Handle<Id>, to: Output<Handle<Id>>) -> c_int {
    let call = || {
        let object = listener.get()?;
        let requested = object.rust().id.get_request();
        show_last(listener, Handle::NULL)?;
        let id = make_id(requested?, field!(object, context))?;
        let template = object.rust().data().template;
        if let Some(template) = template {
            let mut all = ibv_qp_init_attr_ex::zeroed();
            let qp_type = field!(id.get()?, qp_type);
            (all.qp_context, all.qp_type) = (template.qp_context.0, qp_type);
            queues::show_qp(id, template.pd, &mut all)?;
        }
        show_last(id, listener)?;
        to.set(id);
        Ok(0)
    };
    cancellable(|| minus_one(call))
}
