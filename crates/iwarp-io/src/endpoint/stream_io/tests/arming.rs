//! When a stream asks its sets for the next report, over sets that give each report once.

use super::*;
use crate::progress::domain::{Domain, Source, Turn};
use crate::progress::{Readiness, Set};

/// The owner of the streams, which the tests drive themselves.
struct Nobody;

impl Source for Nobody {
    fn ready(&self, _: Edges) -> Turn {
        Turn::default()
    }
}

/// A stream with its place in a domain.
struct InDomain {
    io: StreamIo,
    connection: Connection,
    buffers: Buffers,
    domain: Arc<Domain>,
    _source: Arc<dyn Source>,
}

impl InDomain {
    fn new(stream: Stream, connection: Connection, buffers: Buffers) -> Self {
        let domain = Arc::new(Domain::new(Set::in_user_space().unwrap(), Arc::default()));
        let source: Arc<dyn Source> = Arc::new(Nobody);
        let mut io = StreamIo::new(stream, true, &buffers);
        io.mulpdu = Mulpdu::fixed(64_768);
        io.move_to([&domain].into_iter(), &Arc::downgrade(&source))
            .unwrap();
        Self {
            io,
            connection,
            buffers,
            domain,
            _source: source,
        }
    }

    /// The passive side of a connection, and the peer's stream.
    fn passive() -> (Self, Stream) {
        let (active, passive) = streams();
        let connection = begun(Role::Responder, CopiedPayload::None);
        let buffers = Buffers::new(Arc::new(Table::new()));
        (Self::new(passive, connection, buffers), active)
    }

    /// The edges that the domain's set will report.
    fn armed(&self) -> Option<Edges> {
        self.domain.set().armed(self.io.stream())
    }

    /// Takes the report of the set, which is there.
    fn reported(&mut self) -> Edges {
        let mut edges = Edges::empty();
        let set = self.domain.set();
        set.wait(Some(Duration::ZERO), |ready| edges |= ready.edges)
            .unwrap();
        self.io.note(edges);
        edges
    }

    fn receive(&mut self) -> Visit {
        let visit = self
            .io
            .receive(&mut self.connection, &self.buffers, OwnQueue);
        visit.unwrap()
    }

    fn transmit(&mut self) -> Visit {
        self.io
            .transmit(&mut self.connection, &self.buffers)
            .unwrap()
    }
}

#[test]
fn what_was_read_to_its_end_is_armed_again() {
    let (mut this, peer) = InDomain::passive();
    assert_eq!(this.armed(), Some(Edges::READ));
    for number in 1..=2 {
        this.connection
            .post_receive(u64::from(number), &[])
            .unwrap();
        peer.send_frame(&empty_send(number)).unwrap();
        assert_eq!(this.reported(), Edges::READ);
        assert_eq!(this.armed(), Some(Edges::empty()), "a report disarms");
        assert_eq!(this.receive(), Visit::Finished);
        // The read was shorter than it could be, and was the last one.
        assert_eq!(this.armed(), Some(Edges::READ));
    }
    // A read that finds nothing arms as well.
    this.io.note(Edges::READ);
    this.receive();
    assert_eq!(this.armed(), Some(Edges::READ));
}

#[test]
fn what_a_budget_has_left_is_not_armed() {
    let (mut this, peer) = InDomain::passive();
    let frames: Vec<u8> = (1..=u32::try_from(FPDUS).unwrap() + 1)
        .flat_map(empty_send)
        .collect();
    for context in 0..=FPDUS as u64 {
        this.connection.post_receive(context, &[]).unwrap();
    }
    peer.send_frame(&frames).unwrap();
    this.reported();
    assert_eq!(this.receive(), Visit::Unfinished);
    let armed_early = this.armed() == Some(Edges::READ) && this.io.readable;
    assert!(!armed_early, "there may be more in the socket");
    assert_eq!(this.receive(), Visit::Finished);
    assert_eq!(this.armed(), Some(Edges::READ));
}

