//! The replacement of `ring.rs` in a build without the feature: each function returns an error that names the missing feature.

use std::sync::Arc;

use quinn_proto::crypto;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::SecurityError;

pub(super) fn provider() -> Result<Arc<CryptoProvider>, SecurityError> {
    Err(SecurityError::NoCryptography)
}

pub(super) fn self_signed()
-> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), SecurityError> {
    Err(SecurityError::NoCryptography)
}

pub(super) fn endpoint() -> Result<quinn_proto::EndpointConfig, SecurityError> {
    Err(SecurityError::NoCryptography)
}

pub(super) fn client_crypto(
    _: rustls::ClientConfig,
) -> Result<Arc<dyn crypto::ClientConfig>, SecurityError> {
    Err(SecurityError::NoCryptography)
}

pub(super) fn server_crypto(
    _: rustls::ServerConfig,
) -> Result<Arc<dyn crypto::ServerConfig>, SecurityError> {
    Err(SecurityError::NoCryptography)
}

pub(super) fn server(
    _: Arc<dyn crypto::ServerConfig>,
) -> Result<quinn_proto::ServerConfig, SecurityError> {
    Err(SecurityError::NoCryptography)
}
