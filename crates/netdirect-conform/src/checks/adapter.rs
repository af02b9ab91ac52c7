//! `IND2Adapter`: the objects that its calls make, the calls that it refuses, and the answers of queries.

use conform_report::{Pass, Step, Verdict, ensure};
use netdirect::{
    AdapterFlags, Affinity, Call, CompletionPort, Overlapped, QueuePairOptions, RequestType, Sge,
    SharedReceiveQueueOptions, Started, Status,
};

use super::common::{above, exchange, removed, shared, shortage, sink, source};
use crate::bench::Bench;
use crate::check::{Check, Interface, check};
use crate::link::LinkOptions;
use crate::need::Need;
use crate::side::Side;

const fn new_check(name: &'static str, title: &'static str, run: fn(&Bench) -> Verdict) -> Check {
    check(Interface::Adapter, name, title, run)
}

pub(super) const CHECKS: &[Check] = &[
    new_check(
        "ADPT-001.objects",
        "makes each kind of overlapped object with one overlapped file",
        objects,
    ),
    new_check(
        "ADPT-002.shortage",
        "has CreateOverlappedFile fail for want of memory, and succeed afterwards",
        |bench| {
            let Side { adapter, .. } = &bench.near;
            let make = || adapter.create_overlapped_file();
            shortage(&bench.near, Call::CreateOverlappedFile, &[Status::NO_MEMORY], make)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-003.removed",
        "calls CreateOverlappedFile after the device was removed",
        |bench| {
            let gone = removed(&bench.near)?;
            let made = gone.adapter.create_overlapped_file();
            gone.refused("CreateOverlappedFile", made, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-007.port",
        "finds the ends of requests on a region, a completion queue and a listener in the file's completion port",
        |bench| port(bench, false),
    ),
    new_check(
        "ADPT-008.late",
        "ties the file to a completion port after the objects were made and Listen was called",
        |bench| port(bench, true),
    ),
    new_check(
        "ADPT-009.query",
        "queries the adapter twice, with objects made in between, and gets the same identity, limits and flags",
        query,
    )
    .also(&["ADPT-015", "INFO-002", "INFO-003"]),
    new_check(
        "ADPT-017.addresses",
        "asks for the adapter's addresses, each of which leads to this adapter",
        addresses,
    )
    .also(&["INFO-004"]),
    new_check(
        "ADPT-020.depths",
        "makes completion queues of depth 1 and of the largest depth",
        |bench| {
            bench.near.cq(1)?;
            bench.near.cq(bench.near.info.max_completion_queue_depth)?;
            Ok(Pass::Right)
        },
    )
    .also(&["INFO-017"]),
    new_check(
        "ADPT-021.shortage",
        "has CreateCompletionQueue fail for want of memory and of resources, and succeed afterwards",
        |bench| {
            let Side { adapter, file, .. } = &bench.near;
            let make = || adapter.create_completion_queue(file, 8, Affinity::default());
            short(bench, Call::CreateCompletionQueue, make)
        },
    )
    .also(&["ADPT-022"])
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-023.depths",
        "asks for a completion queue of depth 0, and for one above the adapter's limit",
        wrong_depths,
    )
    .also(&["AMB-019"]),
    new_check(
        "ADPT-024.removed",
        "calls CreateCompletionQueue after the device was removed",
        |bench| {
            let gone = removed(&bench.near)?;
            let made = gone
                .adapter
                .create_completion_queue(&gone.file, 8, Affinity::default());
            gone.refused("CreateCompletionQueue", made, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-026.affinity",
        "makes completion queues with affinities that no machine has",
        affinity,
    ),
    new_check(
        "ADPT-028.shared",
        "uses one completion queue for both roles of two queue pairs",
        one_queue_for_all,
    )
    .also(&["CQ-001"])
    .needs(&[Need::Connections]),
    new_check(
        "ADPT-029.empty",
        "makes a memory region, which has no buffer to deregister",
        |bench| {
            let region = bench.near.region()?;
            let overlapped = Overlapped::new();
            let started = region.deregister(&overlapped);
            let status = bench.near.ended("deregister nothing", started, &overlapped)?;
            let wanted = Status::INVALID_DEVICE_STATE;
            bench.near.status("Deregister of a new region", status, wanted)?;
            Ok(Pass::Right)
        },
    ),
    new_check(
        "ADPT-030.shortage",
        "has CreateMemoryRegion fail for want of memory and of resources, and succeed afterwards",
        |bench| {
            let Side { adapter, file, .. } = &bench.near;
            short(bench, Call::CreateMemoryRegion, || adapter.create_memory_region(file))
        },
    )
    .also(&["ADPT-031"])
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-032.removed",
        "calls CreateMemoryRegion after the device was removed",
        |bench| {
            let gone = removed(&bench.near)?;
            let made = gone.adapter.create_memory_region(&gone.file);
            gone.refused("CreateMemoryRegion", made, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-033.token",
        "sends from memory with a token that no region has",
        unknown_token,
    )
    .needs(&[Need::Connections]),
    new_check(
        "ADPT-034.window",
        "makes a memory window, whose token opens nothing to the peer as long as nobody binds it",
        new_window,
    )
    .also(&["ADPT-037"])
    .needs(&[Need::Connections, Need::FarWindows]),
    new_check(
        "ADPT-035.shortage",
        "has CreateMemoryWindow fail for want of resources, and succeed afterwards",
        |bench| {
            let Side { adapter, .. } = &bench.near;
            let statuses = [Status::INSUFFICIENT_RESOURCES];
            let make = || adapter.create_memory_window();
            shortage(&bench.near, Call::CreateMemoryWindow, &statuses, make)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Faults, Need::Windows]),
    new_check(
        "ADPT-036.removed",
        "calls CreateMemoryWindow after the device was removed",
        |bench| {
            let gone = removed(&bench.near)?;
            let made = gone.adapter.create_memory_window();
            gone.refused("CreateMemoryWindow", made, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults, Need::Windows]),
    new_check(
        "ADPT-041.limits",
        "makes shared receive queues of the smallest and of the largest size",
        |bench| {
            let info = bench.near.info;
            for (depth, entries) in [
                (1, 1),
                (info.max_shared_receive_queue_depth, 1),
                (1, info.max_receive_sge),
            ] {
                let made = bench.near.adapter.create_shared_receive_queue(
                    &bench.near.file,
                    srq_options(depth, entries),
                );
                let what = format!("create a shared receive queue of {depth} with {entries} entries");
                bench.near.expect(what, made)?;
            }
            Ok(Pass::Right)
        },
    )
    .also(&["INFO-016"])
    .needs(&[Need::SharedReceiveQueues]),
    new_check(
        "ADPT-042.shortage",
        "has CreateSharedReceiveQueue fail for want of memory and of resources, and succeed afterwards",
        |bench| {
            let Side { adapter, file, .. } = &bench.near;
            let make = || adapter.create_shared_receive_queue(file, srq_options(8, 1));
            short(bench, Call::CreateSharedReceiveQueue, make)
        },
    )
    .also(&["ADPT-043"])
    .needs(&[Need::Faults, Need::SharedReceiveQueues]),
    new_check(
        "ADPT-044.limits",
        "asks for a shared receive queue that is too deep, and for one with too many entries",
        |bench| {
            let Side { adapter, file, info, .. } = &bench.near;
            let depth = above(info.max_shared_receive_queue_depth, "MaxSharedReceiveQueueDepth")?;
            let entries = above(info.max_receive_sge, "MaxReceiveSge")?;
            let made = adapter.create_shared_receive_queue(file, srq_options(depth, 1));
            let wanted = Status::INVALID_PARAMETER_3;
            bench.near.refused("CreateSharedReceiveQueue, too deep", made, wanted)?;
            let made = adapter.create_shared_receive_queue(file, srq_options(1, entries));
            let wanted = Status::INVALID_PARAMETER_4;
            bench.near.refused("CreateSharedReceiveQueue, too many entries", made, wanted)?;
            Ok(Pass::Right)
        },
    )
    .also(&["ADPT-045"])
    .needs(&[Need::SharedReceiveQueues]),
    new_check(
        "ADPT-046.removed",
        "calls CreateSharedReceiveQueue after the device was removed",
        |bench| {
            let gone = removed(&bench.near)?;
            let made = gone
                .adapter
                .create_shared_receive_queue(&gone.file, srq_options(8, 1));
            gone.refused("CreateSharedReceiveQueue", made, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults, Need::SharedReceiveQueues]),
    new_check(
        "ADPT-048.affinity",
        "makes a shared receive queue with an affinity that no machine has",
        |bench| {
            let options = srq_options(8, 1).affinity(Affinity {
                group: 77,
                mask: 1 << 63,
            });
            let Side { adapter, file, .. } = &bench.near;
            let made = adapter.create_shared_receive_queue(file, options);
            bench.near.expect("create a shared receive queue", made)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::SharedReceiveQueues]),
    new_check(
        "ADPT-050.limits",
        "makes a queue pair with each of its five sizes at the adapter's limit",
        largest_queue_pairs,
    ),
    new_check(
        "ADPT-051.foreign",
        "passes CreateQueuePair a receive completion queue of another adapter, then an initiator one",
        foreign_queues,
    )
    .also(&["ADPT-052", "GEN-022"]),
    new_check(
        "ADPT-053.receives",
        "asks for a queue pair with one Receive more than the adapter's limit",
        |bench| {
            let depth = above(bench.near.info.max_receive_queue_depth, "MaxReceiveQueueDepth")?;
            let options = QueuePairOptions::default().receive_queue_depth(depth);
            too_large(bench, options, Status::INVALID_PARAMETER_5)
        },
    )
    .also(&["INFO-028"]),
    new_check(
        "ADPT-054.requests",
        "asks for a queue pair with one initiator request more than the adapter's limit",
        |bench| {
            let limit = bench.near.info.max_initiator_queue_depth;
            let depth = above(limit, "MaxInitiatorQueueDepth")?;
            let options = QueuePairOptions::default().initiator_queue_depth(depth);
            too_large(bench, options, Status::INVALID_PARAMETER_6)
        },
    ),
    new_check(
        "ADPT-055.entries",
        "asks for a queue pair with one entry of a Receive more than the adapter's limit",
        |bench| {
            let entries = above(bench.near.info.max_receive_sge, "MaxReceiveSge")?;
            let options = QueuePairOptions::default().max_receive_request_sge(entries);
            too_large(bench, options, Status::INVALID_PARAMETER_7)
        },
    ),
    new_check(
        "ADPT-056.entries",
        "asks for a queue pair with one entry of an initiator request more than the adapter's limit",
        |bench| {
            let entries = above(bench.near.info.max_initiator_sge, "MaxInitiatorSge")?;
            let options = QueuePairOptions::default().max_initiator_request_sge(entries);
            too_large(bench, options, Status::INVALID_PARAMETER_8)
        },
    ),
    new_check(
        "ADPT-057.inline",
        "asks for a queue pair with one octet of inline data more than the adapter's limit",
        |bench| {
            let octets = above(bench.near.info.max_inline_data_size, "MaxInlineDataSize")?;
            let options = QueuePairOptions::default().inline_data_size(octets);
            too_large(bench, options, Status::INVALID_PARAMETER_9)
        },
    ),
    new_check(
        "ADPT-058.shortage",
        "has CreateQueuePair fail for want of resources, and succeed afterwards",
        |bench| {
            let cq = bench.near.cq(8)?;
            let options = QueuePairOptions::default();
            let make = || bench.near.adapter.create_queue_pair(&cq, &cq, options);
            let statuses = [Status::INSUFFICIENT_RESOURCES];
            shortage(&bench.near, Call::CreateQueuePair, &statuses, make)?;
            Ok(Pass::Right)
        },
    )
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-059.removed",
        "calls CreateQueuePair after the device was removed",
        |bench| {
            let gone = bench.near.open_again()?;
            let cq = gone.cq(8)?;
            super::common::remove(&gone)?;
            let made = gone
                .adapter
                .create_queue_pair(&cq, &cq, QueuePairOptions::default());
            gone.refused("CreateQueuePair", made, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-060.granted",
        "fills both queues of a queue pair up to the sizes that were asked for",
        granted,
    )
    .also(&["INFO-014", "INFO-015"])
    .needs(&[Need::Connections]),
    new_check(
        "ADPT-061.roles",
        "finds Receives in the receive completion queue, and all else in the initiator's",
        roles,
    )
    .needs(&[Need::Connections]),
    new_check(
        "ADPT-062.context",
        "finds the context of each queue pair in its results",
        contexts,
    )
    .also(&["AMB-020"])
    .needs(&[Need::Connections]),
    new_check(
        "ADPT-064.depths",
        "makes queue pairs of 64 requests that share a completion queue of depth 2",
        |bench| {
            let cq = bench.near.cq(2)?;
            let options = QueuePairOptions::default()
                .receive_queue_depth(64)
                .initiator_queue_depth(64);
            let pairs = [bench.near.qp(&cq, &cq, options)?, bench.near.qp(&cq, &cq, options)?];
            drop(pairs);
            Ok(Pass::Right)
        },
    ),
    new_check(
        "ADPT-078.idle",
        "makes a connector, which has no address and no connection",
        |bench| {
            let connector = bench.near.connector()?;
            let wanted = Status::CONNECTION_INVALID;
            let address = connector.get_local_address();
            bench.near.refused("GetLocalAddress of a new connector", address, wanted)?;
            let address = connector.get_peer_address();
            bench.near.refused("GetPeerAddress of a new connector", address, wanted)?;
            Ok(Pass::Right)
        },
    ),
    new_check(
        "ADPT-079.shortage",
        "has CreateConnector fail for want of memory and of resources, and succeed afterwards",
        |bench| {
            let Side { adapter, file, .. } = &bench.near;
            short(bench, Call::CreateConnector, || adapter.create_connector(file))
        },
    )
    .also(&["ADPT-080"])
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-081.removed",
        "calls CreateConnector after the device was removed",
        |bench| {
            let gone = removed(&bench.near)?;
            let made = gone.adapter.create_connector(&gone.file);
            gone.refused("CreateConnector", made, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-082.idle",
        "makes a listener, which has no address and cannot listen yet",
        |bench| {
            let listener = bench.near.listener()?;
            let wanted = Status::INVALID_DEVICE_STATE;
            let address = listener.get_local_address();
            bench.near.refused("GetLocalAddress of a new listener", address, wanted)?;
            bench.near.refused("Listen before Bind", listener.listen(0), wanted)?;
            Ok(Pass::Right)
        },
    ),
    new_check(
        "ADPT-083.shortage",
        "has CreateListener fail for want of memory and of resources, and succeed afterwards",
        |bench| {
            let Side { adapter, file, .. } = &bench.near;
            short(bench, Call::CreateListener, || adapter.create_listener(file))
        },
    )
    .also(&["ADPT-084"])
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-085.removed",
        "calls CreateListener after the device was removed",
        |bench| {
            let gone = removed(&bench.near)?;
            let made = gone.adapter.create_listener(&gone.file);
            gone.refused("CreateListener", made, Status::DEVICE_REMOVED)?;
            Ok(Pass::Right)
        },
    )
    .also(&["GEN-015"])
    .needs(&[Need::Faults]),
    new_check(
        "ADPT-086.file",
        "passes each Create method the overlapped file of another adapter",
        foreign_file,
    )
    .also(&["AMB-056"]),
    new_check(
        "INFO-005.sizes",
        "checks that the limits which depend on each other fit together",
        limits_fit,
    )
    .also(&["INFO-006", "INFO-009", "INFO-018"]),
    new_check(
        "INFO-026.loopback",
        "connects to an address of the own adapter",
        loopback,
    ),
];

fn srq_options(depth: u32, entries: u32) -> SharedReceiveQueueOptions {
    SharedReceiveQueueOptions::default()
        .queue_depth(depth)
        .max_request_sge(entries)
}

/// A call fails for want of memory and of resources, and succeeds afterwards.
fn short<T>(bench: &Bench, call: Call, make: impl Fn() -> netdirect::Result<T>) -> Verdict {
    let statuses = [Status::NO_MEMORY, Status::INSUFFICIENT_RESOURCES];
    shortage(&bench.near, call, &statuses, make)?;
    Ok(Pass::Right)
}

fn objects(bench: &Bench) -> Verdict {
    let side = &bench.near;
    side.cq(8)?;
    let region = side.region()?;
    let buffer = netdirect::Buffer::new(64);
    side.register(&region, &buffer, netdirect::MrFlags::empty())?;
    let connector = side.connector()?;
    side.expect("bind the connector", connector.bind(side.address))?;
    side.listening()?;
    Ok(Pass::Right)
}

/// Four requests on one file, which is tied to a port before or after.
fn port(bench: &Bench, late: bool) -> Verdict {
    let side = bench.near.open_again()?;
    let port = CompletionPort::new();
    let key = 0xF11E;
    let tie = || side.expect("tie the file to the port", side.file.associate(&port, key));
    if !late {
        tie()?;
    }
    let (region, cq) = (side.region()?, side.cq(8)?);
    let (listening, connector) = (side.listening()?, side.connector()?);
    if late {
        tie()?;
    }
    let buffer = netdirect::Buffer::new(64);
    let mut wanted = 0;
    let mut start = |what, user, request: &dyn Fn(&Overlapped) -> netdirect::Result<Started>| {
        let overlapped = Overlapped::new();
        overlapped.set_user(user);
        let started = side.started(what, request(&overlapped))?;
        if started == Started::Pending {
            wanted |= 1 << user;
        }
        Step::Ok(())
    };
    start("register", 1, &|overlapped| {
        region.register(&buffer, netdirect::MrFlags::empty(), overlapped)
    })?;
    start("notify", 2, &|overlapped| {
        cq.notify(netdirect::NotifyType::Any, overlapped)
    })?;
    start("get a connection request", 3, &|overlapped| {
        listening
            .listener
            .get_connection_request(&connector, overlapped)
    })?;
    let canceled = cq.cancel_overlapped_requests();
    side.expect("cancel the Notify", canceled)?;
    let canceled = listening.listener.cancel_overlapped_requests();
    side.expect("cancel GetConnectionRequest", canceled)?;

    let mut found = 0;
    while found != wanted {
        side.step("take a packet from the port");
        let packet = port.get(Some(bench.limits().answer));
        let Some(packet) = packet else {
            return bench.hangs();
        };
        side.equal("the key of the packet", packet.key, key)?;
        let bit = 1u64 << packet.user;
        let seen = format!("a packet for request {} (of {wanted:#b})", packet.user);
        ensure(
            found & bit == 0 && wanted & bit != 0,
            "one packet for each request",
            seen,
        )?;
        found |= bit;
        let status = if packet.user == 1 {
            Status::SUCCESS
        } else {
            Status::CANCELED
        };
        side.status("the status in the packet", packet.status, status)?;
    }
    Ok(Pass::Right)
}

fn query(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let queues = side.queues(8, QueuePairOptions::default())?;
    let memory = sink(side, 4096)?;
    let listening = side.listening()?;
    let again = side.expect("query with objects", side.adapter.query())?;
    side.equal("what Query tells", again, side.info)?;
    drop((queues, memory, listening));
    let again = side.expect("query without objects", side.adapter.query())?;
    side.equal("what Query tells", again, side.info)?;
    Ok(Pass::Right)
}

fn addresses(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let addresses = side.expect("QueryAddressList", side.adapter.query_address_list())?;
    let own = addresses.contains(&side.address);
    let seen = format!("{addresses:?}");
    ensure(own, format!("{} in the list", side.address), seen)?;
    for address in addresses {
        side.equal("the port in the list", address.port(), 0)?;
        let id = side.provider.resolve_address(address);
        let id = side.expect(format_args!("resolve {address}"), id)?;
        side.equal("the adapter of the address", id, side.info.adapter_id)?;
    }
    Ok(Pass::Right)
}

fn wrong_depths(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let limit = side.info.max_completion_queue_depth;
    for depth in [Some(0), limit.checked_add(1)].into_iter().flatten() {
        let made = side
            .adapter
            .create_completion_queue(&side.file, depth, Affinity::default());
        let what = format!("CreateCompletionQueue of depth {depth}");
        side.refused(what, made, Status::INVALID_PARAMETER_3)?;
    }
    side.cq(1)?;
    Ok(Pass::Right)
}

fn affinity(bench: &Bench) -> Verdict {
    let side = &bench.near;
    for (group, mask) in [(0, u64::MAX), (0, 1 << 63), (77, 1), (u16::MAX, u64::MAX)] {
        let affinity = Affinity { group, mask };
        let made = side
            .adapter
            .create_completion_queue(&side.file, 8, affinity);
        side.expect(
            format_args!("create a completion queue for {affinity:?}"),
            made,
        )?;
    }
    Ok(Pass::Right)
}

fn one_queue_for_all(bench: &Bench) -> Verdict {
    let near = bench.near.cq(64)?;
    let pair = || {
        let options = QueuePairOptions::default();
        let qp = bench.near.qp(&near, &near, options)?;
        let queues = crate::link::Queues {
            qp,
            receives: near.clone(),
            initiator: near.clone(),
        };
        let far = bench.far.queues(64, options)?;
        bench.join(queues, far, LinkOptions::default().limits)
    };
    let links = [pair()?, pair()?];
    let (from, to) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    let (back, into) = (source(&bench.far, 64)?, sink(&bench.near, 64)?);
    for link in &links {
        link.far.receive(1, &[to.sge(..)])?;
        link.near.receive(2, &[into.sge(..)])?;
        link.near
            .send(3, &[from.sge(..)], netdirect::OpFlags::empty())?;
        link.far.takes()?;
        link.far
            .send(4, &[back.sge(..)], netdirect::OpFlags::empty())?;
    }
    let results = bench
        .near
        .successes("two Sends and two Receives", &near, 4)?;
    let count = |kind| {
        results
            .iter()
            .filter(|result| result.request_type == kind)
            .count()
    };
    let counts = (count(RequestType::Send), count(RequestType::Receive));
    bench
        .near
        .equal("Sends and Receives in the queue", counts, (2, 2))?;
    Ok(Pass::Right)
}

fn unknown_token(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let memory = source(&bench.near, 64)?;
    let token = netdirect::LocalToken(!memory.region.get_local_token().0);
    let entry = Sge {
        token,
        ..memory.sge(..)
    };
    link.near.send(1, &[entry], netdirect::OpFlags::empty())?;
    let result = link.near.initiated("a Send with an unknown token")?;
    let status = Status::ACCESS_VIOLATION;
    bench.near.status("the Send", result.status, status)?;
    Ok(Pass::Right)
}

fn new_window(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    let window = bench.far.window()?;
    let memory = shared(&bench.far, 64)?;
    let into = sink(&bench.near, 64)?;
    let remote = netdirect::RemoteAddress {
        token: window.get_remote_token(),
        ..memory.remote()
    };
    link.near.read(1, &[into.sge(..)], remote)?;
    let result = link
        .near
        .initiated("a Read through a window that is not bound")?;
    let refused = [Status::ACCESS_VIOLATION, Status::REMOTE_ERROR];
    let seen = format!("{result:?}");
    ensure(
        refused.contains(&result.status),
        "a refusal of the Read",
        seen,
    )?;
    bench
        .near
        .equal("the octets read", into.octets(0, 64), vec![0; 64])?;
    Ok(Pass::Right)
}

fn largest_queue_pairs(bench: &Bench) -> Verdict {
    let (side, info) = (&bench.near, bench.near.info);
    let cq = side.cq(8)?;
    let options = QueuePairOptions::default();
    for options in [
        options.receive_queue_depth(info.max_receive_queue_depth),
        options.initiator_queue_depth(info.max_initiator_queue_depth),
        options.max_receive_request_sge(info.max_receive_sge),
        options.max_initiator_request_sge(info.max_initiator_sge),
        options.inline_data_size(info.max_inline_data_size),
    ] {
        let made = side.adapter.create_queue_pair(&cq, &cq, options);
        side.expect(format_args!("create a queue pair with {options:?}"), made)?;
    }
    Ok(Pass::Right)
}

fn foreign_queues(bench: &Bench) -> Verdict {
    let other = bench.other()?;
    let (own, foreign) = (bench.near.cq(8)?, other.cq(8)?);
    let options = QueuePairOptions::default();
    let Side { adapter, .. } = &bench.near;
    let made = adapter.create_queue_pair(&foreign, &own, options);
    let wanted = Status::INVALID_PARAMETER_2;
    bench
        .near
        .refused("CreateQueuePair, foreign receive queue", made, wanted)?;
    let made = adapter.create_queue_pair(&own, &foreign, options);
    let wanted = Status::INVALID_PARAMETER_3;
    bench
        .near
        .refused("CreateQueuePair, foreign initiator queue", made, wanted)?;
    bench.near.qp(&own, &own, options)?;
    Ok(Pass::Right)
}

fn too_large(bench: &Bench, options: QueuePairOptions, status: Status) -> Verdict {
    let cq = bench.near.cq(8)?;
    let made = bench.near.adapter.create_queue_pair(&cq, &cq, options);
    bench.near.refused("CreateQueuePair", made, status)?;
    bench.near.qp(&cq, &cq, QueuePairOptions::default())?;
    Ok(Pass::Right)
}

fn granted(bench: &Bench) -> Verdict {
    const DEPTH: u32 = 8;
    let options = LinkOptions {
        near: QueuePairOptions::default()
            .receive_queue_depth(DEPTH)
            .initiator_queue_depth(DEPTH),
        far: QueuePairOptions::default().receive_queue_depth(DEPTH),
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let (from, to) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    let into = sink(&bench.near, 64)?;
    for context in 0..DEPTH.into() {
        link.near.receive(context, &[into.sge(..)])?;
        link.far.receive(context, &[to.sge(..)])?;
    }
    for context in 0..DEPTH.into() {
        link.near
            .send(context, &[from.sge(..)], netdirect::OpFlags::empty())?;
    }
    let all = DEPTH as usize;
    let sent = &link.near.queues.initiator;
    bench
        .near
        .successes("as many Sends as were asked for", sent, all)?;
    let taken = &link.far.queues.receives;
    bench
        .far
        .successes("as many Receives as were asked for", taken, all)?;
    Ok(Pass::Right)
}

fn roles(bench: &Bench) -> Verdict {
    let link = bench.link()?;
    exchange(&link)?;
    let mut none = [netdirect::CompletionResult::default(); 1];
    for (what, cq) in [
        (
            "the receive queue of the sender",
            &link.near.queues.receives,
        ),
        (
            "the initiator queue of the receiver",
            &link.far.queues.initiator,
        ),
    ] {
        bench.step(format!("look into {what}"));
        bench.near.equal(what, cq.get_results(&mut none), 0)?;
    }
    Ok(Pass::Right)
}

fn contexts(bench: &Bench) -> Verdict {
    let (near, far) = (0xAAAA_0001_u64, 0xBBBB_0002_0000_0003_u64);
    let options = LinkOptions {
        near: QueuePairOptions::default().context(near),
        far: QueuePairOptions::default().context(far),
        ..LinkOptions::default()
    };
    let link = bench.link_with(options)?;
    let (from, to) = (source(&bench.near, 64)?, sink(&bench.far, 64)?);
    link.far.receive(7, &[to.sge(..)])?;
    link.near
        .send(8, &[from.sge(..)], netdirect::OpFlags::empty())?;
    let sent = link.near.succeeds(RequestType::Send)?;
    let got = (sent.queue_pair_context, sent.request_context);
    bench
        .near
        .equal("the contexts of the Send", got, (near, 8))?;
    let taken = link.far.takes()?;
    let got = (taken.queue_pair_context, taken.request_context);
    bench
        .far
        .equal("the contexts of the Receive", got, (far, 7))?;
    Ok(Pass::Right)
}

fn foreign_file(bench: &Bench) -> Verdict {
    let side = &bench.near;
    let other = bench.other()?;
    let (adapter, file) = (&side.adapter, &other.file);
    let wanted = Status::INVALID_HANDLE;
    let made = adapter.create_completion_queue(file, 8, Affinity::default());
    side.refused("CreateCompletionQueue", made, wanted)?;
    side.refused(
        "CreateMemoryRegion",
        adapter.create_memory_region(file),
        wanted,
    )?;
    side.refused("CreateConnector", adapter.create_connector(file), wanted)?;
    side.refused("CreateListener", adapter.create_listener(file), wanted)?;
    if side.info.max_shared_receive_queue_depth > 0 {
        let made = adapter.create_shared_receive_queue(file, srq_options(8, 1));
        side.refused("CreateSharedReceiveQueue", made, wanted)?;
    }
    Ok(Pass::Right)
}

fn limits_fit(bench: &Bench) -> Verdict {
    let info = bench.near.info;
    bench.step("compare the limits");
    let shown = format!("{info:?}");
    for (right, wanted) in [
        (
            info.max_registration_size > 0,
            "MaxRegistrationSize above 0",
        ),
        (
            info.max_window_size == info.max_registration_size,
            "MaxWindowSize as large as MaxRegistrationSize",
        ),
        (
            info.max_read_sge <= info.max_initiator_sge,
            "MaxReadSge not above MaxInitiatorSge",
        ),
        (
            info.inline_request_threshold <= info.max_inline_data_size,
            "InlineRequestThreshold not above MaxInlineDataSize",
        ),
    ] {
        ensure(right, wanted, shown.as_str())?;
    }
    let cq = bench.near.cq(8)?;
    let options = QueuePairOptions::default().inline_data_size(info.inline_request_threshold);
    bench.near.qp(&cq, &cq, options)?;
    Ok(Pass::Right)
}

fn loopback(bench: &Bench) -> Verdict {
    let flag = AdapterFlags::LOOPBACK_CONNECTIONS_SUPPORTED;
    if !bench.near.info.flags.contains(flag) {
        let lacking = "the adapter lacks the flag LOOPBACK_CONNECTIONS_SUPPORTED";
        return Err(conform_report::Stop::Skip(lacking.to_owned()));
    }
    let own = bench.alone();
    exchange(&own.link()?)?;
    Ok(Pass::Right)
}
