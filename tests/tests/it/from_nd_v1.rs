//! The page of the book for users of ND v1, about Connect: the tests provoke each row of its table of statuses, in a simulated network, and
//! then follow the advice of the row.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use netdirect::{
    Adapter, Affinity, CompletionQueue, Connector, Fault, Listener, Overlapped, OverlappedFile,
    QueuePair, QueuePairOptions, Result, Started, Status, ext,
};
use softnd::Options;
use softnd::simulation::Simulation;

const PAGE: &str = include_str!("../../../docs/use/from-nd-v1.md");

const HOST: [u8; 4] = [10, 0, 0, 1];
const PEER: [u8; 4] = [10, 0, 0, 2];

/// The cells of the table below the heading "Connect" that say where a status of v1's Connect appears now, and what to do then.
fn row(status_of_v1: &str) -> (&'static str, &'static str) {
    let (_, section) = PAGE.split_once("\n### Connect\n").expect("the section");
    let (table, _) = section.split_once("\n### ").expect("the next section");
    let begins = format!("| {status_of_v1} |");
    let mut rows = table.lines().filter(|line| line.starts_with(&begins));
    let row = rows.next().unwrap_or_else(|| panic!("no row {begins}"));
    assert_eq!(rows.next(), None, "one row {begins}");
    let cells: Vec<&str> = row.split(" | ").collect();
    let [_, now, client] = cells[..] else {
        panic!("three cells: {row}");
    };
    (now, client)
}

/// The objects that keep a connection up.
type Connection = (Arc<dyn Connector>, Arc<dyn QueuePair>);

/// A program that connects, and a listener at another host to which it may connect.
struct World {
    network: Simulation,
    adapter: Arc<dyn Adapter>,
    file: Arc<dyn OverlappedFile>,
    cq: Arc<dyn CompletionQueue>,
    peer: Arc<dyn Adapter>,
    peer_file: Arc<dyn OverlappedFile>,
    listener: Arc<dyn Listener>,
    there: SocketAddr,
    /// The peer's connections, which need their connectors and queue pairs for as long as the test runs.
    accepted: RefCell<Vec<Connection>>,
}

impl World {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        let network = Simulation::new(1);
        let adapter = network.open(HOST, options).unwrap();
        let file = adapter.create_overlapped_file().unwrap();
        let cq = adapter.create_completion_queue(&file, 16, Affinity::default());
        let peer = network.open(PEER, Options::default()).unwrap();
        let peer_file = peer.create_overlapped_file().unwrap();
        let listener = peer.create_listener(&peer_file).unwrap();
        listener.bind((PEER, 0).into()).unwrap();
        listener.listen(0).unwrap();
        let there = listener.get_local_address().unwrap();
        let cq = cq.unwrap();
        Self {
            network,
            adapter,
            file,
            cq,
            peer,
            peer_file,
            listener,
            there,
            accepted: RefCell::default(),
        }
    }

    fn connector(&self) -> Arc<dyn Connector> {
        self.adapter.create_connector(&self.file).unwrap()
    }

    fn queue_pair(&self) -> Arc<dyn QueuePair> {
        let options = QueuePairOptions::default();
        self.adapter
            .create_queue_pair(&self.cq, &self.cq, options)
            .unwrap()
    }

    /// Connects, with a peer that accepts: what "may try again" and "can be used at once" promise.
    fn connects(&self, connector: &Arc<dyn Connector>, qp: &Arc<dyn QueuePair>) {
        let connect = begin(connector, qp, self.there);
        self.accept_next();
        assert_eq!(connect.wait(), Status::SUCCESS);
        let complete = Overlapped::new();
        ext::wait(connector.complete_connect(&complete), &complete).unwrap();
    }

    /// The peer takes the next request and accepts it. The Accept ends later.
    fn accept_next(&self) {
        let answers = self.request();
        let cq = self
            .peer
            .create_completion_queue(&self.peer_file, 16, Affinity::default());
        let (cq, options) = (cq.unwrap(), QueuePairOptions::default());
        let qp = self.peer.create_queue_pair(&cq, &cq, options).unwrap();
        let accept = Overlapped::new();
        let _ = answers.accept(&qp, 0, 0, &[], &accept).unwrap();
        self.accepted.borrow_mut().push((answers, qp));
    }

    /// The next request that the peer gets.
    fn request(&self) -> Arc<dyn Connector> {
        let connector = self.peer.create_connector(&self.peer_file).unwrap();
        ext::get_connection_request(&self.listener, &connector).unwrap();
        connector
    }
}

