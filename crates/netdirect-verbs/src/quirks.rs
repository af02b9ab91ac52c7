//! Drivers and their quirks. Each quirk is a row of the table [`QUIRKS`], with its source and with this provider's treatment of it.
//! Everything else follows the manual pages of rdma-core.

/// One quirk of a driver, and this provider's treatment of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quirk {
    /// The driver, by the name of its folder in Linux; `core` for the connection manager, which all share, and `softnd` for softnd's own
    /// libraries.
    pub driver: &'static str,
    /// The behaviour of the driver.
    pub fact: &'static str,
    /// The behaviour of this provider.
    pub answer: &'static str,
    /// The source: a function or file of the driver or of its library.
    pub source: &'static str,
}

/// The special treatment of a driver.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The driver, by the name of its folder in Linux, or `softnd`; empty if it is not known.
    pub(crate) driver: &'static str,
    /// Instead of taking requests and flushing them, a queue pair that has failed refuses them as invalid.
    pub(crate) refuses_when_failed: bool,
    /// The event of an established connection has the two read limits in each other's place.
    pub(crate) swaps_limits_when_established: bool,
    /// The event of a peer's request does not have the peer's read limits.
    pub(crate) requests_lack_limits: bool,
    /// Before all others, a completion queue for this many results is made and kept.
    pub(crate) reserves_results: Option<u32>,
    /// A request without entries gets an empty one, and any other request gets no empty ones.
    pub(crate) wants_an_entry: bool,
    /// Requests do not complete in the order of posting, so that each has to report its end.
    pub(crate) completes_out_of_order: bool,
    /// A request fails with one and the same status whatever the reason.
    pub(crate) fails_vaguely: bool,
    /// A queue pair that is made to fail has all its results when the call returns.
    pub(crate) flushes_at_once: bool,
    /// A failed request does not end the wait for a solicited result.
    pub(crate) solicits_no_failures: bool,
    /// A Read must not have a fence.
    pub(crate) fences_no_reads: bool,
    /// The sink of a Read needs the right of remote writing.
    pub(crate) sink_is_remote_write: bool,
    /// The passive side needs a place for an inbound Read, because the ready-to-receive message may be one.
    pub(crate) accepts_a_read: bool,
    /// The passive side may leave the peer's first octets untouched until others arrive.
    pub(crate) leaves_first_octets: bool,
    /// Data becomes visible in the order of addresses.
    pub(crate) places_in_order: bool,
    /// `vendor_err` of failed requests has the Terminate.
    pub(crate) tells_terminates: bool,
}

