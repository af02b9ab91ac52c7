//! Work requests, from C's structures to those of `softverbs`.

use std::ffi::c_uint;

use softverbs::{
    Destination, Errno, RemotePlace, Result, SendData, SendOperation, SendRequest, Sge,
};

use crate::abi::constants::{
    IBV_SEND_FENCE, IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED,
    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
    IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV,
    IBV_WR_TSO,
};
use crate::abi::objects::{ibv_recv_wr, ibv_send_wr};
use crate::border::{Elements, Handle, Input, Octets, Output, error};
use crate::calls::objects::{Ah, BuiltRequest, Qp};

/// Posts a request that was put together.
pub(crate) fn post_built(
    built: &BuiltRequest,
    qp: &Qp,
    post: impl FnOnce(&SendRequest<'_>) -> Result<()>,
) -> Result<()> {
    let pieces = [built.inline.as_deref().unwrap_or_default()];
    let data = match &built.inline {
        Some(octets) => {
            check_inline(octets.len(), qp)?;
            SendData::Inline(&pieces)
        }
        None => SendData::Sges(&built.sges),
    };
    check_flags(built.flags)?;
    let to = built.to.as_ref().map(|(handle, number, key)| Destination {
        handle,
        number: *number,
        key: *key,
    });
    post(&SendRequest {
        to,
        ..request(built.wr_id, built.operation, built.flags, data)
    })
}

#[inline]
fn check_flags(flags: c_uint) -> Result<()> {
    const KNOWN: c_uint = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
    match flags & !KNOWN {
        0 => Ok(()),
        _ => Err(error(Errno::INVAL, "flags that queue pairs do not have")),
    }
}

fn request(
    wr_id: u64,
    operation: SendOperation,
    flags: c_uint,
    data: SendData<'_>,
) -> SendRequest<'_> {
    SendRequest {
        wr_id,
        operation,
        data,
        to: None,
        signaled: flags & IBV_SEND_SIGNALED != 0,
        solicited: flags & IBV_SEND_SOLICITED != 0,
        fence: flags & IBV_SEND_FENCE != 0,
    }
}

fn check_inline(len: usize, qp: &Qp) -> Result<()> {
    if len > qp.caps.max_inline_data as usize {
        return Err(error(
            Errno::INVAL,
            "more inline data than max_inline_data of the queue pair",
        ));
    }
    Ok(())
}

/// The number to compare with or to add (`wr.atomic.compare_add`), which lies where other operations have two numbers of 32 bits.
fn compare_add(wr: &ibv_send_wr) -> u64 {
    let [a, b, c, d] = wr.rkey.to_ne_bytes();
    let [e, f, g, h] = wr.remote_qkey.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The octets of `imm_data`, which shares its place with the key to invalidate.
fn number(wr: &ibv_send_wr) -> [u8; 4] {
    wr.invalidate_rkey.to_ne_bytes()
}

fn operation(wr: &ibv_send_wr) -> Result<SendOperation> {
    let place = RemotePlace {
        addr: wr.remote_addr,
        rkey: wr.rkey,
    };
    let word = RemotePlace {
        addr: wr.remote_addr,
        rkey: wr.atomic_rkey,
    };
    Ok(match wr.opcode {
        IBV_WR_SEND => SendOperation::Send,
        IBV_WR_SEND_WITH_INV => SendOperation::SendInvalidate(wr.invalidate_rkey),
        IBV_WR_RDMA_WRITE => SendOperation::Write(place),
        IBV_WR_SEND_WITH_IMM => SendOperation::SendImmediate(number(wr)),
        IBV_WR_RDMA_WRITE_WITH_IMM => SendOperation::WriteImmediate(place, number(wr)),
        IBV_WR_RDMA_READ => SendOperation::Read(place),
        IBV_WR_ATOMIC_CMP_AND_SWP => SendOperation::CompareSwap(word, compare_add(wr), wr.swap),
        IBV_WR_ATOMIC_FETCH_AND_ADD => SendOperation::FetchAdd(word, compare_add(wr)),
        number if number <= IBV_WR_TSO => {
            return Err(error(
                Errno::OPNOTSUPP,
                "an operation that is not supported",
            ));
        }
        _ => return Err(error(Errno::INVAL, "an operation that does not exist")),
    })
}

impl Qp {
    /// The most SGEs of a request. A queue pair that was made for none takes one.
    pub(crate) fn most_sges(&self) -> usize {
        self.caps.max_send_sge.max(1) as usize
    }

    /// The most pieces of inline data. Each has an octet at least, unless the program passes empty ones.
    pub(crate) fn most_inline_pieces(&self) -> usize {
        (self.caps.max_inline_data as usize).max(self.most_sges())
    }
}

/// Inline data up to this length is copied without a vector.
const SHORT: usize = 256;

/// Calls `post` with one request of the send queue.
#[inline]
fn with_request(
    qp: &Qp,
    wr: &ibv_send_wr,
    post: impl FnOnce(&SendRequest<'_>) -> Result<()>,
) -> Result<()> {
    let operation = operation(wr)?;
    check_flags(wr.send_flags)?;
    let list = Elements::<Sge>::passed(wr.sg_list);
    // The members of `wr.ud` lie where the address in the peer's memory is.
    let handle = match qp.sends_datagrams {
        false => Handle::NULL,
        true => Handle::<Ah>::tagged(wr.remote_addr),
    };
    let to = handle.get_if().map(|handle| Destination {
        handle: &handle.rust().0,
        number: wr.rkey,
        key: wr.remote_qkey,
    });
    let post = |data| {
        post(&SendRequest {
            to,
            ..request(wr.wr_id, operation, wr.send_flags, data)
        })
    };
    if wr.send_flags & IBV_SEND_INLINE == 0 {
        let sges = list.get(wr.num_sge, qp.most_sges())?;
        return post(SendData::Sges(sges));
    }
    let sges = list.get(wr.num_sge, qp.most_inline_pieces())?;
    let len = sges.iter().map(|sge| sge.length as usize).sum();
    check_inline(len, qp)?;
    if len <= SHORT {
        let mut octets = [0; SHORT];
        let mut at = 0;
        for sge in sges {
            let end = at + sge.length as usize;
            Octets::at(sge.addr).fill(&mut octets[at..end])?;
            at = end;
        }
        return post(SendData::Inline(&[&octets[..len]]));
    }
    let mut octets = Vec::with_capacity(len);
    for sge in sges {
        Octets::at(sge.addr).append(sge.length as usize, len, &mut octets)?;
    }
    post(SendData::Inline(&[&octets]))
}

/// Counts the requests of a list. A list that is longer than its queue is deep never fits, and it may be one without an end.
struct Counted {
    left: u32,
}

impl Counted {
    /// Takes the number of a further request.
    ///
    /// # Errors
    ///
    /// ENOMEM behind the last request that the queue has room for.
    fn next(&mut self) -> Result<()> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => {
                return Err(error(
                    Errno::NOMEM,
                    "a list of more requests than the queue holds",
                ));
            }
        }
        Ok(())
    }
}

