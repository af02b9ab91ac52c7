//! What the removal of the device does to a connector (GEN-015).

use netdirect::Status;

use super::state::{Connector, Phase};
use crate::core::Core;
use crate::device::{DeviceObject, RemovalOrder};

impl DeviceObject for Connector {
    fn removal_order(&self) -> RemovalOrder {
        RemovalOrder::Connector
    }

    fn device_removed(&self) {
        let mut state = self.lock();
        if let Phase::Connecting(_) | Phase::Accepting = state.phase {
            self.abandon(&mut state);
        }
        state.phase = Phase::Dead;
        self.forget_deadline(&mut state);
        (state.local, state.peer) = (None, None);
        (state.private_data, state.limits) = (None, None);
        let (bound, id, qp) = (state.bound.take(), state.id.take(), state.qp.take());
        let requests = state.requests.take_all();
        state.done.end(requests, Status::DEVICE_REMOVED);
        state.done.after(move || {
            drop((bound, qp));
            Core::bury(id);
        });
    }
}
