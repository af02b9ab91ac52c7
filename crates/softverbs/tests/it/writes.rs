//! When Writes are done, and the Reads that confirm them.

use std::sync::Mutex;

use softverbs::{
    CmEventKind, ConnParameters, DeviceKind, ProcessOptions, SendOperation, WcStatus,
    WriteCompletion,
};

use crate::common::{End, Pair};

/// A pair whose programs state this many Reads each way, and the Reads that the server's program was told.
fn connected(pair: &Pair, reads: u8) -> (End, End, (u8, u8)) {
    let parameters = ConnParameters {
        responder_resources: reads,
        initiator_depth: reads,
        ..ConnParameters::default()
    };
    let (listener, address) = pair.server.listen();
    let client = End::new(&pair.client, pair.client.resolved(address), None);
    client.id.connect(&parameters).unwrap();
    let (id, asked) = pair.server.request();
    let server = End::new(&pair.server, id, None);
    server.id.accept(&parameters).unwrap();
    pair.client.expect(CmEventKind::Established);
    pair.server.expect(CmEventKind::Established);
    listener.destroy().unwrap();
    let told = (asked.responder_resources, asked.initiator_depth);
    (client, server, told)
}

fn options(kind: DeviceKind, writes: Option<WriteCompletion>) -> ProcessOptions {
    let mut options = ProcessOptions::default();
    options.kind = kind;
    options.writes = writes;
    options
}

/// The status of a Write that the peer refuses: a failure if the Write is done when it is placed.
fn refused(client: &End, server: &End) -> WcStatus {
    let mut place = server.place(0);
    place.rkey ^= 1;
    client.post(1, SendOperation::Write(place), &[client.sge(0, 8)]);
    client.statuses(1)[0].1
}

#[test]
fn a_write_is_done_when_it_is_placed_as_the_device_or_the_option_says() {
    use DeviceKind::{Iwarp, Roce};
    use WriteCompletion::{Placed, Sent};
    for (kind, writes, status) in [
        (Roce, None, WcStatus::RemoteAccess),
        (Roce, Some(Placed), WcStatus::RemoteAccess),
        (Roce, Some(Sent), WcStatus::Success),
        (Iwarp, None, WcStatus::Success),
        (Iwarp, Some(Sent), WcStatus::Success),
        (Iwarp, Some(Placed), WcStatus::RemoteAccess),
    ] {
        let own = options(kind, writes);
        // What the peer has chosen for its own Writes does not matter.
        for of_peer in [Some(Sent), Some(Placed)] {
            let pair = Pair::simulated_with(400, own.clone(), options(kind, of_peer));
            let (client, server) = pair.connect();
            assert_eq!(refused(&client, &server), status, "{kind:?} {writes:?}");
        }
    }
}

/// Programs that state no Reads, such as `ib_write_bw -R`, have their Writes confirmed nevertheless.
#[test]
fn a_device_for_roce_states_one_read_at_least() {
    for (kind, reads, stated, status) in [
        (DeviceKind::Roce, 0, 1, WcStatus::RemoteAccess),
        (DeviceKind::Roce, 3, 3, WcStatus::RemoteAccess),
        (DeviceKind::Iwarp, 0, 0, WcStatus::Success),
    ] {
        let pair = Pair::simulated(401, kind);
        let (client, server, told) = connected(&pair, reads);
        assert_eq!(told, (stated, stated), "{kind:?} {reads}");
        assert_eq!(refused(&client, &server), status, "{kind:?} {reads}");
    }
}

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn towards_a_peer_that_serves_no_reads_a_write_is_done_when_it_is_sent() {
    let mut own = options(DeviceKind::Roce, None);
    own.on_end = Some(|sentence| SAID.lock().unwrap().push(sentence.to_owned()));
    let peer = options(DeviceKind::Iwarp, None);
    let pair = Pair::simulated_with(402, own, peer);
    let (client, server, _) = connected(&pair, 0);
    assert_eq!(refused(&client, &server), WcStatus::Success);
    pair.client.expect(CmEventKind::Disconnected);
    let said = std::mem::take(&mut *SAID.lock().unwrap());
    let about = format!("Writes to {} are done when", client.id.peer().unwrap());
    assert!(said[0].starts_with(&about), "{said:?}");
    assert!(said[0].contains("serves no Reads"), "{said:?}");
}

/// The confirmations are among the Reads that were agreed on, and both go on with one.
#[test]
fn confirmations_and_reads_of_the_program_share_one() {
    let pair = Pair::simulated(403, DeviceKind::Roce);
    let (client, server, _) = connected(&pair, 1);
    client.buffer.write(0, b"written!");
    for wr_id in 0..30 {
        let place = server.place(64 * wr_id);
        let sges = [client.sge(if wr_id % 2 == 0 { 0 } else { 1024 }, 8)];
        let operation = match wr_id % 2 {
            0 => SendOperation::Write(place),
            _ => SendOperation::Read(place),
        };
        client.post(wr_id, operation, &sges);
    }
    let all: Vec<_> = (0..30).map(|wr_id| (wr_id, WcStatus::Success)).collect();
    assert_eq!(client.statuses(30), all);
    for wr_id in (0..30).step_by(2) {
        let at = 64 * wr_id;
        assert_eq!(server.buffer.slice(at..at + 8).to_vec(), b"written!");
    }
}
