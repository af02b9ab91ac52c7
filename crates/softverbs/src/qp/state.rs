//! The states of queue pairs, and the changes between them that are allowed.

use super::options::Service;
use crate::ah::AddressVector;
use crate::device::{Device, DeviceKind, limits};
use crate::error::{Errno, Result, fail};
use crate::mr::AccessFlags;

/// The state of a queue pair, with the values of `enum ibv_qp_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum QpState {
    /// Made, or made anew.
    #[default]
    Reset = 0,
    /// Receives can be posted.
    Init = 1,
    /// Messages can arrive.
    Rtr = 2,
    /// Requests are carried out.
    Rts = 3,
    /// Requests are held back. No queue pair of softnd gets into this state.
    Sqd = 4,
    /// A request failed, and messages can arrive. Only queue pairs for datagrams get into this state by themselves.
    Sqe = 5,
    /// Requests come back flushed.
    Err = 6,
}

impl QpState {
    pub(crate) fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Reset,
            1 => Self::Init,
            2 => Self::Rtr,
            3 => Self::Rts,
            4 => Self::Sqd,
            5 => Self::Sqe,
            _ => Self::Err,
        }
    }
}

bitflags::bitflags! {
    /// The attributes that a call names, with the values of `enum ibv_qp_attr_mask`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct QpMask: u32 {
        /// The new state.
        const STATE = 1;
        /// The state before.
        const CUR_STATE = 1 << 1;
        /// Notify peers of the drained send queue.
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// The rights of peers.
        const ACCESS_FLAGS = 1 << 3;
        /// The partition.
        const PKEY_INDEX = 1 << 4;
        /// The port.
        const PORT = 1 << 5;
        /// The key of datagrams.
        const QKEY = 1 << 6;
        /// The address of the peer.
        const AV = 1 << 7;
        /// The MTU of the path.
        const PATH_MTU = 1 << 8;
        /// The time limit for acknowledgements.
        const TIMEOUT = 1 << 9;
        /// The number of times that a message is repeated.
        const RETRY_CNT = 1 << 10;
        /// The number of times that a message that found no Receive is repeated.
        const RNR_RETRY = 1 << 11;
        /// The first packet number of the receive queue.
        const RQ_PSN = 1 << 12;
        /// Outstanding Reads.
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// An alternate path.
        const ALT_PATH = 1 << 14;
        /// The time that a peer waits for a Receive.
        const MIN_RNR_TIMER = 1 << 15;
        /// The first packet number of the send queue.
        const SQ_PSN = 1 << 16;
        /// Inbound Reads.
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// The migration state of the path.
        const PATH_MIG_STATE = 1 << 18;
        /// The sizes of the queues.
        const CAP = 1 << 19;
        /// The number of the peer's queue pair.
        const DEST_QPN = 1 << 20;
        /// A rate limit.
        const RATE_LIMIT = 1 << 25;
    }
}

/// The attributes of a queue pair that a program sets and gets back, like `struct ibv_qp_attr`. Those that a stream of TCP has no use for
/// are only kept for the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpAttributes {
    /// The state.
    pub state: QpState,
    /// The state before.
    pub cur_state: QpState,
    /// The bits of [`AccessFlags`]: the rights of peers.
    pub access: u32,
    /// The partition.
    pub pkey_index: u16,
    /// The port.
    pub port: u8,
    /// The number of the peer's queue pair; below 0x10000 the number of a connection of the connection manager.
    pub dest_qp_num: u32,
    /// The address of the peer.
    pub address: AddressVector,
    /// The key of datagrams.
    pub qkey: u32,
    /// The MTU of the path, as `enum ibv_mtu`.
    pub path_mtu: u32,
    /// The first packet numbers.
    pub rq_psn: u32,
    /// See `rq_psn`.
    pub sq_psn: u32,
    /// Outstanding Reads.
    pub max_rd_atomic: u8,
    /// Inbound Reads.
    pub max_dest_rd_atomic: u8,
    /// The time that a peer waits for a Receive.
    pub min_rnr_timer: u8,
    /// The time limit for acknowledgements.
    pub timeout: u8,
    /// The number of times that a message is repeated.
    pub retry_cnt: u8,
    /// The number of times that a message that found no Receive is repeated.
    pub rnr_retry: u8,
}

