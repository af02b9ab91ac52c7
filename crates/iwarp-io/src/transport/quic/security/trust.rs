//! The certificates of peers that are accepted.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;

use super::error::SecurityError;
use super::files;
use super::fingerprint::Fingerprint;

/// The certificates of peers that are accepted: always this process's [own](super::Credentials::of_process) and the one that the adapter
/// shows itself, because a peer that has their keys is this process or acts for its owner. Then those that are named here.
///
/// The peer must prove in every case that it has the key of its certificate.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    pinned: Vec<Fingerprint>,
    authorities: Option<Arc<RootCertStore>>,
}

impl Trust {
    /// Trusts only this process and holders of the adapter's own key.
    #[must_use]
    pub fn own_process() -> Self {
        Self::default()
    }

    /// Trusts this certificate too. Names and the period of validity in a pinned certificate do not matter.
    #[must_use]
    pub fn pin(mut self, fingerprint: Fingerprint) -> Self {
        self.pinned.push(fingerprint);
        self
    }

    /// Also trusts all certificates that an authority of this file has signed, directly or by way of others, for as long as they are valid.
    /// The file is PEM with one or more certificates, or DER with one. A second call adds to the first.
    ///
    /// # Errors
    ///
    /// [`SecurityError::File`].
    pub fn authorities(mut self, file: impl AsRef<Path>) -> Result<Self, SecurityError> {
        let mut roots = files::authorities(file.as_ref())?;
        if let Some(known) = &self.authorities {
            roots.roots.extend_from_slice(&known.roots);
        }
        self.authorities = Some(Arc::new(roots));
        Ok(self)
    }

    pub(super) fn pinned(&self) -> &[Fingerprint] {
        &self.pinned
    }

    pub(super) fn roots(&self) -> Option<&Arc<RootCertStore>> {
        self.authorities.as_ref()
    }
}
