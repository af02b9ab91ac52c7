//! Connection management: ND2's connectors and listeners over the MPA start-up exchange.

pub(crate) mod connector;
mod greeting;
pub(crate) mod half_open;
pub(crate) mod listener;

use std::io;
use std::sync::{Arc, Weak};
use std::time::Instant;

use iwarp::ReadLimits;
use iwarp::mpa::startup::{self, Frame, FrameKind, FrameReader, StartupError};
use netdirect::{PendingOverlapped, Status};

use crate::core::Core;
use crate::qp::{FlushGuard, News};
use iwarp_io::progress::Edges;
use iwarp_io::progress::domain::{Domain, Source};
use iwarp_io::progress::timers::{Timed, TimerKey};
use iwarp_io::transport::stream::Stream;

/// What is to be done once no lock is held.
#[must_use]
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Requests to be completed.
    requests: Vec<(PendingOverlapped, Status)>,
    /// Told after that.
    news: Vec<News>,
    /// What the end of the connection brings about is seen after that.
    guard: Option<Arc<FlushGuard>>,
}

impl Done {
    fn push(&mut self, requests: impl IntoIterator<Item = PendingOverlapped>, status: Status) {
        let requests = requests.into_iter();
        self.requests
            .extend(requests.map(|request| (request, status)));
    }

    fn deliver(self) {
        for (request, status) in self.requests {
            request.complete(status);
        }
        drop(self.news);
        drop(self.guard);
    }
}

/// Answers a Request with R = 1. What the peer's going away does to that is no matter here.
fn send_reject(stream: &Stream, request: &Frame, limits: ReadLimits, private_data: &[u8]) {
    let mut reply = Vec::new();
    startup::reject(request, limits, private_data).encode(&mut reply);
    let _ = stream.send_frame(&reply);
}

/// A stream during the start-up exchange: read frame by frame, never an octet further.
#[derive(Debug)]
struct Exchange {
    stream: Stream,
    control: Arc<Domain>,
    token: u64,
    reader: FrameReader,
    source: Weak<dyn Source>,
    /// Looks at the stream again when a fault plan holds it no longer.
    wake: Option<Arc<Wake>>,
}

/// A source that is ready when a hold of a fault plan ends.
struct Wake(Weak<dyn Source>);

impl std::fmt::Debug for Wake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wake").finish_non_exhaustive()
    }
}

impl Timed for Wake {
    fn expired(&self, _: TimerKey, _: Instant) {
        if let Some(source) = self.0.upgrade() {
            source.ready(Edges::READ | Edges::WRITE);
        }
    }
}

/// What reading during the start-up came to.
#[derive(Debug)]
enum Heard {
    /// Nothing yet, or not all.
    Nothing,
    Frame(Frame),
    /// The peer has ended its direction.
    End,
    /// The stream broke.
    Broken(io::Error),
    /// What came is no frame of the start-up.
    Malformed(StartupError),
}

impl Exchange {
    fn new(
        stream: Stream,
        control: &Arc<Domain>,
        source: Weak<dyn Source>,
        expect: FrameKind,
    ) -> io::Result<Self> {
        let token = control.add(&stream, source.clone(), Edges::READ)?;
        Ok(Self {
            stream,
            control: Arc::clone(control),
            token,
            reader: FrameReader::new(expect),
            source,
            wake: None,
        })
    }

    /// Reads on. Not an octet behind the frame is taken from the transport (IW-066).
    fn hear(&mut self) -> Heard {
        if let Err(error) = self.stream.flush() {
            return Heard::Broken(error);
        }
        let mut octets = [0; iwarp::mpa::startup::MAX_FRAME];
        loop {
            let wanted = self.reader.wanted().min(octets.len());
            match self.stream.read(&mut octets[..wanted]) {
                Ok(0) => return Heard::End,
                Ok(count) => match self.reader.push(&octets[..count]) {
                    Ok(None) => {}
                    Ok(Some(frame)) => return Heard::Frame(frame),
                    Err(error) => return Heard::Malformed(error),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Nothing,
                Err(error) => return Heard::Broken(error),
            }
        }
    }

    /// Sees to it that the source is ready again when a fault plan holds the stream no longer.
    fn wake_later(&mut self, core: &Core) {
        if let Some(at) = self.stream.wake_at() {
            let wake = Arc::new(Wake(self.source.clone()));
            let target: Weak<Wake> = Arc::downgrade(&wake);
            core.driver.set_timer(at, target);
            self.wake = Some(wake);
        }
    }

    /// Hands the stream on.
    fn into_stream(self) -> Stream {
        self.control.remove(&self.stream, self.token);
        self.stream
    }

    /// Abandons the attempt: the peer sees a reset (AMB-004).
    fn reset(self) {
        self.into_stream().reset();
    }

    /// Ends in good order: the peer sees what was sent, then the end.
    fn close(self) {
        self.into_stream().close_write();
    }
}
