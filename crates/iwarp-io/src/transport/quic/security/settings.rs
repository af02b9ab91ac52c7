//! The certificates and trust of one adapter.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use quinn_proto::crypto;
use rustls::NoKeyLog;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::server::{NoClientAuth, NoServerSessionStorage};
use rustls::sign::SingleCertAndKey;

use super::credentials::Credentials;
use super::error::SecurityError;
use super::fingerprint::Fingerprint;
use super::key_log::{KeyLog, TlsKeyLog};
use super::provider;
use super::trust::Trust;
use super::verify::{ClientVerifier, ServerVerifier};

/// The protocol that both sides name during the handshake (RFC 7301).
pub(in super::super) const ALPN: &[u8] = b"iwarp/1";

/// QUIC version 1 (RFC 9000).
const QUIC_VERSION: u32 = 1;

/// The certificates and trust of one adapter.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iwarp_io::transport::quic::security::{Credentials, Security, Trust};
///
/// // A server that lets in clients of one authority only:
/// let server = Security::default()
///     .credentials(Credentials::from_files("server.pem", "server.key")?)
///     .demand_client_certificate(Trust::own_process().authorities("clients-ca.pem")?);
/// println!("the server shows {}", server.fingerprint()?);
///
/// // A client that trusts one server:
/// let fingerprint = "sha256:5f78c33274e43fa9de5659265c1d917e25c03722dcb0b8d27db8d5feaa813953".parse()?;
/// let client = Security::default().trust_servers(Trust::own_process().pin(fingerprint));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Security {
    /// `None`: the process's.
    credentials: Option<Credentials>,
    /// `None`: every server.
    servers: Option<Trust>,
    /// `None`: every client, without a certificate.
    clients: Option<Trust>,
    /// `None`: the address that the client connects to.
    server_name: Option<String>,
    key_log: Option<KeyLog>,
    on_failure: OnFailure,
}

type FailureReport = dyn Fn(SocketAddr, &str) + Send + Sync;

/// The function that is called when a connection has failed.
#[derive(Clone, Default)]
pub(in super::super) struct OnFailure(Option<Arc<FailureReport>>);

impl OnFailure {
    /// Reports that the connection with this peer has failed, and why.
    pub(in super::super) fn call(&self, peer: SocketAddr, why: &str) {
        if let Some(report) = &self.0 {
            report(peer, why);
        }
    }
}

impl fmt::Debug for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Some" } else { "None" })
    }
}

impl Default for Security {
    fn default() -> Self {
        Self {
            credentials: None,
            servers: Some(Trust::own_process()),
            clients: None,
            server_name: None,
            key_log: None,
            on_failure: OnFailure::default(),
        }
    }
}

impl Security {
    /// The certificate that the adapter shows to clients, and to servers that demand one. Default: [`Credentials::of_process`].
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// The servers that the adapter connects to. Default: [`Trust::own_process`].
    #[must_use]
    pub fn trust_servers(mut self, trust: Trust) -> Self {
        self.servers = Some(trust);
        self
    }

    /// Connects to every server, whatever certificate it shows: any host on the path can take the server's place. For tests.
    #[must_use]
    pub fn insecure(mut self) -> Self {
        self.servers = None;
        self
    }

    /// Accepts only clients that show a trusted certificate. Default: accepts every client, and asks for no certificate.
    #[must_use]
    pub fn demand_client_certificate(mut self, trust: Trust) -> Self {
        self.clients = Some(trust);
        self
    }

    /// The DNS name, or IP address, that a server's certificate must be valid for if an authority decides. The server learns a DNS name
    /// before the connection is encrypted (SNI, RFC 6066 §3). Default: the IP address that is connected to.
    ///
    /// # Errors
    ///
    /// [`SecurityError::ServerName`].
    pub fn server_name(mut self, name: &str) -> Result<Self, SecurityError> {
        if ServerName::try_from(name).is_err() {
            return Err(SecurityError::ServerName(name.to_owned()));
        }
        self.server_name = Some(name.to_owned());
        Ok(self)
    }

    /// Writes the keys of all connections to this file, for programs that decrypt captures. A reader of the file can decrypt the
    /// connections. Default: no keys are written, whatever the environment says; [`KeyLog::from_environment`] reads `SSLKEYLOGFILE`.
    #[must_use]
    pub fn key_log(mut self, key_log: KeyLog) -> Self {
        self.key_log = Some(key_log);
        self
    }

