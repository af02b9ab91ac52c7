//! A completion queue as a stream: no result is lost and none comes twice, whichever future is dropped.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::common::{Network, Side, block_on, everywhere, poll, polled, simulated};
use futures_util::future::join;
use futures_util::stream::{Stream, StreamExt};
use netdirect::{Call, CompletionQueue, CompletionResult, Fault, OpFlags, QueuePair, Status};
use netdirect_async::{AsyncAdapter, CompletionStream, Connection, ListenerOptions};
use proptest::prelude::*;
use softnd::simulation::Simulation;

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

fn sides(network: &Network) -> (Side, Side) {
    (Side::new(&network.open(1)), Side::new(&network.open(2)))
}

/// The next events of an idle connection are time limits, which a poll does not jump to.
#[test]
fn a_poll_moves_the_clock_of_a_simulation_by_no_more_than_100_us() {
    simulated(|network| {
        let Network::Simulated(simulation) = network else {
            unreachable!("it is simulated");
        };
        let (here, there) = sides(network);
        let _connections = connected(network, &here, &there);
        let mut results = CompletionStream::new(&there.cq);
        let mut next = pin!(results.next());
        for _ in 0..100 {
            let before = simulation.time();
            assert!(poll(next.as_mut()).is_pending());
            let moved = simulation.time() - before;
            assert!(moved <= Duration::from_micros(100), "{moved:?}");
        }
    });
}

fn inject(adapter: &AsyncAdapter, fault: Fault) {
    let extensions = adapter.adapter().extensions().unwrap();
    extensions.inject(fault).unwrap();
}

#[test]
fn cq_036_every_result_comes_once_and_in_order() {
    everywhere(|network| {
        let (here, there) = sides(network);
        let (_client, _server) = connected(network, &here, &there);
        let receiving = async {
            let mut results = CompletionStream::new(&there.cq);
            let mut seen = Vec::new();
            for context in 0..40 {
                there.qp.receive(context, &[]).unwrap();
                if context >= 10 {
                    let result = results.next().await.unwrap().unwrap();
                    assert_eq!(result.status, Status::SUCCESS);
                    seen.push(result.request_context);
                }
            }
            // The rest in batches, by another stream.
            let mut results = CompletionStream::new(&there.cq);
            let mut batch = [CompletionResult::default(); 4];
            while seen.len() < 40 {
                let count = results.get(&mut batch).await.unwrap();
                seen.extend(batch[..count].iter().map(|result| result.request_context));
            }
            seen
        };
        let sending = async {
            let mut results = CompletionStream::new(&here.cq);
            for context in 0..40 {
                here.qp.send(context, &[], OpFlags::empty()).unwrap();
                let result = results.next().await.unwrap().unwrap();
                assert_eq!(
                    (result.request_context, result.status),
                    (context, Status::SUCCESS)
                );
            }
        };
        let ((), seen) = block_on(join(sending, receiving));
        assert!(seen.iter().copied().eq(0..40), "{seen:?}");
    });
}

#[test]
fn a_future_or_stream_that_is_dropped_after_any_number_of_polls_loses_no_result() {
    everywhere(|network| {
        for polls in 0..12 {
            let (here, there) = sides(network);
            let (_client, _server) = connected(network, &here, &there);
            there.qp.receive(1, &[]).unwrap();
            let work = async {
                let mut results = CompletionStream::new(&there.cq);
                let dropped = polled(polls, results.next());
                let (first, ()) = join(dropped, async {
                    here.qp.send(2, &[], OpFlags::empty()).unwrap();
                })
                .await;
                let result = match first {
                    Some(result) => result,
                    None if polls % 2 == 0 => results.next().await,
                    None => CompletionStream::new(&there.cq).next().await,
                };
                assert_eq!(result.unwrap().unwrap().request_context, 1);
            };
            block_on(work);
        }
    });
}

/// The Notify of a stream that was dropped ends for a result that a later stream has not seen.
#[test]
fn cq_031_a_notify_that_a_dropped_stream_has_left_in_flight_keeps_no_result_from_the_next() {
    everywhere(|network| {
        let (here, there) = sides(network);
        let (_client, _server) = connected(network, &here, &there);
        for context in 0..20 {
            there.qp.receive(context, &[]).unwrap();
            let mut left = CompletionStream::new(&there.cq);
            assert!(poll(pin!(left.next())).is_pending());
            drop(left);
            here.qp.send(context, &[], OpFlags::empty()).unwrap();
            let result = block_on(CompletionStream::new(&there.cq).next());
            assert_eq!(result.unwrap().unwrap().request_context, context);
        }
    });
}

#[test]
fn cq_022_a_queue_that_breaks_down_returns_what_it_holds_then_an_error_then_the_end() {
    everywhere(|network| {
        for status in [Status::BUFFER_OVERFLOW, Status::INTERNAL_ERROR] {
            let side = Side::new(&network.open(1));
            for context in 0..3 {
                side.qp.receive(context, &[]).unwrap();
            }
            side.qp.flush().unwrap();
            let mut results = CompletionStream::new(&side.cq);
            let mut next = || block_on(results.next());
            assert_eq!(next().unwrap().unwrap().request_context, 0);
            let queue = side.cq.clone();
            inject(&side.adapter, Fault::BreakCompletionQueue { queue, status });
            for context in 1..3 {
                assert_eq!(next().unwrap().unwrap().request_context, context);
            }
            let error = next().unwrap().unwrap_err();
            assert_eq!(error.status(), status);
            assert!(error.what().contains("completion queue"), "{error}");
            assert!(next().is_none());
            assert!(next().is_none());
            let mut batch = [CompletionResult::default(); 2];
            assert_eq!(block_on(results.get(&mut batch)), Ok(0));
        }
    });
}

