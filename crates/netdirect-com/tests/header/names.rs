//! The names of the header: none is left out of the comparisons, and names of Windows have Windows' values.

use std::collections::BTreeSet;

use crate::compilers::{WINDOWS, header};
use crate::facts;

/// Macros that are not values with a counterpart in Rust.
const NO_VALUES: &[&str] = &["ND_HELPER_API"];

/// The text between the headings of two sections.
fn section(number: u32) -> String {
    let header = header();
    let begin = header
        .find(&format!("/* ---- {number}. "))
        .expect("the section begins");
    let rest = &header[begin..];
    let end = rest
        .find(&format!("/* ---- {}. ", number + 1))
        .expect("the next section follows");
    rest[..end].to_owned()
}

/// The names and values of object-like macros.
fn macros(text: &str) -> Vec<(String, String)> {
    let defines = text
        .lines()
        .filter_map(|line| line.strip_prefix("#define "));
    let pairs = defines.filter_map(|rest| {
        let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
        let value = value.split("/*").next().unwrap_or_default().trim();
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then(|| (name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

#[test]
fn every_value_is_compared() {
    let facts = facts::assertions();
    let words: BTreeSet<_> = facts
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    let mut left_out = Vec::new();
    let mut seen = 0;
    for (name, _) in macros(&header()) {
        let is_value = name.starts_with("ND_")
            || name.starts_with("NDX_")
            || name.starts_with("STATUS_")
            || name == "NDVER";
        if !is_value || name.ends_with('_') || NO_VALUES.contains(&name.as_str()) {
            continue;
        }
        seen += 1;
        if !words.contains(name.as_str()) {
            left_out.push(name);
        }
    }
    assert!(left_out.is_empty(), "not compared with Rust: {left_out:?}");
    assert!(seen > 80, "the header defines more than {seen} values");
}

/// No helper of the header is still defined at its end.
#[test]
fn helpers_are_undefined_at_the_end() {
    let header = header();
    let left: Vec<_> = macros(&header)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name.ends_with('_') && !header.contains(&format!("#undef {name}\n")))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Values that the header gives to names of Win32 on other systems.
#[test]
fn values_of_win32_are_those_of_windows() {
    let mut source = String::from("#include \"netdirect.h\"\n#include <ntstatus.h>\n");
    let mut seen = 0;
    for (name, value) in [macros(&section(1)), macros(&section(2))].concat() {
        let is_number =
            value.contains("0x") || value.ends_with(|c: char| c.is_ascii_digit() || c == ')');
        if !is_number
            || name.starts_with("REF")
            || name.starts_with("CreateEvent")
            || name == "INVALID_HANDLE_VALUE"
        {
            continue;
        }
        seen += 1;
        source += &format!("_Static_assert((DWORD)({name}) == (DWORD)({value}), \"{name}\");\n");
    }
    assert!(
        seen > 20,
        "the header defines more than {seen} values of Win32"
    );
    let c = WINDOWS[0];
    if c.is_here() {
        c.object(&source, &[]);
    }
}

/// The header's declarations of Win32's functions, compiled after those of Windows' headers: another type is an error.
#[test]
fn functions_of_win32_are_those_of_windows() {
    let section = section(2);
    let begin = section
        .find("\nND_BEGIN_C_\n")
        .expect("the functions begin");
    let end = section.find("\nND_END_C_\n").expect("the functions end");
    let functions = &section[begin + "\nND_BEGIN_C_\n".len()..end];
    assert!(
        functions.matches("WINAPI").count() > 14,
        "the header declares more functions of Win32"
    );
    let source = format!("#include \"netdirect.h\"\n{functions}\n");
    let c = WINDOWS[0];
    if c.is_here() {
        // The declarations lack dllimport.
        c.object(&source, &["-Wno-attributes"]);
    }
}
