//! The examples do what they say.

#[path = "../../examples/file_copy.rs"]
#[allow(dead_code, unreachable_pub, reason = "a program of its own")]
mod file_copy;
#[path = "../../examples/journal.rs"]
#[allow(dead_code, unreachable_pub, reason = "a program of its own")]
mod journal;
#[path = "../../examples/key_value.rs"]
#[allow(dead_code, unreachable_pub, reason = "a program of its own")]
mod key_value;
#[path = "../../examples/many_clients.rs"]
#[allow(dead_code, unreachable_pub, reason = "a program of its own")]
mod many_clients;

use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use netdirect::{Buffer, MrFlags, OpFlags, QueuePairOptions, Status};
use netdirect_async::{AsyncAdapter, AsyncListener, ListenerOptions};
use softnd::Options;
use softnd::simulation::{Conditions, Simulation};

/// A client and a server on their own adapters, in one thread.
struct Pair {
    client: AsyncAdapter,
    server: AsyncAdapter,
    listener: AsyncListener,
}

impl Pair {
    fn over_tcp() -> Self {
        let open = || softnd::open("softnd+tcp://127.0.0.1", Options::default()).unwrap();
        let [client, server] = [(); 2].map(|()| AsyncAdapter::new(&open()).unwrap());
        Self::between(client, server)
    }

    fn simulated(seed: u64) -> Self {
        Self::with_plan(seed, "")
    }

    /// In a simulated network, with a client that follows a plan.
    fn with_plan(seed: u64, plan: &str) -> Self {
        let options = Options::default().faults(plan.parse().unwrap());
        Self::in_network(&Simulation::new(seed), options.unwrap())
    }

    fn in_network(network: &Simulation, options_of_client: Options) -> Self {
        let client = network.open([10, 0, 0, 1], options_of_client).unwrap();
        let server = network.open([10, 0, 0, 2], Options::default()).unwrap();
        Self::between(
            AsyncAdapter::new(&client).unwrap(),
            AsyncAdapter::new(&server).unwrap(),
        )
    }

    fn between(client: AsyncAdapter, server: AsyncAdapter) -> Self {
        let address = server.adapter().query_address_list().unwrap()[0];
        let listener = server.listen(address, ListenerOptions::default()).unwrap();
        Self {
            client,
            server,
            listener,
        }
    }

    fn address(&self) -> std::net::SocketAddr {
        self.listener.local_address().unwrap()
    }
}

/// A time limit that ends a hanging test. Nothing takes this long on the slowest machine.
const LONG: Duration = Duration::from_secs(120);

/// Runs a test over TCP where softnd can use the system's sockets, and in simulated networks.
fn everywhere(test: impl Fn(Pair)) {
    if !cfg!(windows) {
        test(Pair::over_tcp());
    }
    for seed in 0..4 {
        eprintln!("seed {seed}");
        test(Pair::simulated(seed));
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(LONG, future).await });
    ended.expect("a test that does not hang")
}

/// Runs a client while a server runs that does not end.
async fn beside<T>(
    server: impl Future<Output = netdirect::Result<()>>,
    client: impl Future<Output = T>,
) -> T {
    match select(pin!(client), pin!(server)).await {
        Either::Left((output, _)) => output,
        Either::Right((ended, _)) => panic!("the server has ended: {ended:?}"),
    }
}

/// Octets that repeat nowhere near a block's length.
fn octets(count: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn file_copy_copies_files_of_any_length() {
    everywhere(|pair| {
        let block = file_copy::BLOCK;
        for count in [0, 1, block, 6 * block + 17] {
            let (file, mut copy) = (octets(count), Vec::new());
            let sending = file_copy::send(&pair.client, pair.address(), &file[..]);
            let receiving = file_copy::receive(&pair.server, &pair.listener, &mut copy);
            let (sent, received) = block_on(join(sending, receiving));
            assert_eq!(sent.unwrap(), count as u64);
            assert_eq!(received.unwrap(), count as u64);
            assert!(copy == file, "{count} octets");
        }
    });
}

#[test]
fn file_copy_between_two_threads() {
    let (address, there) = mpsc::channel();
    let file = octets(9 * file_copy::BLOCK + 1);
    let copy = thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let mut copy = Vec::new();
            let pair = Pair::over_tcp();
            address.send(pair.address()).unwrap();
            let receiving = file_copy::receive(&pair.server, &pair.listener, &mut copy);
            block_on(receiving).unwrap();
            copy
        });
        let client = Pair::over_tcp().client;
        block_on(file_copy::send(&client, there.recv().unwrap(), &file[..])).unwrap();
        receiver.join().unwrap()
    });
    assert!(copy == file);
}

