//! `nd completions` and `nd man`: files for shells and for `man`, made from the definition of the command line, so that they say what
//! `--help` says.

use std::path::{Path, PathBuf};

use clap::{Args, Command, ValueEnum};
use clap_complete::aot::{Shell, generate};
use clap_mangen::Man;

use crate::errors::{Failure, Result};
use crate::output;
use crate::output_file::OutputFile;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that reads the file
    #[arg(value_enum)]
    shell: KnownShell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command whose page is printed, for example cat send; without one, the page of nd
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write the pages of all commands into this folder, as nd.1, nd-cat.1 and so on
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    out: Option<PathBuf>,
}

/// Prints the completions of the whole command line for a shell.
pub(crate) fn completions(args: &CompletionsArgs, nd: &Command) -> Result<()> {
    let shell = match args.shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    // The generators name hidden commands, too, so these are left out of the definition.
    let mut nd = Command::new("nd")
        .version(env!("CARGO_PKG_VERSION"))
        .args(nd.get_arguments())
        .subcommands(shown(nd));
    let mut script = Vec::new();
    generate(shell, &mut nd, "nd", &mut script);
    output::text(String::from_utf8_lossy(&script))
}

/// Prints one manual page, or writes all of them.
pub(crate) fn man(args: &ManArgs, nd: Command) -> Result<()> {
    let nd = with_full_names(nd);
    if let Some(folder) = &args.out {
        return write_pages(&nd, folder);
    }
    let command = args.command.iter().try_fold(&nd, |command, word| {
        command.find_subcommand(word).ok_or_else(|| {
            let known: Vec<_> = shown(command).map(Command::get_name).collect();
            let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
            let advice = match known.as_slice() {
                [] => format!("{name} has no commands of its own"),
                known => format!("the commands of {name} are {}", known.join(", ")),
            };
            Failure::new(format!("{name} has no command {word}"), advice)
        })
    })?;
    output::text(String::from_utf8_lossy(&page(command)?))
}

/// The definition with every option that applies, and with the names that commands have in use (`nd cat send`) and as pages (`nd-cat-send`).
fn with_full_names(nd: Command) -> Command {
    // clap adds a command `help` here, which has nothing to say beside the pages.
    let mut nd = nd.disable_help_subcommand(true);
    nd.build();
    nd
}

/// The commands that the help shows.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set())
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    let rendered = Man::new(command.clone())
        .title(page_name(command).to_uppercase())
        .source(concat!("nd ", env!("CARGO_PKG_VERSION")))
        .render(&mut page);
    rendered.map_err(|error| Failure::io("make a manual page", &error))?;
    Ok(page)
}

fn page_name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

fn write_pages(command: &Command, folder: &Path) -> Result<()> {
    let file = folder.join(format!("{}.1", page_name(command)));
    let page = page(command)?;
    OutputFile::open(&file, "manual page")?.write(&String::from_utf8_lossy(&page))?;
    shown(command).try_for_each(|sub| write_pages(sub, folder))
}
