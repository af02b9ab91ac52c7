//! The calls of clients and of the listener.

use std::net::SocketAddr;
use std::sync::Arc;

use netdirect::{Call, Error, Overlapped, QueuePair, ReadLimits, Result, Status};

use super::line::{Acceptance, Attempt, Binding, ConnectorLine, ConnectorRules, ConnectorState};
use super::machine::{Event, State};
use crate::adapter::ProviderAdapter;
use crate::checks::{addresses, sizes};
use crate::error::fail;

/// The parameters of a client's Connect or Accept.
pub(super) struct Wanted<'a> {
    pub(super) qp: &'a Arc<dyn QueuePair>,
    pub(super) inbound: u32,
    pub(super) outbound: u32,
    pub(super) private_data: &'a [u8],
}

impl<L: ConnectorLine> ConnectorRules<L> {
    pub(super) fn bind(&self, line: &L, address: SocketAddr) -> Result<()> {
        let mut state = self.lock(line);
        self.adapter.present()?; // CONN-007
        let is_bound = state.local.is_some() && !state.failed;
        let call = if is_bound {
            Event::BindAgain
        } else {
            Event::Bind
        };
        Self::check(&mut state, call)?;
        addresses::local(address.ip(), |ip| self.adapter.serves(ip))?;
        self.adapter.admit(Call::BindConnector)?;
        state.bound = None; // The client may ask for the same port again.
        let binding = line.bind(address)?;
        state.take_binding(binding, address.port() == 0);
        Ok(())
    }

    pub(super) fn connect(
        &self,
        line: &L,
        wanted: &Wanted<'_>,
        destination: SocketAddr,
        overlapped: &Overlapped,
    ) -> Result<()> {
        let qp = line.queue_pair(wanted.qp)?;
        let limits = line.asked_limits(wanted.inbound, wanted.outbound);
        let mut state = self.lock(line);
        self.adapter.present()?; // CONN-019
        let step = Self::check(&mut state, Event::Connect)?;
        let most = line.caller_data(destination.ip());
        sizes::private_data(wanted.private_data, most, "MaxCallerData")?;
        addresses::destination(destination)?;
        let claim = line.claim(&qp)?;
        let binding = Self::binding_for(line, &state, destination);
        let begun = binding.and_then(|binding| Ok((binding, overlapped.begin(&self.file)?)));
        let (binding, request) = begun.inspect_err(|_| line.unclaim(&qp))?;
        // All errors that the call can return have been returned by now, and the connector has not changed (AMB-005).
        if let Some((binding, picked)) = binding {
            state.take_binding(binding, picked);
        }
        state.requests.add_state_change(request);
        state.qp = Some(qp);
        state.private_data = None;
        state.limits = None;
        state.failed = false;
        state.end = None;
        Self::called(line, &mut state, step);
        let attempt = Attempt {
            destination,
            limits,
            private_data: wanted.private_data,
            claim,
        };
        line.connect(&mut state, attempt);
        Ok(())
    }

    /// A local address for a connector that the client has not bound, or whose last attempt has used its address up (AMB-031), and true if
    /// its port was picked.
    fn binding_for(
        line: &L,
        state: &ConnectorState<L>,
        destination: SocketAddr,
    ) -> Result<Option<(Binding<L::Bound>, bool)>> {
        let address = match state.local {
            Some(local) if local.is_ipv4() != destination.is_ipv4() => {
                return fail(
                    Status::NETWORK_UNREACHABLE,
                    "the connector is bound to an address of the other family",
                ); // CONN-021
            }
            Some(_) if state.bound.is_some() => return Ok(None),
            // The port of the last attempt may not be free yet.
            Some(local) if state.picked => SocketAddr::new(local.ip(), 0),
            Some(local) => local,
            None => {
                let own = line.rules().adapter.local_address_for(destination.ip());
                let own = own.ok_or_else(|| {
                    let what = format!(
                        "the adapter has no address of the family of {}",
                        destination.ip()
                    );
                    Error::new(Status::NETWORK_UNREACHABLE, what)
                })?;
                SocketAddr::new(own, 0)
            }
        };
        let binding = line.bind(address).map_err(addresses::taken_at_connect)?;
        Ok(Some((binding, address.port() == 0)))
    }

    pub(super) fn complete_connect(&self, line: &L, overlapped: &Overlapped) -> Result<()> {
        let mut state = self.lock(line);
        self.adapter.present()?; // CONN-045
        let step = Self::check(&mut state, Event::CompleteConnect)?;
        let request = overlapped.begin(&self.file)?;
        state.requests.add_state_change(request);
        Self::called(line, &mut state, step);
        match line.complete_connect(&mut state) {
            // NotifyDisconnect reports a connection that is over already (CONN-042).
            Ok(()) => Self::happens(line, &mut state, Event::Completed),
            Err(error) => Self::fails(line, &mut state, Event::CompletionFails, error),
        }
        Ok(())
    }

