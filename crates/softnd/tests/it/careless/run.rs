//! One run: its objects, arbitrary arguments, and the checks of each result.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use netdirect::{
    Adapter, Affinity, Buffer, CompletionQueue, Connector, Listener, LocalToken, MemoryRegion,
    MemoryWindow, MrFlags, OpFlags, Overlapped, OverlappedFile, Provider, QueuePair,
    QueuePairOptions, RemoteAddress, RemoteToken, Result, Sge, SharedReceiveQueue, Started, Status,
};
use softnd::simulation::Simulation;
use softnd::{Options, Profile};

use super::Coverage;
use super::stranger::Stranger;
use super::table::Method;

/// Limits so small that arguments reach them.
const DEPTH: u32 = 32;
const ENTRIES: u32 = 3;
const INLINE: u32 = 64;
const TRANSFER: u32 = 20_000;
const REGISTRATION: u64 = 40_000;

/// The most objects of a kind.
const MOST: usize = 10;

/// An `Overlapped`, and the method of the request that it serves.
#[derive(Clone)]
pub(crate) struct Request {
    overlapped: Overlapped,
    method: Arc<Mutex<&'static Method>>,
}

pub(crate) struct Run<'a> {
    seed: u64,
    state: u64,
    pub(crate) simulation: Simulation,
    other: Simulation,
    pub(crate) coverage: &'a mut Coverage,
    /// A device was removed.
    pub(crate) removed: bool,
    pub(crate) providers: Vec<Arc<dyn Provider>>,
    pub(crate) adapters: Vec<Arc<dyn Adapter>>,
    pub(crate) files: Vec<Arc<dyn OverlappedFile>>,
    pub(crate) cqs: Vec<Arc<dyn CompletionQueue>>,
    pub(crate) srqs: Vec<Arc<dyn SharedReceiveQueue>>,
    pub(crate) qps: Vec<Arc<dyn QueuePair>>,
    pub(crate) regions: Vec<Arc<dyn MemoryRegion>>,
    pub(crate) windows: Vec<Arc<dyn MemoryWindow>>,
    pub(crate) connectors: Vec<Arc<dyn Connector>>,
    pub(crate) listeners: Vec<Arc<dyn Listener>>,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) stranger: Arc<Stranger>,
    requests: Vec<Request>,
    /// The ends of requests.
    ends: Arc<Mutex<Vec<(&'static Method, Status)>>>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(seed: u64, coverage: &'a mut Coverage) -> Self {
        let profile = if seed.is_multiple_of(3) {
            Profile::Strict
        } else {
            Profile::Default
        };
        let options = Options::default().profile(profile).limits(|limits| {
            limits.completion_queue_depth = DEPTH;
            limits.queue_depth = DEPTH;
            limits.shared_receive_queue_depth = DEPTH;
            limits.sges = ENTRIES;
            limits.read_sges = ENTRIES;
            limits.inline_data_size = INLINE;
            limits.transfer_length = TRANSFER;
            limits.registration_size = REGISTRATION;
            limits.memory_tokens = 24;
        });
        let simulation = Simulation::new(seed);
        let other = Simulation::new(seed);
        let hosts = [1, 2].map(|host| IpAddr::from([10, 0, 0, host]));
        let provider = simulation.provider(hosts, options.clone());
        let stranger = other.provider([hosts[0]], options);
        let mut run = Self {
            seed,
            state: seed,
            simulation,
            other,
            coverage,
            removed: false,
            providers: vec![provider, stranger],
            adapters: Vec::new(),
            files: Vec::new(),
            cqs: Vec::new(),
            srqs: Vec::new(),
            qps: Vec::new(),
            regions: Vec::new(),
            windows: Vec::new(),
            connectors: Vec::new(),
            listeners: Vec::new(),
            buffers: [0, 1, 63, 4096, 39_999, 40_001].map(Buffer::new).to_vec(),
            addresses: Vec::new(),
            stranger: Arc::default(),
            requests: Vec::new(),
            ends: Arc::default(),
        };
        for (provider, host) in [(0, hosts[0]), (0, hosts[1]), (1, hosts[0])] {
            let provider = &run.providers[provider];
            let id = provider.resolve_address((host, 0).into()).unwrap();
            run.adapters.push(provider.open_adapter(id).unwrap());
            run.addresses.push((host, 0).into());
        }
        run
    }

    pub(crate) fn go(mut self) {
        self.connect();
        for _ in 0..self.below(4) {
            self.connect();
        }
        for _ in 0..400 {
            self.act();
        }
        for name in self.connectors.iter().filter_map(|one| one.transport()) {
            self.coverage.connected(name);
        }
        // Everything is released, and every request ends.
        self.adapters.clear();
        self.connectors.clear();
        self.listeners.clear();
        self.qps.clear();
        self.srqs.clear();
        self.cqs.clear();
        self.windows.clear();
        self.regions.clear();
        self.files.clear();
        for _ in 0..10_000 {
            if !(self.simulation.step() | self.other.step()) {
                break;
            }
        }
        self.check_ends();
        for request in &self.requests {
            let method = self.requests_method(request);
            assert!(
                !request.overlapped.is_pending(),
                "{method}: a request without an end"
            );
        }
    }

    fn requests_method(&self, request: &Request) -> &'static str {
        request.method.lock().unwrap().name
    }

    // ---- chance: SplitMix64 ----

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        let at = usize::try_from(self.below(from.len() as u64)).unwrap();
        Some(from[at].clone())
    }

    /// A number near a limit, or an absurd one.
    pub(crate) fn number(&mut self, limit: u32) -> u32 {
        let small = u32::try_from(self.below(8)).unwrap();
        let choices = [
            0,
            1,
            small,
            limit / 2,
            limit / 2,
            limit,
            limit + 1,
            u32::MAX,
        ];
        self.pick(&choices).unwrap()
    }

    /// A size of a queue that is seldom absurd.
    fn size(&mut self, limit: u32) -> u32 {
        if self.one_in(20) {
            self.number(limit)
        } else {
            limit / 2 + 1
        }
    }

    pub(crate) fn depth(&mut self) -> u32 {
        self.size(DEPTH)
    }

    pub(crate) fn entries(&mut self) -> u32 {
        self.size(ENTRIES)
    }

    pub(crate) fn queue_pair_options(&mut self) -> QueuePairOptions {
        QueuePairOptions::default()
            .context(self.below(u64::MAX))
            .receive_queue_depth(self.depth())
            .initiator_queue_depth(self.depth())
            .max_receive_request_sge(self.entries())
            .max_initiator_request_sge(self.entries())
            .inline_data_size(self.size(INLINE))
    }

    pub(crate) fn affinity(&mut self) -> Affinity {
        Affinity {
            group: self.pick(&[0, 0, 1, u16::MAX]).unwrap(),
            mask: self.pick(&[0, 0, 1, u64::MAX]).unwrap(),
        }
    }

    /// Legal flags mostly, also those of other requests, and unknown ones.
    pub(crate) fn flags(&mut self) -> OpFlags {
        let bits = match self.below(6) {
            0 => u32::try_from(self.below(1 << 32)).unwrap(),
            1 => 1 << self.below(32),
            2 => (OpFlags::SILENT_SUCCESS | OpFlags::READ_FENCE).bits(),
            3 => (OpFlags::ALLOW_READ | OpFlags::ALLOW_WRITE).bits(),
            _ => 0,
        };
        OpFlags::from_bits_retain(bits)
    }

    pub(crate) fn rights(&mut self) -> MrFlags {
        match self.below(6) {
            0 => MrFlags::from_bits_retain(1 << self.below(32)),
            1 => MrFlags::empty(),
            _ => {
                MrFlags::ALLOW_LOCAL_WRITE
                    | MrFlags::ALLOW_REMOTE_READ
                    | MrFlags::ALLOW_REMOTE_WRITE
            }
        }
    }

    pub(crate) fn address(&mut self) -> SocketAddr {
        let mut address = match self.below(8) {
            0 => {
                let absurd = [
                    "0.0.0.0:0",
                    "255.255.255.255:1",
                    "224.0.0.1:7",
                    "127.0.0.1:9",
                    "[::]:0",
                    "[::1]:99",
                    "[ff02::1]:1",
                    "192.0.2.1:65535",
                ];
                self.pick(&absurd).unwrap().parse().unwrap()
            }
            _ => {
                let known = self.addresses.clone();
                self.pick(&known).unwrap()
            }
        };
        if self.one_in(6) {
            address.set_port(self.pick(&[0, 1, 50_000, u16::MAX]).unwrap());
        }
        address
    }

    /// An address in memory and the number of octets to use there: inside a buffer, across its end, or nowhere.
    pub(crate) fn place(&mut self) -> (u64, u32) {
        let buffers = self.buffers.clone();
        let buffer = self.pick(&buffers).unwrap();
        let length = u32::try_from(buffer.len()).unwrap();
        match self.below(8) {
            0 => (self.below(u64::MAX), u32::MAX),
            1 => (u64::MAX, self.number(length)),
            2 => (buffer.address(), length.saturating_add(1)),
            3 => (buffer.address(), 0),
            _ => {
                let offset = self.below(u64::from(length) + 1);
                let left = u64::from(length) - offset;
                let length = u32::try_from(self.below(left + 1)).unwrap();
                (buffer.address() + offset, length)
            }
        }
    }

    pub(crate) fn sges(&mut self) -> Vec<Sge> {
        let count = match self.below(10) {
            0 => ENTRIES + 1,
            1 => 0,
            2 => 40,
            other => 1 + u32::try_from(other).unwrap() % 2,
        };
        let sge = |run: &mut Self| {
            let (address, length) = run.place();
            let regions = run.regions.clone();
            let token = match run.pick(&regions) {
                Some(region) if !run.one_in(10) => region.get_local_token(),
                _ => LocalToken(u32::try_from(run.below(1 << 32)).unwrap()),
            };
            Sge {
                address,
                length,
                token,
            }
        };
        (0..count).map(|_| sge(self)).collect()
    }

    pub(crate) fn remote(&mut self) -> RemoteAddress {
        let (address, _) = self.place();
        let (regions, windows) = (self.regions.clone(), self.windows.clone());
        let token = match (self.below(3), self.pick(&regions), self.pick(&windows)) {
            (0, Some(region), _) => region.get_remote_token(),
            (1, _, Some(window)) => window.get_remote_token(),
            _ => RemoteToken(u32::try_from(self.below(1 << 32)).unwrap()),
        };
        RemoteAddress { address, token }
    }

    pub(crate) fn data(&mut self, limit: u32) -> Vec<u8> {
        let length = match self.below(4) {
            0 => limit + 1,
            1 => limit,
            2 => 0,
            _ => limit / 3,
        };
        vec![7; length as usize]
    }

    // ---- results ----

    /// Keeps a new object, in the place of another if there are many.
    pub(crate) fn keep<T>(&mut self, list: fn(&mut Self) -> &mut Vec<T>, object: T) {
        let at = usize::try_from(self.below(MOST as u64)).unwrap();
        let kept = list(self);
        if kept.len() < MOST {
            kept.push(object);
        } else {
            kept[at] = object;
        }
    }

    /// Checks the result of a call.
    pub(crate) fn answer<T>(&mut self, method: &'static Method, result: Result<T>) -> Option<T> {
        let status = result
            .as_ref()
            .map_or_else(|error| error.status(), |_| Status::SUCCESS);
        self.coverage.add(method.name, status);
        let what = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let removed = self.removed && !method.cleans_up && status == Status::DEVICE_REMOVED;
        if !removed && !method.call.contains(&status) {
            let (name, rows) = (method.name, method.rows);
            let wrong = format!("{name} returned {what}, which is not listed ({rows})");
            self.coverage.wrong(self.seed, wrong);
        }
        None
    }

    /// Calls an overlapped method with an `Overlapped`, which may be in use.
    pub(crate) fn start(
        &mut self,
        method: &'static Method,
        call: impl FnOnce(&Overlapped) -> Result<Started>,
    ) {
        let known = self.requests.clone();
        let request = match self.pick(&known) {
            Some(request) if self.one_in(8) || known.len() >= 60 => request,
            _ => self.new_request(method),
        };
        let in_flight = request.overlapped.is_pending();
        if !in_flight {
            *request.method.lock().unwrap() = method;
        }
        match call(&request.overlapped) {
            Err(error) if error.status() == Status::INVALID_PARAMETER_MIX => {
                assert!(in_flight, "{}: {error}", method.name);
            }
            result => {
                let started = self.answer(method, result);
                assert!(started.is_none() || !in_flight, "{}: twice", method.name);
            }
        }
    }

    fn new_request(&mut self, method: &'static Method) -> Request {
        let method = Arc::new(Mutex::new(method));
        let (own, ends) = (Arc::clone(&method), Arc::clone(&self.ends));
        let sink = move |status| {
            let method = *own.lock().unwrap();
            ends.lock().unwrap().push((method, status));
        };
        let mut overlapped = Overlapped::with_sink(Arc::new(sink));
        if self.one_in(2) {
            overlapped = overlapped.without_port();
        }
        let request = Request { overlapped, method };
        self.requests.push(request.clone());
        request
    }

    /// Looks at the requests that have ended.
    pub(crate) fn check_ends(&mut self) {
        let ends = std::mem::take(&mut *self.ends.lock().unwrap());
        for (method, status) in ends {
            self.coverage.add(method.name, status);
            let any = [Status::SUCCESS, Status::CANCELED].contains(&status);
            let removed = self.removed && status == Status::DEVICE_REMOVED;
            if !any && !removed && !method.end.contains(&status) {
                let (name, rows) = (method.name, method.rows);
                let wrong = format!("{name} ended with {status}, which is not listed ({rows})");
                self.coverage.wrong(self.seed, wrong);
            }
        }
    }

    pub(crate) fn a_request(&mut self) -> Option<Overlapped> {
        let known = self.requests.clone();
        self.pick(&known).map(|request| request.overlapped)
    }
}