/// The table of quirks, ordered by driver. Only for siw it is known that data becomes visible in the order of addresses, so
/// [`IN_ORDER_DMA_SUPPORTED`](netdirect::AdapterFlags::IN_ORDER_DMA_SUPPORTED) is not reported for other drivers.
pub const QUIRKS: &[Quirk] = &[
    Quirk {
        driver: "core",
        fact: "over InfiniBand and RoCE, for all drivers, prepares queue pairs to have a peer wait 655.36 ms before it sends a message again for which there was no Receive",
        answer: "sets 327.68 ms, and tells the peer to do so 6 times, so that the message fails with ND_IO_TIMEOUT after about 2 s; without end where Receives are shared",
        source: "cm.c, cm_init_qp_rtr_attr, cm_init_qp_rts_attr; ib_verbs.h, enum ib_rnr_timeout",
    },
    Quirk {
        driver: "cxgb4",
        fact: "refuses requests with EINVAL when the queue pair has failed, instead of taking and flushing them",
        answer: "cancels such a request; what else is invalid is refused before the driver sees it",
        source: "libcxgb4, c4iw_post_send, c4iw_post_receive",
    },
    Quirk {
        driver: "cxgb4",
        fact: "looks at the first entry of a Read without entries, unless the pointer to the entries is null",
        answer: "gives a null pointer with requests without entries, on all devices",
        source: "libcxgb4, c4iw_post_send",
    },
    Quirk {
        driver: "cxgb4",
        fact: "obeys a fence with Sends only: a Write with a fence may overtake an earlier Read",
        answer: "nothing: a program waits for the result of the Read before it posts such a Write",
        source: "libcxgb4, c4iw_post_send",
    },
    Quirk {
        driver: "cxgb4",
        fact: "has no windows, and says that it has some",
        answer: "goes by the number of windows, which is 0",
        source: "cxgb4/provider.c, c4iw_query_device, c4iw_register_device",
    },
    Quirk {
        driver: "irdma",
        fact: "has windows of type 1 only, except on the newest generation of devices",
        answer: "uses what the device tells; any queue pair of the adapter, and so any peer, can use a window of type 1",
        source: "irdma/verbs.c, irdma_query_device",
    },
    Quirk {
        driver: "irdma",
        fact: "over iWARP tells its own limit of Reads with a peer's request, and 0 for the other limit",
        answer: "takes both as not told, and offers the client the limits of the adapter",
        source: "irdma/cm.c, irdma_send_cm_event, and i40iw_cm.c, i40iw_send_cm_event; cma.c, iw_conn_req_handler",
    },
    Quirk {
        driver: "irdma",
        fact: "over iWARP tells its own limits of Reads when a connection is established, where others tell those of the peer",
        answer: "exchanges the two in that event",
        source: "irdma/cm.c, irdma_get_cmevent_info, and i40iw_cm.c, i40iw_get_cmevent_info; cma.c, cma_iw_handler",
    },
    Quirk {
        driver: "qedr",
        fact: "over iWARP tells the limits of Reads in each other's place when a connection is established, but not when a peer asks for one",
        answer: "exchanges the two in that event",
        source: "qed_iwarp.c, qed_iwarp_parse_private_data, qed_iwarp_mpa_received; qedr_iw_cm.c, qedr_iw_issue_event, qedr_iw_mpa_request",
    },
    Quirk {
        driver: "qedr",
        fact: "tells the larger one of the limits of the two queues of a queue pair as the limit of both",
        answer: "nothing: creating a queue pair that the device cannot make fails with ND_INSUFFICIENT_RESOURCES",
        source: "qedr/verbs.c, qedr_query_device",
    },
    Quirk {
        driver: "rxe",
        fact: "refuses the Bind of a window whose key in the library's structure is not the newest one",
        answer: "writes the key of each Bind there, and takes a new window after a Bind that has failed",
        source: "rxe_mw.c, rxe_bind_mw; librxe, convert_send_wr",
    },
    Quirk {
        driver: "siw",
        fact: "tells the limits of Reads in each other's place when a connection is established, but not when a peer asks for one",
        answer: "exchanges the two in that event",
        source: "siw_cm.c, siw_cm_upcall; cma.c, cma_iw_handler",
    },
    Quirk {
        driver: "siw",
        fact: "refuses a Receive without entries, and gives a Read without entries the entry of an earlier request",
        answer: "posts one entry of no octets",
        source: "libsiw, push_recv_wqe; siw_qp.c, siw_activate_tx_from_sq",
    },
    Quirk {
        driver: "siw",
        fact: "stops the kernel at an entry of no octets that follows others (a null pointer in siw_tx_hdt)",
        answer: "leaves such entries away",
        source: "siw_qp_tx.c, siw_check_sgl_tx, siw_tx_hdt; seen in the guest",
    },
    Quirk {
        driver: "siw",
        fact: "refuses the queue whose memory begins at page 144 of what a process maps, because that offset is also the mark of an invalid one",
        answer: "makes one large completion queue first, which has this page within",
        source: "siw-abi.h, SIW_INVAL_UOBJ_KEY; libsiw, siw_create_cq; ib_core_uverbs.c, rdma_user_mmap_entry_insert_range; seen in the guest",
    },
    Quirk {
        driver: "siw",
        fact: "fails every Send, Write and Read with IBV_WC_LOC_QP_OP_ERR, and every Receive with IBV_WC_GENERAL_ERR, whatever the reason",
        answer: "keeps a table of registered memory, by which a request with a wrong entry is known; any other is cancelled, or failed by the peer, as a Write is unless this side has ended the connection",
        source: "siw_qp_tx.c, siw_qp_sq_process; siw_qp_rx.c, siw_rdmap_complete",
    },
    Quirk {
        driver: "siw",
        fact: "serves Reads of memory that allows no remote reading",
        answer: "nothing: a peer that knows the token can read the memory",
        source: "siw_qp_tx.c, siw_check_sgl_tx, which is called without rights",
    },
    Quirk {
        driver: "siw",
        fact: "does not tell of failed requests to those that wait for solicited results",
        answer: "has it tell of all results",
        source: "siw_qp.c, siw_rqe_complete, siw_sqe_complete",
    },
    Quirk {
        driver: "siw",
        fact: "completes a Read of several entries with the data of the first alone",
        answer: "uses the device's limit of one entry, which is checked before the driver sees the Read",
        source: "siw_qp.c, siw_activate_tx_from_sq",
    },
    Quirk {
        driver: "siw",
        fact: "completes a Send or Write that follows a Read before this Read",
        answer: "has every request tell its end, and puts the results in the order of posting",
        source: "siw_qp_tx.c, siw_qp_sq_process",
    },
    Quirk {
        driver: "siw",
        fact: "stops at a Read with a fence",
        answer: "leaves the fence of a Read away; the peer answers Reads in their order",
        source: "siw_qp.c, siw_activate_tx_from_sq",
    },
    Quirk {
        driver: "siw",
        fact: "returns errno as a negative number, and after a failed doorbell has taken the request nevertheless",
        answer: "takes errno of either sign; a request is refused only if the driver names it as the bad one",
        source: "libsiw, siw_post_send",
    },
    Quirk {
        driver: "siw",
        fact: "never completes a Receive that is posted after its queue pair has failed",
        answer: "completes such a Receive itself, and the rest when the queue pair has been destroyed",
        source: "libsiw, siw_post_recv; siw_qp.c, siw_qp_modify",
    },
    Quirk {
        driver: "siw",
        fact: "waits within Connect until the peer's host has answered, and leaves the queue pair failed when the peer rejects",
        answer: "calls it in a thread of its own, and makes the queue pair anew after each failed attempt",
        source: "siw_cm.c, siw_connect, siw_cm_work_handler",
    },
    Quirk {
        driver: "siw",
        fact: "stops the kernel when a queue pair fails whose peer has asked for a ready-to-receive message and not sent it yet",
        answer: "destroys such a queue pair only after the identifier of its connection, in a thread of its own that waits for the peer",
        source: "siw_cm.c, siw_qp_cm_drop; iwcm.c, cm_close_handler; seen in the guest",
    },
    Quirk {
        driver: "siw",
        fact: "stops the kernel when the ready-to-receive message is a Read and the inbound limit is 0: the Read is refused, which ends the connection before it is established",
        answer: "accepts with an inbound limit of 1 at least; the limit that clients see stays 0",
        source: "siw_qp_rx.c, siw_init_rresp; iwcm.c, cm_close_handler; seen in the guest",
    },
    Quirk {
        driver: "siw",
        fact: "as the passive side sends its answer before it attends to the connection: what the peer sends in between stays unread until more arrives, for which a peer that waits for an answer waits for ever",
        answer: "looks after Accept whether TCP holds octets that nobody has read; if so, sends a Read of no octets, whose response has siw read. It cannot do so if the peer takes no Reads, or if the client wants none",
        source: "siw_cm.c, siw_accept, siw_cm_llp_data_ready; seen in the guest",
    },
    Quirk {
        driver: "siw",
        fact: "raises the limit of inbound Reads to what the peer asks for",
        answer: "reports the limit that was agreed on; a lower one cannot be had",
        source: "siw_cm.c, siw_accept",
    },
    Quirk {
        driver: "siw",
        fact: "completes what a queue pair has taken from a shared receive queue within the call that makes the queue pair fail, and tells no IBV_EVENT_QP_LAST_WQE_REACHED",
        answer: "does not wait for this event before it destroys the queue pair",
        source: "siw_qp.c, siw_qp_modify, siw_rq_flush",
    },
    Quirk {
        driver: "siw",
        fact: "places the octets of each segment in the order of addresses, as they come from TCP",
        answer: "reports in-order placement",
        source: "siw_qp_rx.c, siw_rx_umem",
    },
    Quirk {
        driver: "softnd",
        fact: "tells in vendor_err of failed requests by which Terminate the connection ended, and which side sent it",
        answer: "reports both as the reason why the connection ended; of other devices vendor_err is only shown as a number",
        source: "docs/use/verbs.md, Why a connection ended",
    },
];