/// Returns the status with which a started Connect ends.
fn end(
    connector: &Arc<dyn Connector>,
    qp: &Arc<dyn QueuePair>,
    to: impl Into<SocketAddr>,
) -> Status {
    begin(connector, qp, to.into()).wait()
}

/// A Connect that is pending.
fn begin(connector: &Arc<dyn Connector>, qp: &Arc<dyn QueuePair>, to: SocketAddr) -> Overlapped {
    let connect = Overlapped::new();
    let connecting = connector.connect(qp, to, 0, 0, &[], &connect);
    assert_eq!(connecting, Ok(Started::Pending));
    connect
}

fn status(result: Result<impl std::fmt::Debug>) -> Status {
    result.expect_err("the call fails").status()
}

#[test]
fn every_row_of_the_table_has_a_test() {
    let (_, section) = PAGE.split_once("\n### Connect\n").expect("the section");
    let (table, _) = section.split_once("\n### ").expect("the next section");
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let first: Vec<&str> = rows
        .skip(1)
        .map(|row| row[2..].split(" |").next().expect("a cell"))
        .collect();
    // ND_ACCESS_VIOLATION is for memory that a slice cannot have. The others have the tests below.
    let tested = [
        "`ND_PENDING`",
        "`ND_SUCCESS`",
        "`ND_BUFFER_OVERFLOW`",
        "`ND_CONNECTION_ACTIVE`",
        "`ND_CONNECTION_REFUSED`",
        "`ND_HOST_UNREACHABLE`",
        "`ND_TIMEOUT`",
        "`ND_CANCELED`",
        "`ND_INVALID_ADDRESS`",
        "a LocalPort that is in use",
        "`ND_DEVICE_REMOVED`",
        "`ND_ACCESS_VIOLATION`",
    ];
    assert_eq!(first, tested);
}

#[test]
fn success_comes_at_the_end_and_sending_waits_for_complete_connect() {
    let (pending, _) = row("`ND_PENDING`");
    assert!(pending.contains("the call: `Started::Pending`"));
    let (now, client) = row("`ND_SUCCESS`");
    assert!(now.contains("`connect`, at the end") && client.contains("`complete_connect`"));
    let world = World::new();
    let (connector, qp) = (world.connector(), world.queue_pair());
    let connect = begin(&connector, &qp, world.there);
    world.accept_next();
    assert_eq!(connect.wait(), Status::SUCCESS);
    connector.get_read_limits().unwrap();
    connector.get_private_data().unwrap();
    let nothing = netdirect::OpFlags::empty();
    assert_eq!(status(qp.send(1, &[], nothing)), Status::CONNECTION_INVALID);
    let complete = Overlapped::new();
    ext::wait(connector.complete_connect(&complete), &complete).unwrap();
    qp.send(1, &[], nothing).unwrap();
}

#[test]
fn too_much_private_data_fails_the_call_and_leaves_the_connector_as_it_was() {
    let (now, client) = row("`ND_BUFFER_OVERFLOW`");
    assert!(now.contains("the call: `ND_INVALID_BUFFER_SIZE`"));
    assert!(client.contains("can be used at once"));
    let world = World::new();
    let (connector, qp) = (world.connector(), world.queue_pair());
    let most = world.adapter.query().unwrap().max_caller_data;
    let long = vec![0; usize::try_from(most).unwrap() + 1];
    let call = connector.connect(&qp, world.there, 0, 0, &long, &Overlapped::new());
    assert_eq!(status(call), Status::INVALID_BUFFER_SIZE);
    world.connects(&connector, &qp);
}

