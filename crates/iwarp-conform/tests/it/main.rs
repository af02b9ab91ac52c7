//! The tests of the suite itself, in one program. Those with targets need sockets, and have not been run on Windows' sockets as often as it
//! takes to know that they do not depend on the machine's speed there.

#[cfg(not(windows))]
mod broken;
mod catalogue;
#[cfg(all(feature = "udp", not(windows)))]
mod given_up;
#[cfg(not(windows))]
mod reference;
#[cfg(not(windows))]
mod sample;
mod vectors;
