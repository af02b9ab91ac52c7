//! The world of simulated adapters: clock, network, and the sets to which readiness is reported.
//!
//! A world belongs to the thread that made it. A wait drives the world: if no source is ready, the wait moves the clock from event to
//! event, until the awaited event has happened or the wait's own limit is reached. When no event is left, the wait ends with [`Stuck`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use super::conditions::Conditions;
use super::network::{DatagramSocketId, EndId, ListenerId, Network, Notice};
use crate::edges::{Edges, Ready};
use crate::log::targets;

/// The work of an adapter's thread on a real network. The world calls the task between two waits.
pub trait Task: Send + Sync {
    /// Does the work there is now, and returns the times at which the task has to be called again if no source becomes ready.
    fn run(&self) -> Wishes;
}

/// An adapter, for its world.
pub trait SimAdapter: Send + Sync {
    /// The requests in flight and the events that they wait for, one line each.
    fn waits(&self) -> Vec<String>;

    /// The world has no client any more, so its clock no longer moves: the adapter gives up everything that waits for an event. Called with
    /// no lock held.
    fn abandoned(&self);
}

/// The times at which a [`Task`] wants to be called again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The time of the task's next deadline.
    pub deadline: Option<Instant>,
    /// The time of the next deadline that only keeps connections alive. If there was nothing but these and datagrams in a world for
    /// [`KEPT_ALIVE`], the world is stuck.
    pub upkeep: Option<Instant>,
    /// The time when the task wants to check for work left to it. If nothing but such checks happens in a world [`LOOKS`] times in a row,
    /// the world is stuck.
    pub look: Option<Instant>,
}

/// After this many checks that found nothing, a task will not find anything later either.
pub const LOOKS: u32 = 64;

/// Connections that are only kept alive for this long are not going to end a wait either. No connection lasts longer without an answer of
/// its peer.
pub const KEPT_ALIVE: Duration = Duration::from_secs(120);

/// A wait cannot end, because no event is left in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck;

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing is left in the simulation that could end this wait")
    }
}

impl std::error::Error for Stuck {}

impl From<Stuck> for io::Error {
    fn from(stuck: Stuck) -> Self {
        Self::new(io::ErrorKind::Deadlock, stuck)
    }
}

/// A handle on a world. Clones are the same world.
///
/// A handle belongs to a client of the world, which may move the clock, or to the world's [own](Self::own) adapters and their parts. When
/// the last client has dropped its handles, the adapters are notified that they are [abandoned](SimAdapter::abandoned).
#[derive(Clone)]
pub struct World {
    inner: Arc<Inner>,
    /// `None` in the handles of the world's own parts.
    clients: Option<Arc<Clients>>,
}

struct Inner {
    owner: ThreadId,
    /// The real time when the world was made. It is used only to express virtual times as `Instant`s.
    epoch: Instant,
    /// The last client has dropped its handles. No event follows.
    abandoned: AtomicBool,
    state: Mutex<State>,
}

/// Shared by the handles of all clients of a world, which are counted separately for this reason: an adapter may own an object that ends
/// only when time passes, such as a connection whose queue pair was released. This keeps the adapter, the adapter keeps the world, and the
/// world keeps the adapter's task. So none of them would ever end once the clock no longer moves.
struct Clients(Arc<Inner>);

impl Drop for Clients {
    fn drop(&mut self) {
        self.0.abandoned.store(true, Ordering::SeqCst);
        let adapters = std::mem::take(&mut self.0.state.lock().adapters);
        for adapter in adapters.iter().filter_map(Weak::upgrade) {
            adapter.abandoned();
        }
    }
}

/// Refers to a world without being one of its clients.
#[derive(Clone)]
pub struct WeakWorld(Weak<Clients>);

