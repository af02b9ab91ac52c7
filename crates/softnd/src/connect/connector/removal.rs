//! What the removal of the device does to a connector (GEN-015).

use netdirect::Status;

use super::state::{Connector, Phase};
use crate::device::DeviceObject;

impl DeviceObject for Connector {
    fn waits(&self) -> Option<String> {
        let state = self.state.try_lock()?;
        if state.requests.is_empty() {
            return None;
        }
        let peer = state
            .peer
            .map_or_else(|| "its peer".to_owned(), |peer| peer.to_string());
        Some(match &state.phase {
            Phase::Connecting(attempt) => attempt.waits(),
            Phase::Accepting(_) => format!("Accept waits for {peer} to complete its Connect"),
            Phase::Disconnecting => format!("Disconnect waits for {peer} to close its direction"),
            _ => format!("NotifyDisconnect waits for the end of the connection with {peer}"),
        })
    }

    /// All requests end with ND_DEVICE_REMOVED, and the connector forgets its connection. A peer whose request waits here is
    /// refused, and a peer of a Connect sees a reset. The stream of a connection belongs to the queue pair, which is told next.
    fn device_removed(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Offered(_)) {
            self.refuse(&mut state, &[]);
        }
        self.clear_dial_timer(&mut state);
        match std::mem::replace(&mut state.phase, Phase::Dead) {
            Phase::Connecting(attempt) => attempt.reset(&self.core),
            Phase::Answered(answered) => answered.startup.reset(),
            _ => {}
        }
        (state.local, state.peer) = (None, None);
        (state.private_data, state.limits) = (None, None);
        (state.bound, state.qp) = (None, None);
        let requests = state.requests.take_all();
        state.done.end(requests, Status::DEVICE_REMOVED);
    }
}
