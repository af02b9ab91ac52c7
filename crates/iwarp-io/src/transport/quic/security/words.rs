//! The meaning of the errors of the libraries, in words for people: those of TLS, of QUIC and of certificates.
//!
//! Libraries name their errors for programmers, and change the names. The numbers of alerts and of QUIC's errors are those of the RFCs, and
//! do not depend on the peer's software.

use rustls::pki_types::UnixTime;
use rustls::{CertificateError, OtherError};

const OTHER_VERSION: &str =
    "the two sides run versions that do not fit together; run the same version on both";
const OTHER_SERVICE: &str =
    "some other service may be there, or a program on the way changes what is sent";

/// The alerts of TLS (RFC 8446 §6, and registered ones) by number: the problem, from the view of the side that has raised the alert.
const ALERTS: &[(u8, &str, &str)] = &[
    (
        0,
        "it has closed the connection in the handshake",
        "look at what that side says",
    ),
    (10, "it got a message that it did not expect", OTHER_VERSION),
    (
        20,
        "it got a packet that was changed on the way",
        OTHER_SERVICE,
    ),
    (21, "it could not decrypt a packet", OTHER_SERVICE),
    (22, "it got a record that is too long", OTHER_VERSION),
    (30, "it could not decompress a certificate", OTHER_VERSION),
    (
        40,
        "the two sides have no cipher or signature in common",
        OTHER_VERSION,
    ),
    (
        41,
        "the other side has shown no certificate",
        "give the client a certificate",
    ),
    (
        42,
        "the certificate of the other side is damaged",
        "give the other side a certificate that is whole",
    ),
    (
        43,
        "it does not know certificates of this kind",
        "give the other side a certificate of version 3 with a key for Ed25519, ECDSA or RSA",
    ),
    (
        44,
        "the certificate of the other side was revoked",
        "give the other side a new certificate",
    ),
    (
        45,
        "the certificate of the other side is not valid at this time",
        "compare the clocks of both sides, or give the other side a new certificate",
    ),
    (
        46,
        "it does not trust the certificate of the other side",
        "pin the certificate, or name the CA that has signed it",
    ),
    (47, "it got a value that is not allowed", OTHER_VERSION),
    (
        48,
        "it does not know the CA that has signed the certificate of the other side",
        "pin the certificate, or name its CA",
    ),
    (
        49,
        "it does not let the other side in",
        "look at what that side says",
    ),
    (50, "it got a message that is damaged", OTHER_SERVICE),
    (
        51,
        "a signature is wrong: the other side may not have the key of its certificate",
        "check that certificate and key belong together",
    ),
    (60, "it does not allow ciphers of this kind", OTHER_VERSION),
    (70, "it does not speak TLS 1.3", OTHER_SERVICE),
    (71, "it demands stronger ciphers", OTHER_VERSION),
    (80, "it has failed by itself", "look at what that side says"),
    (
        86,
        "it takes the connection for one that was made weaker on the way",
        OTHER_SERVICE,
    ),
    (
        90,
        "its user has ended the handshake",
        "look at what that side says",
    ),
    (100, "it does not negotiate anew", OTHER_VERSION),
    (109, "it misses a part of a message", OTHER_VERSION),
    (
        110,
        "it got an extension that it has not asked for",
        OTHER_VERSION,
    ),
    (
        111,
        "it could not get a certificate from where it was said to be",
        "give the other side a certificate of its own",
    ),
    (
        112,
        "it is not the server of this name",
        "check the name, or name the server by its address",
    ),
    (
        113,
        "it got a wrong answer about the state of a certificate",
        "give the other side a new certificate",
    ),
    (
        114,
        "a certificate is another one than was said",
        "give the other side a new certificate",
    ),
    (
        115,
        "it does not know the key that both sides should share",
        OTHER_VERSION,
    ),
    (
        121,
        "it demands that the name of the server is encrypted",
        OTHER_VERSION,
    ),
];

/// The errors of QUIC (RFC 9000 §20.1, and of version 2 of multipath for the last one) by number.
const TRANSPORT: &[(u64, &str, &str)] = &[
    (
        0x0,
        "it has ended the connection in the handshake, and gives no error",
        "look at what that side says",
    ),
    (
        0x1,
        "it has failed by itself",
        "look at what that side says",
    ),
    (
        0x2,
        "it accepts no more connections",
        "check that a program listens there, and try again later",
    ),
    (
        0x3,
        "it got more octets than it had permitted",
        OTHER_VERSION,
    ),
    (
        0x4,
        "it got more streams than it had permitted",
        OTHER_VERSION,
    ),
    (
        0x5,
        "it got octets on a stream that takes none",
        OTHER_VERSION,
    ),
    (
        0x6,
        "it got octets behind the end of a stream",
        OTHER_VERSION,
    ),
    (0x7, "it got a frame that is damaged", OTHER_VERSION),
    (0x8, "it got parameters that are not allowed", OTHER_VERSION),
    (
        0x9,
        "it got more connection IDs than it had permitted",
        OTHER_VERSION,
    ),
    (
        0xA,
        "it got something that breaks the rules of QUIC",
        OTHER_VERSION,
    ),
    (
        0xB,
        "it got a token that it has not issued; it may have been started anew",
        "try again",
    ),
    (
        0xC,
        "its program has ended the connection in the handshake",
        "look at what that side says; it may have waited too long",
    ),
    (
        0xD,
        "it got more of a handshake than it has room for",
        "give both sides shorter chains of certificates",
    ),
    (0xE, "the two sides do not agree on new keys", OTHER_VERSION),
    (
        0xF,
        "its key has protected as much as one key may",
        "connect anew",
    ),
    (
        0x10,
        "no path leads to it any more",
        "check the network of both sides",
    ),
];

