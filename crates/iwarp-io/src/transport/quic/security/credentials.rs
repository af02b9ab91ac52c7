//! A certificate with its key.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

use super::error::SecurityError;
use super::files;
use super::fingerprint::Fingerprint;
use super::provider;
use super::words;

/// A chain of certificates and the key of the first of them, by which a peer identifies this side.
#[derive(Clone)]
pub struct Credentials {
    certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl Credentials {
    /// The credentials that this process makes for itself at the first call, and keeps until it ends. They are never written to a file.
    ///
    /// # Errors
    ///
    /// [`SecurityError::Cryptography`] when the system has no random numbers.
    pub fn of_process() -> Result<Self, SecurityError> {
        static MADE: Mutex<Option<Credentials>> = Mutex::new(None);
        let mut made = MADE.lock();
        if let Some(made) = &*made {
            return Ok(made.clone());
        }
        Ok(made.insert(Self::generate()?).clone())
    }

    /// A new self-signed certificate with a key for Ed25519. All such certificates have the same length.
    ///
    /// # Errors
    ///
    /// Those of [`of_process`](Self::of_process).
    pub fn generate() -> Result<Self, SecurityError> {
        let (certificate, key) = provider::self_signed()?;
        Self::new(vec![certificate], key)
    }

    /// As [`generate`](Self::generate), with the text from which other processes [take](Self::from_text) them. It has the private key.
    ///
    /// # Errors
    ///
    /// Those of [`of_process`](Self::of_process).
    pub fn generate_text() -> Result<(Self, String), SecurityError> {
        let (certificate, key) = provider::self_signed()?;
        let text = format!("{}:{}", hex(&certificate), hex(key.secret_der()));
        Ok((Self::new(vec![certificate], key)?, text))
    }

    /// The credentials of a text of [`generate_text`](Self::generate_text).
    ///
    /// # Errors
    ///
    /// [`SecurityError::Credentials`] if the text is of another form.
    pub fn from_text(text: &str) -> Result<Self, SecurityError> {
        let parts = text.split_once(':');
        let parts = parts.and_then(|(certificate, key)| Some((octets(certificate)?, octets(key)?)));
        let Some((certificate, key)) = parts else {
            return Err(SecurityError::Credentials(
                "the text is not that of a certificate and its key".to_owned(),
            ));
        };
        let key = PrivatePkcs8KeyDer::from(key);
        Self::new(vec![certificate.into()], key.into())
    }

    /// The credentials in two files, each in PEM or DER. The file of certificates begins with the end-entity certificate. As PEM it may
    /// continue with the certificates that lead to its authority, and both files may be the same.
    ///
    /// # Errors
    ///
    /// [`SecurityError::File`], which names the file, and [`SecurityError::Credentials`] if the key is not the certificate's or is
    /// of an unknown kind.
    pub fn from_files(
        certificates: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, SecurityError> {
        let (of_certificates, of_key) = (certificates.as_ref(), key.as_ref());
        let (chain, key) = (files::certificates(of_certificates)?, files::key(of_key)?);
        Self::new(chain, key).map_err(|error| match error {
            SecurityError::Credentials(problem) => SecurityError::Credentials(format!(
                "certificate {} and private key {}: {problem}",
                of_certificates.display(),
                of_key.display()
            )),
            error => error,
        })
    }

    /// The credentials of a chain of certificates, which begins with the end-entity certificate, and of that certificate's key.
    ///
    /// # Errors
    ///
    /// [`SecurityError::Credentials`] if they do not belong together or cannot be used.
    pub(super) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, SecurityError> {
        let provider = provider::provider()?;
        let Some(first) = chain.first() else {
            return Err(SecurityError::Credentials(
                "there is no certificate".to_owned(),
            ));
        };
        let fingerprint = Fingerprint::from_certificate(first);
        let problem = |error| {
            SecurityError::Credentials(match error {
                Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                    "the key is not the one of the certificate".to_owned()
                }
                Error::InvalidCertificate(error) => {
                    let words = words::of_certificate(&error);
                    format!("the certificate cannot be used: {words}")
                }
                // The library has one message for all keys that it does not accept.
                _ => "the key is damaged, or of a kind that is not known here (known are Ed25519, ECDSA with P-256 and P-384, and RSA)"
                    .to_owned(),
            })
        };
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(problem)?;
        Ok(Self {
            certified: Arc::new(certified),
            fingerprint,
        })
    }

    /// The fingerprint of the end-entity certificate.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(super) fn certified(&self) -> Arc<CertifiedKey> {
        self.certified.clone()
    }
}

/// Leaves out the key.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Credentials")
            .field(&self.fingerprint)
            .finish()
    }
}

fn hex(octets: &[u8]) -> String {
    use std::fmt::Write as _;

    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// The octets of hexadecimal digits.
fn octets(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.chunks_exact(2).map(std::str::from_utf8);
    pairs
        .map(|pair| u8::from_str_radix(pair.ok()?, 16).ok())
        .collect()
}
