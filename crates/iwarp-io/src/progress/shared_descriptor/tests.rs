//! The reports of carried sources by a set of the system's descriptors.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::*;
use crate::environment::Environment;
use crate::progress::readiness::Watch;
use crate::progress::set::{Set, SourceId};

/// A carrier that never receives anything.
struct Quiet {
    ours: UnixStream,
    _theirs: UnixStream,
}

impl Carrier for Quiet {
    fn id(&self) -> CarrierId<'_> {
        CarrierId::Descriptor(self.ours.as_fd())
    }

    fn drive(&self) {}

    fn is_due(&self) -> bool {
        false
    }

    fn held(&self, _: bool) {}
}

struct Watched<'a>(&'a Arc<CarriedSource>);

impl Watch<Set> for Watched<'_> {
    fn id(&self) -> SourceId<'_> {
        SourceId::Carried(self.0)
    }
}

fn ready(set: &Set) -> Vec<u64> {
    let mut all = Vec::new();
    set.wait(Some(Duration::ZERO), |ready| all.push(ready.token))
        .unwrap();
    all
}

/// A thread that drives a source without the set, because the source was busy lately, would not be woken for it again.
#[test]
fn a_set_in_which_a_source_was_raised_has_to_be_waited_on() {
    let environment = Environment::System;
    let outer = Set::in_environment(&environment).unwrap();
    let inner = outer.another().unwrap();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let carrier: Arc<dyn Carrier> = Arc::new(Quiet { ours, _theirs });
    let source = CarriedSource::new(Arc::downgrade(&carrier));
    inner.add_stream(&Watched(&source), 5, Edges::READ).unwrap();
    outer.add_set(&inner, 2).unwrap();
    let reports = inner.reports_untaken();
    for _ in 0..2 {
        source.raise(Edges::READ);
        assert_eq!(ready(&outer), [2]);
        // A report that no thread has taken is not repeated, and the set says so.
        source.raise(Edges::READ);
        assert_eq!(ready(&outer), []);
        assert!(!inner.reports_untaken());
        assert_eq!(ready(&inner), [5]);
        assert_eq!(inner.reports_untaken(), reports);
    }
}
