//! Compares the public names of the crates that programs name with those in `tests/public-api`. Called by `.ci/api`.
//!
//! ```text
//! public_names FOLDER           compares; FOLDER has what rustdoc has written as JSON
//! public_names FOLDER --bless   writes the lists
//! ```

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use softnd_tests::public_names::{Documented, NAMED, SHOWN, differences};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let (folder, bless) = match &arguments[..] {
        [folder] => (Path::new(folder), false),
        [folder, bless] if bless == "--bless" => (Path::new(folder), true),
        _ => {
            eprintln!("usage: public_names FOLDER [--bless]");
            return ExitCode::from(2);
        }
    };
    let mut documented = Documented::default();
    for package in NAMED.iter().chain(&SHOWN) {
        let name = package.replace('-', "_");
        let path = folder.join(format!("{name}.json"));
        let text = fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        documented.add(&name, &text);
    }
    let lists = Path::new(env!("CARGO_MANIFEST_DIR")).join("public-api");
    let mut differ = false;
    for package in NAMED {
        let path = lists.join(format!("{package}.txt"));
        let new = documented.names(&package.replace('-', "_"));
        if bless {
            let text: String = new.iter().map(|line| format!("{line}\n")).collect();
            fs::write(&path, text).expect("a list that can be written");
            continue;
        }
        let old = fs::read_to_string(&path).unwrap_or_default();
        let old: BTreeSet<_> = old.lines().map(str::to_owned).collect();
        let differences = differences(&old, &new);
        if !differences.is_empty() {
            differ = true;
            println!(
                "the public names of {package} are not those of tests/public-api/{package}.txt:"
            );
        }
        for line in differences {
            println!("  {line}");
        }
    }
    if differ {
        println!("if this is meant: `.ci/api --bless`, and a line in CHANGELOG.md");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
