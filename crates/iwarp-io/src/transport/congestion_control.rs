//! The congestion control that the user chooses for connections.

use std::io;

/// The environment variable that chooses where the program does not.
pub const VARIABLE: &str = "SOFTND_CONGESTION";

/// The congestion control of an adapter's connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// Over TCP the system's default, but for connections within this machine one that does not pace. Over QUIC Cubic.
    #[default]
    Chosen,
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
            "" => Self::Chosen,
            "system" => Self::System,
            name => Self::Named(name.to_owned()),
        }
    }

    /// This choice, or that of the environment if there is none.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the variable is not UTF-8.
    pub fn or_of_environment(self) -> io::Result<Self> {
        if self != Self::Chosen {
            return Ok(self);
        }
        match rdma_buffer::environment::variable(VARIABLE) {
            None => Ok(Self::Chosen),
            Some(value) => match value.to_str() {
                Some(name) => Ok(Self::from_name(name)),
                None => Err(invalid(format!(
                    "the environment variable {VARIABLE} is {value:?}, which is not UTF-8"
                ))),
            },
        }
    }
}

impl CongestionControl {
    /// Checks that QUIC has this one.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, which names those that QUIC has.
    pub fn check_for_quic(&self) -> io::Result<()> {
        OfQuic::of_choice(self).map(drop)
    }
}

/// The algorithms of QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OfQuic {
    #[default]
    Cubic,
    Bbr,
    NewReno,
}

impl OfQuic {
    /// The algorithm of this choice.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: QUIC does not have it.
    pub(super) fn of_choice(choice: &CongestionControl) -> io::Result<Self> {
        let name = match choice {
            CongestionControl::Chosen => return Ok(Self::default()),
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
        let of = |name: &str| OfQuic::of_choice(&CongestionControl::from_name(name));
        assert_eq!(of("").unwrap(), OfQuic::Cubic);
        assert_eq!(of("cubic").unwrap(), OfQuic::Cubic);
        assert_eq!(of("bbr").unwrap(), OfQuic::Bbr);
        assert_eq!(of("newreno").unwrap(), OfQuic::NewReno);
        for name in ["system", "reno", "Cubic"] {
            let refused = of(name).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
            let text = refused.to_string();
            assert!(text.contains(name) && text.contains("newreno"), "{text}");
        }
    }
}