impl QpAttributes {
    /// Takes over the attributes that `mask` names, except the state.
    pub(super) fn take(&mut self, from: &Self, mask: QpMask) {
        macro_rules! take {
            ($($bit:ident $field:ident),*) => {
                $(if mask.contains(QpMask::$bit) { self.$field = from.$field; })*
            };
        }
        take!(
            AV address, QKEY qkey, ACCESS_FLAGS access, PKEY_INDEX pkey_index, PORT port, DEST_QPN dest_qp_num, PATH_MTU path_mtu, RQ_PSN rq_psn,
            SQ_PSN sq_psn, MAX_QP_RD_ATOMIC max_rd_atomic, MAX_DEST_RD_ATOMIC max_dest_rd_atomic,
            MIN_RNR_TIMER min_rnr_timer, TIMEOUT timeout, RETRY_CNT retry_cnt, RNR_RETRY rnr_retry
        );
    }

    /// Checks timers, counters and the MTU, which adapters of iWARP have no use for.
    fn check_ranges(&self, mask: QpMask, device: &Device) -> Result<()> {
        let ranges = [
            (QpMask::TIMEOUT, "timeout", self.timeout, 31),
            (
                QpMask::MIN_RNR_TIMER,
                "min_rnr_timer",
                self.min_rnr_timer,
                31,
            ),
            (QpMask::RETRY_CNT, "retry_cnt", self.retry_cnt, 7),
            (QpMask::RNR_RETRY, "rnr_retry", self.rnr_retry, 7),
        ];
        for (bit, name, value, most) in ranges {
            if mask.contains(bit) && value > most {
                return fail(
                    Errno::INVAL,
                    format!("{name} is {value}, and is at most {most}"),
                );
            }
        }
        let most = device.mtu_number();
        if mask.contains(QpMask::PATH_MTU) && !(1..=most).contains(&self.path_mtu) {
            return fail(
                Errno::INVAL,
                format!(
                    "path_mtu is {}; the port has values of enum ibv_mtu from 1 to {most} (active_mtu)",
                    self.path_mtu
                ),
            );
        }
        Ok(())
    }

    /// Checks values independently of the state.
    pub(super) fn check(&self, mask: QpMask, device: &Device) -> Result<()> {
        if device.kind() == DeviceKind::Roce {
            self.check_ranges(mask, device)?;
        }
        if mask.contains(QpMask::PORT) && self.port != 1 {
            return fail(Errno::INVAL, format!("there is no port {}", self.port));
        }
        if mask.contains(QpMask::PKEY_INDEX) && self.pkey_index != 0 {
            return fail(Errno::INVAL, "the only partition has index 0");
        }
        let remote = AccessFlags::all().bits();
        if mask.contains(QpMask::ACCESS_FLAGS) && self.access & !remote != 0 {
            return fail(Errno::INVAL, "the access flags have bits that do not exist");
        }
        let most = limits::READS;
        let reads = [
            (QpMask::MAX_QP_RD_ATOMIC, self.max_rd_atomic),
            (QpMask::MAX_DEST_RD_ATOMIC, self.max_dest_rd_atomic),
        ];
        for (bit, value) in reads {
            if mask.contains(bit) && u32::from(value) > most {
                return fail(
                    Errno::INVAL,
                    format!("{value} Reads at a time; the device has at most {most}"),
                );
            }
        }
        Ok(())
    }
}

/// A change of the state of a queue pair.
struct Change {
    from: &'static [QpState],
    to: QpState,
    /// The attributes that the change has to name.
    needs: QpMask,
    /// The attributes that it may name besides.
    takes: QpMask,
}

impl Change {
    const fn new(from: &'static [QpState], to: QpState, (needs, takes): (QpMask, QpMask)) -> Self {
        Self {
            from,
            to,
            needs,
            takes,
        }
    }
}

