//! Calls that end requests and connections early.

use super::*;

/// Connections survive cuts of this length together, if no datagrams are lost otherwise. Each retransmission waits twice as long as the one
/// before, so several cuts in a row may keep a connection from sending for longer than a time limit.
const SHORT_CUT: Duration = Duration::from_secs(2);

impl Run<'_> {
    pub(super) fn disturb(&mut self) {
        match self.below(24) {
            0..4 => self.disconnect(),
            4..6 => self.release_queue_pair(),
            6 => self.release_connector(),
            7..9 => self.cancel(),
            9 => self.flush(),
            10 if self.chance(30) => self.remove_device(),
            11 if self.chance(30) => self.break_queue(),
            12 => self.fail_call(),
            13..15 => self.cut(),
            15..17 => self.rebind(),
            17 => self.pass(),
            _ => {}
        }
    }

    /// Cuts the hosts off from each other. A cut that is longer than the idle time-out of QUIC ends their connections; so may a shorter
    /// one, if datagrams sent after it are lost as well.
    fn cut(&mut self) {
        if self.links == Links::Streams {
            return;
        }
        let most = [20, 2_000, 60_000][self.below(3)];
        let time = Duration::from_millis(1 + self.below(most) as u64);
        trace!("cut for {time:?} at {:?}", self.simulation.time());
        self.cut_off += time;
        if self.cut_off > SHORT_CUT || self.loses {
            self.lossy = true;
            for connection in &mut self.connections {
                connection.disturb(NETWORK);
            }
        }
        let [one, other] = [0, 1].map(|host| self.hosts[host].address.ip());
        self.simulation.cut(one, other, time);
        if self.chance(50) {
            self.pass();
        }
    }

    /// Changes the address from which a host connects. QUIC gives up an attempt to connect whose address changes meanwhile.
    fn rebind(&mut self) {
        if self.links == Links::Streams {
            return;
        }
        let host = self.below(2);
        let mut young = self.connections.iter_mut().filter(|connection| {
            let [active, passive] = &connection.ends;
            active.host == host && !(active.open && passive.open)
        });
        if let Some(connection) = young.next() {
            connection.disturb(NETWORK);
            young.for_each(|connection| connection.disturb(NETWORK));
            // Further ones wait for the same connection of QUIC.
            self.lossy = true;
        }
        trace!("rebind {host} at {:?}", self.simulation.time());
        self.simulation
            .rebind(self.hosts[host].address.ip())
            .unwrap();
    }

    /// Lets time pass.
    fn pass(&mut self) {
        if self.links == Links::Udp {
            let most = [20, 2_000, 60_000][self.below(3)];
            let time = Duration::from_millis(1 + self.below(most) as u64);
            self.simulation.pass(time);
        }
    }

    /// Notes that a call at one end has ended the requests there.
    pub(super) fn disturb_end(&mut self, (number, at): (usize, usize), why: &'static str) {
        self.connections[number].disturb(why);
        self.connections[number].ends[at].acted = true;
    }

    pub(super) fn disconnect(&mut self) {
        let picked = self.pick(|end| end.open && end.connector.is_some() && end.qp.is_some());
        if let Some((number, at)) = picked {
            self.disconnect_end(number, at);
        }
    }

    pub(super) fn disconnect_end(&mut self, number: usize, at: usize) {
        let end = &self.connections[number].ends[at];
        let Some(connector) = end.connector.clone() else {
            return;
        };
        let removed = self.hosts[end.host].removed;
        match self.begin(Step::Disconnect, |overlapped| {
            connector.disconnect(overlapped)
        }) {
            Ok(_) => {
                self.disturb_end((number, at), "Disconnect");
                let end = &mut self.connections[number].ends[at];
                (end.open, end.left) = (false, true);
            }
            Err(Status::DEVICE_REMOVED) if removed => {}
            Err(Status::CONNECTION_INVALID) if self.connections[number].disturbed.is_some() => {}
            Err(status) => panic!("Disconnect: {status}"),
        }
    }

    pub(super) fn release_queue_pair(&mut self) {
        if let Some((number, at)) = self.pick(|end| end.qp.is_some()) {
            self.coverage.met("fault: queue pair released");
            self.disturb_end((number, at), "a queue pair was released");
            let end = &mut self.connections[number].ends[at];
            (end.open, end.left) = (false, true);
            let released = self.connections[number].ends[at].qp.take();
            drop(released);
        }
    }

    pub(super) fn release_connector(&mut self) {
        if let Some((number, at)) = self.pick(|end| end.connector.is_some()) {
            self.coverage.met("fault: connector released");
            let [active, passive] = &self.connections[number].ends;
            if !active.open || !passive.open {
                self.connections[number].disturb("a connector was released");
            }
            self.connections[number].ends[at].acted = true;
            let released = self.connections[number].ends[at].connector.take();
            drop(released);
        }
    }

    pub(super) fn cancel(&mut self) {
        self.coverage.met("fault: cancel");
        if self.chance(20) {
            let host = self.below(2);
            let file = if self.chance(50) {
                self.hosts[host].listener.cancel_overlapped_requests()
            } else {
                let queue = self.below(2);
                self.hosts[host].queues[queue]
                    .cq
                    .cancel_overlapped_requests()
            };
            return file.unwrap();
        }
        if let Some((number, at)) = self.pick(|end| end.connector.is_some()) {
            let [active, passive] = &self.connections[number].ends;
            if !active.open || !passive.open {
                self.connections[number].disturb("a cancel");
            }
            self.connections[number].ends[at].acted = true;
            let connector = self.connections[number].ends[at].connector.clone();
            connector.unwrap().cancel_overlapped_requests().unwrap();
        }
    }

    pub(super) fn flush(&mut self) {
        if let Some((number, at)) = self.pick(|end| end.open && end.qp.is_some()) {
            self.coverage.met("fault: flush");
            self.disturb_end((number, at), "Flush");
            let qp = self.connections[number].ends[at].qp.clone();
            qp.unwrap().flush().unwrap();
        }
    }

    pub(super) fn remove_device(&mut self) {
        let host = self.below(2);
        if self.hosts[host].removed {
            return;
        }
        self.coverage.met("fault: device removed");
        self.hosts[host].removed = true;
        for connection in &mut self.connections {
            connection.disturb("the device was removed");
            for end in connection.ends.iter_mut().filter(|end| end.host == host) {
                (end.open, end.acted, end.left) = (false, true, true);
            }
        }
        self.inject(host, Fault::RemoveDevice);
    }

    pub(super) fn break_queue(&mut self) {
        let (host, queue) = (self.below(2), self.below(2));
        let broken = &mut self.hosts[host].queues[queue];
        if broken.broken || self.hosts[host].removed {
            return;
        }
        self.hosts[host].queues[queue].broken = true;
        self.coverage.met("fault: completion queue broken");
        for connection in &mut self.connections {
            let here = connection.ends.iter();
            let mut here = here.filter(|end| end.host == host && end.queues.contains(&queue));
            if here.next().is_some() {
                connection.disturb("a completion queue has broken down");
            }
        }
        let fault = Fault::BreakCompletionQueue {
            queue: self.hosts[host].queues[queue].cq.clone(),
            status: Status::INTERNAL_ERROR,
        };
        self.inject(host, fault);
    }

    pub(super) fn inject(&self, host: usize, fault: Fault) {
        let extensions = self.hosts[host].adapter.extensions();
        extensions.expect("softnd has them").inject(fault).unwrap();
    }

    /// Makes the next call that takes a resource fail once, and makes that call.
    pub(super) fn fail_call(&mut self) {
        let host = self.below(2);
        if self.hosts[host].removed {
            return;
        }
        self.coverage.met("fault: call failed");
        let status = Status::INSUFFICIENT_RESOURCES;
        let call = Call::CreateMemoryWindow;
        self.inject(
            host,
            Fault::Call {
                call,
                nth: 1,
                status,
            },
        );
        let failed = self.hosts[host].adapter.create_memory_window();
        assert_eq!(failed.map(drop).unwrap_err().status(), status);
    }
}
