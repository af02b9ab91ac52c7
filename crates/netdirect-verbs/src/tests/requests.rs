//! Requests, their results, and the results of drivers' functions for them.

use netdirect::{
    Buffer, CompletionResult, LocalToken, MrFlags, NotifyType, OpFlags, Overlapped,
    QueuePairOptions, RemoteAddress, RequestType, Sge, Started, Status,
};

use super::{Objects, fake, last_post};
use crate::sys::bindings as c;

const SGE: Sge = Sge {
    address: 4096,
    length: 8,
    token: LocalToken(1),
};

#[test]
fn a_failed_result_has_the_kind_and_the_contexts_of_its_request() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    objects.qp.receive(1, &[SGE]).expect("posted");
    let receive = last_post();
    let to = RemoteAddress::default();
    objects
        .qp
        .write(2, &[SGE], to, OpFlags::SILENT_SUCCESS)
        .expect("posted");
    let write = last_post();
    fake::with(|world| {
        world.complete(receive, c::IBV_WC_LOC_LEN_ERR, 0);
        world.complete(write, c::IBV_WC_REM_ACCESS_ERR, 0);
    });
    let results = objects.results();
    let found: Vec<_> = results
        .iter()
        .map(|result| {
            assert_eq!(result.queue_pair_context, 7);
            (result.request_type, result.request_context, result.status)
        })
        .collect();
    assert_eq!(found.len(), 2, "{results:?}");
    assert!(found.contains(&(RequestType::Receive, 1, Status::BUFFER_OVERFLOW)));
    assert!(found.contains(&(RequestType::Write, 2, Status::ACCESS_VIOLATION)));
}

#[test]
fn cq_042_results_are_in_the_order_of_posting_though_the_driver_has_another() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    let from = RemoteAddress::default();
    let (sink, _region) = objects.registered(MrFlags::RDMA_READ_SINK);
    objects
        .qp
        .read(1, &[sink], from, OpFlags::empty())
        .expect("posted");
    let read = last_post();
    objects
        .qp
        .send(2, &[SGE], OpFlags::SILENT_SUCCESS)
        .expect("posted");
    let silent = last_post();
    assert_eq!(silent.flags & c::IBV_SEND_SIGNALED, c::IBV_SEND_SIGNALED);
    objects
        .qp
        .send(3, &[SGE], OpFlags::empty())
        .expect("posted");
    let send = last_post();
    fake::with(|world| {
        world.complete(silent, c::IBV_WC_SUCCESS, 0);
        world.complete(send, c::IBV_WC_SUCCESS, 0);
    });
    assert_eq!(objects.results(), []);
    fake::with(|world| world.complete(read, c::IBV_WC_SUCCESS, 0));
    let contexts: Vec<_> = objects
        .results()
        .iter()
        .map(|result| result.request_context)
        .collect();
    assert_eq!(contexts, [1, 3]);
}

#[test]
fn silent_requests_of_other_drivers_end_with_a_later_one() {
    let _turn = fake::turn();
    fake::with(|world| world.vendor_id = 0x8086);
    let objects = Objects::connected();
    for context in 0..2 {
        objects
            .qp
            .send(context, &[SGE], OpFlags::SILENT_SUCCESS)
            .expect("posted");
        assert_eq!(last_post().flags & c::IBV_SEND_SIGNALED, 0);
    }
    objects
        .qp
        .send(2, &[SGE], OpFlags::empty())
        .expect("posted");
    fake::with(|world| {
        let last = *world.posted.back().expect("posted");
        world.complete(last, c::IBV_WC_SUCCESS, 0);
    });
    let results = objects.results();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].request_context, 2);
}

/// Posts until the queue is full.
fn fill(post: impl Fn(u64) -> netdirect::Result<()>) -> Vec<fake::Post> {
    let mut posted = Vec::new();
    let refused = loop {
        match post(posted.len() as u64) {
            Ok(()) => posted.push(last_post()),
            Err(error) => break error.status(),
        }
    };
    assert_eq!(refused, Status::NO_MORE_ENTRIES);
    posted
}