const PATH: QpMask = QpMask::ACCESS_FLAGS
    .union(QpMask::PKEY_INDEX)
    .union(QpMask::ALT_PATH)
    .union(QpMask::PATH_MIG_STATE);

const PORTS: QpMask = QpMask::PKEY_INDEX
    .union(QpMask::PORT)
    .union(QpMask::ACCESS_FLAGS);

const IN_RTS: QpMask = PATH
    .union(QpMask::MIN_RNR_TIMER)
    .union(QpMask::CUR_STATE)
    .union(QpMask::RATE_LIMIT);

/// The table of a type of queue pair, from the attributes that the change to INIT needs and that those to RTR and RTS need and take, and from
/// those that can be named in RTS. The changes to RESET and to ERR are possible in every state.
const fn table(
    ports: QpMask,
    to_rtr: (QpMask, QpMask),
    to_rts: (QpMask, QpMask),
    in_rts: QpMask,
) -> [Change; 5] {
    let none = QpMask::empty();
    [
        Change::new(&[QpState::Reset], QpState::Init, (ports, none)),
        Change::new(&[QpState::Init], QpState::Init, (none, ports)),
        Change::new(&[QpState::Init], QpState::Rtr, to_rtr),
        Change::new(&[QpState::Rtr], QpState::Rts, to_rts),
        Change::new(&[QpState::Rts, QpState::Sqe], QpState::Rts, (none, in_rts)),
    ]
}

/// The attributes of the peer that both connected types need.
const PEER: QpMask = QpMask::AV
    .union(QpMask::PATH_MTU)
    .union(QpMask::DEST_QPN)
    .union(QpMask::RQ_PSN);

/// The changes of a reliable connected queue pair on InfiniBand.
const RELIABLE: [Change; 5] = table(
    PORTS,
    (
        PEER.union(QpMask::MAX_DEST_RD_ATOMIC)
            .union(QpMask::MIN_RNR_TIMER),
        PATH,
    ),
    (
        QpMask::TIMEOUT
            .union(QpMask::RETRY_CNT)
            .union(QpMask::RNR_RETRY)
            .union(QpMask::SQ_PSN)
            .union(QpMask::MAX_QP_RD_ATOMIC),
        IN_RTS,
    ),
    IN_RTS,
);

const PATH_IN_RTS: QpMask = QpMask::CUR_STATE
    .union(QpMask::ALT_PATH)
    .union(QpMask::ACCESS_FLAGS)
    .union(QpMask::PATH_MIG_STATE);

/// The changes of an unreliable connected queue pair.
const UNRELIABLE: [Change; 5] = table(
    PORTS,
    (PEER, PATH),
    (QpMask::SQ_PSN, PATH_IN_RTS),
    PATH_IN_RTS,
);

const KEYS_IN_RTS: QpMask = QpMask::CUR_STATE.union(QpMask::QKEY);

/// The changes of a queue pair for datagrams.
const DATAGRAM: [Change; 5] = table(
    QpMask::PKEY_INDEX.union(QpMask::PORT).union(QpMask::QKEY),
    (QpMask::empty(), QpMask::PKEY_INDEX.union(QpMask::QKEY)),
    (QpMask::SQ_PSN, KEYS_IN_RTS),
    KEYS_IN_RTS,
);

/// The attributes that a change has to name, and those that it may name besides; `None` if there is no such change.
fn transition(service: Service, from: QpState, to: QpState) -> Option<(QpMask, QpMask)> {
    if matches!(to, QpState::Reset | QpState::Err) {
        return Some((QpMask::empty(), QpMask::empty()));
    }
    let changes = match service {
        Service::Reliable => &RELIABLE,
        Service::Unreliable => &UNRELIABLE,
        Service::Datagram => &DATAGRAM,
    };
    let mut changes = changes.iter();
    let change = changes.find(|change| change.to == to && change.from.contains(&from))?;
    Some((change.needs, change.takes))
}

