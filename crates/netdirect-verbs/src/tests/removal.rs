//! Devices that are pulled out.

use std::fs;
use std::os::fd::RawFd;

use netdirect::{Fault, NotifyType, Overlapped, Status};

use super::{Objects, eventually, fake};
use crate::sys::bindings as c;

/// The number of epoll sets of this process that watch a descriptor.
fn watchers(descriptor: RawFd) -> usize {
    let descriptor = descriptor.to_string();
    let infos = fs::read_dir("/proc/self/fdinfo").expect("a list");
    let infos = infos.filter_map(|info| fs::read_to_string(info.ok()?.path()).ok());
    let watches = |info: &String| {
        let mut targets = info.lines().filter_map(|line| line.strip_prefix("tfd:"));
        targets.any(|rest| rest.split_whitespace().next() == Some(&descriptor))
    };
    infos.filter(watches).count()
}

#[test]
fn nobody_watches_the_completion_channels_of_a_device_that_is_gone() {
    let ways: [fn(&Objects); 3] = [
        |_| fake::with(|world| world.pull_out()),
        |_| fake::with(|world| world.tell_of_device(c::IBV_EVENT_DEVICE_FATAL)),
        |objects| {
            let extensions = objects.adapter.extensions().expect("some");
            extensions.inject(Fault::RemoveDevice).expect("removed");
        },
    ];
    for end in ways {
        let _turn = fake::turn();
        fake::with(|world| world.vendor_id = 0x1425);
        let objects = Objects::connected();
        let channels = fake::with(|world| world.completion_channels());
        let [channel] = channels[..] else {
            panic!("one queue, not {channels:?}");
        };
        // The adapter's thread, and those that wait on the file.
        assert_eq!(watchers(channel), 2);
        let overlapped = Overlapped::new();
        let _ = objects
            .cq
            .notify(NotifyType::Any, &overlapped)
            .expect("started");
        end(&objects);
        let status = || overlapped.status();
        assert!(eventually(|| status() != Status::PENDING));
        assert_eq!(status(), Status::DEVICE_REMOVED);
        assert_eq!(watchers(channel), 0);
    }
}
