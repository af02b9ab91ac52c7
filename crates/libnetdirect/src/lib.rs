//! Windows' handles and NetworkDirect's helper functions for programs in C and C++, on systems that have neither.
//!
//! `include/netdirect.h` declares the functions that the library exports:
//!
//! - events: CreateEventA, CreateEventW, SetEvent, ResetEvent, WaitForSingleObject, WaitForMultipleObjects (`events`);
//! - completion ports: CreateIoCompletionPort, GetQueuedCompletionStatus, GetQueuedCompletionStatusEx, PostQueuedCompletionStatus
//!   (`ports`);
//! - requests: BindIoCompletionCallback, GetOverlappedResult (`requests`);
//! - all handles: CloseHandle, GetLastError, SetLastError (`handles`);
//! - helper functions: NdStartup, NdCleanup, NdFlushProviders, NdQueryAddressList, NdCheckAddress, NdResolveAddress, NdOpenAdapter,
//!   NdOpenV1Adapter (`helper`, over `providers`, `library`, `provider`, `route` and `arguments`).
//!
//! # The promise of programs
//!
//! A program passes, in each argument, the value that Windows' or ND2's page for the function demands, or null. A handle is one that was
//! not closed. Memory that a function reads or fills is valid while the call lasts, and an OVERLAPPED until its request has ended.
//!
//! Windows has these functions itself; there the library is empty.

#![cfg(unix)]

mod arguments;
mod errors;
mod events;
mod handles;
mod helper;
mod library;
mod ports;
mod provider;
mod providers;
mod requests;
mod route;
#[cfg(test)]
mod tests;
