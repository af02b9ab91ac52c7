//! Cancellation by glibc on x86-64. The functions with two underscores are those that `pthread_cleanup_push` of `pthread.h` calls in C
//! programs, so they keep their names and their behaviour.

use std::arch::naked_asm;
use std::cell::Cell;
use std::ffi::{c_int, c_ulong, c_void};
use std::ptr;

/// `PTHREAD_CANCEL_ENABLE` and `PTHREAD_CANCEL_DISABLE`.
const ENABLED: c_int = 0;
const DISABLED: c_int = 1;

/// What [`poll_as_cancellation_point`] returns in place of the results of `poll`.
const CANCELLED: c_int = -2;

/// `__pthread_unwind_buf_t`.
#[repr(C, align(16))]
struct Buffer {
    registers: [u64; 8],
    mask_was_saved: c_int,
    pad: [*mut c_void; 4],
}

/// A call that may be cancelled.
struct Point {
    buffer: Buffer,
    /// Whether the program has cancellation switched on.
    state: c_int,
    is_cancelled: bool,
}

thread_local! {
    /// The call of this thread that may be cancelled.
    static POINT: Cell<*mut Point> = const { Cell::new(ptr::null_mut()) };
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    fn poll(watched: *mut libc::pollfd, count: c_ulong, milliseconds: c_int) -> c_int;
    fn __sigsetjmp(buffer: *mut Buffer, mask: c_int) -> c_int;
    fn __pthread_register_cancel(buffer: *mut Buffer);
    fn __pthread_unregister_cancel(buffer: *mut Buffer);
    fn __pthread_unwind_next(buffer: *mut Buffer) -> !;
}

/// `poll`, with the cancellation state that the program has set, and with cancellation switched off before and afterwards. If the thread is
/// cancelled, returns [`CANCELLED`], and the buffer continues the unwinding once.
///
/// In assembly, because a function of Rust cannot return from `__sigsetjmp` a second time.
///
/// # Safety
///
/// The buffer lives until the call of the program has returned or its thread has ended, and `watched` is one structure. After `CANCELLED`
/// the caller passes the buffer to `__pthread_unwind_next`, and does not return to the program.
#[unsafe(naked)]
unsafe extern "C-unwind" fn poll_as_cancellation_point(
    buffer: *mut Buffer,
    watched: *mut libc::pollfd,
    milliseconds: c_int,
    state: c_int,
) -> c_int {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 32",
        "mov [rbp - 8], rdi",
        "mov [rbp - 16], rsi",
        "mov [rbp - 20], edx",
        "mov [rbp - 24], ecx",
        // The place to which an unwinding jumps. The registers that calls preserve still have the caller's values, but for rbp.
        "xor esi, esi",
        "call {setjmp}",
        "test eax, eax",
        "jnz 2f",
        "mov rdi, [rbp - 8]",
        "call {register}",
        "mov edi, [rbp - 24]",
        "xor esi, esi",
        "call {set_state}",
        "mov rdi, [rbp - 16]",
        "mov esi, 1",
        "mov edx, [rbp - 20]",
        "call {poll}",
        "mov [rbp - 20], eax",
        "mov edi, {disabled}",
        "xor esi, esi",
        "call {set_state}",
        "mov rdi, [rbp - 8]",
        "call {unregister}",
        "mov eax, [rbp - 20]",
        "jmp 3f",
        "2:",
        "mov eax, {cancelled}",
        "3:",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        setjmp = sym __sigsetjmp,
        register = sym __pthread_register_cancel,
        set_state = sym pthread_setcancelstate,
        poll = sym poll,
        unregister = sym __pthread_unregister_cancel,
        disabled = const DISABLED,
        cancelled = const CANCELLED,
    )
}

/// The call of this thread that may be cancelled, if it is in one.
fn point() -> Option<*mut Point> {
    let point = POINT.get();
    (!point.is_null()).then_some(point)
}

/// See [`super::has_come`].
pub(super) fn has_come() -> bool {
    // SAFETY: the point lives in the frame of `cancellable` of this thread, which takes it out of `POINT` at its end.
    point().is_some_and(|point| unsafe { (*point).is_cancelled })
}

/// See [`super::sleep`].
pub(super) fn sleep(descriptor: Option<c_int>, milliseconds: c_int) -> Option<bool> {
    let point = point()?;
    if has_come() {
        return Some(true);
    }
    let mut watched = libc::pollfd {
        fd: descriptor.unwrap_or(-1), // which poll ignores
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: as in `has_come`.
    let state = unsafe { (*point).state };
    // SAFETY: as in `has_come`; no reference to the field is made.
    let buffer = unsafe { &raw mut (*point).buffer };
    // SAFETY: `cancellable` has the buffer in its frame, and continues the unwinding if the call was cancelled.
    let result =
        unsafe { poll_as_cancellation_point(buffer, &raw mut watched, milliseconds, state) };
    match result {
        CANCELLED => {
            // SAFETY: as in `has_come`.
            unsafe { (*point).is_cancelled = true };
            Some(true)
        }
        -1 if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {
            Some(true)
        }
        // The driver's way fails in its own words.
        -1 => None,
        _ => Some(false),
    }
}

/// See [`super::uncancelled`].
pub(super) fn uncancelled<T>(body: impl FnOnce() -> T) -> T {
    let mut state = ENABLED;
    // SAFETY: the place for the old state is valid for the call. To switch cancellation off is no cancellation point.
    unsafe { pthread_setcancelstate(DISABLED, &raw mut state) };
    let result = body();
    // SAFETY: the state is the program's. This is no cancellation point but for threads that can be cancelled at any instruction, which may
    // call no function of this library (`pthread_setcanceltype(3)`).
    unsafe { pthread_setcancelstate(state, ptr::null_mut()) };
    result
}

/// See [`super::cancellable`].
#[inline]
pub(super) fn cancellable(body: impl FnOnce() -> c_int + Copy) -> c_int {
    // SAFETY: a thread that ends here unwinds frames that have nothing to drop: `body` is Copy, and so is what the exported functions hold.
    unsafe { pthread_testcancel() };
    let mut place = Point {
        buffer: Buffer {
            registers: [0; 8],
            mask_was_saved: 0,
            pad: [ptr::null_mut(); 4],
        },
        state: DISABLED,
        is_cancelled: false,
    };
    let point = &raw mut place;
    // SAFETY: `point` is this frame's.
    let state = unsafe { &raw mut (*point).state };
    // SAFETY: the place for the old state is valid for the call.
    unsafe { pthread_setcancelstate(DISABLED, state) };
    // SAFETY: `point` is this frame's, and glibc has written the state.
    let state = unsafe { state.read() };
    let is_enabled = state == ENABLED;
    // A handler of a signal may make such a call within another one.
    let outer = POINT.replace(if is_enabled { point } else { ptr::null_mut() });
    let result = body();
    POINT.set(outer);
    // SAFETY: `point` is this frame's.
    let is_cancelled = unsafe { (*point).is_cancelled };
    if is_cancelled {
        // SAFETY: `point` is this frame's.
        let buffer = unsafe { &raw mut (*point).buffer };
        // SAFETY: an unwinding of this thread has jumped to the buffer, and is continued once. All frames of Rust have returned but this
        // one and the exported function, which have nothing to drop.
        unsafe { __pthread_unwind_next(buffer) };
    }
    // SAFETY: the state is the program's. As in `uncancelled`.
    unsafe { pthread_setcancelstate(state, ptr::null_mut()) };
    result
}
