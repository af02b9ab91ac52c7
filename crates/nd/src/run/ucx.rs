//! UCX, the library below MPICH and other programs.
//!
//! Its connection manager listens at one port both over rdma_cm and over TCP, which share their ports here. A variable of UCX makes it use TCP
//! alone for that; the connections themselves use the devices.

/// The variables that the program gets where the user has not set them.
pub(super) const ENVIRONMENT: [(&str, &str); 1] = [("UCX_SOCKADDR_TLS_PRIORITY", "tcp")];
