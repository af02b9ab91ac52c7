//! Calls in wrong states, and calls with wrong arguments: they are refused with the documented errno, and change nothing.

use std::net::SocketAddr;

use softverbs::{
    CmId, CompletionQueue, ConnParameters, Errno, QpState, Result, SendData, SendOperation,
    SendRequest, Sge,
};

use super::Run;
use crate::connection::Phase;
use crate::end::End;

/// What a refused call may not change.
type Observed = (
    Option<SocketAddr>,
    Option<SocketAddr>,
    Option<String>,
    Option<u32>,
    [bool; 2],
);

impl Run<'_> {
    pub(super) fn refused(&mut self) {
        if self.random.once_in(4) {
            return self.refused_by_objects();
        }
        let Some(at) = self.pick_side(|_, _, one| one.id.is_some()) else {
            return;
        };
        let id = self.id(at);
        let before = self.observe(at, &id);
        let called = match self.random.below(4) {
            0 => self.call_of_queue_pairs(at, &id),
            _ => self.call_of_connections(at, &id),
        };
        let Some((what, result)) = called else {
            return;
        };
        let phase = self.side(at).phase;
        let Err(error) = result else {
            panic!("{what} in {phase:?} was not refused");
        };
        assert_eq!(error.errno(), Errno::INVAL, "{what} in {phase:?}");
        assert_eq!(self.observe(at, &id), before, "{what} in {phase:?}");
        self.seen.met(format!("refused: {what}"));
    }

    fn observe(&mut self, at: (usize, usize), id: &CmId) -> Observed {
        let host = self.side(at).host;
        let channels = &self.host(host).channels;
        (
            id.local(),
            id.peer(),
            id.device().map(|device| device.name().to_owned()),
            id.queue_pair().map(|qp| qp.number()),
            [0, 1].map(|at: usize| channels[at].has_event()),
        )
    }

    /// A call that is wrong in the phase of the identifier. A phase that an event may have changed meanwhile is left alone.
    fn call_of_connections(
        &mut self,
        at: (usize, usize),
        id: &CmId,
    ) -> Option<(&'static str, Result<()>)> {
        let one = self.side(at);
        let phase = one.phase;
        let is_waiting = matches!(phase, Phase::Connecting | Phase::Accepting);
        let has_own = one.end.as_ref().is_some_and(|end| end.qp.is_some());
        let was_connected = one.established == 1;
        let parameters = ConnParameters::default();
        let too_long = vec![0; softverbs::limits::PRIVATE_DATA + 1];
        let with_too_much = ConnParameters {
            private_data: too_long.clone(),
            ..ConnParameters::default()
        };
        let peer: SocketAddr = ([10, 0, 0, 1], 7).into();
        let calls = match self.random.below(11) {
            0 if phase != Phase::AddrResolved => ("resolve_route", id.resolve_route()),
            1 if phase != Phase::Idle => ("resolve_addr", id.resolve_addr(None, peer)),
            2 if phase != Phase::Idle => ("listen", id.listen(1)),
            3 if phase != Phase::Idle => ("bind", id.bind(([10, 0, 0, 1], 0).into())),
            4 if phase == Phase::RouteResolved => ("connect", id.connect(&with_too_much)),
            4 => ("connect", id.connect(&parameters)),
            5 if phase == Phase::Offered => ("accept", id.accept(&with_too_much)),
            5 if phase != Phase::Gone => ("accept", id.accept(&parameters)),
            6 if matches!(phase, Phase::Offered | Phase::Answered | Phase::Gone) || is_waiting => {
                ("reject", id.reject(&too_long))
            }
            6 => ("reject", id.reject(&[])),
            7 if phase != Phase::Answered && !is_waiting && (has_own || !was_connected) => {
                ("establish", id.establish())
            }
            8 if !is_waiting && !was_connected => ("disconnect", id.disconnect()),
            9 => ("set_ack_timeout", id.set_ack_timeout(32)),
            10 if phase != Phase::Idle => ("set_one_family", id.set_one_family(true)),
            _ => return None,
        };
        Some(calls)
    }

    fn call_of_queue_pairs(
        &mut self,
        at: (usize, usize),
        id: &CmId,
    ) -> Option<(&'static str, Result<()>)> {
        let one = self.side(at);
        let (host, device, phase) = (one.host, one.device, one.phase);
        let has_own = one.end.as_ref().is_some_and(|end| end.qp.is_some());
        let queue = one.end.as_ref().map(|end| end.queues[0]);
        if has_own {
            let cq = self.queues[queue?].cq.clone()?;
            let host = self.hosts[host].as_ref()?;
            let options = End::options([&cq, &cq], None);
            let made = id.create_queue_pair(&host.devices[device].pd, options);
            return Some(("create_queue_pair twice", made.map(drop)));
        }
        if self.random.once_in(2) {
            return Some(("destroy_queue_pair", id.destroy_queue_pair()));
        }
        if phase == Phase::Idle {
            return None;
        }
        let other = self.hosts[host].as_ref()?;
        let other = &other.devices[1 - device];
        let cq = CompletionQueue::create(&other.context, 1, None).unwrap();
        let made = id.create_queue_pair(&other.pd, End::options([&cq, &cq], None));
        cq.destroy().unwrap();
        Some(("create_queue_pair on another device", made.map(drop)))
    }

    /// Objects that others use are not destroyed, and queue pairs refuse requests.
    fn refused_by_objects(&mut self) {
        let picked = self.pick_side(|_, _, one| {
            let end = one.end.as_ref();
            one.id.is_some() && end.is_some_and(|end| end.qp.is_some())
        });
        let Some(at) = picked else {
            return;
        };
        let (number, side) = at;
        let one = &self.connections[number].sides[side];
        let end = one.end.as_ref().expect("picked");
        let qp = end.qp.clone().expect("picked");
        let host = self.hosts[one.host].as_ref().expect("the process");
        let device = &host.devices[one.device];
        let queue = end.queues[usize::try_from(self.random.below(2)).unwrap()];
        let cq = self.queues[queue].cq.clone().expect("in use");
        let sges = [Sge {
            addr: 0,
            length: 0,
            lkey: 0,
        }; 3];
        let send = |data| SendRequest {
            wr_id: 0,
            operation: SendOperation::Send,
            data,
            signaled: true,
            solicited: false,
            fence: false,
            to: None,
        };
        let is_connected = one.established == 1;
        let (what, result, errno) = match self.random.below(7) {
            0 => (
                "destroy of a completion queue in use",
                cq.destroy(),
                Errno::BUSY,
            ),
            1 => (
                "destroy of a protection domain in use",
                device.pd.destroy(),
                Errno::BUSY,
            ),
            2 => (
                "destroy of a channel in use",
                host.channels[one.channel].destroy(),
                Errno::BUSY,
            ),
            3 if end.is_sharing => {
                let shared = device.receives.as_ref().expect("shared");
                let what = "destroy of a shared receive queue in use";
                (what, shared.srq.destroy(), Errno::BUSY)
            }
            4 if end.is_sharing => (
                "post_receive to the queue pair of a shared queue",
                qp.post_receive(0, &[]),
                Errno::INVAL,
            ),
            5 if one.phase == Phase::Connecting && qp.state() == QpState::Init => (
                "post_send before RTS",
                qp.post_send(&send(SendData::Inline(&[]))),
                Errno::INVAL,
            ),
            6 if is_connected => (
                "post_send with too many SGEs",
                qp.post_send(&send(SendData::Sges(&sges))),
                Errno::INVAL,
            ),
            _ => return,
        };
        let error = result.expect_err(what);
        assert_eq!(error.errno(), errno, "{what}: {error}");
        self.seen.met(format!("refused: {what}"));
    }
}
