//! Connections that are made step by step.

use std::sync::Arc;
use std::time::Duration;

use conform_report::Step;
use netdirect::{Connector, Overlapped, QueuePairOptions, ReadLimits, Result, Started, Status};

use crate::bench::Bench;
use crate::link::{LinkEnd, Listening, Queues};
use crate::side::Side;

/// The read limits where they do not matter.
pub(super) const LIMITS: ReadLimits = ReadLimits {
    inbound: 4,
    outbound: 4,
};

/// An unused address: it is reserved for documentation.
pub(super) const NOBODY: &str = "192.0.2.77:4791";

/// Two sides that are about to connect, up to the step that the check has reached.
#[derive(Debug)]
pub(super) struct Setup<'a> {
    /// The side that connects.
    pub active: &'a Side,
    /// The side that accepts.
    pub passive: &'a Side,
    /// The passive side's listener.
    pub listening: Listening,
    /// The active side's connector.
    pub here: Arc<dyn Connector>,
    /// The passive side's connector.
    pub there: Arc<dyn Connector>,
    /// The active side's queue pair.
    pub asking: Queues,
    /// The passive side's queue pair.
    pub answering: Queues,
    /// The request of Connect.
    pub connected: Overlapped,
    /// The request of Accept.
    pub accepted: Overlapped,
}

/// An `Overlapped` whose packets stay away from the port.
pub(super) fn quiet() -> Overlapped {
    Overlapped::new().without_port()
}

impl<'a> Setup<'a> {
    /// The near side is going to connect.
    pub(super) fn near_connects(bench: &'a Bench) -> Step<Self> {
        Self::new(&bench.near, &bench.far)
    }

    /// The near side is going to accept.
    pub(super) fn near_accepts(bench: &'a Bench) -> Step<Self> {
        Self::new(&bench.far, &bench.near)
    }

    /// All objects are there, and the passive side listens.
    pub(super) fn new(active: &'a Side, passive: &'a Side) -> Step<Self> {
        let options = QueuePairOptions::default();
        Ok(Self {
            active,
            passive,
            listening: passive.listening()?,
            here: active.connector()?,
            there: passive.connector()?,
            asking: active.queues(64, options)?,
            answering: passive.queues(64, options)?,
            connected: quiet(),
            accepted: quiet(),
        })
    }

    /// Both sides are connected.
    pub(super) fn whole(active: &'a Side, passive: &'a Side) -> Step<Self> {
        let setup = Self::new(active, passive)?;
        setup.answer()?;
        setup.complete()?;
        Ok(setup)
    }

    /// Calls Connect.
    pub(super) fn connect(&self, limits: ReadLimits, data: &[u8]) -> Result<Started> {
        self.active.step("Connect");
        let ReadLimits { inbound, outbound } = limits;
        let to = self.listening.address;
        let (qp, overlapped) = (&self.asking.qp, &self.connected);
        self.here
            .connect(qp, to, inbound, outbound, data, overlapped)
    }

    /// Calls Accept.
    pub(super) fn accept(&self, limits: ReadLimits, data: &[u8]) -> Result<Started> {
        self.passive.step("Accept");
        let ReadLimits { inbound, outbound } = limits;
        let (qp, overlapped) = (&self.answering.qp, &self.accepted);
        self.there.accept(qp, inbound, outbound, data, overlapped)
    }

    /// The active side's request arrives in the passive side's connector.
    pub(super) fn offer(&self) -> Step {
        self.offer_with(LIMITS, &[])
    }

    /// As [`offer`](Self::offer), with these limits and this private data.
    pub(super) fn offer_with(&self, limits: ReadLimits, data: &[u8]) -> Step {
        let connecting = self.connect(limits, data);
        let _ = self.active.started("Connect", connecting)?;
        self.arrive()
    }

    /// Waits for a request of a peer in the passive side's connector.
    pub(super) fn arrive(&self) -> Step {
        let arrived = quiet();
        let listener = &self.listening.listener;
        let asked = listener.get_connection_request(&self.there, &arrived);
        self.passive.done("GetConnectionRequest", asked, &arrived)
    }

    /// The passive side accepts, and the active side's Connect succeeds.
    pub(super) fn answer(&self) -> Step {
        self.answer_with(LIMITS, &[], LIMITS, &[])
    }

