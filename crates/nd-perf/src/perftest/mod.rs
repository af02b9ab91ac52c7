//! `nd perftest`: the exchange of perftest's six programs, over any provider.
//!
//! Two connections to one port. On the first (`control`) the sides exchange records (`record`) and results; on the
//! second (`data`) the test runs (`turns`). Like perftest, this does not check the data that it moves. `nd perf` does.

mod control;
mod data;
mod plan;
mod record;
mod turns;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use conform_report::table::{Align, Table};
use nd_base::admission::{Admission, Bounds, PendingPeer};
use nd_base::errors::{Failure, Result};
use nd_base::mailbox::Mailbox;
use nd_base::output;
use nd_base::peer;
use nd_base::session::{self, Request, Session, Setup};
use nd_base::stderr;
use nd_base::units;
use netdirect::{Listener, ReadLimits, Status};

use control::{ControlConnection, Role};
use data::{ALIKE, Data, Measurement};
pub use plan::PerftestArgs;
use plan::TestPlan;
use record::{Place, Speed};

use crate::device::Program;

/// How long the other side may take to end the connections after the test.
const PARTING: Duration = Duration::from_secs(5);

/// The pause between two attempts to make the second connection, for which the server listens anew.
const AGAIN: Duration = Duration::from_millis(50);

/// Runs the side that the arguments name.
///
/// # Errors
///
/// What kept the two sides from measuring.
pub fn run(args: &PerftestArgs) -> Result<()> {
    let plan = TestPlan::new(args);
    let setup = args.peer.setup()?;
    let done = match &args.host {
        Some(host) => client(args, plan, &setup, &peer::resolve(host, args.port)?),
        None => server(args, plan, &setup),
    };
    let recorded = setup.finish();
    done?;
    recorded
}