#[test]
fn file_copy_finds_a_changed_octet_by_its_checksum() {
    let plan = "when 3rd Write sent: flip bit 9 of payload with good CRC";
    let pair = Pair::with_plan(1, plan);
    let (file, mut copy) = (octets(5 * file_copy::BLOCK), Vec::new());
    let sending = file_copy::send(&pair.client, pair.address(), &file[..]);
    let receiving = file_copy::receive(&pair.server, &pair.listener, &mut copy);
    let (sent, received) = block_on(join(sending, receiving));
    for failure in [sent.unwrap_err(), received.unwrap_err()] {
        assert!(failure.to_string().contains("checksum"), "{failure}");
    }
    let differ = file.iter().zip(&copy).filter(|(a, b)| a != b).count();
    assert_eq!((differ, copy.len()), (1, file.len()));
}

#[test]
fn file_copy_ends_on_both_sides_when_the_connection_does() {
    let pair = Pair::with_plan(1, "when 5th Write sent: reset after octet 1000");
    let (file, mut copy) = (octets(9 * file_copy::BLOCK), Vec::new());
    let sending = file_copy::send(&pair.client, pair.address(), &file[..]);
    let receiving = file_copy::receive(&pair.server, &pair.listener, &mut copy);
    let (sent, received) = block_on(join(sending, receiving));
    for failure in [sent.unwrap_err(), received.unwrap_err()] {
        assert!(failure.to_string().contains("CANCELED"), "{failure}");
    }
    assert!(file.starts_with(&copy) && copy.len() < file.len());
}

#[test]
fn key_value_finds_what_was_put() {
    everywhere(|pair| {
        block_on(async {
            // As many pairs as slots, so that keys share first slots, and the last search goes through all of them.
            let mut table = key_value::Table::new(&pair.server, 8).await.unwrap();
            let pairs = (0..8).map(|n| (format!("key {n}"), format!("value {n}")));
            for (key, value) in pairs.clone() {
                table.put(key.as_bytes(), b"an older one").unwrap();
                table.put(key.as_bytes(), value.as_bytes()).unwrap();
            }
            assert!(table.put(b"one more", b"").is_err());
            let place = table.place();
            let server = key_value::serve(&pair.server, &pair.listener, &place);
            let client = async {
                let connect = key_value::Client::connect(&pair.client, pair.address());
                let mut client = connect.await.unwrap();
                for (key, value) in pairs {
                    let got = client.get(key.as_bytes()).await.unwrap();
                    assert_eq!(got.as_deref(), Some(value.as_bytes()));
                }
                assert_eq!(client.get(b"one more").await.unwrap(), None);
                client.disconnect().await.unwrap();
            };
            beside(server, client).await;
        });
    });
}

