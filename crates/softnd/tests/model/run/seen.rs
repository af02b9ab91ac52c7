//! Results, and the ends of overlapped requests.

use super::*;

impl Run<'_> {
    pub(super) fn poll_somewhere(&mut self) {
        let (host, queue) = (self.below(2), self.below(2));
        let most = 1 + self.below(16);
        self.poll(host, queue, most);
    }

    /// Takes results. Returns their number.
    pub(super) fn poll(&mut self, host: usize, queue: usize, most: usize) -> usize {
        let mut results = [CompletionResult::default(); 16];
        let cq = self.hosts[host].queues[queue].cq.clone();
        let count = cq.get_results(&mut results[..most]);
        for result in &results[..count] {
            let number = usize::try_from(result.queue_pair_context / 2).unwrap();
            let memory = self.memory(number);
            let at = usize::from(self.connections[number].ends[1].host == host);
            let receive = result.request_type == RequestType::Receive;
            let end = &self.connections[number].ends[at];
            assert_eq!(
                end.queues[usize::from(receive)],
                queue,
                "in the wrong queue"
            );
            self.check_notification(number, at, result);
            let shared = end.shared.filter(|_| receive);
            let place = shared.map(|pool| self.take_shared(number, at, pool, result));
            let memory = [&memory[0], &memory[1]];
            self.connections[number].ended(at, result, memory);
            let (kind, status) = (result.request_type, result.status);
            if let (Some(pool), Some(place)) = (shared, place) {
                self.hosts[host].pools[pool].free.extend(place);
                self.coverage
                    .met(format!("shared {kind} ended with {status}"));
            } else {
                self.coverage.met(format!("{kind} ended with {status}"));
            }
        }
        count
    }

    /// A shared Receive has a result: from now on it belongs to the queue pair. Returns its memory, if it has some.
    fn take_shared(
        &mut self,
        number: usize,
        at: usize,
        pool: usize,
        result: &CompletionResult,
    ) -> Option<usize> {
        let end = &mut self.connections[number].ends[at];
        let context = result.request_context;
        let receive = self.hosts[end.host].pools[pool].ended(context);
        assert!(
            context > end.drawn,
            "Receive {context} has a result behind {}, which was posted later",
            end.drawn
        );
        end.drawn = context;
        let place = (receive.len > 0).then_some(receive.at);
        end.receives.push_back(receive);
        place
    }

    /// CONN-106: if the peer has ended the connection, NotifyDisconnect has ended before a flushed request is seen.
    pub(super) fn check_notification(&self, number: usize, at: usize, result: &CompletionResult) {
        let connection = &self.connections[number];
        let end = &connection.ends[at];
        if result.status == Status::CANCELED
            && !end.acted
            && let Some(notification) = end.notification
        {
            let control = &self.controls[notification];
            assert!(
                !control.overlapped.is_pending(),
                "a flushed request was seen before NotifyDisconnect has ended"
            );
        }
    }

    /// Continues with requests that have ended.
    pub(super) fn follow_up(&mut self) {
        for at in 0..self.controls.len() {
            let control = &mut self.controls[at];
            if control.seen || control.overlapped.is_pending() {
                continue;
            }
            control.seen = true;
            let (what, status) = (control.what, control.overlapped.status());
            trace!("ctl {what:?} {status} at {:?}", self.simulation.time());
            assert!(what.allows(status), "{what:?} ended with {status}");
            self.coverage
                .met(format!("{} ended with {status}", what.name()));
            match what {
                Step::Connect(number) => self.connected(number, status),
                Step::CompleteConnect(number) => self.opened(number, 0, status),
                Step::Accept(number) => self.opened(number, 1, status),
                Step::GetConnectionRequest(place) => self.asked(place, status),
                Step::NotifyShared(host, pool) => self.notified_shared(host, pool, at),
                Step::NotifyDisconnect | Step::Disconnect | Step::Notify => {}
            }
        }
    }

    pub(super) fn connected(&mut self, number: usize, status: Status) {
        let connection = &self.connections[number];
        let end = &connection.ends[0];
        if status != Status::SUCCESS {
            assert!(
                connection.disturbed.is_some(),
                "Connect ended with {status}"
            );
            return;
        }
        let Some(connector) = end.connector.clone() else {
            return;
        };
        if self.chance(3) {
            self.coverage.met("fault: reject");
            self.connections[number].disturb("Reject");
            let _ = connector.reject(b"");
            return;
        }
        let begun = self.begin(Step::CompleteConnect(number), |overlapped| {
            connector.complete_connect(overlapped)
        });
        if let Err(status) = begun {
            let why = self.connections[number].disturbed;
            assert!(why.is_some(), "CompleteConnect: {status}");
        }
    }

    pub(super) fn asked(&mut self, place: usize, status: Status) {
        let (_, connector) = &mut self.accepting[place];
        let Some(connector) = connector.take() else {
            return;
        };
        if status != Status::SUCCESS {
            // Another connector gets the peer, or none does.
            self.unwanted = true;
            for connection in &mut self.connections {
                if !connection.ends.iter().all(|end| end.open) {
                    connection.disturb("a connector that waits no more");
                }
            }
            return;
        }
        let name = connector.get_private_data().unwrap();
        let name: [u8; 4] = name[..4].try_into().unwrap();
        let number = usize::try_from(u32::from_be_bytes(name)).unwrap();
        let Some(qp) = self.connections[number].ends[1].qp.clone() else {
            return;
        };
        if self.chance(3) {
            self.coverage.met("fault: reject");
            self.connections[number].disturb("Reject");
            let _ = connector.reject(b"no");
            return;
        }
        let limit = u32::try_from(self.below(8)).unwrap();
        let begun = self.begin(Step::Accept(number), |overlapped| {
            connector.accept(&qp, limit.max(1), limit.max(1), b"", overlapped)
        });
        if let Err(status) = begun {
            let why = self.connections[number].disturbed;
            assert!(why.is_some(), "Accept: {status}");
            self.connections[number].disturb("an Accept that failed");
        }
        self.connections[number].ends[1].connector = Some(connector);
    }

    pub(super) fn opened(&mut self, number: usize, at: usize, status: Status) {
        if status != Status::SUCCESS {
            let why = self.connections[number].disturbed;
            assert!(why.is_some(), "end {at} of connection {number}: {status}");
            return;
        }
        let end = &mut self.connections[number].ends[at];
        end.open = end.qp.is_some() && !self.hosts[end.host].removed;
        let Some(connector) = end.connector.clone() else {
            return;
        };
        if let Some(name) = connector.transport() {
            self.coverage
                .met(format!("end of a connection over {name}"));
        }
        if self.chance(70) {
            let begun = self.begin(Step::NotifyDisconnect, |overlapped| {
                connector.notify_disconnect(overlapped)
            });
            match begun {
                Ok(control) => self.connections[number].ends[at].notification = Some(control),
                Err(status) => {
                    let why = self.connections[number].disturbed;
                    assert!(why.is_some(), "NotifyDisconnect: {status}");
                }
            }
        }
    }
}
