//! The effect of the removal of the device on a connector (GEN-015).

use netdirect_provider::connector::machine::State;

use super::state::{Connector, ConnectorState};
use crate::connection_end;
use crate::core::Core;

impl Connector {
    /// Forgets the connection.
    pub(super) fn forget(&self, state: &mut ConnectorState, from: State) {
        match from {
            State::Connecting => state.end = Some(connection_end::of_removal()),
            State::Accepting | State::Answered | State::Connected | State::Disconnecting => {
                Self::ends(state, connection_end::of_removal());
            }
            _ => {}
        }
        if let State::Connecting | State::Accepting = from {
            self.abandon(state, from);
        }
        let (bound, id, qp) = (state.bound.take(), state.line.id.take(), state.qp.take());
        state.done.after(move || {
            drop((bound, qp));
            Core::bury(id);
        });
    }
}
