//! Adds softnd to a catalogue, and removes it.

use std::env;
use std::io;
use std::path::{Path, PathBuf, absolute};

use netdirect_com::abi::Guid;
#[cfg(windows)]
use netdirect_com::catalogue::WinsockCatalogue;
use netdirect_com::catalogue::{Catalogue, CatalogueEntry, LONGEST_PATH};

use super::args::RegisterArgs;
use super::dll;
use crate::errors::{Failure, Result};
#[cfg(windows)]
use crate::output;

/// softnd's identifier in the catalogue.
const SOFTND: Guid = Guid::new(0x3E71_E363, 0x0721, 0x406E, 0xB03E_2C55_187A_D66E);

/// The name in the catalogue, for people.
const NAME: &str = "softnd: NetworkDirect over ordinary sockets";

/// A line for the user.
type Say<'s> = &'s mut dyn FnMut(String) -> Result<()>;

/// `nd register`.
#[cfg(windows)]
pub(crate) fn register(args: &RegisterArgs) -> Result<()> {
    add(&WinsockCatalogue, args, &mut |line| output::line(line))
}

/// `nd unregister`.
#[cfg(windows)]
pub(crate) fn unregister() -> Result<()> {
    remove(&WinsockCatalogue, &mut |line| output::line(line))
}

fn add(catalogue: &dyn Catalogue, args: &RegisterArgs, say: Say<'_>) -> Result<()> {
    let path = library(args.dll.as_deref())?;
    let shown = path.display();
    let refused =
        |why: String, advice| Failure::new(format!("cannot register {shown}: {why}"), advice);
    let checked = dll::check(&path).map_err(|error| {
        let failure = Failure::io(format_args!("read {shown}"), &error);
        failure.advise("name the library with --dll, and check that you may read it")
    })?;
    checked.map_err(|why| refused(why, "name a softnd.dll for this processor with --dll"))?;
    if path.to_string_lossy().contains('%') {
        let why = "programs replace variables such as %NAME% in the paths of the catalogue";
        return Err(refused(
            why.to_owned(),
            "move the library to a path without %",
        ));
    }
    if let Some(there) = registered(catalogue)? {
        return already(&there, &path, say);
    }
    say(WARNING.to_owned())?;
    let entry = CatalogueEntry::of_provider(SOFTND, NAME);
    if args.dry_run {
        say(format!(
            "nothing is changed; nd register would add {shown} with"
        ))?;
        return say(fields(&entry));
    }
    say(PLACE.to_owned())?;
    let mut words = vec!["register"];
    let text = path.to_string_lossy();
    if args.dll.is_some() {
        words.extend(["--dll", &*text]);
    }
    catalogue
        .install(path.as_os_str(), &entry)
        .map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => refused(
                format!(
                    "the catalogue has paths of at most {} characters",
                    LONGEST_PATH - 1
                ),
                "move the library to a shorter path",
            ),
            _ => not_changed("add softnd to", &words, &error),
        })?;
    if registered(catalogue)?.is_none() {
        return Err(refused(
            "Winsock has taken the entry, and does not list it".to_owned(),
            "name the library by the environment variable ND_PROVIDER; wine's catalogue cannot be changed",
        ));
    }
    say(format!("registered {shown}"))
}

const WARNING: &str = "Every NetworkDirect program of this machine may choose a registered softnd, MS-MPI included; nd unregister undoes it.";

const PLACE: &str = "Programs load the library from where it is: only administrators should be able to write to its folder.";

/// softnd is registered.
fn already(there: &Registered, path: &Path, say: Say<'_>) -> Result<()> {
    let same = there
        .path
        .as_deref()
        .is_some_and(|there| is_same(there, path));
    if same && there.is_usable {
        return say(format!(
            "{} is registered already; nothing was changed",
            path.display()
        ));
    }
    let what = match &there.path {
        Some(there) if !same => format!("softnd is registered already, as {}", there.display()),
        Some(_) => {
            "softnd is registered already, with other fields than programs look for".to_owned()
        }
        None => "softnd is registered already, and the catalogue has no path of it".to_owned(),
    };
    Err(Failure::new(
        format!("{what}; nothing was changed"),
        "run nd unregister first",
    ))
}

