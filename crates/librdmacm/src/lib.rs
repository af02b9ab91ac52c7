//! softnd's `librdmacm.so.1`: the name and the version nodes alone.
//!
//! The functions are in softnd's `libibverbs.so.1`, which this library needs. The dynamic linker looks for a function in all libraries
//! of the process, and asks this one only whether it has the version. So a process has one engine; two whole libraries would have two.

#![forbid(unsafe_code)]
