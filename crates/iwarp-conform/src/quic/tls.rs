//! The trust between the two sides of a QUIC connection.

use std::io;
use std::sync::Arc;

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Whether a target is trusted that shows this certificate, which is DER.
pub type Trusts = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// The protocol that both sides have to agree on.
const ALPN: &[u8] = b"iwarp/1";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The configuration by which the suite connects to a trusted target.
pub(super) fn client(trusts: Trusts) -> io::Result<Arc<QuicClientConfig>> {
    let provider = provider();
    let verifier = Verifier {
        trusts,
        provider: Arc::clone(&provider),
    };
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let config = QuicClientConfig::try_from(config).map_err(io::Error::other)?;
    Ok(Arc::new(config))
}

/// A new certificate, and what the suite needs to show it.
pub(super) fn server() -> io::Result<(Vec<u8>, Arc<QuicServerConfig>)> {
    let pair = KeyPair::generate().map_err(io::Error::other)?;
    let params = CertificateParams::new(vec!["iwarp-conform".to_owned()]);
    let params = params.map_err(io::Error::other)?;
    let certificate = params.self_signed(&pair).map_err(io::Error::other)?;
    let certificate = certificate.der().clone();
    let private = PrivateKeyDer::Pkcs8(pair.serialize_der().into());
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], private)
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    let config = QuicServerConfig::try_from(config).map_err(io::Error::other)?;
    Ok((certificate.to_vec(), Arc::new(config)))
}

/// Accepts the certificates that the user trusts.
struct Verifier {
    trusts: Trusts,
    provider: Arc<CryptoProvider>,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if (self.trusts)(shown) {
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
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC has TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
