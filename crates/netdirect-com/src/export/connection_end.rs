//! `INDXConnectionEnd`.

use std::ffi::c_char;

use netdirect::{EndReason, EndedBy, Error, Result, Status};

use super::pointers::{Out, Room};
use crate::abi::ConnectionEnd;

/// Leaves the reason why a connection ended, and its sentence if there is room.
pub(super) fn fill(
    end: Option<netdirect::ConnectionEnd>,
    fields: &Out<ConnectionEnd>,
    text: &Out<c_char>,
    size: Out<u32>,
) -> Result<()> {
    let fields = fields.required(1)?;
    size.required(3)?;
    let Some(end) = end else {
        return Err(Error::new(
            Status::CONNECTION_INVALID,
            "the connection has not ended",
        ));
    };
    let terminate = end.terminate_code();
    let part = |part: Option<u8>| part.map_or(0, u32::from);
    fields.set(ConnectionEnd {
        ended_by: number(EndedBy::ALL, end.by()),
        reason: number(EndReason::ALL, end.reason()),
        has_terminate: terminate.is_some().into(),
        terminate_layer: part(terminate.map(|code| code.layer)),
        terminate_type: part(terminate.map(|code| code.etype)),
        terminate_code: part(terminate.map(|code| code.code)),
    });
    Room::of_argument(2, text, size).fill(end.what().as_bytes())
}

/// One more than the place in the list.
fn number<T: PartialEq>(all: &[T], value: T) -> u32 {
    let place = all.iter().position(|known| *known == value);
    let number = place.and_then(|place| u32::try_from(place + 1).ok());
    number.expect("the list has all values")
}
