//! Congestion control within a machine: Cubic with a bound on what is in flight.
//!
//! Nothing is lost within a machine until the receiver's socket overflows, so that Cubic alone fills the socket, and whatever is
//! sent next waits behind all of that.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, CubicConfig};

/// Makes the congestion control of each connection.
pub(super) struct LocalCongestion {
    cubic: Arc<CubicConfig>,
    most: u64,
}

impl LocalCongestion {
    /// At most `most` octets are in flight.
    pub(super) fn new(cubic: CubicConfig, most: u64) -> Self {
        let cubic = Arc::new(cubic);
        Self { cubic, most }
    }
}

impl ControllerFactory for LocalCongestion {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Bounded {
            cubic: Arc::clone(&self.cubic).build(now, current_mtu),
            most: self.most,
        })
    }
}

struct Bounded {
    cubic: Box<dyn Controller>,
    most: u64,
}

impl Controller for Bounded {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.cubic.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.cubic.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.cubic
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.cubic
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.cubic.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.cubic.window().min(self.most)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            cubic: self.cubic.clone_box(),
            most: self.most,
        })
    }

    fn initial_window(&self) -> u64 {
        self.cubic.initial_window().min(self.most)
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
        let mut cubic = CubicConfig::default();
        cubic.initial_window(200_000);
        let now = Instant::now();
        let factory = Arc::new(LocalCongestion::new(cubic, 150_000));
        let mut control = factory.build(now, 1200);
        assert_eq!(control.initial_window(), 150_000);
        assert_eq!(control.window(), 150_000);
        control.on_congestion_event(now, now, false, 1200);
        let copy = control.clone_box();
        assert!(control.window() < 150_000, "{}", control.window());
        assert_eq!(copy.window(), control.window());
    }
}