fn remove(catalogue: &dyn Catalogue, say: Say<'_>) -> Result<()> {
    let Some(there) = registered(catalogue)? else {
        return say("softnd is not registered; nothing was changed".to_owned());
    };
    let error = |error| not_changed("remove softnd from", &["unregister"], &error);
    catalogue.deinstall(&SOFTND).map_err(error)?;
    if registered(catalogue)?.is_some() {
        return Err(Failure::new(
            "cannot unregister softnd: Winsock has taken the request, and still lists it",
            "look at nd providers again after a restart of the machine",
        ));
    }
    let path = there
        .path
        .map_or_else(|| "softnd".to_owned(), |path| path.display().to_string());
    say(format!(
        "unregistered {path}; programs that have loaded it keep it until they end"
    ))
}

/// The absolute path of the library.
fn library(named: Option<&Path>) -> Result<PathBuf> {
    match named {
        Some(path) => absolute(path)
            .map_err(|error| Failure::io(format_args!("find {}", path.display()), &error)),
        None => Ok(program()?.with_file_name("softnd.dll")),
    }
}

fn program() -> Result<PathBuf> {
    env::current_exe().map_err(|error| Failure::io("find the folder of nd", &error))
}

/// softnd's entry.
struct Registered {
    /// `None` if the catalogue has none.
    path: Option<PathBuf>,
    /// Programs take the entry.
    is_usable: bool,
}

fn registered(catalogue: &dyn Catalogue) -> Result<Option<Registered>> {
    let entries = catalogue
        .entries()
        .map_err(|error| Failure::io("read Winsock's catalogue", &error))?;
    let mut of_softnd = entries
        .iter()
        .filter(|entry| entry.provider == SOFTND)
        .peekable();
    if of_softnd.peek().is_none() {
        return Ok(None);
    }
    Ok(Some(Registered {
        path: catalogue.path(&SOFTND).ok().map(PathBuf::from),
        is_usable: of_softnd.any(CatalogueEntry::is_provider),
    }))
}

/// Returns true for two spellings of one path, which on Windows may differ in capitals.
fn is_same(one: &Path, other: &Path) -> bool {
    let (one, other) = (one.to_string_lossy(), other.to_string_lossy());
    one.to_lowercase() == other.to_lowercase()
}

/// The catalogue refuses a change.
fn not_changed(doing: &str, words: &[&str], error: &io::Error) -> Failure {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Failure::io(format_args!("{doing} Winsock's catalogue"), error)
            .advise("look at nd providers, and run the command again");
    }
    let program = program().unwrap_or_else(|_| "nd.exe".into());
    let program = program.to_string_lossy();
    let command = [&["&", &*program], words].concat();
    let command: Vec<_> = command.iter().map(|word| quoted(word)).collect();
    Failure::new(
        format!("cannot {doing} Winsock's catalogue: only an administrator may do so"),
        format!(
            "run in a PowerShell that was started as administrator: {}",
            command.join(" ")
        ),
    )
}

/// A word for PowerShell.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "&-".contains(character);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "''"))
}

