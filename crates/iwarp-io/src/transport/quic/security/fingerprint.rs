//! Fingerprints of certificates.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The fingerprint of a certificate: the SHA-256 of the certificate in DER.
///
/// It is printed as `sha256:` and 64 hexadecimal digits. Colons between the octets, and capitals, are also accepted: `openssl x509 -noout
/// -fingerprint -sha256` prints them so.
///
/// ```
/// use iwarp_io::transport::quic::security::Fingerprint;
/// let printed = Fingerprint::from_certificate(b"a certificate in DER").to_string();
/// assert_eq!(printed.len(), "sha256:".len() + 64);
/// assert_eq!(printed.parse(), Ok(Fingerprint::from_certificate(b"a certificate in DER")));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; Self::OCTETS]);

/// The prefix of the digits.
const PREFIX: &str = "sha256:";

impl Fingerprint {
    /// The length of a SHA-256 in octets.
    const OCTETS: usize = 32;

    /// The fingerprint of a certificate in DER.
    #[must_use]
    pub fn from_certificate(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        for octet in self.0 {
            write!(f, "{octet:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not a [`Fingerprint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FingerprintError(Problem);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    /// The text does not begin with [`PREFIX`].
    Prefix,
    /// The character at this place, counted from 1, is not a hexadecimal digit.
    Digit(char, usize),
    /// There is this number of digits.
    Length(usize),
    /// There are colons, but not between each two octets.
    Colons,
}

impl fmt::Display for FingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = 2 * Fingerprint::OCTETS;
        f.write_str("a fingerprint is `sha256:` and 64 hexadecimal digits; ")?;
        match self.0 {
            Problem::Prefix => f.write_str("this text does not begin with `sha256:`"),
            Problem::Digit(c, at) => write!(f, "{c:?} is no such digit (character {at})"),
            Problem::Length(found) if found < digits => {
                write!(f, "{} digits are missing", digits - found)
            }
            Problem::Length(found) => write!(f, "there are {} digits too many", found - digits),
            Problem::Colons => f.write_str("colons stand between all octets, or nowhere"),
        }
    }
}

impl std::error::Error for FingerprintError {}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |problem| Err(FingerprintError(problem));
        let Some(rest) = text.strip_prefix(PREFIX) else {
            return wrong(Problem::Prefix);
        };
        let mut found = 0;
        for (at, c) in rest.chars().enumerate() {
            match c {
                ':' => {}
                c if c.is_ascii_hexdigit() => found += 1,
                c => return wrong(Problem::Digit(c, PREFIX.len() + at + 1)),
            }
        }
        if found != 2 * Self::OCTETS {
            return wrong(Problem::Length(found));
        }
        let pairs: Vec<&str> = if rest.contains(':') {
            rest.split(':').collect()
        } else {
            (0..Self::OCTETS).map(|i| &rest[2 * i..2 * i + 2]).collect()
        };
        if pairs.len() != Self::OCTETS || pairs.iter().any(|pair| pair.len() != 2) {
            return wrong(Problem::Colons);
        }
        let mut octets = [0; Self::OCTETS];
        for (octet, pair) in octets.iter_mut().zip(pairs) {
            *octet = u8::from_str_radix(pair, 16).expect("two hexadecimal digits");
        }
        Ok(Self(octets))
    }
}
