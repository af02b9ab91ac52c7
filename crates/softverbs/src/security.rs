//! Certificates and trust of connections over UDP ([`ProcessOptions::udp`](crate::ProcessOptions::udp)).

pub use iwarp_io::transport::quic::security::{
    Credentials, Fingerprint, FingerprintError, KeyLog, Security, SecurityError, Trust,
};
