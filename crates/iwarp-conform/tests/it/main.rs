//! The tests of the suite itself, in one program. Those with targets need sockets, and have not been run on Windows' sockets as often as it
//! takes to know that they do not depend on the machine's speed there.

mod broken;
mod catalogue;
#[cfg(feature = "udp")]
mod given_up;
mod reference;
mod sample;
mod vectors;
