//! The authentication of both sides: the side that serves shows a certificate that was made for one row, and the other side accepts no
//! other.
//!
//! The two sides agree on certificate and key over the control connection. The key is part of the application protocol's
//! name, so that a connection of another program fails before it reaches the test.

use std::sync::Arc;

use nd_base::errors::{Failure, Result};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};

use crate::perf::messages::Key;

/// The name in the certificate. It is not checked.
pub(super) const NAME: &str = "nd-perf";

/// The fastest cipher on processors that have instructions for AES.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![TLS13_AES_128_GCM_SHA256],
        ..ring::default_provider()
    })
}

fn explain(error: impl std::error::Error) -> Failure {
    Failure::new(
        format!("cannot set up TLS for a stream to compare with: {error}"),
        "leave out --baseline quic",
    )
}

fn protocols(key: Key) -> Vec<Vec<u8>> {
    vec![[NAME.as_bytes(), key.as_slice()].concat()]
}

/// A new certificate, and what the side that serves needs to show it.
pub(super) fn server(key: Key) -> Result<(Vec<u8>, QuicServerConfig)> {
    let pair = KeyPair::generate_for(&PKCS_ED25519).map_err(explain)?;
    let params = CertificateParams::new(vec![NAME.to_owned()]).map_err(explain)?;
    let certificate = params.self_signed(&pair).map_err(explain)?.der().clone();
    let private = PrivateKeyDer::Pkcs8(pair.serialize_der().into());
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(explain)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], private)
        .map_err(explain)?;
    config.alpn_protocols = protocols(key);
    let config = QuicServerConfig::try_from(config).map_err(explain)?;
    Ok((certificate.to_vec(), config))
}

/// The configuration with which the other side accepts this certificate, and no other.
pub(super) fn client(key: Key, certificate: Vec<u8>) -> Result<QuicClientConfig> {
    let provider = provider();
    let only = OnlyCertificate {
        certificate,
        provider: Arc::clone(&provider),
    };
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(explain)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(only))
        .with_no_client_auth();
    config.alpn_protocols = protocols(key);
    QuicClientConfig::try_from(config).map_err(explain)
}

/// Accepts one certificate.
#[derive(Debug)]
struct OnlyCertificate {
    certificate: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OnlyCertificate {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        if shown.as_ref() == self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        // QUIC has TLS 1.3 only.
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
