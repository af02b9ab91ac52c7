//! A plan in use. All streams, sockets, queues and calls of the owner share it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::Span;

use super::plan::{Action, Event, Peer, Plan, Rule, Scope, Which};
use crate::log::targets;

/// A plan in use by one owner.
///
/// The owner reports each event before it happens, and does what the answer says. Each fault is counted here, and logged with the line of
/// the plan.
#[derive(Debug)]
pub struct Faults {
    plan: Plan,
    /// Called for each fault, with a sentence.
    on_fault: Option<fn(&str)>,
    /// For each rule that counts over everything, the number of events it has counted.
    counts: Vec<AtomicU64>,
    happened: Vec<AtomicU64>,
    streams: AtomicU64,
    sockets: AtomicU64,
    queues: AtomicU64,
}

/// The action of the owner on an attempt to connect, a peer that has connected, or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Refuse the connection.
    Refuse,
    /// Hold it, for this time or for ever.
    Hold(Option<Duration>),
    /// Carry out an effect on the device or on completion queues.
    Effect(Effect),
}

/// An effect beyond one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The device is removed.
    RemoveDevice,
    /// The completion queue, or the queues that a stream feeds, break down with the status of this name.
    BreakQueue(String),
}

/// The fault of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFault<'a> {
    /// The call fails with the status of this name.
    Fail(&'a str),
    /// The device is removed.
    RemoveDevice,
}

/// The events of one queue.
#[derive(Debug)]
pub struct QueueFaults {
    faults: Arc<Faults>,
    number: u64,
    counts: Vec<AtomicU64>,
}

impl Faults {
    /// Begins to count. The owner has [checked the names](Plan::check_names) before.
    #[must_use]
    pub fn new(plan: Plan) -> Arc<Self> {
        Self::made(plan, None)
    }

    /// As [`new`](Self::new). `on_fault` is called for each fault, with a sentence that names the rule; the caller may hold locks.
    #[must_use]
    pub fn telling(plan: Plan, on_fault: fn(&str)) -> Arc<Self> {
        Self::made(plan, Some(on_fault))
    }

    fn made(plan: Plan, on_fault: Option<fn(&str)>) -> Arc<Self> {
        let zeros = || plan.rules.iter().map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self {
            counts: zeros(),
            happened: zeros(),
            plan,
            on_fault,
            streams: AtomicU64::new(0),
            sockets: AtomicU64::new(0),
            queues: AtomicU64::new(0),
        })
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The number of faults that each rule has caused, by the line of the rule.
    pub fn happened(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.happened.iter();
        let lines = self.plan.rules.iter().map(Rule::line);
        lines.zip(counts.map(|count| count.load(Ordering::Relaxed)))
    }

    /// Reports that a connection to this peer is about to be opened.
    #[must_use]
    pub fn connect(&self, peer: SocketAddr) -> Option<Verdict> {
        self.attempt(peer, |event| match event {
            Event::Connect(which) => Some(*which),
            _ => None,
        })
    }

    /// Reports that this peer has opened a connection, which a listener is about to take.
    #[must_use]
    pub fn accept(&self, peer: SocketAddr) -> Option<Verdict> {
        self.attempt(peer, |event| match event {
            Event::Accept(which) => Some(*which),
            _ => None,
        })
    }

    /// Counts the event for all rules. The first rule that selects the event decides.
    fn attempt(
        &self,
        peer: SocketAddr,
        which: impl Fn(&Event) -> Option<Which>,
    ) -> Option<Verdict> {
        let mut due = None;
        for (index, rule) in self.plan.rules.iter().enumerate() {
            if let Some(which) = which(&rule.event)
                && self.concerns(index, peer)
                && which.selects(count(&self.counts[index]), false)
            {
                due = due.or(Some(index));
            }
        }
        due.map(|index| {
            self.note(index, None, Some(peer), &Span::none());
            verdict(&self.plan.rules[index].action)
        })
    }

