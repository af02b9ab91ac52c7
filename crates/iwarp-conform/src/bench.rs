//! The suite's side of the wire. It makes connections to the target in either role, up to the point where a check begins.

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::conn::{Conn, Limits, Log, Seen, describe};
#[cfg(feature = "udp")]
use crate::quic::Quic;
use crate::service::{Answer, Command, Offer, Region};
use crate::stream::Stream;
use crate::wire::{Enhanced, ReadRequest, Segment, StartFrame, flag, opcode};
use conform_report::{Step, Stop, fail};

/// The number of connections in a row that a target may end before their first octet.
const GIVEN_UP: usize = 3;

/// The options of the suite's connections.
#[derive(Clone, Copy, Debug)]
pub struct Wants {
    /// C in the suite's frames.
    pub crc: bool,
    /// M in the suite's frames.
    pub markers: bool,
    /// Try the Send protocol. Some applications do not survive a message that they do not know.
    pub service: bool,
    /// Time limits.
    pub limits: Limits,
}

impl Default for Wants {
    fn default() -> Self {
        Self {
            crc: true,
            markers: false,
            service: true,
            limits: Limits::default(),
        }
    }
}

/// The way to make one connection. Where the roles differ, the target's frame decides.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rev of a Request.
    pub revision: u8,
    /// The four octets of a Request of Rev 2. Their limits hold for a Reply as well.
    pub enhanced: Enhanced,
    /// C.
    pub crc: bool,
    /// M.
    pub markers: bool,
    /// Private Data.
    pub data: Vec<u8>,
}

/// Facts about the target from the first connection.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The target was the Initiator.
    pub initiator: bool,
    /// The target speaks the Send protocol.
    pub service: bool,
    /// CRCs are in use.
    pub crc: bool,
    /// The target inserts markers.
    pub markers_in: bool,
    /// The target wants markers.
    pub markers_out: bool,
    /// Frames of RFC 6581 were exchanged.
    pub enhanced: bool,
    /// The peer-to-peer model was agreed.
    pub peer_to_peer: bool,
    /// The offer of the target.
    pub offer: Option<Offer>,
    /// The target takes Atomic Requests.
    pub atomics: bool,
    /// The target takes Immediate Data.
    pub immediate: bool,
    /// Remarks for the report.
    pub notes: Vec<String>,
}

/// Where connections come from.
#[derive(Debug)]
enum Source {
    Connect(SocketAddr),
    Accept(Acceptor),
    #[cfg(feature = "udp")]
    Open(Quic, SocketAddr),
    #[cfg(feature = "udp")]
    Take(Quic),
}

