//! One direction of a stream with faults: octets go in, and come out changed, later, or not at all.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use iwarp::mpa::startup::{FrameKind, FrameReader};
use tracing::Span;

use super::active_plan::{Effect, Faults, is_in_scope};
use super::frame_finder::{Frame, FrameFinder, Next};
use super::plan::{Action, Direction, Event, Kind, Place, Rule, Scope, Unit, Which};

/// The most octets that have left and are still in the buffer. Beyond that, the others are moved to the front.
const SLACK: usize = 64 * 1024;

/// Identifies the stream in the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    pub(super) number: u64,
    pub(super) peer: SocketAddr,
}

/// One direction.
#[derive(Debug)]
pub(super) struct DirectionFaults {
    faults: Arc<Faults>,
    identity: Identity,
    /// Of the connection.
    pub(super) span: Span,
    /// The rules that apply to this direction.
    rules: Vec<CountedRule>,
    framer: FrameFinder,
    /// The start-up frame as its receiver gets it.
    heard: FrameReader,
    asks_for_markers: bool,
    /// The start-up frame of this direction is a Reply, after which the Initiator sends a ready-to-receive message.
    grants_ready: bool,
    /// The ready-to-receive message of this direction is a Read.
    ready_reads: bool,
    /// The messages that have begun and not ended, by their kind.
    messages: Vec<Message>,
    octets: Vec<u8>,
    /// Octets at the front that have passed already.
    gone: usize,
    /// Octets behind those that may pass.
    cleared: usize,
    frame: Option<Passing>,
    /// Rules to carry out once all cleared octets have passed.
    due: VecDeque<usize>,
    gate: Gate,
    /// No more octets will be put in.
    ended: bool,
}

/// A rule, and the number of its events on this stream or socket.
#[derive(Debug)]
pub(super) struct CountedRule {
    pub(super) index: usize,
    pub(super) count: u64,
}

/// A message with FPDUs still to come.
#[derive(Debug)]
struct Message {
    kind: Kind,
    /// FPDUs that have passed completely or in part.
    fpdus: u64,
    /// Octets of the FPDUs before the current one.
    octets: u64,
    /// The rules that select the message, by their place in `rules`.
    selected: Vec<usize>,
}

/// The frame that passes.
#[derive(Debug)]
struct Passing {
    frame: Frame,
    /// Octets of the frame that were cleared.
    cleared: usize,
    /// The places where a rule acts, with the rule: the nearest first.
    stops: VecDeque<(usize, usize)>,
    flips: Vec<(usize, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Until(Instant),
    /// Held for ever, or until the effect that a rule started has ended the stream.
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

/// The next step of a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The [octets](DirectionFaults::passing) may pass.
    Pass,
    /// No octets are left that could pass.
    Starved,
    /// Nothing passes before this time. `None`: nothing passes any more.
    Wait(Option<Instant>),
    /// The direction has ended.
    Closed,
    /// The connection is reset.
    Reset,
    Effect(Effect),
}

impl DirectionFaults {
    pub(super) fn new(
        faults: &Arc<Faults>,
        identity: Identity,
        direction: Direction,
        startup: FrameKind,
    ) -> Self {
        let looks = |(index, rule): (usize, &Rule)| {
            let watched = CountedRule { index, count: 0 };
            let concerned = matches!(rule.event, Event::Passing(_, event_direction) if event_direction == direction)
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
            span: Span::none(),
            framer: FrameFinder::new(startup),
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

    /// Octets that were put in and have not passed.
    pub(super) fn backlog(&self) -> usize {
        self.octets.len() - self.gone
    }

    /// Learns from the other direction what the two start-up frames and the ready-to-receive message say about this
    /// direction.
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

    /// Ends the input. Octets that are too short for a frame pass unchanged.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn is_closed(&self) -> bool {
        self.gate == Gate::Closed
    }

    /// The time at which the held octets may pass.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.gate.until()
    }

