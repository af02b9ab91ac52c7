//! Regions and windows.

use std::sync::{Arc, Mutex};

use netdirect::{
    Buffer, Error, LocalToken, MemoryRegion, MemoryWindow, MrFlags, Overlapped, OverlappedFile,
    OverlappedObject, RemoteToken, Result, Started, Status, ext,
};

use super::rule::{Break, Method};
use super::{overlapped_result, start};

#[derive(Debug)]
pub(super) struct BrokenRegion {
    pub(super) inner: Arc<dyn MemoryRegion>,
    pub(super) buffer: Mutex<Option<Buffer>>,
    file: Arc<dyn OverlappedFile>,
    state: Mutex<State>,
    rule: Break,
}

#[derive(Debug, Default)]
struct State {
    flags: MrFlags,
    /// The address of the first buffer.
    first: Option<u64>,
    /// How many registrations there were.
    count: u32,
    /// Deregister has reported success to the client, and the buffer is still registered.
    put_off: bool,
}

impl BrokenRegion {
    pub(super) fn new(
        inner: Arc<dyn MemoryRegion>,
        file: &Arc<dyn OverlappedFile>,
        rule: Break,
    ) -> Self {
        Self {
            inner,
            buffer: Mutex::new(None),
            file: file.clone(),
            state: Mutex::new(State::default()),
            rule,
        }
    }

    /// The flags that the region is really registered with.
    fn flags(&self, flags: MrFlags) -> MrFlags {
        let (local, read) = (MrFlags::ALLOW_LOCAL_WRITE, MrFlags::ALLOW_REMOTE_READ);
        let (write, sink) = (MrFlags::ALLOW_REMOTE_WRITE, MrFlags::RDMA_READ_SINK);
        match self.rule {
            Break::FlagsIgnored => flags & MrFlags::all(),
            Break::LocalWriteForAll if flags.is_empty() => local,
            Break::ReadableIsWritable if flags == read => read | local,
            Break::LocalIsReadable if flags == local => local | read,
            Break::WritableIsReadable if flags == write => write | read,
            Break::SinkIsReadable if flags == sink | local => sink | local | read,
            Break::RemoteReadForNone if flags == read => MrFlags::empty(),
            Break::RemoteWriteForNone if flags == write => local,
            _ => flags,
        }
    }

    /// Returns true if a Deregister is put off.
    fn is_late(&self) -> bool {
        let flags = self.state.lock().unwrap().flags;
        match self.rule {
            Break::DeregisterLocalLate => flags.is_empty(),
            Break::DeregisterRemoteLate => flags.contains(MrFlags::ALLOW_REMOTE_WRITE),
            _ => false,
        }
    }

    /// Does what was put off.
    fn catch_up(&self) -> Result<()> {
        let late = std::mem::take(&mut self.state.lock().unwrap().put_off);
        if !late {
            return Ok(());
        }
        let own = Overlapped::new().without_port();
        ext::wait(self.inner.deregister(&own), &own)
    }
}

/// Finishes a request within its call.
fn at_once(
    file: &Arc<dyn OverlappedFile>,
    overlapped: &Overlapped,
    call: impl FnOnce(&Overlapped) -> Result<Started>,
) -> Result<Started> {
    let own = Overlapped::new().without_port();
    ext::wait(call(&own), &own)?;
    overlapped.begin(file)?.abandon(Status::SUCCESS);
    Ok(Started::Done)
}

impl OverlappedObject for BrokenRegion {
    fn cancel_overlapped_requests(&self) -> Result<()> {
        self.inner.cancel_overlapped_requests()
    }

    fn get_overlapped_result(&self, overlapped: &Overlapped, wait: bool) -> Status {
        overlapped_result(self.rule, &*self.inner, overlapped, wait)
    }
}

impl MemoryRegion for BrokenRegion {
    fn register(
        &self,
        buffer: &Buffer,
        flags: MrFlags,
        overlapped: &Overlapped,
    ) -> Result<Started> {
        self.catch_up()?;
        let first = self.state.lock().unwrap().first;
        let is_free = self.buffer.lock().unwrap().is_none();
        let refused = match self.rule {
            Break::RegisterOnce => is_free && first.is_some_and(|first| first != buffer.address()),
            Break::AlignedOnly => buffer.address() % 2 == 1,
            Break::SecureOnly => flags.contains(MrFlags::DO_NOT_SECURE_VM),
            _ => false,
        };
        if refused {
            return Err(Error::new(Status::INVALID_PARAMETER_3, "the broken rule"));
        }
        let count = {
            let mut state = self.state.lock().unwrap();
            state.count += 1;
            state.count
        };
        if self.rule == Break::RegistrationsRunOut && count > 1000 {
            return Err(Error::new(
                Status::INSUFFICIENT_RESOURCES,
                "the broken rule",
            ));
        }
        let real = self.flags(flags);
        let call = |own: &Overlapped| self.inner.register(buffer, real, own);
        let started = if self.rule == Break::RegisterAtOnce {
            at_once(&self.file, overlapped, call)
        } else {
            start(self.rule, Method::Register, &self.file, overlapped, call)
        }?;
        if is_free && !buffer.is_empty() {
            let mut state = self.state.lock().unwrap();
            state.flags = flags;
            state.first.get_or_insert(buffer.address());
            *self.buffer.lock().unwrap() = Some(buffer.clone());
        }
        Ok(started)
    }

    fn deregister(&self, overlapped: &Overlapped) -> Result<Started> {
        let registered = self.buffer.lock().unwrap().take().is_some();
        if registered && self.is_late() {
            self.state.lock().unwrap().put_off = true;
            overlapped.begin(&self.file)?.complete(Status::SUCCESS);
            return Ok(Started::Pending);
        }
        if self.state.lock().unwrap().put_off {
            return Err(Error::new(Status::INVALID_DEVICE_STATE, "no buffer"));
        }
        let call = |own: &Overlapped| self.inner.deregister(own);
        if self.rule == Break::DeregisterAtOnce {
            return at_once(&self.file, overlapped, call);
        }
        let started = start(self.rule, Method::Deregister, &self.file, overlapped, call)?;
        if self.rule == Break::TwoPackets
            && let Some((port, key)) = self.file.association().port()
        {
            port.post(key, overlapped.user());
        }
        Ok(started)
    }

    fn get_local_token(&self) -> LocalToken {
        self.inner.get_local_token()
    }

    fn get_remote_token(&self) -> RemoteToken {
        self.inner.get_remote_token()
    }
}

impl Drop for BrokenRegion {
    fn drop(&mut self) {
        if self.rule == Break::ReleasedRegionStays {
            std::mem::forget(self.inner.clone());
        }
    }
}

#[derive(Debug)]
pub(super) struct BrokenWindow {
    pub(super) inner: Arc<dyn MemoryWindow>,
    /// The token that the client gets.
    pub(super) reported: Mutex<Option<RemoteToken>>,
    rule: Break,
}

impl BrokenWindow {
    pub(super) fn new(inner: Arc<dyn MemoryWindow>, rule: Break) -> Self {
        Self {
            inner,
            reported: Mutex::new(None),
            rule,
        }
    }
}

impl MemoryWindow for BrokenWindow {
    fn get_remote_token(&self) -> RemoteToken {
        let reported = self.reported.lock().unwrap().take();
        reported.unwrap_or_else(|| self.inner.get_remote_token())
    }
}

impl Drop for BrokenWindow {
    fn drop(&mut self) {
        if self.rule == Break::ReleasedWindowStays {
            std::mem::forget(self.inner.clone());
        }
    }
}