/// Posts until the queue is full, ends the posted requests, and posts once more without taking results.
fn full_queue_gets_room(objects: &Objects, post: impl Fn(u64) -> netdirect::Result<()>) {
    let posted = fill(&post);
    let tells = |post: &fake::Post| post.is_receive || post.flags & c::IBV_SEND_SIGNALED != 0;
    let first = posted.iter().position(tells).expect("one tells its end");
    fake::with(|world| world.complete(posted[first], c::IBV_WC_SUCCESS, 0));
    for context in 0..=first {
        post(1000 + context as u64).expect("a place that has become free");
    }
    assert!(post(2000).is_err());
    drop(objects.results());
}

#[test]
fn silent_requests_that_have_ended_leave_room_though_nobody_takes_results() {
    for vendor_id in [None, Some(0x8086)] {
        let _turn = fake::turn();
        if let Some(vendor_id) = vendor_id {
            fake::with(|world| world.vendor_id = vendor_id);
        }
        let objects = Objects::connected();
        full_queue_gets_room(&objects, |context| {
            let flags = OpFlags::SILENT_SUCCESS;
            objects.qp.send(context, &[SGE], flags)
        });
        assert_eq!(objects.results(), []);
    }
}

/// QP-013, QP-028: the slot of a request is used until the client has taken the result, whatever the device has reported.
#[test]
fn requests_that_have_ended_leave_room_when_their_results_are_taken() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    let receive = |context| objects.qp.receive(context, &[SGE]);
    let send = |context| objects.qp.send(context, &[SGE], OpFlags::empty());
    let kinds: [&dyn Fn(u64) -> netdirect::Result<()>; 2] = [&receive, &send];
    for post in kinds {
        let posted = fill(post);
        fake::with(|world| {
            for post in &posted[..4] {
                world.complete(*post, c::IBV_WC_SUCCESS, 0);
            }
        });
        for context in 0..1000 {
            let refused = post(context).map_err(|error| error.status());
            assert_eq!(refused, Err(Status::NO_MORE_ENTRIES));
        }
        for _ in 0..4 {
            assert_eq!(objects.result().status, Status::SUCCESS);
            assert_eq!(fill(post).len(), 1);
        }
    }
}

/// SEC-018: also after the end of the connection a client gets no more results than its queues have slots.
#[test]
fn a_client_that_takes_no_results_is_refused_after_the_end() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    let errors = Overlapped::new();
    let notified = objects.cq.notify(NotifyType::Errors, &errors);
    assert_eq!(notified, Ok(Started::Pending));
    let receive = |context| {
        let posted = objects.qp.receive(context, &[SGE]);
        posted.map_err(|error| error.status())
    };
    let send = |context| {
        let posted = objects.qp.send(context, &[SGE], OpFlags::empty());
        posted.map_err(|error| error.status())
    };
    objects.qp.flush().expect("flushed");
    let mut accepted = 0;
    for context in 0..1000 {
        for posted in [receive(context), send(context)] {
            match posted {
                Ok(()) => accepted += 1,
                Err(status) => assert_eq!(status, Status::NO_MORE_ENTRIES),
            }
        }
    }
    let mut found = 0;
    loop {
        let results = objects.results();
        if results.is_empty() {
            break;
        }
        assert!(
            results
                .iter()
                .all(|result| result.status == Status::CANCELED)
        );
        found += results.len();
    }
    assert_eq!(found, accepted);
    assert_eq!(errors.poll(), Status::PENDING);
}

#[test]
fn errno_of_either_sign_is_the_same_for_posts() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    for (errno, status) in [
        (libc::EINVAL, Status::INVALID_DEVICE_REQUEST),
        (libc::ENOMEM, Status::NO_MORE_ENTRIES),
        (libc::EIO, Status::DEVICE_REMOVED),
    ] {
        for returned in [errno, -errno] {
            fake::with(|world| world.post_returns.push_back(returned));
            let refused = objects.qp.send(1, &[SGE], OpFlags::empty());
            assert_eq!(refused.map_err(|error| error.status()), Err(status));
            fake::with(|world| world.post_returns.push_back(returned));
            let refused = objects.qp.receive(1, &[SGE]);
            assert_eq!(refused.map_err(|error| error.status()), Err(status));
        }
    }
    // The call has failed, and the queue pair can still be used (QP-002).
    objects
        .qp
        .send(9, &[SGE], OpFlags::empty())
        .expect("posted");
    let post = last_post();
    fake::with(|world| world.complete(post, c::IBV_WC_SUCCESS, 0));
    assert_eq!(objects.result().request_context, 9);
}

