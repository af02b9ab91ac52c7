//! Certificates and trust in a build without the feature `udp`: their names, for programs that choose the transport at run time. No
//! connection over UDP can be made there, so nothing here is ever asked to protect one.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;

use super::error::SecurityError;
use super::fingerprint::Fingerprint;
use super::key_log::KeyLog;

/// A certificate with its key; a type without values.
#[derive(Clone, Debug)]
pub struct NoCredentials(Infallible);

impl NoCredentials {
    /// Fails.
    ///
    /// # Errors
    ///
    /// [`SecurityError::NoUdp`].
    pub fn of_process() -> Result<Self, SecurityError> {
        Err(SecurityError::NoUdp)
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// [`SecurityError::NoUdp`].
    pub fn generate() -> Result<Self, SecurityError> {
        Err(SecurityError::NoUdp)
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// [`SecurityError::NoUdp`].
    pub fn generate_text() -> Result<(Self, String), SecurityError> {
        Err(SecurityError::NoUdp)
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// [`SecurityError::NoUdp`].
    pub fn from_text(_: &str) -> Result<Self, SecurityError> {
        Err(SecurityError::NoUdp)
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// [`SecurityError::NoUdp`].
    pub fn from_files(_: impl AsRef<Path>, _: impl AsRef<Path>) -> Result<Self, SecurityError> {
        Err(SecurityError::NoUdp)
    }

    /// The fingerprint of the certificate, of which there is none.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        match self.0 {}
    }
}

/// The certificates of peers that are accepted. There are no peers over UDP.
#[derive(Clone, Debug, Default)]
pub struct NoTrust(());

impl NoTrust {
    /// Trust in nobody.
    #[must_use]
    pub fn own_process() -> Self {
        Self::default()
    }

    /// Does nothing.
    #[must_use]
    pub fn pin(self, _: Fingerprint) -> Self {
        self
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// [`SecurityError::NoUdp`].
    pub fn authorities(self, _: impl AsRef<Path>) -> Result<Self, SecurityError> {
        Err(SecurityError::NoUdp)
    }
}

/// The certificates and trust of an adapter over UDP, which cannot be opened.
#[derive(Clone, Debug, Default)]
pub struct NoSecurity(());

impl NoSecurity {
    /// Does nothing, as there are no credentials.
    #[must_use]
    pub fn credentials(self, credentials: NoCredentials) -> Self {
        match credentials.0 {}
    }

    /// Does nothing.
    #[must_use]
    pub fn trust_servers(self, _: NoTrust) -> Self {
        self
    }

    /// Does nothing.
    #[must_use]
    pub fn insecure(self) -> Self {
        self
    }

    /// Does nothing.
    #[must_use]
    pub fn demand_client_certificate(self, _: NoTrust) -> Self {
        self
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// [`SecurityError::NoUdp`].
    pub fn server_name(self, _: &str) -> Result<Self, SecurityError> {
        Err(SecurityError::NoUdp)
    }

    /// Does nothing.
    #[must_use]
    pub fn key_log(self, _: KeyLog) -> Self {
        self
    }

    /// Does nothing.
    #[must_use]
    pub fn on_failure(self, _: impl Fn(SocketAddr, &str) + Send + Sync + 'static) -> Self {
        self
    }

    /// Fails.
    ///
    /// # Errors
    ///
    /// [`SecurityError::NoUdp`].
    pub fn fingerprint(&self) -> Result<Fingerprint, SecurityError> {
        Err(SecurityError::NoUdp)
    }
}
