//! `nd perf serve`: the side that serves the tests.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use nd_base::admission::{Admission, Bounds};
use nd_base::errors::{Failure, Result};
use nd_base::output;
use nd_base::provider::{fingerprint, own_fingerprint};
use nd_base::session::{self, Deadline, Session};
use nd_base::stderr::{self, Remarks};
use netdirect::{Listener, RemoteAddress, Status};

use super::affinity::{self, ProcessRole};
use super::args::ServeArgs;
use super::bare::BareStream;
use super::budget::Budget;
use super::clients::{Clients, QUEUING, QueuedClient};
use super::control::{Control, not_understood};
use super::lane::{Lane, Memory, gone, silence};
use super::limit::{Others, SilenceLimit};
use super::link::{
    Choices, LIMIT, announced_timeout, bare_listener, bare_port, check_choices, choose_congestion,
    expected, new_key, setup,
};
use super::many;
use super::messages::{ControlAnswer, ControlRequest, Key, QuicOffer, RowOffer, TurnConnection};
use super::quic::QuicListener;
use super::server::Server;
use super::spec::{Op, Receives, Spec};
use super::wire::Wire;

/// The time that a client may take between two requests where this side has no limit.
const THINKING: Duration = Duration::from_secs(60);

/// How many clients wait while another one is served.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// The other clients, where there can be any.
fn others(args: &ServeArgs) -> Option<Others> {
    (!args.once).then_some(&WAITING)
}

/// Serves one client after the other, or only one.
pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    check_choices(args.url.as_deref(), args.side.fault.as_deref())?;
    let address = match &args.listen {
        Some(listen) => session::resolve(listen)?[0],
        None => session::loopback(),
    };
    let doing = || format!("listen on {address}");
    let listener = TcpListener::bind(address).map_err(|error| Failure::socket(doing(), &error))?;
    let address = listener
        .local_addr()
        .map_err(|error| Failure::socket(doing(), &error))?;
    output::line(format_args!("listening on {address}"))?;
    let limits = (QUEUING, args.silence().unwrap_or(THINKING));
    let clients = Clients::new(listener, Bounds::default(), limits, &WAITING)?;
    if args.once {
        // The client is the process that has started this one. It never comes if it was killed. Errors before it comes are printed here;
        // later errors are sent to the client, which prints them.
        let client = clients.next(Some(LIMIT)).map_err(|failure| {
            if failure.is_ours() {
                failure
            } else {
                failure.already_reported()
            }
        })?;
        stderr::silence();
        return serve(client, args)
            .map(drop)
            .map_err(Failure::already_reported);
    }
    if affinity::is_on_one_processor() {
        affinity::note_yielding();
    }
    let remarks = Remarks::default();
    loop {
        let client = clients.next(None)?;
        let peer = client.peer;
        match serve(client, args) {
            Ok(rows) => output::line(format_args!("{peer}: {rows} rows"))?,
            Err(failure) => remarks.remark(format_args!("{peer}: {failure}")),
        }
    }
}

/// Serves a client until it has no more rows. Returns how many there were.
fn serve(client: QueuedClient, args: &ServeArgs) -> Result<u64> {
    let QueuedClient {
        mut control,
        request,
        ..
    } = client;
    let served = serve_rows(&mut control, request, args);
    served.map_err(|failure| {
        let failure = match args.silence() {
            Some(limit) => of_silence(failure, limit),
            None => failure,
        };
        control.give_up(&failure);
        failure
    })
}

/// Adds the advice to a failure that the limit of this side has caused, because the client cannot know the limit.
fn of_silence(failure: Failure, limit: Duration) -> Failure {
    let what = failure.what();
    if what != silence(limit).what() {
        return failure;
    }
    Failure::new(
        what,
        "the server allows no more: let it serve with a longer --silence",
    )
}

fn serve_rows(control: &mut Control, mut request: ControlRequest, args: &ServeArgs) -> Result<u64> {
    control.yields_to(others(args));
    let mut rows = 0;
    let mut pin = None;
    loop {
        match request {
            ControlRequest::Certificate(certificate) => {
                pin = Some(fingerprint(&certificate).map_err(|_| not_understood())?);
                control.answer(own_fingerprint()?)?;
            }
            ControlRequest::Row { spec, timeout_ms } => {
                let announced = announced_timeout(timeout_ms);
                let timeout = match args.silence() {
                    Some(limit) => announced.min(limit),
                    None => {
                        control.allow(announced)?;
                        announced
                    }
                };
                let choices = Choices {
                    url: args.url.as_deref(),
                    fault: args.side.fault.as_deref(),
                    pin: pin.as_deref(),
                    timeout: SilenceLimit::from(timeout).among(others(args)),
                };
                row(control, spec, args, choices)?;
                rows += 1;
            }
            _ => return Err(not_understood()),
        }
        request = match control.heed()? {
            Some(request) => request,
            None => return Ok(rows),
        };
    }
}

