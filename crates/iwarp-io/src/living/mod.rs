//! Lists of objects that exist only as long as others keep them.

use std::fmt;
use std::sync::{Arc, Weak};

/// Objects that exist only as long as others keep them.
pub struct Living<T: ?Sized>(Vec<Weak<T>>);

impl<T: ?Sized> Default for Living<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: ?Sized> fmt::Debug for Living<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Living").field(&self.0.len()).finish()
    }
}

impl<T: ?Sized> Living<T> {
    /// Adds an object. Objects that exist no more are taken out whenever the list would grow, so that adding one takes as long with many
    /// others as with few.
    pub fn add(&mut self, object: Weak<T>) {
        let Self(list) = self;
        if list.len() == list.capacity() {
            list.retain(|known| known.strong_count() > 0);
            list.reserve(list.len().max(8));
        }
        list.push(object);
    }

    /// Takes out all objects, and returns those that still exist.
    pub fn take(&mut self) -> impl Iterator<Item = Arc<T>> + use<T> {
        let Self(list) = std::mem::take(self);
        list.into_iter().filter_map(|object| object.upgrade())
    }
}

#[cfg(test)]
mod tests;