fn client(
    args: &PerftestArgs,
    plan: TestPlan,
    setup: &Setup,
    addresses: &[SocketAddr],
) -> Result<()> {
    let mut last = peer::nowhere();
    for address in addresses {
        let (session, local) = setup.towards(*address)?;
        plan.check(session.info())?;
        let mailbox = Mailbox::new(&session, session.connector()?)?;
        match peer::connect(&mailbox.endpoint, local, *address, ReadLimits::default()) {
            Ok(()) => {
                output::line(format_args!(
                    "{}, one queue pair, with {address}",
                    plan.title()
                ))?;
                let data = |control: &mut ControlConnection| {
                    let cycle = control.greet()?;
                    control.places(Place::default())?;
                    second(&session, plan, cycle, args.peer.timeout, local, *address)
                };
                return exchange(
                    ControlConnection::new(mailbox, Role::Client),
                    Role::Client,
                    plan,
                    data,
                );
            }
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

/// Makes the second connection. The server begins to listen for it when it has heard that this side is ready.
fn second(
    session: &Session,
    plan: TestPlan,
    cycle: u32,
    limit: Duration,
    local: SocketAddr,
    server: SocketAddr,
) -> Result<Data> {
    let deadline = Instant::now() + limit;
    let info = session.info();
    let limits = ReadLimits {
        inbound: plan.reads(info.max_inbound_read_limit),
        outbound: plan.reads(info.max_outbound_read_limit),
    };
    loop {
        let data = Data::new(session, session.connector()?, plan, cycle, limit)?;
        match peer::connect(&data.endpoint, local, server, limits) {
            Ok(()) => return Ok(data),
            Err(failure)
                if failure.nd_status() == Some(Status::CONNECTION_REFUSED)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(AGAIN);
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn server(args: &PerftestArgs, plan: TestPlan, setup: &Setup) -> Result<()> {
    let host = args.listen.as_deref().unwrap_or_default();
    let addresses = peer::resolve(host, args.port)?;
    let (session, listener, address) = peer::listen(setup, &addresses)?;
    let session = Arc::new(session);
    plan.check(session.info())?;
    output::line(setup.listening(address))?;
    let limit = args.peer.timeout;
    let Client {
        control,
        cycle,
        peer,
    } = first_client(&session, &listener, limit)?;
    output::line(format_args!(
        "{}, one queue pair, with {peer}",
        plan.title()
    ))?;
    let data = |control: &mut ControlConnection| {
        control.places(Place::default())?;
        accept_second(&session, listener, plan, cycle, limit, peer.ip())
    };
    exchange(control, Role::Server, plan, data)
}

/// A client that speaks this version of perftest's exchange.
struct Client {
    control: ControlConnection,
    /// Octets of the memory for small messages.
    cycle: u32,
    peer: SocketAddr,
}

/// Waits for a client.
fn first_client(
    session: &Arc<Session>,
    listener: &Arc<dyn Listener>,
    limit: Duration,
) -> Result<Client> {
    let greeter = Arc::clone(session);
    let greet = move |request: Request, pending: &PendingPeer<Client>| {
        let mut mailbox = Mailbox::new(&greeter, Arc::clone(&request.connector))?;
        pending.accept(&mut mailbox.endpoint, request.limits, &[])?;
        let mut control = ControlConnection::new(mailbox, Role::Server);
        let cycle = control.greet()?;
        control.mailbox.endpoint.set_deadline(None);
        pending.admit(Client {
            control,
            cycle,
            peer: pending.peer,
        });
        Ok(())
    };
    Admission::of_requests(session, listener, Bounds::within(limit), greet)?.first()
}

/// Takes the second connection, which has to come from the address of the first one. Then the listener ends: a client that wants another
/// queue pair is refused.
fn accept_second(
    session: &Arc<Session>,
    listener: Arc<dyn Listener>,
    plan: TestPlan,
    cycle: u32,
    limit: Duration,
    client: IpAddr,
) -> Result<Data> {
    /// Each candidate uses the memory of the test.
    const CANDIDATES: usize = 4;
    let greeter = Arc::clone(session);
    let greet = move |request: Request, pending: &PendingPeer<Data>| {
        if pending.peer.ip() != client {
            return Err(Failure::peer(
                "the server serves another client at the moment",
                "try again when the other test has ended",
            ));
        }
        let connector = Arc::clone(&request.connector);
        let mut data = Data::new(&greeter, connector, plan, cycle, limit)?;
        pending.accept(&mut data.endpoint, request.limits, &[])?;
        data.endpoint.set_deadline(None);
        pending.admit(data);
        Ok(())
    };
    let bounds = Bounds {
        most: CANDIDATES,
        ..Bounds::within(limit)
    };
    let admission = Admission::of_requests(session, &listener, bounds, greet)?;
    let second = admission.next(Some(limit))?;
    second.ok_or_else(|| session::silence("take the second connection", limit))
}

/// Everything after the first connection is established. `connect` makes the second one.
fn exchange(
    mut control: ControlConnection,
    role: Role,
    plan: TestPlan,
    connect: impl FnOnce(&mut ControlConnection) -> Result<Data>,
) -> Result<()> {
    let mut data = connect(&mut control)?;
    control.places(Place::default())?;
    let mine = Place {
        out_reads: plan.reads(u32::MAX).max(1),
        queue_pair: 1,
        at: data.place(),
    };
    let remote = control.places(mine)?.at;
    for _ in 2..before(plan.test) {
        control.places(mine)?;
    }
    // The other side cannot begin before it has heard this last mark.
    let begun = Instant::now();
    control.places(mine)?;
    let measured = data.run(role, remote);
    let measured = measured.map_err(|failure| explain(failure, &mut control, &data))?;
    let peer_speed = finish(
        &mut control,
        role,
        plan,
        mine,
        &mut data,
        measured.as_ref(),
        begun,
    )?;
    show(plan, measured.as_ref(), peer_speed)?;
    part(role, &data, &control);
    Ok(())
}

/// Why the test did not finish. The error of this side may only be a consequence of the other side's.
fn explain(failure: Failure, control: &mut ControlConnection, data: &Data) -> Failure {
    if failure.is_ours() || !control.mailbox.has_word() {
        return failure;
    }
    let what = format!(
        "the other side has ended its test after {} of this side",
        data.so_far()
    );
    Failure::peer(what, ALIKE)
}

/// Returns how often both sides exchange the places of their memory before the test begins. Each time but the first it is a mark: Receives
/// are posted, what is known is printed.
fn before(test: Program) -> u32 {
    match test {
        Program::WriteBw | Program::ReadBw => 3,
        Program::SendBw | Program::SendLat | Program::WriteLat | Program::ReadLat => 4,
    }
}

/// The exchange after the test: the speed of Reads and Writes, as the client has measured it.
fn finish(
    control: &mut ControlConnection,
    role: Role,
    plan: TestPlan,
    mine: Place,
    data: &mut Data,
    measured: Option<&Measurement>,
    begun: Instant,
) -> Result<Option<Speed>> {
    if plan.test == Program::WriteLat {
        return Ok(None); // both know that all has come
    }
    let over = if role == Role::Server {
        let mut patience = ServerWait::new(plan, data.limit(), measured.is_none());
        control.places_after(mine, || {
            data.check_over()?;
            patience.check(data.endpoint.has_ended())
        })
    } else {
        control.places(mine).map(drop)
    };
    // If the exchange fails now, the other side has another test or other options.
    let unlike = |failure: Failure| {
        if failure.is_ours() {
            failure
        } else {
            failure.advise(ALIKE)
        }
    };
    over.map_err(unlike)?;
    let lasted = begun.elapsed();
    if !matches!(plan.test, Program::WriteBw | Program::ReadBw) {
        return Ok(None);
    }
    let speed = measured.map(|measured| speed(plan, measured.time));
    let peer_speed = control.speeds(speed.unwrap_or_default()).map_err(unlike)?;
    control.places(mine).map_err(unlike)?;
    if role == Role::Client {
        return Ok(None);
    }
    // Checks the figures that the client has sent.
    plan.check_speed(&peer_speed, lasted)?;
    Ok(Some(peer_speed))
}

/// How long a server waits for the end of a test.
struct ServerWait {
    limit: Duration,
    /// When the last sign of the client came.
    begun: Instant,
    /// A test of this many messages cannot take longer than this.
    longest: Duration,
    /// Whether the server takes no part in the test, and so sees no progress.
    blind: bool,
    warned: bool,
}

impl ServerWait {
    fn new(plan: TestPlan, limit: Duration, blind: bool) -> Self {
        let test = if blind {
            plan.longest()
        } else {
            Duration::ZERO
        };
        Self {
            limit,
            begun: Instant::now(),
            longest: limit.saturating_add(test),
            blind,
            warned: false,
        }
    }

    /// Checks the time. `gone` says whether the connection of the test has ended.
    fn check(&mut self, gone: bool) -> Result<()> {
        if gone {
            return Err(Failure::peer(
                "the connection of the test has ended before the test",
                ALIKE,
            ));
        }
        let waited = self.begun.elapsed();
        if waited > self.longest {
            let what = format!(
                "the other side has not ended its test in {}",
                units::time(waited)
            );
            return Err(Failure::peer(what, ALIKE));
        }
        if self.blind && !self.warned && waited > self.limit {
            self.warned = true;
            stderr::note(format_args!(
                "the test goes on after {}; with -D or --run_infinitely at the other side it has no end",
                units::time(self.limit)
            ));
        }
        Ok(())
    }
}

/// The server ends both connections, the second one first; the client waits for that.
fn part(role: Role, data: &Data, control: &ControlConnection) {
    for endpoint in [&data.endpoint, &control.mailbox.endpoint] {
        if role == Role::Client {
            endpoint.wait_for_end(PARTING);
        }
        // The test is done, so an error of the disconnect makes no difference.
        drop(endpoint.disconnect_within(PARTING));
    }
}

/// The speed in perftest's units.
fn speed(plan: TestPlan, time: Duration) -> Speed {
    let seconds = time.as_secs_f64().max(1e-9);
    let messages = f64::from(plan.count);
    Speed {
        size: plan.size.into(),
        count: plan.count.into(),
        peak: 0.0, // as perftest's with -N
        average: messages * f64::from(plan.size) / seconds / f64::from(1 << 20),
        rate: messages / seconds / 1e6,
    }
}

/// Prints how much was moved and how fast, under perftest's column heads where these mean the same.
fn show(plan: TestPlan, measured: Option<&Measurement>, peer_speed: Option<Speed>) -> Result<()> {
    let moved = units::bytes(u64::from(plan.size) * u64::from(plan.count));
    let ways = if matches!(plan.test, Program::SendLat | Program::WriteLat) {
        " each way"
    } else {
        ""
    };
    let latencies = measured.and_then(|measured| measured.latencies.as_ref());
    let speed = measured
        .map(|measured| speed(plan, measured.time))
        .or(peer_speed);
    let table = match (latencies, speed) {
        (Some(latencies), _) => Some(latency_table(plan, latencies)),
        (None, Some(speed)) => Some(bandwidth_table(speed)),
        (None, None) => None,
    };
    match table {
        Some(table) => {
            output::afterword(table.to_string().trim_end_matches('\n'))?;
            output::afterword(format_args!("moved {moved}{ways}"))
        }
        // A Read leaves no trace in the memory, and the client does not report it.
        None => {
            output::afterword("the client has ended the test; what it has read only it can say")
        }
    }
}

fn bandwidth_table(speed: Speed) -> Table {
    let heads = [
        "#bytes",
        "#iterations",
        "BW average[MiB/sec]",
        "MsgRate[Mpps]",
    ];
    let mut table = Table::new(heads.map(|head| (head, Align::Right)));
    table.row([
        speed.size.to_string(),
        speed.count.to_string(),
        format!("{:.2}", speed.average),
        format!("{:.6}", speed.rate),
    ]);
    table
}

fn latency_table(plan: TestPlan, latencies: &hdrhistogram::Histogram<u64>) -> Table {
    let heads = [
        "#bytes",
        "#iterations",
        "t_min[usec]",
        "t_max[usec]",
        "t_typical[usec]",
        "t_avg[usec]",
        "t_stdev[usec]",
        "99% percentile[usec]",
        "99.9% percentile[usec]",
    ];
    let mut table = Table::new(heads.map(|head| (head, Align::Right)));
    let micros = |nanos: f64| format!("{:.2}", nanos / 1e3);
    let at = |quantile: f64| micros(latencies.value_at_quantile(quantile) as f64);
    table.row([
        plan.size.to_string(),
        plan.count.to_string(),
        micros(latencies.min() as f64),
        micros(latencies.max() as f64),
        at(0.5),
        micros(latencies.mean()),
        micros(latencies.stdev()),
        at(0.99),
        at(0.999),
    ]);
    table
}
