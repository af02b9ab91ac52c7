//! A plan in use: what all streams, queues and calls of its owner share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::plan::{Action, Event, Peer, Plan, Rule, Scope, Which};

/// A plan in use by one owner.
///
/// The owner tells it what is about to happen, and does what it says. Each thing that happens is counted here and logged, with the
/// line of the plan.
#[derive(Debug)]
pub struct Faults {
    plan: Plan,
    /// For each rule how many events it has counted, where these are counted over everything.
    counts: Vec<AtomicU64>,
    happened: Vec<AtomicU64>,
    streams: AtomicU64,
    queues: AtomicU64,
}

/// What is to be done with an attempt to connect, a peer that has connected, or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Refuse the connection.
    Refuse,
    /// Hold it, for this time or for ever.
    Hold(Option<Duration>),
    /// Something happens to what it belongs to.
    Effect(Effect),
}

/// What happens to more than a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The device is removed.
    RemoveDevice,
    /// The completion queue breaks down, or those that a stream feeds, with the status of this name.
    BreakQueue(String),
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFault<'a> {
    /// It fails with the status of this name.
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
    /// Begins to count. The owner has [looked at the names](Plan::check_names).
    #[must_use]
    pub fn new(plan: Plan) -> Arc<Self> {
        let zeros = || plan.rules.iter().map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self {
            counts: zeros(),
            happened: zeros(),
            plan,
            streams: AtomicU64::new(0),
            queues: AtomicU64::new(0),
        })
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How often each rule has had something happen, by the line of the rule.
    pub fn happened(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.happened.iter();
        let lines = self.plan.rules.iter().map(Rule::line);
        lines.zip(counts.map(|count| count.load(Ordering::Relaxed)))
    }

    /// A connection to this peer is about to be opened.
    #[must_use]
    pub fn connect(&self, peer: SocketAddr) -> Option<Verdict> {
        self.attempt(peer, |event| match event {
            Event::Connect(which) => Some(*which),
            _ => None,
        })
    }

    /// This peer has opened a connection, and a listener is about to take it.
    #[must_use]
    pub fn accept(&self, peer: SocketAddr) -> Option<Verdict> {
        self.attempt(peer, |event| match event {
            Event::Accept(which) => Some(*which),
            _ => None,
        })
    }

    /// Counts for all rules; the first one that selects the event decides.
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
            self.note(index, None, Some(peer));
            verdict(&self.plan.rules[index].action)
        })
    }

    /// A call of the owner's is about to take what it needs. `is` says whether a name of the plan means the call.
    #[must_use]
    pub fn call(&self, is: impl Fn(&str) -> bool) -> Option<CallFault<'_>> {
        let mut due = None;
        for (index, rule) in self.plan.rules.iter().enumerate() {
            if let Event::Call(which, name) = &rule.event
                && is(name)
                && which.selects(count(&self.counts[index]), false)
            {
                due = due.or(Some(index));
            }
        }
        let index = due?;
        self.note(index, None, None);
        Some(match &self.plan.rules[index].action {
            Action::Fail(status) => CallFault::Fail(status),
            _ => CallFault::RemoveDevice,
        })
    }

    /// Whether any rule is about calls: else [`call`](Self::call) need not be asked.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        let mut rules = self.plan.rules.iter();
        rules.any(|rule| matches!(rule.event, Event::Call(..)))
    }

    /// The number of a stream that was just established.
    pub(super) fn next_stream(&self) -> u64 {
        count(&self.streams)
    }

    /// A completion queue was created; `None` if nothing is planned for it.
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

    /// Whether a rule is for this peer.
    pub(super) fn concerns(&self, index: usize, peer: SocketAddr) -> bool {
        let wanted: Option<Peer> = self.plan.rules[index].peer;
        wanted.is_none_or(|wanted| wanted.is(peer))
    }

    /// Counts an event over everything.
    pub(super) fn count_all(&self, index: usize) -> u64 {
        count(&self.counts[index])
    }

    /// Something happens by this rule.
    pub(super) fn note(&self, index: usize, connection: Option<u64>, peer: Option<SocketAddr>) {
        self.happened[index].fetch_add(1, Ordering::Relaxed);
        let rule = &self.plan.rules[index];
        let peer = peer.map(tracing::field::display);
        tracing::info!(line = rule.line(), %rule, connection, peer, "a fault of the plan happens");
    }
}

impl QueueFaults {
    /// A result is about to be placed.
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
            self.faults.note(index, None, None);
            verdict(&self.faults.plan.rules[index].action)
        })
    }
}

/// Whether a rule looks at the stream or queue of this number.
pub(super) fn is_in_scope(scope: Scope, number: u64) -> bool {
    match scope {
        Scope::Each | Scope::All => true,
        Scope::One(wanted) => wanted == number,
    }
}

/// The number of the next event.
fn count(of: &AtomicU64) -> u64 {
    of.fetch_add(1, Ordering::Relaxed) + 1
}

/// What an action comes to that is not done on a stream.
fn verdict(action: &Action) -> Verdict {
    match action {
        Action::Hold(time, _) => Verdict::Hold(*time),
        Action::BreakQueue(status, _) => Verdict::Effect(Effect::BreakQueue(status.clone())),
        Action::RemoveDevice(_) => Verdict::Effect(Effect::RemoveDevice),
        // The others do not go with such events.
        Action::Refuse
        | Action::Reset(_)
        | Action::Close(_)
        | Action::Flip { .. }
        | Action::Fail(_) => Verdict::Refuse,
    }
}
