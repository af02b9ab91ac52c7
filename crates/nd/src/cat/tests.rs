//! One real side against one that breaks the rules, over the loopback interface, and the text of the errors.

use std::fs;
use std::io::{Seek, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::slice;
use std::thread;
use std::time::Duration;

use netdirect::{MrFlags, ReadLimits, RemoteAddress, Status};

use super::connection::{Connection, Event};
use super::protocol::{Answer, Block, Message, NO_RING, Offer, Shape, Whole};
use super::recv::ReceiverProgress;
use super::sink::Sink;
use super::{Progress, hex, recv, send, summary};
use crate::cat::args::Via;
use crate::errors::Result;
use crate::provider::AdapterOptions;
use crate::session::{self, Deadline, Setup};

const LIMIT: Duration = Duration::from_secs(20);
const SHAPE: Shape = Shape {
    block: 4096,
    blocks: 2,
};
const LIMITS: ReadLimits = ReadLimits {
    inbound: 4,
    outbound: 4,
};

fn setup() -> Setup {
    Setup::new(None, AdapterOptions::default(), LIMIT).expect("no capture, no failure")
}

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A sender that does only what the test says.
fn connect(to: SocketAddr, offer: &Offer) -> Connection {
    let (session, local) = setup().towards(to).expect("loopback");
    let connector = session.connector().expect("connector");
    let connection = Connection::new(&session, connector, offer.shape, false).expect("connection");
    let status = connection
        .endpoint
        .connect(local, to, LIMITS, &offer.encode());
    assert_eq!(status.expect("connected"), Status::SUCCESS);
    assert_eq!(
        connection.endpoint.complete_connect().expect("completed"),
        Status::SUCCESS
    );
    connection
}

/// A sender's offer to write a file of this size.
fn writing(size: Option<u64>) -> Offer {
    Offer {
        via: Via::Write,
        shape: SHAPE,
        size,
        ring: NO_RING,
    }
}

/// A receiver in its own thread.
struct Receiving {
    directory: tempfile::TempDir,
    address: SocketAddr,
    thread: thread::JoinHandle<Result<()>>,
}

impl Receiving {
    fn start(max_size: Option<u64>) -> Self {
        let directory = tempfile::tempdir().expect("directory");
        let path: PathBuf = directory.path().join("out");
        let sink = Sink::new(&path).expect("writable");
        let (sender, receiver) = crossbeam_channel::unbounded();
        let thread = thread::spawn(move || {
            recv::receive(&setup(), &[loopback()], sink, max_size, "out", |progress| {
                if let ReceiverProgress::Listening(address) = progress {
                    sender.send(address).expect("the test listens");
                }
                Ok(())
            })
            .map(drop)
        });
        Self {
            directory,
            address: receiver.recv().expect("listening"),
            thread,
        }
    }

    /// Returns the receiver's result, and the contents of the file's folder.
    fn finish(self) -> (Result<()>, Vec<Vec<u8>>) {
        let ended = self.thread.join().expect("no panic");
        let left = fs::read_dir(self.directory.path()).expect("readable");
        let left = left.map(|entry| fs::read(entry.expect("an entry").path()).expect("read"));
        (ended, left.collect())
    }
}

/// Sends these messages, and returns why the receiver gives up.
fn say(connection: &mut Connection, messages: &[Message]) -> String {
    for message in messages {
        connection.send(message).expect("sent");
    }
    heard(connection)
}

/// Why the receiver gives up.
fn heard(connection: &mut Connection) -> String {
    loop {
        match connection.event("hear") {
            Ok(Event::Message(Message::Free(_), _)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(failure) => return failure.to_string(),
        }
    }
}

/// Returns the receiver's failure on a sender of a file of this size that sends these messages, and whether a file has appeared. The sender
/// is informed, unless it was the first to give up.
fn receive(size: Option<u64>, max_size: Option<u64>, messages: &[Message]) -> (String, bool) {
    let receiving = Receiving::start(max_size);
    let heard = say(&mut connect(receiving.address, &writing(size)), messages);
    let (ended, left) = receiving.finish();
    let failure = ended.expect_err("refused").to_string();
    if !matches!(messages.last(), Some(Message::Abort(_))) {
        let what = failure.split("; ").next().unwrap_or_default();
        assert!(
            heard.contains("the other side gave up") && heard.contains(what),
            "{heard} / {failure}"
        );
    }
    (failure, !left.is_empty())
}

/// Sends these octets as a file of this size.
fn send_file(to: SocketAddr, octets: &[u8], size: Option<u64>) -> Result<()> {
    let mut file = tempfile::tempfile().expect("file");
    file.write_all(octets).expect("written");
    file.rewind().expect("rewound");
    let mut sender = send::connect_to_any(&setup(), &[to], Via::Write, size)?;
    let mut progress = Progress::new(None, "test");
    let sent = sender.run(&mut file, "send", &mut progress);
    sent.inspect_err(|failure| sender.abandon(failure))
}

fn written(slot: u32, length: u32) -> Message {
    Message::Written(Block { slot, length })
}

fn end(length: u64) -> Message {
    Message::End(Whole {
        length,
        digest: [0; 32],
    })
}

const NOT_NEXT: &str = "sent a block that is not the next one";
const OUT_OF_PLACE: &str = "sent a message that is out of place";
const TOO_SOON: &str = "ended the file too soon";
const DAMAGED: &str = "the file arrived damaged";

#[test]
fn a_sender_that_breaks_the_rules_leaves_no_file() {
    let first = written(0, 100);
    for (messages, expected) in [
        (vec![written(0, 4096), written(0, 1)], NOT_NEXT),
        (vec![first.clone(), written(1, 4097)], NOT_NEXT),
        (vec![written(0, 4096), end(5000)], TOO_SOON),
        (vec![first.clone(), Message::Free(0)], OUT_OF_PLACE),
        (vec![first.clone(), end(100)], DAMAGED),
        (
            vec![first, Message::Abort("changed\nmy mind".to_owned())],
            "gave up: changed\\nmy mind",
        ),
    ] {
        let (failure, left) = receive(None, None, &messages);
        assert!(failure.contains(expected), "{messages:?}: {failure}");
        assert!(!left, "{messages:?}");
    }
}

#[test]
fn a_sender_without_a_good_first_block_is_turned_away_and_the_next_one_served() {
    let receiving = Receiving::start(None);
    for (messages, expected) in [
        (vec![written(1, 4096)], NOT_NEXT),
        (vec![written(7, 4096)], NOT_NEXT),
        (vec![written(0, 4097)], NOT_NEXT),
        (vec![written(0, u32::MAX)], NOT_NEXT),
        (vec![written(0, 0)], NOT_NEXT),
        (vec![end(1)], TOO_SOON),
        (vec![Message::Free(0)], OUT_OF_PLACE),
        (
            vec![Message::Ready(Block {
                slot: 0,
                length: 4096,
            })],
            OUT_OF_PLACE,
        ),
        (vec![end(0)], DAMAGED), // not the digest of nothing
    ] {
        let mut sender = connect(receiving.address, &writing(None));
        let heard = say(&mut sender, &messages);
        assert!(
            heard.contains("the other side gave up") && heard.contains(expected),
            "{messages:?}: {heard}"
        );
    }
    send_file(receiving.address, b"good", Some(4)).expect("received");
    let (ended, left) = receiving.finish();
    ended.expect("received");
    assert_eq!(left, [b"good"]);
}

#[test]
fn a_file_is_as_long_as_its_sender_has_stated() {
    let more = "sent more than the 5000 bytes that it had stated";
    let full = written(0, 4096);
    for (messages, expected) in [
        (vec![full.clone(), written(1, 905)], more),
        (vec![full.clone(), written(1, 904), written(0, 1)], more),
        (vec![full.clone(), end(4096)], TOO_SOON),
        (vec![full, end(5000)], TOO_SOON),
    ] {
        let (failure, left) = receive(Some(5000), None, &messages);
        assert!(failure.contains(expected), "{messages:?}: {failure}");
        assert!(!left, "{messages:?}");
    }
}

#[test]
fn a_file_of_unknown_size_is_no_longer_than_the_receiver_allows() {
    let messages = [written(0, 4096), written(1, 905)];
    let (failure, left) = receive(None, Some(5000), &messages);
    let expected = "the file is longer than the 5000 bytes that the receiver takes; allow more";
    assert!(failure.contains(expected), "{failure}");
    assert!(!left);
}

#[test]
fn the_sender_ends_where_it_has_stated() {
    let receiving = Receiving::start(Some(50));
    // The file has grown since.
    send_file(receiving.address, &[7; 9000], Some(50)).expect("received");
    let (ended, left) = receiving.finish();
    ended.expect("received");
    assert_eq!(left, [[7; 50]]);

    let receiving = Receiving::start(None);
    let failure = send_file(receiving.address, &[7; 5000], Some(6000)).expect_err("shrunk");
    let expected = "cannot send: the file has shrunk from 6000 to 5000 bytes meanwhile; ";
    assert!(failure.to_string().starts_with(expected), "{failure}");
    let (ended, left) = receiving.finish();
    let failure = ended.expect_err("given up").to_string();
    assert!(
        failure.contains("has shrunk from 6000 to 5000"),
        "{failure}"
    );
    assert!(left.is_empty());
}

#[test]
fn when_a_sender_fails_in_the_middle_the_next_one_is_taken() {
    let receiving = Receiving::start(None);
    let address = receiving.address;
    let mut first = connect(address, &writing(None));
    first.send(&written(0, 4096)).expect("sent");
    let freed = first.event("see the block taken").expect("taken");
    assert!(matches!(freed, Event::Message(Message::Free(0), _)));
    // Connected before the first one fails, and silent until then.
    let second = connect(address, &writing(None));
    let third = send::connect_to_any(&setup(), &[address], Via::Write, Some(100));
    let mut third = third.expect("connected");
    let said = say(&mut first, &[written(0, 1)]);
    assert!(said.contains(NOT_NEXT), "{said}");
    let mut file = tempfile::tempfile().expect("file");
    file.write_all(&[7; 100]).expect("written");
    file.rewind().expect("rewound");
    let mut progress = Progress::new(None, "test");
    third
        .run(&mut file, "send", &mut progress)
        .expect("received");
    let (ended, left) = receiving.finish();
    ended.expect("received");
    assert_eq!(left, [[7; 100]]);
    drop(second);
}

#[test]
fn who_waits_hears_of_the_end_when_another_sender_was_taken() {
    let receiving = Receiving::start(None);
    let mut second = connect(receiving.address, &writing(None));
    second.send(&written(0, 0)).expect("sent"); // never a block
    let said = heard(&mut second);
    assert!(said.contains(NOT_NEXT), "{said}");
    let mut third = connect(receiving.address, &writing(None));
    send_file(receiving.address, b"good", Some(4)).expect("received");
    receiving.finish().0.expect("received");
    let said = heard(&mut third);
    assert!(
        said.contains("the other side ended the connection"),
        "{said}"
    );
}

/// Returns the failure of the sender of a small file on a receiver that answers with this ring, sends `early` when it has the message about
/// the block, and `late` when it has the end message.
fn transmit(
    answer: impl FnOnce(RemoteAddress) -> Vec<u8>,
    early: &[Message],
    late: &[Message],
) -> Result<()> {
    let session = setup().at(loopback())?;
    let (listener, address) = session.listen(loopback())?;
    let sender = thread::spawn(move || send_file(address, &[7; 100], None));
    let request = session::next_request(&session, listener.as_ref(), Some(Deadline::after(LIMIT)))?;
    let offer = Offer::decode(&request.private_data).expect("an offer");
    let mut connection = Connection::new(&session, request.connector, offer.shape, false)?;
    let ring = session.register(8192, MrFlags::ALLOW_REMOTE_WRITE)?;
    let answer = answer(ring.remote());
    if connection.endpoint.accept(LIMITS, &answer)? == Status::SUCCESS {
        // Until the sender has sent everything.
        while let Ok(event) = connection.event("hear") {
            let messages = match event {
                Event::Message(Message::Written(_), _) => early,
                Event::Message(Message::End(_), _) => late,
                _ => &[],
            };
            messages
                .iter()
                .try_for_each(|message| connection.send(message))?;
        }
    }
    sender.join().expect("no panic")
}

#[test]
fn a_receiver_that_breaks_the_rules_gets_no_verdict() {
    let verdict = Message::Verdict(Whole {
        length: 100,
        digest: [0; 32],
    });
    for (early, late, expected) in [
        (
            Message::Free(9),
            Message::Free(0),
            "named a block that does not exist",
        ),
        (Message::Free(1), Message::Free(0), "freed a block twice"),
        (
            verdict.clone(),
            Message::Free(0),
            "sent a message that is out of place",
        ),
        (Message::Free(0), Message::Free(0), "did not answer the end"),
        (
            Message::Free(0),
            verdict,
            "received something else than was sent",
        ),
        (
            Message::Free(0),
            Message::Abort("disk\tfull".to_owned()),
            "gave up: disk\\tfull",
        ),
    ] {
        let answer = |ring| {
            Answer {
                via: Via::Write,
                shape: SHAPE,
                ring,
            }
            .encode()
        };
        let failure = transmit(answer, slice::from_ref(&early), slice::from_ref(&late));
        let failure = failure.expect_err("refused").to_string();
        assert!(failure.contains(expected), "{early:?} {late:?}: {failure}");
    }
}

#[test]
fn a_receiver_whose_answer_is_wrong_is_left() {
    let answer = |block| {
        Answer {
            via: Via::Write,
            shape: Shape { block, blocks: 2 },
            ring: NO_RING,
        }
        .encode()
    };
    for (answer, expected) in [
        (answer(1 << 20), "the answer does not fit the offer"),
        (answer(0), "the answer does not fit the offer"),
        (b"hello".to_vec(), "the peer is not `nd cat`"),
        (Vec::new(), "the peer is not `nd cat`"),
    ] {
        let failure = transmit(|_| answer, &[], &[])
            .expect_err("refused")
            .to_string();
        assert!(failure.contains(expected), "{failure}");
    }
}

#[test]
fn the_digest_is_that_of_the_pieces_joined() {
    let mut progress = Progress::new(Some(3), "test");
    progress.add(b"a");
    progress.add(b"bc");
    assert_eq!(progress.moved(), 3);
    // FIPS 180-2, appendix B.1.
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hex(&progress.digest()), expected);
}

#[test]
fn summaries_have_their_units() {
    let second = Duration::from_secs(1);
    assert_eq!(
        summary(1, "to b", (Via::Send, None), second),
        "1 byte to b by send in 1.00 s, 1 B/s"
    );
    assert_eq!(
        summary(1 << 20, "from a", (Via::Write, Some("tcp")), second),
        "1048576 bytes (1 MiB) from a by write over TCP in 1.00 s, 1 MB/s"
    );
}
