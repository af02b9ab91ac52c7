//! Requests that a program puts together by functions (`ibv_wr_…`), and posts together.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, MutexGuard, PoisonError};

use softverbs::{DeviceKind, Errno, RemotePlace, Result, SendOperation, Service, Sge};

use super::objects::{Ah, Built, BuiltRequest, Qp};
use super::requests::post_built;
use crate::abi::constants::{
    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    IBV_QP_EX_WITH_SEND, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_INV,
};
use crate::abi::objects::{ibv_data_buf, ibv_qp_ex};
use crate::border::{Elements, Handle, Octets, Packed, code_quick, error, guarded_quick};

/// Returns EOPNOTSUPP for operations that devices of this kind do not support. Devices for RoCE may have peers that take no Sends with a
/// number, which is known later.
pub(crate) fn check_operations(flags: u64, service: Service, kind: DeviceKind) -> Result<()> {
    let of_kind = match kind {
        DeviceKind::Roce => IBV_QP_EX_WITH_SEND_WITH_IMM,
        DeviceKind::Iwarp => 0,
    };
    let of_datagrams = of_kind | IBV_QP_EX_WITH_SEND;
    let unreliable = of_datagrams | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    let reliable = unreliable
        | IBV_QP_EX_WITH_SEND_WITH_INV
        | IBV_QP_EX_WITH_RDMA_READ
        | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    let known = match service {
        Service::Reliable => reliable,
        Service::Unreliable => unreliable,
        Service::Datagram => of_datagrams,
    };
    match flags & !known {
        0 => Ok(()),
        _ => Err(error(
            Errno::OPNOTSUPP,
            "operations that queue pairs of this type do not have",
        )),
    }
}

/// Sets the functions of the operations that the program has asked for.
pub(crate) fn set_functions(c: &mut ibv_qp_ex, operations: u64) {
    let has = |operation| operations & operation != 0;
    if has(IBV_QP_EX_WITH_SEND) {
        c.wr_send = send as *const c_void;
    }
    if has(IBV_QP_EX_WITH_SEND_WITH_IMM) {
        c.wr_send_imm = send_imm as *const c_void;
    }
    if has(IBV_QP_EX_WITH_SEND_WITH_INV) {
        c.wr_send_inv = send_inv as *const c_void;
    }
    if has(IBV_QP_EX_WITH_RDMA_WRITE) {
        c.wr_rdma_write = rdma_write as *const c_void;
    }
    if has(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM) {
        c.wr_rdma_write_imm = rdma_write_imm as *const c_void;
    }
    if has(IBV_QP_EX_WITH_RDMA_READ) {
        c.wr_rdma_read = rdma_read as *const c_void;
    }
    if has(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP) {
        c.wr_atomic_cmp_swp = atomic_cmp_swp as *const c_void;
    }
    if has(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD) {
        c.wr_atomic_fetch_add = atomic_fetch_add as *const c_void;
    }
    c.wr_set_ud_addr = set_ud_addr as *const c_void;
    c.wr_set_inline_data = set_inline_data as *const c_void;
    c.wr_set_inline_data_list = set_inline_data_list as *const c_void;
    c.wr_set_sge = set_sge as *const c_void;
    c.wr_set_sge_list = set_sge_list as *const c_void;
    c.wr_start = start as *const c_void;
    c.wr_complete = complete as *const c_void;
    c.wr_abort = abort as *const c_void;
}

fn built(qp: &Qp) -> MutexGuard<'_, Built> {
    qp.built.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here to the end other threads wait.
extern "C" fn start(qp: Handle<Qp>) {
    let _ = guarded_quick(|| {
        let qp = qp.get()?.rust();
        let mut built = built(qp);
        while built.is_taken {
            let woken = qp.is_free.wait(built);
            built = woken.unwrap_or_else(PoisonError::into_inner);
        }
        *built = Built {
            is_taken: true,
            ..Built::default()
        };
        Ok(())
    });
}

/// Gives up what was put together, and lets the next thread begin.
fn finish(qp: &Qp) -> Built {
    let built = std::mem::take(&mut *built(qp));
    qp.is_free.notify_one();
    built
}

extern "C" fn abort(qp: Handle<Qp>) {
    let _ = guarded_quick(|| {
        drop(finish(qp.get()?.rust()));
        Ok(())
    });
}

extern "C" fn complete(qp: Handle<Qp>) -> c_int {
    code_quick(|| {
        let qp = qp.get()?.rust();
        // Posted before others may begin, so that requests keep their order.
        let requests = std::mem::take(&mut built(qp).requests);
        let failed = built(qp).failed;
        let posted = match failed {
            None => {
                let mut list = qp.qp.post_sends();
                let mut all = requests.iter();
                all.try_for_each(|request| post_built(request, qp, |request| list.post(request)))
            }
            Some(errno) => Err(error(errno, "a request was put together wrongly")),
        };
        drop(finish(qp));
        posted
    })
}

