//! The part of a table that registrations and windows share: the slots, and the state of the slots under the lock.

use std::sync::atomic::{AtomicU64, Ordering};

use iwarp::STag;
use parking_lot::Mutex;
use rdma_buffer::Backend;

use crate::{
    admin::{Admin, Place},
    error::RegisterError,
    index::Index,
    options::{OnLenientSink, TableOptions},
    rights::Rights,
    slot::{Backing, Kind, View},
    slots::Slots,
    stag::Sequence,
};

/// The part of a table that registrations and windows share.
pub(crate) struct Shared {
    pub(crate) index: Index,
    pub(crate) slots: Slots,
    pub(crate) admin: Mutex<Admin>,
    pub(crate) backend: Backend,
    pub(crate) strict_sinks: bool,
    pub(crate) lenient_sinks: AtomicU64,
    on_lenient_sink: Option<OnLenientSink>,
}

impl Shared {
    /// An empty table.
    pub(crate) fn new(options: &TableOptions) -> Result<Self, RegisterError> {
        Ok(Self {
            index: Index::new(),
            slots: Slots::new(options.capacity),
            admin: Mutex::new(Admin::new(Sequence::new(options.seed)?)),
            backend: options.backend,
            strict_sinks: options.strict_sinks,
            lenient_sinks: AtomicU64::new(0),
            on_lenient_sink: options.on_lenient_sink.clone(),
        })
    }

    /// Takes a slot and an STag, and publishes `backing` under them.
    pub(crate) fn publish(
        &self,
        admin: &mut Admin,
        kind: Kind,
        backing: &Backing,
    ) -> Result<(Place, STag), RegisterError> {
        let (number, slot, stag) = admin.take(&self.slots, &self.index)?;
        let place = Place {
            slot: number,
            r#use: slot.publish(kind, stag, backing),
        };
        self.index.insert(stag, number);
        Ok((place, stag))
    }

    /// Ends a use, which can get no new pin from here on. Called with the lock held, so that the state under the lock
    /// agrees with the slots.
    pub(crate) fn revoke(&self, kind: Kind, place: Place) {
        let slot = self.slots.get(place.slot);
        let slot = slot.filter(|slot| slot.change(kind, place.r#use, Kind::Free));
        debug_assert!(
            slot.is_some(),
            "the slot was in another use than the books say"
        );
        if let Some(slot) = slot {
            // From here on a use of the STag does not find the slot, so that only uses in progress delay `retire`.
            self.index.remove(slot.stag());
        }
    }

    /// Waits for the pins of revoked slots and frees the slots. Called without the lock held.
    pub(crate) fn retire(&self, gone: &[u32]) {
        for slot in gone.iter().filter_map(|number| self.slots.get(*number)) {
            slot.wait_unpinned();
        }
        let mut admin = self.admin.lock();
        for number in gone {
            admin.give_back(*number);
        }
    }

    /// The slot that an STag names, if the slot is in use.
    #[inline]
    pub(crate) fn find(&self, stag: STag) -> Option<(u32, View)> {
        let number = self.index.find(stag)?;
        let view = self.slots.get(number)?.view()?;
        (view.stag == stag).then_some((number, view))
    }

    /// A view of the slot, if the slot still has this use.
    pub(crate) fn current(&self, place: Place) -> Option<View> {
        let view = self.slots.get(place.slot)?.view()?;
        (view.r#use == place.r#use).then_some(view)
    }

    /// Returns true if a region with these rights may be the sink of a Read.
    pub(crate) fn sink_allowed(&self, stag: STag, rights: Rights) -> bool {
        if rights.intersects(Rights::READ_SINK | Rights::REMOTE_WRITE) {
            return true; // AMB-016: neither needs LOCAL_WRITE beside it
        }
        let lenient = rights.contains(Rights::LOCAL_WRITE) && !self.strict_sinks;
        if lenient
            && self.lenient_sinks.fetch_add(1, Ordering::Relaxed) == 0
            && let Some(tell) = &self.on_lenient_sink
        {
            tell.0(stag);
        }
        lenient
    }
}