    pub(super) fn accept(
        &self,
        line: &L,
        wanted: &Wanted<'_>,
        overlapped: &Overlapped,
    ) -> Result<()> {
        let qp = line.queue_pair(wanted.qp)?;
        let limits = line.asked_limits(wanted.inbound, wanted.outbound);
        let mut state = self.lock(line);
        self.adapter.present()?; // CONN-053
        let most = line.callee_data(state.peer.map(|peer| peer.ip()));
        sizes::private_data(wanted.private_data, most, "MaxCalleeData")?;
        line.look_for_end(&mut state);
        let step = Self::check(&mut state, Event::Accept)?;
        let claim = line.claim(&qp)?;
        let request = overlapped.begin(&self.file);
        let request = request.inspect_err(|_| line.unclaim(&qp))?;
        state.requests.add_state_change(request);
        Self::called(line, &mut state, step);
        let acceptance = Acceptance {
            qp,
            limits,
            private_data: wanted.private_data,
            claim,
        };
        line.accept(&mut state, acceptance);
        Ok(())
    }

    pub(super) fn reject(&self, line: &L, private_data: &[u8]) -> Result<()> {
        let mut state = self.lock(line);
        self.adapter.present()?; // CONN-070
        let most = line.callee_data(state.peer.map(|peer| peer.ip()));
        sizes::private_data(private_data, most, "MaxCalleeData")?;
        line.look_for_end(&mut state);
        let step = Self::check(&mut state, Event::Reject)?;
        // The active side has a Reject as well, whose private data not every line can carry.
        Self::called_with(line, &mut state, step, private_data)
    }

    pub(super) fn notify_disconnect(&self, line: &L, overlapped: &Overlapped) -> Result<()> {
        let mut state = self.lock(line);
        self.adapter.present()?; // GEN-015
        Self::check(&mut state, Event::NotifyDisconnect)?;
        let request = overlapped.begin(&self.file)?;
        if state.ended || state.state() == State::Disconnected {
            state.done.end([request], Status::SUCCESS); // CONN-107
        } else {
            state.requests.add_notification(request);
        }
        Ok(())
    }

    pub(super) fn disconnect(&self, line: &L, overlapped: &Overlapped) -> Result<()> {
        let mut state = self.lock(line);
        self.adapter.present()?; // CONN-111
        let step = Self::check(&mut state, Event::Disconnect)?;
        let request = overlapped.begin(&self.file)?;
        state.requests.add_state_change(request);
        Self::called(line, &mut state, step);
        if line.disconnect(&mut state) {
            Self::happens(line, &mut state, Event::ConnectionEnds);
        }
        Ok(())
    }

    pub(super) fn cancel(&self, line: &L) {
        Self::happens(line, &mut self.lock(line), Event::Cancel);
    }

    /// The client has released its last reference.
    pub(super) fn release(&self, line: &L) {
        let waited = {
            let mut state = self.lock(line);
            let waits = state.state() == State::Waiting;
            let listener = state.listener.take().filter(|_| waits);
            Self::happens(line, &mut state, Event::Release);
            line.released(&mut state);
            listener.and_then(|listener| listener.upgrade())
        };
        // The listener locks connectors, so it is not called under a connector's lock.
        if let Some(listener) = waited {
            listener.connector_released(line);
        }
    }

    // ---- queries ----

    pub(super) fn read_limits(&self, line: &L) -> Result<ReadLimits> {
        let state = self.lock(line);
        let limits = state.limits.filter(|_| !state.state().is_over());
        limits.ok_or_else(|| invalid("the peer has not told its read limits")) // CONN-078
    }

    pub(super) fn private_data(&self, line: &L) -> Result<Vec<u8>> {
        let data = self.lock(line).private_data.clone();
        data.ok_or_else(|| invalid("nothing has come from a peer")) // CONN-087
    }

    pub(super) fn local_address(&self, line: &L) -> Result<SocketAddr> {
        let mut state = self.lock(line);
        state.picked = false; // The client knows the port from now on.
        let local = state.local.filter(|_| !state.state().is_over());
        local.ok_or_else(|| invalid("the connector is not bound")) // CONN-094
    }

    pub(super) fn peer_address(&self, line: &L) -> Result<SocketAddr> {
        let state = self.lock(line);
        let peer = match state.state() {
            State::Idle | State::Waiting | State::Connecting => None,
            _ => state.peer.filter(|_| !state.state().is_over()),
        };
        peer.ok_or_else(|| invalid("the connector is not connected")) // CONN-099
    }
}

fn invalid(what: &'static str) -> Error {
    Error::new(Status::CONNECTION_INVALID, what)
}
