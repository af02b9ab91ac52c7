//! Connections: made in one call, abandoned at every point, and ended.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;

use crate::common::{self, Network, Side, block_on, everywhere, poll, polled};
use futures_util::future::{Either, join, join3, ready, select};
use netdirect::{CompletionResult, OpFlags, Overlapped, QueuePairOptions, ReadLimits, Status};
use netdirect_async::{CompletionStream, Connection, ListenerOptions, within};

fn limits(inbound: u32, outbound: u32) -> ReadLimits {
    ReadLimits { inbound, outbound }
}

/// The next result of a side.
async fn result(side: &Side) -> CompletionResult {
    let next = CompletionStream::new(&side.cq).next().await;
    next.expect("the queue works").unwrap()
}

#[test]
fn conn_028_one_call_connects_and_both_sides_may_send() {
    everywhere(|network| {
        let (here, there) = (Side::new(&network.open(1)), Side::new(&network.open(2)));
        let listener = network.listen(&there.adapter, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        here.qp.receive(7, &[]).unwrap();
        there.qp.receive(8, &[]).unwrap();
        let client = async {
            let connect = here.adapter.connect(&here.qp, address);
            let wish = limits(3, 5);
            connect.private_data(*b"caller").read_limits(wish).await
        };
        let server = async {
            let request = listener.get_connection_request().await.unwrap();
            assert_eq!(request.private_data(), b"caller");
            assert_eq!(request.read_limits(), limits(5, 3));
            let client = request.peer_address().unwrap();
            let accept = request.accept(&there.qp).private_data(*b"callee");
            let connection = accept.read_limits(limits(4, 9)).await.unwrap();
            assert_eq!(connection.peer_address().unwrap(), client);
            connection
        };
        block_on(async {
            let (client, server) = join(client, server).await;
            let client = client.unwrap();
            assert_eq!(client.private_data(), b"callee");
            assert_eq!(server.private_data(), b"caller");
            assert_eq!(server.read_limits(), limits(4, 3));
            assert_eq!(client.read_limits(), limits(3, 4));
            assert_eq!(client.peer_address().unwrap(), address);
            assert_eq!(
                client.local_address().unwrap(),
                server.peer_address().unwrap()
            );
            // The passive side may be the first to send.
            for (from, to, context) in [(&there, &here, 7), (&here, &there, 8)] {
                from.qp.send(1, &[], OpFlags::empty()).unwrap();
                assert_eq!(result(from).await.status, Status::SUCCESS);
                let received = result(to).await;
                let expected = (context, Status::SUCCESS);
                assert_eq!((received.request_context, received.status), expected);
            }
            let (ended, notified) = join(client.disconnect(), server.disconnected()).await;
            ended.unwrap();
            notified.unwrap();
            // A task that asks later does not wait.
            server.disconnected().await.unwrap();
            client.disconnected().await.unwrap();
            server.disconnect().await.unwrap();
        });
    });
}

#[test]
fn conn_028_the_local_address_is_the_wished_one() {
    everywhere(|network| {
        let (here, there) = (Side::new(&network.open(1)), Side::new(&network.open(2)));
        let listener = network.listen(&there.adapter, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        let bound = here.adapter.adapter().query_address_list().unwrap()[0];
        let connect = here.adapter.connect(&here.qp, address).local_address(bound);
        let client = async {
            let connection = connect.await.unwrap();
            let local = connection.local_address().unwrap();
            assert_eq!(local.ip(), bound.ip());
            local
        };
        let server = async {
            let request = listener.get_connection_request().await.unwrap();
            let client = request.peer_address().unwrap();
            (client, request.accept(&there.qp).await.unwrap())
        };
        let (local, (client, _connection)) = block_on(join(client, server));
        assert_eq!(local, client);

        let foreign = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 0));
        let connect = here.adapter.connect(&Side::new(&here.adapter).qp, address);
        let error = block_on(connect.local_address(foreign).into_future()).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_ADDRESS);
    });
}

