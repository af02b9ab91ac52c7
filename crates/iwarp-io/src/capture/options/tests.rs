use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::CaptureOptions;
use crate::capture::tests::payloads;
use crate::capture::{Capture, Flow, FlowRole};

const LEAST: u64 = CaptureOptions::LEAST;

/// The octets of a message, which has its number at the beginning. It is no MPA, so it is recorded as it is.
fn message(number: u32) -> Vec<u8> {
    let mut octets = number.to_be_bytes().to_vec();
    octets.resize(10_000, 0xA5);
    octets
}

fn flow(capture: &Capture) -> Flow {
    let [local, peer]: [SocketAddr; 2] = [([10, 0, 0, 1], 40000).into(), ([10, 0, 0, 2], 1).into()];
    let flow = capture.flow(local, peer, FlowRole::Active);
    flow.opened();
    flow
}

/// The numbers of the messages in a file, which has to be whole.
fn numbers(path: &Path) -> Vec<u32> {
    let payloads = payloads(&fs::read(path).unwrap());
    let payloads = payloads.iter().filter(|payload| !payload.is_empty());
    payloads
        .map(|payload| {
            let number = u32::from_be_bytes(payload[..4].try_into().unwrap());
            assert_eq!(*payload, message(number));
            number
        })
        .collect()
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn a_capture_ends_at_its_limit_and_says_so_once() {
    static SAID: AtomicU32 = AtomicU32::new(0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.pcapng");
    let options = CaptureOptions::default().limit(LEAST).on_full(|text| {
        assert!(text.contains("its limit of 262144 octets"), "{text}");
        SAID.fetch_add(1, Ordering::Relaxed);
    });
    let capture = options.create(&path).unwrap();
    let flows = [flow(&capture), flow(&capture)];
    for number in 0..100 {
        flows[0].sent(&[&message(number)]);
        // One side is not all: the other flow and the other direction end as well.
        if number > 50 {
            flows[1].received(&message(number));
        }
    }
    drop(flows);
    capture.flush().expect("the limit is no error");
    let found = numbers(&path);
    let count = u32::try_from(found.len()).unwrap();
    assert_eq!(found, (0..count).collect::<Vec<_>>(), "the first ones");
    assert!(length(&path) <= LEAST && length(&path) > LEAST - 11_000);
    assert_eq!(SAID.load(Ordering::Relaxed), 1);
}

#[test]
fn files_take_turns_within_the_limit() {
    static SAID: AtomicU32 = AtomicU32::new(0);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("capture-2.pcapng"), "of an earlier run").unwrap();
    let options = CaptureOptions::default().limit(3 * LEAST).files(3);
    let options = options.on_full(|_| _ = SAID.fetch_add(1, Ordering::Relaxed));
    let names = options.paths(&at("capture.pcapng"));
    let expected = ["capture-1.pcapng", "capture-2.pcapng", "capture-3.pcapng"];
    assert_eq!(names, expected.map(at));
    let capture = options.create(at("capture.pcapng")).unwrap();
    for name in &names {
        assert!(numbers(name).is_empty(), "each is a capture at once");
    }
    let flow = flow(&capture);
    let mut written = 0;
    // Until the second file is written for the third time.
    for _ in 0..2000 {
        flow.sent(&[&message(written)]);
        written += 1;
        capture.flush().unwrap();
        let all: u64 = names.iter().map(|name| length(name)).sum();
        assert!(all <= 3 * LEAST, "{all} octets");
    }
    drop(flow);
    capture.flush().unwrap();
    let mut found: Vec<u32> = names.iter().flat_map(|name| numbers(name)).collect();
    found.sort_unstable();
    let first = written - u32::try_from(found.len()).unwrap();
    assert_eq!(found, (first..written).collect::<Vec<_>>(), "the newest");
    assert!(found.len() > 2 * 24, "at least two whole files");
    assert_eq!(SAID.load(Ordering::Relaxed), 0);
    assert!(!at("capture.pcapng").exists());
}

#[test]
fn wrong_numbers_and_places_are_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture");
    for (limit, files, words) in [
        (LEAST - 1, 1, "its limit is 262143 octets, for 1 file"),
        (0, 1, "256 KiB for each file"),
        (4 * LEAST - 1, 4, "for 4 files"),
        (u64::MAX, 0, "from 1 to 64 files, not 0"),
        (u64::MAX, 65, "not 65"),
    ] {
        let options = CaptureOptions::default().limit(limit).files(files);
        let error = options.create(&path).expect_err(words);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let options = CaptureOptions::default().files(2);
    let error = options.create(folder.path()).expect_err("a folder");
    assert!(error.to_string().contains("no file"), "{error}");
    assert_eq!(
        CaptureOptions::default().files(2).paths(&path),
        ["capture-1", "capture-2"].map(|name| folder.path().join(name))
    );
}

#[cfg(unix)]
#[test]
fn a_ring_opens_each_file_as_a_secret_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("victim"), "content").unwrap();
    std::os::unix::fs::symlink(at("victim"), at("c-2")).unwrap();
    let options = CaptureOptions::default().files(2);
    let error = options.create(at("c")).expect_err("a link to a file");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert_eq!(fs::read(at("victim")).unwrap(), b"content");
    for place in ["/dev/null", "/dev/stdout"] {
        let error = CaptureOptions::default().files(2).create(place);
        assert_eq!(error.expect_err(place).kind(), ErrorKind::InvalidInput);
    }
}
