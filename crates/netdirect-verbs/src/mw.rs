//! Memory windows, ND2's `IND2MemoryWindow`, by windows of type 1 of the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use netdirect::{MemoryWindow, RemoteToken, Result};
use parking_lot::Mutex;

use crate::core::Core;
use crate::handle::{MemoryWindowHandle, Registration};
use crate::status::shortage;

#[derive(Debug)]
pub(crate) struct Window {
    core: Arc<Core>,
    pub(crate) handle: Arc<MemoryWindowHandle>,
    /// What the window is bound to. The lock is held while a Bind or an Invalidate is posted.
    pub(crate) bound: Mutex<Option<Bound>>,
    token: AtomicU32,
}

/// The region that a window is bound to, which counts the window until this is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) registration: Arc<Registration>,
    #[expect(dead_code, reason = "kept until it is dropped")]
    count: Arc<WindowCount>,
}

/// A place in a region's count of windows.
#[derive(Debug)]
struct WindowCount(Arc<AtomicUsize>);

impl Drop for WindowCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Bound {
    pub(crate) fn new(registration: &Arc<Registration>, windows: &Arc<AtomicUsize>) -> Self {
        windows.fetch_add(1, Ordering::SeqCst);
        Self {
            registration: Arc::clone(registration),
            count: Arc::new(WindowCount(Arc::clone(windows))),
        }
    }
}

impl Window {
    pub(crate) fn new(core: Arc<Core>) -> Result<Self> {
        let handle = MemoryWindowHandle::new(&core.pd);
        let handle = handle.map_err(shortage("cannot create a memory window"))?;
        Ok(Self {
            token: AtomicU32::new(handle.key()),
            handle: Arc::new(handle),
            bound: Mutex::new(None),
            core,
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Takes over the key that a Bind has made. The caller holds the lock of `bound`.
    pub(crate) fn renew_token(&self) {
        self.token.store(self.handle.key(), Ordering::Release);
    }
}

impl MemoryWindow for Window {
    fn get_remote_token(&self) -> RemoteToken {
        RemoteToken::from_host(self.token.load(Ordering::Acquire))
    }
}
