//! One direction of a stream with faults: octets go in, and come out changed, later, or no more.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use iwarp::mpa::startup::{FrameKind, FrameReader};

use super::frames::{Frame, Framer, Next};
use super::plan::{Action, Direction, Event, Kind, Place, Rule, Scope, Unit, Which};
use super::run::{Effect, Faults, is_in_scope};

/// Octets that have left may stay in the buffer up to so many before the rest is moved to its front.
const SLACK: usize = 64 * 1024;

/// Which stream this is, for the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) number: u64,
    pub(super) peer: SocketAddr,
}

/// One direction.
#[derive(Debug)]
pub(super) struct Half {
    faults: Arc<Faults>,
    identity: Identity,
    /// The rules that look at it.
    rules: Vec<Watched>,
    framer: Framer,
    /// The start-up frame as it arrives at its receiver.
    heard: FrameReader,
    asks_for_markers: bool,
    /// Its start-up frame is a Reply by which the Initiator sends a ready-to-receive message.
    grants_ready: bool,
    /// Its ready-to-receive message is a Read.
    ready_reads: bool,
    /// The messages under way, by their kind.
    messages: Vec<Message>,
    octets: Vec<u8>,
    /// Octets at the front that have passed already.
    gone: usize,
    /// Octets behind those that may pass.
    cleared: usize,
    frame: Option<Passing>,
    /// Rules whose place has been reached, once everything cleared has passed.
    due: VecDeque<usize>,
    gate: Gate,
    /// Nothing more goes in.
    ended: bool,
}

/// A rule, and how many of its events this stream has had.
#[derive(Debug)]
struct Watched {
    index: usize,
    count: u64,
}

/// A message of which FPDUs are still to come.
#[derive(Debug)]
struct Message {
    kind: Kind,
    /// FPDUs that have passed or begun to.
    fpdus: u64,
    /// Octets of those before the one that passes.
    octets: u64,
    /// The rules, by their place in `rules`, that select it.
    selected: Vec<usize>,
}

/// The frame that passes.
#[derive(Debug)]
struct Passing {
    frame: Frame,
    /// Octets of it that were cleared.
    cleared: usize,
    /// Where something is done, and by which rule: the nearest first.
    stops: VecDeque<(usize, usize)>,
    flips: Vec<(usize, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Until(Instant),
    /// Held for ever, or until what was set off has ended the stream.
    Shut,
    /// The direction has ended.
    Closed,
}

impl Gate {
    fn until(self) -> Option<Instant> {
        match self {
            Self::Until(at) => Some(at),
            Self::Open | Self::Shut | Self::Closed => None,
        }
    }
}

/// What is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The [octets](Half::passing) may pass.
    Pass,
    /// There is nothing that could pass.
    Starved,
    /// Nothing passes before then, or ever.
    Wait(Option<Instant>),
    /// The direction has ended.
    Closed,
    /// The connection is reset.
    Reset,
    Effect(Effect),
}

impl Half {
    pub(super) fn new(
        faults: &Arc<Faults>,
        identity: Identity,
        direction: Direction,
        startup: FrameKind,
    ) -> Self {
        let looks = |(index, rule): (usize, &Rule)| {
            let watched = Watched { index, count: 0 };
            let concerned = matches!(rule.event, Event::Passing(_, of) if of == direction)
                && is_in_scope(rule.scope, identity.number)
                && faults.concerns(index, identity.peer);
            concerned.then_some(watched)
        };
        Self {
            rules: faults
                .plan()
                .rules()
                .enumerate()
                .filter_map(looks)
                .collect(),
            faults: Arc::clone(faults),
            identity,
            framer: Framer::new(startup),
            heard: FrameReader::new(startup),
            asks_for_markers: false,
            grants_ready: false,
            ready_reads: false,
            messages: Vec::new(),
            octets: Vec::new(),
            gone: 0,
            cleared: 0,
            frame: None,
            due: VecDeque::new(),
            gate: Gate::Open,
            ended: false,
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Octets that have gone in and not passed.
    pub(super) fn backlog(&self) -> usize {
        self.octets.len() - self.gone
    }

    /// Learns from the other direction what the two start-up frames and the ready-to-receive message say of this one.
    pub(super) fn learn_from(&mut self, other: &mut Self) {
        if other.asks_for_markers {
            self.framer.expect_markers();
        }
        if other.grants_ready {
            self.framer.expect_ready();
        }
        if std::mem::take(&mut other.ready_reads) {
            self.framer.expect_ready_answer();
        }
    }

    /// Puts octets in.
    pub(super) fn push(&mut self, octets: &[u8]) {
        if self.gate == Gate::Closed {
            return; // what follows the end is thrown away
        }
        if self.gone == self.octets.len() || self.gone > SLACK {
            self.octets.drain(..self.gone);
            self.gone = 0;
        }
        self.octets.extend_from_slice(octets);
    }

    /// Nothing more goes in: what is too short for a frame passes as it is.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn is_closed(&self) -> bool {
        self.gate == Gate::Closed
    }

    /// When something may pass again that waits now.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.gate.until()
    }

