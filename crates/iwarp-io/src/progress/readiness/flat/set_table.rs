//! What the sets of one adapter hold, and what is ready in them.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use mio::{Interest, Registry, Token};
use parking_lot::Condvar;
use rustix::fd::{AsRawFd, BorrowedFd, RawFd};

use super::super::{BATCH, Edges, Ready};
use super::registered::Registered;
use crate::progress::tokens::Tokens;

/// A source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A descriptor of the system.
    Socket(RawFd),
    /// A waker, by its number.
    Waker(u64),
    /// A set, by its number.
    Set(u64),
}

/// How a set reports a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportMode {
    /// Once for these edges.
    Edge(Edges),
    /// As long as it is ready.
    Level,
}

/// The place of a source in a set.
#[derive(Debug)]
struct Place {
    token: u64,
    mode: ReportMode,
    is_muted: bool,
    /// Edges that the set has not reported yet. If an edge source has any, it is in the set's `order`. A descriptor that is a level keeps
    /// them until it is armed.
    pending: Edges,
}

#[derive(Debug, Default)]
struct Set {
    places: HashMap<Key, Place>,
    /// Edge sources to be reported. The first one has waited longest.
    order: VecDeque<Key>,
    levels: Vec<Key>,
    /// The sets that hold this one.
    holders: Vec<u64>,
}

#[derive(Debug, Default)]
struct Waker {
    is_awake: bool,
    holders: Vec<u64>,
}

/// How far a stream has ended, as the system has reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    #[default]
    Not,
    /// The peer's direction.
    Reading,
    Both,
}

/// A descriptor that is registered with the system, once for all sets.
#[derive(Debug)]
struct Socket {
    number: RawFd,
    registered: Registered,
    holders: Vec<u64>,
    /// The edges that will be reported. A report takes them out, until they are armed again.
    armed: Edges,
    /// What was reported of the end, which is reported although nothing is armed.
    ended: Ended,
    /// The system knows the socket.
    is_registered: bool,
    /// The socket is among those that the thread of the sets has to arm.
    is_wanted: bool,
}

/// A thread that sleeps beside the one in the system's call.
#[derive(Debug)]
struct Sleeper {
    set: u64,
    woken: Arc<Condvar>,
}

/// The reports of one wait.
#[derive(Debug)]
pub(super) struct Batch {
    ready: [Ready; BATCH],
    count: usize,
}