impl WeakWorld {
    /// Returns true if the world has a client.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// The handle of one more client. `None` if the last client has dropped its handles.
    pub fn upgrade(&self) -> Option<World> {
        let clients = self.0.upgrade()?;
        Some(World {
            inner: Arc::clone(&clients.0),
            clients: Some(clients),
        })
    }
}

impl fmt::Debug for WeakWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakWorld").finish_non_exhaustive()
    }
}

/// An object that can become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimSource {
    /// An end of a stream.
    End(EndId),
    /// A socket that listens.
    Listener(ListenerId),
    /// A socket for datagrams.
    Datagrams(DatagramSocketId),
    /// A waker.
    Waker(u64),
    /// A set, ready when something in it is.
    Set(u64),
}

/// The way in which a set reports a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Once whenever one of these becomes possible.
    Edge(Edges),
    /// For as long as it is ready.
    Level,
}

#[derive(Debug)]
struct Member {
    token: u64,
    mode: Mode,
    muted: bool,
    /// Edges that were not reported yet.
    pending: Edges,
}

#[derive(Debug, Default)]
struct SetState {
    members: BTreeMap<SimSource, Member>,
    /// Members with pending edges, the longest wait first.
    order: VecDeque<SimSource>,
}

struct State {
    network: Network,
    serial: u64,
    sets: BTreeMap<u64, SetState>,
    /// The sets that each source is a member of.
    members_of: BTreeMap<SimSource, BTreeSet<u64>>,
    wakers: BTreeMap<u64, bool>,
    tasks: Vec<TaskEntry>,
    adapters: Vec<Weak<dyn SimAdapter>>,
    /// Times to which programs sleep, with a number each.
    alarms: BTreeSet<(Instant, u64)>,
    /// The sets of the tasks that run: a task may drive the world itself.
    running: Vec<u64>,
    /// The number of times in a row that no event but a check of a task was left.
    idle_looks: u32,
    /// The time of the last event that does not only keep connections alive.
    moved: Duration,
}

struct TaskEntry {
    task: Arc<dyn Task>,
    /// The task is called when this set becomes ready.
    set: u64,
    wishes: Wishes,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    /// Makes a world that the calling thread drives. The same seed, conditions and calls give the same run.
    pub fn new(seed: u64, conditions: Conditions) -> Self {
        let inner = Inner {
            owner: std::thread::current().id(),
            epoch: Instant::now(),
            abandoned: AtomicBool::new(false),
            state: Mutex::new(State {
                network: Network::new(seed, conditions),
                serial: 0,
                sets: BTreeMap::new(),
                members_of: BTreeMap::new(),
                wakers: BTreeMap::new(),
                tasks: Vec::new(),
                adapters: Vec::new(),
                alarms: BTreeSet::new(),
                running: Vec::new(),
                idle_looks: 0,
                moved: Duration::ZERO,
            }),
        };
        let inner = Arc::new(inner);
        Self {
            inner: Arc::clone(&inner),
            clients: Some(Arc::new(Clients(inner))),
        }
    }