/// Accepts in its own thread, because there is no portable time limit for an accept.
#[derive(Debug)]
struct Acceptor {
    arrived: Receiver<TcpStream>,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Acceptor {
    fn new(listener: TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (sender, arrived) = bounded(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    if stopped.load(Ordering::SeqCst) || sender.send(stream).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            arrived,
            address,
            stop,
        })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Ends a pending send of the thread, then its accept.
        while self.arrived.try_recv().is_ok() {}
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

/// The suite's side, and what is known of the target.
#[derive(Debug)]
pub struct Bench {
    source: Source,
    /// The options of the run.
    pub wants: Wants,
    /// Facts about the target.
    pub facts: Facts,
    /// The traffic since the log was last taken.
    pub log: Log,
    /// The target is known to leave a first FPDU untouched at times. A connection that fails in this way is tried twice.
    pub forgetful: bool,
    /// How often a second attempt was needed.
    pub reopened: usize,
}

impl Bench {
    /// The suite connects to a target that listens.
    pub fn active(target: SocketAddr, wants: Wants) -> Self {
        Self::new(Source::Connect(target), wants)
    }

    /// The suite listens for a target that connects, again and again.
    ///
    /// # Errors
    ///
    /// If the listener cannot be used.
    pub fn passive(listener: TcpListener, wants: Wants) -> io::Result<Self> {
        Ok(Self::new(Source::Accept(Acceptor::new(listener)?), wants))
    }

    /// The suite connects to a target that listens, over QUIC.
    #[cfg(feature = "udp")]
    pub fn active_over(quic: Quic, target: SocketAddr, wants: Wants) -> Self {
        Self::new(Source::Open(quic, target), wants)
    }

    /// The suite listens for a target that connects over QUIC, again and again.
    #[cfg(feature = "udp")]
    pub fn passive_over(quic: Quic, wants: Wants) -> Self {
        Self::new(Source::Take(quic), wants)
    }

    fn new(source: Source, wants: Wants) -> Self {
        Self {
            source,
            wants,
            facts: Facts::default(),
            log: Log::default(),
            forgetful: false,
            reopened: 0,
        }
    }

    /// The target connects, so it is the Initiator.
    pub fn target_is_initiator(&self) -> bool {
        match self.source {
            Source::Connect(_) => false,
            Source::Accept(_) => true,
            #[cfg(feature = "udp")]
            Source::Open(..) => false,
            #[cfg(feature = "udp")]
            Source::Take(_) => true,
        }
    }

    /// The time limits.
    pub fn limits(&self) -> Limits {
        self.wants.limits
    }

    /// The connection that checks use by default.
    pub fn plan(&self) -> Plan {
        Plan {
            revision: 2,
            enhanced: Enhanced {
                a: true,
                b: false,
                c: true,
                d: true,
                ird: 16,
                ord: 16,
            },
            crc: self.wants.crc,
            markers: self.wants.markers,
            data: Vec::new(),
        }
    }

    /// A stream, and nothing more.
    ///
    /// # Errors
    ///
    /// If there is no connection.
    pub fn dial(&mut self) -> Step<Conn> {
        let limits = self.limits();
        let initiator = self.target_is_initiator();
        let stream: Stream = match &self.source {
            Source::Connect(target) => {
                let explain = |error: io::Error| {
                    let whose = match error.kind() {
                        io::ErrorKind::PermissionDenied => "the system refuses connect: ",
                        _ => "",
                    };
                    Stop::Broken(format!("cannot connect to {target}: {whose}{error}"))
                };
                let stream = TcpStream::connect_timeout(target, limits.answer);
                stream.map_err(explain)?.into()
            }
            Source::Accept(acceptor) => {
                let stream = match acceptor.arrived.recv_timeout(limits.startup) {
                    Ok(stream) => stream,
                    Err(RecvTimeoutError::Timeout) => {
                        let limit = limits.startup;
                        return Err(Stop::Broken(format!(
                            "the target has not connected for {limit:?}"
                        )));
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Stop::Broken("the listener has failed".to_owned()));
                    }
                };
                stream.into()
            }
            #[cfg(feature = "udp")]
            Source::Open(quic, target) => {
                let stream = quic.open(*target, limits.answer).map_err(|error| {
                    Stop::Broken(format!("cannot connect to {target} over UDP: {error}"))
                })?;
                Stream::Quic(stream)
            }
            #[cfg(feature = "udp")]
            Source::Take(quic) => {
                let stream = quic.accept(limits.startup, GIVEN_UP).map_err(|error| {
                    Stop::Broken(format!("the target has not connected over UDP: {error}"))
                })?;
                Stream::Quic(stream)
            }
        };
        Conn::new(stream, self.log.clone(), limits, initiator)
            .map_err(|error| Stop::Broken(format!("cannot use the connection: {error}")))
    }

    /// A stream, and the target's Request. Skips a few connections that end before their first octet: a target whose time limit
    /// passes before the suite takes its connection closes it and connects again.
    ///
    /// # Errors
    ///
    /// If there is no connection, or no Request on it.
    pub fn request(&mut self) -> Step<(Conn, StartFrame)> {
        let mut given_up = 0;
        loop {
            let mut conn = self.dial()?;
            let limit = conn.limits().startup;
            match conn.start_frame(limit)? {
                Seen::It(frame) => {
                    conn.frame = Some(frame.clone());
                    return Ok((conn, frame));
                }
                Seen::End(_, 0) if given_up < GIVEN_UP => given_up += 1,
                other => return Err(fail("an MPA Request", describe(&other, limit))),
            }
        }
    }

    /// Sends a frame as Request, and returns whatever Reply comes.
    ///
    /// # Errors
    ///
    /// If no Reply comes.
    pub fn ask(&mut self, request: &StartFrame) -> Step<(Conn, StartFrame)> {
        let mut conn = self.dial()?;
        conn.send_octets(&request.encode())?;
        let limit = conn.limits().answer;
        match conn.start_frame(limit)? {
            Seen::It(reply) => {
                conn.frame = Some(reply.clone());
                conn.enter(
                    (request.flags | reply.flags) & flag::CRC != 0,
                    reply.flags & flag::MARKERS != 0,
                    request.flags & flag::MARKERS != 0,
                );
                if reply.flags & flag::REJECT == 0 {
                    conn.owed = ready(&reply);
                }
                Ok((conn, reply))
            }
            other => Err(fail("an MPA Reply", describe(&other, limit))),
        }
    }

    /// Sends a frame as Request like [`ask`](Self::ask), but the Reply has to accept. Full operation begins.
    ///
    /// # Errors
    ///
    /// If the Reply rejects.
    pub fn accepted(&mut self, request: &StartFrame) -> Step<(Conn, StartFrame)> {
        let (conn, reply) = self.ask(request)?;
        if reply.flags & flag::REJECT != 0 {
            return Err(fail(
                "an accepting Reply",
                format!("a Reply with R = 1, flags {:#04x}", reply.flags),
            ));
        }
        Ok((conn, reply))
    }

    /// A connection after the start-up. The agreed ready-to-receive message was sent or received.
    ///
    /// # Errors
    ///
    /// If the start-up fails.
    pub fn begin(&mut self, plan: &Plan) -> Step<Conn> {
        if self.target_is_initiator() {
            let (mut conn, request) = self.request()?;
            let reply = plan.reply(&request);
            conn.send_octets(&reply.encode())?;
            conn.enter(
                (request.flags | reply.flags) & flag::CRC != 0,
                request.flags & flag::MARKERS != 0,
                reply.flags & flag::MARKERS != 0,
            );
            take_ready(&mut conn, &reply)?;
            Ok(conn)
        } else {
            let (mut conn, reply) = self.accepted(&plan.request())?;
            give_ready(&mut conn, &reply)?;
            Ok(conn)
        }
    }

    /// Begins a connection like [`begin`](Self::begin), and waits for the offer of the target. If the target does not speak the Send
    /// protocol, a Write and a Read of no length are sent instead. In any case the first message is a legal one (PEER-029).
    ///
    /// # Errors
    ///
    /// If any of this fails.
    pub fn open_as(&mut self, plan: &Plan) -> Step<Conn> {
        let mut opened = self.opened(plan);
        // Only the check MPA2-032 is about this.
        if self.forgetful && matches!(opened, Err(Stop::Fail { .. })) {
            opened = self.opened(plan);
            self.reopened += usize::from(opened.is_ok());
        }
        opened
    }

    fn opened(&mut self, plan: &Plan) -> Step<Conn> {
        let mut conn = self.begin(plan)?;
        if self.facts.service {
            hello(&mut conn)?;
        } else {
            conn.works()?;
        }
        Ok(conn)
    }

    /// The connection with which most checks begin.
    ///
    /// # Errors
    ///
    /// As [`Bench::open_as`].
    pub fn open(&mut self) -> Step<Conn> {
        let plan = self.plan();
        self.open_as(&plan)
    }
}

impl Plan {
    /// The Request.
    pub fn request(&self) -> StartFrame {
        let flags = self.flags();
        if self.revision < 2 {
            StartFrame::plain(StartFrame::REQUEST, flags, &self.data)
        } else {
            StartFrame::enhanced(StartFrame::REQUEST, flags, self.enhanced, &self.data)
        }
    }

