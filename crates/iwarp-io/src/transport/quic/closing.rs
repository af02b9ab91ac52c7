//! Congestion control that does not keep CONNECTION_CLOSE back.
//!
//! quinn-proto holds CONNECTION_CLOSE back while what is in flight fills the congestion window and streams have more to send. A
//! connection that is closed takes in no acknowledgements, so that the window stays full, and the peer would learn of the end by its
//! idle timeout only (quinn issue 2785). RFC 9002 section 7 exempts such packets from congestion control.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::{Connection, RttEstimator};

/// The window of a connection that is closed, in octets: more than can be in flight, and so much that quinn-proto does not pace.
const OPEN: u64 = 1 << 40;

/// Makes the congestion control of each connection: that of another factory until the connection is closed.
pub(super) struct UntilClosed<F>(Arc<F>);

impl<F> UntilClosed<F> {
    pub(super) fn new(factory: F) -> Self {
        Self(Arc::new(factory))
    }
}

impl<F: ControllerFactory> ControllerFactory for UntilClosed<F> {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Control {
            inner: Arc::clone(&self.0).build(now, current_mtu),
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
    inner: Box<dyn Controller>,
    /// Shared with all copies.
    closed: Arc<AtomicBool>,
}

impl Controller for Control {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        if self.closed.load(Ordering::Relaxed) {
            return OPEN;
        }
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            closed: Arc::clone(&self.closed),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
