//! Queue pairs, ND2's `IND2QueuePair`: the checks of requests before they are posted.
//!
//! The data path is the provider's, which implements [`QueuePairLine`] for its part of a handle. Clients get a [`QueuePairHandle`].

#[cfg(test)]
pub(crate) mod tests;

use std::fmt::Debug;
use std::sync::Arc;

use netdirect::{
    AtomicOp, Capabilities, ConnectionEnd, Error, Immediate, MemoryRegion, MemoryWindow, OpFlags,
    QueuePair, QueuePairExtensions, RemoteAddress, Result, Sge, Status,
};

use crate::adapter::ProviderAdapter;
use crate::checks::own::Owned;
use crate::checks::{flags, own};
use crate::error::fail;
use crate::memory_region::{Region, RegistrationLine};

/// The source of the data of a Send or a Write.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// In registered memory.
    Sges(&'a [Sge]),
    /// Copied by the call.
    Inline(&'a [&'a [u8]]),
}

/// An initiator request that names no window.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// A Send.
    Send(Source<'a>),
    /// A Write to the peer's memory.
    Write(Source<'a>, RemoteAddress),
    /// A Read from the peer's memory to these entries.
    Read(&'a [Sge], RemoteAddress),
    /// A Send of Immediate Data.
    SendImmediate(Immediate),
    /// An Atomic on the peer's memory, whose old value goes to this entry.
    Atomic(AtomicOp, &'a Sge, RemoteAddress),
}

/// The memory that a Bind opens to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRange {
    /// Where the window begins.
    pub address: u64,
    /// Its length, in octets.
    pub length: u64,
    /// The peer may read.
    pub read: bool,
    /// The peer may write.
    pub write: bool,
}

/// The provider's part of a queue pair's handle: the line below the checks. Dropping it releases the queue pair (QP-074).
///
/// The flags of all requests are allowed for their kind. Functions of the data path are called directly from those of the
/// [`QueuePairHandle`], each with one variant of [`Request`], so that a compiler which inlines them knows the kind.
pub trait QueuePairLine: Debug + Send + Sync + Sized + 'static {
    /// The state that all objects of one opened adapter share.
    type Adapter: ProviderAdapter;
    /// A buffer that the provider has registered.
    type Registration: RegistrationLine<Adapter = Self::Adapter>;
    /// The provider's memory windows.
    type Window: Owned<Adapter = Self::Adapter>;
    /// A Bind that can be posted.
    type Bind;

    /// Returns the adapter that the queue pair belongs to.
    fn adapter(&self) -> &Arc<Self::Adapter>;

    /// Returns true if the queue pair uses a shared receive queue.
    fn has_shared_receives(&self) -> bool;

    /// Cancels all requests (QP-004).
    fn flush(&self);

    /// Returns the reason why the connection ended, if it has ended and the line knows it.
    fn connection_end(&self) -> Option<ConnectionEnd> {
        None
    }

    /// Posts a Receive. The queue pair has no shared receive queue.
    ///
    /// # Errors
    ///
    /// Those of [`QueuePair::receive`].
    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()>;

    /// Posts a request.
    ///
    /// # Errors
    ///
    /// Those of the request's method of [`QueuePair`] or [`QueuePairExtensions`].
    fn post(&self, context: u64, request: Request<'_>, flags: OpFlags) -> Result<()>;

    /// Prepares a Bind. Called under the region's lock.
    ///
    /// # Errors
    ///
    /// [`outside_region`], or the adapter is short of something.
    fn prepare_bind(
        &self,
        registration: &Self::Registration,
        window: &Self::Window,
        range: WindowRange,
    ) -> Result<Self::Bind>;

    /// Posts a Bind.
    ///
    /// # Errors
    ///
    /// Those of [`QueuePair::bind`].
    fn bind(
        &self,
        context: u64,
        window: &Arc<Self::Window>,
        bind: Self::Bind,
        flags: OpFlags,
    ) -> Result<()>;

    /// Posts an Invalidate.
    ///
    /// # Errors
    ///
    /// Those of [`QueuePair::invalidate`].
    fn invalidate(&self, context: u64, window: &Arc<Self::Window>, flags: OpFlags) -> Result<()>;
}

/// Returns the error of a Bind that opens more than the memory region has (QP-038).
#[must_use]
pub fn outside_region() -> Error {
    Error::new(
        Status::ACCESS_VIOLATION,
        "the range lies outside the memory region, or the memory region does not have these rights",
    )
}

/// A client's reference to a queue pair. When the client releases it, the queue pair is disconnected.
#[derive(Debug)]
pub struct QueuePairHandle<L: QueuePairLine>(L);

impl<L: QueuePairLine> QueuePairHandle<L> {
    /// Makes the reference of a client.
    pub fn new(line: L) -> Self {
        Self(line)
    }

    /// Returns the provider's part.
    #[must_use]
    pub fn line(&self) -> &L {
        &self.0
    }
}

impl<L: QueuePairLine> Owned for QueuePairHandle<L> {
    type Adapter = L::Adapter;

    fn adapter(&self) -> &Arc<L::Adapter> {
        self.0.adapter()
    }
}

impl<L: QueuePairLine> QueuePair for QueuePairHandle<L> {
    fn flush(&self) -> Result<()> {
        self.0.flush();
        Ok(())
    }

    #[inline]
    fn send(&self, context: u64, sges: &[Sge], flags: OpFlags) -> Result<()> {
        flags::send(flags)?;
        let request = Request::Send(Source::Sges(sges));
        self.0.post(context, request, flags)
    }

    #[inline]
    fn receive(&self, context: u64, sges: &[Sge]) -> Result<()> {
        if self.0.has_shared_receives() {
            return fail(
                Status::INVALID_DEVICE_REQUEST,
                "the queue pair uses a shared receive queue: post the Receive to that queue",
            ); // QP-032, AMB-050
        }
        self.0.receive(context, sges)
    }

    fn bind(
        &self,
        context: u64,
        region: &Arc<dyn MemoryRegion>,
        window: &Arc<dyn MemoryWindow>,
        address: u64,
        length: u64,
        flags: OpFlags,
    ) -> Result<()> {
        flags::bind(flags)?;
        let adapter = self.0.adapter();
        let region = own::memory_region::<Region<L::Registration>>(region, adapter)?;
        let window = own::memory_window::<L::Window>(window, adapter, Status::INVALID_PARAMETER_3)?;
        let range = WindowRange {
            address,
            length,
            read: flags.contains(OpFlags::ALLOW_READ),
            write: flags.contains(OpFlags::ALLOW_WRITE),
        };
        let prepared =
            region.with(|registration| self.0.prepare_bind(registration, &window, range));
        let Some(bind) = prepared else {
            return fail(
                Status::INVALID_PARAMETER_2,
                "the memory region has no registered buffer; register a buffer first",
            ); // AMB-011
        };
        self.0.bind(context, &window, bind?, flags)
    }

    fn invalidate(
        &self,
        context: u64,
        window: &Arc<dyn MemoryWindow>,
        flags: OpFlags,
    ) -> Result<()> {
        flags::invalidate(flags)?;
        let (adapter, status) = (self.0.adapter(), Status::INVALID_PARAMETER_2);
        let window = own::memory_window::<L::Window>(window, adapter, status)?;
        self.0.invalidate(context, &window, flags)
    }

    #[inline]
    fn read(&self, context: u64, sges: &[Sge], from: RemoteAddress, flags: OpFlags) -> Result<()> {
        flags::read_or_write(flags)?;
        self.0.post(context, Request::Read(sges, from), flags)
    }

    #[inline]
    fn write(&self, context: u64, sges: &[Sge], to: RemoteAddress, flags: OpFlags) -> Result<()> {
        flags::read_or_write(flags)?;
        let request = Request::Write(Source::Sges(sges), to);
        self.0.post(context, request, flags)
    }

    #[inline]
    fn send_inline(&self, context: u64, data: &[&[u8]], flags: OpFlags) -> Result<()> {
        flags::send_inline(flags)?;
        let request = Request::Send(Source::Inline(data));
        self.0.post(context, request, flags)
    }

    #[inline]
    fn write_inline(
        &self,
        context: u64,
        data: &[&[u8]],
        to: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        flags::write_inline(flags)?;
        let request = Request::Write(Source::Inline(data), to);
        self.0.post(context, request, flags)
    }

    fn connection_end(&self) -> Option<ConnectionEnd> {
        self.0.connection_end()
    }

    fn extensions(&self) -> Option<&dyn QueuePairExtensions> {
        let any = Capabilities::FETCH_ADD
            | Capabilities::COMPARE_SWAP
            | Capabilities::IMMEDIATE_4
            | Capabilities::IMMEDIATE_8;
        let has_any = self.0.adapter().capabilities().intersects(any);
        has_any.then_some(self)
    }
}

impl<L: QueuePairLine> QueuePairExtensions for QueuePairHandle<L> {
    fn send_immediate(&self, context: u64, data: Immediate, flags: OpFlags) -> Result<()> {
        flags::send_immediate(flags)?;
        self.0.post(context, Request::SendImmediate(data), flags)
    }

    fn atomic(
        &self,
        context: u64,
        op: AtomicOp,
        sink: &Sge,
        target: RemoteAddress,
        flags: OpFlags,
    ) -> Result<()> {
        flags::atomic(flags)?;
        let needed = Capabilities::needed_for(op);
        if !self.0.adapter().capabilities().contains(needed) {
            return fail(Status::NOT_SUPPORTED, "the adapter cannot do this Atomic");
        }
        let request = Request::Atomic(op, sink, target);
        self.0.post(context, request, flags)
    }
}
