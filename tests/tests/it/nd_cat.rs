//! `nd cat` between two processes: every operation that can move the bytes, and what the wire shows.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};
use softnd_tests::dissect::Dissection;
use softnd_tests::nd::{self, Finished};
use softnd_tests::proxy::noise;
use softnd_tests::{args, tool};

const WAYS: [&str; 3] = ["send", "write", "read"];
/// RDMAP opcodes, RFC 5040 §4.1.
const WRITE: u8 = 0;
const READ_REQUEST: u8 = 1;
const READ_RESPONSE: u8 = 2;
const SEND: u8 = 3;

/// A file that is a mount point, as in containers, cannot be replaced by another one. It is written in place.
#[test]
fn a_file_that_is_a_mount_point_receives() {
    let Some(unshare) = tool::find("unshare") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let original = noise(100_000);
    fs::write(path("original"), &original).unwrap();
    // Longer than what comes.
    fs::write(path("outside"), noise(200_000)).unwrap();
    fs::write(path("inside"), "").unwrap();
    let bind = "mount --bind \"$1\" \"$2\"";
    let mounted = |then: &str| {
        let unshare = format!("{} --user --map-root-user --mount sh -c", unshare.display());
        format!(
            "exec {unshare} '{bind}; {then}' sh {} {}",
            path("outside").display(),
            path("inside").display()
        )
    };
    let tried = std::process::Command::new("sh")
        .arg("-c")
        .arg(mounted("true"))
        .output()
        .unwrap();
    if !tried.status.success() || !tried.stderr.is_empty() {
        let why = String::from_utf8_lossy(&tried.stderr);
        return tool::skip_here(&format!("nothing can be mounted here: {}", why.trim()));
    }
    let recv = "cat recv --listen 127.0.0.1:0 --out \"$2\"";
    let recv = format!("exec \"{}\" {recv}", nd::binary().display());
    let mut recv = nd::shell(&mounted(&recv));
    let address = recv.address().to_string();
    nd::run(args!["cat", "send", path("original"), address]).assert_success();
    recv.finish().assert_success();
    assert!(fs::read(path("outside")).unwrap() == original);
}

/// A folder with a file to send.
struct Transfer {
    folder: tempfile::TempDir,
    content: Vec<u8>,
    listen: &'static str,
    options: [&'static [&'static str]; 2],
}

impl Transfer {
    fn with_length(length: usize) -> Self {
        let transfer = Self {
            folder: tempfile::tempdir().unwrap(),
            content: noise(length),
            listen: "127.0.0.1:0",
            options: [&[], &[]],
        };
        fs::write(transfer.path("original"), &transfer.content).unwrap();
        transfer
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Moves the file, with a capture on both sides, and checks that it has arrived. Receiver first.
    fn run(&self, via: &str) -> [Finished; 2] {
        let mut options = args!["--capture", self.path("recv.pcapng")].to_vec();
        options.extend(self.options[0].iter().map(Into::into));
        let recv = args![
            "cat",
            "recv",
            "--listen",
            self.listen,
            "--out",
            self.path("copy")
        ];
        let mut recv = nd::start(recv.into_iter().chain(options));
        let address = recv.address().to_string();

        let mut options = args!["--via", via, "--capture", self.path("send.pcapng")].to_vec();
        options.extend(self.options[1].iter().map(Into::into));
        let send = args!["cat", "send", self.path("original"), address];
        let send = nd::run(send.into_iter().chain(options));
        let recv = recv.finish();
        send.assert_success();
        recv.assert_success();
        self.check(&recv, &send);
        [recv, send]
    }

    fn check(&self, recv: &Finished, send: &Finished) {
        assert!(
            fs::read(self.path("copy")).unwrap() == self.content,
            "the copy differs: {recv}\n{send}"
        );
        let digest: String = Sha256::digest(&self.content)
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        for side in [recv, send] {
            let said = [&side.stdout, &side.stderr]
                .iter()
                .any(|text| text.contains(&digest));
            assert!(said, "the digest is not shown: {side}");
        }
        let mut left: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(
            left,
            ["copy", "original", "recv.pcapng", "send.pcapng"],
            "nothing else is left behind"
        );
    }

    fn dissect(&self, tshark: &Path) -> [Dissection; 2] {
        ["recv.pcapng", "send.pcapng"].map(|name| Dissection::new(tshark, &self.path(name)))
    }
}

#[test]
fn files_of_all_sizes_arrive_by_every_way() {
    for via in WAYS {
        for length in [0, 1, 4095, 65_537, (3 << 20) + 17] {
            Transfer::with_length(length).run(via);
        }
    }
}

#[test]
fn every_byte_on_the_wire_is_iwarp_with_good_crcs() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    for via in WAYS {
        for length in [0, (2 << 20) + 1] {
            let transfer = Transfer::with_length(length);
            transfer.run(via);
            let [recv, send] = transfer.dissect(&tshark);
            for side in [&recv, &send] {
                side.assert_clean();
                assert_eq!(side.messages().len(), 1, "one connection");
                let startup: Vec<_> = side
                    .packets
                    .iter()
                    .filter_map(|packet| packet.startup.as_ref())
                    .collect();
                assert_eq!(
                    startup.len(),
                    2,
                    "the first message of each direction is a start-up frame"
                );
                assert!(startup[0].request && !startup[1].request);
            }
            check_operations(&send, via, length);
            assert_eq!(
                operations(&recv),
                operations(&send).map(|(sent, received)| (received, sent))
            );
        }
    }
}

