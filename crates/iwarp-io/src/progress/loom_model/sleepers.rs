//! Several threads that sleep in one group of waiters: each is woken for its own request, and a thread that leaves hands its place on.

use super::*;

/// Any waiting thread drives the control set, whatever request it waits for.
#[test]
fn a_thread_that_goes_leaves_the_control_set_to_others() {
    a_thread_goes_from_the_control_set(Second::HasASet);
}

#[test]
fn a_thread_that_goes_leaves_the_control_set_to_the_thread_that_follows() {
    a_thread_goes_from_the_control_set(Second::Follows);
}

fn a_thread_goes_from_the_control_set(kind: Second) {
    model(2, move || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, usize::MAX);
        connection.drive_from(&world.control);
        kind.begin();
        let other = Arc::new(Request::default());
        let (sender, ended, at) = (
            Arc::clone(&connection),
            Arc::clone(&other),
            Arc::clone(&world),
        );
        let peer = move || {
            sender.stream.peer_sends(0, true);
            ended.end();
            at.waiters.wake();
        };
        beside_nobody(peer, || {
            let second = {
                let (world, other) = (Arc::clone(&world), Arc::clone(&other));
                thread::spawn(move || world.wait(&other))
            };
            world.wait(&connection.ended);
            second.join().unwrap();
        });
    });
}

/// A thread that has a report of a stream stops waiting because its own request has ended elsewhere. Another thread waits
/// for the stream.
#[test]
fn a_thread_that_goes_leaves_nothing_behind() {
    a_thread_goes_with_work_undone(Second::HasASet);
}

#[test]
fn a_thread_that_goes_leaves_nothing_behind_to_the_thread_that_follows() {
    a_thread_goes_with_work_undone(Second::Follows);
}

fn a_thread_goes_with_work_undone(kind: Second) {
    model(2, move || {
        let world = World::new();
        let queue = Queue::new(&world).unwrap();
        let connection = Connection::new(&queue, 1);
        queue.arm();
        kind.begin();
        let other = Arc::new(Request::default());
        let (sender, ended, at) = (
            Arc::clone(&connection),
            Arc::clone(&other),
            Arc::clone(&world),
        );
        let peer = move || {
            sender.stream.peer_sends(1, false);
            ended.end();
            at.waiters.wake();
        };
        beside_nobody(peer, || {
            let second = {
                let (world, other) = (Arc::clone(&world), Arc::clone(&other));
                thread::spawn(move || world.wait(&other))
            };
            world.wait(&connection.received.1);
            second.join().unwrap();
        });
    });
}

/// Each thread is woken for its own request, whichever thread is in front.
#[test]
fn threads_are_woken_for_what_they_wait_for() {
    each_thread_is_woken_for_its_own_request(Second::HasASet);
}

#[test]
fn a_thread_that_follows_is_woken_for_what_it_waits_for() {
    each_thread_is_woken_for_its_own_request(Second::Follows);
}

fn each_thread_is_woken_for_its_own_request(kind: Second) {
    model(2, move || {
        let world = World::new();
        kind.begin();
        let requests = [(); 2].map(|()| Arc::new(Request::default()));
        let [first, second] = requests.clone();
        let at = Arc::clone(&world);
        let peer = move || {
            for (request, number) in requests.iter().zip(1..) {
                request.end();
                at.waiters.wake_for(&|awaited| awaited == number);
            }
        };
        beside_nobody(peer, || {
            let other = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.wait_for(2, &second))
            };
            world.wait_for(1, &first);
            other.join().unwrap();
        });
    });
}

/// A third thread arrives: the second one gives up its set, and follows or comes to the front.
#[test]
fn a_third_thread_makes_the_second_one_follow() {
    model(1, || {
        let world = World::new();
        let requests = [(); 3].map(|()| Arc::new(Request::default()));
        let [first, second, third] = requests.clone();
        let at = Arc::clone(&world);
        let peer = move || {
            for (request, number) in requests.iter().zip(1..) {
                request.end();
                at.waiters.wake_for(&|awaited| awaited == number);
            }
        };
        beside_nobody(peer, || {
            let others = [(2, second), (3, third)].map(|(number, request)| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.wait_for(number, &request))
            });
            world.wait_for(1, &first);
            for other in others {
                other.join().unwrap();
            }
        });
    });
}