fn begin(qp: Handle<Qp>, operation: SendOperation) {
    let _ = guarded_quick(|| {
        let object = qp.get()?;
        let mut built = built(object.rust());
        if built.requests.len() >= object.rust().caps.max_send_wr as usize {
            // The list has more requests than the queue holds, so it never fits.
            built.fail(Errno::NOMEM);
            return Ok(());
        }
        let request = BuiltRequest {
            wr_id: field!(object, wr_id),
            flags: field!(object, wr_flags),
            operation,
            sges: Vec::new(),
            inline: None,
            to: None,
        };
        built.requests.push(request);
        Ok(())
    });
}

extern "C" fn send(qp: Handle<Qp>) {
    begin(qp, SendOperation::Send);
}

extern "C" fn send_imm(qp: Handle<Qp>, number: u32) {
    begin(qp, SendOperation::SendImmediate(number.to_ne_bytes()));
}

extern "C" fn send_inv(qp: Handle<Qp>, rkey: u32) {
    begin(qp, SendOperation::SendInvalidate(rkey));
}

extern "C" fn rdma_write(qp: Handle<Qp>, rkey: u32, addr: u64) {
    begin(qp, SendOperation::Write(RemotePlace { addr, rkey }));
}

extern "C" fn rdma_write_imm(qp: Handle<Qp>, rkey: u32, addr: u64, number: u32) {
    let place = RemotePlace { addr, rkey };
    begin(
        qp,
        SendOperation::WriteImmediate(place, number.to_ne_bytes()),
    );
}

extern "C" fn rdma_read(qp: Handle<Qp>, rkey: u32, addr: u64) {
    begin(qp, SendOperation::Read(RemotePlace { addr, rkey }));
}

extern "C" fn atomic_cmp_swp(qp: Handle<Qp>, rkey: u32, addr: u64, compare: u64, swap: u64) {
    let place = RemotePlace { addr, rkey };
    begin(qp, SendOperation::CompareSwap(place, compare, swap));
}

extern "C" fn atomic_fetch_add(qp: Handle<Qp>, rkey: u32, addr: u64, add: u64) {
    let place = RemotePlace { addr, rkey };
    begin(qp, SendOperation::FetchAdd(place, add));
}

/// Changes the request that was begun last.
fn change(qp: Handle<Qp>, change: impl FnOnce(&Qp, &mut BuiltRequest) -> Result<()>) {
    let _ = guarded_quick(|| {
        let object = qp.get()?;
        let mut built = built(object.rust());
        let changed = match built.requests.last_mut() {
            Some(request) => change(object.rust(), request),
            None => Err(error(Errno::INVAL, "no request was begun")),
        };
        // The program learns of it from `ibv_wr_complete`.
        changed.inspect_err(|error| built.fail(error.errno()))
    });
}

extern "C" fn set_ud_addr(qp: Handle<Qp>, ah: Handle<Ah>, number: u32, key: u32) {
    change(qp, |_, request| {
        let handle = Arc::clone(&ah.get()?.rust().0);
        request.to = Some((handle, number, key));
        Ok(())
    });
}

extern "C" fn set_sge(qp: Handle<Qp>, lkey: u32, addr: u64, length: u32) {
    change(qp, |_, request| {
        request.sges = vec![Sge { addr, length, lkey }];
        Ok(())
    });
}

extern "C" fn set_sge_list(qp: Handle<Qp>, count: usize, list: Elements<Sge>) {
    change(qp, |qp, request| {
        request.sges = list.get(count, qp.most_sges())?.to_vec();
        Ok(())
    });
}

extern "C" fn set_inline_data(qp: Handle<Qp>, octets: Octets, len: usize) {
    change(qp, |qp, request| {
        request.inline = Some(octets.get(len, qp.caps.max_inline_data as usize)?);
        Ok(())
    });
}

extern "C" fn set_inline_data_list(
    qp: Handle<Qp>,
    count: usize,
    list: Elements<Packed<ibv_data_buf>>,
) {
    change(qp, |qp, request| {
        let mut all = Vec::new();
        for piece in list.get(count, qp.most_inline_pieces())? {
            let (piece, most) = (piece.get(), qp.caps.max_inline_data as usize);
            Octets::passed(piece.addr).append(piece.length, most, &mut all)?;
        }
        request.inline = Some(all);
        Ok(())
    });
}
