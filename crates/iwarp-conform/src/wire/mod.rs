//! The suite's own encoder and decoder. They share nothing with the engine, so that a mistake of the engine cannot hide in
//! both ends.
//!
//! Every field of every frame can be set to any value, legal or not. The constructors fill in legal values.

mod crc;
mod fpdu;
mod header;
mod messages;
mod segment;
mod startup;
mod terminate;

pub use crc::crc32c;
pub use fpdu::{CrcStyle, Fpdu, MARKER_SPACING, Markers, pad_length};
pub use messages::{AtomicRequest, AtomicResponse, ReadRequest};
pub use segment::{Segment, opcode, queue};
pub use startup::{Enhanced, StartFrame, flag};
pub use terminate::{Code, Terminate};

/// Octets as hexadecimal digits in groups of four octets, cut after `limit` octets.
pub fn hex(octets: &[u8], limit: usize) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for (i, octet) in octets.iter().take(limit).enumerate() {
        if i > 0 && i % 4 == 0 {
            text.push(' ');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{octet:02x}");
    }
    if octets.len() > limit {
        let _ = write!(text, " … ({} octets)", octets.len());
    }
    text
}
