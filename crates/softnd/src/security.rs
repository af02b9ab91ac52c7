//! Certificates and trust of adapters [over UDP](crate::udp_provider), by [`Options::security`](crate::Options::security).
//!
//! A server always shows a certificate. By default this is the one that the [process](Credentials::of_process) makes for itself. Clients in
//! the same process trust it, and so do clients that [pin](Trust::pin) its [`Fingerprint`]. A server that was given a certificate of an
//! authority (CA) is trusted by clients that were given that [authority](Trust::authorities). [`Security::insecure`] trusts every server. A
//! server accepts every client, or [demands](Security::demand_client_certificate) a certificate, which it examines by the same rules. A
//! client shows its own certificate to every server that demands one.
//!
//! Each certificate comes with the proof that the peer has its key, even if the certificate is pinned or any would be accepted. If an
//! authority decides, the certificate must be valid now and for this use, and a server's must be valid for the IP address that the client
//! connects to, or for the [name](Security::server_name) that the client was given instead. None of this matters for a pinned certificate.
//! Neither side checks if certificates were revoked. Only TLS 1.3 and QUIC version 1 are spoken. No session is resumed, and no request is
//! sent before the handshake has ended (0-RTT).

pub use iwarp_io::transport::quic::security::{
    Credentials, Fingerprint, FingerprintError, KeyLog, Security, SecurityError, Trust,
};
