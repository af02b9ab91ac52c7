//! UCX, the library below MPICH and other programs.
//!
//! UCX makes a UD queue pair on every device for RoCE, and fails where it gets none: it does not ask whether the device has them. Its
//! connection manager listens at one port both over rdma_cm and over TCP, which share their ports here. Variables of UCX make it use TCP
//! and shared memory, as on a machine without adapters.

use super::args::Presents;

/// The variables that the program gets where the user has not set them.
pub(super) fn environment(present: Presents) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![("UCX_SOCKADDR_TLS_PRIORITY", "tcp")];
    // UCX uses no devices for iWARP. UCX before 1.18 would warn that there is no `ib` to leave out. Since 1.14.1, `^ib` alone keeps
    // `ud_verbs` for connecting the other transports.
    if present == Presents::Roce {
        all.push(("UCX_TLS", "^ib,ud_verbs:aux"));
    }
    all
}
