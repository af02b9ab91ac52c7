//! The choice of the system's readiness interface, and the variable by which a user changes it.

use std::ffi::OsStr;
use std::io;
use std::sync::OnceLock;

use rdma_buffer::environment;

/// The environment variable that names an interface.
pub const VARIABLE: &str = "SOFTND_READINESS";

/// An interface of the system that reports ready sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Linux's epoll.
    #[cfg(target_os = "linux")]
    Epoll,
    /// mio, over the system's interface.
    #[cfg(unix)]
    Mio,
    /// Sets in user space, over one call of the system for each adapter.
    Flat,
    /// mio with a rule of kqueue, for tests on systems without kqueue.
    #[cfg(unix)]
    KqueueRules,
}

/// All interfaces that this system has, by their names. The first one is the default.
const ALL: &[(&str, Interface)] = &[
    #[cfg(target_os = "linux")]
    ("epoll", Interface::Epoll),
    #[cfg(unix)]
    ("mio", Interface::Mio),
    #[cfg(unix)]
    ("kqueue-rules", Interface::KqueueRules),
    ("flat", Interface::Flat),
];

impl Interface {
    /// The interface that [`VARIABLE`] names, or the default. The variable is read once in a process.
    ///
    /// # Errors
    ///
    /// `InvalidInput`, if the variable names no known interface.
    pub fn chosen() -> io::Result<Self> {
        static CHOSEN: OnceLock<Result<Interface, String>> = OnceLock::new();
        let chosen = CHOSEN.get_or_init(|| Self::named(environment::variable(VARIABLE).as_deref()));
        chosen
            .clone()
            .map_err(|text| io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    fn named(name: Option<&OsStr>) -> Result<Self, String> {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Ok(ALL[0].1);
        };
        let known = ALL.iter().find(|(known, _)| name == *known);
        known.map(|(_, interface)| *interface).ok_or_else(|| {
            let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
            format!(
                "the environment variable {VARIABLE} is {name:?}, which names no readiness interface of this system; \
                 set it to one of {}, or unset it",
                names.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_interface_is_used_unless_another_is_named() {
        for name in [None, Some(OsStr::new(""))] {
            assert_eq!(Interface::named(name), Ok(ALL[0].1));
        }
        for (name, interface) in ALL {
            assert_eq!(Interface::named(Some(OsStr::new(name))), Ok(*interface));
        }
    }

    #[test]
    fn an_unknown_interface_is_refused_with_a_list_of_those_there_are() {
        let names = if cfg!(target_os = "linux") {
            "epoll, mio, kqueue-rules, flat"
        } else if cfg!(unix) {
            "mio, kqueue-rules, flat"
        } else {
            "flat"
        };
        assert_eq!(
            Interface::named(Some(OsStr::new("poll"))).unwrap_err(),
            format!(
                "the environment variable SOFTND_READINESS is \"poll\", which names no readiness interface of this system; set \
                 it to one of {names}, or unset it"
            )
        );
    }
}
