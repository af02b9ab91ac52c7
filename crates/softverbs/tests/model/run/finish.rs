//! The end of a run: everything happens that should, everything ends once, and nothing is left.

use std::sync::Arc;

use softverbs::{CmId, DeviceKind, Errno, QpState};

use super::Run;
use crate::connection::{Answer, Connection, Phase};

/// The numbers of connections.
const NUMBERS: usize = 0xFFFF;

impl Run<'_> {
    pub(super) fn finish(&mut self) {
        loop {
            self.settle();
            let all = (0..self.connections.len()).flat_map(|at| [(at, 0), (at, 1)]);
            let advanced = all.filter(|at| self.advance(*at)).count();
            if advanced == 0 {
                break;
            }
        }
        self.check_settled();
        self.disconnect_all();
        self.check_ended();
        self.destroy_all();
    }

    /// No event is left: everything that should have happened has.
    fn check_settled(&self) {
        for connection in &self.connections {
            let [client, server] = &connection.sides;
            if connection.request.is_some() && !client.is_destroyed {
                let outcomes = client.established + client.failed;
                let open = u32::from(client.phase == Phase::Answered);
                assert_eq!(outcomes + open, 1, "one outcome at the client");
                assert!(open == 0 || connection.withholds);
            }
            let is_accepted = matches!(connection.answer, Some(Answer::Accepted(..)));
            if is_accepted && !server.is_destroyed {
                assert_eq!(
                    server.established + server.failed,
                    1,
                    "one outcome at the server"
                );
            }
            if !connection.may_fail && connection.request.is_some() {
                let stands = u32::from(is_accepted);
                assert_eq!((client.established, server.established), (stands, stands));
            }
            if !connection.is_over && !connection.may_break {
                self.check_requests(connection);
            }
        }
    }

    /// Messages and Receives of an undisturbed connection have met, and no other request waits without a reason.
    fn check_requests(&self, connection: &Connection) {
        let [client, server] = &connection.sides;
        let (Some(of_client), Some(of_server)) = (&client.end, &server.end) else {
            return;
        };
        if (client.established, server.established) != (1, 1) {
            return;
        }
        if of_client.sent.is_empty() && of_server.sent.is_empty() {
            let left = (of_client.signaled_left(), of_server.signaled_left());
            assert_eq!(left, (0, 0));
        }
        for (end, peer) in [(of_client, of_server), (of_server, of_client)] {
            if !end.is_sharing {
                // A message of the other direction that waits holds up the answers to Reads, and requests behind a fence.
                let is_free = end.sent.is_empty();
                let waits = end.receives_posted() > 0 && !peer.sent.is_empty() && is_free;
                assert!(!waits, "a message and a Receive have not met");
            }
        }
    }

    fn disconnect_all(&mut self) {
        for number in 0..self.connections.len() {
            let first = usize::from(self.random.once_in(2));
            for (at, side) in [(0, first), (1, 1 - first)] {
                let one = &mut self.connections[number].sides[side];
                let Some(id) = one.id.clone().filter(|_| one.established == 1) else {
                    continue;
                };
                if at == 0 || !self.random.once_in(2) {
                    id.disconnect().unwrap();
                    one.has_disconnected = true;
                    self.connections[number].is_over = true;
                }
            }
        }
        self.settle();
        // Programs that have not disconnected when they learned of the end.
        for number in 0..self.connections.len() {
            for side in 0..2 {
                let one = &mut self.connections[number].sides[side];
                if let Some(id) = one.id.clone().filter(|_| one.established == 1) {
                    id.disconnect().unwrap();
                    one.has_disconnected = true;
                }
            }
        }
        self.settle();
    }

    fn check_ended(&mut self) {
        for connection in &self.connections {
            for one in &connection.sides {
                let (requests, receives) = one
                    .end
                    .as_ref()
                    .map_or((0, 0), |end| (end.signaled_left(), end.receives_posted()));
                if one.established == 1 {
                    // Whoever destroys the identifier behind the peer's end can no longer disconnect: the Receives stay posted.
                    let qp = one.end.as_ref().and_then(|end| end.qp.as_ref());
                    let is_left = one.id.is_none() && one.ended == 1;
                    let keeps = is_left && qp.is_some_and(|qp| qp.state() == QpState::Rts);
                    assert_eq!(requests, 0, "requests that have not ended");
                    assert!(receives == 0 || keeps, "Receives that have not ended");
                }
                if one.id.is_some() {
                    assert_eq!(one.ended, one.established);
                    let host = self.hosts[one.host].as_ref();
                    let waits = host.is_some_and(|host| host.kind == DeviceKind::Roce);
                    assert_eq!(one.timewaits, one.ended * u32::from(waits));
                }
                if one.end.as_ref().is_some_and(|end| end.shares_queues) {
                    self.seen.met("shared completion queue");
                }
            }
        }
    }

    /// Destroys all objects. Nothing uses them, and nothing is left of them.
    fn destroy_all(&mut self) {
        for number in 0..self.connections.len() {
            let first = usize::from(self.random.once_in(2));
            for side in [first, 1 - first] {
                let at = (number, side);
                if self.random.once_in(2) && self.side(at).id.is_some() {
                    self.destroy_side(at);
                }
                self.destroy_queue_pair(at);
                if self.side(at).id.is_some() {
                    self.destroy_side(at);
                }
            }
        }
        for at in 0..self.listeners.len() {
            self.destroy_listener(at);
        }
        assert!(self.held.is_empty(), "each event was of an identifier");
        for place in 0..2 {
            let host = self.current[place];
            self.destroy_host(host);
        }
        // Connections of queue pairs that are destroyed end by themselves.
        while self.world.step() {}
        for (number, process) in self.processes.iter().enumerate() {
            assert!(process.upgrade().is_none(), "process {number} is in use");
        }
    }

    fn destroy_host(&mut self, host: usize) {
        let own = self.host(host);
        for channel in &own.channels {
            assert!(!channel.has_event(), "an event of no identifier");
        }
        self.check_numbers(host);
        for connection in &mut self.connections {
            let ends = connection.sides.iter_mut();
            let ends = ends.filter(|one| one.host == host);
            for end in ends.filter_map(|one| one.end.as_mut()) {
                if let Some(region) = end.take_region() {
                    region.deregister().unwrap();
                }
            }
        }
        for queue in self.queues.iter_mut().filter(|queue| queue.host == host) {
            if let Some(cq) = queue.cq.take() {
                assert!(!cq.is_broken());
                let left = cq.poll(&mut [softverbs::WorkCompletion::default()]);
                assert_eq!(left, 0, "a completion of no queue pair");
                cq.destroy().unwrap();
            }
        }
        let own = self.hosts[host].take().expect("the process");
        own.idle.destroy().unwrap();
        for device in own.devices {
            if let Some(mut shared) = device.receives {
                shared.check_room(self.seen);
                shared.srq.destroy().unwrap();
                shared.region.deregister().unwrap();
            }
            device.completions.destroy().unwrap();
            device.pd.destroy().unwrap();
            assert!(!device.context.has_event(), "an event of no object");
            assert!(!device.context.has_objects());
            device.context.close();
        }
        for channel in own.channels {
            channel.destroy().unwrap();
        }
    }

    /// Takes all numbers of connections. This takes long, so only some runs do it.
    fn check_numbers(&mut self, host: usize) {
        if !self.seed.is_multiple_of(128) {
            return;
        }
        let channel = self.host(host).channels[0].clone();
        let mut taken: Vec<Arc<CmId>> = Vec::new();
        let refused = loop {
            match CmId::create(&channel) {
                Ok(id) => taken.push(id),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.errno(), Errno::NOMEM);
        assert_eq!(taken.len(), NUMBERS, "numbers are in use");
        self.seen.met("numbers: all given back");
    }
}
