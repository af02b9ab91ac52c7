//! The effect of the removal of the device on a connector (GEN-015).

use netdirect_provider::connector::machine::State;

use super::state::{Connector, ConnectorState, Setup};
use crate::connection_end;

/// The event that the requests of a connector wait for, in words.
pub(super) fn waits(state: &ConnectorState) -> Option<String> {
    if !state.has_requests() {
        return None;
    }
    let peer = state
        .peer
        .map_or_else(|| "its peer".to_owned(), |peer| peer.to_string());
    Some(match (&state.line.setup, state.state()) {
        (Setup::Connecting(active), _) => active.waits(),
        (_, State::Accepting) => format!("Accept waits for {peer} to complete its Connect"),
        (_, State::Disconnecting) => format!("Disconnect waits for {peer} to close its direction"),
        _ => format!("NotifyDisconnect waits for the end of the connection with {peer}"),
    })
}

impl Connector {
    /// Forgets the connection. A peer whose request waits here is refused, and a peer of a Connect sees a reset. The stream of a
    /// connection belongs to the queue pair, which is handled next.
    pub(super) fn forget(&self, state: &mut ConnectorState) {
        state.end.get_or_insert_with(connection_end::of_removal);
        match std::mem::take(&mut state.line.setup) {
            Setup::Offered(passive) => passive.reject(&[]),
            Setup::Connecting(active) | Setup::Answered(active) => drop(active.reset()),
            Setup::Accepting(_) | Setup::None => {}
        }
        state.qp = None;
    }
}
