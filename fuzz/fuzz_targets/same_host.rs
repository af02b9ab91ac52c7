//! The target `same_host` for libFuzzer; what it does is in the library.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| softnd_fuzz::same_host(data));
