//! `execl`, `execlp` and `execle`, which take the arguments of the program as their own, up to a null.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int};
use std::ptr;

use crate::c::failed;
use crate::environments::{List, Path, own};
use crate::executions::{execve, execvpe};

/// The arguments behind the path that a caller passes in registers.
const REGISTERS: usize = 5;
/// The most arguments of a program.
const ARGUMENTS: usize = 2048;

/// The arguments behind the path: those in registers, which were stored, and those on the caller's stack.
#[derive(Clone, Copy)]
struct Arguments {
    registers: List,
    stack: List,
}

impl Arguments {
    fn get(self, index: usize) -> Path {
        let at = match index.checked_sub(REGISTERS) {
            None => self.registers.wrapping_add(index),
            Some(index) => self.stack.wrapping_add(index),
        };
        // SAFETY: nothing is read behind what the caller passes: the null, and with `execle` the environment behind it.
        unsafe { at.read() }
    }

    /// Executes a program with a list of the arguments. The function for it gets the number of arguments too.
    fn execute(self, execute: impl FnOnce(List, usize) -> c_int) -> c_int {
        let mut list: [Path; ARGUMENTS + 1] = [ptr::null(); ARGUMENTS + 1];
        for (index, place) in list.iter_mut().enumerate() {
            *place = self.get(index);
            if place.is_null() {
                return execute(list.as_ptr(), index);
            }
        }
        failed(libc::E2BIG)
    }
}

extern "C" fn with_path(path: Path, registers: List, stack: List) -> c_int {
    let arguments = Arguments { registers, stack };
    // SAFETY: the program passes what `execve` takes.
    arguments.execute(|list, _| unsafe { execve(path, list, own()) })
}

extern "C" fn with_file(file: Path, registers: List, stack: List) -> c_int {
    let arguments = Arguments { registers, stack };
    // SAFETY: as above.
    arguments.execute(|list, _| unsafe { execvpe(file, list, own()) })
}

extern "C" fn with_variables(path: Path, registers: List, stack: List) -> c_int {
    let arguments = Arguments { registers, stack };
    arguments.execute(|list, count| {
        let variables = arguments.get(count + 1).cast();
        // SAFETY: as above, with the environment behind the null.
        unsafe { execve(path, list, variables) }
    })
}

/// Defines functions with a variable number of arguments: each stores the registers next to each other, and passes where they are and
/// where the caller's stack goes on, behind the return address.
macro_rules! lists {
    ($($name:ident = $body:ident;)*) => { $(
        // SAFETY: the C library has a function of this name, which the wrapper replaces; what lies behind the path is where the ABI of
        // C has it. The wrapper leaves the stack as it was.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name(path: *const c_char) -> c_int {
            naked_asm!(
                "endbr64",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "lea rdx, [rsp + 48]",
                "call {body}",
                "add rsp, 40",
                "ret",
                body = sym $body,
            )
        }
    )* };
}

lists! {
    execl = with_path;
    execlp = with_file;
    execle = with_variables;
}
