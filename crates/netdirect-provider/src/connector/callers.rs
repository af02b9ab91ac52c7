//! The calls of listeners and queue pairs to a connector.

use std::sync::{Arc, Weak};

use netdirect::{Connector, Result, Status};

use super::handle::ConnectorHandle;
use super::line::{ConnectorLine, ConnectorRules};
use super::machine::{Event, State};
use crate::checks::own;
use crate::error::fail;
use crate::listener::{AwaitedListener, WaitingConnector};

/// The connector of a queue pair, as the queue pair sees it. Called with the queue pair unlocked.
pub trait QueuePairOwner: Send + Sync {
    /// The client has released the queue pair.
    fn queue_pair_released(&self);

    /// The client flushes the queue pair.
    fn queue_pair_flushed(&self);
}

impl<L: ConnectorLine> QueuePairOwner for L {
    fn queue_pair_released(&self) {
        let mut state = self.rules().lock(self);
        ConnectorRules::happens(self, &mut state, Event::QueuePairReleased);
    }

    fn queue_pair_flushed(&self) {
        let mut state = self.rules().lock(self);
        ConnectorRules::happens(self, &mut state, Event::QueuePairFlushed);
    }
}

impl<L: ConnectorLine> WaitingConnector for L {
    type Adapter = L::Adapter;
    type PeerRequest = L::PeerRequest;

    fn of_client(connector: &Arc<dyn Connector>, adapter: &Arc<L::Adapter>) -> Result<Arc<L>> {
        let connector = own::connector::<ConnectorHandle<L>>(connector, adapter)?;
        Ok(Arc::clone(connector.line()))
    }

    fn wait_for_request(&self, listener: Weak<dyn AwaitedListener<Self>>) -> Result<()> {
        let mut state = self.rules().lock(self);
        let step = ConnectorRules::check(&mut state, Event::GetConnectionRequest)?;
        state.listener = Some(listener);
        ConnectorRules::called(self, &mut state, step);
        Ok(())
    }

    fn request_cancelled(&self) {
        let mut state = self.rules().lock(self);
        ConnectorRules::happens(self, &mut state, Event::WaitEnds);
    }

    fn is_waiting(&self) -> bool {
        self.rules().lock(self).state() == State::Waiting
    }

    fn offer(&self, request: L::PeerRequest) -> Option<L::PeerRequest> {
        let mut state = self.rules().lock(self);
        if state.state() != State::Waiting {
            return Some(request);
        }
        ConnectorRules::happens(self, &mut state, Event::Offer);
        if !ConnectorLine::offer(self, &mut state, request) {
            ConnectorRules::happens(self, &mut state, Event::PeerLeaves);
        }
        None
    }

    fn take_back(
        &self,
        listener: &Weak<dyn AwaitedListener<Self>>,
    ) -> Result<Option<L::PeerRequest>> {
        let mut state = self.rules().lock(self);
        self.look_for_end(&mut state);
        let step = ConnectorRules::check(&mut state, Event::TakeBack)?;
        let is_this =
            |other: &Weak<_>| std::ptr::addr_eq(Weak::as_ptr(other), Weak::as_ptr(listener));
        let is_here = state.listener.as_ref().is_some_and(is_this);
        if state.state() == State::Offered && !is_here {
            return fail(
                Status::CONNECTION_INVALID,
                "the connector holds a request of another listener",
            );
        }
        let request = match state.state() {
            State::Offered => ConnectorLine::take_back(self, &mut state),
            _ => None,
        };
        state.forget_peer();
        ConnectorRules::called(self, &mut state, step);
        Ok(request)
    }
}
