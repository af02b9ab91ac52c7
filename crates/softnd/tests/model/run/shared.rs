//! Shared receive queues.

use super::*;

/// The length of a Receive that takes every message.
const LENGTH: usize = 3100;

impl Run<'_> {
    /// The shared receive queue of a host for a new queue pair; made if there is none.
    pub(super) fn pool_for_new_end(&mut self, host: usize) -> usize {
        let usable = self.hosts[host].pools.iter().position(Pool::is_usable);
        usable.unwrap_or_else(|| self.new_pool(host))
    }

    fn new_pool(&mut self, host: usize) -> usize {
        let depth = u32::try_from(1 + self.below(12)).unwrap();
        let threshold = u32::try_from(self.below(6)).unwrap();
        let options = SharedReceiveQueueOptions::default()
            .queue_depth(depth)
            .max_request_sge(2)
            .notify_threshold(threshold);
        let owner = &mut self.hosts[host];
        let srq = owner
            .adapter
            .create_shared_receive_queue(&owner.file, options);
        let mut pool = Pool::new(srq.unwrap(), depth, threshold);
        pool.free.extend(owner.allot(LENGTH));
        owner.pools.push(pool);
        owner.pools.len() - 1
    }

    /// Posts a Receive. Returns true if it was posted.
    pub(super) fn receive_shared(
        &mut self,
        host: usize,
        number: usize,
        may_be_short: bool,
    ) -> bool {
        let pool = &mut self.hosts[host].pools[number];
        let Some(srq) = pool.srq.clone() else {
            return false;
        };
        let short = may_be_short && self.chance(1);
        let place = if short {
            Some(0)
        } else {
            let free = self.hosts[host].pools[number].free.pop();
            free.or_else(|| self.allot(host, LENGTH))
        };
        let Some(at) = place else {
            return false;
        };
        let len = if short { 0 } else { LENGTH };
        let context = self.number();
        let cut = if short { 0 } else { self.below(len) };
        let sges = self.hosts[host].sges(at, len, cut);
        let posted = srq.receive(context, &sges);
        trace!("post to queue {host}/{number} {context} {posted:?}");
        let removed = self.hosts[host].removed;
        let sound = !self.lossy && self.hosts[host].queues.iter().all(|queue| !queue.broken);
        let pool = &mut self.hosts[host].pools[number];
        match posted.map_err(|error| error.status()) {
            Ok(()) => {
                assert!(!removed, "a Receive was taken after the removal");
                let used = if sound {
                    pool.at_most()
                } else {
                    pool.at_least()
                };
                assert!(
                    used < pool.depth,
                    "a Receive was taken although {used} slots are used, and the depth is {}",
                    pool.depth
                );
                pool.posted(Receive { context, at, len });
                pool.short |= short;
                self.count("shared Receive");
                if short {
                    self.disturb_users(host, number, "a shared Receive that is too short");
                }
                return true;
            }
            Err(Status::NO_MORE_ENTRIES) => {
                let outstanding = pool.at_most();
                assert!(
                    outstanding >= pool.depth,
                    "a Receive was refused although at most {outstanding} are outstanding, and the depth is {}",
                    pool.depth
                );
                self.coverage.met("shared queue: full");
            }
            Err(Status::DEVICE_REMOVED) if removed => {}
            Err(status) => panic!("Receive of a shared queue: {status}"),
        }
        if !short {
            self.hosts[host].pools[number].free.push(at);
        }
        false
    }

    /// An event at a shared receive queue may end the connections of its queue pairs.
    fn disturb_users(&mut self, host: usize, number: usize, why: &'static str) {
        for connection in &mut self.connections {
            let mut ends = connection.ends.iter();
            if ends.any(|end| end.host == host && end.shared == Some(number)) {
                connection.disturb(why);
            }
        }
    }

    /// Makes a call of a shared receive queue.
    pub(super) fn use_pool(&mut self) {
        let host = self.below(2);
        let count = self.hosts[host].pools.len();
        if count == 0 {
            return;
        }
        let number = self.below(count);
        match self.below(12) {
            0..5 => self.notify_shared(host, number),
            5..9 => self.modify_shared(host, number),
            9 => self.cancel_shared(host, number),
            10 if self.chance(40) => self.release_shared(host, number),
            11 if self.chance(40) => self.break_shared(host, number),
            _ => {}
        }
    }

    fn notify_shared(&mut self, host: usize, number: usize) {
        let Some(srq) = self.hosts[host].pools[number].srq.clone() else {
            return;
        };
        let what = Step::NotifyShared(host, number);
        match self.begin(what, |overlapped| srq.notify(overlapped)) {
            Ok(control) => self.hosts[host].pools[number].notify(control),
            Err(status) => assert_eq!(status, Status::DEVICE_REMOVED),
        }
    }

    fn modify_shared(&mut self, host: usize, number: usize) {
        let (depth, threshold) = (self.below(14) as u64, self.below(8) as u64);
        let too_deep = self.chance(5);
        let removed = self.hosts[host].removed;
        let pool = &mut self.hosts[host].pools[number];
        let Some(srq) = &pool.srq else {
            return;
        };
        let asked = if too_deep {
            u32::MAX
        } else {
            u32::try_from(depth).unwrap()
        };
        let modified = srq.modify(asked, u32::try_from(threshold).unwrap());
        let status = modified.map_or_else(|error| error.status(), |()| Status::SUCCESS);
        trace!("modify queue {host}/{number} to {asked}, {threshold}: {status}");
        let expected = if removed {
            Status::DEVICE_REMOVED
        } else if too_deep {
            Status::INVALID_PARAMETER
        } else if pool.broken {
            Status::INVALID_DEVICE_STATE
        } else if status == Status::BUFFER_OVERFLOW {
            assert!(depth > 0 && pool.at_most() > depth, "the depth is enough");
            status
        } else {
            Status::SUCCESS
        };
        assert_eq!(status, expected, "Modify");
        self.coverage.met(format!("Modify ended with {status}"));
        if status != Status::SUCCESS {
            return;
        }
        if depth > 0 {
            assert!(pool.at_least() <= depth, "the depth is not enough");
            pool.depth = depth;
        }
        if threshold > 0 {
            pool.set_threshold(threshold);
        }
    }

    pub(super) fn cancel_shared(&mut self, host: usize, number: usize) {
        let pool = &mut self.hosts[host].pools[number];
        if let Some(srq) = &pool.srq {
            pool.canceled = true;
            srq.cancel_overlapped_requests().unwrap();
        }
    }

    /// Its queue pairs continue to take the posted Receives.
    fn release_shared(&mut self, host: usize, number: usize) {
        let pool = &mut self.hosts[host].pools[number];
        if let Some(srq) = pool.srq.take() {
            pool.canceled = true;
            self.coverage.met("fault: shared queue released");
            drop(srq);
        }
    }

    fn break_shared(&mut self, host: usize, number: usize) {
        let pool = &mut self.hosts[host].pools[number];
        if pool.broken || self.hosts[host].removed {
            return;
        }
        let Some(queue) = self.hosts[host].pools[number].srq.clone() else {
            return;
        };
        self.hosts[host].pools[number].broken = true;
        self.coverage.met("fault: shared queue broken");
        self.disturb_users(host, number, "a shared receive queue has broken down");
        let status = Status::INTERNAL_ERROR;
        self.inject(host, Fault::BreakSharedReceiveQueue { queue, status });
    }

    /// A request of Notify has ended.
    pub(super) fn notified_shared(&mut self, host: usize, number: usize, control: usize) {
        let status = self.controls[control].overlapped.status();
        let removed = self.hosts[host].removed;
        let pool = &mut self.hosts[host].pools[number];
        let at = pool
            .notifies
            .iter()
            .position(|known| known.control == control);
        let notify = pool.notifies.remove(at.expect("noted when it was begun"));
        match status {
            Status::SUCCESS => pool.notified(&notify),
            Status::CANCELED => assert!(pool.canceled, "nobody has cancelled Notify"),
            Status::INTERNAL_ERROR => assert!(pool.broken, "the queue is sound"),
            _ => assert!(removed, "Notify ended with {status}"),
        }
    }

    /// Returns, for each end, true if it has a shared receive queue that supplies no further Receives.
    pub(super) fn starved(&self, number: usize) -> [bool; 2] {
        let ends = &self.connections[number].ends;
        [0, 1].map(|at| {
            let end = &ends[at];
            let pool = end.shared.map(|pool| &self.hosts[end.host].pools[pool]);
            pool.is_some_and(|pool| pool.srq.is_none())
        })
    }

    /// Messages that wait for a shared Receive get one. A message may wait behind one of the other direction, which waits for the
    /// other host's queue.
    pub(super) fn feed(&mut self) {
        while self.feed_once() {
            self.coverage.met("shared queue: waited for");
        }
    }

    /// The peer's orderly end waits behind a Send that waits for a shared Receive, which it gets here. Mostly such a Send ends with a
    /// reset, except if the network has closed the other direction: the peer has seen both ends then, and has nothing to reset. Returns the
    /// ends for which there is no Receive, because the queue was released or the host has no memory left.
    pub(super) fn feed_before_ends(&mut self) -> Vec<(usize, usize)> {
        if self.links == Links::Streams && self.simulation.disturbances().half_closes == 0 {
            return Vec::new(); // each of these ends has noticed the reset without another Receive
        }
        let ends = (0..self.connections.len()).flat_map(|number| [(number, 0), (number, 1)]);
        let mut starved = Vec::new();
        for (number, at) in ends {
            while let Some((host, pool)) = self.waits_before_the_end(number, at) {
                if !self.receive_shared(host, pool, false) {
                    let pool = &self.hosts[host].pools[pool];
                    if pool.srq.is_none() || pool.at_most() == 0 {
                        starved.push((number, at));
                    }
                    break;
                }
                self.coverage.met("shared queue: the end waited for");
                self.settle();
            }
        }
        starved
    }

    /// The host and the queue for whose Receive a message to this end waits, if the peer has disconnected and the end has not been
    /// notified.
    fn waits_before_the_end(&self, number: usize, at: usize) -> Option<(usize, usize)> {
        let [end, peer] = [at, 1 - at].map(|at| &self.connections[number].ends[at]);
        let waits = self.awaits_end(end) && peer.left && end.heard < peer.said.len();
        let pool = end.shared.filter(|_| waits)?;
        Some((end.host, pool))
    }

    /// Posts a Receive to each queue that is waited for. Returns true if any was posted.
    fn feed_once(&mut self) -> bool {
        let mut posted = false;
        for host in 0..2 {
            for number in 0..self.hosts[host].pools.len() {
                if self.is_waited_for(host, number) && self.receive_shared(host, number, false) {
                    posted = true;
                    self.settle();
                }
            }
        }
        posted
    }

    /// Returns true if a message of an undisturbed connection waits for a Receive of the queue.
    fn is_waited_for(&self, host: usize, number: usize) -> bool {
        self.connections.iter().any(|connection| {
            let sound =
                connection.disturbed.is_none() && connection.ends.iter().all(|end| end.open);
            let [active, passive] = &connection.ends;
            let waits = |end: &End, peer: &End| {
                end.host == host && end.shared == Some(number) && end.heard < peer.said.len()
            };
            sound && (waits(active, passive) || waits(passive, active))
        })
    }

    /// No event is left: checks the queues.
    pub(super) fn check_pools(&self) {
        for host in self.hosts.iter().filter(|host| !host.removed) {
            let sound = host.queues.iter().all(|queue| !queue.broken);
            for pool in &host.pools {
                if !pool.broken {
                    pool.check_notifies();
                }
                if sound && !self.lossy {
                    pool.check_order();
                }
            }
        }
    }
}
