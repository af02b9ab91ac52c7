//! An application, and its tests with fault plans: clients write lines into the journal of a server, and each line is there once,
//! whatever happens to the connections.
//!
//! ```sh
//! cargo run -p netdirect-async --example journal -- serve                              # prints its address
//! cargo run -p netdirect-async --example journal -- write 127.0.0.1:PORT 7 one two three
//! SOFTND_FAULTS='when 2nd Send sent: reset' cargo run -p netdirect-async --example journal -- write …
//! ```
//!
//! A client that loses its connection does not know whether its last line has arrived. So it connects again and repeats each line
//! that has no answer. Lines have numbers, by which the server recognizes a line that it has already.
//!
//! The tests at the end of this file break connections everywhere. A fault plan says where; a simulated network makes each run the
//! same, and its virtual clock makes time limits cost nothing.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::try_join;
use netdirect::{Buffer, MrFlags, OpFlags, QueuePairOptions, Result, Status};
use netdirect_async::{AsyncAdapter, AsyncListener, ConnectionRequest, ListenerOptions, within};

/// The longest line, in octets.
pub const LINE: u32 = 80;
/// The length of a line's number, in octets.
const NUMBER: u32 = 8;
/// How long a client waits for a connection, and for the answer to a line.
pub const LIMIT: Duration = Duration::from_secs(1);
/// How many connections a client makes at most.
pub const CONNECTIONS: u32 = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let adapter = softnd::open("softnd+tcp://127.0.0.1", softnd::Options::default())?;
    let adapter = AsyncAdapter::new(&adapter)?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => {
            let listener = adapter.listen("127.0.0.1:0".parse()?, ListenerOptions::default())?;
            println!("serving at {}", listener.local_address()?);
            Journal::default().serve(&adapter, &listener).await?;
        }
        ["write", address, client, ref lines @ ..] => {
            let (to, client) = (address.parse()?, client.parse()?);
            let connections = write(&adapter, to, client, lines, tokio::time::sleep).await?;
            println!("{} lines, {connections} connections", lines.len());
        }
        _ => return Err("usage: journal serve | journal write ADDRESS CLIENT LINE…".into()),
    }
    Ok(())
}

/// Writes the lines of a client, and connects again if a connection is lost. Returns the number of connections. `sleep` is the
/// timer of the program's runtime.
pub async fn write<S: Future>(
    adapter: &AsyncAdapter,
    to: SocketAddr,
    client: u64,
    lines: &[&str],
    sleep: impl Fn(Duration) -> S,
) -> Result<u32> {
    let (mut connections, mut answered) = (1, 0);
    loop {
        match write_once(adapter, to, client, lines, &mut answered, &sleep).await {
            Err(error) if connections < CONNECTIONS && may_go_away(error.status()) => {}
            ended => return ended.map(|()| connections),
        }
        connections += 1;
    }
}

/// Returns true if it makes sense to connect again after an error. A lack of memory, or a mistake of this program, would stay.
fn may_go_away(status: Status) -> bool {
    let of_connections = [
        Status::CONNECTION_REFUSED,
        Status::NETWORK_UNREACHABLE,
        Status::HOST_UNREACHABLE,
        Status::IO_TIMEOUT,   // ND2's: the peer is silent
        Status::TIMEOUT,      // this program's, of `within`
        Status::CANCELED,     // of a request: the connection has ended
        Status::REMOTE_ERROR, // of a request: the peer had an error
    ];
    of_connections.contains(&status)
}

/// Writes with one connection the lines that have no answer yet.
async fn write_once<S: Future>(
    adapter: &AsyncAdapter,
    to: SocketAddr,
    client: u64,
    lines: &[&str],
    answered: &mut usize,
    sleep: impl Fn(Duration) -> S,
) -> Result<()> {
    let options = QueuePairOptions::default().inline_data_size(NUMBER + LINE);
    let endpoint = adapter.endpoint(options)?;
    let connect = adapter.connect(endpoint.queue_pair(), to);
    let connect = connect.private_data(client.to_be_bytes());
    let connection = within(sleep(LIMIT), connect).await?;
    while let Some(line) = lines.get(*answered) {
        let number = (*answered as u64).to_be_bytes();
        let answer = endpoint.receive([]); // a message of no length
        let sent = endpoint.send_inline(&[&number, line.as_bytes()], OpFlags::empty());
        within(sleep(LIMIT), try_join(sent, answer)).await?;
        *answered += 1;
    }
    // All lines are there: how the connection ends does not matter any more.
    let _ = within(sleep(LIMIT), connection.disconnect()).await;
    Ok(())
}