#[test]
fn a_queue_pair_in_use_fails_the_call_and_leaves_the_connector_as_it_was() {
    let (now, client) = row("`ND_CONNECTION_ACTIVE`");
    assert!(now.contains("the call") && now.contains("`ND_INVALID_DEVICE_STATE`"));
    assert!(client.contains("another queue pair") && client.contains("as it was"));
    let world = World::new();
    let (first, second, qp) = (world.connector(), world.connector(), world.queue_pair());
    world.connects(&first, &qp);
    let call = second.connect(&qp, world.there, 0, 0, &[], &Overlapped::new());
    assert_eq!(status(call), Status::CONNECTION_ACTIVE);
    let disconnect = Overlapped::new();
    let _ = first.disconnect(&disconnect).unwrap();
    let call = second.connect(&qp, world.there, 0, 0, &[], &Overlapped::new());
    assert_eq!(status(call), Status::INVALID_DEVICE_STATE);
    world.connects(&second, &world.queue_pair());
}

#[test]
fn a_refusal_comes_at_the_end_with_private_data_and_allows_another_try() {
    let (now, client) = row("`ND_CONNECTION_REFUSED`");
    assert!(now.contains("at the end"));
    assert!(client.contains("try again with the same connector"));
    assert!(client.contains("`get_private_data`"));
    let world = World::new();
    let (connector, qp) = (world.connector(), world.queue_pair());
    // No listener is there.
    assert_eq!(end(&connector, &qp, (PEER, 7)), Status::CONNECTION_REFUSED);
    // The peer rejects.
    let connect = begin(&connector, &qp, world.there);
    world.request().reject(b"come back later").unwrap();
    assert_eq!(connect.wait(), Status::CONNECTION_REFUSED);
    assert_eq!(connector.get_private_data().unwrap(), b"come back later");
    world.connects(&connector, &qp);
}

#[test]
fn an_unreachable_peer_shows_at_the_end_and_allows_another_try() {
    let (now, client) = row("`ND_HOST_UNREACHABLE`");
    assert!(now.contains("the call or at the end: `ND_NETWORK_UNREACHABLE` if no route"));
    assert!(client.contains("try again with the same connector"));
    let world = World::new();
    let (connector, qp) = (world.connector(), world.queue_pair());
    // No route leads from one address family to the other.
    let far: SocketAddr = "[fd00::2]:7".parse().unwrap();
    let connect = Overlapped::new();
    let unreachable = ext::wait(connector.connect(&qp, far, 0, 0, &[], &connect), &connect);
    assert_eq!(status(unreachable), Status::NETWORK_UNREACHABLE);
    world.connects(&connector, &qp);
}

#[test]
fn silence_is_an_io_timeout_at_the_end_and_allows_another_try() {
    let (now, client) = row("`ND_TIMEOUT`");
    assert!(now.contains("at the end: `ND_IO_TIMEOUT`"));
    assert!(client.contains("try again with the same connector"));
    assert!(client.contains("counts as an error"));
    let plan = "when 1st connect: hold".parse().unwrap();
    let world = World::with(Options::default().faults(plan).unwrap());
    let (connector, qp) = (world.connector(), world.queue_pair());
    assert_eq!(end(&connector, &qp, world.there), Status::IO_TIMEOUT);
    assert!(Status::TIMEOUT.is_success() && !Status::IO_TIMEOUT.is_success());
    world.connects(&connector, &qp);
}

#[test]
fn a_cancelled_attempt_ends_its_connector() {
    let (now, client) = row("`ND_CANCELED`");
    assert!(now.contains("cancelled") && now.contains("queue pair was released"));
    assert!(client.contains("new connector"));
    let world = World::new();
    let (connector, qp) = (world.connector(), world.queue_pair());
    let connect = begin(&connector, &qp, world.there);
    connector.cancel_overlapped_requests().unwrap();
    assert_eq!(connect.wait(), Status::CANCELED);
    let released = world.connector();
    let connect = begin(&released, &qp, world.there);
    drop(qp);
    assert_eq!(connect.wait(), Status::CANCELED);
    let fresh = World::new();
    fresh.connects(&fresh.connector(), &fresh.queue_pair());
}

