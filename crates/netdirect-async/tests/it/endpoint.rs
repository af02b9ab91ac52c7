//! Requests as futures: each gets its own result, whichever future is dropped, and memory stays registered until the request has ended.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

use crate::common::{ALL, LONG, Network, block_on, everywhere, poll};
use futures_util::future::{FutureExt as _, join, join_all};
use netdirect::{
    AtomicOp, Buffer, Call, Error, Fault, MemoryRegion, OpFlags, QueuePairOptions, ReadLimits,
    RemoteAddress, RequestType, SharedReceiveQueueOptions, Status,
};
use netdirect_async::{
    AsyncAdapter, CompletionStream, Connection, Endpoint, EndpointOptions, ListenerOptions,
    RegisteredBuffer, Request,
};
use proptest::prelude::*;
use softnd::simulation::Simulation;

const NONE: OpFlags = OpFlags::empty();

fn endpoint(adapter: &AsyncAdapter) -> Endpoint {
    let options = QueuePairOptions::default()
        .receive_queue_depth(32)
        .initiator_queue_depth(32)
        .max_initiator_request_sge(2)
        .max_receive_request_sge(2)
        .inline_data_size(64);
    adapter.endpoint(options).unwrap()
}

/// One end of a connection.
struct End {
    adapter: AsyncAdapter,
    endpoint: Endpoint,
    memory: RegisteredBuffer,
    connection: Connection,
}

fn memory(adapter: &AsyncAdapter, len: usize) -> RegisteredBuffer {
    block_on(adapter.register(&Buffer::new(len), ALL)).unwrap()
}

fn pair(network: &Network) -> (End, End) {
    let (here, there) = (network.open(1), network.open(2));
    let (active, passive) = (endpoint(&here), endpoint(&there));
    let listener = network.listen(&there, ListenerOptions::default());
    let address = listener.local_address().unwrap();
    let server = async {
        let request = listener.get_connection_request().await.unwrap();
        request.accept(passive.queue_pair()).await.unwrap()
    };
    let client = async { here.connect(active.queue_pair(), address).await.unwrap() };
    let (client, server) = block_on(join(client, server));
    let end = |adapter: AsyncAdapter, endpoint, connection| End {
        memory: memory(&adapter, 4096),
        adapter,
        endpoint,
        connection,
    };
    (end(here, active, client), end(there, passive, server))
}

fn inject(adapter: &AsyncAdapter, fault: Fault) {
    let extensions = adapter.adapter().extensions().unwrap();
    extensions.inject(fault).unwrap();
}

