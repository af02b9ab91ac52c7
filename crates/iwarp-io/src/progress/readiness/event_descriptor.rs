//! A descriptor by which a program learns that an event waits for it.

use std::io;
#[cfg(not(target_os = "linux"))]
use std::io::{PipeReader, PipeWriter};
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::os::fd::{AsFd, BorrowedFd};

use parking_lot::Mutex;
#[cfg(target_os = "linux")]
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl};

use crate::environment::Environment;
use crate::system_call::named;

/// A descriptor that is readable exactly while it is [raised](Self::set). A program waits for it with poll, select or its own epoll. In a
/// simulated world there is no descriptor, and only the state is kept.
#[derive(Debug)]
pub struct EventDescriptor {
    raised: Mutex<bool>,
    source: Option<Source>,
}

/// An eventfd on Linux, a pipe elsewhere. Neither has `O_NONBLOCK`; a program that wants nonblocking calls sets the flag.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Source(OwnedFd);

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Source(PipeReader, PipeWriter);

#[cfg(target_os = "linux")]
impl Source {
    fn new() -> io::Result<Self> {
        Ok(Self(
            eventfd(0, EventfdFlags::CLOEXEC).map_err(named("eventfd2"))?,
        ))
    }

    fn raise(&self) {
        // The counter is 0, so the write does not block.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

#[cfg(not(target_os = "linux"))]
impl Source {
    fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe().map_err(named("pipe"))?;
        Ok(Self(reader, writer))
    }

    fn raise(&self) {
        // The pipe is empty, so the write does not block.
        let _ = rustix::io::write(&self.1, &[1]);
    }

    fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 1]);
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl EventDescriptor {
    /// A descriptor by which a program learns that an event waits for it.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn in_environment(environment: &Environment) -> io::Result<Self> {
        match environment {
            Environment::System => Self::of_system(),
            Environment::Sim(_) => Ok(Self::simulated()),
        }
    }

    /// A descriptor of the system that is not raised.
    ///
    /// # Errors
    ///
    /// Those of the system, when it has no descriptors left.
    pub fn of_system() -> io::Result<Self> {
        Ok(Self {
            raised: Mutex::default(),
            source: Some(Source::new()?),
        })
    }

    /// Only the state, for a simulated world.
    pub fn simulated() -> Self {
        Self {
            raised: Mutex::default(),
            source: None,
        }
    }

    /// Raises the descriptor if `waits` is true, otherwise lowers it. The caller holds the lock under which it decides if an event waits.
    pub fn set(&self, waits: bool) {
        let mut raised = self.raised.lock();
        if std::mem::replace(&mut *raised, waits) == waits {
            return;
        }
        match &self.source {
            Some(source) if waits => source.raise(),
            // A program that reads the descriptor itself may have emptied it. A read would block then.
            Some(source) if is_readable(source) => source.clear(),
            _ => {}
        }
    }

    /// Returns true while the descriptor is raised.
    pub fn is_raised(&self) -> bool {
        *self.raised.lock()
    }

    /// Returns true if the program has set `O_NONBLOCK` on the descriptor.
    pub fn is_nonblocking(&self) -> bool {
        let flags = self.source.as_ref().map(fcntl_getfl);
        flags.is_some_and(|flags| flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK)))
    }

    /// The descriptor; `None` in a simulated world.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.source.as_ref().map(Source::as_fd)
    }
}

/// Looks at the descriptor without blocking.
fn is_readable(source: &Source) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut watched = [PollFd::new(source, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut watched, Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(descriptor: &EventDescriptor) -> bool {
        descriptor.source.as_ref().is_some_and(is_readable)
    }

    #[test]
    fn the_descriptor_is_readable_exactly_while_it_is_raised() {
        let descriptor = EventDescriptor::of_system().unwrap();
        for waits in [false, true, true, false, false, true, false] {
            descriptor.set(waits);
            assert_eq!(
                (descriptor.is_raised(), readable(&descriptor)),
                (waits, waits)
            );
        }
    }

    #[test]
    fn a_program_that_empties_the_descriptor_does_not_block_us() {
        let descriptor = EventDescriptor::of_system().unwrap();
        descriptor.set(true);
        descriptor.source.as_ref().unwrap().clear();
        descriptor.set(false);
        descriptor.set(true);
        assert!(readable(&descriptor));
    }

    #[test]
    fn the_programs_flag_is_seen() {
        let descriptor = EventDescriptor::of_system().unwrap();
        assert!(!descriptor.is_nonblocking());
        rustix::fs::fcntl_setfl(descriptor.descriptor().unwrap(), OFlags::NONBLOCK).unwrap();
        assert!(descriptor.is_nonblocking());
    }

    #[test]
    fn a_simulated_one_has_the_state_alone() {
        let descriptor = EventDescriptor::simulated();
        descriptor.set(true);
        assert!(descriptor.is_raised() && descriptor.descriptor().is_none());
        assert!(!descriptor.is_nonblocking());
    }
}
