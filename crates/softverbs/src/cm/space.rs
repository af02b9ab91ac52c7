//! Port spaces.

/// The port space of an identifier, with the values of `enum rdma_port_space`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum PortSpace {
    /// `RDMA_PS_TCP`: connections.
    #[default]
    Tcp = 0x0106,
    /// `RDMA_PS_UDP`: datagrams.
    Udp = 0x0111,
}
