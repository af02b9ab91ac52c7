//! A model of the system: streams, wakers and sets, with the rules of epoll, of kqueue or of sets in user space. Each call is one step under
//! one lock.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::io;
use std::panic;
use std::sync::Once;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};

use super::super::{BATCH, Edges, Readiness, Ready, Wake, Watch};

loom::lazy_static! {
    /// The system of one run.
    static ref KERNEL: Kernel = Kernel::new();
}

thread_local! {
    /// The calls of one run, printed if it fails. All threads of a model are one thread of the system.
    static CALLS: RefCell<String> = const { RefCell::new(String::new()) };
    /// The rules of this run.
    static RULES: Cell<Rules> = const { Cell::new(Rules::Epoll) };
}

/// The rule by which a nested set is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// For every event in it.
    Epoll,
    /// Once, until a thread has waited on it and has taken all events.
    Kqueue,
    /// For every event in it. A stream is reported once, until it is armed again.
    Flat,
}

impl Rules {
    /// The rules of the models that do not choose their own.
    fn chosen() -> Self {
        match std::env::var("SOFTND_TEST_LOOM_RULES").as_deref() {
            Ok("flat") => Self::Flat,
            Ok(other) => panic!("SOFTND_TEST_LOOM_RULES is {other:?}, and has to be flat or unset"),
            Err(_) => Self::Epoll,
        }
    }
}

/// Begins a run. The calls of a run that fails are printed.
pub(super) fn begin() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Loom ends its threads by panics as well, which have no text.
            if info.payload_as_str().is_some() {
                // Endless ticks are cut short.
                let calls = CALLS.take();
                calls.lines().take(200).for_each(|call| println!("{call}"));
            }
            before(info);
        }));
    });
    CALLS.with_borrow_mut(String::clear);
    RULES.set(Rules::chosen());
}

fn note(call: impl std::fmt::Debug) {
    let by = loom::thread::current().id();
    CALLS
        .with_borrow_mut(|calls| writeln!(calls, "{by:?} {call:?}"))
        .unwrap();
}

struct Kernel {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    objects: Vec<Object>,
    /// This many attempts to add something to a set fail from now on.
    failing: usize,
    /// No time passes, so a limit above zero never ends.
    stands_still: bool,
}

struct Object {
    kind: Kind,
    /// The sets that report the object.
    reported_by: Vec<usize>,
}

enum Kind {
    Gone,
    Stream {
        octets: usize,
        ended: bool,
        /// The edges that will be reported, by [`Rules::Flat`].
        armed: Edges,
    },
    Waker {
        awake: bool,
    },
    Set {
        items: Vec<Item>,
        ready: Vec<usize>,
        /// Threads that wait on the set.
        waiting: usize,
        /// Waits that left no event in the set.
        emptied: u64,
    },
}

/// A source in a set.
#[derive(Clone, Copy)]
struct Item {
    source: usize,
    token: u64,
    wanted: Edges,
    level: bool,
    /// The value of `emptied` of the source, a set, when the set was reported last.
    reported: Option<u64>,
}

impl Kernel {
    fn new() -> Self {
        Self {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        }
    }

    fn with<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap();
        let done = call(&mut state);
        drop(state);
        self.changed.notify_all();
        done
    }

    fn make(&self, kind: Kind) -> usize {
        self.with(|state| {
            state.objects.push(Object {
                kind,
                reported_by: Vec::new(),
            });
            state.objects.len() - 1
        })
    }
}

impl State {
    fn set(&mut self, set: usize) -> (&mut Vec<Item>, &mut Vec<usize>) {
        match &mut self.objects[set].kind {
            Kind::Set { items, ready, .. } => (items, ready),
            _ => unreachable!("a set is used after it was closed"),
        }
    }

