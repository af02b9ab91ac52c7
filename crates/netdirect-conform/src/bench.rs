//! What a check works with: the two sides, and what the run expects.

use std::sync::Arc;

use conform_report::Step;
use netdirect::{AdapterFlags, Capabilities};

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
            steps: steps.clone(),
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

    /// An adapter of a provider that is made anew, and that nobody else has unless all checks share one.
    ///
    /// # Errors
    ///
    /// The failure if the provider refuses.
    pub fn afresh(&self) -> Step<Side> {
        self.step("make a provider anew");
        let near = self.target.open(&self.wants)?.near;
        Side::open("near", near, self.limits, &self.steps)
    }

    /// The profile of the run.
    pub fn profile(&self) -> Profile {
        self.wants.profile
    }

    /// How long to wait.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A step of the check begins. Reports of a failure show the steps, and a hang is blamed on the last one.
    pub fn step(&self, what: impl Into<String>) {
        self.steps.begin(what);
    }

    /// Which of these needs the target lacks.
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