#[test]
fn room_is_armed_only_where_a_send_has_found_none() {
    let (active, passive) = streams();
    let buffers = Buffers::new(Arc::new(Table::new()));
    let mut connection = begun(Role::Initiator, CopiedPayload::None);
    connection.send_ready();
    let memory = Buffer::new(1 << 20);
    let region = buffers
        .table()
        .register(&memory, Rights::all(), PD)
        .unwrap();
    let mut this = InDomain::new(active, connection, buffers);
    this.transmit();
    assert_eq!(this.armed(), Some(Edges::READ), "the socket has room");
    for context in 1..=2 {
        let data = Sge {
            token: region.stag(),
            address: region.base(),
            length: 1 << 20,
        };
        post_write(&mut this.connection, context, data);
        assert_eq!(this.transmit(), Visit::Finished);
        assert!(this.io.is_sending(), "the socket is full");
        assert_eq!(this.armed(), Some(Edges::READ | Edges::WRITE));
        let mut some = vec![0; 1 << 16];
        while passive.read(&mut some).is_ok() {}
        assert_eq!(this.reported(), Edges::WRITE);
        assert_eq!(this.armed(), Some(Edges::READ));
        while this.io.is_sending() {
            this.transmit();
            while passive.read(&mut some).is_ok() {}
            this.reported();
        }
        // Everything was sent. Room alone is no reason for a report.
        assert_eq!(this.reported(), Edges::empty());
    }
}

#[test]
fn after_the_peers_end_reading_is_never_armed() {
    let (mut this, peer) = InDomain::passive();
    peer.close_write();
    let edges = this.reported();
    assert!(edges.contains(Edges::READ | Edges::HANGUP), "{edges:?}");
    this.receive();
    assert!(this.io.read_ended);
    for _ in 0..3 {
        this.io.note(Edges::READ);
        this.receive();
        assert_eq!(this.armed(), Some(Edges::empty()));
        assert_eq!(this.reported(), Edges::empty());
    }
}

#[test]
fn a_stream_whose_send_waits_for_a_receive_is_not_armed_and_its_reset_is_noticed() {
    let (mut this, peer) = InDomain::passive();
    peer.send_frame(&empty_send(1)).unwrap();
    this.reported();
    this.receive();
    assert!(this.connection.is_stalled());
    peer.send_frame(&empty_send(2)).unwrap();
    this.reported();
    this.receive();
    assert_eq!(this.armed(), Some(Edges::empty()));
    assert_eq!(this.reported(), Edges::empty());
    drop(peer); // octets are left unread on neither side, so that this is an end
    let edges = this.reported();
    assert!(edges.contains(Edges::HANGUP), "{edges:?}");
    this.connection.post_receive(1, &[]).unwrap();
    this.connection.post_receive(2, &[]).unwrap();
    while !this.io.read_ended {
        this.receive();
    }
}

/// The end lies in the socket behind the Send, where a set would report it again and again.
#[test]
fn a_stream_that_ends_behind_a_send_that_waits_is_not_armed() {
    let (mut this, peer) = InDomain::passive();
    peer.send_frame(&empty_send(1)).unwrap();
    peer.close_write();
    let edges = this.reported();
    assert!(edges.contains(Edges::READ | Edges::HANGUP), "{edges:?}");
    for _ in 0..2 {
        assert_eq!(this.receive(), Visit::Finished);
        assert!(this.connection.is_stalled());
        assert_eq!(this.armed(), Some(Edges::empty()));
        assert_eq!(this.reported(), Edges::empty());
    }
    this.connection.post_receive(1, &[]).unwrap();
    while !this.io.read_ended {
        this.receive();
    }
}

#[test]
fn a_stream_outside_the_set_is_not_armed() {
    let (mut this, peer) = InDomain::passive();
    this.connection.post_receive(1, &[]).unwrap();
    assert!(this.io.leave_set(&this.domain));
    peer.send_frame(&empty_send(1)).unwrap();
    this.io.note(Edges::READ);
    this.receive();
    assert_eq!(this.armed(), None);
    assert!(this.io.rejoin_set(&this.domain));
    assert_eq!(this.armed(), Some(Edges::READ));
}
