//! The overlapped file of a provider that is no driver.
//!
//! A client ties the file to a completion port, and the system appends a packet to that port when an operation on the file ends. Nobody can
//! ask which port a file has, or append a packet with a status. So each end of a request is an operation of the system: a read that was
//! begun with the client's OVERLAPPED as its context, and is then made to end with the wanted result.
//!
//! The file is the server's end of a pipe of messages. [`FilePipe`] has another handle for that end, because clients close theirs early,
//! and the client's end. The read, of one octet, pends because the pipe is empty. It ends
//!
//! | for the status | by | and a port reports |
//! |---|---|---|
//! | of a success | a message of one octet | success |
//! | ND_CANCELED | its cancellation | the same status |
//! | ND_BUFFER_OVERFLOW | a message of two octets | the same status |
//! | of another failure | disconnection of the pipe, which is connected anew | 0xC00000B0 |
//!
//! The read's status block is ours, so that the system does not touch the OVERLAPPED: its `Internal` has the exact status. The read ends in
//! the thread that has begun it, before [`FilePipe::end`] returns, and so does not depend on the life of other threads.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr;

use netdirect::Status;
use parking_lot::Mutex;
use windows_sys::Wdk::Foundation::{NtQueryObject, ObjectBasicInformation};
use windows_sys::Wdk::Storage::FileSystem::{
    FSCTL_PIPE_DISCONNECT, FSCTL_PIPE_LISTEN, NtCancelIoFileEx, NtFsControlFile, NtReadFile,
};
use windows_sys::Win32::Foundation::{
    CompareObjectHandles, INVALID_HANDLE_VALUE, NTSTATUS, STATUS_PENDING, STATUS_SUCCESS,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, PIPE_ACCESS_DUPLEX,
    SetFileCompletionNotificationModes,
};
use windows_sys::Win32::System::IO::{IO_STATUS_BLOCK, IO_STATUS_BLOCK_0};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, PIPE_READMODE_MESSAGE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_MESSAGE,
};
use windows_sys::Win32::System::WindowsProgramming::{
    FILE_SKIP_COMPLETION_PORT_ON_SUCCESS, FILE_SKIP_SET_EVENT_ON_HANDLE,
};

use super::event::EventRef;
use crate::abi::{Handle, Overlapped};
use crate::handle::{INFINITE, wait};

/// Octets of the pipe's buffers; no more than two are in it.
const BUFFER: u32 = 64;

/// How often a pipe is connected anew before its file is given up. Only a program that guesses the pipe's name, or finds it in the system's
/// list in this moment, can be in the way.
const TRIES: usize = 8;

/// An overlapped file.
#[derive(Debug)]
pub(crate) struct FilePipe {
    /// Another handle for the file that the client has.
    file: OwnedHandle,
    name: String,
    /// Set when a control operation has ended.
    controlled: EventRef,
    /// Locked while a request ends: one after the other.
    ends: Mutex<Ends>,
}

/// What ends reads.
#[derive(Debug)]
struct Ends {
    /// The client's end of the pipe. `None` if it could not be connected again.
    far: Option<File>,
    read: Box<Read>,
}

/// The memory that the system writes during a read.
struct Read {
    block: IO_STATUS_BLOCK,
    octet: u8,
}

// SAFETY: the memory has no owner but the box, whatever thread has that.
unsafe impl Send for Read {}

impl std::fmt::Debug for Read {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Read").finish_non_exhaustive()
    }
}

impl Read {
    fn new() -> Box<Self> {
        Box::new(Self {
            block: block(),
            octet: 0,
        })
    }

    fn is_pending(&self) -> bool {
        let status = &raw const self.block.Anonymous.Status;
        // SAFETY: the field of a value of this type; the system may write it meanwhile.
        unsafe { status.read_volatile() == STATUS_PENDING }
    }
}

/// A status block of an operation that has not ended.
fn block() -> IO_STATUS_BLOCK {
    IO_STATUS_BLOCK {
        Anonymous: IO_STATUS_BLOCK_0 {
            Status: STATUS_PENDING,
        },
        Information: 0,
    }
}