    /// As [`answer`](Self::answer), with these limits and private data of Connect and of Accept.
    pub(super) fn answer_with(
        &self,
        asked: ReadLimits,
        question: &[u8],
        granted: ReadLimits,
        answer: &[u8],
    ) -> Step {
        self.offer_with(asked, question)?;
        let accepting = self.accept(granted, answer);
        let _ = self.passive.started("Accept", accepting)?;
        self.connect_ends(Status::SUCCESS)
    }

    /// As [`answer`](Self::answer), for an offer that is there already.
    pub(super) fn answer_pending(&self) -> Step {
        let accepting = self.accept(LIMITS, &[]);
        let _ = self.passive.started("Accept", accepting)?;
        self.connect_ends(Status::SUCCESS)
    }

    /// The active side completes, and Accept succeeds.
    pub(super) fn complete(&self) -> Step {
        let completed = quiet();
        let completing = self.here.complete_connect(&completed);
        self.active
            .done("CompleteConnect", completing, &completed)?;
        self.accept_ends(Status::SUCCESS)
    }

    /// Both sides connect, over this listener of the passive side.
    pub(super) fn connect_to(&mut self, listening: Listening) -> Step {
        self.listening = listening;
        self.answer()?;
        self.complete()
    }

    /// Connect ends with this status.
    pub(super) fn connect_ends(&self, wanted: Status) -> Step {
        let status = self.active.end_of("the end of Connect", &self.connected)?;
        self.active.status("the end of Connect", status, wanted)
    }

    /// Accept ends with this status.
    pub(super) fn accept_ends(&self, wanted: Status) -> Step {
        let status = self.passive.end_of("the end of Accept", &self.accepted)?;
        self.passive.status("the end of Accept", status, wanted)
    }

    /// The active end.
    pub(super) fn asking_end(&self) -> LinkEnd<'a> {
        LinkEnd {
            side: self.active,
            connector: Arc::clone(&self.here),
            queues: self.asking.clone(),
        }
    }

    /// The passive end.
    pub(super) fn answering_end(&self) -> LinkEnd<'a> {
        LinkEnd {
            side: self.passive,
            connector: Arc::clone(&self.there),
            queues: self.answering.clone(),
        }
    }

    /// The active side's message reaches the passive side, and the answer comes back.
    pub(super) fn works(&self) -> Step {
        round(&self.asking_end(), &self.answering_end())
    }
}

/// A message goes from one end to the other, and another one back.
pub(super) fn round(one: &LinkEnd<'_>, other: &LinkEnd<'_>) -> Step {
    use super::common::{pattern, sink, source};
    for (from, to) in [(one, other), (other, one)] {
        let (data, room) = (source(from.side, 64)?, sink(to.side, 64)?);
        to.receive(1, &[room.sge(..)])?;
        from.send(2, &[data.sge(..)], netdirect::OpFlags::empty())?;
        from.succeeds(netdirect::RequestType::Send)?;
        to.takes()?;
        to.side
            .equal("the message", room.octets(0, 64), pattern(64))?;
    }
    Ok(())
}

/// NotifyDisconnect of an end, pending or ended.
pub(super) fn notification(side: &Side, connector: &Arc<dyn Connector>) -> Step<Overlapped> {
    let notified = quiet();
    let started = connector.notify_disconnect(&notified);
    let _ = side.started("NotifyDisconnect", started)?;
    Ok(notified)
}

/// A request ends with this status.
pub(super) fn ends(side: &Side, what: &str, request: &Overlapped, wanted: Status) -> Step {
    let status = side.end_of(what, request)?;
    side.status(what, status, wanted)
}

/// Lets a client think for long: half a minute of a simulation, and a moment elsewhere. The request has to stay pending.
pub(super) fn thinks(bench: &Bench, side: &Side, what: &str, request: &Overlapped) -> Step {
    if side.file.simulation().is_none() {
        return side.stays(what, request);
    }
    side.step(format_args!("{what} stays pending for long"));
    let long = Duration::from_secs(30).max(bench.limits().quiet);
    match request.wait_timeout(long) {
        Some(Status::POSSIBLE_DEADLOCK) | None => Ok(()),
        Some(status) => Err(conform_report::fail(
            format!("{what} stays pending"),
            format!("its end with {status}"),
        )),
    }
}

/// Disconnects, which has to succeed.
pub(super) fn disconnect(side: &Side, connector: &Arc<dyn Connector>) -> Step {
    let overlapped = quiet();
    let started = connector.disconnect(&overlapped);
    side.done("Disconnect", started, &overlapped)
}
