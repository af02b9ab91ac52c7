//! Memory windows, ND2's `IND2MemoryWindow`, by windows of type 2 of the device, or by windows of type 1 if it has no others.
//!
//! A window remembers its [`WindowBinding`]s. A request notes its end in its binding while the queue pair is locked, so a binding is a few
//! flags. The window looks at them when it is used next. A binding that is over no longer holds the memory: a region without bindings in
//! force can be deregistered.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use netdirect::{MemoryWindow, RemoteToken, Result, Status};
use netdirect_provider::owned;
use parking_lot::Mutex;

use crate::core::Core;
use crate::handle::{MemoryWindowHandle, Registration, WindowKind};
use crate::slots::{Keeps, Kept};
use crate::status::shortage;

#[derive(Debug)]
pub(crate) struct Window {
    core: Arc<Core>,
    kind: WindowKind,
    /// The lock is held while a Bind or an Invalidate is posted or has failed, under the lock of the queue pair.
    pub(crate) state: Arc<Mutex<WindowState>>,
    token: AtomicU32,
}

#[derive(Debug)]
pub(crate) struct WindowState {
    // The device's window ends before the regions that it is bound to.
    /// `None` after a Bind that has failed.
    handle: Option<Arc<MemoryWindowHandle>>,
    /// Bindings that were posted and may be in force, the newest last.
    bindings: Vec<Arc<WindowBinding>>,
}

/// A Bind that was posted. Its region counts it until it has failed, is invalidated, or is dropped.
#[derive(Debug)]
pub(crate) struct WindowBinding {
    /// `None` when it is over.
    registration: Mutex<Option<Arc<Registration>>>,
    windows: Arc<AtomicUsize>,
    /// The queue pair on which it was posted.
    owner: u64,
    /// The window's key for this binding. Known when the Bind was posted.
    key: AtomicU32,
    /// An Invalidate is queued.
    invalidating: AtomicBool,
    /// It gives no rights any more, or never did.
    over: AtomicBool,
    /// The peer has invalidated it. The Invalidate of the owner succeeds once nevertheless.
    lapsed: AtomicBool,
}