#[test]
fn every_kind_of_request_ends_with_its_own_result() {
    everywhere(|network| {
        let (here, there) = pair(network);
        let (ours, theirs) = (&here.memory, &there.memory);
        let (kinds, none) = (&here.endpoint, NONE);
        block_on(async {
            ours.write(0, b"to be sent in two parts");
            let received = there.endpoint.receive([theirs.part(..100)]);
            let parts = [ours.part(0..3), ours.part(6..10)];
            let sent = kinds.send(parts, OpFlags::SEND_AND_SOLICIT_EVENT);
            let (sent, received) = join(sent, received).await;
            assert_eq!(sent.unwrap().request_type, RequestType::Send);
            let received = received.unwrap();
            assert_eq!(received.request_type, RequestType::Receive);
            assert_eq!(received.bytes_transferred, 7);
            assert_eq!(theirs.slice(..7).to_vec(), b"to sent");

            let received = there.endpoint.receive([theirs.part(..100)]);
            let sent = kinds.send_inline(&[b"in", b"line"], none);
            let (sent, received) = join(sent, received).await;
            assert_eq!(
                (sent.is_ok(), received.unwrap().bytes_transferred),
                (true, 6)
            );

            let (received, sent) = (there.endpoint.receive([]), kinds.send([], none));
            let (received, sent) = join(received, sent).await;
            assert_eq!(
                (sent.is_ok(), received.unwrap().bytes_transferred),
                (true, 0)
            );

            theirs.write(500, b"to be read");
            let read = kinds.read([ours.part(1000..1010)], theirs.remote(500), none);
            assert_eq!(read.await.unwrap().request_type, RequestType::Read);
            assert_eq!(ours.slice(1000..1010).to_vec(), b"to be read");

            let written = kinds.write([ours.part(1000..1010)], theirs.remote(2000), none);
            written.await.unwrap();
            let inline = kinds.write_inline(&[b"more"], theirs.remote(2010), none);
            inline.await.unwrap();
            // When a Read is done, the Writes before it are placed.
            let read = kinds.read([ours.part(0..14)], theirs.remote(2000), none);
            read.await.unwrap();
            assert_eq!(theirs.slice(2000..2014).to_vec(), b"to be readmore");

            let window = here.adapter.memory_window().unwrap();
            let bound = kinds.bind(ours, 1000..1010, &window, OpFlags::ALLOW_READ);
            let remote = RemoteAddress {
                address: ours.remote(1000).address,
                token: window.get_remote_token(),
            };
            assert_eq!(bound.await.unwrap(), remote);
            let read = there.endpoint.read([theirs.part(..10)], remote, none);
            read.await.unwrap();
            assert_eq!(theirs.slice(..10).to_vec(), b"to be read");
            kinds.invalidate(&window, none).await.unwrap();

            theirs.write(3000, &41u64.to_ne_bytes());
            let added = kinds.post([ours.part(0..8)], |qp, context, sges| {
                let extensions = qp.extensions().unwrap();
                extensions.atomic(
                    context,
                    AtomicOp::add(1),
                    &sges[0],
                    theirs.remote(3000),
                    none,
                )
            });
            assert_eq!(added.await.unwrap().request_type, RequestType::Atomic);
            assert_eq!(theirs.slice(3000..3008).to_vec(), 42u64.to_ne_bytes());
        });
    });
}

