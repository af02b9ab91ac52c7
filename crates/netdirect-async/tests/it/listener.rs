//! Listeners: each peer goes to one of the tasks that wait, whichever future is dropped.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::common::{self, Counter, Network, Side, block_on, everywhere, poll, polled, simulated};
use futures_util::future::{Either, join, join_all, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use netdirect::{Call, Fault, Status};
use netdirect_async::{
    AsyncAdapter, AsyncListener, ConnectError, Connection, ListenerOptions, NextRequest,
};
use softnd::Options;

/// A client that connects with its name, and the status with which that ends.
async fn client(adapter: &AsyncAdapter, to: SocketAddr, name: &str) -> Result<Connection, Status> {
    let side = Side::new(adapter);
    let connect = adapter.connect(&side.qp, to).private_data(name);
    connect.await.map_err(|error: ConnectError| error.status())
}

/// The name of the next peer, which is refused.
async fn next_name(listener: &AsyncListener) -> String {
    let request = listener.get_connection_request().await.unwrap();
    String::from_utf8(request.private_data().to_vec()).unwrap()
}

#[test]
fn lstn_028_each_of_many_peers_goes_to_one_of_several_tasks() {
    for pending in [0, 1, 3, 50] {
        everywhere(|network| {
            let (here, there) = (network.open(1), network.open(2));
            let options = ListenerOptions::default().pending(pending);
            let listener = network.listen(&there, options);
            let address = listener.local_address().unwrap();
            let clients = join_all((0..20).map(|number| {
                let here = &here;
                async move { client(here, address, &number.to_string()).await.unwrap() }
            }));
            let side = Side::new(&there);
            let tasks = join_all((0..4).map(|_| async {
                let mut served = Vec::new();
                while served.len() < 5 {
                    let request = listener.get_connection_request().await.unwrap();
                    let name = String::from_utf8(request.private_data().to_vec());
                    let qp = common::queue_pair(&there, &side.cq);
                    served.push((name.unwrap(), request.accept(&qp).await.unwrap()));
                }
                served
            }));
            let (clients, served) = block_on(join(clients, tasks));
            let names: BTreeSet<_> = served.iter().flatten().map(|(name, _)| name).collect();
            assert_eq!((clients.len(), names.len()), (20, 20));
        });
    }
}

/// A future of the listener, with a waker that counts.
struct Watched<'a> {
    future: Pin<Box<NextRequest<'a>>>,
    counter: Arc<Counter>,
}

impl<'a> Watched<'a> {
    fn new(listener: &'a AsyncListener) -> Self {
        Self {
            future: Box::pin(listener.get_connection_request()),
            counter: Counter::new(),
        }
    }

    /// The name of the peer that has arrived.
    fn poll(&mut self) -> Option<String> {
        let waker = Waker::from(self.counter.clone());
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(request) => {
                let name = request.unwrap().private_data().to_vec();
                Some(String::from_utf8(name).unwrap())
            }
            Poll::Pending => None,
        }
    }

    fn was_woken(&self) -> bool {
        self.counter.count() > 0
    }
}

/// Without a simulation, whose futures are woken by every poll.
#[test]
fn lstn_025_a_future_that_is_dropped_after_its_wake_up_passes_its_peer_on() {
    let network = Network::Tcp;
    let (here, there) = (network.open(1), network.open(2));
    let listener = network.listen(&there, ListenerOptions::default());
    let address = listener.local_address().unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| Watched::new(&listener)).collect();
    for watched in &mut waiting {
        assert_eq!(watched.poll(), None);
    }
    let sides = [Side::new(&here), Side::new(&here)];
    let mut connects = Vec::new();
    for (side, name) in sides.iter().zip(["first", "second"]) {
        let connect = here.connect(&side.qp, address).private_data(name);
        connects.push(connect.into_future());
        assert!(poll(connects.last_mut().unwrap().as_mut()).is_pending());
        // Those who wait longest are woken first, one for each peer.
        let at = connects.len() - 1;
        while !waiting[at].was_woken() {
            network.idle();
        }
        assert!(!waiting[at + 1].was_woken());
    }
    // The first has learned nothing yet. Its peer, and no other wake-up, goes to the third.
    drop(waiting.remove(0));
    assert!(waiting[1].was_woken());
    assert_eq!(waiting[1].poll().as_deref(), Some("first"));
    // A task that was not woken may be faster. The task that was woken waits on, and keeps its place.
    assert_eq!(Watched::new(&listener).poll().as_deref(), Some("second"));
    assert_eq!(waiting[0].poll(), None);
    let woken = waiting[0].counter.count();
    let side = Side::new(&here);
    let connect = here.connect(&side.qp, address).private_data("third");
    let mut connect = connect.into_future();
    assert!(poll(connect.as_mut()).is_pending());
    while waiting[0].counter.count() == woken {
        network.idle();
    }
    assert_eq!(waiting[0].poll().as_deref(), Some("third"));
}

