//! The congestion control that the user chooses for connections.

use std::io;

/// The environment variable that chooses where the program does not.
pub const VARIABLE: &str = "SOFTND_CONGESTION";

/// The congestion control of an adapter's connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// Nothing is chosen: over TCP the system's default, but for connections within this machine one that does not pace; over QUIC Cubic.
    #[default]
    Unset,
    /// Over TCP the system's default, within this machine as well. Not over QUIC.
    System,
    /// Over TCP one of this name that the system permits. Over QUIC `cubic`, `bbr` or `newreno`.
    Named(String),
}

impl CongestionControl {
    /// The choice of this name: `system`, or that of a congestion control. An empty name chooses nothing.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "" => Self::Unset,
            "system" => Self::System,
            name => Self::Named(name.to_owned()),
        }
    }
}

/// The algorithms that QUIC has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum QuicAlgorithm {
    #[default]
    Cubic,
    Bbr,
    NewReno,
}

impl QuicAlgorithm {
    /// The algorithm of this choice.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: QUIC does not have it.
    pub(super) fn for_choice(choice: &CongestionControl) -> io::Result<Self> {
        let name = match choice {
            CongestionControl::Unset => return Ok(Self::default()),
            CongestionControl::System => "system",
            CongestionControl::Named(name) => name,
        };
        match name {
            "cubic" => Ok(Self::Cubic),
            "bbr" => Ok(Self::Bbr),
            "newreno" => Ok(Self::NewReno),
            other => Err(invalid(format!(
                "there is no congestion control {other:?} over UDP: choose cubic, bbr or newreno"
            ))),
        }
    }
}

pub(super) fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quic_has_three() {
        let of = |name: &str| QuicAlgorithm::for_choice(&CongestionControl::from_name(name));
        assert_eq!(of("").unwrap(), QuicAlgorithm::Cubic);
        assert_eq!(of("cubic").unwrap(), QuicAlgorithm::Cubic);
        assert_eq!(of("bbr").unwrap(), QuicAlgorithm::Bbr);
        assert_eq!(of("newreno").unwrap(), QuicAlgorithm::NewReno);
        for name in ["system", "reno", "Cubic"] {
            let refused = of(name).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
            let text = refused.to_string();
            assert!(text.contains(name) && text.contains("newreno"), "{text}");
        }
    }
}
