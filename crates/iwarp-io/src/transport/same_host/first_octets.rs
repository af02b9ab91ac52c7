//! A connection that has just been made.

use std::io;

/// The octets of a connection before its first frame, and its send buffer, which is empty.
pub trait FirstOctets {
    /// Reads octets without taking them.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, and those of the connection.
    fn peek_at(&self, into: &mut [u8]) -> io::Result<usize>;

    /// Takes octets.
    ///
    /// # Errors
    ///
    /// As for [`peek_at`](Self::peek_at).
    fn take(&self, into: &mut [u8]) -> io::Result<usize>;

    /// Sends octets, and returns how many.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    fn send(&self, octets: &[u8]) -> io::Result<usize>;
}