    /// Calls `report` with the peer's address and the reason in words when a connection fails for a reason that a person should act on, above
    /// all a certificate that is not trusted. The call comes before the Connect that fails completes. The log has the same text, but at
    /// most once a minute. Default: no call.
    ///
    /// `report` is called while the adapter's UDP socket is locked: it must return soon, and must not use the adapter.
    #[must_use]
    pub fn on_failure(mut self, report: impl Fn(SocketAddr, &str) + Send + Sync + 'static) -> Self {
        self.on_failure = OnFailure(Some(Arc::new(report)));
        self
    }

    pub(in super::super) fn failure_report(&self) -> OnFailure {
        self.on_failure.clone()
    }

    /// The fingerprint of the certificate that the adapter shows, for others to pin.
    ///
    /// # Errors
    ///
    /// Those of [`Credentials::of_process`].
    pub fn fingerprint(&self) -> Result<Fingerprint, SecurityError> {
        Ok(self.shown()?.fingerprint())
    }

    /// The name with which to connect to `remote` (`quinn_proto::Endpoint::connect`).
    pub(in super::super) fn name_of(&self, remote: IpAddr) -> String {
        let address = || remote.to_canonical().to_string();
        self.server_name.clone().unwrap_or_else(address)
    }

    /// The settings of an endpoint of QUIC, for clients and servers: version 1 only, and a new key for stateless resets.
    ///
    /// # Errors
    ///
    /// None with the cryptography that is built in.
    #[doc(hidden)]
    pub fn endpoint_config(&self) -> Result<quinn_proto::EndpointConfig, SecurityError> {
        let mut config = provider::endpoint()?;
        config.supported_versions(vec![QUIC_VERSION]);
        Ok(config)
    }

    /// The settings of connections to servers.
    ///
    /// # Errors
    ///
    /// Those of [`Credentials::of_process`].
    #[doc(hidden)]
    pub fn client_config(&self) -> Result<quinn_proto::ClientConfig, SecurityError> {
        Ok(quinn_proto::ClientConfig::new(self.client_crypto()?))
    }

    /// The cryptography of connections to servers.
    pub(in super::super) fn client_crypto(
        &self,
    ) -> Result<Arc<dyn crypto::ClientConfig>, SecurityError> {
        provider::client_crypto(self.client_tls()?)
    }

    /// The TLS of connections to servers.
    pub(super) fn client_tls(&self) -> Result<rustls::ClientConfig, SecurityError> {
        let (provider, own) = (provider::provider()?, self.shown()?);
        let verifier = ServerVerifier::new(self.servers.as_ref(), &own, &provider)?;
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| SecurityError::Cryptography(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own.certified())));
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.resumption = Resumption::disabled();
        tls.enable_early_data = false;
        tls.key_log = self.key_log_file();
        Ok(tls)
    }

    /// The settings of connections from clients.
    ///
    /// # Errors
    ///
    /// Those of [`Credentials::of_process`].
    #[doc(hidden)]
    pub fn server_config(&self) -> Result<quinn_proto::ServerConfig, SecurityError> {
        self.server_config_with(|crypto| crypto)
    }

    /// Like [`server_config`](Self::server_config), with other cryptography made of that of this adapter.
    pub(in super::super) fn server_config_with(
        &self,
        with: impl FnOnce(Arc<dyn crypto::ServerConfig>) -> Arc<dyn crypto::ServerConfig>,
    ) -> Result<quinn_proto::ServerConfig, SecurityError> {
        provider::server(with(provider::server_crypto(self.server_tls()?)?))
    }

    /// The TLS of connections from clients.
    pub(super) fn server_tls(&self) -> Result<rustls::ServerConfig, SecurityError> {
        let (provider, own) = (provider::provider()?, self.shown()?);
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| SecurityError::Cryptography(error.to_string()))?;
        let builder = match &self.clients {
            None => builder.with_client_cert_verifier(Arc::new(NoClientAuth)),
            Some(trust) => builder
                .with_client_cert_verifier(Arc::new(ClientVerifier::new(trust, &own, &provider)?)),
        };
        let mut tls = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(own.certified())));
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        tls.send_tls13_tickets = 0;
        tls.max_early_data_size = 0;
        tls.key_log = self.key_log_file();
        Ok(tls)
    }

    /// The credentials that the adapter shows.
    fn shown(&self) -> Result<Credentials, SecurityError> {
        self.credentials
            .clone()
            .map_or_else(Credentials::of_process, Ok)
    }

    /// The file to which the keys of connections are written.
    fn key_log_file(&self) -> Arc<dyn rustls::KeyLog> {
        match &self.key_log {
            Some(key_log) => Arc::new(TlsKeyLog(key_log.clone())),
            None => Arc::new(NoKeyLog),
        }
    }
}
