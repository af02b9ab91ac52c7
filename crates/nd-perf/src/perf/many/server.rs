//! The side that serves the test: it accepts.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use nd_base::errors::Result;
use nd_base::session::{Endpoint, Region};
use netdirect::{Listener, RemoteAddress, Sge};

use super::vitals::{Growth, Stopwatch};
use super::{Crowd, DEPTHS, LONGEST_IDLE, RINGS, Site, Sites, bare, succeed, traffic};
use crate::perf::budget::Budget;
use crate::perf::control::{Control, not_understood};
use crate::perf::lane::{Lane, Memory, gone, silence};
use crate::perf::limit::SilenceLimit;
use crate::perf::link::{Choices, LIMIT, bare_listener, bare_port, expected, new_key, setup};
use crate::perf::messages::{ControlAnswer, ControlRequest, CrowdOffer, Key, TurnConnection};
use crate::perf::server::Server;
use crate::perf::spec::{Receives, Spec, Test};

/// After this time without traffic a connection through shared memory has given the memory of its rings back.
const UNTIL_QUIET: Duration = Duration::from_secs(7);

/// Serves a row about many connections.
pub(in crate::perf) fn serve(
    control: &mut Control,
    spec: Spec,
    receives: Receives,
    choices: Choices<'_>,
    (local, mut budget): (SocketAddr, Budget),
) -> Result<()> {
    let depths = (DEPTHS.initiator, DEPTHS.receives);
    budget.take_crowd(&spec, RINGS, spec.connections, depths)?;
    if spec.test == Test::Scale {
        budget.take_crowd(&spec, RINGS, 1, depths)?;
    }
    budget.take_traffic(&spec)?;
    let sites = Sites::new(&spec, choices, receives, |setup| setup.at(local))?;
    let traffic = traffic::memory(&sites.many.crowd.session, &spec)?;
    let (many, port) = ListeningSite::new(sites.many, local)?;
    let alone = sites
        .alone
        .map(|alone| ListeningSite::new(alone, local))
        .transpose()?;
    let key = new_key()?;
    let socket = bare_listener(local, &spec)?;
    bare::limit_accepts(&socket)?;
    let bare_port = bare_port(&socket)?;
    let (alone, port_of_one) = alone.unzip();
    control.answer(CrowdOffer {
        many: port,
        alone: port_of_one,
        bare: bare_port,
        key,
        traffic: traffic.as_ref().map(|memory| memory.remote().to_bytes()),
        receives,
    })?;
    let mut row = Row {
        receives,
        choices,
        local,
        budget,
        timeout: choices.timeout,
        many,
        alone,
        member: None,
        one: None,
        bare: socket,
        key,
        spec,
        _traffic: traffic,
    };
    while let Some(request) = control.heed()? {
        if request == ControlRequest::End {
            return control.answer(());
        }
        row.follow(control, &request)?;
    }
    Err(gone())
}

/// An adapter on which connections come in.
struct ListeningSite {
    crowd: Crowd,
    listener: Arc<dyn Listener>,
    sink: [Sge; 1],
    /// The memory for messages, until one of the connections takes it.
    memory: Option<Memory>,
}

impl ListeningSite {
    /// The site, and its port.
    fn new(site: Site, local: SocketAddr) -> Result<(Self, u16)> {
        let Site { crowd, memory } = site;
        let (listener, address) = crowd.session.listen(local)?;
        let site = Self {
            crowd,
            listener,
            sink: memory.sink()?.slot(0),
            memory: Some(memory),
        };
        Ok((site, address.port()))
    }

    /// Takes the next connection that has the key. With `sink` its own receive queue is full.
    fn accept(&self, key: (Key, SilenceLimit), sink: Option<[Sge; 1]>) -> Result<Endpoint> {
        let (request, _) = expected(&self.crowd.session, self.listener.as_ref(), key)?;
        let endpoint = self.crowd.endpoint(request.connector)?;
        if let Some(sink) = sink {
            self.crowd.fill(&endpoint, sink)?;
        }
        let status = endpoint.accept(request.limits, &[])?;
        succeed("accept the connection", status)?;
        Ok(endpoint)
    }

    /// Gives the memory to a connection, on which messages go back and forth from now on.
    fn serve_on(
        &mut self,
        endpoint: Endpoint,
        spec: Spec,
        timeout: SilenceLimit,
    ) -> Result<Server> {
        let memory = self.memory.take().ok_or_else(not_understood)?;
        let lane = Lane::over(endpoint, &spec, timeout);
        Ok(Server::new(lane, memory, spec, RemoteAddress::default()))
    }
}

/// A row that is being served.
struct Row<'a> {
    /// Where this side takes its Receives from.
    receives: Receives,
    choices: Choices<'a>,
    local: SocketAddr,
    /// The memory that the row may still have.
    budget: Budget,
    /// How long nothing may complete.
    timeout: SilenceLimit,
    many: ListeningSite,
    /// The adapter of the single connection, or of set-ups over TCP.
    alone: Option<ListeningSite>,
    /// The one of the many connections on which messages go back and forth.
    member: Option<Server>,
    /// The single connection.
    one: Option<Server>,
    /// Where bare connections come in.
    bare: TcpListener,
    key: Key,
    spec: Spec,
    /// The memory with which the idle connections move octets.
    _traffic: Option<Region>,
}

