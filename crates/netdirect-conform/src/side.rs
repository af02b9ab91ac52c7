//! One side of a check: an open adapter, and the calls that most checks make on it.
//!
//! A method here begins a step, makes the call and turns what the check does not expect into a failure, so that a check
//! reads as the list of what it does.

use std::fmt::{Debug, Display};
use std::net::SocketAddr;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conform_report::{Step, Stop, fail};
use netdirect::{
    Adapter, AdapterInfo, Affinity, Buffer, CompletionQueue, CompletionResult, Connector, Fault,
    Listener, MemoryRegion, MemoryWindow, MrFlags, Overlapped, OverlappedFile, Provider, QueuePair,
    QueuePairOptions, RemoteAddress, Result, Sge, Started, Status,
};

use crate::limits::{Limits, hang};
use crate::steps::Steps;
use crate::target::End;

/// One side of a check.
#[derive(Debug)]
pub struct Side {
    /// `near` or `far`.
    pub name: &'static str,
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The adapter.
    pub adapter: Arc<dyn Adapter>,
    /// The overlapped file that the methods below make objects with.
    pub file: Arc<dyn OverlappedFile>,
    /// The limits of the adapter.
    pub info: AdapterInfo,
    /// The address that the adapter was opened by, with port 0.
    pub address: SocketAddr,
    limits: Limits,
    steps: Steps,
}

/// A buffer and the region that holds it.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The buffer.
    pub buffer: Buffer,
    /// The region.
    pub region: Arc<dyn MemoryRegion>,
}

impl Memory {
    /// An entry of a request for part of the buffer.
    pub fn sge(&self, range: impl RangeBounds<usize>) -> Sge {
        Sge::new(&self.buffer, range, self.region.get_local_token())
    }

    /// The address and token by which the peer names the buffer.
    pub fn remote(&self) -> RemoteAddress {
        RemoteAddress {
            address: self.buffer.address(),
            token: self.region.get_remote_token(),
        }
    }

    /// Part of the buffer's octets.
    pub fn octets(&self, at: usize, length: usize) -> Vec<u8> {
        let mut octets = vec![0; length];
        self.buffer.read(at, &mut octets);
        octets
    }
}

impl Side {
    pub(crate) fn open(name: &'static str, end: End, limits: Limits, steps: &Steps) -> Step<Self> {
        let End {
            provider,
            mut address,
        } = end;
        address.set_port(0);
        let opened = provider
            .resolve_address(address)
            .and_then(|id| provider.open_adapter(id));
        let adapter = expect(steps, format!("open the adapter of {address}"), opened)?;
        let info = expect(steps, "query the adapter", adapter.query())?;
        let file = adapter.create_overlapped_file();
        let file = expect(steps, "create an overlapped file", file)?;
        Ok(Self {
            name,
            provider,
            adapter,
            file,
            info,
            address,
            limits,
            steps: steps.clone(),
        })
    }

    /// The same adapter for the other end.
    pub(crate) fn again(&self, name: &'static str) -> Self {
        Self {
            name,
            provider: Arc::clone(&self.provider),
            adapter: Arc::clone(&self.adapter),
            file: Arc::clone(&self.file),
            info: self.info,
            address: self.address,
            limits: self.limits,
            steps: self.steps.clone(),
        }
    }

    /// Opens an adapter of this side's provider once more.
    ///
    /// # Errors
    ///
    /// The failure if the provider refuses.
    pub fn open_again(&self) -> Step<Self> {
        let end = End {
            provider: Arc::clone(&self.provider),
            address: self.address,
        };
        Self::open(self.name, end, self.limits, &self.steps)
    }

    /// Opens the adapter of this side's provider that has an address.
    ///
    /// # Errors
    ///
    /// The failure if the provider refuses.
    pub fn open_at(&self, address: SocketAddr) -> Step<Self> {
        let end = End {
            provider: Arc::clone(&self.provider),
            address,
        };
        Self::open(self.name, end, self.limits, &self.steps)
    }

    /// A step of the check begins.
    pub fn step(&self, what: impl Display) {
        self.steps.begin(format!("{}: {what}", self.name));
    }

