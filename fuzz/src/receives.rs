//! A queue of Receives apart from the connection's own.

use std::cell::RefCell;
use std::collections::VecDeque;

use iwarp::{ReceiveSlot, ReceiveSource, Sge};

/// Receives in the order of their posts.
#[derive(Debug, Default)]
pub(crate) struct Receives(RefCell<VecDeque<(u64, Vec<Sge>)>>);

impl Receives {
    pub(crate) fn post(&self, context: u64, sges: &[Sge]) {
        self.0.borrow_mut().push_back((context, sges.to_vec()));
    }

    /// The contexts of the Receives that were not drawn, in their order.
    pub(crate) fn contexts(&self) -> Vec<u64> {
        self.0
            .borrow()
            .iter()
            .map(|(context, _)| *context)
            .collect()
    }
}

impl ReceiveSource for &Receives {
    fn draw(self, slot: ReceiveSlot<'_>) {
        if let Some((context, sges)) = self.0.borrow_mut().pop_front() {
            slot.fill(context, &sges).expect("a Receive that fits");
        }
    }
}
