//! The choice whether connections within this machine are over shared memory: by the program or by the environment.

use std::io;

/// The environment variable that chooses if the program does not: `1` or `0`.
pub const VARIABLE: &str = "SOFTND_SAME_HOST";

/// The program's choice, or that of the environment if the program makes none. Without either it is off.
///
/// # Errors
///
/// `InvalidInput`, with words, if the variable has another value.
pub fn choose(program: Option<bool>) -> io::Result<bool> {
    if let Some(chosen) = program {
        return Ok(chosen);
    }
    let Some(value) = rdma_buffer::environment::variable(VARIABLE) else {
        return Ok(false);
    };
    match value.to_str() {
        Some("1") => Ok(true),
        Some("0" | "") => Ok(false),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{VARIABLE} is {value:?}: it has to be 1 or 0"),
        )),
    }
}
