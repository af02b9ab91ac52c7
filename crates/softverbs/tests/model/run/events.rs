//! The events of connections, of completion queues and of devices.

use std::sync::Arc;
use std::time::Duration;

use softverbs::{AsyncEventKind, CmEvent, CmEventKind, CmId, DeviceKind, Errno, QpState};

use super::Run;
use crate::connection::{Answer, Phase};

/// The limits of softverbs: of the transport for a connection, from the first octet of a Reply to the last, and from the Reply to the
/// ready-to-receive message.
const CONNECT_WITHIN: Duration = Duration::from_secs(21);
const REPLY_FRAME_WITHIN: Duration = Duration::from_secs(10);
pub(super) const READY_WITHIN: Duration = Duration::from_secs(60);

/// The reasons of InfiniBand for which a peer rejects.
const NO_LISTENER: i32 = 8;
const BY_PROGRAM: i32 = 28;

impl Run<'_> {
    /// Handles all events that wait, except at a host whose program is busy. Returns their number.
    pub(super) fn handle_events(&mut self) -> usize {
        let mut count = 0;
        for place in 0..2 {
            let host = self.current[place];
            for listener in &mut self.listeners {
                listener.drained = 0;
            }
            for channel in 0..2 {
                while self.host(host).busy == 0 && self.host(host).channels[channel].has_event() {
                    let event = self.host(host).channels[channel].get_event().unwrap();
                    self.handle(host, channel, event);
                    count += 1;
                }
            }
            for device in 0..2 {
                count += self.handle_device_events(host, device);
            }
        }
        count
    }

    fn handle_device_events(&mut self, host: usize, device: usize) -> usize {
        let mut count = 0;
        while self.host(host).devices[device].completions.has_event() {
            let completions = &self.host(host).devices[device].completions;
            let tag = completions.get_event().unwrap().tag();
            let queue = &mut self.queues[usize::try_from(tag).unwrap()];
            let cq = queue.cq.as_ref().expect("no event of a destroyed queue");
            cq.acknowledge_events(1);
            queue.events += 1;
            assert!(queue.events <= queue.asked, "an event nobody asked for");
            self.seen.met("completion event");
            count += 1;
        }
        while self.host(host).devices[device].context.has_event() {
            let context = &self.host(host).devices[device].context;
            let event = context.get_async_event().unwrap();
            assert_eq!(event.kind(), AsyncEventKind::LastReceiveReached);
            let tag = usize::try_from(event.tag().unwrap() - 1).unwrap();
            let side = self.side((tag / 2, tag % 2));
            let end = side.end.as_ref().expect("a queue pair");
            assert!(end.is_sharing && end.qp.is_some(), "{event:?}");
            side.last_receives += 1;
            assert_eq!(side.last_receives, 1, "{event:?}");
            event.acknowledge();
            self.seen.met("last Receive of a shared queue");
            count += 1;
        }
        count
    }

    fn handle(&mut self, host: usize, channel: usize, event: CmEvent) {
        let id = event.id().clone();
        trace!("{:?} host {host} channel {channel}: {event:?}", self.time());
        if let Some(listener) = event.listener() {
            assert_eq!(event.kind(), CmEventKind::ConnectRequest);
            let listeners = self.listeners.iter();
            let mut listeners = listeners.enumerate().filter_map(|(at, one)| {
                let is_it = one
                    .id
                    .as_ref()
                    .is_some_and(|own| Arc::ptr_eq(own, listener));
                is_it.then_some(at)
            });
            let at = listeners
                .next()
                .expect("a request of a listener that was destroyed");
            let listener = &self.listeners[at];
            assert_eq!((listener.host, listener.channel), (host, channel));
            assert!(Arc::ptr_eq(
                &id.channel(),
                &self.host(host).channels[channel]
            ));
            let given = event.parameters().clone();
            self.requested(at, &id, &given);
            return self.hold_or_acknowledge(host, event);
        }
        let tag = usize::try_from(id.tag().get() - 1).unwrap();
        let at = (tag / 2, tag % 2);
        let side = self.side(at);
        assert!(
            !side.is_destroyed,
            "an event of a destroyed identifier: {event:?}"
        );
        assert_eq!((side.host, side.channel), (host, channel), "{event:?}");
        match event.kind() {
            CmEventKind::AddrError => {
                assert_eq!(side.awaits.take(), Some(CmEventKind::AddrError));
                assert_eq!(event.status(), -Errno::NETUNREACH.raw_os_error());
                self.seen.met("unreachable address");
                self.go_on(at);
            }
            kind @ (CmEventKind::AddrResolved | CmEventKind::RouteResolved) => {
                assert_eq!(side.awaits.take(), Some(kind));
                self.go_on(at);
            }
            CmEventKind::ConnectResponse => {
                assert!(side.end.is_none() && side.phase == Phase::Connecting);
                side.awaits = None;
                side.phase = Phase::Answered;
                self.check_answer(at, &event);
                self.go_on(at);
            }
            CmEventKind::Established => self.established(at, &event, &id),
            CmEventKind::Rejected => self.rejected(at, &event),
            CmEventKind::ConnectError | CmEventKind::Unreachable => self.failed(at, &event),
            CmEventKind::Disconnected => self.disconnected(at, &id),
            CmEventKind::TimewaitExit => {
                side.timewaits += 1;
                assert_eq!((side.ended, side.timewaits), (1, 1));
                assert_eq!(self.host(host).kind, DeviceKind::Roce);
                self.seen.met("timewait");
            }
            other => panic!("{other:?}"),
        }
        self.hold_or_acknowledge(host, event);
    }

    fn hold_or_acknowledge(&mut self, host: usize, event: CmEvent) {
        match self.random.once_in(8) {
            true => self.held.push((host, event)),
            false => event.acknowledge(),
        }
    }

    /// The program makes the next call at once, or later.
    fn go_on(&mut self, at: (usize, usize)) {
        if !self.random.once_in(4) {
            self.advance(at);
        }
    }

    /// The client has an answer, which has to be an acceptance.
    fn check_answer(&mut self, (number, _): (usize, usize), event: &CmEvent) {
        let Some(Answer::Accepted(octets, _)) = &self.connections[number].answer else {
            panic!("the program has not accepted: {event:?}");
        };
        let given = event.parameters();
        assert_eq!(given.private_data, *octets);
        let stated = self.reads.max(1);
        let given = (given.responder_resources, given.initiator_depth);
        assert_eq!(given, (stated, stated));
        self.seen.met("private data: acceptance");
    }

    fn established(&mut self, at: (usize, usize), event: &CmEvent, id: &CmId) {
        let (number, side) = at;
        if side == 0 {
            self.check_answer(at, event);
        }
        let stated = self.reads.max(1);
        let one = self.side(at);
        let expected = [Phase::Connecting, Phase::Accepting][side];
        assert_eq!(one.phase, expected, "{event:?}");
        one.awaits = None;
        one.establish();
        assert!(side == 1 || one.end.is_some());
        if let Some(qp) = one.end.as_ref().and_then(|end| end.qp.as_ref()) {
            let own = qp.query();
            let limits = (own.timeout, own.retry_cnt, own.rnr_retry);
            let [retries, rnr] = one.retries.map(|count| count.min(7));
            assert_eq!(limits, (one.ack_timeout.unwrap_or(14), retries, rnr));
            assert_eq!(
                (own.max_rd_atomic, own.max_dest_rd_atomic),
                (stated, stated)
            );
            assert!(matches!(qp.state(), QpState::Rts | QpState::Err));
        }
        let peer = &self.connections[number].sides[1 - side];
        if let Some(peer) = &peer.id {
            assert_eq!(id.peer(), peer.local());
        }
        self.seen.met("established");
        if self.kinds[0] != self.kinds[1] {
            self.seen.met("established between devices of two kinds");
        }
        if self.over_udp {
            self.seen.met("connected over UDP");
        }
    }

    /// The status of a rejection, as the devices of this host state it.
    fn rejection(&mut self, host: usize, reason: i32, errno: Errno) -> i32 {
        match self.host(host).kind {
            DeviceKind::Roce => reason,
            DeviceKind::Iwarp => -errno.raw_os_error(),
        }
    }

    fn rejected(&mut self, at: (usize, usize), event: &CmEvent) {
        let (number, side) = at;
        assert_eq!(side, 0, "{event:?}");
        let host = self.side(at).host;
        let by_program = self.rejection(host, BY_PROGRAM, Errno::CONNREFUSED);
        let absent = self.rejection(host, NO_LISTENER, Errno::CONNREFUSED);
        let one = self.side(at);
        assert_eq!(one.phase, Phase::Connecting);
        one.awaits = None;
        one.fail();
        let connection = &self.connections[number];
        let listener = &self.listeners[connection.listener];
        let given = &event.parameters().private_data;
        let what = match &connection.answer {
            Some(Answer::Rejected(octets)) if given == octets => {
                assert_eq!(event.status(), by_program);
                self.seen.met("private data: rejection");
                "rejected: by the program"
            }
            _ if connection.may_fail && event.status() == absent && listener.id.is_none() => {
                "rejected: no listener"
            }
            _ if connection.may_fail => "rejected: the network or a program has given up",
            None if listener.is_crowded => {
                assert_eq!((event.status(), given.len()), (by_program, 0));
                "rejected: by a full backlog"
            }
            _ => panic!("nobody has rejected: {event:?}"),
        };
        self.seen.met(what);
        let listener = connection.listener;
        self.count_waiting(listener);
    }

    fn failed(&mut self, at: (usize, usize), event: &CmEvent) {
        let (number, side) = at;
        let now = self.time();
        let one = self.side(at);
        let expected = [Phase::Connecting, Phase::Accepting][side];
        assert_eq!(one.phase, expected, "{event:?}");
        one.awaits = None;
        one.fail();
        let connection = &mut self.connections[number];
        let is_late = event.kind() == CmEventKind::Unreachable;
        assert_eq!(is_late, event.status() == -Errno::TIMEDOUT.raw_os_error());
        let listener = &self.listeners[connection.listener];
        let (_, asked) = connection.request.as_ref().expect("a request");
        let limit = match &connection.answer {
            _ if !is_late || self.over_udp => None,
            Some(Answer::Accepted(_, accepted)) if side == 1 => Some((
                "time limit: ready-to-receive message",
                *accepted + READY_WITHIN,
            )),
            Some(Answer::Accepted(_, accepted)) => {
                Some(("time limit: Reply", *accepted + REPLY_FRAME_WITHIN))
            }
            _ if connection.has_arrived => None,
            // The listener may have refused the request, and the network keeps this Reply.
            None if listener.is_crowded || listener.id.is_none() => {
                Some(("time limit: refusal", *asked + REPLY_FRAME_WITHIN))
            }
            _ => Some(("time limit: connection", *asked + CONNECT_WITHIN)),
        };
        if let Some((what, earliest)) = limit {
            assert!(now >= earliest, "{now:?} is too early: {event:?}");
            self.seen.met(what);
        }
        // The client's program has not completed the connection in time, and may try so later.
        let [client, _] = &connection.sides;
        let is_not_completed = client.end.is_none() && client.established == 0;
        let is_expected = side == 1 && is_late && is_not_completed;
        assert!(connection.may_fail || is_expected, "{event:?}");
        connection.give_up();
    }

    fn disconnected(&mut self, at: (usize, usize), id: &CmId) {
        let connection = &mut self.connections[at.0];
        assert!(
            connection.is_over || connection.may_break,
            "nobody has disconnected"
        );
        if !connection.is_over {
            self.seen.met("broken by the network");
        }
        let one = &mut connection.sides[at.1];
        one.ended += 1;
        assert_eq!((one.established, one.ended), (1, 1));
        self.seen.met("disconnected");
        if !self.random.once_in(4) {
            id.disconnect().unwrap();
            self.side(at).has_disconnected = true;
        }
    }
}
