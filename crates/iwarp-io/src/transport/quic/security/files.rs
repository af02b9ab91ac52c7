//! Certificates and keys in files, as PEM or DER.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;

use super::error::SecurityError;
use super::words;
use crate::bounded_file;

/// The beginning of every section of PEM.
const BEGIN: &str = "-----BEGIN ";

/// The certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let octets = read(path)?;
    let wrong = |problem: String| SecurityError::file(path, problem);
    let Some(sections) = sections(&octets) else {
        let certificate = CertificateDer::from(octets);
        return match ParsedCertificate::try_from(&certificate) {
            Ok(_) => Ok(vec![certificate]),
            Err(_) => Err(wrong(
                "holds neither certificates as PEM (`-----BEGIN CERTIFICATE-----`) nor a certificate as DER".to_owned(),
            )),
        };
    };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&octets).collect();
    let found = found.map_err(|error| wrong(damaged(&error)))?;
    if found.is_empty() {
        return Err(wrong(format!("holds no certificate, but {sections}")));
    }
    Ok(found)
}

/// The key of a file.
pub(super) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, SecurityError> {
    let octets = read(path)?;
    let wrong = |problem: String| SecurityError::file(path, problem);
    let Some(sections) = sections(&octets) else {
        return PrivateKeyDer::try_from(octets).map_err(|_| {
            wrong(
                "holds neither a private key as PEM (`-----BEGIN PRIVATE KEY-----`) nor one as DER"
                    .to_owned(),
            )
        });
    };
    PrivateKeyDer::from_pem_slice(&octets).map_err(|error| {
        // Both forms of encrypted keys have this word in their text.
        if octets.windows(9).any(|word| word == b"ENCRYPTED") {
            return wrong(
                "the private key is encrypted: decrypt it first (`openssl pkey -in KEY -out NEW_KEY`)".to_owned(),
            );
        }
        match error {
            pem::Error::NoItemsFound => wrong(format!("holds no private key, but {sections}")),
            error => wrong(damaged(&error)),
        }
    })
}

/// The certificates of authorities of a file, at least one.
pub(super) fn authorities(path: &Path) -> Result<RootCertStore, SecurityError> {
    let mut roots = RootCertStore::empty();
    for (number, certificate) in (1..).zip(certificates(path)?) {
        roots.add(certificate).map_err(|error| {
            SecurityError::file(
                path,
                format!(
                    "certificate {number} cannot be used: {}",
                    words::of_error(&error)
                ),
            )
        })?;
    }
    Ok(roots)
}

fn read(path: &Path) -> Result<Vec<u8>, SecurityError> {
    bounded_file::read(path)
        .map_err(|error| SecurityError::file(path, format!("cannot be read: {error}")))
}

/// The names of the sections of PEM in a file. `None` if the file is not PEM.
fn sections(octets: &[u8]) -> Option<String> {
    const SHOWN: usize = 5;
    let text = String::from_utf8_lossy(octets);
    let labels = text.lines().filter_map(|line| {
        let label = line.trim().strip_prefix(BEGIN)?;
        Some(format!("{:?}", label.trim_end_matches('-')))
    });
    let labels: Vec<_> = labels.take(SHOWN).collect();
    (!labels.is_empty()).then(|| labels.join(", "))
}

fn damaged(error: &pem::Error) -> String {
    let what = match error {
        pem::Error::MissingSectionEnd { .. } => "the line `-----END …` of a section is missing",
        pem::Error::IllegalSectionStart { .. } => {
            "a line that begins a section has no `-----` at its end"
        }
        pem::Error::Base64Decode(_) => "a section holds something else than Base64",
        pem::Error::SectionTooLarge => "a section has more than 256 MB",
        // A file of PEM always has a section, and its reading is not left to the library.
        _ => "it cannot be read",
    };
    format!("the PEM is damaged: {what}; copy the file again, or have it made anew")
}