    /// The events that a source is ready for.
    fn poll(&mut self, source: usize) -> Edges {
        match &mut self.objects[source].kind {
            Kind::Gone => Edges::empty(),
            Kind::Stream { octets, ended, .. } => {
                let mut edges = Edges::WRITE;
                if *octets > 0 || *ended {
                    edges |= Edges::READ;
                }
                if *ended {
                    edges |= Edges::HANGUP;
                }
                edges
            }
            Kind::Waker { awake: true } => Edges::READ,
            Kind::Waker { awake: false } => Edges::empty(),
            Kind::Set { items, ready, .. } => {
                let (items, candidates) = (items.clone(), std::mem::take(ready));
                let ready: Vec<usize> = candidates
                    .into_iter()
                    .filter(|source| self.is_ready(&items, *source))
                    .collect();
                let any = !ready.is_empty();
                *self.set(source).1 = ready;
                if any { Edges::READ } else { Edges::empty() }
            }
        }
    }

    fn is_ready(&mut self, items: &[Item], source: usize) -> bool {
        let item = items.iter().find(|item| item.source == source);
        item.is_some_and(|item| self.poll(source).intersects(item.wanted))
    }

    /// An event of a source: the sets that report it become ready, even if they were ready before.
    fn happened(&mut self, source: usize, mut what: Edges) {
        if RULES.get() == Rules::Flat
            && let Kind::Stream { armed, .. } = &mut self.objects[source].kind
        {
            what &= *armed | Edges::HANGUP;
            *armed -= what;
        }
        for set in self.objects[source].reported_by.clone() {
            let (items, ready) = self.set(set);
            let item = items.iter().find(|item| item.source == source);
            if item.is_some_and(|item| item.wanted.intersects(what)) {
                if !ready.contains(&source) {
                    ready.push(source);
                }
                self.happened(set, Edges::READ);
            }
        }
    }

    fn add(&mut self, set: usize, item: Item) -> io::Result<()> {
        if self.failing > 0 {
            self.failing -= 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        note(("add", set, item.source));
        let items = self.set(set).0;
        if items.iter().any(|other| other.source == item.source) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        items.push(item);
        self.objects[item.source].reported_by.push(set);
        self.look_anew(set, item);
        Ok(())
    }

    fn change(&mut self, set: usize, item: Item) -> io::Result<()> {
        note(("change", set, item.source, item.wanted));
        let items = self.set(set).0;
        let Some(old) = items.iter_mut().find(|other| other.source == item.source) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        *old = item;
        self.look_anew(set, item);
        Ok(())
    }

    /// What was reported of a stream was taken in.
    fn arm(&mut self, source: usize, edges: Edges) {
        if let Kind::Stream { armed, .. } = &mut self.objects[source].kind {
            *armed |= edges;
            let there = self.poll(source) & edges;
            if !there.is_empty() {
                self.happened(source, there);
            }
        }
    }

    fn look_anew(&mut self, set: usize, item: Item) {
        if RULES.get() == Rules::Flat
            && matches!(self.objects[item.source].kind, Kind::Stream { .. })
        {
            let there = self.poll(item.source) & Edges::HANGUP;
            self.arm(item.source, item.wanted - Edges::HANGUP);
            return self.happened(item.source, there);
        }
        if self.poll(item.source).intersects(item.wanted) {
            let ready = self.set(set).1;
            if !ready.contains(&item.source) {
                ready.push(item.source);
            }
            self.happened(set, Edges::READ);
        }
    }

    fn remove(&mut self, set: usize, source: usize) -> io::Result<()> {
        note(("remove", set, source));
        let (items, ready) = self.set(set);
        let before = items.len();
        items.retain(|item| item.source != source);
        if items.len() == before {
            return Err(io::ErrorKind::NotFound.into());
        }
        ready.retain(|ready| *ready != source);
        self.objects[source].reported_by.retain(|by| *by != set);
        Ok(())
    }

    fn close(&mut self, object: usize) {
        for set in self.objects[object].reported_by.clone() {
            let _ = self.remove(set, object);
        }
        if let Kind::Set { items, .. } = &self.objects[object].kind {
            for item in items.clone() {
                let _ = self.remove(object, item.source);
            }
        }
        self.objects[object].kind = Kind::Gone;
    }

    /// Returns true if an item that is ready is reported, by the rule for nested sets.
    fn is_reported(&mut self, set: usize, item: Item) -> bool {
        let Kind::Set {
            waiting, emptied, ..
        } = self.objects[item.source].kind
        else {
            return true;
        };
        if RULES.get() != Rules::Kqueue || item.level {
            return true;
        }
        let mut items = self.set(set).0.iter_mut();
        let item = items.find(|other| other.source == item.source);
        let before = item.and_then(|item| item.reported.replace(emptied));
        waiting > 0 || before != Some(emptied)
    }

    /// A thread begins to wait on a set, or stops waiting.
    fn waits(&mut self, set: usize, begins: bool) {
        if let Kind::Set { waiting, .. } = &mut self.objects[set].kind {
            *waiting = match begins {
                true => *waiting + 1,
                false => *waiting - 1,
            };
        }
    }

    fn take_ready(&mut self, set: usize) -> Vec<Ready> {
        let (items, candidates) = {
            let (items, ready) = self.set(set);
            (items.clone(), std::mem::take(ready))
        };
        let (mut reported, mut left, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for source in candidates {
            if reported.len() == BATCH {
                left.push(source);
                continue;
            }
            let Some(item) = items.iter().find(|item| item.source == source) else {
                continue;
            };
            let edges = self.poll(source) & item.wanted;
            if !edges.is_empty() && self.is_reported(set, *item) {
                let token = item.token;
                reported.push(Ready { token, edges });
                if item.level {
                    again.push(source);
                }
            }
        }
        let has_left = !left.is_empty();
        left.append(&mut again);
        *self.set(set).1 = left;
        if let Kind::Set { emptied, .. } = &mut self.objects[set].kind
            && !has_left
        {
            *emptied += 1;
        }
        reported
    }
}

/// Sets the rules for the sets of this run.
pub(super) fn follow(rules: Rules) {
    RULES.set(rules);
}

/// From now on no time passes.
pub(super) fn stop_clock() {
    KERNEL.with(|state| state.stands_still = true);
}

/// The next `count` attempts to add something to a set fail.
pub(super) fn fail_adds(count: usize) {
    KERNEL.with(|state| state.failing = count);
}

/// An object of the system, closed when the handle is dropped.
#[derive(Debug)]
struct Handle(usize);

impl Drop for Handle {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            KERNEL.with(|state| state.close(self.0));
        }
    }
}

