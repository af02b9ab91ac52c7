//! Requests of all kinds.

use super::*;

impl Run<'_> {
    pub(super) fn receive_somewhere(&mut self) {
        if let Some((number, at)) = self.pick(|end| end.qp.is_some()) {
            let end = &self.connections[number].ends[at];
            let (host, shared, left) = (end.host, end.shared, end.left);
            if left && shared.is_none() && self.chance(25) {
                return self.receive_carelessly(number, at);
            }
            for _ in 0..=self.below(6) {
                match shared {
                    Some(pool) => drop(self.receive_shared(host, pool, true)),
                    None => self.receive(number, at),
                }
            }
        }
    }

    /// Posts more Receives than the queue has slots, after Disconnect, and takes no result meanwhile. All are cancelled, so one place will do.
    fn receive_carelessly(&mut self, number: usize, at: usize) {
        let host = self.connections[number].ends[at].host;
        if let Some(place) = self.allot(host, 3100) {
            for _ in 0..RECEIVES + 2 {
                self.receive_into(number, at, (place, 3100));
            }
        }
    }

    pub(super) fn receive(&mut self, number: usize, at: usize) {
        let host = self.connections[number].ends[at].host;
        let short = self.chance(1);
        let len = if short { 0 } else { 3100 };
        let Some(place) = self.allot(host, len) else {
            return;
        };
        self.receive_into(number, at, (place, len));
    }

    fn receive_into(&mut self, number: usize, at: usize, (place, len): (usize, usize)) {
        let host = self.connections[number].ends[at].host;
        let context = self.number();
        let cut = if len > 0 { self.below(len) } else { 0 };
        let sges = self.hosts[host].sges(place, len, cut);
        let connection = &mut self.connections[number];
        let end = &mut connection.ends[at];
        let qp = end.qp.as_ref().expect("picked for that");
        // A slot is used until the result of its Receive is taken.
        let used = end.receives.len();
        match qp.receive(context, &sges) {
            Ok(()) => {
                assert!(
                    used < RECEIVES as usize,
                    "a Receive was taken though all {used} slots are used"
                );
                end.receives.push_back(Receive {
                    context,
                    at: place,
                    len,
                });
                end.receives_posted += 1;
                if len == 0 {
                    connection.disturb("a Receive that is too short");
                }
                self.count("Receive");
            }
            Err(error) => match error.status() {
                Status::NO_MORE_ENTRIES => {
                    assert!(
                        used >= RECEIVES as usize,
                        "a Receive was refused though only {used} slots are used"
                    );
                    self.coverage.met("receive queue: full");
                }
                Status::DEVICE_REMOVED if self.hosts[host].removed => {}
                status => panic!("Receive: {status}"),
            },
        }
    }

    pub(super) fn count(&mut self, kind: &str) {
        self.posted += 1;
        self.coverage.met(format!("posted {kind}"));
    }

    pub(super) fn post(&mut self) {
        let Some((number, at)) = self.pick(|end| end.open && end.qp.is_some()) else {
            return self.simulation_goes_on();
        };
        for _ in 0..=self.below(4) {
            match self.below(12) {
                0..4 => self.say(number, at),
                4..7 => self.write(number, at),
                7..9 => self.read(number, at),
                9 => self.atomic(number, at),
                _ => self.use_window(number, at),
            }
        }
    }

    pub(super) fn simulation_goes_on(&mut self) {
        for _ in 0..10 {
            self.step();
        }
    }

    /// Runs the next event of the network, and handles results at once. A slow client would run into time limits, because an idle network
    /// moves its clock to the next time limit.
    pub(super) fn step(&mut self) {
        self.simulation.step();
        self.follow_up();
    }

    pub(super) fn flags(&mut self) -> OpFlags {
        let mut flags = OpFlags::empty();
        flags.set(OpFlags::SILENT_SUCCESS, self.chance(20));
        flags.set(OpFlags::READ_FENCE, self.chance(10));
        flags
    }

    /// Posts an initiator request. Returns true if the request was accepted.
    pub(super) fn request(
        &mut self,
        (number, at): (usize, usize),
        (kind, name): (RequestType, &str),
        flags: OpFlags,
        effect: Effect,
        post: impl FnOnce(&dyn QueuePair, u64) -> netdirect::Result<()>,
    ) -> bool {
        let context = self.number();
        let connection = &mut self.connections[number];
        let end = &mut connection.ends[at];
        let qp = end.qp.clone().expect("picked for that");
        // Silent requests give their slots back when they are done, of which nobody tells.
        let (all, silent) = (
            end.requests.len(),
            end.requests.iter().filter(|request| request.silent).count(),
        );
        match post(&*qp, context) {
            Ok(()) => {
                assert!(
                    all - silent < REQUESTS as usize,
                    "a {name} was taken though at least {} slots are used",
                    all - silent
                );
                trace!(
                    "post {number}/{at} {name} {context} {flags:?} {effect:?} at {:?}",
                    self.simulation.time()
                );
                end.requests.push_back(Request {
                    context,
                    kind,
                    silent: flags.contains(OpFlags::SILENT_SUCCESS),
                    len: 0,
                    effect,
                });
                self.count(name);
                true
            }
            Err(error) => {
                let disturbed = connection.disturbed.is_some();
                match error.status() {
                    Status::NO_MORE_ENTRIES => {
                        assert!(
                            all >= REQUESTS as usize,
                            "a {name} was refused though at most {all} slots are used"
                        );
                        self.coverage.met("initiator queue: full");
                    }
                    Status::CONNECTION_INVALID if disturbed => {}
                    Status::DEVICE_REMOVED if self.hosts[end.host].removed => {}
                    status => panic!("{name}: {status}, {error}"),
                }
                false
            }
        }
    }

    pub(super) fn say(&mut self, number: usize, at: usize) {
        let ends = &self.connections[number].ends;
        let peers_receives = ends[1 - at].receives_posted;
        let (peer, pool) = (ends[1 - at].host, ends[1 - at].shared);
        if let Some(pool) = pool {
            // Such a message waits.
            if self.hosts[peer].pools[pool].at_least() == 0 && self.chance(70) {
                return;
            }
        } else if ends[at].said.len() >= peers_receives {
            if self.chance(97) {
                return;
            }
            self.connections[number].disturb("a Send without a Receive");
        }
        let end = &self.connections[number].ends[at];
        let (host, behind) = (end.host, end.writes);
        let mut flags = self.flags();
        flags.set(OpFlags::SEND_AND_SOLICIT_EVENT, self.chance(30));
        let who = (number, at);
        let (data, immediate, done) = match self.below(4) {
            0 => {
                let octets: [u8; 8] = self.octets(8).try_into().unwrap();
                let kind = (RequestType::SendImmediate, "Immediate");
                let done = self.request(who, kind, flags, Effect::None, |qp, context| {
                    let extensions = qp.extensions().expect("softnd has them");
                    extensions.send_immediate(context, octets.into(), flags)
                });
                (Vec::new(), Some(octets), done)
            }
            1 => {
                let len = self.below(65);
                let data = self.octets(len);
                let kind = (RequestType::Send, "SendInline");
                let done = self.request(who, kind, flags, Effect::None, |qp, context| {
                    qp.send_inline(context, &[&data], flags)
                });
                (data, None, done)
            }
            _ => {
                let len = self.length();
                let Some((data, sges)) = self.source(host, len) else {
                    return;
                };
                let kind = (RequestType::Send, "Send");
                let done = self.request(who, kind, flags, Effect::None, |qp, context| {
                    qp.send(context, &sges, flags)
                });
                (data, None, done)
            }
        };
        if done {
            self.connections[number].ends[at].said.push(Message {
                data,
                immediate,
                behind,
            });
            if let Some(pool) = pool {
                let pool = &mut self.hosts[peer].pools[pool];
                pool.said += 1;
                if pool.is_short_of_receives() {
                    self.coverage.met("shared queue: more Sends than Receives");
                }
            }
        }
    }

    /// Data to be sent, in memory that is not used again.
    pub(super) fn source(&mut self, host: usize, len: usize) -> Option<(Vec<u8>, Vec<Sge>)> {
        let place = self.allot(host, len)?;
        let data = self.octets(len);
        self.hosts[host].arena.write(place, &data);
        let cut = if len > 0 { self.below(len) } else { 0 };
        Some((data, self.hosts[host].sges(place, len, cut)))
    }

    pub(super) fn range(&mut self, len: usize) -> Range<usize> {
        let begin = self.below(len);
        let end = begin + self.below(len - begin + 1);
        begin..end
    }

    pub(super) fn write(&mut self, number: usize, at: usize) {
        let range = self.range(TARGET);
        let peer = &self.connections[number].ends[1 - at];
        let place = peer.targets[0].at + range.start;
        let remote = self.hosts[peer.host].remote(place);
        self.write_to(number, at, 0, range, remote);
    }

    /// Writes to one of the peer's targets.
    pub(super) fn write_to(
        &mut self,
        number: usize,
        at: usize,
        target: usize,
        range: Range<usize>,
        remote: RemoteAddress,
    ) {
        let host = self.connections[number].ends[at].host;
        let flags = self.flags();
        let who = (number, at);
        let inline = range.len() <= 64 && self.chance(30);
        let (data, done) = if inline {
            let data = self.octets(range.len());
            let kind = (RequestType::Write, "WriteInline");
            let done = self.request(who, kind, flags, Effect::None, |qp, context| {
                qp.write_inline(context, &[&data], remote, flags)
            });
            (data, done)
        } else {
            let Some((data, sges)) = self.source(host, range.len()) else {
                return;
            };
            let kind = (RequestType::Write, "Write");
            let done = self.request(who, kind, flags, Effect::None, |qp, context| {
                qp.write(context, &sges, remote, flags)
            });
            (data, done)
        };
        if done {
            let [active, passive] = &mut self.connections[number].ends;
            let (end, peer) = if at == 0 {
                (active, passive)
            } else {
                (passive, active)
            };
            end.writes += 1;
            end.requests.back_mut().expect("posted just now").len = range.len();
            peer.targets[target].posted(end.writes, range.start, &data);
        }
    }

    pub(super) fn read(&mut self, number: usize, at: usize) {
        let range = self.range(PATTERN);
        let peer = &self.connections[number].ends[1 - at];
        let place = peer.targets[0].at - PATTERN + range.start;
        let remote = self.hosts[peer.host].remote(place);
        let expected = pattern(number, peer.host)[range].to_vec();
        self.read_from(number, at, Some(expected), remote);
    }

    pub(super) fn read_from(
        &mut self,
        number: usize,
        at: usize,
        expected: Option<Vec<u8>>,
        remote: RemoteAddress,
    ) {
        let host = self.connections[number].ends[at].host;
        // Four octets, if the model expects no data.
        let len = expected.as_ref().map_or(4, Vec::len);
        let Some(sink) = self.allot(host, len) else {
            return;
        };
        let sges = self.hosts[host].sges(sink, len, len);
        let flags = self.flags();
        let kind = (RequestType::Read, "Read");
        let effect = expected.map_or(Effect::Refused, |octets| Effect::Read(sink, octets));
        self.request((number, at), kind, flags, effect, |qp, context| {
            qp.read(context, &sges, remote, flags)
        });
    }

    pub(super) fn atomic(&mut self, number: usize, at: usize) {
        let word = self.below(2);
        let peer = &self.connections[number].ends[1 - at];
        let (before, place) = (peer.words[word].last(), peer.words[word].at);
        let remote = self.hosts[peer.host].remote(place);
        let operand = self.random.next_u64();
        let (name, op, after) = match self.below(3) {
            0 => (
                "CompareSwap",
                AtomicOp::compare_swap(before, operand),
                operand,
            ),
            1 => (
                "CompareSwap",
                AtomicOp::compare_swap(!before, operand),
                before,
            ),
            _ => (
                "FetchAdd",
                AtomicOp::add(operand),
                before.wrapping_add(operand),
            ),
        };
        let host = self.connections[number].ends[at].host;
        let Some(sink) = self.allot(host, 8) else {
            return;
        };
        let sge = self.hosts[host].sges(sink, 8, 8)[0];
        let flags = self.flags();
        let kind = (RequestType::Atomic, name);
        let count = self.connections[number].ends[1 - at].words[word].count();
        let effect = Effect::Atomic(sink, word, count);
        let done = self.request((number, at), kind, flags, effect, |qp, context| {
            let extensions = qp.extensions().expect("softnd has them");
            extensions.atomic(context, op, &sge, remote, flags)
        });
        if done {
            self.connections[number].ends[1 - at].words[word].posted(after);
        }
    }

    /// Binds the window over the end's shelf, writes through the peer's, or invalidates.
    pub(super) fn use_window(&mut self, number: usize, at: usize) {
        let peer = &self.connections[number].ends[1 - at];
        if let Some(shelf) = &peer.shelf {
            let remote = RemoteAddress {
                address: self.hosts[peer.host].arena.address() + peer.targets[1].at as u64,
                token: shelf.window.get_remote_token(),
            };
            let state = shelf.state;
            match state {
                Bound::Yes if self.chance(70) => {
                    let range = self.range(TARGET);
                    let remote = remote.offset(range.start as u64);
                    return self.write_to(number, at, 1, range, remote);
                }
                Bound::Stale if self.chance(60) => {
                    self.coverage.met("fault: stale window");
                    self.connections[number].disturb("a window that is not bound any more");
                    if self.chance(50) {
                        return self.read_from(number, at, None, remote);
                    }
                    return self.write_to(number, at, 1, 0..4, remote);
                }
                _ => {}
            }
        }
        self.change_window(number, at);
    }

    pub(super) fn change_window(&mut self, number: usize, at: usize) {
        let end = &self.connections[number].ends[at];
        let host = end.host;
        let state = end.shelf.as_ref().map(|shelf| shelf.state);
        match state {
            None if !self.hosts[host].removed => {
                let window = self.hosts[host].adapter.create_memory_window().unwrap();
                self.connections[number].ends[at].shelf = Some(Shelf {
                    window,
                    state: Bound::No,
                });
                self.bind(number, at);
            }
            // Bound only once: the peer's Writes through the first binding may still be on their way.
            Some(Bound::No) => self.bind(number, at),
            Some(Bound::Yes) if self.chance(60) => self.invalidate(number, at),
            _ => {}
        }
    }

    pub(super) fn bind(&mut self, number: usize, at: usize) {
        let end = &self.connections[number].ends[at];
        let (host, place) = (end.host, end.targets[1].at);
        let Some(shelf) = &end.shelf else { return };
        let window = Arc::clone(&shelf.window);
        let region = Arc::clone(&self.hosts[host].region);
        let address = self.hosts[host].arena.address() + place as u64;
        let flags = OpFlags::ALLOW_WRITE | OpFlags::ALLOW_READ;
        let kind = (RequestType::Bind, "Bind");
        let done = self.request((number, at), kind, flags, Effect::Bind, |qp, context| {
            qp.bind(context, &region, &window, address, TARGET as u64, flags)
        });
        self.shelf_changes(number, at, done);
    }

    pub(super) fn invalidate(&mut self, number: usize, at: usize) {
        // The peer's Writes through the window must have arrived before, or they are refused.
        let [active, passive] = &self.connections[number].ends;
        let peer = if at == 0 { passive } else { active };
        if !peer.requests.is_empty() || peer.open && self.chance(50) {
            return;
        }
        self.connections[number].disturb("a window that is invalidated under its peer");
        let Some(shelf) = &self.connections[number].ends[at].shelf else {
            return;
        };
        let window = Arc::clone(&shelf.window);
        let flags = OpFlags::empty();
        let kind = (RequestType::Invalidate, "Invalidate");
        let done = self.request(
            (number, at),
            kind,
            flags,
            Effect::Invalidate,
            |qp, context| qp.invalidate(context, &window, flags),
        );
        self.shelf_changes(number, at, done);
    }

    pub(super) fn shelf_changes(&mut self, number: usize, at: usize, done: bool) {
        if done && let Some(shelf) = &mut self.connections[number].ends[at].shelf {
            shelf.state = Bound::Changing;
        }
    }
}