    /// Lets pass what is held until `now` or a time before.
    pub(super) fn awake(&mut self, now: Instant) {
        if self.gate.until().is_some_and(|at| at <= now) {
            self.gate = Gate::Open;
        }
    }

    /// The octets that may pass, after [`Step::Pass`].
    pub(super) fn passing(&self) -> &[u8] {
        &self.octets[self.gone..self.gone + self.cleared]
    }

    /// So many of them have passed.
    pub(super) fn passed(&mut self, count: usize) {
        self.gone += count;
        self.cleared -= count;
    }

    pub(super) fn step(&mut self, now: Instant) -> Step {
        loop {
            match self.gate {
                Gate::Open => {}
                Gate::Until(at) if now < at => return Step::Wait(Some(at)),
                Gate::Until(_) => self.gate = Gate::Open,
                Gate::Shut => return Step::Wait(None),
                Gate::Closed => return Step::Closed,
            }
            if self.due.is_empty() {
                self.clear();
            }
            if self.cleared > 0 {
                return Step::Pass;
            }
            let Some(index) = self.due.pop_front() else {
                return Step::Starved;
            };
            if let Some(step) = self.act(index, now) {
                return step;
            }
        }
    }

    /// Does what a rule says whose place has been reached.
    fn act(&mut self, index: usize, now: Instant) -> Option<Step> {
        let faults = Arc::clone(&self.faults);
        let Identity { number, peer } = self.identity;
        faults.note(index, Some(number), Some(peer));
        match &faults.plan().rules[index].action {
            Action::Reset(_) => {
                self.gate = Gate::Shut;
                Some(Step::Reset)
            }
            Action::Close(_) => {
                self.gate = Gate::Closed;
                self.octets.clear();
                self.gone = 0;
                Some(Step::Closed)
            }
            Action::Hold(time, _) => {
                // A time that the clock cannot hold is for ever.
                let end = time.and_then(|time| now.checked_add(time));
                self.gate = end.map_or(Gate::Shut, Gate::Until);
                None
            }
            Action::BreakQueue(status, _) => {
                self.gate = Gate::Shut;
                Some(Step::Effect(Effect::BreakQueue(status.clone())))
            }
            Action::RemoveDevice(_) => {
                self.gate = Gate::Shut;
                Some(Step::Effect(Effect::RemoveDevice))
            }
            // Done while octets are cleared, or not on streams.
            Action::Flip { .. } | Action::Refuse | Action::Fail(_) => None,
        }
    }

    /// Clears octets up to the next place where something is done, or as many as there are.
    fn clear(&mut self) {
        while self.due.is_empty() {
            let from = self.gone + self.cleared;
            if self.frame.is_none() {
                match self.framer.next(&self.octets[from..]) {
                    Next::Frame(frame) => self.frame = Some(self.begin(frame)),
                    Next::Partial if !self.ended => return,
                    Next::Partial | Next::Foreign => {
                        self.cleared = self.backlog();
                        return;
                    }
                }
            }
            let Some(passing) = &mut self.frame else {
                return;
            };
            let Passing { frame, stops, .. } = passing;
            let stop = stops.front().map_or(frame.len, |(at, _)| *at);
            let there = self.octets.len() - from;
            let now = (stop - passing.cleared).min(there);
            let octets = &mut self.octets[from..from + now];
            for (at, mask) in &passing.flips {
                let octet = at.checked_sub(passing.cleared);
                if let Some(octet) = octet.and_then(|at| octets.get_mut(at)) {
                    *octet ^= mask;
                }
            }
            if frame.kind.is_some_and(Kind::is_startup)
                && let Ok(Some(heard)) = self.heard.push(octets)
            {
                self.asks_for_markers = heard.markers;
                let asked = heard.enhanced.is_some_and(|words| words.peer_to_peer);
                self.grants_ready = asked && heard.kind == FrameKind::Reply && !heard.rejected;
            }
            self.cleared += now;
            passing.cleared += now;
            while let Some((at, index)) = stops.front()
                && *at == passing.cleared
            {
                self.due.push_back(*index);
                stops.pop_front();
            }
            if passing.cleared == frame.len {
                self.framer.passed(frame);
                self.ready_reads |= frame.kind == Some(Kind::Ready) && frame.reads;
                self.frame = None;
            } else if now == there {
                return; // the rest is still to come
            }
        }
    }

