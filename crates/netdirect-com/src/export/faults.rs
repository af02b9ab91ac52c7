//! Faults that clients inject.

use netdirect::{Call, Error, Fault, Result, Status};

use super::object::Interface;
use super::pointers::{In, Octets, Passed};
use super::queues::{CompletionQueueObject, SharedReceiveQueueObject};
use crate::abi::{FaultKind, InjectedFault};

/// Injects the fault that a client describes in argument 1, by a call of `inject`.
pub(super) fn inject(
    fault: &In<InjectedFault>,
    inject: impl FnOnce(Fault) -> Result<()>,
) -> Result<()> {
    let fault = fault.value(1)?;
    // SAFETY: a pointer in a structure of the client is null or one of an object (export, "the promise of clients").
    let object = unsafe { Interface::passed(fault.object) };
    match fault.kind {
        FaultKind::REMOVE_DEVICE => inject(Fault::RemoveDevice),
        FaultKind::CALL => inject(Fault::Call {
            call: call(fault.call)?,
            nth: fault.nth,
            status: fault.status,
        }),
        FaultKind::BREAK_COMPLETION_QUEUE => {
            let queue = object.of_class::<CompletionQueueObject>(1)?;
            inject(Fault::BreakCompletionQueue {
                queue: queue.get().object.clone(),
                status: fault.status,
            })
        }
        FaultKind::BREAK_SHARED_RECEIVE_QUEUE => {
            let queue = object.of_class::<SharedReceiveQueueObject>(1)?;
            inject(Fault::BreakSharedReceiveQueue {
                queue: queue.get().object.clone(),
                status: fault.status,
            })
        }
        FaultKind::UNREACHABLE_HOST => {
            let address = Octets::at(fault.address).address(fault.address_length, 1)?;
            inject(Fault::UnreachableHost {
                address: address.ip(),
            })
        }
        kind => Err(Error::new(
            Status::NOT_SUPPORTED,
            format!("there is no fault of kind {kind}"),
        )),
    }
}

fn call(number: u32) -> Result<Call> {
    let Some(place) = number.checked_sub(1) else {
        return Ok(Call::Any);
    };
    let call = Call::ALL.get(place as usize).copied();
    call.ok_or_else(|| {
        Error::new(
            Status::INVALID_PARAMETER,
            format!("there is no call {number}"),
        )
    })
}