/// Polls a future up to this number of times, with everything that runs at the same time.
async fn polled<F: Future>(times: usize, mut future: Pin<&mut F>) -> Option<F::Output> {
    for _ in 0..times {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[test]
fn key_value_reads_again_what_changes_meanwhile() {
    let (mut read_again, mut polls) = (0, 0);
    loop {
        let pair = Pair::simulated(1);
        let done = block_on(async {
            let mut table = key_value::Table::new(&pair.server, 8).await.unwrap();
            table.put(b"key", b"old").unwrap();
            // The server has changed half of the slot.
            let octets = table.memory.to_vec();
            let at = octets.windows(6).position(|here| here == b"keyold");
            table.memory.write(at.unwrap() + 3, b"ne");
            let place = table.place();
            let server = key_value::serve(&pair.server, &pair.listener, &place);
            let client = async {
                let connect = key_value::Client::connect(&pair.client, pair.address());
                let mut client = connect.await.unwrap();
                let mut get = Box::pin(client.get(b"key"));
                let early = polled(polls, get.as_mut()).await;
                assert!(early.is_none(), "an answer from half a slot: {early:?}");
                // The server changes the other half.
                table.put(b"key", b"new").unwrap();
                let got = get.await.unwrap();
                assert_eq!(got.as_deref(), Some(&b"new"[..]), "after {polls} polls");
                client.changed
            };
            beside(server, client).await
        });
        read_again += usize::from(done > 0);
        polls += 1;
        if done >= 3 {
            break;
        }
    }
    assert!(read_again > 2, "{read_again} of {polls} runs");
}

#[test]
fn key_value_waits_for_a_slot_to_settle_until_its_time_is_up() {
    let pair = Pair::simulated(1);
    block_on(async {
        let mut table = key_value::Table::new(&pair.server, 8).await.unwrap();
        table.put(b"key", b"value").unwrap();
        let octets = table.memory.to_vec();
        let at = octets.windows(3).position(|here| here == b"key").unwrap();
        table.memory.write(at + 3, b"V");
        let place = table.place();
        let server = key_value::serve(&pair.server, &pair.listener, &place);
        let client = async {
            let connect = key_value::Client::connect(&pair.client, pair.address());
            let mut client = connect.await.unwrap();
            // Given up at any poll, a lookup leaves nothing behind that the next one could mistake.
            for polls in 0..50 {
                let get = polled(polls, pin!(client.get(b"key"))).await;
                assert!(get.is_none(), "an answer from half a slot: {get:?}");
            }
            assert!(client.changed > 0);
            table.put(b"key", b"value").unwrap();
            let got = client.get(b"key").await.unwrap();
            assert_eq!(got.as_deref(), Some(&b"value"[..]));
        };
        beside(server, client).await;
    });
}

#[test]
fn key_value_under_a_server_that_changes_all_the_time() {
    let (address, there) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let pair = Pair::over_tcp();
            let mut table = block_on(key_value::Table::new(&pair.server, 8)).unwrap();
            table.put(b"key", &[0; 200]).unwrap();
            let place = table.place();
            address.send(pair.address()).unwrap();
            let mut serving = pin!(key_value::serve(&pair.server, &pair.listener, &place));
            let mut context = Context::from_waker(Waker::noop());
            for n in (0..=u8::MAX).cycle() {
                assert!(serving.as_mut().poll(&mut context).is_pending());
                table.put(b"key", &[n; 200]).unwrap();
                if stopped.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
                    break;
                }
            }
        });
        let adapter = Pair::over_tcp().client;
        block_on(async {
            let connect = key_value::Client::connect(&adapter, there.recv().unwrap());
            let mut client = connect.await.unwrap();
            for _ in 0..500 {
                let value = client.get(b"key").await.unwrap().unwrap();
                assert!(value == [value[0]; 200], "parts of two values: {value:?}");
            }
            eprintln!("{} slots changed while they were read", client.changed);
            client.disconnect().await.unwrap();
        });
        drop(stop);
    });
}

/// A client that asks so often, and gets the right answers.
async fn asks(pair: &Pair, name: usize, times: usize) {
    let connect = many_clients::Client::connect(&pair.client, pair.address());
    let client = connect.await.unwrap();
    for n in 0..times {
        let text = format!("client {name}, question {n}");
        let answer = client.ask(text.as_bytes()).await.unwrap();
        assert_eq!(answer, text.to_uppercase().as_bytes());
    }
    client.disconnect().await.unwrap();
}

#[test]
fn many_clients_get_their_own_answers() {
    for seed in 0..4 {
        let pair = Pair::simulated(seed);
        block_on(async {
            let server = many_clients::Server::new(&pair.server, 128).await.unwrap();
            let all = join_all((0..100).map(|name| asks(&pair, name, 2)));
            beside(server.run(&pair.listener), all).await;
        });
    }
}

#[test]
fn many_clients_may_be_more_than_the_receives() {
    let pair = Pair::over_tcp();
    block_on(async {
        let clients = many_clients::RECEIVES + 36;
        let server = many_clients::Server::new(&pair.server, clients)
            .await
            .unwrap();
        let all = join_all((0..clients as usize).map(|name| asks(&pair, name, 10)));
        beside(server.run(&pair.listener), all).await;
    });
}

