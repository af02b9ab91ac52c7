//! Interfaces for the parts of `netdirect`'s traits that ND2 does not have. Their identifiers are this project's own.

use std::ffi::{c_char, c_void};

use netdirect::Status;

use super::identifiers::Guid;
use super::structures::{CompletionResult, Overlapped, Sge};
use super::tables::UnknownTable;
use super::words::This;

/// `IID_INDXProvider`.
pub const IID_PROVIDER_EXTENSION: Guid =
    Guid::new(0x2F6A_91D4, 0x5B0E, 0x4C7B, 0x9A41_30C5_77E2_1D01);
/// `IID_INDXAdapter`.
pub const IID_ADAPTER_EXTENSION: Guid =
    Guid::new(0x2F6A_91D4, 0x5B0E, 0x4C7B, 0x9A41_30C5_77E2_1D02);
/// `IID_INDXCompletionQueue`.
pub const IID_COMPLETION_QUEUE_EXTENSION: Guid =
    Guid::new(0x2F6A_91D4, 0x5B0E, 0x4C7B, 0x9A41_30C5_77E2_1D03);
/// `IID_INDXQueuePair`.
pub const IID_QUEUE_PAIR_EXTENSION: Guid =
    Guid::new(0x2F6A_91D4, 0x5B0E, 0x4C7B, 0x9A41_30C5_77E2_1D04);
/// `IID_INDXListener`.
pub const IID_LISTENER_EXTENSION: Guid =
    Guid::new(0x2F6A_91D4, 0x5B0E, 0x4C7B, 0x9A41_30C5_77E2_1D05);

/// `IID_INDXConnectionEnd`.
pub const IID_CONNECTION_END: Guid = Guid::new(0x2F6A_91D4, 0x5B0E, 0x4C7B, 0x9A41_30C5_77E2_1D06);
/// `IID_INDXOverlapped`.
pub const IID_OVERLAPPED_EXTENSION: Guid =
    Guid::new(0x2F6A_91D4, 0x5B0E, 0x4C7B, 0x9A41_30C5_77E2_1D07);

/// `NDX_FAULT`: a [`netdirect::Fault`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct InjectedFault {
    /// `Kind`: one of [`FaultKind`]'s numbers.
    pub kind: u32,
    /// `Call`: for [`FaultKind::CALL`], 0 for any call, otherwise one more than the place in [`netdirect::Call::ALL`].
    pub call: u32,
    /// `Nth`: for [`FaultKind::CALL`], the number of the call that fails, counted from 1.
    pub nth: u32,
    /// `Status`: the status with which the call or the queue fails.
    pub status: Status,
    /// `Object`: the completion queue or shared receive queue that breaks down; otherwise null.
    pub object: This,
    /// `Address`: for [`FaultKind::UNREACHABLE_HOST`], a socket address; otherwise null.
    pub address: *const c_void,
    /// `AddressLength`: the length of the address in octets.
    pub address_length: u32,
}

/// The kinds of [`InjectedFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultKind;

impl FaultKind {
    /// `NDX_FAULT_REMOVE_DEVICE`: [`Fault::RemoveDevice`](netdirect::Fault::RemoveDevice).
    pub const REMOVE_DEVICE: u32 = 1;
    /// `NDX_FAULT_CALL`: [`Fault::Call`](netdirect::Fault::Call).
    pub const CALL: u32 = 2;
    /// `NDX_FAULT_BREAK_COMPLETION_QUEUE`: [`Fault::BreakCompletionQueue`](netdirect::Fault::BreakCompletionQueue).
    pub const BREAK_COMPLETION_QUEUE: u32 = 3;
    /// `NDX_FAULT_BREAK_SHARED_RECEIVE_QUEUE`: [`Fault::BreakSharedReceiveQueue`](netdirect::Fault::BreakSharedReceiveQueue).
    pub const BREAK_SHARED_RECEIVE_QUEUE: u32 = 4;
    /// `NDX_FAULT_UNREACHABLE_HOST`: [`Fault::UnreachableHost`](netdirect::Fault::UnreachableHost).
    pub const UNREACHABLE_HOST: u32 = 5;
}

/// `NDX_ATOMIC`: a [`netdirect::AtomicOp`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Atomic {
    /// `Kind`: 1 for [`FetchAdd`](netdirect::AtomicOp::FetchAdd), 2 for [`CompareSwap`](netdirect::AtomicOp::CompareSwap).
    pub kind: u32,
    /// `Operand`: the number to add, or to swap in.
    pub operand: u64,
    /// `Mask`: the mask of fields, or of the bits to swap.
    pub mask: u64,
    /// `Compare`: the number to compare with.
    pub compare: u64,
    /// `CompareMask`: the bits to compare.
    pub compare_mask: u64,
}

