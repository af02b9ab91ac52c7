use std::mem::MaybeUninit;
use std::ptr;
use std::thread;

use netdirect::Status;

use crate::abi::Packet;
use crate::handle::{EventRef, FilePipe, FileRef, INFINITE, PortRef};
use std::os::windows::io::AsRawHandle;

fn packet(key: usize) -> Packet {
    Packet {
        key,
        overlapped: ptr::null_mut(),
        internal: 0,
        bytes: 7,
    }
}

#[test]
fn packets_come_in_the_order_in_which_they_were_posted() {
    let port = PortRef::create();
    for key in 0..5 {
        port.post(&packet(key));
    }
    let first = port.take_one(INFINITE).unwrap().unwrap();
    assert_eq!((first.key, first.bytes), (0, 7));
    let mut room = [MaybeUninit::uninit(); 3];
    assert_eq!(port.take(&mut room, INFINITE), Ok(3));
    // SAFETY: three packets were written.
    assert_eq!(unsafe { room[2].assume_init() }.key, 3);
    assert_eq!(port.take(&mut room, INFINITE), Ok(1));
    assert_eq!(port.take(&mut room, 0), Ok(0));
    assert_eq!(port.take(&mut room, 1), Ok(0));
    assert_eq!(port.take(&mut [], INFINITE), Ok(0));
}

#[test]
fn each_packet_goes_to_one_thread() {
    const PACKETS: usize = 2000;
    let port = PortRef::create();
    let threads = [(); 3].map(|()| {
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
    let keys = threads.map(|thread| thread.join().unwrap());
    let mut keys: Vec<_> = keys.into_iter().flatten().collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..PACKETS));
}

#[test]
fn a_file_has_one_port() {
    let (_pipe, client) = FilePipe::create().unwrap();
    let (port, event) = (PortRef::create(), EventRef::create(false, false));
    // SAFETY: handles.
    let (file, no_file) = unsafe {
        (
            FileRef::retain(client.as_raw_handle()).unwrap(),
            FileRef::retain(event.handle()).unwrap(),
        )
    };
    // SAFETY: an event.
    let no_port = unsafe { PortRef::retain(event.handle()) }.unwrap();
    assert!(no_file.associate(&port, 1).is_err());
    assert!(file.associate(&no_port, 1).is_err());
    assert_eq!(file.associate(&port, 1), Ok(()));
    assert_eq!(file.associate(&port, 1), Err(Status::INVALID_PARAMETER));
}
