//! The worked example of `docs/internals/iwarp-over-quic.md`: two adapters send exactly the octets of the page.

use std::net::SocketAddr;

use netdirect::{OpFlags, Overlapped, Status};

use crate::common::{ALL, Side, network, open_at};
use crate::ends::over;
use crate::peer::{End, Peer};

const PAGE: &str = include_str!("../../pages/iwarp-over-quic.md");

/// The octets that one side sends, in the order of the page: each block of the example names its sender and shows octets in
/// hexadecimal digits.
fn octets_of(sender: &str) -> Vec<Vec<u8>> {
    let (_, example) = PAGE.split_once("\n## 13. ").expect("the example");
    let mut blocks = Vec::new();
    let mut ours = false;
    for line in example.lines() {
        if line.starts_with("## ") {
            break;
        }
        if let Some(title) = line.strip_prefix("**") {
            ours = title.starts_with(sender);
            if ours {
                blocks.push(Vec::new());
            }
        } else if let Some(code) = line.strip_prefix("    ")
            && ours
        {
            let digits = code.split("  ").next().unwrap();
            let octets = digits.split(' ');
            let octets = octets.map(|octet| u8::from_str_radix(octet, 16).expect(line));
            blocks.last_mut().unwrap().extend(octets);
        }
    }
    blocks
}

fn active_address() -> SocketAddr {
    "192.0.2.1:49153".parse().unwrap()
}

fn passive_address() -> SocketAddr {
    "192.0.2.2:7174".parse().unwrap()
}

fn side(address: SocketAddr) -> Side {
    Side::on_adapter(open_at(address.ip(), softnd::Options::default()))
}

#[test]
fn the_active_side_of_the_example_sends_these_octets() {
    let mut peer = Peer::server(&network(), passive_address());
    let side = side(active_address());
    let (connector, qp, connects) = (side.connector(), side.queue_pair(), Overlapped::new());
    connector.bind(active_address()).unwrap();
    let _ = connector
        .connect(&qp, passive_address(), 4, 2, b"hello", &connects)
        .unwrap();
    let (_, stream) = peer.accept();
    let ours = octets_of("Passive side");
    let theirs = octets_of("Active side");
    let [preamble, request, ready, send] = &theirs[..] else {
        panic!("{theirs:02x?}");
    };
    let mut sent = vec![peer.read_exact(stream, preamble.len())];
    peer.write(stream, &ours[0]);
    sent.push(peer.read_exact(stream, request.len()));
    peer.write(stream, &ours[1]);
    assert_eq!(over(&mut peer, &connects), Status::SUCCESS);
    let completes = Overlapped::new();
    let _ = connector.complete_connect(&completes).unwrap();
    sent.push(peer.read_exact(stream, ready.len()));
    let region = side.region(8, ALL);
    region.buffer.write(0, b"ping!");
    qp.send(1, &[region.sge(0, 5)], OpFlags::empty()).unwrap();
    sent.push(peer.read_exact(stream, send.len()));
    assert_eq!(sent, theirs, "sent: {sent:02x?}");
    let disconnects = Overlapped::new();
    let _ = connector.disconnect(&disconnects).unwrap();
    let rest = peer.read_to_end(stream);
    assert_eq!((rest.octets, rest.end), (vec![], Some(End::Fin)));
    peer.finish(stream);
    assert_eq!(over(&mut peer, &disconnects), Status::SUCCESS);
}

#[test]
fn the_passive_side_of_the_example_sends_these_octets() {
    let side = side(passive_address());
    let listener = side.adapter.create_listener(&side.file).unwrap();
    listener.bind(passive_address()).unwrap();
    listener.listen(0).unwrap();
    let (connector, qp) = (side.connector(), side.queue_pair());
    let (arrives, accepts) = (Overlapped::new(), Overlapped::new());
    let _ = listener
        .get_connection_request(&connector, &arrives)
        .unwrap();
    let from = SocketAddr::new(active_address().ip(), 0);
    let mut peer = Peer::client(&network(), from, passive_address());
    let (ours, theirs) = (octets_of("Active side"), octets_of("Passive side"));
    let [answer, reply] = &theirs[..] else {
        panic!("{theirs:02x?}");
    };
    let stream = peer.open(&ours[0]);
    let mut sent = vec![peer.read_exact(stream, answer.len())];
    peer.write(stream, &ours[1]);
    assert_eq!(over(&mut peer, &arrives), Status::SUCCESS);
    assert_eq!(connector.get_peer_address().unwrap(), active_address());
    let region = side.region(8, ALL);
    qp.receive(1, &[region.sge(0, 8)]).unwrap();
    let _ = connector.accept(&qp, 16, 16, b"welcome", &accepts).unwrap();
    sent.push(peer.read_exact(stream, reply.len()));
    assert_eq!(sent, theirs, "sent: {sent:02x?}");
    peer.write(stream, &ours[2]);
    assert_eq!(over(&mut peer, &accepts), Status::SUCCESS);
    peer.write(stream, &ours[3]);
    let cq = side.cq.clone();
    let mut results = [netdirect::CompletionResult::default()];
    peer.until_true(|_| cq.get_results(&mut results) == 1);
    assert_eq!(
        (results[0].status, results[0].bytes_transferred),
        (Status::SUCCESS, 5)
    );
    let notice = Overlapped::new();
    let _ = connector.notify_disconnect(&notice).unwrap();
    peer.finish(stream);
    assert_eq!(over(&mut peer, &notice), Status::SUCCESS);
    let disconnects = Overlapped::new();
    let _ = connector.disconnect(&disconnects).unwrap();
    let rest = peer.read_to_end(stream);
    assert_eq!((rest.octets, rest.end), (vec![], Some(End::Fin)));
}
