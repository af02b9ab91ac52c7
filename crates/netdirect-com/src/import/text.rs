//! Text that a library leaves in memory of this side.

use std::ffi::c_char;

use netdirect::Status;

/// The text that `get` leaves, which takes memory and its size, and returns a status (GEN-016). `None` if it fails. `room` octets are tried
/// first.
pub(super) fn text(
    room: usize,
    mut get: impl FnMut(*mut c_char, *mut u32) -> Status,
) -> Option<String> {
    let mut text: Vec<u8> = vec![0; room];
    loop {
        let mut size = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let status = get(text.as_mut_ptr().cast(), &raw mut size);
        let size = size as usize;
        if status == Status::BUFFER_OVERFLOW && size > text.len() {
            text = vec![0; size];
            continue;
        }
        if status != Status::SUCCESS || size > text.len() {
            return None;
        }
        text.truncate(size);
        return Some(String::from_utf8_lossy(&text).into_owned());
    }
}
