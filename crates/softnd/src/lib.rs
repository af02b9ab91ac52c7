//! softnd