/// A number at the beginning of octets from the peer.
fn number(octets: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*octets.first_chunk()?))
}

/// The server's journal: lines by client.
#[derive(Debug, Default)]
pub struct Journal(Mutex<BTreeMap<u64, Vec<String>>>);

impl Journal {
    /// Serves all clients who connect. Ends only when the listener fails.
    pub async fn serve(&self, adapter: &AsyncAdapter, listener: &AsyncListener) -> Result<()> {
        let clients = listener.incoming();
        let all = clients.try_for_each_concurrent(None, async |request| {
            if let Err(error) = self.serve_one(adapter, request).await {
                eprintln!("a client is lost: {error}");
            }
            Ok(())
        });
        all.await
    }

    async fn serve_one(&self, adapter: &AsyncAdapter, request: ConnectionRequest) -> Result<()> {
        let Some(client) = number(request.private_data()) else {
            return request.reject(b"who is it?");
        };
        let endpoint = adapter.endpoint(QueuePairOptions::default())?;
        let buffer = Buffer::new((NUMBER + LINE) as usize);
        let memory = adapter
            .register(&buffer, MrFlags::ALLOW_LOCAL_WRITE)
            .await?;
        let receive = || endpoint.receive([memory.part(..)]);
        let mut next = receive(); // before the client can send
        let connection = request.accept(endpoint.queue_pair()).await?;

        loop {
            let received = match next.await {
                Err(error) if error.status() == Status::CANCELED => break, // the client has gone
                received => received?,
            };
            let mut message = memory.to_vec();
            message.truncate(received.bytes_transferred as usize);
            next = receive(); // the message was copied out
            let Some((at, line)) = message.split_first_chunk() else {
                break; // not a client of this server's
            };
            self.add(client, u64::from_be_bytes(*at), line);
            endpoint.send([], OpFlags::empty()).await?;
        }
        connection.disconnect().await
    }

    /// Adds a line, unless it is there already.
    fn add(&self, client: u64, at: u64, line: &[u8]) {
        let mut journal = self.lines();
        let lines = journal.entry(client).or_default();
        if at == lines.len() as u64 {
            lines.push(String::from_utf8_lossy(line).into_owned());
        }
    }