#[cfg(target_os = "linux")]
impl Needs {
    /// For an unknown driver.
    const ANY: Self = Self {
        driver: "",
        refuses_when_failed: false,
        swaps_limits_when_established: false,
        requests_lack_limits: false,
        wants_an_entry: false,
        reserves_results: None,
        completes_out_of_order: false,
        fails_vaguely: false,
        flushes_at_once: false,
        solicits_no_failures: false,
        fences_no_reads: false,
        sink_is_remote_write: false,
        accepts_a_read: false,
        leaves_first_octets: false,
        places_in_order: false,
        tells_terminates: false,
    };

    const SIW: Self = Self {
        driver: "siw",
        swaps_limits_when_established: true,
        wants_an_entry: true,
        // 256 pages of 128 results each.
        reserves_results: Some(32 * 1024),
        completes_out_of_order: true,
        fails_vaguely: true,
        flushes_at_once: true,
        solicits_no_failures: true,
        fences_no_reads: true,
        accepts_a_read: true,
        leaves_first_octets: true,
        places_in_order: true,
        ..Self::ANY
    };

    const CXGB4: Self = Self {
        driver: "cxgb4",
        refuses_when_failed: true,
        ..Self::ANY
    };

    const IRDMA: Self = Self {
        driver: "irdma",
        swaps_limits_when_established: true,
        requests_lack_limits: true,
        ..Self::ANY
    };