#[test]
fn addresses_that_are_not_valid_show_in_three_places() {
    let (now, _) = row("`ND_INVALID_ADDRESS`");
    assert!(now.contains("the call: `STATUS_BAD_NETWORK_NAME` for the unspecified address"));
    assert!(now.contains("`ND_INVALID_ADDRESS` for port 0"));
    assert!(now.contains("`bind`: `ND_INVALID_ADDRESS` for a local address"));
    let world = World::new();
    let (connector, qp) = (world.connector(), world.queue_pair());
    let call = |to: SocketAddr| connector.connect(&qp, to, 0, 0, &[], &Overlapped::new());
    let unspecified = call(([0, 0, 0, 0], 7).into());
    assert_eq!(status(unspecified), Status::BAD_NETWORK_NAME);
    assert_eq!(status(call((PEER, 0).into())), Status::INVALID_ADDRESS);
    let bound = world.connector().bind((PEER, 0).into());
    assert_eq!(status(bound), Status::INVALID_ADDRESS);
    world.connects(&connector, &qp);
}

#[test]
fn a_local_port_in_use_shows_at_bind() {
    let (now, client) = row("a LocalPort that is in use");
    assert!(now.contains("`bind`: `ND_SHARING_VIOLATION`"));
    assert!(client.contains("only after a failed attempt"));
    assert!(client.contains("`STATUS_ADDRESS_ALREADY_ASSOCIATED`"));
    let world = World::new();
    let (first, second, qp) = (world.connector(), world.connector(), world.queue_pair());
    first.bind((HOST, 50_000).into()).unwrap();
    let again = first.bind((HOST, 50_001).into());
    assert_eq!(status(again), Status::ADDRESS_ALREADY_ASSOCIATED);
    let taken = second.bind((HOST, 50_000).into());
    assert_eq!(status(taken), Status::SHARING_VIOLATION);
    second.bind((HOST, 0).into()).unwrap();
    assert_eq!(end(&second, &qp, (PEER, 7)), Status::CONNECTION_REFUSED);
    second.bind((HOST, 50_002).into()).unwrap();
    world.connects(&second, &qp);
    assert_eq!(second.get_local_address(), Ok((HOST, 50_002).into()));
}

#[test]
fn a_removed_device_ends_what_is_pending_and_fails_every_call() {
    let (now, client) = row("`ND_DEVICE_REMOVED`");
    assert!(now.contains("every call") && now.contains("the end of every request"));
    assert!(client.contains("opens an adapter again"));
    let world = World::new();
    let (connector, qp) = (world.connector(), world.queue_pair());
    let connect = begin(&connector, &qp, world.there);
    let extensions = world.adapter.extensions().unwrap();
    extensions.inject(Fault::RemoveDevice).unwrap();
    assert_eq!(connect.wait(), Status::DEVICE_REMOVED);
    let call = world.adapter.create_connector(&world.file);
    assert_eq!(status(call), Status::DEVICE_REMOVED);
    world.network.open(HOST, Options::default()).unwrap();
}

#[test]
fn a_failed_connect_leaves_the_queue_pair_and_its_receives() {
    assert!(PAGE.contains("A failed Connect leaves the queue pair as it was"));
    let world = World::new();
    let (connector, qp) = (world.connector(), world.queue_pair());
    qp.receive(7, &[]).unwrap();
    assert_eq!(end(&connector, &qp, (PEER, 7)), Status::CONNECTION_REFUSED);
    let mut results = [netdirect::CompletionResult::default()];
    assert_eq!(world.cq.get_results(&mut results), 0);
    world.connects(&connector, &qp);
    assert_eq!(world.cq.get_results(&mut results), 0);
}
