//! A machine of the set-up with its resources: a stream, the domain in which connections are made, and a deadline.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use iwarp::mpa::startup::{Acceptance, Agreed, Frame, MAX_FRAME, Offer};
use iwarp::{ReadLimits, StreamEnd};
use tracing::Span;

use super::exchange::Machine;
use super::initiator::{Initiator, InitiatorFailure, InitiatorOutcome};
use super::responder::{Responder, ResponderConfig, ResponderOutcome};
use crate::driver::Driver;
use crate::log::targets;
use crate::progress::domain::Source;
use crate::progress::timers::{Timed, TimerKey};
use crate::progress::{Edges, Readiness};
use crate::system_call::is_refusal;
use crate::transport::Paired;
use crate::transport::stream::Stream;

/// The owner of a set-up under way: called when its stream may be ready, and when one of its deadlines has passed. The owner passes both on
/// to its [`ActiveSide`](super::ActiveSide) or [`PassiveSide`](super::PassiveSide).
pub trait StartupOwner: Source + Timed {}

impl<T: Source + Timed> StartupOwner for T {}

/// The time after which this side looks again at a stream with part of a token. Honest peers send tokens whole.
const PART_OF_TOKEN: Duration = Duration::from_millis(1);

/// The stream of a set-up, its place in the domain, and its deadline. Dropping this closes the stream, and takes the place and the deadline
/// back.
struct Resources {
    driver: Arc<Driver>,
    owner: Weak<dyn StartupOwner>,
    stream: Option<Stream>,
    /// The stream's place in the domain, if it has one.
    token: Option<u64>,
    timer: Option<(Instant, TimerKey)>,
}

impl Resources {
    fn new(driver: &Arc<Driver>, owner: Weak<dyn StartupOwner>) -> Self {
        Self {
            driver: Arc::clone(driver),
            owner,
            stream: None,
            token: None,
            timer: None,
        }
    }

    fn watch(&mut self, stream: Stream) -> io::Result<()> {
        let source: Weak<dyn Source> = self.owner.clone();
        self.token = Some(self.driver.control.add(&stream, source, Edges::READ)?);
        self.stream = Some(stream);
        Ok(())
    }

    /// All that has arrived was read.
    fn await_octets(&self) {
        if let (Some(stream), Some(_)) = (&self.stream, self.token)
            && !stream.is_held(Edges::READ)
        {
            self.driver.control.arm(stream, Edges::READ);
        }
    }

    fn unwatch(&mut self) {
        if let (Some(stream), Some(token)) = (&self.stream, self.token.take()) {
            self.driver.control.remove(stream, token);
        }
    }

    fn take_stream(&mut self) -> Option<Stream> {
        self.unwatch();
        self.stream.take()
    }

    /// Ends the stream, unless it was taken out.
    fn end(&mut self, how: StreamEnd) {
        let stream = self.take_stream();
        match how {
            StreamEnd::Fin => drop(stream.inspect(Stream::close_write)),
            StreamEnd::Reset => drop(stream.map(Stream::reset)),
        }
    }

    fn set_timer(&mut self, at: Option<Instant>) {
        if self.timer.map(|(at, _)| at) == at {
            return;
        }
        if let Some((_, key)) = self.timer.take() {
            self.driver.cancel_timer(key);
        }
        self.timer = at.map(|at| {
            let target: Weak<dyn Timed> = self.owner.clone();
            (at, self.driver.set_timer(at, target))
        });
    }
}

impl Drop for Resources {
    fn drop(&mut self) {
        self.set_timer(None);
        self.unwatch();
    }
}

/// A side of the set-up that is under way.
pub(crate) struct MpaStartup<M> {
    machine: M,
    resources: Resources,
    /// The reason why the stream has ended, if the system refused a call.
    refusal: Option<io::Error>,
    /// When it is to be decided whether the connection is over shared memory.
    paired_until: Option<Instant>,
}