    /// A frame begins to pass: counts it, and finds out what is to be done in it.
    fn begin(&mut self, frame: Frame) -> Passing {
        let mut stops = Vec::new();
        let mut flips = Vec::new();
        let mut meant = Vec::new();
        let (first, message) = self.message(&frame);
        for (at, watched) in self.rules.iter_mut().enumerate() {
            let rule = &self.faults.plan().rules[watched.index];
            let Event::Passing(unit, _) = &rule.event else {
                continue;
            };
            let whole = match unit {
                Unit::Fpdu(which) => {
                    let startup = frame.kind.is_some_and(Kind::is_startup);
                    let is = !startup && watched.selects(&self.faults, rule.scope, *which);
                    is.then_some(Whole::FRAME)
                }
                Unit::Message(..) => message.as_ref().and_then(|message| {
                    let is = message.selected.contains(&at);
                    is.then_some(Whole {
                        before: message.octets,
                        first,
                        last: frame.last,
                    })
                }),
                Unit::FpduOf { fpdu, .. } => message.as_ref().and_then(|message| {
                    let is = message.selected.contains(&at);
                    (is && fpdu.selects(message.fpdus, frame.last)).then_some(Whole::FRAME)
                }),
            };
            if let Some(whole) = whole {
                meant.push((watched.index, whole));
            }
        }
        if let Some(mut message) = message
            && !frame.last
        {
            message.octets += frame.len as u64;
            self.messages.push(message);
        }
        let Identity { number, peer } = self.identity;
        for (index, whole) in meant {
            let action = &self.faults.plan().rules[index].action;
            if let Action::Flip { bit, of, good_crc } = action {
                let flip = frame.flip(*bit, *of, *good_crc);
                if whole.first && !flip.is_empty() {
                    self.faults.note(index, Some(number), Some(peer));
                    flips.extend(flip);
                }
            } else if let Some(stop) = whole.stop(action.place(), frame.len) {
                stops.push((stop, index));
            }
        }
        stops.sort_by_key(|(at, _)| *at); // stable: in the order of the plan where they meet
        Passing {
            frame,
            cleared: 0,
            stops: stops.into(),
            flips,
        }
    }

    /// The message that a frame belongs to, taken out of those under way, and whether the frame is its first.
    fn message(&mut self, frame: &Frame) -> (bool, Option<Message>) {
        let Some(kind) = frame.kind else {
            return (false, None);
        };
        if let Some(at) = self.messages.iter().position(|known| known.kind == kind) {
            let mut message = self.messages.swap_remove(at);
            message.fpdus += 1;
            return (false, Some(message));
        }
        let mut selected = Vec::new();
        for (at, watched) in self.rules.iter_mut().enumerate() {
            let rule = &self.faults.plan().rules[watched.index];
            let of = match rule.event {
                Event::Passing(
                    Unit::Message(which, kind)
                    | Unit::FpduOf {
                        of: which, kind, ..
                    },
                    _,
                ) => Some((which, kind)),
                _ => None,
            };
            if let Some((which, of)) = of
                && of.covers(kind)
                && watched.selects(&self.faults, rule.scope, which)
            {
                selected.push(at);
            }
        }
        let message = Message {
            kind,
            fpdus: 1,
            octets: 0,
            selected,
        };
        (true, Some(message))
    }
}

impl Watched {
    /// Counts an event; whether it is one that is meant.
    fn selects(&mut self, faults: &Faults, scope: Scope, which: Which) -> bool {
        let number = if scope == Scope::All {
            faults.count_all(self.index)
        } else {
            self.count += 1;
            self.count
        };
        which.selects(number, false)
    }
}

/// What a frame is of what a rule is about.
#[derive(Clone, Copy, Debug)]
struct Whole {
    /// Octets that came before the frame.
    before: u64,
    first: bool,
    last: bool,
}

impl Whole {
    /// The frame is all of it.
    const FRAME: Self = Self {
        before: 0,
        first: true,
        last: true,
    };

    /// Behind which octet of the frame, which has `len`, the place is.
    fn stop(self, place: Place, len: usize) -> Option<usize> {
        match place {
            Place::End => self.last.then_some(len),
            Place::Octet(0) => self.first.then_some(0),
            Place::Octet(octet) => {
                let here = usize::try_from(octet.checked_sub(self.before)?).ok()?;
                (1..=len).contains(&here).then_some(here)
            }
        }
    }
}
