//! One real side against one that breaks the rules, over the loopback interface, and the text of the errors.

use std::fs;
use std::io::{Seek, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::slice;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use netdirect::{MrFlags, ReadLimits, RemoteAddress, Status};

use super::connection::{Connection, Event};
use super::protocol::{Answer, Block, Message, NO_RING, Offer, Shape, Whole};
use super::sink::Sink;
use super::{Progress, hex, recv, send, summary};
use crate::cat::args::Via;
use crate::errors::{Failure, Result};
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

/// How the receiver fails on a sender in mode write that sends these messages, and whether a file has appeared. The sender
/// is told, unless it was the first to give up.
fn receive(messages: &[Message]) -> (String, bool) {
    let directory = tempfile::tempdir().expect("directory");
    let path: PathBuf = directory.path().join("out");
    let sink = Sink::new(&path).expect("writable");
    let (tell, told) = mpsc::channel();
    let receiver = thread::spawn(move || {
        recv::receive(&setup(), &[loopback()], sink, "out", |address| {
            tell.send(address)
                .map_err(|_| Failure::new("the test has gone", "none"))
        })
        .map(drop)
    });
    let offer = Offer {
        via: Via::Write,
        shape: SHAPE,
        // The expected size, which is not the real one.
        size: Some(5000),
        ring: NO_RING,
    };
    let mut connection = connect(told.recv().expect("listening"), &offer);
    for message in messages {
        connection.send(message).expect("sent");
    }
    let heard = loop {
        match connection.event("hear") {
            Ok(Event::Message(Message::Free(_), _)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(failure) => break failure.to_string(),
        }
    };
    let failure = receiver
        .join()
        .expect("no panic")
        .expect_err("refused")
        .to_string();
    if !matches!(messages.last(), Some(Message::Abort(_))) {
        let what = failure.split("; ").next().unwrap_or_default();
        assert!(
            heard.contains("the other side gave up") && heard.contains(what),
            "{heard} / {failure}"
        );
    }
    (
        failure,
        fs::read_dir(directory.path()).expect("readable").count() > 0,
    )
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

#[test]
fn a_sender_that_breaks_the_rules_leaves_no_file() {
    let next = "sent a block that is not the next one";
    let place = "sent a message that is out of place";
    let soon = "ended the file too soon";
    for (messages, expected) in [
        (vec![written(1, 4096)], next),
        (vec![written(7, 4096)], next),
        (vec![written(0, 4097)], next),
        (vec![written(0, u32::MAX)], next),
        (vec![written(0, 0)], next),
        (vec![written(0, 4096), written(0, 1)], next),
        (vec![written(0, 4096), end(5000)], soon),
        (vec![end(1)], soon),
        (vec![Message::Free(0)], place),
        (
            vec![Message::Ready(Block {
                slot: 0,
                length: 4096,
            })],
            place,
        ),
        (vec![end(0)], "the file arrived damaged"), // not the digest of nothing
        (vec![written(0, 100), end(100)], "the file arrived damaged"),
        (
            vec![Message::Abort("changed\nmy mind".to_owned())],
            "gave up: changed\\nmy mind",
        ),
    ] {
        let (failure, left) = receive(&messages);
        assert!(failure.contains(expected), "{messages:?}: {failure}");
        assert!(!left, "{messages:?}");
    }
}

/// How the sender of a small file fails on a receiver that answers with this ring, sends `early` when it has the message
/// about the block, and `late` when it has the end message.
fn transmit(
    answer: impl FnOnce(RemoteAddress) -> Vec<u8>,
    early: &[Message],
    late: &[Message],
) -> Result<()> {
    let session = setup().at(loopback())?;
    let (listener, address) = session.listen(loopback())?;
    let sender = thread::spawn(move || {
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(&[7; 100]).expect("written");
        file.rewind().expect("rewound");
        let mut sender = send::connect_to_any(&setup(), &[address], Via::Write, None)?;
        let mut progress = Progress::new(None, "test");
        let sent = sender.run(&mut file, "send", &mut progress);
        sent.inspect_err(|failure| sender.abandon(failure))
    });
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
        summary(1, "to b", Via::Send, second),
        "1 byte to b by send in 1.00 s, 1 B/s"
    );
    assert_eq!(
        summary(1 << 20, "from a", Via::Write, second),
        "1048576 bytes (1 MiB) from a by write in 1.00 s, 1 MB/s"
    );
}