    fn flags(&self) -> u8 {
        let bit = |set: bool, mask: u8| if set { mask } else { 0 };
        bit(self.crc, flag::CRC) | bit(self.markers, flag::MARKERS)
    }

    /// The accepting Reply to a Request: Rev, S and A are the Request's, with one ready-to-receive message that the Request
    /// offers, and limits cut to the Request's.
    pub fn reply(&self, request: &StartFrame) -> StartFrame {
        let flags = self.flags() | request.flags & flag::CRC;
        let Some(offered) = request.limits() else {
            let mut reply = StartFrame::plain(StartFrame::REPLY, flags, &self.data);
            reply.revision = request.revision.min(2);
            return reply;
        };
        let cut = |own: u16, theirs: u16| {
            if theirs == Enhanced::NOT_NEGOTIATED {
                theirs
            } else {
                own.min(theirs)
            }
        };
        let c = offered.a && offered.c;
        let d = offered.a && !c && offered.d;
        let enhanced = Enhanced {
            a: offered.a,
            b: offered.a && !c && !d,
            c,
            d,
            ird: cut(self.enhanced.ird, offered.ord),
            ord: cut(self.enhanced.ord, offered.ird),
        };
        StartFrame::enhanced(StartFrame::REPLY, flags, enhanced, &self.data)
    }
}

/// The ready-to-receive message that a Reply asks for: a Write if the Reply allows it, otherwise a Read, otherwise a Send.
fn ready(reply: &StartFrame) -> Option<Segment> {
    let limits = reply.limits().filter(|limits| limits.a)?;
    Some(if limits.c {
        Segment::write(1, 0, &[])
    } else if limits.d {
        Segment::read_request(1, NOTHING)
    } else {
        Segment::send(1, &[])
    })
}

/// A Read of no octets.
const NOTHING: ReadRequest = ReadRequest {
    sink_stag: 1,
    sink_to: 0,
    size: 0,
    source_stag: 1,
    source_to: 0,
};

/// Sends the ready-to-receive message that a Reply asks for.
///
/// # Errors
///
/// If the target does not answer a Read.
pub(crate) fn give_ready(conn: &mut Conn, reply: &StartFrame) -> Step {
    let Some(segment) = ready(reply) else {
        return Ok(());
    };
    if segment.opcode == opcode::READ_REQUEST {
        return read_nothing(conn);
    }
    if segment.opcode == opcode::SEND {
        conn.next_send();
    }
    conn.send(&segment)
}

/// Waits for the ready-to-receive message of the target, if a Reply of the suite asked for one.
///
/// # Errors
///
/// If none comes.
pub(crate) fn take_ready(conn: &mut Conn, reply: &StartFrame) -> Step {
    if !reply.limits().is_some_and(|limits| limits.a) {
        return Ok(());
    }
    let ready = conn.expect_segment("the ready-to-receive message")?;
    if ready.opcode == opcode::READ_REQUEST
        && let Some(read) = ReadRequest::parse(&ready.payload)
    {
        conn.send(&Segment::read_response(read.sink_stag, read.sink_to, &[]))?;
    }
    Ok(())
}

/// Reads no octets. Every target that serves Reads at all answers this (RDMAP-039, RDMAP-040).
fn read_nothing(conn: &mut Conn) -> Step {
    let msn = conn.next_request();
    conn.send(&Segment::read_request(msn, NOTHING))?;
    loop {
        let segment = conn.expect_segment("a Read Response of no length")?;
        match segment.opcode {
            opcode::READ_RESPONSE => return Ok(()),
            opcode::TERMINATE => {
                return Err(fail("a Read Response of no length", segment.describe()));
            }
            _ => {}
        }
    }
}

/// Gets the offer. A target that connects sends it unasked.
fn hello(conn: &mut Conn) -> Step {
    if !conn.target_is_initiator {
        conn.say(&Command::Hello.encode())?;
    }
    match conn.answer("an offer")? {
        Answer::Offer(offer) => {
            conn.offer = Some(offer);
            Ok(())
        }
        other => Err(fail("an offer", format!("{other:?}"))),
    }
}

impl Conn {
    /// Sends a message as one Send.
    ///
    /// # Errors
    ///
    /// As [`Conn::send_octets`].
    pub fn say(&mut self, message: &[u8]) -> Step {
        let msn = self.next_send();
        self.send(&Segment::send(msn, message))
    }

