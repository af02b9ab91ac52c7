//! Random sequences of registrations, binds and accesses, compared with a simple model of who may do what.

use iwarp::{
    Access, AccessError, BindError, InvalidateError, LocalAccess, Memory, MessageEnd, Pd,
    RemoteAddress, RemoteRights, Revoked, STag, Scope, Sge, Span, StreamId, WindowBind, WindowId,
};
use iwarp_mem::{
    Backend, PinnedTable, RegisterError, Registration, Rights, Table, TableOptions, Window,
};
use proptest::{prelude::*, sample::Index};
use rdma_buffer::Buffer;

const MEMORY: usize = 2048;

#[derive(Clone, Debug)]
enum Step {
    Register {
        from: u64,
        len: u64,
        first: First,
        rights: u32,
        pd: u32,
    },
    Deregister {
        region: Index,
    },
    DropRegion {
        region: Index,
    },
    CreateWindow {
        pd: u32,
    },
    Prepare {
        window: Index,
        region: Index,
        at: i64,
        len: u64,
        read: bool,
        write: bool,
    },
    Bind {
        bind: Index,
        who: Scope,
    },
    Cancel {
        bind: Index,
    },
    Unbind {
        window: Index,
        who: Scope,
    },
    DropWindow {
        window: Index,
    },
    Invalidate {
        stag: Index,
        who: Scope,
    },
    Remote {
        stag: Index,
        at: i64,
        len: u32,
        write: bool,
        who: Scope,
        fill: u8,
    },
    Local {
        stag: Index,
        at: i64,
        len: u32,
        need: u8,
        pd: u32,
    },
    Reuse {
        span: Index,
        fill: u8,
    },
}

/// The tagged offset of a region's first octet.
#[derive(Clone, Copy, Debug)]
enum First {
    /// The octet's address.
    Address,
    At(u64),
}

impl First {
    fn number(self, address: u64) -> u64 {
        match self {
            Self::Address => address,
            Self::At(first) => first,
        }
    }
}

/// Also at the ends of the offsets, where accesses, and registrations themselves, wrap.
fn first() -> impl Strategy<Value = First> {
    prop_oneof![
        3 => Just(First::Address),
        1 => Just(First::At(0)),
        1 => (0..1000_u64).prop_map(First::At),
        1 => any::<u64>().prop_map(First::At),
        1 => (0..1000_u64).prop_map(|before| First::At(u64::MAX - before)),
    ]
}

/// Mostly the same value, so that not only refusals are tried.
fn either() -> impl Strategy<Value = u32> {
    prop_oneof![5 => Just(0_u32), 1 => Just(1_u32)]
}

fn scope() -> impl Strategy<Value = Scope> {
    (either(), either()).prop_map(|(pd, stream)| Scope {
        pd: Pd(pd),
        stream: StreamId(stream),
    })
}

fn step() -> impl Strategy<Value = Step> {
    let at = prop_oneof![3 => 0..100_i64, 1 => -20..900_i64];
    let (len, wide) = (
        prop_oneof![3 => 1..80_u32, 1 => 500..900_u32],
        prop_oneof![0..100_u64, 0..900_u64],
    );
    let index = any::<Index>;
    prop_oneof![
        3 => (0..1024_u64, wide.clone(), first(), 0..16_u32, either())
            .prop_map(|(from, len, first, rights, pd)| Step::Register { from, len, first, rights, pd }),
        1 => index().prop_map(|region| Step::Deregister { region }),
        1 => index().prop_map(|region| Step::DropRegion { region }),
        2 => either().prop_map(|pd| Step::CreateWindow { pd }),
        4 => (index(), index(), at.clone(), wide, any::<bool>(), any::<bool>())
            .prop_map(|(window, region, at, len, read, write)| Step::Prepare { window, region, at, len, read, write }),
        4 => (index(), scope()).prop_map(|(bind, who)| Step::Bind { bind, who }),
        1 => index().prop_map(|bind| Step::Cancel { bind }),
        2 => (index(), scope()).prop_map(|(window, who)| Step::Unbind { window, who }),
        1 => index().prop_map(|window| Step::DropWindow { window }),
        1 => (index(), scope()).prop_map(|(stag, who)| Step::Invalidate { stag, who }),
        12 => (index(), at.clone(), len.clone(), any::<bool>(), scope(), any::<u8>())
            .prop_map(|(stag, at, len, write, who, fill)| Step::Remote { stag, at, len, write, who, fill }),
        4 => (index(), at, len, 0..3_u8, either())
            .prop_map(|(stag, at, len, need, pd)| Step::Local { stag, at, len, need, pd }),
        4 => (index(), any::<u8>()).prop_map(|(span, fill)| Step::Reuse { span, fill }),
    ]
}

