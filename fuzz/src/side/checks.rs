//! What must hold of an engine whatever its peer does: the events of its requests, and the memory that it guards.

use std::collections::VecDeque;

use iwarp::{Completion, Delivery, Event, ReceivedImmediate, RequestKind, Role, WqeStatus};

use super::{FOREIGN, PRIVATE, RECEIVE, SINK, SOURCE, Sent, Side, length, pattern};
use crate::receives::Receives;

impl Side {
    /// Fetches all events. `sends` is what the peer has sent, if that is known.
    pub(crate) fn events(&mut self, mut sends: Option<&mut VecDeque<Sent>>) {
        while let Some(event) = self.conn.poll_event() {
            match event {
                Event::Completed(completion) if completion.kind == RequestKind::Receive => {
                    self.received(&completion, sends.as_deref_mut());
                    self.conn.free_receive_slots(1);
                }
                Event::Completed(completion) => {
                    self.completed(&completion);
                    self.conn.free_initiator_slots(1);
                }
                Event::Ready => {
                    assert!(
                        self.role == Role::Responder
                            && !std::mem::replace(&mut self.ready_seen, true)
                    );
                }
                Event::PeerClosed => assert!(!std::mem::replace(&mut self.peer_closed, true)),
                Event::Fault(fault) => {
                    assert!(!fault.to_string().is_empty());
                    assert!(!std::mem::replace(&mut self.failed, true));
                }
                Event::Terminated(terminate) => {
                    assert!(!terminate.to_string().is_empty());
                    assert!(!std::mem::replace(&mut self.failed, true));
                }
                Event::Ended => assert!(!std::mem::replace(&mut self.ended, true)),
                Event::GaveUp => unreachable!("no request fails with the peer here"),
                Event::Stalled => {
                    assert_eq!(self.delivery, Delivery::Reliable, "others drop");
                    let _ = self.conn.poll_timeout(self.now);
                }
            }
        }
    }

    /// Checks that completions come in posting order, and that only silent successes are left out.
    fn completed(&mut self, completion: &Completion) {
        let posted = loop {
            let posted = self.posted.pop_front().expect("a request of ours");
            if posted.context == completion.context {
                break posted;
            }
            assert!(posted.silent, "request {} passed by", posted.context);
            self.count_sent(posted.kind);
        };
        let success = completion.status == WqeStatus::Success;
        assert_eq!(posted.kind, completion.kind);
        if success {
            self.count_sent(posted.kind);
        }
        assert!(!(posted.silent && success), "a silent success");
        assert_eq!(completion.octets, if success { posted.length } else { 0 });
        assert_eq!(
            completion.failed_bind.is_some(),
            posted.kind == RequestKind::Bind && !success
        );
        let atomic = self.atomics.remove(&completion.context);
        if let (Some((sink, before)), true) = (atomic, success) {
            self.expect_read(sink, &before.to_ne_bytes());
        }
        let read = self.reads.remove(&completion.context);
        if let (Some((sink, from, len)), true) = (read, success) {
            let expected: Vec<u8> = (from..from + len).map(pattern).collect();
            self.expect_read(sink, &expected);
        }
    }

    /// Counts a successful Send, Write or Immediate Data. The transport must have taken at least this number of messages.
    fn count_sent(&mut self, kind: RequestKind) {
        use RequestKind::{Immediate, Send, Write};
        self.succeeded += u64::from(matches!(kind, Send | Write | Immediate));
        assert!(
            self.succeeded <= self.wire.seen.messages + self.conn.counters().dropped_requests,
            "done without having been sent"
        );
    }

    /// Only if the peer is honest, because a malicious one may answer with any octets.
    fn expect_read(&self, sink: usize, expected: &[u8]) {
        if self.inbound.is_some() {
            assert_eq!(
                &self.mem.read(SINK)[sink..sink + expected.len()],
                expected,
                "what was read"
            );
        }
    }

    fn received(&mut self, completion: &Completion, sends: Option<&mut VecDeque<Sent>>) {
        let (context, at, room) = self.receives.pop_front().expect("a Receive of ours");
        assert_eq!(context, completion.context);
        if completion.status != WqeStatus::Success {
            assert_eq!(completion.octets, 0);
            return;
        }
        // The length of Immediate Data is that of the Writes before it, which were placed elsewhere.
        assert!(completion.octets <= room || completion.immediate.is_some());
        let Some(sends) = sends else { return };
        let sent = sends.pop_front().expect("a Send of the peer's");
        let octets = length(sent.data.len());
        let is_alone = matches!(sent.immediate, Some(ReceivedImmediate::Alone(_)));
        assert!(
            completion.octets == octets + sent.written
                || is_alone && sent.ready_between && completion.octets == octets,
            "{} octets, {sent:?}",
            completion.octets
        );
        assert_eq!(completion.solicited, sent.solicited);
        assert_eq!(completion.invalidated, sent.invalidate);
        assert_eq!(completion.immediate, sent.immediate);
        let got = self.mem.read(RECEIVE);
        assert_eq!(
            &got[at..at + sent.data.len()],
            &sent.data[..],
            "what was sent"
        );
    }

    /// The peer's Receive of a zero-length Send that opened the stream belongs to no Send of this side.
    pub(crate) fn expect_ready_send(&mut self) {
        self.sends.push_front(Sent {
            data: Vec::new(),
            solicited: false,
            invalidate: None,
            immediate: None,
            written: 0,
            ready_between: false,
        });
    }

    /// Checks that no request of the client is open: each has completed, or has succeeded silently.
    pub(crate) fn assert_all_came_back(&self) {
        assert!(
            self.posted.iter().all(|posted| posted.silent),
            "{:?}",
            self.posted
        );
        // Receives that were not drawn are still there for others.
        let left = self.shared.as_ref().map(Receives::contexts);
        let expected = self.receives.iter().map(|(context, ..)| *context);
        assert!(expected.eq(left.unwrap_or_default()), "{:?}", self.receives);
    }

    /// Checks the memory that no peer may write.
    pub(crate) fn assert_untouched(&self) {
        let source = self.mem.read(SOURCE);
        assert!(
            source
                .iter()
                .enumerate()
                .all(|(at, octet)| *octet == pattern(at))
        );
        for stag in [PRIVATE, FOREIGN] {
            assert!(self.mem.read(stag).iter().all(|octet| *octet == 0));
        }
        let used = [(RECEIVE, self.receive_used), (SINK, self.sink_used)];
        for (stag, used) in used {
            assert!(self.mem.read(stag)[used..].iter().all(|octet| *octet == 0));
        }
    }
}