/// The meaning of an error of QUIC that `side` has found. `words` are those of the peer, if it has given any.
pub(super) fn of_code(number: u64, side: &str, words: &str) -> String {
    let words = match words {
        "" => String::new(),
        words => format!(" (in its words, {words})"),
    };
    let alert = u8::try_from(number.wrapping_sub(CRYPTO)).ok();
    let of_alert = alert.and_then(|alert| ALERTS.iter().find(|(known, ..)| *known == alert));
    let of_transport = || TRANSPORT.iter().find(|(known, ..)| *known == number);
    let found = match of_alert {
        Some((_, what, remedy)) => Some((what, remedy)),
        None => of_transport().map(|(_, what, remedy)| (what, remedy)),
    };
    match (found, alert) {
        (Some((what, remedy)), _) => format!("{side} says that {what}{words}: {remedy}"),
        (None, Some(alert)) => {
            format!(
                "{side} says that alert {alert} of TLS ends the handshake{words}: {OTHER_VERSION}"
            )
        }
        (None, None) => {
            format!(
                "{side} says that error {number:#x} of QUIC ends the connection{words}: {OTHER_VERSION}"
            )
        }
    }
}

/// The number of alert 0 among the errors of QUIC (RFC 9001 §4.8).
const CRYPTO: u64 = 0x100;

/// The problem of a certificate that rustls has examined, in a few words.
pub(super) fn of_error(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(error) => of_certificate(error),
        _ => "it cannot be checked".to_owned(),
    }
}

/// The problem of a certificate, in a few words, which a remedy follows.
pub(super) fn of_certificate(error: &CertificateError) -> String {
    /// The limit of a text that the certificate itself contributes to.
    const LONGEST: usize = 300;
    const DAY: u64 = 24 * 60 * 60;
    const CLOCK: &str = "compare the clock of this machine";
    let days = |from: UnixTime, to: UnixTime| to.as_secs().saturating_sub(from.as_secs()) / DAY;
    let words = match error {
        CertificateError::ExpiredContext { time, not_after } => {
            return format!("it expired {} days ago", days(*not_after, *time));
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            return format!(
                "it becomes valid in {} days; is the clock right?",
                days(*time, *not_before)
            );
        }
        CertificateError::NotValidForNameContext { .. } => {
            // The reader has to compare the names.
            return error.to_string().chars().take(LONGEST).collect();
        }
        CertificateError::Other(OtherError(error)) => return of_webpki(&error.to_string()),
        CertificateError::BadEncoding => "it is damaged, or no certificate",
        CertificateError::Expired => "it is not valid any more",
        CertificateError::NotValidYet => return format!("it is not valid yet; {CLOCK}"),
        CertificateError::Revoked => "its CA has revoked it",
        CertificateError::UnhandledCriticalExtension => {
            "it demands a check that is not known here (a critical extension)"
        }
        CertificateError::UnknownIssuer => "the CA has not signed it",
        CertificateError::UnknownRevocationStatus => "nobody says whether its CA has revoked it",
        CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            "the list of what its CA has revoked is too old"
        }
        CertificateError::BadSignature => "a CA of the same name, with another key, has signed it",
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => SIGNATURES,
        CertificateError::NotValidForName => "it is not valid for name or address of the peer",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not made for this side of a connection (extended key usage)"
        }
        CertificateError::InvalidOcspResponse => "its answer about revocation is wrong",
        CertificateError::ApplicationVerificationFailure => "this program does not accept it",
        // The enum may grow, and has a deprecated variant.
        error => return of_webpki(&format!("{error:?}")),
    };
    words.to_owned()
}

const SIGNATURES: &str = "it is signed in a way that is not known here (known are Ed25519, ECDSA with P-256 and P-384, and RSA)";

