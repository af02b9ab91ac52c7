//! Prepares everything when the library is loaded.

use crate::{calls, executions, exits, globs, loads, renames, results, root, walks};

/// Before the constructors of the program, where the dynamic linker allows it.
extern "C" fn prepare() {
    root::prepare();
    exits::prepare();
    let all = [
        calls::ALL,
        executions::ALL,
        exits::ALL,
        globs::ALL,
        loads::ALL,
        renames::ALL,
        results::ALL,
        walks::ALL,
    ];
    for next in all.into_iter().flatten() {
        next.find();
    }
}

/// The dynamic linker calls what this section names.
// SAFETY: the section is an array of functions that take no argument, or those of `main`, which the callee may ignore.
#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = prepare;