#[test]
fn ovl_010_results_that_come_after_the_removal_of_the_device_can_be_had() {
    everywhere(|network| {
        let side = Side::new(&network.open(1));
        side.qp.receive(7, &[]).unwrap();
        let mut results = CompletionStream::new(&side.cq);
        assert!(poll(pin!(results.next())).is_pending());
        inject(&side.adapter, Fault::RemoveDevice);
        let mut seen = Vec::new();
        for _ in 0..10 {
            match block_on(results.next()) {
                Some(Ok(result)) => seen.push((result.request_context, result.status)),
                Some(Err(error)) => assert_eq!(error.status(), Status::DEVICE_REMOVED),
                None => network_turn(network),
            }
        }
        assert_eq!(seen, [(7, Status::CANCELED)]);
    });
}

fn network_turn(network: &Network) {
    if !network.is_simulated() {
        network.idle();
    }
}

#[test]
fn cq_024_a_notify_that_fails_for_now_is_an_error_and_the_stream_goes_on() {
    everywhere(|network| {
        let (here, there) = sides(network);
        let (_client, _server) = connected(network, &here, &there);
        there.qp.receive(1, &[]).unwrap();
        let fault = Fault::Call {
            call: Call::NotifyCompletionQueue,
            nth: 1,
            status: Status::INSUFFICIENT_RESOURCES,
        };
        inject(&there.adapter, fault);
        let mut results = CompletionStream::new(&there.cq);
        let error = block_on(results.next()).unwrap().unwrap_err();
        assert_eq!(error.status(), Status::INSUFFICIENT_RESOURCES);
        let mut next = Box::pin(results.next());
        assert!(poll(next.as_mut()).is_pending());
        // So does a cancelled one.
        there.cq.cancel_overlapped_requests().unwrap();
        let error = block_on(next).unwrap().unwrap_err();
        assert_eq!(error.status(), Status::CANCELED);
        here.qp.send(2, &[], OpFlags::empty()).unwrap();
        let result = block_on(results.next()).unwrap().unwrap();
        assert_eq!(result.request_context, 1);
    });
}

/// The steps of a program with a queue.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sends this many messages.
    Send(u8),
    /// Polls the stream.
    Poll,
    /// Polls a future of `next`, and drops it.
    Next,
    /// Takes up to this many results in a batch.
    Batch(u8),
    /// Goes on with a new stream.
    Renew,
    /// Lets the network go on.
    Idle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..4u8).prop_map(Step::Send),
        Just(Step::Poll),
        Just(Step::Next),
        (1..4u8).prop_map(Step::Batch),
        Just(Step::Renew),
        Just(Step::Idle),
    ]
}

fn taken<T>(polled: Poll<Option<netdirect::Result<T>>>) -> Option<T> {
    match polled {
        Poll::Ready(Some(Ok(result))) => Some(result),
        Poll::Ready(other) => panic!("the stream has ended: {:?}", other.is_some()),
        Poll::Pending => None,
    }
}

struct Program {
    results: CompletionStream,
    cq: Arc<dyn CompletionQueue>,
    receiver: Arc<dyn QueuePair>,
    sender: Arc<dyn QueuePair>,
    sent: u64,
    seen: Vec<u64>,
}

impl Program {
    fn run(&mut self, network: &Simulation, step: Step) {
        match step {
            Step::Send(count) => {
                for _ in 0..count {
                    // No more than the queues hold.
                    if self.sent - self.seen.len() as u64 >= 24 {
                        return;
                    }
                    self.receiver.receive(self.sent, &[]).unwrap();
                    let flags = OpFlags::SILENT_SUCCESS;
                    self.sender.send(self.sent, &[], flags).unwrap();
                    self.sent += 1;
                }
            }
            Step::Poll => {
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                let polled = Pin::new(&mut self.results).poll_next(&mut context);
                self.saw(taken(polled));
            }
            Step::Next => {
                let polled = poll(pin!(self.results.next()));
                self.saw(taken(polled));
            }
            Step::Batch(count) => {
                let mut batch = vec![CompletionResult::default(); count.into()];
                let polled = poll(Box::pin(self.results.get(&mut batch)).as_mut());
                if let Poll::Ready(count) = polled {
                    for result in &batch[..count.unwrap()] {
                        self.saw(Some(*result));
                    }
                }
            }
            Step::Renew => self.results = CompletionStream::new(&self.cq),
            Step::Idle => {
                network.step();
            }
        }
    }

    fn saw(&mut self, result: Option<CompletionResult>) {
        if let Some(result) = result {
            assert_eq!(result.status, Status::SUCCESS);
            self.seen.push(result.request_context);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_program_loses_a_result_or_sees_one_twice(seed in 0..1000u64, steps in prop::collection::vec(step(), 0..80)) {
        let simulation = Simulation::new(seed);
        let network = Network::Simulated(simulation.clone());
        let (here, there) = sides(&network);
        let _connections = connected(&network, &here, &there);
        let mut program = Program {
            results: CompletionStream::new(&there.cq),
            cq: there.cq.clone(),
            receiver: there.qp.clone(),
            sender: here.qp.clone(),
            sent: 0,
            seen: Vec::new(),
        };
        for step in steps {
            program.run(&simulation, step);
        }
        let left = program.sent - program.seen.len() as u64;
        let rest = block_on(async {
            let contexts = (&mut program.results).map(|result| result.unwrap().request_context);
            contexts.take(usize::try_from(left).unwrap()).collect::<Vec<_>>().await
        });
        program.seen.extend(rest);
        prop_assert!(program.seen.iter().copied().eq(0..program.sent), "{:?}", program.seen);
        // And there is no other.
        let mut one = [CompletionResult::default()];
        prop_assert_eq!(there.cq.get_results(&mut one), 0);
    }
}
