//! The target of a run: the way to open the adapters of a check.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conform_report::Step;
use netdirect::{Connector, Provider};

use crate::need::Profile;

/// One end: a provider, and the address of one of its adapters.
#[derive(Clone, Debug)]
pub struct End {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// An address of the adapter; the port does not matter.
    pub address: SocketAddr,
}

/// Both ends of a check.
#[derive(Clone, Debug)]
pub struct Ends {
    /// The end that is checked.
    pub near: End,
    /// The other end: the peer of the near one.
    pub far: End,
}

/// The wishes of a check to its provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The profile of the run, for providers that have profiles.
    pub profile: Profile,
    /// Time limits towards peers, for providers whose limits are options. Without, the provider's own are used.
    pub time_limits: Option<Duration>,
    /// The largest buffer that can be registered, for providers whose limits are options. Without, the provider's own is used.
    pub largest_registration: Option<u64>,
    /// How long the provider waits for its own client to complete a connection, for providers where that is an option. Without,
    /// the provider's own time is used.
    pub patience: Option<Duration>,
}

type Open = dyn Fn(&Wants) -> Step<Ends> + Send + Sync;

/// The target of a run.
#[derive(Clone)]
pub struct Target {
    name: String,
    peer: Option<String>,
    open: Arc<Open>,
    /// The names of the transports that have carried connections of checks. Clones share them.
    transports: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("name", &self.name)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Target {
    /// A target that is called `name` in reports. `open` makes the providers, once for each check and in the thread of the
    /// check. `peer` is the name of the far provider if it is another one.
    pub fn new(
        name: impl Into<String>,
        peer: Option<String>,
        open: impl Fn(&Wants) -> Step<Ends> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            peer,
            open: Arc::new(open),
            transports: Arc::default(),
        }
    }

    /// The adapter of one provider that has this address. All checks share the provider, which keeps its own profile and time
    /// limits, so they had better run one after the other: a fault of one check could happen to another.
    pub fn on_provider(provider: &Arc<dyn Provider>, address: SocketAddr) -> Self {
        let end = End {
            provider: Arc::clone(provider),
            address,
        };
        Self::new(provider.name(), None, move |_| {
            Ok(Ends {
                near: end.clone(),
                far: end.clone(),
            })
        })
    }

    /// The name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the far provider, if it is another one.
    pub fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    /// Notes what carries a connection of a check, if its provider can tell.
    pub(crate) fn has_connected(&self, connector: &dyn Connector) {
        if let Some(name) = connector.transport() {
            let mut transports = self.transports.lock();
            let names = transports.as_mut().expect("no panic while it is locked");
            names.insert(name);
        }
    }

    /// The names of the transports that have carried connections of checks, as far as the providers can tell.
    pub fn transports(&self) -> Vec<&'static str> {
        let transports = self.transports.lock();
        let names = transports.expect("no panic while it is locked");
        names.iter().copied().collect()
    }

    /// Makes the providers.
    ///
    /// # Errors
    ///
    /// [`Stop::Broken`](conform_report::Stop::Broken) if they cannot be made, and a skip if they cannot be made as wanted.
    pub fn open(&self, wants: &Wants) -> Step<Ends> {
        (self.open)(wants)
    }
}
