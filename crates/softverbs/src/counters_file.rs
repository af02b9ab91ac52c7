//! The file with the counters of a process: an object of JSON, with the program, its process and the counters.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process;

use iwarp_io::user_files;

/// Writes the file into this folder, in the place of an earlier one of this process.
pub(crate) fn write(folder: &Path, counters: &BTreeMap<Cow<'static, str>, u64>) -> io::Result<()> {
    let program = env::current_exe().unwrap_or_default();
    let name = program.file_name().unwrap_or_default();
    let mut file = name.to_owned();
    file.push(format!("-{}.json", process::id()));
    let text = text(&name.to_string_lossy(), process::id(), counters);
    user_files::put_secret(&folder.join(file), text.as_bytes())
}

fn text(program: &str, pid: u32, counters: &BTreeMap<Cow<'static, str>, u64>) -> String {
    let counters = counters.iter();
    let counters: Vec<_> = counters
        .map(|(name, count)| format!("    {}: {count}", quoted(name)))
        .collect();
    format!(
        "{{\n  \"program\": {},\n  \"pid\": {pid},\n  \"counters\": {{\n{}\n  }}\n}}\n",
        quoted(program),
        counters.join(",\n")
    )
}

/// A string of JSON (RFC 8259 section 7).
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ..' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_program_becomes_a_string_of_json() {
        let counters = BTreeMap::from([("b.c".into(), u64::MAX), ("a".into(), 0)]);
        let expected = concat!(
            "{\n  \"program\": \"a\\\"b\\\\c\\u000a\\u0001é\",\n  \"pid\": 7,\n",
            "  \"counters\": {\n    \"a\": 0,\n    \"b.c\": 18446744073709551615\n  }\n}\n"
        );
        assert_eq!(text("a\"b\\c\n\u{1}é", 7, &counters), expected);
    }
}
