//! The thread that makes the system's call for all sets of an adapter, on Windows.
//!
//! What is asked of the system there belongs to the thread that has asked: wine drops it, without a word, when that thread ends. So only this
//! thread asks: other threads leave what they [arm](super::Readiness::arm) in the table, and wake it if it sleeps.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use rdma_buffer::environment;

use super::shared::Shared;

/// The environment variable by which tests on other systems have such a thread.
const VARIABLE: &str = "SOFTND_TEST_READINESS_THREAD";

/// Returns true if the sets need a thread.
pub(super) fn is_needed() -> bool {
    static IS_ASKED_FOR: OnceLock<bool> = OnceLock::new();
    cfg!(windows) || *IS_ASKED_FOR.get_or_init(|| environment::variable(VARIABLE).is_some())
}

/// The thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct PollingThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl PollingThread {
    pub(super) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let for_thread = Arc::clone(shared);
        let thread = thread::Builder::new().name("softnd sockets".into());
        let thread = thread.spawn(move || for_thread.poll_until_over())?;
        Ok(Self {
            shared: Arc::clone(shared),
            thread: Some(thread),
        })
    }
}

impl Drop for PollingThread {
    fn drop(&mut self) {
        self.shared.table.lock().end_the_thread();
        // A panic of the thread has been printed.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn poll_until_over(&self) {
        loop {
            if !self.table.lock().lead_for_good() {
                return;
            }
            // With an error that does not go away this loop would never sleep. Threads that wait make the call instead, and return the error.
            if self.poll(None).is_err() {
                self.table.lock().lose_the_thread();
                return;
            }
        }
    }
}
