//! `nd providers`: the libraries that programs for NetworkDirect find, in the order in which they look.

use std::env::split_paths;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use conform_report::table::{Align, Table};
#[cfg(any(windows, test))]
use netdirect_com::catalogue::Catalogue;
#[cfg(windows)]
use netdirect_com::catalogue::WinsockCatalogue;
use netdirect_com::environment;

#[cfg(any(windows, test))]
use super::dll;
use crate::errors::{Failure, Result, one_line};
use crate::output;

/// The variable that names libraries, for programs that are linked with `netdirect.dll` or `libnetdirect`.
const VARIABLE: &str = "ND_PROVIDER";

/// Prints the list.
pub(crate) fn run() -> Result<()> {
    let variable = environment::variable(VARIABLE).unwrap_or_default();
    let found = named(&variable).into_iter().chain(of_catalogue()?);
    output::line(shown(&found.collect::<Vec<_>>()))
}

#[cfg(windows)]
fn of_catalogue() -> Result<Vec<Library>> {
    registered(&WinsockCatalogue)
}

/// Only Windows has a catalogue.
#[cfg(not(windows))]
#[expect(clippy::unnecessary_wraps, reason = "Windows' catalogue may fail")]
fn of_catalogue() -> Result<Vec<Library>> {
    Ok(Vec::new())
}

/// A library that programs find.
#[derive(Debug, PartialEq, Eq)]
struct Library {
    path: String,
    named_by: &'static str,
    /// Whether programs can use it.
    state: String,
}

fn shown(found: &[Library]) -> String {
    if found.is_empty() {
        return NONE.to_owned();
    }
    let columns = ["library", "named by", "state"];
    let mut table = Table::new(columns.map(|column| (column, Align::Left)));
    for Library {
        path,
        named_by,
        state,
    } in found
    {
        table.row([one_line(path), (*named_by).to_owned(), one_line(state)]);
    }
    table.to_string().trim_end().to_owned()
}

#[cfg(not(windows))]
const NONE: &str = "no provider: ND_PROVIDER names no library; set it to the path of one, for example libsoftnd.so";

#[cfg(windows)]
const NONE: &str = "no provider: ND_PROVIDER names no library, and none is registered; nd register adds softnd for all programs";

/// The libraries of the variable.
fn named(variable: &OsStr) -> Vec<Library> {
    let paths = split_paths(variable).filter(|path| !path.as_os_str().is_empty());
    let library = |path: PathBuf| Library {
        state: if path.components().count() == 1 {
            "looked for by the system's loader".to_owned()
        } else {
            state(&path)
        },
        path: path.display().to_string(),
        named_by: VARIABLE,
    };
    paths.map(library).collect()
}

/// Those of a catalogue.
#[cfg(any(windows, test))]
fn registered(catalogue: &dyn Catalogue) -> Result<Vec<Library>> {
    let entries = catalogue
        .entries()
        .map_err(|error| Failure::io("read Winsock's catalogue", &error))?;
    let of_network_direct = entries.iter().filter(|entry| entry.is_of_network_direct());
    let library = of_network_direct.map(|entry| {
        let (path, state) = match catalogue.path(&entry.provider) {
            Ok(path) if entry.is_provider() => {
                let path = Path::new(&path);
                (path.display().to_string(), state_of_dll(path))
            }
            Ok(path) => (
                path.display().to_string(),
                format!(
                    "no provider of NetworkDirect 2 (iVersion {:#x})",
                    entry.version
                ),
            ),
            Err(error) => {
                let why = Failure::io("find its path", &error).what();
                (entry.provider.to_string(), why)
            }
        };
        Library {
            path,
            named_by: "Winsock's catalogue",
            state,
        }
    });
    Ok(library.collect())
}

#[cfg(windows)]
fn state(path: &Path) -> String {
    state_of_dll(path)
}

/// Only Windows has one form of libraries that is read here.
#[cfg(not(windows))]
fn state(path: &Path) -> String {
    match std::fs::File::open(path) {
        Ok(_) => "there".to_owned(),
        Err(error) => not_read(&error),
    }
}

#[cfg(any(windows, test))]
fn state_of_dll(path: &Path) -> String {
    match dll::check(path) {
        Ok(Ok(())) => "usable".to_owned(),
        Ok(Err(why)) => format!("not usable: {why}"),
        Err(error) => not_read(&error),
    }
}

fn not_read(error: &io::Error) -> String {
    Failure::io("read it", error).what()
}

#[cfg(test)]
mod tests {
    use std::env::join_paths;
    use std::fs;

    use netdirect_com::abi::Guid;
    use netdirect_com::catalogue::{CatalogueEntry, InMemoryCatalogue};

    use super::super::dll::tests::{NAMES, made};
    use super::*;

    #[test]
    fn the_libraries_of_the_variable_are_listed_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there.dll");
        fs::write(&there, made(dll::OWN, &NAMES)).unwrap();
        let missing = folder.path().join("missing.dll");
        let list = join_paths([&missing, Path::new(""), &there, Path::new("libsoftnd.so")]);
        let found = named(&list.unwrap());
        let states: Vec<_> = found.iter().map(|one| one.state.as_str()).collect();
        assert_eq!(found[1].path, there.display().to_string());
        assert!(states[0].starts_with("cannot read it: "), "{states:?}");
        let usable = if cfg!(windows) { "usable" } else { "there" };
        assert_eq!(states[1..], [usable, "looked for by the system's loader"]);
        let text = shown(&found);
        assert!(
            text.contains("missing.dll") && text.contains(VARIABLE),
            "{text}"
        );
        assert_eq!(shown(&named(OsStr::new(""))), NONE);
    }

    #[test]
    fn entries_of_the_catalogue_are_listed_with_their_state() {
        let folder = tempfile::tempdir().unwrap();
        let (good, bad) = (
            folder.path().join("good.dll"),
            folder.path().join("bad.dll"),
        );
        fs::write(&good, made(dll::OWN, &NAMES)).unwrap();
        fs::write(&bad, "no library").unwrap();
        let catalogue = InMemoryCatalogue::default();
        let mut number = 0;
        let mut add = |path: &Path, change: &dyn Fn(&mut CatalogueEntry)| {
            number += 1;
            let mut entry = CatalogueEntry::of_provider(Guid::new(number, 0, 0, 0), "a test");
            change(&mut entry);
            catalogue.install(path.as_os_str(), &entry).unwrap();
            entry.provider
        };
        add(&good, &|_| ());
        add(&bad, &|_| ());
        add(&good, &|entry| entry.version = 1);
        let lost = add(&good, &|_| ());
        // TCP.
        add(&bad, &|entry| entry.provider_flags = 0x8);
        catalogue.lose_path(&lost);
        let found = registered(&catalogue).unwrap();
        let states: Vec<_> = found.iter().map(|one| one.state.as_str()).collect();
        assert_eq!(
            states[..3],
            [
                "usable",
                "not usable: it is no DLL for Windows",
                "no provider of NetworkDirect 2 (iVersion 0x1)",
            ]
        );
        assert!(
            states[3].starts_with("cannot find its path: "),
            "{states:?}"
        );
        assert_eq!(states.len(), 4);
        assert_eq!(found[0].path, good.display().to_string());
        assert_eq!(found[3].path, lost.to_string());
    }
}