    /// Reports that a call of the owner is about to take the resources that it needs. `names_call` returns true if a name of the plan means this
    /// call.
    #[must_use]
    pub fn call(&self, names_call: impl Fn(&str) -> bool) -> Option<CallFault<'_>> {
        let mut due = None;
        for (index, rule) in self.plan.rules.iter().enumerate() {
            if let Event::Call(which, name) = &rule.event
                && names_call(name)
                && which.selects(count(&self.counts[index]), false)
            {
                due = due.or(Some(index));
            }
        }
        let index = due?;
        self.note(index, None, None, &Span::none());
        Some(match &self.plan.rules[index].action {
            Action::Fail(status) => CallFault::Fail(status),
            _ => CallFault::RemoveDevice,
        })
    }

    /// Returns true if any rule is about calls. Otherwise the owner need not ask [`call`](Self::call).
    #[must_use]
    pub fn has_calls(&self) -> bool {
        let mut rules = self.plan.rules.iter();
        rules.any(|rule| matches!(rule.event, Event::Call(..)))
    }

    /// The number for a stream that was just established.
    pub(super) fn next_stream(&self) -> u64 {
        count(&self.streams)
    }

    /// The number for a socket that was just opened.
    pub(super) fn next_socket(&self) -> u64 {
        count(&self.sockets)
    }

    /// Reports that a completion queue was created. `None` if no rule is about it.
    #[must_use]
    pub fn queue(self: &Arc<Self>) -> Option<QueueFaults> {
        let number = count(&self.queues);
        let mut rules = self.plan.rules.iter();
        let concerned = rules.any(|rule| {
            matches!(rule.event, Event::Completion(_)) && is_in_scope(rule.scope, number)
        });
        concerned.then(|| QueueFaults {
            faults: Arc::clone(self),
            number,
            counts: self.plan.rules.iter().map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Returns true if a rule is for this peer.
    pub(super) fn concerns(&self, index: usize, peer: SocketAddr) -> bool {
        let wanted: Option<Peer> = self.plan.rules[index].peer;
        wanted.is_none_or(|wanted| wanted.matches(peer))
    }

    /// Counts an event of a rule that counts over everything.
    pub(super) fn count_all(&self, index: usize) -> u64 {
        count(&self.counts[index])
    }

    /// Notes that this rule has caused a fault.
    pub(super) fn note(
        &self,
        index: usize,
        connection: Option<u64>,
        peer: Option<SocketAddr>,
        span: &Span,
    ) {
        self.happened[index].fetch_add(1, Ordering::Relaxed);
        let rule = &self.plan.rules[index];
        self.tell(rule, peer);
        let peer = peer.map(tracing::field::display);
        tracing::info!(target: targets::FAULTS, parent: span, line = rule.line(), %rule, connection, peer, "a fault of the plan happens");
    }

    fn tell(&self, rule: &Rule, peer: Option<SocketAddr>) {
        let Some(on_fault) = self.on_fault else {
            return;
        };
        let line = rule.line();
        match peer {
            Some(peer) => on_fault(&format!(
                "line {line} of the fault plan happens to the connection with {peer}: {rule}"
            )),
            None => on_fault(&format!("line {line} of the fault plan happens: {rule}")),
        }
    }

    /// Notes that this rule has caused a fault to a datagram. Only the first one on each socket is logged at level info.
    pub(super) fn note_datagram(&self, index: usize, socket: u64, peer: SocketAddr, first: bool) {
        self.happened[index].fetch_add(1, Ordering::Relaxed);
        let rule = &self.plan.rules[index];
        let line = rule.line();
        if first {
            self.tell(rule, Some(peer));
            tracing::info!(target: targets::FAULTS, line, %rule, socket, %peer, "a fault of the plan happens");
        } else {
            tracing::debug!(target: targets::FAULTS, line, %rule, socket, %peer, "a fault of the plan happens");
        }
    }
}

impl QueueFaults {
    /// Reports that a result is about to be placed.
    #[must_use]
    pub fn completion(&self) -> Option<Verdict> {
        let mut due = None;
        for (index, rule) in self.faults.plan.rules.iter().enumerate() {
            let Event::Completion(which) = rule.event else {
                continue;
            };
            let number = match rule.scope {
                Scope::All => self.faults.count_all(index),
                scope if is_in_scope(scope, self.number) => count(&self.counts[index]),
                _ => continue,
            };
            if which.selects(number, false) {
                due = due.or(Some(index));
            }
        }
        due.map(|index| {
            self.faults.note(index, None, None, &Span::none());
            verdict(&self.faults.plan.rules[index].action)
        })
    }
}

/// Returns true if a rule with this scope applies to the stream, socket or queue with this number.
pub(super) fn is_in_scope(scope: Scope, number: u64) -> bool {
    match scope {
        Scope::Each | Scope::All => true,
        Scope::One(wanted) => wanted == number,
    }
}

/// The number of the next event.
fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

/// The verdict for an action that is not done on a stream.
fn verdict(action: &Action) -> Verdict {
    match action {
        Action::Hold(time, _) => Verdict::Hold(*time),
        Action::BreakQueue(status, _) => Verdict::Effect(Effect::BreakQueue(status.clone())),
        Action::RemoveDevice(_) => Verdict::Effect(Effect::RemoveDevice),
        // The other actions do not fit such events.
        Action::Refuse
        | Action::Reset(_)
        | Action::Close(_)
        | Action::Flip { .. }
        | Action::Drop
        | Action::Duplicate
        | Action::Delay(_)
        | Action::Rebind
        | Action::Fail(_) => Verdict::Refuse,
    }
}
