//! The passive side: a request arrives, Accept, the wait for the peer's ready-to-receive message.

use std::io;
use std::sync::{Arc, Weak};

use iwarp::mpa::startup::{self, Acceptance, FrameKind, ReadyKinds, peer_limits};
use netdirect::{Overlapped, QueuePair, ReadLimits, Result, Started, Status};

use super::{Arrival, Connector, Listener, Offered, Phase, State};
use crate::cm::{Exchange, send_reject};
use crate::core::UNSTATED_READ_LIMIT;
use crate::qp::{Claim, Drivers, Qp, Signals, Start};
use crate::status::fail;
use iwarp_io::limited;

impl Connector {
    /// A client of `listener` wants the next request here.
    pub(crate) fn wait_for_request(&self, listener: &Weak<Listener>) -> Result<()> {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Idle) {
            return fail(Status::CONNECTION_ACTIVE, "the connector is in use"); // LSTN-031
        }
        state.phase = Phase::Waiting(listener.clone());
        Ok(())
    }

    pub(crate) fn request_cancelled(&self) {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Waiting(_)) {
            state.phase = Phase::Idle;
        }
    }

    /// Whether a request can be given to this connector.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.lock().phase, Phase::Waiting(_))
    }

    /// A peer's request arrives. The arrival comes back when the client has released the connector meanwhile.
    pub(crate) fn offer(&self, arrival: Box<Arrival>) -> std::result::Result<Status, Box<Arrival>> {
        let mut state = self.lock();
        let Phase::Waiting(listener) = &state.phase else {
            return Err(arrival);
        };
        let listener = listener.clone();
        let Arrival { stream, request } = *arrival;
        state.local = Some(stream.local());
        state.peer = Some(stream.peer());
        state.private_data = Some(request.private_data.clone());
        state.limits = Some(self.offered_limits(&request));
        // Watched for the peer's end while the client thinks.
        match Exchange::new(
            stream,
            &self.core.driver.control,
            self.source(),
            FrameKind::Request,
        ) {
            Ok(exchange) => {
                state.phase = Phase::Offered(Box::new(Offered {
                    exchange,
                    request,
                    listener,
                }));
            }
            Err(error) => {
                limited!(warn, %error, "cannot watch a peer that asks for a connection");
                state.phase = Phase::Gone;
            }
        }
        Ok(Status::SUCCESS)
    }

    /// Gives back what [`offer`](Self::offer) has put here and nobody has answered: the connector is as it was before.
    /// `None` when the peer has given up.
    pub(crate) fn take_back(&self, listener: &Weak<Listener>) -> Result<Option<Box<Arrival>>> {
        let mut state = self.lock();
        self.look_for_end(&mut state);
        match &state.phase {
            Phase::Offered(offered) if offered.listener.ptr_eq(listener) => {}
            Phase::Gone => {}
            _ => {
                return fail(
                    Status::CONNECTION_INVALID,
                    "the connector neither waits for nor holds a request of this listener",
                );
            }
        }
        let bound = state.bound.as_ref();
        state.local = bound.and_then(|bound| bound.local().ok());
        (state.peer, state.private_data, state.limits) = (None, None, None);
        let Phase::Offered(offered) = std::mem::take(&mut state.phase) else {
            return Ok(None);
        };
        let Offered {
            exchange, request, ..
        } = *offered;
        let stream = exchange.into_stream();
        Ok(Some(Box::new(Arrival { stream, request })))
    }

    /// The peer's wishes, seen from here and cut to both adapters (IW-009).
    fn offered_limits(&self, request: &startup::Frame) -> ReadLimits {
        let most = self.core.read_limits();
        let (ird, ord) = peer_limits(request);
        ReadLimits {
            inbound: ird.unwrap_or(UNSTATED_READ_LIMIT).min(most.ird),
            outbound: ord.unwrap_or(UNSTATED_READ_LIMIT).min(most.ord),
        }
    }

    /// Notices a peer that has given up: before our Reply, anything from it is an end or a violation (MPA-015).
    pub(super) fn look_for_end(&self, state: &mut State) {
        let Phase::Offered(offered) = &state.phase else {
            return;
        };
        match offered.exchange.stream.peek() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            _ => {}
        }
        if let Phase::Offered(offered) = std::mem::replace(&mut state.phase, Phase::Gone) {
            offered.exchange.reset();
        }
    }

    /// Answers a request with R = 1, because of its Private Data or for another reason of the client's (MPA-019).
    pub(super) fn refuse(&self, state: &mut State, private_data: &[u8]) {
        if let Phase::Offered(offered) = std::mem::replace(&mut state.phase, Phase::Dead) {
            let Offered {
                exchange, request, ..
            } = *offered;
            send_reject(
                &exchange.stream,
                &request,
                self.core.read_limits(),
                private_data,
            );
            exchange.close();
        }
    }

    pub(super) fn accept(
        &self,
        qp: &Arc<dyn QueuePair>,
        limits: ReadLimits,
        private_data: &[u8],
        overlapped: &Overlapped,
    ) -> Result<Started> {
        let qp = self.queue_pair(qp)?;
        let mut state = self.lock();
        self.core.device.present()?; // CONN-053
        let peer = state.peer.map(|peer| peer.ip());
        self.check_private_data(private_data, "MaxCalleeData", peer)?;
        self.look_for_end(&mut state);
        match state.phase {
            Phase::Offered(_) => {}
            Phase::Gone => {
                state.phase = Phase::Dead;
                return fail(Status::CONNECTION_ABORTED, "the peer has given up"); // CONN-055
            }
            Phase::Accepting | Phase::Connected | Phase::Connecting(_) | Phase::Answered(_) => {
                return fail(
                    Status::CONNECTION_ACTIVE,
                    "the connector is connected or connecting",
                );
            }
            _ => return fail(Status::CONNECTION_INVALID, "no request has arrived here"), // CONN-060
        }
        qp.claim(self.this.clone())?;
        let request = match self.begin(overlapped) {
            Ok(request) => request,
            Err(error) => {
                qp.unclaim();
                return Err(error);
            }
        };
        state.requests.add_step(request);
        self.reply(&mut state, qp, limits, private_data);
        Ok(Started::Pending)
    }

    fn reply(&self, state: &mut State, qp: Arc<Qp>, limits: ReadLimits, private_data: &[u8]) {
        let Phase::Offered(offered) = std::mem::replace(&mut state.phase, Phase::Accepting) else {
            return;
        };
        let Offered {
            exchange, request, ..
        } = *offered;
        let view = state.limits.unwrap_or_default();
        let inbound = match peer_limits(&request) {
            (Some(_), _) => view.inbound,
            (None, _) => self.core.read_limits().ird, // MPA2-017
        };
        let effective = iwarp::ReadLimits {
            ird: limits.inbound.min(inbound), // IW-010, CONN-063
            ord: limits.outbound.min(view.outbound),
        };
        let towards = self.core.options.towards(exchange.stream.peer().ip());
        let acceptance = Acceptance {
            crc: self.core.options.crc,
            markers: towards.markers,
            ready: ReadyKinds::UNSEEN, // IW-003
            limits: effective,
            private_data: private_data.to_vec(),
        };
        let (reply, agreed) = startup::accept(&request, &acceptance);
        let mut octets = Vec::new();
        reply.encode(&mut octets);
        // Taken out of the control set first: what comes from here on is the queue pair's.
        let mut stream = exchange.into_stream();
        if agreed.markers.sent {
            stream.send_markers();
        }
        let config = self.stream_config(iwarp::Role::Responder, &agreed, &stream);
        // Without a third message there is nothing to wait for (IW-005).
        let open = agreed.ready.is_none();
        let start = if open { Start::Open } else { Start::Awaited };
        let started = stream
            .send_frame(&octets)
            .inspect_err(|_| qp.unclaim())
            .and_then(|()| {
                state.guard = Some(qp.guard_flush());
                let (started, news) = qp.start(stream, config, start);
                state.done.news.push(news);
                started
            });
        if let Err(error) = started {
            tracing::debug!(%error, "the peer was gone at Accept");
            return self.finish(state, Phase::Dead, Status::CONNECTION_ABORTED);
        }
        if open {
            state.qp = Some(qp);
            return self.finish(state, Phase::Connected, Status::SUCCESS);
        }
        state.qp = Some(qp);
        self.set_timer(state, self.core.options.timeouts.ready);
    }

    /// What the queue pair tells while the ready-to-receive message is awaited (AMB-004).
    pub(super) fn accepting(&self, state: &mut State, signals: Signals) {
        let status = if signals.contains(Signals::READY) {
            if let Some(qp) = &state.qp {
                state.done.news.push(qp.drive_from(Drivers::Queues));
            }
            return self.finish(state, Phase::Connected, Status::SUCCESS);
        } else if signals.intersects(Signals::PEER_CLOSED | Signals::TERMINATED) {
            Status::CONNECTION_REFUSED
        } else if signals.intersects(Signals::RESET | Signals::FAILED | Signals::GONE) {
            Status::CONNECTION_ABORTED
        } else {
            return;
        };
        if let Some(qp) = state.qp.take() {
            state.done.news.push(qp.disconnect().1);
        }
        self.finish(state, Phase::Dead, status);
    }
}