    /// A handle for a part of the world itself, such as an adapter, which is not a client.
    #[must_use]
    pub fn own(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            clients: None,
        }
    }

    /// A reference with which the world can be found for as long as it has clients.
    pub fn downgrade(&self) -> WeakWorld {
        let clients = self.clients.as_ref();
        WeakWorld(clients.map_or_else(Weak::new, Arc::downgrade))
    }

    /// A number that no other world of the process has as long as this one exists; not 0.
    pub fn number(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.inner.epoch + self.lock().network.now()
    }

    /// The virtual time since the world was made.
    pub fn time(&self) -> Duration {
        self.lock().network.now()
    }

    /// # Errors
    ///
    /// An error if the calling thread did not make the world, because the seed would then no longer determine the run.
    pub fn check_thread(&self) -> io::Result<()> {
        if std::thread::current().id() == self.inner.owner {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "only the thread that created a simulation can drive it: make the call in that thread",
        ))
    }

    /// Returns true if the calling thread may move the clock. If the thread is not the world's own, a line is logged.
    fn is_ours(&self) -> bool {
        if self.inner.abandoned.load(Ordering::SeqCst) {
            return false;
        }
        let checked = self.check_thread();
        if let Err(error) = &checked {
            limited!(error, target: targets::PROGRESS, %error, "a simulation does not advance for a thread that did not create it");
        }
        checked.is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock()
    }

    /// Calls `act` with the network, and reports to the sets what became ready.
    pub fn network<T>(&self, act: impl FnOnce(&mut Network) -> T) -> T {
        let mut state = self.lock();
        let done = act(&mut state.network);
        state.tell();
        done
    }

    /// Calls a task whenever its set becomes ready, and at the times that the task wishes for, until it is [taken
    /// out](Self::remove_task).
    pub fn add_task(&self, task: Arc<dyn Task>, set: &SimSet) {
        self.lock().tasks.push(TaskEntry {
            task,
            set: set.id,
            wishes: Wishes::default(),
        });
    }

    /// Takes out the task that was added with this set.
    pub fn remove_task(&self, set: &SimSet) {
        let gone = {
            let mut state = self.lock();
            let at = state.tasks.iter().position(|known| known.set == set.id);
            at.map(|at| state.tasks.remove(at))
        };
        drop(gone); // outside the lock: what the task owns may be sources of this world
    }

    /// Adds an adapter of the world.
    pub fn add_adapter(&self, adapter: Weak<dyn SimAdapter>) {
        let mut state = self.lock();
        state.adapters.retain(|known| known.strong_count() > 0);
        state.adapters.push(adapter);
    }

    /// The requests that the adapters wait for, the octets that each stream has on its way, and the datagrams that wait at each socket.
    pub fn report(&self) -> Vec<String> {
        let adapters = self.lock().adapters.clone();
        let adapters = adapters.iter().filter_map(Weak::upgrade);
        let mut lines: Vec<_> = adapters.flat_map(|adapter| adapter.waits()).collect();
        lines.extend(self.lock().network.describe());
        lines
    }

    /// Removes a source that no longer exists from all sets.
    pub fn vanish(&self, source: SimSource) {
        self.lock().vanish(source);
    }

    /// A number that follows from the seed.
    pub fn random(&self) -> u64 {
        self.lock().network.random()
    }

    /// There was an event that does not only keep connections alive: a call of a program, or octets of a peer that have reached its
    /// program. See [`KEPT_ALIVE`].
    pub fn moved(&self) {
        let mut state = self.lock();
        state.moved = state.network.now();
    }

    /// Makes a time an event of the world, over which no step passes. Returns a number with which it can be cancelled.
    pub fn set_alarm(&self, at: Instant) -> u64 {
        let mut state = self.lock();
        let number = state.next_serial();
        state.alarms.insert((at, number));
        number
    }

    /// Cancels an alarm. Does nothing if the alarm's time has passed.
    pub fn clear_alarm(&self, number: u64) {
        self.lock().alarms.retain(|(_, known)| *known != number);
    }

    /// Moves the clock to the next event, or to `until` if this is earlier. Returns false if no event is left.
    fn advance(&self, until: Option<Instant>) -> bool {
        let mut state = self.lock();
        let now = state.network.now();
        if state.due_task(self.inner.epoch + now).is_some() {
            return true; // at once
        }
        let Some(next) = state.next(self.inner.epoch, until) else {
            return false;
        };
        let next = next.saturating_duration_since(self.inner.epoch);
        state.network.advance(next.max(now));
        state.tell();
        true
    }

    /// Calls every task that has a reason to run, once.
    fn run_tasks(&self) {
        let mut seen = BTreeSet::new();
        loop {
            let due = {
                let mut state = self.lock();
                let now = self.inner.epoch + state.network.now();
                let due = (0..state.tasks.len())
                    .find(|at| !seen.contains(&state.tasks[*at].set) && state.is_due(*at, now));
                let Some(at) = due else { return };
                state.tasks[at].wishes = Wishes::default();
                let set = state.tasks[at].set;
                state.running.push(set);
                (state.tasks[at].set, Arc::clone(&state.tasks[at].task))
            };
            let (set, task) = due;
            seen.insert(set);
            let wishes = task.run();
            let mut state = self.lock();
            state.running.retain(|running| *running != set);
            if let Some(known) = state.tasks.iter_mut().find(|known| known.set == set) {
                known.wishes = Wishes {
                    deadline: earlier(known.wishes.deadline, wishes.deadline),
                    upkeep: earlier(known.wishes.upkeep, wishes.upkeep),
                    look: earlier(known.wishes.look, wishes.look),
                };
            }
        }
    }

    /// Lets time pass, and carries out all events meanwhile.
    pub fn pass(&self, time: Duration) {
        let end = self.now() + time;
        while self.now() < end && self.is_ours() {
            self.advance(Some(end));
            self.run_tasks();
        }
    }

    /// Lets the next event happen, as a poll does that has found nothing. Returns false if no event is left.
    pub fn step(&self) -> bool {
        self.step_until(None)
    }

    /// Like [`step`](Self::step), but no later than `until`. If only time has passed, that counts as an event. Also returns false if the
    /// calling thread is not the world's own, or if the last client has dropped its handles: then the clock does not move.
    pub fn step_until(&self, until: Option<Instant>) -> bool {
        if !self.is_ours() {
            return false;
        }
        let happened = self.advance(until);
        self.run_tasks();
        happened
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

impl State {
    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Passes on the changes that the network has made.
    fn tell(&mut self) {
        while let Some(notice) = self.network.take_notice() {
            let (source, edges) = match notice {
                Notice::Readable(end) => (SimSource::End(end), Edges::READ),
                Notice::Writable(end) => (SimSource::End(end), Edges::WRITE),
                Notice::Hangup(end) => (
                    SimSource::End(end),
                    Edges::HANGUP | Edges::READ | Edges::WRITE,
                ),
                Notice::Arrived(listener) => (SimSource::Listener(listener), Edges::READ),
                Notice::Received(socket) => (SimSource::Datagrams(socket), Edges::READ),
            };
            self.signal(source, edges);
        }
    }

    /// Notes in the sets of a source that it became ready, and in the sets that contain those sets.
    fn signal(&mut self, source: SimSource, edges: Edges) {
        let sets = self.members_of.get(&source).cloned().unwrap_or_default();
        for id in sets {
            let Some(set) = self.sets.get_mut(&id) else {
                continue;
            };
            let Some(member) = set.members.get_mut(&source) else {
                continue;
            };
            if let Mode::Edge(wanted) = member.mode {
                // A hang-up is always reported, as the system does.
                if !edges.intersects(wanted | Edges::HANGUP) {
                    continue;
                }
                if member.pending.is_empty() {
                    set.order.push_back(source);
                }
                member.pending |= edges;
                if member.muted {
                    continue;
                }
            } else if member.muted {
                continue;
            }
            self.signal(SimSource::Set(id), Edges::READ);
        }
    }

    /// The edges for which a source is ready now. A set reports these when the source is added.
    fn readiness(&mut self, source: SimSource) -> Edges {
        match source {
            SimSource::End(end) => self.network.readiness(end),
            SimSource::Listener(listener) if self.network.is_awaited(listener) => Edges::READ,
            SimSource::Datagrams(socket) => self.network.datagrams().readiness(socket),
            SimSource::Waker(id) if self.wakers.get(&id) == Some(&true) => Edges::READ,
            SimSource::Set(id) if self.is_ready(id) => Edges::READ,
            _ => Edges::empty(),
        }
    }

    /// Returns true if a wait on the set would report something.
    fn is_ready(&mut self, id: u64) -> bool {
        let Some(set) = self.sets.get(&id) else {
            return false;
        };
        let members = set.members.iter().filter(|(_, member)| !member.muted);
        let mut levels = Vec::new();
        for (source, member) in members {
            match member.mode {
                Mode::Edge(_) if !member.pending.is_empty() => return true,
                Mode::Edge(_) => {}
                Mode::Level => levels.push(*source),
            }
        }
        levels
            .into_iter()
            .any(|source| !self.readiness(source).is_empty())
    }

    /// Takes the reports of a set.
    fn take(&mut self, id: u64, most: usize) -> Vec<Ready> {
        let mut found = Vec::new();
        let Some(set) = self.sets.get_mut(&id) else {
            return found;
        };
        let mut later = VecDeque::new();
        while let Some(source) = set.order.pop_front() {
            let Some(member) = set.members.get_mut(&source) else {
                continue;
            };
            if member.muted || found.len() == most {
                later.push_back(source);
                continue;
            }
            let edges = std::mem::replace(&mut member.pending, Edges::empty());
            let token = member.token;
            if !edges.is_empty() {
                found.push(Ready { token, edges });
            }
        }
        set.order = later;
        let levels: Vec<_> = set
            .members
            .iter()
            .filter(|(_, member)| member.mode == Mode::Level && !member.muted)
            .map(|(source, member)| (*source, member.token))
            .collect();
        for (source, token) in levels {
            let edges = self.readiness(source);
            if !edges.is_empty() && found.len() < most {
                found.push(Ready { token, edges });
            }
        }
        found
    }

    fn is_due(&mut self, at: usize, now: Instant) -> bool {
        let TaskEntry { set, wishes, .. } = self.tasks[at];
        if self.running.contains(&set) {
            return false;
        }
        let wishes = [wishes.deadline, wishes.upkeep, wishes.look];
        let wishes = wishes.into_iter().flatten();
        wishes.min().is_some_and(|wish| wish <= now) || self.is_ready(set)
    }

    fn due_task(&mut self, now: Instant) -> Option<usize> {
        (0..self.tasks.len()).find(|at| self.is_due(*at, now))
    }
}

/// A set of sources of a world.
#[derive(Debug)]
pub struct SimSet {
    world: World,
    id: u64,
}

impl SimSet {
    /// An empty set.
    pub fn new(world: &World) -> Self {
        let mut state = world.lock();
        let id = state.next_serial();
        state.sets.insert(id, SetState::default());
        drop(state);
        Self {
            world: world.clone(),
            id,
        }
    }

    /// The world of the set.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The set as a source of another one.
    pub fn source(&self) -> SimSource {
        SimSource::Set(self.id)
    }

    /// Adds a source. If it is ready already, that is reported.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if the source is in the set already.
    pub fn add(&self, source: SimSource, token: u64, mode: Mode) -> io::Result<()> {
        let mut state = self.world.lock();
        let state = &mut *state;
        let Some(set) = state.sets.get_mut(&self.id) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if set.members.contains_key(&source) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let member = Member {
            token,
            mode,
            muted: false,
            pending: Edges::empty(),
        };
        set.members.insert(source, member);
        state.members_of.entry(source).or_default().insert(self.id);
        self.look_anew(state, source);
        Ok(())
    }

    /// Changes the way in which a source is reported. If it is ready, that is reported again.
    ///
    /// # Errors
    ///
    /// `NotFound` if the source is not in the set.
    pub fn change(&self, source: SimSource, mode: Mode, muted: bool) -> io::Result<()> {
        let mut state = self.world.lock();
        let state = &mut *state;
        let member = state
            .sets
            .get_mut(&self.id)
            .and_then(|set| set.members.get_mut(&source));
        let Some(member) = member else {
            return Err(io::ErrorKind::NotFound.into());
        };
        member.mode = mode;
        member.muted = muted;
        if !muted {
            self.look_anew(state, source);
        }
        Ok(())
    }

    /// Makes only this set report the source again.
    fn look_anew(&self, state: &mut State, source: SimSource) {
        let edges = state.readiness(source);
        let others = state.members_of.remove(&source).unwrap_or_default();
        state.members_of.insert(source, BTreeSet::from([self.id]));
        if !edges.is_empty() {
            state.signal(source, edges);
        }
        state.members_of.insert(source, others);
    }

    /// Takes a source out.
    ///
    /// # Errors
    ///
    /// `NotFound` if the source is not in the set.
    pub fn remove(&self, source: SimSource) -> io::Result<()> {
        let mut state = self.world.lock();
        state.forget(self.id, source)
    }

    /// Waits for at most `limit` of virtual time, calls `each` for the ready sources, and returns the number of calls. With a limit of zero
    /// the clock does not move.
    ///
    /// # Errors
    ///
    /// An error if the calling thread is not the world's own; [`Stuck`].
    pub fn wait(
        &self,
        limit: Option<Duration>,
        most: usize,
        each: impl FnMut(Ready),
    ) -> io::Result<usize> {
        self.world.check_thread()?;
        let deadline = limit.and_then(|limit| self.world.now().checked_add(limit));
        let found = loop {
            let found = self.world.lock().take(self.id, most);
            if !found.is_empty() || deadline.is_some_and(|at| at <= self.world.now()) {
                break found;
            }
            if !self.world.advance(deadline) {
                return Err(Stuck.into());
            }
            // On a real network, sometimes the waiting thread is faster than the background thread, and sometimes it is
            // slower.
            let mut state = self.world.lock();
            let waits = state.is_ready(self.id) && state.network.coin();
            drop(state);
            if !waits {
                self.world.run_tasks();
            }
        };
        let count = found.len();
        found.into_iter().for_each(each);
        Ok(count)
    }
}

impl Drop for SimSet {
    fn drop(&mut self) {
        let mut state = self.world.lock();
        let members = state.sets.remove(&self.id).map(|set| set.members);
        for source in members.into_iter().flatten().map(|(source, _)| source) {
            state.leave(self.id, source);
        }
        state.vanish(self.source());
    }
}

impl State {
    /// The time of the next event, or `until` if this is earlier; `None` if no event is left.
    fn next(&mut self, epoch: Instant, until: Option<Instant>) -> Option<Instant> {
        let wishes = || self.tasks.iter().map(|task| task.wishes);
        let deadline = wishes().filter_map(|wishes| wishes.deadline).min();
        let upkeep = wishes().filter_map(|wishes| wishes.upkeep).min();
        let look = wishes().filter_map(|wishes| wishes.look).min();
        let now = epoch + self.network.now();
        while self.alarms.first().is_some_and(|(at, _)| *at <= now) {
            self.alarms.pop_first();
        }
        let deadline = earlier(deadline, self.alarms.first().map(|(at, _)| *at));
        let event = self.network.next_event().map(|at| epoch + at);
        // Datagrams may only keep connections alive.
        let (event, datagram) = match self.network.has_stream_events() {
            true => (event, None),
            false => (None, event),
        };
        let certain = earlier(deadline, event);
        let upkeep = earlier(upkeep, datagram);
        let now = self.network.now();
        if certain.is_some() {
            self.moved = now;
        }
        let certain = earlier(certain, until);
        let is_upkeep_over = now.saturating_sub(self.moved) > KEPT_ALIVE;
        let is_look_next = upkeep.is_none_or(|upkeep| look.is_some_and(|look| look < upkeep));
        self.idle_looks = match (certain, upkeep, look) {
            (Some(_), ..) => 0,
            (None, Some(_), _) if is_upkeep_over => return None,
            (None, Some(_), _) if !is_look_next => 0,
            // Further checks find nothing until there is another event.
            (None, Some(_), _) if self.idle_looks == LOOKS => {
                self.idle_looks = 0;
                return upkeep;
            }
            (None, _, Some(_)) if self.idle_looks < LOOKS => self.idle_looks + 1,
            (None, ..) => return None,
        };
        earlier(earlier(certain, upkeep), look)
    }

    fn forget(&mut self, id: u64, source: SimSource) -> io::Result<()> {
        let member = self
            .sets
            .get_mut(&id)
            .and_then(|set| set.members.remove(&source));
        self.leave(id, source);
        match member {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn leave(&mut self, id: u64, source: SimSource) {
        if let Some(sets) = self.members_of.get_mut(&source) {
            sets.remove(&id);
            if sets.is_empty() {
                self.members_of.remove(&source);
            }
        }
    }

    /// Removes a source that no longer exists from all sets.
    fn vanish(&mut self, source: SimSource) {
        for id in self.members_of.remove(&source).unwrap_or_default() {
            if let Some(set) = self.sets.get_mut(&id) {
                set.members.remove(&source);
            }
        }
    }
}

/// Makes a set ready from elsewhere.
#[derive(Debug)]
pub struct SimWaker {
    world: World,
    id: u64,
}

impl SimWaker {
    /// A waker that is clear.
    pub fn new(world: &World) -> Self {
        let mut state = world.lock();
        let id = state.next_serial();
        state.wakers.insert(id, false);
        drop(state);
        Self {
            world: world.clone(),
            id,
        }
    }

    /// The waker as a source of a set.
    pub fn source(&self) -> SimSource {
        SimSource::Waker(self.id)
    }

    /// Many wakes before one [`clear`](Self::clear) count as one.
    pub fn wake(&self) {
        let mut state = self.world.lock();
        state.wakers.insert(self.id, true);
        state.signal(self.source(), Edges::READ);
    }

    /// Takes the wakes back.
    pub fn clear(&self) {
        self.world.lock().wakers.insert(self.id, false);
    }
}

impl Drop for SimWaker {
    fn drop(&mut self) {
        let mut state = self.world.lock();
        state.wakers.remove(&self.id);
        state.vanish(SimSource::Waker(self.id));
    }
}

/// One end of a stream, held by its program.
#[derive(Debug)]
pub struct SimEnd {
    world: World,
    id: EndId,
    /// Dropping the end resets the stream.
    broken: AtomicBool,
}

impl SimEnd {
    /// The end with this number.
    pub fn new(world: &World, id: EndId) -> Self {
        Self {
            world: world.clone(),
            id,
            broken: AtomicBool::new(false),
        }
    }

    /// The end's number in its network.
    pub fn number(&self) -> EndId {
        self.id
    }

    /// The end as a source of a set.
    pub fn source(&self) -> SimSource {
        SimSource::End(self.id)
    }

    /// The world of the end.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Calls `act` with the network and this end.
    ///
    /// # Errors
    ///
    /// Those of `act`, and an error if the calling thread is not the world's own.
    pub fn with<T>(&self, act: impl FnOnce(&mut Network, EndId) -> io::Result<T>) -> io::Result<T> {
        self.world.check_thread()?;
        self.world.network(|network| act(network, self.id))
    }

    /// Ends the stream with a reset.
    pub fn abort(self) {
        self.break_off();
    }

    /// Makes the stream end with a reset when this is dropped. The local address can be bound again at once.
    pub fn break_off(&self) {
        self.world
            .network(|network| network.release_address(self.id));
        self.broken.store(true, Ordering::Relaxed);
    }
}

impl Drop for SimEnd {
    fn drop(&mut self) {
        self.world.network(|network| {
            if *self.broken.get_mut() {
                network.abort(self.id);
            }
            network.close(self.id);
        });
        self.world.lock().vanish(self.source());
    }
}

#[cfg(test)]
pub(crate) mod tests;
