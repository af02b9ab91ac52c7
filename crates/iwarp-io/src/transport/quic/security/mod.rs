//! Certificates and trust: which peers may connect to each other over QUIC.
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
//! Neither side checks if certificates were revoked.
//!
//! Only TLS 1.3 and QUIC version 1 are spoken, with the ALPN protocol `iwarp/1`. No session is resumed, so each connection begins with this
//! check and no certificate outlives its validity in a ticket. 0-RTT is off on both sides, so that requests cannot be replayed.
//!
//! The server's event `Connected` comes when the client's certificate is accepted, and no stream is seen before it. (`HandshakeDataReady`
//! comes earlier, and says nothing about the client.) But the client's event `Connected` comes before the server has seen the client's
//! certificate, so it does not mean that the server accepts the client.
//!
//! Without the feature `udp` certificates and trust cannot be made (`no_udp`), and each attempt says so.
//!
//! # What each side sees
//!
//! The errors are `ConnectionError`s of quinn-proto, the codes those of QUIC (0x100 and the alert of TLS). `explain`
//! puts them into words. A server that refuses the first packet has no connection yet: the error is the cause of the `AcceptError`.
//!
//! | problem | client | server |
//! |---|---|---|
//! | the server's certificate is not trusted; expired, not yet valid, or of a wrong name by its CA | `TransportError` 0x12e, whose reason has the fingerprint and the remedy | `ConnectionClosed` 0x12e with the same reason |
//! | the server does not have the key of its certificate | `TransportError` 0x133 | `ConnectionClosed` 0x133 |
//! | the client has no certificate | `Connected`, then `ConnectionClosed` 0x174 | `TransportError` 0x174 |
//! | the client's certificate is not trusted, or not valid by its CA | `Connected`, then `ConnectionClosed` 0x12e with the server's reason | `TransportError` 0x12e, whose reason has the fingerprint and the remedy |
//! | the client does not have the key of its certificate | `Connected`, then `ConnectionClosed` 0x133 | `TransportError` 0x133 |
//! | the client offers other protocols (ALPN), or none | `ConnectionClosed` 0x178 | `AcceptError`: `TransportError` 0x178 |
//! | the server chooses no protocol, although the client has offered one | `TransportError` 0x178 | `ConnectionClosed` 0x178 |
//! | the client speaks another version of QUIC | `VersionMismatch` | nothing: the endpoint answers by itself |

#[cfg(feature = "udp")]
mod credentials;
mod error;
#[cfg(feature = "udp")]
mod files;
mod fingerprint;
#[cfg_attr(
    not(feature = "udp"),
    allow(dead_code, reason = "only connections over UDP have keys to write")
)]
mod key_log;
#[cfg(not(feature = "udp"))]
mod no_udp;
#[cfg(feature = "udp")]
mod provider;
#[cfg(feature = "udp")]
mod reason;
#[cfg(feature = "udp")]
mod settings;
#[cfg(feature = "udp")]
mod trust;
#[cfg(feature = "udp")]
mod verify;
#[cfg(feature = "udp")]
mod words;

#[cfg(feature = "udp")]
pub use credentials::Credentials;
pub use error::SecurityError;
pub use fingerprint::{Fingerprint, FingerprintError};
pub use key_log::KeyLog;
#[cfg(not(feature = "udp"))]
pub use no_udp::{NoCredentials as Credentials, NoSecurity as Security, NoTrust as Trust};
#[cfg(feature = "udp")]
pub(super) use reason::explain;
#[cfg(all(test, feature = "udp"))]
pub(super) use settings::ALPN;
#[cfg(feature = "udp")]
pub(super) use settings::OnFailure;
#[cfg(feature = "udp")]
pub use settings::Security;
#[cfg(feature = "udp")]
pub use trust::Trust;

#[cfg(all(test, feature = "udp"))]
mod tests;

#[cfg(all(test, not(feature = "udp")))]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn without_udp_the_error_names_the_feature() {
        for error in [
            Credentials::of_process().err(),
            Credentials::from_text("00:00").err(),
            Trust::own_process().authorities("ca.pem").err(),
            Security::default().fingerprint().err(),
        ] {
            let error = io::Error::from(error.unwrap());
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            let text = "this program was built without the feature `udp`, which has connections over UDP: build it with that feature, \
                or connect over TCP";
            assert_eq!(error.to_string(), text);
        }
    }
}
