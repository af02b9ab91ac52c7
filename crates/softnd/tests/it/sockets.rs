//! An adapter's use of the sockets, descriptors and processors of the system.

use std::net::{IpAddr, SocketAddr, TcpListener};

use crate::common::{Side, status};
use netdirect::Status;
use softnd::Options;

#[test]
fn lstn_009_lstn_010_the_wildcards_port_is_free_on_every_address() {
    let addresses = ["127.0.0.1", "127.0.0.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
    // 300 ports are taken on one address, so almost surely some of the binds below try a taken port first.
    let taken: Vec<_> = (49152..=65535)
        .filter_map(|port| TcpListener::bind((addresses[1], port)).ok())
        .take(300)
        .collect();
    let side = Side::with(Options::default().addresses(addresses));
    for _ in 0..400 {
        let listener = side.adapter.create_listener(&side.file).unwrap();
        listener.bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = listener.get_local_address().unwrap().port();
        let both_are_bound = |ip: &IpAddr| TcpListener::bind((*ip, port)).is_err();
        assert!(addresses.iter().all(both_are_bound));
    }
    // A port that the client chooses is bound on all addresses, or refused.
    let port = taken[0].local_addr().unwrap().port();
    let listener = side.adapter.create_listener(&side.file).unwrap();
    let refused = listener.bind(SocketAddr::new([0, 0, 0, 0].into(), port));
    assert_eq!(status(refused), Status::SHARING_VIOLATION);
}

/// On Windows a file has no descriptor that another loop could watch.
#[cfg(unix)]
#[test]
fn by_a_loop_of_the_clients_own_over_the_files_descriptor() {
    use crate::common::message::{armed, send, taken};
    use crate::common::pair;
    use netdirect::{Overlapped, OverlappedFile};
    use rustix::event::{PollFd, PollFlags};
    use std::sync::Arc;

    let pair = pair();
    let overlapped = Overlapped::new();
    let file = Arc::clone(&pair.passive.file);
    if std::env::var_os("SOFTND_READINESS").is_some_and(|name| name == "flat") {
        // Sets in user space have no descriptor.
        return assert!(OverlappedFile::as_fd(&*file).is_none());
    }
    armed(&pair, &overlapped);
    let _ = file.as_fd();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(&pair));
        while overlapped.is_pending() {
            let mut fds = [PollFd::from_borrowed_fd(
                OverlappedFile::as_fd(&*file).unwrap(),
                PollFlags::IN,
            )];
            rustix::event::poll(&mut fds, None).unwrap();
            file.progress();
        }
        let _target = sending.join().unwrap();
    });
    taken(&pair);
}

/// Linux tells and sets the processors of a thread.
#[cfg(target_os = "linux")]
mod processors {
    use netdirect::{Affinity, Status};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use crate::common::Side;

    /// The processors that the calling thread may run on, of the first 64.
    fn processors() -> u64 {
        let set = sched_getaffinity(None).unwrap();
        (0..64)
            .filter(|cpu| set.is_set(*cpu))
            .fold(0, |mask, cpu| mask | 1 << cpu)
    }

    /// GetNotifyAffinity returns the processors on which the background thread runs: those of the thread that opened the adapter.
    #[test]
    fn cq_003_cq_009_iw_043_notify_affinity_is_the_one_in_use() {
        let affinity_for = |wish| {
            let side = Side::new();
            let cq = side.adapter.create_completion_queue(&side.file, 1, wish);
            cq.unwrap().get_notify_affinity()
        };
        let expect = || match processors() {
            0 => Err(Status::NOT_SUPPORTED), // CQ-008: the thread may run on none of the first 64
            mask => Ok(Affinity { group: 0, mask }),
        };
        let all = sched_getaffinity(None).unwrap();
        let any = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu));
        for cpu in any.take(4) {
            let mut one = CpuSet::new();
            one.set(cpu);
            sched_setaffinity(None, &one).unwrap();
            let wish = Affinity {
                group: 0,
                mask: !processors(),
            };
            for wish in [wish, Affinity::default()] {
                assert_eq!(affinity_for(wish).map_err(|error| error.status()), expect());
            }
        }
        sched_setaffinity(None, &all).unwrap();
        assert_eq!(
            affinity_for(Affinity::default()).map_err(|error| error.status()),
            expect()
        );
    }
}