    const SOFTND: Self = Self {
        driver: "softnd",
        tells_terminates: true,
        ..Self::ANY
    };

    const QEDR: Self = Self {
        driver: "qedr",
        swaps_limits_when_established: true,
        ..Self::ANY
    };

    /// For the driver of the device with these numbers. Drivers cannot be asked for their names. Drivers of cards return their vendor's
    /// number on the PCI bus, except mlx4 and mlx5, which return one and the same other number.
    pub(crate) fn for_driver(vendor_id: u32, is_iwarp: bool) -> Self {
        let named = |driver| Self {
            driver,
            ..Self::ANY
        };
        let known = match (vendor_id, is_iwarp) {
            (0x62_6D_74, true) => return Self::SIW,
            (0x1425, true) => Self::CXGB4,
            (0x8086, true) => Self::IRDMA,
            (0x8086, false) => named("irdma"),
            (0x1077, true) => Self::QEDR,
            (0x1077, false) => named("qedr"),
            (0x14E4, false) => named("bnxt_re"),
            (0xFF_FFFF, false) => named("rxe"),
            (0x02_53_4E, _) => Self::SOFTND,
            _ => Self::ANY,
        };
        Self {
            // A Read Response is a tagged message to the sink (RFC 5040 §5.2).
            sink_is_remote_write: is_iwarp,
            ..known
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_known_by_its_number_and_transport() {
        for (vendor_id, is_iwarp, driver) in [
            (0x62_6D_74, true, "siw"),
            (0x1425, true, "cxgb4"),
            (0x8086, true, "irdma"),
            (0x8086, false, "irdma"),
            (0x1077, true, "qedr"),
            (0x1077, false, "qedr"),
            (0x14E4, false, "bnxt_re"),
            (0x02C9, false, ""),
            (0xFF_FFFF, false, "rxe"),
            (0x02_53_4E, true, "softnd"),
            (0x02_53_4E, false, "softnd"),
            (0x62_6D_74, false, ""),
            (0xFF_FFFF, true, ""),
            (0, true, ""),
        ] {
            let needs = Needs::for_driver(vendor_id, is_iwarp);
            assert_eq!(needs.driver, driver, "{vendor_id:#x}");
            let is_siw = driver == "siw";
            assert_eq!(needs.sink_is_remote_write, is_iwarp && !is_siw);
            assert_eq!(needs.places_in_order, is_siw);
            assert_eq!(needs.refuses_when_failed, driver == "cxgb4");
            assert_eq!(needs.tells_terminates, driver == "softnd");
        }
    }

    #[test]
    fn quirks_are_ordered_by_driver_and_have_sources() {
        assert!(QUIRKS.is_sorted_by_key(|quirk| quirk.driver));
        for quirk in QUIRKS {
            let all = [quirk.driver, quirk.fact, quirk.answer, quirk.source];
            assert!(all.iter().all(|text| !text.is_empty()), "{quirk:?}");
        }
    }
}