/// The entry by the names of Winsock, a line each.
fn fields(entry: &CatalogueEntry) -> String {
    [
        format!("  ProviderId          {}", entry.provider),
        format!("  dwServiceFlags1     {:#010X}", entry.service_flags),
        format!("  dwProviderFlags     {:#010X}", entry.provider_flags),
        format!("  iVersion            {:#X}", entry.version),
        format!("  iAddressFamily      {}", entry.address_family),
        format!("  iSocketType         {}", entry.socket_type),
        format!("  iProtocol           {}", entry.protocol),
        format!("  iProtocolMaxOffset  {}", entry.protocol_max_offset),
        format!("  szProtocol          {}", entry.name),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use netdirect_com::catalogue::InMemoryCatalogue;
    use tempfile::TempDir;

    use super::super::dll::tests::{NAMES, made};
    use super::*;

    /// A folder with a library that programs can use.
    fn with_library() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("softnd.dll");
        fs::write(&library, made(dll::OWN, &NAMES)).unwrap();
        (folder, library)
    }

    fn named(library: &Path) -> RegisterArgs {
        RegisterArgs {
            dll: Some(library.to_owned()),
            dry_run: false,
        }
    }

    /// What is said, and whether it succeeds.
    fn said(run: impl FnOnce(Say<'_>) -> Result<()>) -> (Vec<String>, Result<()>) {
        let mut lines = Vec::new();
        let done = run(&mut |line| {
            lines.push(line);
            Ok(())
        });
        (lines, done)
    }

    fn adds(catalogue: &InMemoryCatalogue, args: &RegisterArgs) -> Vec<String> {
        let (lines, done) = said(|say| add(catalogue, args, say));
        done.expect("registers");
        lines
    }

    fn refuses(catalogue: &InMemoryCatalogue, args: &RegisterArgs) -> String {
        let (_, done) = said(|say| add(catalogue, args, say));
        done.expect_err("is refused").to_string()
    }

    #[test]
    fn softnd_is_registered_once_and_removed() {
        let (_folder, library) = with_library();
        let catalogue = InMemoryCatalogue::default();
        let shown = library.display();

        let lines = adds(&catalogue, &named(&library));
        assert!(
            lines[0].contains("MS-MPI") && lines[0].contains("nd unregister"),
            "{lines:?}"
        );
        assert_eq!(*lines.last().unwrap(), format!("registered {shown}"));
        let [entry] = &catalogue.entries().unwrap()[..] else {
            panic!("one entry")
        };
        assert_eq!(*entry, CatalogueEntry::of_provider(SOFTND, NAME));
        assert_eq!(catalogue.path(&SOFTND).unwrap(), library);

        let lines = adds(&catalogue, &named(&library));
        assert_eq!(
            lines,
            [format!(
                "{shown} is registered already; nothing was changed"
            )]
        );
        assert_eq!(catalogue.entries().unwrap().len(), 1);

        let (lines, done) = said(|say| remove(&catalogue, say));
        done.unwrap();
        let expected =
            format!("unregistered {shown}; programs that have loaded it keep it until they end");
        assert_eq!(lines, [expected]);
        assert!(catalogue.entries().unwrap().is_empty());
        let (lines, done) = said(|say| remove(&catalogue, say));
        done.unwrap();
        assert_eq!(lines, ["softnd is not registered; nothing was changed"]);
    }

    #[test]
    fn another_library_does_not_take_the_place_of_the_first() {
        let ((_one, first), (_other, second)) = (with_library(), with_library());
        let catalogue = InMemoryCatalogue::default();
        adds(&catalogue, &named(&first));
        let text = refuses(&catalogue, &named(&second));
        let expected = format!(
            "softnd is registered already, as {}; nothing was changed; run nd unregister first",
            first.display()
        );
        assert_eq!(text, expected);
        catalogue.lose_path(&SOFTND);
        let text = refuses(&catalogue, &named(&first));
        assert!(
            text.contains("no path of it; nothing was changed"),
            "{text}"
        );
    }

    /// An entry that an older version might have left.
    #[test]
    fn an_entry_that_programs_skip_is_not_taken_for_softnd() {
        let (_folder, library) = with_library();
        let catalogue = InMemoryCatalogue::default();
        let mut entry = CatalogueEntry::of_provider(SOFTND, NAME);
        entry.version = 2;
        catalogue.install(library.as_os_str(), &entry).unwrap();
        let text = refuses(&catalogue, &named(&library));
        assert!(text.contains("with other fields"), "{text}");
    }

    #[test]
    fn a_dry_run_shows_the_entry_and_changes_nothing() {
        let (_folder, library) = with_library();
        let catalogue = InMemoryCatalogue::default().read_only();
        let args = RegisterArgs {
            dry_run: true,
            ..named(&library)
        };
        let lines = adds(&catalogue, &args);
        assert!(lines[0].contains("MS-MPI"), "{lines:?}");
        let fields = lines.last().unwrap();
        for field in [
            "dwServiceFlags1     0x0000008E",
            "dwProviderFlags     0x00000014",
            "iVersion            0x20000",
            "iAddressFamily      23",
            "iSocketType         -1",
            "iProtocol           0",
            "iProtocolMaxOffset  0",
        ] {
            assert!(fields.contains(field), "{fields}");
        }
        assert!(catalogue.entries().unwrap().is_empty());
    }

    #[test]
    fn who_is_no_administrator_gets_the_command_for_one() {
        let (_folder, library) = with_library();
        let catalogue = InMemoryCatalogue::default().read_only();
        let text = refuses(&catalogue, &named(&library));
        assert!(
            text.starts_with(
                "cannot add softnd to Winsock's catalogue: only an administrator may do so; "
            ),
            "{text}"
        );
        let command = format!(" register --dll '{}'", library.display());
        assert!(text.contains(": & ") && text.ends_with(&command), "{text}");

        let catalogue = InMemoryCatalogue::default();
        adds(&catalogue, &named(&library));
        let catalogue = catalogue.read_only();
        let (_, done) = said(|say| remove(&catalogue, say));
        let text = done.expect_err("no administrator").to_string();
        assert!(
            text.contains("only an administrator") && text.ends_with(" unregister"),
            "{text}"
        );
        assert_eq!(catalogue.entries().unwrap().len(), 1);
    }

    #[test]
    fn a_catalogue_that_does_nothing_is_told_as_one() {
        let (_folder, library) = with_library();
        let text = refuses(&InMemoryCatalogue::default().deaf(), &named(&library));
        assert!(
            text.contains("does not list it; ") && text.contains("ND_PROVIDER"),
            "{text}"
        );
        let catalogue = InMemoryCatalogue::default();
        adds(&catalogue, &named(&library));
        let catalogue = catalogue.deaf();
        let (_, done) = said(|say| remove(&catalogue, say));
        let text = done.expect_err("still there").to_string();
        assert!(text.contains("still lists it"), "{text}");
    }

    #[test]
    fn the_library_is_in_the_folder_of_the_program() {
        let found = super::library(None).unwrap();
        assert_eq!(found, program().unwrap().with_file_name("softnd.dll"));
        let name = Path::new("other.dll");
        assert!(super::library(Some(name)).unwrap().is_absolute());
    }

    #[test]
    fn a_library_that_programs_cannot_load_is_refused() {
        let (folder, library) = with_library();
        let catalogue = InMemoryCatalogue::default();
        let wrong = folder.path().join("wrong.dll");
        fs::write(&wrong, made(dll::OWN, &["other"])).unwrap();
        let text = refuses(&catalogue, &named(&wrong));
        assert_eq!(
            text,
            format!(
                "cannot register {}: it is no provider of NetworkDirect: it does not export DllGetClassObject; \
                 name a softnd.dll for this processor with --dll",
                wrong.display()
            )
        );
        let text = refuses(&catalogue, &named(&folder.path().join("none.dll")));
        assert!(
            text.starts_with("cannot read ") && text.contains("--dll"),
            "{text}"
        );
        let variable = folder.path().join("%TEMP%.dll");
        fs::copy(&library, &variable).unwrap();
        let text = refuses(&catalogue, &named(&variable));
        assert!(
            text.ends_with("move the library to a path without %"),
            "{text}"
        );
        assert!(catalogue.entries().unwrap().is_empty());
    }

    #[test]
    fn a_path_that_is_too_long_for_the_catalogue_is_refused() {
        let (folder, library) = with_library();
        let deep = folder.path().join("x".repeat(100)).join("y".repeat(100));
        let deep = deep.join("z".repeat(100));
        if fs::create_dir_all(&deep).is_err() {
            return; // Windows without long paths, where no such file can be made.
        }
        let long = deep.join("softnd.dll");
        fs::copy(&library, &long).unwrap();
        let text = refuses(&InMemoryCatalogue::default(), &named(&long));
        assert!(text.contains("at most 259 characters; move"), "{text}");
    }

    #[test]
    fn words_for_powershell_are_quoted() {
        assert_eq!(quoted("register"), "register");
        assert_eq!(quoted("--dll"), "--dll");
        assert_eq!(quoted(r"C:\it's $x\a.dll"), r"'C:\it''s $x\a.dll'");
    }
}