fn operations(side: &Dissection) -> [(usize, usize); 4] {
    [WRITE, READ_REQUEST, READ_RESPONSE, SEND].map(|opcode| side.count(opcode))
}

/// Checks that the file travels by the requested operation, seen from the sender.
fn check_operations(sender: &Dissection, via: &str, length: usize) {
    let octets = |opcode: u8| -> usize {
        let packets = sender
            .packets
            .iter()
            .filter(|packet| packet.outbound && packet.opcodes.contains(&opcode));
        packets.map(|packet| packet.payload as usize).sum()
    };
    let carriers = [("write", WRITE), ("read", READ_RESPONSE), ("send", SEND)];
    for (way, opcode) in carriers {
        let carried = octets(opcode) >= length;
        assert!(
            length == 0 || carried == (way == via),
            "{} octets by opcode {opcode}, via {via}",
            octets(opcode)
        );
    }
    if via == "read" && length > 0 {
        assert!(sender.count(READ_REQUEST).1 > 0, "the receiver reads");
    }
}

#[test]
fn without_crc_none_is_sent_and_with_one_side_asking_it_is() {
    let Some(tshark) = tool::find("tshark") else {
        return;
    };
    for (options, crc) in [
        ([&["--no-crc"][..], &["--no-crc"][..]], false),
        ([&["--no-crc"], &[]], true),
        ([&[], &["--no-crc"]], true),
    ] {
        let mut transfer = Transfer::with_length(200_000);
        transfer.options = options;
        transfer.run("write");
        for side in transfer.dissect(&tshark) {
            if crc {
                side.assert_clean();
            } else {
                let data: Vec<_> = side
                    .packets
                    .iter()
                    .filter(|packet| packet.payload > 0)
                    .collect();
                assert!(
                    data.iter()
                        .all(|packet| packet.is_iwarp() && packet.good_crcs == 0),
                    "{data:?}"
                );
            }
        }
    }
}

#[test]
fn ipv6_works_as_well() {
    if !tool::has_ipv6() {
        return;
    }
    let mut transfer = Transfer::with_length(100_000);
    transfer.listen = "[::1]:0";
    transfer.run("read");
}

/// Moves the file at `path`, and returns what has arrived.
fn moved(path: &Path, via: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let mut recv = nd::start(args![
        "cat",
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--out",
        &copy
    ]);
    let address = recv.address().to_string();
    nd::run(args!["cat", "send", path, address, "--via", via]).assert_success();
    recv.finish().assert_success();
    fs::read(copy).unwrap()
}

#[test]
fn what_is_read_counts_and_not_the_size_that_is_stated() {
    // Files of /proc report a size of 0, and those of /sys a size of one page.
    for path in ["/proc/version", "/sys/devices/system/cpu/online"] {
        let path = Path::new(path);
        let Ok(content) = fs::read(path) else {
            tool::skip_here(&format!("there is no {}", path.display()));
            continue;
        };
        assert!(fs::metadata(path).unwrap().len() != content.len() as u64);
        for via in WAYS {
            assert_eq!(moved(path, via), content, "{} by {via}", path.display());
        }
    }
}

