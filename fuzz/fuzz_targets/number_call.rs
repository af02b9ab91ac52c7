//! The target `number_call` for libFuzzer; what it does is in the library.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| softnd_fuzz::number_call(data));
