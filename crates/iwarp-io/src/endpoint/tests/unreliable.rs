//! Endpoints whose delivery is unreliable.

use super::*;

impl End {
    fn unreliable(self) -> Self {
        self.endpoint.set_delivery(Delivery::Unreliable);
        self
    }

    fn dropped(&self) -> (u64, u64) {
        let counters = self.endpoint.counters();
        (counters.dropped_messages, counters.dropped_requests)
    }
}

fn pair(net: &Net) -> (End, End) {
    let (active, passive) = (net.end().unreliable(), net.end().unreliable());
    net.connect(&active, &passive, Start::Awaited);
    net.until("ready", || passive.signals().contains(Signals::READY));
    drop(passive.endpoint.drive_from(Drivers::Queues));
    (active, passive)
}

#[test]
fn messages_without_receives_are_dropped_and_later_ones_arrive() {
    for net in Net::each() {
        let (active, passive) = pair(&net);
        active.send(1, b"dropped.").unwrap();
        active.send(2, b"dropped.").unwrap();
        net.until("dropped", || passive.dropped().0 == 2);
        passive.receive(3, 0);
        active.send(4, b"arrives.").unwrap();
        net.until("received", || passive.has_ended(3));
        assert_eq!(passive.buffer.to_vec()[..8], *b"arrives.");
        assert_eq!(passive.ends(), [(3, true)]);
        net.until("sent", || active.ends().len() == 3);
        assert_eq!(active.ends(), [(1, true), (2, true), (4, true)]);
        assert_eq!(passive.endpoint.owner().calls().stalls, 0);
    }
}

/// In order, by a reset, and by an error of the peer.
#[test]
fn after_the_end_of_the_peer_requests_are_dropped_and_receives_stay() {
    type Ends = fn(&End);
    let ends: [(&str, Ends); 3] = [
        ("in order", |peer| drop(peer.endpoint.disconnect().1)),
        ("by a reset", |peer| {
            drop(peer.endpoint.abort(ConnectionEnd::Removed))
        }),
        ("by an error", |peer| {
            let sge = Sge {
                token: STag(1),
                ..peer.sge(0, 8)
            };
            peer.post(90, send_of(Payload::Sges(&[sge]))).unwrap();
        }),
    ];
    for net in Net::each() {
        for (name, ends) in ends {
            let (active, passive) = pair(&net);
            passive.receive(1, 0);
            ends(&active);
            net.until("the end", || passive.signals().intersects(Signals::ENDS));
            net.until("dropped", || {
                passive.send(2, b"dropped.").unwrap();
                passive.dropped().1 > 0
            });
            passive.receive(3, 8);
            net.until("answered", || passive.has_ended(2));
            assert!(passive.ends().iter().all(|end| *end == (2, true)), "{name}");
            assert!(!passive.signals().contains(Signals::FLUSHED), "{name}");
            drop(passive.endpoint.end().1);
            net.until("flushed", || passive.has_ended(3));
            let ends = passive.ends();
            assert_eq!(ends[ends.len() - 2..], [(1, false), (3, false)], "{name}");
            net.until("gone", || passive.endpoint.is_gone());
        }
    }
}

#[test]
fn requests_without_a_connection_are_dropped() {
    let net = Net::simulated();
    let at_once = net.end().unreliable();
    at_once.send(1, b"dropped.").unwrap();
    assert_eq!(at_once.ends(), [(1, true)]);
    let later = net.end_that(false, true).unreliable();
    later.send(2, b"dropped.").unwrap();
    assert_eq!(later.ends(), []);
    drop(later.endpoint.abandon());
    assert_eq!((later.ends(), later.dropped()), (vec![(2, true)], (0, 1)));
    // A stream may start, and carries what is posted from now on.
    let passive = net.end().unreliable();
    passive.receive(3, 0);
    later.send(4, b"carried.").unwrap();
    net.connect(&later, &passive, Start::Awaited);
    net.until("carried", || passive.has_ended(3) && later.has_ended(4));
    // So does the next connection of the endpoint.
    drop(later.endpoint.end().1);
    drop(passive.endpoint.end().1);
    net.until("gone", || later.endpoint.is_gone());
    assert!(later.endpoint.renew(StreamId(90)));
    later.send(5, b"dropped.").unwrap();
    drop(later.endpoint.abandon());
    assert!(later.has_ended(5));
}