    /// Checks that the target goes on working, without its application. It takes a Write of no length as first FPDU, which
    /// no target may refuse, and answers a Read of no length if it serves Reads. If the target named no limit, or the limit
    /// 0, the check only sees that it does not end the stream.
    ///
    /// # Errors
    ///
    /// A failure, if it does not.
    pub fn works(&mut self) -> Step {
        if !self.has_begun() {
            self.send(&Segment::write(1, 0, &[]))?;
        }
        let limits = self.frame.as_ref().and_then(StartFrame::limits);
        if limits.is_some_and(|limits| (1..Enhanced::NOT_NEGOTIATED).contains(&limits.ird)) {
            return read_nothing(self);
        }
        let quiet = self.limits().quiet;
        match self.segment(quiet)? {
            Seen::It(segment) if segment.opcode == opcode::TERMINATE => {
                Err(fail("the stream goes on", segment.describe()))
            }
            Seen::It(_) | Seen::Nothing => Ok(()),
            other @ Seen::End(..) => Err(fail("the stream goes on", describe(&other, quiet))),
        }
    }

    /// The next message of the target, assembled from its segments. Writes in between are skipped.
    ///
    /// # Errors
    ///
    /// A failure, if anything else comes, or nothing.
    pub fn hear(&mut self, expected: &str) -> Step<Vec<u8>> {
        let mut message = Vec::new();
        loop {
            let segment = self.expect_segment(expected)?;
            if segment.is_send() {
                message.extend(&segment.payload);
                if segment.last {
                    return Ok(message);
                }
            } else if segment.opcode != opcode::WRITE {
                return Err(fail(expected, segment.describe()));
            }
        }
    }

