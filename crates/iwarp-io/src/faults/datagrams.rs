//! The faults of a plan on the datagrams of one socket.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use super::active_plan::{Faults, is_in_scope};
use super::direction::CountedRule;
use super::plan::{Action, Direction, Event, Lateness};

/// The most octets of late datagrams that one direction keeps. Late datagrams beyond that are lost.
const LATE: usize = 64 * 1024 * 1024;

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassingDatagram {
    /// The address that it is sent to, or received from.
    pub peer: SocketAddr,
    /// The two ECN bits of its IP header.
    pub ecn: u8,
    /// Its payload.
    pub octets: Vec<u8>,
}

/// The faults of a plan on the datagrams of one socket. This does no I/O.
#[derive(Debug)]
pub struct DatagramFaults {
    faults: Arc<Faults>,
    /// The number of the socket.
    number: u64,
    sent: Way,
    received: Way,
}

/// One direction.
#[derive(Debug)]
struct Way {
    rules: Vec<SocketRule>,
    /// The number of datagrams so far.
    count: u64,
    late: Vec<(Due, PassingDatagram)>,
    /// Octets in `late`.
    late_octets: usize,
}

#[derive(Debug)]
struct SocketRule {
    counted: CountedRule,
    has_happened: bool,
}

/// When a late datagram passes.
#[derive(Clone, Copy, Debug)]
enum Due {
    At(Instant),
    /// Behind the datagram with this number.
    Behind(u64),
}

/// The step that follows a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Passed {
    /// Nothing has to be done.
    AsEver,
    /// The socket gets another port, before the datagram is sent, or behind one that was received.
    Rebind,
}

impl Faults {
    /// Reports that a socket for datagrams was opened, and whether the owner connects from it. Returns `None` if no rule is about the
    /// socket.
    #[must_use]
    pub fn datagrams(self: &Arc<Self>, connects: bool) -> Option<DatagramFaults> {
        let number = self.next_socket();
        let way = |direction| {
            let rules = self.plan().rules.iter().enumerate();
            let rules = rules.filter(|(_, rule)| {
                matches!(rule.event, Event::Datagram(_, event_direction) if event_direction == direction)
                    && is_in_scope(rule.scope, number)
                    && (connects || rule.action != Action::Rebind)
            });
            Way {
                rules: rules
                    .map(|(index, _)| SocketRule {
                        counted: CountedRule { index, count: 0 },
                        has_happened: false,
                    })
                    .collect(),
                count: 0,
                late: Vec::new(),
                late_octets: 0,
            }
        };
        let (sent, received) = (way(Direction::Sent), way(Direction::Received));
        let watched = !sent.rules.is_empty() || !received.rules.is_empty();
        watched.then(|| DatagramFaults {
            faults: Arc::clone(self),
            number,
            sent,
            received,
        })
    }
}

impl DatagramFaults {
    /// Passes a datagram to the plan. The datagrams that pass in its place, and behind it, are put into `out`.
    pub fn pass(
        &mut self,
        direction: Direction,
        now: Instant,
        mut datagram: PassingDatagram,
        out: &mut VecDeque<PassingDatagram>,
    ) -> Passed {
        let Self { faults, number, .. } = self;
        let way = match direction {
            Direction::Sent => &mut self.sent,
            Direction::Received => &mut self.received,
        };
        way.count += 1;
        let mut copies = 1;
        let mut due = None;
        let mut passed = Passed::AsEver;
        for SocketRule {
            counted,
            has_happened,
        } in &mut way.rules
        {
            let index = counted.index;
            let rule = &faults.plan().rules[index];
            let Event::Datagram(which, _) = rule.event else {
                continue;
            };
            let selected =
                faults.concerns(index, datagram.peer) && counted.selects(faults, rule.scope, which);
            if !selected || copies == 0 {
                continue;
            }
            match rule.action {
                Action::Drop => copies = 0,
                Action::Duplicate => copies += 1,
                Action::Delay(_) if due.is_some() => continue,
                // A time that the clock cannot represent is never reached.
                Action::Delay(Lateness::Time(time)) => match now.checked_add(time) {
                    Some(at) => due = Some(Due::At(at)),
                    None => copies = 0,
                },
                Action::Delay(Lateness::Datagrams(count)) => {
                    due = Some(Due::Behind(way.count.saturating_add(count)));
                }
                Action::Flip { bit, .. } => match datagram.octets.get_mut(bit as usize / 8) {
                    Some(octet) => *octet ^= 0x80 >> (bit % 8),
                    None => continue,
                },
                Action::Rebind => passed = Passed::Rebind,
                // The other actions do not fit datagrams.
                _ => continue,
            }
            let first = !std::mem::replace(has_happened, true);
            faults.note_datagram(index, *number, datagram.peer, first);
        }
        for _ in 0..copies {
            let copy = datagram.clone();
            match due {
                None => out.push_back(copy),
                Some(due) => way.keep(due, copy),
            }
        }
        let count = way.count;
        way.release(
            |due| matches!(due, Due::Behind(number) if number <= count),
            out,
        );
        passed
    }

    /// Puts the late datagrams that are due by now into `out`.
    pub fn awake(
        &mut self,
        direction: Direction,
        now: Instant,
        out: &mut VecDeque<PassingDatagram>,
    ) {
        let way = match direction {
            Direction::Sent => &mut self.sent,
            Direction::Received => &mut self.received,
        };
        way.release(|due| matches!(due, Due::At(at) if at <= now), out);
    }

    /// Returns the time at which the next late datagram is due, in either direction.
    #[must_use]
    pub fn wake_at(&self) -> Option<Instant> {
        let both = [self.sent.wake_at(), self.received.wake_at()];
        both.into_iter().flatten().min()
    }
}

impl Way {
    fn keep(&mut self, due: Due, datagram: PassingDatagram) {
        let octets = self.late_octets + datagram.octets.len();
        if octets <= LATE {
            self.late_octets = octets;
            // In the order in which they are due, and otherwise in the order in which they arrived.
            let is_later = |other: &Due| match (due, other) {
                (Due::At(due), Due::At(other)) => due < *other,
                _ => false,
            };
            let at = self.late.iter().position(|(other, _)| is_later(other));
            self.late
                .insert(at.unwrap_or(self.late.len()), (due, datagram));
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        self.late.iter().find_map(|(due, _)| match due {
            Due::At(at) => Some(*at),
            Due::Behind(_) => None,
        })
    }

    fn release(&mut self, is_due: impl Fn(Due) -> bool, out: &mut VecDeque<PassingDatagram>) {
        let octets = &mut self.late_octets;
        let late = self.late.extract_if(.., |(due, _)| is_due(*due));
        out.extend(late.map(|(_, datagram)| {
            *octets -= datagram.octets.len();
            datagram
        }));
    }
}
