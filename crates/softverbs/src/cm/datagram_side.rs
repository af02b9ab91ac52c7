//! Identifiers of the port space `RDMA_PS_UDP`: they find the number and the Q_Key of a queue pair for datagrams, and have no connection.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use super::datagrams::{Asking, CmMessage, DatagramListener, MessageKind, OwnPair};
use super::event::{CmEventKind, ConnParameters, status_of};
use super::pending::Pending;
use super::resolve::any;
use super::space::PortSpace;
use super::state::{CmId, IdState, Phase};
use crate::ah::AddressVector;
use crate::device::{Gid, GidEntry, gid};
use crate::error::{Errno, Error, Result, fail};
use crate::qp::{QpAttributes, QpMask, QpState, QueuePair, Service};

/// The Q_Key of queue pairs of identifiers (`RDMA_UDP_QKEY`).
const KEY: u32 = 0x0123_4567;

/// The reason of InfiniBand for which a peer rejects: the program decides so (`IB_SIDR_REJECT`).
pub(super) const REJECTED: i32 = 2;

impl CmId {
    pub(super) fn listen_udp(&self, state: &mut IdState) -> Result<()> {
        if state.local.is_none() {
            self.bind_locked(state, any(true))?;
        }
        let (Some(bound), Some(local)) = (state.bound_udp.take(), state.local) else {
            return fail(Errno::INVAL, "the identifier is in use");
        };
        self.pending.get_or_init(Pending::default);
        let service = DatagramListener::open(
            &self.engine.driver,
            &bound.reserved,
            (&bound.addresses, local.port()),
            self.process.faults.as_ref(),
            self.this.clone(),
        );
        let service = service.map_err(|error| Error::of_system(&error, "cannot listen"))?;
        state.phase = Phase::Serving(service);
        Ok(())
    }

    pub(super) fn ask(
        &self,
        state: &mut IdState,
        destination: SocketAddr,
        parameters: &ConnParameters,
    ) -> Result<()> {
        let Some(local) = state.local else {
            return fail(Errno::INVAL, "the identifier has no local address");
        };
        let nonce = self.process.environment().random();
        let nonce = nonce.map_err(|error| Error::of_system(&error, "there is no random number"))?;
        let own = self.own_pair(state, parameters);
        let request = CmMessage {
            kind: MessageKind::Request,
            nonce,
            number: own.number,
            key: own.key,
            gid: own.gid,
            private_data: parameters.private_data.clone(),
        };
        let bound = state.bound_udp.take().unwrap_or_default();
        let asking = Asking::new(
            &self.engine.driver,
            (&bound.reserved, local),
            self.process.faults.as_ref(),
            destination,
            &request,
            self.this.clone(),
        );
        let asking = asking.map_err(|error| Error::of_system(&error, "cannot ask the peer"))?;
        state.local = Some(asking.local());
        state.phase = Phase::Asking(Box::new(asking));
        self.ask_again(state);
        Ok(())
    }

    /// Sends the request, or gives it up.
    pub(super) fn ask_again(&self, state: &mut IdState) {
        let Phase::Asking(asking) = &mut state.phase else {
            return;
        };
        let errno = match asking.ask() {
            Ok(Some(after)) => return self.set_timer(state, after),
            Ok(None) => Errno::TIMEDOUT,
            Err(error) => iwarp_io::system_call::errno(&error).unwrap_or(Errno::IO),
        };
        state.phase = Phase::Over;
        let what = state.peer.map_or_else(String::new, |peer| peer.to_string());
        let cause = Error::new(errno, format!("{what} does not answer: {errno}"));
        let (status, none) = (status_of(errno), ConnParameters::default());
        self.tell_with(CmEventKind::Unreachable, status, none, 0, Some(cause));
    }

    /// The number and the Q_Key of the program's queue pair: that of the identifier, or the one that the program names.
    fn own_pair(&self, state: &IdState, parameters: &ConnParameters) -> OwnPair {
        let named = || self.process.numbers.find::<QueuePair>(parameters.qp_num);
        let gid = Self::own_row(state).map_or_else(Gid::default, |row| row.gid);
        match state.qp.clone().or_else(named) {
            Some(qp) => OwnPair {
                number: qp.number(),
                key: qp.query().qkey,
                gid,
            },
            None => OwnPair {
                number: parameters.qp_num,
                key: KEY,
                gid,
            },
        }
    }

    pub(super) fn accept_udp(
        &self,
        state: &mut IdState,
        parameters: &ConnParameters,
    ) -> Result<()> {
        let own = self.own_pair(state, parameters);
        if own.number == 0 {
            return fail(
                Errno::INVAL,
                "there is no queue pair whose number the peer could get: make one, or name one (qp_num)",
            );
        }
        if let Phase::Asked(asked) = std::mem::replace(&mut state.phase, Phase::Over) {
            asked.answer(MessageKind::Accepted, own, &parameters.private_data);
        }
        Ok(())
    }

    /// The row of the GID table by which this side is reached: that of its address, or of another one of the family, as for an address of the
    /// loopback interface.
    fn own_row(state: &IdState) -> Option<GidEntry> {
        let (device, local) = (state.device.as_ref()?, state.local?);
        let own = gid(local.ip().to_canonical());
        let is_ipv4 = |gid: Gid| Ipv6Addr::from(gid).to_ipv4_mapped().is_some();
        let rows = device.gids();
        let same = rows.iter().find(|row| row.gid == own);
        let other = || rows.iter().find(|row| is_ipv4(row.gid) == is_ipv4(own));
        same.or_else(other).copied()
    }

    /// The address vector of a peer that is reached at this GID.
    pub(super) fn vector(state: &IdState, dgid: Gid) -> Option<AddressVector> {
        let row = Self::own_row(state)?;
        Some(AddressVector {
            is_global: true,
            dgid,
            sgid_index: u8::try_from(row.index).ok()?,
            hop_limit: 64,
            port: 1,
            ..AddressVector::default()
        })
    }

    /// Moves a queue pair for datagrams to RTS, as it is when `rdma_create_qp` returns.
    pub(super) fn advance_datagrams(qp: &Arc<QueuePair>) -> Result<()> {
        for to in [QpState::Init, QpState::Rtr, QpState::Rts] {
            let (attributes, mask) = datagram_attributes(to);
            qp.modify(&attributes, mask)?;
        }
        Ok(())
    }
}

/// The attributes for the change of a queue pair for datagrams to a state.
pub(super) fn datagram_attributes(to: QpState) -> (QpAttributes, QpMask) {
    let attributes = QpAttributes {
        state: to,
        port: 1,
        qkey: KEY,
        ..QpAttributes::default()
    };
    let mask = match to {
        QpState::Init => QpMask::PKEY_INDEX | QpMask::PORT | QpMask::QKEY,
        QpState::Rts => QpMask::SQ_PSN,
        _ => QpMask::empty(),
    };
    (attributes, QpMask::STATE | mask)
}

/// The service of queue pairs of identifiers of a port space.
pub(super) fn service_of(id: &CmId) -> Service {
    match id.space() {
        PortSpace::Tcp => Service::Reliable,
        PortSpace::Udp => Service::Datagram,
    }
}