/// Connects without the manners of [`many_clients::Client`], and sends a message of this length, for which it posts no Receive.
async fn sends(pair: &Pair, length: usize) -> netdirect_async::Connection {
    let cq = pair.client.completion_queue(16).unwrap();
    let adapter = pair.client.adapter();
    let options = QueuePairOptions::default();
    let qp = adapter.create_queue_pair(&cq, &cq, options).unwrap();
    let buffer = Buffer::new(length);
    let memory = pair.client.register(&buffer, MrFlags::empty());
    let memory = memory.await.unwrap();
    let connection = pair.client.connect(&qp, pair.address()).await.unwrap();
    let message = [memory.sge(..)];
    qp.send(0, &message, OpFlags::empty()).unwrap();
    connection
}

#[test]
fn many_clients_survive_those_who_break_off_or_send_too_much() {
    everywhere(|pair| {
        block_on(async {
            let server = many_clients::Server::new(&pair.server, 128).await.unwrap();
            let clients = async {
                asks(&pair, 0, 1).await;
                // More often than there are Receives: each of them has to come back.
                for n in 0..many_clients::RECEIVES as usize + 8 {
                    let too_long = many_clients::MESSAGE as usize + 1;
                    let connection = sends(&pair, too_long).await;
                    connection.disconnected().await.unwrap();
                    // A client that is gone before its answer.
                    drop(sends(&pair, 1).await);
                    if n % 16 == 0 {
                        asks(&pair, n, 1).await;
                    }
                }
                asks(&pair, 1, 3).await;
            };
            beside(server.run(&pair.listener), clients).await;
        });
    });
}

#[test]
fn many_clients_do_not_wait_for_one_that_takes_no_answers() {
    let mut conditions = Conditions::default();
    conditions.buffer = 4096;
    let network = Simulation::with(1, conditions);
    // The client's side would not end the connection for a long time.
    let options = Options::default().receive_wait(10 * LONG);
    let pair = Pair::in_network(&network, options);
    block_on(async {
        let server = many_clients::Server::new(&pair.server, 32).await.unwrap();
        let clients = async {
            let questions = 1000;
            let options = QueuePairOptions::default().initiator_queue_depth(questions);
            let endpoint = pair.client.endpoint(options).unwrap();
            let connect = pair.client.connect(endpoint.queue_pair(), pair.address());
            let connection = connect.await.unwrap();
            // No Receive takes the answers.
            for _ in 0..questions {
                drop(endpoint.send([], OpFlags::empty()));
            }
            asks(&pair, 1, 3).await;
            connection.disconnected().await.unwrap();
            asks(&pair, 1, 3).await;
        };
        beside(server.run(&pair.listener), clients).await;
    });
    assert!(network.time() < LONG, "{:?}", network.time());
}

#[test]
fn many_clients_are_no_more_than_the_server_has_room_for() {
    everywhere(|pair| {
        block_on(async {
            let most = 3;
            let server = many_clients::Server::new(&pair.server, most).await.unwrap();
            let clients = async {
                let connect = || many_clients::Client::connect(&pair.client, pair.address());
                let mut clients = Vec::new();
                for _ in 0..most {
                    clients.push(connect().await.unwrap());
                }
                let refused = connect().await.map(drop).unwrap_err();
                assert_eq!(refused.status(), Status::CONNECTION_REFUSED);
                for client in &clients {
                    assert_eq!(client.ask(b"still there?").await.unwrap(), b"STILL THERE?");
                }
                // One goes, another one may come.
                clients.pop().unwrap().disconnect().await.unwrap();
                while server.clients() == most as usize {
                    tokio::task::yield_now().await;
                }
                asks(&pair, 0, 1).await;
            };
            beside(server.run(&pair.listener), clients).await;
        });
    });
}

/// The blocks of code on the guide's page about the examples.
#[test]
fn the_guide_shows_the_code_of_the_examples() {
    const PAGE: &str = include_str!("../../pages/examples.md");
    const EXAMPLES: [&str; 4] = [
        include_str!("../../examples/file_copy.rs"),
        include_str!("../../examples/journal.rs"),
        include_str!("../../examples/key_value.rs"),
        include_str!("../../examples/many_clients.rs"),
    ];
    let blocks = PAGE.split("```rust,ignore\n").skip(1);
    let blocks: Vec<&str> = blocks
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(blocks.len() > 4, "{} blocks", blocks.len());
    for block in blocks {
        let is_there = EXAMPLES.iter().any(|example| example.contains(block));
        assert!(is_there, "no example has this code:\n{block}");
    }
}