impl<M: std::fmt::Debug> std::fmt::Debug for MpaStartup<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MpaStartup")
            .field("machine", &self.machine)
            .field("stream", &self.resources.stream)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> MpaStartup<M> {
    /// Decides whether the connection is over shared memory, if that is open.
    fn pair(&mut self) -> io::Result<Paired> {
        let resources = &mut self.resources;
        self.paired_until = None;
        if !resources.stream.as_ref().is_some_and(Stream::is_unpaired) {
            return Ok(Paired::Decided);
        }
        let Some(stream) = resources.stream.take() else {
            return Ok(Paired::Decided);
        };
        let (stream, paired) = stream.pair(resources.driver.now());
        let is_undecided = stream.is_unpaired() && paired.is_ok();
        resources.stream = Some(stream);
        if let Ok(Paired::Not { until }) = &paired {
            self.paired_until = *until;
        }
        if is_undecided && resources.driver.control.set().reports_once() {
            self.await_token();
        }
        paired
    }

    /// Arms the stream for the next octets of a token. Those that have arrived stay in the socket, where an armed set would report them again
    /// and again: then time alone makes this side look.
    fn await_token(&mut self) {
        let resources = &self.resources;
        if resources
            .stream
            .as_ref()
            .is_some_and(|stream| stream.peek().is_ok())
        {
            let soon = resources.driver.now() + PART_OF_TOKEN;
            self.paired_until = Some(self.paired_until.map_or(soon, |until| until.min(soon)));
        } else {
            resources.await_octets();
        }
    }

    /// Reads the octets that the machine wants and that have arrived.
    fn read(&mut self) -> Option<M::Outcome> {
        let stream = self.resources.stream.as_ref()?;
        let machine = &mut self.machine;
        let now = self.resources.driver.now();
        if machine.expects_silence() {
            return match stream.peek() {
                Ok(0) => machine.handle_end(now, StreamEnd::Fin),
                Ok(_) => machine.handle_unwanted(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.resources.await_octets();
                    None
                }
                Err(error) => {
                    self.refusal = Some(error).filter(is_refusal);
                    machine.handle_end(now, StreamEnd::Reset)
                }
            };
        }
        if machine.wanted() == 0 {
            return None;
        }
        if let Err(error) = stream.flush() {
            self.refusal = Some(error).filter(is_refusal);
            return machine.handle_end(now, StreamEnd::Reset);
        }
        let mut octets = [0; MAX_FRAME];
        while machine.wanted() > 0 {
            let wanted = machine.wanted().min(octets.len());
            let outcome = match stream.read(&mut octets[..wanted]) {
                Ok(0) => machine.handle_end(now, StreamEnd::Fin),
                Ok(count) => machine.handle_bytes(now, &octets[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.resources.await_octets();
                    return None;
                }
                Err(error) => {
                    self.refusal = Some(error).filter(is_refusal);
                    machine.handle_end(now, StreamEnd::Reset)
                }
            };
            if outcome.is_some() {
                if !machine.expects_silence() {
                    return outcome;
                }
                return match stream.peek() {
                    // The peer did not wait, or has disconnected.
                    Ok(0) => machine.handle_end(now, StreamEnd::Fin),
                    Ok(_) => machine.handle_unwanted(),
                    // A stream that has broken is noticed later.
                    Err(_) => {
                        self.resources.await_octets();
                        outcome
                    }
                };
            }
        }
        None
    }

    /// Sets the next deadline: the machine's, or the end of a fault plan's hold on the awaited octets.
    fn set_timer(&mut self) {
        let stream = self.resources.stream.as_ref();
        let held = stream.filter(|_| self.machine.wanted() > 0);
        let held = held.and_then(Stream::wake_at);
        let deadlines = [self.machine.poll_timeout(), held, self.paired_until];
        self.resources
            .set_timer(deadlines.into_iter().flatten().min());
    }

    /// Returns true if the deadline that has passed is the set-up's. It is not set any more then.
    fn take_timer(&mut self, key: TimerKey) -> bool {
        let own = self.resources.timer.take_if(|(_, own)| *own == key);
        own.is_some()
    }

    /// Takes the stream out of the set-up and out of the domain.
    pub(super) fn take_stream(&mut self) -> Option<Stream> {
        self.resources.take_stream()
    }

    /// The error of the system that has ended the stream, if the system refused a call on it.
    pub(super) fn take_refusal(&mut self) -> Option<io::Error> {
        self.refusal.take()
    }

    /// Gives the set-up up.
    pub(super) fn end(&mut self, how: StreamEnd) {
        self.resources.end(how);
    }

    /// Gives the set-up up: the peer sees a reset.
    pub(super) fn reset(mut self) {
        self.end(StreamEnd::Reset);
    }
}

impl MpaStartup<Initiator> {
    /// A set-up whose transport has not connected.
    pub(super) fn new(
        machine: Initiator,
        driver: &Arc<Driver>,
        owner: Weak<dyn StartupOwner>,
    ) -> Self {
        let resources = Resources::new(driver, owner);
        Self {
            machine,
            resources,
            refusal: None,
            paired_until: None,
        }
    }

    /// The contents of the Request; its revision is 1 after a fall-back.
    pub(super) fn offer(&self) -> &Offer {
        self.machine.offer()
    }

    /// The transport has connected: sends the Request. The stream already has a place in the domain.
    ///
    /// # Errors
    ///
    /// The stream is broken. The set-up has to be [reset](Self::reset).
    pub(super) fn send_request(&mut self, stream: Stream, token: u64) -> io::Result<()> {
        let resources = &mut self.resources;
        resources.token = Some(token);
        resources.stream = Some(stream);
        if self.pair_and_request()? {
            // The report that the transport has connected may have announced octets as well: the token, which was read.
            self.resources.await_octets();
        }
        self.set_timer();
        Ok(())
    }

    /// Sends the Request as soon as it is known whether the connection is over shared memory. Returns true if the stream may be read.
    fn pair_and_request(&mut self) -> io::Result<bool> {
        let paired = self.pair()?;
        if matches!(paired, Paired::Not { .. }) {
            return Ok(false);
        }
        let resources = &self.resources;
        if let Some(stream) = &resources.stream {
            let now = resources.driver.now();
            if stream.is_shared() {
                self.machine.handle_shared();
            }
            if let Some(request) = self.machine.handle_connected(now) {
                stream.send_frame(&request)?;
            }
        }
        Ok(paired == Paired::Decided)
    }

    /// Like [`read`](Self::read), once the Request is sent.
    fn request_and_read(&mut self) -> Option<InitiatorOutcome> {
        match self.pair_and_request() {
            Ok(true) => self.read(),
            Ok(false) => None,
            Err(error) => {
                self.refusal = Some(error).filter(is_refusal);
                let now = self.resources.driver.now();
                // The machine has not begun if the Request was not sent.
                let _ = self.machine.handle_connected(now);
                self.machine.handle_end(now, StreamEnd::Reset)
            }
        }
    }

    /// The stream may be ready. After agreement or failure, it is no longer in the domain.
    pub(super) fn ready(&mut self) -> Option<InitiatorOutcome> {
        let outcome = self.request_and_read();
        self.act_on(outcome)
    }

    /// A deadline of the owner has passed.
    pub(super) fn expired(&mut self, key: TimerKey) -> Option<InitiatorOutcome> {
        if !self.take_timer(key) {
            return None;
        }
        let now = self.resources.driver.now();
        let outcome = self.machine.handle_timeout(now);
        let outcome = outcome.or_else(|| self.request_and_read());
        self.act_on(outcome)
    }

    /// Does to the stream what an outcome asks for.
    fn act_on(&mut self, outcome: Option<InitiatorOutcome>) -> Option<InitiatorOutcome> {
        match &outcome {
            None | Some(InitiatorOutcome::SendReady) => {}
            Some(InitiatorOutcome::Agreed(agreement)) => {
                self.resources.unwatch();
                if let Some(stream) = self.resources.stream.as_mut()
                    && agreement.agreed.markers.sent
                {
                    stream.send_markers();
                }
            }
            Some(InitiatorOutcome::FallBack) => {
                let span = self.resources.stream.as_ref().map(Stream::span);
                tracing::debug!(target: targets::CONNECT, parent: span.and_then(Span::id), "closed on revision 2; once more with revision 1");
                self.resources.end(StreamEnd::Fin);
            }
            Some(InitiatorOutcome::Failed(failure)) => self.fail(failure),
        }
        self.set_timer();
        outcome
    }

    fn fail(&mut self, failure: &InitiatorFailure) {
        let Some(stream) = &self.resources.stream else {
            return;
        };
        if let InitiatorFailure::Malformed(error) = failure {
            tracing::warn!(target: targets::CONNECT, parent: stream.span(), %error, "the peer does not speak iWARP");
        }
        if let InitiatorFailure::Unacceptable { terminate, .. } = failure {
            // The peer may have disconnected by itself.
            let _ = stream.send_frame(terminate);
        }
        self.resources.end(failure.ending());
    }

    /// The application completes the connection. Returns the stream, on which the ready-to-receive message has to be sent; `None` when that
    /// was done before.
    pub(super) fn complete(&mut self) -> Option<Stream> {
        let due = self.machine.complete();
        self.set_timer();
        if due { self.take_stream() } else { None }
    }
}

/// A stream on which a whole Request has arrived, and which no thread watches.
#[derive(Debug)]
pub struct ConnectionRequest {
    machine: Responder,
    stream: Stream,
}

impl ConnectionRequest {
    /// The local address of the connection.
    pub fn local(&self) -> SocketAddr {
        self.stream.local()
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.stream.peer()
    }

    /// The span of the connection, as the parent of events about it.
    pub fn span(&self) -> &Span {
        self.stream.span()
    }

    /// The read limits that the Request offers, seen from this side and cut to the adapter's.
    pub fn offered(&self) -> ReadLimits {
        self.machine.offered().unwrap_or_default()
    }

    /// The application's Private Data in the Request.
    pub fn private_data(&self) -> &[u8] {
        let request = self.machine.request();
        request.map_or(&[], |request| &request.private_data)
    }

    /// Watches for the peer's end on behalf of `owner`.
    ///
    /// # Errors
    ///
    /// Those of the system, when it cannot watch one more stream.
    pub(super) fn watch(
        self,
        driver: &Arc<Driver>,
        owner: Weak<dyn StartupOwner>,
    ) -> io::Result<MpaStartup<Responder>> {
        let mut resources = Resources::new(driver, owner);
        resources.watch(self.stream)?;
        let machine = self.machine;
        Ok(MpaStartup {
            machine,
            resources,
            refusal: None,
            paired_until: None,
        })
    }
}

impl MpaStartup<Responder> {
    /// Makes a set-up on a stream that was just accepted. `owner` may be called before this returns.
    ///
    /// # Errors
    ///
    /// Those of the system, when it cannot watch one more stream.
    pub(super) fn accepted(
        stream: Stream,
        config: ResponderConfig,
        driver: &Arc<Driver>,
        owner: Weak<dyn StartupOwner>,
    ) -> io::Result<Self> {
        let mut resources = Resources::new(driver, owner);
        resources.watch(stream)?;
        let machine = Responder::new(resources.driver.now(), config);
        let mut startup = Self {
            machine,
            resources,
            refusal: None,
            paired_until: None,
        };
        startup.set_timer();
        Ok(startup)
    }

    /// The Request that waits for an answer.
    pub(super) fn request(&self) -> Option<&Frame> {
        self.machine.request()
    }

    /// Reads, once it is known whether the connection is over shared memory.
    fn pair_and_read(&mut self) -> Option<ResponderOutcome> {
        match self.pair() {
            Ok(Paired::Decided) => self.read(),
            Ok(Paired::Not { .. } | Paired::MayWrite) => None,
            Err(error) => {
                self.refusal = Some(error).filter(is_refusal);
                let now = self.resources.driver.now();
                self.machine.handle_end(now, StreamEnd::Reset)
            }
        }
    }

    /// The stream may be ready.
    pub(super) fn ready(&mut self) -> Option<ResponderOutcome> {
        let outcome = self.pair_and_read();
        self.act_on(outcome)
    }

    /// A deadline of the owner has passed.
    pub(super) fn expired(&mut self, key: TimerKey) -> Option<ResponderOutcome> {
        if !self.take_timer(key) {
            return None;
        }
        let now = self.resources.driver.now();
        let outcome = self.machine.handle_timeout(now);
        let outcome = outcome.or_else(|| self.pair_and_read());
        self.act_on(outcome)
    }

    /// The ready-to-receive message has arrived. Called by the present owner of the stream.
    pub(super) fn handle_ready(&mut self) -> Option<ResponderOutcome> {
        let outcome = self.machine.handle_ready();
        self.act_on(outcome)
    }

    /// The connection has ended instead. Called by the present owner of the stream.
    pub(super) fn handle_end(&mut self, end: StreamEnd) -> Option<ResponderOutcome> {
        let now = self.resources.driver.now();
        let outcome = self.machine.handle_end(now, end);
        self.act_on(outcome)
    }

    fn act_on(&mut self, outcome: Option<ResponderOutcome>) -> Option<ResponderOutcome> {
        if let Some(ResponderOutcome::Failed(failure)) = outcome {
            if let Some(stream) = &self.resources.stream {
                tracing::debug!(target: targets::CONNECT, parent: stream.span(), %failure, "no connection");
            }
            self.resources.end(StreamEnd::Reset);
        }
        self.set_timer();
        outcome
    }

    /// Accepts: sends the Reply. Returns the stream, the agreed parameters, and the result of sending the Reply; `None` when there is no
    /// Request to answer.
    pub(super) fn accept(
        &mut self,
        mut with: Acceptance,
    ) -> Option<(Stream, Agreed, io::Result<()>)> {
        let stream = self.resources.stream.as_ref();
        if stream.is_some_and(Stream::is_shared) {
            with.crc &= !self.machine.spares_crc();
        }
        let accepted = self.machine.accept(self.resources.driver.now(), with)?;
        // Out of the domain first: octets from here on belong to the connection.
        let mut stream = self.resources.take_stream()?;
        if accepted.agreed.markers.sent {
            stream.send_markers();
        }
        let sent = stream.send_frame(&accepted.reply);
        self.set_timer();
        Some((stream, accepted.agreed, sent))
    }

    /// Rejects: sends the Reply and closes. If there is no Request to answer, the peer sees a reset (MPA-002).
    pub(super) fn reject(mut self, private_data: &[u8]) {
        let reply = self.machine.reject(private_data);
        if let (Some(reply), Some(stream)) = (&reply, &self.resources.stream) {
            // The peer may have disconnected by itself.
            let _ = stream.send_frame(reply);
        }
        let how = reply.map_or(StreamEnd::Reset, |_| StreamEnd::Fin);
        self.resources.end(how);
    }

    /// Takes a whole Request from its owner; `None` when there is none.
    pub(super) fn into_request(mut self) -> Option<ConnectionRequest> {
        self.machine.request()?;
        let stream = self.resources.take_stream()?;
        let machine = self.machine;
        Some(ConnectionRequest { machine, stream })
    }
}