/// Posts a list to the send queue. The first request that fails goes to `bad`.
#[inline]
pub(crate) fn post_list(
    qp: &Qp,
    first: *mut ibv_send_wr,
    bad: Output<*mut ibv_send_wr>,
) -> Result<()> {
    let Some(wr) = Input::passed(first).get_if() else {
        return Ok(());
    };
    let set_bad = |at| move |_: &softverbs::Error| bad.set(at);
    if wr.next.is_null() {
        return with_request(qp, &wr, |request| qp.qp.post_send(request))
            .inspect_err(set_bad(first));
    }
    let mut next = first;
    let mut list = qp.qp.post_sends();
    let mut counted = Counted {
        left: qp.caps.max_send_wr,
    };
    while let Some(wr) = Input::passed(next).get_if() {
        let posted = counted
            .next()
            .and_then(|()| with_request(qp, &wr, |request| list.post(request)));
        posted.inspect_err(set_bad(next))?;
        next = wr.next;
    }
    Ok(())
}

/// Posts a list of Receives by `post` to a queue whose Receives have at most `max_sge` SGEs. The first that fails goes to `bad`. A list of
/// several asks for the `depth` of the queue.
#[inline]
pub(crate) fn post_receives(
    first: *mut ibv_recv_wr,
    bad: Output<*mut ibv_recv_wr>,
    max_sge: u32,
    depth: impl FnOnce() -> u32,
    mut post: impl FnMut(u64, &[Sge]) -> Result<()>,
) -> Result<()> {
    // A queue that was made for none takes one.
    let most = max_sge.max(1) as usize;
    let mut post = |at, wr: &ibv_recv_wr| {
        let list = Elements::<Sge>::passed(wr.sg_list);
        let sges = list.get(wr.num_sge, most);
        let posted = sges.and_then(|sges| post(wr.wr_id, sges));
        posted.inspect_err(|_| bad.set(at))
    };
    let Some(wr) = Input::passed(first).get_if() else {
        return Ok(());
    };
    post(first, &wr)?;
    if wr.next.is_null() {
        return Ok(());
    }
    let mut counted = Counted { left: depth() };
    counted.next().inspect_err(|_| bad.set(first))?;
    let mut next = wr.next;
    while let Some(wr) = Input::passed(next).get_if() {
        counted.next().inspect_err(|_| bad.set(next))?;
        post(next, &wr)?;
        next = wr.next;
    }
    Ok(())
}