    /// The lines by client.
    pub fn lines(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tests: the application above, between two adapters of a simulated network that follow fault plans.
#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::future::{Either, select};
    use netdirect::{Call, Fault};
    use softnd::{Options, simulation::Simulation};

    use super::*;

    const CLIENT: u64 = 7;
    const LINES: [&str; 3] = ["one", "two", "three"];

    /// The result of a run.
    struct Outcome {
        /// The number of connections, or why the client gave up.
        connections: Result<u32>,
        journal: Vec<String>,
        /// How many faults have happened.
        faults: u64,
    }

    /// A run in which both sides follow a plan.
    fn run(plan_of_client: &str, plan_of_server: &str) -> Outcome {
        run_with(plan_of_client, plan_of_server, None)
    }

    fn run_with(plan_of_client: &str, plan_of_server: &str, fault: Option<Fault>) -> Outcome {
        let network = Simulation::new(1);
        let open = |host, plan: &str| {
            let plan = plan.parse().expect("a plan");
            let options = Options::default().faults(plan).expect("known names");
            let adapter = network.open([10, 0, 0, host], options).expect("an adapter");
            AsyncAdapter::new(&adapter).expect("an overlapped file")
        };
        let (client, server) = (open(1, plan_of_client), open(2, plan_of_server));
        let address = "10.0.0.2:7174".parse().expect("an address");
        let listener = server.listen(address, ListenerOptions::default());
        let (listener, journal) = (listener.expect("a free port"), Journal::default());
        let count = |adapter: &AsyncAdapter| {
            let extensions = adapter.adapter().extensions().expect("softnd has them");
            extensions.counters().total("faults")
        };
        if let Some(fault) = fault {
            let extensions = client.adapter().extensions().expect("softnd has them");
            extensions.inject(fault).expect("softnd can");
        }

        let after = |time| network.sleep(time);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let connections = runtime.expect("a runtime").block_on(async {
            let writing = async {
                let ended = write(&client, address, CLIENT, &LINES, after).await;
                // Messages in flight still arrive.
                after(10 * LIMIT).await.expect("this thread's network");
                ended
            };
            match select(pin!(writing), pin!(journal.serve(&server, &listener))).await {
                Either::Left((connections, _)) => connections,
                Either::Right((ended, _)) => panic!("the server has ended: {ended:?}"),
            }
        });
        Outcome {
            connections,
            journal: journal.lines().remove(&CLIENT).unwrap_or_default(),
            faults: count(&client) + count(&server),
        }
    }

    #[test]
    fn without_faults_one_connection_is_enough() {
        let outcome = run("", "");
        assert_eq!(outcome.connections, Ok(1));
        assert_eq!(outcome.journal, LINES);
    }

    /// Checks a run in which each fault costs the client its connection.
    #[track_caller]
    fn no_line_is_lost_or_doubled(outcome: &Outcome, plan: &str) {
        assert_eq!(outcome.journal, LINES, "{plan}");
        let connections = 1 + u32::try_from(outcome.faults).expect("few faults");
        assert_eq!(outcome.connections, Ok(connections), "{plan}");
    }

    #[test]
    fn a_lost_connection_loses_and_doubles_no_line() {
        for event in ["sent", "received"] {
            for action in ["reset", "close", "hold", "flip bit 9 of CRC"] {
                let plan = format!("when 2nd Send {event} over all connections: {action}");
                let outcome = run(&plan, "");
                assert_eq!(outcome.faults, 1, "of the client: {plan}");
                no_line_is_lost_or_doubled(&outcome, &plan);
                let outcome = run("", &plan);
                assert_eq!(outcome.faults, 1, "of the server: {plan}");
                no_line_is_lost_or_doubled(&outcome, &plan);
            }
        }
    }

    #[test]
    fn a_connection_may_be_lost_at_any_octet() {
        for event in ["sent", "received"] {
            let mut faults = 0;
            for octet in 0..60 {
                // Where a message is shorter, nothing happens.
                let plan = format!(
                    "when 2nd Send {event} over all connections: reset after octet {octet}"
                );
                let outcome = run(&plan, "");
                no_line_is_lost_or_doubled(&outcome, &plan);
                faults += outcome.faults;
            }
            assert!(faults > 20, "{faults} faults");
        }
    }

    #[test]
    fn a_connection_that_is_not_made_is_tried_again() {
        let plans = [
            ("when 1st connect: refuse", ""),
            ("when 1st connect: hold", ""),
            ("", "when 1st accept: refuse"),
            ("", "when 1st accept: hold"),
            ("when 1st MPA Request sent over all connections: reset", ""),
            ("", "when 1st MPA Reply sent over all connections: hold"),
        ];
        for (of_client, of_server) in plans {
            let outcome = run(of_client, of_server);
            let plan = format!("{of_client}{of_server}");
            assert_eq!(outcome.faults, 1, "{plan}");
            no_line_is_lost_or_doubled(&outcome, &plan);
        }
    }

    #[test]
    fn the_client_gives_up_in_the_end() {
        let outcome = run("when each connect: refuse", "");
        let refused = Status::CONNECTION_REFUSED;
        assert_eq!(
            outcome.connections.map_err(|error| error.status()),
            Err(refused)
        );
        assert_eq!(outcome.faults, CONNECTIONS.into());
        assert!(outcome.journal.is_empty());
    }

    #[test]
    fn a_delay_costs_no_connection() {
        let outcome = run(
            "when each completion: hold for 5 ms",
            "when each Send sent: hold for 50 ms",
        );
        assert_eq!(outcome.connections, Ok(1));
        assert_eq!(outcome.journal, LINES);
        assert!(outcome.faults >= 6);
    }

    #[test]
    fn a_call_that_fails_is_an_error_or_costs_nothing() {
        let (call, status) = (Call::Any, Status::INSUFFICIENT_RESOURCES);
        let mut errors = 0;
        for nth in 1.. {
            let outcome = run_with("", "", Some(Fault::Call { call, nth, status }));
            match outcome.connections {
                Err(error) if outcome.faults > 0 => {
                    assert_eq!(error.status(), status, "call {nth}");
                    assert_eq!(outcome.journal, LINES[..outcome.journal.len()]);
                    errors += 1;
                }
                // An endpoint does without its notifications for a while.
                ended => {
                    assert_eq!(ended, Ok(1), "call {nth}");
                    assert_eq!(outcome.journal, LINES);
                }
            }
            if outcome.faults == 0 {
                break; // the client makes fewer calls
            }
        }
        // A completion queue, a queue pair and a connector cannot be created.
        assert_eq!(errors, 3);
    }
}
