//! The clients of `nd perf serve`: greeted while another is served, and served one at a time, in the order in which they
//! ask.

use std::fmt::{self, Display};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nd_base::admission::{Admission, Bounds};
use nd_base::errors::{Failure, Result};
use nd_base::units;

use super::control::Control;
use super::lane::silence;
use super::limit::Others;
use super::messages::{ControlAnswer, ControlRequest};

/// The time that a client waits while others are served. Then it gets a message, before it takes this side for dead.
pub(super) const QUEUING: Duration = Duration::from_secs(30);

/// The time that a client waits before it gets the message that it has to wait.
const SOON: Duration = Duration::from_millis(500);

/// A client that is to be served.
#[derive(Debug)]
pub(super) struct QueuedClient {
    pub(super) control: Control,
    pub(super) peer: SocketAddr,
    /// The first request of the client.
    pub(super) request: ControlRequest,
}

/// All clients.
#[derive(Debug)]
pub(super) struct Clients {
    admission: Admission<QueuedClient>,
    served: Arc<Mutex<Option<Served>>>,
}

/// The client that is being served, and since when.
#[derive(Clone, Copy, Debug)]
struct Served {
    peer: SocketAddr,
    since: Instant,
}

impl Clients {
    /// Admits clients, each of which waits for its turn no longer than `queuing`, and may think between two requests no longer than
    /// `thinking`. `waiting` counts those that wait.
    pub(super) fn new(
        listener: TcpListener,
        bounds: Bounds,
        (queuing, thinking): (Duration, Duration),
        waiting: Others,
    ) -> Result<Self> {
        let served = Arc::default();
        let serving: Arc<Mutex<Option<Served>>> = Arc::clone(&served);
        let admission = Admission::of_tcp(listener, bounds, move |stream, pending| {
            let asked = Control::of_unknown_peer(stream, thinking, pending.deadline)?;
            let Some((control, request)) = asked else {
                return Ok(());
            };
            let client = QueuedClient {
                control,
                peer: pending.peer,
                request,
            };
            let waits = Waits::count(waiting);
            let left = pending.admit_for(client, (SOON, queuing), |client| {
                if let Some(served) = *locked(&serving) {
                    // A client that is gone is noticed when its turn comes.
                    let waiting = ControlAnswer::<()>::Waiting(served.to_string());
                    let _ = client.control.say(&waiting);
                }
            });
            drop(waits);
            if let Some(mut client) = left {
                client.control.give_up(&busy(*locked(&serving)));
            }
            Ok(())
        })?;
        Ok(Self { admission, served })
    }

    /// The next client. Waits for ever unless there is a limit.
    pub(super) fn next(&self, limit: Option<Duration>) -> Result<QueuedClient> {
        *locked(&self.served) = None;
        let client = self.admission.next(limit)?;
        let client = client.ok_or_else(|| silence(limit.unwrap_or_default()))?;
        *locked(&self.served) = Some(Served {
            peer: client.peer,
            since: Instant::now(),
        });
        Ok(client)
    }
}

impl Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, since } = self;
        let time = units::time(since.elapsed());
        write!(
            f,
            "the server has been measuring with {peer} for {time}, and serves one client at a time"
        )
    }
}

/// Counts a client as long as it waits.
struct Waits(Others);

impl Waits {
    fn count(waiting: Others) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a client was not served.
fn busy(served: Option<Served>) -> Failure {
    let what = match served {
        Some(served) => served.to_string(),
        None => "other clients were first, and the server serves one client at a time".to_owned(),
    };
    Failure::new(what, "run again when the other test has ended")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream};
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A limit only to end a hang.
    const HANG: Duration = Duration::from_secs(60);

    fn clients(bounds: Bounds, queuing: Duration) -> (Clients, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        static WAITING: AtomicUsize = AtomicUsize::new(0);
        let clients = Clients::new(listener, bounds, (queuing, HANG), &WAITING);
        let clients = clients.expect("a thread");
        (clients, address)
    }

    fn client(to: SocketAddr, request: &ControlRequest) -> Control {
        let stream = TcpStream::connect(to).expect("connected");
        let mut control = Control::new(stream, HANG).expect("greeted");
        control.say(request).expect("said");
        control
    }

    #[test]
    fn a_client_waits_for_its_turn() {
        let (clients, address) = clients(Bounds::default(), HANG);
        let _first = client(address, &ControlRequest::Plain);
        let served = clients.next(Some(HANG)).expect("the first");
        // This client is greeted meanwhile, and asks.
        let mut second = client(address, &ControlRequest::Join);
        assert_eq!(served.request, ControlRequest::Plain);
        // It gets the message that it has to wait, with the address of the client before it.
        let said = second.hear().expect("told").expect("a line");
        let why = format!(
            r#"{{"waiting":"the server has been measuring with {}"#,
            served.peer
        );
        assert!(said.starts_with(&why), "{said}");
        drop(served);
        let mut served = clients.next(Some(HANG)).expect("the second");
        assert_eq!(served.request, ControlRequest::Join);
        served.control.answer(()).expect("said");
        second.expect::<()>().expect("served");
    }

    #[test]
    fn a_client_that_has_waited_too_long_hears_who_is_served() {
        let (clients, address) = clients(Bounds::default(), Duration::from_millis(50));
        let _first = client(address, &ControlRequest::Plain);
        // On a busy machine the first client may have given up as well, so that the error names no client.
        let served = clients.next(Some(Duration::from_secs(1)));
        let mut second = client(address, &ControlRequest::Join);
        let text = second.expect::<()>().expect_err("not served").to_string();
        let peer = served.map(|served| served.peer.to_string());
        if let Ok(peer) = peer {
            let why =
                format!("the other side gave up: the server has been measuring with {peer} for ");
            assert!(text.starts_with(&why), "{text}");
        }
        assert!(
            text.ends_with("; run again when the other test has ended"),
            "{text}"
        );
    }

    #[test]
    fn a_client_that_does_not_ask_is_dropped() {
        let bounds = Bounds {
            first_message: Duration::from_millis(50),
            ..Bounds::default()
        };
        let (_clients, address) = clients(bounds, HANG);
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(HANG)).expect("set");
        stream
            .write_all(b"nd-perf 2 0.1.0\nrow without an end")
            .expect("sent");
        match stream.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}
