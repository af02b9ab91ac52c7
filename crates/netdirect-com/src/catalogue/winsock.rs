//! The system's catalogue.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use windows_sys::Win32::Networking::WinSock::{
    BASE_PROTOCOL, SOCKADDR_IN, SOCKADDR_IN6, WSAENOBUFS, WSAPROTOCOL_INFOW, WSAPROTOCOLCHAIN,
    WSCDeinstallProvider, WSCEnumProtocols, WSCGetProviderPath, WSCInstallProvider,
};
use windows_sys::Win32::Security::{
    GetTokenInformation, TOKEN_ELEVATION, TOKEN_QUERY, TokenElevation,
};
use windows_sys::Win32::System::Environment::ExpandEnvironmentStringsW;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};
use windows_sys::core::GUID;

use super::{Catalogue, CatalogueEntry, LONGEST_PATH};
use crate::abi::Guid;

// One layout: identifiers are passed on.
const _: () = assert!(size_of::<Guid>() == size_of::<GUID>());

/// The catalogue of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct WinsockCatalogue;

/// How often the list is asked for: it may grow between two calls.
const TRIES: usize = 8;

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
        let mut path = [0_u16; LONGEST_PATH];
        let (mut len, mut error) = (i32::try_from(LONGEST_PATH).expect("260"), 0);
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
        path[LONGEST_PATH - 1] = 0;
        expanded(&path)
    }

    fn install(&self, path: &OsStr, entry: &CatalogueEntry) -> io::Result<()> {
        let path = in_catalogue(path)?;
        let info = info(entry);
        let mut error = 0;
        // SAFETY: an identifier, which has the same layout, a text that ends with 0, and one entry.
        let status = unsafe {
            WSCInstallProvider(
                ptr::from_ref(&entry.provider).cast(),
                path.as_ptr(),
                &raw const info,
                1,
                &raw mut error,
            )
        };
        changed(status, error)
    }

    fn deinstall(&self, provider: &Guid) -> io::Result<()> {
        let mut error = 0;
        // SAFETY: an identifier, which has the same layout.
        let status =
            unsafe { WSCDeinstallProvider(ptr::from_ref(provider).cast(), &raw mut error) };
        changed(status, error)
    }
}

/// The outcome of a change. Winsock has one error for a provider that is there already and for a user who may not change anything.
fn changed(status: i32, error: i32) -> io::Result<()> {
    if status == 0 {
        return Ok(());
    }
    if !is_elevated()? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Err(io::Error::from_raw_os_error(error))
}

/// Returns true if the process has the rights of an administrator.
fn is_elevated() -> io::Result<bool> {
    let mut token = ptr::null_mut();
    // SAFETY: the function returns a constant.
    let process = unsafe { GetCurrentProcess() };
    // SAFETY: the handle is that of this process, and there is room for another one.
    if unsafe { OpenProcessToken(process, TOKEN_QUERY, &raw mut token) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the function has opened the handle for its caller.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    let mut elevation = TOKEN_ELEVATION::default();
    let room = u32::try_from(size_of::<TOKEN_ELEVATION>()).expect("4");
    let mut written = 0;
    // SAFETY: the handle is one of a token, and there is room for `room` octets.
    let known = unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenElevation,
            (&raw mut elevation).cast(),
            room,
            &raw mut written,
        )
    };
    if known == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(elevation.TokenIsElevated != 0)
}

/// The path as Winsock takes it.
fn in_catalogue(path: &OsStr) -> io::Result<Vec<u16>> {
    let mut text: Vec<u16> = path.encode_wide().collect();
    if text.len() >= LONGEST_PATH || text.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    text.push(0);
    Ok(text)
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
        service_flags: info.dwServiceFlags1,
        provider_flags: info.dwProviderFlags,
        version: info.iVersion,
        address_family: info.iAddressFamily,
        socket_type: info.iSocketType,
        protocol: info.iProtocol,
        protocol_max_offset: info.iProtocolMaxOffset,
        name: text(&info.szProtocol),
    }
}

/// The inverse of [`entry`], with the fields that NetworkDirect does not look at.
fn info(entry: &CatalogueEntry) -> WSAPROTOCOL_INFOW {
    let mut info = WSAPROTOCOL_INFOW {
        dwServiceFlags1: entry.service_flags,
        dwProviderFlags: entry.provider_flags,
        ProtocolChain: WSAPROTOCOLCHAIN {
            ChainLen: BASE_PROTOCOL.cast_signed(),
            ..WSAPROTOCOLCHAIN::default()
        },
        iVersion: entry.version,
        iAddressFamily: entry.address_family,
        iMaxSockAddr: i32::try_from(size_of::<SOCKADDR_IN6>()).expect("28"),
        iMinSockAddr: i32::try_from(size_of::<SOCKADDR_IN>()).expect("16"),
        iSocketType: entry.socket_type,
        iProtocol: entry.protocol,
        iProtocolMaxOffset: entry.protocol_max_offset,
        // Messages of any length.
        dwMessageSize: u32::MAX,
        ..WSAPROTOCOL_INFOW::default()
    };
    let id = &raw mut info.ProviderId;
    // SAFETY: the field is an identifier, which has the same layout.
    unsafe { id.cast::<Guid>().write(entry.provider) };
    // A 0 stays behind the name.
    let room = info.szProtocol.len() - 1;
    for (to, character) in info.szProtocol[..room]
        .iter_mut()
        .zip(entry.name.encode_utf16())
    {
        *to = character;
    }
    info
}

/// A text that ends with 0, or with the array.
fn text(characters: &[u16]) -> String {
    let end = characters.iter().position(|character| *character == 0);
    String::from_utf16_lossy(&characters[..end.unwrap_or(characters.len())])
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
    fn an_entry_is_the_same_in_winsocks_form() {
        let mut written = CatalogueEntry::of_provider(Guid::new(1, 2, 3, 4), "n\u{e4}me");
        assert_eq!(entry(&info(&written)), written);
        assert_eq!(info(&written).ProtocolChain.ChainLen, 1);
        written.name = "x".repeat(300);
        let name = entry(&info(&written)).name;
        assert_eq!(name, written.name[..255]);
    }

    #[test]
    fn a_path_that_the_catalogue_has_no_room_for_is_refused() {
        let longest = "x".repeat(LONGEST_PATH - 1);
        assert_eq!(in_catalogue(longest.as_ref()).unwrap().len(), LONGEST_PATH);
        for wrong in [format!("{longest}x"), "a\0b".to_owned()] {
            let kind = in_catalogue(wrong.as_ref()).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::InvalidInput);
        }
    }

    /// Winsock's errors do not say whether the user may change the catalogue.
    #[test]
    fn a_change_that_fails_is_told_by_the_rights_of_the_process() {
        assert!(changed(0, 0).is_ok());
        let error = changed(-1, WSAENOBUFS).unwrap_err();
        if is_elevated().unwrap() {
            assert_eq!(error.raw_os_error(), Some(WSAENOBUFS));
        } else {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn variables_in_paths_are_replaced() {
        let text: Vec<u16> = r"%SystemRoot%\a.dll".encode_utf16().chain([0]).collect();
        let path = expanded(&text).unwrap().into_string().unwrap();
        assert!(path.ends_with(r"\a.dll") && !path.contains('%'), "{path}");
    }
}