#[test]
fn the_default_limits_allow_reads_and_a_limit_of_none_does_not() {
    everywhere(|network| {
        let (here, there) = pair(network);
        assert!(here.connection.read_limits().outbound > 0);
        let (here, there) = (here.adapter, there.adapter);
        let (active, passive) = (endpoint(&here), endpoint(&there));
        let listener = network.listen(&there, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        let server = async {
            let request = listener.get_connection_request().await.unwrap();
            let accept = request.accept(passive.queue_pair());
            accept.read_limits(ReadLimits::default()).await.unwrap()
        };
        let client = async { here.connect(active.queue_pair(), address).await.unwrap() };
        let (client, _server) = block_on(join(client, server));
        assert_eq!(client.read_limits(), ReadLimits::default());
        let (ours, theirs) = (memory(&here, 8), memory(&there, 8));
        let read = active.read([ours.part(..)], theirs.remote(0), NONE);
        let error = block_on(read).unwrap_err(); // AMB-045
        assert_eq!(error.status(), Status::INVALID_DEVICE_REQUEST);
    });
}

#[test]
fn a_call_that_fails_is_an_error_of_its_future() {
    everywhere(|network| {
        let adapter = network.open(1);
        let unconnected = endpoint(&adapter);
        let error = block_on(unconnected.send([], NONE)).unwrap_err();
        assert_eq!(error.status(), Status::CONNECTION_INVALID);
        let (here, there) = pair(network);
        let (ours, remote) = (&here.memory, there.memory.remote(0));
        let silent = OpFlags::SILENT_SUCCESS;
        let window = here.adapter.memory_window().unwrap();
        let error = block_on(here.endpoint.bind(ours, .., &window, silent)).unwrap_err();
        assert_eq!(error.status(), Status::invalid_parameter(6));
        let refused = [
            (here.endpoint.send([], silent), 4),
            (here.endpoint.send_inline(&[b""], silent), 4),
            (here.endpoint.read([ours.part(..1)], remote, silent), 6),
            (here.endpoint.write([ours.part(..1)], remote, silent), 6),
            (here.endpoint.write_inline(&[b""], remote, silent), 6),
            (here.endpoint.invalidate(&window, silent), 3),
        ];
        for (request, argument) in refused {
            let error = block_on(request).unwrap_err();
            assert_eq!(error.status(), Status::invalid_parameter(argument));
        }
        // More entries than the queue pair takes in the strictest case, and then as usual.
        let parts = (0..40).map(|at| ours.part(at..at + 1));
        let error = block_on(here.endpoint.send(parts, NONE)).unwrap_err();
        assert_eq!(error.status(), Status::DATA_OVERRUN);
        let (received, sent) = (there.endpoint.receive([]), here.endpoint.send([], NONE));
        let (received, sent) = block_on(join(received, sent));
        assert!(received.is_ok() && sent.is_ok());
    });
}

/// A server with one completion queue for the requests of all its endpoints, and one pool of Receives.
#[test]
fn endpoints_share_a_queue_of_requests_and_receives() {
    const CLIENTS: u64 = 4;
    everywhere(|network| {
        let (here, there) = (network.open(1), network.open(2));
        let listener = network.listen(&there, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        // One request of each endpoint, and no more.
        let requests = there.request_queue(4).unwrap();
        let srq = there
            .shared_receive_queue(SharedReceiveQueueOptions::default().queue_depth(16))
            .unwrap();
        let received = there.completion_queue(16).unwrap();
        let theirs = memory(&there, 16 * 8);
        for context in 0..8 {
            let at = usize::try_from(context).unwrap() * 16;
            srq.receive(context, &[theirs.sge(at..at + 16)]).unwrap();
        }
        let mut clients = Vec::new();
        for context in 0..CLIENTS {
            let of_queue_pair = QueuePairOptions::default().context(context);
            let options = EndpointOptions::from(of_queue_pair)
                .requests(&requests)
                .shared_receives(&srq, &received);
            let (ours, server) = (endpoint(&here), there.endpoint(options).unwrap());
            let accepted = async {
                let request = listener.get_connection_request().await.unwrap();
                request.accept(server.queue_pair()).await.unwrap()
            };
            let connected = async { here.connect(ours.queue_pair(), address).await.unwrap() };
            let connections = block_on(join(connected, accepted));
            clients.push((ours, server, memory(&here, 16), connections));
        }
        let mut messages = CompletionStream::new(&received);
        for (context, (ours, server, memory, _)) in (0..).zip(&clients) {
            memory.write(0, &[b'a' + u8::try_from(context).unwrap(); 4]);
            let answer = ours.receive([memory.part(8..)]);
            block_on(ours.send([memory.part(..4)], NONE)).unwrap();
            let message = block_on(messages.next()).unwrap().unwrap();
            // The result names the client by the context of its queue pair, and its own Receive.
            assert_eq!(message.queue_pair_context, context);
            let at = usize::try_from(message.request_context).unwrap() * 16;
            let text = theirs.slice(at..at + 4).to_vec();
            assert_eq!(text, memory.slice(..4).to_vec());
            block_on(server.send([theirs.part(at..at + 4)], NONE)).unwrap();
            assert_eq!(block_on(answer).unwrap().bytes_transferred, 4);
            assert_eq!(memory.slice(8..12).to_vec(), text);
            let own = block_on(server.receive([theirs.part(..1)])).unwrap_err();
            assert!(!own.status().is_success());
        }
        // Together the endpoints have no more requests outstanding than their queue holds.
        let reads = clients
            .iter()
            .chain(&clients[..1])
            .map(|(_, server, memory, _)| server.read([theirs.part(..4)], memory.remote(0), NONE));
        let ended: Vec<_> = block_on(join_all(reads.collect::<Vec<_>>()));
        let statuses = ended.iter().map(|ended| {
            ended
                .as_ref()
                .map_or_else(Error::status, |_| Status::SUCCESS)
        });
        let fifth = statuses.clone().nth(4).unwrap();
        assert!(statuses.take(4).all(|status| status == Status::SUCCESS));
        assert!([Status::SUCCESS, Status::NO_MORE_ENTRIES].contains(&fifth));
    });
}

#[test]
fn requests_that_are_awaited_in_any_order_get_their_own_results() {
    everywhere(|network| {
        let (here, there) = pair(network);
        let received: Vec<_> = (0..30)
            .map(|at| {
                there
                    .endpoint
                    .receive([there.memory.part(at * 10..at * 10 + 10)])
            })
            .collect();
        let sent: Vec<_> = (0..30)
            .map(|length| here.endpoint.send([here.memory.part(..length % 10)], NONE))
            .collect();
        block_on(async {
            for (number, received) in received.into_iter().enumerate().rev() {
                let expected = u32::try_from(number % 10).unwrap();
                assert_eq!(received.await.unwrap().bytes_transferred, expected);
            }
            for sent in join_all(sent).await {
                sent.unwrap();
            }
        });
    });
}

/// Requests that have ended take no room in the queues of a queue pair, though no future was polled since.
#[test]
fn requests_that_have_ended_take_no_room_before_they_are_awaited() {
    everywhere(|network| {
        let (here, there) = pair(network);
        let receives: Vec<_> = (0..64).map(|_| there.endpoint.receive([])).collect();
        let full = receives.into_iter().filter_map(|receive| {
            let ended = receive.now_or_never()?;
            Some(ended.unwrap_err().status())
        });
        let full: Vec<_> = full.collect();
        assert_eq!(full, [Status::NO_MORE_ENTRIES; 32]);
        // The Receives were dropped, and messages use them. An answer shows that they have.
        let sends: Vec<_> = (0..32).map(|_| here.endpoint.send([], NONE)).collect();
        assert!(block_on(join_all(sends)).iter().all(Result::is_ok));
        let from = there.memory.remote(0);
        block_on(here.endpoint.read([here.memory.part(..4)], from, NONE)).unwrap();
        let receives: Vec<_> = (0..32).map(|_| there.endpoint.receive([])).collect();
        let sends = join_all((0..32).map(|_| here.endpoint.send([], NONE)));
        let (received, _) = block_on(join(join_all(receives), sends));
        assert!(received.iter().all(Result::is_ok));
    });
}

#[test]
fn as_many_requests_are_outstanding_as_the_queues_hold() {
    everywhere(|network| {
        let (here, there) = pair(network);
        // Results that were not taken yet take no room.
        for _ in 0..20 {
            let receives: Vec<_> = (0..8).map(|_| there.endpoint.receive([])).collect();
            let sends: Vec<_> = (0..8).map(|_| here.endpoint.send([], NONE)).collect();
            let (received, sent) = block_on(join(join_all(receives), join_all(sends)));
            assert!(received.iter().chain(&sent).all(Result::is_ok));
        }
        let mut receives: Vec<_> = (0..32).map(|_| there.endpoint.receive([])).collect();
        let full = block_on(there.endpoint.receive([])).unwrap_err();
        assert_eq!(full.status(), Status::NO_MORE_ENTRIES);
        // Dropped ones are still outstanding.
        receives.truncate(16);
        let full = block_on(there.endpoint.receive([])).unwrap_err();
        assert_eq!(full.status(), Status::NO_MORE_ENTRIES);
        let sends = join_all((0..17).map(|_| here.endpoint.send([], NONE)));
        let (received, sent) = block_on(join(join_all(receives), sends));
        assert!(received.iter().chain(&sent).all(Result::is_ok));
        let room = there.endpoint.receive([]);
        let (room, sent) = block_on(join(room, async {
            // Behind those that were dropped.
            join_all((0..16).map(|_| here.endpoint.send([], NONE))).await
        }));
        assert!(sent.iter().all(Result::is_ok));
        assert!(room.is_ok());
    });
}

#[test]
fn a_slice_of_a_buffer_is_registered_as_a_slice() {
    everywhere(|network| {
        let (here, there) = pair(network);
        let whole = Buffer::new(4096);
        let slice = whole.slice(1000..1100);
        let memory = block_on(there.adapter.register(&slice, ALL)).unwrap();
        assert_eq!(memory.len(), 100);
        assert_eq!(memory.remote(0).address, whole.address() + 1000);
        assert_eq!(memory.sge(..).length, 100);
        here.memory.write(0, b"first");
        here.memory.write(95, b"last ");
        let written = here
            .endpoint
            .write([here.memory.part(..100)], memory.remote(0), NONE);
        block_on(written).unwrap();
        // A Read behind the Write finds what the Write has placed.
        block_on(
            here.endpoint
                .read([here.memory.part(200..300)], memory.remote(0), NONE),
        )
        .unwrap();
        assert_eq!(whole.slice(1000..1005).to_vec(), b"first");
        assert_eq!(whole.slice(1095..1100).to_vec(), b"last ");
        assert_eq!(here.memory.slice(200..205).to_vec(), b"first");
        // The rest of the buffer is not open.
        let one_more = here
            .endpoint
            .read([here.memory.part(..101)], memory.remote(0), NONE);
        assert!(block_on(one_more).is_err());
    });
}

/// Registered memory of a request, which the caller has dropped, and the region by which its end is seen.
fn given_away(adapter: &AsyncAdapter) -> (RegisteredBuffer, Weak<dyn MemoryRegion>) {
    let memory = memory(adapter, 64);
    let region = Arc::downgrade(memory.region());
    (memory, region)
}

#[test]
fn mr_034_memory_stays_registered_until_the_request_has_ended_and_no_longer() {
    everywhere(|network| {
        let (here, there) = pair(network);
        for polls in 0..6 {
            let (buffer, region) = given_away(&there.adapter);
            let content = buffer.whole();
            let mut received = there.endpoint.receive([buffer.part(..)]);
            drop(buffer);
            // Dropped after some polls: the request goes on.
            for _ in 0..polls {
                assert!(poll(pin!(&mut received)).is_pending());
            }
            drop(received);
            assert!(region.strong_count() > 0);
            block_on(here.endpoint.send([here.memory.part(..7)], NONE)).unwrap();
            // The next one ends behind it.
            let received = there.endpoint.receive([]);
            let sent = here.endpoint.send([], NONE);
            let (received, sent) = block_on(join(received, sent));
            assert!(received.is_ok() && sent.is_ok());
            assert_eq!(region.strong_count(), 0);
            assert_eq!(content.len(), 64);
        }
    });
}

/// The endpoint was dropped, but the queue pair lives on with its connection.
#[test]
fn mr_034_memory_stays_registered_where_the_endpoint_was_dropped() {
    everywhere(|network| {
        let (here, there) = pair(network);
        let (buffer, region) = given_away(&there.adapter);
        let content = buffer.whole();
        drop(there.endpoint.receive([buffer.part(..)]));
        drop((buffer, there.endpoint));
        here.memory.write(0, b"to whom");
        block_on(here.endpoint.send([here.memory.part(..7)], NONE)).unwrap();
        // The connection is still whole: a Receive whose memory is gone would have ended it.
        let read = here
            .endpoint
            .read([here.memory.part(..1)], there.memory.remote(0), NONE);
        block_on(read).unwrap();
        assert_eq!(content.slice(..7).to_vec(), b"to whom");
        let end = Instant::now() + LONG;
        while region.strong_count() > 0 {
            assert!(Instant::now() < end, "nobody releases the memory");
            network.look(&there.adapter);
        }
        block_on(there.connection.disconnect()).unwrap();
    });
}

#[test]
fn conn_113_the_end_of_the_connection_ends_all_requests() {
    everywhere(|network| {
        for how in 0..4 {
            let (here, there) = pair(network);
            let receives: Vec<_> = (0..5)
                .map(|_| here.endpoint.receive([here.memory.part(..)]))
                .collect();
            match how {
                0 => block_on(here.connection.disconnect()).unwrap(),
                1 => block_on(there.connection.disconnect()).unwrap(),
                2 => here.endpoint.flush().unwrap(),
                _ => drop((here.endpoint, here.connection)),
            }
            for ended in block_on(join_all(receives)) {
                assert_eq!(ended.unwrap_err().status(), Status::CANCELED);
            }
        }
    });
}

/// The words of a failed request are those of its queue pair, which knows who ended the connection.
#[test]
fn a_failed_request_says_who_ended_the_connection() {
    let flushed = |receive: Request| {
        let error = block_on(receive).unwrap_err();
        assert_eq!(error.status(), Status::CANCELED);
        error.what().to_owned()
    };
    everywhere(|network| {
        for (how, words) in ["this side disconnected", "the peer disconnected"]
            .into_iter()
            .enumerate()
        {
            let (here, there) = pair(network);
            let receive = here.endpoint.receive([]);
            let connection = [&here.connection, &there.connection][how];
            block_on(connection.disconnect()).unwrap();
            let expected = format!("the connection ended before the request was done: {words}");
            assert_eq!(flushed(receive), expected);
        }

        let (here, there) = pair(network);
        let (receive, late) = (here.endpoint.receive([]), here.endpoint.receive([]));
        let short = there.endpoint.receive([there.memory.part(..8)]);
        drop(there.endpoint.receive([]));
        drop(here.endpoint.send([here.memory.part(..64)], NONE));
        let error = block_on(short).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ND_BUFFER_OVERFLOW: the message was longer than this Receive"
        );
        let said = flushed(receive);
        assert!(
            said.contains("the peer found an error") && said.contains("1/2/05"),
            "{said}"
        );

        // Nobody can say more when the queue pair is gone.
        drop((here.endpoint, here.connection));
        let said = flushed(late);
        assert!(
            said.starts_with("the queue pair was flushed, or its connection ended"),
            "{said}"
        );
    });
}

#[test]
fn gen_015_the_removal_of_the_device_ends_all_futures() {
    everywhere(|network| {
        let (here, _there) = pair(network);
        let mut waiting = here.endpoint.receive([here.memory.part(..)]);
        assert!(poll(pin!(&mut waiting)).is_pending());
        let unpolled = here.endpoint.receive([]);
        let dropped = here.endpoint.receive([]);
        inject(&here.adapter, Fault::RemoveDevice);
        drop(dropped);
        for request in [waiting, unpolled] {
            let status = block_on(request).unwrap_err().status();
            // Which comes first is left open.
            let expected = [Status::DEVICE_REMOVED, Status::CANCELED];
            assert!(expected.contains(&status), "{status}");
        }
        let status = block_on(here.endpoint.receive([])).unwrap_err().status();
        assert_eq!(status, Status::DEVICE_REMOVED);
    });
}

#[test]
fn cq_024_where_notify_lacks_resources_requests_end_all_the_same() {
    everywhere(|network| {
        let (here, there) = pair(network);
        for _ in 0..3 {
            for nth in 1..10 {
                let fault = Fault::Call {
                    call: Call::NotifyCompletionQueue,
                    nth,
                    status: Status::INSUFFICIENT_RESOURCES,
                };
                inject(&there.adapter, fault);
            }
            let received = there.endpoint.receive([]);
            let sent = async {
                let first = there.endpoint.receive([]);
                here.endpoint.send([], NONE).await.unwrap();
                here.endpoint.send([], NONE).await.unwrap();
                first.await.unwrap();
            };
            let (received, ()) = block_on(join(received, sent));
            received.unwrap();
        }
    });
}

#[test]
fn tasks_of_many_threads_share_an_endpoint() {
    let (here, there) = pair(&Network::Tcp);
    thread::scope(|scope| {
        for thread in 0..4u8 {
            let (here, there) = (&here, &there);
            scope.spawn(move || {
                let at = usize::from(thread) * 64;
                for round in 0..60u8 {
                    let part = || here.memory.part(at..at + 32);
                    here.memory.write(at, &[round; 32]);
                    let target = there.memory.remote(at);
                    let written = here.endpoint.write([part()], target, NONE);
                    if round % 3 == 0 {
                        drop(written);
                    } else {
                        block_on(written).unwrap();
                    }
                    let back = here.memory.part(at + 32..at + 64);
                    block_on(here.endpoint.read([back], target, NONE)).unwrap();
                    let read = here.memory.slice(at + 32..at + 64).to_vec();
                    assert_eq!(read, [round; 32]);
                }
            });
        }
    });
}

/// The steps of a program with the requests of an endpoint.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Posts a Receive.
    Receive,
    /// Sends a message, without waiting.
    Send,
    /// Polls one of the futures once.
    Poll(usize),
    Drop(usize),
    Await(usize),
    /// Lets the network go on.
    Idle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Receive),
        3 => Just(Step::Send),
        2 => any::<usize>().prop_map(Step::Poll),
        1 => any::<usize>().prop_map(Step::Drop),
        1 => any::<usize>().prop_map(Step::Await),
        2 => Just(Step::Idle),
    ]
}

