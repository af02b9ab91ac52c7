//! The choice of a congestion control: by the program or by the environment, and checked before connections are made.

use std::io;

use super::congestion_control::{CongestionControl, QuicAlgorithm, VARIABLE, invalid};
use super::tcp;

/// The transport whose connections get a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestedTransport {
    /// The system's TCP.
    Tcp,
    /// QUIC.
    Quic,
}

/// The program's choice, or that of the environment if the program chooses none.
///
/// # Errors
///
/// `InvalidInput`: the transport does not have it, or the system does not permit it. The error has those that there are, and names the
/// variable if the choice is the environment's.
pub fn choose(
    program: CongestionControl,
    transport: CongestedTransport,
) -> io::Result<CongestionControl> {
    if program != CongestionControl::Unset {
        check(&program, transport)?;
        return Ok(program);
    }
    let Some(value) = rdma_buffer::environment::variable(VARIABLE) else {
        return Ok(program);
    };
    let of_variable = |what: &dyn std::fmt::Display| invalid(format!("{VARIABLE}: {what}"));
    let name = value
        .to_str()
        .ok_or_else(|| of_variable(&format_args!("{value:?} is not UTF-8")))?;
    let chosen = CongestionControl::from_name(name);
    check(&chosen, transport).map_err(|error| of_variable(&error))?;
    Ok(chosen)
}

fn check(choice: &CongestionControl, transport: CongestedTransport) -> io::Result<()> {
    match (transport, choice) {
        (CongestedTransport::Quic, _) => QuicAlgorithm::for_choice(choice).map(drop),
        (CongestedTransport::Tcp, CongestionControl::Named(name)) => tcp::permits_congestion(name),
        (CongestedTransport::Tcp, _) => Ok(()),
    }
}