/// Checks a change of state.
pub(super) fn check_transition(
    service: Service,
    from: QpState,
    to: QpState,
    mask: QpMask,
    is_iwarp: bool,
) -> Result<()> {
    let Some((needed, allowed)) = transition(service, from, to) else {
        return fail(
            Errno::INVAL,
            format!("a queue pair does not go from {from:?} to {to:?}"),
        );
    };
    let named = mask - QpMask::STATE;
    // An iWARP queue pair has none of the attributes of packets.
    if !is_iwarp && !named.contains(needed) {
        let missing = needed - named;
        return fail(
            Errno::INVAL,
            format!("the change from {from:?} to {to:?} needs {missing:?} as well"),
        );
    }
    let surplus = named - needed - allowed - QpMask::CUR_STATE;
    if !is_iwarp && !surplus.is_empty() && !matches!(to, QpState::Reset | QpState::Err) {
        return fail(
            Errno::INVAL,
            format!("the change from {from:?} to {to:?} does not take {surplus:?}"),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_way_and_no_other() {
        use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
        let all = [Reset, Init, Rtr, Rts, Sqd, Sqe, Err];
        for service in [Service::Reliable, Service::Unreliable, Service::Datagram] {
            let mut allowed = Vec::new();
            for from in all {
                for to in all {
                    if transition(service, from, to).is_some() && !matches!(to, Reset | Err) {
                        allowed.push((from, to));
                    }
                }
            }
            let expected = [
                (Reset, Init),
                (Init, Init),
                (Init, Rtr),
                (Rtr, Rts),
                (Rts, Rts),
                (Sqe, Rts),
            ];
            assert_eq!(allowed, expected);
            assert!(
                all.iter()
                    .all(|from| transition(service, *from, Err).is_some())
            );
        }
    }

    #[test]
    fn what_a_change_needs_is_named_in_the_error() {
        let mask = QpMask::STATE | QpMask::PORT | QpMask::ACCESS_FLAGS;
        let error = check_transition(
            Service::Reliable,
            QpState::Reset,
            QpState::Init,
            mask,
            false,
        )
        .unwrap_err();
        assert_eq!(error.errno(), Errno::INVAL);
        assert!(error.to_string().contains("PKEY_INDEX"), "{error}");
        assert!(
            check_transition(Service::Reliable, QpState::Reset, QpState::Init, mask, true).is_ok()
        );
        let surplus = mask | QpMask::PKEY_INDEX | QpMask::TIMEOUT;
        let error = check_transition(
            Service::Reliable,
            QpState::Reset,
            QpState::Init,
            surplus,
            false,
        )
        .unwrap_err();
        assert!(error.to_string().contains("TIMEOUT"), "{error}");
    }

    #[test]
    fn each_service_has_its_own_attributes() {
        let error = |service, from, to, mask| {
            check_transition(service, from, to, mask, false)
                .unwrap_err()
                .to_string()
        };
        let init = QpMask::STATE | QpMask::PORT | QpMask::PKEY_INDEX | QpMask::ACCESS_FLAGS;
        let (reset, initial) = (QpState::Reset, QpState::Init);
        assert!(error(Service::Datagram, reset, initial, init).contains("QKEY"));
        let keyed = (init - QpMask::ACCESS_FLAGS) | QpMask::QKEY;
        assert!(check_transition(Service::Datagram, reset, initial, keyed, false).is_ok());
        assert!(error(Service::Unreliable, reset, initial, keyed).contains("ACCESS_FLAGS"));
        let ready = QpMask::STATE;
        assert!(check_transition(Service::Datagram, initial, QpState::Rtr, ready, false).is_ok());
        assert!(error(Service::Unreliable, initial, QpState::Rtr, ready).contains("DEST_QPN"));
        assert!(
            !error(Service::Unreliable, initial, QpState::Rtr, ready).contains("MIN_RNR_TIMER")
        );
    }

    #[test]
    fn only_named_attributes_are_taken() {
        let mut attributes = QpAttributes::default();
        let from = QpAttributes {
            access: 7,
            dest_qp_num: 9,
            timeout: 14,
            ..QpAttributes::default()
        };
        attributes.take(&from, QpMask::DEST_QPN | QpMask::TIMEOUT);
        assert_eq!(
            (
                attributes.access,
                attributes.dest_qp_num,
                attributes.timeout
            ),
            (0, 9, 14)
        );
    }
}