/// Serves a row, from its announcement to its end.
fn row(control: &mut Control, spec: Spec, args: &ServeArgs, choices: Choices<'_>) -> Result<()> {
    tracing::info!(target: crate::log::TARGET, "row {spec:?}");
    args.check(&spec)?;
    spec.check()?;
    let mut budget = Budget::new(args.memory());
    affinity::place(&spec, ProcessRole::Server);
    let local = SocketAddr::new(control.local()?.ip(), 0);
    if spec.is_of_connections() {
        return many::serve(control, spec, args.side.receives, choices, (local, budget));
    }
    let receives = args.side.receives;
    budget.take_connection(&spec)?;
    let expected = ExpectedConnection::new(&spec, choices, receives, local)?;
    let key = new_key()?;
    let bare = bare_listener(local, &spec)?;
    let port = bare_port(&bare)?;
    let bare = expect_wires(bare, key, Bounds::default())?;
    control.answer(expected.offer(key, Some(port)))?;
    let mut row = Row {
        tested: expected.join(control, &spec, key)?,
        plain: None,
        wires: Vec::new(),
        bare,
        budget,
        spec,
        receives,
        choices,
        key,
        local,
    };
    while let Some(request) = control.heed()? {
        if request == ControlRequest::End {
            return control.answer(());
        }
        row.follow(control, request)?;
    }
    Err(gone())
}

/// A connection over RDMA for which this side listens, with an adapter that no other connection uses.
struct ExpectedConnection {
    session: Session,
    listener: Arc<dyn Listener>,
    port: u16,
    memory: Memory,
    /// The ring that the other side reads or writes.
    ring: RemoteAddress,
    receives: Receives,
    timeout: SilenceLimit,
}

impl ExpectedConnection {
    fn new(
        spec: &Spec,
        choices: Choices<'_>,
        receives: Receives,
        local: SocketAddr,
    ) -> Result<Self> {
        let session = setup(spec, choices)?.at(local)?;
        spec.check_limits(session.info(), receives)?;
        let memory = Memory::new(&session, spec, spec.server_rings())?;
        let (listener, address) = session.listen(local)?;
        let ring = match spec.op {
            Op::Read => memory.source.as_ref(),
            Op::Send | Op::Write => memory.sink.as_ref(),
        };
        Ok(Self {
            ring: ring.map(|ring| ring.region.remote()).unwrap_or_default(),
            session,
            listener,
            port: address.port(),
            memory,
            receives,
            timeout: choices.timeout,
        })
    }

    fn offer(&self, key: Key, tcp: Option<u16>) -> RowOffer {
        RowOffer {
            rdma: self.port,
            tcp,
            key,
            ring: self.ring.to_bytes(),
            receives: self.receives,
        }
    }

    /// Takes the connection that has the key, when the other side says that it comes.
    fn join(self, control: &mut Control, spec: &Spec, key: Key) -> Result<Connected> {
        if control.heed()? != Some(ControlRequest::Join) {
            return Err(not_understood());
        }
        let Self {
            session,
            listener,
            memory,
            receives,
            timeout,
            ..
        } = self;
        let (request, ring) = expected(&session, listener.as_ref(), (key, timeout))?;
        let receives = (receives, spec.server_receives());
        let connector = Arc::clone(&request.connector);
        let lane = Lane::new(&session, spec, connector, receives, timeout)?;
        let mut server = Server::new(lane, memory, *spec, ring);
        server.prepare()?;
        match server.lane.endpoint.accept(request.limits, &[])? {
            Status::SUCCESS => {}
            status => {
                return Err(server
                    .lane
                    .endpoint
                    .failure("accept the connection", status));
            }
        }
        control.answer(())?;
        Ok(Connected {
            server,
            _listener: listener,
            _session: session,
        })
    }
}

/// A connection over RDMA.
struct Connected {
    server: Server,
    _listener: Arc<dyn Listener>,
    _session: Session,
}

/// A row that is being served.
struct Row<'a> {
    tested: Connected,
    /// The connection with which it is compared, if the other side has asked for one.
    plain: Option<Connected>,
    wires: Vec<Wire>,
    bare: Admission<TcpStream>,
    /// The memory that the row may still have.
    budget: Budget,
    spec: Spec,
    /// Where this side takes its Receives from.
    receives: Receives,
    choices: Choices<'a>,
    key: Key,
    local: SocketAddr,
}

