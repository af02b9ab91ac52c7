//! The reason why a connection ended, from a library that has `INDXConnectionEnd`.

use netdirect::{ConnectionEnd, EndReason, EndedBy, TerminateCode};

use super::pointer::{Pointer, call};
use super::text::text;
use crate::abi::{self, ConnectionEndTable, IID_CONNECTION_END};

/// The reason of a connector or a queue pair. `None` if its connection has not ended, and if the library does not tell.
pub(super) fn of<T>(object: &Pointer<T>) -> Option<ConnectionEnd> {
    let object: Pointer<ConnectionEndTable> = object.query(IID_CONNECTION_END).ok()?;
    let mut fields = abi::ConnectionEnd::default();
    let what = text(256, |start, size| {
        call!(&object, get_connection_end(&raw mut fields, start, size))
    })?;
    let by = *numbered(EndedBy::ALL, fields.ended_by)?;
    let reason = *numbered(EndReason::ALL, fields.reason)?;
    let end = ConnectionEnd::new(by, reason, what);
    if fields.has_terminate == 0 {
        return Some(end);
    }
    Some(end.terminate(TerminateCode {
        layer: u8::try_from(fields.terminate_layer).ok()?,
        etype: u8::try_from(fields.terminate_type).ok()?,
        code: u8::try_from(fields.terminate_code).ok()?,
    }))
}

/// The value whose number is one more than its place in the list.
fn numbered<T>(all: &[T], number: u32) -> Option<&T> {
    all.get((number as usize).checked_sub(1)?)
}
