//! A thread that asks its hot streams before it sleeps. Meanwhile streams may stay out of the set, so nothing else would report them.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use crate::progress::Readiness;

use super::{Connection, Queue, World, beside, beside_nobody, model, polled};

/// A queue whose stream has left the set, and threads that ask.
fn asking(goal: usize) -> (Arc<World>, Arc<Queue>, Arc<Connection>) {
    let world = World::new();
    let (queue, connection) = polled(&world, goal);
    world.waiters.ask_for(Duration::from_secs(3600));
    (world, queue, connection)
}

/// Runs `client` while the peer sends one octet.
fn while_an_octet_comes(connection: &Arc<Connection>, client: impl FnOnce()) {
    let sender = Arc::clone(connection);
    beside_nobody(move || sender.stream.peer_sends(1, false), client);
}

/// The octet comes before the thread asks, while it asks, while it puts the stream back, or while it sleeps.
#[test]
fn a_thread_that_asks_first_is_woken() {
    model(3, || {
        let (world, queue, connection) = asking(3);
        while_an_octet_comes(&connection, || {
            queue.arm();
            assert!(queue.domain.is_apart());
            world.wait(&connection.received.1);
        });
    });
}

/// The stream leaves the set while the thread asks, and its last octet comes after that.
#[test]
fn a_stream_that_leaves_while_a_thread_asks_is_back_before_it_sleeps() {
    model(2, || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, 3);
        connection.stream.peer_sends(1, false);
        queue.poll();
        world.waiters.ask_for(Duration::from_secs(3600));
        let sender = Arc::clone(&connection);
        beside_nobody(
            move || {
                sender.stream.peer_sends(1, false);
                sender.stream.peer_sends(1, false);
            },
            || {
                queue.arm();
                world.wait(&connection.received.1);
            },
        );
    });
}

/// One thread sleeps already, or is about to, when another one begins a Notify.
#[test]
fn a_thread_that_sleeps_already_is_woken() {
    model(2, || {
        let (world, queue, connection) = asking(3);
        let sleeper = {
            let (world, connection) = (Arc::clone(&world), Arc::clone(&connection));
            thread::spawn(move || world.wait(&connection.received.1))
        };
        let sender = Arc::clone(&connection);
        beside_nobody(move || sender.stream.peer_sends(1, false), || queue.arm());
        sleeper.join().unwrap();
    });
}

/// The thread that has begun a Notify does not wait for it, so the background thread serves the queue.
#[test]
fn a_thread_that_does_not_wait_leaves_its_streams_to_the_background_thread() {
    model(2, || {
        let (world, queue, connection) = asking(3);
        let sender = Arc::clone(&connection);
        beside(
            &world,
            move || sender.stream.peer_sends(1, false),
            || {
                queue.notify();
                while !connection.received.1.is_done() {
                    thread::yield_now();
                }
            },
        );
    });
}

/// A thread that polls its request, instead of waiting, finds what it waits for.
#[test]
fn a_thread_that_polls_its_request_finds_what_comes() {
    model(2, || {
        let (world, queue, connection) = asking(3);
        while_an_octet_comes(&connection, || {
            queue.arm();
            while !connection.received.1.is_done() {
                world.waiters.progress();
                thread::yield_now();
            }
        });
    });
}

/// A thread that begins to wait outside after the Notify is woken.
#[test]
fn a_thread_that_waits_outside_after_a_notify_is_woken() {
    model(2, || {
        let (world, queue, connection) = asking(3);
        while_an_octet_comes(&connection, || {
            queue.arm();
            while !connection.received.1.is_done() {
                Readiness::wait(world.waiters.outside(), None, |_| {}).unwrap();
                world.waiters.progress();
            }
        });
    });
}