    /// The next message as an answer to a command.
    ///
    /// # Errors
    ///
    /// A failure, if it is not an answer.
    pub fn answer(&mut self, expected: &str) -> Step<Answer> {
        let message = self.hear(expected)?;
        Answer::decode(&message).ok_or_else(|| {
            fail(
                expected,
                format!("a Send of {} octets that is no answer", message.len()),
            )
        })
    }

    /// Gives a command and waits for its answer.
    ///
    /// # Errors
    ///
    /// A failure, if none comes.
    pub fn command(&mut self, command: &Command) -> Step<Answer> {
        self.say(&command.encode())?;
        self.answer("an answer to a command")
    }

    /// Sends a message to the target, which has to come back the same.
    ///
    /// # Errors
    ///
    /// A failure, if it does not.
    pub fn echo(&mut self, body: &[u8]) -> Step {
        self.say(&Command::Echo(body.to_vec()).encode())?;
        self.echoed(body)
    }

    /// Waits for the echo of a message that was sent by other means.
    ///
    /// # Errors
    ///
    /// A failure, if it does not come.
    pub fn echoed(&mut self, body: &[u8]) -> Step {
        let expected = format!("the echo of {} octets", body.len());
        let heard = self.hear(&expected)?;
        if heard == body {
            return Ok(());
        }
        Err(fail(expected, format!("{} other octets", heard.len())))
    }

    /// A region of the offer, by its rights.
    ///
    /// # Errors
    ///
    /// The check is skipped if there is none.
    pub fn region(
        &self,
        kind: crate::service::RegionKind,
        read: bool,
        write: bool,
    ) -> Step<(u16, Region)> {
        self.offer
            .as_ref()
            .and_then(|offer| offer.region(kind, read, write))
            .ok_or_else(|| Stop::Skip("the target offers no such region".to_owned()))
    }
}