#[test]
fn conn_089_a_refusal_carries_what_the_peer_says() {
    everywhere(|network| {
        let (here, there) = (Side::new(&network.open(1)), Side::new(&network.open(2)));
        let listener = network.listen(&there.adapter, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        let server = async {
            let request = listener.get_connection_request().await.unwrap();
            request.reject(b"full").unwrap();
            // The same queue pair once more.
            let request = listener.get_connection_request().await.unwrap();
            request.accept(&there.qp).await.unwrap()
        };
        let client = async {
            let error = here.adapter.connect(&here.qp, address).await.unwrap_err();
            assert_eq!(error.status(), Status::CONNECTION_REFUSED);
            assert_eq!(error.private_data, b"full");
            assert_eq!(error.to_string(), error.error.to_string());
            let error = netdirect::Error::from(error);
            assert_eq!(error.status(), Status::CONNECTION_REFUSED);
            here.adapter.connect(&here.qp, address).await.unwrap()
        };
        let (_client, _server) = block_on(join(client, server));
        drop(listener);
        let nobody = Side::new(&here.adapter);
        let error = block_on(here.adapter.connect(&nobody.qp, address).into_future());
        let error = error.unwrap_err();
        assert_eq!(error.status(), Status::CONNECTION_REFUSED);
        assert_eq!(error.private_data, b"");
        assert!(error.error.what().contains("refused"), "{error}");
        // Errors of calls are errors of the future.
        let connect = here.adapter.connect(&nobody.qp, address);
        let error = block_on(connect.private_data(vec![0; 5000]).into_future());
        assert_eq!(error.unwrap_err().status(), Status::INVALID_BUFFER_SIZE);
    });
}

/// The outcomes of Accept when the peer abandons its Connect (AMB-004).
const ABANDONED: [Status; 2] = [Status::CONNECTION_ABORTED, Status::CONNECTION_REFUSED];

#[test]
fn conn_035_a_connect_that_is_dropped_at_any_point_leaves_nothing_behind() {
    everywhere(|network| {
        let (client, there) = (network.open(1), Side::new(&network.open(2)));
        let listener = network.listen(&there.adapter, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        for polls in 0.. {
            let here = Side::new(&client);
            let connecting = async {
                let connect = client.connect(&here.qp, address).into_future();
                let done = polled(polls, connect).await.is_some();
                // The queue pair is free if nothing came of the attempt.
                let again = match done {
                    true => Side::new(&client),
                    false => here,
                };
                let connect = client.connect(&again.qp, address);
                let connection = connect.private_data(*b"again").await.unwrap();
                connection.disconnect().await.unwrap();
                done
            };
            let serving = async {
                let mut accepted = Vec::new();
                loop {
                    let request = listener.get_connection_request().await.unwrap();
                    let is_last = request.private_data() == b"again";
                    let qp = common::queue_pair(&there.adapter, &there.cq);
                    match request.accept(&qp).await {
                        Ok(connection) => accepted.push(connection),
                        Err(error) if is_last => panic!("{error}"),
                        Err(error) => assert!(ABANDONED.contains(&error.status()), "{error}"),
                    }
                    if is_last {
                        break;
                    }
                }
                // A connection of the first attempt has ended too, because no task has it.
                for connection in &accepted {
                    connection.disconnected().await.unwrap();
                }
            };
            let (done, ()) = block_on(join(connecting, serving));
            if done {
                assert!(polls > 1, "Connect takes a while");
                return;
            }
        }
    });
}

#[test]
fn conn_061_an_accept_that_is_dropped_at_any_point_ends_the_connection() {
    everywhere(|network| {
        let (client, server) = (network.open(1), network.open(2));
        let listener = network.listen(&server, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        for polls in 0.. {
            let (here, there) = (Side::new(&client), Side::new(&server));
            let accepting = async {
                let request = listener.get_connection_request().await.unwrap();
                polled(polls, request.accept(&there.qp).into_future()).await
            };
            let connecting = async {
                let connection = client.connect(&here.qp, address).await?;
                // Also if the peer accepted, and dropped its future before it learned that the connection is established.
                connection.disconnected().await.unwrap();
                Ok::<_, netdirect_async::ConnectError>(())
            };
            let both = async {
                let (connecting, accepting) = (pin!(connecting), pin!(accepting));
                match select(accepting, connecting).await {
                    Either::Left((Some(_accepted), _)) => true,
                    Either::Left((None, connecting)) => {
                        if let Err(error) = connecting.await {
                            assert_eq!(error.status(), Status::CONNECTION_REFUSED);
                        }
                        false
                    }
                    Either::Right((ended, accepting)) => {
                        panic!("{ended:?} before {:?}", accepting.await)
                    }
                }
            };
            if block_on(both) {
                assert!(polls > 1, "Accept takes a while");
                return;
            }
            // A peer that was refused before the first poll has not touched the queue pair.
            let receive = there.qp.receive(1, &[]);
            assert_eq!(receive, Ok(()));
        }
    });
}

#[test]
fn conn_061_an_accept_whose_end_nobody_saw_ends_the_connection() {
    everywhere(|network| {
        let (here, there) = (Side::new(&network.open(1)), Side::new(&network.open(2)));
        let listener = network.listen(&there.adapter, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        let mut connect = here.adapter.connect(&here.qp, address).into_future();
        let request = async {
            let request = listener.get_connection_request();
            match select(request, &mut connect).await {
                Either::Left((request, _)) => request.unwrap(),
                Either::Right(..) => panic!("nobody has accepted"),
            }
        };
        let request = block_on(request);
        let connector = request.connector().clone();
        let mut accept = request.accept(&there.qp).into_future();
        assert!(poll(accept.as_mut()).is_pending());
        let connection = block_on(connect).unwrap();
        // NotifyDisconnect can be asked for when the connection is established.
        let end = Overlapped::new();
        while connector.notify_disconnect(&end).is_err() {
            there.adapter.file().progress();
            network.idle();
        }
        drop((accept, connector));
        block_on(connection.disconnected()).unwrap();
    });
}

#[test]
fn conn_107_waiting_for_the_end_leaves_one_request_behind_at_most() {
    everywhere(|network| {
        let (here, there) = (Side::new(&network.open(1)), Side::new(&network.open(2)));
        let (client, server) = connected(network, &here, &there);
        for _ in 0..10 {
            let mut dropped = pin!(client.disconnected());
            assert!(poll(dropped.as_mut()).is_pending());
        }
        // Several may wait.
        let all = async {
            let (one, two, end) = join3(
                client.disconnected(),
                client.disconnected(),
                server.disconnect(),
            )
            .await;
            assert_eq!((one, two, end), (Ok(()), Ok(()), Ok(())));
        };
        block_on(all);
        // A cancelled wait is an error; the next one starts anew.
        let (here, there) = (Side::new(&here.adapter), Side::new(&there.adapter));
        let (client, server) = connected(network, &here, &there);
        let mut cancelled = pin!(client.disconnected());
        assert!(poll(cancelled.as_mut()).is_pending());
        client.connector().cancel_overlapped_requests().unwrap();
        let status = block_on(cancelled).unwrap_err().status();
        assert_eq!(status, Status::CANCELED);
        let (notified, ended) = block_on(join(client.disconnected(), server.disconnect()));
        assert_eq!((notified, ended), (Ok(()), Ok(())));
    });
}

#[test]
fn conn_116_a_connection_ends_when_it_and_its_endpoint_are_dropped() {
    everywhere(|network| {
        let (here, there) = (network.open(1), Side::new(&network.open(2)));
        let endpoint = here.endpoint(QueuePairOptions::default()).unwrap();
        let listener = network.listen(&there.adapter, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        let server = async {
            let request = listener.get_connection_request().await.unwrap();
            request.accept(&there.qp).await.unwrap()
        };
        let client = async { here.connect(endpoint.queue_pair(), address).await.unwrap() };
        let (client, server) = block_on(join(client, server));
        drop(endpoint);
        // The connection holds the queue pair.
        let notified = server.disconnected();
        let mut notified = pin!(notified);
        for _ in 0..20 {
            assert!(poll(notified.as_mut()).is_pending());
        }
        drop(client);
        assert_eq!(block_on(notified), Ok(()));
    });
}

#[test]
fn a_limit_ends_what_takes_too_long() {
    everywhere(|network| {
        let (here, there) = (Side::new(&network.open(1)), Side::new(&network.open(2)));
        let listener = network.listen(&there.adapter, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        // The limit is any future: here, that the peer's request has arrived, which stays without an answer.
        let connect = here.adapter.connect(&here.qp, address);
        let limit = async { listener.get_connection_request().await.unwrap() };
        let late = block_on(within(limit, connect)).unwrap_err();
        assert_eq!(late.status(), Status::TIMEOUT);
        let connection = connected(network, &here, &there);
        // A result that is ready counts, though the limit is over.
        let ready = within(ready(()), async { Ok::<_, netdirect::Error>(7) });
        assert_eq!(block_on(ready), Ok(7));
        drop(connection);
    });
}

/// Connects two sides.
fn connected(network: &Network, here: &Side, there: &Side) -> (Connection, Connection) {
    let listener = network.listen(&there.adapter, ListenerOptions::default());
    let address = listener.local_address().unwrap();
    let server = async {
        let request = listener.get_connection_request().await.unwrap();
        request.accept(&there.qp).await.unwrap()
    };
    let client = async { here.adapter.connect(&here.qp, address).await.unwrap() };
    block_on(join(client, server))
}
