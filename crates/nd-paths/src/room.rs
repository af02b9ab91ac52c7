//! Room for a path, on the stack.

use std::ffi::c_char;

use crate::root;

/// The longest path of a system call, with the zero behind it.
pub(crate) const ROOM: usize = 4096;

/// A path with the zero behind it.
pub(crate) struct Room {
    octets: [u8; ROOM],
    len: usize,
}

impl Room {
    pub(crate) fn new() -> Self {
        Self {
            octets: [0; ROOM],
            len: 0,
        }
    }

    pub(crate) fn octets(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn pointer(&self) -> *const c_char {
        self.octets.as_ptr().cast()
    }

    /// Writes a path in place of the one that is there. Returns false if it is too long.
    pub(crate) fn write(&mut self, octets: impl Iterator<Item = u8>) -> bool {
        self.len = 0;
        self.extend(octets)
    }

    /// Writes more behind what is there.
    pub(crate) fn append(&mut self, octets: &[u8]) -> bool {
        self.extend(octets.iter().copied())
    }

    fn extend(&mut self, octets: impl Iterator<Item = u8>) -> bool {
        let mut has_room = true;
        for octet in octets {
            has_room = self.len + 1 < ROOM;
            if !has_room {
                break;
            }
            self.octets[self.len] = octet;
            self.len += 1;
        }
        self.octets[self.len] = 0;
        has_room
    }

    /// Has `fill` write octets, and tell how many. Returns false if it fails, or if there may be more than there is room for.
    pub(crate) fn fill(&mut self, fill: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let len = fill(&mut self.octets).filter(|len| *len < ROOM);
        self.len = len.unwrap_or(0);
        self.octets[self.len] = 0;
        len.is_some()
    }

    /// Takes the tree's root away, if the path is below it.
    pub(crate) fn remove_root(&mut self) {
        let len = root::len_in(self.octets());
        self.octets.copy_within(len..=self.len, 0);
        self.len -= len;
    }

    /// Takes the last name away, and the slash in front of it.
    pub(crate) fn remove_last(&mut self) {
        let slash = self.octets().iter().rposition(|octet| *octet == b'/');
        self.len = slash.unwrap_or(0);
        self.octets[self.len] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Room {
        let mut room = Room::new();
        assert!(room.write(text.bytes()));
        room
    }

    #[test]
    fn a_path_grows_and_shrinks() {
        let mut room = with("/a/b");
        assert!(room.append(b"/c"));
        room.remove_last();
        room.remove_last();
        assert_eq!(room.octets(), b"/a");
        room.remove_last();
        assert!(room.octets().is_empty() && room.append(b"/x"));
        assert_eq!(room.octets(), b"/x");
    }

    #[test]
    fn the_zero_has_room() {
        let mut room = Room::new();
        assert!(room.write((0..ROOM - 1).map(|_| b'a')));
        assert!(!room.append(b"b"));
        assert_eq!(room.octets().len(), ROOM - 1);
        assert!(!room.write((0..ROOM).map(|_| b'a')));
        assert!(!room.fill(|to| Some(to.len())));
        let fill = |to: &mut [u8]| {
            to.fill(b'c');
            Some(3)
        };
        assert!(room.fill(fill));
        assert_eq!(room.octets(), b"ccc");
    }
}
