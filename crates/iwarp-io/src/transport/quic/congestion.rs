//! Congestion control of a connection: an algorithm, by default Cubic, with a bound on the octets in flight within a machine, until the
//! connection is closed.
//!
//! Nothing is lost within a machine until the receiver's socket overflows, so Cubic alone would fill the socket, and the octets sent next
//! would wait behind all of that.
//!
//! quinn-proto holds CONNECTION_CLOSE back while the octets in flight fill the congestion window and streams have more to send. A
//! connection that is closed handles no acknowledgements, so the window stays full, and the peer would learn of the end by its idle timeout
//! only (quinn issue 2785). RFC 9002 section 7 exempts such packets from congestion control.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use quinn_proto::congestion::{
    BbrConfig, Controller, ControllerFactory, CubicConfig, NewRenoConfig,
};
use quinn_proto::{Connection, RttEstimator};

use crate::transport::congestion_control::QuicAlgorithm;

/// The number of long trains without a small message after which small messages no longer count as in use.
const SMALL_IS_OVER: u32 = 64;

/// The most octets that each connection of an adapter may have in flight within a machine.
///
/// A small message waits behind the octets in flight on all connections that the same thread reads, so all of them have fewer in flight
/// while small messages are in use.
#[derive(Debug)]
pub(super) struct InFlight {
    usual: u64,
    /// The limit while small messages are in use.
    beside_small: u64,
    /// The additional limit for a datagram with a small message, so that octets in flight on its own connection do not hold it back.
    one_more: u64,
    /// The number of long trains after which small messages no longer count as in use. Concurrent threads may lose a count.
    trains: AtomicU32,
    /// A datagram with a small message is being made.
    makes_one_more: AtomicBool,
}

impl InFlight {
    pub(super) fn new(usual: u64, beside_small: u64, one_more: u64) -> Self {
        Self {
            usual,
            beside_small,
            one_more,
            trains: AtomicU32::new(0),
            makes_one_more: AtomicBool::new(false),
        }
    }

    /// A small message is about to be sent.
    pub(super) fn small_message(&self) {
        if self.trains.load(Ordering::Relaxed) != SMALL_IS_OVER {
            self.trains.store(SMALL_IS_OVER, Ordering::Relaxed);
        }
    }

    /// A long train was sent.
    pub(super) fn long_train(&self) {
        let trains = self.trains.load(Ordering::Relaxed);
        if trains > 0 {
            self.trains.store(trains - 1, Ordering::Relaxed);
        }
    }

    /// Lets `make` make a datagram with a small message.
    pub(super) fn with_one_more<T>(&self, make: impl FnOnce() -> T) -> T {
        self.makes_one_more.store(true, Ordering::Relaxed);
        let made = make();
        self.makes_one_more.store(false, Ordering::Relaxed);
        made
    }

    fn most(&self) -> u64 {
        if self.trains.load(Ordering::Relaxed) == 0 {
            self.usual
        } else if self.makes_one_more.load(Ordering::Relaxed) {
            self.beside_small + self.one_more
        } else {
            self.beside_small
        }
    }
}

/// The window of a connection that is closed, in octets: more than can be in flight, and large enough that quinn-proto does not pace.
const OPEN: u64 = 1 << 40;

/// Makes the congestion control of each connection.
pub(super) struct Congestion {
    algorithm: Arc<dyn ControllerFactory + Send + Sync>,
    /// The bound within a machine.
    in_flight: Option<Arc<InFlight>>,
}

impl Congestion {
    /// `first_window` is the congestion window at the beginning, in octets; without it, that of the algorithm.
    pub(super) fn new(
        algorithm: QuicAlgorithm,
        first_window: Option<u64>,
        in_flight: Option<&Arc<InFlight>>,
    ) -> Self {
        let (mut cubic, mut bbr) = (CubicConfig::default(), BbrConfig::default());
        let mut new_reno = NewRenoConfig::default();
        if let Some(octets) = first_window {
            cubic.initial_window(octets);
            bbr.initial_window(octets);
            new_reno.initial_window(octets);
        }
        let algorithm: Arc<dyn ControllerFactory + Send + Sync> = match algorithm {
            QuicAlgorithm::Cubic => Arc::new(cubic),
            QuicAlgorithm::Bbr => Arc::new(bbr),
            QuicAlgorithm::NewReno => Arc::new(new_reno),
        };
        Self {
            algorithm,
            in_flight: in_flight.map(Arc::clone),
        }
    }
}

impl ControllerFactory for Congestion {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Control {
            algorithm: Arc::clone(&self.algorithm).build(now, current_mtu),
            in_flight: self.in_flight.clone(),
            closed: Arc::default(),
        })
    }
}

/// Takes a connection, which is about to be closed, out of congestion control.
pub(super) fn exempt(connection: &Connection) {
    let control = connection.congestion_state().clone_box().into_any();
    if let Ok(control) = control.downcast::<Control>() {
        control.closed.store(true, Ordering::Relaxed);
    }
}

struct Control {
    algorithm: Box<dyn Controller>,
    in_flight: Option<Arc<InFlight>>,
    /// Shared with all copies.
    closed: Arc<AtomicBool>,
}

impl Control {
    /// A window of the algorithm within its bound.
    fn bounded(&self, window: u64) -> u64 {
        let in_flight = self.in_flight.as_ref();
        in_flight.map_or(window, |in_flight| window.min(in_flight.most()))
    }
}

impl Controller for Control {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.algorithm.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.algorithm.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.algorithm
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.algorithm
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.algorithm.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        if self.closed.load(Ordering::Relaxed) {
            return OPEN;
        }
        self.bounded(self.algorithm.window())
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            algorithm: self.algorithm.clone_box(),
            in_flight: self.in_flight.clone(),
            closed: Arc::clone(&self.closed),
        })
    }

    fn initial_window(&self) -> u64 {
        self.bounded(self.algorithm.initial_window())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_ends_at_its_bound_and_shrinks_as_cubic_s_does() {
        let now = Instant::now();
        let in_flight = Arc::new(InFlight::new(150_000, 100_000, 10_000));
        let factory = Arc::new(Congestion::new(
            QuicAlgorithm::Cubic,
            Some(200_000),
            Some(&in_flight),
        ));
        let mut control = factory.build(now, 1200);
        assert_eq!(control.initial_window(), 150_000);
        assert_eq!(control.window(), 150_000);
        control.on_congestion_event(now, now, false, 1200);
        let copy = control.clone_box();
        assert!(control.window() < 150_000, "{}", control.window());
        assert_eq!(copy.window(), control.window());
        in_flight.small_message();
        assert_eq!(copy.window(), 100_000);
    }

    #[test]
    fn less_is_in_flight_until_much_was_sent_after_the_last_small_message() {
        let in_flight = InFlight::new(500, 100, 10);
        let most = || in_flight.most();
        assert_eq!(in_flight.with_one_more(most), 500);
        assert_eq!(in_flight.most(), 500);
        in_flight.small_message();
        assert_eq!(in_flight.with_one_more(most), 110);
        for _ in 1..SMALL_IS_OVER {
            in_flight.long_train();
        }
        assert_eq!(in_flight.most(), 100);
        in_flight.small_message();
        in_flight.long_train();
        assert_eq!(in_flight.most(), 100);
        for _ in 1..SMALL_IS_OVER {
            in_flight.long_train();
        }
        assert_eq!(in_flight.most(), 500);
        in_flight.long_train();
        assert_eq!(in_flight.most(), 500);
    }
}
