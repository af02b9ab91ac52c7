//! An accepted stream until the first octets of its Initiator, for owners that start their endpoint only then.
//!
//! The Initiator sends its ready-to-receive message once it has the Reply. If it has given the attempt up meanwhile, as it may where both
//! sides connect at once, the stream ends without an octet. An endpoint that was started before could not start on another stream.

use std::io;
use std::sync::{Arc, Weak};

use super::mpa_startup::StartupOwner;
use crate::driver::Driver;
use crate::progress::Edges;
use crate::progress::domain::Source;
use crate::transport::stream::Stream;

/// The news of a stream whose first octets are awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing has arrived.
    Nothing,
    /// Octets have arrived.
    Octets,
    /// The stream has ended without an octet.
    End,
}

/// A stream whose first octets are awaited, in the domain where connections are made. Dropping it resets the stream.
#[derive(Debug)]
pub struct AwaitedFpdu {
    driver: Arc<Driver>,
    /// With its place in the domain; taken once.
    stream: Option<(Stream, u64)>,
}

impl AwaitedFpdu {
    /// Watches a stream on behalf of `owner`.
    ///
    /// # Errors
    ///
    /// Those of the system, when it cannot watch one more stream; the stream is reset then.
    pub fn watch(
        stream: Stream,
        driver: &Arc<Driver>,
        owner: Weak<dyn StartupOwner>,
    ) -> io::Result<Self> {
        let source: Weak<dyn Source> = owner;
        let token = match driver.control.add(&stream, source, Edges::READ) {
            Ok(token) => token,
            Err(error) => {
                stream.reset();
                return Err(error);
            }
        };
        Ok(Self {
            driver: Arc::clone(driver),
            stream: Some((stream, token)),
        })
    }

    /// The stream may be ready.
    pub fn ready(&self) -> Heard {
        let Some((stream, _)) = &self.stream else {
            return Heard::End;
        };
        match stream.peek() {
            Ok(0) => Heard::End,
            Ok(_) => Heard::Octets,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !stream.is_held(Edges::READ) {
                    self.driver.control.arm(stream, Edges::READ);
                }
                Heard::Nothing
            }
            Err(_) => Heard::End,
        }
    }

    /// Takes the stream out of the domain. `None` if that was done before.
    pub fn take(mut self) -> Option<Stream> {
        self.take_stream()
    }

    fn take_stream(&mut self) -> Option<Stream> {
        let (stream, token) = self.stream.take()?;
        self.driver.control.remove(&stream, token);
        Some(stream)
    }
}

impl Drop for AwaitedFpdu {
    fn drop(&mut self) {
        if let Some(stream) = self.take_stream() {
            stream.reset();
        }
    }
}