impl FilePipe {
    /// Makes a file. Returns also the client's handle for it.
    pub(crate) fn create() -> io::Result<(Self, OwnedHandle)> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!(
            r"\\.\pipe\softnd-{}-{:032x}",
            std::process::id(),
            u128::from_ne_bytes(random)
        );
        let client = server(&name)?;
        let file = client.try_clone()?;
        #[expect(clippy::cast_possible_truncation, reason = "two bits")]
        let skips = (FILE_SKIP_COMPLETION_PORT_ON_SUCCESS | FILE_SKIP_SET_EVENT_ON_HANDLE) as u8;
        // Clients may set these, too, and cannot be asked. So they are always set, and packets come only from operations that pend.
        // SAFETY: the handle is open.
        if unsafe { SetFileCompletionNotificationModes(file.as_raw_handle(), skips) } == 0 {
            return Err(io::Error::last_os_error());
        }
        let ends = Mutex::new(Ends {
            far: Some(far(&name)?),
            read: Read::new(),
        });
        let made = Self {
            file,
            name,
            controlled: EventRef::try_create(true, false)?,
            ends,
        };
        Ok((made, client))
    }

    /// Returns true if this handle, which may be any number, is one of this file.
    pub(crate) fn is(&self, handle: Handle) -> bool {
        // SAFETY: the system refuses a number that is no handle.
        unsafe { CompareObjectHandles(self.file.as_raw_handle(), handle) != 0 }
    }

    /// Returns true if no other handle for the file is left: the client has closed those that it had.
    pub(crate) fn is_abandoned(&self) -> bool {
        // PUBLIC_OBJECT_BASIC_INFORMATION: attributes, rights, handles, pointers, and ten words.
        let mut words = [0_u32; 14];
        let size = u32::try_from(size_of_val(&words)).expect("a size of 56");
        // SAFETY: the handle is open, and there is room for the answer.
        let status = unsafe {
            NtQueryObject(
                self.file.as_raw_handle(),
                ObjectBasicInformation,
                words.as_mut_ptr().cast(),
                size,
                ptr::null_mut(),
            )
        };
        status == STATUS_SUCCESS && words[2] == 1
    }

    /// Appends the end of a request to the port that the client has tied the file to, if it has.
    pub(crate) fn end(&self, overlapped: *mut Overlapped, status: Status) {
        let mut ends = self.ends.lock();
        let Ends { far, read } = &mut *ends;
        let mut begun = self.begin(overlapped, read);
        if begun != STATUS_PENDING {
            // The client has disconnected the pipe, or it could not be connected last time.
            self.disconnect(far);
            self.connect(far);
            begun = self.begin(overlapped, read);
        }
        if begun == STATUS_PENDING {
            match status {
                Status::CANCELED => self.cancel(&read.block),
                Status::BUFFER_OVERFLOW => {
                    write(far, &[0, 0]);
                    self.drain();
                }
                _ if status.is_success() => write(far, &[0]),
                _ => {
                    self.disconnect(far);
                    self.connect(far);
                }
            }
            if read.is_pending() {
                // A read of the client's own has taken the message.
                self.cancel(&read.block);
            }
        }
        if begun != STATUS_PENDING || read.is_pending() {
            tracing::error!(
                target: crate::log::TARGET,
                "a request has ended with {status}, and no packet says so: the system reads from the overlapped file with status {begun:#x}",
            );
            // The system may still write there.
            Box::leak(std::mem::replace(read, Read::new()));
        }
    }

    /// Begins a read of one octet with this context.
    fn begin(&self, context: *mut Overlapped, read: &mut Read) -> NTSTATUS {
        read.block = block();
        // SAFETY: the handle is open. The block and the octet live until the read has ended: `end` checks this, and leaks them otherwise.
        // The context is not used by the system.
        unsafe {
            NtReadFile(
                self.file.as_raw_handle(),
                ptr::null_mut(),
                None,
                context.cast_const().cast(),
                &raw mut read.block,
                (&raw mut read.octet).cast(),
                1,
                ptr::null(),
                ptr::null(),
            )
        }
    }

    /// Cancels the operation with this status block. It has ended when this returns.
    fn cancel(&self, operation: &IO_STATUS_BLOCK) {
        let mut block = block();
        // SAFETY: the handle is open; the block of the operation is compared only, and that of this call lives during it.
        unsafe { NtCancelIoFileEx(self.file.as_raw_handle(), operation, &raw mut block) };
    }

    /// Takes the rest of a message. Without a context no packet follows.
    fn drain(&self) {
        let mut read = Read::new();
        if self.begin(ptr::null_mut(), &mut read) == STATUS_PENDING {
            // There was none.
            self.cancel(&read.block);
            if read.is_pending() {
                Box::leak(read);
            }
        }
    }

    /// Disconnects the pipe, which ends the read.
    fn disconnect(&self, far: &mut Option<File>) {
        Control::begin(self, FSCTL_PIPE_DISCONNECT).wait();
        *far = None;
    }

    /// Connects a pipe that was disconnected.
    fn connect(&self, far: &mut Option<File>) {
        for _ in 0..TRIES {
            let listening = Control::begin(self, FSCTL_PIPE_LISTEN);
            match self::far(&self.name) {
                Ok(connected) => {
                    listening.wait();
                    *far = Some(connected);
                    return;
                }
                Err(_) => {
                    // Another program is connected.
                    listening.cancel();
                    Control::begin(self, FSCTL_PIPE_DISCONNECT).wait();
                }
            }
        }
    }
}

