//! What registrations and windows share with their table: the slots, and the state of the slots under the lock.

use std::sync::atomic::{AtomicU64, Ordering};

use iwarp::STag;
use parking_lot::Mutex;
use rdma_buffer::Backend;

use crate::{
    admin::{Admin, Place},
    error::RegisterError,
    options::{OnLenientSink, TableOptions},
    rights::Rights,
    slot::{Backing, Kind, View},
    slots::Slots,
    stag::{Permutation, Random},
};

/// What registrations and windows share with their table.
pub(crate) struct Shared {
    pub(crate) permutation: Permutation,
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
        let mut random = Random::new(options.seed);
        Ok(Self {
            permutation: Permutation::new(&mut random)?,
            slots: Slots::new(options.capacity),
            admin: Mutex::new(Admin::new(random)),
            backend: options.backend,
            strict_sinks: options.strict_sinks,
            lenient_sinks: AtomicU64::new(0),
            on_lenient_sink: options.on_lenient_sink.clone(),
        })
    }

    /// Takes a slot and makes it stand for `backing`.
    pub(crate) fn publish(
        &self,
        admin: &mut Admin,
        kind: Kind,
        backing: &Backing,
    ) -> Result<(Place, STag), RegisterError> {
        let (number, slot, key) = admin.take(&self.slots, &self.permutation)?;
        let place = Place {
            slot: number,
            r#use: slot.publish(kind, key, backing),
        };
        Ok((place, self.permutation.stag(number, key)))
    }

    /// Ends a use, which can get no new pin from here on. Called with the lock held, so that the state under the lock
    /// agrees with the slots.
    pub(crate) fn revoke(&self, kind: Kind, place: Place) {
        let revoked = self
            .slots
            .get(place.slot)
            .is_some_and(|slot| slot.change(kind, place.r#use, Kind::Free));
        debug_assert!(revoked, "the slot was in another use than the books say");
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

    /// The slot that an STag names, if the slot is in use with this key.
    #[inline]
    pub(crate) fn find(&self, stag: STag) -> Option<(u32, View)> {
        let number = self.permutation.slot_of(stag);
        let view = self.slots.get(number)?.view()?;
        view.has_key_of(stag).then_some((number, view))
    }

    /// A view of the slot, if the slot still has this use.
    pub(crate) fn current(&self, place: Place) -> Option<View> {
        let view = self.slots.get(place.slot)?.view()?;
        (view.r#use == place.r#use).then_some(view)
    }

    /// Whether a region with these rights may be the sink of a Read.
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
