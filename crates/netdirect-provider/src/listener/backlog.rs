//! The queue of peers' requests that no connector has taken yet.

use std::collections::VecDeque;

/// Peers' requests, in the order in which a listener passes them to connectors.
pub trait Backlog: Default + Send {
    /// A peer's request.
    type PeerRequest: Send;

    /// Returns the number of requests that wait.
    fn len(&self) -> usize;

    /// Returns true if none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a request behind all others.
    fn push_back(&mut self, request: Self::PeerRequest);

    /// Adds a request in front of all others.
    fn push_front(&mut self, request: Self::PeerRequest);

    /// Takes out the request that is in front.
    fn pop_front(&mut self) -> Option<Self::PeerRequest>;

    /// Takes out the request with this key.
    fn remove(&mut self, key: u64) -> Option<Self::PeerRequest>;

    /// Takes out the request that gives way to a newcomer when the backlog is full. `None` if the newcomer is refused.
    fn give_way_to(&mut self, newcomer: &Self::PeerRequest) -> Option<Self::PeerRequest>;

    /// Takes out all requests.
    fn take(&mut self) -> Vec<Self::PeerRequest>;
}

/// A request with a key.
pub trait Keyed {
    /// Returns the key, which no other request of the listener has.
    fn key(&self) -> u64;
}

/// A backlog in the order of arrival, in which no request gives way.
#[derive(Debug)]
pub struct Queue<R>(VecDeque<R>);

impl<R> Default for Queue<R> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<R: Keyed + Send> Backlog for Queue<R> {
    type PeerRequest = R;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn push_back(&mut self, request: R) {
        self.0.push_back(request);
    }

    fn push_front(&mut self, request: R) {
        self.0.push_front(request);
    }

    fn pop_front(&mut self) -> Option<R> {
        self.0.pop_front()
    }

    fn remove(&mut self, key: u64) -> Option<R> {
        let at = self.0.iter().position(|request| request.key() == key)?;
        self.0.remove(at)
    }

    fn give_way_to(&mut self, _: &R) -> Option<R> {
        None
    }

    fn take(&mut self) -> Vec<R> {
        std::mem::take(&mut self.0).into()
    }
}