/// The meaning of an STag in the model.
#[derive(Clone, Debug)]
struct Entry {
    stag: STag,
    /// Offset in the memory, and length.
    from: u64,
    len: u64,
    /// The tagged offset of the first octet.
    first: u64,
    rights: Rights,
    pd: Pd,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Region,
    /// Window and region, by their number in the model.
    Prepared(usize, usize),
    /// Prepared, and the window was dropped since.
    Orphaned,
    Bound(usize, usize, StreamId),
    Gone,
}

/// A window, in the model.
struct Known {
    window: Option<Window>,
    id: WindowId,
    pd: Pd,
    /// The stream whose Invalidate will find that the binding has ended without it.
    lapsed: Option<StreamId>,
}

struct World {
    table: Table,
    buffer: Buffer,
    memory: Vec<u8>,
    regions: Vec<(Option<Registration>, usize)>,
    windows: Vec<Known>,
    binds: Vec<(WindowBind, usize)>,
    /// Every STag ever issued, and what is known of it.
    entries: Vec<Entry>,
    /// Every span ever checked for writing, with its entry and place in the memory.
    spans: Vec<(Span, usize, usize)>,
}

/// One of the latest, because old ones are mostly dead, and there are enough dead ones among the latest.
fn pick<'a, T>(all: &'a [T], index: &Index) -> Option<(usize, &'a T)> {
    let latest = all.len().min(6);
    if latest == 0 {
        return None;
    }
    let at = all.len() - latest + index.index(latest);
    Some((at, &all[at]))
}

impl World {
    fn new(backend: Backend, capacity: u32) -> Self {
        let options = TableOptions::default().backend(backend).capacity(capacity);
        Self {
            table: Table::with_options(&options).unwrap(),
            buffer: Buffer::new(MEMORY),
            memory: vec![0; MEMORY],
            regions: Vec::new(),
            windows: Vec::new(),
            binds: Vec::new(),
            entries: Vec::new(),
            spans: Vec::new(),
        }
    }