#[test]
fn a_connection_that_the_driver_knows_to_be_over_cancels_requests() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    fake::with(|world| world.post_returns.push_back(-libc::ENOTCONN));
    objects
        .qp
        .send(1, &[SGE], OpFlags::empty())
        .expect("the request is cancelled instead");
    let result = objects.result();
    assert_eq!(
        (result.request_context, result.status),
        (1, Status::CANCELED)
    );
}

#[test]
fn what_siw_would_take_wrongly_does_not_reach_it() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    let from = RemoteAddress::default();
    let before = fake::with(|world| world.posted.len());
    let refused = objects.qp.read(1, &[SGE, SGE], from, OpFlags::empty());
    assert_eq!(
        refused.map_err(|error| error.status()),
        Err(Status::DATA_OVERRUN)
    );
    let refused = objects.qp.send(1, &[SGE], OpFlags::ALLOW_READ);
    assert_eq!(
        refused.map_err(|error| error.status()),
        Err(Status::INVALID_PARAMETER_4)
    );
    assert_eq!(fake::with(|world| world.posted.len()), before);
    // Without entries it would refuse the Receive, and read into the memory that it remembers.
    objects.qp.receive(1, &[]).expect("posted");
    assert_eq!(last_post().entries, 1);
    objects
        .qp
        .read(1, &[], from, OpFlags::READ_FENCE)
        .expect("posted");
    assert_eq!(last_post().entries, 1);
    assert_eq!(last_post().flags & c::IBV_SEND_FENCE, 0);
}

#[test]
fn memory_that_cannot_be_locked_is_told_with_advice() {
    let _turn = fake::turn();
    let objects = Objects::new();
    let region = objects.adapter.create_memory_region(&objects.file);
    let region = region.expect("a region");
    fake::with(|world| world.register_fails = libc::ENOMEM);
    let (buffer, overlapped) = (Buffer::new(64), Overlapped::new());
    let refused = region.register(&buffer, MrFlags::empty(), &overlapped);
    let error = refused.expect_err("the device refuses");
    assert_eq!(error.status(), Status::INSUFFICIENT_RESOURCES);
    assert!(error.what().contains("ulimit -l"), "{error}");
    fake::with(|world| world.register_fails = 0);
    let registered = region.register(&buffer, MrFlags::empty(), &overlapped);
    assert_eq!(registered, Ok(Started::Pending));
}

#[test]
fn gen_015_a_removed_device_ends_everything() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    objects.qp.receive(1, &[SGE]).expect("posted");
    let (notify, ends) = (Overlapped::new(), Overlapped::new());
    let _ = objects
        .cq
        .notify(NotifyType::Errors, &notify)
        .expect("started");
    let _ = objects.connector.notify_disconnect(&ends).expect("started");
    fake::with(|world| world.tell_of_device(c::IBV_EVENT_DEVICE_FATAL));
    assert_eq!(notify.wait(), Status::DEVICE_REMOVED);
    assert_eq!(ends.wait(), Status::DEVICE_REMOVED);
    let removed = Err(Status::DEVICE_REMOVED);
    let sent = objects.qp.send(2, &[SGE], OpFlags::empty());
    assert_eq!(sent.map_err(|error| error.status()), removed);
    let query = objects.adapter.query().map(drop);
    assert_eq!(query.map_err(|error| error.status()), removed);
    let file = objects.adapter.create_overlapped_file().map(drop);
    assert_eq!(file.map_err(|error| error.status()), removed);
}

#[test]
fn siws_one_status_is_told_apart_by_what_is_known_of_the_request() {
    let _turn = fake::turn();
    for (is_registered, ends_before, status) in [
        (false, false, Status::ACCESS_VIOLATION),
        (true, false, Status::REMOTE_ERROR),
        (true, true, Status::CANCELED),
    ] {
        let objects = Objects::connected();
        let (own, _region) = objects.registered(MrFlags::empty());
        let entry = if is_registered { own } else { SGE };
        objects
            .qp
            .send(1, &[entry], OpFlags::empty())
            .expect("posted");
        let post = last_post();
        if ends_before {
            let _ = objects
                .connector
                .disconnect(&Overlapped::new())
                .expect("started");
        }
        fake::with(|world| world.complete(post, c::IBV_WC_LOC_QP_OP_ERR, 0));
        assert_eq!(objects.result().status, status);
    }
}