/// One end of a connection, which a peer writes to.
#[derive(Debug)]
pub(super) struct Stream(Handle);

impl Stream {
    pub(super) fn new() -> Self {
        let kind = Kind::Stream {
            octets: 0,
            ended: false,
            armed: Edges::empty(),
        };
        Self(Handle(KERNEL.make(kind)))
    }

    /// The peer sends this many octets, and optionally ends the stream with them.
    pub(super) fn peer_sends(&self, count: usize, end: bool) {
        KERNEL.with(|state| {
            note(("peer sends", self.0.0, count, end));
            if let Kind::Stream { octets, ended, .. } = &mut state.objects[self.0.0].kind {
                *octets += count;
                *ended |= end;
            }
            let what = if end {
                Edges::READ | Edges::HANGUP
            } else {
                Edges::READ
            };
            state.happened(self.0.0, what);
        });
    }

    /// Reads at most `most` octets; 0 is the peer's end, `None` means nothing for now.
    pub(super) fn read(&self, most: usize) -> Option<usize> {
        KERNEL.with(|state| match &mut state.objects[self.0.0].kind {
            Kind::Stream {
                octets: 0, ended, ..
            } => {
                note(("read", self.0.0, &ended));
                ended.then_some(0)
            }
            Kind::Stream { octets, .. } => {
                let count = most.min(*octets);
                *octets -= count;
                note(("read", self.0.0, count));
                Some(count)
            }
            _ => unreachable!("a stream is used after it was closed"),
        })
    }
}

impl Watch<Set> for Stream {
    fn id(&self) -> usize {
        self.0.0
    }

    fn has_bells(&self) -> bool {
        true
    }
}

/// A set of the model.
#[derive(Debug)]
pub(super) struct Set(Handle);

impl Watch<Self> for Set {
    fn id(&self) -> usize {
        self.0.0
    }
}

