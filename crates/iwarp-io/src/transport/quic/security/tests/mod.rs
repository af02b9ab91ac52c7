mod files;
mod fingerprint;
mod frames;
mod handshake;
mod peers;
mod pump;
mod reason;
mod replay;
mod settings;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, PKCS_ED25519, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;

use super::*;

/// An authority that signs certificates, with its file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    name: String,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        Self::named(&format!("authority {}", NUMBER.fetch_add(1, Relaxed)))
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let certificate = pem("CERTIFICATE", issuer.der());
        fs::write(folder.path().join("ca.pem"), certificate).unwrap();
        let name = name.to_owned();
        Self {
            issuer,
            name,
            folder,
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// The file with the authority's certificate.
    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Trust in all certificates that the authority has signed.
    fn trust(&self) -> Trust {
        Trust::own_process().authorities(self.file()).unwrap()
    }

    /// The authority's own certificate, as credentials.
    fn itself(&self) -> Credentials {
        let certificate = self.issuer.der().clone();
        Credentials::new(vec![certificate], der(self.issuer.key())).unwrap()
    }

    /// Signs a certificate for these names, valid in these years, of which the last is not included.
    fn sign(&self, names: &[&str], years: (i32, i32)) -> Credentials {
        self.sign_for(names, years, &[])
    }

    /// Like `sign`, for these uses only.
    fn sign_for(
        &self,
        names: &[&str],
        (first, end): (i32, i32),
        uses: &[ExtendedKeyUsagePurpose],
    ) -> Credentials {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(first, 1, 1);
        params.not_after = date_time_ymd(end, 1, 1);
        params.extended_key_usages = uses.to_vec();
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Credentials::new(vec![certificate.der().clone()], der(&key)).unwrap()
    }
}

/// A range of years that contains the year of every clock.
const NOW: (i32, i32) = (1980, 4000);

/// A key in DER.
fn der(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(key.serialized_der().to_vec()).into()
}

/// A new self-signed certificate, and its key.
fn self_signed() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    provider::self_signed().unwrap()
}

/// A section of PEM (RFC 7468).
fn pem(label: &str, octets: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut digits = String::new();
    for three in octets.chunks(3) {
        let bits = (0..3).fold(0, |bits, i| {
            bits << 8 | usize::from(*three.get(i).unwrap_or(&0))
        });
        for i in 0..4 {
            let digit = char::from(DIGITS[bits >> (18 - 6 * i) & 63]);
            digits.push(if i <= three.len() { digit } else { '=' });
        }
    }
    let lines: Vec<_> = digits.as_bytes().chunks(64).collect();
    let lines = lines.iter().map(|line| str::from_utf8(line).unwrap());
    let lines: Vec<_> = lines.collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}