/// siw may fail a request that it has sent completely, if the peer ends the connection before siw has noted that. The client may be
/// notified of the end first.
#[test]
fn a_write_that_siw_fails_behind_the_end_may_be_what_the_peer_has_refused() {
    let _turn = fake::turn();
    let fails = |post| fake::with(|world| world.complete(post, c::IBV_WC_LOC_QP_OP_ERR, 0));
    let by_peer = |objects: &Objects, receive, post| {
        fake::with(|world| world.complete(receive, c::IBV_WC_WR_FLUSH_ERR, 0));
        assert_eq!(objects.result().request_type, RequestType::Receive);
        fails(post);
    };
    let by_disconnect = |objects: &Objects, _, post| {
        let disconnected = objects.connector.disconnect(&Overlapped::new());
        let _ = disconnected.expect("started");
        fails(post);
    };
    // Flush replaces the device's queue pair. The requests that failed before still have to end.
    let by_flush = |objects: &Objects, _, post| {
        fails(post);
        objects.qp.flush().expect("flushed");
    };
    type End<'a> = &'a dyn Fn(&Objects, fake::Post, fake::Post);
    let ends: [(End<'_>, [Status; 2]); 3] = [
        (&by_peer, [Status::REMOTE_ERROR, Status::CANCELED]),
        (&by_disconnect, [Status::CANCELED; 2]),
        (&by_flush, [Status::CANCELED; 2]),
    ];
    for (end, statuses) in ends {
        for (kind, status) in [RequestType::Write, RequestType::Send]
            .into_iter()
            .zip(statuses)
        {
            let objects = Objects::connected();
            let (entry, _region) = objects.registered(MrFlags::empty());
            let (qp, none) = (&objects.qp, OpFlags::empty());
            qp.receive(1, &[]).expect("posted");
            let receive = last_post();
            let posted = if kind == RequestType::Write {
                qp.write(2, &[entry], RemoteAddress::default(), none)
            } else {
                qp.send(2, &[entry], none)
            };
            posted.expect("posted");
            end(&objects, receive, last_post());
            let result = loop {
                let result = objects.result();
                if result.request_type != RequestType::Receive {
                    break result;
                }
            };
            assert_eq!((result.request_type, result.status), (kind, status));
        }
    }
}

#[test]
fn entries_of_no_octets_do_not_reach_siw() {
    let _turn = fake::turn();
    let objects = Objects::connected();
    let (entry, _region) = objects.registered(MrFlags::empty());
    let empty = Sge { length: 0, ..entry };
    objects
        .qp
        .send(1, &[entry, empty], OpFlags::empty())
        .expect("posted");
    assert_eq!(last_post().entries, 1);
}

#[test]
fn requests_without_entries_point_to_none() {
    let _turn = fake::turn();
    fake::with(|world| world.vendor_id = 0x1425);
    let objects = Objects::connected();
    let from = RemoteAddress::default();
    let check = |is_empty: bool| {
        let found = last_post();
        assert_eq!(found.entries, i32::from(!is_empty));
        assert_eq!(found.points, !is_empty);
    };
    for is_empty in [true, false] {
        let sges: &[Sge] = if is_empty { &[] } else { &[SGE] };
        let qp = &objects.qp;
        qp.read(1, sges, from, OpFlags::empty()).expect("posted");
        check(is_empty);
        qp.receive(2, sges).expect("posted");
        check(is_empty);
    }
}

#[test]
fn cxgb4_refuses_what_others_flush() {
    for (vendor_id, status) in [
        (0x1425, Ok(())),
        (0x8086, Err(Status::INVALID_DEVICE_REQUEST)),
    ] {
        let _turn = fake::turn();
        fake::with(|world| world.vendor_id = vendor_id);
        let objects = Objects::connected();
        for context in 1..=2 {
            fake::with(|world| world.post_returns.push_back(-libc::EINVAL));
            let posted = match context {
                1 => objects.qp.send(context, &[SGE], OpFlags::empty()),
                _ => objects.qp.receive(context, &[SGE]),
            };
            assert_eq!(posted.map_err(|error| error.status()), status);
        }
        let results = objects.results();
        let found: Vec<_> = results
            .iter()
            .map(|result| (result.request_context, result.status))
            .collect();
        let cancelled = [(1, Status::CANCELED), (2, Status::CANCELED)];
        assert_eq!(found, if status.is_ok() { &cancelled[..] } else { &[] });
    }
}

#[test]
fn qp_076_whatever_a_driver_refuses_after_a_known_failure_is_cancelled() {
    for errno in [libc::EINVAL, libc::ENOMEM] {
        let _turn = fake::turn();
        fake::with(|world| world.vendor_id = 0x8086);
        let objects = Objects::connected();
        let qp = &objects.qp;
        qp.send(1, &[SGE], OpFlags::empty()).expect("posted");
        let failed = last_post();
        fake::with(|world| world.complete(failed, c::IBV_WC_RETRY_EXC_ERR, 0));
        assert_eq!(objects.result().status, Status::IO_TIMEOUT);
        fake::with(|world| world.post_returns.extend([errno, errno]));
        qp.send(2, &[SGE], OpFlags::empty()).expect("accepted");
        qp.receive(3, &[SGE]).expect("accepted");
        for context in [2, 3] {
            let result = objects.result();
            let found = (result.request_context, result.status);
            assert_eq!(found, (context, Status::CANCELED)); // AMB-046
        }
    }
}

#[test]
fn the_octets_of_a_write_with_immediate_data_are_not_those_of_the_receive() {
    let _turn = fake::turn();
    fake::with(|world| world.vendor_id = 0x8086);
    let objects = Objects::connected();
    for (opcode, octets) in [(c::IBV_WC_RECV_RDMA_WITH_IMM, 0), (c::IBV_WC_RECV, 4096)] {
        objects.qp.receive(1, &[SGE]).expect("posted");
        let post = last_post();
        fake::with(|world| {
            world.complete_as(post, c::IBV_WC_SUCCESS, |result| {
                result.opcode = opcode;
                result.wc_flags = c::IBV_WC_WITH_IMM;
                result.byte_len = 4096;
            });
        });
        let result = objects.result();
        assert_eq!(result.bytes_transferred, octets);
        assert!(result.immediate.is_some());
    }
}

#[test]
fn a_queue_pair_with_the_number_of_a_former_one_has_its_own_results() {
    let _turn = fake::turn();
    let objects = Objects::new();
    objects.qp.receive(1, &[SGE]).expect("posted");
    let former = last_post();
    fake::with(|world| {
        world.calls.clear();
        world.holds_pairs = true;
    });
    let (adapter, cq, former_pair) = (&objects.adapter, &objects.cq, objects.qp);
    std::thread::scope(|scope| {
        let ends = scope.spawn(move || drop(former_pair));
        // The number is free again at the device, while the queue pair is still known here, and a result of it is in the queue.
        fake::until(|world| world.calls.contains(&"destroy pair"));
        fake::with(|world| {
            world.complete(former, c::IBV_WC_SUCCESS, 8);
            world.next_pair = Some(former.pair);
        });
        let qp = adapter.create_queue_pair(cq, cq, QueuePairOptions::default());
        let qp = qp.expect("a queue pair");
        qp.receive(2, &[SGE]).expect("posted");
        let own = last_post();
        assert_eq!((own.pair, own.id), (former.pair, former.id));
        let contexts = || {
            let mut results = [CompletionResult::default(); 4];
            let count = cq.get_results(&mut results);
            let found = results[..count].iter();
            found
                .map(|result| result.request_context)
                .collect::<Vec<_>>()
        };
        let at_first = contexts();
        fake::with(|world| world.holds_pairs = false);
        ends.join().expect("ended");
        assert_eq!(at_first, [1]);
        fake::with(|world| world.complete(own, c::IBV_WC_SUCCESS, 8));
        assert_eq!(contexts(), [2]);
    });
}