/// `NDX_CONNECTION_END`: a [`netdirect::ConnectionEnd`], without its sentence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ConnectionEnd {
    /// `EndedBy`: one more than the place in [`netdirect::EndedBy::ALL`].
    pub ended_by: u32,
    /// `Reason`: one more than the place in [`netdirect::EndReason::ALL`].
    pub reason: u32,
    /// `HasTerminate`: 1 if there was a Terminate, and 0 if not.
    pub has_terminate: u32,
    /// `TerminateLayer`: 0 RDMAP, 1 DDP, 2 MPA. This field and the next two are 0 without a Terminate.
    pub terminate_layer: u32,
    /// `TerminateType`: the error type within the layer.
    pub terminate_type: u32,
    /// `TerminateCode`: the error code within the type.
    pub terminate_code: u32,
}

/// `NDX_RESULT`: a result with the Immediate Data that belongs to it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExtendedResult {
    /// `Result`.
    pub result: CompletionResult,
    /// `ImmediateLength`: 0, 4 or 8.
    pub immediate_length: u32,
    /// `Immediate`: the octets, in the order in which the peer passed them.
    pub immediate: [u8; 8],
}

macro_rules! tables {
    ($(
        $(#[$doc:meta])*
        $table:ident { $($(#[$method_doc:meta])* fn $method:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;)* }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[repr(C)]
            pub struct $table {
                /// `IUnknown`.
                pub unknown: UnknownTable,
                $($(#[$method_doc])* pub $method: unsafe extern "system" fn(this: This, $($arg: $type),*) -> $ret,)*
            }
        )*
    };
}

tables! {
    /// `INDXProvider`: a provider that can be configured, and made to fail.
    ProviderExtensionTable {
        /// `Configure`: lines of the library's configuration file, for adapters that are opened by this object from now on.
        fn configure(text: *const c_char, size: u32) -> Status;
        /// `Inject`: [`ProviderExtensions::inject`](netdirect::ProviderExtensions::inject).
        fn inject(fault: *const InjectedFault) -> Status;
    }

    /// `INDXAdapter`.
    AdapterExtensionTable {
        /// `GetCapabilities`: the bits of [`netdirect::Capabilities`].
        fn get_capabilities() -> u64;
        /// `GetCounters`: a line for each counter, with its name, a space and its number. Sizes as everywhere (GEN-016).
        fn get_counters(text: *mut c_char, size: *mut u32) -> Status;
        /// `Inject`: [`AdapterExtensions::inject`](netdirect::AdapterExtensions::inject).
        fn inject(fault: *const InjectedFault) -> Status;
    }

    /// `INDXCompletionQueue`.
    CompletionQueueExtensionTable {
        /// `GetResultsEx`: like GetResults, with Immediate Data.
        fn get_results(results: *mut ExtendedResult, count: u32) -> u32;
    }

    /// `INDXQueuePair`.
    QueuePairExtensionTable {
        /// `SendImmediate`: [`QueuePairExtensions::send_immediate`](netdirect::QueuePairExtensions::send_immediate), 4 or 8 octets.
        fn send_immediate(context: *mut c_void, data: *const c_void, size: u32, flags: u32) -> Status;
        /// `Atomic`: [`QueuePairExtensions::atomic`](netdirect::QueuePairExtensions::atomic).
        fn atomic(
            context: *mut c_void,
            op: *const Atomic,
            sink: *const Sge,
            remote_address: u64,
            remote_token: u32,
            flags: u32,
        ) -> Status;
    }

    /// `INDXConnectionEnd`: of connectors and queue pairs.
    ConnectionEndTable {
        /// `GetConnectionEnd`: [`Connector::connection_end`](netdirect::Connector::connection_end). The sentence is in UTF-8, without a zero at
        /// its end; sizes as everywhere (GEN-016).
        fn get_connection_end(end: *mut ConnectionEnd, text: *mut c_char, size: *mut u32) -> Status;
    }

    /// `INDXOverlapped`: of all objects with requests.
    OverlappedExtensionTable {
        /// `GetExplanation`: the words of [`Overlapped::result`](netdirect::Overlapped::result) for the last request of this object with this
        /// OVERLAPPED, if the request was pending and has failed; otherwise none. In UTF-8, without a zero at its end; sizes as everywhere
        /// (GEN-016).
        fn get_explanation(overlapped: *mut Overlapped, text: *mut c_char, size: *mut u32) -> Status;
    }

    /// `INDXListener`.
    ListenerExtensionTable {
        /// `Withdraw`: [`Listener::withdraw`](netdirect::Listener::withdraw).
        fn withdraw(connector: This) -> Status;
    }
}
