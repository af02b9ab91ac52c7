//! Connection requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netdirect::{Connector, Listener, Overlapped, ReadLimits, Started, Status};

use super::Session;
use super::deadline::{Deadline, settle, silence};
use crate::errors::{Failure, Result};

/// A connection request, and the address of its sender.
#[derive(Debug)]
pub struct Request {
    /// The connector that accepts or rejects the request.
    pub connector: Arc<dyn Connector>,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// The private data of the request.
    pub private_data: Vec<u8>,
    /// The limits for Reads that the peer asks for.
    pub limits: ReadLimits,
}

/// Waits for a connection request, for ever unless there is a deadline. A request whose sender is gone is skipped.
pub fn next_request(
    session: &Session,
    listener: &dyn Listener,
    deadline: Option<Deadline>,
) -> Result<Request> {
    request_settled(session, listener, |started, overlapped| match deadline {
        Some(deadline) => settle(started, overlapped, deadline, GETTING_REQUEST),
        None => match started.map_err(|error| Failure::nd(GETTING_REQUEST, &error))? {
            Started::Done => Ok(Status::SUCCESS),
            Started::Pending => Ok(overlapped.wait()),
        },
    })
}

/// The next connection request before the deadline. `look` says how long to wait before it is asked again, or fails.
pub fn next_request_while(
    session: &Session,
    listener: &dyn Listener,
    deadline: Deadline,
    look: &dyn Fn() -> Result<Duration>,
) -> Result<Request> {
    request_settled(session, listener, |started, overlapped| {
        if started.map_err(|error| Failure::nd(GETTING_REQUEST, &error))? == Started::Done {
            return Ok(Status::SUCCESS);
        }
        loop {
            match overlapped.wait_timeout(look()?) {
                Some(status) => return Ok(status),
                None if deadline.left().is_zero() => {
                    return Err(silence(GETTING_REQUEST, deadline.limit()));
                }
                None => {}
            }
        }
    })
}

const GETTING_REQUEST: &str = "get a connection request";

/// Gets a connection request; `settle` waits for it.
fn request_settled(
    session: &Session,
    listener: &dyn Listener,
    settle: impl Fn(netdirect::Result<Started>, &Overlapped) -> Result<Status>,
) -> Result<Request> {
    let doing = GETTING_REQUEST;
    loop {
        let connector = session.connector()?;
        let overlapped = Overlapped::new();
        let started = listener.get_connection_request(&connector, &overlapped);
        let status = settle(started, &overlapped)?;
        if status != Status::SUCCESS {
            return Err(Failure::status(doing, status));
        }
        let (Ok(peer), Ok(private_data), Ok(limits)) = (
            connector.get_peer_address(),
            connector.get_private_data(),
            connector.get_read_limits(),
        ) else {
            continue;
        };
        return Ok(Request {
            connector,
            peer,
            private_data,
            limits,
        });
    }
}
