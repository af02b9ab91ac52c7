//! Tests that count memory or descriptors of their process. They run one after the other.

#[path = "../common/mod.rs"]
mod common;

mod allocations;
mod half_open;
mod resident_set;
mod scale;
mod stalled;
