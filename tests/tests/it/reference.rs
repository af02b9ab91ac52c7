//! `nd completions` and `nd man`: what shells and `man` make of their output.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use softnd_tests::{nd, tool};

fn run(words: &[&str]) -> Output {
    Command::new(nd::binary()).args(words).output().unwrap()
}

fn stdout(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that the help of a command lists, and the long options that it names at the beginning of lines.
fn in_help(words: &[&str]) -> (Vec<String>, Vec<String>) {
    let help = stdout(&[words, &["--help"]].concat());
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = listed
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .filter(|name| name != "help");
    let options = help.lines().map(str::trim_start).filter_map(|line| {
        let long = line.split_once("--").filter(|(short, _)| {
            short.is_empty() || (short.starts_with('-') && short.ends_with(", "))
        })?;
        let name = long.1.split([' ', '[', '.', '=']).next()?;
        Some(format!("--{name}"))
    });
    (commands.collect(), options.collect())
}

/// All commands that can be written behind `nd`, with those of their options.
fn all(words: &[&str], found: &mut Vec<(Vec<String>, Vec<String>)>) {
    let (commands, options) = in_help(words);
    let owned = words.iter().map(|word| (*word).to_owned()).collect();
    found.push((owned, options));
    for command in &commands {
        all(&[words, &[command]].concat(), found);
    }
}

#[test]
fn each_command_has_a_manual_page_with_all_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path();
    stdout(&["man", "--out", pages.to_str().unwrap()]);
    let mut commands = Vec::new();
    all(&[], &mut commands);
    assert!(commands.len() > 15, "{commands:?}");

    let mut expected = BTreeSet::new();
    for (words, options) in &commands {
        let name = [&["nd".to_owned()], &words[..]].concat().join("-");
        let page = fs::read_to_string(pages.join(format!("{name}.1")))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let plain = page.replace('\\', "");
        assert!(options.len() > 1, "{name}: {options:?}");
        for option in options {
            assert!(plain.contains(option.as_str()), "{name} lacks {option}");
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(stdout(&[&["man"], &words[..]].concat()), page, "{name}");
        expected.insert(format!("{name}.1"));
    }
    let written = fs::read_dir(pages).unwrap();
    let written = written.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(written.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn man_renders_the_pages_without_a_warning() {
    let Some(man) = tool::find("man") else { return };
    let folder = tempfile::tempdir().unwrap();
    stdout(&["man", "--out", folder.path().to_str().unwrap()]);
    for page in fs::read_dir(folder.path()).unwrap() {
        let page = page.unwrap().path();
        let rendered = Command::new(&man)
            .env("LC_ALL", "C.UTF-8")
            .args(["--warnings", "--local-file"])
            .arg(&page)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&rendered.stderr);
        assert!(
            rendered.status.success() && said.is_empty(),
            "{page:?}: {said}"
        );
    }
}

/// What bash offers for the last word of a line.
fn completed(line: &[&str]) -> Vec<String> {
    let script = r#"
        source <("$0" completions bash) || exit
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _nd nd "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let output = Command::new("bash")
        .args(["-c", script])
        .arg(nd::binary())
        .args(line)
        .output()
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let offered = String::from_utf8(output.stdout).unwrap();
    offered.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(completed(&["nd", "cat", "s"]), ["send"]);
    assert_eq!(completed(&["nd", "cat", "send", "--via", "w"]), ["write"]);
    assert_eq!(
        completed(&["nd", "run", "--capture-l"]),
        ["--capture-limit"]
    );
    let (commands, _) = in_help(&[]);
    let offered = completed(&["nd", ""]);
    for command in &commands {
        assert!(offered.contains(command), "{command}: {offered:?}");
    }
    // A hidden command.
    assert!(!offered.contains(&"demo-server".to_owned()), "{offered:?}");
}

#[test]
fn zsh_and_fish_find_all_commands() {
    let (commands, _) = in_help(&[]);
    for shell in ["zsh", "fish"] {
        let script = stdout(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        assert!(!script.contains("demo-server"), "{shell}");
    }
}

#[test]
fn bad_input_is_refused_with_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let not_written = format!("nd: error: cannot write the manual page {file}/nd.1: ");
    for (words, said) in [
        (
            &["man", "cat", "snd"][..],
            "nd: error: nd cat has no command snd; the commands of nd cat are send, recv",
        ),
        (
            &["man", "info", "x"],
            "nd: error: nd info has no command x; nd info has no commands of its own",
        ),
        (&["man", "--out", file], &not_written),
        (
            &["completions", "csh"],
            "nd: error: invalid value 'csh' for '<SHELL>' [possible values: bash, zsh, fish]",
        ),
    ] {
        let output = run(words);
        assert!(!output.status.success() && output.stdout.is_empty());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with(said), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}
