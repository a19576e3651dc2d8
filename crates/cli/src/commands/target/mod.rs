//! `rex target`: manages the registry, tests targets and installs rexd.

mod add;
mod checks;
mod close;
mod install;
mod list;
mod show;
mod test;
mod use_target;

use std::path::PathBuf;

use crate::args::TargetCommand;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::route::{Paths, Registry, state, suggest};

/// Runs a subcommand of `rex target`.
pub(super) async fn run(
    target: Option<&str>,
    json: bool,
    args: TargetCommand,
) -> Result<CommandStatus, Failure> {
    match args {
        TargetCommand::Add(args) => add::run(json, &args),
        TargetCommand::List => list::run(target, json),
        TargetCommand::Use { name } => use_target::run(json, &name),
        TargetCommand::Show => show::run(target, json),
        TargetCommand::Remove { name } => remove(json, &name),
        TargetCommand::Test { name } => test::run(name.as_deref().or(target), json).await,
        TargetCommand::Close { all: true, .. } => close::run_all(json).await,
        TargetCommand::Close { name, all: false } => close::run(name.as_deref().or(target), json).await,
        TargetCommand::Install(args) => install::run(json, &args).await,
    }
}

fn remove(json: bool, name: &str) -> Result<CommandStatus, Failure> {
    let paths = Paths::from_environment();
    Registry::change(&registry_file(&paths)?, |registry| match registry.remove(name) {
        true => Ok(()),
        false => {
            let hint = match suggest::nearest(name, registry.aliases()) {
                Some(meant) => format!("did you mean `{meant}`? `rex target list` shows all aliases"),
                None => "`rex target list` shows the aliases".to_owned(),
            };
            let what = format!("cannot remove `{name}`: no such alias in {}", registry.path().display());
            Err(Failure::new(what).hint(hint))
        }
    })?;
    match json {
        true => output::json_line(&serde_json::json!({ "removed": name }))?,
        false => output::line(format_args!("removed {name}"))?,
    }
    // The default stays set: falling back to this machine silently would run commands on the wrong machine.
    let used = paths.state.as_deref().map_or(Ok(None), state::used)?;
    if used.as_deref() == Some(name) {
        output::note(format_args!("{name} is still the default target: `rex target use -` clears it"));
    }
    Ok(CommandStatus::OK)
}

/// The path of the registry.
fn registry_file(paths: &Paths) -> Result<PathBuf, Failure> {
    paths.registry.clone().ok_or_else(|| {
        Failure::new("no path for the registry of targets: HOME is not set")
            .hint("set HOME, or REXD_TARGETS_FILE to the path of the registry")
    })
}