impl Batch {
    pub(super) const fn new() -> Self {
        Self {
            ready: [Ready {
                token: 0,
                edges: Edges::empty(),
            }; BATCH],
            count: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.count == BATCH
    }

    fn push(&mut self, token: u64, edges: Edges) {
        self.ready[self.count] = Ready { token, edges };
        self.count += 1;
    }

    pub(super) fn ready(&self) -> &[Ready] {
        &self.ready[..self.count]
    }
}

/// The state of all sets of one adapter.
#[derive(Debug)]
pub(super) struct SetTable {
    registry: Registry,
    /// Ends the sleep of the thread in the system's call.
    call: mio::Waker,
    sets: HashMap<u64, Set>,
    wakers: HashMap<u64, Waker>,
    sockets: Tokens<Socket>,
    /// The sockets' tokens by their numbers.
    tokens: HashMap<RawFd, u64>,
    sleepers: Vec<Sleeper>,
    /// A thread is in the system's call, or about to be. The thread of the sets always is.
    pub(super) is_led: bool,
    has_thread: bool,
    /// The thread of the sets sleeps, or is about to, and was not called since.
    thread_sleeps: bool,
    thread_is_over: bool,
    /// The tokens of sockets that it has to arm.
    wanted: Vec<u64>,
    /// The set for which that thread sleeps, unless it was called since.
    leads_for: Option<u64>,
    last_number: u64,
    /// Empty lists, so that a stream that leaves its sets and returns needs no memory.
    spare_lists: Vec<Vec<u64>>,
}

/// The most lists that are kept.
const SPARE_LISTS: usize = 64;

impl SetTable {
    pub(super) fn new(registry: Registry, call: mio::Waker, has_thread: bool) -> Self {
        Self {
            registry,
            call,
            sets: HashMap::new(),
            wakers: HashMap::new(),
            sockets: Tokens::default(),
            tokens: HashMap::new(),
            sleepers: Vec::new(),
            is_led: has_thread,
            has_thread,
            thread_sleeps: false,
            thread_is_over: false,
            wanted: Vec::new(),
            leads_for: None,
            last_number: 0,
            spare_lists: Vec::with_capacity(SPARE_LISTS),
        }
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn make_set(&mut self) -> u64 {
        let number = self.next_number();
        self.sets.insert(number, Set::default());
        number
    }

    pub(super) fn make_waker(&mut self) -> u64 {
        let number = self.next_number();
        self.wakers.insert(number, Waker::default());
        number
    }

    /// The set does not exist any more. Its sources leave it, and it leaves the sets around it.
    pub(super) fn drop_set(&mut self, number: u64) {
        let Some(set) = self.sets.remove(&number) else {
            return;
        };
        for key in set.places.keys() {
            // Fails if the descriptor was closed before. The system has forgotten it then.
            let _ = self.let_go(*key, number);
        }
        self.leaves_all(Key::Set(number), set.holders);
    }

    pub(super) fn drop_waker(&mut self, number: u64) {
        let waker = self.wakers.remove(&number);
        let holders = waker.map(|waker| waker.holders);
        self.leaves_all(Key::Waker(number), holders.unwrap_or_default());
    }

    fn leaves_all(&mut self, key: Key, holders: Vec<u64>) {
        for holder in holders {
            if let Some(set) = self.sets.get_mut(&holder) {
                set.forget(key);
            }
        }
    }

    fn holders(&mut self, key: Key) -> Option<&mut Vec<u64>> {
        match key {
            Key::Socket(number) => {
                let token = self.tokens.get(&number)?;
                self.sockets.get_mut(*token).map(|it| &mut it.holders)
            }
            Key::Waker(number) => self.wakers.get_mut(&number).map(|it| &mut it.holders),
            Key::Set(number) => self.sets.get_mut(&number).map(|it| &mut it.holders),
        }
    }

    /// A set does not hold this source any more.
    fn let_go(&mut self, key: Key, holder: u64) -> io::Result<()> {
        let Some(holders) = self.holders(key) else {
            return Ok(());
        };
        holders.retain(|known| *known != holder);
        if let Key::Socket(number) = key
            && holders.is_empty()
            && let Some(token) = self.tokens.remove(&number)
        {
            let socket = self.sockets.remove(token);
            let Some(Socket {
                mut registered,
                mut holders,
                is_registered,
                ..
            }) = socket
            else {
                return Ok(());
            };
            if self.spare_lists.len() < SPARE_LISTS {
                holders.clear();
                self.spare_lists.push(holders);
            }
            if !is_registered {
                return Ok(());
            }
            return registered.deregister(&self.registry);
        }
        Ok(())
    }

    /// Adds a descriptor of the system, and reports it if it is ready.
    pub(super) fn add_socket(
        &mut self,
        set: u64,
        descriptor: BorrowedFd<'_>,
        token: u64,
        mode: ReportMode,
    ) -> io::Result<()> {
        self.add_held(
            set,
            Key::Socket(descriptor.as_raw_fd()),
            token,
            mode,
            |table| table.hold_socket(descriptor, set, mode.edges()),
        )
    }

    /// Adds a set or a waker, and reports it if it is ready.
    pub(super) fn add(
        &mut self,
        set: u64,
        key: Key,
        token: u64,
        mode: ReportMode,
    ) -> io::Result<()> {
        self.add_held(set, key, token, mode, |table| {
            let holders = table.holders(key).ok_or(io::ErrorKind::NotFound)?;
            holders.push(set);
            Ok(())
        })
    }

    fn add_held(
        &mut self,
        set: u64,
        key: Key,
        token: u64,
        mode: ReportMode,
        hold: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let known = self.sets.get_mut(&set).ok_or(io::ErrorKind::NotFound)?;
        if known.places.contains_key(&key) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        hold(self)?;
        let Some(known) = self.sets.get_mut(&set) else {
            return Ok(());
        };
        let place = Place {
            token,
            mode,
            is_muted: false,
            pending: Edges::empty(),
        };
        known.places.insert(key, place);
        if mode == ReportMode::Level {
            known.levels.push(key);
        }
        self.look_anew(set, key);
        Ok(())
    }

    /// One more set holds a socket, which is armed for these edges.
    fn hold_socket(
        &mut self,
        descriptor: BorrowedFd<'_>,
        set: u64,
        edges: Edges,
    ) -> io::Result<()> {
        let number = descriptor.as_raw_fd();
        if let Some(token) = self.tokens.get(&number).copied() {
            self.arm_at(token, edges, true)?;
            if let Some(socket) = self.sockets.get_mut(token) {
                socket.holders.push(set);
            }
            return Ok(());
        }
        let registered = Registered::new(descriptor)?;
        let mut holders = self.spare_lists.pop().unwrap_or_default();
        holders.push(set);
        let token = self.sockets.insert(Socket {
            number,
            registered,
            holders,
            armed: edges,
            ended: Ended::Not,
            is_registered: false,
            is_wanted: false,
        });
        match self.ask_system(token) {
            Ok(()) => {
                self.tokens.insert(number, token);
                Ok(())
            }
            Err(error) => {
                self.sockets.remove(token);
                Err(error)
            }
        }
    }

    /// Asks the system for what is armed of a socket, or leaves that to the thread of the sets.
    fn ask_system(&mut self, token: u64) -> io::Result<()> {
        let Some(socket) = self.sockets.get_mut(token) else {
            return Ok(());
        };
        if !self.has_thread {
            return socket.register(&self.registry, token);
        }
        if !std::mem::replace(&mut socket.is_wanted, true) {
            self.wanted.push(token);
        }
        self.call_the_thread();
        Ok(())
    }

    fn call_the_thread(&mut self) {
        if std::mem::take(&mut self.thread_sleeps) {
            // The only failure is a waker that is awake.
            let _ = self.call.wake();
        }
    }

    /// The thread of the sets is about to make the system's call. Asks the system for what others have left to it. Returns false if the sets
    /// are no more.
    pub(super) fn lead_for_good(&mut self) -> bool {
        self.arm_wanted();
        self.thread_sleeps = true;
        !self.thread_is_over
    }

    /// The thread of the sets ends because the system refuses its call. From now on the threads that wait make it, and get its error.
    pub(super) fn lose_the_thread(&mut self) {
        self.has_thread = false;
        self.is_led = false;
        self.arm_wanted();
        self.call_a_leader();
    }

    /// Asks the system for what was left to the thread of the sets.
    fn arm_wanted(&mut self) {
        let mut wanted = std::mem::take(&mut self.wanted);
        for token in wanted.drain(..) {
            let Some(socket) = self.sockets.get_mut(token) else {
                continue;
            };
            socket.is_wanted = false;
            if socket.register(&self.registry, token).is_err() {
                // As in `arm`.
                let (key, edges) = (Key::Socket(socket.number), socket.armed);
                socket.armed = Edges::empty();
                self.happened(key, edges);
            }
        }
        self.wanted = wanted;
    }

    pub(super) fn end_the_thread(&mut self) {
        self.thread_is_over = true;
        self.call_the_thread();
    }

    /// Arms a socket for further edges, and makes the system examine it. `anew`: also if it is armed for them already.
    fn arm_at(&mut self, token: u64, edges: Edges, anew: bool) -> io::Result<()> {
        let Some(socket) = self.sockets.get_mut(token) else {
            return Ok(());
        };
        if !anew && socket.armed.contains(edges) {
            return Ok(());
        }
        if anew {
            socket.ended = Ended::Not;
        }
        socket.armed |= edges;
        self.ask_system(token)
    }

    #[cfg(test)]
    pub(super) fn armed(&self, number: RawFd) -> Option<Edges> {
        let socket = self.sockets.get(*self.tokens.get(&number)?)?;
        Some(socket.armed)
    }

    /// A thread has handled the last report of a socket. From now on the next event is reported, and at once if it has happened already.
    pub(super) fn arm(&mut self, number: RawFd, edges: Edges) {
        let Some(token) = self.tokens.get(&number).copied() else {
            return;
        };
        self.lower(number, edges);
        if self.arm_at(token, edges, false).is_err() {
            // The system has no memory. Whoever gets this report looks at the socket, and arms it again.
            if let Some(socket) = self.sockets.get_mut(token) {
                socket.armed -= edges;
            }
            self.happened(Key::Socket(number), edges);
        }
    }

    /// A level is not ready any more, as far as is known.
    fn lower(&mut self, number: RawFd, edges: Edges) {
        let key = Key::Socket(number);
        let mut at = 0;
        while let Some(holder) = self.holders(key).and_then(|all| all.get(at).copied()) {
            let set = self.sets.get_mut(&holder);
            if let Some(place) = set.and_then(|set| set.places.get_mut(&key))
                && place.mode == ReportMode::Level
            {
                place.pending -= edges;
            }
            at += 1;
        }
    }

    /// Changes how a set reports a source, and reports it if it is ready.
    pub(super) fn change(
        &mut self,
        set: u64,
        key: Key,
        mode: Option<ReportMode>,
        is_muted: bool,
    ) -> io::Result<()> {
        let known = self.sets.get_mut(&set);
        let place = known.and_then(|set| set.places.get_mut(&key));
        let place = place.ok_or(io::ErrorKind::NotFound)?;
        place.mode = mode.unwrap_or(place.mode);
        place.is_muted = is_muted;
        let mode = place.mode;
        if is_muted {
            let set = self.sets.get_mut(&set);
            set.into_iter().for_each(|set| set.forget_reports(key));
            return Ok(());
        }
        if let Key::Socket(number) = key
            && let Some(token) = self.tokens.get(&number).copied()
        {
            self.arm_at(token, mode.edges(), true)?;
        }
        self.look_anew(set, key);
        Ok(())
    }

    pub(super) fn remove(&mut self, set: u64, key: Key) -> io::Result<()> {
        let known = self.sets.get_mut(&set);
        let place = known.and_then(|set| set.forget(key));
        place.ok_or(io::ErrorKind::NotFound)?;
        let gone = self.let_go(key, set);
        debug_assert!(gone.is_ok(), "{key:?} was closed before it has left");
        gone
    }

    /// Makes this set report a source that is ready. Of sockets only the system knows.
    fn look_anew(&mut self, set: u64, key: Key) {
        let is_ready = match key {
            Key::Socket(_) => false,
            Key::Waker(number) => self.wakers.get(&number).is_some_and(|it| it.is_awake),
            Key::Set(number) => self.is_ready(number),
        };
        if is_ready {
            self.note(set, key, Edges::READ);
        }
    }

    /// Returns true if a wait on the set would report something.
    fn is_ready(&self, number: u64) -> bool {
        let Some(set) = self.sets.get(&number) else {
            return false;
        };
        !set.order.is_empty() || set.levels.iter().any(|key| self.is_level_ready(set, *key))
    }

    fn is_level_ready(&self, set: &Set, key: Key) -> bool {
        let Some(place) = set.places.get(&key) else {
            return false;
        };
        !place.is_muted
            && match key {
                Key::Socket(_) => !place.pending.is_empty(),
                Key::Waker(number) => self.wakers.get(&number).is_some_and(|it| it.is_awake),
                Key::Set(number) => self.is_ready(number),
            }
    }

    /// A source became ready: the sets that hold it report it, and those around them.
    fn happened(&mut self, key: Key, edges: Edges) {
        let mut at = 0;
        while let Some(holder) = self.holders(key).and_then(|all| all.get(at).copied()) {
            self.note(holder, key, edges);
            at += 1;
        }
    }

    fn note(&mut self, number: u64, key: Key, edges: Edges) {
        let Some(set) = self.sets.get_mut(&number) else {
            return;
        };
        let Some(place) = set.places.get_mut(&key) else {
            return;
        };
        // A hang-up is always reported, as the systems do.
        let edges = edges & (place.mode.edges() | Edges::HANGUP);
        if place.is_muted || edges.is_empty() {
            return;
        }
        let is_first = place.pending.is_empty();
        match place.mode {
            ReportMode::Edge(_) => {
                place.pending |= edges;
                if is_first {
                    set.order.push_back(key);
                }
            }
            ReportMode::Level if matches!(key, Key::Socket(_)) => {
                place.pending |= edges & Edges::READ
            }
            // Their state is looked up.
            ReportMode::Level => {}
        }
        self.wake(number);
        self.happened(Key::Set(number), Edges::READ);
    }

    /// The system has reported a socket.
    pub(super) fn reported(&mut self, event: &mio::event::Event) {
        let Some(socket) = self.sockets.get_mut(event.token().0 as u64) else {
            return;
        };
        let mut edges = Edges::empty();
        // A socket of UDP can have one error after the other.
        edges.set(Edges::READ, event.is_readable() || event.is_error());
        edges.set(Edges::WRITE, event.is_writable() || event.is_error());
        edges &= socket.armed;
        let is_over = event.is_error() || (event.is_read_closed() && event.is_write_closed());
        let ended = match (is_over, event.is_read_closed()) {
            (true, _) => Ended::Both,
            (_, true) => Ended::Reading,
            _ => Ended::Not,
        };
        if ended > socket.ended {
            socket.ended = ended;
            edges |= Edges::HANGUP | Edges::READ;
            edges.set(
                Edges::WRITE,
                ended == Ended::Both || edges.contains(Edges::WRITE),
            );
        }
        socket.armed -= edges;
        let key = Key::Socket(socket.number);
        if !edges.is_empty() {
            self.happened(key, edges);
        }
    }

    /// Takes the reports of a set.
    pub(super) fn take(&mut self, number: u64, found: &mut Batch) {
        let Some(set) = self.sets.get_mut(&number) else {
            return;
        };
        while !found.is_full()
            && let Some(key) = set.order.pop_front()
        {
            if let Some(place) = set.places.get_mut(&key) {
                found.push(place.token, std::mem::take(&mut place.pending));
            }
        }
        let Some(set) = self.sets.get(&number) else {
            return;
        };
        let ready = set
            .levels
            .iter()
            .filter(|key| self.is_level_ready(set, **key));
        for place in ready.filter_map(|key| set.places.get(key)) {
            if found.is_full() {
                return;
            }
            found.push(place.token, Edges::READ);
        }
    }

    pub(super) fn set_awake(&mut self, number: u64, is_awake: bool) {
        let Some(waker) = self.wakers.get_mut(&number) else {
            return;
        };
        waker.is_awake = is_awake;
        if is_awake {
            self.happened(Key::Waker(number), Edges::READ);
        }
    }

    /// Wakes the threads that wait on a set.
    pub(super) fn wake(&mut self, number: u64) {
        if self.leads_for == Some(number) {
            self.leads_for = None;
            // The only failure is a waker that is awake.
            let _ = self.call.wake();
        }
        for sleeper in &self.sleepers {
            if sleeper.set == number {
                sleeper.woken.notify_one();
            }
        }
    }

    /// The calling thread leads: it is about to make the system's call. If it may sleep there, reports of this set wake it.
    pub(super) fn lead(&mut self, number: Option<u64>) {
        self.is_led = true;
        self.leads_for = number;
    }

    /// The system's call of the leading thread has returned.
    pub(super) fn led(&mut self) {
        self.is_led = self.has_thread;
        self.thread_sleeps = false;
        self.leads_for = None;
    }

    /// The calling thread is about to sleep beside the one in the system's call.
    pub(super) fn sleeps(&mut self, set: u64, woken: &Arc<Condvar>) {
        let woken = Arc::clone(woken);
        self.sleepers.push(Sleeper { set, woken });
    }

    pub(super) fn woke_up(&mut self, woken: &Arc<Condvar>) {
        self.sleepers
            .retain(|known| !Arc::ptr_eq(&known.woken, woken));
    }

    /// If threads sleep and none is in the system's call, wakes one of them to make it.
    pub(super) fn call_a_leader(&self) {
        if !self.is_led
            && let Some(sleeper) = self.sleepers.last()
        {
            sleeper.woken.notify_one();
        }
    }
}

impl Socket {
    /// Tells the system what is armed. It examines the socket at once.
    fn register(&mut self, registry: &Registry, token: u64) -> io::Result<()> {
        let (token, interest) = (system_token(token)?, interest(self.armed));
        if self.is_registered {
            return self.registered.reregister(registry, token, interest);
        }
        self.registered.register(registry, token, interest)?;
        self.is_registered = true;
        Ok(())
    }
}

impl Set {
    fn forget(&mut self, key: Key) -> Option<Place> {
        self.forget_reports(key);
        let place = self.places.remove(&key)?;
        if place.mode == ReportMode::Level {
            self.levels.retain(|known| *known != key);
        }
        Some(place)
    }

    fn forget_reports(&mut self, key: Key) {
        if let Some(place) = self.places.get_mut(&key)
            && !std::mem::take(&mut place.pending).is_empty()
        {
            self.order.retain(|known| *known != key);
        }
    }
}

impl ReportMode {
    fn edges(self) -> Edges {
        match self {
            Self::Edge(edges) => edges,
            Self::Level => Edges::READ,
        }
    }
}

fn system_token(token: u64) -> io::Result<Token> {
    usize::try_from(token)
        .map(Token)
        .map_err(|_| io::ErrorKind::Unsupported.into())
}

/// What the system is asked for; it always reports the end of a stream as well.
fn interest(edges: Edges) -> Interest {
    match (edges.contains(Edges::READ), edges.contains(Edges::WRITE)) {
        (_, false) => Interest::READABLE,
        (false, true) => Interest::WRITABLE,
        (true, true) => Interest::READABLE | Interest::WRITABLE,
    }
}
