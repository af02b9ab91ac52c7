//! An accepted TCP connection from its first octet to the client's GetConnectionRequest.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Instant;

use iwarp::mpa::startup::{Frame, FrameKind};
use parking_lot::Mutex;

use super::listener::Listener;
use super::{Exchange, Heard, send_reject};
use crate::core::Core;
use iwarp_io::progress::Edges;
use iwarp_io::progress::domain::{Source, Turn};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::transport::stream::Stream;

/// A connection attempt of a peer that no client has seen yet.
#[derive(Debug)]
pub(crate) struct Greeting {
    core: Arc<Core>,
    listener: Weak<Listener>,
    key: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    exchange: Option<Exchange>,
    /// The whole Request, once it is there: from then on the attempt waits in the listener's backlog.
    request: Option<Frame>,
    timer: Option<TimerKey>,
}

/// A whole and valid MPA Request, and the stream it came on.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) stream: Stream,
    pub(crate) request: Frame,
}

impl Greeting {
    /// Begins to listen to a peer.
    pub(super) fn start(
        core: &Arc<Core>,
        listener: Weak<Listener>,
        key: u64,
        stream: Stream,
    ) -> io::Result<Arc<Self>> {
        let this = Self::new(core, listener, key, stream, None)?;
        if let Some(limit) = core.options.timeouts.request {
            let target = Arc::downgrade(&(Arc::clone(&this) as Arc<dyn Timed>));
            let mut state = this.state.lock();
            // Another thread may have read the whole Request already.
            if state.exchange.is_some() && state.request.is_none() {
                state.timer = Some(core.driver.set_timer(core.driver.now() + limit, target));
            }
        }
        Ok(this)
    }

    /// Watches a peer whose Request is here already, until somebody wants it.
    pub(super) fn resume(
        core: &Arc<Core>,
        listener: Weak<Listener>,
        key: u64,
        arrival: Arrival,
    ) -> io::Result<Arc<Self>> {
        Self::new(core, listener, key, arrival.stream, Some(arrival.request))
    }

    fn new(
        core: &Arc<Core>,
        listener: Weak<Listener>,
        key: u64,
        stream: Stream,
        request: Option<Frame>,
    ) -> io::Result<Arc<Self>> {
        let this = Arc::new(Self {
            core: Arc::clone(core),
            listener,
            key,
            state: Mutex::default(),
        });
        let mut state = this.state.lock();
        let source = Arc::downgrade(&(Arc::clone(&this) as Arc<dyn Source>));
        let exchange = Exchange::new(stream, &core.driver.control, source, FrameKind::Request)?;
        state.exchange = Some(exchange);
        state.request = request;
        drop(state);
        Ok(this)
    }

    /// Names the attempt within its listener.
    pub(super) fn key(&self) -> u64 {
        self.key
    }

    /// Whether the whole Request is there, after a last look: what has come and was not read yet counts.
    pub(super) fn is_here_after_all(&self) -> bool {
        self.is_complete() || matches!(self.read(), Step::Offer)
    }

    /// Whether the whole Request is there.
    fn is_complete(&self) -> bool {
        self.state.lock().request.is_some()
    }

    /// Hands the attempt to a connector.
    pub(super) fn take(&self) -> Option<Box<Arrival>> {
        let mut state = self.state.lock();
        let request = state.request.take()?;
        let stream = state.exchange.take()?.into_stream();
        Some(Box::new(Arrival { stream, request }))
    }

    /// Refuses the attempt: with a Reply where there is a Request to answer, else by a reset (MPA-002). A refusal is
    /// never a reset after a Request, or adapters would try again with revision 1 (PEER-034).
    pub(super) fn refuse(&self) {
        let mut state = self.state.lock();
        self.cancel_timer(&mut state);
        let Some(exchange) = state.exchange.take() else {
            return;
        };
        match state.request.take() {
            Some(request) => {
                send_reject(&exchange.stream, &request, self.core.read_limits(), &[]);
                exchange.close();
            }
            None => exchange.reset(),
        }
    }

    fn cancel_timer(&self, state: &mut State) {
        if let Some(key) = state.timer.take() {
            self.core.driver.cancel_timer(key);
        }
    }

    /// Reads the Request; what is to become of the attempt.
    fn read(&self) -> Step {
        let state = &mut *self.state.lock();
        let Some(exchange) = &mut state.exchange else {
            return Step::Wait;
        };
        if state.request.is_some() {
            // Anything before our Reply is an end, a reset, or octets that may not be there yet (MPA-015).
            return match exchange.stream.peek() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Step::Wait,
                _ => Step::Drop,
            };
        }
        match exchange.hear() {
            Heard::Nothing => {
                exchange.wake_later(&self.core);
                Step::Wait
            }
            Heard::Frame(request) => {
                if exchange.stream.peek().is_ok() {
                    tracing::debug!(peer = %exchange.stream.peer(), "the peer sent on behind its request, or has gone");
                    return Step::Drop;
                }
                state.request = Some(request);
                self.cancel_timer(state);
                Step::Offer
            }
            Heard::Malformed(error) => {
                tracing::debug!(peer = %exchange.stream.peer(), %error, "not an MPA request");
                Step::Drop // MPA-002
            }
            Heard::End | Heard::Broken(_) => Step::Drop,
        }
    }

    fn forget(&self) {
        if let Some(listener) = self.listener.upgrade() {
            listener.forget(self.key);
        }
    }

    /// Resets the connection.
    pub(super) fn abandon(&self) {
        let exchange = {
            let mut state = self.state.lock();
            self.cancel_timer(&mut state);
            state.exchange.take()
        };
        if let Some(exchange) = exchange {
            exchange.reset();
        }
    }

    fn drop_it(&self) {
        self.abandon();
        self.forget();
    }
}

enum Step {
    Wait,
    Offer,
    Drop,
}

impl Source for Greeting {
    fn ready(&self, _: Edges) -> Turn {
        match self.read() {
            Step::Wait => {}
            Step::Offer => match self.listener.upgrade() {
                Some(listener) => listener.offered(self.key),
                None => self.refuse(),
            },
            Step::Drop => self.drop_it(),
        }
        Turn::default()
    }
}

impl Timed for Greeting {
    fn expired(&self, _: TimerKey, _: Instant) {
        if !self.is_complete() {
            tracing::debug!("a peer did not send its request in time");
            self.drop_it();
        }
    }
}