#[test]
fn a_pipe_is_sent_as_it_is_written() {
    for via in WAYS {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, copy) = (folder.path().join("pipe"), folder.path().join("copy"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        let mut recv = nd::start(args![
            "cat",
            "recv",
            "--listen",
            "127.0.0.1:0",
            "--out",
            &copy
        ]);
        let address = recv.address().to_string();
        let mut send = nd::start(args!["cat", "send", &pipe, address, "--via", via]);
        // The sender waits, and says so.
        send.wait_for(|line| line.contains("waiting for data from").then_some(()));
        let content = noise(700_000);
        let mut writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        for part in content.chunks(99_999) {
            writer.write_all(part).unwrap();
        }
        drop(writer);
        send.finish().assert_success();
        let recv = recv.finish();
        recv.assert_success();
        assert!(recv.stdout.contains("received 700000 bytes"), "{recv}");
        assert!(fs::read(copy).unwrap() == content, "by {via}");
    }
}

#[test]
fn standard_input_is_sent_by_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "he\nllo").unwrap();
    let (nd, file) = (nd::binary().display(), path("file"));
    for (line, octets) in [
        ("printf hello | ND cat send /dev/stdin TO", "hello"),
        ("printf hello | ND cat send - TO", "hello"),
        ("ND cat send - TO <FILE", "he\nllo"),
        // What another program has read is not sent.
        ("{ read -r first; ND cat send - TO; } <FILE", "llo"),
        ("ND cat send - TO </dev/null", ""),
    ] {
        let mut recv = nd::start(args![
            "cat",
            "recv",
            "--listen",
            "127.0.0.1:0",
            "--out",
            path("copy")
        ]);
        let address = recv.address();
        let line = line
            .replace("ND", &nd.to_string())
            .replace("FILE", &file.display().to_string())
            .replace("TO", &address.to_string());
        let sent = nd::shell(&line).finish();
        sent.assert_success();
        assert!(sent.stderr.is_empty(), "{sent}");
        recv.finish().assert_success();
        assert_eq!(fs::read_to_string(path("copy")).unwrap(), octets, "{line}");
    }
    let from = nd::shell(&format!(
        "{nd} cat send - 127.0.0.1:7 <{}",
        folder.path().display()
    ));
    from.finish()
        .assert_failure("cannot send standard input: it is a directory");
}

#[test]
fn a_file_is_no_longer_than_the_receiver_allows() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("long"), noise(1025)).unwrap();
    fs::write(path("short"), noise(1024)).unwrap();
    let recv = args![
        "cat",
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--out",
        path("copy"),
        "--max-size",
        "1k"
    ];
    let mut receiver = nd::start(&recv);
    let address = receiver.address().to_string();
    nd::run(args!["cat", "send", path("long"), &address])
        .assert_failure("the file has 1025 bytes, and this side takes at most 1024 (--max-size)");
    // A size that is refused does not end the receiver.
    nd::run(args!["cat", "send", path("short"), &address]).assert_success();
    receiver.finish().assert_success();
    assert_eq!(fs::read(path("copy")).unwrap(), noise(1024));
    fs::remove_file(path("copy")).unwrap();

    // The size of a pipe is unknown. All of this one comes in the first block, so that the receiver goes on.
    let mut receiver = nd::start(&recv);
    let address = receiver.address().to_string();
    let line = format!("{} cat send /dev/stdin {address}", nd::binary().display());
    nd::shell(&format!("cat '{}' | {line}", path("long").display()))
        .finish()
        .assert_failure("the file is longer than the 1024 bytes that the receiver takes");
    assert!(!path("copy").exists());
    nd::shell(&format!("cat '{}' | {line}", path("short").display()))
        .finish()
        .assert_success();
    receiver.finish().assert_success();
    assert_eq!(fs::read(path("copy")).unwrap(), noise(1024));
}

/// A limit on memory that is smaller than the file must not lose an octet of the file.
#[test]
fn memory_is_bounded_whatever_the_size() {
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    fs::File::create(&original)
        .unwrap()
        .set_len(192 << 20)
        .unwrap();
    let limit = "ulimit -d 65536";
    for via in WAYS {
        let copy = folder.path().join("copy");
        let mut recv = nd::start_after(
            limit,
            args!["cat", "recv", "--listen", "127.0.0.1:0", "--out", &copy],
        );
        let address = recv.address().to_string();
        let send = nd::start_after(
            limit,
            args!["cat", "send", &original, address, "--via", via],
        )
        .finish();
        let recv = recv.finish();
        send.assert_success();
        recv.assert_success();
        assert_eq!(fs::metadata(&copy).unwrap().len(), 192 << 20);
    }
}