const NESTED: Edges = Edges::READ;

impl Set {
    pub(super) fn new() -> Self {
        let kind = Kind::Set {
            items: Vec::new(),
            ready: Vec::new(),
            waiting: 0,
            emptied: 0,
        };
        Self(Handle(KERNEL.make(kind)))
    }

    fn item(source: &impl Watch<Self>, token: u64, wanted: Edges, level: bool) -> Item {
        Item {
            source: source.id(),
            token,
            wanted,
            level,
            reported: None,
        }
    }

    fn put(&self, item: Item) -> io::Result<()> {
        KERNEL.with(|state| state.add(self.0.0, item))
    }

    fn change(&self, item: Item) -> io::Result<()> {
        KERNEL.with(|state| state.change(self.0.0, item))
    }
}

impl Readiness for Set {
    type Id<'a> = usize;
    type Waker = Waker;

    fn another(&self) -> io::Result<Self> {
        Ok(Self::new())
    }

    fn waker(&self) -> io::Result<Waker> {
        Ok(Waker(Handle(KERNEL.make(Kind::Waker { awake: false }))))
    }

    fn reports_untaken(&self) -> bool {
        RULES.get() != Rules::Kqueue
    }

    fn reports_once(&self) -> bool {
        RULES.get() == Rules::Flat
    }

    fn arm(&self, source: &impl Watch<Self>, edges: Edges) {
        if self.reports_once() {
            KERNEL.with(|state| {
                note(("arm", source.id(), edges));
                let is_here = state
                    .set(self.0.0)
                    .0
                    .iter()
                    .any(|item| item.source == source.id());
                if is_here {
                    state.arm(source.id(), edges);
                }
            });
        }
    }

    fn add_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        self.put(Self::item(source, token, edges | Edges::HANGUP, false))
    }

    fn change_stream(&self, source: &impl Watch<Self>, token: u64, edges: Edges) -> io::Result<()> {
        self.change(Self::item(source, token, edges | Edges::HANGUP, false))
    }

    fn add_level(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.put(Self::item(source, token, NESTED, true))
    }

    fn add_set(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.put(Self::item(source, token, NESTED, false))
    }

    fn mute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.change(Self::item(source, token, Edges::empty(), false))
    }

    fn unmute(&self, source: &impl Watch<Self>, token: u64) -> io::Result<()> {
        self.change(Self::item(source, token, NESTED, false))
    }

    fn remove(&self, source: &impl Watch<Self>) -> io::Result<()> {
        KERNEL.with(|state| state.remove(self.0.0, source.id()))
    }

    fn wait(&self, limit: Option<Duration>, each: impl FnMut(Ready)) -> io::Result<usize> {
        let mut state = KERNEL.state.lock().unwrap();
        state.waits(self.0.0, true);
        let mut ready = state.take_ready(self.0.0);
        // Without a clock, a limit has passed at once.
        let sleeps = limit.is_none_or(|limit| state.stands_still && !limit.is_zero());
        while ready.is_empty() && sleeps {
            note(("sleep", self.0.0));
            state = KERNEL.changed.wait(state).unwrap();
            ready = state.take_ready(self.0.0);
        }
        state.waits(self.0.0, false);
        drop(state);
        if !ready.is_empty() {
            note(("reported", self.0.0, &ready));
        }
        let count = ready.len();
        ready.into_iter().for_each(each);
        Ok(count)
    }
}

/// A waker of the model.
#[derive(Debug)]
pub(in super::super) struct Waker(Handle);

impl Watch<Set> for Waker {
    fn id(&self) -> usize {
        self.0.0
    }
}

impl Waker {
    fn become_awake(&self, now: bool) {
        KERNEL.with(|state| {
            note(("waker", self.0.0, now));
            if let Kind::Waker { awake } = &mut state.objects[self.0.0].kind {
                *awake = now;
            }
            if now {
                state.happened(self.0.0, Edges::READ);
            }
        });
    }
}

impl Wake<Set> for Waker {
    fn wake(&self) {
        self.become_awake(true);
    }

    fn clear(&self) {
        self.become_awake(false);
    }
}