/// The receiver of a program: what its requests are to tell.
#[derive(Default)]
struct Model {
    posted: usize,
    sent: usize,
    futures: BTreeMap<usize, Request>,
}

impl Model {
    /// The future of a Receive, picked by any number. The n-th Receive gets the n-th message, whose length is n.
    fn pick(&mut self, number: usize) -> Option<(usize, Request)> {
        let nth = number % self.futures.len().max(1);
        let key = *self.futures.keys().nth(nth)?;
        Some((key, self.futures.remove(&key)?))
    }

    fn check(&self, key: usize, ended: netdirect::Result<netdirect::CompletionResult>) {
        assert!(key < self.sent);
        let length = usize::try_from(ended.unwrap().bytes_transferred).unwrap();
        assert_eq!(length, key);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_program_sees_the_result_of_another_request(seed in 0..1000u64, steps in prop::collection::vec(step(), 0..80)) {
        let simulation = Simulation::new(seed);
        let network = Network::Simulated(simulation.clone());
        let (here, there) = pair(&network);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Receive if model.posted < 30 => {
                    let received = there.endpoint.receive([there.memory.part(..64)]);
                    model.futures.insert(model.posted, received);
                    model.posted += 1;
                }
                Step::Send if model.sent < model.posted => {
                    drop(here.endpoint.send([here.memory.part(..model.sent)], NONE));
                    model.sent += 1;
                }
                Step::Poll(number) => {
                    if let Some((key, mut future)) = model.pick(number) {
                        match poll(pin!(&mut future)) {
                            std::task::Poll::Ready(ended) => model.check(key, ended),
                            std::task::Poll::Pending => drop(model.futures.insert(key, future)),
                        }
                    }
                }
                Step::Drop(number) => drop(model.pick(number)),
                Step::Await(number) => {
                    if let Some((key, future)) = model.pick(number) {
                        if key < model.sent {
                            model.check(key, block_on(future));
                        } else {
                            model.futures.insert(key, future);
                        }
                    }
                }
                Step::Idle => drop(simulation.step()),
                Step::Receive | Step::Send => {}
            }
        }
        // Those that are left get theirs.
        for length in model.sent..model.posted {
            drop(here.endpoint.send([here.memory.part(..length)], NONE));
        }
        model.sent = model.posted;
        while let Some((key, future)) = model.pick(7) {
            model.check(key, block_on(future));
        }
    }
}

