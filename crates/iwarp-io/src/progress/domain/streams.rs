//! The streams of a domain: its readiness set, and the sources that the set reports.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::log::targets;
use crate::progress::tokens::Tokens;
use crate::progress::{Edges, Readiness, Ready, Watch};
use crate::sync::Mutex;

/// A set, and the sources `T` by the tokens that the set reports. A stream that has left the set keeps its token.
pub(super) struct Streams<S, T: ?Sized> {
    set: S,
    sources: Mutex<Tokens<Weak<T>>>,
}

impl<S: Readiness, T: ?Sized> Streams<S, T> {
    /// Makes a list without streams, over an empty set.
    pub(super) fn new(set: S) -> Self {
        Self {
            set,
            sources: Mutex::default(),
        }
    }

    pub(super) fn set(&self) -> &S {
        &self.set
    }

    pub(super) fn len(&self) -> usize {
        self.sources.lock().len()
    }

    /// Adds a stream, which the set reports for these edges.
    pub(super) fn add(
        &self,
        stream: &impl Watch<S>,
        source: Weak<T>,
        edges: Edges,
    ) -> io::Result<u64> {
        let token = self.sources.lock().insert(source);
        self.set
            .add_stream(stream, token, edges | stream.joins())
            .inspect_err(|_| drop(self.sources.lock().remove(token)))?;
        Ok(token)
    }

    /// Takes a stream out, even if the stream has left the set.
    pub(super) fn remove(&self, stream: &impl Watch<S>, token: u64) {
        let _ = self.set.remove(stream);
        let source = self.sources.lock().remove(token);
        drop(source);
    }

    /// Takes a stream out of the set for a while. Returns false if the stream is not there.
    pub(super) fn leave(&self, stream: &impl Watch<S>) -> bool {
        self.set.set_aside(stream).is_ok()
    }

    /// Puts a stream back into the set. Returns false if that fails.
    pub(super) fn rejoin(&self, stream: &impl Watch<S>, token: u64, edges: Edges) -> bool {
        let joins = if iwarp::planted!(RejoinAsksNothing) {
            Edges::empty()
        } else {
            stream.joins()
        };
        match self.set.add_stream(stream, token, edges | joins) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                limited!(error, target: targets::PROGRESS, %error, "the readiness set cannot take a stream back; the background thread checks the stream every few milliseconds");
                false
            }
            _ => true,
        }
    }

    /// Changes the edges for which the set reports a stream, unless the stream has left the set.
    pub(super) fn report(&self, stream: &impl Watch<S>, token: u64, edges: Edges) {
        match self.set.change_stream(stream, token, edges) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                limited!(error, target: targets::PROGRESS, %error, "the readiness set cannot change how it reports a stream");
            }
            _ => {}
        }
    }

    /// The caller has handled what the set has reported of a stream.
    pub(super) fn arm(&self, stream: &impl Watch<S>, edges: Edges) {
        self.set.arm(stream, edges);
    }

    /// Asks the set for ready streams, without waiting.
    #[inline]
    pub(super) fn ready(&self, each: impl FnMut(Ready)) {
        if let Err(error) = self.set.wait(Some(Duration::ZERO), each) {
            limited!(error, target: targets::PROGRESS, %error, "a readiness set failed");
        }
    }

    /// The source of this token, if it is there.
    pub(super) fn source(&self, token: u64) -> Option<Arc<T>> {
        self.sources.lock().get(token)?.upgrade()
    }

    /// Returns true if there are no sources but those of these tokens. Tokens of streams that were taken out do not count.
    pub(super) fn are_all_among(&self, tokens: impl Iterator<Item = u64>) -> bool {
        let sources = self.sources.lock();
        let known = tokens.filter(|token| sources.get(*token).is_some());
        known.count() >= sources.len()
    }
}

#[cfg(all(test, unix, not(loom)))]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::environment::Environment;
    use crate::progress::Set;

    fn streams() -> Streams<Set, u32> {
        Streams::new(Set::in_environment(&Environment::System).unwrap())
    }

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    /// The tokens that the set reports.
    fn reported(streams: &Streams<Set, u32>) -> Vec<u64> {
        let mut tokens = Vec::new();
        streams.ready(|ready| tokens.push(ready.token));
        tokens
    }

    #[test]
    fn a_stream_is_reported_by_its_token_while_it_is_in_the_set() {
        let streams = streams();
        let (ours, mut theirs) = pair();
        let source = Arc::new(1);
        let token = streams.add(&ours, Arc::downgrade(&source), Edges::READ);
        let token = token.unwrap();
        theirs.write_all(b".").unwrap();
        assert_eq!(reported(&streams), [token]);
        assert!(streams.leave(&ours));
        assert!(!streams.leave(&ours));
        theirs.write_all(b".").unwrap();
        assert_eq!(reported(&streams), []);
        assert_eq!(streams.source(token), Some(Arc::clone(&source)));
        assert!(streams.rejoin(&ours, token, Edges::READ));
        assert!(streams.rejoin(&ours, token, Edges::READ));
        assert_eq!(reported(&streams), [token]);
        streams.remove(&ours, token);
        assert_eq!((streams.source(token), streams.len()), (None, 0));
    }

    #[test]
    fn a_stream_that_the_set_refuses_has_no_source() {
        let streams = streams();
        let (ours, _theirs) = pair();
        let source = Arc::new(1);
        let add = || streams.add(&ours, Arc::downgrade(&source), Edges::READ);
        let token = add().unwrap();
        assert_eq!(add().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(streams.len(), 1);
        assert!(streams.source(token).is_some());
    }

    #[test]
    fn streams_that_have_gone_do_not_count_among_all() {
        let streams = streams();
        let pairs = [(); 3].map(|()| pair());
        let sources = [1, 2, 3].map(Arc::new);
        let tokens = [0, 1, 2].map(|at: usize| {
            let source = Arc::downgrade(&sources[at]);
            streams.add(&pairs[at].0, source, Edges::READ).unwrap()
        });
        assert!(streams.are_all_among(tokens.into_iter()));
        assert!(!streams.are_all_among(tokens.into_iter().skip(1)));
        streams.remove(&pairs[2].0, tokens[2]);
        assert!(!streams.are_all_among(tokens.into_iter().skip(1)));
        assert!(streams.are_all_among(tokens.into_iter().take(2)));
    }
}