#[test]
fn lstn_025_no_peer_is_lost_where_futures_are_dropped_after_any_number_of_polls() {
    for pending in [1, 4] {
        everywhere(|network| {
            let (here, there) = (network.open(1), network.open(2));
            let options = ListenerOptions::default().pending(pending);
            let listener = network.listen(&there, options);
            let address = listener.local_address().unwrap();
            let clients = join_all((0..10).map(|number| {
                let (here, name) = (&here, number.to_string());
                async move { client(here, address, &name).await.unwrap_err() }
            }));
            let serving = async {
                let mut names = Vec::new();
                for polls in 0.. {
                    // The stream is dropped with each turn, too.
                    let mut incoming = listener.incoming();
                    let name = match polls % 2 {
                        0 => polled(polls, next_name(&listener)).await,
                        _ => polled(polls, incoming.next()).await.map(|request| {
                            let name = request.unwrap().unwrap().private_data().to_vec();
                            String::from_utf8(name).unwrap()
                        }),
                    };
                    names.extend(name);
                    if names.len() == 10 {
                        return names;
                    }
                    if polls > 20 {
                        names.push(next_name(&listener).await);
                    }
                }
                names
            };
            let (refused, names) = block_on(join(clients, serving));
            assert_eq!(refused, [Status::CONNECTION_REFUSED; 10]);
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 10);
        });
    }
}

#[test]
fn lstn_033_dropping_the_listener_refuses_those_whom_nobody_took() {
    everywhere(|network| {
        let (here, there) = (network.open(1), network.open(2));
        let options = ListenerOptions::default().pending(2);
        let listener = network.listen(&there, options);
        let address = listener.local_address().unwrap();
        let names = ["taken", "in a connector", "in another", "in the backlog"];
        let mut clients: FuturesUnordered<_> = names
            .iter()
            .map(|name| client(&here, address, name))
            .collect();
        let first = block_on(async {
            let request = pin!(listener.get_connection_request());
            match select(request, clients.next()).await {
                Either::Left((request, _)) => request.unwrap(),
                Either::Right(_) => panic!("nobody has answered"),
            }
        });
        let clone = listener.clone();
        drop(listener);
        let incoming = clone.incoming();
        drop(clone);
        // One reference is left: the listener goes on. Then it is gone.
        drop(incoming);
        let side = Side::new(&there);
        let (accepted, ended) = block_on(join(
            first.accept(&side.qp).into_future(),
            clients.collect::<Vec<_>>(),
        ));
        accepted.unwrap();
        let refused = ended.into_iter().filter_map(|ended| ended.err());
        assert_eq!(refused.collect::<Vec<_>>(), [Status::CONNECTION_REFUSED; 3]);
    });
}

#[test]
fn lstn_026_device_removal_ends_all_waits_and_the_stream() {
    everywhere(|network| {
        let there = network.open(2);
        let listener = network.listen(&there, ListenerOptions::default());
        let mut incoming = listener.incoming();
        let mut waiting = [0, 1].map(|_| Box::pin(listener.get_connection_request()));
        for future in &mut waiting {
            assert!(poll(future.as_mut()).is_pending());
        }
        let mut first = incoming.next();
        assert!(poll(Pin::new(&mut first)).is_pending());
        let extensions = there.adapter().extensions().unwrap();
        extensions.inject(Fault::RemoveDevice).unwrap();
        for future in waiting {
            let error = block_on(future).unwrap_err();
            assert_eq!(error.status(), Status::DEVICE_REMOVED);
            assert!(error.what().contains("the device was removed"), "{error}");
        }
        let error = block_on(first).unwrap().unwrap_err();
        assert_eq!(error.status(), Status::DEVICE_REMOVED);
        assert!(block_on(incoming.next()).is_none());
        let error = block_on(listener.get_connection_request()).unwrap_err();
        assert_eq!(error.status(), Status::DEVICE_REMOVED);
    });
}

/// The `nth` connector from now on cannot be made.
fn run_short(adapter: &AsyncAdapter, nth: u32) {
    let fault = Fault::Call {
        call: Call::CreateConnector,
        nth,
        status: Status::INSUFFICIENT_RESOURCES,
    };
    let extensions = adapter.adapter().extensions().unwrap();
    extensions.inject(fault).unwrap();
}