    fn add(&mut self, entry: Entry) -> usize {
        assert!(
            self.entries
                .iter()
                .all(|old| old.stag != entry.stag || old.state == State::Gone)
        );
        self.entries.push(entry);
        self.entries.len() - 1
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Register {
                from,
                len,
                first,
                rights,
                pd,
            } => self.register(from, len, first, rights, Pd(pd)),
            Step::Deregister { ref region } => self.deregister(region),
            Step::DropRegion { ref region } => self.drop_region(region),
            Step::CreateWindow { pd } => {
                let window = self.table.create_window(Pd(pd)).unwrap();
                self.windows.push(Known {
                    id: window.id(),
                    window: Some(window),
                    pd: Pd(pd),
                    lapsed: None,
                });
            }
            Step::Prepare {
                ref window,
                ref region,
                at,
                len,
                read,
                write,
            } => {
                self.prepare(window, region, at, len, read, write);
            }
            Step::Bind { ref bind, who } => self.bind(bind, who),
            Step::Cancel { ref bind } => {
                if let Some((_, &(bind, entry))) = pick(&self.binds, bind) {
                    self.table.cancel_prepared(bind.stag);
                    if matches!(
                        self.entries[entry].state,
                        State::Prepared(..) | State::Orphaned
                    ) {
                        self.entries[entry].state = State::Gone;
                    }
                }
            }
            Step::Unbind { ref window, who } => self.unbind(window, who),
            Step::DropWindow { ref window } => {
                if let Some((number, _)) = pick(&self.windows, window) {
                    self.windows[number].window = None;
                    self.turn(
                        |state| matches!(state, State::Prepared(w, _) if w == number),
                        State::Orphaned,
                    );
                    self.turn(
                        |state| matches!(state, State::Bound(w, ..) if w == number),
                        State::Gone,
                    );
                }
            }
            Step::Invalidate { ref stag, who } => self.invalidate(stag, who),
            Step::Remote {
                ref stag,
                at,
                len,
                write,
                who,
                fill,
            } => self.remote(stag, at, len, write, who, fill),
            Step::Local {
                ref stag,
                at,
                len,
                need,
                pd,
            } => self.local(stag, at, len, need, Pd(pd)),
            Step::Reuse { ref span, fill } => self.reuse(span, fill),
        }
    }

    fn turn(&mut self, which: impl Fn(State) -> bool, into: State) {
        for entry in self.entries.iter_mut().filter(|entry| which(entry.state)) {
            entry.state = into;
        }
    }

    fn register(&mut self, from: u64, len: u64, first: First, rights: u32, pd: Pd) {
        let rights = Rights::from_bits_truncate(rights);
        let range = usize::try_from(from).unwrap()..usize::try_from(from + len).unwrap();
        let part = self.buffer.slice(range);
        let region = match first {
            First::Address => self.table.register(&part, rights, pd),
            First::At(first) => self.table.register_at(&part, first, rights, pd),
        };
        let first = first.number(part.address());
        let wraps = u128::from(first) + u128::from(len) > u128::from(u64::MAX);
        assert_eq!(matches!(region, Err(RegisterError::Wraps)), wraps);
        if wraps {
            return;
        }
        let Ok(region) = region else {
            let live = self
                .entries
                .iter()
                .filter(|entry| entry.state != State::Gone)
                .count();
            assert!(live >= 29, "full with {live} of 30 in use"); // one slot may be the reserved index
            return;
        };
        assert_eq!((region.base(), region.len()), (first, len));
        let stag = region.stag();
        let entry = self.add(Entry {
            stag,
            from,
            len,
            first,
            rights,
            pd,
            state: State::Region,
        });
        self.regions.push((Some(region), entry));
    }

    fn is_in_use(&self, region: usize) -> bool {
        let uses =
            |state| matches!(state, State::Prepared(_, r) | State::Bound(_, r, _) if r == region);
        self.entries.iter().any(|entry| uses(entry.state))
    }

    fn deregister(&mut self, region: &Index) {
        let Some((number, _)) = pick(&self.regions, region) else {
            return;
        };
        let Some(region) = self.regions[number].0.take() else {
            return;
        };
        assert_eq!(region.is_in_use(), self.is_in_use(number));
        match region.deregister() {
            Ok(()) => {
                assert!(!self.is_in_use(number), "MR-026");
                self.entries[self.regions[number].1].state = State::Gone;
            }
            Err((region, _)) => {
                assert!(self.is_in_use(number), "busy without a window");
                self.regions[number].0 = Some(region);
            }
        }
    }

    fn drop_region(&mut self, region: &Index) {
        let Some((number, _)) = pick(&self.regions, region) else {
            return;
        };
        if self.regions[number].0.take().is_some() {
            self.entries[self.regions[number].1].state = State::Gone;
            for entry in &mut self.entries {
                if let State::Bound(w, r, stream) = entry.state
                    && r == number
                {
                    self.windows[w].lapsed = Some(stream);
                    entry.state = State::Gone;
                }
            }
        }
    }

    fn prepare(
        &mut self,
        window: &Index,
        region: &Index,
        at: i64,
        len: u64,
        read: bool,
        write: bool,
    ) {
        let Some((w, known)) = pick(&self.windows, window) else {
            return;
        };
        let (Some(window), pd) = (&known.window, known.pd) else {
            return;
        };
        let Some((r, (Some(region), entry))) = pick(&self.regions, region) else {
            return;
        };
        let outer = self.entries[*entry].clone();
        let address = region.base().wrapping_add_signed(at);
        let inside = u64::try_from(at).is_ok_and(|at| at + len <= outer.len);
        let allowed =
            inside && outer.pd == pd && (!write || outer.rights.contains(Rights::LOCAL_WRITE));
        let bind = match window.prepare(region, address, len, RemoteRights::with_both(read, write))
        {
            Ok(bind) => bind,
            Err(BindError::Access) => return assert!(!allowed, "QP-038, QP-039"),
            Err(BindError::InvalidState) => return, // the table is full
        };
        assert!(allowed, "QP-038, QP-039: {outer:?} {at} {len}");
        assert_eq!(window.stag(), Some(bind.stag), "MW-008");
        let mut rights = Rights::empty();
        rights.set(Rights::REMOTE_READ, read);
        rights.set(Rights::REMOTE_WRITE, write);
        rights.set(Rights::REMOTE_ATOMIC, read && write);
        let from = outer.from + u64::try_from(at).unwrap();
        let entry = self.add(Entry {
            stag: bind.stag,
            from,
            len,
            first: address,
            rights,
            pd,
            state: State::Prepared(w, r),
        });
        self.binds.push((bind, entry));
    }

    fn bind(&mut self, bind: &Index, who: Scope) {
        let Some((_, &(bind, entry))) = pick(&self.binds, bind) else {
            return;
        };
        let expected = match self.entries[entry].state {
            State::Prepared(w, r) => {
                let bound = self
                    .entries
                    .iter()
                    .any(|e| matches!(e.state, State::Bound(b, ..) if b == w));
                match () {
                    () if bound => Err(BindError::InvalidState),
                    () if self.entries[entry].pd != who.pd => Err(BindError::Access),
                    () if self.regions[r].0.is_none() => {
                        self.entries[entry].state = State::Gone;
                        self.windows[w].lapsed = Some(who.stream);
                        Ok(())
                    }
                    () => {
                        self.entries[entry].state = State::Bound(w, r, who.stream);
                        self.windows[w].lapsed = None;
                        Ok(())
                    }
                }
            }
            State::Orphaned if self.entries[entry].pd == who.pd => {
                self.entries[entry].state = State::Gone;
                Ok(())
            }
            State::Orphaned => Err(BindError::Access),
            _ => Err(BindError::InvalidState),
        };
        assert_eq!(
            self.pinning(&self.entries[entry]).bind(&bind, who),
            expected
        );
    }

    fn unbind(&mut self, window: &Index, who: Scope) {
        let Some((number, known)) = pick(&self.windows, window) else {
            return;
        };
        let bound = |state| matches!(state, State::Bound(w, _, stream) if w == number && stream == who.stream);
        let in_scope = known.pd == who.pd;
        let lapsed = in_scope && known.lapsed == Some(who.stream);
        let unbinds = in_scope && self.entries.iter().any(|entry| bound(entry.state));
        let expected = if known.window.is_none() || lapsed || unbinds {
            Ok(())
        } else {
            Err(BindError::InvalidState)
        };
        let mut own = self.entries.iter().filter(|entry| bound(entry.state));
        let call = own
            .next()
            .map_or_else(|| self.table.pinned(), |entry| self.pinning(entry));
        assert_eq!(call.unbind(known.id, who), expected);
        drop(call);
        if lapsed {
            self.windows[number].lapsed = None;
        }
        if unbinds {
            self.turn(bound, State::Gone);
        }
    }

    fn invalidate(&mut self, stag: &Index, who: Scope) {
        let Some((number, entry)) = pick(&self.entries, stag) else {
            return;
        };
        let expected = match entry.state {
            State::Bound(_, _, stream) if stream == who.stream && entry.pd == who.pd => Ok(()),
            State::Bound(..) | State::Region => Err(InvalidateError::NotAllowed),
            State::Prepared(..) | State::Orphaned | State::Gone => Err(InvalidateError::Unknown),
        };
        let call = self.pinning(entry);
        assert_eq!(call.invalidate_remote(entry.stag, who), expected);
        drop(call);
        if let (Ok(()), State::Bound(w, ..)) = (expected, entry.state) {
            self.windows[w].lapsed = Some(who.stream);
            self.entries[number].state = State::Gone;
        }
    }

    /// The end of every check: is `at` inside? Offsets wrap before they are outside (DDP-069).
    fn inside(entry: &Entry, at: i64, len: u32) -> Result<usize, AccessError> {
        let to = entry.first.wrapping_add_signed(at);
        if u128::from(to) + u128::from(len) > u128::from(u64::MAX) {
            return Err(AccessError::Wrap);
        }
        let inside = u64::try_from(at).is_ok_and(|at| at + u64::from(len) <= entry.len);
        if inside {
            Ok(usize::try_from(entry.from.wrapping_add_signed(at)).unwrap())
        } else {
            Err(AccessError::Bounds)
        }
    }

    /// A call of the engine that has used this entry's memory last, if the entry allows any use.
    fn pinning(&self, entry: &Entry) -> PinnedTable<'_> {
        let call = self.table.pinned();
        let stream = match entry.state {
            State::Bound(_, _, stream) => stream,
            _ => StreamId(1),
        };
        let who = Scope {
            pd: entry.pd,
            stream,
        };
        let place = RemoteAddress {
            stag: entry.stag,
            to: entry.first,
        };
        let _ = call.check(place, 1, Access::RemoteRead, who);
        call
    }

    fn remote(&mut self, stag: &Index, at: i64, len: u32, write: bool, who: Scope, fill: u8) {
        let Some((number, entry)) = pick(&self.entries, stag) else {
            return;
        };
        let right = if write {
            Rights::REMOTE_WRITE
        } else {
            Rights::REMOTE_READ
        };
        let expected = match entry.state {
            State::Gone | State::Orphaned | State::Prepared(..) => Err(AccessError::InvalidSTag),
            _ if entry.pd != who.pd => Err(AccessError::NotAssociated),
            State::Bound(_, _, stream) if stream != who.stream => Err(AccessError::NotAssociated),
            _ if !entry.rights.contains(right) => Err(AccessError::Rights),
            _ => Self::inside(entry, at, len),
        };
        let to = entry.first.wrapping_add_signed(at);
        let need = if write {
            Access::RemoteWrite
        } else {
            Access::RemoteRead
        };
        let place = RemoteAddress {
            stag: entry.stag,
            to,
        };
        let call = self.pinning(entry);
        let got = call.check(place, len, need, who);
        assert_eq!(got, self.table.check(place, len, need, who));
        assert_eq!(
            got.err(),
            expected.err(),
            "{entry:?} {at} {len} {need:?} {who:?}"
        );
        let (Ok(span), Ok(at)) = (got, expected) else {
            return;
        };
        let mut octets = vec![0; len as usize];
        call.fetch(span, &mut octets, None).unwrap();
        drop(call);
        if write {
            self.spans.push((span, number, at));
            return self.write(span, at, fill);
        }
        assert!(octets == self.memory[at..at + octets.len()]);
    }

    fn write(&mut self, span: Span, at: usize, fill: u8) {
        let octets: Vec<u8> = (0..251)
            .cycle()
            .skip(fill.into())
            .take(span.len() as usize)
            .collect();
        let call = self.table.pinned();
        call.place(span, &octets, MessageEnd::Last).unwrap();
        self.memory[at..at + octets.len()].copy_from_slice(&octets);
    }

    fn local(&self, stag: &Index, at: i64, len: u32, need: u8, pd: Pd) {
        let Some((_, entry)) = pick(&self.entries, stag) else {
            return;
        };
        let (need, rights) = match need {
            0 => (LocalAccess::Read, Rights::all()),
            1 => (LocalAccess::Write, Rights::LOCAL_WRITE),
            _ => (
                LocalAccess::ReadSink,
                Rights::LOCAL_WRITE | Rights::REMOTE_WRITE | Rights::READ_SINK,
            ),
        };
        let expected = match entry.state {
            State::Region if entry.pd != pd => Err(AccessError::NotAssociated),
            State::Region if need != LocalAccess::Read && !entry.rights.intersects(rights) => {
                Err(AccessError::Rights)
            }
            State::Region => Self::inside(entry, at, len),
            _ => Err(AccessError::InvalidSTag),
        };
        let address = entry.first.wrapping_add_signed(at);
        let sge = Sge {
            token: entry.stag,
            address,
            length: len,
        };
        let got = self.table.check_local(sge, need, pd);
        assert_eq!(
            got.err(),
            expected.err(),
            "{entry:?} {at} {len} {need:?} {pd:?}"
        );
        let call = self.pinning(entry);
        for _ in 0..2 {
            assert_eq!(call.check_local(sge, need, pd), got);
            let mut octets = vec![0; len as usize];
            let fetched = call.fetch_local(sge, pd, &mut octets, None);
            if need == LocalAccess::Read {
                assert_eq!(fetched.err(), expected.err(), "{entry:?} {at} {len} {pd:?}");
            }
            if let (Ok(()), Ok(at)) = (fetched, expected) {
                assert!(octets == self.memory[at..at + octets.len()]);
            }
        }
    }

    /// An earlier span: valid as long as its STag is, and revoked for ever afterwards.
    fn reuse(&mut self, span: &Index, fill: u8) {
        let Some((_, &(span, entry, at))) = pick(&self.spans, span) else {
            return;
        };
        if self.entries[entry].state == State::Gone {
            let octets = vec![fill; span.len() as usize];
            assert_eq!(
                self.table.place(span, &octets, MessageEnd::More),
                Err(Revoked),
                "MR-034"
            );
            assert_eq!(
                self.table.fetch(span, &mut octets.clone(), None),
                Err(Revoked),
                "MR-034"
            );
        } else {
            self.write(span, at, fill);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 250 })
    })]

    /// With 30 slots, so that they are used again soon.
    #[test]
    fn table_agrees_with_the_picture(steps in prop::collection::vec(step(), 1..150), bulk: bool) {
        let mut world = World::new(if bulk { Backend::Bulk } else { Backend::Words }, 30);
        for step in &steps {
            world.run(step);
        }
        prop_assert!(world.buffer.to_vec() == world.memory);
    }
}
