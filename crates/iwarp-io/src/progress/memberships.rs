//! The domains that drive one stream.

use std::io;
use std::sync::{Arc, Weak};

use super::domain::{Domain, Source};
use super::{Edges, Readiness, Set, Watch};

/// A stream that a thread may poll, while no set reports it.
pub(crate) trait Polled<S: Readiness>: Watch<S> {
    /// Sets whether a thread polls the stream, so that no set has to report it.
    fn set_polled(&self, is_polled: bool);
}

struct Membership<S: Readiness> {
    domain: Arc<Domain<S>>,
    token: u64,
    /// The stream is out of the domain's set for a while.
    is_apart: bool,
}

/// The places of a stream in its domains. The stream is passed to every call.
pub(crate) struct Memberships<S: Readiness = Set>(Vec<Membership<S>>);

impl<S: Readiness> Memberships<S> {
    /// A stream that no domain drives.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(3))
    }

    /// Makes these domains drive the stream, and no others. If that fails, the previous domains continue.
    pub(crate) fn move_to<'a>(
        &mut self,
        domains: impl Iterator<Item = &'a Arc<Domain<S>>> + Clone,
        stream: &impl Polled<S>,
        source: &Weak<dyn Source<S>>,
        edges: Edges,
    ) -> io::Result<()>
    where
        S: 'a,
    {
        for domain in domains.clone() {
            if self.place_in(domain).is_none() {
                stream.set_polled(false);
                let token = domain.add(stream, source.clone(), edges)?;
                self.0.push(Membership {
                    domain: Arc::clone(domain),
                    token,
                    is_apart: false,
                });
            }
        }
        self.0.retain(|known| {
            let mut wanted = domains.clone();
            let stays = wanted.any(|domain| Arc::ptr_eq(&known.domain, domain));
            if !stays {
                known.domain.remove(stream, known.token);
            }
            stays
        });
        self.note_polled(stream);
        Ok(())
    }

    /// Takes the stream out of a domain's set for a while. Returns false if the stream is not in the set.
    pub(crate) fn leave(&mut self, domain: &Domain<S>, stream: &impl Polled<S>) -> bool {
        let Some(place) = self.place_in(domain) else {
            return false;
        };
        if !domain.leave(stream) {
            return false;
        }
        self.0[place].is_apart = true;
        self.note_polled(stream);
        true
    }

    /// Puts the stream back after [`leave`](Self::leave), to be reported for these edges. Returns false if that fails.
    pub(crate) fn rejoin(
        &mut self,
        domain: &Domain<S>,
        stream: &impl Polled<S>,
        edges: Edges,
    ) -> bool {
        let Some(place) = self.place_in(domain) else {
            return true;
        };
        stream.set_polled(false);
        let known = &mut self.0[place];
        let back = domain.rejoin(stream, known.token, edges);
        known.is_apart = !back;
        self.note_polled(stream);
        back
    }

    /// Changes the edges for which the domains report the stream.
    pub(crate) fn report(&self, stream: &impl Watch<S>, edges: Edges) {
        for known in &self.0 {
            known.domain.report(stream, known.token, edges);
        }
    }

    /// Returns true if the domains report an edge of the stream once, and again only after it was [armed](Self::arm).
    pub(crate) fn report_once(&self) -> bool {
        self.0.iter().any(|known| known.domain.set().reports_once())
    }

    /// The caller has handled what the domains have reported of the stream; see [`Readiness::arm`].
    pub(crate) fn arm(&self, stream: &impl Watch<S>, edges: Edges) {
        for known in self.0.iter().filter(|known| !known.is_apart) {
            known.domain.arm(stream, edges);
        }
    }

    /// No domain drives the stream any more.
    pub(crate) fn end(&mut self, stream: &impl Watch<S>) {
        for known in self.0.drain(..) {
            known.domain.remove(stream, known.token);
        }
    }

    /// The stream counts as polled while no set reports it.
    fn note_polled(&self, stream: &impl Polled<S>) {
        let mut all = self.0.iter();
        let is_polled = if iwarp::planted!(OneDomainCountsForAll) {
            all.any(|known| known.is_apart)
        } else {
            !self.0.is_empty() && all.all(|known| known.is_apart)
        };
        stream.set_polled(is_polled);
    }

    fn place_in(&self, domain: &Domain<S>) -> Option<usize> {
        let mut all = self.0.iter();
        all.position(|known| std::ptr::eq(&*known.domain, domain))
    }
}