impl WindowBinding {
    pub(crate) fn new(
        registration: &Arc<Registration>,
        windows: &Arc<AtomicUsize>,
        owner: u64,
    ) -> Arc<Self> {
        windows.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self {
            registration: Mutex::new(Some(Arc::clone(registration))),
            windows: Arc::clone(windows),
            owner,
            key: AtomicU32::new(0),
            invalidating: AtomicBool::new(false),
            over: AtomicBool::new(false),
            lapsed: AtomicBool::new(false),
        })
    }

    /// The region; `None` when the binding is over. The caller drops it under the lock of the queue pair, under which bindings end.
    pub(crate) fn registration(&self) -> Option<Arc<Registration>> {
        self.registration.lock().clone()
    }

    pub(crate) fn key(&self) -> u32 {
        self.key.load(Ordering::SeqCst)
    }

    /// The peer has invalidated it.
    pub(crate) fn lapse(&self) {
        self.lapsed.store(true, Ordering::SeqCst);
        self.end();
    }

    fn end(&self) {
        if !self.over.swap(true, Ordering::SeqCst) {
            // Before the region may be deregistered, which makes the device release the memory (MR-034).
            let registration = self.registration.lock().take();
            drop(registration);
            self.windows.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Sets whether an Invalidate is queued.
    pub(crate) fn invalidates(&self, is_queued: bool) {
        self.invalidating.store(is_queued, Ordering::SeqCst);
    }

    fn is_invalidating(&self) -> bool {
        self.invalidating.load(Ordering::SeqCst)
    }
}

impl Drop for WindowBinding {
    fn drop(&mut self) {
        self.end();
    }
}

/// The objects that a Bind or an Invalidate keeps until it has ended.
#[derive(Debug)]
struct WindowRequest {
    // The device's window ends before the region.
    handle: Arc<MemoryWindowHandle>,
    window: Weak<Mutex<WindowState>>,
    binding: Arc<WindowBinding>,
    is_bind: bool,
}

impl Keeps for WindowRequest {
    fn ended(self: Box<Self>, status: Status) {
        match (self.is_bind, status.is_success()) {
            (true, true) => {}
            (true, false) => {
                // It is unknown if the device's window is bound, so it ends before the region may.
                let Self {
                    handle, binding, ..
                } = *self;
                if let Some(window) = self.window.upgrade() {
                    window.lock().lose(&handle);
                }
                drop(handle);
                binding.end();
            }
            (false, true) => self.binding.end(),
            (false, false) => self.binding.invalidates(false),
        }
    }
}

/// The state of a window for an Invalidate.
pub(crate) enum ToInvalidate {
    Nothing,
    /// The peer has invalidated the window already.
    Lapsed,
    Bound(Arc<WindowBinding>),
}

impl WindowState {
    /// The device's window; `None` after a Bind that has failed.
    pub(crate) fn handle(&self) -> Option<Arc<MemoryWindowHandle>> {
        self.handle.clone()
    }

    /// A Bind of this window of the device has failed.
    fn lose(&mut self, lost: &Arc<MemoryWindowHandle>) {
        let handle = self.handle.take();
        self.handle = handle.filter(|handle| !Arc::ptr_eq(handle, lost));
    }

    /// Returns true if a Bind on this queue pair finds the window bound. The order of requests counts within one queue pair only.
    pub(crate) fn is_bound_for(&self, owner: u64) -> bool {
        let mut in_force = self.bindings.iter().filter(|binding| !binding.is_over());
        in_force.any(|binding| !(binding.owner == owner && binding.is_invalidating()))
    }

    /// The device's window, for a Bind. After a Bind that has failed another window takes the place of the one that was lost.
    pub(crate) fn bindable(&mut self, window: &Window) -> Result<Arc<MemoryWindowHandle>> {
        self.bindings.retain(|binding| !binding.is_over());
        if let Some(handle) = &self.handle {
            return Ok(Arc::clone(handle));
        }
        let handle = window.allocate()?;
        self.handle = Some(Arc::clone(&handle));
        Ok(handle)
    }

    /// The Bind was posted. Returns the objects that it keeps.
    pub(crate) fn bound(
        &mut self,
        window: &Window,
        handle: Arc<MemoryWindowHandle>,
        binding: &Arc<WindowBinding>,
    ) -> Kept {
        let key = handle.key();
        binding.key.store(key, Ordering::SeqCst);
        self.bindings.push(Arc::clone(binding));
        window.token.store(key, Ordering::Release);
        Box::new(WindowRequest {
            handle,
            window: Arc::downgrade(&window.state),
            binding: Arc::clone(binding),
            is_bind: true,
        })
    }

    /// The Invalidate was posted. Returns the objects that it keeps.
    pub(crate) fn invalidates(
        window: &Window,
        handle: Arc<MemoryWindowHandle>,
        binding: Arc<WindowBinding>,
    ) -> Kept {
        binding.invalidates(true);
        Box::new(WindowRequest {
            handle,
            window: Arc::downgrade(&window.state),
            binding,
            is_bind: false,
        })
    }

    /// The state of the window for an Invalidate on this queue pair.
    pub(crate) fn to_invalidate(&self, owner: u64) -> ToInvalidate {
        let own = |binding: &&Arc<WindowBinding>| binding.owner == owner;
        let mut newest = self.bindings.iter().rev().filter(own);
        let binding = newest.find(|binding| !binding.is_over() && !binding.is_invalidating());
        if let Some(binding) = binding {
            return ToInvalidate::Bound(Arc::clone(binding));
        }
        let lapsed = |binding: &Arc<WindowBinding>| {
            binding.owner == owner && binding.lapsed.swap(false, Ordering::SeqCst)
        };
        match self.bindings.iter().any(lapsed) {
            true => ToInvalidate::Lapsed,
            false => ToInvalidate::Nothing,
        }
    }
}

impl Window {
    pub(crate) fn new(core: Arc<Core>, kind: WindowKind) -> Result<Self> {
        let handle = allocate(&core, kind)?;
        Ok(Self {
            token: AtomicU32::new(handle.key()),
            state: Arc::new(Mutex::new(WindowState {
                handle: Some(handle),
                bindings: Vec::new(),
            })),
            kind,
            core,
        })
    }

    fn allocate(&self) -> Result<Arc<MemoryWindowHandle>> {
        allocate(&self.core, self.kind)
    }
}

fn allocate(core: &Core, kind: WindowKind) -> Result<Arc<MemoryWindowHandle>> {
    let handle = MemoryWindowHandle::new(&core.pd, kind);
    let handle = handle.map_err(shortage("cannot create a memory window"))?;
    Ok(Arc::new(handle))
}

owned!(Window of Core: |window| &window.core);

impl MemoryWindow for Window {
    fn get_remote_token(&self) -> RemoteToken {
        RemoteToken::from_host(self.token.load(Ordering::Acquire))
    }
}