    /// Lets octets pass that are held until `now` or an earlier time.
    pub(super) fn awake(&mut self, now: Instant) {
        if self.gate.until().is_some_and(|at| at <= now) {
            self.gate = Gate::Open;
        }
    }

    /// The octets that may pass, after [`Step::Pass`].
    pub(super) fn passing(&self) -> &[u8] {
        &self.octets[self.gone..self.gone + self.cleared]
    }

    /// The first `count` of these octets have passed.
    pub(super) fn passed(&mut self, count: usize) {
        self.gone += count;
        self.cleared -= count;
    }

    /// Returns true if octets are held back at this time.
    pub(super) fn is_held(&self, now: Instant) -> bool {
        match self.gate {
            Gate::Until(at) => now < at,
            Gate::Shut => true,
            Gate::Open | Gate::Closed => false,
        }
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

    /// Carries out a rule whose place has been reached.
    fn act(&mut self, index: usize, now: Instant) -> Option<Step> {
        let faults = Arc::clone(&self.faults);
        let Identity { number, peer } = self.identity;
        faults.note(index, Some(number), Some(peer), &self.span);
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
                // A time that the clock cannot represent counts as for ever.
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
            // The other actions are done while octets are cleared, or do not act on streams.
            _ => None,
        }
    }

    /// Clears octets up to the next place where a rule acts, or all octets if there is no such place.
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

    /// A frame begins to pass: counts it, and finds the places where rules act in it.
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
                    let is_selected = !startup && watched.selects(&self.faults, rule.scope, *which);
                    is_selected.then_some(Whole::FRAME)
                }
                Unit::Message(..) => message.as_ref().and_then(|message| {
                    let is_selected = message.selected.contains(&at);
                    is_selected.then_some(Whole {
                        before: message.octets,
                        first,
                        last: frame.last,
                    })
                }),
                Unit::FpduOf { fpdu, .. } => message.as_ref().and_then(|message| {
                    let is_selected = message.selected.contains(&at);
                    (is_selected && fpdu.selects(message.fpdus, frame.last)).then_some(Whole::FRAME)
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
            if let Action::Flip {
                bit,
                field,
                good_crc,
            } = action
            {
                let flip = frame.flip(*bit, *field, *good_crc);
                if whole.first && !flip.is_empty() {
                    self.faults
                        .note(index, Some(number), Some(peer), &self.span);
                    flips.extend(flip);
                }
            } else if let Some(stop) = whole.stop(action.place(), frame.len) {
                stops.push((stop, index));
            }
        }
        stops.sort_by_key(|(at, _)| *at); // stable: places that meet keep the order of the plan
        Passing {
            frame,
            cleared: 0,
            stops: stops.into(),
            flips,
        }
    }

    /// Returns true if a frame is the first of its message, and the message, taken out of the list of messages that have begun.
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
            let named = match rule.event {
                Event::Passing(
                    Unit::Message(which, kind)
                    | Unit::FpduOf {
                        message: which,
                        kind,
                        ..
                    },
                    _,
                ) => Some((which, kind)),
                _ => None,
            };
            if let Some((which, named_kind)) = named
                && named_kind.covers(kind)
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

impl CountedRule {
    /// Counts an event. Returns true if the rule means this event.
    pub(super) fn selects(&mut self, faults: &Faults, scope: Scope, which: Which) -> bool {
        let number = if scope == Scope::All {
            faults.count_all(self.index)
        } else {
            self.count += 1;
            self.count
        };
        which.selects(number, false)
    }
}

/// The part of a unit (FPDU, message or frame) that one frame is.
#[derive(Clone, Copy, Debug)]
struct Whole {
    /// Octets of the unit before the frame.
    before: u64,
    first: bool,
    last: bool,
}

impl Whole {
    /// The frame is the whole unit.
    const FRAME: Self = Self {
        before: 0,
        first: true,
        last: true,
    };

    /// The number of octets of a frame of `len` octets that pass before the place.
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
