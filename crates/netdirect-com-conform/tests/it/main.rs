//! The checks against softnd's library, and against libraries that break one rule each.

mod broken;
#[allow(dead_code, reason = "the tests of netdirect-com use the rest")]
mod client;
