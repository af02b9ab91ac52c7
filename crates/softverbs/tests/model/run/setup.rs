//! The calls that set up connections.

use std::sync::Arc;

use softverbs::{CmEventKind, CmId, ConnParameters, Errno};

use super::events::READY_WITHIN;
use super::{ALL_CONNECTIONS, CONNECTIONS, LATENCY, Run};
use crate::connection::{Answer, Connection, Phase, Side};
use crate::end::{End, RECEIVE_SLOTS, REQUESTS};
use crate::host::Listener;

/// The most octets of private data.
const PRIVATE_DATA: u64 = softverbs::limits::PRIVATE_DATA as u64;

impl Run<'_> {
    /// Begins to listen on the host with this address.
    pub(super) fn listen(&mut self, place: usize) {
        let host = self.current[place];
        let channel = usize::from(self.random.once_in(2));
        let at = match self.random.below(3) {
            0 => [0, 0, 0, 0].into(),
            device => self.host(host).devices[usize::try_from(device).unwrap() - 1].address,
        };
        let device = usize::from(self.random.once_in(2));
        let backlog = match self.random.below(4) {
            0 => None,
            most => Some(usize::try_from(most).unwrap()),
        };
        let own = self.host(host);
        let id = CmId::create(&own.channels[channel]).unwrap();
        id.bind((at, 0).into()).unwrap();
        let asked = backlog.map_or(0, |most| i32::try_from(most).unwrap());
        id.listen(asked).unwrap();
        let mut address = id.local().unwrap();
        if address.ip().is_unspecified() {
            address.set_ip(own.devices[device].address);
        }
        self.listeners.push(Listener {
            place,
            host,
            channel,
            id: Some(id),
            address,
            backlog,
            is_crowded: false,
            drained: 0,
        });
    }

    /// A listener to connect to, mostly one that listens.
    fn pick_listener(&mut self) -> usize {
        let wants_one = !self.random.once_in(12);
        let all = self.listeners.iter().enumerate();
        let all = all.filter(|(_, one)| !wants_one || one.id.is_some());
        let all: Vec<_> = all.map(|(at, _)| at).collect();
        let at = self.pick(all.len()).expect("one listens always");
        all[at]
    }

    pub(super) fn connect(&mut self) {
        let listener = self.pick_listener();
        self.connect_to(listener);
    }

    /// More peers than most backlogs hold connect to a program that fetches no events.
    pub(super) fn connect_often(&mut self) {
        let listener = self.pick_listener();
        let host = self.current[self.listeners[listener].place];
        self.host(host).busy = 5 + self.random.below(60);
        for _ in 0..=self.random.below(5) {
            self.connect_to(listener);
        }
    }

    fn connect_to(&mut self, listener: usize) {
        let lives = |one: &&Connection| one.sides.iter().any(|side| side.id.is_some());
        if self.connections.iter().filter(lives).count() >= CONNECTIONS
            || self.connections.len() >= ALL_CONNECTIONS
        {
            return;
        }
        let host = self.current[1 - self.listeners[listener].place];
        let device = usize::from(self.random.once_in(2));
        let channel = usize::from(self.random.once_in(2));
        let number = self.connections.len();
        let mut client = Side::new(host, device, channel, Phase::Idle);
        let id = CmId::create(&self.host(host).channels[channel]).unwrap();
        id.tag().set(number as u64 * 2 + 1);
        client.id = Some(id);
        self.connections.push(Connection {
            listener,
            sides: [client, Side::new(0, 0, 0, Phase::Idle)],
            request: None,
            has_arrived: false,
            answer: None,
            withholds: false,
            may_fail: self.breaks || self.cut.is_active() || self.listeners[listener].id.is_none(),
            may_break: self.breaks || self.cut.breaks(),
            is_over: false,
        });
        if !self.random.once_in(8) {
            self.advance((number, 0));
        }
    }

    pub(super) fn advance_one(&mut self) {
        if let Some(at) = self.pick_side(|_, _, one| one.id.is_some() && one.awaits.is_none()) {
            self.advance(at);
        }
    }

    /// Makes the next call that sets up a connection. Returns false if there is none.
    pub(super) fn advance(&mut self, at: (usize, usize)) -> bool {
        let (number, side) = at;
        let one = &self.connections[number].sides[side];
        if one.id.is_none() || one.awaits.is_some() {
            return false;
        }
        trace!("{:?} advance {at:?} in {:?}", self.time(), one.phase);
        match one.phase {
            Phase::Idle => self.resolve_addr(at),
            Phase::AddrResolved => {
                self.id(at).resolve_route().unwrap();
                let one = self.side(at);
                one.phase = Phase::RouteResolved;
                one.awaits = Some(CmEventKind::RouteResolved);
            }
            Phase::RouteResolved => self.send_request(at),
            Phase::Answered if !self.connections[number].withholds => self.complete(at),
            Phase::Offered => self.decide(at),
            _ => return false,
        }
        true
    }

    fn resolve_addr(&mut self, at: (usize, usize)) {
        let id = self.id(at);
        if self.random.once_in(10) {
            // No interface has an address of this family.
            id.resolve_addr(None, "[fd00::1]:7".parse().unwrap())
                .unwrap();
            self.side(at).awaits = Some(CmEventKind::AddrError);
            return;
        }
        let listener = self.connections[at.0].listener;
        let peer = self.listeners[listener].address;
        let (host, device) = (self.side(at).host, self.side(at).device);
        let own = self.host(host).devices[device].address;
        let is_first = device == 0;
        let source = (!is_first || self.random.once_in(2)).then_some((own, 0).into());
        id.resolve_addr(source, peer).unwrap();
        assert_eq!(id.local().unwrap().ip(), own);
        assert_eq!(id.peer(), Some(peer));
        if !is_first {
            self.seen.met("second device");
        }
        let one = self.side(at);
        one.phase = Phase::AddrResolved;
        one.awaits = Some(CmEventKind::AddrResolved);
    }

    /// Private data that begins with a number.
    fn private_data(&mut self, number: u64) -> Vec<u8> {
        let length = match self.random.below(8) {
            0 => PRIVATE_DATA,
            1 => 8 + self.random.below(PRIVATE_DATA - 7),
            _ => 8 + self.random.below(60),
        };
        if length == PRIVATE_DATA {
            self.seen.met("private data: longest");
        }
        let mut octets = number.to_be_bytes().to_vec();
        octets.resize_with(usize::try_from(length).unwrap(), || {
            self.random.next().to_be_bytes()[0]
        });
        octets
    }

    pub(super) fn parameters(
        &self,
        private_data: &[u8],
        [retries, rnr]: [u8; 2],
    ) -> ConnParameters {
        ConnParameters {
            private_data: private_data.to_vec(),
            responder_resources: self.reads,
            initiator_depth: self.reads,
            retry_count: retries,
            rnr_retry_count: rnr,
            ..ConnParameters::default()
        }
    }

    /// Draws the attributes that the queue pair has once it is connected.
    fn choose_limits(&mut self, at: (usize, usize)) -> [u8; 2] {
        let id = self.id(at);
        let retries = [(); 2].map(|()| u8::try_from(self.random.below(9)).unwrap());
        if self.random.once_in(3) {
            let exponent = u8::try_from(self.random.below(32)).unwrap();
            id.set_ack_timeout(exponent).unwrap();
            self.side(at).ack_timeout = Some(exponent);
            self.seen.met("set_ack_timeout");
        }
        self.side(at).retries = retries;
        retries
    }

    fn send_request(&mut self, at: (usize, usize)) {
        let (number, _) = at;
        let id = self.id(at);
        if !self.random.once_in(5) {
            self.make_end(at);
        }
        let retries = self.choose_limits(at);
        let octets = self.private_data(number as u64);
        id.connect(&self.parameters(&octets, retries)).unwrap();
        let now = self.time();
        let connection = &mut self.connections[number];
        connection.request = Some((octets, now));
        connection.sides[0].phase = Phase::Connecting;
        connection.sides[0].awaits = Some(CmEventKind::Established);
        connection.may_fail |= self.listeners[connection.listener].id.is_none();
        let listener = self.connections[number].listener;
        self.count_waiting(listener);
    }

    /// Notes if more peers than fit into a backlog may wait. All of them may be refused, until none waits.
    pub(super) fn count_waiting(&mut self, listener: usize) {
        let all = self.connections.iter();
        let waiting = all.filter(|one| one.listener == listener && one.may_wait());
        let waiting = waiting.count();
        let listener = &mut self.listeners[listener];
        listener.is_crowded &= waiting > 0;
        listener.is_crowded |= listener.backlog.is_some_and(|most| waiting > most);
    }

    /// Makes the queue pair of an identifier.
    pub(super) fn make_end(&mut self, at: (usize, usize)) {
        let one = self.side(at);
        let (host, device) = (one.host, one.device);
        let id = self.id(at);
        let shared = self.host(host).devices[device].queue;
        let queue = |run: &mut Self| match shared {
            Some(queue) if !run.random.once_in(3) => queue,
            _ => run.make_queue(
                host,
                device,
                REQUESTS + u32::try_from(RECEIVE_SLOTS).unwrap(),
            ),
        };
        let first = queue(self);
        let queues = match self.random.once_in(3) {
            true => [first, queue(self)],
            false => [first, first],
        };
        let cqs = queues.map(|at| self.queues[at].cq.clone().expect("the queue exists"));
        let device = &self.hosts[host].as_ref().expect("the process").devices[device];
        let receives = device.receives.as_ref();
        let options = End::options([&cqs[0], &cqs[1]], receives);
        let qp = id.create_queue_pair(&device.pd, options).unwrap();
        qp.tag().set(at.0 as u64 * 2 + at.1 as u64 + 1);
        let seed = self.seed.wrapping_mul(100) + at.0 as u64 * 2 + at.1 as u64;
        let mut end = End::new(&device.pd, qp, queues, seed);
        end.confirms_writes = self.host(host).confirms_writes;
        end.shares_queues = shared.is_some_and(|shared| queues.contains(&shared));
        self.side(at).end = Some(end);
    }

    /// Completes a connection that the peer has accepted, or gives it up.
    fn complete(&mut self, at: (usize, usize)) {
        let id = self.id(at);
        if let Some(Answer::Accepted(_, accepted)) = &self.connections[at.0].answer
            && self.time() + LATENCY > *accepted + READY_WITHIN
        {
            // The server has given up, or is about to.
            self.connections[at.0].give_up();
        }
        match self.random.below(6) {
            0 => {
                self.connections[at.0].withholds = true;
                return;
            }
            1 => {
                id.reject(b"").unwrap();
                self.connections[at.0].give_up();
                self.side(at).fail();
                self.seen.met("rejected after the acceptance");
                return;
            }
            _ => {}
        }
        let completed = if self.random.once_in(2) {
            self.make_end(at);
            let qp = self.side(at).end.as_ref().and_then(|end| end.qp.clone());
            let completed = id.complete(&qp.expect("made above"));
            if completed.is_ok() {
                self.seen.met("completed with a late queue pair");
            }
            completed
        } else {
            let completed = id.establish();
            if completed.is_ok() {
                self.seen.met("established without a queue pair");
            }
            completed
        };
        match completed {
            Ok(()) => self.side(at).establish(),
            Err(error) => {
                assert_eq!(error.errno(), Errno::CONNRESET, "{error}");
                assert!(self.connections[at.0].may_fail, "{error}");
                self.side(at).fail();
            }
        }
    }

    /// The server's program accepts or rejects.
    fn decide(&mut self, at: (usize, usize)) {
        let (number, _) = at;
        let id = self.id(at);
        if self.random.once_in(6) {
            let octets = self.private_data(!(number as u64));
            id.reject(&octets).unwrap();
            self.connections[number].answer = Some(Answer::Rejected(octets));
            self.side(at).phase = Phase::Over;
            return;
        }
        if !self.random.once_in(6) {
            self.make_end(at);
            for _ in 0..self.random.below(8) {
                let end = self.connections[number].sides[1].end.as_mut();
                if let Some(end) = end.filter(|end| !end.is_sharing) {
                    end.post_receive(self.seen);
                }
            }
        }
        let retries = self.choose_limits(at);
        let octets = self.private_data(!(number as u64));
        let accepted = id.accept(&self.parameters(&octets, retries));
        let now = self.time();
        let connection = &mut self.connections[number];
        match accepted {
            Ok(()) => {
                connection.answer = Some(Answer::Accepted(octets, now));
                connection.sides[1].phase = Phase::Accepting;
                connection.sides[1].awaits = Some(CmEventKind::Established);
            }
            Err(error) => {
                assert_eq!(error.errno(), Errno::CONNRESET, "{error}");
                assert!(connection.may_fail, "{error}");
                connection.sides[1].fail();
                connection.sides[1].phase = Phase::Gone;
                self.seen.met("accept: the peer has given up");
            }
        }
    }

    /// A request has arrived at a listener.
    pub(super) fn requested(&mut self, listener: usize, id: &Arc<CmId>, given: &ConnParameters) {
        let (first, _) = given.private_data.split_first_chunk().expect("a number");
        let number = usize::try_from(u64::from_be_bytes(*first)).unwrap();
        let connection = &mut self.connections[number];
        let (request, _) = connection
            .request
            .as_ref()
            .expect("a request that was sent");
        assert_eq!(given.private_data, *request);
        self.seen.met("private data: request");
        assert_eq!(connection.listener, listener, "another listener");
        let reads = (given.responder_resources, given.initiator_depth);
        // A client whose first attempt the network has reset makes another one with revision 1 of MPA, which has no limits for Reads.
        let stated = self.reads.max(1);
        let is_again = connection.may_fail && reads != (stated, stated);
        assert!(is_again || reads == (stated, stated), "{reads:?}");
        if std::mem::replace(&mut connection.has_arrived, true) {
            assert!(is_again, "a request arrives once");
            id.destroy().unwrap();
            return;
        }
        let state = &mut self.listeners[listener];
        assert!(state.id.is_some(), "the listener was destroyed");
        state.drained += 1;
        assert!(
            state.backlog.is_none_or(|most| state.drained <= most),
            "more requests than the backlog"
        );
        let (host, channel) = (state.host, state.channel);
        let local = id.local().unwrap();
        assert_eq!(local, state.address);
        let devices = &self.host(host).devices;
        let device = devices.iter().position(|one| one.address == local.ip());
        let device = device.expect("a device has the address");
        assert_eq!(
            id.device().unwrap().name(),
            self.host(host).devices[device].context.device().name()
        );
        let at = (number, 1);
        let mut server = Side::new(host, device, channel, Phase::Offered);
        id.tag().set(number as u64 * 2 + 2);
        server.id = Some(id.clone());
        self.connections[number].sides[1] = server;
        self.count_waiting(listener);
        if !self.random.once_in(4) {
            self.decide(at);
        }
    }
}