impl Row<'_> {
    /// Carries out a request.
    fn follow(&mut self, control: &mut Control, request: &ControlRequest) -> Result<()> {
        match *request {
            ControlRequest::Alone => {
                let site = self.alone.as_mut().ok_or_else(not_understood)?;
                let endpoint = site.accept((self.key, self.timeout), Some(site.sink))?;
                self.one = Some(site.serve_on(endpoint, self.spec, self.timeout)?);
                control.answer(())
            }
            ControlRequest::OverTcp => {
                let port = self.listen_over_tcp()?;
                control.answer(port)
            }
            ControlRequest::Crowd => {
                let memory = self.gather(control)?;
                control.answer(memory)
            }
            ControlRequest::Idle(milliseconds) => idle(control, milliseconds),
            ControlRequest::Turn { count, over } => {
                tracing::debug!(target: crate::log::TARGET, "turn {count} {over:?}");
                control.say(&ControlAnswer::<()>::Go)?;
                self.turn(count, over)?;
                control.say(&ControlAnswer::Done(()))
            }
            ControlRequest::Verify => {
                let mut servers = self.member.iter_mut().chain(&mut self.one);
                servers.try_for_each(Server::verify)?;
                control.answer(())
            }
            _ => Err(not_understood()),
        }
    }

    /// Listens with a second adapter, over TCP also within one machine. Returns the port.
    fn listen_over_tcp(&mut self) -> Result<u16> {
        if self.spec.test != Test::Setup || self.alone.is_some() {
            return Err(not_understood());
        }
        let spec = self.spec.over_tcp();
        let depths = (DEPTHS.initiator, DEPTHS.receives);
        self.budget.take_crowd(&spec, RINGS, 1, depths)?;
        let setup = setup(&spec, self.choices)?;
        let site = Site::new(&spec, &setup, self.receives, 1, |setup| {
            setup.at(self.local)
        })?;
        let (site, port) = ListeningSite::new(site, self.local)?;
        self.alone = Some(site);
        Ok(port)
    }

    /// Takes the connections that will be idle. Returns the memory that each has cost.
    fn gather(&mut self, control: &mut Control) -> Result<Option<f64>> {
        let growth = Growth::start();
        for _ in 0..self.spec.connections {
            let key = (self.key, self.timeout);
            let endpoint = self.many.accept(key, Some(self.many.sink))?;
            self.many.crowd.members.push(endpoint);
        }
        if self.spec.traffic.is_some() {
            traffic::see(control)?;
        }
        let mut members = self.many.crowd.members.iter();
        if members.any(|member| member.connector.transport() == Some("shm")) {
            control.rest(UNTIL_QUIET)?;
        }
        let memory = growth.per(self.spec.connections);
        if self.spec.test == Test::Scale {
            let endpoint = self.many.crowd.take_middle()?;
            self.member = Some(self.many.serve_on(endpoint, self.spec, self.timeout)?);
        }
        Ok(memory)
    }

    fn turn(&mut self, count: u64, over: TurnConnection) -> Result<()> {
        match (self.spec.test, over) {
            (Test::Setup, TurnConnection::Tested) => self.come_and_go(&self.many, count),
            (Test::Setup, TurnConnection::Plain) => {
                let site = self.alone.as_ref().ok_or_else(not_understood)?;
                self.come_and_go(site, count)
            }
            (Test::Setup, TurnConnection::Bare) => {
                (0..count).try_for_each(|_| bare::see_come_and_go(&self.bare, self.key))
            }
            (_, TurnConnection::Tested) => {
                self.member.as_mut().ok_or_else(not_understood)?.turn(count)
            }
            (_, TurnConnection::Alone) => self.one.as_mut().ok_or_else(not_understood)?.turn(count),
            _ => Err(not_understood()),
        }
    }

    /// Sees this many connections come and go.
    fn come_and_go(&self, site: &ListeningSite, count: u64) -> Result<()> {
        for _ in 0..count {
            let endpoint = site.accept((self.key, self.timeout), None)?;
            let ended = endpoint.wait_for_end(LIMIT);
            succeed(
                "see the connection end",
                ended.ok_or_else(|| silence(LIMIT))?,
            )?;
            succeed("disconnect", endpoint.disconnect()?)?;
        }
        Ok(())
    }
}

/// Does nothing for a while, and reports how much processor time that took.
fn idle(control: &mut Control, milliseconds: u64) -> Result<()> {
    let time = Duration::from_millis(milliseconds);
    let time = time.clamp(Duration::from_millis(1), LONGEST_IDLE);
    tracing::debug!(target: crate::log::TARGET, "idle for {time:?}");
    control.say(&ControlAnswer::<()>::Go)?;
    let watch = Stopwatch::start();
    control.rest(time)?;
    control.say(&ControlAnswer::Done(watch.share()))
}
