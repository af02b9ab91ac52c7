//! Peers of other implementations.

use std::sync::Arc;

use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::verify::ServerVerifier;
use super::{Credentials, provider};

/// The TLS of a client that trusts every server, as another program may have it.
pub(super) fn tls_of_client(
    alpn: &[&[u8]],
    certified: Option<CertifiedKey>,
) -> rustls::ClientConfig {
    let provider = provider::provider().unwrap();
    let own = Credentials::of_process().unwrap();
    let verifier = ServerVerifier::new(None, &own, &provider).unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut tls = match certified {
        None => builder.with_no_client_auth(),
        Some(certified) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
        }
    };
    tls.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    tls
}

/// The TLS of a server, as another program may have it.
pub(super) fn tls_of_server(alpn: &[&[u8]], certified: CertifiedKey) -> rustls::ServerConfig {
    let mut tls = rustls::ServerConfig::builder_with_provider(provider::provider().unwrap())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    tls.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    tls
}
