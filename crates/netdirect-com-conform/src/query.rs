//! Buffers of queries, and the octets and the size that methods leave.

use std::ffi::c_void;
use std::ptr;

use conform_report::{Step, ensure};
use netdirect::Status;

use crate::client::Client;
use crate::common::status;

/// The value of the words of a buffer before the call.
const FILLED: u64 = 0xA5A5_A5A5_A5A5_A5A5;
/// More octets than any query here needs.
pub(crate) const PLENTY: u32 = 16 * 1024;

/// A buffer with its size in a variable.
pub(crate) struct QueryBuffer {
    words: Vec<u64>,
    before: Vec<u64>,
    size: u32,
}

impl QueryBuffer {
    /// Makes a buffer of `size` octets, with more octets behind them that the method does not know of. The first word may be input to the
    /// method.
    fn new(size: u32, head: Option<u32>) -> Self {
        let mut words = vec![FILLED; (size as usize).div_ceil(8) + 8];
        if let Some(head) = head {
            words[0] = u64::from_ne_bytes(
                [head.to_ne_bytes(), [0xA5; 4]]
                    .concat()
                    .try_into()
                    .expect("8 octets"),
            );
        }
        Self {
            before: words.clone(),
            words,
            size,
        }
    }

    /// The size that the method has left.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The address of the buffer.
    pub(crate) fn start(&self) -> usize {
        self.words.as_ptr().addr()
    }

    /// The octets that the method has left.
    pub(crate) fn octets(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect()
    }

    /// Returns true if the octets from this one on are unchanged.
    pub(crate) fn is_untouched_from(&self, octet: u32) -> bool {
        let before: Vec<u8> = self
            .before
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        self.octets()[octet as usize..] == before[octet as usize..]
    }
}

/// A method that fills a buffer.
pub(crate) struct Query<'a> {
    pub(crate) client: &'a Client,
    pub(crate) name: &'static str,
    /// The input to the method in the first word of the buffer.
    pub(crate) head: Option<u32>,
    pub(crate) call: &'a dyn Fn(*mut c_void, *mut u32) -> Status,
}

impl Query<'_> {
    /// Calls the method with a buffer of `size` octets.
    pub(crate) fn with(&self, size: u32) -> (Status, QueryBuffer) {
        self.client
            .step(format!("{} with {size} octets", self.name));
        let mut room = QueryBuffer::new(size, self.head);
        let returned = (self.call)(room.words.as_mut_ptr().cast(), &raw mut room.size);
        (returned, room)
    }

    /// Checks that a buffer of `size` octets is enough, and that all of it is used.
    pub(crate) fn exactly(&self, size: u32) -> Step<QueryBuffer> {
        let (returned, room) = self.with(size);
        let name = self.name;
        let what = format!("{name} with the {size} octets that it needs");
        status(&what, Status::SUCCESS, returned)?;
        ensure(
            room.size() == size && room.is_untouched_from(size),
            format!("the size {size} from {what}, and nothing written behind it"),
            format!("{}, or something behind it", room.size()),
        )?;
        Ok(room)
    }

    /// Checks that a buffer that is too small, by much or by one octet, is not written to (GEN-016).
    pub(crate) fn too_small(&self, tiny: u32) -> Step {
        let needed = self.refused(tiny)?;
        let again = self.refused(needed - 1)?;
        let name = self.name;
        ensure(
            again == needed,
            format!("the same size from {name} whatever the room"),
            format!("{needed} and {again}"),
        )?;
        self.exactly(needed).map(drop)
    }

    fn refused(&self, size: u32) -> Step<u32> {
        let (returned, room) = self.with(size);
        let what = format!("{} with {size} octets", self.name);
        status(&what, Status::BUFFER_OVERFLOW, returned)?;
        let needed = room.size();
        ensure(
            needed > size && needed <= PLENTY,
            format!("the size needed from {what}"),
            needed.to_string(),
        )?;
        ensure(
            room.is_untouched_from(0),
            format!("a buffer that {what} leaves alone"),
            "something written into it",
        )?;
        Ok(needed)
    }

    /// Checks that the method reports the size that it needs if there is no buffer.
    pub(crate) fn none(&self) -> Step {
        self.client.step(format!("{} without a buffer", self.name));
        let mut size = 0;
        let returned = (self.call)(ptr::null_mut(), &raw mut size);
        let what = format!("{} without a buffer", self.name);
        status(&what, Status::BUFFER_OVERFLOW, returned)?;
        ensure(
            (1..=PLENTY).contains(&size),
            format!("the size needed from {what}"),
            size.to_string(),
        )?;
        self.exactly(size).map(drop)
    }

    /// Checks that the method reports the size that it has used if there is more room, and uses no more.
    pub(crate) fn large(&self) -> Step<QueryBuffer> {
        let (returned, room) = self.with(PLENTY);
        let what = format!("{} with {PLENTY} octets", self.name);
        status(&what, Status::SUCCESS, returned)?;
        let used = room.size();
        ensure(
            (1..PLENTY).contains(&used),
            format!("the size used from {what}"),
            used.to_string(),
        )?;
        ensure(
            room.is_untouched_from(used),
            format!("{what} to write {used} octets, as it says"),
            "more that was written",
        )?;
        self.exactly(used).map(drop)?;
        Ok(room)
    }
}
