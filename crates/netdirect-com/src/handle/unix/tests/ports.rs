use std::mem::MaybeUninit;
use std::ptr;
use std::thread;

use crate::abi::Packet;
use crate::handle::{INFINITE, PortClosed, PortRef, close};

fn packet(key: usize) -> Packet {
    Packet {
        key,
        overlapped: ptr::null_mut(),
        internal: key + 1,
        bytes: 7,
    }
}

fn take(port: &PortRef, room: usize, milliseconds: u32) -> Vec<usize> {
    let mut packets = vec![MaybeUninit::uninit(); room];
    let taken = port.take(&mut packets, milliseconds).unwrap();
    // SAFETY: this many were written.
    let keys = packets[..taken]
        .iter()
        .map(|packet| unsafe { packet.assume_init() }.key);
    keys.collect()
}

#[test]
fn packets_come_in_the_order_in_which_they_were_posted() {
    let port = PortRef::create();
    for key in 0..5 {
        port.post(&packet(key));
    }
    let first = port.take_one(INFINITE).unwrap().unwrap();
    assert_eq!((first.key, first.internal, first.bytes), (0, 1, 7));
    assert_eq!(take(&port, 3, INFINITE), [1, 2, 3]);
    assert_eq!(take(&port, 3, INFINITE), [4]);
    assert!(take(&port, 3, 0).is_empty() && take(&port, 3, 1).is_empty());
    assert!(take(&port, 0, INFINITE).is_empty());
}

#[test]
fn each_packet_goes_to_one_thread() {
    const PACKETS: usize = 4000;
    let port = PortRef::create();
    let threads = [(); 4].map(|()| {
        let port = port.clone();
        thread::spawn(move || {
            let mut keys = Vec::new();
            while let Some(packet) = port.take_one(INFINITE).unwrap() {
                if packet.key == PACKETS {
                    break;
                }
                keys.push(packet.key);
            }
            keys
        })
    });
    for key in 0..PACKETS {
        port.post(&packet(key));
    }
    for _ in &threads {
        port.post(&packet(PACKETS));
    }
    let mut keys: Vec<_> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..PACKETS));
}

#[test]
fn a_port_that_is_closed_lets_its_threads_go_and_drops_packets() {
    // In some rounds the threads wait already.
    for _ in 0..100 {
        let port = PortRef::create();
        let threads = [(); 3].map(|()| {
            let port = port.clone();
            thread::spawn(move || port.take_one(INFINITE).map(drop))
        });
        // As a file holds it.
        let of_file = port.clone();
        thread::yield_now();
        // SAFETY: the reference of the creator.
        unsafe { close(port.into_handle()) }.unwrap();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Err(PortClosed));
        }
        of_file.post(&packet(1));
        assert_eq!(of_file.take_one(0).map(drop), Err(PortClosed));
    }
}