    /// Returns the value of a call that has to succeed.
    ///
    /// # Errors
    ///
    /// The failure if the call was refused.
    pub fn expect<T>(&self, what: impl Display, result: Result<T>) -> Step<T> {
        expect(&self.steps, format!("{}: {what}", self.name), result)
    }

    /// A call that has to be refused with one status.
    ///
    /// # Errors
    ///
    /// The failure if the call succeeded, or was refused with another status.
    pub fn refused<T>(&self, what: impl Display, result: Result<T>, status: Status) -> Step {
        self.step(&what);
        match result {
            Err(error) if error.status() == status => Ok(()),
            Err(error) => Err(fail(format!("{status} from: {what}"), error.to_string())),
            Ok(_) => Err(fail(format!("{status} from: {what}"), "success")),
        }
    }

    /// A status has to be this one.
    ///
    /// # Errors
    ///
    /// The failure if it is another one.
    pub fn status(&self, what: impl Display, got: Status, wanted: Status) -> Step {
        self.equal(what, got, wanted)
    }

    /// A value has to be this one.
    ///
    /// # Errors
    ///
    /// The failure if it is another one.
    pub fn equal<T: PartialEq + Debug>(&self, what: impl Display, got: T, wanted: T) -> Step {
        if got == wanted {
            Ok(())
        } else {
            Err(fail(format!("{what}: {wanted:?}"), format!("{got:?}")))
        }
    }

    /// The final status of an overlapped request, or the status with which its call was refused.
    ///
    /// # Errors
    ///
    /// The failure if the request does not end.
    pub fn ended(
        &self,
        what: impl Display,
        started: Result<Started>,
        overlapped: &Overlapped,
    ) -> Step<Status> {
        self.step(&what);
        match started {
            Err(error) => Ok(error.status()),
            Ok(Started::Done) => Ok(Status::SUCCESS),
            Ok(Started::Pending) => self.end_of(what, overlapped),
        }
    }

    /// The final status of a request in flight.
    ///
    /// # Errors
    ///
    /// The failure if the request does not end.
    pub fn end_of(&self, what: impl Display, overlapped: &Overlapped) -> Step<Status> {
        self.step(what);
        match overlapped.wait_timeout(self.limits.answer) {
            Some(Status::POSSIBLE_DEADLOCK) | None => Err(self.hang()),
            Some(status) => Ok(status),
        }
    }

    /// An overlapped request that has to succeed.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused, or the request fails or does not end.
    pub fn done(
        &self,
        what: impl Display,
        started: Result<Started>,
        overlapped: &Overlapped,
    ) -> Step {
        if let Err(error) = &started {
            self.step(&what);
            return Err(fail(format!("success of: {what}"), error.to_string()));
        }
        let status = self.ended(&what, started, overlapped)?;
        if status == Status::SUCCESS {
            return Ok(());
        }
        // It knows the reason as well.
        let seen = overlapped.result().err();
        let seen = seen.map_or_else(|| status.to_string(), |error| error.to_string());
        Err(fail(format!("success of: {what}"), seen))
    }

    /// A connection request has to arrive. A Connect that fails meanwhile ends the wait.
    ///
    /// # Errors
    ///
    /// The failure if no request arrives, with the reason if Connect has failed.
    pub fn arrives(&self, started: Started, arrived: &Overlapped, connect: &Overlapped) -> Step {
        /// A Connect that has failed is noticed within this time.
        const LOOK: Duration = Duration::from_millis(100);
        let what = "the arrival of the connection request";
        self.step(what);
        if started == Started::Done {
            return Ok(());
        }
        let mut left = self.limits.answer;
        loop {
            let look = LOOK.min(left);
            match arrived.wait_timeout(look) {
                Some(Status::POSSIBLE_DEADLOCK) => return Err(self.hang()),
                Some(_) => return self.done(what, Ok(started), arrived),
                None => {}
            }
            match connect.result() {
                Err(error) if error.status() != Status::PENDING => {
                    return Err(fail(what, format!("the failure of Connect: {error}")));
                }
                _ => {}
            }
            left -= look;
            if left.is_zero() {
                return Err(self.hang());
            }
        }
    }

