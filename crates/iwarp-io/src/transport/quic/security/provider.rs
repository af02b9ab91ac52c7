//! The cryptography of the library `ring`, for rustls, for quinn-proto and for new certificates.

use std::sync::Arc;

use quinn_proto::crypto;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519, SerialNumber};
use rustls::CipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::error::SecurityError;

fn failed(error: impl ToString) -> SecurityError {
    SecurityError::Cryptography(error.to_string())
}

/// The provider of rustls.
pub(super) fn provider() -> Result<Arc<CryptoProvider>, SecurityError> {
    let mut provider = rustls::crypto::ring::default_provider();
    // The fastest one first; rustls prefers longer keys.
    let fastest = CipherSuite::TLS13_AES_128_GCM_SHA256;
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != fastest);
    Ok(Arc::new(provider))
}

/// A new self-signed certificate for Ed25519, and its key in PKCS #8. Every part of the certificate has the same length in
/// all of them.
pub(super) fn self_signed()
-> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), SecurityError> {
    let key = KeyPair::generate_for(&PKCS_ED25519).map_err(failed)?;
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "iWARP over QUIC");
    params.distinguished_name = name;
    // DER leaves out the zeros at the beginning of a number. The first octet is neither 0 nor negative.
    let mut serial = [0x40; 16];
    serial[1..].copy_from_slice(&key.public_key_raw()[..15]);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let certificate = params.self_signed(&key).map_err(failed)?;
    let key = PrivatePkcs8KeyDer::from(key.serialized_der().to_vec());
    Ok((certificate.der().clone(), key.into()))
}

/// The settings of an endpoint, with a new key for stateless resets.
pub(super) fn endpoint() -> Result<quinn_proto::EndpointConfig, SecurityError> {
    Ok(quinn_proto::EndpointConfig::default())
}

/// The cryptography of clients with this TLS.
pub(super) fn client_crypto(
    tls: rustls::ClientConfig,
) -> Result<Arc<dyn crypto::ClientConfig>, SecurityError> {
    let tls = QuicClientConfig::try_from(tls).map_err(failed)?;
    Ok(Arc::new(tls))
}

/// The cryptography of servers with this TLS.
pub(super) fn server_crypto(
    tls: rustls::ServerConfig,
) -> Result<Arc<dyn crypto::ServerConfig>, SecurityError> {
    let tls = QuicServerConfig::try_from(tls).map_err(failed)?;
    Ok(Arc::new(tls))
}

/// The settings of servers with this cryptography, and with a new key for the tokens by which addresses are validated.
pub(super) fn server(
    crypto: Arc<dyn crypto::ServerConfig>,
) -> Result<quinn_proto::ServerConfig, SecurityError> {
    Ok(quinn_proto::ServerConfig::with_crypto(crypto))
}
