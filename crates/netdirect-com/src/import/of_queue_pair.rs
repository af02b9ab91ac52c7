//! Atomics and Immediate Data of a library's queue pairs.

use std::ffi::c_void;
use std::ptr;

use netdirect::{
    AtomicOp, Error, Immediate, OpFlags, QueuePairExtensions, RemoteAddress, Result, Sge, Status,
};

use super::pointer::{Pointer, call, check};
use crate::abi::{Atomic, QueuePairExtensionTable};
use crate::context;

#[derive(Debug)]
pub(super) struct OfQueuePair(pub(super) Pointer<QueuePairExtensionTable>);

impl QueuePairExtensions for OfQueuePair {
    fn send_immediate(&self, context: u64, data: Immediate, flags: OpFlags) -> Result<()> {
        let octets = data.as_bytes();
        let len = u32::try_from(octets.len()).expect("4 or 8");
        let (context, start) = (context::pointer(context), octets.as_ptr().cast::<c_void>());
        check(call!(
            &self.0,
            send_immediate(context, start, len, flags.bits())
        ))
    }

    fn atomic(
        &self,
        context: u64,
        op: AtomicOp,
        sink: &Sge,
        target: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        let op = match op {
            AtomicOp::FetchAdd { add, mask } => Atomic {
                kind: 1,
                operand: add,
                mask,
                compare: 0,
                compare_mask: 0,
            },
            AtomicOp::CompareSwap {
                compare,
                compare_mask,
                swap,
                swap_mask,
            } => Atomic {
                kind: 2,
                operand: swap,
                mask: swap_mask,
                compare,
                compare_mask,
            },
            _ => {
                return Err(Error::new(
                    Status::NOT_SUPPORTED,
                    "the COM interface has no number for this Atomic: take FetchAdd or CompareSwap",
                ));
            }
        };
        let sink = ptr::from_ref(sink).cast();
        let context = context::pointer(context);
        let RemoteAddress { address, token } = target;
        check(call!(
            &self.0,
            atomic(context, &raw const op, sink, address, token.0, flags.bits())
        ))
    }
}