impl Row<'_> {
    /// Carries out a request.
    fn follow(&mut self, control: &mut Control, request: ControlRequest) -> Result<()> {
        match request {
            ControlRequest::Turn { count, over } => self.turn(control, count, over),
            ControlRequest::Wire(name) => {
                let wire = self.accept_wire(&name)?;
                control.answer(wire.congestion())?;
                self.wires.push(wire);
                Ok(())
            }
            ControlRequest::Quic => {
                self.budget.take_wire(&self.spec)?;
                let listener = QuicListener::new(self.local, self.key, &self.spec)?;
                control.answer(QuicOffer {
                    port: listener.port()?,
                    certificate: listener.certificate().to_vec(),
                })?;
                let stream =
                    BareStream::Quic(Box::new(listener.accept(self.choices.timeout.now())?));
                control.answer(())?;
                let wire = Wire::new(stream, &self.spec, self.choices.timeout)?;
                self.wires.push(wire);
                Ok(())
            }
            ControlRequest::Plain => {
                let spec = self.spec.plain();
                self.join_second(control, &spec, spec.receives)
            }
            ControlRequest::OverTcp => {
                self.join_second(control, &self.spec.over_tcp(), self.receives)
            }
            ControlRequest::Verify => {
                let mut connected = std::iter::once(&mut self.tested).chain(&mut self.plain);
                connected.try_for_each(|connected| connected.server.verify())?;
                self.wires.iter().try_for_each(Wire::verify)?;
                control.answer(())
            }
            _ => Err(not_understood()),
        }
    }

    /// Takes the connection with which the row is compared.
    fn join_second(
        &mut self,
        control: &mut Control,
        spec: &Spec,
        receives: Receives,
    ) -> Result<()> {
        if self.plain.is_some() {
            return Err(not_understood());
        }
        self.budget.take_connection(spec)?;
        let expected = ExpectedConnection::new(spec, self.choices, receives, self.local)?;
        control.answer(expected.offer(self.key, None))?;
        self.plain = Some(expected.join(control, spec, self.key)?);
        Ok(())
    }

    fn turn(&mut self, control: &mut Control, count: u64, over: TurnConnection) -> Result<()> {
        tracing::debug!(target: crate::log::TARGET, "turn {count} {over:?}");
        match over {
            TurnConnection::Tested => {
                control.say(&ControlAnswer::<()>::Go)?;
                self.tested.server.turn(count)?;
            }
            TurnConnection::Plain => {
                let plain = self.plain.as_mut().ok_or_else(not_understood)?;
                control.say(&ControlAnswer::<()>::Go)?;
                plain.server.turn(count)?;
            }
            TurnConnection::Wire { index, write } => {
                let wire = self.wires.get_mut(index).ok_or_else(not_understood)?;
                control.say(&ControlAnswer::<()>::Go)?;
                wire.serve(count, write.max(1))?;
            }
            TurnConnection::Alone | TurnConnection::Bare => return Err(not_understood()),
        }
        control.say(&ControlAnswer::Done(()))
    }

    /// Takes the next bare connection, with the congestion control of that name if this process may choose it.
    fn accept_wire(&mut self, name: &str) -> Result<Wire> {
        self.budget.take_wire(&self.spec)?;
        let deadline = Deadline::after(LIMIT);
        let socket = loop {
            let left = deadline.left();
            if left.is_zero() {
                return Err(silence(LIMIT));
            }
            self.choices.timeout.yields(LIMIT - left)?;
            if let Some(socket) = self.bare.next(Some(self.choices.timeout.step(left)))? {
                break socket;
            }
        };
        // If this process may not choose it, the other side's choice still holds for what the other side sends.
        choose_congestion(&socket, name);
        let timeout = self.choices.timeout;
        let stream = BareStream::tcp(socket, &self.spec, timeout.now())?;
        Wire::new(stream, &self.spec, timeout)
    }
}

/// Accepts the bare connections that have the key.
fn expect_wires(listener: TcpListener, key: Key, bounds: Bounds) -> Result<Admission<TcpStream>> {
    Admission::of_tcp(listener, bounds, move |socket, pending| {
        let mut said = Key::default();
        let mut filled = 0;
        while filled < said.len() {
            let explain =
                |error| Failure::socket("read the key of a socket to compare with", &error);
            let left = pending.deadline.left();
            if left.is_zero() {
                return Err(silence(pending.deadline.limit()));
            }
            socket.set_read_timeout(Some(left)).map_err(explain)?;
            match (&socket).read(&mut said[filled..]) {
                Ok(0) => return Err(not_understood()),
                Ok(n) => filled += n,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock) => {}
                Err(error) => return Err(explain(error)),
            }
        }
        if said != key {
            return Err(not_understood());
        }
        pending.admit(socket);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    /// A limit only to end a hang.
    const HANG: Duration = Duration::from_secs(60);

    #[test]
    fn bare_connections_come_in_beside_idle_ones() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let bounds = Bounds {
            first_message: HANG,
            ..Bounds::default()
        };
        let wires = expect_wires(listener, [7; 8], bounds).expect("a thread");
        let connect = || TcpStream::connect(address).expect("connected");
        let _idle: Vec<_> = (0..130).map(|_| connect()).collect();
        let mut wrong = connect();
        wrong.write_all(&[8; 8]).expect("sent");
        let mut right = connect();
        right.write_all(&[7; 8]).expect("sent");
        let accepted = wires.next(Some(HANG)).expect("open").expect("let in");
        assert_eq!(
            accepted.peer_addr().expect("connected"),
            right.local_addr().expect("connected")
        );
    }
}