    /// A call that has to return without an error, its request pending or done.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn started(&self, what: impl Display, started: Result<Started>) -> Step<Started> {
        self.expect(what, started)
    }

    /// A call that has to return without an error, whatever becomes of its request.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn begun(&self, what: impl Display, started: Result<Started>) -> Step {
        self.expect(what, started).map(drop)
    }

    /// A request that must not end by itself stays in flight for a while.
    ///
    /// # Errors
    ///
    /// The failure if the request ends.
    pub fn stays(&self, what: impl Display, overlapped: &Overlapped) -> Step {
        self.step(format_args!("{what} stays pending"));
        match overlapped.wait_timeout(self.limits.quiet) {
            Some(Status::POSSIBLE_DEADLOCK) | None => Ok(()),
            Some(status) => Err(fail(
                format!("{what} stays pending"),
                format!("its end with {status}"),
            )),
        }
    }

    /// Waits for this many results of a completion queue, without a Notify.
    ///
    /// # Errors
    ///
    /// The failure if they do not come.
    pub fn results(
        &self,
        what: impl Display,
        cq: &Arc<dyn CompletionQueue>,
        count: usize,
    ) -> Step<Vec<CompletionResult>> {
        self.step(format_args!("wait for {count} results: {what}"));
        let mut found = Vec::new();
        self.until(|| {
            let mut batch = vec![CompletionResult::default(); count - found.len()];
            let taken = cq.get_results(&mut batch);
            found.extend_from_slice(&batch[..taken.min(batch.len())]);
            found.len() >= count
        })?;
        Ok(found)
    }

    /// Waits for one result of a completion queue.
    ///
    /// # Errors
    ///
    /// The failure if it does not come.
    pub fn result(
        &self,
        what: impl Display,
        cq: &Arc<dyn CompletionQueue>,
    ) -> Step<CompletionResult> {
        let mut results = self.results(what, cq, 1)?;
        Ok(results.remove(0))
    }

    /// Waits for this many results, all of which have to be successes.
    ///
    /// # Errors
    ///
    /// The failure if they do not come, or one has failed.
    pub fn successes(
        &self,
        what: impl Display,
        cq: &Arc<dyn CompletionQueue>,
        count: usize,
    ) -> Step<Vec<CompletionResult>> {
        let results = self.results(&what, cq, count)?;
        match results
            .iter()
            .find(|result| result.status != Status::SUCCESS)
        {
            None => Ok(results),
            Some(result) => Err(fail(format!("success of: {what}"), format!("{result:?}"))),
        }
    }

    /// No result comes for a while.
    ///
    /// # Errors
    ///
    /// The failure if one comes.
    pub fn no_result(&self, what: impl Display, cq: &Arc<dyn CompletionQueue>) -> Step {
        self.step(format_args!("no result comes: {what}"));
        let end = self.now() + self.limits.quiet;
        let mut batch = [CompletionResult::default(); 1];
        loop {
            if cq.get_results(&mut batch) > 0 {
                return Err(fail(
                    format!("no result: {what}"),
                    format!("{:?}", batch[0]),
                ));
            }
            if self.now() >= end || !self.pass() {
                return Ok(());
            }
        }
    }

    /// Waits until `done` returns true, which is asked again and again.
    ///
    /// # Errors
    ///
    /// The failure if it does not.
    pub fn until(&self, mut done: impl FnMut() -> bool) -> Step {
        let end = self.now() + self.limits.answer;
        let mut still = 0;
        loop {
            if done() {
                return Ok(());
            }
            // In a simulation in which nothing is left to happen, `done` may still need several looks.
            still = if self.pass() { 0 } else { still + 1 };
            if self.now() > end || still > 100 {
                return Err(self.hang());
            }
        }
    }

    /// Waits until `done` returns true, and calls nothing of the provider meanwhile, unless it is a simulated one.
    ///
    /// # Errors
    ///
    /// The failure if it does not.
    pub fn watch(&self, mut done: impl FnMut() -> bool) -> Step {
        if self.file.simulation().is_some() {
            return self.until(done);
        }
        let end = self.now() + self.limits.answer;
        while !done() {
            if self.now() > end {
                return Err(self.hang());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Lets a little time pass. Returns false if nothing is left that could happen.
    pub fn pass(&self) -> bool {
        match self.file.simulation() {
            Some(simulation) => simulation.step(None).is_ok(),
            None => {
                self.file.progress();
                std::thread::sleep(Duration::from_micros(50));
                true
            }
        }
    }

    /// The time in which this side's waits are limited.
    pub fn now(&self) -> Instant {
        self.file
            .simulation()
            .map_or_else(Instant::now, |simulation| simulation.now())
    }

    fn hang(&self) -> Stop {
        hang(&self.steps, self.limits.answer)
    }

    /// Injects a fault into the adapter.
    ///
    /// # Errors
    ///
    /// The check is not part of the run if the provider cannot produce this fault; a failure if it refuses in another way.
    pub fn inject(&self, fault: Fault) -> Step {
        self.step(format_args!("inject {fault:?}"));
        let lacking = format!("the provider cannot produce the fault {fault:?}");
        let Some(extensions) = self.adapter.extensions() else {
            return Err(Stop::LeftOut(lacking));
        };
        match extensions.inject(fault) {
            Ok(()) => Ok(()),
            Err(error) if error.status() == Status::NOT_SUPPORTED => Err(Stop::LeftOut(lacking)),
            Err(error) => Err(fail("the fault to be injected", error.to_string())),
        }
    }

    /// Creates a completion queue.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn cq(&self, depth: u32) -> Step<Arc<dyn CompletionQueue>> {
        let created = self
            .adapter
            .create_completion_queue(&self.file, depth, Affinity::default());
        self.expect(
            format_args!("create a completion queue of {depth}"),
            created,
        )
    }

    /// Creates a queue pair.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn qp(
        &self,
        receives: &Arc<dyn CompletionQueue>,
        initiator: &Arc<dyn CompletionQueue>,
        options: QueuePairOptions,
    ) -> Step<Arc<dyn QueuePair>> {
        let created = self.adapter.create_queue_pair(receives, initiator, options);
        self.expect("create a queue pair", created)
    }

    /// Creates a connector.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn connector(&self) -> Step<Arc<dyn Connector>> {
        let created = self.adapter.create_connector(&self.file);
        self.expect("create a connector", created)
    }

    /// Creates a listener.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn listener(&self) -> Step<Arc<dyn Listener>> {
        let created = self.adapter.create_listener(&self.file);
        self.expect("create a listener", created)
    }

    /// Creates a memory window.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn window(&self) -> Step<Arc<dyn MemoryWindow>> {
        self.expect(
            "create a memory window",
            self.adapter.create_memory_window(),
        )
    }

    /// Creates a memory region without a buffer.
    ///
    /// # Errors
    ///
    /// The failure if the call is refused.
    pub fn region(&self) -> Step<Arc<dyn MemoryRegion>> {
        let created = self.adapter.create_memory_region(&self.file);
        self.expect("create a memory region", created)
    }

    /// Registers a buffer in a region.
    ///
    /// # Errors
    ///
    /// The failure if the request fails.
    pub fn register(
        &self,
        region: &Arc<dyn MemoryRegion>,
        buffer: &Buffer,
        flags: MrFlags,
    ) -> Step {
        let overlapped = Overlapped::new().without_port();
        let started = region.register(buffer, flags, &overlapped);
        let what = format!("register {} octets with {flags:?}", buffer.len());
        self.done(what, started, &overlapped)
    }

    /// A new buffer, registered in a new region.
    ///
    /// # Errors
    ///
    /// The failure if the request fails.
    pub fn memory(&self, length: usize, flags: MrFlags) -> Step<Memory> {
        let memory = Memory {
            buffer: Buffer::new(length),
            region: self.region()?,
        };
        self.register(&memory.region, &memory.buffer, flags)?;
        Ok(memory)
    }

    /// Ends the registration of a region.
    ///
    /// # Errors
    ///
    /// The failure if the request fails.
    pub fn deregister(&self, region: &Arc<dyn MemoryRegion>) -> Step {
        let overlapped = Overlapped::new().without_port();
        let started = region.deregister(&overlapped);
        self.done("deregister", started, &overlapped)
    }
}

fn expect<T>(steps: &Steps, what: impl Into<String>, result: Result<T>) -> Step<T> {
    let what = what.into();
    steps.begin(what.as_str());
    result.map_err(|error| fail(format!("success of: {what}"), error.to_string()))
}
