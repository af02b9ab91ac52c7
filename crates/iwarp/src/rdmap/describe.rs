//! One line of text per segment.

use core::fmt;

use super::atomic::{AtomicRequest, AtomicResponse};
use super::header::Opcode;
use super::read::ReadRequest;
use super::terminate::Terminate;
use crate::ddp;
use crate::types::STag;

/// Shows any ULPDU as one line of text, for logs, traces and captures.
#[derive(Clone, Copy, Debug)]
pub struct Describe<'a>(pub &'a [u8]);

impl fmt::Display for Describe<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let segment = match ddp::Segment::parse(self.0) {
            Ok(segment) => segment,
            Err(error) => return write!(f, "{error} ({} octets)", self.0.len()),
        };
        let (ulp, payload) = match segment {
            ddp::Segment::Tagged(segment) => (segment.ulp, segment.payload),
            ddp::Segment::Untagged(segment) => (segment.ulp, segment.payload),
        };
        let opcode = match Opcode::parse(ulp) {
            Ok(opcode) => opcode,
            Err(error) => return write!(f, "{error} {ulp:#04x}: {segment}"),
        };
        write!(f, "{}: {segment}", opcode.name())?;
        match (opcode, segment) {
            (Opcode::ReadRequest, _) => match ReadRequest::parse(payload) {
                Some(request) => write!(f, " {request}"),
                None => f.write_str(" malformed"),
            },
            (Opcode::AtomicRequest, _) => match AtomicRequest::parse(payload) {
                Ok(request) => write!(f, " {request}"),
                Err(_) => f.write_str(" malformed"),
            },
            (Opcode::AtomicResponse, _) => match AtomicResponse::parse(payload) {
                Some(response) => write!(f, " {response}"),
                None => f.write_str(" malformed"),
            },
            (Opcode::Terminate, _) => match Terminate::parse(payload, false) {
                Some(terminate) => write!(f, " {terminate}"),
                None => f.write_str(" malformed"),
            },
            (opcode, ddp::Segment::Untagged(segment)) if opcode.is_invalidating() => {
                write!(f, " invalidates {}", STag(segment.ulp_word))
            }
            _ => Ok(()),
        }
    }
}
