//! The system's catalogue.

use std::ffi::OsString;
use std::io;
use std::os::windows::ffi::OsStringExt;
use std::ptr;

use windows_sys::Win32::Networking::WinSock::{
    WSAENOBUFS, WSAPROTOCOL_INFOW, WSCEnumProtocols, WSCGetProviderPath,
};
use windows_sys::Win32::System::Environment::ExpandEnvironmentStringsW;
use windows_sys::core::GUID;

use super::{Catalogue, CatalogueEntry};
use crate::abi::Guid;

// One layout: identifiers are passed on.
const _: () = assert!(size_of::<Guid>() == size_of::<GUID>());

/// The catalogue of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct WinsockCatalogue;

/// How often the list is asked for: it may grow between two calls.
const TRIES: usize = 8;

/// The most characters of a path: `MAX_PATH` of Winsock's function.
const PATH: usize = 260;

impl Catalogue for WinsockCatalogue {
    fn entries(&self) -> io::Result<Vec<CatalogueEntry>> {
        let mut room: Vec<WSAPROTOCOL_INFOW> = Vec::new();
        for _ in 0..TRIES {
            let start = match room.capacity() {
                0 => ptr::null_mut(),
                _ => room.as_mut_ptr(),
            };
            let size = room.capacity() * size_of::<WSAPROTOCOL_INFOW>();
            let (mut size, mut error) = (u32::try_from(size).unwrap_or(u32::MAX), 0);
            // SAFETY: null asks for all protocols, and there is room for `size` octets.
            let count =
                unsafe { WSCEnumProtocols(ptr::null(), start, &raw mut size, &raw mut error) };
            if let Ok(count) = usize::try_from(count) {
                // SAFETY: Winsock has written as many, and there was room for them.
                unsafe { room.set_len(count.min(room.capacity())) };
                return Ok(room.iter().map(entry).collect());
            }
            if error != WSAENOBUFS {
                return Err(io::Error::from_raw_os_error(error));
            }
            room = Vec::with_capacity((size as usize).div_ceil(size_of::<WSAPROTOCOL_INFOW>()));
        }
        Err(io::Error::from_raw_os_error(WSAENOBUFS))
    }

    fn path(&self, provider: &Guid) -> io::Result<OsString> {
        let mut path = [0_u16; PATH];
        let (mut len, mut error) = (i32::try_from(PATH).expect("260"), 0);
        // SAFETY: an identifier, which has the same layout, and room for `len` characters.
        let status = unsafe {
            WSCGetProviderPath(
                ptr::from_ref(provider).cast(),
                path.as_mut_ptr(),
                &raw mut len,
                &raw mut error,
            )
        };
        if status != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // Ends with 0, whatever Winsock has left.
        path[PATH - 1] = 0;
        expanded(&path)
    }
}

/// The text, which ends with 0, with the values of its variables.
fn expanded(text: &[u16]) -> io::Result<OsString> {
    // SAFETY: the text ends with 0, and no room is offered.
    let needed = unsafe { ExpandEnvironmentStringsW(text.as_ptr(), ptr::null_mut(), 0) };
    let mut room = vec![0_u16; needed as usize];
    // SAFETY: the text ends with 0, and there is room for `needed` characters.
    let written = unsafe { ExpandEnvironmentStringsW(text.as_ptr(), room.as_mut_ptr(), needed) };
    if written == 0 || written > needed {
        return Err(io::Error::last_os_error());
    }
    let end = room.iter().position(|character| *character == 0);
    Ok(OsString::from_wide(&room[..end.unwrap_or(room.len())]))
}

fn entry(info: &WSAPROTOCOL_INFOW) -> CatalogueEntry {
    let id = &raw const info.ProviderId;
    CatalogueEntry {
        // SAFETY: the field is an identifier, which has the same layout.
        provider: unsafe { id.cast::<Guid>().read() },
        provider_flags: info.dwProviderFlags,
        version: info.iVersion,
        address_family: info.iAddressFamily,
        socket_type: info.iSocketType,
        protocol: info.iProtocol,
        protocol_max_offset: info.iProtocolMaxOffset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows registers TCP and UDP with its own sockets, and none of them is a provider.
    #[test]
    fn the_catalogue_of_this_machine_can_be_read() {
        let entries = WinsockCatalogue.entries().unwrap();
        let tcp = entries.iter().find(|entry| entry.protocol == 6).unwrap();
        assert!(!tcp.is_provider());
    }

    #[test]
    fn variables_in_paths_are_replaced() {
        let text: Vec<u16> = r"%SystemRoot%\a.dll".encode_utf16().chain([0]).collect();
        let path = expanded(&text).unwrap().into_string().unwrap();
        assert!(path.ends_with(r"\a.dll") && !path.contains('%'), "{path}");
    }
}
