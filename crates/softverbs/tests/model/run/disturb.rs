//! Calls that end objects early, identifiers that change their channel, and disturbances of the network and of processes.

use std::sync::Arc;
use std::time::Duration;

use softverbs::{Chance, CmEvent, CmId, Conditions, Errno};

use super::Run;
use crate::connection::{Connection, Phase};

/// The disturbance of the network that lasts for some steps.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// The number of steps that it still lasts.
    steps: u64,
    /// The datagrams of both hosts are lost.
    datagrams: bool,
    /// The conditions to return to.
    before: Option<Conditions>,
    /// There was a disturbance.
    has_been: bool,
}

impl Cut {
    pub(super) fn is_active(&self) -> bool {
        self.steps > 0
    }

    pub(super) fn has_been(&self) -> bool {
        self.has_been
    }

    /// Returns true if the disturbance may end connections that are established.
    pub(super) fn breaks(&self) -> bool {
        self.is_active() && self.datagrams
    }
}

/// Returns true if the event counts at the identifier.
fn counts_at(event: &CmEvent, id: &Arc<CmId>) -> bool {
    Arc::ptr_eq(event.listener().unwrap_or(event.id()), id)
}

impl Run<'_> {
    /// Acknowledges the events of an identifier that the program has kept.
    fn acknowledge_all_of(&mut self, id: &Arc<CmId>) {
        let held = std::mem::take(&mut self.held);
        let (of_id, others): (Vec<_>, _) = held
            .into_iter()
            .partition(|(_, event)| counts_at(event, id));
        self.held = others;
        of_id.into_iter().for_each(|(_, event)| event.acknowledge());
    }

    fn has_held(&self, id: &Arc<CmId>) -> bool {
        self.held.iter().any(|(_, event)| counts_at(event, id))
    }

    pub(super) fn acknowledge_one(&mut self) {
        if let Some(at) = self.pick(self.held.len()) {
            self.held.swap_remove(at).1.acknowledge();
        }
    }

    /// Destroys an identifier, which fails first if the program has kept an event of it.
    fn destroy_id(&mut self, id: Arc<CmId>) {
        if self.has_held(&id) {
            assert_eq!(id.destroy().unwrap_err().errno(), Errno::DEADLK);
            self.acknowledge_all_of(&id);
            self.seen
                .met("destroyed: with an event that was not acknowledged");
        }
        id.destroy().unwrap();
        // The event of a request refers to its identifier, and counts at the listener.
        let others = self
            .held
            .iter()
            .filter(|(_, event)| Arc::ptr_eq(event.id(), &id));
        assert_eq!(
            Arc::strong_count(&id),
            1 + others.count(),
            "{id:?} is in use"
        );
    }

    pub(super) fn destroy_one(&mut self) {
        if self.random.once_in(3) {
            return self.destroy_a_queue_pair();
        }
        if let Some(at) = self.pick_side(|_, _, one| one.id.is_some()) {
            self.destroy_side(at);
        }
    }

    /// Destroys the identifier of a side, in whatever phase.
    pub(super) fn destroy_side(&mut self, at: (usize, usize)) {
        let waits = {
            let (id, (host, channel)) = (self.id(at), (self.side(at).host, self.side(at).channel));
            let busy = self.host(host).channels[channel].has_event();
            busy && Arc::strong_count(&id) > 2 + self.kept_references(&id)
        };
        if waits {
            self.seen.met("destroyed: with an event that waits");
        }
        let one = self.side(at);
        let id = one.id.take().expect("an identifier");
        one.is_destroyed = true;
        let phase = one.phase;
        self.connections[at.0].give_up();
        trace!("{:?} destroy {at:?} in {phase:?}", self.time());
        self.seen.met(format!("destroyed: {phase:?}"));
        self.destroy_id(id);
    }

    fn kept_references(&self, id: &Arc<CmId>) -> usize {
        let held = self.held.iter();
        held.filter(|(_, event)| Arc::ptr_eq(event.id(), id))
            .count()
    }

    /// Destroys the queue pair of a connection that is established, or was.
    fn destroy_a_queue_pair(&mut self) {
        let picked = self.pick_side(|_, _, one| {
            let qp = one.end.as_ref().and_then(|end| end.qp.as_ref());
            qp.is_some() && matches!(one.phase, Phase::Connected | Phase::Over)
        });
        if let Some(at) = picked {
            if self.side(at).ended == 0 && self.side(at).phase == Phase::Connected {
                self.seen.met("destroyed: queue pair of a connection");
            }
            self.destroy_queue_pair(at);
        }
    }

    pub(super) fn destroy_queue_pair(&mut self, (number, side): (usize, usize)) {
        trace!("{:?} destroy queue pair of {number} {side}", self.time());
        self.connections[number].give_up();
        let [client, server] = &mut self.connections[number].sides;
        let (own, peer) = match side {
            0 => (client, server),
            _ => (server, client),
        };
        let Some(end) = &mut own.end else {
            return;
        };
        let Some(qp) = end.forget_queue_pair() else {
            return;
        };
        let host = self.hosts[own.host].as_mut().expect("the process");
        if let Some(shared) = host.devices[own.device].receives.as_mut() {
            let unseen = peer.end.as_ref().map_or(0, |peer| peer.sent.len());
            // The Receive that the queue pair has drawn for the next message.
            shared.vanish(unseen + 1);
        }
        match &own.id {
            Some(id) if self.random.once_in(2) => id.destroy_queue_pair().unwrap(),
            Some(id) => {
                qp.destroy().unwrap();
                id.forget_queue_pair();
            }
            None => qp.destroy().unwrap(),
        }
        assert_eq!(Arc::strong_count(&qp), 1, "{qp:?} is in use");
    }

    pub(super) fn disconnect(&mut self) {
        let picked = self.pick_side(|_, _, one| one.established == 1 && one.id.is_some());
        if let Some(at) = picked {
            trace!("{:?} disconnect {at:?}", self.time());
            self.id(at).disconnect().unwrap();
            self.side(at).has_disconnected = true;
            self.connections[at.0].is_over = true;
        }
    }

    /// Moves an identifier or a listener to the other channel of its host.
    pub(super) fn migrate(&mut self) {
        if self.random.once_in(3) {
            return self.migrate_listener();
        }
        let Some(at) = self.pick_side(|_, _, one| one.id.is_some()) else {
            return;
        };
        let id = self.id(at);
        let (host, from) = (self.side(at).host, self.side(at).channel);
        let to = 1 - from;
        if self.move_id(&id, host, to) {
            self.seen.met("migrated: identifier");
            if Arc::strong_count(&id) > 2 + self.kept_references(&id) {
                self.seen
                    .met("migrated: identifier with an event that waits");
            }
            self.side(at).channel = to;
        }
    }

    fn move_id(&mut self, id: &Arc<CmId>, host: usize, to: usize) -> bool {
        let channel = self.host(host).channels[to].clone();
        if self.has_held(id) {
            let moved = id.migrate(Some(&channel));
            assert_eq!(moved.unwrap_err().errno(), Errno::DEADLK);
            self.seen
                .met("refused: migrate with an event that was not acknowledged");
            return false;
        }
        if self.random.once_in(4) {
            id.migrate(None).unwrap();
            assert!(id.is_synchronous());
            self.seen.met("migrated: to a channel of its own and back");
        }
        id.migrate(Some(&channel)).unwrap();
        assert!(!id.is_synchronous() && Arc::ptr_eq(&id.channel(), &channel));
        true
    }

    fn migrate_listener(&mut self) {
        let Some(at) = self.pick(self.listeners.len()) else {
            return;
        };
        let Some(id) = self.listeners[at].id.clone() else {
            return;
        };
        let (host, to) = (self.listeners[at].host, 1 - self.listeners[at].channel);
        if self.move_id(&id, host, to) {
            if Arc::strong_count(&id) > 2 + self.kept_requests(&id) {
                self.seen.met("migrated: listener with requests that wait");
            }
            self.listeners[at].channel = to;
        }
    }

    fn kept_requests(&self, id: &Arc<CmId>) -> usize {
        self.held
            .iter()
            .filter(|(_, event)| counts_at(event, id))
            .count()
    }

    /// Destroys a listener, or makes another one. One listens always.
    pub(super) fn change_listeners(&mut self) {
        let place = usize::from(self.random.once_in(2));
        let host = self.current[place];
        let all = self.listeners.iter().enumerate();
        let all = all.filter(|(_, one)| one.host == host && one.id.is_some());
        let all: Vec<_> = all.map(|(at, _)| at).collect();
        if all.len() < 3 && (all.len() < 2 || self.random.once_in(2)) {
            return self.listen(place);
        }
        let at = all[self.pick(all.len()).expect("two at least")];
        self.destroy_listener(at);
    }

    /// Destroys a listener whose program is busy, if it is not the only one.
    pub(super) fn destroy_busy_listener(&mut self) {
        let hosts = &self.hosts;
        let is_busy = |host: usize| hosts[host].as_ref().is_some_and(|host| host.busy > 0);
        let all = self.listeners.iter().enumerate();
        let all = all.filter(|(_, one)| one.id.is_some() && is_busy(one.host));
        let all: Vec<_> = all.map(|(at, _)| at).collect();
        if let Some(at) = self.pick(all.len()) {
            let place = self.listeners[all[at]].place;
            self.listen(place);
            self.destroy_listener(all[at]);
        }
    }

    pub(super) fn destroy_listener(&mut self, at: usize) {
        let Some(id) = self.listeners[at].id.take() else {
            return;
        };
        trace!("{:?} destroy listener {at}", self.time());
        let waits = Arc::strong_count(&id) > 1 + self.kept_requests(&id);
        for connection in &mut self.connections {
            connection.may_fail |= connection.listener == at && !connection.has_arrived;
        }
        self.seen.met("destroyed: listener");
        if waits {
            self.seen.met("destroyed: listener with requests that wait");
        }
        self.destroy_id(id);
    }

    /// One step of the time for which the network or a program is disturbed passes.
    pub(super) fn pass_step(&mut self) {
        for place in 0..2 {
            let busy = &mut self.hosts[self.current[place]]
                .as_mut()
                .expect("lives")
                .busy;
            *busy = busy.saturating_sub(1);
        }
        if self.cut.is_active() {
            self.cut.steps -= 1;
            if self.cut.steps == 0 {
                self.end_cut();
            }
        }
    }

    fn end_cut(&mut self) {
        self.cut.steps = 0;
        if std::mem::take(&mut self.cut.datagrams) {
            self.cut_datagrams(Duration::ZERO);
        }
        if let Some(before) = self.cut.before.take() {
            self.world
                .network(|network| *network.conditions_mut() = before);
        }
    }

    /// Ends all that keeps events from happening.
    pub(super) fn stop_disturbing(&mut self) {
        self.end_cut();
        for place in 0..2 {
            let host = self.current[place];
            self.host(host).busy = 0;
        }
    }

    pub(super) fn disturb(&mut self) {
        if self.random.once_in(3) {
            let place = usize::from(self.random.once_in(2));
            return self.end_process(place);
        }
        if self.cut.is_active() {
            return;
        }
        self.cut.steps = 1 + self.random.below(60);
        self.cut.has_been = true;
        let (may_fail, may_break) = match (self.over_udp, self.random.once_in(2)) {
            (true, _) => {
                let most = [20, 2000, 70_000][usize::try_from(self.random.below(3)).unwrap()];
                let time = Duration::from_millis(1 + self.random.below(most));
                self.cut.datagrams = true;
                self.cut_datagrams(time);
                self.seen.met("cut: datagrams");
                (true, true)
            }
            (false, true) => {
                self.change_conditions(|conditions, _| conditions.silence = Chance::ALWAYS);
                self.seen.met("cut: silence");
                (true, false)
            }
            (false, false) => {
                self.change_conditions(|conditions, time| {
                    conditions.stall = Chance::per_million(100_000);
                    conditions.stall_time = time..=time;
                    conditions.segment = 1..=16;
                });
                self.seen.met("cut: stalls");
                (true, false)
            }
        };
        trace!("{:?} {:?}", self.time(), self.cut);
        for _ in 0..self.random.below(3) {
            self.connect();
        }
        for connection in &mut self.connections {
            connection.may_fail |= may_fail;
            connection.may_break |= may_break;
        }
    }

    fn change_conditions(&mut self, change: impl FnOnce(&mut Conditions, Duration)) {
        let time = Duration::from_millis(1 + self.random.below(30_000));
        let before = self.world.network(|network| {
            let conditions = network.conditions_mut();
            let before = conditions.clone();
            change(conditions, time);
            before
        });
        self.cut.before = Some(before);
    }

    /// Cuts all addresses of the two hosts off from each other.
    fn cut_datagrams(&self, time: Duration) {
        for [one, other] in [[0, 0], [0, 1], [1, 0], [1, 1]] {
            let (one, other) = ([10, 0, one, 1].into(), [10, 0, other, 2].into());
            self.world
                .network(|network| network.datagrams().cut(one, other, time));
        }
    }

    /// A process ends, and another one begins at the same addresses.
    fn end_process(&mut self, place: usize) {
        let host = self.current[place];
        trace!("{:?} process {host} ends", self.time());
        if self.random.once_in(2) {
            let process = self.host(host).process.clone();
            process.finish(Duration::from_millis(self.random.below(3000)));
            self.seen.met("process finished");
        } else {
            self.seen.met("process dropped");
        }
        self.held.retain(|(owner, _)| *owner != host);
        self.host(host).drop_events();
        for connection in &mut self.connections {
            drop_side_of(connection, host);
        }
        for (at, listener) in self.listeners.iter_mut().enumerate() {
            if listener.host == host && listener.id.take().is_some() {
                let connections = self.connections.iter_mut();
                let to_it = connections.filter(|one| one.listener == at && !one.has_arrived);
                to_it.for_each(|one| one.may_fail = true);
            }
        }
        for queue in &mut self.queues {
            if queue.host == host {
                queue.cq = None;
            }
        }
        self.hosts[host] = None;
        self.boot(place);
    }
}

fn drop_side_of(connection: &mut Connection, host: usize) {
    for side in 0..2 {
        let one = &mut connection.sides[side];
        if one.host != host || one.id.is_none() && one.end.is_none() {
            continue;
        }
        one.is_destroyed |= one.id.take().is_some();
        if let Some(end) = &mut one.end {
            drop(end.forget_queue_pair());
            drop(end.take_region());
        }
        connection.give_up();
    }
}
