//! NetworkDirect's helper functions for programs in C and C++, and Windows' handles on systems that have none.
//!
//! `include/netdirect.h` declares the functions that the library exports:
//!
//! - helper functions: NdStartup, NdCleanup, NdFlushProviders, NdQueryAddressList, NdCheckAddress, NdResolveAddress, NdOpenAdapter,
//!   NdOpenV1Adapter (`helper`, over `providers`, `library`, `provider`, `route` and `arguments`).
//!
//! On systems other than Windows, which has these functions itself, also
//!
//! - events: CreateEventA, CreateEventW, SetEvent, ResetEvent, WaitForSingleObject, WaitForMultipleObjects (`events`);
//! - completion ports: CreateIoCompletionPort, GetQueuedCompletionStatus, GetQueuedCompletionStatusEx, PostQueuedCompletionStatus
//!   (`ports`);
//! - requests: BindIoCompletionCallback, GetOverlappedResult (`requests`);
//! - all handles: CloseHandle, GetLastError, SetLastError (`handles`).
//!
//! # The promise of programs
//!
//! A program passes, in each argument, the value that Windows' or ND2's page for the function demands, or null. A handle is one that was
//! not closed. Memory that a function reads or fills is valid while the call lasts, and an OVERLAPPED until its request has ended.

mod arguments;
#[cfg(unix)]
mod errors;
#[cfg(unix)]
mod events;
#[cfg(unix)]
mod handles;
mod helper;
mod library;
#[cfg(unix)]
mod ports;
mod provider;
mod providers;
#[cfg(unix)]
mod requests;
mod route;
#[cfg(all(test, unix))]
mod tests;