/// The clock of a simulation does not run past time limits while one of many tasks has something to do.
#[test]
fn many_endpoints_of_one_task_get_their_answers_in_a_simulation() {
    for seed in 0..2 {
        let network = Network::Simulated(Simulation::new(seed));
        let (here, there) = (network.open(1), network.open(2));
        let listener = network.listen(&there, ListenerOptions::default());
        let address = listener.local_address().unwrap();
        let clients = join_all((0..30).map(|_| async {
            let endpoint = endpoint(&here);
            let mut answer = endpoint.receive([]);
            let connection = here.connect(endpoint.queue_pair(), address).await.unwrap();
            for _ in 0..5 {
                endpoint.send([], NONE).await.unwrap();
                answer.await.unwrap();
                answer = endpoint.receive([]);
            }
            connection.disconnect().await.unwrap();
        }));
        let servers = join_all((0..30).map(|_| async {
            let request = listener.get_connection_request().await.unwrap();
            let endpoint = endpoint(&there);
            let mut question = endpoint.receive([]);
            let connection = request.accept(endpoint.queue_pair()).await.unwrap();
            for _ in 0..5 {
                question.await.unwrap();
                question = endpoint.receive([]);
                endpoint.send([], NONE).await.unwrap();
            }
            connection.disconnected().await.unwrap();
        }));
        block_on(join(clients, servers));
    }
}