/// The server's end of a new pipe of this name.
fn server(name: &str) -> io::Result<OwnedHandle> {
    let name: Vec<u16> = name.encode_utf16().chain([0]).collect();
    // SAFETY: the name ends with 0; the null pointer asks for the usual rights.
    let made = unsafe {
        CreateNamedPipeW(
            name.as_ptr(),
            PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE,
            PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE | PIPE_REJECT_REMOTE_CLIENTS,
            1,
            BUFFER,
            BUFFER,
            0,
            ptr::null(),
        )
    };
    if made == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has just made the handle for this caller.
    Ok(unsafe { OwnedHandle::from_raw_handle(made) })
}

/// The client's end of the pipe of this name.
fn far(name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).share_mode(0).open(name)
}

/// Writes a message. If it cannot be written the read still pends, which the caller sees.
fn write(far: &Option<File>, message: &[u8]) {
    if let Some(mut far) = far.as_ref() {
        let _ = far.write(message);
    }
}

/// A control operation of a pipe.
struct Control<'a> {
    pipe: &'a FilePipe,
    block: Box<IO_STATUS_BLOCK>,
    is_pending: bool,
}

impl<'a> Control<'a> {
    fn begin(pipe: &'a FilePipe, code: u32) -> Self {
        let mut this = Self {
            pipe,
            block: Box::new(block()),
            is_pending: false,
        };
        // SAFETY: the handles are open. The block lives until the operation has ended: `wait` and `cancel` wait for it. No octets are passed.
        let status = unsafe {
            NtFsControlFile(
                pipe.file.as_raw_handle(),
                pipe.controlled.handle(),
                None,
                ptr::null(),
                &raw mut *this.block,
                code,
                ptr::null(),
                0,
                ptr::null_mut(),
                0,
            )
        };
        this.is_pending = status == STATUS_PENDING;
        this
    }

    /// Waits until the operation has ended.
    fn wait(self) {
        if self.is_pending {
            wait(&self.pipe.controlled, INFINITE);
        }
    }

    /// Ends the operation.
    fn cancel(self) {
        if self.is_pending {
            self.pipe.cancel(&self.block);
        }
        self.wait();
    }
}

#[cfg(test)]
impl FilePipe {
    /// One more handle for the file.
    pub(super) fn another(&self) -> OwnedHandle {
        self.file.try_clone().unwrap()
    }
}
