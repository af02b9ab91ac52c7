//! Tokens that are never used again.

use slab::Slab;

/// Values with the tokens by which sets report them. A report, or a notice of another thread, may be older than the value that now has the
/// same place. So a token contains a serial number in addition to the place, and the token of a value that was taken out finds nothing.
#[derive(Debug)]
pub(crate) struct Tokens<T> {
    entries: Slab<(u32, T)>,
    serial: u32,
}

/// The lowest bit of the serial number in a token.
const SERIAL: u32 = 32;

/// Tokens from here on are never given out. They are free for other objects that a set reports.
pub(crate) const RESERVED: u64 = !0 << SERIAL;

impl<T> Default for Tokens<T> {
    fn default() -> Self {
        Self {
            entries: Slab::new(),
            serial: 0,
        }
    }
}

impl<T> Tokens<T> {
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let serial = self.serial;
        // The greatest serial number is left out, so that no token is reserved.
        self.serial = (serial + 1) % u32::MAX;
        let place = self.entries.insert((serial, value));
        u64::from(serial) << SERIAL | place as u64
    }

    pub(crate) fn get(&self, token: u64) -> Option<&T> {
        let (serial, value) = self.entries.get(place(token))?;
        (*serial == serial_of(token)).then_some(value)
    }

    pub(crate) fn get_mut(&mut self, token: u64) -> Option<&mut T> {
        let (serial, value) = self.entries.get_mut(place(token))?;
        (*serial == serial_of(token)).then_some(value)
    }

    pub(crate) fn remove(&mut self, token: u64) -> Option<T> {
        self.get(token)?;
        Some(self.entries.remove(place(token)).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All values, with their places. The places of removed values are used again.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.entries
            .iter()
            .map(|(place, (_, value))| (place, value))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
fn place(token: u64) -> usize {
    token as u32 as usize
}

fn serial_of(token: u64) -> u32 {
    (token >> SERIAL) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_value_that_is_gone_finds_nothing() {
        let mut tokens = Tokens::default();
        let old = tokens.insert('a');
        assert_eq!(tokens.remove(old), Some('a'));
        let new = tokens.insert('b');
        assert_eq!(place(old), place(new));
        assert_eq!((tokens.get(old), tokens.get(new)), (None, Some(&'b')));
        assert_eq!((tokens.remove(old), tokens.get_mut(old)), (None, None));
        assert_eq!(tokens.get_mut(new), Some(&mut 'b'));
        assert_eq!(tokens.len(), 1);
    }

    #[test]
    fn no_token_is_reserved() {
        let mut tokens = Tokens {
            serial: u32::MAX - 1,
            ..Tokens::default()
        };
        let (last, first) = (tokens.insert('a'), tokens.insert('b'));
        assert!(last < RESERVED && first < RESERVED);
        assert_eq!(
            (tokens.get(last), tokens.get(first)),
            (Some(&'a'), Some(&'b'))
        );
    }
}
