//! Manual pages, completions and the reference of `rex` and `rexhub`, generated from their arguments.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory as _};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use cli::args::RexArgs;
use cli::complete::SCRIPTS;

use crate::tree::root;

const PAGES: &str = "packaging/man";
/// The width of help text.
const WIDTH: usize = 100;

/// The path and text of every file.
pub(crate) fn files() -> Result<Vec<(String, String)>> {
    let mut files = pages()?;
    let name = |program: &str, shell: Shell| match shell {
        Shell::Zsh => format!("packaging/completions/_{program}"),
        shell => format!("packaging/completions/{program}.{shell}"),
    };
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut text = Vec::new();
        generate(shell, &mut hub::args::Args::command(), "rexhub", &mut text);
        files.push((name("rexhub", shell), String::from_utf8(text)?));
        let script = SCRIPTS.iter().find(|(named, _)| *named == shell.to_string());
        let (_, script) = script.with_context(|| format!("no completion script for {shell}"))?;
        files.push((name("rex", shell), (*script).to_owned()));
    }
    files.push(("docs/reference/rex.md".to_owned(), reference()?));
    Ok(files)
}

/// Manual pages of commands that no longer exist.
pub(crate) fn stale_pages() -> Result<Vec<String>> {
    let current: BTreeSet<String> = pages()?.into_iter().map(|(path, _)| path).collect();
    let mut stale = Vec::new();
    for entry in fs::read_dir(root().join(PAGES)).context(PAGES)? {
        let path = format!("{PAGES}/{}", entry?.file_name().to_string_lossy());
        let is_ours = path.ends_with("/rex.1") || path.contains("/rex-") || path.contains("/rexhub");
        if is_ours && !current.contains(&path) {
            stale.push(path);
        }
    }
    Ok(stale)
}

/// Both programs with all subcommands built, without the command `help`.
fn commands() -> [Command; 2] {
    [RexArgs::command(), hub::args::Args::command()].map(|command| {
        let mut command = command.disable_help_subcommand(true).term_width(WIDTH);
        command.build();
        command
    })
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// The same pages as `rex man DIR` writes, and those of `rexhub`.
fn pages() -> Result<Vec<(String, String)>> {
    fn add(command: &Command, pages: &mut Vec<(String, String)>) -> Result<()> {
        shown(command).try_for_each(|below| add(below, pages))?;
        let page = Man::new(command.clone());
        let mut text = Vec::new();
        page.render(&mut text)?;
        pages.push((format!("{PAGES}/{}", page.get_filename()), String::from_utf8(text)?));
        Ok(())
    }
    let mut pages = Vec::new();
    commands().iter().try_for_each(|command| add(command, &mut pages))?;
    Ok(pages)
}

/// The help of every command as it is printed to a pipe.
fn reference() -> Result<String> {
    fn add(command: &Command, text: &mut String) -> Result<()> {
        let name = command.get_display_name().unwrap_or("rex").replace('-', " ");
        write!(text, "\n## {name}\n\n```text\n{}```\n", command.clone().render_help())?;
        shown(command).try_for_each(|below| add(below, text))
    }
    let mut text = String::from(
        "# rex\n\nThe help of every command, as `-h` prints it. Written by `cargo xtask generate` from \
         `crates/cli/src/args.rs`; do not edit.\nHow the commands work together: [rex.md](../rex.md).\n",
    );
    // A command has its full name only after it is built.
    let mut whole = RexArgs::command().term_width(WIDTH);
    whole.build();
    add(&whole, &mut text)?;
    Ok(text)
}
