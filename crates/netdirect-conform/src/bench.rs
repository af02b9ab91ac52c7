//! The context of a check: the two sides, and the expectations of the run.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use conform_report::{Step, Stop};
use netdirect::{AdapterFlags, Capabilities, Connector, Fault};

use crate::limits::{Limits, hang};
use crate::need::{Need, Profile};
use crate::side::Side;
use crate::steps::Steps;
use crate::target::{Ends, Target, Wants};

/// The two sides of a check, newly opened for it.
#[derive(Debug)]
pub struct Bench {
    /// The side that is checked.
    pub near: Side,
    /// Its peer.
    pub far: Side,
    target: Target,
    wants: Wants,
    one_adapter: bool,
    limits: Limits,
    unreachable_host: Option<IpAddr>,
    steps: Steps,
}

impl Bench {
    /// Opens the adapters of a check.
    ///
    /// # Errors
    ///
    /// A failure where the provider refuses; what [`Target::open`] returns where there is no provider.
    pub fn open(
        target: &Target,
        wants: &Wants,
        one_adapter: bool,
        limits: Limits,
        steps: &Steps,
    ) -> Step<Self> {
        steps.begin("open the adapters");
        let Ends { near, far } = target.open(wants)?;
        let near = Side::open("near", near, limits, steps)?;
        let far = if one_adapter {
            near.again("far")
        } else {
            Side::open("far", far, limits, steps)?
        };
        Ok(Self {
            near,
            far,
            target: target.clone(),
            wants: *wants,
            one_adapter,
            limits,
            unreachable_host: None,
            steps: steps.clone(),
        })
    }

    /// Returns an unused address, in a network that the near adapter reaches.
    #[must_use]
    pub fn with_unreachable_host(mut self, host: Option<IpAddr>) -> Self {
        self.unreachable_host = host;
        self
    }

    /// A host that cannot be reached from the near adapter: the one that the run knows, or one for which the provider pretends this.
    ///
    /// # Errors
    ///
    /// The check is not part of the run if there is neither; a failure if the provider refuses to pretend.
    pub fn unreachable_host(&self) -> Step<IpAddr> {
        let own = self.near.address;
        if let Some(host) = self.unreachable_host {
            if host.is_ipv4() == own.is_ipv4() {
                return Ok(host);
            }
            let why = format!("{host} is no address of the family of {}", own.ip());
            return Err(Stop::LeftOut(why));
        }
        // Addresses for documentation (RFC 5737, RFC 3849).
        let address = match own {
            SocketAddr::V4(_) => IpAddr::from([192, 0, 2, 77]),
            SocketAddr::V6(_) => IpAddr::from([0x2001, 0xDB8, 0, 0, 0, 0, 0, 0x77]),
        };
        let injected = self.near.inject(Fault::UnreachableHost { address });
        injected.map(|()| address).map_err(|stop| match stop {
            Stop::LeftOut(why) => Stop::LeftOut(format!(
                "{why}, and the run names no host that cannot be reached (--unreachable-host)"
            )),
            other => other,
        })
    }

    /// A bench whose near adapter is both ends.
    pub fn alone(&self) -> Self {
        Self {
            near: self.near.again("near"),
            far: self.near.again("far"),
            target: self.target.clone(),
            wants: self.wants,
            one_adapter: true,
            limits: self.limits,
            unreachable_host: self.unreachable_host,
            steps: self.steps.clone(),
        }
    }

    /// An adapter that is neither of the two: the far one, opened once more.
    ///
    /// # Errors
    ///
    /// The failure if the provider refuses.
    pub fn other(&self) -> Step<Side> {
        self.far.open_again()
    }

    /// An adapter of a new provider, which no other check uses unless all checks share one.
    ///
    /// # Errors
    ///
    /// The failure if the provider refuses.
    pub fn afresh(&self) -> Step<Side> {
        self.step("make a provider anew");
        let near = self.target.open(&self.wants)?.near;
        Side::open("near", near, self.limits, &self.steps)
    }

    /// Notes what carries a connection, for the report.
    pub(crate) fn has_connected(&self, ends: &[&dyn Connector]) {
        ends.iter().for_each(|end| self.target.has_connected(*end));
    }

    /// The profile of the run.
    pub fn profile(&self) -> Profile {
        self.wants.profile
    }

    /// The time limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A step of the check begins. Reports of a failure show the steps, and a hang is blamed on the last one.
    pub fn step(&self, what: impl Into<String>) {
        self.steps.begin(what);
    }

    /// Returns the first of these needs that the target lacks.
    pub fn lacks(&self, needs: &[Need]) -> Option<Need> {
        needs.iter().copied().find(|need| !self.has(*need))
    }

    fn has(&self, need: Need) -> bool {
        let info = &self.near.info;
        let capabilities = self.near.adapter.capabilities();
        match need {
            Need::Windows => capabilities.contains(Capabilities::MEMORY_WINDOWS),
            Need::FarWindows => self
                .far
                .adapter
                .capabilities()
                .contains(Capabilities::MEMORY_WINDOWS),
            Need::Solicited => capabilities.contains(Capabilities::SOLICITED_EVENTS),
            Need::SharedReceiveQueues => info.max_shared_receive_queue_depth > 0,
            Need::FarSharedReceiveQueues => self.far.info.max_shared_receive_queue_depth > 0,
            Need::NoSharedReceiveQueues => info.max_shared_receive_queue_depth == 0,
            Need::Resize => info.flags.contains(AdapterFlags::CQ_RESIZE_SUPPORTED),
            Need::NoResize => !info.flags.contains(AdapterFlags::CQ_RESIZE_SUPPORTED),
            Need::Inline => info.max_inline_data_size > 0,
            Need::Connections => {
                let loops = AdapterFlags::LOOPBACK_CONNECTIONS_SUPPORTED;
                !self.is_one_device() || info.flags.contains(loops)
            }
            Need::Faults => self.near.adapter.extensions().is_some(),
            Need::Threads => self.near.file.simulation().is_none(),
            Need::TwoOfOneProvider => self.near.provider.name() == self.far.provider.name(),
            Need::TwoAdapters => !self.one_adapter,
            Need::DefaultProfile => self.wants.profile == Profile::Default,
            Need::StrictProfile => self.wants.profile == Profile::Strict,
        }
    }

    /// Both sides are one adapter, opened once or twice.
    fn is_one_device(&self) -> bool {
        Arc::ptr_eq(&self.near.adapter, &self.far.adapter)
            || (self.near.provider.name() == self.far.provider.name()
                && self.near.info.adapter_id == self.far.info.adapter_id)
    }

    /// Ends a check that hangs in the step under way.
    pub fn hangs<T>(&self) -> Step<T> {
        Err(hang(&self.steps, self.limits.answer))
    }
}