#[test]
fn adpt_080_a_listener_short_of_resources_tells_all_who_wait_and_goes_on() {
    everywhere(|network| {
        let (here, there) = (network.open(1), network.open(2));
        let options = ListenerOptions::default().pending(1);
        let listener = network.listen(&there, options);
        let address = listener.local_address().unwrap();
        run_short(&there, 1);
        let error = block_on(listener.get_connection_request()).unwrap_err();
        assert_eq!(error.status(), Status::INSUFFICIENT_RESOURCES);

        // The connector that the first has used up cannot be replaced, so that nothing is in flight for the second.
        run_short(&there, 2);
        run_short(&there, 3);
        let waiting = async {
            let both = join(
                listener.get_connection_request(),
                listener.get_connection_request(),
            );
            let (got, none) = match both.await {
                (Ok(got), Err(none)) | (Err(none), Ok(got)) => (got, none),
                other => panic!("{other:?}"),
            };
            assert_eq!(none.status(), Status::INSUFFICIENT_RESOURCES);
            got.reject(b"").unwrap();
            next_name(&listener).await
        };
        let clients = async {
            let first = client(&here, address, "first").await.unwrap_err();
            (first, client(&here, address, "second").await.unwrap_err())
        };
        let (name, refused) = block_on(join(waiting, clients));
        assert_eq!(name, "second");
        assert_eq!(refused, [Status::CONNECTION_REFUSED; 2].into());
    });
}

/// Each in its own task.
#[test]
fn adpt_080_who_waits_is_woken_when_a_used_up_connector_cannot_be_replaced() {
    let network = Network::Tcp;
    let (here, there) = (network.open(1), network.open(2));
    let options = ListenerOptions::default().pending(1);
    let listener = network.listen(&there, options);
    let address = listener.local_address().unwrap();
    let mut waiting = [Watched::new(&listener), Watched::new(&listener)];
    for watched in &mut waiting {
        assert_eq!(watched.poll(), None);
    }
    run_short(&there, 1);
    run_short(&there, 2);
    let side = Side::new(&here);
    let connect = here.connect(&side.qp, address).private_data("only");
    let mut connect = connect.into_future();
    assert!(poll(connect.as_mut()).is_pending());
    while !waiting[0].was_woken() {
        network.idle();
    }
    assert_eq!(waiting[0].poll().as_deref(), Some("only"));
    assert!(waiting[1].was_woken());
    let Poll::Ready(Err(error)) = poll(waiting[1].future.as_mut()) else {
        panic!("nothing is in flight that could end the wait");
    };
    assert_eq!(error.status(), Status::INSUFFICIENT_RESOURCES);
}

#[test]
fn lstn_016_the_backlog_limits_how_many_wait_beside_the_connectors() {
    everywhere(|network| {
        let (here, there) = (network.open(1), network.open_with(2, Options::default()));
        let options = ListenerOptions::default().pending(2).backlog(1);
        let listener = network.listen(&there, options);
        let address = listener.local_address().unwrap();
        let mut first = Box::pin(listener.get_connection_request());
        assert!(poll(first.as_mut()).is_pending()); // now two requests are in flight
        let clients: Vec<_> = (0..4)
            .map(|_| Box::pin(client(&here, address, "")))
            .collect();
        let (ended, _) = block_on(async {
            let (ended, _, others) = futures_util::future::select_all(clients).await;
            (ended, others)
        });
        assert_eq!(ended.unwrap_err(), Status::CONNECTION_REFUSED);
    });
}

#[test]
fn a_stream_in_a_simulation_where_nobody_connects_ends() {
    simulated(|network| {
        let listener = network.listen(&network.open(1), ListenerOptions::default());
        let mut incoming = listener.incoming();
        let error = block_on(incoming.next()).unwrap().unwrap_err();
        assert_eq!(error.status(), Status::POSSIBLE_DEADLOCK);
        assert!(block_on(incoming.next()).is_none());
        // Another one sees who comes later.
        let here = network.open(2);
        let address = listener.local_address().unwrap();
        let mut incoming = listener.incoming();
        let (request, refused) = block_on(join(
            async { drop(incoming.next().await.unwrap().unwrap()) },
            client(&here, address, "late"),
        ));
        assert_eq!(
            (request, refused.unwrap_err()),
            ((), Status::CONNECTION_REFUSED)
        );
    });
}

/// The clock of a simulation does not run past time limits while one of many tasks has something to do.
#[test]
fn a_hundred_clients_of_one_task_connect_in_a_simulation() {
    simulated(|network| {
        let (here, there) = (network.open(1), network.open(2));
        let listener = network.listen(&there, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        let clients = join_all((0..100).map(|number| {
            let (here, name) = (&here, number.to_string());
            async move { client(here, address, &name).await.unwrap() }
        }));
        let side = Side::new(&there);
        let server = async {
            let mut connections = Vec::new();
            while connections.len() < 100 {
                let request = listener.get_connection_request().await.unwrap();
                let qp = common::queue_pair(&there, &side.cq);
                connections.push(request.accept(&qp).await.unwrap());
            }
            connections
        };
        let (clients, server) = block_on(join(clients, server));
        assert_eq!(clients.len(), server.len());
    });
}