/// The errors of rustls-webpki for which rustls has no variant, by name.
const WEBPKI: &[(&str, &str)] = &[
    (
        "CaUsedAsEndEntity",
        "it is the certificate of a CA itself, which can only be pinned",
    ),
    ("CertDistrusted", "its CA is not trusted any more"),
    ("EmptyEkuExtension", "its extended key usage is empty"),
    (
        "EndEntityUsedAsCa",
        "a certificate that is not one of a CA has signed it",
    ),
    ("ExtensionValueInvalid", "one of its extensions is damaged"),
    (
        "InvalidNetworkMaskConstraint",
        "its CA limits it to networks by a mask that is wrong",
    ),
    ("InvalidSerialNumber", "its serial number is wrong"),
    ("MalformedDnsIdentifier", "a DNS name in it is wrong"),
    ("MalformedExtensions", "its extensions are damaged"),
    (
        "MalformedNameConstraint",
        "its CA limits it to names in a way that is wrong",
    ),
    (
        "MaximumNameConstraintComparisonsExceeded",
        "its CAs limit it to too many names",
    ),
    (
        "MaximumPathBuildCallsExceeded",
        "there are too many ways from it to a CA",
    ),
    (
        "MaximumPathDepthExceeded",
        "too many certificates are between it and a CA",
    ),
    (
        "MaximumSignatureChecksExceeded",
        "too many signatures are between it and a CA",
    ),
    (
        "NameConstraintViolation",
        "its CA may not sign for this name",
    ),
    (
        "PathLenConstraintViolated",
        "one of its CAs may not have so many below it",
    ),
    (
        "SignatureAlgorithmMismatch",
        "it names two kinds of signature that differ",
    ),
    (
        "UnsupportedCertVersion",
        "it is not of version 3 of X.509, which extensions need",
    ),
    (
        "UnsupportedCriticalExtension",
        "it demands a check that is not known here (a critical extension)",
    ),
    (
        "UnsupportedNameType",
        "it has a name of a kind that is not known here",
    ),
    ("UnsupportedSignatureAlgorithm", SIGNATURES),
];

/// The words for an error that the libraries identify only by name.
fn of_webpki(name: &str) -> String {
    let end = name
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(name.len());
    let known = WEBPKI.iter().find(|(known, _)| *known == &name[..end]);
    match known {
        Some((_, words)) => (*words).to_owned(),
        None => format!("it breaks a rule of X.509 ({})", &name[..end]),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::Arc;

    use super::*;

    /// Returns true for words of a program, such as `UnsupportedCertVersion` and `Other(`.
    fn is_code(text: &str) -> bool {
        text.split(|c: char| !c.is_alphanumeric()).any(|word| {
            let inner = word.chars().skip(1);
            let humps =
                inner.clone().any(char::is_uppercase) && inner.clone().any(char::is_lowercase);
            humps && !["DNS", "IDs", "CAs", "iWARP", "ECDSA"].contains(&word) && word != "Ed25519"
        }) || text.contains("Other(")
    }

    #[test]
    fn every_alert_and_every_error_of_quic_has_words_and_a_remedy() {
        for number in (0..=0x10).chain(0x100..0x200) {
            let text = of_code(number, "the peer", "");
            assert!(text.starts_with("the peer says that "), "{text}");
            assert!(text.contains(": ") && !is_code(&text), "{text}");
            let registered = ALERTS
                .iter()
                .any(|(alert, ..)| number == CRYPTO + u64::from(*alert));
            assert_eq!(text.contains("alert "), number >= CRYPTO && !registered);
        }
        let unknown = of_code(0x4711, "this side", "so be it");
        assert!(
            unknown.contains("error 0x4711 of QUIC ends the connection (in its words, so be it): "),
            "{unknown}"
        );
    }

    #[derive(Debug)]
    struct Named(&'static str);
    impl fmt::Display for Named {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }
    impl std::error::Error for Named {}

    #[test]
    fn errors_of_certificates_have_words() {
        for (name, words) in WEBPKI {
            let error = CertificateError::Other(OtherError(Arc::new(Named(name))));
            assert_eq!(of_certificate(&error), *words);
            assert!(!is_code(words), "{words}");
        }
        let strange = CertificateError::Other(OtherError(Arc::new(Named("NeverSeen { a: 1 }"))));
        assert_eq!(
            of_certificate(&strange),
            "it breaks a rule of X.509 (NeverSeen)"
        );
        for error in [
            CertificateError::BadEncoding,
            CertificateError::Expired,
            CertificateError::NotValidYet,
            CertificateError::Revoked,
            CertificateError::UnhandledCriticalExtension,
            CertificateError::UnknownIssuer,
            CertificateError::UnknownRevocationStatus,
            CertificateError::ExpiredRevocationList,
            CertificateError::BadSignature,
            CertificateError::NotValidForName,
            CertificateError::InvalidPurpose,
            CertificateError::InvalidOcspResponse,
            CertificateError::ApplicationVerificationFailure,
        ] {
            let words = of_certificate(&error);
            assert!(
                !is_code(&words) && words.starts_with(|c: char| c.is_lowercase()),
                "{words}"
            );
            assert_ne!(words, error.to_string());
        }
    }
}
