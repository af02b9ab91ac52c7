//! The checks of the peer's certificate during the handshake.
//!
//! The peer's signature, which proves that it has the key of its certificate, is checked in every case, by rustls' provider.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};

use super::credentials::Credentials;
use super::error::SecurityError;
use super::fingerprint::Fingerprint;
use super::trust::Trust;
use super::words;

/// The part that the verifiers of servers and of clients share: the provider checks the peer's signature.
macro_rules! checks_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, cert, dss, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, cert, dss, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

/// The certificates that are accepted whatever they contain.
#[derive(Debug)]
struct Accepted(Vec<Fingerprint>);

impl Accepted {
    fn new(trust: &Trust, own: &Credentials) -> Result<Self, SecurityError> {
        let mut accepted = trust.pinned().to_vec();
        accepted.push(own.fingerprint());
        accepted.push(Credentials::of_process()?.fingerprint());
        Ok(Self(accepted))
    }

    /// Returns true if a certificate is accepted, and its fingerprint.
    fn has(&self, certificate: &CertificateDer<'_>) -> (bool, Fingerprint) {
        let fingerprint = Fingerprint::from_certificate(certificate);
        (self.0.contains(&fingerprint), fingerprint)
    }
}

/// Checks the certificates of servers.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    /// `None`: every server is accepted.
    accepted: Option<Accepted>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    /// `trust` is `None` if every server is accepted.
    pub(super) fn new(
        trust: Option<&Trust>,
        own: &Credentials,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, SecurityError> {
        let authorities = trust.and_then(Trust::roots).map(|roots| {
            WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone())
                .build()
                .map_err(|error| SecurityError::Cryptography(error.to_string()))
        });
        Ok(Self {
            accepted: trust.map(|trust| Accepted::new(trust, own)).transpose()?,
            authorities: authorities.transpose()?,
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(accepted) = &self.accepted else {
            return Ok(ServerCertVerified::assertion());
        };
        let (is_accepted, fingerprint) = accepted.has(end_entity);
        if is_accepted {
            return Ok(ServerCertVerified::assertion());
        }
        let Some(authorities) = &self.authorities else {
            return Err(refused(format!(
                "the server shows the certificate {fingerprint}, which is not trusted: if that is what the server printed, \
                 pin it; or give the CA that signed it"
            )));
        };
        authorities
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .map_err(|error| {
                refused(format!(
                    "the server shows the certificate {fingerprint}, which is not pinned and not valid by the given CA \
                     ({}): if that is what the server printed, pin it; or give the server a valid certificate",
                    words::of_error(&error)
                ))
            })
    }

    checks_signatures!();
}

/// Demands certificates of clients, and checks them.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    accepted: Accepted,
    authorities: Option<Arc<dyn ClientCertVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientVerifier {
    pub(super) fn new(
        trust: &Trust,
        own: &Credentials,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, SecurityError> {
        let authorities = trust.roots().map(|roots| {
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
                .build()
                .map_err(|error| SecurityError::Cryptography(error.to_string()))
        });
        Ok(Self {
            accepted: Accepted::new(trust, own)?,
            authorities: authorities.transpose()?,
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ClientCertVerifier for ClientVerifier {
    /// No hints, so that a client shows its certificate even if an unknown authority has signed it: the certificate may be pinned.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let (is_accepted, fingerprint) = self.accepted.has(end_entity);
        if is_accepted {
            return Ok(ClientCertVerified::assertion());
        }
        let Some(authorities) = &self.authorities else {
            return Err(refused(format!(
                "the client shows the certificate {fingerprint}, which this server does not trust: pin it at the server, or \
                 give the server the CA that signed it"
            )));
        };
        authorities
            .verify_client_cert(end_entity, intermediates, now)
            .map_err(|error| {
                refused(format!(
                    "the client shows the certificate {fingerprint}, which the server has not pinned and which is not valid \
                     by the server's CA ({}): pin it at the server, or give the client a valid certificate",
                    words::of_error(&error)
                ))
            })
    }

    checks_signatures!();
}

/// The error that ends the handshake with the alert certificate_unknown, and with this text as the reason.
fn refused(text: String) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Refusal(text)))))
}

/// The reason why a certificate is refused.
struct Refusal(String);

/// The text itself, because rustls shows only this form.
impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}
